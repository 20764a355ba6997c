# Usage: sh tests/multigpu/run_all.sh RESULTS [BIN]
# What only several GPUs can settle, in under 15 minutes on 2 to 8 of them: NCCL between them, the same bits
# whatever the number of ranks, migration and re-packing over NCCL's communicators, and what the
# simulator says beside what happens, for every balancer, also with two replicas. Needs Open MPI's mpirun,
# NCCL 2.18 or later, and what tests/gpu/run_all.sh needs, which is to be run first on one of the GPUs.
# GPUS=N uses N GPUs. The other settings are those of tests/gpu/run_all.sh.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
results=${1:?usage: sh tests/multigpu/run_all.sh RESULTS [BIN]}
mkdir -p "$results"
results=$(cd "$results" && pwd)
bin=${2:-}
failed=0
begin=$(date +%s)
gpus=${GPUS:-$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)}
if [ "$gpus" -lt 2 ]; then
    echo "skipped: $gpus GPU; at least 2 are needed"
    exit 77
fi

# shellcheck source=gpu/steps.sh
. "$root/tests/gpu/steps.sh"

find_programs
write_facts multigpu
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpirun="mpirun --oversubscribe --bind-to none -x LD_LIBRARY_PATH"

# shellcheck disable=SC2086 # a list of words
step messages 90 $mpirun -n "$gpus" "$bin/multigpu_test_messages"

layers=${LAYERS:-24} width=${WIDTH:-2048} heads=${HEADS:-16} length=${LENGTH:-2048}
sequences=${SEQUENCES:-4} microbatches=${MICROBATCHES:-16} iterations=${ITERATIONS:-8}
write_model

# played KIND SECONDS NAME STAGES REPLICAS ROW MECHANISM: a study over NCCL, one rank per GPU.
played() {
    write_study "$3" "$4" "$6" "$7"
    launcher="$mpirun -n $(($4 * $5))"
    run_study "$1" "$2" "$3-$4" --device cuda --precision bf16 --transport nccl --data-parallel "$5"
}

stages=2
while [ "$stages" -le "$gpus" ]; do
    played bits 60 even "$stages" 1 '{"balancer":"even"}' none
    stages=$((stages * 2))
done
played bits 60 moving 2 1 '{"balancer":"partition","policy":"every:2"}' none
same_hashes bits

stages=2
while [ "$stages" -le "$gpus" ]; do
    for balancer in even parameters tuned partition diffusion makespan; do
        policy=',"policy":"every:3"'
        case $balancer in
        even | tuned) policy= ;;
        esac
        played agreement 60 "$balancer" "$stages" 1 "{\"balancer\":\"$balancer\"$policy}" mod
    done
    stages=$((stages * 2))
done
if [ "$gpus" -ge 4 ]; then
    played replicas 60 replicas $((gpus / 2)) 2 '{"balancer":"partition","policy":"every:3"}' mod
fi

echo "tests/multigpu/run_all.sh: $(($(date +%s) - begin)) s; $failed failed; results in $results" >&2
[ "$failed" -eq 0 ]
