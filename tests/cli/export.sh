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
prints '0F0,0F1,0I0,0W0,0I1,0W1
1F0,1I0,1F1,1I1,1W0,1W1' searched.json --costs costs.json
refuse 2 'p.json: --costs: the order of the plan is known without' p.json --costs costs.json
echo '{"order":[["F0","BW0"]]}' >order.json
refuse 2 '--costs: order.json is an order' order.json --costs costs.json
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
        "$dynmo" export pytorch o.json -o o.csv || fail "export of $schedule on $ranks"
        "$dynmo" schedule --order o.csv --json | cmp -s - o.json || fail "$schedule on $ranks read back differs"
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
)
# Before core 0.13, in place of the layout: --decoder-first-pipeline-num-layers 2 --decoder-last-pipeline-num-layers 2' \
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
)' empty.json
refuse 2 'v.json: placement v: a layout of Megatron places chunks interleaved only: stage i on rank i mod 2' v.json
plan '[0,0,8]' 1 interleaved 1f1b 4 '[0,1]' true true >late.json
refuse 2 'late.json: stage 0 is empty: frameworks keep the embedding, layer 0, on the first stage' late.json
plan '[0,8,8]' 1 interleaved 1f1b 4 '[0,1]' true true >early.json
refuse 2 'early.json: stage 1 is empty: frameworks keep the head, layer 7, on the last stage' early.json
plan '[0,1,2]' 1 interleaved 1f1b 4 '[0,1]' true true >none.json
refuse 2 "none.json: the plan's 2 layers hold no block between embedding and head" none.json
if command -v bash >/dev/null; then
    "$dynmo" export megatron chunks.json -o options.sh || fail 'options for bash'
    # shellcheck disable=SC2016 # bash expands it
    found=$(bash -c '. ./options.sh; printf "%s\n" "${#PIPELINE_ARGS[@]}" "${PIPELINE_ARGS[5]}"')
    [ "$found" = '6
Et*2||t*3|t*3L' ] || fail "bash reads $found"
fi

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
        self._set_bounds(start=self.parts[stage], stop=self.parts[stage + 1])' bare.json
prints '{"num_stages":3,"parts":[0,3,4,7]}' bare.json --specs-before 1 --specs-behind 2 --json
prints '{"num_stages":3,"parts":[0,3,5,8]}' p.json --json
refuse 2 'empty.json: stage 1 owns no layer: DeepSpeed trains no stage without parameters' empty.json
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
prints '{"pipeline_parallel_degree":3,"pipeline_parallel_schedule":"1F1B","pipeline_parallel_schedule_csv":"a/b.csv","module_fqns_per_model_part":[["wte","wpe","h.0.x","h.1.x"],["h.2.x"],["h.3.x","output"]]}' \
    bare.json --json --csv a/b.csv --fqn-embedding wte --fqn-embedding wpe --fqn-block 'h.{}.x' --fqn-norm '' \
    --fqn-head output
refuse 2 "p.json: block 'layers' needs {} once, where the number of the block stands" p.json --fqn-block layers
refuse 2 "p.json: block '{}.{}' needs {} once, where the number of the block stands" p.json --fqn-block '{}.{}'
refuse 2 "p.json: head 'a\"b' has a quote, a backslash or a control character" p.json --fqn-head 'a"b'
refuse 2 "empty.json: stage 1 owns no module: torchtitan's optimizer takes no part without parameters" empty.json
if command -v python3 >/dev/null; then
    for what in deepspeed torchtitan; do
        "$dynmo" export $what bare.json -o out.py || fail "$what to a file"
        python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' out.py || fail "$what is no Python"
    done
fi
exit "$failed"
