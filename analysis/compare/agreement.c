#include "analysis/compare/agreement.h"

#include "sim/training_play.h"

#include <stdlib.h>

/// Where the op is noted that makes the output of a stage: of F, or of B or BW.
static int *maker_of(const bal_schedule *schedule, int *makers, bool is_forward, int stage,
                     int microbatch)
{
    const int stages = schedule->rank_count * schedule->chunk_count;
    return &makers[((is_forward ? 0 : (int64_t)stages) + stage) * schedule->microbatch_count +
                   microbatch];
}

const int *ana_senders(const bal_schedule *schedule, arena *memory)
{
    const size_t stages = (size_t)schedule->rank_count * (size_t)schedule->chunk_count;
    int *makers = arena_array(memory, 2 * stages * (size_t)schedule->microbatch_count, sizeof(int));
    int *senders =
        arena_array(memory, (size_t)schedule->first_op[schedule->rank_count], sizeof *senders);
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
            const bal_op made = schedule->ops[op];
            const int stage = bal_schedule_stage(schedule, rank, made.chunk);
            if (made.kind == OP_BACKWARD_WEIGHT) continue;
            *maker_of(schedule, makers, made.kind == OP_FORWARD, stage, made.microbatch) =
                op + made.overlaps_next;
        }
    }
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
            bal_op_kind kind = OP_FORWARD;
            const int stage = bal_op_waits_for(schedule, rank, schedule->ops[op], &kind);
            const bool is_sent = stage >= 0 && bal_schedule_rank(schedule, stage) != rank;
            senders[op] = is_sent ? *maker_of(schedule, makers, kind == OP_FORWARD, stage,
                                              schedule->ops[op].microbatch)
                                  : -1;
        }
    }
    return senders;
}

static void compare_op(ana_agreement *agreement, int iteration, int rank, bal_op op,
                       int64_t difference_ns)
{
    agreement->op_count++;
    if (difference_ns == 0) return;
    if (agreement->different_op_count == 0) {
        agreement->different_iteration = iteration;
        agreement->different_rank = rank;
        agreement->different_op = op;
    }
    agreement->different_op_count++;
    if (difference_ns > agreement->difference_max_ns) agreement->difference_max_ns = difference_ns;
}

static void compare_timelines(ana_agreement *agreement, int iteration, const bal_timeline *executed,
                              const bal_timeline *predicted)
{
    const bal_schedule *schedule = executed->schedule;
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
            const int64_t begin_ns = llabs(executed->begin_ns[op] - predicted->begin_ns[op]);
            const int64_t end_ns = llabs(executed->end_ns[op] - predicted->end_ns[op]);
            compare_op(agreement, iteration, rank, schedule->ops[op],
                       begin_ns > end_ns ? begin_ns : end_ns);
        }
    }
}

status ana_agreement_add(ana_agreement *agreement, const ana_executed *executed, arena *scratch,
                         error_message *err)
{
    sim_plan_replay replay;
    arena_reset(scratch);
    TRY(sim_plan_replay_play(executed->machine, executed->played, scratch, &replay, err));
    const int64_t measured_ns = executed->pipeline_ns + executed->reduction_ns;
    const int64_t predicted_ns = replay.times.pipeline_ns + replay.times.reduction_ns;
    if (measured_ns > INT64_MAX - agreement->measured_ns ||
        predicted_ns > INT64_MAX - agreement->predicted_ns) {
        return error_set(err, STATUS_INVALID, "iteration %d: the ns of the run do not fit 64 bits",
                         executed->iteration);
    }
    for (int replica = 0; replica < executed->played->replica_count; replica++) {
        compare_timelines(agreement, executed->iteration, &executed->timelines[replica],
                          &replay.timelines[replica]);
    }
    agreement->measured_ns += measured_ns;
    agreement->predicted_ns += predicted_ns;
    agreement->iteration_count++;
    return STATUS_OK;
}

double ana_agreement_error_ratio(const ana_agreement *agreement)
{
    if (agreement->predicted_ns <= 0) return 0;
    return (double)agreement->measured_ns / (double)agreement->predicted_ns - 1;
}

// The forecast from warm iterations.

enum { NONE = -1 };

int64_t ana_time_parts_ns(const ana_time_parts *parts)
{
    return parts->op_ns + parts->message_ns + parts->gap_ns + parts->reduction_ns + parts->step_ns;
}

double ana_forecast_error_ratio(const ana_forecast *forecast)
{
    const int64_t forecast_ns = ana_time_parts_ns(&forecast->forecast);
    if (forecast_ns <= 0) return 0;
    return (double)ana_time_parts_ns(&forecast->measured) / (double)forecast_ns - 1;
}

/// The rank of an op.
static int rank_of(const bal_schedule *schedule, int op)
{
    int rank = 0;
    while (op >= schedule->first_op[rank + 1]) {
        rank++;
    }
    return rank;
}

/// Adds up the chain that ends the timeline, walked back from its end. @return the makespan
static int64_t add_chain(const bal_timeline *timeline, arena *memory, ana_time_parts *parts)
{
    const bal_schedule *schedule = timeline->schedule;
    const int64_t *end_ns = timeline->end_ns;
    const int *senders = ana_senders(schedule, memory);
    int64_t first_begin_ns = INT64_MAX;
    int last = 0;
    for (int op = 0; op < schedule->first_op[schedule->rank_count]; op++) {
        if (timeline->begin_ns[op] < first_begin_ns) first_begin_ns = timeline->begin_ns[op];
        if (end_ns[op] > end_ns[last]) last = op;
    }
    for (int op = last, next = NONE; op >= 0; op = next) {
        const int before = op > schedule->first_op[rank_of(schedule, op)] ? op - 1 : NONE;
        int sender = senders[op];
        if (schedule->ops[op].overlaps_next != 0) {
            const int other = senders[op + 1];
            if (sender < 0 || (other >= 0 && end_ns[other] > end_ns[sender])) sender = other;
        }
        const bool waited = sender >= 0 && (before < 0 || end_ns[sender] > end_ns[before]);
        next = waited ? sender : before;
        const int64_t from_ns = next >= 0 ? end_ns[next] : first_begin_ns;
        *(waited ? &parts->message_ns : &parts->gap_ns) += timeline->begin_ns[op] - from_ns;
        parts->op_ns += end_ns[op] - timeline->begin_ns[op];
    }
    return end_ns[last] - first_begin_ns;
}

/// Adds an iteration: the chain of the replica that takes longest, and all ops.
static void add_iteration(const bal_timeline *timelines, int replica_count, int64_t reduction_ns,
                          int64_t step_ns, arena *memory, ana_time_parts *parts)
{
    ana_time_parts longest = {0};
    int64_t longest_ns = NONE;
    for (int replica = 0; replica < replica_count; replica++) {
        const bal_timeline *timeline = &timelines[replica];
        const bal_schedule *schedule = timeline->schedule;
        ana_time_parts chain = {0};
        const int64_t makespan_ns = add_chain(timeline, memory, &chain);
        if (makespan_ns > longest_ns) longest = chain;
        if (makespan_ns > longest_ns) longest_ns = makespan_ns;
        for (int op = 0; op < schedule->first_op[schedule->rank_count]; op++) {
            parts->kind_ns[schedule->ops[op].kind] += timeline->end_ns[op] - timeline->begin_ns[op];
        }
    }
    parts->op_ns += longest.op_ns;
    parts->message_ns += longest.message_ns;
    parts->gap_ns += longest.gap_ns;
    parts->reduction_ns += reduction_ns;
    parts->step_ns += step_ns;
}

static void begin_profile(ana_forecast *forecast, const bal_layer_costs *layers)
{
    arena_reset(forecast->memory);
    forecast->like.memory = arena_within(forecast->memory, 1 << 16);
    forecast->sum_step_ns = 0;
    bal_layer_times_init(&forecast->sum, layers->layer_count, forecast->memory);
    bal_costs_copy_take(&forecast->like, layers);
}

static status add_profile(ana_forecast *forecast, const bal_played_plan *played, int64_t step_ns,
                          arena *scratch, error_message *err)
{
    bal_layer_times mean;
    if (forecast->profiled_count++ == 0) begin_profile(forecast, &played->replicas[0]);
    bal_layer_times_init(&mean, played->replicas[0].layer_count, scratch);
    for (int replica = 0; replica < played->replica_count; replica++) {
        TRY(bal_layer_times_fill(&mean, &played->replicas[replica], err));
        for (int layer = 0; layer < mean.layer_count; layer++) {
            forecast->sum.forward_ns[layer] += mean.forward_ns[layer];
            forecast->sum.backward_input_ns[layer] += mean.backward_input_ns[layer];
            forecast->sum.backward_weight_ns[layer] += mean.backward_weight_ns[layer];
        }
    }
    forecast->sum_step_ns += step_ns;
    return STATUS_OK;
}

/// What the profile says that every replica costs.
static bal_played_plan forecast_plan(const ana_forecast *forecast, const bal_played_plan *played,
                                     arena *scratch)
{
    const int count = forecast->profiled_count * played->replica_count;
    const int layers = forecast->like.layers.layer_count;
    bal_layer_times *mean = arena_array(scratch, 1, sizeof *mean);
    bal_layer_times_init(mean, layers, scratch);
    for (int layer = 0; layer < layers; layer++) {
        mean->forward_ns[layer] = (forecast->sum.forward_ns[layer] + count / 2) / count;
        mean->backward_input_ns[layer] =
            (forecast->sum.backward_input_ns[layer] + count / 2) / count;
        mean->backward_weight_ns[layer] =
            (forecast->sum.backward_weight_ns[layer] + count / 2) / count;
    }
    bal_layer_costs *replicas =
        arena_array(scratch, (size_t)played->replica_count, sizeof *replicas);
    for (int replica = 0; replica < played->replica_count; replica++) {
        replicas[replica] = bal_layer_times_costs(mean, &forecast->like.layers);
    }
    bal_played_plan plan = *played;
    plan.replicas = replicas;
    return plan;
}

status ana_forecast_add(ana_forecast *forecast, const ana_executed *executed, bool changed,
                        int64_t step_ns, arena *scratch, error_message *err)
{
    const bal_played_plan *played = executed->played;
    sim_plan_replay replay;
    arena_reset(scratch);
    if (forecast->seen_count++ < forecast->warmup_count) return STATUS_OK;
    if (changed && forecast->profiled_count > 0) {
        forecast->profiled_count = 0;
        forecast->change_count++;
    }
    if (forecast->profiled_count < ANA_FORECAST_PROFILE) {
        return add_profile(forecast, played, step_ns, scratch, err);
    }
    const bal_played_plan plan = forecast_plan(forecast, played, scratch);
    TRY(sim_plan_replay_play(executed->machine, &plan, scratch, &replay, err));
    add_iteration(replay.timelines, played->replica_count, replay.times.reduction_ns,
                  forecast->sum_step_ns / forecast->profiled_count, scratch, &forecast->forecast);
    add_iteration(executed->timelines, played->replica_count, executed->reduction_ns, step_ns,
                  scratch, &forecast->measured);
    forecast->iteration_count++;
    return STATUS_OK;
}
