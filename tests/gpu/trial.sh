# Usage: tests/gpu/trial.sh BUILD
# The figures' stage of tests/gpu/run_all.sh over the emulated GPU, with the smallest sizes: what it leaves, and
# that a stage keeps to its time. Then tests/multigpu/run_all.sh over emulated NCCL, in one process.
set -eu
build=$1
run_all=$(cd "$(dirname "$0")" && pwd)/run_all.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
cp "$build/dynmo" "$build"/tests/emulated/*.so "$build"/tests/gpu_test_* "$build"/tests/gpu_measure_* \
    "$build/tests/multigpu_test_messages" "$work/bin"
: >"$work/bin/emulated"
export SMOKE=1 MODEL='3 16 2 16 1 2 6'

fail() {
    echo "FAILED: $*"
    cat "$work/said" "$work"/results/results.jsonl
    exit 1
}

sh "$run_all" "$work/results" "$work/bin" --stage 3 >"$work/said" 2>&1 || fail 'the stage'
[ "$(grep -c '"step":"agreement-.*"outcome":"passed"' "$work/results/results.jsonl")" -ge 4 ] || fail 'runs'
grep -q '"step":"agreement".*"forecast":{.*"error_of_kind":{"F":' "$work/results/runs.jsonl" || fail 'forecasts'
grep -q '^{"bench":"product_tflop_per_s"' "$work/results/figures.jsonl" || fail 'figures'
tar -tzf "$work/results/logs.tar.gz" | grep -q agreement || fail 'logs'
[ "$(find "$work/results" -type f | wc -l)" -le 8 ] || fail 'more than 8 files'

code=0
STAGE_SECONDS=0 sh "$run_all" "$work/late" "$work/bin" --stage 1 >"$work/said" 2>&1 || code=$?
if [ $code -ne 1 ] || ! grep -q '"outcome":"stopped".*no time is left' "$work/late/results.jsonl"; then
    fail 'a stage without time'
fi
code=0
sh "$run_all" "$work/none" "$work/bin" --stage 5 >"$work/said" 2>&1 || code=$?
[ $code -eq 2 ] || fail 'a stage 5'

# several STAGE GPUS: of tests/multigpu, which must not fail; how long an emulated op takes means nothing
several() {
    GPUS=$2 MPIRUN='' TOLERANCE=1000000 sh "$(dirname "$run_all")/../multigpu/run_all.sh" "$work/several" "$work/bin" \
        --stage "$1" >"$work/said" 2>&1 || { cat "$work/several/results.jsonl" && fail "$2 GPUs, stage $1"; }
}
several 1 4
several 2 2
grep -q '"step":"messages".*"outcome":"passed"' "$work/several/results.jsonl" || fail 'messages between GPUs'
grep -q '"step":"same-bits-bits".*"outcome":"passed"' "$work/several/results.jsonl" || fail 'the same bits on 2 and 4 GPUs'
