/// The numbers of a check: what each quantity is on either side, on which scale it is compared, and
/// whether it departs.
#include "analysis/check/check_parts.h"

#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WARMUP_STEP = 5, LEFT_AT_LEAST = 10 };
enum { WARMUP_MAX = 10, WARMUP_PART = 10 }; // iterations, or this part of them, whichever is more

/// One iteration of one side.
typedef struct moment {
    const ana_observed *observed;
    int row;
} moment;

/// What has been gathered of a quantity.
typedef struct gathered {
    int count;
    double *change;   // [count]
    int *pair;        // [count] index into pairs
    int *iteration;   // [count] of the plan's side
    double *planned;  // [count] ns
    double *measured; // [count]
} gathered;

/// One side's iterations are no more than their makespans.
static bool has_trace(const ana_check *check)
{
    return check->plan->is_trace || check->measured->is_trace;
}

/// Whether one side's iterations are no longer than its work, as no ops of them were recorded.
static bool has_only_work(const ana_check *check)
{
    return check->plan->is_of_work || check->measured->is_of_work;
}

static int64_t makespan_ns(const moment *at)
{
    return at->observed->iterations[at->row].makespan_ns;
}

static int64_t iteration_ns(const moment *at)
{
    return at->observed->iterations[at->row].iteration_ns;
}

/// Of all ranks; -1: not recorded.
static int64_t work_ns(const moment *at)
{
    const ana_observed *observed = at->observed;
    const int64_t sample = observed->sample_of[at->row];
    int64_t sum = 0;
    if (sample < 0) return -1;
    if (observed->trace_work_ns != NULL) return observed->trace_work_ns[sample];
    for (int rank = 0; rank < observed->rank_count; rank++) {
        const int64_t ns = observed->work_ns[sample * observed->rank_count + rank];
        if (ns > 0) sum += ns; // -1 of a rank that played nothing
    }
    return sum;
}

/// The value of a quantity at a moment, ns. @return false where it has none
static bool value_at(const ana_check *check, const ana_check_quantity *quantity, const moment *at,
                     double *value)
{
    const ana_observed *observed = at->observed;
    const int64_t sample = observed->sample_of[at->row];
    const int64_t cell =
        (sample * observed->stage_count + quantity->stage) * OP_KIND_COUNT + (int64_t)quantity->op;
    int64_t ns = -1;
    if (quantity->group == ANA_CHECK_ITERATION) {
        ns = has_only_work(check) ? work_ns(at)
             : has_trace(check)   ? makespan_ns(at)
                                  : iteration_ns(at);
    } else if (quantity->group == ANA_CHECK_OUTSIDE) {
        ns = iteration_ns(at) > makespan_ns(at) ? iteration_ns(at) - makespan_ns(at) : 0;
    } else if (sample < 0) {
        return false;
    } else if (quantity->group == ANA_CHECK_OP) {
        ns = observed->op_ns[cell];
    } else if (quantity->group == ANA_CHECK_MESSAGE) {
        ns = observed->travel_ns[cell];
    } else {
        ns = observed->work_ns[sample * observed->rank_count + quantity->rank];
        if (ns >= 0 && quantity->group == ANA_CHECK_IDLE) ns = makespan_ns(at) - ns;
    }
    if (ns >= 0) *value = (double)ns;
    return ns >= 0;
}

double ana_check_share_count(const ana_observed *plan)
{
    const double microbatches = plan->plans[0].microbatch_count;
    return plan->is_by_layer ? microbatches * plan->stage_count : microbatches;
}

bool ana_check_is_sampled(const ana_check *check, const ana_check_pair *pair)
{
    return check->plan->sample_of[pair->plan_row] >= 0 &&
           check->measured->sample_of[pair->measured_row] >= 0;
}

/// What a difference of the quantity is divided by.
static double scale_of(const ana_check_quantity *quantity, double planned, double iteration,
                       double share_count)
{
    const double share = iteration / share_count;
    switch (quantity->group) {
    case ANA_CHECK_OP:
        return fmax(planned, share / ANA_CHECK_SCALE_PART);
    case ANA_CHECK_MESSAGE:
        return share;
    case ANA_CHECK_BUSY:
        return fmax(planned, iteration / ANA_CHECK_SCALE_PART);
    case ANA_CHECK_IDLE:
    case ANA_CHECK_OUTSIDE:
        return iteration;
    default:
        return planned;
    }
}

/// Whether an op that one side alone has in a pair of iterations took no time on the other: a layer
/// that was frozen, or left out.
static bool may_be_gone(const ana_check *check, const ana_check_quantity *quantity,
                        const ana_check_pair *pair)
{
    return quantity->group == ANA_CHECK_OP && check->plan->is_by_layer &&
           check->measured->is_by_layer && ana_check_is_sampled(check, pair);
}

static gathered gather(const ana_check *check, const ana_check_quantity *quantity, arena *memory)
{
    const ana_check_pair *pairs = check->pairs;
    const size_t most = (size_t)check->pair_count;
    const bool is_of_any_plan =
        quantity->group == ANA_CHECK_ITERATION || quantity->group == ANA_CHECK_OUTSIDE;
    gathered out = {.change = arena_array(memory, most, sizeof(double)),
                    .pair = arena_array(memory, most, sizeof(int)),
                    .iteration = arena_array(memory, most, sizeof(int)),
                    .planned = arena_array(memory, most, sizeof(double)),
                    .measured = arena_array(memory, most, sizeof(double))};
    for (int pair = check->warmup; pair < check->pair_count; pair++) {
        const moment one = {check->plan, pairs[pair].plan_row};
        const moment other = {check->measured, pairs[pair].measured_row};
        double planned = 0;
        double measured = 0;
        if (!is_of_any_plan && !pairs[pair].same_plan) continue;
        const bool is_planned = value_at(check, quantity, &one, &planned);
        const bool is_measured = value_at(check, quantity, &other, &measured);
        if (!is_planned && !is_measured) continue;
        if (is_planned != is_measured && !may_be_gone(check, quantity, &pairs[pair])) continue;
        const double scale = scale_of(quantity, planned, (double)iteration_ns(&one),
                                      ana_check_share_count(check->plan));
        if (scale <= 0) continue; // nothing that a change could be a part of
        out.pair[out.count] = pair;
        out.iteration[out.count] = check->plan->iterations[one.row].iteration;
        out.change[out.count] = (measured - planned) / scale;
        out.planned[out.count] = planned;
        out.measured[out.count++] = measured;
    }
    return out;
}

int ana_check_since(const double *changes, int count, double tolerance)
{
    int best = 0;
    int since = -1;
    int sum = 0;
    for (int index = count - 1; index >= 0; index--) {
        sum += fabs(changes[index]) > tolerance ? 1 : -1;
        if (sum < best || (sum == 0 && best == 0)) continue;
        best = sum;
        since = index;
    }
    return since;
}

static ana_check_verdict verdict_of(const ana_check_options *options, const ana_shift *shift)
{
    const double tolerance = options->tolerance;
    const double shortest = options->only_slower ? -HUGE_VAL : -tolerance;
    if (!shift->is_bounded) return ANA_CHECK_UNDECIDED;
    if (shift->low > tolerance || shift->high < shortest) return ANA_CHECK_DEPARTS;
    return shift->low >= shortest && shift->high <= tolerance ? ANA_CHECK_AGREES
                                                              : ANA_CHECK_UNDECIDED;
}

/// Of predictions the median is no estimate.
static void make_exact(const ana_check *check, ana_shift *shift)
{
    if (!check->is_exact) return;
    shift->low = shift->estimate;
    shift->high = shift->estimate;
    shift->is_bounded = true;
    shift->needed_count = 1;
}

/// A departure that begins later counts although the whole does not show it. The begin is looked
/// for, so that every iteration at which it might have begun takes its part of alpha.
static void look_at_end(const ana_check *check, const double *changes, const int *iteration,
                        int count, double alpha, arena *scratch, ana_check_quantity *quantity)
{
    const int since = ana_check_since(changes, count, check->options.tolerance);
    ana_shift shift;
    if (since < 1) return;
    ana_shift_since(changes, count, since, alpha / count, scratch, &shift);
    make_exact(check, &shift);
    if (verdict_of(&check->options, &shift) != ANA_CHECK_DEPARTS) return;
    quantity->change = shift;
    quantity->verdict = ANA_CHECK_DEPARTS;
    quantity->count = count - since;
    snprintf(quantity->detail, sizeof quantity->detail, "not before iteration %d",
             iteration[since]);
}

/// A run whose iterations are mostly as planned takes longer where some are far longer.
static void look_at_mean(const ana_check *check, const double *changes, int count, double alpha,
                         arena *scratch, ana_check_quantity *quantity)
{
    ana_shift shift;
    int beyond = 0;
    if (!check->has_stalls) return;
    ana_shift_of_mean(changes, count, alpha, scratch, &shift);
    if (verdict_of(&check->options, &shift) != ANA_CHECK_DEPARTS) return;
    for (int index = 0; index < count; index++) {
        beyond += fabs(changes[index]) > check->options.tolerance;
    }
    quantity->change = shift;
    quantity->is_of_means = true;
    quantity->verdict = ANA_CHECK_DEPARTS;
    snprintf(quantity->detail, sizeof quantity->detail,
             "in the mean: %d of %d iterations are beyond the tolerance", beyond, count);
}

/// The iteration from which on the quantity departs: of means the first beyond the tolerance.
static int departs_from(const ana_check *check, const double *changes, const int *iteration,
                        int count, bool is_of_means)
{
    const double tolerance = check->options.tolerance;
    int since = is_of_means ? 0 : ana_check_since(changes, count, tolerance);
    while (is_of_means && fabs(changes[since]) <= tolerance) {
        since++;
    }
    return iteration[since < 0 ? 0 : since];
}

void ana_check_decide(const ana_check *check, const double *changes, const int *iteration,
                      int count, double alpha, arena *scratch, ana_check_quantity *quantity)
{
    ana_shift shift;
    ana_shift_since(changes, count, 0, alpha, scratch, &shift);
    make_exact(check, &shift);
    quantity->change = shift;
    quantity->count = count;
    quantity->verdict = verdict_of(&check->options, &shift);
    if (quantity->verdict != ANA_CHECK_DEPARTS) {
        look_at_end(check, changes, iteration, count, alpha, scratch, quantity);
    }
    if (quantity->verdict != ANA_CHECK_DEPARTS && quantity->group == ANA_CHECK_ITERATION) {
        look_at_mean(check, changes, count, alpha, scratch, quantity);
    }
    quantity->since = quantity->verdict == ANA_CHECK_DEPARTS
                          ? departs_from(check, changes, iteration, count, quantity->is_of_means)
                          : -1;
}

static double mean_of(double *values, int count)
{
    return gsl_stats_mean(values, 1, (size_t)count);
}

/// A length whose mean is another than its median by more than the tolerance.
static void note_mean(ana_check *check, const gathered *values, const ana_check_quantity *length)
{
    if (values->count == 0 || length->verdict == ANA_CHECK_DEPARTS) return;
    const double mean = mean_of(values->change, values->count);
    if (fabs(mean - length->change.estimate) <= check->options.tolerance) return;
    ana_check_say(&check->notes,
                  "in the mean %s changes by %s, some iterations are far from the median",
                  length->name, ana_check_percent(mean).text);
}

static void compare(ana_check *check, double alpha, arena *scratch, ana_check_quantity *quantity)
{
    const gathered values = gather(check, quantity, scratch);
    ana_check_decide(check, values.change, values.iteration, values.count, alpha, scratch,
                     quantity);
    // Of a departure that begins later, what departs.
    const int skipped = values.count - quantity->count;
    double (*const typical)(double *, int) = quantity->is_of_means ? mean_of : ana_shift_median;
    quantity->planned = typical(values.planned + skipped, quantity->count);
    quantity->measured = typical(values.measured + skipped, quantity->count);
    if (quantity->group == ANA_CHECK_ITERATION) note_mean(check, &values, quantity);
}

static ana_check_quantity *add(ana_check *check, ana_check_group group, int rank, int stage,
                               bal_op_kind op)
{
    ana_check_quantity *quantity = &check->quantities[check->quantity_count++];
    *quantity = (ana_check_quantity){
        .group = group, .rank = rank, .stage = stage, .op = op, .is_number = true, .since = -1};
    char *name = quantity->name;
    const size_t size = sizeof quantity->name;
    if (stage >= 0 && check->plan->is_by_layer) {
        snprintf(name, size, "%s of layer %d", bal_op_kind_names[op], stage);
    } else if (stage >= 0 && rank < 0) {
        snprintf(name, size, "%s of stage %d", bal_op_kind_names[op], stage);
    } else if (stage >= 0) {
        snprintf(name, size, "%s%s of stage %d (rank %d)",
                 group == ANA_CHECK_MESSAGE ? "message to " : "", bal_op_kind_names[op], stage,
                 rank);
    } else if (rank >= 0) {
        snprintf(name, size, "%s of rank %d",
                 group == ANA_CHECK_MEMORY ? "peak memory" : ana_check_group_names[group], rank);
    } else {
        snprintf(name, size, "%s",
                 group == ANA_CHECK_OUTSIDE ? "outside the pipeline" : "iteration");
    }
    return quantity;
}

/// Whether a cell of both sides has a value in any sample.
static bool has_cell(const ana_observed *observed, const int64_t *values, int stage, int kind)
{
    for (int sample = 0; sample < observed->sample_count; sample++) {
        const int64_t cell =
            ((int64_t)sample * observed->stage_count + stage) * OP_KIND_COUNT + kind;
        if (values[cell] >= 0) return true;
    }
    return false;
}

static void list_ops(ana_check *check, ana_check_group group)
{
    const ana_observed *plan = check->plan;
    const ana_observed *measured = check->measured;
    const bool is_op = group == ANA_CHECK_OP;
    const int stages =
        plan->stage_count < measured->stage_count ? plan->stage_count : measured->stage_count;
    if (!plan->has_op_times || !measured->has_op_times) return;
    for (int stage = 0; stage < stages; stage++) {
        const bal_plan *start = &plan->plans[0];
        const bool has_rank = plan->rank_count > 0 && measured->rank_count > 0 &&
                              stage < start->rank_count * start->chunk_count;
        const int rank = has_rank ? ana_observed_rank_of(start, stage) : -1;
        for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
            if (has_cell(plan, is_op ? plan->op_ns : plan->travel_ns, stage, kind) &&
                has_cell(measured, is_op ? measured->op_ns : measured->travel_ns, stage, kind)) {
                add(check, group, rank, stage, (bal_op_kind)kind);
            }
        }
    }
}

static void list_ranks(ana_check *check, ana_check_group group)
{
    const int ranks = check->plan->rank_count < check->measured->rank_count
                          ? check->plan->rank_count
                          : check->measured->rank_count;
    for (int rank = 0; rank < ranks; rank++) {
        add(check, group, rank, -1, OP_FORWARD);
    }
}

/// Peaks are one number each, without noise.
static void add_memory(ana_check *check)
{
    const ana_observed *plan = check->plan;
    const ana_observed *measured = check->measured;
    const int ranks =
        plan->rank_count < measured->rank_count ? plan->rank_count : measured->rank_count;
    if (has_trace(check)) return;
    if (plan->peak_bytes == NULL || measured->peak_bytes == NULL) {
        ana_check_say(&check->notes,
                      "peak memory is not known of both: it stands in complete runs only");
        return;
    }
    for (int rank = 0; rank < ranks; rank++) {
        if (plan->peak_bytes[rank] == 0 || measured->peak_bytes[rank] == 0) continue;
        ana_check_quantity *quantity = add(check, ANA_CHECK_MEMORY, rank, -1, OP_FORWARD);
        quantity->is_bytes = true;
        quantity->planned = (double)plan->peak_bytes[rank];
        quantity->measured = (double)measured->peak_bytes[rank];
        const double change = quantity->measured / quantity->planned - 1;
        quantity->count = 1;
        quantity->change = (ana_shift){change, change, change, true, 1};
        quantity->verdict = verdict_of(&check->options, &quantity->change);
        quantity->since = quantity->verdict == ANA_CHECK_DEPARTS
                              ? measured->iterations[measured->iteration_count - 1].iteration
                              : -1;
    }
}

/// The median of values, which stay as they are. @param work [count]
static double median_of(const double *values, int count, double *work)
{
    memcpy(work, values, (size_t)count * sizeof *work);
    return ana_shift_median(work, count);
}

int ana_check_warmup_of(const double *values, int count, arena *scratch)
{
    double *work = arena_array(scratch, (size_t)count, sizeof *work);
    const int most = count / WARMUP_PART > WARMUP_MAX ? count / WARMUP_PART : WARMUP_MAX;
    int dropped = 0;
    while (count - dropped >= WARMUP_STEP + LEFT_AT_LEAST && dropped < most) {
        const double *after = values + dropped + WARMUP_STEP;
        const int left = count - dropped - WARMUP_STEP;
        const double next = median_of(values + dropped, WARMUP_STEP, work);
        const double rest = median_of(after, left, work);
        const double spread = gsl_stats_mad0(after, 1, (size_t)left, work);
        const double hundredth = 0.01 * (1 + fabs(rest));
        if (next - rest <= 3 * spread || next - rest <= hundredth) break;
        dropped++;
    }
    return dropped;
}

/// The warm-up that was asked for, or that the lengths of the iterations show.
static status find_warmup(ana_check *check, arena *scratch, error_message *err)
{
    const ana_check_quantity length = {.group = ANA_CHECK_ITERATION, .stage = -1, .rank = -1};
    if (check->options.warmup >= 0) {
        check->warmup = check->options.warmup;
    } else if (!check->is_exact) {
        const gathered values = gather(check, &length, scratch);
        const int dropped = ana_check_warmup_of(values.change, values.count, scratch);
        if (dropped > 0) check->warmup = values.pair[dropped - 1] + 1;
    }
    if (check->warmup < check->pair_count) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "--warmup %d leaves none of the %d iterations compared",
                     check->warmup, check->pair_count);
}

status ana_check_add_numbers(ana_check *check, arena *memory, error_message *err)
{
    const int first = check->quantity_count;
    arena *scratch = arena_within(memory, 1 << 16);
    TRY(find_warmup(check, scratch, err));
    list_ops(check, ANA_CHECK_OP);
    list_ops(check, ANA_CHECK_MESSAGE);
    if (!has_trace(check)) add(check, ANA_CHECK_OUTSIDE, -1, -1, OP_FORWARD);
    list_ranks(check, ANA_CHECK_BUSY);
    // A rank that works less waits more, which slows nothing down.
    if (!check->options.only_slower && !has_only_work(check)) list_ranks(check, ANA_CHECK_IDLE);
    ana_check_quantity *length = add(check, ANA_CHECK_ITERATION, -1, -1, OP_FORWARD);
    if (has_only_work(check)) snprintf(length->name, sizeof length->name, "work of an iteration");
    check->length = check->quantity_count - 1;
    // Twice as many tests as quantities: of all iterations, and of those from some iteration on;
    // and one of the mean.
    const int tests = 2 * (check->quantity_count - first) + check->has_stalls;
    const double alpha = (1 - check->options.confidence) / tests;
    for (int index = first; index < check->quantity_count; index++) {
        arena_reset(scratch);
        compare(check, alpha, scratch, &check->quantities[index]);
    }
    add_memory(check);
    return STATUS_OK;
}
