# dynmo schedule: exact stdout, stderr and exit code, for every way in and every way to be wrong.
# usage: schedule.sh DYNMO
. cli/expect.sh
subject=schedule

# What other programs rely on.
expect 0 '{"makespan_ns":9,"span_ns":9,"bubble_ratio":0.3333333333333333,"zb_bubble_rate":0.3333333333333333,"published_eq1_ratio":0,"published_eq1_unequal_ratio":0,"peak_memory":[2,1],"order":[["F0","F1","BW0","BW1"],["F0","BW0","F1","BW1"]]}' '' \
    --schedule 1f1b --stages 2 --microbatches 2 --json

cat >costs.json <<'EOF'
{"forward_ns":[5,5,5,5],"backward_input_ns":[6,6,6,6],"backward_weight_ns":[4,4,4,4]}
EOF
expect 0 'zb-h1: 4 ranks, 60 microbatches, 1 chunk per rank, policy static

makespan                      921 ns   by formula: 921 ns
span                          921 ns   by formula: 921 ns
bubble ratio             0.022801      idle over all time of all ranks
zb bubble rate           0.022801      1 - work of the busiest rank / span
published-eq1            0.250000      the DynMo paper'\''s Equation 1: Chimera'\''s at M = P
imbalance ratio          1.000000      work of the busiest rank / mean
peak memory        4 4 4 4   by rank, in activations of one chunk

Too long to draw here; --timeline writes it for ui.perfetto.dev.' '' \
    --schedule zb-h1 --stages 4 --microbatches 60 --costs costs.json

expect 0 'interleaved-1f1b: 2 ranks, 2 microbatches, 2 chunks per rank, policy static

makespan                       15 ns   by formula: 15 ns
span                           15 ns   by formula: 15 ns
bubble ratio             0.200000      idle over all time of all ranks
zb bubble rate           0.200000      1 - work of the busiest rank / span
published-eq1            0.000000      the DynMo paper'\''s Equation 1: Chimera'\''s at M = P
imbalance ratio          1.000000      work of the busiest rank / mean
peak memory        4 3   by rank, in activations of one chunk

rank 0    |F0=F1=F==F==      1:BW0=   1:BW1=BW0===BW1===|
rank 1    |   F0=F1=F==1:BW0=F==1:BW1=BW0===BW1===      |' '' \
    --schedule interleaved-1f1b --stages 2 --microbatches 2

# Blocks of V-placed chunks: beside a formula, and where none holds.
expect 0 'v-half: 2 ranks, 4 microbatches, 2 chunks per rank, policy static

makespan                       25 ns   by formula: 25 ns
span                           25 ns   by formula: 25 ns
bubble ratio             0.040000      idle over all time of all ranks
zb bubble rate           0.040000      1 - work of the busiest rank / span
published-eq1            0.000000      the DynMo paper'\''s Equation 1: Chimera'\''s at M = P
imbalance ratio          1.000000      work of the busiest rank / mean
peak memory        4 4   by rank, in activations of one chunk

rank 0    |F0=F1=F2=F==B==W==F==   B0=B==W==F==W0=F3=B1=B==W==F==B==B2=W==B3=W1=W2=W3=|
rank 1    |   F0=F==F1=F==B==W==B0=W0=F2=F==B==B1=W==F3=W1=F==B==B2=B==B3=W==W==W2=W3=|' '' \
    --schedule v-half --stages 2 --microbatches 4
expect 0 '{"makespan_ns":15,"span_ns":15,"bubble_ratio":0.2,"zb_bubble_rate":0.2,"published_eq1_ratio":0,"published_eq1_unequal_ratio":0,"peak_memory":[3,4],"order":[["F0","F1","1:F0","1:B0","1:W0","B0","W0","1:F1","1:B1","1:W1","B1","W1"],["F0","1:F0","1:B0","B0","F1","1:F1","1:W0","W0","1:B1","B1","1:W1","W1"]],"placement":"v"}' '' \
    --schedule v-min --stages 2 --microbatches 2 --json
expect 0 '{"makespan_ns":16,"span_ns":16,"bubble_ratio":0.25,"zb_bubble_rate":0.25,"published_eq1_ratio":0,"published_eq1_unequal_ratio":0,"peak_memory":[3,4],"order":[["F0","F1","1:F0","1:BW0","1:F1","1:BW1","BW0","BW1"],["F0","1:F0","F1","1:F1","1:BW0","BW0","1:BW1","BW1"]],"placement":"v"}' '' \
    --schedule 1f1b-v --stages 2 --microbatches 2 --json
cat >thin.json <<'EOF'
{"forward_ns":[2,2,2],"backward_input_ns":[2,2,2],"backward_weight_ns":[2,2,2],"memory_limit":4}
EOF
sed 's/limit":4/limit":3/' thin.json >thinner.json
expect 0 'v-adaptive: 3 ranks, 4 microbatches, 2 chunks per rank, policy static

makespan                       29 ns   by formula: no formula is known
span                           29 ns   by formula: no formula is known
bubble ratio             0.172414      idle over all time of all ranks
zb bubble rate           0.172414      1 - work of the busiest rank / span
imbalance ratio          1.000000      work of the busiest rank / mean
peak memory        4 4 4   by rank, in activations of one chunk

rank 0    |F0=F1=F2=      F==B==W==F==B==W==F3=B0=W0=      F==B==B1=W==W1=F==B==W==B2=W2=   B3=W3=|
rank 1    |   F0=F1=   F==   F==B==W==F2=B==B0=W==W0=F3=F==   B1=W1=B==F==W==B2=B==W2=W==B3=W3=   |
rank 2    |      F0=F==F1=F==      B==W==B0=F2=W0=B==F==W==B1=F3=W1=F==B==B2=W==W2=B==B3=W==W3=   |' '' --schedule v-adaptive --stages 3 --microbatches 4 --costs thin.json
refuse 3 'rank 0 needs memory 4 under the order of v-adaptive that is nearest to fitting; its limit is 3' \
    --schedule v-adaptive --stages 3 --microbatches 4 --costs thinner.json

# Two pipelines in opposite directions: microbatches count for both, costs are of whole stages.
cat >twice.json <<'EOF'
{"forward_ns":[1,1,1,1],"backward_input_ns":[2,2,2,2],"backward_weight_ns":[0,0,0,0]}
EOF
expect 0 'chimera: 4 ranks, 4 microbatches, 2 chunks per rank, policy static

makespan                       16 ns   by formula: 16 ns
span                           16 ns   by formula: 16 ns
bubble ratio             0.250000      idle over all time of all ranks
zb bubble rate           0.250000      1 - work of the busiest rank / span
published-eq1            0.250000      the DynMo paper'\''s Equation 1: Chimera'\''s at M = P
imbalance ratio          1.000000      work of the busiest rank / mean
peak memory        3 4 4 3   by rank, in activations of one chunk

rank 0    |F0=F1=   F==1:BW0=F==1:BW1=   BW0===      BW1===|
rank 1    |   F0=F==F1=F==   1:BW0=BW0===1:BW1=BW1===      |
rank 2    |   F==F0=F==F1=   BW0===1:BW0=BW1===1:BW1=      |
rank 3    |F==F==   F0=BW0===F1=BW1===   1:BW0=      1:BW1=|' '' \
    --schedule chimera --stages 4 --microbatches 4 --costs twice.json
expect 0 '{"makespan_ns":6,"span_ns":6,"bubble_ratio":0,"zb_bubble_rate":0,"published_eq1_ratio":0,"published_eq1_unequal_ratio":0,"peak_memory":[2,2],"order":[["F0","1:F0","1:BW0","BW0"],["1:F0","F0","BW0","1:BW0"]],"placement":"bidirectional"}' '' \
    --schedule chimera --stages 2 --microbatches 2 --json
"$dynmo" schedule --schedule chimera --stages 4 --microbatches 6 --json >both.json
expect 0 "$(cat both.json)" '' --order both.json --microbatches 6 --json
refuse 2 'both.json: --microbatches is 3, the order has 6' --order both.json --microbatches 3
cat >halves.json <<'EOF'
{"forward_ns":[[1,2,3,4],[10,20,30,40]],"backward_input_ns":[1,1],"backward_weight_ns":[0,0]}
EOF
expect 0 '{"makespan_ns":81,"span_ns":81,"bubble_ratio":0.2716049382716049,"zb_bubble_rate":0.04938271604938271,"published_eq1_ratio":0,"published_eq1_unequal_ratio":0.233766234,"peak_memory":[2,2],"order":[["F0","1:F0","1:BW0","BW0","F1","1:F1","1:BW1","BW1"],["1:F0","F0","BW0","1:BW0","1:F1","F1","BW1","1:BW1"]],"placement":"bidirectional"}' '' \
    --schedule chimera --stages 2 --microbatches 4 --costs halves.json --json

# Costs that vary: mean for the search, the actual ones for the play; a limit that is kept.
cat >vary.json <<'EOF'
{"forward_ns":[[1,2],[3,4]],"backward_input_ns":[1,1],"backward_weight_ns":[1,1],
 "send_ns":0,"memory_fbw":[2,-1,-1],"memory_limit":2}
EOF
expect 0 '{"makespan_ns":16,"span_ns":16,"bubble_ratio":0.4375,"zb_bubble_rate":0.3125,"published_eq1_ratio":0,"published_eq1_unequal_ratio":0.181818182,"peak_memory":[2,2],"order":[["F0","B0","W0","F1","B1","W1"],["F0","B0","W0","F1","B1","W1"]]}' '' \
    --schedule zb-auto --stages 2 --microbatches 2 --costs vary.json --json
refuse 3 'schedule 1f1b: peak memory 4 of rank 0 exceeds memory_limit 2' \
    --schedule 1f1b --stages 2 --microbatches 2 --costs vary.json
cat >tight.json <<'EOF'
{"forward_ns":[1,1],"backward_input_ns":[1,1],"backward_weight_ns":[1,1],"memory_limit":0}
EOF
cat >halves.json <<'EOF'
{"forward_ns":[2,2],"backward_input_ns":[2,2],"backward_weight_ns":[2,2],"memory_limit":0}
EOF
refuse 3 'rank 0 needs memory 1 for one microbatch; its limit is 0' \
    --schedule zb-auto --stages 2 --microbatches 2 --costs tight.json
expect 0 '{"makespan_ns":25,"span_ns":24,"bubble_ratio":0.04,"zb_bubble_rate":0,"published_eq1_ratio":0,"published_eq1_unequal_ratio":0,"peak_memory":[4,4],"order":[["F0","F1","F2","1:F0","1:B0","1:W0","1:F1","1:B1","1:W1","F3","B0","W0","1:F2","1:B2","1:W2","B1","W1","1:F3","1:B3","1:W3","B2","W2","B3","W3"],["F0","1:F0","F1","1:F1","1:B0","1:W0","F2","B0","W0","1:F2","1:B1","1:W1","F3","B1","W1","1:F3","1:B2","1:W2","B2","1:B3","B3","W2","1:W3","W3"]],"placement":"v"}' '' \
    --schedule zb-v --stages 2 --microbatches 4 --json
refuse 3 'rank 0 needs memory of 2 under policy floating-w; its limit is 0' \
    --schedule zb-h1 --stages 2 --microbatches 2 --costs tight.json --policy floating-w

# Policies decide while they play, and the order printed is the one that ran.
expect 0 '{"makespan_ns":7,"span_ns":7,"bubble_ratio":0.14285714285714285,"zb_bubble_rate":0.14285714285714285,"published_eq1_ratio":0,"published_eq1_unequal_ratio":0,"peak_memory":[2,2],"order":[["F0","F1","B0","W0","B1","W1"],["F0","B0","F1","B1","W0","W1"]]}' '' \
    --schedule zb-h1 --stages 2 --microbatches 2 --policy greedy --json

# Networks that resist: senders that wait.
cat >slow.json <<'EOF'
{"forward_ns":[10,10],"backward_input_ns":[5,5],"backward_weight_ns":[5,5],"send_ns":3}
EOF
expect 0 '{"makespan_ns":66,"span_ns":66,"bubble_ratio":0.3939393939393939,"zb_bubble_rate":0.3939393939393939,"published_eq1_ratio":0.115384615,"published_eq1_unequal_ratio":0,"peak_memory":[2,1],"order":[["F0","F1","BW0","BW1"],["F0","BW0","F1","BW1"]]}' '' \
    --schedule 1f1b --stages 2 --microbatches 2 --costs slow.json --json
expect 0 '1f1b: 2 ranks, 2 microbatches, 1 chunk per rank, policy static, sends rendezvous

makespan                       69 ns   by formula: no formula is known on this network
span                           69 ns   by formula: no formula is known on this network
bubble ratio             0.420290      idle over all time of all ranks
zb bubble rate           0.420290      1 - work of the busiest rank / span
published-eq1            0.115385      the DynMo paper'\''s Equation 1: Chimera'\''s at M = P
imbalance ratio          1.000000      work of the busiest rank / mean
peak memory        2 1   by rank, in activations of one chunk

rank 0    |F0========   F1========             BW0=======             BW1=======|
rank 1    |             F0========BW0=======   F1========BW1=======             |' '' \
    --schedule 1f1b --stages 2 --microbatches 2 --costs slow.json --send rendezvous
echo '{"order":[["F0","F1","BW0","BW1"],["F0","F1","BW1","BW0"]]}' >crossed.json
refuse 2 'rendezvous deadlock: rank 0 BW0 waits for rank 1 BW0, behind rank 1 BW1; rank 1 BW1 waits to be received by rank 0 BW1, behind rank 0 BW0' \
    --order crossed.json --send rendezvous
refuse 2 "send 'block' is none of async, blocking and rendezvous" \
    --schedule 1f1b --stages 2 --microbatches 2 --send block

# Which schedules can be sent by rendezvous, as sim/README.md says: these and no other.
for name in $("$dynmo" schedule --schedule none --stages 4 --microbatches 16 2>&1 | sed 's/.*known: //; s/,//g'); do
    "$dynmo" schedule --schedule "$name" --stages 4 --microbatches 16 --send rendezvous >/dev/null 2>err
    sent=$?
    case $name in
    gpipe | 1f1b | zb-h1 | chimera) [ $sent -eq 0 ] || fail "$name by rendezvous: $(cat err)" ;;
    *)
        { [ $sent -eq 2 ] && grep -q 'rendezvous deadlock: rank ' err; } ||
            fail "$name by rendezvous: exit $sent: $(cat err)"
        ;;
    esac
done

# Names and numbers.
refuse 2 "unknown schedule '1f1c'; did you mean '1f1b'?" \
    --schedule 1f1c --stages 2 --microbatches 2
refuse 2 '--stages: 0 is outside [1, 4096]' --schedule 1f1b --stages 0 --microbatches 2
refuse 2 '--microbatches: 0 is outside [1, 1048576]' --schedule 1f1b --stages 2 --microbatches 0
refuse 2 "--stages: 'two' is not an integer" --schedule 1f1b --stages two --microbatches 2
refuse 2 '--stages: 99999999999999999999 is outside [1, 4096]' \
    --schedule 1f1b --stages 99999999999999999999 --microbatches 2
refuse 2 'dynmo schedule: --microbatches is needed' --schedule 1f1b --stages 2
refuse 2 'dynmo schedule: --schedule is needed' --stages 2 --microbatches 2
refuse 2 'chunk_count 2: schedule gpipe has 1 per rank' \
    --schedule gpipe --stages 2 --microbatches 2 --chunks 2
refuse 2 "policy 'gredy' is none of static, floating-w and greedy" \
    --schedule 1f1b --stages 2 --microbatches 2 --policy gredy
refuse 2 "dynmo schedule: unknown option '--cost'; did you mean '--costs'?" --cost x

# Costs files that are not what they should be.
bad_costs() { # bad_costs CODE STDERR TEXT
    printf '%s' "$3" >bad.json
    refuse "$1" "$2" --schedule interleaved-1f1b --stages 2 --microbatches 2 --costs bad.json
}
rest='"backward_input_ns":[2,2],"backward_weight_ns":[2,2]'
bad_costs 2 'bad.json:1: not valid JSON' '{"forward_ns":[NaN,1]}'
bad_costs 2 'bad.json: forward_ns[0]: -1 is outside [0, 9007199254740992]' \
    '{"forward_ns":[-1,1],'"$rest"'}'
bad_costs 2 'bad.json:1: forward_ns: integer 10000000000000000000 exceeds 2^53 = 9007199254740992' \
    '{"forward_ns":[10000000000000000000,1],'"$rest"'}'
bad_costs 2 'bad.json: forward_ns[1]: 1.5 is not an integer' '{"forward_ns":[1,1.5],'"$rest"'}'
bad_costs 2 'bad.json: forward_ns: needs an array of 2 ranks' "{$rest}"
bad_costs 2 'bad.json: forward_ns: has 3 entries, needs one for each of 2 ranks' \
    '{"forward_ns":[1,1,1],'"$rest"'}'
bad_costs 2 'bad.json: forward_ns[1]: has 3 entries, needs 2' \
    '{"forward_ns":[2,[1,2,3]],'"$rest"'}'
bad_costs 2 "bad.json: unknown key 'forwrd_ns'; did you mean 'forward_ns'?" '{"forwrd_ns":[1]}'
bad_costs 2 'bad.json: memory_fbw: has 2 entries, needs 3' \
    '{"forward_ns":[2,2],'"$rest"',"memory_fbw":[1,-1]}'
bad_costs 2 'bad.json: memory_limit: -1 is outside [0, 9007199254740992]' \
    '{"forward_ns":[2,2],'"$rest"',"memory_limit":-1}'
bad_costs 2 'bad.json: forward_ns of rank 0: 3 ns does not divide into 2 chunks' \
    '{"forward_ns":[3,2],'"$rest"'}'
refuse 1 'missing.json: No such file or directory' \
    --schedule 1f1b --stages 2 --microbatches 2 --costs missing.json

# Orders from elsewhere.
echo '{"order":[["F0","F1","BW0","BW1"],["F0","BW0","F1","BW1"]]}' >order.json
expect 0 '{"makespan_ns":9,"span_ns":9,"bubble_ratio":0.3333333333333333,"zb_bubble_rate":0.3333333333333333,"published_eq1_ratio":0,"published_eq1_unequal_ratio":0,"peak_memory":[2,1],"order":[["F0","F1","BW0","BW1"],["F0","BW0","F1","BW1"]]}' '' \
    --order order.json --json
"$dynmo" schedule --schedule zb-h2 --stages 3 --microbatches 6 --json >written.json
expect 0 "$(cat written.json)" '' --order written.json --json
printf '0F0,0F1,,0I0,0W0,0B1\r\n,1F0,1UNSHARD,1B0,1F1,1B1\r\n' >pytorch.csv
expect 0 '{"makespan_ns":9,"span_ns":9,"bubble_ratio":0.3333333333333333,"zb_bubble_rate":0.3333333333333333,"published_eq1_ratio":0,"published_eq1_unequal_ratio":0,"peak_memory":[2,1],"order":[["F0","F1","B0","W0","BW1"],["F0","BW0","F1","BW1"]]}' '' \
    --order pytorch.csv --json
printf '0F0,3F0,(3B0;0F1)OVERLAP_F_B,0B0,3F1,3B1,0B1\n1F0,2F0,2B0,1B0,1F1,2F1,2B1,1B1\n' >v.csv
expect 0 '{"makespan_ns":22,"span_ns":22,"bubble_ratio":0.45454545454545453,"zb_bubble_rate":0.45454545454545453,"published_eq1_ratio":0,"published_eq1_unequal_ratio":0,"peak_memory":[2,2],"order":[["F0","1:F0","1:BW0&F1","BW0","1:F1","1:BW1","BW1"],["F0","1:F0","1:BW0","BW0","F1","1:F1","1:BW1","BW1"]],"placement":"v"}' '' \
    --order v.csv --json
echo '{"order":[["F0","BW0","F1","BW1"],["F0","F1","BW0","BW1"]]}' >cycle.json
refuse 2 'cycle.json: cycle: rank 0 BW0 waits for rank 1 BW0 waits for rank 1 F1 waits for rank 0 F1 waits for rank 0 BW0' \
    --order cycle.json
echo '{"order":[["F0","F1","BW0"],["F0","BW0","F1","BW1"]]}' >short.json
refuse 2 'short.json: rank 0: BW1 is missing' --order short.json
echo '{"order":[["F0","X1"]]}' >name.json
refuse 2 "name.json: rank 0: 'X1' is no op: F, B, W or BW and the microbatch, \"1:\" in front for chunk 1" \
    --order name.json
echo '0F0,0F1,2BW0' >old.csv
refuse 2 "old.csv: row 1 (rank 0), cell 3: '2BW0' is no op: stage, one of F, I, W, B, and the microbatch; B was I and BW was B in old releases of PyTorch" \
    --order old.csv
printf '0F0,3F1,0B0\n0F0' >place.csv
refuse 2 'place.csv: row 1 (rank 0), cell 2: stage 3 of 2 ranks is not there, neither interleaved nor as V' \
    --order place.csv
bad_csv() { # bad_csv MESSAGE CSV
    printf '%b' "$2" >bad.csv
    refuse 2 "bad.csv: $1" --order bad.csv
}
bad_csv 'rank 1: F0 is repeated' '0F0,0F1,0B0,0B1\n1F0,,1B0,1F0,1B1\n'
bad_csv "row 1 (rank 0), cell 2: '0X1' is no op: stage, one of F, I, W, B, and the microbatch" '0F0,0X1\n'
bad_csv "row 2 (rank 1), cell 1: 'F0x' is no op: F, B, W or BW and the microbatch, \"1:\" in front for chunk 1" 'F0,BW0\nF0x,BW0\n'
bad_csv 'row 1 (rank 0), cell 2: 3 ops overlap; the limit is 2' '0F0,(0F1;0B0;0B1)OVERLAP_F_B\n'
bad_csv 'rank 0: BW1 is missing' '0F0,0F1,0B0\n1F0,1B0,1F1,1B1\n'
bad_csv 'rank 1: BW0 is too early: F0 is not before it' '0F0,0B0\n1B0,1F0\n'
bad_csv 'cycle: rank 0 BW0 waits for rank 1 BW0 waits for rank 1 F1 waits for rank 0 F1 waits for rank 0 BW0' \
    '0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n'
bad_csv "row 2 (rank 1), cell 1: '1RECV_F0' is a message, whose place PyTorch keeps to and no player here does: write the order as compute_only" \
    '0F0,0B0\n1RECV_F0,1F0,1B0\n'
printf '0F0,0B0,0WAIT_REDUCE_GRAD\n1F0,1UNSHARD,1REDUCE_GRAD0,1B0\n' >waits.csv
"$dynmo" schedule --order waits.csv --json | grep -q '"order":\[\["F0","BW0"\],\["F0","BW0"\]\]' || fail 'waits.csv'
: >empty.csv
refuse 2 'empty.csv: holds no op' --order empty.csv
refuse 2 'order.json: --stages is 3, the order has 2' --order order.json --stages 3
refuse 2 '--schedule and --order exclude each other' --order order.json --schedule 1f1b
echo '{"order":[["F0","BW0"]],"placement":"spiral"}' >spiral.json
refuse 2 "spiral.json: placement: 'spiral' is none of interleaved, v and bidirectional" --order spiral.json

# The timeline is a Chrome trace; a path that cannot be written leaves nothing on stdout.
"$dynmo" schedule --schedule 1f1b --stages 2 --microbatches 2 --timeline trace.json --json >out || failed=1
[ "$(grep -o '"ph":"X"' trace.json | wc -l)" -ge 8 ] || fail trace.json
refuse 1 'no/such/folder/trace.json: No such file or directory' \
    --schedule 1f1b --stages 2 --microbatches 2 --timeline no/such/folder/trace.json

# The same bytes again.
"$dynmo" schedule --schedule zb-auto --stages 6 --microbatches 20 --json >first
"$dynmo" schedule --schedule zb-auto --stages 6 --microbatches 20 --json >second
cmp first second || fail 'two runs differ'

# Overlapped pairs: read back as written.
"$dynmo" schedule --schedule dualpipe-v --stages 2 --microbatches 4 --json >dual.json
echo '{"forward_ns":[200,200],"backward_input_ns":[200,200],"backward_weight_ns":[200,200]}' >even.json
"$dynmo" schedule --order dual.json --costs even.json --json >dual_played.json
"$dynmo" schedule --schedule dualpipe-v --stages 2 --microbatches 4 --costs even.json --json >dual_built.json
cmp dual_played.json dual_built.json || fail 'an order with pairs is another when read back'
grep -q '"makespan_ns":2600,' dual_built.json || fail 'dualpipe-v takes another time'
refuse 2 'microbatch_count 7: schedule dualpipe-v needs at least one for each of the 8 stages' \
    --schedule dualpipe-v --stages 4 --microbatches 7

# What takes more than half of the machine's memory is refused at once; 2^28 ops take less on a large one.
microbatches=$(awk '/^MemTotal/ { print int($2 * 1024 / 2 / 55 / 3 / 4096) + 1 }' /proc/meminfo)
if [ "$microbatches" -lt 21845 ]; then
    "$dynmo" schedule --schedule zb-h1 --stages 4096 --microbatches "$microbatches" 2>large.err
    [ $? -eq 2 ] || fail 'more ops than the machine has memory for'
    grep -q "^dynmo: --stages 4096, --microbatches $microbatches: .* ops take .* GB, half of" large.err ||
        fail "more ops than the machine has memory for: $(cat large.err)"
fi

echo '{"forward_ns":[5,6,7],"backward_input_ns":[6,6,6],"backward_weight_ns":[4,4,4],"send_ns":1}' >given.json
# Whatever --json prints, --order reads the order of it.
"$dynmo" schedule --schedule zb-h1 --stages 3 --microbatches 4 --costs given.json --json >plain.json
"$dynmo" schedule --order plain.json --costs given.json --json | cmp - plain.json || fail 'an order with all keys'

# What is printed with all options is read back, and exported, as the same order.
with_all() { # with_all WORD...
    "$dynmo" schedule "$@" --costs even.json --json
}
for schedule in zb-h1 interleaved-1f1b zb-v-hand dualpipe-v chimera; do
    "$dynmo" schedule --schedule $schedule --stages 2 --microbatches 4 --json >alone.json || fail "$schedule"
    with_all --schedule $schedule --stages 2 --microbatches 4 >all.json || fail "$schedule with all options"
    with_all --order all.json >again.json || fail "$schedule is not read back"
    cmp all.json again.json || fail "$schedule is another when read back"
    [ $schedule = chimera ] && continue # PyTorch has no copies of the weights
    "$dynmo" export pytorch alone.json >alone.csv || fail "$schedule is not exported"
    "$dynmo" export pytorch all.json >all.csv || fail "$schedule with all options is not exported"
    cmp alone.csv all.csv || fail "$schedule is another when exported"
done
exit "$failed"
