/// One iteration: the leader gives the costs out; every rank plays its ops, and a device that
/// learns its update; the leader makes of the reports what the iteration came to.
#include "exec/run/run.h"

#include "balance/metrics.h"
#include "exec/transport/transport.h"

#include <string.h>

/// A source travels as it is. Of its pointers only whether they are NULL means anything elsewhere;
/// what they point to follows.
static void put_source(exec_packet *packet, const bal_layer_costs *source)
{
    static const int64_t something; // that all of them point to, so that packets can be compared
    bal_layer_costs head;
    memset(&head, 0, sizeof head); // padding is compared, too
    head.layer_count = source->layer_count;
    head.microbatch_count = source->microbatch_count;
    head.has_split = source->has_split;
    head.embedding = source->embedding;
    head.head = source->head;
    head.first_stage_whole = source->first_stage_whole;
    for (int array = 0; array < BAL_COST_ARRAY_COUNT; array++) {
        if (source->arrays[array] != NULL) head.arrays[array] = &something;
    }
    exec_packet_put(packet, &head, sizeof head);
    for (int array = 0; array < BAL_COST_ARRAY_COUNT; array++) {
        if (source->arrays[array] == NULL) continue;
        exec_packet_put(packet, source->arrays[array],
                        (int64_t)bal_layer_costs_array_bytes(source, array));
    }
}

static bool is_same(const exec_packet *packet, const exec_packet *other)
{
    return packet->byte_count == other->byte_count &&
           memcmp(packet->bytes, other->bytes, (size_t)packet->byte_count) == 0;
}

/// Makes the leader's costs the ones to be told.
///
/// @return whether they are others than those that were told last
static bool put_costs(exec_run_costs *costs, const bal_layer_costs *sources, int source_count)
{
    exec_packet made = {0};
    exec_packet_put(&made, &source_count, sizeof source_count);
    for (int source = 0; source < source_count; source++) {
        put_source(&made, &sources[source]);
    }
    const bool is_other = !is_same(&made, &costs->packet);
    exec_packet_free(is_other ? &costs->packet : &made);
    if (is_other) costs->packet = made;
    return is_other;
}

static bal_layer_costs take_source(exec_packet *packet)
{
    bal_layer_costs layers = *(const bal_layer_costs *)exec_packet_take(packet, sizeof layers);
    for (int array = 0; array < BAL_COST_ARRAY_COUNT; array++) {
        if (layers.arrays[array] == NULL) continue;
        layers.arrays[array] =
            exec_packet_take(packet, (int64_t)bal_layer_costs_array_bytes(&layers, array));
    }
    return layers;
}

/// The costs of a replica, as they were told last: those of source replica % source_count. Its
/// arrays are in the packet.
static bal_layer_costs costs_of(exec_run_costs *costs, int replica)
{
    exec_packet *packet = &costs->packet;
    bal_layer_costs layers = {0};
    packet->taken_bytes = 0;
    const int *source_count = exec_packet_take(packet, sizeof *source_count);
    for (int source = 0; source <= replica % *source_count; source++) {
        layers = take_source(packet);
    }
    return layers;
}

/// Computes how long messages travel under a plan.
static status fill_sends(exec_run_costs *costs, const bal_placed_partition *plan,
                         const bal_machine *machine, error_message *err)
{
    if (costs->memory == NULL) costs->memory = arena_create(1 << 14);
    arena_reset(costs->memory);
    bal_stage_costs made;
    TRY(bal_stage_costs_from_layers(&costs->layers, plan, machine, NULL, costs->memory, &made,
                                    err));
    costs->send_forward_ns = made.send_forward_ns;
    costs->send_backward_ns = made.send_backward_ns;
    return STATUS_OK;
}

/// Takes costs that are new, and what follows from them and from a new plan.
static status take_costs(exec_run *run, const exec_command *command, error_message *err)
{
    const exec_run_plan *plan = exec_run_plan_in_force(run);
    if (command->has_costs) {
        TRY(exec_packet_share(&run->ranks.awake, &run->costs.packet, err));
        run->costs.layers = costs_of(&run->costs, run->ranks.replica);
        run->has_sends = false;
    }
    if (!run->device->table->is_modelled || run->has_sends) return STATUS_OK;
    run->has_sends = true;
    return fill_sends(&run->costs, &plan->placed, &run->terms.machine, err);
}

/// Agrees on the moment at which the iteration begins, by the clock of each: when all are here.
static status find_begin(exec_run *run, int iteration, int64_t *begin_ns, error_message *err)
{
    *begin_ns = 0;
    if (run->training->clock == EXEC_CLOCK_NOMINAL) return STATUS_OK;
    TRY(exec_run_compare_clocks(run, iteration, err));
    TRY(exec_group_barrier(&run->ranks.awake, err));
    *begin_ns = exec_endpoint_now_ns(run->endpoint);
    TRY(exec_group_broadcast(&run->ranks.awake, begin_ns, sizeof *begin_ns, err));
    *begin_ns += run->clock.offset_ns;
    return STATUS_OK;
}

/// The rank of the world at each place of this replica.
static const int *list_places(const exec_run *run, const exec_run_plan *plan)
{
    int *world_rank =
        arena_array(run->scratch, (size_t)plan->placed.rank_count, sizeof *world_rank);
    for (int place = 0; place < plan->placed.rank_count; place++) {
        world_rank[place] =
            exec_run_world_rank(&run->ranks, run->ranks.replica, plan->placed.machine_rank[place]);
    }
    return world_rank;
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
    report->step_count = plan->program.step_count;
    return exec_rank_iterate(&ops, iteration, times, err);
}

/// How ops hide the reduction of gradients. The first iteration of a plan reduces after them, which
/// tells how long that takes by itself, and so does the nominal clock, under which it is composed.
static bal_reduction_overlap overlap_of(const exec_run *run)
{
    const bool is_hidden = run->device->table->learns && run->is_reduction_timed &&
                           run->ranks.replica_count > 1 &&
                           run->training->clock != EXEC_CLOCK_NOMINAL;
    return is_hidden ? run->terms.reduction_overlap : BAL_REDUCTION_EXPOSED;
}

/// Ends what ops have begun to reduce, while other ranks may still play theirs.
static status end_reduction(exec_run *run, int64_t begin_ns, exec_rank_report *report,
                            error_message *err)
{
    if (exec_run_plan_in_force(run)->place < 0) return STATUS_OK;
    TRY(run->device->table->reduce(run->device, &run->ranks.replicas, err));
    report->reduced_end_ns = exec_endpoint_now_ns(run->endpoint) - begin_ns;
    return STATUS_OK;
}

/// Reduces the gradients, unless that is done, and updates the layers. All ranks begin when the
/// last has played its ops, so that nobody's waiting for the pipeline counts.
static status learn(exec_run *run, const exec_iteration *played, exec_rank_report *report,
                    error_message *err)
{
    const int iteration = played->iteration;
    const exec_device_table *table = run->device->table;
    exec_activity *activity = &run->endpoint->activity;
    const bool has_place = exec_run_plan_in_force(run)->place >= 0;
    exec_activity_set_phase(activity, iteration, EXEC_PHASE_REDUCTION);
    TRY(exec_group_barrier(&run->ranks.awake, err));
    const int64_t begin_ns = table->now_ns(run->device);
    const bool is_reduced = played->reduction_overlap != BAL_REDUCTION_EXPOSED;
    run->is_reduction_timed = true;
    if (!has_place) return STATUS_OK;
    if (run->ranks.replica_count > 1 && !is_reduced) {
        TRY(table->reduce(run->device, &run->ranks.replicas, err));
        run->reduced_ns = table->now_ns(run->device) - begin_ns;
    }
    report->reduced_ns = run->reduced_ns;
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
        exec_packet_take(&run->command, (int64_t)run->ranks.rank_count * (int64_t)sizeof *factor);
    const exec_iteration iteration = {
        .iteration = command->iteration,
        .costs = table->is_modelled ? &run->costs.layers : NULL,
        .rank_time_factor = factor[run->ranks.machine_rank],
        .replicas = &run->ranks.replicas,
        .reduction_overlap = overlap_of(run),
    };
    exec_rank_report report = {0};
    int64_t begin_ns = 0;
    exec_activity_set_phase(&run->endpoint->activity, command->iteration, EXEC_PHASE_START);
    TRY(take_costs(run, command, err));
    TRY(find_begin(run, command->iteration, &begin_ns, err));
    if (plan->place >= 0) TRY(play(run, &iteration, begin_ns, &report, err));
    if (table->learns) {
        if (iteration.reduction_overlap != BAL_REDUCTION_EXPOSED) {
            TRY(end_reduction(run, begin_ns, &report, err));
        }
        TRY(learn(run, &iteration, &report, err));
        if (plan->place >= 0) table->report(run->device, &report.layers);
    }
    exec_activity_set_phase(&run->endpoint->activity, command->iteration, EXEC_PHASE_REPORT);
    report.clock = run->clock;
    exec_rank_report_put(&run->answer, &report);
    return STATUS_OK;
}

/// Finds out what the iteration costs, as far as anybody knows before it has been played.
static status fetch(exec_leader *leader, int iteration, error_message *err)
{
    bal_training_speeds(&leader->training, iteration, leader->rank_time_factor);
    if (leader->learns) {
        // The first measured iteration is what later ones are compared with.
        leader->is_announced = leader->reports.has_changed;
        leader->is_changed = leader->is_announced;
        return STATUS_OK;
    }
    const bal_batch batch = {leader->microbatch_count, leader->microbatch_count};
    TRY(bal_training_costs_fetch(&leader->costs, iteration, batch, err));
    leader->is_announced = leader->costs.is_announced;
    leader->is_changed =
        leader->training.sources[0].announces_changes ? leader->is_announced : leader->costs.is_new;
    return STATUS_OK;
}

static status give_command(exec_leader *leader, int iteration, error_message *err)
{
    exec_run *run = &leader->run;
    const bool is_other = !leader->learns && put_costs(&run->costs, leader->costs.replicas,
                                                       leader->costs.replica_count);
    const exec_command command = {
        .kind = EXEC_COMMAND_ITERATE,
        .iteration = iteration,
        .has_costs = !leader->learns && (is_other || !leader->costs_told),
    };
    exec_run_begin_command(run, &command);
    exec_packet_put(&run->command, leader->rank_time_factor,
                    (int64_t)run->ranks.rank_count * (int64_t)sizeof *leader->rank_time_factor);
    TRY(exec_run_give_command(run, err));
    leader->costs_told = true;
    leader->iteration = iteration;
    return STATUS_OK;
}

/// What of the reduction was not hidden, on a device that learns: measured, or under the nominal
/// clock, where there is something to hide it, as the simulator has it.
static void time_reduction(const exec_leader *leader, bal_iteration_times *times)
{
    const exec_run_reports *reports = &leader->reports;
    const bool is_composed = leader->training.reduction_overlap != BAL_REDUCTION_EXPOSED &&
                             leader->execution->clock == EXEC_CLOCK_NOMINAL;
    if (is_composed) return;
    times->reduction_ns = reports->reduced_ns;
    if (reports->reduced_end_ns == 0) return;
    int64_t end_ns = 0;
    for (int place = 0; place < leader->played.plan->rank_count; place++) {
        if (times->rank_end_ns[place] > end_ns) end_ns = times->rank_end_ns[place];
    }
    times->reduction_ns = reports->reduced_end_ns > end_ns ? reports->reduced_end_ns - end_ns : 0;
}

/// What the parts of the iteration come to, from what ran when.
static status time_iteration(exec_leader *leader, error_message *err)
{
    const bal_training *training = &leader->training;
    const exec_run_plan *plan = exec_run_plan_in_force(&leader->run);
    const int replicas = training->data_parallel;
    bal_played_plan *played = &leader->played;
    bal_iteration_times *times = &leader->times;
    *played = (bal_played_plan){
        .plan = &plan->placed,
        .schedule = &plan->schedule,
        .last_backward = leader->last_backward,
        .replicas = leader->replicas,
        .replica_count = replicas,
        .rank_time_factor = leader->learns ? NULL : leader->rank_time_factor,
        .post_validation = training->post_validation,
        .reduction_overlap = training->reduction_overlap,
        .reduction_from = replicas,
        .reduction_to = replicas,
    };
    TRY(bal_iteration_begin(played, leader->iteration_memory, times, err));
    for (int replica = 0; replica < replicas; replica++) {
        TRY(bal_iteration_add_timeline(played, replica,
                                       &leader->reports.measured.timelines[replica],
                                       leader->iteration_memory, times, err));
    }
    bal_iteration_finish(played, leader->iteration_memory, times);
    if (leader->learns) time_reduction(leader, times);
    for (int rank = 0; rank < training->machine.rank_count; rank++) {
        const int place = exec_run_place_of(&plan->placed, rank);
        leader->rank_end_ns[rank] = place >= 0 ? times->rank_end_ns[place] : 0;
    }
    return STATUS_OK;
}

/// Raises the peaks of the ranks to what this iteration needs.
static status note_memory(exec_leader *leader, error_message *err)
{
    const exec_run_plan *plan = exec_run_plan_in_force(&leader->run);
    const bal_placed_partition *placed = &plan->placed;
    const int unlike =
        leader->learns ? leader->training.data_parallel : leader->training.source_count;
    int64_t *peak = arena_array(leader->iteration_memory, (size_t)placed->rank_count, sizeof *peak);
    for (int replica = 0; replica < unlike; replica++) {
        const bal_layer_costs *layers = &leader->replicas[replica];
        bal_stage_costs stages;
        TRY(bal_stage_costs_from_layers(layers, placed, &leader->training.machine, NULL,
                                        leader->iteration_memory, &stages, err));
        bal_memory_peak(&plan->schedule, &stages, peak);
        for (int place = 0; place < placed->rank_count; place++) {
            int64_t *noted = &leader->peak_memory[placed->machine_rank[place]];
            const int64_t bytes = peak[place] + bal_placed_sum(placed, place, layers->state_bytes);
            if (bytes > *noted) *noted = bytes;
        }
    }
    return STATUS_OK;
}

/// What the controller sees of the layers: of a device that learns what was measured last.
static status profile(exec_leader *leader, int iteration, error_message *err)
{
    if (!leader->learns) {
        return bal_training_costs_measure(&leader->costs,
                                          exec_run_plan_in_force(&leader->run)->rank_of_layer,
                                          &leader->profile, err);
    }
    const bool is_alone = leader->training.data_parallel == 1;
    const bal_replica_costs merged = {
        .iteration = iteration,
        .replicas = leader->replicas,
        .replica_count = leader->training.data_parallel,
        .column_count = is_alone ? leader->replicas[0].microbatch_count : 1,
    };
    arena_reset(leader->profile_memory);
    return bal_replica_costs_merge(&merged, leader->profile_memory, &leader->profile, err);
}

status exec_leader_iterate(exec_leader *leader, int iteration, error_message *err)
{
    exec_run *run = &leader->run;
    arena_reset(leader->iteration_memory);
    TRY(fetch(leader, iteration, err));
    TRY(give_command(leader, iteration, err));
    exec_activity_set_phase(&run->endpoint->activity, iteration, EXEC_PHASE_DECISION);
    exec_run_reports_read(&run->answers, &run->ranks, exec_run_plan_in_force(run),
                          run->terms.layer_count, leader->iteration_memory, &leader->reports);
    for (int replica = 0; replica < leader->training.data_parallel; replica++) {
        leader->replicas[replica] =
            leader->learns ? leader->reports.layers[replica] : costs_of(&run->costs, replica);
    }
    TRY(time_iteration(leader, err));
    TRY(note_memory(leader, err));
    return profile(leader, iteration, err);
}
