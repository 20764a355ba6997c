# What dynmo exports, read by the framework itself; see README.md here.
# Usage: frameworks.sh DYNMO pytorch|megatron|deepspeed|torchtitan
scripts=$(pwd)/exchange
. cli/expect.sh
python=${PYTHON:-python3}
if ! command -v "$python" >/dev/null; then
    echo "skipped: no $python"
    exit 77
fi

plan() { # plan NAME FIRST_LAYER CHUNKS PLACEMENT SCHEDULE MICROBATCHES RANKS EMBEDDING HEAD
    name=$1
    shift
    printf '{"schema":"dynmo-plan/1","first_layer":%s,"chunks":%d,"placement":"%s","schedule":"%s","microbatches":%d,"stage_ranks":%s,"data_parallel":1,"embedding":%s,"head":%s}\n' \
        "$@" >"$name"
}

pytorch() {
    schedule() { # schedule NAME WORD...: NAME.csv
        name=$1
        shift
        "$dynmo" schedule --schedule "$@" --json >order.json || fail "schedule $*"
        "$dynmo" export pytorch order.json -o "$name.csv" || fail "export $*"
    }
    schedule gpipe gpipe --stages 2 --microbatches 3
    schedule 1f1b 1f1b --stages 3 --microbatches 5
    schedule interleaved-1f1b interleaved-1f1b --stages 2 --microbatches 4 --chunks 3
    schedule zb-h1 zb-h1 --stages 4 --microbatches 6
    schedule zb-h2 zb-h2 --stages 3 --microbatches 7
    schedule zb-auto zb-auto --stages 3 --microbatches 6
    schedule interleaved-zb interleaved-zb --stages 2 --microbatches 4 --chunks 2
    schedule zb-v-hand zb-v-hand --stages 3 --microbatches 6
    schedule zb-v zb-v --stages 3 --microbatches 6
    schedule dualpipe-v dualpipe-v --stages 2 --microbatches 4
    schedule v-half v-half --stages 4 --microbatches 6
    schedule v-min v-min --stages 3 --microbatches 5
    schedule 1f1b-v 1f1b-v --stages 2 --microbatches 5
    set -- ./*.csv costs.json
    # An order that was searched for a first stage whose backward is whole, after one that was not.
    times='"forward_ns":[5,7,10,5],"backward_input_ns":[18,10,16,14],"backward_weight_ns":[20,8,10,8]'
    echo "{$times}" >costs.json
    echo "{$times,\"activation_bytes\":[1,1,1,1],\"gradient_bytes\":[0,0,0,0],\"stage_memory_bytes\":[3,6,2,4]}" >loads.json
    for how in split whole; do
        "$dynmo" plan --loads loads.json --stages 4 --microbatches 10 --balancer makespan --schedule any --chunks 1 \
            --first-stage-backward $how -o $how.json >/dev/null || fail "plan $how"
        "$dynmo" export pytorch $how.json --costs costs.json -o $how.csv 2>$how.err || fail "export $how"
        set -- "$@" "$(sed 's/.* \([0-9]*\) ns as written$/\1/' $how.err):$how.csv"
    done
    "$python" "$scripts/run_schedules.py" "$@" || return
    for recompute in none early-stop full; do
        "$dynmo" model --model llama-2-7b --layers 2 --hardware h100-sxm --sequence-length 64 --attention unfused \
            --recompute $recompute --json >$recompute.json || fail "model --recompute $recompute"
    done
    "$python" "$scripts/pytorch_parts.py" none.json early-stop.json full.json
}

megatron() {
    plan a.plan '[0,7,16,25,34]' 1 interleaved 1f1b 8 '[0,1,2,3]' true true
    plan b.plan '[0,3,3,6,10]' 2 interleaved interleaved-1f1b 8 '[0,1]' true true
    plan c.plan '[0,2,3]' 1 interleaved zb-h1 4 '[0,1]' false false
    plan d.plan '[0,1,5,5,9,12,20]' 3 interleaved interleaved-1f1b 4 '[0,1]' true false
    plan e.plan '[0,4]' 1 interleaved 1f1b 4 '[0]' true true
    for each in a b c d e; do
        "$dynmo" export megatron $each.plan --split-only --json -o $each.json || fail "export of $each.plan"
    done
    "$python" "$scripts/megatron_layout.py" a.json a.plan b.json b.plan c.json c.plan d.json d.plan \
        e.json e.plan
}

deepspeed() {
    plan a.plan '[0,2,3]' 1 interleaved 1f1b 4 '[0,1]' false false
    "$dynmo" export deepspeed a.plan --specs-before 1 --specs-after 2 -o a.py || fail 'export to Python'
    "$dynmo" export deepspeed a.plan --specs-before 1 --specs-after 2 --json -o a.json || fail 'export to JSON'
    "$python" "$scripts/deepspeed_parts.py" a.py a.json || return
    DYNMO=$dynmo "$python" "$scripts/deepspeed_gain.py"
}

torchtitan() {
    plan a.plan '[0,3,5,8]' 1 interleaved 1f1b 4 '[0,1,2]' true true
    plan b.plan '[0,2,4,6,8]' 2 v zb-v-hand 4 '[0,1]' true true
    plan c.plan '[0,2,4,6,8,9,10]' 3 interleaved interleaved-1f1b 4 '[0,1]' false false
    for each in a b c; do
        "$dynmo" export torchtitan $each.plan -o $each.py || fail "export of $each.plan"
    done
    "$python" "$scripts/torchtitan_parts.py" a.py a.plan b.py b.plan c.py c.plan || return
    DYNMO=$dynmo "$python" "$scripts/torchtitan_gain.py"
}

case $2 in
pytorch) pytorch ;;
megatron) megatron ;;
deepspeed) deepspeed ;;
torchtitan) torchtitan ;;
*) exit 2 ;;
esac >said 2>&1
code=$?
if [ $code -eq 77 ] || [ $code -eq 0 ]; then grep -v -e Warning -e WARN -e warn said; else cat said; fi
[ $code -eq 0 ] || exit $code
exit "$failed"
