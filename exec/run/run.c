#include "exec/run/run.h"

#include "exec/run/run_carry_out.h"

#include <string.h>

status exec_run_open(exec_run *run, exec_endpoint *endpoint, const exec_training *training,
                     const exec_run_terms *terms, error_message *err)
{
    const int world = endpoint->rank_count;
    *run = (exec_run){
        .endpoint = endpoint,
        .training = training,
        .memory = arena_create(1 << 14),
        .scratch = arena_create(1 << 16),
    };
    run->order_count = arena_array(run->memory, (size_t)world, sizeof *run->order_count);
    // One replica of the whole world, until it is known how many there are.
    exec_activity_set_phase(&endpoint->activity, 0, EXEC_PHASE_START);
    TRY(exec_run_ranks_init(&run->ranks, endpoint, 1, world, run->memory, err));
    if (endpoint->rank == EXEC_LEADER) run->terms = *terms;
    TRY(exec_group_broadcast(&run->ranks.world, &run->terms, (int64_t)sizeof run->terms, err));
    TRY(exec_run_ranks_init(&run->ranks, endpoint, run->terms.replica_count,
                            run->terms.machine.rank_count, run->memory, err));
    return training->devices.create(training->devices.context, endpoint->rank, &run->device, err);
}

void exec_run_close(exec_run *run)
{
    if (run->device != NULL) run->device->table->destroy(run->device);
    exec_run_plan_free(&run->plans[0]);
    exec_run_plan_free(&run->plans[1]);
    exec_run_costs_free(&run->costs);
    exec_parcel_free(&run->command);
    exec_parcel_free(&run->answer);
    arena_destroy(run->memory);
    arena_destroy(run->scratch);
    *run = (exec_run){0};
}

const exec_run_plan *exec_run_plan_in_force(const exec_run *run)
{
    return &run->plans[run->plan_index];
}

status exec_run_begin_command(exec_run *run, const exec_command *command)
{
    exec_parcel_reset(&run->command);
    return exec_parcel_put(&run->command, command, (int64_t)sizeof *command);
}

/// Whether ranks that sleep must hear of a command, too.
static bool concerns_all(const exec_command *command)
{
    return command->kind == EXEC_COMMAND_END ||
           (command->kind == EXEC_COMMAND_MOVE && command->changes_ranks);
}

/// Does what run->command says, and gathers the answers at the leader.
static status carry_out(exec_run *run, bool *is_end, error_message *err)
{
    const exec_command command =
        *(const exec_command *)exec_parcel_take(&run->command, (int64_t)sizeof command);
    // Behind a change of ranks the group is another; all of the world are awake then.
    const exec_group *group = concerns_all(&command) ? &run->ranks.world : &run->ranks.crew;
    arena_reset(run->scratch);
    exec_parcel_reset(&run->answer);
    *is_end = command.kind == EXEC_COMMAND_END;
    switch (command.kind) {
    case EXEC_COMMAND_MOVE:
        TRY(exec_run_move(run, &command, err));
        break;
    case EXEC_COMMAND_ITERATE:
        TRY(exec_run_iterate(run, &command, err));
        break;
    case EXEC_COMMAND_DIFFUSE:
        TRY(exec_run_diffuse(run, &command, err));
        break;
    case EXEC_COMMAND_PACK:
        TRY(exec_run_pack(run, &command, err));
        break;
    case EXEC_COMMAND_END:
        return exec_group_barrier(group, err);
    }
    run->gathered = (exec_gathered){.group = group};
    run->gathered.sizes =
        arena_array(run->scratch, (size_t)group->rank_count, sizeof *run->gathered.sizes);
    return exec_group_gather(group, run->answer.bytes, run->answer.byte_count, run->scratch,
                             run->gathered.sizes, &run->gathered.bytes, err);
}

static bool sleeps(const exec_run_ranks *ranks, int rank)
{
    return rank != EXEC_LEADER && !ranks->is_active[rank];
}

/// Sends the command to those who sleep.
static status wake(exec_run *run, error_message *err)
{
    for (int rank = 0; rank < run->endpoint->rank_count; rank++) {
        if (!sleeps(&run->ranks, rank)) continue;
        TRY(exec_parcel_send(run->endpoint, rank, EXEC_MESSAGE_ORDER, run->order_count[rank]++,
                             &run->command, err));
    }
    return STATUS_OK;
}

status exec_run_give_command(exec_run *run, error_message *err)
{
    bool is_end = false;
    const exec_command *command = (const exec_command *)(const void *)run->command.bytes;
    if (concerns_all(command)) TRY(wake(run, err));
    TRY(exec_parcel_share(&run->ranks.crew, &run->command, err));
    return carry_out(run, &is_end, err);
}

status exec_run_follow(exec_run *run, error_message *err)
{
    const int self = run->endpoint->rank;
    bool is_end = false;
    while (!is_end) {
        if (exec_run_ranks_is_awake(&run->ranks)) {
            TRY(exec_parcel_share(&run->ranks.crew, &run->command, err));
        } else {
            exec_activity_set_phase(&run->endpoint->activity, 0, EXEC_PHASE_RELEASED);
            TRY(exec_parcel_receive(run->endpoint, EXEC_LEADER, EXEC_MESSAGE_ORDER,
                                    run->order_count[self]++, &run->command, err));
        }
        TRY(carry_out(run, &is_end, err));
    }
    return STATUS_OK;
}
