# What a run says does not depend on whether its ranks are threads or processes: times under the
# nominal clock, losses, states; and a run that goes wrong ends on all ranks with one message.
# Usage: mpi_run.sh DYNMO TRANSPORT, in tests/
root=$(cd .. && pwd)
transport=$2
launch=$root/tests/mpi/launch
[ "$transport" = mpi ] || launch=${launch}_$transport
. cli/expect.sh

"$launch" 1 "$dynmo" --version >version 2>&1
case $? in 0) ;; 77) cat version && exit 77 ;; *) fail "$launch: $(cat version)" ;; esac

# same RANKS WORD...: `dynmo run` with the words says the same over local and over the transport.
same() {
    ranks=$1
    shift
    "$dynmo" run "$@" >local_out 2>&1 || fail "run $*: $(cat local_out)"
    "$launch" "$ranks" "$dynmo" run "$@" --transport "$transport" >mpi_out 2>&1
    if grep -q 'this build has no MPI' mpi_out; then
        echo 'skipped: built without MPI'
        exit 77
    fi
    sed -i "s/transport $transport/transport local/; s/\"transport\":\"$transport\"/\"transport\":\"local\"/" mpi_out
    cmp -s local_out mpi_out || fail "run $* differs: $(diff local_out mpi_out)"
}

# 24 ranks, ops of nominal times, migrations, re-packing.
cat >wide.json <<'END'
{"schema":"dynmo-study/1","name":"wide","model":"gpt-dynmo","hardware":"h100-dynmo",
 "cluster":{"nodes":24},
 "training":{"iterations":30,"sequence_length":2048,"microbatch_size":2,"microbatches":32,"layers":48},
 "pipeline":{"stages":24,"schedule":"zb-h1"},
 "dynamism":{"case":"freezing","start_iteration":5,"last_iteration":25,"interval":5},
 "balancing":[{"balancer":"partition","policy":"on-change"},
  {"balancer":"partition","policy":"on-change","label":"re-packed",
   "repack":{"kind":"throughput","tolerance":0.05}}]}
END
same 24 wide.json
grep -q 'ops: all .* at the nanosecond that the simulator says' mpi_out || fail "$(cat mpi_out)"
same 24 wide.json --row re-packed
grep -q ' [1-9][0-9]* re-packings' mpi_out || fail "no re-packing: $(cat mpi_out)"
sed 's/"stages":24,"schedule":"zb-h1"/"stages":4,"schedule":"interleaved-1f1b"/' wide.json >few.json
same 8 few.json --data-parallel 2
# A rank at half the speed, which the balancer answers.
same 4 few.json --slow 1=2
cp mpi_out slowed
same 4 few.json
cmp -s slowed mpi_out && fail 'a slow rank changes nothing'
# Two chunks per rank, folded and in order: plans that move chunks of both rows.
for schedule in zb-v v-half interleaved-zb; do
    sed "s/\"stages\":24,\"schedule\":\"zb-h1\"/\"stages\":4,\"schedule\":\"$schedule\"/" wide.json >chunks.json
    same 4 chunks.json
    grep -q 'ops: all .* at the nanosecond that the simulator says' mpi_out || fail "$(cat mpi_out)"
    grep -q ' [1-9][0-9]* rebalances' mpi_out || fail "$schedule: nothing moved: $(cat mpi_out)"
done

# Training: the same losses and states.
cat >tiny.json <<'END'
{"model_type":"gpt2","n_layer":4,"n_embd":16,"n_head":2,"n_positions":32,"vocab_size":256}
END
cat >train.json <<'END'
{"schema":"dynmo-study/1","name":"tiny","model":"tiny.json","hardware":"cpu-core",
 "training":{"iterations":6,"sequence_length":16,"microbatch_size":2,"microbatches":4,"dtype":"float32"},
 "pipeline":{"stages":4,"schedule":"zb-h1"},
 "balancing":[{"balancer":"partition","policy":"every:2"}],
 "execution":{"text":"text.txt"}}
END
cp "$root/README.md" text.txt

# learnt FILE: what a run learnt.
learnt() {
    grep '^loss' "$1"
}

"$dynmo" run train.json --device cpu >local_out 2>&1 || fail "training: $(cat local_out)"
for stages in 1 2 4; do
    sed "s/\"stages\":4/\"stages\":$stages/" train.json >cut.json
    "$launch" $stages "$dynmo" run cut.json --device cpu --transport "$transport" >mpi_out 2>&1 ||
        fail "training on $stages ranks: $(cat mpi_out)"
    [ "$(learnt local_out)" = "$(learnt mpi_out)" ] ||
        fail "another training on $stages ranks: $(cat local_out mpi_out)"
done
# Tokens of the seed, where there is no text.
sed 's/"text":"text.txt"/"seed":5/' train.json >drawn.json
"$dynmo" run drawn.json --device cpu >drawn_out 2>&1 || fail "no text: $(cat drawn_out)"
"$launch" 4 "$dynmo" run drawn.json --device cpu --transport "$transport" >mpi_out 2>&1 || fail "no text: $(cat mpi_out)"
[ "$(learnt drawn_out)" = "$(learnt mpi_out)" ] || fail "other synthetic tokens: $(cat drawn_out mpi_out)"
for schedule in zb-v v-half interleaved-zb; do
    sed "s/\"stages\":4,\"schedule\":\"zb-h1\"/\"stages\":2,\"schedule\":\"$schedule\"/; s/every:2/every:1/" \
        train.json >folded.json
    "$dynmo" run folded.json --device cpu >folded_out 2>&1 || fail "$schedule: $(cat folded_out)"
    "$launch" 2 "$dynmo" run folded.json --device cpu --transport "$transport" >mpi_out 2>&1 ||
        fail "$schedule over mpi: $(cat mpi_out)"
    for out in folded_out mpi_out; do
        [ "$(learnt local_out)" = "$(learnt $out)" ] ||
            fail "another training under $schedule: $(cat local_out $out)"
    done
done
"$dynmo" run train.json --device cpu --data-parallel 2 >local_out 2>&1 || fail 'two replicas'
"$launch" 8 "$dynmo" run train.json --device cpu --data-parallel 2 --transport "$transport" >mpi_out 2>&1
[ "$(learnt local_out)" = "$(learnt mpi_out)" ] ||
    fail "another training of two replicas: $(cat local_out mpi_out)"
# Gradients that are summed while ops still run.
for overlap in stage backward; do
    sed "s/\"stages\":4/\"stages\":2/; s/\"iterations\"/\"data_parallel\":2,\"reduction_overlap\":\"$overlap\",&/" \
        train.json >hidden.json
    "$launch" 4 "$dynmo" run hidden.json --device cpu --transport "$transport" >mpi_out 2>&1 ||
        fail "reduction_overlap $overlap: $(cat mpi_out)"
    [ "$(learnt local_out)" = "$(learnt mpi_out)" ] ||
        fail "another training with reduction_overlap $overlap: $(cat local_out mpi_out)"
done

# Ranks that share the experts of their blocks: with migrations, and as if each had all.
cat >mixtral.json <<'END'
{"model_type":"mixtral","num_hidden_layers":4,"hidden_size":16,"intermediate_size":24,"num_attention_heads":4,
 "num_key_value_heads":2,"max_position_embeddings":32,"vocab_size":256,"num_local_experts":4,
 "num_experts_per_tok":2,"tie_word_embeddings":false}
END
sed 's/tiny.json/mixtral.json/; s/"stages":4/"stages":2/; s/"iterations"/"data_parallel":2,"expert_parallel":2,&/' \
    train.json >experts.json
"$dynmo" run experts.json --device cpu >local_out 2>&1 || fail "shared experts: $(cat local_out)"
"$launch" 4 "$dynmo" run experts.json --device cpu --transport "$transport" >mpi_out 2>&1 ||
    fail "shared experts over mpi: $(cat mpi_out)"
[ "$(learnt local_out)" = "$(learnt mpi_out)" ] ||
    fail "another training with shared experts: $(cat local_out mpi_out)"

# once MESSAGE: one process has said it, in one line of the last run's standard error.
once() {
    [ "$(grep '^dynmo: ' err)" = "dynmo: $1" ] || fail "not just '$1': $(cat err)"
}

"$launch" 2 "$dynmo" run train.json --device cpu --transport "$transport" >out 2>err && fail 'two ranks of four'
if [ "$transport" = tcp ]; then
    once "transport 'tcp': 4 ranks are needed, 2 were started; start as many with srun -n 4 or torchrun"
else
    once "transport 'mpi': 4 ranks are needed, 2 were started; start as many with mpirun -n 4"
fi
"$launch" 4 "$dynmo" run none.json --transport "$transport" >out 2>err && fail 'a study that is not there'
once 'none.json: No such file or directory'

# Only one rank lacks a file: the leader cannot say it.
cat >apart <<'END'
# apart COMMAND...: rank 1 is in a folder without the text.
if [ "${OMPI_COMM_WORLD_RANK:-${RANK:-0}}" = 1 ]; then cd bare; fi
exec "$@"
END
mkdir bare
cp train.json tiny.json bare
"$launch" 4 sh ./apart "$dynmo" run train.json --device cpu --transport "$transport" >out 2>err && fail 'no text'
once 'rank 1: text.txt: No such file or directory'

# A rank dies in the middle: the others end, and what was recorded can be read.
"$launch" 4 "$dynmo" run train.json --device cpu --iterations 1000000 --transport "$transport" \
    --record died.db >out 2>err &
job=$!
tries=0
until "$dynmo" show died.db 2>/dev/null | grep -q ' [1-9][0-9]* samples' || [ $tries -gt 600 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
for process in /proc/[0-9]*; do
    parent=$(sed -n 's/^PPid:[^0-9]*//p' "$process/status" 2>/dev/null)
    [ "$parent" = "$job" ] && victim=${process#/proc/}
done
kill -KILL "$victim" || fail 'no process of a rank'
wait "$job" && fail 'a run whose rank died ends well'
grep -q 'process rank [0-3] with PID\|rank [0-3] is lost: its connection was closed' err ||
    fail "a rank that died: $(cat err)"
[ "$(grep -c '^dynmo: ' err)" -le 1 ] || fail "more than one message: $(cat err)"
"$dynmo" show died.db >shown 2>&1
grep -q ' [1-9][0-9]* samples' shown || fail "what was recorded: $(cat shown)"
exit $failed
