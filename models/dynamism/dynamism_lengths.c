/// Sequences of unlike length: microbatches of packed sequences, whose attention takes unlike time.
#include "base/file.h"
#include "models/dynamism/dynamism_case.h"
#include "models/lengths/context_sharding.h"
#include "models/lengths/packing.h"
#include "models/lengths/sequence_lengths.h"

#include <inttypes.h>
#include <string.h>

enum { WINDOW_MAX = 1024, POOL_BYTES = 1 << 18, BINS_MAX = 1 << 20 };

/// Sequences of a window.
enum { WINDOW_SEQUENCES_MAX = 1 << 24 };

typedef enum attention_mask {
    MASK_DOCUMENT, ///< a token sees its own sequence
    MASK_CAUSAL,   ///< it sees all of the microbatch before it
    MASK_COUNT
} attention_mask;

static const char *const mask_names[MASK_COUNT] = {"document", "causal"};

/// Whose sequences may change their microbatch.
typedef enum packing_scope {
    ACROSS_REPLICAS,     ///< all of a window
    ACROSS_MICROBATCHES, ///< those that a replica has
    ACROSS_COUNT
} packing_scope;

static const char *const across_names[ACROSS_COUNT] = {"replicas", "microbatches"};

/// In which order a replica plays its microbatches.
typedef enum play_order { ORDER_PACKED, ORDER_LONGEST, ORDER_SHORTEST, ORDER_COUNT } play_order;

static const char *const order_names[ORDER_COUNT] = {"packed", "longest-first", "shortest-first"};

/// A place in the stream of sequences; those above the budget are cut into pieces of it.
typedef struct place {
    int64_t sequence;
    int64_t offset; // tokens of it that are passed
    int64_t piece;  // number of the piece that comes next
} place;

/// What a microbatch holds.
typedef struct microbatch {
    int first; // sequences packed[first] to packed[first + count - 1]
    int count;
    int64_t tokens;
    double cost;               // by which it is dealt and ordered
    model_context_share share; // of the work: of the slowest rank of its context group
} microbatch;

typedef struct lengths_state {
    model_case of;
    model_sequence_lengths lengths;
    int budget;         // tokens of a microbatch
    double base_tokens; // of the base's microbatch
    double base_pairs;
    model_context context; // the group, and what a token and a pair take of a whole model's pass
    int mask;              // attention_mask
    int packing;           // model_packing_kind
    int across;            // packing_scope
    int order;             // play_order
    int window;            // steps whose sequences are packed together
    int replica_count;     // R
    int microbatch_count;  // M

    place *begin;     // [windows + 1] of each window that is known
    int known_window; // begin[0 .. known_window] are known
    int at_hand;      // window whose bins are held; -1: none
    int sequence_count;
    int32_t *tokens;      // [sequence_count] of the window at hand, as they come; of pool
    int32_t *packed;      // [sequence_count] the same by microbatch; of pool
    int64_t *number;      // [sequence_count] of each of these in the order of arrival; of pool
    int packed_count;     // of those that are there
    int64_t first_number; // of the window at hand
    microbatch *bins;     // [window * R * M] by step, replica and place in the replica's order
    arena *pool;          // scratch
    arena *share_memory;  // scratch of a bin's share
    double *whole;        // [layer_count][M] tokens over the base's
    double *attention;    // [layer_count][M] pairs over the base's, over whole
    double *exchange;     // [layer_count][M] tokens whose keys and values travel, likewise
    double *held;         // [layer_count] fullest microbatch over the base's
} lengths_state;

static double cost_of(const lengths_state *at, int64_t tokens)
{
    const double linear = (at->context.token_cost + at->context.exchange_cost) * (double)tokens;
    if (at->mask != MASK_DOCUMENT) return linear;
    return linear + at->context.pair_cost * model_causal_pairs(tokens, at->context.sliding_window);
}

static int bin_count(const lengths_state *at)
{
    return at->window * at->replica_count * at->microbatch_count;
}

/// The piece at a place, which moves past it.
static int next_piece(const lengths_state *at, place *from)
{
    const int64_t left = model_sequence_length(&at->lengths, from->sequence) - from->offset;
    if (left > at->budget) {
        from->offset += at->budget;
        from->piece++;
        return at->budget;
    }
    *from = (place){from->sequence + 1, 0, from->piece + 1};
    return (int)left;
}

/// Passes over the sequences that fill the bins of a window in the order of arrival: these are the
/// window's, however they are packed.
///
/// @param tokens [as many] out, or NULL
/// @return how many; -1: more than WINDOW_SEQUENCES_MAX
static int take_window(const lengths_state *at, place *from, int32_t *tokens)
{
    int64_t filled = 0;
    int count = 0;
    for (int bin = 0; bin < bin_count(at);) {
        place after = *from;
        const int piece = next_piece(at, &after);
        if (filled + piece > at->budget) {
            bin++;
            filled = 0;
            continue;
        }
        if (count == WINDOW_SEQUENCES_MAX) return -1;
        if (tokens != NULL) tokens[count] = piece;
        filled += piece;
        count++;
        *from = after;
    }
    return count;
}

/// Steps and replicas of the bins as they come: Megatron deals each round of microbatches over the
/// replicas.
static int slot_of_arrival(const lengths_state *at, int bin)
{
    const int per_step = at->replica_count * at->microbatch_count;
    const int step = bin / per_step;
    const int in_step = bin % per_step;
    const int replica = in_step % at->replica_count;
    return (step * at->replica_count + replica) * at->microbatch_count +
           in_step / at->replica_count;
}

/// Puts the sequences of bins that know their counts next to each other.
///
/// @param chosen [count] sequences of the window
/// @param bin_of [count]
static void lay_out(lengths_state *at, const int *chosen, const int *bin_of, int count,
                    microbatch *bins, int bins_of_pool)
{
    for (int bin = 0; bin < bins_of_pool; bin++) {
        bins[bin].first = at->packed_count;
        at->packed_count += bins[bin].count;
        bins[bin].count = 0;
    }
    for (int index = 0; index < count; index++) {
        microbatch *bin = &bins[bin_of[index]];
        const int to = bin->first + bin->count++;
        at->packed[to] = at->tokens[chosen[index]];
        at->number[to] = at->first_number + chosen[index];
    }
}

/// Packs a pool of sequences into bins.
///
/// @param chosen [count] sequences of the window
/// @param bins   [bin_count] out
static status pack_pool(lengths_state *at, const int *chosen, int count, int bins_of_pool,
                        microbatch *bins, error_message *err)
{
    int32_t *tokens = arena_array(at->pool, (size_t)count, sizeof *tokens);
    double *cost = arena_array(at->pool, (size_t)count, sizeof *cost);
    int *bin_of = arena_array(at->pool, (size_t)count, sizeof *bin_of);
    for (int index = 0; index < count; index++) {
        tokens[index] = at->tokens[chosen[index]];
        cost[index] = cost_of(at, tokens[index]);
    }
    const model_packing packing = {.kind = (model_packing_kind)at->packing,
                                   .count = count,
                                   .tokens = tokens,
                                   .cost = cost,
                                   .bin_count = bins_of_pool,
                                   .budget = at->budget};
    TRY(model_pack(&packing, at->pool, bin_of, err));
    memset(bins, 0, (size_t)bins_of_pool * sizeof *bins);
    for (int index = 0; index < count; index++) {
        microbatch *bin = &bins[bin_of[index]];
        bin->count++;
        bin->tokens += tokens[index];
        bin->cost += cost[index];
    }
    lay_out(at, chosen, bin_of, count, bins, bins_of_pool);
    return STATUS_OK;
}

/// Deals the bins of a pool to its groups, a step of a replica each, so that these cost alike.
///
/// @param first slots of a group follow each other from here, groups after `stride` slots
static void deal(lengths_state *at, const microbatch *packed, int group_count, microbatch *first,
                 size_t stride)
{
    const int size = at->microbatch_count;
    const int count = group_count * size;
    double *cost = arena_array(at->pool, (size_t)count, sizeof *cost);
    int *group_of = arena_array(at->pool, (size_t)count, sizeof *group_of);
    int *members = arena_array(at->pool, (size_t)group_count, sizeof *members);
    for (int bin = 0; bin < count; bin++) {
        cost[bin] = packed[bin].cost;
    }
    model_pack_deal(cost, group_count, size, at->pool, group_of);
    for (int bin = 0; bin < count; bin++) {
        const int group = group_of[bin];
        first[(size_t)group * stride + (size_t)members[group]++] = packed[bin];
    }
}

/// All sequences of the window may go anywhere in it; in the order of arrival bins stay where they
/// come.
static status pack_window(lengths_state *at, error_message *err)
{
    const int count = bin_count(at);
    int *chosen = arena_array(at->pool, (size_t)at->sequence_count, sizeof *chosen);
    microbatch *packed = arena_array(at->pool, (size_t)count, sizeof *packed);
    for (int index = 0; index < at->sequence_count; index++) {
        chosen[index] = index;
    }
    TRY(pack_pool(at, chosen, at->sequence_count, count, packed, err));
    if (at->packing != MODEL_PACK_ARRIVAL) {
        deal(at, packed, at->window * at->replica_count, at->bins, (size_t)at->microbatch_count);
        return STATUS_OK;
    }
    for (int bin = 0; bin < count; bin++) {
        at->bins[slot_of_arrival(at, bin)] = packed[bin];
    }
    return STATUS_OK;
}

/// The bin that each sequence has by its arrival.
static status find_bins(lengths_state *at, int *bin_of, error_message *err)
{
    const model_packing arrival = {.kind = MODEL_PACK_ARRIVAL,
                                   .count = at->sequence_count,
                                   .tokens = at->tokens,
                                   .bin_count = bin_count(at),
                                   .budget = at->budget};
    return model_pack(&arrival, at->pool, bin_of, err);
}

/// Sequences stay with their replica.
static status pack_across_microbatches(lengths_state *at, error_message *err)
{
    const int count = at->window * at->microbatch_count;
    int *bin_of = arena_array(at->pool, (size_t)at->sequence_count, sizeof *bin_of);
    int *chosen = arena_array(at->pool, (size_t)at->sequence_count, sizeof *chosen);
    microbatch *packed = arena_array(at->pool, (size_t)count, sizeof *packed);
    TRY(find_bins(at, bin_of, err));
    for (int replica = 0; replica < at->replica_count; replica++) {
        int chosen_count = 0;
        for (int index = 0; index < at->sequence_count; index++) {
            if (bin_of[index] % at->replica_count == replica) chosen[chosen_count++] = index;
        }
        TRY(pack_pool(at, chosen, chosen_count, count, packed, err));
        deal(at, packed, at->window, at->bins + (size_t)replica * (size_t)at->microbatch_count,
             (size_t)at->replica_count * (size_t)at->microbatch_count);
    }
    return STATUS_OK;
}

static bool comes_first(const lengths_state *at, const microbatch *a, const microbatch *b)
{
    return at->order == ORDER_LONGEST ? a->cost > b->cost : a->cost < b->cost;
}

/// Puts the microbatches of each replica and step into the order in which they are played. Stable.
static void order_bins(lengths_state *at)
{
    const int size = at->microbatch_count;
    if (at->order == ORDER_PACKED) return;
    for (microbatch *group = at->bins; group < at->bins + bin_count(at); group += size) {
        for (int next = 1; next < size; next++) {
            const microbatch moved = group[next];
            int to = next;
            for (; to > 0 && comes_first(at, &moved, &group[to - 1]); to--) {
                group[to] = group[to - 1];
            }
            group[to] = moved;
        }
    }
}

static status find_window(lengths_state *at, int window, error_message *err)
{
    for (; at->known_window <= window; at->known_window++) {
        place from = at->begin[at->known_window];
        if (take_window(at, &from, NULL) < 0) {
            return error_set(err, STATUS_INVALID,
                             "case 'lengths': %d steps have more than %d sequences; take a smaller "
                             "window or longer sequences",
                             at->window, WINDOW_SEQUENCES_MAX);
        }
        at->begin[at->known_window + 1] = from;
    }
    return STATUS_OK;
}

/// The sequences of a microbatch as attention sees them: with a causal mask they are one.
static model_context_share share_bin(const lengths_state *at, const model_context *context,
                                     const microbatch *bin)
{
    const int32_t all = (int32_t)bin->tokens;
    const bool is_one = at->mask == MASK_CAUSAL && bin->count > 0;
    arena_reset(at->share_memory);
    return model_context_slowest(context, is_one ? &all : at->packed + bin->first,
                                 is_one ? 1 : bin->count, at->share_memory);
}

/// Makes the bins that hold in a window, unless they are there.
static status prepare(lengths_state *at, int window, error_message *err)
{
    if (at->at_hand == window) return STATUS_OK;
    TRY(find_window(at, window, err));
    at->at_hand = -1;
    place from = at->begin[window];
    at->sequence_count = take_window(at, &from, NULL);
    arena_reset(at->pool);
    at->tokens = arena_array(at->pool, (size_t)at->sequence_count, sizeof *at->tokens);
    at->packed = arena_array(at->pool, (size_t)at->sequence_count, sizeof *at->packed);
    at->number = arena_array(at->pool, (size_t)at->sequence_count, sizeof *at->number);
    at->packed_count = 0;
    at->first_number = at->begin[window].piece;
    from = at->begin[window];
    (void)take_window(at, &from, at->tokens);
    const bool is_one_pool = at->packing == MODEL_PACK_ARRIVAL || at->across == ACROSS_REPLICAS;
    TRY(is_one_pool ? pack_window(at, err) : pack_across_microbatches(at, err));
    order_bins(at);
    for (int bin = 0; bin < bin_count(at); bin++) {
        if (at->bins[bin].tokens > INT32_MAX) {
            return error_set(err, STATUS_INVALID,
                             "case 'lengths': a microbatch of %" PRId64 " tokens, of at most %d",
                             at->bins[bin].tokens, INT32_MAX);
        }
        at->bins[bin].share = share_bin(at, &at->context, &at->bins[bin]);
    }
    at->at_hand = window;
    return STATUS_OK;
}

static status read_source(lengths_state *at, error_message *err)
{
    model_case_parameters *parameters = at->of.parameters;
    const json_value file = model_parameter_ask(parameters, "file");
    const model_origin assumed = MODEL_ASSUMED("no lengths given: log-normal ones are drawn");
    const model_parameter rows[] = {
        {"mean_tokens", .real = &at->lengths.mean, .fallback = at->base_tokens / 4, .min = 1,
         .max = MODEL_SEQUENCE_TOKENS_MAX, .from = assumed},
        {"spread", .real = &at->lengths.spread, .fallback = 1, .max = 4, .from = assumed},
    };
    at->lengths.seed = at->of.seed;
    at->lengths.longest = at->budget;
    if (json_is_missing(file)) {
        return model_parameters_read(parameters, rows, sizeof rows / sizeof rows[0], err);
    }
    const char *name = NULL;
    TRY(json_string(file, &name, err));
    const char *path = file_path_beside(at->of.base->path, name, at->of.memory);
    error_message why = {0};
    const status read = model_sequence_lengths_read(path, at->of.memory, &at->lengths, &why);
    TRY(model_parameter_read(file, read, &why, err));
    model_parameter_note(parameters, "file", model_given, "%s: %" PRId64 " sequences", name,
                         at->lengths.given_count);
    return STATUS_OK;
}

static status read_names(const model_dynamism_base *base, model_case_parameters *parameters,
                         lengths_state *at, error_message *err)
{
    int context = MODEL_CONTEXT_EQUAL;
    const model_parameter rows[] = {
        {"mask", .whole = &at->mask, .names = mask_names, .name_count = MASK_COUNT,
         .from = MODEL_ASSUMED("a token sees its own sequence only")},
        {"packing", .whole = &at->packing, .names = model_packing_names,
         .name_count = MODEL_PACK_COUNT, .from = MODEL_ASSUMED("in the order of arrival")},
        {"across", .whole = &at->across, .names = across_names, .name_count = ACROSS_COUNT,
         .from = MODEL_ASSUMED("sequences may change their replica")},
        {"order", .whole = &at->order, .names = order_names, .name_count = ORDER_COUNT,
         .from = MODEL_ASSUMED("microbatches as they were packed")},
        {"context", .whole = &context, .names = model_context_names,
         .name_count = MODEL_CONTEXT_COUNT,
         .from = MODEL_ASSUMED("context parallelism divides every sequence alike")},
        {"tile_rows", .whole = &at->context.tile_rows, .fallback = 128, .min = 1, .max = 1024,
         .from = {MODEL_ORIGIN_PRESET, "queries of a tile of FlashAttention, heads of 128"}},
    };
    TRY(model_parameters_read(parameters, rows, sizeof rows / sizeof rows[0], err));
    at->context.rank_count = base->parallel.context > 0 ? base->parallel.context : 1;
    if (at->context.rank_count > 1) at->context.kind = (model_context_kind)context;
    at->context.budget = at->budget;
    for (int kind = 0; base->packing != NULL && kind < MODEL_PACK_COUNT; kind++) {
        if (strcmp(model_packing_names[kind], base->packing) == 0) at->packing = kind;
    }
    return STATUS_OK;
}

/// What the base's microbatch is, and what its tokens and pairs cost.
static status read_base(lengths_state *at, error_message *err)
{
    const model_dynamism_base *base = at->of.base;
    const model_layer_shares *shares = base->shares;
    const int length = base->shape->sequence_length;
    bal_layer_costs costs;
    double pair_ns = 0;
    double exchange_ns = 0;
    double whole_ns = 0;
    if (base->config->sliding_window > 0 && base->config->sliding_window < length) {
        at->context.sliding_window = base->config->sliding_window;
    }
    at->base_tokens = (double)length * base->shape->microbatch_size;
    at->base_pairs =
        model_causal_pairs(length, at->context.sliding_window) * base->shape->microbatch_size;
    TRY(model_case_first_costs(&at->of, &costs, err));
    for (int layer = 0; layer < at->of.layer_count; layer++) {
        const size_t first = (size_t)layer * (size_t)costs.microbatch_count;
        const int64_t pass_ns[] = {costs.forward_ns[first], costs.backward_input_ns[first],
                                   costs.backward_weight_ns[first]};
        for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
            whole_ns += (double)pass_ns[pass];
            pair_ns += (double)pass_ns[pass] * shares->share[pass][MODEL_PART_ATTENTION][layer];
            exchange_ns += (double)pass_ns[pass] * shares->share[pass][MODEL_PART_EXCHANGE][layer];
        }
    }
    at->context.pair_cost = pair_ns / at->base_pairs;
    at->context.exchange_cost = exchange_ns / at->base_tokens;
    at->context.token_cost = (whole_ns - pair_ns - exchange_ns) / at->base_tokens;
    return STATUS_OK;
}

static status read_numbers(lengths_state *at, error_message *err)
{
    const model_parameter rows[] = {
        {"window", .whole = &at->window, .fallback = 1, .min = 1, .max = WINDOW_MAX,
         .from = MODEL_ASSUMED("each step keeps its sequences")},
        {"budget_tokens", .whole = &at->budget, .fallback = at->base_tokens, .min = 1,
         .max = MODEL_SEQUENCE_TOKENS_MAX,
         .from = MODEL_ASSUMED("the model's sequence length x microbatch size")},
    };
    TRY(model_parameters_read(at->of.parameters, rows, sizeof rows / sizeof rows[0], err));
    const int64_t bins = (int64_t)at->window * at->replica_count * at->microbatch_count;
    if (bins <= BINS_MAX) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "case 'lengths': a window of %d steps has %" PRId64
                     " microbatches, at most %d are packed together",
                     at->window, bins, BINS_MAX);
}

static void carve(lengths_state *at)
{
    model_load *loads = at->of.load;
    const size_t cells = (size_t)at->of.layer_count * (size_t)at->microbatch_count;
    const size_t windows = (size_t)(at->of.base->iteration_count / at->window) + 1;
    at->begin = arena_array(at->of.memory, windows + 1, sizeof *at->begin);
    at->bins = arena_array(at->of.memory, (size_t)bin_count(at), sizeof *at->bins);
    at->whole = model_case_ones(at->of.memory, cells);
    at->attention = model_case_ones(at->of.memory, cells);
    at->exchange = model_case_ones(at->of.memory, cells);
    at->held = model_case_ones(at->of.memory, (size_t)at->of.layer_count);
    at->pool = arena_within(at->of.memory, POOL_BYTES);
    at->share_memory = arena_within(at->of.memory, POOL_BYTES);
    at->at_hand = -1;
    model_load load = {.column_count = at->microbatch_count, .whole = at->whole};
    loads[MODEL_LOAD_PUBLISHED] = load;
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        load.part[pass][MODEL_PART_ATTENTION] = at->attention;
        load.part[pass][MODEL_PART_EXCHANGE] = at->exchange;
    }
    load.activation = load.gradient = load.message = at->held;
    loads[MODEL_LOAD_PHYSICAL] = load;
}

/// How much more the slowest rank of a context group has than its ranks in the mean.
static void note_imbalance(model_case_parameters *parameters, const lengths_state *at)
{
    model_context even = at->context;
    double slowest = 0;
    double mean = 0;
    if (at->context.kind == MODEL_CONTEXT_EQUAL) return;
    even.kind = MODEL_CONTEXT_EQUAL;
    for (const microbatch *bin = at->bins; bin < at->bins + bin_count(at); bin++) {
        const model_context_share all = share_bin(at, &even, bin);
        slowest +=
            at->context.token_cost * bin->share.tokens + at->context.pair_cost * bin->share.pairs;
        mean += at->context.token_cost * all.tokens + at->context.pair_cost * all.pairs;
    }
    model_parameter_note(parameters, "context_imbalance", MODEL_ASSUMED(""),
                         "%.3f of an even share has the slowest of %d ranks, over the first "
                         "window",
                         mean > 0 ? slowest / mean : 1, at->context.rank_count);
}

/// What packing changes in the training, and how full the first window is.
static void note_effects(model_case_parameters *parameters, const lengths_state *at)
{
    const bool moves = at->packing != MODEL_PACK_ARRIVAL;
    double filled = 0;
    for (int index = 0; index < at->sequence_count; index++) {
        filled += at->tokens[index];
    }
    model_parameter_note(parameters, "fill", MODEL_ASSUMED(""),
                         "%.3f of the budget in the first window (%d sequences); tokens per second "
                         "count the budget",
                         filled / ((double)bin_count(at) * (double)at->budget), at->sequence_count);
    note_imbalance(parameters, at);
    model_parameter_note(parameters, "effect", MODEL_ASSUMED(""), "%s",
                         !moves ? "none: sequences in the order of arrival"
                         : at->window == 1
                             ? "every step has the sequences it had: its gradient in another order "
                               "of summing"
                             : "sequences change their step: the training is another one");
}

static status lengths_open(void *state, error_message *err)
{
    lengths_state *at = state;
    const model_dynamism_base *base = at->of.base;
    if (base->config == NULL || base->shape == NULL || base->shares == NULL) {
        return error_set(err, STATUS_INVALID,
                         "case 'lengths' needs the model that was traced, trace.model: it tells "
                         "how long the recorded sequences were");
    }
    at->replica_count = base->parallel.data;
    at->microbatch_count = base->microbatch_count;
    TRY(read_base(at, err));
    TRY(read_numbers(at, err));
    TRY(read_source(at, err));
    TRY(read_names(base, at->of.parameters, at, err));
    carve(at);
    TRY(prepare(at, 0, err));
    note_effects(at->of.parameters, at);
    at->of.source_count = at->replica_count;
    at->of.varies = true;
    return STATUS_OK;
}

/// Of the fullest microbatch of the step; never below the base's where the budget is not exceeded.
static double fullest_ratio(const lengths_state *at, const microbatch *step)
{
    int64_t most = at->budget;
    for (int index = 0; index < at->replica_count * at->microbatch_count; index++) {
        if (step[index].tokens > most) most = step[index].tokens;
    }
    return (double)most / at->base_tokens;
}

static status lengths_load_at(void *state, model_load_model load_model, int iteration, int replica,
                              bool *changed, error_message *err)
{
    (void)load_model;
    lengths_state *at = state;
    const int columns = at->microbatch_count;
    const int per_step = at->replica_count * columns;
    TRY(prepare(at, iteration / at->window, err));
    const microbatch *step = at->bins + (size_t)(iteration % at->window) * (size_t)per_step;
    const microbatch *held = step + (size_t)replica * (size_t)columns;
    for (int layer = 0; layer < at->of.layer_count; layer++) {
        double *whole = at->whole + (size_t)layer * (size_t)columns;
        double *attention = at->attention + (size_t)layer * (size_t)columns;
        double *exchange = at->exchange + (size_t)layer * (size_t)columns;
        at->held[layer] = fullest_ratio(at, step);
        for (int column = 0; column < columns; column++) {
            const model_context_share *share = &held[column].share;
            whole[column] = share->tokens / at->base_tokens;
            const bool has_any = whole[column] > 0;
            attention[column] = has_any ? share->pairs / at->base_pairs / whole[column] : 0;
            exchange[column] = has_any ? share->exchanged / share->tokens : 0;
        }
    }
    *changed = iteration == 0;
    return STATUS_OK;
}

static status lengths_documents(void *state, int iteration, int replica, int microbatch_index,
                                model_documents *documents, error_message *err)
{
    lengths_state *at = state;
    if (at->mask != MASK_DOCUMENT) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "mask 'causal': only sequences that attend to themselves can be told "
                         "apart");
    }
    TRY(prepare(at, iteration / at->window, err));
    const int step = iteration % at->window;
    const microbatch *bin = at->bins +
                            ((size_t)step * (size_t)at->replica_count + (size_t)replica) *
                                (size_t)at->microbatch_count +
                            microbatch_index;
    *documents = (model_documents){bin->count, at->packed + bin->first, at->number + bin->first};
    return STATUS_OK;
}

const model_dynamism_case model_dynamism_lengths = {
    .name = "lengths",
    .needs_shares = true,
    .state_bytes = sizeof(lengths_state),
    .open = lengths_open,
    .load_at = lengths_load_at,
    .documents = lengths_documents,
};
