#include "sim/training.h"

#include "balance/migration.h"
#include "balance/schedule.h"
#include "sim/costs.h"
#include "sim/pipeline.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/// What changes while a run is replayed. Arenas by lifetime: `run` until the end, `plan` until the
/// next rebalance, `costs` until the next iteration.
typedef struct replay {
    const sim_training *training;
    const bal_schedule_family *family;
    int chunk_count;
    int stage_count; // ranks x chunks
    arena *run;
    arena *plan;
    arena *costs;
    arena *decision;
    error_message *err;

    bal_change_detector detector;
    int64_t *stage_inflight; // [stage_count] microbatches whose activations a stage holds
    int64_t *stage_memory;   // [stage_count] caps, or NULL: not limited
    int64_t *peak_memory;    // [rank_count]
    int64_t *transfer_ns;    // [layer_count] over the slower of the links between neighbours
    int *first_layer;        // [stage_count + 1] in force
    int64_t reduction_ns;    // of the gradients under the plan in force
    int *owner;              // [layer_count] in force; NULL unless the balancer has owners

    bal_layer_costs layers; // of this iteration, columns as the schedule needs them
    bal_stage_costs stages; // of this iteration under the plan in force
    bal_schedule schedule;
    sim_order order;
    sim_summary summary;
    bal_timeline timeline; // storage for one timeline; begin_ns NULL until first asked for
    bal_metrics metrics;
    bool is_played; // metrics belong to layers and plan as they are

    int64_t busy_ns; // sums over the run
    int64_t rank_time_ns;
    double imbalance_sum;
    sim_training_result *result;
} replay;

static status no_memory(const replay *state)
{
    return error_set(state->err, STATUS_NO_MEMORY, "out of memory for %d layers on %d stages",
                     state->layers.layer_count, state->stage_count);
}

/// Repeats the columns of times until there are as many as microbatches.
static status cycle_columns(replay *state, const int64_t *times, int layer_count, int columns,
                            const int64_t **out)
{
    const int wanted = state->training->microbatch_count;
    int64_t *cycled =
        arena_array(state->costs, (size_t)layer_count * (size_t)wanted, sizeof *cycled);
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
    arena_reset(state->costs);
    const int columns = layers.microbatch_count;
    if (columns != 1 && columns != training->microbatch_count) {
        const int count = layers.layer_count;
        TRY(cycle_columns(state, layers.forward_ns, count, columns, &layers.forward_ns));
        TRY(cycle_columns(state, layers.backward_input_ns, count, columns,
                          &layers.backward_input_ns));
        TRY(cycle_columns(state, layers.backward_weight_ns, count, columns,
                          &layers.backward_weight_ns));
        layers.microbatch_count = training->microbatch_count;
    }
    state->layers = layers;
    return STATUS_OK;
}

static status sum_stages(replay *state, const int *first_layer, arena *memory,
                         bal_stage_costs *stages)
{
    return bal_stage_costs_from_layers(&state->layers, first_layer, state->chunk_count,
                                       state->family->placement, &state->training->machine, NULL,
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

/// Bytes of weights, gradients and optimizer that a rank holds under a partition.
static int64_t rank_state_bytes(const replay *state, const int *first_layer, int rank)
{
    int64_t bytes = 0;
    if (state->layers.state_bytes == NULL) return 0;
    for (int chunk = 0; chunk < state->chunk_count; chunk++) {
        const int stage =
            bal_stage_of(state->family->placement, state->training->machine.rank_count,
                         state->chunk_count, rank, chunk);
        for (int layer = first_layer[stage]; layer < first_layer[stage + 1]; layer++) {
            bytes += state->layers.state_bytes[layer];
        }
    }
    return bytes;
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
        room[rank] = machine->rank_memory_bytes - rank_state_bytes(state, first_layer, rank);
        if (room[rank] < 0) room[rank] = 0;
    }
    *limits = room;
    return STATUS_OK;
}

/// How long the replicas of the largest rank take to reduce its gradients.
static int64_t gradient_reduction_ns(const replay *state, const int *first_layer)
{
    const sim_training *training = state->training;
    const int replicas = training->data_parallel;
    if (replicas <= 1 || state->layers.parameters == NULL) return 0;
    int64_t largest = 0;
    for (int rank = 0; rank < training->machine.rank_count; rank++) {
        int64_t parameters = 0;
        for (int chunk = 0; chunk < state->chunk_count; chunk++) {
            const int stage = bal_stage_of(state->family->placement, training->machine.rank_count,
                                           state->chunk_count, rank, chunk);
            for (int layer = first_layer[stage]; layer < first_layer[stage + 1]; layer++) {
                parameters += state->layers.parameters[layer];
            }
        }
        if (parameters > largest) largest = parameters;
    }
    // Each of the 2 (D - 1) steps of the ring moves one D-th of the bytes.
    const int64_t step_bytes = (largest * training->gradient_bytes + replicas - 1) / replicas;
    const int64_t step_ns = bal_link_transfer_ns(training->machine.inter_node, step_bytes);
    return 2 * (int64_t)(replicas - 1) * step_ns;
}

/// Takes the partition into force: order, and from now on the memory that it needs.
static status enact(replay *state)
{
    arena_reset(state->plan);
    bal_stage_costs stages;
    const int64_t *limits = NULL;
    state->reduction_ns = gradient_reduction_ns(state, state->first_layer);
    TRY(sum_stages(state, state->first_layer, state->plan, &stages));
    TRY(activation_limits(state, state->first_layer, state->plan, &limits));
    TRY(compile(state, &stages, limits, state->plan, &state->schedule, &state->order));
    TRY(sim_summary_init(&state->order, state->plan, &state->summary, state->err));
    state->is_played = false;
    return STATUS_OK;
}

/// How many microbatches a stage holds at most: the memory peak with one unit per microbatch,
/// freed at W. Fixed orders do not depend on costs; a searched one is taken as zb-h2 would be,
/// the most that any of them holds.
static status fill_inflight(replay *state)
{
    const sim_training *training = state->training;
    const int ranks = training->machine.rank_count;
    const int stages = state->stage_count;
    int64_t *units = arena_array(state->run, (size_t)stages * 5, sizeof *units);
    int64_t *peak = arena_array(state->run, (size_t)ranks, sizeof *peak);
    if (units == NULL || peak == NULL) return no_memory(state);
    for (int stage = 0; stage < stages; stage++) {
        units[stage] = 1;               // F
        units[2 * stages + stage] = -1; // W; B changes nothing
        units[3 * stages + stage] = 1;  // any time will do
    }
    const bal_stage_costs unit_costs = {
        .stage_count = stages,
        .microbatch_count = 1,
        .forward_ns = units + 3 * stages,
        .backward_input_ns = units + 3 * stages,
        .backward_weight_ns = units + 3 * stages,
        .send_forward_ns = units + 4 * stages,
        .send_backward_ns = units + 4 * stages,
        .memory_forward = units,
        .memory_backward_input = units + stages,
        .memory_backward_weight = units + 2 * stages,
    };
    bal_schedule schedule;
    const bal_schedule_request request = {
        .name = state->family->is_searched ? "zb-h2" : training->schedule,
        .rank_count = ranks,
        .microbatch_count = training->microbatch_count,
        .chunk_count = state->chunk_count,
        .costs = &unit_costs,
    };
    TRY(bal_schedule_build(&request, state->run, &schedule, state->err));
    bal_memory_peak(&schedule, &unit_costs, peak);
    for (int stage = 0; stage < stages; stage++) {
        const int rank =
            bal_rank_of_stage(state->family->placement, ranks, state->chunk_count, stage, NULL);
        state->stage_inflight[stage] = peak[rank];
    }
    return STATUS_OK;
}

/// Predicted length of an iteration under a partition: what `makespan` asks.
static status evaluate(void *context, const int *first_layer, int stage_count,
                       int64_t *iteration_ns, error_message *err)
{
    replay *state = context;
    (void)err; // state->err is the same
    assert(stage_count == state->stage_count);
    (void)stage_count;
    arena *memory = arena_create(1 << 16);
    if (memory == NULL) return no_memory(state);
    bal_stage_costs stages;
    bal_schedule schedule;
    sim_order order;
    sim_summary summary;
    const int64_t *limits = NULL;
    status result = sum_stages(state, first_layer, memory, &stages);
    if (result == STATUS_OK && state->family->is_searched) {
        result = activation_limits(state, first_layer, memory, &limits);
        if (result == STATUS_OK) {
            result = compile(state, &stages, limits, memory, &schedule, &order);
        }
    } else {
        order = state->order; // the same for every partition
    }
    if (result == STATUS_OK) {
        result = sim_summary_init(&order, memory, &summary, state->err);
    }
    if (result == STATUS_OK) result = sim_costs_check(order.costs.schedule, &stages, state->err);
    if (result == STATUS_OK) {
        sim_order_summarise(&order, &stages, NULL, &summary);
        *iteration_ns = state->training->post_validation ? summary.span_ns : summary.makespan_ns;
    }
    arena_destroy(memory);
    return result;
}

static status decide(replay *state, bool is_start, bal_answer *answer)
{
    const sim_training *training = state->training;
    const bal_evaluator evaluator = {.context = state, .iteration_ns = evaluate};
    const bal_problem problem = {
        .layers = state->layers,
        .stage_count = state->stage_count,
        .weight = training->weight,
        .objective = BAL_OBJECTIVE_BOTTLENECK,
        .microbatch_count = training->microbatch_count,
        .transfer_ns = state->transfer_ns,
        .stage_memory_bytes = state->stage_memory,
        .stage_inflight = state->stage_inflight,
        .current_first_layer = is_start || state->owner != NULL ? NULL : state->first_layer,
        .current_owner = state->owner,
        .evaluator = &evaluator,
    };
    arena_reset(state->decision);
    TRY(bal_balance(training->balancer, &problem, state->decision, answer, state->err));
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
            state->first_layer[stage] =
                (int)((int64_t)stage * state->layers.layer_count / state->stage_count);
        }
        TRY(enact(state));
    }
    TRY(decide(state, true, &answer));
    result->executable = answer.executable;
    const size_t layer_count = (size_t)state->layers.layer_count;
    const size_t bounds = (size_t)state->stage_count + 1;
    if (!answer.executable) {
        state->owner = arena_array(state->run, layer_count, sizeof *state->owner);
        if (state->owner == NULL) return no_memory(state);
        memcpy(state->owner, answer.owner, layer_count * sizeof *state->owner);
        return STATUS_OK;
    }
    memcpy(state->first_layer, answer.first_layer, bounds * sizeof *state->first_layer);
    int *start = arena_array(state->run, bounds, sizeof *start);
    if (start == NULL) return no_memory(state);
    memcpy(start, state->first_layer, bounds * sizeof *start);
    result->start_first_layer = start;
    return enact(state);
}

/// The metrics of a balancer without stages: only the loads of the ranks are known.
static bal_metrics load_metrics(replay *state)
{
    const int ranks = state->training->machine.rank_count;
    const bal_layer_costs *layers = &state->layers;
    int64_t *load = arena_array(state->costs, (size_t)ranks, sizeof *load);
    bal_metrics metrics = {.imbalance_ratio = 1};
    if (load == NULL) return metrics;
    for (int layer = 0; layer < layers->layer_count; layer++) {
        for (int column = 0; column < layers->microbatch_count; column++) {
            const int64_t at = (int64_t)layer * layers->microbatch_count + column;
            load[state->owner[layer]] += layers->forward_ns[at] + layers->backward_input_ns[at] +
                                         layers->backward_weight_ns[at];
        }
    }
    metrics.imbalance_ratio = bal_imbalance_ratio(load, ranks);
    metrics.load_spread_ratio = bal_load_spread_ratio(load, ranks);
    for (int rank = 0; rank < ranks; rank++) {
        metrics.busy_ns += load[rank];
        if (load[rank] > metrics.work_max_ns) metrics.work_max_ns = load[rank];
    }
    return metrics;
}

static void note_memory(replay *state)
{
    const int ranks = state->training->machine.rank_count;
    int64_t *peak = arena_array(state->costs, (size_t)ranks, sizeof *peak);
    if (peak == NULL) return;
    bal_memory_peak(&state->schedule, &state->stages, peak);
    for (int rank = 0; rank < ranks; rank++) {
        const int64_t bytes = peak[rank] + rank_state_bytes(state, state->first_layer, rank);
        if (bytes > state->peak_memory[rank]) state->peak_memory[rank] = bytes;
    }
}

/// Plays the iteration unless the same costs under the same plan were played before.
static status play(replay *state)
{
    if (state->is_played) return STATUS_OK;
    state->is_played = true;
    state->result->simulated_count++;
    if (state->owner != NULL) {
        state->metrics = load_metrics(state);
        return STATUS_OK;
    }
    TRY(sum_stages(state, state->first_layer, state->costs, &state->stages));
    const sim_summary *summary = &state->summary;
    TRY(sim_costs_check(&state->schedule, &state->stages, state->err));
    sim_order_summarise(&state->order, &state->stages, NULL, &state->summary);
    state->metrics = bal_metrics_of_ranks(summary->first_begin_ns, summary->last_end_ns,
                                          summary->busy_ns, state->training->machine.rank_count);
    note_memory(state);
    return STATUS_OK;
}

static status play_timeline(replay *state)
{
    if (state->timeline.begin_ns == NULL) {
        TRY(sim_timeline_init(&state->schedule, state->run, &state->timeline, state->err));
    }
    state->timeline.schedule = &state->schedule;
    sim_order_play(&state->order, &state->stages, NULL, &state->timeline);
    return STATUS_OK;
}

/// Layers that change their owner and their bytes. Owners are not executed, so no time is charged.
static bal_migration owner_moves(const replay *state, const int *owner)
{
    bal_migration migration = {0};
    for (int layer = 0; layer < state->layers.layer_count; layer++) {
        if (owner[layer] == state->owner[layer]) continue;
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
    const bal_placed_partition before = {
        .first_layer = state->first_layer,
        .rank_count = machine->rank_count,
        .chunk_count = state->chunk_count,
        .placement = state->family->placement,
    };
    bal_placed_partition after = before;
    after.first_layer = answer->first_layer;
    return bal_migration_between(&before, &after, &state->layers, machine, state->decision,
                                 migration, state->err);
}

/// Asks the balancer with the profile of the iteration that has just ended, and charges the
/// decision and the migration to it.
static status rebalance(replay *state, bal_answer *answer, sim_training_iteration *record)
{
    sim_training_result *result = state->result;
    bal_migration migration = {0};
    TRY(decide(state, false, answer));
    TRY(migration_to(state, answer, &migration));
    record->rebalanced = migration.layer_count > 0;
    record->moved_layer_count = migration.layer_count;
    record->moved_bytes = migration.bytes;
    record->migration_ns = migration.time_ns;
    record->iteration_ns += state->training->decision_ns + migration.time_ns;
    result->decision_count++;
    result->decision_ns += state->training->decision_ns;
    result->rebalance_count += record->rebalanced;
    result->moved_layer_count += migration.layer_count;
    result->moved_bytes += migration.bytes;
    result->migration_ns += migration.time_ns;
    return STATUS_OK;
}

/// Takes the answer into force: from the next iteration on.
static status adopt(replay *state, const bal_answer *answer)
{
    state->is_played = false;
    if (!answer->executable) {
        memcpy(state->owner, answer->owner,
               (size_t)state->layers.layer_count * sizeof *state->owner);
        return STATUS_OK;
    }
    memcpy(state->first_layer, answer->first_layer,
           ((size_t)state->stage_count + 1) * sizeof *state->first_layer);
    return enact(state);
}

static void add_up(replay *state, const sim_training_iteration *record)
{
    sim_training_result *result = state->result;
    const bal_metrics *metrics = &record->metrics;
    result->total_ns += record->iteration_ns;
    result->pipeline_ns +=
        state->training->post_validation ? metrics->span_ns : metrics->makespan_ns;
    result->change_count += record->changed;
    state->busy_ns += metrics->busy_ns;
    state->rank_time_ns += metrics->makespan_ns * state->training->machine.rank_count;
    state->imbalance_sum += metrics->imbalance_ratio;
    if (record->iteration == 0) result->first = *metrics;
    result->last = *metrics;
}

static status play_iteration(replay *state, int iteration)
{
    const sim_training *training = state->training;
    bool is_new = false;
    if (iteration > 0) TRY(fetch_costs(state, iteration, &is_new));
    if (is_new) state->is_played = false;
    sim_training_iteration record = {.iteration = iteration};
    // The start's costs were seen by take_start_plan; only new ones can be a change.
    if (is_new || iteration == 0) {
        record.changed = bal_change_detector_observe(&state->detector, &state->layers);
    }
    TRY(play(state));
    record.metrics = state->metrics;
    record.iteration_ns = state->reduction_ns + training->optimizer_step_ns;
    if (state->owner == NULL) {
        record.first_layer = state->first_layer;
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
    if (bal_policy_acts(training->policy, iteration, record.changed)) {
        TRY(rebalance(state, &answer, &record));
    }
    add_up(state, &record);
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
    return STATUS_OK;
}

static status allocate(replay *state)
{
    const sim_training *training = state->training;
    const bal_machine *machine = &training->machine;
    const size_t layers = (size_t)training->source.layer_count;
    const size_t stages = (size_t)state->stage_count;
    state->costs = arena_create(1 << 20);
    state->plan = arena_create(1 << 20);
    state->decision = arena_create(1 << 18);
    if (state->costs == NULL || state->plan == NULL || state->decision == NULL) {
        return no_memory(state);
    }
    state->stage_inflight = arena_array(state->run, stages, sizeof *state->stage_inflight);
    state->peak_memory =
        arena_array(state->run, (size_t)machine->rank_count, sizeof *state->peak_memory);
    state->transfer_ns = arena_array(state->run, layers, sizeof *state->transfer_ns);
    state->first_layer = arena_array(state->run, stages + 1, sizeof *state->first_layer);
    if (state->stage_inflight == NULL || state->peak_memory == NULL || state->transfer_ns == NULL ||
        state->first_layer == NULL) {
        return no_memory(state);
    }
    // With several chunks per rank a cap per stage would not be a cap per rank; the peaks tell.
    if (machine->rank_memory_bytes > 0 && state->chunk_count == 1) {
        state->stage_memory = arena_array(state->run, stages, sizeof *state->stage_memory);
        if (state->stage_memory == NULL) return no_memory(state);
        for (size_t stage = 0; stage < stages; stage++) {
            state->stage_memory[stage] = machine->rank_memory_bytes;
        }
    }
    return bal_change_detector_init(&state->detector, training->source.layer_count,
                                    training->change_ratio, state->run, state->err);
}

static void finish(replay *state)
{
    sim_training_result *result = state->result;
    const bal_machine *machine = &state->training->machine;
    if (state->rank_time_ns > 0) {
        result->bubble_ratio = 1.0 - (double)state->busy_ns / (double)state->rank_time_ns;
    }
    result->imbalance_ratio = state->imbalance_sum / state->training->iteration_count;
    result->final_first_layer = result->executable ? state->first_layer : NULL;
    result->stage_count = state->stage_count;
    result->peak_memory_bytes = state->peak_memory;
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
    TRY(fill_inflight(state));
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
        .run = memory,
        .err = err,
        .result = &sums,
    };
    state.chunk_count = bal_schedule_chunk_count(state.family, training->chunk_count);
    state.stage_count = training->machine.rank_count * state.chunk_count;
    const status played = run_all(&state);
    arena_destroy(state.costs);
    arena_destroy(state.plan);
    arena_destroy(state.decision);
    if (played == STATUS_OK) *result = sums;
    return played;
}
