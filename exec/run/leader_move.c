/// How a plan comes into force: the order of its ops, the layers' ways, and what that took.
#include "exec/run/leader.h"

#include "balance/run/iteration_times.h"
#include "balance/run/training.h"
#include "exec/mechanism/weight_order.h"

#include <string.h>

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

/// Finds the order of a plan and proves, before anybody waits for anybody, that it can be played.
static status find_order(exec_leader *leader, const exec_next_plan *next,
                         const bal_placed_partition *placed, bal_schedule *order,
                         error_message *err)
{
    bal_layer_costs layers;
    if (next->order != NULL) {
        *order = *next->order;
    } else {
        if (next->layers != NULL) {
            layers = *next->layers;
        } else {
            equal_layers(leader, leader->next_memory, &layers);
        }
        TRY(bal_training_order(&leader->training, placed, &layers, next->microbatch_count,
                               leader->next_memory, order, err));
    }
    TRY(bal_schedule_check(order, NULL, err));
    return leader->learns ? exec_weight_order_check(order, err) : STATUS_OK;
}

/// Names the ranks of all places.
static void name_ranks(exec_leader *leader, bal_placed_partition *placed)
{
    if (placed->machine_rank != NULL) return;
    int *ranks = arena_array(leader->next_memory, (size_t)placed->rank_count, sizeof *ranks);
    for (int place = 0; place < placed->rank_count; place++) {
        ranks[place] = place;
    }
    placed->machine_rank = ranks;
}

/// Orders the transfers of a migration.
static status find_legs(exec_leader *leader, const exec_next_plan *next, exec_migration_leg **legs,
                        int *leg_count, error_message *err)
{
    const bal_layer_costs *layers = next->moving;
    const bal_machine *machine = &leader->training.machine;
    const bal_placed_partition *before = &exec_run_plan_in_force(&leader->run)->placed;
    const bool is_modelled = leader->run.device->table->is_modelled;
    bal_migration_steps steps;
    *leg_count = 0;
    *legs = NULL;
    if (next->migration == NULL || next->migration->layer_count == 0) return STATUS_OK;
    TRY(bal_migration_order(before, next->migration, layers, machine, NULL, leader->next_memory,
                            &steps, err));
    exec_migration_leg *made =
        arena_array(leader->next_memory, (size_t)steps.step_count, sizeof *made);
    for (int index = 0; index < steps.step_count; index++) {
        const bal_migration_step *step = &steps.step[index];
        const int64_t bytes = layers->state_bytes != NULL ? layers->state_bytes[step->layer] : 0;
        const bal_link link = bal_machine_link(machine, step->from, step->to);
        made[index] = (exec_migration_leg){
            .layer = step->layer,
            .from = step->from,
            .to = step->to,
            .transfer_ns = is_modelled ? bal_link_transfer_ns(link, bytes) : 0,
        };
    }
    *legs = made;
    *leg_count = steps.step_count;
    return STATUS_OK;
}

/// When each rank takes part at the earliest, by its clock: only where transfers overlap the
/// backward sweep, and only where clocks are nominal. Really they begin behind the decision.
static status put_releases(exec_leader *leader)
{
    const size_t ranks = (size_t)leader->training.machine.rank_count;
    int64_t *release_ns = arena_array(leader->next_memory, ranks, sizeof *release_ns);
    if (leader->is_nominal && leader->training.migration.overlaps) {
        memcpy(release_ns, leader->rank_end_ns, ranks * sizeof *release_ns);
    }
    return exec_parcel_put(&leader->run.command, release_ns, (int64_t)(ranks * sizeof *release_ns));
}

/// What follows from the plan that has come into force.
static void take_plan(exec_leader *leader)
{
    const exec_run_plan *plan = exec_run_plan_in_force(&leader->run);
    arena *memory = leader->plan_memory[leader->run.plan_index];
    arena_reset(memory);
    int *owner = arena_array(memory, (size_t)leader->run.terms.layer_count, sizeof *owner);
    bal_placed_owners(&plan->placed, owner);
    leader->rank_of_layer = owner;
    bal_last_backwards(&plan->schedule, memory, &leader->last_backward);
}

static void read_answers(exec_leader *leader, exec_move_times *times)
{
    const exec_gathered *gathered = &leader->run.gathered;
    int64_t offset = 0;
    for (int index = 0; index < gathered->group->rank_count; index++) {
        exec_parcel parcel = exec_gathered_next(gathered, index, &offset);
        const exec_move_answer *answer = exec_parcel_take(&parcel, (int64_t)sizeof *answer);
        if (answer->free_ns > times->finish_ns) times->finish_ns = answer->free_ns;
        times->bytes += answer->bytes;
    }
}

status exec_leader_move(exec_leader *leader, const exec_next_plan *next, int iteration,
                        exec_move_times *times, error_message *err)
{
    exec_run *run = &leader->run;
    const exec_transport *transport = run->endpoint->transport;
    const int64_t begin_ns = transport->now_ns(run->endpoint);
    bal_placed_partition placed = next->placed;
    bal_schedule order;
    exec_migration_leg *legs = NULL;
    int leg_count = 0;
    name_ranks(leader, &placed);
    TRY(find_order(leader, next, &placed, &order, err));
    TRY(find_legs(leader, next, &legs, &leg_count, err));
    const exec_command command = {
        .kind = EXEC_COMMAND_MOVE,
        .iteration = iteration,
        .origin = next->origin,
        .leg_count = leg_count,
        .paces = run->device->table->is_modelled && !leader->is_nominal,
        .changes_ranks = exec_run_ranks_differ(&run->ranks, &placed),
    };
    TRY(exec_run_begin_command(run, &command));
    TRY(exec_run_plan_put(&run->command, &placed, &order));
    TRY(exec_parcel_put(&run->command, legs, (int64_t)leg_count * (int64_t)sizeof *legs));
    TRY(put_releases(leader));
    if (next->origin == EXEC_ORIGIN_LEADER) {
        TRY(exec_leader_hand_out(leader, next->checkpoint, &placed, err));
    }
    TRY(exec_run_give_command(run, err));
    if (command.changes_ranks) leader->costs_told = false;
    leader->microbatch_count = next->microbatch_count;
    *times = (exec_move_times){.elapsed_ns = transport->now_ns(run->endpoint) - begin_ns};
    read_answers(leader, times);
    take_plan(leader);
    return STATUS_OK;
}

/// The partition that somebody would choose who knows nothing of the layers.
static status find_even(exec_leader *leader, bal_placed_partition *placed, error_message *err)
{
    bal_training plain = leader->training;
    bal_controller *controller = NULL;
    bal_layer_costs layers;
    bal_decision decision;
    plain.balancer = bal_balancer_find("even");
    plain.policy = (bal_policy){.kind = BAL_POLICY_NEVER};
    plain.repack = bal_repack_options_default();
    plain.weight = BAL_WEIGHT_TIME;
    plain.machine.rank_memory_bytes = 0;
    equal_layers(leader, leader->next_memory, &layers);
    TRY(bal_training_controller(&plain, NULL, &controller, err));
    const status started = bal_controller_start(controller, &layers, &decision, err);
    if (started == STATUS_OK) {
        const size_t bounds = (size_t)bal_placed_stage_count(&decision.plan) + 1;
        int *first_layer = arena_array(leader->next_memory, bounds, sizeof *first_layer);
        *placed = decision.plan;
        placed->first_layer = first_layer;
        placed->machine_rank = NULL; // in their order
        if (first_layer != NULL) {
            memcpy(first_layer, decision.plan.first_layer, bounds * sizeof *first_layer);
        }
    }
    bal_controller_destroy(controller);
    if (started != STATUS_OK) return started;
    return STATUS_OK;
}

/// The plan of the start: what was given, or the balancer's, or where nothing is known the even
/// one.
static status choose_start(exec_leader *leader, exec_next_plan *next, error_message *err)
{
    const bal_plan *plan = leader->execution->plan;
    if (plan != NULL) {
        next->placed = exec_placed_of(plan);
        next->order = plan->order;
        return STATUS_OK;
    }
    if (leader->learns) return find_even(leader, &next->placed, err);
    TRY(bal_controller_start(leader->controller, &leader->profile, &leader->decision, err));
    leader->is_controlled = true;
    next->placed = leader->decision.plan;
    return STATUS_OK;
}

status exec_leader_start(exec_leader *leader, error_message *err)
{
    const int microbatches = leader->microbatch_count;
    exec_next_plan next = {.microbatch_count = microbatches, .origin = EXEC_ORIGIN_SEED};
    exec_move_times times;
    exec_checkpoint checkpoint;
    bool is_new = false;
    if (leader->execution->checkpoint_read != NULL) {
        TRY(exec_leader_read_checkpoint(leader, &checkpoint, err));
        next.origin = EXEC_ORIGIN_LEADER;
        next.checkpoint = &checkpoint;
    }
    if (!leader->learns) {
        TRY(bal_training_costs_fetch(&leader->costs, leader->first_iteration,
                                     (bal_batch){microbatches, microbatches}, &is_new,
                                     &leader->is_announced, err));
        TRY(bal_training_costs_measure(&leader->costs, NULL, &leader->profile, err));
    }
    TRY(choose_start(leader, &next, err));
    next.layers = leader->learns ? NULL : &leader->profile;
    return exec_leader_move(leader, &next, leader->first_iteration, &times, err);
}
