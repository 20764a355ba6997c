#
# In the batch script: bash THIS_FILE COMMAND [ARGUMENT]...
# COMMAND is run once per line above, as one job step with a task per GPU, because Slurm ends every
# job step on a node that it takes back. It trains from iteration DYNMO_FIRST_ITERATION up to, not
# with, DYNMO_END_ITERATION, begins with the plan in the file DYNMO_PLAN and where there is one with
# the last checkpoint, and leaves a checkpoint behind. Nodes count from 0 as the job lists them; node 0
# runs this script and stays. What is idle for a while and needed again stays, too: a running job
# cannot grow. Sites may forbid jobs to shrink (disable_job_shrink).
set -eu
if [ $# -eq 0 ]; then
    echo "usage: $0 COMMAND [ARGUMENT]..." >&2
    exit 2
fi
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
if [ ${#nodes[@]} -ne @NODES@ ] || [ "${SLURMD_NODENAME:-${nodes[0]}}" != "${nodes[0]}" ]; then
    echo "$0: for a job of @NODES@ nodes, on the first of them; this is ${SLURMD_NODENAME:-one} of ${#nodes[@]}" >&2
    exit 1
fi

names() { # RANGE...: the names of nodes, with commas
    local range node list=
    for range; do
        for ((node = ${range%-*}; node <= ${range#*-}; node++)); do
            list+=${list:+,}${nodes[node]}
        done
    done
    printf '%s' "$list"
}

keep() { # RANGE...: shrinks the job to these nodes
    scontrol update JobId="$SLURM_JOB_ID" NodeList="$(names "$@")"
    # shellcheck disable=SC1090 # written by scontrol: the job's new size, for srun
    . "./slurm_job_${SLURM_JOB_ID}_resize.sh"
    rm -f "./slurm_job_${SLURM_JOB_ID}_resize."*
}

train() { # FIRST END NODE_COUNT NODES TASK_COUNT COMMAND...; the plan comes from stdin
    export DYNMO_FIRST_ITERATION=$1 DYNMO_END_ITERATION=$2 DYNMO_PLAN=$PWD/plan-$1.json
    cat >"$DYNMO_PLAN"
    srun --nodes="$3" --nodelist="$4" --ntasks="$5" --ntasks-per-node=@GPUS@ \
        --gpus-per-node=@GPUS@ --distribution=block --kill-on-bad-exit=1 "${@:6}" </dev/null
}
