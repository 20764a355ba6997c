/// Diffusion as DynMo's released code does it, which is not its Algorithm 3. What differs, kept:
///
///   - five iterations, always;
///   - who is overloaded, and who is the least loaded, is decided once per iteration, so all
///     overloaded ranks send to the same one;
///   - a move is compared with the best variance so far, which starts at infinity: the first one is
///     made whatever it does;
///   - a rank receives at its end, behind the head on the last one (from rank 0 the last one
///     receives at its front), so layers leave the model order;
///   - the lightest layer of rank 0 is looked for behind the embedding, but its index is used from
///     the embedding on: the layer in front of it goes, possibly the embedding;
///   - a layer's memory is its rank's memory at the start divided by its number of layers (plus one
///     on rank 0).
///
/// The released code has two entries behind the layers of the last rank (pooler and loss) where
/// here the head is one. The cap is stage_memory_bytes of the receiver; the original has 32e9.
/// Source: github.com/wahibium/DynMo at 7faf19e, megatron/balancer/diffusion.py.
#include "balance/layer_lists.h"

enum { ITERATIONS = 5 };

typedef struct diffusion {
    const bal_chain *chain;
    bal_layer_lists lists;
    int64_t *memory_bytes;    // [rank_count] what the code believes each rank holds
    int64_t *bytes_per_layer; // [rank_count] of the layers that a rank sends
    bool *overloaded;         // [rank_count] at the begin of the iteration
    bool has_best;
    bal_wide best_squares; // sum of squared loads: orders plans as their variance does
    bal_transfer *transfers;
    int transfer_count;
} diffusion;

static status diffusion_init(const bal_problem *problem, const bal_chain *chain, arena *memory,
                             diffusion *out, error_message *err)
{
    const size_t ranks = (size_t)chain->stage_count;
    TRY(bal_layer_lists_init(problem, chain, memory, &out->lists, err));
    out->chain = chain;
    out->transfers = arena_array(memory, ranks * ITERATIONS, sizeof *out->transfers);
    out->memory_bytes = arena_array(memory, ranks, sizeof *out->memory_bytes);
    out->bytes_per_layer = arena_array(memory, ranks, sizeof *out->bytes_per_layer);
    out->overloaded = arena_array(memory, ranks, sizeof *out->overloaded);
    for (int rank = 0; rank < chain->stage_count; rank++) {
        int64_t bytes = 0;
        for (int layer = out->lists.first[rank]; layer >= 0; layer = out->lists.next[layer]) {
            bytes += bal_chain_memory_bytes(chain, rank, layer, layer + 1);
        }
        const int count = out->lists.count[rank] + (rank == 0 ? 1 : 0);
        out->memory_bytes[rank] = bytes;
        out->bytes_per_layer[rank] = out->lists.count[rank] > 0 ? bytes / count : bytes;
    }
    return STATUS_OK;
}

/// Where the layer is that the code takes for the lightest; -1 if only embedding or head is left.
static int index_to_send(const diffusion *state, int from)
{
    const bal_chain *chain = state->chain;
    const int skip_front = from == 0 && chain->embedding ? 1 : 0;
    const int skip_back = from > 0 && from == chain->stage_count - 1 && chain->head ? 1 : 0;
    int layer = -1;
    const int index =
        bal_layer_lists_lightest(&state->lists, chain, from, skip_front, skip_back, &layer);
    return index < 0 ? -1 : index - skip_front;
}

/// Sum of squared loads after the move of a weight.
static bal_wide squares_after(const diffusion *state, int from, int to, int64_t weight)
{
    bal_wide squares = 0;
    for (int rank = 0; rank < state->chain->stage_count; rank++) {
        bal_wide load = state->lists.load[rank];
        if (rank == from) load -= weight;
        if (rank == to) load += weight;
        squares += load * load;
    }
    return squares;
}

static void send_one(diffusion *state, int from, int to)
{
    const bal_chain *chain = state->chain;
    const int index = index_to_send(state, from);
    if (index < 0) return;
    if (chain->stage_memory_bytes != NULL &&
        state->memory_bytes[to] + state->bytes_per_layer[from] > chain->stage_memory_bytes[to]) {
        return;
    }
    const int layer = bal_layer_lists_at(&state->lists, from, index);
    const int64_t weight = chain->weight_before[layer + 1] - chain->weight_before[layer];
    const bal_wide squares = squares_after(state, from, to, weight);
    if (state->has_best && squares >= state->best_squares) return;
    state->has_best = true;
    state->best_squares = squares;
    const bool to_front = from == 0 && to == chain->stage_count - 1;
    bal_layer_lists_move(&state->lists, chain, from, index, to,
                         to_front ? BAL_LIST_FRONT : BAL_LIST_BACK);
    state->memory_bytes[to] += state->bytes_per_layer[from];
    state->memory_bytes[from] -= state->bytes_per_layer[from];
    state->transfers[state->transfer_count++] = (bal_transfer){from, to, layer};
}

static void iterate(diffusion *state)
{
    const int ranks = state->chain->stage_count;
    const int64_t total = state->chain->weight_before[state->chain->layer_count];
    const int to = bal_layer_lists_least_loaded(&state->lists);
    for (int rank = 0; rank < ranks; rank++) {
        state->overloaded[rank] = (bal_wide)state->lists.load[rank] * ranks > total;
    }
    for (int from = 0; from < ranks; from++) {
        if (state->overloaded[from] && !state->overloaded[to]) send_one(state, from, to);
    }
}

status bal_balance_diffusion_coded(const bal_problem *problem, const bal_chain *chain,
                                   arena *memory, bal_answer *answer, error_message *err)
{
    diffusion state = {0};
    int *owner = arena_array(memory, (size_t)chain->layer_count, sizeof *owner);
    TRY(diffusion_init(problem, chain, memory, &state, err));
    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        iterate(&state);
    }
    bal_layer_lists_owners(&state.lists, owner);
    answer->owner = owner;
    answer->transfers = state.transfers;
    answer->transfer_count = state.transfer_count;
    answer->iteration_count = ITERATIONS;
    return STATUS_OK;
}
