#include "analysis/check/check_effects.h"

#include "analysis/check/check_parts.h"
#include "sim/costs.h"
#include "sim/pipeline.h"

#include <math.h>

/// Where one time of a stage is kept, and where the time that stands for it in the check is.
typedef struct times {
    int64_t *forward_ns; // [stage_count] each
    int64_t *backward_input_ns;
    int64_t *backward_weight_ns;
    int64_t *send_forward_ns;
    int64_t *send_backward_ns;
    int64_t *zero;
} times;

/// Makes all times 0.
static void make_times(int stage_count, arena *memory, times *out)
{
    const size_t stages = (size_t)stage_count;
    int64_t *all = arena_array(memory, stages * 6, sizeof *all);
    *out = (times){
        all, all + stages, all + 2 * stages, all + 3 * stages, all + 4 * stages, all + 5 * stages};
}

/// A microbatch's share of the planned iteration, ns.
static double share_ns(const ana_check *check)
{
    return check->quantities[check->length].planned / check->plan->microbatch_count;
}

/// A time as planned or, by its change, as measured; never negative.
static int64_t time_of(const ana_check_quantity *quantity, bool is_measured, double share)
{
    double ns = quantity->planned;
    if (is_measured) {
        ns += quantity->change * (quantity->group == ANA_CHECK_OP
                                      ? fmax(quantity->planned, share / ANA_CHECK_SCALE_PART)
                                      : share);
    }
    return ns > 0 ? llround(ns) : 0;
}

static void put_op(const ana_check_quantity *quantity, int64_t ns, times *out)
{
    if (quantity->op == OP_FORWARD) {
        out->forward_ns[quantity->stage] = ns;
    } else if (quantity->op == OP_BACKWARD_WEIGHT) {
        out->backward_weight_ns[quantity->stage] = ns;
    } else {
        out->backward_input_ns[quantity->stage] = ns;
    }
}

/// A message is the sender's in the costs, the receiver's in the check.
static void put_message(const ana_check_quantity *quantity, int64_t ns, int stage_count, times *out)
{
    if (quantity->op == OP_FORWARD) {
        if (quantity->stage > 0) out->send_forward_ns[quantity->stage - 1] = ns;
    } else if (quantity->stage + 1 < stage_count) {
        out->send_backward_ns[quantity->stage + 1] = ns;
    }
}

static void fill_times(const ana_check *check, bool measured_ops, bool measured_messages,
                       int stage_count, times *out)
{
    const double share = share_ns(check);
    for (int index = 0; index < check->quantity_count; index++) {
        const ana_check_quantity *quantity = &check->quantities[index];
        if (quantity->count == 0 || quantity->stage >= stage_count) continue;
        if (quantity->group == ANA_CHECK_OP) {
            put_op(quantity, time_of(quantity, measured_ops, share), out);
        } else if (quantity->group == ANA_CHECK_MESSAGE) {
            put_message(quantity, time_of(quantity, measured_messages, share), stage_count, out);
        }
    }
}

/// Makespan of an order; -1: it cannot be played.
static status play(const bal_schedule *schedule, const times *with, arena *memory,
                   int64_t *makespan_ns)
{
    const bal_stage_costs costs = {
        .stage_count = schedule->rank_count * schedule->chunk_count,
        .microbatch_count = 1,
        .forward_ns = with->forward_ns,
        .backward_input_ns = with->backward_input_ns,
        .backward_weight_ns = with->backward_weight_ns,
        .send_forward_ns = with->send_forward_ns,
        .send_backward_ns = with->send_backward_ns,
        .memory_forward = with->zero,
        .memory_backward_input = with->zero,
        .memory_backward_weight = with->zero,
    };
    sim_order order;
    sim_summary summary;
    *makespan_ns = -1;
    if (sim_order_compile(schedule, memory, &order, NULL) != STATUS_OK ||
        sim_costs_check(schedule, &costs, NULL) != STATUS_OK) {
        return STATUS_OK;
    }
    TRY(sim_summary_init(&order, memory, &summary));
    sim_order_summarise(&order, &costs, NULL, &summary);
    *makespan_ns = summary.makespan_ns;
    return STATUS_OK;
}

static double effect(int64_t base_ns, int64_t changed_ns)
{
    return changed_ns >= 0 ? (double)changed_ns / (double)base_ns - 1 : 0;
}

status ana_check_effects_find(const ana_check *check, arena *memory, ana_check_effects *effects)
{
    *effects = (ana_check_effects){0};
    if (check->plan->first == NULL || !check->plan->has_op_times ||
        !check->measured->has_op_times || check->pairs.count == 0) {
        return STATUS_OK;
    }
    const bal_schedule *schedule = &check->plan->first->schedule;
    const int stages = schedule->rank_count * schedule->chunk_count;
    times planned;
    times ops;
    times messages;
    int64_t base_ns = 0;
    int64_t ops_ns = 0;
    int64_t messages_ns = 0;
    int64_t order_ns = -1;
    make_times(stages, memory, &planned);
    make_times(stages, memory, &ops);
    make_times(stages, memory, &messages);
    fill_times(check, false, false, stages, &planned);
    fill_times(check, true, false, stages, &ops);
    fill_times(check, false, true, stages, &messages);
    TRY(play(schedule, &planned, memory, &base_ns));
    if (base_ns <= 0) return STATUS_OK;
    TRY(play(schedule, &ops, memory, &ops_ns));
    TRY(play(schedule, &messages, memory, &messages_ns));
    const ana_timeline *other = check->measured->first;
    if (other != NULL && other->schedule.rank_count == schedule->rank_count &&
        other->schedule.chunk_count == schedule->chunk_count) {
        TRY(play(&other->schedule, &planned, memory, &order_ns));
    }
    *effects = (ana_check_effects){.is_known = true,
                                   .ops = effect(base_ns, ops_ns),
                                   .messages = effect(base_ns, messages_ns),
                                   .order = effect(base_ns, order_ns)};
    return STATUS_OK;
}
