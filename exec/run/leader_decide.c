/// What the leader does after an iteration: it asks the controller, or follows what it was told,
/// and has the layers moved.
#include "exec/run/run.h"

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

status exec_leader_decide(exec_leader *leader, bal_training_iteration *record, error_message *err)
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
