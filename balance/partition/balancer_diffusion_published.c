/// Algorithm 3 of the DynMo paper as printed: every overloaded rank in turn offers its lightest
/// layer to the least loaded rank, and the move is made if it lowers the variance of the loads.
///
/// Moving weight w from load A to load B changes the sum of squared loads by 2 w (w - (A - B)), so
/// a move is accepted exactly if 0 < w < A - B. The variance falls with every move: it ends, but
/// possibly far from the optimum (up to twice), and a layer without weight blocks its rank for
/// good. Layers leave the model order; nobody can execute the result, only its loads are meant.
///
/// The paper leaves the number of iterations to the user; here it runs until an iteration moves
/// nothing, or until 16 moves per layer have been made, which is never seen on real loads.
#include "balance/layer_lists.h"

enum { MOVES_PER_LAYER_MAX = 16 };

typedef struct diffusion {
    const bal_chain *chain;
    bal_layer_lists lists;
    int64_t *memory_bytes; // [rank_count] what each rank holds
    bool *overloaded;      // [rank_count] at the begin of the iteration
    bal_transfer *transfers;
    int transfer_count;
    int transfer_max;
} diffusion;

static int64_t layer_bytes(const bal_chain *chain, int rank, int layer)
{
    return bal_chain_memory_bytes(chain, rank, layer, layer + 1);
}

static status diffusion_init(const bal_problem *problem, const bal_chain *chain, arena *memory,
                             diffusion *out, error_message *err)
{
    const size_t ranks = (size_t)chain->stage_count;
    TRY(bal_layer_lists_init(problem, chain, memory, &out->lists, err));
    out->chain = chain;
    out->transfer_max = MOVES_PER_LAYER_MAX * chain->layer_count;
    out->transfers = arena_array(memory, (size_t)out->transfer_max, sizeof *out->transfers);
    out->memory_bytes = arena_array(memory, ranks, sizeof *out->memory_bytes);
    out->overloaded = arena_array(memory, ranks, sizeof *out->overloaded);
    for (int rank = 0; rank < chain->stage_count; rank++) {
        for (int layer = out->lists.first[rank]; layer >= 0; layer = out->lists.next[layer]) {
            out->memory_bytes[rank] += layer_bytes(chain, rank, layer);
        }
    }
    return STATUS_OK;
}

/// Tries to send the lightest layer of a rank away; true if it went.
static bool offer_lightest(diffusion *state, int from)
{
    const bal_chain *chain = state->chain;
    bal_layer_lists *lists = &state->lists;
    const int to = bal_layer_lists_least_loaded(lists);
    int layer = -1;
    const int index = bal_layer_lists_lightest(lists, chain, from, 0, 0, &layer);
    if (index < 0) return false;
    const int64_t weight = chain->weight_before[layer + 1] - chain->weight_before[layer];
    if (weight <= 0 || weight >= lists->load[from] - lists->load[to]) return false;
    const int64_t needed = layer_bytes(chain, to, layer);
    if (chain->stage_memory_bytes != NULL &&
        state->memory_bytes[to] + needed >= chain->stage_memory_bytes[to]) {
        return false;
    }
    bal_layer_lists_move(lists, chain, from, index, to, BAL_LIST_BACK);
    state->memory_bytes[from] -= layer_bytes(chain, from, layer);
    state->memory_bytes[to] += needed;
    state->transfers[state->transfer_count++] = (bal_transfer){from, to, layer};
    return true;
}

static bool iterate(diffusion *state)
{
    const int ranks = state->chain->stage_count;
    const int64_t total = state->chain->weight_before[state->chain->layer_count];
    for (int rank = 0; rank < ranks; rank++) {
        state->overloaded[rank] = (bal_wide)state->lists.load[rank] * ranks > total;
    }
    bool moved = false;
    for (int rank = 0; rank < ranks && state->transfer_count < state->transfer_max; rank++) {
        if (state->overloaded[rank] && offer_lightest(state, rank)) moved = true;
    }
    return moved;
}

status bal_balance_diffusion_published(const bal_problem *problem, const bal_chain *chain,
                                       arena *memory, bal_answer *answer, error_message *err)
{
    diffusion state = {0};
    int *owner = arena_array(memory, (size_t)chain->layer_count, sizeof *owner);
    TRY(diffusion_init(problem, chain, memory, &state, err));
    answer->iteration_count = 1;
    while (iterate(&state) && state.transfer_count < state.transfer_max) {
        answer->iteration_count++;
    }
    bal_layer_lists_owners(&state.lists, owner);
    answer->owner = owner;
    answer->transfers = state.transfers;
    answer->transfer_count = state.transfer_count;
    return STATUS_OK;
}
