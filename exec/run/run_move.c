/// Taking a plan into force on a rank: layers go and come, ranks are released and taken back.
#include "exec/run/run_carry_out.h"

#include "exec/transport/activity.h"

/// Makes the layers of this rank's place that come from nowhere.
static status initialise(exec_run *run, error_message *err)
{
    const exec_run_plan *plan = exec_run_plan_in_force(run);
    if (!run->device->table->learns) return STATUS_OK;
    for (int index = 0; index < plan->layer_count; index++) {
        TRY(run->device->table->initialise(run->device, plan->layer[index], err));
    }
    return STATUS_OK;
}

/// Receives the layers of this rank's place that the leader has read.
static status load(exec_run *run, const exec_run_plan *plan, exec_migrated *migrated,
                   error_message *err)
{
    for (int index = 0; index < plan->layer_count; index++) {
        const int layer = plan->layer[index];
        TRY(exec_parcel_receive(run->endpoint, EXEC_LEADER, EXEC_MESSAGE_MIGRATE, layer,
                                &migrated->layers[layer], err));
    }
    return STATUS_OK;
}

/// Sends and receives the layers that change their rank.
static status migrate(exec_run *run, const exec_command *command, exec_migrated *migrated,
                      error_message *err)
{
    const int64_t legs = (int64_t)command->leg_count * (int64_t)sizeof(exec_migration_leg);
    const int64_t releases = (int64_t)run->ranks.rank_count * (int64_t)sizeof(int64_t);
    const exec_run_migration migration = {
        .legs = exec_parcel_take(&run->command, legs),
        .leg_count = command->leg_count,
        .release_ns = exec_parcel_take(&run->command, releases),
        .paces = command->paces,
        .time_scale_ppb = run->terms.time_scale_ppb,
    };
    return exec_run_migrate(&run->ranks, &migration, run->device, run->terms.layer_count,
                            run->scratch, migrated, err);
}

/// Wakes and releases ranks, when nobody is in the midst of a migration any more.
static status change_ranks(exec_run *run, const exec_run_plan *plan, error_message *err)
{
    const exec_transport *transport = run->endpoint->transport;
    TRY(exec_group_barrier(&run->ranks.world, err));
    exec_run_ranks_activate(&run->ranks, &plan->placed);
    return transport->regroup(run->endpoint, run->ranks.is_active, err);
}

static status move(exec_run *run, const exec_command *command, exec_migrated *migrated,
                   error_message *err)
{
    exec_run_plan *plan = &run->plans[1 - run->plan_index];
    TRY(exec_run_plan_take(plan, &run->command, run->ranks.machine_rank));
    TRY(migrate(run, command, migrated, err));
    if (command->origin == EXEC_ORIGIN_LEADER) TRY(load(run, plan, migrated, err));
    const exec_move_answer answer = {.free_ns = migrated->free_ns, .bytes = migrated->bytes};
    run->plan_index = 1 - run->plan_index;
    run->has_sends = false;
    if (command->changes_ranks) TRY(change_ranks(run, plan, err));
    TRY(run->device->table->hold(run->device, &plan->placed, plan->place,
                                 plan->schedule.microbatch_count, err));
    TRY(exec_migrated_unpack(migrated, run->device, err));
    if (command->origin == EXEC_ORIGIN_SEED) TRY(initialise(run, err));
    return exec_parcel_put(&run->answer, &answer, (int64_t)sizeof answer);
}

status exec_run_move(exec_run *run, const exec_command *command, error_message *err)
{
    exec_migrated migrated = {0};
    exec_activity_set_phase(&run->endpoint->activity, command->iteration, EXEC_PHASE_MIGRATION);
    const status moved = move(run, command, &migrated, err);
    exec_migrated_free(&migrated);
    return moved;
}
