#include "balance/migration/migration_plan.h"

#include "balance/migration/migration_search.h"

#include <string.h>

bal_migration_options bal_migration_options_default(void)
{
    return (bal_migration_options){.neighbour_iterations = 100};
}

static status check_ratio(double value, double limit, const char *name, error_message *err)
{
    if (value >= 0 && value <= limit) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%s %g is outside [0, %g]", name, value, limit);
}

status bal_migration_options_check(const bal_migration_options *options, error_message *err)
{
    TRY(check_ratio(options->slack_ratio, 1000, "slack_ratio", err));
    TRY(check_ratio(options->hysteresis_ratio, 1, "hysteresis_ratio", err));
    if (options->neighbour_iterations >= 0) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "neighbour_iterations %d is negative",
                     options->neighbour_iterations);
}

static status predict(const bal_migration_search *at, const bal_placed_partition *plan,
                      int64_t *iteration_ns)
{
    return bal_problem_predict(at->question->problem, plan, iteration_ns, at->err);
}

/// The cheapest candidate whose predicted iteration is within the slack of the decided cuts'.
static status pick(bal_migration_search *at, const bal_migration_candidate **picked)
{
    bal_migration_candidate *decided = bal_migration_cheapest(at, true);
    int64_t decided_ns = -1;
    for (;;) {
        bal_migration_candidate *best = bal_migration_cheapest(at, false);
        if (best == NULL) {
            return error_set(at->err, STATUS_INFEASIBLE,
                             "no available ranks carry the plan's stages within its largest load");
        }
        *picked = best;
        if (best->is_decided || decided == NULL || at->question->problem->evaluator == NULL) {
            return STATUS_OK;
        }
        int64_t best_ns = 0;
        const bal_placed_partition reference = bal_migration_placed(at, decided);
        const bal_placed_partition plan = bal_migration_placed(at, best);
        if (decided_ns < 0) TRY(predict(at, &reference, &decided_ns));
        TRY(predict(at, &plan, &best_ns));
        if (best_ns <= bal_migration_within(decided_ns, at->options->slack_ratio)) return STATUS_OK;
        best->is_rejected = true;
    }
}

/// Whether the plan in force could be kept as far as rules go.
///
/// @param machine_rank [place_count] out: its ranks
static bool may_keep(const bal_migration_search *at, int *machine_rank)
{
    const bal_placed_partition *before = at->question->before;
    if (before->rank_count != at->place_count || before->chunk_count != at->chunk_count ||
        before->placement != at->question->problem->placement) {
        return false;
    }
    for (int place = 0; place < at->place_count; place++) {
        machine_rank[place] = before->machine_rank != NULL ? before->machine_rank[place] : place;
    }
    return bal_migration_may_use(at, machine_rank) &&
           bal_chain_check(&at->chain, before->first_layer, NULL) == STATUS_OK;
}

/// Replaces the picked plan by the one in force if it does not gain enough.
static status keep_by_hysteresis(bal_migration_search *at, bal_migration_candidate *picked)
{
    bal_migration_candidate kept = {.method = BAL_MIGRATION_KEPT};
    TRY(bal_migration_carve(at, &kept));
    if (!may_keep(at, kept.machine_rank)) return STATUS_OK;
    memcpy(kept.first_layer, at->question->before->first_layer,
           ((size_t)at->stage_count + 1) * sizeof *kept.first_layer);
    (void)bal_migration_measure(at, &kept); // its loads may exceed those of the new one
    int64_t before_ns = kept.bottleneck_ns;
    int64_t after_ns = picked->bottleneck_ns;
    if (at->question->problem->evaluator != NULL) {
        const bal_placed_partition plan = bal_migration_placed(at, picked);
        TRY(predict(at, at->question->before, &before_ns));
        TRY(predict(at, &plan, &after_ns));
    }
    if ((double)after_ns < (double)before_ns * (1 - at->options->hysteresis_ratio)) {
        return STATUS_OK;
    }
    *picked = kept;
    return STATUS_OK;
}

status bal_migration_plan(const bal_migration_question *question,
                          const bal_migration_options *options, arena *memory,
                          bal_migration_choice *choice, error_message *err)
{
    bal_migration_search *at = arena_array(memory, 1, sizeof *at);
    *at = (bal_migration_search){
        .question = question, .options = options, .memory = memory, .err = err};
    TRY(bal_migration_search_all(at));
    const bal_migration_candidate *picked = NULL;
    TRY(pick(at, &picked));
    bal_migration_candidate chosen = *picked;
    if (options->hysteresis_ratio > 0) TRY(keep_by_hysteresis(at, &chosen));
    *choice = (bal_migration_choice){
        .plan = bal_migration_placed(at, &chosen),
        .migration = chosen.migration,
        .method = chosen.method,
        .bottleneck_ns = chosen.bottleneck_ns,
        .neighbour_ns = chosen.neighbour_ns,
        .cost_ns = chosen.cost_ns,
        .neighbour_node_count = chosen.neighbour_node_count,
    };
    return STATUS_OK;
}
