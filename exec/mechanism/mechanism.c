#include "exec/mechanism/mechanism.h"

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
