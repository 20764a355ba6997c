/// Plans that are not taken, and what keeping another one has cost against each.
#include "balance/control/shadow.h"

#include "balance/migration/migration.h"
#include "balance/partition/partition_pairs.h"

#include <string.h>

enum { AGE_MAX = 5, PRICE_FACTOR_MAX = 8, TERMS_MIN = 8 };

static const double mean_factor[BAL_SHADOW_COUNT] = {1.0, 0.3, 0.05};
static const double noise_factor = 0.05;
static const double noise_limit2 = 25.0;  // a sum within five standard deviations is noise
static const double excess_growth = 1.01; // a plan this much worse than when made is made anew
static const int load_percent[] = {100, 103, 108}; // of the bottleneck, for the fewest moved bytes

static void forget_plans(bal_shadow *shadow)
{
    for (int index = 0; index < BAL_SHADOW_COUNT; index++) {
        bal_shadow_plan *plan = &shadow->plans[index];
        plan->is_other = false;
        plan->age = -1;
        plan->regret_ns = 0;
        plan->regret_count = 0;
        plan->has_last = false;
    }
}

void bal_shadow_restart(bal_shadow *shadow)
{
    forget_plans(shadow);
    shadow->has_left = false;
}

void bal_shadow_init(bal_shadow *shadow, const bal_controller_options *options,
                     const bal_schedule_family *family, int stage_count_max, arena *memory)
{
    const size_t layers = (size_t)options->layer_count;
    const size_t cuts = (size_t)stage_count_max + 1;
    bal_shadow made = {.options = options, .family = family, .price_factor = 1};
    for (int index = 0; index < BAL_SHADOW_COUNT; index++) {
        bal_shadow_plan *plan = &made.plans[index];
        plan->factor = mean_factor[index];
        plan->mean_ns = arena_array(memory, layers, sizeof *plan->mean_ns);
        plan->first_layer = arena_array(memory, cuts, sizeof *plan->first_layer);
    }
    made.left_first_layer = arena_array(memory, cuts, sizeof *made.left_first_layer);
    bal_layer_times_init(&made.mean_times, options->layer_count, memory);
    bal_layer_sums_init(&made.mean_sums, options->layer_count, memory);
    *shadow = made;
    bal_shadow_restart(shadow);
}

static int64_t estimate(const bal_shadow *shadow, const bal_shadow_view *view,
                        const bal_layer_sums *sums, const int *first_layer)
{
    const bal_placed_partition plan = bal_problem_placed(view->problem, first_layer);
    return bal_iteration_estimate_ns(sums, &plan, shadow->family, view->problem->microbatch_count);
}

/// Adds what not having taken the plan has cost in one iteration.
static void add_regret(bal_shadow_plan *plan, double regret_ns)
{
    if (plan->has_last) {
        const double step = regret_ns - plan->last_ns;
        const double first = 1.0 / plan->term_count; // a plain mean until there are enough
        const double share = first > noise_factor ? first : noise_factor;
        plan->noise_ns2 += share * (step * step / 2 - plan->noise_ns2);
    }
    plan->has_last = true;
    plan->last_ns = regret_ns;
    plan->term_count++;
    plan->regret_ns += regret_ns;
    plan->regret_count++;
    if (plan->regret_ns <= 0) {
        plan->regret_ns = 0;
        plan->regret_count = 0;
    }
}

/// Whether waiting has cost the price of moving, and that is not the noise of the terms.
static bool is_due(const bal_shadow *shadow, const bal_shadow_plan *plan)
{
    if (!plan->is_other || plan->term_count < TERMS_MIN || plan->regret_ns <= 0) return false;
    if (plan->regret_ns < shadow->price_factor * (double)plan->cost_ns) return false;
    return plan->regret_ns * plan->regret_ns >= noise_limit2 * plan->regret_count * plan->noise_ns2;
}

/// The plan whose sum is furthest above its price; NULL: none is due.
static const bal_shadow_plan *find_due(bal_shadow *shadow, const bal_shadow_view *view)
{
    const int64_t now_ns = estimate(shadow, view, view->sums, view->problem->current_first_layer);
    const bal_shadow_plan *due = NULL;
    for (int index = 0; index < BAL_SHADOW_COUNT; index++) {
        bal_shadow_plan *plan = &shadow->plans[index];
        if (!plan->is_other) continue;
        add_regret(plan, (double)(now_ns - estimate(shadow, view, view->sums, plan->first_layer)));
        if (!is_due(shadow, plan)) continue;
        if (due == NULL ||
            plan->regret_ns - (double)plan->cost_ns > due->regret_ns - (double)due->cost_ns) {
            due = plan;
        }
    }
    return due;
}

/// Adds what the last move has saved in this iteration; when it has paid for itself, moving is
/// trusted more.
static void judge_last_move(bal_shadow *shadow, const bal_shadow_view *view)
{
    if (!shadow->has_left || shadow->has_paid) return;
    const int64_t left_ns = estimate(shadow, view, view->sums, shadow->left_first_layer);
    const int64_t now_ns = estimate(shadow, view, view->sums, view->problem->current_first_layer);
    shadow->saved_ns += (double)(left_ns - now_ns);
    if (shadow->saved_ns < (double)shadow->last_cost_ns) return;
    shadow->has_paid = true;
    if (shadow->price_factor > 1) shadow->price_factor /= 2;
}

/// Doubles the price of the next move if the last one did not pay for itself before this one.
static void note_move(bal_shadow *shadow, const bal_shadow_plan *plan, const bal_problem *problem)
{
    if (shadow->has_left && !shadow->has_paid && shadow->price_factor < PRICE_FACTOR_MAX) {
        shadow->price_factor *= 2;
    }
    memcpy(shadow->left_first_layer, problem->current_first_layer,
           ((size_t)problem->stage_count + 1) * sizeof *shadow->left_first_layer);
    shadow->has_left = true;
    shadow->has_paid = false;
    shadow->saved_ns = 0;
    shadow->last_cost_ns = plan->cost_ns;
}

static void update_means(bal_shadow *shadow, const bal_layer_times *times)
{
    const double first = 1.0 / (shadow->iteration_count + 1);
    for (int index = 0; index < BAL_SHADOW_COUNT; index++) {
        const bal_shadow_plan *plan = &shadow->plans[index];
        const double factor = plan->factor > first ? plan->factor : first;
        for (int layer = 0; layer < times->layer_count; layer++) {
            const double time = (double)bal_layer_time_ns(times, layer);
            plan->mean_ns[layer] += factor * (time - plan->mean_ns[layer]);
        }
    }
    shadow->iteration_count++;
}

/// Largest stage over mean stage, by the means of the plan.
static double excess_of(const bal_shadow_plan *plan, const int *first_layer, int stage_count)
{
    double largest = 0;
    double all = 0;
    for (int stage = 0; stage < stage_count; stage++) {
        double sum = 0;
        for (int layer = first_layer[stage]; layer < first_layer[stage + 1]; layer++) {
            sum += plan->mean_ns[layer];
        }
        all += sum;
        if (sum > largest) largest = sum;
    }
    return all > 0 ? largest * stage_count / all : 1;
}

/// What a plan is being chosen from.
typedef struct choice {
    const bal_shadow_view *view;
    int64_t now_ns; // of the plan in force, by the means
    const int *first_layer;
    int64_t cost_ns;
    int64_t gain_ns; // 0: nothing better than the plan in force yet
} choice;

/// Takes the cuts into the choice if they pay for themselves sooner.
static status consider(bal_shadow *shadow, choice *best, const int *first_layer, arena *memory,
                       error_message *err)
{
    const bal_problem *problem = best->view->problem;
    const int64_t gain_ns =
        best->now_ns - estimate(shadow, best->view, &shadow->mean_sums, first_layer);
    if (gain_ns <= 0) return STATUS_OK;
    bal_migration migration;
    const bal_placed_partition before = bal_problem_placed(problem, problem->current_first_layer);
    const bal_placed_partition after = bal_problem_placed(problem, first_layer);
    TRY(bal_migration_between(&before, &after, &problem->layers, &shadow->options->machine, memory,
                              &migration, err));
    const int64_t cost_ns = migration.time_ns + shadow->options->decision_ns;
    const double old_payback = (double)best->cost_ns * (double)gain_ns;
    const double payback = (double)cost_ns * (double)best->gain_ns;
    if (best->gain_ns > 0 &&
        (payback > old_payback || (payback == old_payback && gain_ns <= best->gain_ns))) {
        return STATUS_OK;
    }
    best->first_layer = first_layer;
    best->cost_ns = cost_ns;
    best->gain_ns = gain_ns;
    return STATUS_OK;
}

/// The plans that move the fewest bytes for loads near the balancer's.
///
/// @param decided the balancer's answer
static status consider_fewest_bytes(bal_shadow *shadow, choice *best, const bal_problem *asked,
                                    const bal_answer *decided, arena *memory, error_message *err)
{
    bal_chain chain;
    const int64_t bottleneck = decided->bottleneck_ns;
    if (asked->layers.state_bytes == NULL) return STATUS_OK;
    const size_t cuts = (size_t)asked->stage_count + 1;
    int *owner = arena_array(memory, (size_t)asked->layers.layer_count, sizeof *owner);
    TRY(bal_chain_of(asked, memory, &chain, err));
    const bal_placed_partition plan = bal_problem_placed(asked, asked->current_first_layer);
    bal_placed_owners(&plan, owner);
    for (size_t index = 0; index < sizeof load_percent / sizeof load_percent[0]; index++) {
        const bal_wide cap = (bal_wide)bottleneck * load_percent[index] / 100;
        const int64_t load = cap < chain.load_sum_max ? (int64_t)cap : chain.load_sum_max;
        int64_t moved = 0;
        int *first = arena_array(memory, cuts, sizeof *first);
        const int middle = decided->first_layer[decided->rank_count];
        if (bal_partition_chunks_moved_bytes(&chain, owner, asked->machine_rank, load, middle,
                                             memory, first, &moved, NULL) == STATUS_OK) {
            TRY(consider(shadow, best, first, memory, err));
        }
    }
    return STATUS_OK;
}

/// Makes a shadow's plan from its means.
static status make_plan(bal_shadow *shadow, bal_shadow_plan *plan, const bal_shadow_view *view,
                        arena *memory, error_message *err)
{
    bal_problem asked = *view->problem;
    bal_answer answer;
    bal_layer_times_split(plan->mean_ns, view->times, &shadow->mean_times);
    bal_layer_sums_fill(&shadow->mean_sums, &shadow->mean_times);
    asked.layers = bal_layer_times_costs(&shadow->mean_times, &view->problem->layers);
    choice best = {.view = view,
                   .now_ns = estimate(shadow, view, &shadow->mean_sums, asked.current_first_layer)};
    TRY(bal_balance(shadow->options->balancer, &asked, memory, &answer, err));
    TRY(consider(shadow, &best, answer.first_layer, memory, err));
    TRY(consider_fewest_bytes(shadow, &best, &asked, &answer, memory, err));
    const size_t cuts = (size_t)asked.stage_count + 1;
    plan->is_other = best.gain_ns > 0;
    if (!plan->is_other) {
        plan->regret_ns = 0;
        plan->regret_count = 0;
        plan->has_last = false;
        best.first_layer = asked.current_first_layer;
    }
    memcpy(plan->first_layer, best.first_layer, cuts * sizeof *plan->first_layer);
    plan->cost_ns = best.cost_ns;
    plan->excess = excess_of(plan, plan->first_layer, asked.stage_count);
    plan->age = 0;
    return STATUS_OK;
}

/// Makes the plans anew that are old or that the loads have left behind.
static status refresh(bal_shadow *shadow, const bal_shadow_view *view, arena *memory,
                      error_message *err)
{
    for (int index = 0; index < BAL_SHADOW_COUNT; index++) {
        bal_shadow_plan *plan = &shadow->plans[index];
        if (plan->age >= 0 && ++plan->age < AGE_MAX &&
            excess_of(plan, plan->first_layer, view->problem->stage_count) <=
                excess_growth * plan->excess) {
            continue;
        }
        TRY(make_plan(shadow, plan, view, memory, err));
    }
    return STATUS_OK;
}

status bal_shadow_observe(bal_shadow *shadow, const bal_shadow_view *view, arena *memory,
                          const int **first_layer, error_message *err)
{
    const bal_shadow_plan *due = find_due(shadow, view);
    judge_last_move(shadow, view);
    update_means(shadow, view->times);
    if (due == NULL) {
        *first_layer = NULL;
        return refresh(shadow, view, memory, err);
    }
    note_move(shadow, due, view->problem);
    forget_plans(shadow);
    *first_layer = due->first_layer;
    return STATUS_OK;
}
