/// One iteration on a rank: the ops, then what a device that learns does with the gradients.
#include "exec/run/run_carry_out.h"

#include "exec/transport/activity.h"

static int64_t now_ns(const exec_run *run)
{
    return run->endpoint->transport->now_ns(run->endpoint);
}

/// Takes costs that are new, and what follows from them and from a new plan.
static status take_costs(exec_run *run, const exec_command *command, error_message *err)
{
    const exec_run_plan *plan = exec_run_plan_in_force(run);
    if (command->has_costs) {
        TRY(exec_parcel_share(&run->ranks.crew, &run->costs.parcel, err));
        run->costs.layers = exec_run_costs_of(&run->costs, run->ranks.replica);
        run->has_sends = false;
    }
    if (!run->device->table->is_modelled || run->has_sends) return STATUS_OK;
    run->has_sends = true;
    return exec_run_costs_fill_sends(&run->costs, &plan->placed, &run->terms.machine,
                                     run->terms.time_scale_ppb, err);
}

/// Agrees on the moment at which the iteration begins: when all are here, by the leader's clock.
static status find_begin(exec_run *run, int64_t *begin_ns, error_message *err)
{
    *begin_ns = 0;
    if (run->training->clock == EXEC_CLOCK_NOMINAL) return STATUS_OK;
    TRY(exec_group_barrier(&run->ranks.crew, err));
    *begin_ns = now_ns(run);
    return exec_group_broadcast(&run->ranks.crew, begin_ns, (int64_t)sizeof *begin_ns, err);
}

/// The rank of the world at each place of this replica. NULL if out of memory.
static const int *list_places(const exec_run *run, const exec_run_plan *plan)
{
    int *world_rank =
        arena_array(run->scratch, (size_t)plan->placed.rank_count, sizeof *world_rank);
    for (int place = 0; world_rank != NULL && place < plan->placed.rank_count; place++) {
        world_rank[place] =
            exec_run_world_rank(&run->ranks, run->ranks.replica, plan->placed.machine_rank[place]);
    }
    return world_rank;
}

/// How much longer messages from this rank to each place travel; NULL where no link is slow.
static void list_delays(const exec_run *run, const exec_run_plan *plan, const int64_t **out)
{
    const exec_training *training = run->training;
    const double scale =
        run->device->table->is_modelled ? (double)run->terms.time_scale_ppb / 1e9 : 1.0;
    *out = NULL;
    if (training->slow_link_count == 0) return;
    int64_t *delay_ns =
        arena_array(run->scratch, (size_t)plan->placed.rank_count, sizeof *delay_ns);
    for (int place = 0; place < plan->placed.rank_count; place++) {
        const int one = run->ranks.machine_rank;
        const int other = plan->placed.machine_rank[place];
        for (int link = 0; link < training->slow_link_count; link++) {
            const exec_slow_link *slow = &training->slow_links[link];
            if ((slow->rank == one && slow->other_rank == other) ||
                (slow->rank == other && slow->other_rank == one)) {
                delay_ns[place] += (int64_t)((double)slow->delay_ns * scale);
            }
        }
    }
    *out = delay_ns;
}

/// Plays the ops of this rank's place.
static status play(exec_run *run, const exec_iteration *iteration, int64_t begin_ns,
                   exec_rank_report *report, error_message *err)
{
    const exec_run_plan *plan = exec_run_plan_in_force(run);
    const size_t steps = (size_t)plan->program.step_count;
    exec_rank_times *times = &report->times;
    exec_rank_play ops = {
        .endpoint = run->endpoint,
        .device = run->device,
        .program = &plan->program,
        .world_rank = list_places(run, plan),
        .send_forward_ns = run->costs.send_forward_ns,
        .send_backward_ns = run->costs.send_backward_ns,
        .clock = run->training->clock,
        .iteration_begin_ns = begin_ns,
    };
    times->begin_ns = arena_array(run->scratch, steps, sizeof *times->begin_ns);
    times->end_ns = arena_array(run->scratch, steps, sizeof *times->end_ns);
    list_delays(run, plan, &ops.delay_ns);
    report->step_count = plan->program.step_count;
    return exec_rank_iterate(&ops, iteration, times, err);
}

/// Reduces the gradients and updates the layers. All ranks begin when the last has played its ops,
/// so that nobody's waiting for the pipeline counts.
static status learn(exec_run *run, int iteration, exec_rank_report *report, error_message *err)
{
    const exec_device_table *table = run->device->table;
    exec_activity *activity = &run->endpoint->activity;
    const bool has_place = exec_run_plan_in_force(run)->place >= 0;
    exec_activity_set_phase(activity, iteration, EXEC_PHASE_REDUCTION);
    TRY(exec_group_barrier(&run->ranks.crew, err));
    const int64_t begin_ns = table->now_ns(run->device);
    if (!has_place) return STATUS_OK;
    if (run->ranks.replica_count > 1) {
        exec_activity_set_phase(activity, iteration, EXEC_PHASE_REDUCTION);
        TRY(table->reduce(run->device, &run->ranks.replicas, err));
        report->reduced_ns = table->now_ns(run->device) - begin_ns;
    }
    exec_activity_set_phase(activity, iteration, EXEC_PHASE_UPDATE);
    TRY(table->step(run->device, &run->ranks.pipeline, &report->gradient_norm, err));
    TRY(table->adapt(run->device, iteration, &run->ranks.pipeline, &report->has_changed, err));
    report->stepped_ns = table->now_ns(run->device) - begin_ns;
    report->has_loss = table->loss(run->device, &report->loss);
    return STATUS_OK;
}

status exec_run_iterate(exec_run *run, const exec_command *command, error_message *err)
{
    const exec_device_table *table = run->device->table;
    const exec_run_plan *plan = exec_run_plan_in_force(run);
    const double *factor =
        exec_parcel_take(&run->command, (int64_t)run->ranks.rank_count * (int64_t)sizeof *factor);
    const exec_iteration iteration = {
        .iteration = command->iteration,
        .costs = table->is_modelled ? &run->costs.layers : NULL,
        .rank_time_factor = factor[run->ranks.machine_rank],
        .time_scale_ppb = run->terms.time_scale_ppb,
        .is_profiled = command->is_profiled,
    };
    exec_rank_report report = {0};
    int64_t begin_ns = 0;
    exec_activity_set_phase(&run->endpoint->activity, command->iteration, EXEC_PHASE_START);
    TRY(take_costs(run, command, err));
    TRY(find_begin(run, &begin_ns, err));
    if (plan->place >= 0) TRY(play(run, &iteration, begin_ns, &report, err));
    if (table->learns) {
        TRY(learn(run, command->iteration, &report, err));
        if (plan->place >= 0 && command->is_profiled) table->report(run->device, &report.layers);
    }
    exec_activity_set_phase(&run->endpoint->activity, command->iteration, EXEC_PHASE_REPORT);
    return exec_rank_report_put(&run->answer, &report);
}
