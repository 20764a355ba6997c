/// The balancers of the DynMo paper: its Algorithm 3 as printed, and what its released code does
/// instead. Layers leave the model order; nobody can execute the result, only its loads are meant.
#include "balance/partition/balancers.h"

enum { MOVES_PER_LAYER_MAX = 16, CODED_ITERATIONS = 5 };

/// Which rank holds which layers in which order, while they move.
typedef struct diffusion {
    const bal_chain *chain;
    int *next;             // [layer_count] the layer after it on its rank, or -1
    int *first;            // [rank_count] or -1
    int *count;            // [rank_count]
    int64_t *load;         // [rank_count]
    int64_t *memory_bytes; // [rank_count] what each rank holds, or the code believes that it holds
    bool *overloaded;      // [rank_count] at the begin of the iteration
    bal_transfer *transfers;
    int transfer_count;
    int transfer_max;
    int64_t *bytes_per_layer; // [rank_count] coded: of the layers that a rank sends
    bool has_best;            // coded
    bal_wide best_squares;    // coded: sum of squared loads; orders plans as their variance does
} diffusion;

static int64_t weight_of(const bal_chain *chain, int layer)
{
    return chain->weight_before[layer + 1] - chain->weight_before[layer];
}

static int64_t bytes_of(const bal_chain *chain, int rank, int layer)
{
    return bal_chain_memory_bytes(chain, rank, layer, layer + 1);
}

/// Fills the owners of the plan in force, or of `even` where there is none with as many stages.
static void fill_owners(const bal_problem *problem, const bal_chain *chain, arena *memory,
                        int *owner)
{
    const bool is_other =
        problem->current_stage_count != 0 && problem->current_stage_count != chain->stage_count;
    int *even = arena_array(memory, (size_t)chain->stage_count + 1, sizeof *even);
    bal_even_cuts(chain, even);
    const bal_placed_partition plan = {
        .first_layer =
            is_other || problem->current_first_layer == NULL ? even : problem->current_first_layer,
        .rank_count = chain->stage_count,
        .chunk_count = 1};
    bal_placed_owners(&plan, owner);
}

/// Every rank begins with its layers in model order.
///
/// @param owner [layer_count] scratch
static status diffusion_init(const bal_problem *problem, const bal_chain *chain, int transfer_max,
                             arena *memory, int *owner, diffusion *at, error_message *err)
{
    const size_t ranks = (size_t)chain->stage_count;
    *at = (diffusion){.chain = chain, .transfer_max = transfer_max};
    at->next = arena_array(memory, (size_t)chain->layer_count, sizeof *at->next);
    at->first = arena_array(memory, ranks, sizeof *at->first);
    at->count = arena_array(memory, ranks, sizeof *at->count);
    at->load = arena_array(memory, ranks, sizeof *at->load);
    at->memory_bytes = arena_array(memory, ranks, sizeof *at->memory_bytes);
    at->overloaded = arena_array(memory, ranks, sizeof *at->overloaded);
    at->transfers = arena_array(memory, (size_t)transfer_max, sizeof *at->transfers);
    at->bytes_per_layer = arena_array(memory, ranks, sizeof *at->bytes_per_layer);
    if (problem->current_owner == NULL) fill_owners(problem, chain, memory, owner);
    for (int rank = 0; rank < chain->stage_count; rank++) {
        at->first[rank] = -1;
    }
    for (int layer = chain->layer_count - 1; layer >= 0; layer--) {
        const int rank =
            problem->current_owner != NULL ? problem->current_owner[layer] : owner[layer];
        if (rank < 0 || rank >= chain->stage_count) {
            return error_set(err, STATUS_INVALID,
                             "current_owner of layer %d: rank %d is outside [0, %d)", layer, rank,
                             chain->stage_count);
        }
        at->next[layer] = at->first[rank];
        at->first[rank] = layer;
        at->count[rank]++;
        at->load[rank] += weight_of(chain, layer);
        at->memory_bytes[rank] += bytes_of(chain, rank, layer);
    }
    return STATUS_OK;
}

static void mark_overloaded(diffusion *at)
{
    const int ranks = at->chain->stage_count;
    const int64_t total = at->chain->weight_before[at->chain->layer_count];
    for (int rank = 0; rank < ranks; rank++) {
        at->overloaded[rank] = (bal_wide)at->load[rank] * ranks > total;
    }
}

/// The rank with the smallest load, the first of equal ones.
static int least_loaded(const diffusion *at)
{
    int least = 0;
    for (int rank = 1; rank < at->chain->stage_count; rank++) {
        if (at->load[rank] < at->load[least]) least = rank;
    }
    return least;
}

static int layer_at(const diffusion *at, int rank, int index)
{
    int layer = at->first[rank];
    for (; index > 0; index--) {
        layer = at->next[layer];
    }
    return layer;
}

/// Index of the lightest layer of a rank among those from skip_front on and before the last
/// skip_back, the first of equal ones; -1 if there is none.
static int lightest(const diffusion *at, int rank, int skip_front, int skip_back)
{
    int best = -1;
    int64_t best_weight = 0;
    int index = 0;
    for (int layer = at->first[rank]; layer >= 0; layer = at->next[layer], index++) {
        if (index < skip_front || index >= at->count[rank] - skip_back) continue;
        const int64_t weight = weight_of(at->chain, layer);
        if (best >= 0 && weight >= best_weight) continue;
        best = index;
        best_weight = weight;
    }
    return best;
}

/// Moves a layer to the front or the back of another list.
static void move_layer(diffusion *at, int from, int index, int to, bool to_front)
{
    int *link = &at->first[from];
    for (; index > 0; index--) {
        link = &at->next[*link];
    }
    const int layer = *link;
    const int64_t weight = weight_of(at->chain, layer);
    *link = at->next[layer];
    link = &at->first[to];
    while (!to_front && *link >= 0) {
        link = &at->next[*link];
    }
    at->next[layer] = *link;
    *link = layer;
    at->count[from]--;
    at->count[to]++;
    at->load[from] -= weight;
    at->load[to] += weight;
    at->transfers[at->transfer_count++] = (bal_transfer){from, to, layer};
}

static void answer_owners(const diffusion *at, int *owner, bal_answer *answer)
{
    for (int rank = 0; rank < at->chain->stage_count; rank++) {
        for (int layer = at->first[rank]; layer >= 0; layer = at->next[layer]) {
            owner[layer] = rank;
        }
    }
    answer->owner = owner;
    answer->transfers = at->transfers;
    answer->transfer_count = at->transfer_count;
}

/// Offers the lightest layer of a rank to the least loaded one; true if it went.
///
/// Moving weight w from load A to load B changes the sum of squared loads by 2 w (w - (A - B)), so
/// a move is accepted exactly if 0 < w < A - B. The variance falls with every move: it ends, but
/// possibly far from the optimum (up to twice), and a layer without weight blocks its rank for
/// good.
static bool offer_lightest(diffusion *at, int from)
{
    const bal_chain *chain = at->chain;
    const int to = least_loaded(at);
    const int index = lightest(at, from, 0, 0);
    if (index < 0) return false;
    const int layer = layer_at(at, from, index);
    const int64_t weight = weight_of(chain, layer);
    if (weight <= 0 || weight >= at->load[from] - at->load[to]) return false;
    const int64_t needed = bytes_of(chain, to, layer);
    if (chain->stage_memory_bytes != NULL &&
        at->memory_bytes[to] + needed >= chain->stage_memory_bytes[to]) {
        return false;
    }
    move_layer(at, from, index, to, false);
    at->memory_bytes[from] -= bytes_of(chain, from, layer);
    at->memory_bytes[to] += needed;
    return true;
}

static bool iterate_published(diffusion *at)
{
    bool moved = false;
    mark_overloaded(at);
    for (int rank = 0; rank < at->chain->stage_count; rank++) {
        if (at->transfer_count == at->transfer_max) break;
        if (at->overloaded[rank] && offer_lightest(at, rank)) moved = true;
    }
    return moved;
}

/// Every overloaded rank in turn offers its lightest layer to the least loaded rank, and the move
/// is made if it lowers the variance of the loads.
///
/// The paper leaves the number of iterations to the user; without one it runs until an iteration
/// moves nothing, or until 16 moves per layer have been made, which is never seen on real loads.
status bal_balance_diffusion_published(const bal_problem *problem, const bal_chain *chain,
                                       arena *memory, bal_answer *answer, error_message *err)
{
    diffusion at;
    int *owner = arena_array(memory, (size_t)chain->layer_count, sizeof *owner);
    TRY(diffusion_init(problem, chain, MOVES_PER_LAYER_MAX * chain->layer_count, memory, owner, &at,
                       err));
    answer->iteration_count = 1;
    while (iterate_published(&at) && at.transfer_count < at.transfer_max &&
           answer->iteration_count != problem->diffusion_iteration_max) {
        answer->iteration_count++;
    }
    answer_owners(&at, owner, answer);
    return STATUS_OK;
}

/// Where the layer is that the code takes for the lightest; -1 if only embedding or head is left.
static int index_to_send(const diffusion *at, int from)
{
    const bal_chain *chain = at->chain;
    const int skip_front = from == 0 && chain->embedding ? 1 : 0;
    const int skip_back = from > 0 && from == chain->stage_count - 1 && chain->head ? 1 : 0;
    const int index = lightest(at, from, skip_front, skip_back);
    return index < 0 ? -1 : index - skip_front;
}

/// Sum of squared loads after the move of a weight.
static bal_wide squares_after(const diffusion *at, int from, int to, int64_t weight)
{
    bal_wide squares = 0;
    for (int rank = 0; rank < at->chain->stage_count; rank++) {
        bal_wide load = at->load[rank];
        if (rank == from) load -= weight;
        if (rank == to) load += weight;
        squares += load * load;
    }
    return squares;
}

static void send_coded(diffusion *at, int from, int to)
{
    const bal_chain *chain = at->chain;
    const int index = index_to_send(at, from);
    const int64_t bytes = at->bytes_per_layer[from];
    if (index < 0) return;
    if (chain->stage_memory_bytes != NULL &&
        at->memory_bytes[to] + bytes > chain->stage_memory_bytes[to]) {
        return;
    }
    const int64_t weight = weight_of(chain, layer_at(at, from, index));
    const bal_wide squares = squares_after(at, from, to, weight);
    if (at->has_best && squares >= at->best_squares) return;
    at->has_best = true;
    at->best_squares = squares;
    move_layer(at, from, index, to, from == 0 && to == chain->stage_count - 1);
    at->memory_bytes[to] += bytes;
    at->memory_bytes[from] -= bytes;
}

static void iterate_coded(diffusion *at)
{
    const int to = least_loaded(at);
    mark_overloaded(at);
    for (int from = 0; from < at->chain->stage_count; from++) {
        if (at->overloaded[from] && !at->overloaded[to]) send_coded(at, from, to);
    }
}

/// Diffusion as DynMo's released code does it, which is not its Algorithm 3. What differs, kept:
///
///   - five iterations, always;
///   - who is overloaded, and who is the least loaded, is decided once per iteration, so all
///     overloaded ranks send to the same one;
///   - a move is compared with the best variance so far, which starts at infinity: the first one is
///     made whatever it does;
///   - a rank receives at its end, after the head on the last one (from rank 0 the last one
///     receives at its front), so layers leave the model order;
///   - the lightest layer of rank 0 is looked for after the embedding, but its index is used from
///     the embedding on: the layer before it goes, possibly the embedding;
///   - a layer's memory is its rank's memory at the start divided by its number of layers (plus one
///     on rank 0).
///
/// The released code has two entries after the layers of the last rank (pooler and loss) where
/// here the head is one. The cap is stage_memory_bytes of the receiver; the original has 32e9.
/// Source: github.com/wahibium/DynMo at 7faf19e, megatron/balancer/diffusion.py.
status bal_balance_diffusion_coded(const bal_problem *problem, const bal_chain *chain,
                                   arena *memory, bal_answer *answer, error_message *err)
{
    diffusion at;
    int *owner = arena_array(memory, (size_t)chain->layer_count, sizeof *owner);
    TRY(diffusion_init(problem, chain, CODED_ITERATIONS * chain->stage_count, memory, owner, &at,
                       err));
    for (int rank = 0; rank < chain->stage_count; rank++) {
        const int64_t bytes = at.memory_bytes[rank];
        const int count = at.count[rank] + (rank == 0 ? 1 : 0);
        at.bytes_per_layer[rank] = at.count[rank] > 0 ? bytes / count : bytes;
    }
    for (int iteration = 0; iteration < CODED_ITERATIONS; iteration++) {
        iterate_coded(&at);
    }
    answer_owners(&at, owner, answer);
    answer->iteration_count = CODED_ITERATIONS;
    return STATUS_OK;
}
