#include "analysis/export/export_megatron.h"

#include "analysis/export/exported_stages.h"

#include <string.h>

static void append_stage(const ana_exported_stage *stage, text_buffer *out)
{
    if (stage->has_embedding) text_append(out, "E");
    if (stage->block_count == 1) text_append(out, "t");
    if (stage->block_count > 1) text_format(out, "t*%d", stage->block_count);
    if (stage->has_head) text_append(out, "L");
}

/// Whether the stages but the first and the last hold equally many blocks, and each has one.
static bool is_flat_between(const ana_exported_stage *stages, int stage_count)
{
    for (int stage = 0; stage < stage_count; stage++) {
        if (stages[stage].block_count < 1) return false;
    }
    for (int stage = 2; stage < stage_count - 1; stage++) {
        if (stages[stage].block_count != stages[1].block_count) return false;
    }
    return true;
}

static void keep_text(text_buffer *buffer, arena *memory, const char **text)
{
    char *kept = buffer->failed ? NULL : arena_array(memory, buffer->length + 1, 1);
    if (kept != NULL) memcpy(kept, buffer->bytes, buffer->length + 1);
    text_free(buffer);
    *text = kept;
}

status ana_megatron_layout_of(const bal_plan *plan, arena *memory, ana_megatron_layout *layout,
                              error_message *err)
{
    const int stage_count = plan->rank_count * plan->chunk_count;
    ana_exported_stage *stages = NULL;
    text_buffer buffer = {0};
    ana_megatron_layout made = {.first_blocks = -1, .last_blocks = -1};
    if (plan->chunk_count > 1 && plan->placement != BAL_PLACEMENT_LOOP) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "placement %s: a layout of Megatron places chunks interleaved only: stage "
                         "i on rank i mod %d",
                         bal_placement_name(plan->placement), plan->rank_count);
    }
    TRY(ana_exported_stages_of(plan, memory, &stages, &made.block_count, err));
    for (int stage = 0; stage < stage_count; stage++) {
        if (stage > 0) text_append(&buffer, "|");
        append_stage(&stages[stage], &buffer);
    }
    keep_text(&buffer, memory, &made.text);
    if (plan->chunk_count == 1 && stage_count > 1 && is_flat_between(stages, stage_count)) {
        made.first_blocks = stages[0].block_count;
        made.last_blocks = stages[stage_count - 1].block_count;
    }
    *layout = made;
    return STATUS_OK;
}

void ana_export_megatron(const bal_plan *plan, const ana_megatron_layout *layout, text_buffer *out)
{
    text_append(out, "# Options of Megatron-LM, for bash: \"${PIPELINE_ARGS[@]}\" behind the "
                     "training script.\n");
    ana_exported_head_write(plan, plan->chunk_count > 1 ? "interleaved-1f1b" : "1f1b", out);
    text_format(out, "# --global-batch-size is %d * --micro-batch-size * replicas.\n",
                plan->microbatch_count);
    text_append(out, "PIPELINE_ARGS=(\n");
    text_format(out, "    --num-layers %d\n", layout->block_count);
    text_format(out, "    --pipeline-model-parallel-size %d\n", plan->rank_count);
    text_format(out, "    --pipeline-model-parallel-layout '%s'\n", layout->text);
    text_append(out, ")\n");
    if (layout->first_blocks < 0) return;
    text_format(out,
                "# Before core 0.13, in place of the layout: "
                "--decoder-first-pipeline-num-layers %d --decoder-last-pipeline-num-layers %d\n",
                layout->first_blocks, layout->last_blocks);
}

void ana_export_megatron_json(const bal_plan *plan, const ana_megatron_layout *layout,
                              json_writer *writer)
{
    json_begin_object(writer);
    json_put_int64(writer, "num_layers", layout->block_count);
    json_put_int64(writer, "pipeline_model_parallel_size", plan->rank_count);
    json_write_key(writer, "virtual_pipeline_model_parallel_size");
    if (plan->chunk_count > 1) {
        json_write_int64(writer, plan->chunk_count);
    } else {
        json_write_null(writer);
    }
    json_put_string(writer, "pipeline_model_parallel_layout", layout->text);
    json_end_object(writer);
}
