// The tables of the mechanisms, and what is too short for a file of its own.
#include "exec/model/mechanism.h"

#include "exec/model/block_layer.h"

#include <assert.h>

/// Dense training: nothing happens.
static const exec_mechanism_table nothing;

const exec_mechanism_table *exec_mechanism_find(exec_mechanism mechanism)
{
    static const exec_mechanism_table *const tables[EXEC_MECHANISM_COUNT] = {
        [EXEC_DENSE] = &nothing,
        [EXEC_MOE] = &exec_mechanism_moe,
        [EXEC_MOD] = &exec_mechanism_mod,
        [EXEC_EARLY_EXIT] = &exec_mechanism_early_exit,
        [EXEC_PRUNING] = &exec_mechanism_pruning,
        [EXEC_FREEZING] = &exec_mechanism_freezing,
        [EXEC_SPARSE_ATTENTION] = &exec_mechanism_sparse_attention,
    };
    assert(mechanism >= 0 && mechanism < EXEC_MECHANISM_COUNT);
    return tables[mechanism];
}

int exec_mechanism_load_columns(const exec_model *model)
{
    const int columns = exec_mechanism_find(model->mechanism)->load_columns;
    return columns < 0 ? model->moe.expert_count : columns;
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
    .load_columns = 1,
    .load = count_rows,
};

const exec_mechanism_table exec_mechanism_early_exit = {
    .adapt = adapt_threshold,
    .load_columns = 1,
};

const exec_mechanism_table exec_mechanism_moe = {
    .load_columns = -1,
};
