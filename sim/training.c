#include "sim/training.h"

#include "balance/change_detector.h"
#include "balance/migration.h"
#include "balance/schedule.h"
#include "balance/stage_inflight.h"
#include "sim/costs.h"
#include "sim/pipeline.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

/// The plan by which iterations are played until the next rebalance.
typedef struct plan_in_force {
    int *first_layer;     // [stage_count + 1]
    int *owner;           // [layer_count]; NULL unless the balancer has owners
    int64_t reduction_ns; // of the gradients
    bal_schedule schedule;
    sim_order order;
    sim_summary summary;
} plan_in_force;

/// Sums over the run that the result is derived from.
typedef struct ledger {
    int64_t busy_ns;
    int64_t rank_time_ns;
    double imbalance_sum;
} ledger;

/// What changes while a run is replayed. Arenas by lifetime: of the run, of a plan, of the costs of
/// an iteration, of a decision, and of one partition that a decision tries out.
typedef struct replay {
    const sim_training *training;
    const bal_schedule_family *family;
    int chunk_count;
    int stage_count; // ranks x chunks
    arena *run_memory;
    arena *plan_memory;
    arena *costs_memory;
    arena *decision_memory;
    arena *trial_memory;
    error_message *err;

    bal_change_detector detector;
    int64_t *stage_inflight; // [stage_count] microbatches whose activations a stage holds
    int64_t *stage_memory;   // [stage_count] caps, or NULL: not limited
    int64_t *peak_memory;    // [rank_count]
    int64_t *transfer_ns;    // [layer_count] over the slower of the links between neighbours

    int iteration;
    plan_in_force plan;
    bal_layer_costs layers; // of this iteration, columns as the schedule needs them
    bal_stage_costs stages; // of this iteration under the plan in force
    bal_timeline timeline;  // storage for one timeline; begin_ns NULL until first asked for
    bal_metrics metrics;
    bool is_played; // metrics belong to layers and plan as they are

    int64_t *seen_bytes;  // [3][layer_count] state, activations, gradients of this iteration
    bool is_memory_noted; // peak_memory has seen these bytes under this plan

    ledger sums;
    sim_training_result *result;
} replay;

static status no_memory(const replay *state)
{
    return error_set(state->err, STATUS_NO_MEMORY, "out of memory for %d layers on %d stages",
                     state->layers.layer_count, state->stage_count);
}

static status too_large(const replay *state, const char *what)
{
    return error_set(state->err, STATUS_INVALID, "iteration %d: the %s do not fit 64 bits",
                     state->iteration, what);
}

/// Adds to a sum of numbers >= 0. False, and nothing added, if it would not fit int64.
static bool add_to(int64_t *sum, int64_t value)
{
    if (value > INT64_MAX - *sum) return false;
    *sum += value;
    return true;
}

/// Whether the values of all layers, where they are known, sum to at most a quarter of int64:
/// a rank's are then added without looking, and activations of the same size on top.
static bool has_safe_sum(const int64_t *values, int layer_count)
{
    int64_t sum = 0;
    for (int layer = 0; values != NULL && layer < layer_count; layer++) {
        if (values[layer] < 0 || !add_to(&sum, values[layer])) return false;
    }
    return sum <= INT64_MAX / 4;
}

/// Repeats the columns of times until there are as many as microbatches.
static status cycle_columns(replay *state, const int64_t *times, int layer_count, int columns,
                            const int64_t **out)
{
    const int wanted = state->training->microbatch_count;
    int64_t *cycled =
        arena_array(state->costs_memory, (size_t)layer_count * (size_t)wanted, sizeof *cycled);
    if (cycled == NULL) return no_memory(state);
    for (int layer = 0; layer < layer_count; layer++) {
        for (int microbatch = 0; microbatch < wanted; microbatch++) {
            cycled[(int64_t)layer * wanted + microbatch] =
                times[(int64_t)layer * columns + microbatch % columns];
        }
    }
    *out = cycled;
    return STATUS_OK;
}

/// Where a source has another number of microbatches than the replay, its costs are cycled through.
static status cycle_microbatches(replay *state, bal_layer_costs *layers)
{
    const int columns = layers->microbatch_count;
    const int count = layers->layer_count;
    if (columns == 1 || columns == state->training->microbatch_count) return STATUS_OK;
    TRY(cycle_columns(state, layers->forward_ns, count, columns, &layers->forward_ns));
    TRY(cycle_columns(state, layers->backward_input_ns, count, columns,
                      &layers->backward_input_ns));
    TRY(cycle_columns(state, layers->backward_weight_ns, count, columns,
                      &layers->backward_weight_ns));
    layers->microbatch_count = state->training->microbatch_count;
    return STATUS_OK;
}

/// Keeps a copy of values, NULL as zeros. True if they differ from the copy before.
static bool keep_copy(const int64_t *values, int count, int64_t *copy)
{
    bool has_changed = false;
    for (int index = 0; index < count; index++) {
        const int64_t value = values != NULL ? values[index] : 0;
        has_changed = has_changed || copy[index] != value;
        copy[index] = value;
    }
    return has_changed;
}

/// Whether a layer's bytes are others than before: only then can the peaks be.
static bool has_new_bytes(replay *state, const bal_layer_costs *layers)
{
    const int count = layers->layer_count;
    const bool states = keep_copy(layers->state_bytes, count, state->seen_bytes);
    const bool activations = keep_copy(layers->activation_bytes, count, state->seen_bytes + count);
    const bool gradients = keep_copy(layers->gradient_bytes, count, state->seen_bytes + 2 * count);
    return states || activations || gradients;
}

/// Fetches the costs of an iteration; *is_new: they differ from those at hand.
static status fetch_costs(replay *state, int iteration, bool *is_new)
{
    const sim_training *training = state->training;
    bal_layer_costs layers;
    TRY(training->source.costs_at(training->source.context, iteration, &layers, is_new,
                                  state->err));
    *is_new = *is_new || iteration == 0; // an earlier replay may have asked the same source last
    if (!*is_new) return STATUS_OK;
    if (state->family->has_split && !layers.has_split) {
        return error_set(state->err, STATUS_INVALID,
                         "schedule %s needs the backward split into B and W, and the costs hold "
                         "only full backwards; import them with --backward-split or choose gpipe, "
                         "1f1b or interleaved-1f1b",
                         training->schedule);
    }
    if (!has_safe_sum(layers.state_bytes, layers.layer_count)) {
        return too_large(state, "state_bytes of all layers");
    }
    if (!has_safe_sum(layers.parameters, layers.layer_count)) {
        return too_large(state, "parameters of all layers");
    }
    arena_reset(state->costs_memory);
    TRY(cycle_microbatches(state, &layers));
    state->layers = layers;
    if (has_new_bytes(state, &layers)) state->is_memory_noted = false;
    return STATUS_OK;
}

static bal_placed_partition placed(const replay *state, const int *first_layer)
{
    return (bal_placed_partition){
        .first_layer = first_layer,
        .rank_count = state->training->machine.rank_count,
        .chunk_count = state->chunk_count,
        .placement = state->family->placement,
    };
}

static status sum_stages(replay *state, const int *first_layer, arena *memory,
                         bal_stage_costs *stages)
{
    const bal_placed_partition plan = placed(state, first_layer);
    return bal_stage_costs_from_layers(&state->layers, &plan, &state->training->machine, NULL,
                                       memory, stages, state->err);
}

/// Builds and compiles the order of a plan, from the stage costs at hand.
static status compile(replay *state, const bal_stage_costs *stages, const int64_t *memory_limit,
                      arena *memory, bal_schedule *schedule, sim_order *order)
{
    const sim_training *training = state->training;
    const bal_schedule_request request = {
        .name = training->schedule,
        .rank_count = training->machine.rank_count,
        .microbatch_count = training->microbatch_count,
        .chunk_count = state->chunk_count,
        .costs = stages,
        .memory_limit = memory_limit,
    };
    TRY(bal_schedule_build(&request, memory, schedule, state->err));
    return sim_order_compile(schedule, memory, order, state->err);
}

/// Sum over the layers that a rank owns under a partition; 0 where values is NULL.
static int64_t rank_sum(const replay *state, const int *first_layer, int rank,
                        const int64_t *values)
{
    int64_t sum = 0;
    for (int chunk = 0; values != NULL && chunk < state->chunk_count; chunk++) {
        const int stage =
            bal_stage_of(state->family->placement, state->training->machine.rank_count,
                         state->chunk_count, rank, chunk);
        for (int layer = first_layer[stage]; layer < first_layer[stage + 1]; layer++) {
            sum += values[layer];
        }
    }
    return sum;
}

/// What a searched schedule may fill with activations: the rank's memory less its state.
static status activation_limits(const replay *state, const int *first_layer, arena *memory,
                                const int64_t **limits)
{
    const bal_machine *machine = &state->training->machine;
    *limits = NULL;
    if (machine->rank_memory_bytes == 0) return STATUS_OK;
    int64_t *room = arena_array(memory, (size_t)machine->rank_count, sizeof *room);
    if (room == NULL) return no_memory(state);
    for (int rank = 0; rank < machine->rank_count; rank++) {
        room[rank] = machine->rank_memory_bytes -
                     rank_sum(state, first_layer, rank, state->layers.state_bytes);
        if (room[rank] < 0) room[rank] = 0;
    }
    *limits = room;
    return STATUS_OK;
}

/// How long the replicas of the largest rank take to reduce its gradients.
static status find_reduction(const replay *state, const int *first_layer, int64_t *reduction_ns)
{
    const sim_training *training = state->training;
    const int replicas = training->data_parallel;
    *reduction_ns = 0;
    if (replicas <= 1 || state->layers.parameters == NULL) return STATUS_OK;
    int64_t largest = 0;
    for (int rank = 0; rank < training->machine.rank_count; rank++) {
        const int64_t parameters = rank_sum(state, first_layer, rank, state->layers.parameters);
        if (parameters > largest) largest = parameters;
    }
    // Each of the 2 (D - 1) steps of the ring moves one D-th of the bytes.
    const int64_t steps = 2 * (int64_t)(replicas - 1);
    if (largest > (INT64_MAX - replicas) / training->gradient_bytes) {
        return too_large(state, "bytes of the gradients of a rank");
    }
    const int64_t step_bytes = (largest * training->gradient_bytes + replicas - 1) / replicas;
    const int64_t step_ns = bal_link_transfer_ns(training->machine.inter_node, step_bytes);
    if (step_ns > INT64_MAX / 4 / steps) {
        return too_large(state, "ns of the reduction of gradients");
    }
    *reduction_ns = steps * step_ns;
    return STATUS_OK;
}

/// Takes the partition into force: order, and from now on the memory that it needs.
static status enact(replay *state)
{
    arena_reset(state->plan_memory);
    bal_stage_costs stages;
    const int64_t *limits = NULL;
    TRY(find_reduction(state, state->plan.first_layer, &state->plan.reduction_ns));
    TRY(sum_stages(state, state->plan.first_layer, state->plan_memory, &stages));
    TRY(activation_limits(state, state->plan.first_layer, state->plan_memory, &limits));
    TRY(compile(state, &stages, limits, state->plan_memory, &state->plan.schedule,
                &state->plan.order));
    TRY(sim_summary_init(&state->plan.order, state->plan_memory, &state->plan.summary, state->err));
    state->is_played = false;
    state->is_memory_noted = false;
    return STATUS_OK;
}

/// Compiles the order that a partition would have. Only a searched one depends on the partition.
static status order_under(replay *state, const int *first_layer, const bal_stage_costs *stages,
                          sim_order *order)
{
    if (!state->family->is_searched) {
        *order = state->plan.order;
        return STATUS_OK;
    }
    const int64_t *limits = NULL;
    bal_schedule *schedule = arena_array(state->trial_memory, 1, sizeof *schedule);
    if (schedule == NULL) return no_memory(state);
    TRY(activation_limits(state, first_layer, state->trial_memory, &limits));
    return compile(state, stages, limits, state->trial_memory, schedule, order);
}

/// Predicted length of an iteration under a partition: what `makespan` asks.
static status evaluate(void *context, const bal_layer_costs *layers,
                       const bal_placed_partition *plan, int64_t *iteration_ns, error_message *err)
{
    replay *state = context;
    assert(bal_placed_stage_count(plan) == state->stage_count && err == state->err);
    (void)err;
    bal_stage_costs stages;
    sim_order order;
    sim_summary summary;
    arena_reset(state->trial_memory);
    TRY(bal_stage_costs_from_layers(layers, plan, &state->training->machine, NULL,
                                    state->trial_memory, &stages, state->err));
    TRY(order_under(state, plan->first_layer, &stages, &order));
    TRY(sim_summary_init(&order, state->trial_memory, &summary, state->err));
    TRY(sim_costs_check(order.costs.schedule, &stages, state->err));
    sim_order_summarise(&order, &stages, NULL, &summary);
    *iteration_ns = state->training->post_validation ? summary.span_ns : summary.makespan_ns;
    return STATUS_OK;
}

/// @param current the partition that layers would move from, or NULL: there is none
static status decide(replay *state, const int *current, bal_answer *answer)
{
    const sim_training *training = state->training;
    const bal_evaluator evaluator = {.context = state, .iteration_ns = evaluate};
    const bal_problem problem = {
        .layers = state->layers,
        .stage_count = state->stage_count,
        .chunk_count = state->chunk_count,
        .placement = state->family->placement,
        .weight = training->weight,
        .objective = BAL_OBJECTIVE_BOTTLENECK,
        .microbatch_count = training->microbatch_count,
        .transfer_ns = state->transfer_ns,
        .stage_memory_bytes = state->stage_memory,
        .stage_inflight = state->stage_inflight,
        .current_first_layer = current,
        .current_owner = state->plan.owner,
        .evaluator = &evaluator,
    };
    arena_reset(state->decision_memory);
    TRY(bal_balance(training->balancer, &problem, state->decision_memory, answer, state->err));
    state->result->bottleneck_ns = answer->bottleneck_ns;
    state->result->bottleneck_lower_bound_ns = answer->bottleneck_lower_bound_ns;
    return STATUS_OK;
}

/// Time to move a layer's output to another rank, for weights that count it: the slowest link that
/// two neighbouring ranks of this machine use.
static void fill_transfers(replay *state)
{
    const bal_machine *machine = &state->training->machine;
    const bool crosses = machine->rank_count > machine->ranks_per_node;
    const bal_link link = crosses ? machine->inter_node : machine->intra_node;
    for (int layer = 0; layer < state->layers.layer_count; layer++) {
        const int64_t bytes =
            state->layers.message_bytes != NULL ? state->layers.message_bytes[layer] : 0;
        state->transfer_ns[layer] = bal_link_transfer_ns(link, bytes);
    }
}

static status take_start_plan(replay *state)
{
    sim_training_result *result = state->result;
    bal_answer answer;
    if (!state->family->is_searched) {
        // Fixed orders do not look at the partition: any will do to compile them for evaluate().
        for (int stage = 0; stage <= state->stage_count; stage++) {
            state->plan.first_layer[stage] =
                (int)((int64_t)stage * state->layers.layer_count / state->stage_count);
        }
        TRY(enact(state));
    }
    TRY(decide(state, NULL, &answer));
    result->executable = answer.executable;
    const size_t layer_count = (size_t)state->layers.layer_count;
    const size_t bounds = (size_t)state->stage_count + 1;
    if (!answer.executable) {
        state->plan.owner = arena_array(state->run_memory, layer_count, sizeof *state->plan.owner);
        if (state->plan.owner == NULL) return no_memory(state);
        memcpy(state->plan.owner, answer.owner, layer_count * sizeof *state->plan.owner);
        return STATUS_OK;
    }
    memcpy(state->plan.first_layer, answer.first_layer, bounds * sizeof *state->plan.first_layer);
    int *start = arena_array(state->run_memory, bounds, sizeof *start);
    if (start == NULL) return no_memory(state);
    memcpy(start, state->plan.first_layer, bounds * sizeof *start);
    result->start_first_layer = start;
    return enact(state);
}

/// The metrics of a balancer without stages: only the loads of the ranks are known.
static status measure_loads(replay *state)
{
    const int ranks = state->training->machine.rank_count;
    const bal_layer_costs *layers = &state->layers;
    int64_t *load = arena_array(state->costs_memory, (size_t)ranks, sizeof *load);
    if (load == NULL) return no_memory(state);
    bal_metrics metrics = {0};
    for (int layer = 0; layer < layers->layer_count; layer++) {
        int64_t *sum = &load[state->plan.owner[layer]];
        for (int column = 0; column < layers->microbatch_count; column++) {
            const int64_t at = (int64_t)layer * layers->microbatch_count + column;
            if (!add_to(sum, layers->forward_ns[at]) ||
                !add_to(sum, layers->backward_input_ns[at]) ||
                !add_to(sum, layers->backward_weight_ns[at])) {
                return too_large(state, "ns of a rank's layers");
            }
        }
    }
    metrics.imbalance_ratio = bal_imbalance_ratio(load, ranks);
    metrics.load_spread_ratio = bal_load_spread_ratio(load, ranks);
    for (int rank = 0; rank < ranks; rank++) {
        if (!add_to(&metrics.busy_ns, load[rank])) return too_large(state, "ns of all layers");
        if (load[rank] > metrics.work_max_ns) metrics.work_max_ns = load[rank];
    }
    state->metrics = metrics;
    return STATUS_OK;
}

/// Raises the peaks of the ranks to what this iteration needs.
static status note_memory(replay *state)
{
    if (state->is_memory_noted) return STATUS_OK;
    state->is_memory_noted = true;
    const int ranks = state->training->machine.rank_count;
    int64_t *peak = arena_array(state->costs_memory, (size_t)ranks, sizeof *peak);
    if (peak == NULL) return no_memory(state);
    bal_memory_peak(&state->plan.schedule, &state->stages, peak);
    for (int rank = 0; rank < ranks; rank++) {
        const int64_t bytes =
            peak[rank] + rank_sum(state, state->plan.first_layer, rank, state->layers.state_bytes);
        if (bytes > state->peak_memory[rank]) state->peak_memory[rank] = bytes;
    }
    return STATUS_OK;
}

/// Plays the iteration unless the same costs under the same plan were played before.
static status play(replay *state)
{
    if (state->is_played) return STATUS_OK;
    state->is_played = true;
    state->result->simulated_count++;
    if (state->plan.owner != NULL) return measure_loads(state);
    TRY(sum_stages(state, state->plan.first_layer, state->costs_memory, &state->stages));
    const sim_summary *summary = &state->plan.summary;
    TRY(sim_costs_check(&state->plan.schedule, &state->stages, state->err));
    sim_order_summarise(&state->plan.order, &state->stages, NULL, &state->plan.summary);
    state->metrics = bal_metrics_of_ranks(summary->first_begin_ns, summary->last_end_ns,
                                          summary->busy_ns, state->training->machine.rank_count);
    return note_memory(state);
}

static status play_timeline(replay *state)
{
    if (state->timeline.begin_ns == NULL) {
        TRY(sim_timeline_init(&state->plan.schedule, state->run_memory, &state->timeline,
                              state->err));
    }
    state->timeline.schedule = &state->plan.schedule;
    sim_order_play(&state->plan.order, &state->stages, NULL, &state->timeline);
    return STATUS_OK;
}

/// Layers that change their owner and their bytes. Owners are not executed, so no time is charged.
static bal_migration owner_moves(const replay *state, const int *owner)
{
    bal_migration migration = {0};
    for (int layer = 0; layer < state->layers.layer_count; layer++) {
        if (owner[layer] == state->plan.owner[layer]) continue;
        migration.layer_count++;
        if (state->layers.state_bytes != NULL) migration.bytes += state->layers.state_bytes[layer];
    }
    return migration;
}

static status migration_to(replay *state, const bal_answer *answer, bal_migration *migration)
{
    if (!answer->executable) {
        *migration = owner_moves(state, answer->owner);
        return STATUS_OK;
    }
    const bal_machine *machine = &state->training->machine;
    const bal_placed_partition before = placed(state, state->plan.first_layer);
    const bal_placed_partition after = placed(state, answer->first_layer);
    return bal_migration_between(&before, &after, &state->layers, machine, state->decision_memory,
                                 migration, state->err);
}

/// Asks the balancer with the profile of the iteration that has just ended, and charges the
/// decision and the migration to it.
static status rebalance(replay *state, bal_answer *answer, sim_training_iteration *record)
{
    sim_training_result *result = state->result;
    bal_migration migration = {0};
    TRY(decide(state, state->plan.owner != NULL ? NULL : state->plan.first_layer, answer));
    TRY(migration_to(state, answer, &migration));
    record->rebalanced = migration.layer_count > 0;
    record->moved_layer_count = migration.layer_count;
    record->moved_bytes = migration.bytes;
    record->migration_ns = migration.time_ns;
    if (!add_to(&record->iteration_ns, state->training->decision_ns) ||
        !add_to(&record->iteration_ns, migration.time_ns)) {
        return too_large(state, "ns of the migration");
    }
    result->decision_count++;
    result->decision_ns += state->training->decision_ns;
    return STATUS_OK;
}

/// Takes the answer into force: from the next iteration on.
static status adopt(replay *state, const bal_answer *answer)
{
    state->is_played = false;
    if (!answer->executable) {
        memcpy(state->plan.owner, answer->owner,
               (size_t)state->layers.layer_count * sizeof *state->plan.owner);
        return STATUS_OK;
    }
    memcpy(state->plan.first_layer, answer->first_layer,
           ((size_t)state->stage_count + 1) * sizeof *state->plan.first_layer);
    return enact(state);
}

static status add_up(replay *state, const sim_training_iteration *record)
{
    sim_training_result *result = state->result;
    const bal_metrics *metrics = &record->metrics;
    const int ranks = state->training->machine.rank_count;
    // The sums that total_ns bounds need no look of their own.
    if (!add_to(&result->total_ns, record->iteration_ns) ||
        metrics->makespan_ns > INT64_MAX / ranks ||
        !add_to(&state->sums.rank_time_ns, metrics->makespan_ns * ranks) ||
        !add_to(&state->sums.busy_ns, metrics->busy_ns) ||
        !add_to(&result->moved_bytes, record->moved_bytes)) {
        return too_large(state, "sums over the run");
    }
    result->pipeline_ns +=
        state->training->post_validation ? metrics->span_ns : metrics->makespan_ns;
    result->migration_ns += record->migration_ns;
    result->moved_layer_count += record->moved_layer_count;
    result->change_count += record->changed;
    result->rebalance_count += record->rebalanced;
    state->sums.imbalance_sum += metrics->imbalance_ratio;
    if (record->iteration == 0) result->first = *metrics;
    result->last = *metrics;
    return STATUS_OK;
}

static status play_iteration(replay *state, int iteration)
{
    const sim_training *training = state->training;
    bool is_new = false;
    state->iteration = iteration;
    if (iteration > 0) TRY(fetch_costs(state, iteration, &is_new));
    if (is_new) state->is_played = false;
    sim_training_iteration record = {.iteration = iteration};
    // The start's costs were seen by take_start_plan; only new ones can be a change.
    if (is_new || iteration == 0) {
        record.changed = bal_change_detector_observe(&state->detector, &state->layers);
    }
    TRY(play(state));
    record.metrics = state->metrics;
    record.iteration_ns = state->plan.reduction_ns + training->optimizer_step_ns;
    if (state->plan.owner == NULL) {
        record.first_layer = state->plan.first_layer;
        record.iteration_ns +=
            training->post_validation ? state->metrics.span_ns : state->metrics.makespan_ns;
        if (training->sink.wants_timeline != NULL &&
            training->sink.wants_timeline(training->sink.context, iteration)) {
            TRY(play_timeline(state));
            record.timeline = &state->timeline;
            record.costs = &state->stages;
        }
    }
    bal_answer answer;
    if (bal_policy_asks(training->policy, iteration, record.changed)) {
        TRY(rebalance(state, &answer, &record));
    }
    TRY(add_up(state, &record));
    if (training->sink.put != NULL) {
        TRY(training->sink.put(training->sink.context, &record, state->err));
    }
    return record.rebalanced ? adopt(state, &answer) : STATUS_OK;
}

static status check_setup(const sim_training *training, error_message *err)
{
    const int ranks = training->machine.rank_count;
    if (training->iteration_count < 1) {
        return error_set(err, STATUS_INVALID, "iteration_count %d is below 1",
                         training->iteration_count);
    }
    if (ranks < 1 || ranks > BAL_RANKS_MAX) {
        return error_set(err, STATUS_INVALID, "%d stages are outside [1, %d]", ranks,
                         BAL_RANKS_MAX);
    }
    if (bal_schedule_family_find(training->schedule) == NULL) {
        return error_set(err, STATUS_INVALID, "unknown schedule '%.40s'", training->schedule);
    }
    if (training->policy.kind == BAL_POLICY_THRESHOLD ||
        training->policy.kind == BAL_POLICY_SHADOW) {
        return error_set(err, STATUS_UNSUPPORTED, "a replay knows neither threshold:x nor shadow");
    }
    return STATUS_OK;
}

static status allocate(replay *state)
{
    const sim_training *training = state->training;
    const bal_machine *machine = &training->machine;
    const size_t layers = (size_t)training->source.layer_count;
    const size_t stages = (size_t)state->stage_count;
    state->costs_memory = arena_create(1 << 20);
    state->plan_memory = arena_create(1 << 20);
    state->decision_memory = arena_create(1 << 18);
    state->trial_memory = arena_create(1 << 18);
    if (state->costs_memory == NULL || state->plan_memory == NULL ||
        state->decision_memory == NULL || state->trial_memory == NULL) {
        return no_memory(state);
    }
    state->stage_inflight = arena_array(state->run_memory, stages, sizeof *state->stage_inflight);
    state->peak_memory =
        arena_array(state->run_memory, (size_t)machine->rank_count, sizeof *state->peak_memory);
    state->transfer_ns = arena_array(state->run_memory, layers, sizeof *state->transfer_ns);
    state->seen_bytes = arena_array(state->run_memory, 3 * layers, sizeof *state->seen_bytes);
    state->plan.first_layer =
        arena_array(state->run_memory, stages + 1, sizeof *state->plan.first_layer);
    if (state->stage_inflight == NULL || state->peak_memory == NULL || state->transfer_ns == NULL ||
        state->seen_bytes == NULL || state->plan.first_layer == NULL) {
        return no_memory(state);
    }
    // With several chunks per rank a cap per stage would not be a cap per rank; the peaks tell.
    if (machine->rank_memory_bytes > 0 && state->chunk_count == 1) {
        state->stage_memory = arena_array(state->run_memory, stages, sizeof *state->stage_memory);
        if (state->stage_memory == NULL) return no_memory(state);
        for (size_t stage = 0; stage < stages; stage++) {
            state->stage_memory[stage] = machine->rank_memory_bytes;
        }
    }
    return bal_change_detector_init(&state->detector, training->source.layer_count,
                                    training->change_ratio, state->run_memory, state->err);
}

static void finish(replay *state)
{
    sim_training_result *result = state->result;
    const bal_machine *machine = &state->training->machine;
    if (state->sums.busy_ns > 0) { // as of one iteration: 0 where nothing was computed
        result->bubble_ratio = 1.0 - (double)state->sums.busy_ns / (double)state->sums.rank_time_ns;
    }
    result->imbalance_ratio = state->sums.imbalance_sum / state->training->iteration_count;
    result->final_first_layer = result->executable ? state->plan.first_layer : NULL;
    result->stage_count = state->stage_count;
    result->peak_memory_bytes = state->peak_memory;
    result->is_memory_known =
        state->layers.state_bytes != NULL && state->layers.activation_bytes != NULL;
    result->fits = true;
    for (int rank = 0; rank < machine->rank_count && machine->rank_memory_bytes > 0; rank++) {
        if (state->peak_memory[rank] > machine->rank_memory_bytes) result->fits = false;
    }
}

static status run_all(replay *state)
{
    bool is_new = false;
    TRY(allocate(state));
    TRY(fetch_costs(state, 0, &is_new));
    TRY(bal_stage_inflight(state->training->schedule, state->training->machine.rank_count,
                           state->chunk_count, state->training->microbatch_count, state->run_memory,
                           state->stage_inflight, state->err));
    fill_transfers(state);
    TRY(take_start_plan(state));
    for (int iteration = 0; iteration < state->training->iteration_count; iteration++) {
        TRY(play_iteration(state, iteration));
    }
    finish(state);
    return STATUS_OK;
}

status sim_training_replay(const sim_training *training, arena *memory, sim_training_result *result,
                           error_message *err)
{
    TRY(check_setup(training, err));
    sim_training_result sums = {0};
    replay state = {
        .training = training,
        .family = bal_schedule_family_find(training->schedule),
        .run_memory = memory,
        .err = err,
        .result = &sums,
    };
    state.chunk_count = bal_schedule_chunk_count(state.family, training->chunk_count);
    state.stage_count = training->machine.rank_count * state.chunk_count;
    const status played = run_all(&state);
    arena_destroy(state.costs_memory);
    arena_destroy(state.plan_memory);
    arena_destroy(state.decision_memory);
    arena_destroy(state.trial_memory);
    if (played == STATUS_OK) *result = sums;
    return played;
}
