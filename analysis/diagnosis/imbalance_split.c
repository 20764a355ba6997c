/// The levels of the slowest stage's time, and the search for the plan that is best kept.
#include "analysis/diagnosis/imbalance_split.h"

#include "balance/partition/balancer.h"
#include "balance/partition/chain.h"
#include "balance/partition/partition.h"

#include <string.h>

/// The largest stage load of an iteration under a plan.
static int64_t bottleneck_of(const ana_series *series, int index, const int *first_layer,
                             int stage_count)
{
    const int64_t *before = ana_series_before(series, index);
    int64_t bottleneck = 0;
    for (int stage = 0; stage < stage_count; stage++) {
        const int64_t load = before[first_layer[stage + 1]] - before[first_layer[stage]];
        if (load > bottleneck) bottleneck = load;
    }
    return bottleneck;
}

/// The same, added up over the series.
static int64_t bottleneck_sum(const ana_series *series, const int *first_layer, int stage_count)
{
    int64_t sum = 0;
    for (int index = 0; index < series->count; index++) {
        sum += bottleneck_of(series, index, first_layer, stage_count);
    }
    return sum;
}

/// Additions that trying all plans may take, and those of the search.
enum { ENUMERATION_MAX = 20000000, SEARCH_MAX = 400000000 };

/// Plans of layer_count layers in stage_count stages, none empty; at most limit.
static int64_t plan_count(int layer_count, int stage_count, int64_t limit)
{
    const int chosen =
        stage_count - 1 < layer_count - stage_count ? stage_count - 1 : layer_count - stage_count;
    int64_t plans = 1;
    for (int cut = 1; cut <= chosen; cut++) {
        plans = plans * (layer_count - 1 - chosen + cut) / cut; // C(layers - 1 - chosen + cut, cut)
        if (plans >= limit) return limit;
    }
    return plans;
}

/// The next plan in lexical order of the cuts; false after the last.
static bool next_plan(int *first_layer, int stage_count)
{
    const int layers = first_layer[stage_count];
    for (int cut = stage_count - 1; cut >= 1; cut--) {
        if (first_layer[cut] + 1 > layers - (stage_count - cut)) continue;
        first_layer[cut]++;
        for (int next = cut + 1; next < stage_count; next++) {
            first_layer[next] = first_layer[next - 1] + 1;
        }
        return true;
    }
    return false;
}

static void try_all(const ana_series *series, int stage_count, int *plan, int *best,
                    int64_t *sum_ns)
{
    for (int stage = 0; stage < stage_count; stage++) {
        plan[stage] = stage;
    }
    plan[stage_count] = series->layer_count;
    do {
        const int64_t sum = bottleneck_sum(series, plan, stage_count);
        if (sum >= *sum_ns) continue;
        *sum_ns = sum;
        memcpy(best, plan, ((size_t)stage_count + 1) * sizeof *best);
    } while (next_plan(plan, stage_count));
}

/// What the sum would be with one cut moved by one layer.
typedef struct neighbours {
    int64_t *sum_ns[2];   // [stage_count] of cut c moved to the front by one layer, and to the back
    bal_wide *squares[2]; // [stage_count] what the sum of the squared loads then grows by
    int64_t *before_ns;   // [stage_count + 1] largest load of the stages before s
    int64_t *after_ns;    // [stage_count + 2] largest load of stages s and after
} neighbours;

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t load_of(const int64_t *before, const int *first_layer, int stage)
{
    return before[first_layer[stage + 1]] - before[first_layer[stage]];
}

/// Squared loads of the two stages at a cut, if it were where the loads before it are at_ns.
static bal_wide squares_at(const int64_t *before, const int *first_layer, int cut, int64_t at_ns)
{
    const bal_wide front = at_ns - before[first_layer[cut - 1]];
    const bal_wide after = before[first_layer[cut + 1]] - at_ns;
    return front * front + after * after;
}

/// Adds one iteration to the sums of all neighbours.
static void add_iteration(const int64_t *before, const int *first_layer, int stage_count,
                          neighbours *near)
{
    near->before_ns[0] = 0;
    for (int stage = 0; stage < stage_count; stage++) {
        near->before_ns[stage + 1] =
            larger(near->before_ns[stage], load_of(before, first_layer, stage));
    }
    near->after_ns[stage_count] = 0;
    for (int stage = stage_count - 1; stage >= 0; stage--) {
        near->after_ns[stage] =
            larger(near->after_ns[stage + 1], load_of(before, first_layer, stage));
    }
    for (int cut = 1; cut < stage_count; cut++) {
        const int64_t others = larger(near->before_ns[cut - 1], near->after_ns[cut + 1]);
        const bal_wide now = squares_at(before, first_layer, cut, before[first_layer[cut]]);
        for (int way = 0; way < 2; way++) {
            const int64_t at = before[first_layer[cut] + (way == 0 ? -1 : 1)];
            const int64_t pair =
                larger(at - before[first_layer[cut - 1]], before[first_layer[cut + 1]] - at);
            near->sum_ns[way][cut] += larger(others, pair);
            near->squares[way][cut] += squares_at(before, first_layer, cut, at) - now;
        }
    }
}

/// Moves the cut that gains most; among those, and where none gains, the one that makes the squared
/// loads smallest: otherwise two stages that are equally slow would hold each other.
///
/// @return false if none gains
static bool step(const ana_series *series, int stage_count, neighbours *near, int *first_layer,
                 int64_t *sum_ns)
{
    int best_cut = 0;
    int best_way = 0;
    bal_wide best_squares = 0;
    for (int way = 0; way < 2; way++) {
        memset(near->sum_ns[way], 0, (size_t)stage_count * sizeof(int64_t));
        memset(near->squares[way], 0, (size_t)stage_count * sizeof(bal_wide));
    }
    for (int index = 0; index < series->count; index++) {
        add_iteration(ana_series_before(series, index), first_layer, stage_count, near);
    }
    for (int cut = 1; cut < stage_count; cut++) {
        for (int way = 0; way < 2; way++) {
            const int moved = first_layer[cut] + (way == 0 ? -1 : 1);
            const int64_t sum = near->sum_ns[way][cut];
            const bal_wide squares = near->squares[way][cut];
            if (moved <= first_layer[cut - 1] || moved >= first_layer[cut + 1]) continue;
            if (sum > *sum_ns || (sum == *sum_ns && squares >= best_squares)) continue;
            *sum_ns = sum;
            best_squares = squares;
            best_cut = cut;
            best_way = way;
        }
    }
    if (best_cut > 0) first_layer[best_cut] += best_way == 0 ? -1 : 1;
    return best_cut > 0;
}

static void search(const ana_series *series, int stage_count, arena *memory, int *first_layer,
                   int64_t *sum_ns)
{
    const size_t entries = (size_t)stage_count + 2;
    int64_t *numbers = arena_array(memory, 4 * entries, sizeof *numbers);
    bal_wide *squares = arena_array(memory, 2 * entries, sizeof *squares);
    neighbours near = {{numbers, numbers + entries},
                       {squares, squares + entries},
                       numbers + 2 * entries,
                       numbers + 3 * entries};
    const int64_t step_cost = (int64_t)series->count * stage_count;
    for (int64_t spent = 0; spent < SEARCH_MAX; spent += step_cost) {
        if (!step(series, stage_count, &near, first_layer, sum_ns)) break;
    }
}

void ana_static_plan_improve(const ana_series *series, int stage_count, arena *memory,
                             int *first_layer, int64_t *sum_ns, bool *is_optimal)
{
    const int64_t plan_cost = (int64_t)series->count * stage_count;
    const int64_t limit = ENUMERATION_MAX / plan_cost + 1;
    *sum_ns = bottleneck_sum(series, first_layer, stage_count);
    *is_optimal = plan_count(series->layer_count, stage_count, limit) < limit;
    if (!*is_optimal) {
        search(series, stage_count, memory, first_layer, sum_ns);
        return;
    }
    int *plan = arena_array(memory, (size_t)stage_count + 1, sizeof *plan);
    try_all(series, stage_count, plan, first_layer, sum_ns);
}

/// What the steps of a split share.
typedef struct splitting {
    const ana_series *series;
    int stage_count;
    arena *memory;   // of the plans
    arena *scratch;  // of one partition
    int64_t *zeros;  // [layer_count + 1]
    int64_t *window; // [layer_count + 1] sums of the prefix sums of the samples in the window
    int *plan;       // [stage_count + 1]
} splitting;

/// The exact contiguous optimum of layers whose prefix sums are given.
static status cut(splitting *split, const int64_t *before, int *first_layer, int64_t *bottleneck_ns,
                  error_message *err)
{
    bal_chain chain = {.layer_count = split->series->layer_count,
                       .stage_count = split->stage_count,
                       .weight_before = before,
                       .state_before = split->zeros,
                       .activation_before = split->zeros};
    arena_reset(split->scratch);
    TRY(bal_chain_bound_load_sum(&chain, err));
    return bal_partition_bottleneck(&chain, split->scratch, first_layer, bottleneck_ns, err);
}

/// The plan that a balancer begins with, as one would that is set after profiling the first
/// iteration.
static status plan_of(splitting *split, const char *name, const int **first_layer,
                      error_message *err)
{
    const bal_balancer *balancer = bal_balancer_find(name);
    const bal_problem problem = {.layers = split->series->costs[0],
                                 .stage_count = split->stage_count,
                                 .weight = balancer->weight};
    bal_problem unlimited = problem;
    bal_answer answer;
    unlimited.layers.state_bytes = NULL;
    unlimited.layers.activation_bytes = NULL;
    TRY(bal_balance(balancer, &unlimited, split->memory, &answer, err));
    *first_layer = answer.first_layer;
    return STATUS_OK;
}

/// All iterations together must fit, with room for a window that is added up twice.
static status check_sums(const ana_series *series, error_message *err)
{
    for (int index = 0; index < series->count; index++) {
        const int64_t total = ana_series_before(series, index)[series->layer_count];
        if (total <= INT64_MAX / 4 / series->count) continue;
        return error_set(err, STATUS_INVALID,
                         "the layers of iteration %d take %lld ns: %d such iterations do not fit "
                         "64 bits",
                         series->iteration[index], (long long)total, series->count);
    }
    return STATUS_OK;
}

static void add_row(splitting *split, int index, int sign)
{
    const int64_t *before = ana_series_before(split->series, index);
    for (int layer = 0; layer <= split->series->layer_count; layer++) {
        split->window[layer] += sign * before[layer];
    }
}

static void clear_window(splitting *split)
{
    memset(split->window, 0, ((size_t)split->series->layer_count + 1) * sizeof *split->window);
}

/// The optimum of everything added up: the best start for a plan that is kept, and by the
/// convexity of the maximum no such plan is below it.
static status cut_whole_run(splitting *split, int64_t *bound_ns, error_message *err)
{
    clear_window(split);
    for (int index = 0; index < split->series->count; index++) {
        add_row(split, index, 1);
    }
    return cut(split, split->window, split->plan, bound_ns, err);
}

static void improve(splitting *split, const int *start, ana_imbalance_split *made)
{
    const size_t entries = (size_t)split->stage_count + 1;
    int *plan = arena_array(split->memory, entries, sizeof *plan);
    int64_t sum = 0;
    bool is_optimal = false;
    memcpy(plan, start, entries * sizeof *plan);
    ana_static_plan_improve(split->series, split->stage_count, split->memory, plan, &sum,
                            &is_optimal);
    made->static_is_optimal = made->static_is_optimal || is_optimal;
    if (made->static_first_layer != NULL && sum >= made->level_ns[ANA_LEVEL_STATIC]) return;
    made->static_first_layer = plan;
    made->level_ns[ANA_LEVEL_STATIC] = sum;
}

static status find_static(splitting *split, ana_imbalance_split *made, error_message *err)
{
    TRY(cut_whole_run(split, &made->static_lower_bound_ns, err));
    improve(split, split->plan, made);
    if (!made->static_is_optimal) {
        improve(split, made->tuned_first_layer, made);
        improve(split, made->even_first_layer, made);
    }
    if (made->level_ns[ANA_LEVEL_STATIC] == made->static_lower_bound_ns) {
        made->static_is_optimal = true;
    }
    return STATUS_OK;
}

static void copy_plan(const splitting *split, const int *plan, int *plans, int index)
{
    const size_t entries = (size_t)split->stage_count + 1;
    memcpy(plans + (size_t)index * entries, plan, entries * sizeof *plan);
}

/// The sum where every iteration has the plan of the `width` samples on each side of it.
///
/// @param plans [iterations][stage_count + 1] out, or NULL
static status sum_windowed(splitting *split, int width, int *plans, int64_t *sum_ns,
                           error_message *err)
{
    const ana_series *series = split->series;
    int64_t ignored = 0;
    int end = 0; // samples [begin, end) are in the window
    int begin = 0;
    *sum_ns = 0;
    clear_window(split);
    for (int index = 0; index < series->count; index++) {
        for (; end <= index + width && end < series->count; end++) {
            add_row(split, end, 1);
        }
        for (; begin < index - width; begin++) {
            add_row(split, begin, -1);
        }
        add_row(split, index, -1);
        TRY(cut(split, split->window, split->plan, &ignored, err));
        add_row(split, index, 1);
        *sum_ns += bottleneck_of(series, index, split->plan, split->stage_count);
        if (plans != NULL) copy_plan(split, split->plan, plans, index);
    }
    return STATUS_OK;
}

static status keep_drift_plans(splitting *split, ana_imbalance_split *made, error_message *err)
{
    const int count = split->series->count;
    const size_t entries = (size_t)split->stage_count + 1;
    int *plans = arena_array(split->memory, (size_t)count * entries, sizeof *plans);
    int64_t sum_ns = 0;
    made->drift_first_layer = plans;
    if (made->drift_width > 0) {
        return sum_windowed(split, made->drift_width, plans, &sum_ns, err);
    }
    for (int index = 0; index < count; index++) {
        copy_plan(split, made->static_first_layer, plans, index);
    }
    return STATUS_OK;
}

static status find_drift(splitting *split, ana_imbalance_split *made, error_message *err)
{
    made->level_ns[ANA_LEVEL_DRIFT] = made->level_ns[ANA_LEVEL_STATIC];
    for (int width = 1; width < split->series->count; width *= 4) {
        int64_t sum_ns = 0;
        TRY(sum_windowed(split, width, NULL, &sum_ns, err));
        if (sum_ns >= made->level_ns[ANA_LEVEL_DRIFT]) continue;
        made->level_ns[ANA_LEVEL_DRIFT] = sum_ns;
        made->drift_width = width;
    }
    return keep_drift_plans(split, made, err);
}

static int64_t largest_layer_ns(const ana_series *series, int index)
{
    int64_t largest = 0;
    for (int layer = 0; layer < series->layer_count; layer++) {
        const int64_t load = ana_series_load_ns(series, index, layer);
        if (load > largest) largest = load;
    }
    return largest;
}

static status find_bounds(splitting *split, ana_imbalance_split *made, error_message *err)
{
    const ana_series *series = split->series;
    for (int index = 0; index < series->count; index++) {
        const int64_t *before = ana_series_before(series, index);
        const int64_t largest = largest_layer_ns(series, index);
        const int64_t total = before[series->layer_count];
        const int64_t share = total / split->stage_count + (total % split->stage_count != 0);
        int64_t bottleneck = 0;
        TRY(cut(split, before, split->plan, &bottleneck, err));
        made->level_ns[ANA_LEVEL_CLAIRVOYANT] += bottleneck;
        made->level_ns[ANA_LEVEL_ANY_OWNER] += share > largest ? share : largest;
        made->level_ns[ANA_LEVEL_DIVISIBLE] += share;
    }
    return STATUS_OK;
}

static status find_levels(splitting *split, ana_imbalance_split *made, error_message *err)
{
    TRY(check_sums(split->series, err));
    TRY(plan_of(split, "even", &made->even_first_layer, err));
    TRY(plan_of(split, "tuned", &made->tuned_first_layer, err));
    made->level_ns[ANA_LEVEL_EVEN] =
        bottleneck_sum(split->series, made->even_first_layer, split->stage_count);
    made->level_ns[ANA_LEVEL_TUNED] =
        bottleneck_sum(split->series, made->tuned_first_layer, split->stage_count);
    TRY(find_static(split, made, err));
    TRY(find_drift(split, made, err));
    return find_bounds(split, made, err);
}

status ana_imbalance_split_of(const ana_series *series, int stage_count, arena *memory,
                              ana_imbalance_split *split, error_message *err)
{
    const size_t entries = (size_t)series->layer_count + 1;
    ana_imbalance_split made = {.stage_count = stage_count};
    splitting work = {.series = series,
                      .stage_count = stage_count,
                      .memory = memory,
                      .scratch = arena_create(1 << 16),
                      .zeros = arena_array(memory, entries, sizeof *work.zeros),
                      .window = arena_array(memory, entries, sizeof *work.window),
                      .plan = arena_array(memory, (size_t)stage_count + 1, sizeof *work.plan)};
    const status result = find_levels(&work, &made, err);
    arena_destroy(work.scratch);
    if (result == STATUS_OK) *split = made;
    return result;
}

int64_t ana_imbalance_part_ns(const ana_imbalance_split *split, ana_imbalance_part part)
{
    return split->level_ns[part] - split->level_ns[part + 1];
}
