# Ranks of two chunks from a study file to results: what `dynmo simulate` answers under schedules that
# are placed as a V and in order, `dynmo study` over schedules, and the
# same plans on ranks that are threads.
# usage: study_chunks.sh DYNMO, in tests/
. cli/expect.sh

# study SCHEDULE BALANCER [REST]: a GPT whose layers freeze, on 4 ranks.
study() {
    printf '{"schema":"dynmo-study/1","name":"folded","model":"gpt-dynmo","hardware":"h100-dynmo","training":{"iterations":400,"optimizer_step_ns":0,"sequence_length":2048,"microbatch_size":2,"microbatches":16,"layers":24},"dynamism":{"case":"freezing","start_iteration":100,"interval":50,"last_iteration":400},"pipeline":{"stages":4,"schedule":"%s"},"balancing":[{"balancer":"tuned"},{"balancer":"%s","policy":"on-change"}]%s}' \
        "$1" "$2" "${3-}" >s.json
}

# The rows of each answer; `partition` weighs ranks too, so its row is that of the schedule's own
# balancer.
for schedule in zb-v v-half interleaved-zb; do
    balancer=v-partition
    [ $schedule = interleaved-zb ] && balancer=interleaved-partition
    study $schedule partition
    "$dynmo" simulate s.json >of_partition || fail "simulate $schedule: partition"
    study $schedule $balancer
    "$dynmo" simulate s.json >answer || fail "simulate $schedule"
    "$dynmo" simulate s.json | cmp -s - answer || fail "$schedule: two runs differ"
    head -n 1 answer | grep -qx "folded: 400 iterations, 26 layers on 4 stages, 16 microbatches, $schedule" ||
        fail "$schedule: $(head -n 1 answer)"
    sed -n '5,6s/  */ /gp' answer >rows
    sed -n '5,6s/  */ /gp' of_partition | sed "s/^partition /$balancer /" | cmp -s - rows ||
        fail "$schedule: partition does otherwise than $balancer"
    cat rows
done >found
cat >wanted <<'EOF'
tuned 799085 - 1.000x 82.0 ms 0.048 0.225 0.121 1.110 0 0 0 B 17.3 GiB yes
v-partition on-change 850485 - 1.064x 77.1 ms 0.048 0.134 0.064 1.035 5 65 7.72 GiB 17.3 GiB yes
tuned 698114 - 1.000x 93.9 ms 0.129 0.380 0.232 1.110 0 0 0 B 5.19 GiB yes
v-partition on-change 663971 - 0.951x 98.7 ms 0.129 0.383 0.269 1.035 5 65 7.72 GiB 5.19 GiB yes
tuned 736622 - 1.000x 89.0 ms 0.103 0.276 0.189 1.143 0 0 0 B 6.11 GiB yes
interleaved-partition on-change 712677 - 0.967x 92.0 ms 0.103 0.369 0.215 1.030 5 81 9.03 GiB 6.11 GiB yes
EOF
diff wanted found || fail 'what is simulated of ranks with two chunks'

# Which schedule: one study, played under each.
study 1f1b partition ',"vary":{"pipeline.schedule":["zb-h1","interleaved-zb","v-half","zb-v"]}'
"$dynmo" study s.json --draws 0 >answer || fail 'study'
sed -n '/^rank/,/^$/p' answer | awk 'NR > 1 && NF { print $1, $2, $3, $4, $5, $6 }' >found
cat >wanted <<'EOF'
1 7 zb-v partition on-change 850k
2 6 zb-v tuned 799k 200k
3 1 zb-h1 partition on-change 779k
4 2 interleaved-zb tuned 737k 184k
5 3 interleaved-zb partition on-change 713k
6 4 v-half tuned 698k 175k
7 0 zb-h1 tuned 690k 172k
8 5 v-half partition on-change 664k
9 written tuned 656k 164k -
EOF
diff wanted found || fail 'study over schedules'

# Ranks do what was simulated, op by op, migrations in between.
for schedule in zb-v v-half interleaved-zb; do
    study $schedule partition
    "$dynmo" run s.json --row 'partition on-change' --iterations 200 >answer || fail "run $schedule"
    grep -qx 'ops: all 76800 begin and end at the nanosecond that the simulator says' answer ||
        fail "run $schedule: $(cat answer)"
    grep -q ' [1-9][0-9]* rebalances*, .* [1-9][0-9]* layers* moved' answer ||
        fail "run $schedule moves nothing: $(cat answer)"
done

# What cannot be has one message.
study zb-v interleaved-partition
refuse 2 's.json: interleaved-partition on-change: interleaved-partition is for several chunks per rank in interleaved placement, not for 2 in V placement' simulate s.json
study zb-h1 v-partition
refuse 2 's.json: v-partition on-change: v-partition is for two chunks per rank in V placement, not for 1 alone' simulate s.json
study zb-v v-partition
sed -i 's/"stages":4,/"stages":4,"chunks":3,/' s.json
refuse 2 's.json: tuned: chunk_count 3: schedule zb-v has 2 per rank' simulate s.json
sed -i 's/"stages":4,"chunks":3,/"stages":14,/' s.json
refuse 2 's.json: pipeline.stages: 14 stages of 2 chunks need at least 28 layers, there are 26' simulate s.json
exit $failed
