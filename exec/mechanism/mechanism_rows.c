/// Mixture of depths and early exit: rows that a block computed.
#include "exec/mechanism/mechanism.h"
#include "exec/model/block_layer.h"

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

/// Tokens leave sooner as the threshold comes down. What learning does to them beside is not
/// announced.
static status adapt_threshold(const exec_layer_set *set, int iteration, const exec_group *pipeline,
                              bool *changed, error_message *err)
{
    (void)pipeline;
    (void)err;
    *changed = exec_exit_threshold_settles(&set->model->early_exit, iteration);
    return STATUS_OK;
}

const exec_mechanism_table exec_mechanism_mod = {
    .load_columns = load_columns,
    .load = count_rows,
};

const exec_mechanism_table exec_mechanism_early_exit = {
    .adapt = adapt_threshold,
    .load_columns = load_columns,
    .load = count_rows,
};
