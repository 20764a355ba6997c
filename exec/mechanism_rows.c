/// Mixture of depths and early exit: rows that a block computed.
#include "exec/block_layer.h"
#include "exec/mechanism.h"

static int load_columns(const exec_model *model)
{
    (void)model;
    return 1;
}

static void count_rows(const exec_layer *layer, const exec_slot *slot, int64_t *count)
{
    if (layer->kind != EXEC_LAYER_BLOCK) return;
    count[0] = ((const exec_block_slot *)slot)->rows.row_count;
}

const exec_mechanism_table exec_mechanism_rows = {
    .load_columns = load_columns,
    .load = count_rows,
};
