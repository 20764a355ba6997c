# Usage: sh tests/gpu/run_all.sh RESULTS [BIN]
# Everything that one GPU can settle, in under 8 minutes: kernels beside plain C, the same bits under
# every plan, speeds beside cuBLASLt alone and PyTorch, training, a recorded trace of each mechanism, and
# the simulator against execution on 2, 4 and 8 stages for every balancer. For a machine with a GPU of
# compute capability 8.0 or 9.0, its driver and cuBLAS 13.
# BIN holds the programs (tests/gpu/pack.sh packs them with their libraries); without it they are
# built by `cmake --preset release`. Writes RESULTS/*.jsonl, traces and logs; tests/gpu/validation_table.py
# makes a table of them. Ends with 0 if nothing failed; a step that its time limit stops counts as failed.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
results=${1:?usage: sh tests/gpu/run_all.sh RESULTS [BIN]}
mkdir -p "$results"
results=$(cd "$results" && pwd)
bin=${2:-}
failed=0
begin=$(date +%s)

# shellcheck source=gpu/steps.sh
. "$root/tests/gpu/steps.sh"

find_programs
write_facts gpu

step kernels 90 "$bin/gpu_test_kernels"
step training 90 "$bin/gpu_test_training"

step figures 90 "$bin/gpu_measure_kernels"
keep_figures figures
step cublaslt 30 "$bin/gpu_measure_cublaslt"
keep_figures cublaslt
step sdpa 30 "${PYTHON:-python3}" "$root/tests/gpu/measure_sdpa.py"
keep_figures sdpa

# A model whose ops last about a millisecond on an eighth of an H200; small enough to be made quickly.
layers=${LAYERS:-16} width=${WIDTH:-1024} heads=${HEADS:-16} length=${LENGTH:-2048}
sequences=${SEQUENCES:-4} microbatches=${MICROBATCHES:-16} iterations=${ITERATIONS:-8}
write_model

for stages in 1 2 4 8; do
    write_study even "$stages" '{"balancer":"even"}' none
    run_study bits 40 "even-$stages" --device cuda --precision bf16
done
write_study moving 4 '{"balancer":"partition","policy":"every:2"}' none
run_study bits 40 moving-4 --device cuda --precision bf16
same_hashes bits

for mechanism in moe mod early-exit pruning freezing sparse-attention; do
    write_study "$mechanism" 4 '{"balancer":"even"}' "$mechanism"
    run_study trace 40 "$mechanism-4" --device cuda --precision bf16 --record "$results/$mechanism.db"
done

for stages in 2 4 8; do
    for balancer in even parameters tuned partition diffusion makespan; do
        policy=',"policy":"every:3"'
        case $balancer in
        even | tuned) policy= ;;
        esac
        write_study "$balancer" "$stages" "{\"balancer\":\"$balancer\"$policy}" mod
        run_study agreement 30 "$balancer-$stages" --device cuda --precision bf16
    done
done

echo "tests/gpu/run_all.sh: $(($(date +%s) - begin)) s; $failed failed; results in $results" >&2
[ "$failed" -eq 0 ]
