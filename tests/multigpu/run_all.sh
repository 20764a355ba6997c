# shellcheck shell=sh disable=SC2086,SC2034,SC2046
# Usage: sh tests/multigpu/run_all.sh RESULTS [BIN] [--stage N]... [--within SECONDS]
# What only several GPUs can settle, on a node of 2 to 8 of them, in two stages of at most 8 minutes each; all, or
# the one that is named. It has not run on such a node yet.
#   1  NCCL between the GPUs, and the same bits whatever the number of ranks, also of those that share experts
#   2  what the simulator says beside what happens, for every balancer, also with two replicas
# A process for each GPU where there is an mpirun (Open MPI), else one process with a thread for each; MPIRUN= takes
# the second. Needs NCCL 2.18 or later, and what tests/gpu/run_all.sh needs, which is to be run first on
# one of the GPUs, and which says what is left in RESULTS and what --within does. GPUS=N uses N GPUs.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
gpus=${GPUS:-$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | wc -l)}
if [ "$gpus" -lt 2 ]; then
    echo "skipped: $gpus GPU; at least 2 are needed"
    exit 77
fi
shares='2 3'
# shellcheck source=gpu/steps.sh
. "$root/tests/gpu/steps.sh"
read_arguments "$@"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
command -v mpirun >/dev/null 2>&1 || MPIRUN=
mpirun=${MPIRUN-mpirun --oversubscribe --bind-to none -x LD_LIBRARY_PATH}
# under RANKS: what stands before a program that is to run on so many ranks
under() { [ -z "$mpirun" ] || echo "$mpirun -n $1"; }
# An odd number of layers: an even split of 24 over 2 stages would be that by parameters too, and none would move.
model=${MODEL:-'25 2048 16 2048 4 16 12'}

# played KIND NAME STAGES REPLICAS ROW [MECHANISM [RANKS]]: a study over NCCL, one rank per GPU.
played() {
    write_study "$model_kind" "$2" "$3" zb-h1 "$5" "${6:-}" "${7:-1}"
    launcher=$(under $(($3 * $4)))
    run_study "$1" 60 "$2-$3-zb-h1" $computes --transport nccl --data-parallel "$4" --tolerance "$tolerance"
}

stage_1() {
    export GPUS="$gpus"
    step messages 90 $(under "$gpus") "$bin/multigpu_test_messages"
    write_model multi "$model"
    write_mixtral shared multi
    stages=2 tolerance=0 model_kind=multi
    while [ "$stages" -le "$gpus" ]; do
        played bits even "$stages" 1 '{"balancer":"even"}'
        stages=$((stages * 2))
    done
    played bits moving 2 1 '{"balancer":"parameters","policy":"every:2"}'
    same_hashes bits
    model_kind=shared
    played shared even 1 2 '{"balancer":"even"}' moe
    played shared even 1 2 '{"balancer":"even"}' moe 2
    if [ "$gpus" -ge 4 ]; then played shared even 2 2 '{"balancer":"even"}' moe 2; fi
    same_losses shared
}

stage_2() {
    write_model multi "$model"
    write_mixtral shared multi
    stages=2 model_kind=multi
    while [ "$stages" -le "$gpus" ]; do
        tolerance=${TOLERANCE:-0.03}
        played agreement even "$stages" 1 '{"balancer":"even"}'
        tolerance=${TOLERANCE:-0.10}
        for balancer in parameters partition diffusion makespan; do
            played agreement "$balancer" "$stages" 1 "{\"balancer\":\"$balancer\",\"policy\":\"every:3\"}" mod
        done
        stages=$((stages * 2))
    done
    if [ "$gpus" -ge 4 ]; then
        played replicas replicas $((gpus / 2)) 2 '{"balancer":"partition","policy":"every:3"}' mod
        model_kind=shared
        played replicas experts $((gpus / 2)) 2 '{"balancer":"even"}' moe 2
    fi
}

run_stages
