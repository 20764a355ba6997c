/// Mixture of experts: tokens that each expert of a block had.
#include "exec/mechanism/mechanism.h"
#include "exec/mechanism/moe_half.h"

static int load_columns(const exec_model *model)
{
    return model->moe.expert_count;
}

static void count_tokens(const exec_layer *layer, const exec_slot *slot, int64_t *count)
{
    if (layer->kind != EXEC_LAYER_BLOCK) return;
    const exec_routing *routing = exec_moe_slot_routing(((const exec_block_slot *)slot)->moe);
    for (int expert = 0; expert < routing->expert_count; expert++) {
        count[expert] = exec_routing_count(routing, expert);
    }
}

const exec_mechanism_table exec_mechanism_moe = {
    .load_columns = load_columns,
    .load = count_tokens,
};
