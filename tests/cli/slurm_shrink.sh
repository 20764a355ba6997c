# export slurm-shrink: the recipe of a recorded run whose re-packing releases a node, exactly; what it
# does when it is run, with programs in Slurm's place that write down how they are called; and runs
# that give nothing back.
# Usage: slurm_shrink.sh DYNMO
. cli/expect.sh

# Eight layers on four ranks, two to a node. From iteration 3 on the later layers cost next to nothing.
{
    printf '# dynmo-trace/1\niteration,layer,phase,busy_ns\n'
    for iteration in 0 1 2 3 4 5; do
        for layer in 0 1 2 3 4 5 6 7; do
            busy=1000000
            if [ $iteration -ge 3 ] && [ $layer -ge 2 ]; then busy=1000; fi
            printf '%d,%d,F,%d\n%d,%d,BW,%d\n' $iteration $layer $busy $iteration $layer $busy
        done
    done
} >loads.csv
"$dynmo" import csv loads.csv -o t.db >out || fail 'import'

study() { # study NAME GPUS_PER_NODE ROWS
    printf '{"schema":"dynmo-study/1","name":"%s","trace":"t.db","cluster":{"gpus_per_node":%d},
"training":{"microbatches":4},"pipeline":{"stages":4,"schedule":"1f1b"},"balancing":[%s]}' \
        "$1" "$2" "$3" >s.json
    "$dynmo" simulate s.json --store r.db >out || fail "study $1"
}
even='{"balancer":"even"}'
row() { # row LABEL REPACK: a row that re-packs
    printf '{"balancer":"partition","policy":"on-change","label":"%s","repack":{"kind":"throughput","tolerance":0.05%s}}' "$1" "$2"
}

study nodes 2 "$even,$(row 'by node' ',"unit":"node"')"
"$dynmo" export slurm-shrink r.db --row 'by node' -o recipe.sh || fail 'the recipe of a run'
cat >wanted <<'END'
#!/usr/bin/env bash
# Gives nodes of a running Slurm job back when re-packing needs them no more.
# Of row 'by node' of run 1: 1 x 4 ranks of 1 GPU on 2 nodes of 2.
#
#   iterations 0 to 3: 2 nodes, 4 tasks
#   iterations 4 to 5: 1 nodes, 2 tasks, without node 1
#
END
head -n 7 recipe.sh | diff wanted - || fail 'the head of the recipe'
cat >wanted <<'END'
train 0 4 2 "$(names 0-1)" 4 "$@" <<'END'
{"schema":"dynmo-plan/1","first_layer":[0,2,4,6,8],"chunks":1,"placement":"interleaved","schedule":"1f1b","microbatches":4,"stage_ranks":[0,1,2,3],"data_parallel":1,"embedding":false,"head":false}
END
{
    printf 'END\n\nkeep 0\n'
    cat <<'END'
train 4 6 1 "$(names 0)" 2 "$@" <<'END'
{"schema":"dynmo-plan/1","first_layer":[0,1,8],"chunks":1,"placement":"interleaved","schedule":"1f1b","microbatches":4,"stage_ranks":[0,1],"data_parallel":1,"embedding":false,"head":false}
END
    printf 'END\n'
} >>wanted
sed -n '/^train 0/,$p' recipe.sh | diff wanted - || fail 'the job steps of the recipe'
"$dynmo" export slurm-shrink r.db --row 'by node' --run nodes | cmp -s - recipe.sh ||
    fail 'run and row by name, to standard output'
if command -v shellcheck >/dev/null; then shellcheck recipe.sh || fail 'shellcheck'; fi

# Run, with stand-ins for Slurm.
mkdir bin
cat >bin/scontrol <<'END'
#! /bin/sh
if [ "$1" = show ]; then printf 'a1\na2\n'; exit; fi
echo "scontrol $*" >>calls
echo "export SLURM_JOB_NODELIST=a1 SLURM_NNODES=1; unset SLURM_NTASKS" >"slurm_job_${SLURM_JOB_ID}_resize.sh"
: >"slurm_job_${SLURM_JOB_ID}_resize.csh"
END
cat >bin/srun <<'END'
#! /bin/sh
echo "srun $*: $DYNMO_FIRST_ITERATION to $DYNMO_END_ITERATION on ${SLURM_NNODES-?} of ${SLURM_NTASKS-?}" >>calls
[ ! -e stop ]
END
chmod +x bin/scontrol bin/srun
run_recipe() {
    rm -f calls
    PATH="$work/bin:$PATH" SLURM_JOB_ID=7 SLURM_JOB_NODELIST='a[1-2]' SLURM_NNODES=2 SLURM_NTASKS=4 \
        SLURMD_NODENAME="$1" bash recipe.sh ./train.sh -v
}
if command -v bash >/dev/null; then
    run_recipe a1 || fail 'running the recipe'
    cat >wanted <<'END'
srun --nodes=2 --nodelist=a1,a2 --ntasks=4 --ntasks-per-node=2 --gpus-per-node=2 --distribution=block --kill-on-bad-exit=1 ./train.sh -v: 0 to 4 on 2 of 4
scontrol update JobId=7 NodeList=a1
srun --nodes=1 --nodelist=a1 --ntasks=2 --ntasks-per-node=2 --gpus-per-node=2 --distribution=block --kill-on-bad-exit=1 ./train.sh -v: 4 to 6 on 1 of ?
END
    diff wanted calls || fail 'what the recipe calls'
    if ls slurm_job_7_resize.* 2>/dev/null; then fail 'files of scontrol are left'; fi
    sed -n '/^train 4/,$p' recipe.sh | sed -n 2p | cmp -s - plan-4.json || fail 'the plan of a job step'
    touch stop
    if run_recipe a1; then fail 'a recipe that goes on after a command that failed'; fi
    [ "$(grep -c . calls)" -eq 1 ] || fail 'what a recipe calls after a command that failed'
    if run_recipe a2 2>err; then fail 'a recipe on another node than the first'; fi
    [ "$(cat err)" = 'recipe.sh: for a job of 2 nodes, on the first of them; this is a2 of 2' ] ||
        fail "says: $(cat err)"
    [ ! -e calls ] || fail 'a recipe on the wrong node calls something'
    if bash recipe.sh 2>err; then fail 'a recipe without a command'; fi
fi

# The same run for Kubernetes, with a kubectl that keeps what it is given, and for MIG instances.
"$dynmo" export kubernetes-jobs r.db --run nodes --row 'by node' -o kubernetes.sh || fail 'the recipe for Kubernetes'
head -n 3 kubernetes.sh | grep -q 'nodes of a Kubernetes cluster' || fail 'the head of the recipe for Kubernetes'
"$dynmo" export mig r.db --run nodes --row 'by node' -o mig.sh || fail 'the recipe for MIG'
if command -v shellcheck >/dev/null; then shellcheck kubernetes.sh mig.sh || fail 'shellcheck'; fi
cat >bin/kubectl <<'END'
#! /bin/sh
case "$*" in
    *--dry-run*) printf 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\n' "$3" ;;
    apply*) cat; echo --- ;;
    *) echo "# $*" ;;
esac >>applied
case "$*" in *--dry-run*) tail -n 4 applied ;; esac
END
cat >bin/nvidia-smi <<'END'
#! /bin/sh
case "$*" in
    -L) for gpu in 0 1; do
            echo "GPU $gpu: NVIDIA H100 (UUID: GPU-$gpu)"
            for device in 0 1; do echo "  MIG 3g.40gb     Device  $device: (UUID: MIG-$gpu$device)"; done
        done ;;
    -q) for instance in 1 2 1 2; do echo "        GPU Instance ID                   : $instance"; done ;;
    *) echo "nvidia-smi $*" >>calls ;;
esac
END
cat >train.sh <<'END'
#! /bin/sh
echo "task $DYNMO_RANK of $DYNMO_TASKS sees $CUDA_VISIBLE_DEVICES: $DYNMO_FIRST_ITERATION to $DYNMO_END_ITERATION" >>calls
END
chmod +x bin/kubectl bin/nvidia-smi train.sh
if command -v bash >/dev/null; then
    rm -f applied calls
    PATH="$work/bin:$PATH" bash kubernetes.sh gpt registry/image ./train.sh 'a "b"' >out || fail 'running the recipe for Kubernetes'
    "${PYTHON:-python3}" - <<'END' || fail 'manifests of Kubernetes'
import sys
try:
    import yaml
except ImportError:
    sys.exit(0)
jobs = [d for d in yaml.safe_load_all(open('applied')) if d and d['kind'] == 'Job']
assert [job['metadata']['name'] for job in jobs] == ['gpt-0', 'gpt-4'], jobs
# The part of batch/v1 that the template uses: other keys would be refused or, worse, ignored.
for job, nodes in zip(jobs, (2, 1)):
    assert set(job) == {'apiVersion', 'kind', 'metadata', 'spec'} and job['apiVersion'] == 'batch/v1'
    spec = job['spec']
    assert set(spec) == {'completionMode', 'parallelism', 'completions', 'backoffLimit', 'template'}
    assert spec['completionMode'] == 'Indexed' and spec['parallelism'] == spec['completions'] == nodes
    pod = spec['template']['spec']
    assert set(pod) == {'subdomain', 'restartPolicy', 'containers', 'volumes'} and pod['restartPolicy'] == 'Never'
    container = pod['containers'][0]
    assert set(container) == {'name', 'image', 'command', 'env', 'resources', 'volumeMounts'}
    assert container['command'] == ['./train.sh', 'a "b"']
    assert container['resources'] == {'limits': {'nvidia.com/gpu': 2}}
    assert all(set(one) == {'name', 'value'} and isinstance(one['value'], str) for one in container['env'])
    assert {v['name'] for v in pod['volumes']} == {m['name'] for m in container['volumeMounts']}
try:
    import kubernetes_validate
except ImportError:
    sys.exit(0)
for document in yaml.safe_load_all(open('applied')):
    if document: kubernetes_validate.validate(document, '1.30', strict=True)
END
    PATH="$work/bin:$PATH" bash mig.sh ./train.sh || fail 'running the recipe for MIG'
    sort calls >found
    cat >wanted <<'END'
nvidia-smi mig -dci -i 1 -gi 1
nvidia-smi mig -dci -i 1 -gi 2
nvidia-smi mig -dgi -i 1 -gi 1
nvidia-smi mig -dgi -i 1 -gi 2
task 0 of 2 sees MIG-00: 4 to 6
task 0 of 4 sees MIG-00: 0 to 4
task 1 of 2 sees MIG-01: 4 to 6
task 1 of 4 sees MIG-01: 0 to 4
task 2 of 4 sees MIG-10: 0 to 4
task 3 of 4 sees MIG-11: 0 to 4
END
    diff wanted found || fail 'what the recipe for MIG calls'
fi

# Nothing to give back.
subject='export slurm-shrink'
refuse 2 "row 'even' of run 1 releases no ranks: there is nothing to give back" r.db --row even
refuse 2 "r.db: choose --row of 'even', 'by node'" r.db
refuse 2 "row 'by node' of run 1 is on one node of 4 GPUs, which is needed until the end" \
    r.db --row 'by node' --gpus-per-node 4
study partly 2 "$(row 'by rank' ',"min_ranks":3')"
refuse 2 "row 'by rank' of run 2 releases ranks, but of its 2 nodes of 2 GPUs none for good: only whole nodes go back; \"repack\": {\"unit\": \"node\"} releases such" r.db
refuse 2 "r.db: no run '9'" r.db --run 9
exit $failed
