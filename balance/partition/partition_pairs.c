#include "balance/partition/partition_pairs.h"

#include "balance/partition/bounds.h"
#include "balance/partition/pair_rows.h"
#include "balance/partition/partition.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum { UNREACHED = -1, SCRATCH_BLOCK_BYTES = 1 << 18 };

/// What a probe asks: is there a plan whose ranks all keep within a load?
typedef struct probe {
    bal_pair_rows rows;
    int width;       // places of the first row, at the most
    int *best;       // [rank_count + 1][width] the furthest place of the second row, or UNREACHED
    int *from;       // [rank_count + 1][width] where the first row stood before the last rank
    int64_t *front;  // [rank_count + 1] scratch of bal_pair_capacity
    int64_t *behind; // [rank_count + 1]
    int *left;       // [rank_count + 1] the plan found
    int *right;      // [rank_count + 1]
} probe;

static void probe_init(const bal_chain *chain, arena *memory, probe *ask)
{
    *ask = (probe){.width = chain->layer_count + 1};
    bal_pair_rows_init(chain, memory, &ask->rows);
    const size_t ends = (size_t)ask->rows.rank_count + 1;
    ask->best = arena_array(memory, ends * (size_t)ask->width, sizeof *ask->best);
    ask->from = arena_array(memory, ends * (size_t)ask->width, sizeof *ask->from);
    ask->front = arena_array(memory, ends, sizeof *ask->front);
    ask->behind = arena_array(memory, ends, sizeof *ask->behind);
    ask->left = arena_array(memory, ends, sizeof *ask->left);
    ask->right = arena_array(memory, ends, sizeof *ask->right);
}

/// The furthest place in [begin, last] that a run can end at which weighs at most `most`.
static int end_within(const int64_t *weight, int begin, int last, int64_t most)
{
    int end = begin;
    if (most < 0) return end;
    while (end < last && weight[end + 1] - weight[begin] <= most) {
        end++;
    }
    return end;
}

/// Extends a frontier's point (left, right) by a rank: every end of its first run, and for each the
/// furthest end of its second. That end only falls as the first run grows.
static void extend(probe *ask, int rank, int left, int right, int64_t load)
{
    const bal_pair_rows *rows = &ask->rows;
    const int need = bal_pair_need(rows, rank, 1);
    const int last = bal_pair_left_limit(rows, rank);
    int *best = ask->best + (int64_t)(rank + 1) * ask->width;
    int *from = ask->from + (int64_t)(rank + 1) * ask->width;
    int end = UNREACHED;
    for (int left_end = left + bal_pair_need(rows, rank, 0); left_end <= last; left_end++) {
        const int64_t first_load = bal_pair_load(rows, rank, 0, left, left_end);
        const int limit = bal_pair_right_limit(rows, rank, left_end);
        if (first_load > load || limit < right + need) return;
        const int64_t most = bal_pair_weight_within(rows, rank, 1, load - first_load);
        if (end == UNREACHED) end = end_within(rows->weight[1], right, limit, most);
        if (end > limit) end = limit;
        while (end > right && rows->weight[1][end] - rows->weight[1][right] > most) {
            end--;
        }
        while (end > right && rows->has_memory &&
               !bal_pair_fits(rows, rank, left, left_end, right, end)) {
            end--;
        }
        if (end == right && rows->has_memory &&
            !bal_pair_fits(rows, rank, left, left_end, right, right)) {
            return;
        }
        if (end < right + need) return;
        if (end <= best[left_end]) continue;
        best[left_end] = end;
        from[left_end] = left;
    }
}

/// Reads the plan back from its last place of the first row.
static void take_plan(probe *ask, int end)
{
    const int ranks = ask->rows.rank_count;
    ask->left[ranks] = end;
    for (int rank = ranks; rank > 0; rank--) {
        ask->left[rank - 1] = ask->from[(int64_t)rank * ask->width + ask->left[rank]];
    }
    for (int rank = 0; rank <= ranks; rank++) {
        ask->right[rank] = ask->best[(int64_t)rank * ask->width + ask->left[rank]];
    }
}

/// Finds a plan within load, rank by rank, from the furthest place that the second row can stand at
/// for each place of the first.
///
/// Why one place is enough where stages may be empty. Take two pairs of places after rank k, one
/// no less than the other in both rows. Whatever later ranks do from the lesser one they can
/// also do from the greater: each drops the layers that are taken already. What is left of a run is
/// part of it, so no load grows and no memory; and a stage that must own a layer is the first of
/// the first row or owns the last layer of the second, which nobody else can have taken
/// (bal_pair_right_limit leaves it). Where every stage must own a layer the argument fails, since
/// all of a run may be dropped: then a plan found is a plan, but none found proves nothing.
static bool finds(probe *ask, int64_t load)
{
    const bal_pair_rows *rows = &ask->rows;
    const int ranks = rows->rank_count;
    const int64_t total = rows->chain->weight_before[rows->chain->layer_count];
    bal_pair_capacity(rows, load, ask->front, ask->behind);
    if (ask->behind[0] < total) return false;
    for (int64_t place = 0; place < (int64_t)(ranks + 1) * ask->width; place++) {
        ask->best[place] = UNREACHED;
    }
    ask->best[0] = 0;
    for (int rank = 0; rank < ranks; rank++) {
        const int *best = ask->best + (int64_t)rank * ask->width;
        for (int left = 0; left <= rows->length[0]; left++) {
            if (best[left] == UNREACHED) continue;
            const int64_t taken = rows->weight[0][left] - rows->weight[0][0] +
                                  rows->weight[1][best[left]] - rows->weight[1][0];
            if (total - taken > ask->behind[rank]) continue;
            extend(ask, rank, left, best[left], load);
        }
    }
    const int *best = ask->best + (int64_t)ranks * ask->width;
    for (int left = 0; left <= rows->length[0]; left++) {
        if (best[left] == UNREACHED || !bal_pair_is_end(rows, left, best[left])) continue;
        take_plan(ask, left);
        return true;
    }
    return false;
}

/// The load of a rank of a partition, all its chunks together.
static int64_t rank_load(const bal_chain *chain, const int *first_layer, int rank)
{
    int64_t load = 0;
    for (int chunk = 0; chunk < chain->chunk_count; chunk++) {
        const int stage = bal_chain_stage_of(chain, rank, chunk);
        load += bal_chain_load(chain, stage, first_layer[stage], first_layer[stage + 1]);
    }
    return load;
}

static int64_t largest_load(const bal_chain *chain, const int *first_layer)
{
    int64_t largest = 0;
    for (int rank = 0; rank < bal_chain_rank_count(chain); rank++) {
        const int64_t load = rank_load(chain, first_layer, rank);
        if (load > largest) largest = load;
    }
    return largest;
}

/// The best so far.
typedef struct best_plan {
    bool is_found;
    bool is_none; // proven: there is no plan
    int middle;   // loop: of its rows
    int64_t bottleneck;
    int *first_layer; // [stage_count + 1]
} best_plan;

/// Asks for a plan within load and keeps it.
static bool improves(probe *ask, int64_t load, best_plan *best)
{
    if (!finds(ask, load)) return false;
    bal_pair_cuts(&ask->rows, ask->left, ask->right, best->first_layer);
    best->is_found = true;
    best->middle = ask->rows.middle;
    best->bottleneck = largest_load(ask->rows.chain, best->first_layer);
    assert(best->bottleneck <= load);
    return true;
}

/// The largest load that is an improvement.
static int64_t load_to_beat(const bal_chain *chain, const best_plan *best)
{
    return best->is_found ? best->bottleneck - 1 : chain->load_sum_max;
}

/// Bisection between a load that no plan is below and the best plan's, with the middle at hand.
static void bisect(probe *ask, int64_t low, best_plan *best)
{
    // Most optima are close above the mean: widen from there before halving.
    int64_t step = low / 64 + 1;
    while (low < best->bottleneck) {
        const int64_t half = (best->bottleneck - low) / 2;
        const int64_t middle = low + (step < half ? step : half);
        if (improves(ask, middle, best)) continue;
        low = middle + 1;
        step = step <= INT64_MAX / 2 ? step * 2 : step;
    }
}

/// The place of the middle with half of the weight on each side.
static int middle_of(const bal_chain *chain)
{
    const int layers = chain->layer_count;
    const int64_t half = chain->weight_before[layers] / 2;
    int middle = 0;
    while (middle < layers && chain->weight_before[middle] < half) {
        middle++;
    }
    return middle;
}

/// The places of the middle, from one of them outwards.
///
/// @param order [layer_count + 1] out
static void order_middles(const bal_chain *chain, int from, int *order)
{
    const int layers = chain->layer_count;
    int above = from;
    int below = above - 1;
    for (int index = 0; index <= layers; index++) {
        const bool takes_above = above <= layers && (below < 0 || index % 2 == 0);
        order[index] = takes_above ? above++ : below--;
    }
}

/// The best plan that probes find.
///
/// Of a loop each middle is asked once whether it meets the bound where best has a middle already,
/// then whether it beats the best so far, and searched only if so.
static void search(const bal_chain *chain, int64_t lower_bound, arena *scratch, best_plan *best)
{
    probe ask;
    probe_init(chain, scratch, &ask);
    const int count = ask.rows.is_v ? 1 : chain->layer_count + 1;
    const bool had_middle = best->is_found && !ask.rows.is_v;
    int *order = arena_array(scratch, (size_t)chain->layer_count + 1, sizeof *order);
    order_middles(chain, had_middle ? best->middle : middle_of(chain), order);
    best->is_found = false;
    for (int index = 0; had_middle && index < count; index++) {
        bal_pair_rows_split(&ask.rows, order[index]);
        if (improves(&ask, lower_bound, best)) return;
    }
    order_middles(chain, middle_of(chain), order);
    for (int index = 0; index < count; index++) {
        if (best->is_found && best->bottleneck == lower_bound) return;
        bal_pair_rows_split(&ask.rows, order[index]);
        if (improves(&ask, load_to_beat(chain, best), best)) bisect(&ask, lower_bound, best);
    }
}

/// Asks the table about one middle after another, in memory that is used again.
typedef struct table_asker {
    bal_pair_rows rows;
    bal_chain relaxed;  // with empty stages
    probe gate;         // of relaxed: where it finds no plan the table is not asked
    int *cuts;          // [stage_count + 1] of the last answer
    arena *memory;      // of the last question
    int64_t step_count; // of all questions, which share one limit
} table_asker;

/// Release with asker_reset. Not to be moved: the gate points into it.
static void asker_init(const bal_chain *chain, arena *scratch, table_asker *at)
{
    *at = (table_asker){.relaxed = *chain};
    at->relaxed.allow_empty_stages = true;
    bal_pair_rows_init(chain, scratch, &at->rows);
    probe_init(&at->relaxed, scratch, &at->gate);
    at->cuts = arena_array(scratch, (size_t)chain->stage_count + 1, sizeof *at->cuts);
    at->memory = arena_create(SCRATCH_BLOCK_BYTES);
}

static void asker_reset(table_asker *at)
{
    arena_destroy(at->memory);
}

/// One question about one middle; v: about all plans.
static void ask_middle(table_asker *at, bal_pair_question *ask, int middle, bal_wide *least,
                       bal_pair_outcome *outcome)
{
    ask->rows = &at->rows;
    ask->step_count = &at->step_count;
    *outcome = BAL_PAIR_NONE;
    bal_pair_rows_split(&at->rows, middle);
    bal_pair_rows_split(&at->gate.rows, middle);
    if (!finds(&at->gate, ask->load_max)) return;
    arena_reset(at->memory);
    bal_pair_table_answer(ask, at->memory, at->cuts, least, outcome);
}

/// The least of all middles of a loop.
///
/// @param middle a loop's only one, or BAL_ANY_MIDDLE
static void ask_table(table_asker *at, bal_pair_question *ask, int middle, int *first_layer,
                      bal_wide *least, bal_pair_outcome *outcome)
{
    const bal_chain *chain = at->rows.chain;
    const bool is_one = at->rows.is_v || middle != BAL_ANY_MIDDLE;
    const int first = is_one ? middle : 0;
    const int last = is_one ? middle : chain->layer_count;
    *outcome = BAL_PAIR_NONE;
    for (int place = first; place <= last; place++) {
        bal_pair_outcome one = BAL_PAIR_NONE;
        bal_wide value = 0;
        ask_middle(at, ask, place, &value, &one);
        if (one == BAL_PAIR_TOO_MANY) *outcome = one;
        if (one == BAL_PAIR_TOO_MANY) break;
        if (one != BAL_PAIR_FOUND || (*outcome == BAL_PAIR_FOUND && value >= *least)) continue;
        *outcome = one;
        *least = value;
        memcpy(first_layer, at->cuts, ((size_t)chain->stage_count + 1) * sizeof *at->cuts);
    }
}

/// Asks whether a middle has a plan within load, and keeps it.
static void try_middle(table_asker *at, int middle, int64_t load, best_plan *best,
                       bal_pair_outcome *outcome)
{
    const bal_chain *chain = at->rows.chain;
    bal_pair_question ask = {.value = BAL_PAIR_ANY, .load_max = load};
    ask_middle(at, &ask, middle, NULL, outcome);
    if (*outcome != BAL_PAIR_FOUND) return;
    memcpy(best->first_layer, at->cuts, ((size_t)chain->stage_count + 1) * sizeof *at->cuts);
    best->is_found = true;
    best->middle = middle;
    best->bottleneck = largest_load(chain, best->first_layer);
}

/// Bisection with the table between a load that no plan is below and the best plan's, within one
/// middle.
///
/// @param is_open out: true if the limits of the table leave the middle open, else untouched
static void climb(table_asker *at, int middle, int64_t low, best_plan *best, bool *is_open)
{
    int64_t step = low / 64 + 1;
    while (low <= load_to_beat(at->rows.chain, best)) {
        bal_pair_outcome outcome = BAL_PAIR_NONE;
        const int64_t half = (load_to_beat(at->rows.chain, best) - low) / 2;
        const int64_t load = low + (step < half ? step : half);
        try_middle(at, middle, load, best, &outcome);
        if (outcome == BAL_PAIR_FOUND) continue;
        if (outcome == BAL_PAIR_TOO_MANY) {
            *is_open = true;
            return;
        }
        low = load + 1;
        step = step <= INT64_MAX / 2 ? step * 2 : step;
    }
}

/// Where every stage must own a layer and probes leave a gap: the table, which knows all pairs of
/// places and not only the furthest. Each middle but the first is asked once whether it beats the
/// best so far, which few do, and searched only if so.
///
/// @param order [layer_count + 1] of the middles; v: of one, which means nothing
/// @param low   a load that no plan is below; out: the optimum, if no middle is left open
static void close_gap(table_asker *at, const int *order, int order_count, int64_t *low,
                      best_plan *best)
{
    bool is_open = false;
    for (int index = 0; index < order_count && !is_open; index++) {
        bal_pair_outcome outcome = BAL_PAIR_FOUND;
        const int64_t load = load_to_beat(at->rows.chain, best);
        if (load < *low) break;
        if (index > 0) try_middle(at, order[index], load, best, &outcome);
        if (outcome != BAL_PAIR_NONE) climb(at, order[index], *low, best, &is_open);
    }
    best->is_none = !best->is_found && !is_open;
    if (best->is_found && !is_open) *low = best->bottleneck;
}

/// Replaces a plan by the flattest with its load and its middle, if the table can tell.
static void flatten(table_asker *at, best_plan *best)
{
    bal_pair_outcome outcome = BAL_PAIR_NONE;
    bal_wide least = 0;
    bal_pair_question ask = {.value = BAL_PAIR_SQUARES, .load_max = best->bottleneck};
    at->step_count = 0; // a limit of its own, so that a hard optimum may still be a flat one
    ask_table(at, &ask, best->middle, best->first_layer, &least, &outcome);
}

static status say_infeasible(const bal_chain *chain, bool is_proven, error_message *err)
{
    return error_set(err, STATUS_INFEASIBLE,
                     "no plan of %d ranks of 2 chunks %s: every rank within its memory cap%s",
                     bal_chain_rank_count(chain), is_proven ? "keeps the rules" : "was found",
                     chain->allow_empty_stages ? "" : " and every stage non-empty");
}

/// The optimum where every stage must own a layer.
///
/// @param lower_bound that with empty stages; out: what is proven
static status fill_stages(table_asker *at, arena *scratch, best_plan *best, int64_t *lower_bound,
                          error_message *err)
{
    const bal_chain *chain = at->rows.chain;
    search(chain, *lower_bound, scratch, best);
    if (best->is_found && best->bottleneck == *lower_bound) return STATUS_OK;
    int *order = arena_array(scratch, (size_t)chain->layer_count + 1, sizeof *order);
    order_middles(chain, best->is_found ? best->middle : middle_of(chain), order);
    close_gap(at, order, at->rows.is_v ? 1 : chain->layer_count + 1, lower_bound, best);
    return best->is_found ? STATUS_OK : say_infeasible(chain, best->is_none, err);
}

static status solve(const bal_chain *chain, table_asker *at, arena *scratch, best_plan *best,
                    int64_t *lower_bound, error_message *err)
{
    search(&at->relaxed, bal_assignment_lower_bound(chain), scratch, best);
    if (!best->is_found) return say_infeasible(chain, true, err);
    *lower_bound = best->bottleneck;
    if (!chain->allow_empty_stages) TRY(fill_stages(at, scratch, best, lower_bound, err));
    flatten(at, best);
    return STATUS_OK;
}

status bal_partition_pairs(const bal_chain *chain, arena *memory, bal_pairs_plan *plan,
                           error_message *err)
{
    assert(chain->chunk_count == 2 && chain->transfer_ns == NULL);
    const size_t cuts = (size_t)chain->stage_count + 1;
    best_plan best = {.first_layer = arena_array(memory, cuts, sizeof *best.first_layer)};
    arena *scratch = arena_create(SCRATCH_BLOCK_BYTES);
    table_asker asker;
    int64_t lower_bound = 0;
    asker_init(chain, scratch, &asker);
    const status solved = solve(chain, &asker, scratch, &best, &lower_bound, err);
    asker_reset(&asker);
    arena_destroy(scratch);
    TRY(solved);
    *plan = (bal_pairs_plan){
        .first_layer = best.first_layer, .bottleneck = best.bottleneck, .lower_bound = lower_bound};
    return STATUS_OK;
}

status bal_partition_pairs_moved_bytes(const bal_chain *chain, const int *owner,
                                       const int *place_rank, int64_t load_cap, int middle,
                                       arena *memory, int *first_layer, int64_t *moved_bytes,
                                       error_message *err)
{
    table_asker asker;
    bal_pair_outcome outcome = BAL_PAIR_NONE;
    bal_wide least = 0;
    bal_pair_question ask = {.value = BAL_PAIR_MOVED_BYTES,
                             .load_max = load_cap,
                             .owner = owner,
                             .place_rank = place_rank};
    asker_init(chain, memory, &asker);
    ask_table(&asker, &ask, middle, first_layer, &least, &outcome);
    asker_reset(&asker);
    if (outcome == BAL_PAIR_NONE) {
        return error_set(err, STATUS_INFEASIBLE,
                         "no plan of %d ranks of 2 chunks keeps every load within %" PRId64,
                         bal_chain_rank_count(chain), load_cap);
    }
    if (outcome == BAL_PAIR_TOO_MANY) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "%d layers on %d ranks of 2 chunks within a load of %" PRId64
                         " leave too many plans to compare",
                         chain->layer_count, bal_chain_rank_count(chain), load_cap);
    }
    *moved_bytes = (int64_t)least;
    return STATUS_OK;
}

/// How good a plan is; smaller is better, in the order of the fields.
typedef struct merit {
    bal_wide excess_bytes; // what ranks hold above their caps
    int64_t bottleneck;    // the largest load of a rank
    bal_wide squares;      // sum of the ranks' squared loads
} merit;

static bool is_better(const merit *one, const merit *other)
{
    if (one->excess_bytes != other->excess_bytes) return one->excess_bytes < other->excess_bytes;
    if (one->bottleneck != other->bottleneck) return one->bottleneck < other->bottleneck;
    return one->squares < other->squares;
}

/// The plan that is improved, and what its ranks have of it.
typedef struct improving {
    const bal_chain *chain;
    int *first_layer;      // [stage_count + 1]
    int64_t *load;         // [rank_count]
    int64_t *excess_bytes; // [rank_count] above its cap
    merit merit;
} improving;

static int64_t excess_of(const improving *at, int rank)
{
    if (at->chain->rank_memory_bytes == NULL) return 0;
    const int64_t bytes = bal_chain_rank_memory_bytes(at->chain, rank, at->first_layer);
    const int64_t cap = at->chain->rank_memory_bytes[rank];
    return bytes > cap ? bytes - cap : 0;
}

/// Measures a rank anew whose runs have changed; the bottleneck is left to find_bottleneck.
static void measure_rank(improving *at, int rank)
{
    const int64_t before = at->load[rank];
    const int64_t load = rank_load(at->chain, at->first_layer, rank);
    const int64_t excess_bytes = excess_of(at, rank);
    at->merit.squares += (bal_wide)load * load - (bal_wide)before * before;
    at->merit.excess_bytes += excess_bytes - at->excess_bytes[rank];
    at->load[rank] = load;
    at->excess_bytes[rank] = excess_bytes;
}

static void find_bottleneck(improving *at)
{
    at->merit.bottleneck = 0;
    for (int rank = 0; rank < bal_chain_rank_count(at->chain); rank++) {
        if (at->load[rank] > at->merit.bottleneck) at->merit.bottleneck = at->load[rank];
    }
}

/// Moves a cut and measures the two ranks that it parts.
static void move_cut(improving *at, int cut, int by)
{
    const bal_chain *chain = at->chain;
    at->first_layer[cut] += by;
    for (int stage = cut - 1; stage <= cut; stage++) {
        measure_rank(at, bal_rank_of_stage(chain->placement, bal_chain_rank_count(chain),
                                           chain->chunk_count, stage, NULL));
    }
    find_bottleneck(at);
}

/// Whether the stages on both sides of a cut keep the rules of stages.
static bool is_allowed(const bal_chain *chain, const int *first_layer, int cut)
{
    for (int stage = cut - 1; stage <= cut; stage++) {
        const int begin = first_layer[stage];
        const int end = first_layer[stage + 1];
        if (end < begin || (end == begin && !bal_chain_may_be_empty(chain, stage))) return false;
        if (!bal_chain_fits(chain, stage, begin, end)) return false;
    }
    return true;
}

/// Moves a cut by a layer if that is better.
static bool steps(improving *at, int cut, int by)
{
    const merit before = at->merit;
    at->first_layer[cut] += by;
    const bool may_move = is_allowed(at->chain, at->first_layer, cut);
    at->first_layer[cut] -= by;
    if (!may_move) return false;
    move_cut(at, cut, by);
    if (is_better(&at->merit, &before)) return true;
    move_cut(at, cut, -by);
    return false;
}

static void improve(improving *at)
{
    int step_count = 0;
    for (bool has_moved = true; has_moved;) {
        has_moved = false;
        for (int cut = 1; cut < at->chain->stage_count; cut++) {
            for (int by = -1; by <= 1; by += 2) {
                while (step_count < BAL_CHUNK_STEPS_MAX && steps(at, cut, by)) {
                    step_count++;
                    has_moved = true;
                }
            }
        }
    }
}

static status by_stages(const bal_chain *chain, arena *memory, bal_pairs_plan *plan,
                        error_message *err)
{
    const size_t ranks = (size_t)bal_chain_rank_count(chain);
    int *first = arena_array(memory, (size_t)chain->stage_count + 1, sizeof *first);
    improving at = {.chain = chain,
                    .first_layer = first,
                    .load = arena_array(memory, ranks, sizeof *at.load),
                    .excess_bytes = arena_array(memory, ranks, sizeof *at.excess_bytes)};
    int64_t bottleneck = 0;
    TRY(bal_partition_bottleneck(chain, memory, first, &bottleneck, err));
    TRY(bal_partition_flattest(chain, bottleneck, memory, first, err));
    for (int rank = 0; rank < (int)ranks; rank++) {
        measure_rank(&at, rank);
    }
    find_bottleneck(&at);
    if (chain->chunk_count > 1) {
        improve(&at);
        TRY(bal_chain_check(chain, first, err));
    }
    *plan = (bal_pairs_plan){
        .first_layer = first,
        .bottleneck = at.merit.bottleneck,
        .lower_bound = chain->chunk_count > 1 ? bal_assignment_lower_bound(chain) : bottleneck};
    return STATUS_OK;
}

status bal_partition_chunks(const bal_chain *chain, arena *memory, bal_pairs_plan *plan,
                            error_message *err)
{
    if (chain->chunk_count == 2 && chain->transfer_ns == NULL) {
        return bal_partition_pairs(chain, memory, plan, err);
    }
    return by_stages(chain, memory, plan, err);
}
