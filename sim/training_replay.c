#include "sim/training_replay.h"

#include "balance/run/training_costs.h"
#include "balance/run/training_ledger.h"
#include "balance/schedule/schedule.h"
#include "sim/training_plan.h"
#include "sim/training_play.h"

#include <stdbool.h>
#include <string.h>

/// What changes while a run is replayed.
typedef struct replay {
    const bal_training *training;
    sim_order_book *orders; // the caller's, or NULL
    arena *run_memory;      // of the result
    arena *scratch;         // of everything else
    arena *play_memory;     // of an iteration that is played
    arena *timeline_memory; // of its timeline
    error_message *err;
    bal_controller *controller;
    bal_decision decision; // the last

    bal_training_costs costs;
    sim_training_plan plan;
    sim_play play;
    bal_layer_costs profile; // of this iteration, as measured under the plan
    bal_layer_costs next;    // of the iteration that follows, for foresight
    bal_timeline timeline;   // of the slowest replica, when asked for
    int64_t *rank_end_ns;    // [machine.rank_count]
    int64_t *peak_memory;    // [machine.rank_count]
    bal_layer_costs *drawn;  // [data_parallel] costs of replicas that draw times of their own
    bool is_played;          // play and profile belong to costs and plan as they are

    bal_training_ledger ledger;
} replay;

/// Adds times to the load of a rank and to that of all. False if one is negative or the sum would
/// not fit int64.
static bool add_times(const int64_t *times, int count, int64_t *load, int64_t *total)
{
    for (int column = 0; column < count; column++) {
        if (times[column] < 0 || times[column] > INT64_MAX - *total) return false;
        *total += times[column];
        *load += times[column];
    }
    return true;
}

/// The metrics of a balancer without stages: only the loads of the ranks are known, as measured.
static status measure_loads(replay *state)
{
    const int ranks = state->training->machine.rank_count;
    const bal_layer_costs *layers = &state->profile;
    const int columns = layers->microbatch_count;
    int64_t *load = arena_array(state->play_memory, (size_t)ranks, sizeof *load);
    bal_metrics metrics = {0};
    for (int layer = 0; layer < layers->layer_count; layer++) {
        const int64_t row = (int64_t)layer * columns;
        int64_t *own = &load[state->plan.owner[layer]];
        for (int pass = 0; pass < BAL_COST_TIMES_COUNT; pass++) {
            if (add_times(layers->arrays[pass] + row, columns, own, &metrics.busy_ns)) continue;
            return error_set(state->err, STATUS_INVALID,
                             "iteration %d: the ns of all layers are negative or do not fit 64 "
                             "bits",
                             state->costs.iteration);
        }
    }
    metrics.imbalance_ratio = bal_imbalance_ratio(load, ranks);
    metrics.load_spread_ratio = bal_load_spread_ratio(load, ranks);
    for (int rank = 0; rank < ranks; rank++) {
        if (load[rank] > metrics.work_max_ns) metrics.work_max_ns = load[rank];
    }
    state->play = (sim_play){.times = {.metrics = metrics, .rank_work_ns = load}};
    return STATUS_OK;
}

/// Raises the peaks of the ranks to what this iteration needs.
static void note_memory(replay *state, sim_compiled_order *order)
{
    const bal_placed_partition *plan = &state->plan.placed;
    for (int replica = 0; replica < state->costs.replica_count; replica++) {
        const bal_layer_costs *layers = &state->costs.replicas[replica];
        const int64_t *peak = sim_compiled_order_peak(order, &state->play.stages[replica]);
        for (int place = 0; place < plan->rank_count; place++) {
            int64_t *noted = &state->peak_memory[plan->machine_rank[place]];
            const int64_t bytes = peak[place] + bal_placed_sum(plan, place, layers->state_bytes);
            if (bytes > *noted) *noted = bytes;
        }
    }
}

static bool is_drawn(const replay *state)
{
    return bal_disturbance_is_drawn_per_op(&state->training->disturbance);
}

/// How many replicas are played: those whose loads differ, or all where each has its own times.
static int played_count(const replay *state)
{
    return is_drawn(state) ? state->training->data_parallel : state->costs.replica_count;
}

/// The costs of the replicas that are played.
static const bal_layer_costs *played_replicas(replay *state)
{
    if (!is_drawn(state)) return state->costs.replicas;
    for (int replica = 0; replica < played_count(state); replica++) {
        state->drawn[replica] = state->costs.replicas[replica % state->costs.replica_count];
    }
    return state->drawn;
}

static status play_pipelines(replay *state)
{
    const bal_training *training = state->training;
    const bal_placed_partition *plan = &state->plan.placed;
    sim_compiled_order *order = NULL;
    TRY(sim_training_plan_order(&state->plan, &order, state->err));
    const sim_play_request request = {
        .played = {.plan = plan,
                   .replicas = played_replicas(state),
                   .replica_count = played_count(state),
                   .rank_time_factor = state->costs.rank_time_factor,
                   .post_validation = training->post_validation,
                   .reduction_overlap = training->reduction_overlap,
                   .reduction_from = training->data_parallel,
                   .reduction_to = state->plan.gpus.replica_count},
        .machine = &training->machine,
        .order = order,
        .round_count = training->round_count,
        .disturbance = &training->disturbance,
        .iteration = state->costs.iteration,
    };
    TRY(sim_play_replicas(&request, state->play_memory, &state->play, state->err));
    memset(state->rank_end_ns, 0,
           (size_t)training->machine.rank_count * sizeof *state->rank_end_ns);
    for (int place = 0; place < plan->rank_count; place++) {
        state->rank_end_ns[plan->machine_rank[place]] = state->play.times.rank_end_ns[place];
    }
    note_memory(state, order);
    return STATUS_OK;
}

/// Plays the iteration and measures its layers, unless the same costs under the same plan were
/// played before.
static status play(replay *state)
{
    const bool has_owners = state->plan.owner != NULL;
    const bool repeats = state->is_played;
    if (!repeats) {
        arena_reset(state->play_memory);
        state->ledger.result.simulated_count++;
        state->is_played = true;
        if (!has_owners) TRY(play_pipelines(state));
    }
    if (!repeats || bal_training_costs_borrow(&state->costs)) {
        TRY(bal_training_costs_measure(&state->costs, state->plan.rank_of_layer, &state->profile,
                                       state->err));
    }
    return has_owners && !repeats ? measure_loads(state) : STATUS_OK;
}

static void fill_played(const replay *state, bool is_announced, bal_training_iteration *record)
{
    const bal_training *training = state->training;
    const sim_training_plan *plan = &state->plan;
    record->metrics = state->play.times.metrics;
    record->rank_count =
        plan->owner != NULL ? training->machine.rank_count : plan->placed.rank_count;
    record->replica_count = plan->gpus.replica_count;
    record->microbatch_count = plan->batch.played_count;
    record->gpus = plan->gpus.account;
    record->rank_work_ns = state->play.times.rank_work_ns;
    if (plan->owner != NULL) return;
    record->pipeline_ns = state->play.times.pipeline_ns;
    record->reduction_ns = state->play.times.reduction_ns;
    record->round_count = training->round_count > 0 ? training->round_count : 1;
    record->first_layer = plan->first_layer;
    record->machine_rank = plan->machine_rank;
    if (bal_training_is_profiled(training, record->iteration, is_announced)) {
        record->profile_ns = training->profile_ns;
    }
}

/// Charges the state that further replicas of re-packed pipelines get.
static status charge_replicas(replay *state, bal_training_iteration *record)
{
    const int replicas = state->plan.gpus.replica_count;
    const bal_layer_costs *layers = &state->profile;
    const sim_gpu_use next = sim_training_plan_gpus(&state->plan, &state->decision);
    const int further = next.replica_count - replicas;
    if (further <= 0) return STATUS_OK;
    const int64_t ns = sim_replication_ns(&state->training->machine, layers, &state->decision.plan,
                                          replicas, further);
    int64_t bytes = 0; // their sum over the layers was checked when they were fetched
    for (int layer = 0; layers->state_bytes != NULL && layer < layers->layer_count; layer++) {
        bytes += layers->state_bytes[layer];
    }
    if (bytes > (INT64_MAX - record->moved_bytes) / further ||
        ns > INT64_MAX - record->migration_ns) {
        return error_set(state->err, STATUS_INVALID,
                         "iteration %d: the state of %d further replicas does not fit 64 bits",
                         record->iteration, further);
    }
    record->moved_bytes += bytes * further;
    record->migration_ns += ns;
    return STATUS_OK;
}

/// Shows the controller the iteration that has ended, and charges what it decides.
static status decide(replay *state, bool changed, bal_training_iteration *record)
{
    const bal_training *training = state->training;
    const bool has_owners = state->plan.owner != NULL;
    const bal_layer_costs *next = NULL;
    TRY(bal_training_costs_look_ahead(&state->costs, state->plan.batch, state->plan.rank_of_layer,
                                      &state->profile, &state->next, &next, state->err));
    const bal_profile profile = {
        .iteration = record->iteration,
        .layers = &state->profile,
        .next = next,
        .changed = changed,
        .rank_end_ns = has_owners ? NULL : state->rank_end_ns,
        .makespan_ns = has_owners ? 0 : state->play.times.makespan_ns,
    };
    bal_decision *decision = &state->decision;
    TRY(bal_controller_observe(state->controller, &profile, decision, state->err));
    record->changed = decision->changed;
    record->action = decision->action;
    record->reason = decision->reason;
    record->was_asked = decision->was_asked;
    record->rebalanced = decision->migration.layer_count > 0;
    record->moved_layer_count = decision->migration.layer_count;
    record->moved_bytes = decision->migration.bytes;
    record->migration_ns = decision->migration_ns;
    record->decision_ns = decision->was_asked ? training->decision_ns : 0;
    return decision->action == BAL_ACTION_REPACK ? charge_replicas(state, record) : STATUS_OK;
}

/// Hands the iteration to the sink; with a timeline, if it wants one.
static status put(replay *state, bal_training_iteration *record)
{
    const bal_record_sink *sink = &state->training->sink;
    if (state->plan.owner == NULL && state->plan.family->is_searched) {
        record->searched = &state->plan.searched->schedule;
    }
    if (state->plan.owner == NULL && sink->wants_timeline != NULL &&
        sink->wants_timeline(sink->context, record->iteration)) {
        const bal_stage_costs *stages = &state->play.stages[state->play.times.slowest];
        sim_compiled_order *order = NULL;
        TRY(sim_training_plan_order(&state->plan, &order, state->err));
        arena_reset(state->timeline_memory);
        TRY(sim_play_timeline(&state->play, state->play.times.slowest, order,
                              state->timeline_memory, &state->timeline, state->err));
        record->timeline = &state->timeline;
        record->costs = stages;
    }
    return sink->put != NULL ? sink->put(sink->context, record, state->err) : STATUS_OK;
}

/// Takes the decision's plan into force: from the next iteration on.
static status enact(replay *state, const bal_layer_costs *layers)
{
    state->is_played = false;
    return sim_training_plan_enact(&state->plan, &state->decision, layers, state->err);
}

static status play_iteration(replay *state, int iteration)
{
    const bal_training *training = state->training;
    const int64_t step_ns = state->plan.owner == NULL ? training->optimizer_step_ns : 0;
    bal_training_iteration record = {.iteration = iteration};
    TRY(bal_training_costs_fetch(&state->costs, iteration, state->plan.batch, state->err));
    const bool is_new = state->costs.is_new;
    const bool is_announced = state->costs.is_announced;
    if (is_new || is_drawn(state) ||
        bal_disturbance_changes_links(&training->disturbance, iteration)) {
        state->is_played = false;
    }
    TRY(play(state));
    fill_played(state, is_announced, &record);
    TRY(bal_training_ledger_close(&record, step_ns, state->err));
    const bool announces = training->sources[0].announces_changes;
    TRY(decide(state, announces ? is_announced : is_new, &record));
    TRY(bal_training_ledger_close(&record, step_ns, state->err));
    TRY(bal_training_ledger_add(&state->ledger, &record, &state->play.times, played_count(state),
                                state->err));
    TRY(put(state, &record));
    return record.action != BAL_ACTION_KEEP ? enact(state, &state->profile) : STATUS_OK;
}

static status prepare(replay *state)
{
    const bal_training *training = state->training;
    const size_t ranks = (size_t)training->machine.rank_count;
    state->play_memory = arena_within(state->scratch, 1 << 20);
    state->timeline_memory = arena_within(state->scratch, 1 << 16);
    state->rank_end_ns = arena_array(state->scratch, ranks, sizeof *state->rank_end_ns);
    state->peak_memory = arena_array(state->run_memory, ranks, sizeof *state->peak_memory);
    state->drawn =
        arena_array(state->scratch, (size_t)training->data_parallel, sizeof *state->drawn);
    bal_training_costs_init(&state->costs, training, state->scratch);
    sim_training_plan_init(&state->plan, training, state->orders, state->scratch);
    return bal_training_controller(training, &state->plan.evaluator, state->scratch,
                                   &state->controller, state->err);
}

/// Keeps numbers of a plan for the result.
static const int *keep(const replay *state, const int *numbers, int count)
{
    int *kept = arena_array(state->run_memory, (size_t)count, sizeof *kept);
    return memcpy(kept, numbers, (size_t)count * sizeof *kept);
}

/// Takes the plan of the start, by the costs of iteration 0.
static status start(replay *state)
{
    bal_training_result *result = &state->ledger.result;
    TRY(bal_training_costs_fetch(&state->costs, 0, state->plan.batch, state->err));
    TRY(bal_training_costs_measure(&state->costs, NULL, &state->profile, state->err));
    TRY(bal_controller_start(state->controller, &state->profile, &state->decision, state->err));
    TRY(enact(state, &state->profile));
    result->executable = state->plan.owner == NULL;
    result->stage_count =
        state->training->machine.rank_count *
        bal_schedule_chunk_count(state->plan.family, state->training->chunk_count);
    if (!result->executable) return STATUS_OK;
    result->start_first_layer =
        keep(state, state->plan.first_layer, bal_placed_stage_count(&state->plan.placed) + 1);
    return STATUS_OK;
}

static void finish(replay *state)
{
    bal_training_result *result = &state->ledger.result;
    bal_training_ledger_finish(&state->ledger, &state->decision, &state->training->machine,
                               &state->profile, state->peak_memory);
    if (!result->executable) return;
    const bal_placed_partition *placed = &state->plan.placed;
    result->final_first_layer =
        keep(state, placed->first_layer, bal_placed_stage_count(placed) + 1);
    result->final_machine_rank = keep(state, placed->machine_rank, placed->rank_count);
    result->final_rank_count = placed->rank_count;
}

static status run_all(replay *state)
{
    TRY(prepare(state));
    TRY(start(state));
    for (int iteration = 0; iteration < state->training->iteration_count; iteration++) {
        TRY(play_iteration(state, iteration));
    }
    finish(state);
    return STATUS_OK;
}

status sim_training_replay(const bal_training *training, sim_order_book *orders, arena *memory,
                           bal_training_result *result, error_message *err)
{
    TRY(bal_training_check(training, err));
    replay state = {.training = training,
                    .orders = orders,
                    .run_memory = memory,
                    .scratch = arena_create(1 << 16),
                    .err = err};
    const status played = run_all(&state);
    arena_destroy(state.scratch);
    if (played == STATUS_OK) *result = state.ledger.result;
    return played;
}
