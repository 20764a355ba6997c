#include "balance/partition/cut_table.h"

enum { UNREACHED = -1 };

void bal_cut_table_init(const bal_chain *chain, arena *memory, bal_cut_table *table)
{
    const size_t width = (size_t)chain->layer_count + 1;
    table->value = arena_array(memory, width, sizeof *table->value);
    table->previous = arena_array(memory, width, sizeof *table->previous);
    table->choice = arena_array(memory, width * (size_t)chain->stage_count, sizeof *table->choice);
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

/// The places [first, last] of the cut behind a stage's predecessors, before a stage.
typedef struct place_range {
    int first;
    int last;
} place_range;

static place_range range_of(const bal_cut_question *ask, int cut)
{
    if (ask->earliest == NULL) return (place_range){0, ask->chain->layer_count};
    return (place_range){ask->earliest[cut], ask->latest[cut]};
}

/// The best begin of a stage that ends at end.
static int64_t best_begin(const bal_cut_question *ask, const int64_t *previous, int stage, int end,
                          place_range begins, int *choice)
{
    const bal_chain *chain = ask->chain;
    const bool may_be_empty = end <= begins.last && bal_chain_may_be_empty(chain, stage);
    int64_t best = may_be_empty ? previous[end] : UNREACHED;
    *choice = end;
    for (int begin = end - 1 < begins.last ? end - 1 : begins.last; begin >= begins.first;
         begin--) {
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

/// Fills the row of a stage from that of the stages before.
/// @param begins where the stage may begin; out: where the next one may
static void fill_row(const bal_cut_question *ask, bal_cut_table *table, int stage,
                     place_range *begins)
{
    int *choice = table->choice + (size_t)stage * ((size_t)ask->chain->layer_count + 1);
    const place_range ends = range_of(ask, stage + 1);
    place_range reached = {ends.last + 1, ends.last};
    for (int end = ends.first; end <= ends.last; end++) {
        table->value[end] = UNREACHED;
        if (end < begins->first) continue;
        table->value[end] = best_begin(ask, table->previous, stage, end, *begins, &choice[end]);
        if (table->value[end] != UNREACHED && end < reached.first) reached.first = end;
    }
    *begins = reached;
}

bool bal_cut_table_answer(const bal_cut_question *ask, bal_cut_table *table, int *first_layer,
                          int64_t *least)
{
    const bal_chain *chain = ask->chain;
    const int layers = chain->layer_count;
    const size_t width = (size_t)layers + 1;
    table->value[0] = 0;
    place_range begins = {0, 0};
    for (int stage = 0; stage < chain->stage_count; stage++) {
        int64_t *swap = table->previous;
        table->previous = table->value;
        table->value = swap;
        fill_row(ask, table, stage, &begins);
    }
    if (table->value[layers] == UNREACHED) return false;
    *least = table->value[layers];
    first_layer[chain->stage_count] = layers;
    for (int stage = chain->stage_count - 1; stage >= 0; stage--) {
        first_layer[stage] = table->choice[(size_t)stage * width + (size_t)first_layer[stage + 1]];
    }
    return true;
}
