/// A check: which iterations are compared, plans, orders and decisions, and what follows from all
/// quantities.
#include "analysis/check/check.h"

#include "analysis/check/check_parts.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const ana_check_group_names[ANA_CHECK_GROUP_COUNT] = {
    [ANA_CHECK_PLAN] = "plan",
    [ANA_CHECK_ORDER] = "order",
    [ANA_CHECK_OP] = "op",
    [ANA_CHECK_MESSAGE] = "message",
    [ANA_CHECK_OUTSIDE] = "outside",
    [ANA_CHECK_BUSY] = "busy",
    [ANA_CHECK_IDLE] = "idle",
    [ANA_CHECK_ITERATION] = "iteration",
    [ANA_CHECK_DECISIONS] = "decisions",
    [ANA_CHECK_MEMORY] = "memory"};

const char *const ana_check_verdict_names[ANA_CHECK_VERDICT_COUNT] = {
    [ANA_CHECK_AGREES] = "agrees",
    [ANA_CHECK_DEPARTS] = "departs",
    [ANA_CHECK_UNDECIDED] = "undecided",
    [ANA_CHECK_IGNORED] = "ignored"};

const char *const ana_check_cause_names[ANA_CHECK_CAUSE_COUNT] = {
    [ANA_CHECK_CAUSE_NONE] = "none",
    [ANA_CHECK_CAUSE_PLAN] = "plan",
    [ANA_CHECK_CAUSE_ALL_OPS] = "ops-of-all-stages",
    [ANA_CHECK_CAUSE_KIND] = "ops-of-one-kind",
    [ANA_CHECK_CAUSE_STAGES] = "ops-of-some-stages",
    [ANA_CHECK_CAUSE_STRAGGLER] = "straggler-rank",
    [ANA_CHECK_CAUSE_LINK] = "slow-link",
    [ANA_CHECK_CAUSE_ORDER] = "order",
    [ANA_CHECK_CAUSE_DECISION] = "decision",
    [ANA_CHECK_CAUSE_OUTSIDE] = "outside-the-pipeline",
    [ANA_CHECK_CAUSE_MEMORY] = "memory",
    [ANA_CHECK_CAUSE_UNKNOWN] = "unknown"};

ana_check_options ana_check_options_default(void)
{
    return (ana_check_options){.tolerance = 0.05, .confidence = 0.95, .warmup = -1};
}

void ana_check_say(ana_check_lines *lines, const char *format, ...)
{
    va_list arguments;
    if (lines->count == ANA_CHECK_LINES_MAX) return;
    va_start(arguments, format);
    vsnprintf(lines->line[lines->count++], ANA_CHECK_LINE_BYTES, format, arguments);
    va_end(arguments);
}

text_words ana_check_percent(double change)
{
    const double tenths = round(change * 1000); // without a minus before what rounds to nothing
    return text_wording("%+.1f %%", tenths == 0 ? 0.0 : tenths / 10);
}

/// Runs of different models are no comparison.
static status check_shapes(const ana_observed *plan, const ana_observed *measured,
                           error_message *err)
{
    const bal_plan *one = &plan->plans[0];
    const bal_plan *other = &measured->plans[0];
    const int stages = one->rank_count * one->chunk_count;
    const int other_stages = other->rank_count * other->chunk_count;
    const struct {
        const char *what;
        int plan;
        int measured;
    } counts[] = {
        {"layers", one->first_layer[stages], other->first_layer[other_stages]},
        {"microbatches", one->microbatch_count, other->microbatch_count},
        {"stages", stages, other_stages},
        {"chunks per rank", one->chunk_count, other->chunk_count},
        {"replicas", one->data_parallel, other->data_parallel},
    };
    for (size_t each = 0; each < sizeof counts / sizeof counts[0]; each++) {
        if (counts[each].plan == counts[each].measured) continue;
        return error_set(err, STATUS_INVALID,
                         "not the same training: %d %s in %.150s, but %d in %.150s",
                         counts[each].plan, counts[each].what, plan->source, counts[each].measured,
                         measured->source);
    }
    if (strcmp(one->schedule, other->schedule) == 0) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "not the same training: schedule %.30s in %.150s, but %.30s in %.150s",
                     one->schedule, plan->source, other->schedule, measured->source);
}

static const bal_plan *plan_of_row(const ana_observed *observed, int row)
{
    return &observed->plans[observed->plan_of[row]];
}

/// Finds the iterations that both have; where there are none, the first of one side goes with the
/// first of the other, and so on.
static void find_pairs(ana_check *check, arena *memory)
{
    const ana_observed *plan = check->plan;
    const ana_observed *measured = check->measured;
    const int fewest = plan->iteration_count < measured->iteration_count
                           ? plan->iteration_count
                           : measured->iteration_count;
    ana_check_pair *pairs = arena_array(memory, (size_t)fewest, sizeof *pairs);
    int count = 0;
    for (int one = 0, other = 0;
         one < plan->iteration_count && other < measured->iteration_count;) {
        const int planned = plan->iterations[one].iteration;
        const int found = measured->iterations[other].iteration;
        if (planned == found) pairs[count++] = (ana_check_pair){one, other, false};
        one += planned <= found;
        other += found <= planned;
    }
    check->is_paired = count > 0;
    for (; !check->is_paired && count < fewest; count++) {
        pairs[count] = (ana_check_pair){count, count, false};
    }
    for (int pair = 0; pair < count; pair++) {
        ana_check_pair *each = &pairs[pair];
        each->same_plan = ana_observed_is_same_plan(plan_of_row(plan, each->plan_row),
                                                    plan_of_row(measured, each->measured_row));
    }
    check->pairs = pairs;
    check->pair_count = count;
}

static void note_status(ana_check *check, const ana_observed *observed)
{
    if (observed->info.status == TRACE_COMPLETE) return;
    ana_check_say(&check->notes, "%s is %s: only its %d iterations are compared", observed->source,
                  trace_status_names[observed->info.status], observed->iteration_count);
}

/// Says what one side has and the other does not.
static void note_iterations(ana_check *check, const ana_observed *one, const char *other)
{
    const trace_run_iteration *rows = one->iterations;
    const int count = one->iteration_count;
    const int missing = rows[count - 1].iteration - rows[0].iteration + 1 - count;
    if (missing > 0) {
        ana_check_say(&check->notes, "%s lacks %d iterations between %d and %d", one->source,
                      missing, rows[0].iteration, rows[count - 1].iteration);
    }
    if (check->is_paired && count > check->pair_count && !one->is_predicted) {
        ana_check_say(&check->notes, "%d iterations are only in %s, not in the %s",
                      count - check->pair_count, one->source, other);
    }
}

static void note_op_times(ana_check *check, const ana_observed *observed)
{
    if (observed->has_op_times) return;
    ana_check_say(&check->notes,
                  "%s has no op times, as its iterations are too large: ops and messages are not "
                  "compared",
                  observed->source);
}

/// Says why no ranks are compared.
static void note_ranks(ana_check *check, const ana_observed *trace, const ana_observed *other)
{
    const int planned = other->plans[0].rank_count;
    char why[64] = "its layers ran on other ranks";
    if (!trace->is_elsewhere) return;
    if (trace->recorded_rank_count != planned) {
        snprintf(why, sizeof why, "ranks recorded: %d, in the plan: %d", trace->recorded_rank_count,
                 planned);
    }
    ana_check_say(&check->notes,
                  "%s did not run under the plan of the other side (%s): op times and their sum "
                  "are compared, neither ranks nor lengths",
                  trace->source, why);
}

enum { CUTS_BYTES = 120, DECISION_BYTES = 80 };

static ana_check_quantity *add_difference(ana_check *check, ana_check_group group, const char *name)
{
    ana_check_quantity *quantity = &check->quantities[check->quantity_count++];
    *quantity = (ana_check_quantity){
        .group = group, .rank = -1, .stage = -1, .since = -1, .verdict = ANA_CHECK_AGREES};
    snprintf(quantity->name, sizeof quantity->name, "%s", name);
    return quantity;
}

static void depart(ana_check_quantity *quantity, int since)
{
    quantity->verdict = ANA_CHECK_DEPARTS;
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

static void describe_plans(const ana_check *check, int pair, ana_check_quantity *quantity)
{
    char planned[CUTS_BYTES];
    char measured[CUTS_BYTES];
    write_cuts(plan_of_row(check->plan, check->pairs[pair].plan_row), planned);
    write_cuts(plan_of_row(check->measured, check->pairs[pair].measured_row), measured);
    snprintf(quantity->detail, sizeof quantity->detail, "layers %s instead of %s", measured,
             planned);
}

static int iteration_of(const ana_check *check, int pair)
{
    return check->plan->iterations[check->pairs[pair].plan_row].iteration;
}

static void compare_start(ana_check *check)
{
    ana_check_quantity *quantity =
        add_difference(check, ANA_CHECK_PLAN, "plan of the first iteration");
    quantity->count = 1;
    if (check->pairs[0].same_plan) return;
    depart(quantity, iteration_of(check, 0));
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

static bool compare_order(const ana_timeline *planned, const ana_timeline *measured,
                          ana_check_quantity *quantity)
{
    int rank = 0;
    bal_op plan_op = {0};
    bal_op measured_op = {0};
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
    depart(quantity, planned->iteration);
    quantity->rank = rank;
    snprintf(quantity->detail, sizeof quantity->detail,
             "place %d of the pipeline runs %s where the plan has %s", rank,
             bal_op_name(measured_op).text, bal_op_name(plan_op).text);
    return true;
}

static void compare_orders(ana_check *check)
{
    const ana_observed *plan = check->plan;
    const ana_observed *measured = check->measured;
    ana_check_quantity *quantity = add_difference(check, ANA_CHECK_ORDER, "order of ops");
    const bool has_first = compare_order(plan->first, measured->first, quantity);
    if (quantity->verdict == ANA_CHECK_AGREES) {
        compare_order(plan->last, measured->last, quantity);
    }
    if (has_first || quantity->count > 0) return;
    check->quantity_count--;
    ana_check_say(&check->notes,
                  "the order of ops is not compared: no iteration's ops are recorded on "
                  "both sides under one plan");
}

static void write_decision(const ana_observed *observed, int iteration, char out[DECISION_BYTES])
{
    snprintf(out, DECISION_BYTES, "nothing");
    for (int index = 0; index < observed->decision_count; index++) {
        const trace_run_decision *decision = &observed->decisions[index];
        if (decision->iteration != iteration) continue;
        snprintf(out, DECISION_BYTES, "%.20s (%.40s)", decision->action, decision->reason);
        return;
    }
}

/// The first iteration that is under another plan, after they had begun with the same.
static void compare_decisions(ana_check *check)
{
    ana_check_quantity *quantity =
        add_difference(check, ANA_CHECK_DECISIONS, "rebalancing decisions");
    const ana_check_pair *pairs = check->pairs;
    char planned[DECISION_BYTES];
    char measured[DECISION_BYTES];
    quantity->count = check->pair_count;
    for (int pair = 1; pair < check->pair_count && pairs[0].same_plan; pair++) {
        if (pairs[pair].same_plan) continue;
        const int iteration = iteration_of(check, pair);
        const int before = check->plan->iterations[pairs[pair - 1].plan_row].iteration;
        depart(quantity, iteration);
        describe_plans(check, pair, quantity);
        write_decision(check->plan, before, planned);
        write_decision(check->measured, before, measured);
        const size_t used = strlen(quantity->detail);
        snprintf(quantity->detail + used, sizeof quantity->detail - used,
                 "; after iteration %d the run decided %s, the plan %s", before, measured, planned);
        return;
    }
}

/// Adds plans, orders and decisions.
static void add_plans(ana_check *check)
{
    const ana_observed *plan = check->plan;
    const ana_observed *measured = check->measured;
    if (!check->is_paired) {
        ana_check_say(&check->notes,
                      "no iteration is on both sides (%d to %d, and %d to %d): the first goes with "
                      "the first, and plans are not compared",
                      plan->iterations[0].iteration,
                      plan->iterations[plan->iteration_count - 1].iteration,
                      measured->iterations[0].iteration,
                      measured->iterations[measured->iteration_count - 1].iteration);
        return;
    }
    if (plan->is_trace || measured->is_trace) {
        const ana_observed *run = plan->is_trace ? measured : plan;
        if (run->plan_count > 1) {
            ana_check_say(&check->notes,
                          "a trace says no plans: its layers are summed up to the stages of "
                          "the first, and compared where that holds");
        }
        return;
    }
    compare_start(check);
    compare_orders(check);
    compare_decisions(check);
}

/// Whether a departure counts before another: earlier, with some iterations of grace, then by the
/// order of the groups.
static bool is_before(const ana_check_quantity *one, const ana_check_quantity *other, int grace)
{
    if (one->since + grace < other->since) return true;
    if (other->since + grace < one->since) return false;
    return one->group < other->group;
}

/// Finds what departed first: within the grace after the earliest, causes before effects.
static void decide_all(ana_check *check)
{
    const int grace = check->pair_count / 20 + 1;
    check->first = -1;
    for (int index = 0; index < check->quantity_count; index++) {
        ana_check_quantity *quantity = &check->quantities[index];
        if (check->options.ignores[quantity->group] && quantity->verdict == ANA_CHECK_DEPARTS) {
            quantity->verdict = ANA_CHECK_IGNORED;
        }
    }
    const bool is_undecided = (check->quantities[check->length].verdict == ANA_CHECK_UNDECIDED &&
                               !check->options.ignores[ANA_CHECK_ITERATION]) ||
                              check->measured->info.status != TRACE_COMPLETE;
    check->verdict = is_undecided ? ANA_CHECK_UNDECIDED : ANA_CHECK_AGREES;
    for (int index = 0; index < check->quantity_count; index++) {
        const ana_check_quantity *quantity = &check->quantities[index];
        if (quantity->verdict != ANA_CHECK_DEPARTS) continue;
        check->verdict = ANA_CHECK_DEPARTS;
        if (check->first < 0 || is_before(quantity, &check->quantities[check->first], grace)) {
            check->first = index;
        }
    }
}

status ana_check_compare(const ana_observed *plan, const ana_observed *measured,
                         const ana_check_options *options, arena *memory, ana_check *check,
                         error_message *err)
{
    assert(options->tolerance > 0 && options->tolerance < 1);
    assert(options->confidence >= 0.5 && options->confidence < 1);
    TRY(check_shapes(plan, measured, err));
    *check = (ana_check){.plan = plan,
                         .measured = measured,
                         .options = *options,
                         .is_exact = plan->is_predicted && measured->is_predicted,
                         .has_stalls = !plan->is_predicted && !measured->is_predicted};
    // Room for every quantity that there can be.
    const size_t stages = (size_t)plan->stage_count;
    const size_t ranks = (size_t)plan->rank_count + (size_t)measured->rank_count;
    check->quantities =
        arena_array(memory, 6 + stages * OP_KIND_COUNT * 2 + ranks * 3, sizeof *check->quantities);
    find_pairs(check, memory);
    note_status(check, plan);
    note_status(check, measured);
    note_iterations(check, plan, "other");
    note_iterations(check, measured, "plan");
    note_op_times(check, plan);
    note_op_times(check, measured);
    note_ranks(check, plan, measured);
    note_ranks(check, measured, plan);
    add_plans(check);
    TRY(ana_check_add_numbers(check, memory, err));
    decide_all(check);
    ana_check_find_cause(check);
    return STATUS_OK;
}
