# Usage: tests/gpu/trial.sh BUILD
# Two stages of tests/gpu/run_all.sh over the emulated GPU, with the smallest sizes: what they leave, and that a stage
# keeps to its time; how kernels are loaded on a slow machine, and what --within does where a step is slow. Then
# tests/multigpu/run_all.sh over emulated NCCL, in one process.
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

sh "$run_all" "$work/results" "$work/bin" --stage 3 --stage 7 >"$work/said" 2>&1 || fail 'the stages'
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
sh "$run_all" "$work/none" "$work/bin" --stage 8 >"$work/said" 2>&1 || code=$?
[ $code -eq 2 ] || fail 'a stage 8'

# A machine whose first start is slow, because it reads the libraries from the disk, and where loading all kernels
# takes 5 s: from then on they are loaded when they are first launched.
mkdir "$work/slow" "$work/slow/tools"
fake() { # fake NAME: a program of that machine, its lines on standard input
    { echo '#!/bin/sh' && cat; } >"$work/slow/$1"
    chmod +x "$work/slow/$1"
}
fake gpu_measure_kernels <<'END'
if [ "$CUDA_MODULE_LOADING" != LAZY ]; then sleep 5; fi
if [ ! -f "$0.began" ]; then sleep 4; fi
: >"$0.began"
END
fake gpu_test_kernels <<'END'
echo "loads $CUDA_MODULE_LOADING"
END
cp "$work/slow/gpu_test_kernels" "$work/slow/multigpu_test_messages"
fake dynmo <<'END'
case $2 in
*/even-* | */moving-*) hash=a ;;
*) hash=b ;;
esac
echo "{\"loss_hash\":\"$hash\",\"state_hash\":\"$hash\",\"moved_layers\":1}"
END
fake tools/compute-sanitizer <<'END'
echo "under a tool: $CUDA_MODULE_LOADING"
END
PATH=$work/slow/tools:$PATH sh "$run_all" "$work/slow/results" "$work/slow" --stage 1 --stage 5 >"$work/said" 2>&1 ||
    fail 'a slow machine'
grep -q '"step":"kernels".*"says":"loads LAZY"' "$work/slow/results/results.jsonl" || fail 'all kernels are loaded'
grep -q '"step":"initcheck".*"says":"under a tool: LAZY"' "$work/slow/results/results.jsonl" || fail 'a tool'

GPUS=2 MPIRUN='' sh "$(dirname "$run_all")/../multigpu/run_all.sh" "$work/slow/two" "$work/slow" --stage 1 \
    >"$work/said" 2>&1 || fail 'two slow GPUs'
grep -q '"step":"messages".*"says":"loads "' "$work/slow/two/results.jsonl" || fail 'kernels are loaded beside NCCL'

# There, a step that takes too long for its stage's share, and the second time does not.
: >"$work/slow/emulated"
fake gpu_test_training <<'END'
if [ ! -f "$0.began" ]; then : >"$0.began" && sleep 60; fi
END
within() { # within SECONDS OPTION...: what must not fail
    given=$1 && shift
    sh "$run_all" "$work/slow/within" "$work/slow" --within "$given" "$@" >"$work/said" 2>&1 ||
        { cat "$work/slow/within/results.jsonl" && fail "within $given s"; }
}
# steps NAME OUTCOME: how many of this name have ended so
steps() { grep -c "\"step\":\"$1\",.*\"outcome\":\"$2\"" "$work/slow/within/results.jsonl" || true; }
within 1 --stage 1
grep -q '^not run: kernels$' "$work/said" || fail 'no time at all'
within 20 --stage 2 --stage 1
[ "$(steps training 'not run')" -ge 1 ] || fail 'a step without enough time'
within 200 --stage 1 --stage 2
[ "$(steps training passed) $(steps kernels passed)" = '1 1' ] || fail 'steps are repeated, or left out'
grep '"step":"same-bits-bits"' "$work/slow/within/results.jsonl" | tail -n 1 | grep -q '"passed".*"says":"8 runs' ||
    fail 'a second call'

# A step that fails is no less a failure to the call that does not repeat it.
fake gpu_test_kernels <<'END'
exit 1
END
for call in 1 2; do
    code=0
    sh "$run_all" "$work/slow/failing" "$work/slow" --within 60 --stage 1 >"$work/said" 2>&1 || code=$?
    if [ $code -ne 1 ] || ! grep -q '1 failed so far' "$work/said"; then fail "call $call hides a failure"; fi
done
[ "$(wc -l <"$work/slow/failing/results.jsonl")" -eq 2 ] || fail 'a step that failed is repeated'
PYTHON=no-such-python sh "$run_all" "$work/slow/bare" "$work/bin" --stage 7 >"$work/said" 2>&1 || fail 'without Python'
[ "$(grep -c '"outcome":"skipped".*"says":"there is no no-such-python' "$work/slow/bare/results.jsonl")" -eq 2 ] ||
    fail 'without Python nothing is skipped'

# several STAGE GPUS: of tests/multigpu, which must not fail; how long an emulated op takes means nothing
several() {
    GPUS=$2 MPIRUN='' TOLERANCE=1000000 sh "$(dirname "$run_all")/../multigpu/run_all.sh" "$work/several" "$work/bin" \
        --stage "$1" >"$work/said" 2>&1 || { cat "$work/several/results.jsonl" && fail "$2 GPUs, stage $1"; }
}
several 1 4
several 2 2
grep -q '"step":"messages".*"outcome":"passed"' "$work/several/results.jsonl" || fail 'messages between GPUs'
grep -q '"step":"same-bits-bits".*"outcome":"passed"' "$work/several/results.jsonl" || fail 'the same bits on 2 and 4 GPUs'
grep -q '"step":"same-losses-shared".*"outcome":"passed".*"3 runs' "$work/several/results.jsonl" || fail 'shared experts'

# Links between GPUs, as `dynmo probe` measures them: 3 ranks have 3, each of 8 sizes from 64 bytes to 1 MiB.
"$work/bin/dynmo" probe --device cuda --transport nccl --ranks 3 --hardware cpu-core --model gpt-bytes --tokens 16 \
    --seconds 0.001 --bytes 4194304 --precision fp32 --json >"$work/said" 2>&1 || fail 'links over NCCL'
[ "$(grep -o '"name":"message"' "$work/said" | wc -l)" -eq 24 ] || fail 'not 3 pairs x 8 sizes over NCCL'

# Ranks that share experts, by the nominal clock: the simulator has their ops at the same nanoseconds.
root=$(dirname "$run_all")/../..
sed "s|../../..|$root|; s/\"stages\": 1/\"stages\": 2/; s/\"iterations\": 20/\"iterations\": 2/; s/128/16/g; s/448/16/; s/\"num_attention_heads\": 8/\"num_attention_heads\": 2/" \
    "$root/models/studies/run/shared-experts.json" >"$work/shared.json"
"$work/bin/dynmo" run "$work/shared.json" --device cuda --precision fp32 --transport nccl --clock nominal --json \
    >"$work/said" 2>&1 || fail 'shared experts by the nominal clock'
grep -q '"experts":{"ranks":2,.*"different_ops":0,' "$work/said" || fail 'other ops than the simulator has'
