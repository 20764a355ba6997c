# Executing a study and a plan: on devices that take time, and on ones that train; what the README
# shows of it; and what is refused.
# usage: run.sh DYNMO, in tests/
root=$(cd .. && pwd)
. cli/expect.sh

"$dynmo" import csv "$root/traces/recorded/gpt-freezing-cpu.csv.gz" -o trace.db >/dev/null 2>&1 ||
    fail 'import of the shipped trace'
subject=run

# The run that exec/RUNNING.md shows.
"$dynmo" run "$root/models/studies/freezing.json" --trace trace.db --iterations 30 \
    --row 'partition on-change' >answer 2>err || fail "run: $(cat err)"
[ ! -s err ] || fail "run says: $(cat err)"
while IFS= read -r line; do
    grep -qxF -- "$line" "$root/exec/RUNNING.md" || fail "exec/RUNNING.md does not show: $line"
done <answer
grep -q '^iterations: 30 of 30 ' answer || fail 'an executed run is not the simulated one'

# value FILE KEY: a number or text of a JSON object on one line.
value() {
    sed -n "s/.*\"$2\":\"\{0,1\}\([^,\"}]*\).*/\1/p" "$1"
}

# JSON, and the times that simulate prints for the same row.
"$dynmo" run "$root/models/studies/freezing.json" --trace trace.db --iterations 30 \
    --row 'partition on-change' --json >run.json || fail 'run --json'
[ "$(value run.json predicted_ns)" = "$(value run.json measured_ns)" ] || fail 'times differ'
[ "$(value run.json different_ops)" = 0 ] || fail 'ops differ'

# Re-packing, predicted by the simulator while the run goes on.
cat >wide.json <<'END'
{"schema":"dynmo-study/1","name":"wide","model":"gpt-dynmo","hardware":"h100-dynmo",
 "training":{"iterations":40,"sequence_length":2048,"microbatches":32,"layers":48},
 "pipeline":{"stages":24,"schedule":"zb-h1"},
 "dynamism":{"case":"freezing","start_iteration":5,"last_iteration":35,"interval":5},
 "balancing":[{"balancer":"partition","policy":"on-change","repack":{"kind":"throughput"}}]}
END
"$dynmo" run wide.json >wide || fail 're-packing 24 ranks'
grep -q '^iterations: 40 of 40 ' wide || fail "re-packed: $(cat wide)"
grep -q ' 6 re-packings' wide || fail "re-packed: $(cat wide)"

# Ranks that decide among themselves decide what the leader would.
"$dynmo" run "$root/models/studies/freezing.json" --trace trace.db --iterations 30 \
    --row 'diffusion on-change' >central || fail 'run of diffusion'
"$dynmo" run "$root/models/studies/freezing.json" --trace trace.db --iterations 30 \
    --row 'diffusion on-change' --distributed >distributed || fail 'run --distributed'
cmp -s central distributed || fail "--distributed: $(cat distributed)"
grep -q ' 0 rebalances' distributed && fail 'a run of diffusion that decides nothing'

# A store that reports and exports read.
"$dynmo" run "$root/models/studies/freezing.json" --trace trace.db --iterations 30 \
    --row 'partition on-change' --store runs.db >stored || fail 'run --store'
cmp -s stored answer || fail 'the answer depends on --store'
"$dynmo" report runs.db -o report.html || fail 'report of an executed run'
grep -q 'dynmo run' report.html || fail 'a report without its command line'
"$dynmo" export perfetto runs.db -o timelines.json || fail 'export of an executed run'
grep -q '"F0"\|F0' timelines.json || fail 'an export without ops'
# Predicted beside measured: `--trace` takes the whole of it, from its own first iteration on.
sed 's/freezing.db", "first_iteration": 10/trace.db"/' "$root/models/studies/freezing.json" >predicted.json
"$dynmo" simulate predicted.json --store predicted.db >/dev/null || fail 'the prediction'
"$dynmo" export perfetto runs.db --beside predicted.db --row 'partition on-change' --iteration 0 -o beside.json ||
    fail 'two stores in one export'
"$dynmo" export perfetto runs.db --beside predicted.db -o same.json || fail 'two stores without a row'
[ "$(grep -c '"process_name".*"partition on-change, ' same.json)" -eq 2 ] || fail 'another row is beside that of the run'
for store in runs.db predicted.db; do
    grep -q "\"name\":\"partition on-change, $store, iteration 0" beside.json || fail "no timeline of $store"
done

# A plan file, played as it is.
"$dynmo" show trace.db --loads --json >/dev/null || fail 'show'
cat >plan.json <<'END'
{"schema":"dynmo-plan/1","first_layer":[0,3,9,12,16],"chunks":1,"placement":"interleaved",
 "schedule":"1f1b","microbatches":8,"stage_ranks":[0,1,2,3],"data_parallel":2,
 "embedding":false,"head":false}
END
"$dynmo" run plan.json --trace trace.db --iterations 3 --json >plan_run.json || fail 'run of a plan'
[ "$(value plan_run.json different_ops)" = 0 ] || fail 'ops of a plan differ'
[ "$(value plan_run.json rebalances)" = 0 ] || fail 'a plan that does not stay'

# Training: the same bits under every plan, and a trace that simulate reads.
cat >tiny.json <<'END'
{"model_type":"gpt2","n_layer":4,"n_embd":16,"n_head":2,"n_positions":32,"vocab_size":256}
END
cat >train.json <<'END'
{"schema":"dynmo-study/1","name":"tiny","model":"tiny.json","hardware":"cpu-core",
 "training":{"iterations":6,"sequence_length":16,"microbatch_size":2,"microbatches":4,"dtype":"float32"},
 "pipeline":{"stages":2,"schedule":"zb-h1"},
 "balancing":[{"balancer":"even"},{"balancer":"partition","policy":"every:2"}],
 "execution":{"text":"text.txt"}}
END
cp "$root/README.md" text.txt
"$dynmo" run train.json --device cpu --row even --record run.db --json >even.json ||
    fail 'training under even'
"$dynmo" stragglers run.db --json >slow.json || fail 'stragglers of a recorded execution'
grep -q '"by_kind":{"F":' slow.json || fail 'stragglers do not tell kinds of a recorded execution'
"$dynmo" run train.json --device cpu --json >moved.json || fail 'training under partition'
[ "$(value even.json loss_hash)" = "$(value moved.json loss_hash)" ] || fail 'losses differ'
[ "$(value even.json state_hash)" = "$(value moved.json state_hash)" ] || fail 'states differ'
[ "$(value even.json state_hash)" != 0000000000000000 ] || fail 'no state hash'

# What no machine holds is refused before it is made.
echo '{"schema":"dynmo-study/1","model":"llama-3.1-405b","hardware":"cpu-core","pipeline":{"stages":2},"training":{"sequence_length":16,"dtype":"float32"}}' >large.json
"$dynmo" run large.json --device cpu 2>err
code=$?
if [ $code -ne 3 ] || ! grep -q '^dynmo: large.json: device cpu keeps 6493.7 GB for the state of 4.06e+11 parameters, half of this machine' err; then
    fail "a model that no machine holds: exit $code, $(cat err)"
fi

# Without a text: tokens of the seed, the same under every plan.
sed 's/"text":"text.txt"/"seed":5/' train.json >drawn.json
"$dynmo" run drawn.json --device cpu --row even --json >even_drawn || fail 'training without a text'
"$dynmo" run drawn.json --device cpu --json >moved_drawn || fail 'training without a text'
[ "$(value even_drawn loss_hash)" = "$(value moved_drawn loss_hash)" ] || fail 'losses of synthetic tokens differ'
[ "$(value even_drawn synthetic_tokens) $(value even.json synthetic_tokens)" = 'true false' ] || fail 'what is synthetic'
"$dynmo" run drawn.json --device cpu --row even >out || fail 'training without a text'
grep -q '^device cpu, transport local, clock real, synthetic tokens$' out || fail "no word of synthetic tokens: $(cat out)"
sed 's/"seed":5/&,"token_bytes":2/' drawn.json >sized.json
refuse 2 'sized.json: execution.token_bytes: given, but it is of a text' sized.json --device cpu

# Blocks as Llama's and Mixtral's, on tokens of two bytes: the same bits under every plan.
cat >llama.json <<'END'
{"model_type":"llama","num_hidden_layers":4,"hidden_size":16,"intermediate_size":24,"num_attention_heads":4,
 "num_key_value_heads":2,"max_position_embeddings":32,"vocab_size":40000,"rope_theta":500000,
 "tie_word_embeddings":false}
END
sed 's/"llama"/"mixtral"/; s/"rope/"num_local_experts":4,"num_experts_per_tok":2,&/' llama.json >mixtral.json
head -c 8192 text.txt | tr '\200-\377' ' ' >tokens.bin
for model in llama mixtral; do
    sed "s/tiny.json/$model.json/; s/\"text\":\"text.txt\"/\"text\":\"tokens.bin\",\"token_bytes\":2/" \
        train.json >words.json
    "$dynmo" run words.json --device cpu --row even --json >even_$model.json || fail "training a $model"
    "$dynmo" run words.json --device cpu --json >moved_$model.json || fail "training a $model"
    [ "$(value even_$model.json loss_hash)" = "$(value moved_$model.json loss_hash)" ] ||
        fail "losses of a $model differ"
done
[ "$(value even_llama.json loss_hash)" != "$(value even_mixtral.json loss_hash)" ] || fail 'no experts'

# Experts that two replicas share: the same bits as if each had all, and tokens of both counted.
for ranks in 1 2; do
    sed "s/\"iterations\":6/&,\"data_parallel\":2,\"expert_parallel\":$ranks/" words.json >experts.json
    "$dynmo" run experts.json --device cpu --clock nominal --counts counts_$ranks.csv --json >experts_$ranks ||
        fail "experts on $ranks ranks"
    [ "$(value experts_$ranks different_ops)" = 0 ] || fail "experts on $ranks ranks: composed ops differ"
done
[ "$(value experts_1 loss_hash)" = "$(value experts_2 loss_hash)" ] || fail 'shared experts learn something else'
grep -q '"experts":{"ranks":2,"token_ratio":1\.[0-9]*,"time_ratio":1' experts_2 || fail "no imbalance: $(cat experts_2)"
grep -q '"experts"' experts_1 && fail 'experts of one rank are said to be shared'
for ranks in 1 2; do # two sequences of 16 tokens a replica, two experts each
    awk -F, -v tokens=$((64 * ranks)) 'NR > 1 && $4 + $5 + $6 + $7 != tokens { exit 1 }' counts_$ranks.csv ||
        fail "tokens of $ranks ranks: $(head -3 counts_$ranks.csv)"
done
sed 's/"execution"/"dynamism":{"case":"moe","counts":"none.csv","counted_tokens":64},&/' experts.json >counted.json
"$dynmo" simulate counted.json 2>&1 | grep -q 'counted.json: dynamism.counts: none.csv: No such file or directory$' ||
    fail 'counts that are not there'
sed 's/"execution"/"dynamism":{"case":"moe","counts":"counts_2.csv","counted_tokens":64},&/' experts.json >counted.json
"$dynmo" simulate counted.json >out 2>err || fail "simulate of the counted tokens: $(cat err)"
sed 's/"expert_parallel":2/"expert_parallel":4/' experts.json >wrong.json
refuse 2 "wrong.json: expert 4 does not divide data 2 x context 1 = 2" wrong.json --device cpu
sed 's/"data_parallel":2,"expert_parallel":2/"data_parallel":3,"expert_parallel":3/' experts.json >wrong.json
refuse 2 "wrong.json: expert 3 does not divide the 4 experts" wrong.json --device cpu
sed 's/"token_bytes":2/&,"mechanism":{"name":"mod"}/' words.json >both.json
refuse 2 "both.json: execution.mechanism.name: 'mod', but the model's layers have experts" both.json --device cpu

# Blocks that compute F again learn the same bits.
sed 's/"training":{/&"recompute":"full",/' train.json >again.json
"$dynmo" run again.json --device cpu --row even --json >again || fail 'recomputation'
[ "$(value again loss_hash)" = "$(value even.json loss_hash)" ] || fail 'recomputation changes losses'
sed 's/"text":"text.txt"/&,"mechanism":{"name":"early-exit"}/' again.json >gone.json
refuse 2 "gone.json: early-exit: blocks that compute F again would find other tokens gone" gone.json --device cpu

# Early exit by each measure of confidence; a threshold of its own unless one is given.
for measure in saturation softmax probability classifier; do
    sed 's/"text":"text.txt"/&,"mechanism":{"name":"early-exit","settle_iterations":0,"measure":"'$measure'"}/' \
        train.json >$measure.json
    "$dynmo" run $measure.json --device cpu --row even --json --counts rows.csv >even_$measure.json ||
        fail "exits by $measure"
    "$dynmo" run $measure.json --device cpu --json >moved_$measure.json || fail "exits by $measure"
    [ "$(value even_$measure.json loss_hash)" = "$(value moved_$measure.json loss_hash)" ] ||
        fail "losses of exits by $measure differ"
    [ "$(head -n 1 rows.csv)" = 'iteration,layer,microbatch,rows' ] || fail "rows by $measure: $(head -n 1 rows.csv)"
done
[ "$(value even_softmax.json loss_hash)" != "$(value even_classifier.json loss_hash)" ] || fail 'one measure'
sed 's/"measure":"softmax"/&,"threshold":0/' softmax.json >wrong.json
refuse 2 "wrong.json: threshold 0 is outside (0, 1]" wrong.json --device cpu
sed 's/"measure":"softmax"/&,"target_cosine":0.9/' softmax.json >wrong.json
refuse 2 "wrong.json: execution.mechanism.target_cosine: given, but it is of \"measure\":\"classifier\"" \
    wrong.json --device cpu
sed 's/"measure":"softmax"/"measure":"softmx"/' softmax.json >wrong.json
refuse 2 "wrong.json: execution.mechanism.measure: unknown measure 'softmx'; did you mean 'softmax'?" \
    wrong.json --device cpu

# What its first warm iterations let expect of the rest, and where the error comes from.
parts=$(sed 's/.*"error_from":{\([^}]*\)}.*/\1/' even.json | tr ',' '\n' | sed 's/.*://')
error=$(sed 's/.*"forecast":{\([^}]*\)"tolerance.*/\1/; s/.*"error_ratio":\([^,]*\),.*/\1/' even.json)
echo "$parts" | awk -v error="$error" '{ sum += $1 }
    END { exit !(error != "" && sum - error < 1e-9 && error - sum < 1e-9) }' || fail "$parts do not make the error"
[ "$(value even.json profile_iterations)" = 3 ] || fail 'iterations of the profile'
"$dynmo" run train.json --device cpu --row even --iterations 12 --tolerance 0.000001 >out 2>err
[ $? -eq 4 ] || fail 'an error beyond the tolerance is no failure'
grep -q '^forecast from 3 iterations after a warm-up of 1: ' out || fail "the forecast: $(cat out)"
grep -q 'more than the tolerance of 0.0001 %' err || fail "beyond the tolerance: $(cat err)"
"$dynmo" run train.json --device cpu --row even --iterations 12 --tolerance 1000000 >out 2>err ||
    fail "within the tolerance: $(cat err)"
"$dynmo" run train.json --device cpu --row even --iterations 4 --tolerance 1 >out 2>err
[ $? -eq 5 ] || fail 'nothing was forecast, and that was decided'

# What moving layers and deciding was to take, beside what it took: 20 us and 52,480 bytes at 5 GB/s by the link, and 1 us
# for each of 6 decisions.
sed 's/"n_layer":4/"n_layer":3/' tiny.json >odd.json
sed 's/tiny.json/odd.json/; s/"iterations":6/"iterations":12,"decision_ns":1000/; s/"partition"/"parameters"/' train.json >moving.json
"$dynmo" run moving.json --device cpu --row 'parameters every:2' --json >moving || fail 'layers that move'
[ "$(value moving moved_bytes) $(value moving forecast_migration_ns)" = '52480 30496' ] || fail "moved: $(cat moving)"
[ "$(value moving forecast_decision_ns)" = 6000 ] || fail "decided: $(cat moving)"
if [ "$(value moving migration_ns)" -le 0 ] || [ "$(value moving decision_ns)" -le 0 ]; then fail "not measured: $(cat moving)"; fi
"$dynmo" run moving.json --device cpu --row 'parameters every:2' >out || fail 'layers that move'
grep -q '^migration .*, forecast 30.5 us; decisions .*, forecast 6.00 us: +.* % of the run$' out || fail "moved: $(cat out)"
"$dynmo" run moving.json --device cpu --row even >out || fail 'layers that stay'
grep -q '^migration' out && fail 'what is never asked for is said to cost something'
[ "$(value run.json migration_ns)" -gt 0 ] || fail 'nothing moved'
[ "$(value run.json migration_ns)" = "$(value run.json forecast_migration_ns)" ] || fail 'a nominal migration'

# What was measured, composed, is what the simulator makes of it.
"$dynmo" run train.json --device cpu --clock nominal --json >nominal.json || fail 'the nominal clock'
[ "$(value nominal.json different_ops)" = 0 ] || fail 'composed ops differ'
[ "$(value nominal.json loss_hash)" = "$(value even.json loss_hash)" ] || fail 'a clock changes losses'

# Also where whole stages have nothing left to do backward.
sed 's/"text":"text.txt"/&,"mechanism":{"name":"freezing","interval":1,"start_iteration":1,"tolerance":1,"patience":1}/' \
    train.json >freezing.json
"$dynmo" run freezing.json --device cpu --clock nominal --row even --iterations 12 --json >frozen.json ||
    fail 'layers that freeze'
[ "$(value frozen.json announced_changes)" -ge 3 ] || fail 'nothing froze'
[ "$(value frozen.json different_ops)" = 0 ] || fail 'ops of frozen stages differ'

# Pruned blocks in compressed rows learn what masks do, in memory and messages of what is left.
for from in 0 0.5 2; do
    pruning="{\"name\":\"pruning\",\"start_iteration\":0,\"end_iteration\":4,\"interval\":2,\"csr_from\":$from}"
    sed "s/\"text\":\"text.txt\"/&,\"mechanism\":$pruning/" train.json >csr_$from.json
done
"$dynmo" run csr_0.json --device cpu --row even --json >masked.json || fail 'pruning'
"$dynmo" run csr_0.5.json --device cpu --json >compressed.json || fail 'pruning in compressed rows'
for hash in loss_hash state_hash; do
    [ "$(value masked.json $hash)" = "$(value compressed.json $hash)" ] || fail "compressed rows: another $hash"
done
[ "$(value masked.json loss_hash)" != "$(value even.json loss_hash)" ] || fail 'nothing was pruned'
refuse 2 "csr_2.json: csr_from 2 is outside [0, 1]" csr_2.json --device cpu
refuse 2 "pruning: csr_from 0.5: device cuda has no products in compressed rows; cpu has, and 0 keeps layers dense" \
    csr_0.5.json --device cuda --row even

# Two replicas learn from twice as much, with the same bits under every plan.
"$dynmo" run train.json --device cpu --row even --data-parallel 2 --json >even2.json || fail 'replicas'
"$dynmo" run train.json --device cpu --data-parallel 2 --json >moved2.json || fail 'replicas'
[ "$(value even2.json loss_hash)" = "$(value moved2.json loss_hash)" ] || fail 'replicas: losses differ'
[ "$(value even2.json loss_hash)" != "$(value even.json loss_hash)" ] || fail 'replicas learn nothing more'

sed 's/"model":"tiny.json","hardware":"cpu-core"/"trace":"run.db"/; s/"dtype":"float32"//; s/"microbatches":4,/"microbatches":4/' \
    train.json >replay.json
"$dynmo" simulate replay.json >replayed 2>err || fail "simulate of what was recorded: $(cat err)"

# Other values of a model's file are trained.
sed 's/"model":"tiny.json"/"model":{"base":"tiny.json","n_layer":6}/' train.json >changed.json
sed 's/"n_layer":4/"n_layer":6/' tiny.json >tall.json
"$dynmo" run changed.json --device cpu --json >changed || fail 'another number of layers'
"$dynmo" run train.json --device cpu --model tall.json --hardware cpu-core --json >tall || fail 'six layers'
[ "$(value changed state_hash)" = "$(value tall state_hash)" ] || fail 'a base is trained as it is'

# What a study says is done, or refused by name; of device timed see study_keys.py. unplayed KEY: under the sed script and the options.
unplayed() {
    key=$1 script=$2
    shift 2
    sed "$script" train.json >unplayed.json
    "$dynmo" run unplayed.json "$@" >out 2>err
    code=$?
    [ $code -eq 2 ] || fail "$key: exit status $code"
    grep -q "^dynmo: unplayed.json: $key.*\(simulated only\|trains\|after the pipeline\)" err || fail "$key: $(cat err)"
}
while read -r key value; do
    unplayed "training.$key" "s/\"training\":{/&\"$key\":$value,/" --device cpu
done <<'END'
accumulation 2
tensor_parallel 2
context_parallel 2
recompute "selective"
sharding "optimizer"
attention "unfused"
state_bytes_per_parameter 12
gradient_bytes_per_parameter 2
step "post-validation"
END
# Experts that ranks share are summed by their owners, after the pipeline.
unplayed training.reduction_overlap \
    's/"training":{/&"data_parallel":2,"expert_parallel":2,"reduction_overlap":"stage",/' --device cpu
unplayed training.dtype 's/"float32"/"bfloat16"/' --device cpu
unplayed balancing.information 's/"policy":"every:2"/&,"information":"foresight"/' --device cpu
unplayed balancing.migration.overlap 's/"policy":"every:2"/&,"migration":{"overlap":true}/' --device cpu
unplayed balancing.migration.overlap 's/"policy":"every:2"/&,"migration":{"overlap":true}/' --clock real
unplayed dynamism.case 's/"training":{/"dynamism":{"case":"freezing"},&/' --device cpu

# What is wrong is said before anything runs.
refuse 2 "--device: unknown 'gpu'; known: timed, cpu, cuda" train.json --device gpu
refuse 2 "--transport: unknown 'udp'; known: local, mpi, tcp, nccl" train.json --transport udp
refuse 2 "--clock: unknown 'wall'; known: nominal, queue, real" train.json --clock wall
refuse 2 '--record: of 3 iterations none follows a warm-up of 3' \
    train.json --device cpu --clock real --iterations 3 --warmup 3 --record none.db
refuse 2 '--record and --store both name one.db; they need two files' \
    train.json --device cpu --record one.db --store one.db
(
    OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=0
    export OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_RANK
    refuse 2 'OMPI_COMM_WORLD_SIZE=4: a launcher has started several processes, but --transport local has all ranks in one; give --transport mpi or tcp' \
        train.json --device cpu
    exit $failed
) || failed=1
(
    WORLD_SIZE=2 RANK=0
    export WORLD_SIZE RANK
    refuse 2 'no MASTER_ADDR, and no SLURM_STEP_NODELIST: nothing says where rank 0 can be reached' \
        train.json --device cpu --transport tcp
    exit $failed
) || failed=1
refuse 2 '--slow: rank 9 of 2, as one of at most 64 slow ranks' train.json --slow 9=2
refuse 2 "--slow: '1' is not RANK=X" train.json --slow 1
refuse 2 '--slow: 0.5 is outside [1, 1000]' train.json --slow 1=0.5
refuse 2 '--slow: device cuda cannot be slowed down; timed and cpu can' \
    train.json --device cuda --slow 1=2
refuse 2 "--row: the study has no row 'odd'; it has 'partition every:2', 'even'" train.json --row odd
refuse 2 '--text: device timed trains nothing; cpu and cuda do' train.json --text text.txt
refuse 2 '--trace: device cpu measures its ops; only timed is told how long they take' \
    train.json --device cpu --trace run.db
refuse 2 '--tolerance: of devices that measure, cpu and cuda under the clocks queue and real' \
    train.json --device cpu --clock nominal --tolerance 0.1
refuse 2 '--warmup: of devices that measure, cpu and cuda under the clocks queue and real' train.json --warmup 2
refuse 2 '--tolerance: -1 is outside [0, 1e+06]' train.json --device cpu --tolerance -1
refuse 2 '--transport nccl: moves the memory of GPUs; device cpu has none' \
    train.json --device cpu --transport nccl
refuse 2 "plan.json is a plan: --trace, or --model and --hardware, have to say how long its ops take" plan.json
refuse 2 'plan.json is a plan: device cpu needs --model, what is trained' plan.json --device cpu
sed 's/9,12,16/9,12,15/' plan.json >short.json
refuse 2 "short.json: a plan of 15 layers, but trace.db has 16" short.json --trace trace.db
refuse 1 "none.txt: No such file or directory" train.json --device cpu --text none.txt
: >empty.txt
"$dynmo" run train.json --device cpu --text empty.txt >out 2>err && fail 'an empty text is trained on'
grep -q 'empty.txt' err || fail "an empty text: $(cat err)"
sed 's/"vocab_size":256/"vocab_size":100/' tiny.json >few.json
refuse 2 "text.txt: token 2 is 100; the vocabulary has 100" \
    train.json --device cpu --model few.json --hardware cpu-core
refuse 2 "gpt-oss-20b: device cpu trains models of type gpt2, llama, mistral, mixtral and qwen2 only; this is a gpt_oss" \
    train.json --device cpu --model gpt-oss-20b --hardware cpu-core
sed 's/"text":"text.txt"/"text":"text.txt","token_bytes":3/' train.json >odd.json
refuse 2 "odd.json: execution.token_bytes: 3 is not 1, 2 or 4" odd.json --device cpu
sed 's/"text":"text.txt"/"text":"text.txt","mechanism":{"name":"moe","experts":4}/' train.json >moe.json
refuse 2 "moe.json: execution.mechanism: unknown key 'experts'; known: expert_count, top_k, expert_width, balance, sinkhorn_rounds, name" \
    moe.json --device cpu
sed 's/"text":"text.txt"/&,"mechanism":{"name":"sparse-attention","order":"random"}/' train.json >odd.json
refuse 2 "odd.json: execution.mechanism.order: unknown order 'random'; known: sorted, text" odd.json --device cpu
sed 's/"text":"text.txt"/&,"mechanism":{"name":"sparse-attention","affinity":1.5}/' train.json >odd.json
refuse 2 'odd.json: execution.mechanism.affinity: given, but it is of "order":"text"' odd.json --device cpu
for order in sorted text; do
    sed 's/"text":"text.txt"/&,"mechanism":{"name":"sparse-attention","order":"'$order'"}/' train.json >$order.json
    "$dynmo" run $order.json --device cpu --iterations 2 --counts $order.csv >$order.out 2>err || fail "$order: $(cat err)"
    awk -F, 'NR == 1 { bad = $0 != "iteration,layer,microbatch,met,dense"; next }
        $4 < 1 || $4 > $5 { bad = 1 } END { exit bad || NR < 3 }' $order.csv || fail "$order: $(cat $order.csv)"
done
[ "$(grep '^loss hash' sorted.out)" != "$(grep '^loss hash' text.out)" ] || fail 'both orders learn the same'
refuse 2 "--counts: moe, mod, early-exit and sparse-attention count; the study trains with 'none'" \
    train.json --device cpu --counts counts.csv

sed 's/"text":"text.txt"/"text":"text.txt","learning_rate":900,"clip_norm":0,"weight_decay":90/' train.json >wild.json
"$dynmo" run wild.json --device cpu --iterations 200 >out 2>err && fail 'a run that diverges'
grep -q 'the training diverges; lower execution.learning_rate' err || fail "a run that diverges: $(cat err)"

# An interrupted run ends by itself, and what it recorded can be read.
"$dynmo" run train.json --device cpu --iterations 100000 --record stopped.db >out 2>err &
pid=$!
tries=0
while [ ! -s stopped.db-wal ] && [ ! -s stopped.db ] && [ $tries -lt 600 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
sleep 1
kill -INT $pid
wait $pid
[ $? -eq 130 ] || fail "an interrupted run: $(cat err)"
exit $failed
