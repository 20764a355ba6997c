#include "analysis/export/frameworks.h"

#include "base/json.h"
#include "base/text.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static status check_ends(const bal_plan *plan, int layer_count, error_message *err)
{
    const int stage_count = plan->rank_count * plan->chunk_count;
    if (plan->embedding && plan->first_layer[1] == 0) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "stage 0 is empty: frameworks keep the embedding, layer 0, on the first "
                         "stage");
    }
    if (plan->head && plan->first_layer[stage_count - 1] == layer_count) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "stage %d is empty: frameworks keep the head, layer %d, on the last stage",
                         stage_count - 1, layer_count - 1);
    }
    return STATUS_OK;
}

/// What stages hold as frameworks name it: transformer blocks; apart from them the embedding of the
/// first stage and the head of the last, whether or not the plan counts them as layers.
///
/// @param first_block out, from memory: [rank_count * chunk_count + 1] in model order
static status find_blocks(const bal_plan *plan, arena *memory, int **first_block,
                          error_message *err)
{
    const int stage_count = plan->rank_count * plan->chunk_count;
    const int layer_count = plan->first_layer[stage_count];
    const int blocks = layer_count - (plan->embedding ? 1 : 0) - (plan->head ? 1 : 0);
    if (blocks < 1) {
        return error_set(err, STATUS_INVALID,
                         "the plan's %d layers hold no block between embedding and head",
                         layer_count);
    }
    TRY(check_ends(plan, layer_count, err));
    int *first = arena_array(memory, (size_t)stage_count + 1, sizeof *first);
    for (int stage = 1; stage <= stage_count; stage++) {
        const int block = plan->first_layer[stage] - (plan->embedding ? 1 : 0);
        first[stage] = block < blocks ? block : blocks;
    }
    *first_block = first;
    return STATUS_OK;
}

static bool has_own_ranks(const bal_plan *plan)
{
    for (int rank = 0; rank < plan->rank_count; rank++) {
        if (plan->stage_ranks[rank] != rank) return true;
    }
    return false;
}

/// Whether the framework, which runs one schedule alone, would run another order than the plan's.
///
/// @param runs the framework's schedule
static status check_order(const bal_plan *plan, const char *framework, const char *runs,
                          const ana_export_how *how, error_message *err)
{
    const bool is_its_own = plan->order == NULL && strcmp(plan->schedule, runs) == 0;
    if (is_its_own || how->is_split_only) return STATUS_OK;
    return error_set(err, STATUS_UNSUPPORTED,
                     "%s%s: with %s a rank %s runs %s in its own order; plan for that (--schedule "
                     "%s), or give --split-only for the layers of the stages alone",
                     plan->order != NULL ? "an order of its own, schedule " : "schedule ",
                     plan->schedule, text_count(plan->chunk_count, "chunk").text, framework, runs,
                     runs);
}

/// Comment lines that say what the plan is, and what of it the file cannot say.
///
/// @param runs the schedule that the framework runs with this file; NULL: the plan's own
static void write_head(const bal_plan *plan, const char *runs, text_buffer *out)
{
    text_format(out, "# %s on %d ranks, %d chunk%s per rank, %d microbatches.\n", plan->schedule,
                plan->rank_count, plan->chunk_count, plan->chunk_count > 1 ? "s" : "",
                plan->microbatch_count);
    if (runs != NULL && strcmp(runs, plan->schedule) != 0) {
        text_format(out, "# The split alone is of the plan: this runs %s.\n", runs);
    }
    if (plan->data_parallel > 1) {
        text_format(out, "# %d replicas of the pipeline.\n", plan->data_parallel);
    }
    if (!has_own_ranks(plan)) return;
    text_append(out, "# Ranks of the cluster, by rank of the pipeline:");
    for (int rank = 0; rank < plan->rank_count; rank++) {
        text_format(out, " %d", plan->stage_ranks[rank]);
    }
    text_append(out, "\n");
}

/// "Et*6|t*9|t*9|t*8L"; "m" before the loss for each module of multi-token prediction.
static void append_layout(const int *first_block, int stage_count, const ana_launch *launch,
                          text_buffer *out)
{
    text_append(out, "E");
    for (int stage = 0; stage < stage_count; stage++) {
        const int blocks = first_block[stage + 1] - first_block[stage];
        if (stage > 0) text_append(out, "|");
        if (blocks == 1) text_append(out, "t");
        if (blocks > 1) text_format(out, "t*%d", blocks);
    }
    for (int module = 0; launch != NULL && module < launch->prediction_layer_count; module++) {
        text_append(out, "m");
    }
    text_append(out, "L");
}

const char *ana_megatron_schedule(int chunk_count)
{
    return chunk_count > 1 ? "interleaved-1f1b" : "1f1b";
}

static status write_megatron(const bal_plan *plan, int block_count, const char *layout,
                             const ana_launch *launch, text_buffer *out, error_message *err)
{
    text_append(out, "# Options of Megatron-LM, for bash: \"${PIPELINE_ARGS[@]}\" after the "
                     "training script.\n");
    write_head(plan, ana_megatron_schedule(plan->chunk_count), out);
    text_format(out,
                "# --global-batch-size is %d * --micro-batch-size * replicas.\n"
                "PIPELINE_ARGS=(\n"
                "    --num-layers %d\n"
                "    --pipeline-model-parallel-size %d\n"
                "    --pipeline-model-parallel-layout '%s'\n",
                plan->microbatch_count, block_count, plan->rank_count, layout);
    if (launch != NULL) TRY(ana_launch_megatron(launch, out, err));
    text_append(out, ")\n");
    return STATUS_OK;
}

static void write_megatron_json(const bal_plan *plan, int block_count, const char *layout,
                                text_buffer *out)
{
    char chunks[16] = "null";
    if (plan->chunk_count > 1) snprintf(chunks, sizeof chunks, "%d", plan->chunk_count);
    text_format(out,
                "{\"num_layers\":%d,\"pipeline_model_parallel_size\":%d,"
                "\"virtual_pipeline_model_parallel_size\":%s,"
                "\"pipeline_model_parallel_layout\":\"%s\"}\n",
                block_count, plan->rank_count, chunks, layout);
}

/// What both forms of Megatron's options need.
///
/// @param layout text of the caller, appended to
static status lay_out(const bal_plan *plan, const ana_export_how *how, arena *memory,
                      int *block_count, text_buffer *layout, error_message *err)
{
    const int stage_count = plan->rank_count * plan->chunk_count;
    int *first_block = NULL;
    if (plan->chunk_count > 1 && plan->placement != BAL_PLACEMENT_LOOP) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "placement %s: a layout of Megatron places chunks interleaved only: stage "
                         "i on rank i mod %d; plan for 1f1b or interleaved-1f1b (--schedule), or "
                         "for another schedule without a V and give --split-only",
                         bal_placement_name(plan->placement), plan->rank_count);
    }
    TRY(check_order(plan, "Megatron", ana_megatron_schedule(plan->chunk_count), how, err));
    TRY(find_blocks(plan, memory, &first_block, err));
    *block_count = first_block[stage_count];
    append_layout(first_block, stage_count, how->launch, layout);
    return STATUS_OK;
}

status ana_export_megatron(const bal_plan *plan, const ana_export_how *how, arena *memory,
                           text_buffer *out, error_message *err)
{
    int block_count = 0;
    text_buffer layout = {0};
    status result = lay_out(plan, how, memory, &block_count, &layout, err);
    if (result == STATUS_OK && how->as_json) {
        write_megatron_json(plan, block_count, layout.bytes, out);
    } else if (result == STATUS_OK) {
        result = write_megatron(plan, block_count, layout.bytes, how->launch, out, err);
    }
    text_free(&layout);
    return result;
}

status ana_export_bridge(const bal_plan *plan, const ana_export_how *how, arena *memory,
                         text_buffer *out, error_message *err)
{
    int block_count = 0;
    text_buffer layout = {0};
    status result = lay_out(plan, how, memory, &block_count, &layout, err);
    if (result == STATUS_OK) {
        text_format(out, "model.num_layers=%d\nmodel.pipeline_model_parallel_size=%d\n",
                    block_count, plan->rank_count);
        if (plan->chunk_count > 1) {
            text_format(out, "model.virtual_pipeline_model_parallel_size=%d\n", plan->chunk_count);
        }
        text_format(out, "model.pipeline_model_parallel_layout=\"%s\"\n", layout.bytes);
        if (how->launch != NULL) result = ana_launch_bridge(how->launch, out, err);
    }
    text_free(&layout);
    return result;
}

static const char deepspeed_class[] =
    "\n    def _partition_layers(self, method=\"uniform\"):\n"
    "        if len(self._layer_specs) != self.PARTS[-1]:\n"
    "            raise ValueError(f\"{len(self._layer_specs)} layers, the plan has "
    "{self.PARTS[-1]}\")\n"
    "        if self.num_stages != len(self.PARTS) - 1:\n"
    "            raise ValueError(f\"{self.num_stages} stages, the plan has "
    "{len(self.PARTS) - 1}\")\n"
    "        self.parts = list(self.PARTS)\n"
    "        stage = self._topo.get_coord(self.global_rank).pipe\n"
    "        self._set_bounds(start=self.parts[stage], stop=self.parts[stage + 1])\n";

static void write_deepspeed(const bal_plan *plan, const int *parts, text_buffer *out)
{
    write_head(plan, "1f1b", out);
    text_format(out,
                "# gradient_accumulation_steps is %d.\n"
                "from deepspeed.pipe import PipelineModule\n\n\n"
                "class PlannedPipelineModule(PipelineModule):\n"
                "    \"\"\"A PipelineModule whose stages are PARTS of its layers.\"\"\"\n\n"
                "    PARTS = [",
                plan->microbatch_count);
    for (int stage = 0; stage <= plan->rank_count; stage++) {
        text_format(out, "%s%d", stage > 0 ? ", " : "", parts[stage]);
    }
    text_append(out, "]\n");
    text_append(out, deepspeed_class);
}

static void write_deepspeed_json(const int *parts, int stage_count, text_buffer *out)
{
    json_writer writer = json_line_begin(out);
    json_put_int64(&writer, "num_stages", stage_count);
    json_put_int_array(&writer, "parts", parts, stage_count + 1);
    json_line_end(&writer);
}

status ana_export_deepspeed(const bal_plan *plan, int before, int after, const ana_export_how *how,
                            arena *memory, text_buffer *out, error_message *err)
{
    const int stage_count = plan->rank_count;
    if (plan->chunk_count > 1) {
        return error_set(err, STATUS_UNSUPPORTED, "chunks %d: DeepSpeed has one stage per rank",
                         plan->chunk_count);
    }
    TRY(check_order(plan, "DeepSpeed", "1f1b", how, err));
    const int64_t total = (int64_t)before + plan->first_layer[stage_count] + after;
    if (total > INT_MAX) {
        return error_set(err, STATUS_INVALID, "%" PRId64 " LayerSpecs exceed %d", total, INT_MAX);
    }
    int *parts = arena_array(memory, (size_t)stage_count + 1, sizeof *parts);
    for (int stage = 1; stage < stage_count; stage++) {
        parts[stage] = before + plan->first_layer[stage];
    }
    parts[stage_count] = (int)total;
    for (int stage = 0; stage < stage_count; stage++) {
        if (parts[stage] < parts[stage + 1]) continue;
        return error_set(err, STATUS_UNSUPPORTED,
                         "stage %d owns no layer: DeepSpeed trains no stage without parameters",
                         stage);
    }
    if (how->as_json) {
        write_deepspeed_json(parts, stage_count, out);
        return STATUS_OK;
    }
    write_deepspeed(plan, parts, out);
    return how->launch == NULL
               ? STATUS_OK
               : ana_launch_deepspeed(how->launch, plan->microbatch_count, out, err);
}

/// The modules of a stage, as Python and JSON write a list of strings.
static void append_modules(const int *first_block, int stage, int stage_count, text_buffer *out)
{
    const char *comma = "";
    text_append(out, "[");
    if (stage == 0) {
        text_append(out, "\"tok_embeddings\"");
        comma = ", ";
    }
    for (int block = first_block[stage]; block < first_block[stage + 1]; block++) {
        text_format(out, "%s\"layers.%d\"", comma, block);
        comma = ", ";
    }
    if (stage == stage_count - 1) text_format(out, "%s\"norm\", \"lm_head\"", comma);
    text_append(out, "]");
}

/// The name from which torchtitan takes where stages are.
static const char *torchtitan_schedule(const bal_plan *plan)
{
    if (plan->chunk_count == 1) return "1F1B";
    return plan->placement == BAL_PLACEMENT_V ? "ZBVZeroBubble" : "Interleaved1F1B";
}

static status write_torchtitan(const bal_plan *plan, const int *first_block,
                               const char *schedule_csv, const ana_launch *launch, text_buffer *out,
                               error_message *err)
{
    const int stage_count = plan->rank_count * plan->chunk_count;
    text_append(out, "# Settings of torchtitan's ParallelismConfig.\n");
    write_head(plan, NULL, out);
    text_format(out,
                "# The order is in the CSV; of the schedule's name only the placement counts.\n"
                "# training.local_batch_size is %d * parallelism.pipeline_parallel_microbatch_size."
                "\n"
                "parallelism = dict(\n"
                "    pipeline_parallel_degree=%d,\n"
                "    pipeline_parallel_schedule=\"%s\",\n"
                "    pipeline_parallel_schedule_csv=\"%s\",\n",
                plan->microbatch_count, plan->rank_count, torchtitan_schedule(plan), schedule_csv);
    if (launch != NULL) TRY(ana_launch_torchtitan(launch, out, err));
    text_append(out, "    module_fqns_per_model_part=[\n");
    for (int stage = 0; stage < stage_count; stage++) {
        text_append(out, "        ");
        append_modules(first_block, stage, stage_count, out);
        text_append(out, ",\n");
    }
    text_append(out, "    ],\n)\n");
    return launch != NULL ? ana_launch_torchtitan_rest(launch, out, err) : STATUS_OK;
}

static void write_torchtitan_json(const bal_plan *plan, const int *first_block,
                                  const char *schedule_csv, text_buffer *out)
{
    const int stage_count = plan->rank_count * plan->chunk_count;
    text_format(out,
                "{\"pipeline_parallel_degree\":%d,\"pipeline_parallel_schedule\":\"%s\","
                "\"pipeline_parallel_schedule_csv\":\"%s\",\"module_fqns_per_model_part\":[",
                plan->rank_count, torchtitan_schedule(plan), schedule_csv);
    for (int stage = 0; stage < stage_count; stage++) {
        if (stage > 0) text_append(out, ",");
        append_modules(first_block, stage, stage_count, out);
    }
    text_append(out, "]}\n");
}

status ana_export_torchtitan(const bal_plan *plan, const char *schedule_csv,
                             const ana_export_how *how, arena *memory, text_buffer *out,
                             error_message *err)
{
    const int stage_count = plan->rank_count * plan->chunk_count;
    int *first_block = NULL;
    TRY(find_blocks(plan, memory, &first_block, err));
    if (plan->placement != BAL_PLACEMENT_LOOP && plan->placement != BAL_PLACEMENT_V) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "placement %s has every stage on two ranks; torchtitan has each on one",
                         bal_placement_name(plan->placement));
    }
    if (strpbrk(schedule_csv, "\"\\") != NULL || text_has_control(schedule_csv, "")) {
        return error_set(err, STATUS_INVALID,
                         "path '%.80s' has a quote, a backslash or a control character",
                         schedule_csv);
    }
    for (int stage = 1; stage < stage_count - 1; stage++) {
        if (first_block[stage + 1] > first_block[stage]) continue;
        return error_set(err, STATUS_UNSUPPORTED,
                         "stage %d owns no module: torchtitan's optimizer takes no part without "
                         "parameters",
                         stage);
    }
    if (!how->as_json) {
        return write_torchtitan(plan, first_block, schedule_csv, how->launch, out, err);
    }
    write_torchtitan_json(plan, first_block, schedule_csv, out);
    return STATUS_OK;
}

/// Whether PyTorch does the whole backward of this op's stage at once.
static bool is_first_stage(const bal_schedule *schedule, int rank, bal_op op)
{
    return bal_schedule_stage(schedule, rank, op.chunk) == 0;
}

static void write_op(const bal_schedule *schedule, int rank, bal_op op, bool is_exact,
                     text_buffer *out)
{
    static const char *const letters[OP_KIND_COUNT] = {
        [OP_FORWARD] = "F",
        [OP_BACKWARD_INPUT] = "I",
        [OP_BACKWARD_WEIGHT] = "W",
        [OP_BACKWARD] = "B",
    };
    if (!is_exact && op.kind == OP_BACKWARD_INPUT && is_first_stage(schedule, rank, op)) {
        op.kind = OP_BACKWARD;
    }
    text_format(out, "%d%s%d", bal_schedule_stage(schedule, rank, op.chunk), letters[op.kind],
                (int)op.microbatch);
}

static void write_rank(const bal_schedule *schedule, int rank, bool is_exact, text_buffer *out)
{
    const int end = schedule->first_op[rank + 1];
    const char *comma = "";
    for (int op = schedule->first_op[rank]; op < end; op++) {
        const bal_op next = schedule->ops[op];
        const bool is_pair = next.overlaps_next != 0;
        const bool is_weight = next.kind == OP_BACKWARD_WEIGHT;
        if (!is_exact && is_weight && is_first_stage(schedule, rank, next)) continue;
        text_append(out, comma);
        comma = ",";
        if (is_pair) text_append(out, "(");
        write_op(schedule, rank, next, is_exact, out);
        if (!is_pair) continue;
        text_append(out, ";");
        write_op(schedule, rank, schedule->ops[++op], is_exact, out);
        text_append(out, ")OVERLAP_F_B");
    }
    text_append(out, "\n");
}

static status check_torch(const char *name, bal_placement placement, error_message *err)
{
    if (placement == BAL_PLACEMENT_LOOP || placement == BAL_PLACEMENT_V) return STATUS_OK;
    return error_set(err, STATUS_UNSUPPORTED,
                     "%s places every stage on two ranks; torch has each on one", name);
}

status ana_export_pytorch(const bal_schedule *schedule, bool is_exact, text_buffer *out,
                          error_message *err)
{
    TRY(check_torch(schedule->name, schedule->placement, err));
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        write_rank(schedule, rank, is_exact, out);
    }
    return STATUS_OK;
}

/// Whether a plan says its order, or a schedule that needs no costs does.
static status check_searched(const bal_plan *plan, error_message *err)
{
    if (plan->order != NULL || !bal_schedule_family_find(plan->schedule)->is_searched) {
        return STATUS_OK;
    }
    return error_set(
        err, STATUS_INVALID,
        "schedule %s is searched on costs, and the plan has no order: give --costs, or "
        "what `dynmo schedule --json` printed",
        plan->schedule);
}

status ana_export_order(const bal_plan *plan, arena *memory, bal_schedule *schedule,
                        error_message *err)
{
    const bal_schedule_request request = {.name = plan->schedule,
                                          .rank_count = plan->rank_count,
                                          .microbatch_count = plan->microbatch_count,
                                          .chunk_count = plan->chunk_count};
    TRY(check_searched(plan, err));
    if (plan->order == NULL) return bal_schedule_build(&request, memory, schedule, err);
    *schedule = *plan->order;
    return STATUS_OK;
}

const char *const ana_framework_names[ANA_FRAMEWORK_COUNT] = {
    "any", "megatron", "megatron-bridge", "pytorch", "torchtitan", "deepspeed"};

/// Of an order, which may be long, nothing is written: a plan that was played has one.
static status check_pytorch(const bal_plan *plan, error_message *err)
{
    TRY(check_searched(plan, err));
    return check_torch(plan->schedule, plan->placement, err);
}

status ana_export_check(ana_framework framework, const bal_plan *plan, const ana_launch *launch,
                        arena *memory, error_message *err)
{
    const ana_export_how how = {.launch = launch};
    text_buffer out = {0};
    status result = STATUS_OK;
    switch (framework) {
    case ANA_FRAMEWORK_MEGATRON:
        result = ana_export_megatron(plan, &how, memory, &out, err);
        break;
    case ANA_FRAMEWORK_BRIDGE:
        result = ana_export_bridge(plan, &how, memory, &out, err);
        break;
    case ANA_FRAMEWORK_PYTORCH:
        return check_pytorch(plan, err);
    case ANA_FRAMEWORK_TORCHTITAN:
        result = ana_export_torchtitan(plan, ANA_TORCHTITAN_CSV_DEFAULT, &how, memory, &out, err);
        break;
    case ANA_FRAMEWORK_DEEPSPEED:
        result = ana_export_deepspeed(plan, 0, 0, &how, memory, &out, err);
        break;
    default:
        break;
    }
    text_free(&out);
    return result;
}
