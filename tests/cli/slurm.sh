# export slurm-shrink under a Slurm of its own: a controller and two nodes with two GPUs each on this
# machine. The job is shrunk while it runs, the node that went back is idle, and both job steps ran
# where the recipe says. Then `dynmo run` on both nodes over TCP. Skipped (77) without Slurm, munge or root, which they need.
# Usage: slurm.sh DYNMO
. cli/expect.sh
for program in slurmctld slurmd sbatch munged; do
    command -v $program >/dev/null || { echo "skipped: no $program"; exit 77; }
done
[ "$(id -u)" -eq 0 ] || { echo 'skipped: slurmd wants root'; exit 77; }
SLURM_CONF=$work/slurm.conf
export SLURM_CONF
host=$(hostname -s)
port=$((20000 + $$ % 20000))
pids=

# wait_for_idle: for 20 s at most, until both nodes are.
wait_for_idle() {
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = 2 ] && return
        sleep 1
    done
    return 1
}

# shellcheck disable=SC2317,SC2329 # by trap
end() {
    # Once the controller is gone, a step that has not told it of its end tries for good, and slurmd waits for it.
    wait_for_idle
    # shellcheck disable=SC2086 # a list
    [ -z "$pids" ] || kill -9 $pids 2>/dev/null
    wait
    rm -rf "$work"
}
trap end EXIT

mkdir state log dev
chmod 755 "$work"
dd if=/dev/urandom bs=1 count=1024 of=munge.key 2>/dev/null
chmod 400 munge.key
for gpu in 0 1; do mknod dev/gpu$gpu c 1 3 || { echo 'skipped: no devices can be made'; exit 77; }; done
echo "NodeName=a[1-2] Name=gpu File=$work/dev/gpu[0-1]" >gres.conf
cat >slurm.conf <<END
ClusterName=dynmo
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
AuthInfo=socket=$work/munge.socket
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool-%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd-%n.pid
SlurmctldLogFile=$work/log/slurmctld
SlurmdLogFile=$work/log/slurmd-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
NodeName=a1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=2 Gres=gpu:2
NodeName=a2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=2 Gres=gpu:2
PartitionName=all Nodes=a1,a2 Default=YES State=UP
END
munged --foreground --force --socket="$work/munge.socket" --key-file="$work/munge.key" \
    --log-file="$work/log/munged" --pid-file="$work/munged.pid" --seed-file="$work/munged.seed" >log/munged.out 2>&1 &
pids="$pids $!"
sleep 1
slurmctld -D >log/slurmctld.out 2>&1 &
pids="$pids $!"
for node in a1 a2; do
    slurmd -D -N $node >log/slurmd.$node.out 2>&1 &
    pids="$pids $!"
done
wait_for_idle || { echo "skipped: this machine's Slurm does not come up: $(sinfo 2>&1)"; exit 77; }

# Eight layers on four ranks, two to a node; from iteration 3 on the later layers cost next to nothing.
python3 - >loads.csv <<'END'
print('# dynmo-trace/1\niteration,layer,phase,busy_ns')
for iteration in range(6):
    for layer in range(8):
        for phase in ('F', 'BW'):
            print(f'{iteration},{layer},{phase},{1000 if iteration >= 3 and layer >= 2 else 1000000}')
END
"$dynmo" import csv loads.csv -o t.db >out || fail 'import'
cat >s.json <<'END'
{"schema":"dynmo-study/1","name":"nodes","trace":"t.db","cluster":{"gpus_per_node":2},
"training":{"microbatches":4},"pipeline":{"stages":4,"schedule":"1f1b"},"balancing":
[{"balancer":"even"},{"balancer":"partition","policy":"on-change","label":"by node",
"repack":{"kind":"throughput","tolerance":0.05,"unit":"node"}}]}
END
"$dynmo" simulate s.json --store r.db >out || fail 'simulate'
"$dynmo" export slurm-shrink r.db --row 'by node' -o recipe.sh || fail 'the recipe'
cat >train.sh <<'END'
#! /bin/sh
if [ "$DYNMO_FIRST_ITERATION" -gt 0 ] && [ "$SLURM_PROCID" -eq 0 ]; then
    sinfo -h -N -o '%N %t' >nodes
fi
echo "$DYNMO_FIRST_ITERATION to $DYNMO_END_ITERATION: task $SLURM_PROCID of $SLURM_NTASKS on $SLURMD_NODENAME of $SLURM_NNODES" >>tasks
END
chmod +x train.sh
printf '#! /bin/bash\nset -e\nbash recipe.sh ./train.sh\n' >batch.sh
timeout 120 sbatch --wait --nodes=2 --ntasks=4 --ntasks-per-node=2 --gpus-per-node=2 --output=job.out batch.sh >submitted 2>&1 ||
    fail "the job: $(cat submitted job.out)"
cat >wanted <<'END'
0 to 4: task 0 of 4 on a1 of 2
0 to 4: task 1 of 4 on a1 of 2
0 to 4: task 2 of 4 on a2 of 2
0 to 4: task 3 of 4 on a2 of 2
4 to 6: task 0 of 2 on a1 of 1
4 to 6: task 1 of 2 on a1 of 1
END
sort tasks | diff wanted - || fail 'where the tasks ran'
printf 'a1 alloc\na2 idle\n' | diff - nodes || fail 'the node that was given back is not idle'

# Ranks that srun starts find each other without MPI.
"$dynmo" run s.json --row even >local_out || fail 'ranks that are threads'
MASTER_ADDR=127.0.0.1 timeout 120 srun --nodes=2 --ntasks=4 --ntasks-per-node=2 \
    "$dynmo" run s.json --row even --transport tcp >tcp_out 2>err || fail "ranks under srun: $(cat err)"
sed 's/transport tcp/transport local/' tcp_out | diff local_out - || fail 'ranks under srun differ'
exit "$failed"
