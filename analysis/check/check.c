#include "analysis/check/check.h"

#include "analysis/check/check_parts.h"

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
    [ANA_CHECK_FINAL] = "final-plan",
    [ANA_CHECK_MEMORY] = "memory"};

const char *const ana_check_verdict_names[ANA_CHECK_VERDICT_COUNT] = {
    [ANA_CHECK_AGREES] = "agrees",
    [ANA_CHECK_DEPARTS] = "departs",
    [ANA_CHECK_UNDECIDED] = "undecided",
    [ANA_CHECK_IGNORED] = "ignored"};

const char *const ana_check_cause_names[ANA_CAUSE_COUNT] = {
    [ANA_CAUSE_NONE] = "none",
    [ANA_CAUSE_PLAN] = "plan",
    [ANA_CAUSE_ALL_OPS] = "ops-of-all-stages",
    [ANA_CAUSE_KIND] = "ops-of-one-kind",
    [ANA_CAUSE_STAGES] = "ops-of-some-stages",
    [ANA_CAUSE_STRAGGLER] = "straggler-rank",
    [ANA_CAUSE_LINK] = "slow-link",
    [ANA_CAUSE_ORDER] = "order",
    [ANA_CAUSE_DECISION] = "decision",
    [ANA_CAUSE_OUTSIDE] = "outside-the-pipeline",
    [ANA_CAUSE_MEMORY] = "memory",
    [ANA_CAUSE_UNKNOWN] = "unknown"};

ana_check_options ana_check_options_default(void)
{
    return (ana_check_options){.tolerance = 0.05, .confidence = 0.95, .warmup = -1};
}

void ana_check_note(ana_check *check, const char *format, ...)
{
    va_list arguments;
    if (check->note_count == ANA_CHECK_NOTES_MAX) return;
    va_start(arguments, format);
    vsnprintf(check->notes[check->note_count++], ANA_CHECK_LINE_BYTES, format, arguments);
    va_end(arguments);
}

const char *ana_check_op_word(bal_op_kind kind)
{
    static const char *const words[OP_KIND_COUNT] = {[OP_FORWARD] = "F",
                                                     [OP_BACKWARD_INPUT] = "B",
                                                     [OP_BACKWARD_WEIGHT] = "W",
                                                     [OP_BACKWARD] = "BW"};
    return words[kind];
}

void ana_check_percent(double change, char out[32])
{
    const double tenths = round(change * 1000); // without a minus before what rounds to nothing
    snprintf(out, 32, "%+.1f %%", tenths == 0 ? 0.0 : tenths / 10);
}

static status check_options(const ana_check_options *options, error_message *err)
{
    if (!(options->tolerance > 0 && options->tolerance < 1)) {
        return error_set(err, STATUS_INVALID, "tolerance %g is outside (0, 1)", options->tolerance);
    }
    if (!(options->confidence >= 0.5 && options->confidence < 1)) {
        return error_set(err, STATUS_INVALID, "confidence %g is outside [0.5, 1)",
                         options->confidence);
    }
    return STATUS_OK;
}

/// Runs of different models are no comparison.
static status check_shapes(const ana_observed *plan, const ana_observed *measured,
                           error_message *err)
{
    const struct {
        const char *what;
        int plan;
        int measured;
    } counts[] = {
        {"layers", plan->layer_count, measured->layer_count},
        {"microbatches", plan->microbatch_count, measured->microbatch_count},
        {"stages", plan->plans[0].rank_count * plan->chunk_count,
         measured->plans[0].rank_count * measured->chunk_count},
        {"chunks per rank", plan->chunk_count, measured->chunk_count},
        {"replicas", plan->replica_count, measured->replica_count},
    };
    for (size_t each = 0; each < sizeof counts / sizeof counts[0]; each++) {
        if (counts[each].plan == counts[each].measured) continue;
        return error_set(err, STATUS_INVALID,
                         "not the same training: %d %s in %.150s, but %d in %.150s",
                         counts[each].plan, counts[each].what, plan->source, counts[each].measured,
                         measured->source);
    }
    if (strcmp(plan->schedule, measured->schedule) == 0) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "not the same training: schedule %.30s in %.150s, but %.30s in %.150s",
                     plan->schedule, plan->source, measured->schedule, measured->source);
}

static void note_status(ana_check *check, const ana_observed *observed)
{
    if (observed->info.status == TRACE_COMPLETE) return;
    ana_check_note(check, "%s is %s: only its %d iterations are compared", observed->source,
                   trace_status_name(observed->info.status), observed->iteration_count);
}

/// Says what one side has and the other does not.
static void note_iterations(ana_check *check, const ana_observed *one, const char *other)
{
    const trace_run_iteration *rows = one->iterations;
    const int count = one->iteration_count;
    const int missing = rows[count - 1].iteration - rows[0].iteration + 1 - count;
    if (missing > 0) {
        ana_check_note(check, "%s lacks %d iterations between %d and %d", one->source, missing,
                       rows[0].iteration, rows[count - 1].iteration);
    }
    if (check->pairs.count > 0 && count > check->pairs.count && !one->is_predicted) {
        ana_check_note(check, "%d iterations are only in %s, not in the %s",
                       count - check->pairs.count, one->source, other);
    }
}

static void note_op_times(ana_check *check, const ana_observed *observed)
{
    if (observed->has_op_times) return;
    ana_check_note(check,
                   "%s has no op times (an older version recorded it, or its iterations are too "
                   "large): ops and messages are not compared",
                   observed->source);
}

/// Whether a departure counts before another: earlier, with some iterations of grace, then by the
/// order of the groups.
static bool is_before(const ana_check_quantity *one, const ana_check_quantity *other, int grace)
{
    if (one->since + grace < other->since) return true;
    if (other->since + grace < one->since) return false;
    return one->group < other->group;
}

/// Finds what departed first: within the grace behind the earliest, causes before effects.
static void decide_all(ana_check *check)
{
    const int grace = check->pairs.count / 20 + 1;
    check->first = -1;
    const bool is_undecided = check->quantities[check->length].verdict == ANA_CHECK_UNDECIDED;
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

/// Room for every quantity that there can be.
static status make_room(ana_check *check, arena *memory, error_message *err)
{
    const size_t stages = (size_t)check->plan->stage_count;
    const size_t ranks = (size_t)check->plan->rank_count + (size_t)check->measured->rank_count;
    const size_t count = 6 + stages * OP_KIND_COUNT * 2 + ranks * 3;
    check->quantities = arena_array(memory, count, sizeof *check->quantities);
    if (check->quantities != NULL) return STATUS_OK;
    return error_set(err, STATUS_NO_MEMORY, "out of memory for %zu quantities", count);
}

status ana_check_compare(const ana_observed *plan, const ana_observed *measured,
                         const ana_check_options *options, arena *memory, ana_check *check,
                         error_message *err)
{
    TRY(check_options(options, err));
    TRY(check_shapes(plan, measured, err));
    *check = (ana_check){.plan = plan,
                         .measured = measured,
                         .options = *options,
                         .is_exact = plan->is_predicted && measured->is_predicted};
    TRY(make_room(check, memory, err));
    ana_check_pairs_find(plan, measured, memory, &check->pairs);
    note_status(check, plan);
    note_status(check, measured);
    note_iterations(check, plan, "other");
    note_iterations(check, measured, "plan");
    note_op_times(check, plan);
    note_op_times(check, measured);
    TRY(ana_check_add_plans(check, err));
    TRY(ana_check_add_numbers(check, memory, err));
    decide_all(check);
    return ana_check_find_cause(check, memory, err);
}
