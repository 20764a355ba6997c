/// Sparse attention: blocks of keys that the blocks of queries met, and that they meet in dense
/// causal attention.
#include "exec/mechanism/hashed_attention.h"
#include "exec/mechanism/mechanism.h"

static int64_t state_bytes(const exec_layer *layer)
{
    if (layer->mechanism == NULL) return 0;
    const int64_t directions = 6 * (int64_t)layer->model->width;
    return directions * layer->model->sparse_attention.bit_count *
           layer->kernels->table->value_bytes;
}

static int load_columns(const exec_model *model)
{
    (void)model;
    return 2;
}

static void count_blocks(const exec_layer *layer, const exec_slot *slot, int64_t *count)
{
    if (layer->kind != EXEC_LAYER_BLOCK) return;
    const exec_block_slot *kept = (const exec_block_slot *)slot;
    count[0] = kept->lists->live_count;
    count[1] = exec_dense_block_count(&kept->rows.attention);
}

const exec_mechanism_table exec_mechanism_sparse_attention = {
    .create = exec_hashed_attention_create,
    .destroy = exec_hashed_attention_destroy,
    .state_bytes = state_bytes,
    .load_columns = load_columns,
    .load = count_blocks,
};
