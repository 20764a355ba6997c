#include "analysis/diagnosis/static_plan.h"

#include "analysis/diagnosis/imbalance_split.h"

#include "balance/partition/chain.h"

#include <string.h>

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

/// The next plan in lexical order of the cuts; false behind the last.
static bool next_plan(int *first_layer, int stage_count)
{
    const int layers = first_layer[stage_count];
    for (int cut = stage_count - 1; cut >= 1; cut--) {
        if (first_layer[cut] + 1 > layers - (stage_count - cut)) continue;
        first_layer[cut]++;
        for (int behind = cut + 1; behind < stage_count; behind++) {
            first_layer[behind] = first_layer[behind - 1] + 1;
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
        const int64_t sum = ana_series_bottleneck_sum_ns(series, plan, stage_count);
        if (sum >= *sum_ns) continue;
        *sum_ns = sum;
        memcpy(best, plan, ((size_t)stage_count + 1) * sizeof *best);
    } while (next_plan(plan, stage_count));
}

/// What the sum would be with one cut moved by one layer.
typedef struct neighbours {
    int64_t *sum_ns[2];   // [stage_count] of cut c moved to the front by one layer, and to the back
    bal_wide *squares[2]; // [stage_count] what the sum of the squared loads then grows by
    int64_t *before_ns;   // [stage_count + 1] largest load of the stages in front of s
    int64_t *behind_ns;   // [stage_count + 2] largest load of stages s and behind
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
    const bal_wide behind = before[first_layer[cut + 1]] - at_ns;
    return front * front + behind * behind;
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
    near->behind_ns[stage_count] = 0;
    for (int stage = stage_count - 1; stage >= 0; stage--) {
        near->behind_ns[stage] =
            larger(near->behind_ns[stage + 1], load_of(before, first_layer, stage));
    }
    for (int cut = 1; cut < stage_count; cut++) {
        const int64_t others = larger(near->before_ns[cut - 1], near->behind_ns[cut + 1]);
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
    *sum_ns = ana_series_bottleneck_sum_ns(series, first_layer, stage_count);
    *is_optimal = plan_count(series->layer_count, stage_count, limit) < limit;
    if (!*is_optimal) {
        search(series, stage_count, memory, first_layer, sum_ns);
        return;
    }
    int *plan = arena_array(memory, (size_t)stage_count + 1, sizeof *plan);
    try_all(series, stage_count, plan, first_layer, sum_ns);
}
