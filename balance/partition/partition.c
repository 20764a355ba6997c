/// Exact cuts of one chunk per rank: probes and bisection, and a table where messages count.
#include "balance/partition/partition.h"

#include "balance/partition/chain.h"
#include "base/arena.h"
#include "base/status.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/// What a probe asks: is there a plan whose value is within bound?
typedef struct probe {
    const bal_chain *chain;
    int64_t microbatch_count; // of the 1F1B bound; 0: the bottleneck
    const int *at_most;       // [stage_count + 1] or NULL: limit of every cut
    int *first;               // [stage_count + 1] the latest cuts, valid after success
    int64_t next;             // after failure: the smallest bound that could answer otherwise
    int reach;                // after failure: layers that the stages hold from the front
} probe;

/// The furthest end in [begin, last] of a stage that starts at begin and weighs at most weight.
static int end_within(const int64_t *before, int begin, int last, int64_t weight)
{
    if (weight < 0) return begin;
    const int64_t limit = weight > INT64_MAX - before[begin] ? INT64_MAX : before[begin] + weight;
    int low = begin;     // before[low] <= limit
    int high = last + 1; // before[high] > limit
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        if (before[middle] <= limit) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static int end_in_memory(const bal_chain *chain, int stage, int begin, int last)
{
    if (bal_chain_fits(chain, stage, begin, last)) return last;
    int low = begin;
    int high = last;
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        if (bal_chain_fits(chain, stage, begin, middle)) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/// Own share of the bound that a stage takes which owns [begin, end).
static int64_t value_of(const probe *ask, int stage, int begin, int end)
{
    const int64_t load = bal_chain_own_load(ask->chain, stage, begin, end);
    if (ask->microbatch_count == 0) return load;
    return ask->chain->weight_before[begin] + ask->microbatch_count * load;
}

/// The furthest end of stage within bound, at most last; begin if it can own no layer. Notes the
/// smallest value above bound that it met.
static int furthest_end(probe *ask, int stage, int begin, int last, int64_t bound)
{
    if (last <= begin) return last;
    const bal_chain *chain = ask->chain;
    int64_t weight = 0;
    if (ask->microbatch_count == 0) {
        weight = bal_chain_weight_within(chain, stage, bound);
    } else {
        const int64_t rest = bound - chain->weight_before[begin];
        weight = rest < 0 ? -1 : rest / ask->microbatch_count;
    }
    int end = end_within(chain->weight_before, begin, last, weight);
    if (chain->stage_memory_bytes != NULL) end = end_in_memory(chain, stage, begin, end);
    if (end < last && bal_chain_fits(chain, stage, begin, end + 1)) {
        const int64_t value = value_of(ask, stage, begin, end + 1);
        if (value > bound && value < ask->next) ask->next = value;
    }
    return end;
}

/// Whether stage, or one after it, could own layer and nothing else. Asked for a layer that no
/// plan gives to a stage in front: if none could, there is no plan, since owning more layers costs
/// no stage less. Neither does it under the 1F1B bound, where each layer in front of `layer` moves
/// from the loads before the stage to its own, which count microbatch_count times.
static bool is_held_behind(probe *ask, int stage, int layer, int64_t bound)
{
    for (; stage < ask->chain->stage_count; stage++) {
        if (!bal_chain_fits(ask->chain, stage, layer, layer + 1)) continue;
        const int64_t value = value_of(ask, stage, layer, layer + 1);
        if (value <= bound) return true;
        if (value < ask->next) ask->next = value;
    }
    return false;
}

/// Finds the latest cuts within bound, or that there are none.
///
/// Why this is exact. Loads and memory never shrink when a stage's run of layers grows, so for a
/// fixed bound the furthest end e_s(i) of a stage that starts at i rises with i, and the rules are
///
///     first[s + 1] <= e_s(first[s])         the stage keeps its bound and its memory
///     first[s] <= first[s + 1] - need_s     need_s = 1 if the stage must own a layer, else 0
///     first[0] = 0,  first[P] = L.
///
/// Both kinds limit one cut by a rising function of a neighbour. Such systems have a largest
/// solution that is above every other in each cut at once (the cutwise maximum of two solutions is
/// a solution), and lowering cuts only when a rule forces it ends there: by induction no cut is
/// ever lowered below that of any solution. The walk starts with every cut as late as the stages
/// after it allow and moves right while the rules hold. Where stage s cannot own what it must, its
/// first layer is lowered by as much as the rule says and the walk steps back to re-check the stage
/// before. Plain "extend as far as possible" is not enough once stages must not be empty and
/// differ in speed or memory: a stage may have to leave a layer that it could take, because the
/// next one can hold that layer but not the one after it.
///
/// Cuts only fall, so the walk ends, after O(P + number of lowerings) steps. Between stages that
/// are alike it never steps back: the first layer that one of them cannot own ends it.
static bool latest_cuts(probe *ask, int64_t bound)
{
    const bal_chain *chain = ask->chain;
    const int stages = chain->stage_count;
    int *first = ask->first;
    ask->next = INT64_MAX;
    ask->reach = 0;
    first[stages] = chain->layer_count;
    for (int stage = stages - 1; stage >= 0; stage--) {
        first[stage] = first[stage + 1] - (bal_chain_may_be_empty(chain, stage) ? 0 : 1);
        if (ask->at_most != NULL && ask->at_most[stage] < first[stage]) {
            first[stage] = ask->at_most[stage];
        }
    }
    if (first[0] < 0) return false;
    first[0] = 0;
    for (int stage = 0; stage < stages;) {
        const int need = bal_chain_may_be_empty(chain, stage) ? 0 : 1;
        const int end = furthest_end(ask, stage, first[stage], first[stage + 1], bound);
        if (end > ask->reach) ask->reach = end;
        if (stage == stages - 1 && end < chain->layer_count) return false;
        if (end - first[stage] >= need) {
            first[stage + 1] = end;
            stage++;
            continue;
        }
        if (stage == 0 || end < need) return false;
        if (end == first[stage] && !is_held_behind(ask, stage, end, bound)) return false;
        first[stage] = end - need;
        stage--;
    }
    return true;
}

static int64_t plan_value(const probe *ask)
{
    int64_t largest = 0;
    for (int stage = 0; stage < ask->chain->stage_count; stage++) {
        const int begin = ask->first[stage];
        const int end = ask->first[stage + 1];
        if (begin == end) continue;
        const int64_t value = value_of(ask, stage, begin, end);
        if (value > largest) largest = value;
    }
    return largest;
}

static status say_infeasible(const bal_chain *chain, int reach, error_message *err)
{
    for (int layer = 0; layer < chain->layer_count; layer++) {
        bool fits = false;
        for (int stage = 0; stage < chain->stage_count && !fits; stage++) {
            fits = bal_chain_fits(chain, stage, layer, layer + 1);
        }
        if (fits) continue;
        return error_set(err, STATUS_INFEASIBLE,
                         "layer %d alone (%" PRId64 " bytes of state) exceeds the memory cap of "
                         "every stage",
                         layer, chain->state_before[layer + 1] - chain->state_before[layer]);
    }
    return error_set(err, STATUS_INFEASIBLE,
                     "no plan of %d stages keeps every stage within its memory cap%s: together "
                     "they hold at most the first %d of %d layers",
                     chain->stage_count, chain->allow_empty_stages ? "" : " and non-empty", reach,
                     chain->layer_count);
}

/// A value that no plan beats: what is left when indivisible layers and caps are forgotten.
static int64_t search_begin(const bal_chain *chain, int64_t microbatch_count)
{
    if (chain->stage_time_factor_ppb != NULL || chain->layer_count == 0) return 0;
    const int64_t total = chain->weight_before[chain->layer_count];
    int64_t largest = 0;
    for (int layer = 0; layer < chain->layer_count; layer++) {
        const int64_t weight = chain->weight_before[layer + 1] - chain->weight_before[layer];
        if (weight > largest) largest = weight;
    }
    const int64_t mean = total / chain->stage_count + (total % chain->stage_count > 0);
    const int64_t load = mean > largest ? mean : largest;
    return microbatch_count > 1 ? load * microbatch_count : load;
}

/// Bisection between a value that no plan beats and one that a plan has. A success falls to the
/// value of the plan found. A failure rises to the smallest value at which any comparison of the
/// failed walk would come out otherwise: below it the same walk fails the same way.
static bool minimise(probe *ask, int64_t largest, int64_t *value)
{
    if (!latest_cuts(ask, largest)) return false;
    int64_t high = plan_value(ask);
    int64_t low = search_begin(ask->chain, ask->microbatch_count);
    // Most optima are close above the mean: widen from there before halving.
    int64_t step = low / 64 + 1;
    while (low < high) {
        const int64_t half = (high - low) / 2;
        const int64_t middle = low + (step < half ? step : half);
        if (latest_cuts(ask, middle)) {
            high = plan_value(ask);
        } else {
            assert(ask->next > middle && ask->next <= high);
            low = ask->next;
            step = step <= INT64_MAX / 2 ? step * 2 : step;
        }
    }
    const bool found = latest_cuts(ask, high);
    assert(found && plan_value(ask) == high);
    *value = high;
    return found;
}

/// The optimum without transfers, found by probes: a plan that shows whether the rules allow any,
/// and whose loads with transfers are an upper bound.
///
/// @param microbatch_count of the 1F1B bound; 0: the bottleneck
static status probe_optimum(const bal_chain *chain, int microbatch_count, arena *memory,
                            int *first_layer, int64_t *value, error_message *err)
{
    bal_chain without_transfer = *chain;
    without_transfer.transfer_ns = NULL;
    const size_t cuts = (size_t)chain->stage_count + 1;
    const int64_t largest = chain->load_sum_max * (microbatch_count > 0 ? microbatch_count : 1);
    probe ask = {.chain = &without_transfer,
                 .microbatch_count = microbatch_count,
                 .first = arena_array(memory, cuts, sizeof *ask.first)};
    if (!minimise(&ask, largest, value)) return say_infeasible(chain, ask.reach, err);
    memcpy(first_layer, ask.first, cuts * sizeof *first_layer);
    return STATUS_OK;
}

static int64_t largest_load(const bal_chain *chain, const int *first_layer)
{
    int64_t largest = 0;
    for (int stage = 0; stage < chain->stage_count; stage++) {
        const int64_t load =
            bal_chain_load(chain, stage, first_layer[stage], first_layer[stage + 1]);
        if (load > largest) largest = load;
    }
    return largest;
}

/// What a table of cuts minimises.
typedef enum cut_value {
    CUT_LARGEST_LOAD, ///< the largest load of the stages so far
    CUT_LOAD_SUM,     ///< their sum, with (sum before + microbatch_count * load) <= bound
    CUT_SQUARES,      ///< the sum of their squares
    CUT_MOVED_BYTES,  ///< the bytes of the layers that are on another rank now
} cut_value;

/// A dynamic program with one row per stage, for values that depend on more than a stage's own
/// layers: on the messages over its cuts, or on what the stages before it cost. Ties: the latest
/// cut, seen from the last stage.
typedef struct cut_table {
    const bal_chain *chain;
    cut_value value;
    int64_t load_max;         // of every stage
    int64_t microbatch_count; // load sum only
    int64_t bound;            // load sum only
    const int *owner;         // moved bytes only: [layer_count] rank that holds a layer now
    const int *place_rank;    // moved bytes only: [rank_count] or NULL: place p is rank p
    int64_t *away;            // moved bytes only: [layer_count + 1] in front, not on a stage's rank
    int *earliest;            // [stage_count + 1] no plan within load_max has a cut before
    int *latest;              // [stage_count + 1] nor after
    size_t *row;              // [stage_count + 2] where the places of a cut begin in choice
    int *choice;              // by row and place: the cut before
    bal_wide *least;          // [layer_count + 1] of the stages up to a place, or UNREACHED
    bal_wide *before;         // [layer_count + 1] likewise, without the last of them
} cut_table;

enum { UNREACHED = -1 };

/// Allows every cut all places that leave the stages on both sides what they must own.
static void cut_table_init(const bal_chain *chain, arena *memory, cut_table *table)
{
    const int stages = chain->stage_count;
    const size_t cuts = (size_t)stages + 1;
    table->chain = chain;
    table->earliest = arena_array(memory, cuts, sizeof *table->earliest);
    table->latest = arena_array(memory, cuts, sizeof *table->latest);
    table->latest[stages] = chain->layer_count;
    for (int stage = 0; stage < stages; stage++) {
        const int last = stages - 1 - stage;
        table->earliest[stage + 1] =
            table->earliest[stage] + (bal_chain_may_be_empty(chain, stage) ? 0 : 1);
        table->latest[last] =
            table->latest[last + 1] - (bal_chain_may_be_empty(chain, last) ? 0 : 1);
    }
    table->latest[0] = 0;
    table->earliest[stages] = chain->layer_count;
}

/// Keeps to the places that a load leaves; transfers only narrow them.
static status cut_table_narrow(const bal_chain *chain, arena *memory, cut_table *table,
                               error_message *err)
{
    bal_chain without_transfer = *chain;
    without_transfer.transfer_ns = NULL;
    TRY(bal_partition_latest(&without_transfer, table->load_max, NULL, table->latest, err));
    return bal_partition_earliest(&without_transfer, table->load_max, memory, table->earliest, err);
}

/// Carves the rows.
///
/// @return how many places they have
static size_t cut_table_carve(arena *memory, cut_table *table)
{
    const size_t cuts = (size_t)table->chain->stage_count + 1;
    const size_t width = (size_t)table->chain->layer_count + 1;
    table->row = arena_array(memory, cuts + 1, sizeof *table->row);
    for (size_t cut = 0; cut < cuts; cut++) {
        const int places = table->latest[cut] - table->earliest[cut] + 1;
        table->row[cut + 1] = table->row[cut] + (size_t)places;
    }
    if (table->row[cuts] > BAL_FLATTEST_CUTS_MAX && table->value == CUT_SQUARES) {
        return table->row[cuts];
    }
    table->choice = arena_array(memory, table->row[cuts], sizeof *table->choice);
    table->least = arena_array(memory, width, sizeof *table->least);
    table->before = arena_array(memory, width, sizeof *table->before);
    return table->row[cuts];
}

/// Value of the stages up to and with one that owns [begin, end); UNREACHED if that is not allowed.
static bal_wide value_after(const cut_table *at, int stage, int begin, int end)
{
    const bal_wide before = at->before[begin];
    const bal_wide load = bal_chain_load(at->chain, stage, begin, end);
    if (before == UNREACHED || load > at->load_max) return UNREACHED;
    switch (at->value) {
    case CUT_LOAD_SUM:
        return before + at->microbatch_count * load > at->bound ? UNREACHED : before + load;
    case CUT_SQUARES:
        return before + load * load;
    case CUT_MOVED_BYTES:
        return before + at->away[end] - at->away[begin];
    default:
        return load > before ? load : before;
    }
}

/// The best begin of a stage that ends at end.
static void fill_place(cut_table *at, int stage, int end)
{
    const bal_chain *chain = at->chain;
    int *choice = &at->choice[at->row[stage + 1] + (size_t)(end - at->earliest[stage + 1])];
    bal_wide best = UNREACHED;
    int begin = bal_chain_may_be_empty(chain, stage) ? end : end - 1;
    if (begin > at->latest[stage]) begin = at->latest[stage];
    for (; begin >= at->earliest[stage]; begin--) {
        // Longer runs need more memory and more time of their own: none of them fits either.
        if (!bal_chain_fits(chain, stage, begin, end)) break;
        if (bal_chain_own_load(chain, stage, begin, end) > at->load_max) break;
        const bal_wide value = value_after(at, stage, begin, end);
        if (value == UNREACHED || (best != UNREACHED && value >= best)) continue;
        best = value;
        *choice = begin;
    }
    at->least[end] = best;
}

/// Sums up what moves to the rank of a stage, over the layers that it may own.
static void sum_away(cut_table *at, int stage)
{
    const bal_chain *chain = at->chain;
    const int64_t *state = chain->state_before;
    const int place = bal_rank_of_stage(chain->placement, bal_chain_rank_count(chain),
                                        chain->chunk_count, stage, NULL);
    const int rank = at->place_rank != NULL ? at->place_rank[place] : place;
    at->away[at->earliest[stage]] = 0;
    for (int layer = at->earliest[stage]; layer < at->latest[stage + 1]; layer++) {
        const bool moves = at->owner[layer] != rank;
        at->away[layer + 1] = at->away[layer] + (moves ? state[layer + 1] - state[layer] : 0);
    }
}

/// Finds a partition with the least value.
///
/// @param first_layer [stage_count + 1] out, untouched if there is none
/// @return false if no partition keeps the rules. Time O(places of all cuts * layers that fit
///         load_max).
static bool cut_table_answer(cut_table *at, int *first_layer)
{
    const int stages = at->chain->stage_count;
    const int layers = at->chain->layer_count;
    at->least[0] = 0;
    for (int stage = 0; stage < stages; stage++) {
        bal_wide *swap = at->before;
        at->before = at->least;
        at->least = swap;
        if (at->value == CUT_MOVED_BYTES) sum_away(at, stage);
        for (int end = at->earliest[stage + 1]; end <= at->latest[stage + 1]; end++) {
            fill_place(at, stage, end);
        }
    }
    if (at->least[layers] == UNREACHED) return false;
    first_layer[stages] = layers;
    for (int cut = stages; cut > 0; cut--) {
        const int place = first_layer[cut] - at->earliest[cut];
        first_layer[cut - 1] = at->choice[at->row[cut] + (size_t)place];
    }
    return true;
}

status bal_partition_bottleneck(const bal_chain *chain, arena *memory, int *first_layer,
                                int64_t *bottleneck, error_message *err)
{
    if (chain->transfer_ns == NULL) {
        return probe_optimum(chain, 0, memory, first_layer, bottleneck, err);
    }
    int64_t without_transfer = 0;
    int *first = arena_array(memory, (size_t)chain->stage_count + 1, sizeof *first);
    TRY(probe_optimum(chain, 0, memory, first, &without_transfer, err));
    cut_table table = {.value = CUT_LARGEST_LOAD, .load_max = largest_load(chain, first)};
    cut_table_init(chain, memory, &table);
    cut_table_carve(memory, &table);
    const bool found = cut_table_answer(&table, first_layer);
    assert(found); // the plan that load_max is of
    (void)found;
    *bottleneck = largest_load(chain, first_layer);
    return STATUS_OK;
}

status bal_partition_latest(const bal_chain *chain, int64_t load, const int *at_most,
                            int *first_layer, error_message *err)
{
    assert(chain->transfer_ns == NULL);
    probe ask = {.chain = chain, .at_most = at_most, .first = first_layer};
    if (latest_cuts(&ask, load)) return STATUS_OK;
    return error_set(err, STATUS_INFEASIBLE,
                     "no plan keeps every load within %" PRId64 " and its cuts within the limits",
                     load);
}

static void reversed(const int64_t *values, int count, arena *memory, const int64_t **out)
{
    if (values == NULL) return;
    int64_t *copy = arena_array(memory, (size_t)count, sizeof *copy);
    for (int index = 0; index < count; index++) {
        copy[index] = values[count - 1 - index];
    }
    *out = copy;
}

/// The chain read from its end, stages too: its latest cuts are the earliest ones of the original.
static void mirror_chain(const bal_chain *chain, arena *memory, bal_chain *out)
{
    assert(chain->transfer_ns == NULL);
    bal_chain made = *chain;
    const int layers = chain->layer_count;
    const int stages = chain->stage_count;
    made.rank_memory_bytes = NULL;
    made.rank_peaks = NULL;
    made.embedding = chain->head;
    made.head = chain->embedding;
    made.weight_before = bal_chain_turned(chain->weight_before, layers, memory);
    made.state_before = bal_chain_turned(chain->state_before, layers, memory);
    made.activation_before = bal_chain_turned(chain->activation_before, layers, memory);
    reversed(chain->stage_memory_bytes, stages, memory, &made.stage_memory_bytes);
    reversed(chain->stage_inflight, stages, memory, &made.stage_inflight);
    reversed(chain->stage_time_factor_ppb, stages, memory, &made.stage_time_factor_ppb);
    reversed(chain->stage_fixed_ns, stages, memory, &made.stage_fixed_ns);
    *out = made;
}

status bal_partition_earliest(const bal_chain *chain, int64_t load, arena *memory, int *first_layer,
                              error_message *err)
{
    bal_chain mirror;
    int *turned = arena_array(memory, (size_t)chain->stage_count + 1, sizeof *turned);
    mirror_chain(chain, memory, &mirror);
    TRY(bal_partition_latest(&mirror, load, NULL, turned, err));
    for (int cut = 0; cut <= chain->stage_count; cut++) {
        first_layer[cut] = chain->layer_count - turned[chain->stage_count - cut];
    }
    return STATUS_OK;
}

int64_t bal_1f1b_bound_ns(const int64_t *stage_load, int stage_count, int microbatch_count)
{
    int64_t before = 0;
    int64_t bound = 0;
    for (int stage = 0; stage < stage_count; stage++) {
        const int64_t value = before + microbatch_count * stage_load[stage];
        if (value > bound) bound = value;
        before += stage_load[stage];
    }
    return bound;
}

static int64_t bound_of_plan(const bal_chain *chain, const int *first_layer, int microbatch_count,
                             int64_t *stage_load)
{
    bal_chain_loads(chain, first_layer, stage_load);
    return bal_1f1b_bound_ns(stage_load, chain->stage_count, microbatch_count);
}

/// Bisection where the loads before a stage depend on how the layers before it are cut. For a given
/// bound a plan with a smaller sum up to a cut can replace any other up to there, so the least sum
/// per cut is enough.
static status bound_by_table(const bal_chain *chain, int microbatch_count, arena *memory,
                             int *first_layer, int64_t *bound_ns, error_message *err)
{
    cut_table table = {.value = CUT_LOAD_SUM, .microbatch_count = microbatch_count};
    const size_t stages = (size_t)chain->stage_count;
    int *first = arena_array(memory, stages + 1, sizeof *first);
    int64_t *load = arena_array(memory, stages, sizeof *load);
    int64_t bottleneck = 0;
    TRY(probe_optimum(chain, 0, memory, first, &bottleneck, err));
    cut_table_init(chain, memory, &table);
    cut_table_carve(memory, &table);
    int64_t low = search_begin(chain, microbatch_count);
    int64_t high = bound_of_plan(chain, first, microbatch_count, load);
    while (low < high) {
        table.bound = low + (high - low) / 2;
        table.load_max = table.bound / microbatch_count;
        if (cut_table_answer(&table, first)) {
            high = bound_of_plan(chain, first, microbatch_count, load);
        } else {
            low = table.bound + 1;
        }
    }
    // Once more: of the plans within the optimum, the one whose loads have the least sum.
    table.bound = high;
    table.load_max = high / microbatch_count;
    const bool found = cut_table_answer(&table, first_layer);
    assert(found);
    (void)found;
    *bound_ns = high;
    return STATUS_OK;
}

status bal_partition_1f1b(const bal_chain *chain, int microbatch_count, arena *memory,
                          int *first_layer, int64_t *bound_ns, error_message *err)
{
    assert(microbatch_count >= 1);
    // prefix + M * load <= M * (prefix + load), so this bounds every value.
    if ((bal_wide)chain->load_sum_max * microbatch_count >= INT64_MAX) {
        return error_set(err, STATUS_INVALID,
                         "loads of up to %" PRId64 " times %d microbatches do not fit 64 bits",
                         chain->load_sum_max, microbatch_count);
    }
    if (chain->transfer_ns != NULL || chain->stage_fixed_ns != NULL ||
        chain->stage_time_factor_ppb != NULL) {
        return bound_by_table(chain, microbatch_count, memory, first_layer, bound_ns, err);
    }
    return probe_optimum(chain, microbatch_count, memory, first_layer, bound_ns, err);
}

status bal_partition_flattest(const bal_chain *chain, int64_t load, arena *memory, int *first_layer,
                              error_message *err)
{
    cut_table table = {.value = CUT_SQUARES, .load_max = load};
    const size_t cuts = (size_t)chain->stage_count + 1;
    cut_table_init(chain, memory, &table);
    TRY(cut_table_narrow(chain, memory, &table, err));
    const size_t places = cut_table_carve(memory, &table);
    if (places > BAL_FLATTEST_CUTS_MAX && chain->transfer_ns != NULL) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "%d layers leave too many places to the cuts of %d stages",
                         chain->layer_count, chain->stage_count);
    }
    if (places > BAL_FLATTEST_CUTS_MAX || (places == cuts && chain->transfer_ns == NULL)) {
        memcpy(first_layer, table.latest, cuts * sizeof *first_layer);
        return STATUS_OK;
    }
    if (cut_table_answer(&table, first_layer)) return STATUS_OK;
    return error_set(err, STATUS_INFEASIBLE,
                     "no plan keeps every load, messages included, within %" PRId64, load);
}

status bal_partition_moved_bytes(const bal_chain *chain, const int *owner, const int *place_rank,
                                 int64_t load, arena *memory, int *first_layer,
                                 int64_t *moved_bytes, error_message *err)
{
    cut_table table = {.value = CUT_MOVED_BYTES,
                       .load_max = load,
                       .owner = owner,
                       .place_rank = place_rank,
                       .away =
                           arena_array(memory, (size_t)chain->layer_count + 1, sizeof *table.away)};
    cut_table_init(chain, memory, &table);
    if (cut_table_narrow(chain, memory, &table, NULL) == STATUS_OK) {
        cut_table_carve(memory, &table);
        if (cut_table_answer(&table, first_layer)) {
            *moved_bytes = (int64_t)table.least[chain->layer_count];
            return STATUS_OK;
        }
    }
    int *best = arena_array(memory, (size_t)chain->stage_count + 1, sizeof *best);
    int64_t bottleneck = 0;
    TRY(bal_partition_bottleneck(chain, memory, best, &bottleneck, err));
    return error_set(err, STATUS_INFEASIBLE,
                     "no plan keeps every load within load_cap_ns %" PRId64
                     "; the smallest bottleneck is %" PRId64,
                     load, bottleneck);
}
