# export pytorch, megatron, deepspeed, torchtitan: exact files, and what cannot be exported. That the
# frameworks take them is tested in tests/exchange, where they are installed.
# Usage: export.sh DYNMO
# shellcheck disable=SC2016 # what is printed is not expanded here
. cli/expect.sh

plan() { # plan FIRST_LAYER CHUNKS PLACEMENT SCHEDULE MICROBATCHES RANKS EMBEDDING HEAD: a plan file
    printf '{"schema":"dynmo-plan/1","first_layer":%s,"chunks":%d,"placement":"%s","schedule":"%s","microbatches":%d,"stage_ranks":%s,"data_parallel":1,"embedding":%s,"head":%s}\n' "$@"
}
plan '[0,3,5,8]' 1 interleaved 1f1b 4 '[0,1,2]' true true >p.json
plan '[0,3,3,6,10]' 2 interleaved interleaved-1f1b 4 '[0,1]' true true >chunks.json
plan '[0,2,4,6,8]' 2 v zb-v-hand 4 '[0,1]' true true >v.json
plan '[0,2,2,4]' 1 interleaved zb-h1 4 '[5,3,4]' false false >empty.json
plan '[0,2,3,4]' 1 interleaved zb-h1 4 '[0,1,2]' false false >bare.json

subject='export pytorch'
prints '0F0,0F1,0F2,0B0,0F3,0B1,0B2,0B3
1F0,1F1,1B0,1F2,1B1,1F3,1B2,1B3
2F0,2B0,2F1,2B1,2F2,2B2,2F3,2B3' p.json
echo '{"order":[["F0","F1","1:F0","1:BW0","1:F1&BW0","1:BW1","BW1"]],"placement":"v"}' >pair.json
prints '0F0,0F1,1F0,1B0,(1F1;0B0)OVERLAP_F_B,1B1,0B1' pair.json
echo '{"forward_ns":[2,2],"backward_input_ns":[2,2],"backward_weight_ns":[2,2]}' >costs.json
plan '[0,4,8]' 1 interleaved zb-auto 2 '[0,1]' true true >searched.json
refuse 2 'searched.json: schedule zb-auto is searched on costs, and the plan has no order: give --costs, or what `dynmo schedule --json` printed' \
    searched.json
expect 0 '0F0,0F1,0I0,0W0,0I1,0W1
1F0,1I0,1F1,1I1,1W0,1W1' 'predicted makespan: 14 ns as planned, 14 ns as written' searched.json --costs costs.json --exact
refuse 2 'costs.json: forward_ns: has 2 entries, needs one for each of 3 ranks' p.json --costs costs.json
# PyTorch's whole backward on the first stage delays F2, and with it the second stage: by hand.
echo '{"order":[["F0","F1","B0","F2","B1","B2","W0","W1","W2"],["F0","B0","F1","B1","F2","B2","W0","W1","W2"]]}' >late.json
echo '{"forward_ns":[10,10],"backward_input_ns":[10,10],"backward_weight_ns":[10,40]}' >slow.json
expect 0 '0F0,0F1,0B0,0F2,0B1,0B2
1F0,1I0,1F1,1I1,1F2,1I2,1W0,1W1,1W2' 'predicted makespan: 190 ns as planned, 200 ns as written' late.json --costs slow.json
# A plan that was searched for it runs as planned; one that was not takes longer.
times='"forward_ns":[5,7,10,5],"backward_input_ns":[18,10,16,14],"backward_weight_ns":[20,8,10,8]'
echo "{$times}" >costs4.json
echo "{$times,\"activation_bytes\":[1,1,1,1],\"gradient_bytes\":[0,0,0,0],\"stage_memory_bytes\":[3,6,2,4]}" >loads4.json
for how in split whole; do
    "$dynmo" plan --loads loads4.json --stages 4 --microbatches 10 --balancer makespan --schedule any --chunks 1 --json \
        --first-stage-backward $how -o $how.json >$how.out || fail "a plan for a first stage that is $how"
    grep -q '"makespan_ns":482,' $how.out || fail "the makespan of a plan for a first stage that is $how"
    "$dynmo" export pytorch $how.json --costs costs4.json >$how.csv 2>$how.err || fail "export of $how.json"
    grep -q '0[IW]' $how.csv && fail "$how.csv: the first stage has a backward in two parts"
done
[ "$(cat split.err)" = 'predicted makespan: 482 ns as planned, 563 ns as written' ] || fail "$(cat split.err)"
[ "$(cat whole.err)" = 'predicted makespan: 482 ns as planned, 482 ns as written' ] || fail "$(cat whole.err)"
"$dynmo" schedule --order whole.csv --costs costs4.json --first-stage-backward whole --json |
    grep -q '"makespan_ns":482,' || fail 'the exported order is not played as it was planned'
refuse 2 '--exact: whole.json is planned for a first stage whose backward is whole' whole.json --exact
echo '{"order":[["F0","F1","BW0"]]}' >short.json
refuse 2 'short.json: rank 0: BW1 is missing' short.json
refuse 1 'absent.json: No such file or directory' absent.json
echo '{"schema":"dynmo-plan/2"}' >newer.json
refuse 2 "newer.json: schema: 'dynmo-plan/2' is not dynmo-plan/1" newer.json
refuse 1 'no/such/folder/out.csv: No such file or directory' p.json -o no/such/folder/out.csv
"$dynmo" export pytorch p.json -o written.csv || fail 'pytorch to a file'
"$dynmo" export pytorch p.json | cmp -s - written.csv || fail 'the file and standard output differ'

# What is exported is what is read again: every schedule, its order to the op.
for schedule in gpipe 1f1b 'interleaved-1f1b --chunks 2' 'interleaved-1f1b --chunks 3' zb-h1 zb-h2 zb-auto \
    'interleaved-zb --chunks 2' zb-v zb-v-hand dualpipe-v 1f1b-v v-half v-min; do
    for ranks in 2 3 4; do
        # shellcheck disable=SC2086 # a name and an option
        "$dynmo" schedule --schedule $schedule --stages $ranks --microbatches $((3 * ranks)) --json >o.json ||
            fail "$schedule on $ranks"
        "$dynmo" export pytorch o.json --exact -o o.csv || fail "export of $schedule on $ranks"
        "$dynmo" schedule --order o.csv --json | cmp -s - o.json || fail "$schedule on $ranks read back differs"
        # Without --exact the first stage has whole backwards, as PyTorch runs it, where it had two parts.
        "$dynmo" export pytorch o.json -o p.csv || fail "export of $schedule on $ranks for PyTorch"
        tr ',' '\n' <p.csv | grep -q '^(*0[IW]' && fail "$schedule on $ranks: parts of the first stage's backward"
        tr ',' '\n' <o.csv | grep -v '^0W' | sed 's/^0I/0B/' | cmp -s - "$(tr ',' '\n' <p.csv >p.cells; echo p.cells)" ||
            fail "$schedule on $ranks: another order for PyTorch"
        "$dynmo" schedule --order p.csv --json >/dev/null || fail "$schedule on $ranks for PyTorch cannot be played"
    done
done

subject='export megatron'
prints '# Options of Megatron-LM, for bash: "${PIPELINE_ARGS[@]}" after the training script.
# 1f1b on 3 ranks, 1 chunk per rank, 4 microbatches.
# --global-batch-size is 4 * --micro-batch-size * replicas.
PIPELINE_ARGS=(
    --num-layers 6
    --pipeline-model-parallel-size 3
    --pipeline-model-parallel-layout '"'Et*2|t*2|t*2L'"'
)' \
    p.json
prints '{"num_layers":8,"pipeline_model_parallel_size":2,"virtual_pipeline_model_parallel_size":2,"pipeline_model_parallel_layout":"Et*2||t*3|t*3L"}' \
    chunks.json --json
prints '# Options of Megatron-LM, for bash: "${PIPELINE_ARGS[@]}" after the training script.
# zb-h1 on 3 ranks, 1 chunk per rank, 4 microbatches.
# The split alone is of the plan: this runs 1f1b.
# Ranks of the cluster, by rank of the pipeline: 5 3 4
# --global-batch-size is 4 * --micro-batch-size * replicas.
PIPELINE_ARGS=(
    --num-layers 4
    --pipeline-model-parallel-size 3
    --pipeline-model-parallel-layout '"'Et*2||t*2L'"'
)' empty.json --split-only
refuse 2 'empty.json: schedule zb-h1: with 1 chunk a rank Megatron runs 1f1b in its own order; plan for that (--schedule 1f1b), or give --split-only for the layers of the stages alone' \
    empty.json
printf '%s' '{"schema":"dynmo-plan/1","first_layer":[0,4,8],"chunks":1,"placement":"interleaved","schedule":"1f1b","microbatches":2,"stage_ranks":[0,1],"data_parallel":1,"embedding":true,"head":true,"order":[["F0","F1","BW0","BW1"],["F0","BW0","F1","BW1"]]}' >ordered.json
refuse 2 'ordered.json: an order of its own, schedule 1f1b: with 1 chunk a rank Megatron runs 1f1b in its own order; plan for that (--schedule 1f1b), or give --split-only for the layers of the stages alone' \
    ordered.json
refuse 2 'v.json: placement v: a layout of Megatron places chunks interleaved only: stage i on rank i mod 2; plan for 1f1b or interleaved-1f1b (--schedule), or for another schedule without a V and give --split-only' v.json
# With what layers cost, the best that Megatron can stands beside what it cannot: as plan finds it under 1f1b (five
# microbatches do not divide by two ranks) and interleaved-1f1b with up to 8 chunks.
echo '{"forward_ns":[1000,2000,3000,1000,2000,3000,1000,2000,3000,1000],"backward_input_ns":[2000,4000,6000,2000,4000,6000,2000,4000,6000,2000],"backward_weight_ns":[1000,2000,3000,1000,2000,3000,1000,2000,3000,1000]}' >loads.json
best() { # SCHEDULE MICROBATCHES WANTED
    "$dynmo" plan --loads loads.json --stages 2 --balancer makespan --schedule "$1" --microbatches "$2" -o beside.json >asked || fail "plan for $1"
    "$dynmo" export megatron beside.json --loads loads.json >out 2>err
    [ $? -eq 2 ] || fail "$1: exit code"
    grep -q "; Megatron's best is $3 beside $(awk '/^makespan  *[0-9]/ { print $2, $3 }' asked) of this plan (--balancer makespan)\$" err || fail "$1: $(cat err)"
}
best zb-h1 5 '1f1b with 1 chunk and layers 5 5, 236 us'
best zb-v 4 'interleaved-1f1b with 4 chunks and layers 1 1 1 2 1 2 1 1, 164 us'
best any 4 'interleaved-1f1b with 4 chunks and layers 1 1 1 2 1 2 1 1, 164 us'
"$dynmo" export megatron beside.json --loads - <loads.json >out 2>piped
cmp -s err piped || fail "loads of standard input, which is read once: $(cat piped)"
alone() { # SCHEDULE MICROBATCHES MICROSECONDS CHUNKS
    "$dynmo" plan --loads loads.json --stages 2 --balancer makespan --schedule "$1" --microbatches "$2" --chunks "$4" | grep -q "^makespan *$3 us " || fail "plan differs for $1"
}
alone 1f1b 5 236 1
alone interleaved-1f1b 4 164 4
refuse 2 'empty.json: --loads: 10 layers, the plan has 4' empty.json --loads loads.json
refuse 2 'empty.json: give one of --loads and --trace' empty.json --loads loads.json --trace none.db
plan '[0,0,8]' 1 interleaved 1f1b 4 '[0,1]' true true >late.json
refuse 2 'late.json: stage 0 is empty: frameworks keep the embedding, layer 0, on the first stage' late.json
plan '[0,8,8]' 1 interleaved 1f1b 4 '[0,1]' true true >early.json
refuse 2 'early.json: stage 1 is empty: frameworks keep the head, layer 7, on the last stage' early.json
plan '[0,1,2]' 1 interleaved 1f1b 4 '[0,1]' true true >none.json
refuse 2 "none.json: the plan's 2 layers hold no block between embedding and head" none.json
subject='export deepspeed'
prints '# zb-h1 on 3 ranks, 1 chunk per rank, 4 microbatches.
# The split alone is of the plan: this runs 1f1b.
# gradient_accumulation_steps is 4.
from deepspeed.pipe import PipelineModule


class PlannedPipelineModule(PipelineModule):
    """A PipelineModule whose stages are PARTS of its layers."""

    PARTS = [0, 2, 3, 4]

    def _partition_layers(self, method="uniform"):
        if len(self._layer_specs) != self.PARTS[-1]:
            raise ValueError(f"{len(self._layer_specs)} layers, the plan has {self.PARTS[-1]}")
        if self.num_stages != len(self.PARTS) - 1:
            raise ValueError(f"{self.num_stages} stages, the plan has {len(self.PARTS) - 1}")
        self.parts = list(self.PARTS)
        stage = self._topo.get_coord(self.global_rank).pipe
        self._set_bounds(start=self.parts[stage], stop=self.parts[stage + 1])' bare.json --split-only
prints '{"num_stages":3,"parts":[0,3,4,7]}' bare.json --specs-before 1 --specs-after 2 --json --split-only
prints '{"num_stages":3,"parts":[0,3,5,8]}' p.json --json
refuse 2 'empty.json: stage 1 owns no layer: DeepSpeed trains no stage without parameters' empty.json --split-only
refuse 2 'bare.json: schedule zb-h1: with 1 chunk a rank DeepSpeed runs 1f1b in its own order; plan for that (--schedule 1f1b), or give --split-only for the layers of the stages alone' \
    bare.json
refuse 2 'chunks.json: chunks 2: DeepSpeed has one stage per rank' chunks.json
refuse 2 '--specs-before: -1 is outside [0, 1048576]' p.json --specs-before -1

subject='export torchtitan'
prints '# Settings of torchtitan'"'"'s ParallelismConfig.
# zb-v-hand on 2 ranks, 2 chunks per rank, 4 microbatches.
# The order is in the CSV; of the schedule'"'"'s name only the placement counts.
# training.local_batch_size is 4 * parallelism.pipeline_parallel_microbatch_size.
parallelism = dict(
    pipeline_parallel_degree=2,
    pipeline_parallel_schedule="ZBVZeroBubble",
    pipeline_parallel_schedule_csv="schedule.csv",
    module_fqns_per_model_part=[
        ["tok_embeddings", "layers.0"],
        ["layers.1", "layers.2"],
        ["layers.3", "layers.4"],
        ["layers.5", "norm", "lm_head"],
    ],
)' v.json
prints '{"pipeline_parallel_degree":3,"pipeline_parallel_schedule":"1F1B","pipeline_parallel_schedule_csv":"o.csv","module_fqns_per_model_part":[["tok_embeddings", "layers.0", "layers.1"],["layers.2", "layers.3"],["layers.4", "layers.5", "norm", "lm_head"]]}' p.json --csv o.csv --json
refuse 2 "p.json: path 'a\"b' has a quote, a backslash or a control character" p.json --csv 'a"b'
refuse 2 "empty.json: stage 1 owns no module: torchtitan's optimizer takes no part without parameters" empty.json
# Plans of a recorded run, and of the points of a study.
cat >study.json <<'END'
{"schema":"dynmo-study/1","model":"llama-3-8b","hardware":"h100-sxm","cluster":{"gpus_per_node":8},
 "training":{"iterations":1,"microbatches":8,"sequence_length":4096,"microbatch_size":2,"dtype":"float8",
             "tensor_parallel":2,"context_parallel":2,"data_parallel":2,"rank_order":"pipeline-first","recompute":"selective",
             "sharding":"optimizer"},
 "pipeline":{"stages":4,"schedule":"1f1b"},
 "balancing":[{"balancer":"even"},{"balancer":"partition","label":"cut"}]}
END
"$dynmo" simulate study.json --store run.db >/dev/null || fail 'a recorded run'
subject='export megatron'
refuse 2 "run.db: choose --row of 'even', 'cut'" run.db
refuse 2 "run.db: no plan of row 'other'; there are 'even', 'cut'" run.db --row other
refuse 2 "study.json: choose --point of 0 to 1" study.json
refuse 2 "--point 2: study.json has points 0 to 1" study.json --point 2
"$dynmo" export megatron run.db --row cut -o recorded.sh || fail 'a recorded row'
"$dynmo" export megatron study.json --point 1 -o point.sh || fail 'a point'
grep -v '^    --\(tensor\|context\|seq\|micro\|global\|recompute\|use-\|bf16\)' point.sh | cmp -s - recorded.sh ||
    fail 'a point and a recorded row have other plans'
"$dynmo" export pytorch run.db --row cut >order.csv || fail 'the order of a recorded row'
"$dynmo" export pytorch study.json --point 1 | cmp -s - order.csv || fail 'the order of a point'
# A point's order is known, also where it was searched.
sed 's/"1f1b"/"zb-auto"/' study.json >searched_study.json
subject='export pytorch'
"$dynmo" export pytorch searched_study.json --point 1 -o searched.csv || fail 'the searched order of a point'
[ "$(wc -l <searched.csv)" -eq 4 ] || fail "the searched order of a point: $(cat searched.csv)"
subject='export megatron'
[ "$(sed -n '/parallel-layout/,/^)/p' point.sh)" = "    --pipeline-model-parallel-layout 'Et*8|t*9|t*9|t*6L'
    --tensor-model-parallel-size 2
    --context-parallel-size 2
    --seq-length 4096
    --micro-batch-size 2
    --global-batch-size 32
    --recompute-granularity selective
    --use-distributed-optimizer
    --use-tp-pp-dp-mapping
    --bf16 --fp8-format hybrid --fp8-recipe tensorwise
)" ] || fail "options of a point: $(cat point.sh)"
sed 's/"recompute":"selective"/&,"reduction_overlap":"backward"/' study.json >overlapped.json
"$dynmo" export megatron overlapped.json --point 1 | grep -qx -- '    --overlap-grad-reduce' || fail 'reductions that hide'
"$dynmo" export megatron-bridge overlapped.json --point 1 | grep -qx 'ddp.overlap_grad_reduce=true' ||
    fail 'reductions that hide: megatron-bridge'
sed 's/"selective"/"mlp"/' study.json >modules.json # which modules depends on the model
refuse 2 'modules.json: recompute mlp: no option of Megatron-LM is known for it' modules.json --point 1
cat >predicting.json <<'EOF'
{"schema": "dynmo-study/1", "model": "deepseek-v3", "hardware": "h100-sxm", "training": {"expert_parallel": 64,
 "data_parallel": 64, "sharding": "optimizer"}, "pipeline": {"stages": 16, "schedule": "1f1b"}, "balancing": [{"balancer": "even"}],
 "cluster": {"memory_bytes": 0}}
EOF
"$dynmo" export megatron predicting.json -o predicting.sh || fail 'a model that predicts several tokens'
if ! grep -q 't\*[0-9]*mL' predicting.sh || ! grep -q -- '--mtp-num-layers 1$' predicting.sh; then
    fail "a model that predicts several tokens: $(cat predicting.sh)"
fi
grep -qxF -- '    --moe-token-dispatcher-type flex --moe-flex-dispatcher-backend deepep' predicting.sh ||
    fail 'experts over nodes'
sed 's/"expert_parallel": 64/"expert_parallel": 64, "expert_deduplication": 0/' predicting.json >copies.json
"$dynmo" export megatron copies.json -o copies.sh || fail 'a copy of a token for each expert'
grep -qxF -- '    --moe-token-dispatcher-type alltoall' copies.sh || fail 'a copy of a token for each expert'
"$dynmo" export megatron-bridge copies.json | grep -qxF 'model.moe_token_dispatcher_type=alltoall' ||
    fail 'a copy of a token for each expert, Megatron-Bridge'
# Within a node the prediction is of neither way.
cat >between.json <<'EOF'
{"schema": "dynmo-study/1", "model": "mixtral-8x7b", "hardware": "h100-sxm", "training": {"expert_parallel": 8, "data_parallel": 8,
 "global_batch": 64}, "pipeline": {"stages": 4, "schedule": "1f1b"}, "balancing": [{"balancer": "even"}], "cluster": {"memory_bytes": 0}}
EOF
between=' takes [+-][0-9.]* %, '
between="dynmo: the prediction lies between two dispatchers of tokens: alltoall, which is written,${between}deepep -[0-9.]* % (training.expert_deduplication 0 and 1)"
for framework in megatron megatron-bridge; do
    "$dynmo" export $framework between.json >between.sh 2>note || fail "between two dispatchers, $framework"
    grep -q 'alltoall' between.sh || fail "between two dispatchers, $framework: $(cat between.sh)"
    grep -qx "$between" note || fail "between two dispatchers, $framework: $(cat note)"
done
"$dynmo" export megatron copies.json 2>note >copies.sh
[ -s note ] && fail "a dispatcher that is given: $(cat note)"
# The exchange of experts hides with several chunks, or one stage; graphs are of dense models.
sed 's/"expert_parallel": 64/"expert_parallel": 64, "expert_overlap": 0.7/' predicting.json >overlap.json
sed 's/"schedule": "1f1b"/"schedule": "interleaved-1f1b", "chunks": 2/; s/"stages": 16/"stages": 8/' overlap.json >chunks.json
"$dynmo" export megatron chunks.json | grep -qxF -- '    --overlap-moe-expert-parallel-comm' || fail 'an exchange that hides'
"$dynmo" export megatron-bridge chunks.json | grep -qxF 'comm_overlap.overlap_moe_expert_parallel_comm=true' ||
    fail 'an exchange that hides, Megatron-Bridge'
subject='export megatron'
refuse 2 'overlap.json: expert_overlap 0.7: Megatron-LM takes one stage or several chunks for it, and no full recomputation' overlap.json
sed 's/"expert_overlap": 0.7/"cuda_graphs": true/' overlap.json >graphs.json
refuse 2 'graphs.json: cuda_graphs: of a model with experts Megatron-LM needs a capacity for each, which no study has' graphs.json
sed 's/deepseek-v3/llama-3-8b/; s/"expert_parallel": 64,//; s/"stages": 16/"stages": 4/' graphs.json >dense.json
sed -i 's/"training": {/"training": {"cuda_graphs": true, /; s/"cuda_graphs": true, *"cuda_graphs": true/"cuda_graphs": true/' dense.json
"$dynmo" export megatron dense.json |
    grep -qxF -- '    --cuda-graph-impl full_iteration --no-check-for-nan-in-loss-and-grad' || fail 'iterations as graphs'
subject='export torchtitan'
refuse 2 'dense.json: cuda_graphs: no option of torchtitan is known for it' dense.json
subject='export megatron-bridge'
prints 'model.num_layers=32
model.pipeline_model_parallel_size=4
model.pipeline_model_parallel_layout="Et*8|t*9|t*9|t*6L"
model.tensor_model_parallel_size=2
model.sequence_parallel=false
model.context_parallel_size=2
model.expert_tensor_parallel_size=2
model.seq_length=4096
train.micro_batch_size=2
train.global_batch_size=32
model.recompute_granularity=selective
ddp.use_distributed_optimizer=true
dist.use_tp_pp_dp_mapping=true
mixed_precision=bf16_with_fp8_current_scaling_mixed' study.json --point 1
subject='export torchtitan'
refuse 2 'study.json: recompute selective: no option of torchtitan is known for it' study.json --point 1
sed 's/selective/operators/' study.json >operators.json
refuse 2 'operators.json: dtype float8: no option of torchtitan is known for it' operators.json --point 1
sed -i 's/float8/bfloat16/' operators.json
"$dynmo" export torchtitan operators.json --point 1 -o point.py || fail 'a point for torchtitan'
[ "$(tail -n 1 point.py)" = 'activation_checkpoint = "SelectiveAC"' ] || fail "$(tail -n 1 point.py)"
sed 's/"base":"[^"]*"/"base":"nemotron-3-nano"/; s/"model":"[^"]*"/"model":"nemotron-3-nano"/; s/"recompute":"operators"/"recompute":"full"/' operators.json >hybrid.json
refuse 2 "hybrid.json: state-space mixers: layers of torchtitan's layouts are all alike" hybrid.json --point 1
sed 's/"recompute":"operators"/"recompute":"early-stop"/' operators.json >early.json
"$dynmo" export torchtitan early.json --point 1 | grep -q '^activation_checkpoint = "FullAC"  # and compile' ||
    fail 'a point that stops early for torchtitan'
sed 's/"recompute":"operators"/"recompute":"full","recompute_layers":2/' operators.json >some.json
refuse 2 'some.json: recompute_layers 2: no option of torchtitan spreads them over the model' some.json --point 1
for line in 'data_parallel_shard_degree=2' 'fsdp_reshard_after_forward="never"' 'tensor_parallel_degree=2' \
    'context_parallel_degree=2' 'pipeline_parallel_microbatch_size=2'; do
    grep -q "^    $line,$" point.py || fail "torchtitan: no $line in $(cat point.py)"
done
subject='export deepspeed'
refuse 2 "study.json: tensor 2, context 2, expert 1, sharding optimizer: DeepSpeed's pipeline takes replicas alone, and shards no more than the optimizer" \
    study.json --point 1
sed 's/"tensor_parallel":2,"context_parallel":2,//; s/float8/bfloat16/; s/selective/full/' study.json >plain.json
"$dynmo" export deepspeed plain.json --point 1 -o point.py || fail 'a point for DeepSpeed'
[ "$(tail -n 8 point.py)" = 'CONFIG = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 8,
    "zero_optimization": {"stage": 1},
    "bf16": {"enabled": True},
}
# PipelineModule(..., activation_checkpoint_interval=...)
ACTIVATION_CHECKPOINT_INTERVAL = 1' ] || fail "a configuration of DeepSpeed: $(tail -n 8 point.py)"
sed 's/"stages":4/"stages":64/' study.json >many.json
refuse 3 'many.json: more stages than layers: pipeline.stages: 64 stages of 1 chunks need at least 64 layers, there are 34' many.json --point 0
exit "$failed"
