#include "balance/cut_table.h"

enum { UNREACHED = -1 };

status bal_cut_table_init(const bal_chain *chain, arena *memory, bal_cut_table *table,
                          error_message *err)
{
    const size_t width = (size_t)chain->layer_count + 1;
    table->value = arena_array(memory, width, sizeof *table->value);
    table->previous = arena_array(memory, width, sizeof *table->previous);
    table->choice = arena_array(memory, width * (size_t)chain->stage_count, sizeof *table->choice);
    if (table->value == NULL || table->previous == NULL || table->choice == NULL) {
        return error_set(err, STATUS_NO_MEMORY, "out of memory for %d stages of %d layers",
                         chain->stage_count, chain->layer_count);
    }
    return STATUS_OK;
}

/// Bytes of layers [begin, end) that are not on the stage now.
static int64_t moved_bytes(const bal_cut_question *ask, int stage, int begin, int end)
{
    const int64_t *state = ask->chain->state_before;
    const int64_t all = state[end] - state[begin];
    if (stage >= ask->current_stage_count) return all;
    const int home_begin = ask->current_first_layer[stage];
    const int home_end = ask->current_first_layer[stage + 1];
    const int from = begin > home_begin ? begin : home_begin;
    const int to = end < home_end ? end : home_end;
    return from < to ? all - (state[to] - state[from]) : all;
}

/// Value of the stages up to and with one that owns [begin, end); UNREACHED if that is not allowed.
static int64_t value_behind(const bal_cut_question *ask, int stage, int begin, int end,
                            int64_t previous)
{
    const int64_t load = bal_chain_load(ask->chain, stage, begin, end);
    if (load > ask->load_max) return UNREACHED;
    switch (ask->value) {
    case BAL_CUT_LOAD_SUM:
        if (previous + ask->microbatch_count * load > ask->bound) return UNREACHED;
        return previous + load;
    case BAL_CUT_MOVED_BYTES:
        return previous + moved_bytes(ask, stage, begin, end);
    default:
        return load > previous ? load : previous;
    }
}

/// The best begin of a stage that ends at end.
static int64_t best_begin(const bal_cut_question *ask, const int64_t *previous, int stage, int end,
                          int first_reached, int *choice)
{
    const bal_chain *chain = ask->chain;
    int64_t best = bal_chain_may_be_empty(chain, stage) ? previous[end] : UNREACHED;
    *choice = end;
    for (int begin = end - 1; begin >= first_reached; begin--) {
        // Longer runs need more memory and more time of their own: none of them fits either.
        if (!bal_chain_fits(chain, stage, begin, end)) break;
        if (bal_chain_own_load(chain, stage, begin, end) > ask->load_max) break;
        if (previous[begin] == UNREACHED) continue;
        const int64_t value = value_behind(ask, stage, begin, end, previous[begin]);
        if (value == UNREACHED || (best != UNREACHED && value >= best)) continue;
        best = value;
        *choice = begin;
    }
    return best;
}

bool bal_cut_table_answer(const bal_cut_question *ask, bal_cut_table *table, int *first_layer,
                          int64_t *least)
{
    const bal_chain *chain = ask->chain;
    const int layers = chain->layer_count;
    const size_t width = (size_t)layers + 1;
    for (int layer = 0; layer <= layers; layer++) {
        table->value[layer] = UNREACHED;
    }
    table->value[0] = 0;
    int first_reached = 0; // nothing before it is the end of the stages so far
    for (int stage = 0; stage < chain->stage_count; stage++) {
        int64_t *swap = table->previous;
        table->previous = table->value;
        table->value = swap;
        int *choice = table->choice + (size_t)stage * width;
        int next_first = layers + 1;
        for (int end = 0; end <= layers; end++) {
            table->value[end] = UNREACHED;
            if (end < first_reached) continue;
            table->value[end] =
                best_begin(ask, table->previous, stage, end, first_reached, &choice[end]);
            if (table->value[end] != UNREACHED && next_first > layers) next_first = end;
        }
        first_reached = next_first;
    }
    if (table->value[layers] == UNREACHED) return false;
    *least = table->value[layers];
    first_layer[chain->stage_count] = layers;
    for (int stage = chain->stage_count - 1; stage >= 0; stage--) {
        first_layer[stage] = table->choice[(size_t)stage * width + (size_t)first_layer[stage + 1]];
    }
    return true;
}
