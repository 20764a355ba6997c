/// The rank that leads a run from its start to its end, and keeps the record.
#include "exec/run/run.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/// Moves to a plan, and fills what the record says of that.
///
/// @param moving      the layers as they are on their way
/// @param forecast_ns what it takes by the machine's links
static status move(exec_leader *leader, const bal_placed_partition *placed, int microbatch_count,
                   const bal_migration *migration, const bal_layer_costs *moving,
                   int64_t forecast_ns, bal_training_iteration *record, error_message *err)
{
    const exec_next_plan next = {
        .placed = *placed,
        .layers = &leader->profile,
        .migration = migration,
        .moving = moving,
        .microbatch_count = microbatch_count,
    };
    TRY(exec_leader_move(leader, &next, record->iteration, &leader->moved, err));
    record->rebalanced = migration->layer_count > 0;
    record->moved_layer_count = migration->layer_count;
    record->moved_bytes = migration->bytes;
    record->migration_ns = leader->is_nominal ? forecast_ns : leader->moved.elapsed_ns;
    leader->moved.forecast_ns = forecast_ns;
    return STATUS_OK;
}

/// Moves to a plan that no controller has compared with the one in force.
static status move_freely(exec_leader *leader, const bal_placed_partition *placed,
                          bal_training_iteration *record, error_message *err)
{
    const exec_run_plan *before = exec_run_plan_in_force(&leader->run);
    bal_migration migration;
    arena_reset(leader->next_memory);
    TRY(bal_migration_between(&before->placed, placed, &leader->profile, &leader->training.machine,
                              leader->next_memory, &migration, err));
    const bool repacks = placed->rank_count != before->placed.rank_count;
    if (migration.layer_count == 0 && !repacks) return STATUS_OK;
    record->action = repacks ? BAL_ACTION_REPACK : BAL_ACTION_REBALANCE;
    return move(leader, placed, leader->microbatch_count, &migration, &leader->profile,
                migration.time_ns, record, err);
}

/// Follows the plans that were given, instead of asking.
static status follow_forced(exec_leader *leader, bal_training_iteration *record, error_message *err)
{
    const exec_training *execution = leader->execution;
    for (int index = 0; index < execution->forced_count; index++) {
        const exec_forced_plan *forced = &execution->forced[index];
        if (forced->after_iteration != record->iteration) continue;
        return move_freely(leader, &forced->plan, record, err);
    }
    return STATUS_OK;
}

/// Starts the controller after the first warm iteration, with what has been measured of it.
static status start_late(exec_leader *leader, bal_training_iteration *record, error_message *err)
{
    TRY(bal_controller_start(leader->controller, &leader->profile, &leader->decision, err));
    leader->is_controlled = true;
    record->was_asked = true;
    record->reason = BAL_REASON_START;
    return move_freely(leader, &leader->decision.plan, record, err);
}

static status observe(exec_leader *leader, bal_training_iteration *record, error_message *err)
{
    const bal_layer_costs *next = NULL;
    const bal_batch batch = {leader->microbatch_count, leader->microbatch_count};
    if (!leader->learns) {
        TRY(bal_training_costs_look_ahead(&leader->costs, batch,
                                          exec_run_plan_in_force(&leader->run)->rank_of_layer,
                                          &leader->profile, &leader->ahead, &next, err));
    }
    const bal_profile profile = {
        .iteration = record->iteration,
        .layers = &leader->profile,
        .next = next,
        .changed = leader->is_changed,
        .rank_end_ns = leader->rank_end_ns,
        .makespan_ns = leader->times.makespan_ns,
    };
    bal_decision *decision = &leader->decision;
    TRY(bal_controller_observe(leader->controller, &profile, decision, err));
    record->changed = decision->changed;
    record->action = decision->action;
    record->reason = decision->reason;
    record->was_asked = decision->was_asked;
    if (decision->action == BAL_ACTION_KEEP) return STATUS_OK;
    arena_reset(leader->next_memory);
    return move(leader, &decision->plan, decision->microbatch_count, &decision->migration,
                next != NULL ? next : &leader->profile, decision->migration_ns, record, err);
}

/// Asks the controller after an iteration and has layers moved; fills what the record says of it.
static status decide(exec_leader *leader, bal_training_iteration *record, error_message *err)
{
    const int64_t begin_ns = exec_endpoint_now_ns(leader->run.endpoint);
    const bool keeps_start =
        leader->execution->plan != NULL && leader->training.policy.kind == BAL_POLICY_NEVER;
    if (leader->execution->forced_count > 0) {
        TRY(follow_forced(leader, record, err));
    } else if (leader->is_controlled) {
        TRY(observe(leader, record, err));
    } else if (record->iteration >= leader->execution->warmup_count && !keeps_start) {
        TRY(start_late(leader, record, err));
    }
    if (!record->was_asked) return STATUS_OK;
    const int64_t passed_ns = exec_endpoint_now_ns(leader->run.endpoint) - begin_ns;
    record->decision_ns =
        leader->is_nominal ? leader->training.decision_ns : passed_ns - leader->moved.elapsed_ns;
    return STATUS_OK;
}

/// The partition of a plan that came in a file.
static bal_placed_partition placed_of(const bal_plan *plan)
{
    return (bal_placed_partition){
        .first_layer = plan->first_layer,
        .rank_count = plan->rank_count,
        .chunk_count = plan->chunk_count,
        .placement = plan->placement,
        .machine_rank = plan->stage_ranks,
    };
}

/// Checks that a plan is of the layers and the machine of the run.
static status check_placed(const exec_leader *leader, const bal_placed_partition *placed,
                           const char *what, error_message *err)
{
    const bal_schedule_family *family = bal_schedule_family_find(leader->training.schedule);
    const int chunks = bal_schedule_chunk_count(family, leader->training.chunk_count);
    TRY(bal_placed_check(placed, leader->run.terms.layer_count, leader->training.machine.rank_count,
                         what, err));
    if (placed->chunk_count == chunks && placed->placement == family->placement) return STATUS_OK;
    if (placed->chunk_count == chunks) {
        return error_set(err, STATUS_INVALID, "%s places chunks %s, schedule %s %s", what,
                         bal_placement_name(placed->placement), family->name,
                         bal_placement_name(family->placement));
    }
    return error_set(err, STATUS_INVALID, "%s has %d chunks per rank, schedule %s %d", what,
                     placed->chunk_count, family->name, chunks);
}

static status check_plans(const exec_leader *leader, error_message *err)
{
    const exec_training *execution = leader->execution;
    const bal_plan *plan = execution->plan;
    const bal_training *training = &leader->training;
    for (int index = 0; index < execution->forced_count; index++) {
        TRY(check_placed(leader, &execution->forced[index].plan, "a forced plan", err));
    }
    if (plan == NULL) return STATUS_OK;
    const bal_placed_partition placed = placed_of(plan);
    TRY(check_placed(leader, &placed, "the plan", err));
    if (plan->microbatch_count != training->microbatch_count) {
        return error_set(err, STATUS_INVALID, "the plan has %d microbatches, the run %d",
                         plan->microbatch_count, training->microbatch_count);
    }
    if (strcmp(plan->schedule, training->schedule) == 0) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "the plan has schedule %s, the run %s", plan->schedule,
                     training->schedule);
}

/// Takes the description, with a source that is there where nothing but measuring tells costs, and
/// the mechanism what it changes.
static status take_description(exec_leader *leader, const exec_training *execution,
                               error_message *err)
{
    leader->training = *execution->training;
    if (leader->training.sources == NULL) {
        leader->stand_in =
            (bal_cost_source){.layer_count = execution->layer_count, .announces_changes = true};
        leader->training.sources = &leader->stand_in;
        leader->training.source_count = 1;
    }
    TRY(bal_training_check(&leader->training, err));
    leader->run.terms = (exec_run_terms){
        .machine = leader->training.machine,
        .replica_count = leader->training.data_parallel,
        .layer_count = leader->training.sources[0].layer_count,
        .reduction_overlap = leader->training.reduction_overlap,
    };
    if (leader->run.terms.layer_count < 1) {
        return error_set(err, STATUS_INVALID, "layer_count %d is below 1",
                         leader->run.terms.layer_count);
    }
    return check_plans(leader, err);
}

static void allocate(exec_leader *leader)
{
    const size_t ranks = (size_t)leader->training.machine.rank_count;
    const size_t replicas = (size_t)leader->training.data_parallel;
    arena *const memory = leader->memory;
    leader->iteration_memory = arena_create(1 << 16);
    leader->profile_memory = arena_create(1 << 16);
    leader->next_memory = arena_create(1 << 16);
    leader->rank_time_factor = arena_array(memory, ranks, sizeof *leader->rank_time_factor);
    leader->rank_end_ns = arena_array(memory, ranks, sizeof *leader->rank_end_ns);
    leader->peak_memory = arena_array(memory, ranks, sizeof *leader->peak_memory);
    leader->replicas = arena_array(memory, replicas, sizeof *leader->replicas);
}

static status leader_open(exec_leader *leader, exec_endpoint *endpoint,
                          const exec_training *execution, arena *memory, error_message *err)
{
    leader->execution = execution;
    leader->memory = memory;
    TRY(take_description(leader, execution, err));
    const exec_run_terms terms = leader->run.terms;
    TRY(exec_run_open(&leader->run, endpoint, execution, &terms, err));
    const exec_device_table *table = leader->run.device->table;
    leader->learns = table->learns;
    leader->is_nominal = table->is_modelled && execution->clock == EXEC_CLOCK_NOMINAL;
    leader->microbatch_count = leader->training.microbatch_count;
    assert(leader->learns == (leader->training.sources == &leader->stand_in));
    allocate(leader);
    bal_training_costs_init(&leader->costs, &leader->training, memory);
    if (execution->distributes_decisions) TRY(exec_leader_distribute(leader, err));
    return bal_training_controller(&leader->training, execution->evaluator, memory,
                                   &leader->controller, err);
}

static void leader_close(exec_leader *leader)
{
    arena_destroy(leader->iteration_memory);
    arena_destroy(leader->profile_memory);
    arena_destroy(leader->next_memory);
    exec_run_close(&leader->run);
}

/// What the optimizer step takes: measured where there is one.
static int64_t step_ns(const exec_leader *leader)
{
    if (!leader->learns) return leader->training.optimizer_step_ns;
    if (leader->reports.reduced_end_ns > 0) return leader->reports.stepped_ns;
    return leader->reports.stepped_ns - leader->reports.reduced_ns;
}

/// What the record says of an iteration before anything is decided.
static status describe(exec_leader *leader, bal_training_iteration *record, error_message *err)
{
    const bal_training *training = &leader->training;
    const bal_placed_partition *placed = leader->played.plan;
    const bal_gpu_layout layout = bal_training_gpu_layout(training);
    bal_gpu_account_of(&layout, placed->machine_rank, placed->rank_count, leader->iteration_memory,
                       &record->gpus);
    record->metrics = leader->times.metrics;
    record->rank_count = placed->rank_count;
    record->replica_count = training->data_parallel;
    record->microbatch_count = leader->played.schedule->microbatch_count;
    record->rank_work_ns = leader->times.rank_work_ns;
    record->pipeline_ns = leader->times.pipeline_ns;
    record->reduction_ns = leader->times.reduction_ns;
    record->first_layer = placed->first_layer;
    record->machine_rank = placed->machine_rank;
    record->changed = leader->is_changed;
    if (bal_training_is_profiled(training, record->iteration, leader->is_announced)) {
        record->profile_ns = training->profile_ns;
    }
    return bal_training_ledger_close(record, step_ns(leader), err);
}

/// Hands the record to the sink; with the timeline of the slowest replica, if it wants one.
static status put_record(exec_leader *leader, bal_training_iteration *record, error_message *err)
{
    const bal_record_sink *sink = &leader->training.sink;
    const int slowest = leader->times.slowest;
    if (sink->wants_timeline != NULL && sink->wants_timeline(sink->context, record->iteration)) {
        bal_stage_costs *stages = arena_array(leader->iteration_memory, 1, sizeof *stages);
        TRY(bal_stage_costs_from_layers(&leader->replicas[slowest], leader->played.plan,
                                        &leader->training.machine, leader->played.rank_time_factor,
                                        leader->iteration_memory, stages, err));
        record->timeline = &leader->reports.measured.timelines[slowest];
        record->costs = stages;
    }
    return sink->put != NULL ? sink->put(sink->context, record, err) : STATUS_OK;
}

static status put_measured(exec_leader *leader, const bal_training_iteration *record,
                           error_message *err)
{
    const exec_training_listener *listener = leader->execution->listener;
    exec_measured *measured = &leader->reports.measured;
    if (listener == NULL) return STATUS_OK;
    measured->record = record;
    measured->played = &leader->played;
    measured->migration_finish_ns = leader->moved.finish_ns;
    measured->migrated_bytes = leader->moved.bytes;
    measured->forecast_migration_ns = leader->moved.forecast_ns;
    measured->forecast_decision_ns = record->was_asked ? leader->training.decision_ns : 0;
    return listener->put(listener->context, measured, err);
}

/// Closes the record of an iteration and hands it to sink and listener.
static status put_iteration(exec_leader *leader, bal_training_iteration *record, error_message *err)
{
    TRY(bal_training_ledger_close(record, step_ns(leader), err));
    TRY(bal_training_ledger_add(&leader->ledger, record, &leader->times,
                                leader->training.data_parallel, err));
    leader->ledger.result.simulated_count++;
    TRY(put_record(leader, record, err));
    return put_measured(leader, record, err);
}

/// After the last iteration of a device that learns: one number for the packed state of all layers.
static status ask_hash(exec_leader *leader, int iteration, error_message *err)
{
    const exec_command command = {.kind = EXEC_COMMAND_HASH, .iteration = iteration};
    exec_run_begin_command(&leader->run, &command);
    TRY(exec_run_give_command(&leader->run, err));
    const uint64_t *state = exec_packet_take(&leader->run.answers, sizeof *state);
    leader->reports.measured.state_hash = *state;
    return STATUS_OK;
}

static status lead_iteration(exec_leader *leader, int iteration, error_message *err)
{
    bal_training_iteration record = {.iteration = iteration};
    leader->moved = (exec_move_times){0};
    TRY(exec_leader_iterate(leader, iteration, err));
    TRY(describe(leader, &record, err));
    TRY(decide(leader, &record, err));
    if (leader->learns && iteration + 1 == leader->training.iteration_count) {
        TRY(ask_hash(leader, iteration, err));
    }
    return put_iteration(leader, &record, err);
}

/// Copies an array into the caller's arena.
static const int *kept(exec_leader *leader, const int *array, int count)
{
    int *copy = arena_array(leader->memory, (size_t)count, sizeof *copy);
    memcpy(copy, array, (size_t)count * sizeof *copy);
    return copy;
}

static void finish(exec_leader *leader)
{
    bal_training_result *result = &leader->ledger.result;
    const bal_placed_partition *placed = &exec_run_plan_in_force(&leader->run)->placed;
    bal_training_ledger_finish(&leader->ledger, &leader->decision, &leader->training.machine,
                               &leader->profile, leader->peak_memory);
    result->final_first_layer =
        kept(leader, placed->first_layer, bal_placed_stage_count(placed) + 1);
    result->final_machine_rank = kept(leader, placed->machine_rank, placed->rank_count);
    result->final_rank_count = placed->rank_count;
}

/// Notes the plan of the start in the result.
static void note_start(exec_leader *leader)
{
    bal_training_result *result = &leader->ledger.result;
    const bal_placed_partition *placed = &exec_run_plan_in_force(&leader->run)->placed;
    result->executable = true;
    result->stage_count = leader->training.machine.rank_count * placed->chunk_count;
    result->start_first_layer =
        kept(leader, placed->first_layer, bal_placed_stage_count(placed) + 1);
}

/// Layers of which nothing is known: all take the same time.
static void equal_layers(const exec_leader *leader, arena *memory, bal_layer_costs *layers)
{
    const size_t count = (size_t)leader->run.terms.layer_count;
    int64_t *times = arena_array(memory, count, sizeof *times);
    for (size_t layer = 0; layer < count; layer++) {
        times[layer] = 1000;
    }
    *layers = (bal_layer_costs){
        .layer_count = (int)count,
        .microbatch_count = 1,
        .has_split = true,
        .embedding = true,
        .head = true,
        .forward_ns = times,
        .backward_input_ns = times,
        .backward_weight_ns = times,
    };
}

/// The partition that somebody would choose who knows nothing of the layers.
static status find_even(exec_leader *leader, const bal_layer_costs *layers,
                        bal_placed_partition *placed, error_message *err)
{
    bal_training plain = leader->training;
    bal_controller *controller = NULL;
    bal_decision decision;
    plain.balancer = bal_balancer_find("even");
    plain.policy = (bal_policy){.kind = BAL_POLICY_NEVER};
    plain.repack = bal_repack_options_default();
    plain.weight = BAL_WEIGHT_TIME;
    plain.machine.rank_memory_bytes = 0;
    TRY(bal_training_controller(&plain, NULL, leader->next_memory, &controller, err));
    TRY(bal_controller_start(controller, layers, &decision, err));
    *placed = decision.plan;
    placed->machine_rank = NULL; // in their order
    return STATUS_OK;
}

/// The plan of the start: what was given, or the balancer's, or where nothing is known the even
/// one.
static status choose_start(exec_leader *leader, exec_next_plan *next, error_message *err)
{
    const bal_plan *plan = leader->execution->plan;
    if (plan != NULL) {
        next->placed = placed_of(plan);
        next->order = plan->order;
        return STATUS_OK;
    }
    if (leader->learns) return find_even(leader, next->layers, &next->placed, err);
    TRY(bal_controller_start(leader->controller, next->layers, &leader->decision, err));
    leader->is_controlled = true;
    next->placed = leader->decision.plan;
    return STATUS_OK;
}

static status start(exec_leader *leader, error_message *err)
{
    const int microbatches = leader->microbatch_count;
    exec_next_plan next = {.microbatch_count = microbatches, .is_start = true};
    exec_move_times times;
    bal_layer_costs equal;
    next.layers = leader->learns ? &equal : &leader->profile;
    if (leader->learns) {
        equal_layers(leader, leader->next_memory, &equal);
    } else {
        TRY(bal_training_costs_fetch(&leader->costs, 0, (bal_batch){microbatches, microbatches},
                                     err));
        TRY(bal_training_costs_measure(&leader->costs, NULL, &leader->profile, err));
    }
    TRY(choose_start(leader, &next, err));
    return exec_leader_move(leader, &next, 0, &times, err);
}

static status lead(exec_leader *leader, error_message *err)
{
    const exec_command end = {.kind = EXEC_COMMAND_END};
    TRY(start(leader, err));
    note_start(leader);
    for (int iteration = 0; iteration < leader->training.iteration_count; iteration++) {
        TRY(lead_iteration(leader, iteration, err));
    }
    finish(leader);
    exec_run_begin_command(&leader->run, &end);
    return exec_run_give_command(&leader->run, err);
}

static status lead_run(exec_endpoint *endpoint, const exec_training *execution, arena *memory,
                       bal_training_result *result, error_message *err)
{
    exec_leader *leader = memory_array(1, sizeof *leader);
    status led = leader_open(leader, endpoint, execution, memory, err);
    if (led == STATUS_OK) led = lead(leader, err);
    if (led == STATUS_OK) *result = leader->ledger.result;
    if (led != STATUS_OK) exec_endpoint_abandon(endpoint);
    leader_close(leader);
    free(leader);
    return led;
}

/// What every rank but the leader does.
static status follow(exec_endpoint *endpoint, const exec_training *training, error_message *err)
{
    exec_run *run = memory_array(1, sizeof *run);
    status followed = exec_run_open(run, endpoint, training, NULL, err);
    if (followed == STATUS_OK) followed = exec_run_follow(run, err);
    if (followed != STATUS_OK) exec_endpoint_abandon(endpoint);
    exec_run_close(run);
    free(run);
    return followed;
}

status exec_training_rank(exec_endpoint *endpoint, const exec_training *training, arena *memory,
                          bal_training_result *result, error_message *err)
{
    if (endpoint->rank != EXEC_LEADER) return follow(endpoint, training, err);
    return lead_run(endpoint, training, memory, result, err);
}
