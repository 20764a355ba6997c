# import kineto: what it prints, what the store then holds, and what is refused without a trace of it.
# Usage: import_kineto.sh DYNMO
traces=$(pwd)/traces/kineto
. cli/expect.sh

# refuses CODE MESSAGE WORD...: and leaves no store after it
refuses() {
    refuse "$@" -o none.db
    [ ! -e none.db ] || fail "dynmo $3 $4 left a store behind"
}

# Plain and gzip are told apart by content.
gzip -c "$traces/gpu.json" >gpu.json
prints "trace 'gpu' in g.db: 1 layer, 1 microbatch, 1 iteration (4 to 4), 1 rank; names of torch.distributed.pipelining
rank 1: 22 events, 9 GPU operations: 7 attributed (1 to messages, gradient reduction and optimizer), 1 outside windows, 1 without launch
assumed: a full backward is 0.25 B and 0.75 W
only 1 of layers 0 to 1: the other ranks' files have the rest
replay: 900 us, recorded 900 us: error +0.0 %; compute alone 203 us
charged to ops: launch 99.9 us (11.1 %), exposed communication 7.25 us (0.8 %)
outside ops: host 402 us (44.7 %), launch 42.0 us (4.7 %), waiting 136 us (15.1 %), work outside annotations 10.0 us (1.1 %)" \
    import kineto gpu.json -o g.db --backward-split 0.25
prints '{"iterations":[4],"layers":[{"layer":0,"forward_ns":0,"backward_input_ns":0,"backward_weight_ns":0,"communication_ns":0},{"layer":1,"forward_ns":52750,"backward_input_ns":37531,"backward_weight_ns":112594,"communication_ns":30000}]}' \
    show g.db --loads --json

prints "trace 'cpu' in c.db: 1 layer, 1 microbatch, 1 iteration (1 to 1), 1 rank; names of torch.distributed.pipelining
rank 0: 13 events, 5 CPU operators: 4 attributed, 1 outside windows, 0 without launch
device=cpu: no device activity; times are of CPU operators
B and W were not told apart; schedules that split the backward need --backward-split
replay: 1.00 ms, recorded 1.00 ms: error +0.0 %; compute alone 90.5 us
charged to ops: host 284 us (28.4 %), exposed communication 25.0 us (2.5 %)
outside ops: host 595 us (59.5 %), work outside annotations 5.00 us (0.5 %)" \
    import kineto "$traces/cpu.json" -o c.db

# Compute alone is not what was recorded.
prints "trace 'left' in g.db: 1 layer, 1 microbatch, 1 iteration (4 to 4), 1 rank; names of torch.distributed.pipelining
rank 1: 22 events, 9 GPU operations: 7 attributed (1 to messages, gradient reduction and optimizer), 1 outside windows, 1 without launch
B and W were not told apart; schedules that split the backward need --backward-split
only 1 of layers 0 to 1: the other ranks' files have the rest
replay: 203 us, recorded 900 us: error -77.5 %; compute alone 203 us
left out of ops: launch 99.9 us (11.1 %), exposed communication 7.25 us (0.8 %)
left out: host 402 us (44.7 %), launch 42.0 us (4.7 %), waiting 136 us (15.1 %), work outside annotations 10.0 us (1.1 %)
warning: the replay is -77.5 % off what was recorded, most by host (--gaps charge keeps it)" \
    import kineto gpu.json -o g.db --name left --gaps leave

ranks='{"rank":0,"device":"cuda","events":15,"malformed_events":0,"operations":4,"attributed":4,"attributed_to_layers":4,"outside_windows":0,"without_launch":0,"linked_backwards":0,"has_backward":true,"clock_offset_ns":0,"clock_residual_ns":0},{"rank":1,"device":"cuda","events":13,"malformed_events":0,"operations":4,"attributed":4,"attributed_to_layers":4,"outside_windows":0,"without_launch":0,"linked_backwards":0,"has_backward":true,"clock_offset_ns":-1000000,"clock_residual_ns":4000}'
replay='{"recorded_ns":1000000,"replayed_ns":1000000,"error_ratio":0,"compute_ns":164000,"ranks_ns":2000000,"charged_ns":{"host":2000},"outside_ops_ns":{"host":1710000,"waiting":74000}}'
prints "{\"trace\":\"two\",\"names\":\"torch.distributed.pipelining\",\"layers\":2,\"microbatches\":2,\"iterations\":1,\"first_iteration\":7,\"last_iteration\":7,\"backward_split\":\"none\",\"clock_contradiction_ns\":0,\"ranks\":[$ranks],\"replay\":$replay}" \
    import kineto "$traces/rank1.json" "$traces/rank0.json" -o two.db --name two --json

# The simulator takes what the import charged: 523 ms were recorded for two iterations.
"$dynmo" import kineto "$traces"/../../../traces/recorded/gpt-pipeline-rank?.pt.trace.json.gz \
    -o gpt.db >imported || fail 'the recorded pipeline is not imported'
grep -q '^replay: 524 ms, recorded 523 ms: error +0.3 %' imported || fail "$(cat imported)"
# A stage that is the embedding or the head is no block of the model: an option says so, or the import that it is none.
planned() { # FILE OPTION...: what Megatron is told of its plan
    file=$1
    shift
    "$dynmo" import kineto "$traces"/../../../traces/recorded/gpt-pipeline-rank?.pt.trace.json.gz "$@" -o "$file" >imported ||
        fail "import with $*"
    "$dynmo" plan --trace "$file" --stages 2 --balancer even --schedule 1f1b --microbatches 4 -o plan.json >/dev/null || fail "plan of $file"
    "$dynmo" export megatron plan.json --json
}
planned blocks.db | grep -q '"num_layers":6,' || fail 'stages are no blocks'
grep -qx 'assumed: no stage is the embedding or the head alone (--embedding, --head); exports count each as a block' imported ||
    fail "what is assumed of stages: $(cat imported)"
planned ends.db --embedding --head | grep -q '"num_layers":4,.*"Et\*2|t\*2L"' || fail 'embedding and head are blocks'
grep -q '^assumed: no stage' imported && fail 'what was said is assumed'
grep -qx 'layer 0 is the embedding, as given' imported || fail "what was said of stages: $(cat imported)"
grep -qx 'layer 5 is the head, as given' imported || fail "what was said of stages: $(cat imported)"
cat >gpt.json <<'EOF'
{"schema":"dynmo-study/1","trace":"gpt.db","cluster":{"nodes":1,"gpus_per_node":2},
 "pipeline":{"stages":2,"chunks":3,"schedule":"interleaved-zb"},"balancing":[{"balancer":"even"}]}
EOF
"$dynmo" simulate gpt.json >simulated || fail 'the imported trace is not simulated'
grep -q '^even .* 262 ms ' simulated || fail "$(cat simulated)"

head -c 300 gpu.json >cut.json
refuses 2 "cut.json: gzip data ends early: the file is truncated" import kineto cut.json
head -c 1000 "$traces/gpu.json" >cut.json
refuses 2 "cut.json: truncated: it ends at byte 1000 inside an event (was the profiler stopped before it was done writing?)" \
    import kineto cut.json
: >empty.json
refuses 2 "empty.json: the file is empty" import kineto empty.json
refuses 1 "absent.json: No such file or directory" import kineto absent.json
refuses 2 "$traces/rank0.json and $traces/rank0.json are both of rank 0" \
    import kineto "$traces/rank0.json" "$traces/rank0.json"
refuses 2 "--gaps: 'drop' is neither charge nor leave" import kineto "$traces/gpu.json" --gaps drop
refuses 2 "--backward-split: 1.5 is outside [0, 1]" \
    import kineto "$traces/gpu.json" --backward-split 1.5
echo '{"schema":"dynmo-phase-map/1","annotations":[{"match":"(","phase":"F","layer":0}]}' >map.json
refuses 2 "map.json: annotations[0].match: '(' is no regular expression: Unmatched ( or \\(" \
    import kineto "$traces/gpu.json" --phase-map map.json
# What is made to fill memory, or the folder for temporary files, is refused before it does.
bomb='gzip data inflates to more than 64 times its length, which no recording does; gunzip it first if it is one'
{
    printf '{"traceEvents":[\n'
    yes '{"ph":"X","cat":"user_annotation","name":"dynmo it=0 mb=0 L=0 F","pid":1,"tid":1,"ts":1,"dur":1},' | head -c 100000000
} | gzip -1 >bomb.json.gz
refuse 2 "bomb.json.gz: $bomb" import kineto bomb.json.gz -o bomb.db
refuse 2 "bomb.json.gz: $bomb" import ops bomb.json.gz -o bomb.db
{
    printf 'SQLite format 3\0'
    head -c 100000000 /dev/zero
} | gzip -1 >bomb.db.gz
mkdir temporary
export TMPDIR="$work/temporary"
refuse 2 "bomb.db.gz: $bomb" diagnose bomb.db.gz
refuse 2 "bomb.db.gz: $bomb" show bomb.db.gz
[ -z "$(ls temporary)" ] || fail 'a bomb stays in the folder for temporary files'
exit "$failed"
