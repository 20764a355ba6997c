# dynmo plan: exact stdout, stderr and exit code, for every way in and every way to be wrong.
# usage: plan.sh DYNMO
plain=$(pwd)/models/plain-h100.json # without overheads of kernels and the host
. cli/expect.sh
cp "$plain" h100.json
subject=plan

cat >loads.json <<'EOF'
{"forward_ns":[1000,3000,2000,1000,1000,2000],"parameters":[1,4,2,2,3,1],"state_bytes":[10,20,30,40,50,60],
 "activation_bytes":[1,1,1,1,1,1],"transfer_ns":[100,200,300,400,500,600],"current_first_layer":[0,2,4,5,6],
 "load_cap_ns":4000}
EOF

# What other programs rely on.
expect 0 '{"first_layer":[0,1,2,4,6],"owner":null,"bottleneck_ns":3000,"bottleneck_lower_bound_ns":3000,"imbalance_ratio":1.2,"load_spread_ratio":0.8,"moved_bytes":140,"migration":[{"layer":1,"from":0,"to":1},{"layer":2,"from":1,"to":2},{"layer":3,"from":1,"to":2},{"layer":4,"from":2,"to":3}],"optimal":true,"executable":true}' '' \
    --loads loads.json --stages 4 --balancer partition --json
expect 0 '{"first_layer":null,"owner":[2,0,1,1,2,3],"bottleneck_ns":3000,"bottleneck_lower_bound_ns":3000,"imbalance_ratio":1.2,"load_spread_ratio":0.4,"moved_bytes":10,"migration":[{"layer":0,"from":0,"to":2}],"optimal":true,"executable":false}' '' \
    --loads loads.json --stages 4 --balancer diffusion-published --json
expect 0 '{"first_layer":[0,2,3,4,6],"owner":null,"bottleneck_ns":5,"bottleneck_lower_bound_ns":4,"imbalance_ratio":1.5384615384615385,"load_spread_ratio":0.9230769230769231,"moved_bytes":90,"migration":[{"layer":3,"from":1,"to":2},{"layer":4,"from":2,"to":3}],"optimal":false,"executable":true}' '' \
    --loads loads.json --stages 4 --balancer parameters --json
expect 0 '{"first_layer":[0,2,4,5,6],"owner":null,"bottleneck_ns":4000,"bottleneck_lower_bound_ns":3000,"imbalance_ratio":1.6,"load_spread_ratio":1.2,"moved_bytes":0,"migration":[],"optimal":true,"executable":true}' '' \
    --loads loads.json --stages 4 --balancer partition --objective moved-bytes --json
expect 0 '{"first_layer":[0,3,6],"owner":null,"bottleneck_ns":24000,"bottleneck_lower_bound_ns":24000,"imbalance_ratio":1.2,"load_spread_ratio":0.4,"moved_bytes":140,"migration":[{"layer":2,"from":1,"to":0},{"layer":4,"from":2,"to":1},{"layer":5,"from":3,"to":1}],"optimal":true,"executable":true}' '' \
    --loads loads.json --stages 2 --balancer partition --objective 1f1b-bound --microbatches 4 --json
expect 0 '{"first_layer":[0,1,2,4,6],"owner":null,"bottleneck_ns":3600,"bottleneck_lower_bound_ns":3600,"imbalance_ratio":1.263157894736842,"load_spread_ratio":0.8771929824561403,"moved_bytes":140,"migration":[{"layer":1,"from":0,"to":1},{"layer":2,"from":1,"to":2},{"layer":3,"from":1,"to":2},{"layer":4,"from":2,"to":3}],"optimal":true,"executable":true}' '' \
    --loads loads.json --stages 4 --balancer partition --by time+transfer --json

expect 0 'even by time, 6 layers on 4 stages, minimising bottleneck

stage          load  layers
    0       4.00 us  0-1
    1       3.00 us  2-3
    2       1.00 us  4-4
    3       2.00 us  5-5

bottleneck              4.00 us   no plan is below 3.00 us
imbalance ratio           1.600   largest load / mean
load spread ratio         1.200   (largest - smallest) / mean
moved                       0 B   0 layers change their stage' '' \
    --loads loads.json --stages 4 --balancer even
expect 0 'diffusion-coded by time, 6 layers on 4 stages, minimising bottleneck

 rank          load  layers
    0       3.00 us  1
    1       3.00 us  2 3
    2       2.00 us  0 4
    3       2.00 us  5

bottleneck              3.00 us   no plan is below 3.00 us; this one is optimal
imbalance ratio           1.200   largest load / mean
load spread ratio         0.400   (largest - smallest) / mean
moved                      10 B   1 layer changes its stage

Layers leave the model order: loads only, not executable.' '' \
    --loads loads.json --stages 4 --balancer diffusion-coded

# makespan plays its candidates, and the plan can be written.
expect 0 'makespan by time, 6 layers on 4 stages, minimising the iteration

stage          load  layers
    0       1.00 us  0-0
    1       3.00 us  1-1
    2       3.00 us  2-3
    3       3.00 us  4-5

bottleneck              3.00 us   no plan is below 3.00 us
imbalance ratio           1.200   largest load / mean
load spread ratio         0.800   (largest - smallest) / mean
makespan                35.2 us   played under 1f1b, 8 microbatches
moved                     140 B   4 layers change their stage' '' \
    --loads loads.json --stages 4 --balancer makespan --schedule 1f1b --microbatches 8 -o plan.json
"$dynmo" plan --loads loads.json --stages 4 --balancer makespan --schedule 1f1b --microbatches 8 --json |
    grep -q '"makespan_ns":35[0-9]*,' || fail 'no makespan in JSON'
printf '%s\n' '{"schema":"dynmo-plan/1","first_layer":[0,1,2,4,6],"chunks":1,"placement":"interleaved","schedule":"1f1b","microbatches":8,"stage_ranks":[0,1,2,3],"data_parallel":1,"embedding":false,"head":false}' >wanted_plan
if ! cmp -s wanted_plan plan.json; then
    echo "FAILED: the plan file"
    diff wanted_plan plan.json
    failed=1
fi

# Rules: stage factors and fixed times, memory, pinned layers, empty stages.
echo '{"forward_ns":[4,4,4,4],"stage_time_factor":[1.5,0.5],"stage_fixed_ns":[0,1]}' >speeds.json
expect 0 '{"first_layer":[0,1,4],"owner":null,"bottleneck_ns":7,"bottleneck_lower_bound_ns":7,"imbalance_ratio":1.0769230769230769,"load_spread_ratio":0.15384615384615385,"moved_bytes":0,"migration":[],"optimal":true,"executable":true}' '' \
    --loads speeds.json --stages 2 --balancer partition --json
echo '{"forward_ns":[4,4,4,4],"state_bytes":[1,1,1,1],"activation_bytes":[1,1,1,1],"stage_inflight":[2,1],"stage_memory_bytes":[3,6]}' >memory.json
expect 0 '{"first_layer":[0,1,4],"owner":null,"bottleneck_ns":12,"bottleneck_lower_bound_ns":12,"imbalance_ratio":1.5,"load_spread_ratio":1,"moved_bytes":0,"migration":[],"optimal":true,"executable":true}' '' \
    --loads memory.json --stages 2 --balancer partition --json
refuse 3 'even: stage 0 with layers [0, 2) needs 6 bytes, its cap is 3' \
    --loads memory.json --stages 2 --balancer even
echo '{"forward_ns":[7],"embedding":true}' >one.json
expect 0 '{"first_layer":[0,1,1],"owner":null,"bottleneck_ns":7,"bottleneck_lower_bound_ns":7,"imbalance_ratio":2,"load_spread_ratio":2,"moved_bytes":0,"migration":[],"optimal":true,"executable":true}' '' \
    --loads one.json --stages 2 --balancer partition --allow-empty-stages --json
refuse 2 'stage_count 2 exceeds layer_count 1 and empty stages are not allowed' \
    --loads one.json --stages 2 --balancer partition

# Infeasible: exit 3, and with --json the reason on stdout too.
echo '{"forward_ns":[1,1],"state_bytes":[5,5],"stage_memory_bytes":[9]}' >full.json
reason='no plan of 1 stages keeps every stage within its memory cap and non-empty: together they hold at most the first 1 of 2 layers'
expect 3 "{\"error\":\"$reason\"}" "dynmo: $reason" --loads full.json --stages 1 --balancer partition --json
refuse 3 "$reason" --loads full.json --stages 1 --balancer partition --schedule 1f1b --microbatches 1 -o never.json
[ ! -e never.json ] || fail 'a plan was written that does not exist'

# The joint search: one rank is optimal at once; with a budget of one play, the order that needs the least memory.
cat >joint.json <<'EOF'
{"forward_ns":[1000,3000,2000,1000,1000,2000],"backward_input_ns":[1000,3000,2000,1000,1000,2000],
 "backward_weight_ns":[1000,2000,2000,1000,1000,1000],"state_bytes":[10,20,30,40,50,60],"activation_bytes":[4,4,4,4,4,4],
 "gradient_bytes":[2,2,2,2,2,2],"stage_memory_bytes":[100,120,140],"transfer_ns":[100,200,300,400,500,600],
 "current_first_layer":[0,3,4,6]}
EOF
joint() { # joint STAGES WORD...: the words of a joint search
    stages=$1
    shift
    set -- --stages "$stages" --balancer makespan --schedule any --microbatches 6 "$@"
    "$dynmo" plan --loads joint.json "$@" --json >joint.out || fail "joint search $*"
}
makespan_of() {
    sed 's/.*"makespan_ns":\([0-9]*\),"makespan_lower.*/\1/' joint.out
}
expect 0 '{"first_layer":[0,2],"chunks":1,"placement":"interleaved","schedule":"gpipe","source":"dispatch","makespan_ns":18,"makespan_lower_bound_ns":18,"partition_lower_bound_ns":18,"gap_ratio":0,"span_ns":18,"bubble_ratio":0,"imbalance_ratio":1,"peak_memory_bytes":[0],"moved_bytes":0,"plays":8,"optimal":true}' '' \
    --loads - --stages 1 --balancer makespan --schedule any --microbatches 6 --json <<'EOF'
{"forward_ns":[1,2]}
EOF
expect 0 'makespan with any schedule, 6 layers on 3 ranks, 6 microbatches, minimising the makespan

 rank          load   peak memory  layers
    0       11.0 us          66 B  0-1
    1       9.00 us         102 B  2-3
    2       8.00 us         126 B  4-5

chunks per rank               1
makespan                76.4 us   no partition and no order is below 66.0 us
gap                     15.76 %   above that bound; no order of this partition is below 66.0 us
span                    76.4 us
bubble ratio             0.2670
moved                      30 B   1 layer changes its rank
found by               dispatch' '' \
    --loads joint.json --stages 3 --balancer makespan --schedule any --microbatches 6 --chunks 1 --budget 1 -o joint_plan.json
grep -q '"schedule":"gpipe","order":\[\["F0","F1","F2","B0",' joint_plan.json || fail 'the order in the plan file'
before=999999
for budget in 1 30 300 3000; do
    joint 3 --budget $budget --seed 1
    [ "$(makespan_of)" -le "$before" ] || fail "a budget of $budget found a longer makespan"
    before=$(makespan_of)
done
[ "$before" -le 66000 ] || fail "3000 plays found $before"
cp joint.out first.out
joint 3 --budget 3000 --seed 1
cmp -s first.out joint.out || fail 'the same seed and budget gave another answer'
sed 's/"stage_memory_bytes":\[100,120,140\]/"stage_memory_bytes":[40,50,60]/' joint.json >tight.json
reason='no partition fits within the memory of every rank: all layers and one microbatch need 234 bytes, all ranks together have 150; the least is that of rank 0, 40'
expect 3 "{\"error\":\"$reason\"}" "dynmo: $reason" --loads tight.json --stages 3 --balancer makespan --schedule any --microbatches 6 --json
refuse_joint() { # refuse_joint CODE MESSAGE WORD...
    code=$1 message=$2
    shift 2
    refuse "$code" "$message" --loads joint.json --balancer makespan --schedule any --microbatches 6 "$@"
}
reason='no partition into two chunks per rank fits within the memory of every rank: all layers and one microbatch need 234 bytes, all ranks together have 150; the least is that of rank 0, 40'
expect 3 "{\"error\":\"$reason\"}" "dynmo: $reason" --loads tight.json --stages 3 --chunks 2 --balancer makespan --schedule any --microbatches 6 --json
refuse 2 '2 ranks of 2 chunks exceed layer_count 3' --loads - --stages 2 --chunks 2 --balancer makespan --schedule any \
    --microbatches 6 <<'EOF'
{"forward_ns":[1,1,1]}
EOF
# An hour of plays ends when it is interrupted.
timeout --foreground --preserve-status -s INT 2 "$dynmo" plan --loads joint.json --stages 3 --chunks 2 --balancer makespan \
    --schedule any --microbatches 60 --budget 1000000000 >out 2>err
[ $? -eq 130 ] || fail 'search interrupted: exit code'
[ "$(cat err)" = 'dynmo: interrupted' ] || fail "search interrupted: $(cat err)"
[ -s out ] && fail 'search interrupted: it answers'
sed 's/"current_first_layer":.*/"current_first_layer":[0,1,2,3,4,5,6]}/; s/"stage_memory_bytes":[^]]*],//' joint.json >folded.json
refuse 2 'current_first_layer: 7 entries; --schedule any takes the plan in force as one chunk per rank, 4' \
    --loads folded.json --stages 3 --balancer makespan --schedule any --microbatches 6
refuse_joint 2 '--budget: 0 is outside [1, 9223372036854775807]' --stages 3 --budget 0
refuse_joint 2 "--seed: 'x' is not an integer" --stages 3 --seed x
refuse_joint 2 '--by: --schedule any minimises the makespan of stages that all own layers' --stages 3 --by time
refuse_joint 2 '--chunks 3: --schedule any has 1 or 2' --stages 3 --chunks 3
refuse 2 '--budget is for --schedule any' --loads joint.json --stages 3 --balancer partition --budget 5
refuse 2 '--seed is for --schedule any' --loads joint.json --stages 3 --balancer partition --seed 5
refuse 2 '--schedule any is for --balancer makespan, not even' --loads joint.json --stages 3 --balancer even --schedule any --microbatches 3
refuse 2 '--balancer makespan needs --schedule and --microbatches' --loads joint.json --stages 3 --balancer makespan --schedule any
refuse 2 'stage_count 3 exceeds layer_count 2 and empty stages are not allowed' --loads - --stages 3 --balancer makespan --schedule any --microbatches 6 <<'EOF'
{"forward_ns":[1,1]}
EOF

# Several chunks per rank: P is of ranks, loads and caps are theirs, layers that stay on their rank do not move.
expect 0 '{"first_layer":[0,1,2,3,6],"owner":null,"bottleneck_ns":5000,"bottleneck_lower_bound_ns":5000,"imbalance_ratio":1,"load_spread_ratio":0,"moved_bytes":110,"migration":[{"layer":1,"from":0,"to":1},{"layer":3,"from":1,"to":0},{"layer":4,"from":1,"to":0}],"optimal":true,"executable":true}' '' \
    --loads loads.json --stages 2 --chunks 2 --balancer v-partition --json
expect 0 '{"first_layer":[0,2,3,4,6],"owner":null,"bottleneck_ns":5000,"bottleneck_lower_bound_ns":5000,"imbalance_ratio":1,"load_spread_ratio":0,"moved_bytes":90,"migration":[{"layer":3,"from":1,"to":0},{"layer":4,"from":0,"to":1}],"optimal":true,"executable":true}' '' \
    --loads loads.json --stages 2 --balancer interleaved-partition --json
expect 0 'v-partition by time, 6 layers on 2 ranks of 2 chunks (v), minimising bottleneck

 rank          load  layers
    0       5.00 us  0-0, 3-5
    1       5.00 us  1-1, 2-2

bottleneck              5.00 us   no plan is below 5.00 us; this one is optimal
imbalance ratio           1.000   largest load / mean
load spread ratio         0.000   (largest - smallest) / mean
moved                     110 B   3 layers change their rank' '' \
    --loads loads.json --stages 2 --balancer v-partition --schedule zb-v-hand --microbatches 4 -o v.json
printf '%s\n' '{"schema":"dynmo-plan/1","first_layer":[0,1,2,3,6],"chunks":2,"placement":"v","schedule":"zb-v-hand","microbatches":4,"stage_ranks":[0,1],"data_parallel":1,"embedding":false,"head":false}' >wanted_plan
diff wanted_plan v.json >&2 || fail 'the plan of two chunks is another'
cat >chunks.json <<'EOF'
{"forward_ns":[1000,3000,2000,1000,1000,2000],"state_bytes":[10,20,30,40,50,60],"activation_bytes":[1,1,1,1,1,1],
 "stage_memory_bytes":[130,190],"stage_inflight":[2,1],"stage_time_factor":[1,1.5],"stage_fixed_ns":[0,100,200,300],
 "current_first_layer":[0,2,4,5,6],"load_cap_ns":7000}
EOF
expect 0 '{"first_layer":[0,2,3,5,6],"owner":null,"bottleneck_ns":6300,"bottleneck_lower_bound_ns":6300,"imbalance_ratio":1,"load_spread_ratio":0,"moved_bytes":0,"migration":[],"optimal":true,"executable":true}' '' \
    --loads chunks.json --stages 2 --chunks 2 --balancer v-partition --json
expect 0 '{"first_layer":[0,2,3,5,6],"owner":null,"bottleneck_ns":6300,"bottleneck_lower_bound_ns":6300,"imbalance_ratio":1,"load_spread_ratio":0,"moved_bytes":0,"migration":[],"optimal":true,"executable":true}' '' \
    --loads chunks.json --stages 2 --balancer v-partition --objective moved-bytes --json
expect 0 '{"first_layer":[0,2,4,5,6],"owner":null,"bottleneck_ns":7900,"bottleneck_lower_bound_ns":6038,"imbalance_ratio":1.2061068702290076,"load_spread_ratio":0.4122137404580153,"moved_bytes":0,"migration":[],"optimal":false,"executable":true}' '' \
    --loads chunks.json --stages 2 --chunks 2 --balancer even --json
refuse 2 'current_first_layer has 4 stages, no multiple of 3 chunks' --loads loads.json --stages 2 --chunks 3 --balancer even

# Options that are wrong, missing or do not go together.
refuse 2 'give one of --loads and --trace' --stages 2 --balancer partition
refuse 2 'give one of --loads and --trace' --loads loads.json --trace t.db --stages 2 --balancer partition
refuse 2 '--iterations are of a --trace' --loads loads.json --iterations 1 --stages 2 --balancer partition
refuse 2 'dynmo plan: --stages is needed' --loads loads.json --balancer partition
refuse 2 'dynmo plan: --balancer is needed' --loads loads.json --stages 2
refuse 2 "--balancer: unknown 'partitio'; did you mean 'partition'?" --loads loads.json --stages 2 --balancer partitio
refuse 2 'v-partition is for two chunks per rank in V placement, not for 2 in interleaved placement' --loads loads.json --stages 2 --balancer v-partition --schedule interleaved-1f1b
refuse 2 'the objective 1f1b-bound is of one chunk per rank, not 2' --loads loads.json --stages 2 --balancer partition --chunks 2 --objective 1f1b-bound --microbatches 4
refuse 2 "--by: unknown 'tim'; known: time, parameters, time+transfer, layers" --loads loads.json --stages 2 --balancer partition --by tim
refuse 2 "--objective: unknown 'fastest'; known: bottleneck, 1f1b-bound, moved-bytes" --loads loads.json --stages 2 --balancer partition --objective fastest
refuse 2 "--schedule: unknown 'zb-h3'; did you mean 'zb-h1'?" --loads loads.json --stages 2 --balancer partition --schedule zb-h3
refuse 2 '--schedule chimera keeps two copies of the weights; a plan has one' --loads loads.json --stages 2 --balancer partition --schedule chimera
refuse 2 '--chunks 3: schedule v-half has 2 per rank' --loads loads.json --stages 2 --balancer partition --schedule v-half --chunks 3
refuse 2 '--objective 1f1b-bound needs --microbatches' --loads loads.json --stages 2 --balancer partition --objective 1f1b-bound
refuse 2 'one.json: --objective moved-bytes needs load_cap_ns' --loads one.json --stages 1 --balancer partition --objective moved-bytes
refuse 2 '--balancer makespan needs --schedule and --microbatches' --loads loads.json --stages 2 --balancer makespan --schedule 1f1b
refuse 2 '--output needs --schedule and --microbatches' --loads loads.json --stages 2 --balancer partition -o plan.json
refuse 2 '--output -: standard output has the answer already' --loads loads.json --stages 2 --balancer partition --schedule 1f1b --microbatches 4 -o -
refuse 2 '--output: diffusion-coded gives layers to ranks in any order; nothing can play that' --loads loads.json --stages 2 --balancer diffusion-coded --schedule 1f1b --microbatches 4 -o x.json
refuse 2 'diffusion-published assigns layers without cuts: it knows neither transfers nor objectives other than bottleneck' --loads loads.json --stages 4 --balancer diffusion-published --by time+transfer
refuse 2 "--stages: 0 is outside [1, 4096]" --loads loads.json --stages 0 --balancer partition

# What a balancer needs and the file does not say.
echo '{"forward_ns":[1,1],"load_cap_ns":9}' >bare.json
refuse 2 'weighing by parameters needs parameters' --loads bare.json --stages 2 --balancer parameters
refuse 2 'the objective moved-bytes needs current_first_layer' --loads bare.json --stages 2 --balancer partition --objective moved-bytes
echo '{"forward_ns":[1,1],"load_cap_ns":9,"current_first_layer":[0,2,2]}' >bare.json
refuse 2 'the objective moved-bytes needs state_bytes' --loads bare.json --stages 2 --balancer partition --objective moved-bytes

# What dynmo model prints is read as it is.
"$dynmo" model --model gpt2 --hardware h100.json --json >model.json
"$dynmo" plan --loads model.json --stages 4 --balancer partition --json |
    grep -q '"first_layer":\[0,4,9,13,14\]' || fail 'dynmo plan of the output of dynmo model'

# A recorded trace: means over the iterations that are asked for. Layers of 10, 20 and 30 ns in the
# first, of 40, 10 and 11 in the second.
printf '# dynmo-trace/1\niteration,layer,phase,busy_ns\n3,0,F,10\n3,1,F,20\n3,2,F,30\n4,0,F,40\n4,1,F,10\n4,2,F,11\n' >t.csv
"$dynmo" import csv t.csv -o t.db >/dev/null || fail 'import of a trace'
recorded() { # recorded ITERATIONS FIRST_LAYER BOTTLENECK SAMPLES
    "$dynmo" plan --trace t.db --iterations "$1" --stages 2 --balancer partition --json >o.json
    grep -q "^{\"first_layer\":\[$2\],.*\"bottleneck_ns\":$3,.*\"trace_samples\":$4," o.json ||
        fail "a plan of iterations $1: $(cat o.json)"
}
recorded 3 0,2,3 30 1
recorded 4:9 0,1,3 40 1
recorded 0:4 0,1,3 36 2
refuse 2 't.db: no iteration in [5, 9] was sampled' --trace t.db --iterations 5:9 --stages 2 --balancer partition
# Of a pipeline of which the files of one rank were imported nothing is planned.
printf '# dynmo-trace/1\niteration,layer,phase,busy_ns\n3,0,F,10\n3,3,F,30\n' >half.csv
"$dynmo" import csv half.csv -o half.db >/dev/null 2>&1 || fail 'import of half a trace'
refuse 2 'half.db: 2 of 4 layers have no time in any pass, layer 1 first: import the files of all ranks' \
    --trace half.db --stages 2 --balancer partition
refuse 1 'absent.db: No such file or directory' --trace absent.db --stages 2 --balancer partition
refuse 2 'loads.json: not a SQLite file' --trace loads.json --stages 2 --balancer partition

# Files that are not what they should be.
refuse 1 'absent.json: No such file or directory' --loads absent.json --stages 2 --balancer partition
file() { # file STDERR CONTENT
    printf '%s' "$2" >bad.json
    refuse 2 "bad.json$1" --loads bad.json --stages 2 --balancer partition
}
file ':1: not valid JSON' '{"forward_ns":[1,1'
file ': not an object' '[1,1]'
file ': forward_ns: needs an array of times, one per layer' '{}'
file ": unknown key 'forward'; did you mean 'forward_ns'?" '{"forward":[1,1]}'
file ': forward_ns[1]: -1 is outside [0, 9007199254740992]' '{"forward_ns":[1,-1]}'
file ':1: forward_ns: integer 9007199254740993 exceeds 2^53 = 9007199254740992' '{"forward_ns":[9007199254740993]}'
file ': backward_input_ns: has 1 entries, needs 2' '{"forward_ns":[1,1],"backward_input_ns":[1]}'
file ': stage_memory_bytes: has 3 entries, needs 2' '{"forward_ns":[1,1],"stage_memory_bytes":[1,1,1]}'
file ': stage_time_factor: needs an array of 2 factors' '{"forward_ns":[1,1],"stage_time_factor":[1]}'
file ': stage_time_factor[1]: 0 is outside [1e-06, 1e+06]' '{"forward_ns":[1,1],"stage_time_factor":[1,0]}'
file ': embedding: is not true or false' '{"forward_ns":[1,1],"embedding":1}'
file ': current_first_layer: needs an array of stages + 1 layers' '{"forward_ns":[1,1],"current_first_layer":[0]}'
file ': current_first_layer[2]: 3 is outside [0, 2]' '{"forward_ns":[1,1],"current_first_layer":[0,1,3]}'
refuse 2 'current_first_layer falls from 2 to 1 after stage 1' --loads - --stages 2 --balancer partition <<'EOF'
{"forward_ns":[1,1],"current_first_layer":[0,2,1]}
EOF
# The paper's max_iters: an iteration moves one layer of each overloaded stage.
echo '{"forward_ns":[1,1,1,1,1,1,1,1],"current_first_layer":[0,8,8]}' >pile.json
for count in 1 2 3 4 9; do
    moved=$("$dynmo" plan --loads pile.json --stages 2 --balancer diffusion-published --allow-empty-stages \
        --max-iterations $count --json | grep -o '"from"' | wc -l)
    [ "$moved" -eq $((count > 4 ? 4 : count)) ] || fail "max-iterations $count: $moved layers move"
done
subject=plan
refuse 2 '--max-iterations belongs to --balancer diffusion-published, not to diffusion' \
    --loads pile.json --stages 2 --balancer diffusion --allow-empty-stages --max-iterations 2
# A first stage whose backward is whole: what was searched for it is shorter under it than what was not.
"$dynmo" model --model gpt2-xl --hardware h100-sxm --json >gpt2-xl.json || fail 'the loads of gpt2-xl'
under() { # under PLAN: the makespan that both engines play on a device of known times
    "$dynmo" run "$1" --model gpt2-xl --hardware h100-sxm --device timed --iterations 1 --json >run.json || fail "$1"
    grep -q '"different_ops":0,"difference_max_ns":0' run.json || fail "$1: device and simulator differ"
    sed 's/.*"predicted_ns":\([0-9]*\),.*/\1/' run.json
}
for how in split whole; do
    "$dynmo" plan --loads gpt2-xl.json --stages 8 --microbatches 16 --balancer makespan --schedule any \
        --first-stage-backward $how -o $how.json >/dev/null || fail "a first stage that is $how"
done
grep -q 'first_stage_backward' split.json && fail 'a plan for split backwards says so'
sed 's/}$/,"first_stage_backward":"whole"}/' split.json >late.json
[ "$(under whole.json)" -lt "$(under late.json)" ] || fail 'what was searched for a whole first stage is no better under it'
[ "$(under split.json)" -lt "$(under late.json)" ] || fail 'a whole first stage delays nothing'
refuse 2 "--first-stage-backward: unknown 'both'; known: split, whole" --loads gpt2-xl.json --stages 8 \
    --balancer partition --first-stage-backward both
exit "$failed"
