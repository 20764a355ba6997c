#include "analysis/export/exported_stages.h"

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

/// The number of blocks among the first layers.
static int blocks_before(const bal_plan *plan, int layer, int block_count)
{
    const int block = layer - (plan->embedding ? 1 : 0);
    if (block < 0) return 0;
    return block < block_count ? block : block_count;
}

status ana_exported_stages_of(const bal_plan *plan, arena *memory, ana_exported_stage **stages,
                              int *block_count, error_message *err)
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
    ana_exported_stage *made = arena_array(memory, (size_t)stage_count, sizeof *made);
    for (int stage = 0; stage < stage_count; stage++) {
        const int first = blocks_before(plan, plan->first_layer[stage], blocks);
        made[stage] = (ana_exported_stage){
            .has_embedding = stage == 0,
            .has_head = stage == stage_count - 1,
            .first_block = first,
            .block_count = blocks_before(plan, plan->first_layer[stage + 1], blocks) - first,
        };
    }
    *stages = made;
    *block_count = blocks;
    return STATUS_OK;
}

static bool has_own_ranks(const bal_plan *plan)
{
    for (int rank = 0; rank < plan->rank_count; rank++) {
        if (plan->stage_ranks[rank] != rank) return true;
    }
    return false;
}

void ana_exported_head_write(const bal_plan *plan, const char *runs, text_buffer *out)
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
