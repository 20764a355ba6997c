/// Plans, orders and decisions: what is the same or is not.
#include "analysis/check/check_parts.h"

#include <stdio.h>
#include <string.h>

enum { CUTS_BYTES = 120, DECISION_BYTES = 80 };

static ana_check_quantity *add(ana_check *check, ana_check_group group, const char *name)
{
    ana_check_quantity *quantity = &check->quantities[check->quantity_count++];
    *quantity = (ana_check_quantity){
        .group = group, .rank = -1, .stage = -1, .since = -1, .verdict = ANA_CHECK_AGREES};
    snprintf(quantity->name, sizeof quantity->name, "%s", name);
    return quantity;
}

static void depart(const ana_check *check, ana_check_quantity *quantity, int since)
{
    quantity->verdict =
        check->options.ignores[quantity->group] ? ANA_CHECK_IGNORED : ANA_CHECK_DEPARTS;
    quantity->since = since;
}

/// "0,4,8,12,16" as far as it fits; with the ranks where they are not in order.
static void write_cuts(const bal_plan *plan, char out[CUTS_BYTES])
{
    const int bounds = plan->rank_count * plan->chunk_count + 1;
    size_t used = 0;
    bool in_order = true;
    out[0] = '\0';
    for (int bound = 0; bound < bounds && used + 16 < CUTS_BYTES; bound++) {
        used += (size_t)snprintf(out + used, CUTS_BYTES - used, "%s%d", bound > 0 ? "," : "",
                                 plan->first_layer[bound]);
    }
    for (int place = 0; place < plan->rank_count; place++) {
        in_order = in_order && plan->stage_ranks[place] == place;
    }
    for (int place = 0; !in_order && place < plan->rank_count && used + 24 < CUTS_BYTES; place++) {
        used += (size_t)snprintf(out + used, CUTS_BYTES - used, "%s%d",
                                 place > 0 ? "," : " on ranks ", plan->stage_ranks[place]);
    }
}

static const bal_plan *plan_of_pair(const ana_observed *observed, int row)
{
    return &observed->plans[observed->plan_of[row]];
}

static void describe_plans(const ana_check *check, int pair, ana_check_quantity *quantity)
{
    char planned[CUTS_BYTES];
    char measured[CUTS_BYTES];
    write_cuts(plan_of_pair(check->plan, check->pairs.plan_row[pair]), planned);
    write_cuts(plan_of_pair(check->measured, check->pairs.measured_row[pair]), measured);
    snprintf(quantity->detail, sizeof quantity->detail, "layers %s instead of %s", measured,
             planned);
}

static int iteration_of(const ana_check *check, int pair)
{
    return check->plan->iterations[check->pairs.plan_row[pair]].iteration;
}

static void compare_start(ana_check *check)
{
    ana_check_quantity *quantity = add(check, ANA_CHECK_PLAN, "plan of the first iteration");
    quantity->count = 1;
    if (check->pairs.same_plan[0]) return;
    depart(check, quantity, iteration_of(check, 0));
    describe_plans(check, 0, quantity);
}

/// The first op that is another than planned on any rank. @return false: none is
static bool find_other_op(const bal_schedule *planned, const bal_schedule *measured, int *rank,
                          bal_op *plan_op, bal_op *measured_op)
{
    for (*rank = 0; *rank < planned->rank_count; ++*rank) {
        const int first = planned->first_op[*rank];
        const int other = measured->first_op[*rank];
        const int count = planned->first_op[*rank + 1] - first;
        const int found = measured->first_op[*rank + 1] - other;
        for (int op = 0; op < count && op < found; op++) {
            *plan_op = planned->ops[first + op];
            *measured_op = measured->ops[other + op];
            if (memcmp(plan_op, measured_op, sizeof *plan_op) != 0) return true;
        }
    }
    return false;
}

static bool compare_order(const ana_check *check, const ana_timeline *planned,
                          const ana_timeline *measured, ana_check_quantity *quantity)
{
    int rank = 0;
    bal_op plan_op = {0};
    bal_op measured_op = {0};
    char names[2][32];
    if (planned == NULL || measured == NULL || planned->iteration != measured->iteration) {
        return false;
    }
    const bal_schedule *schedule = &planned->schedule;
    const size_t bounds = (size_t)schedule->rank_count * (size_t)schedule->chunk_count + 1;
    if (schedule->rank_count != measured->schedule.rank_count ||
        schedule->chunk_count != measured->schedule.chunk_count ||
        memcmp(planned->first_layer, measured->first_layer,
               bounds * sizeof *planned->first_layer) != 0) {
        return false;
    }
    quantity->count++;
    if (!find_other_op(schedule, &measured->schedule, &rank, &plan_op, &measured_op)) return true;
    bal_op_name(plan_op, names[0]);
    bal_op_name(measured_op, names[1]);
    depart(check, quantity, planned->iteration);
    quantity->rank = rank;
    snprintf(quantity->detail, sizeof quantity->detail,
             "place %d of the pipeline runs %s where the plan has %s", rank, names[1], names[0]);
    return true;
}

static void compare_orders(ana_check *check)
{
    const ana_observed *plan = check->plan;
    const ana_observed *measured = check->measured;
    ana_check_quantity *quantity = add(check, ANA_CHECK_ORDER, "order of ops");
    const bool has_first = compare_order(check, plan->first, measured->first, quantity);
    if (quantity->verdict == ANA_CHECK_AGREES) {
        compare_order(check, plan->last, measured->last, quantity);
    }
    if (has_first || quantity->count > 0) return;
    check->quantity_count--;
    ana_check_note(check, "the order of ops is not compared: no iteration's ops are recorded on "
                          "both sides under one plan");
}

static const trace_run_decision *decision_behind(const ana_observed *observed, int iteration)
{
    for (int index = 0; index < observed->decision_count; index++) {
        if (observed->decisions[index].iteration == iteration) return &observed->decisions[index];
    }
    return NULL;
}

static void write_decision(const ana_observed *observed, int iteration, char out[DECISION_BYTES])
{
    const trace_run_decision *decision = decision_behind(observed, iteration);
    if (decision == NULL) {
        snprintf(out, DECISION_BYTES, "nothing");
        return;
    }
    snprintf(out, DECISION_BYTES, "%.20s (%.40s)", decision->action, decision->reason);
}

/// The first iteration that is under another plan, after they had begun with the same.
static void compare_decisions(ana_check *check)
{
    ana_check_quantity *quantity = add(check, ANA_CHECK_DECISIONS, "rebalancing decisions");
    const ana_check_pairs *pairs = &check->pairs;
    char planned[DECISION_BYTES];
    char measured[DECISION_BYTES];
    quantity->count = pairs->count;
    for (int pair = 1; pair < pairs->count && pairs->same_plan[0]; pair++) {
        if (pairs->same_plan[pair]) continue;
        const int iteration = iteration_of(check, pair);
        const int behind = check->plan->iterations[pairs->plan_row[pair - 1]].iteration;
        depart(check, quantity, iteration);
        describe_plans(check, pair, quantity);
        write_decision(check->plan, behind, planned);
        write_decision(check->measured, behind, measured);
        const size_t used = strlen(quantity->detail);
        snprintf(quantity->detail + used, sizeof quantity->detail - used,
                 "; behind iteration %d the run decided %s, the plan %s", behind, measured,
                 planned);
        return;
    }
}

static void compare_final(ana_check *check)
{
    const int last = check->pairs.count - 1;
    ana_check_quantity *quantity = add(check, ANA_CHECK_FINAL, "final plan");
    quantity->count = 1;
    if (check->pairs.same_plan[last]) return;
    depart(check, quantity, iteration_of(check, last));
    describe_plans(check, last, quantity);
}

status ana_check_add_plans(ana_check *check, error_message *err)
{
    const ana_observed *plan = check->plan;
    const ana_observed *measured = check->measured;
    (void)err;
    if (check->pairs.count == 0) {
        ana_check_note(check,
                       "no iteration is on both sides (%d to %d, and %d to %d): they are compared "
                       "as two samples, and plans not at all",
                       plan->iterations[0].iteration,
                       plan->iterations[plan->iteration_count - 1].iteration,
                       measured->iterations[0].iteration,
                       measured->iterations[measured->iteration_count - 1].iteration);
        return STATUS_OK;
    }
    compare_start(check);
    compare_orders(check);
    compare_decisions(check);
    compare_final(check);
    return STATUS_OK;
}
