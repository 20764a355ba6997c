/// Taking a plan into force: how it travels, its order, the layers on their way, ranks that are
/// released or taken back.
///
/// Sender and receiver of a layer meet: the receiver says that it has room and when it is free, the
/// sender begins when both are, and both are free again when the transfer has ended. So the clocks
/// of the ranks go through the very sums of bal_migration_finish_ns, without anybody having them
/// all.
#include "exec/run/run.h"

#include "exec/device/device.h"
#include "exec/transport/transport.h"

#include <string.h>

/// One sending of a layer, as all ranks know it. Ranks are those of the machine.
typedef struct exec_migration_leg {
    int layer;
    int from;
    int to;
    int64_t transfer_ns; // by the link; 0 where it takes what it takes
} exec_migration_leg;

/// What a rank answers to a move.
typedef struct exec_move_answer {
    int64_t free_ns; // clock after the last transfer, 0 without one
    int64_t bytes;   // packed state that came
} exec_move_answer;

/// A rank in the middle of a migration.
typedef struct mover {
    exec_run *run;
    const exec_command *command;
    const exec_migration_leg *legs; // [command->leg_count] in their order
    exec_packet *layers;            // [layer_count] packed state of the layers that have come
    int64_t free_ns;                // this rank's clock
    exec_move_answer answer;
    error_message *err;
} mover;

status exec_packet_pack(exec_packet *packet, exec_device *device, int layer, error_message *err)
{
    const int64_t byte_count = device->table->packed_bytes(device, layer);
    return device->table->pack(device, layer, exec_packet_room(packet, byte_count), err);
}

static int64_t bytes_of(int count, size_t element_bytes)
{
    return (int64_t)count * (int64_t)element_bytes;
}

/// Partition and schedule travel as they are; their pointers mean nothing elsewhere, and what they
/// point to follows.
static void put_plan(exec_packet *packet, const bal_placed_partition *placed,
                     const bal_schedule *schedule)
{
    const int ranks = placed->rank_count;
    exec_packet_put(packet, placed, sizeof *placed);
    exec_packet_put(packet, schedule, sizeof *schedule);
    exec_packet_put(packet, placed->first_layer,
                    bytes_of(bal_placed_stage_count(placed) + 1, sizeof(int)));
    exec_packet_put(packet, placed->machine_rank, bytes_of(ranks, sizeof(int)));
    exec_packet_put(packet, schedule->name, (int64_t)strlen(schedule->name) + 1);
    exec_packet_put(packet, schedule->first_op, bytes_of(ranks + 1, sizeof(int)));
    exec_packet_put(packet, schedule->ops, bytes_of(schedule->first_op[ranks], sizeof(bal_op)));
}

/// Copies the next array of the packet.
static void *take_array(exec_packet *packet, arena *memory, int count, size_t element_bytes)
{
    const void *taken = exec_packet_take(packet, bytes_of(count, element_bytes));
    void *copy = arena_array(memory, (size_t)count, element_bytes);
    memcpy(copy, taken, (size_t)count * element_bytes);
    return copy;
}

static const char *take_name(exec_packet *packet)
{
    const char *name = (const char *)packet->bytes + packet->taken_bytes;
    (void)exec_packet_take(packet, (int64_t)strlen(name) + 1);
    const bal_schedule_family *family = bal_schedule_family_find(name);
    return family != NULL ? family->name : "";
}

/// Lists the layers of this rank's stages.
static void list_layers(exec_run_plan *plan, int machine_rank)
{
    const int count = plan->placed.first_layer[bal_placed_stage_count(&plan->placed)];
    int *owner = arena_array(plan->memory, (size_t)count, sizeof *owner);
    int *layers = arena_array(plan->memory, (size_t)count, sizeof *layers);
    bal_placed_owners(&plan->placed, owner);
    plan->rank_of_layer = owner;
    plan->layer = layers;
    plan->layer_count = 0;
    for (int layer = 0; layer < count; layer++) {
        if (owner[layer] == machine_rank) layers[plan->layer_count++] = layer;
    }
}

/// Takes a plan out and compiles the program of this rank; what was in it is given up.
static void take_plan(exec_run_plan *plan, exec_packet *packet, int machine_rank)
{
    if (plan->memory == NULL) plan->memory = arena_create(1 << 16);
    arena_reset(plan->memory);
    plan->placed = *(const bal_placed_partition *)exec_packet_take(packet, sizeof plan->placed);
    plan->schedule = *(const bal_schedule *)exec_packet_take(packet, sizeof plan->schedule);
    const int ranks = plan->placed.rank_count;
    plan->placed.first_layer =
        take_array(packet, plan->memory, bal_placed_stage_count(&plan->placed) + 1, sizeof(int));
    plan->placed.machine_rank = take_array(packet, plan->memory, ranks, sizeof(int));
    plan->schedule.name = take_name(packet);
    plan->schedule.first_op = take_array(packet, plan->memory, ranks + 1, sizeof(int));
    plan->schedule.ops =
        take_array(packet, plan->memory, plan->schedule.first_op[ranks], sizeof(bal_op));
    plan->place = exec_run_place_of(&plan->placed, machine_rank);
    plan->program = (exec_program){.place = plan->place};
    list_layers(plan, machine_rank);
    if (plan->place < 0) return;
    exec_program_compile(&plan->schedule, plan->place, plan->memory, &plan->program);
}

/// The key of "I have room": packets of the same kind have stage 0.
static uint64_t ready_key(int leg)
{
    return exec_message_key(EXEC_MESSAGE_MIGRATE, leg, 1, 0);
}

/// Lasts as long as the transfer, where time is real.
static status pace(const mover *at, int64_t transfer_ns)
{
    exec_endpoint *endpoint = at->run->endpoint;
    if (!at->command->paces || transfer_ns == 0) return STATUS_OK;
    const int64_t now_ns = exec_endpoint_now_ns(endpoint);
    return endpoint->transport->sleep_until(endpoint, now_ns + transfer_ns, at->err);
}

static status fill_leg(const mover *at, int layer, int64_t end_ns, exec_packet *packet)
{
    exec_device *device = at->run->device;
    exec_layer_head head = {.end_ns = end_ns,
                            .byte_count = device->table->packed_bytes(device, layer)};
    if (device->leaves_out_arrays) head.shipped_bytes = device->table->shipped_bytes(device, layer);
    exec_packet_put(packet, &head, sizeof head);
    return exec_packet_pack(packet, device, layer, at->err);
}

static status send_leg(mover *at, int leg)
{
    const exec_migration_leg *way = &at->legs[leg];
    const int to = exec_run_world_rank(&at->run->ranks, at->run->ranks.replica, way->to);
    exec_endpoint *endpoint = at->run->endpoint;
    exec_message ready;
    exec_packet packet = {0};
    TRY(endpoint->transport->receive(endpoint, to, ready_key(leg), &ready, NULL, 0, at->err));
    const int64_t begin_ns = ready.value[0] > at->free_ns ? ready.value[0] : at->free_ns;
    at->free_ns = begin_ns + way->transfer_ns;
    status sent = pace(at, way->transfer_ns);
    if (sent == STATUS_OK) sent = fill_leg(at, way->layer, at->free_ns, &packet);
    if (sent == STATUS_OK) {
        sent = exec_packet_send(endpoint, to, EXEC_MESSAGE_MIGRATE, leg, &packet, at->err);
    }
    exec_device *device = at->run->device;
    if (sent == STATUS_OK && device->leaves_out_arrays) {
        sent = device->table->ship(device, endpoint, way->layer, to, true,
                                   device->table->shipped_bytes(device, way->layer), at->err);
    }
    exec_packet_free(&packet);
    return sent;
}

static status receive_leg(mover *at, int leg)
{
    const exec_migration_leg *way = &at->legs[leg];
    const int from = exec_run_world_rank(&at->run->ranks, at->run->ranks.replica, way->from);
    exec_endpoint *endpoint = at->run->endpoint;
    exec_packet *packet = &at->layers[way->layer];
    const exec_message ready = {.key = ready_key(leg), .value = {at->free_ns}};
    TRY(endpoint->transport->send(endpoint, from, &ready, NULL, at->err));
    TRY(exec_packet_receive(endpoint, from, EXEC_MESSAGE_MIGRATE, leg, packet, at->err));
    const exec_layer_head *head = exec_packet_take(packet, sizeof *head);
    at->free_ns = head->end_ns;
    at->answer.bytes += head->byte_count + head->shipped_bytes;
    if (head->shipped_bytes == 0) return STATUS_OK;
    exec_device *device = at->run->device;
    return device->table->ship(device, endpoint, way->layer, from, false, head->shipped_bytes,
                               at->err);
}

/// Sends and receives the layers that change their rank and that this rank has a part in; every
/// replica for itself.
static status migrate(mover *at)
{
    const int self = at->run->ranks.machine_rank;
    for (int leg = 0; leg < at->command->leg_count; leg++) {
        const exec_migration_leg *way = &at->legs[leg];
        if (way->from != self && way->to != self) continue;
        TRY(way->from == self ? send_leg(at, leg) : receive_leg(at, leg));
        at->answer.free_ns = at->free_ns;
    }
    return STATUS_OK;
}

/// Wakes and releases ranks. All meet, so that nobody is in the midst of a migration any more.
static status change_ranks(exec_run *run, const exec_run_plan *plan, error_message *err)
{
    exec_run_ranks_activate(&run->ranks, &plan->placed);
    return run->endpoint->transport->regroup(run->endpoint, run->ranks.place, run->ranks.rank_count,
                                             err);
}

/// Gives the device what has come, and makes the layers that come from nowhere; waits for all at
/// once.
static status fill_layers(const mover *at, const exec_run_plan *plan)
{
    exec_device *device = at->run->device;
    for (int layer = 0; layer < at->run->terms.layer_count; layer++) {
        exec_packet *packet = &at->layers[layer];
        if (packet->bytes == NULL) continue;
        packet->taken_bytes = 0;
        const exec_layer_head *head = exec_packet_take(packet, sizeof *head);
        TRY(device->table->unpack(device, layer, exec_packet_take(packet, head->byte_count),
                                  head->byte_count, at->err));
    }
    if (!device->table->learns) return STATUS_OK;
    for (int index = 0; at->command->is_start && index < plan->layer_count; index++) {
        TRY(device->table->initialise(device, plan->layer[index], at->err));
    }
    return device->table->settle(device, at->err);
}

static status move(mover *at)
{
    exec_run *run = at->run;
    exec_run_plan *plan = &run->plans[1 - run->plan_index];
    take_plan(plan, &run->command, run->ranks.machine_rank);
    at->legs = exec_packet_take(&run->command, at->command->leg_count * (int64_t)sizeof *at->legs);
    const int64_t *release_ns =
        exec_packet_take(&run->command, run->ranks.rank_count * (int64_t)sizeof *release_ns);
    at->free_ns = release_ns[run->ranks.machine_rank];
    run->device->leaves_out_arrays =
        run->device->table->ship != NULL && run->endpoint->transport->exchange != NULL;
    TRY(migrate(at));
    run->plan_index = 1 - run->plan_index;
    run->is_reduction_timed = false;
    run->has_sends = false;
    if (at->command->changes_ranks) TRY(change_ranks(run, plan, at->err));
    TRY(run->device->table->hold(run->device, &plan->placed, plan->place,
                                 plan->schedule.microbatch_count, at->err));
    TRY(fill_layers(at, plan));
    run->device->leaves_out_arrays = false;
    exec_packet_put(&run->answer, &at->answer, sizeof at->answer);
    return STATUS_OK;
}

status exec_run_move(exec_run *run, const exec_command *command, error_message *err)
{
    const size_t layers = (size_t)run->terms.layer_count;
    mover at = {.run = run, .command = command, .err = err};
    at.layers = arena_array(run->scratch, layers, sizeof *at.layers);
    exec_activity_set_phase(&run->endpoint->activity, command->iteration, EXEC_PHASE_MIGRATION);
    const status moved = move(&at);
    for (size_t layer = 0; layer < layers; layer++) {
        exec_packet_free(&at.layers[layer]);
    }
    return moved;
}

/// Finds the order of a plan and proves, before anybody waits for anybody, that it can be played.
static status find_order(exec_leader *leader, const exec_next_plan *next,
                         const bal_placed_partition *placed, bal_schedule *order,
                         error_message *err)
{
    if (next->order != NULL) {
        *order = *next->order;
    } else {
        TRY(bal_training_order(&leader->training, placed, next->layers, next->microbatch_count,
                               leader->next_memory, order, err));
    }
    TRY(bal_schedule_check(order, err));
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
    bal_migration moves;
    *leg_count = 0;
    *legs = NULL;
    if (next->migration == NULL || next->migration->layer_count == 0) return STATUS_OK;
    TRY(bal_migration_order(before, next->migration, layers, machine, leader->next_memory, &moves,
                            err));
    exec_migration_leg *made =
        arena_array(leader->next_memory, (size_t)moves.layer_count, sizeof *made);
    for (int index = 0; index < moves.layer_count; index++) {
        const int layer = moves.layer[index];
        const int64_t bytes = layers->state_bytes != NULL ? layers->state_bytes[layer] : 0;
        const bal_link link = bal_machine_link(machine, moves.from[index], moves.to[index]);
        made[index] = (exec_migration_leg){
            .layer = layer,
            .from = moves.from[index],
            .to = moves.to[index],
            .transfer_ns = is_modelled ? bal_link_transfer_ns(link, bytes) : 0,
        };
    }
    *legs = made;
    *leg_count = moves.layer_count;
    return STATUS_OK;
}

/// When each rank takes part at the earliest, by its clock: only where transfers overlap the
/// backward sweep, and only where clocks are nominal. Really they begin after the decision.
static void put_releases(exec_leader *leader)
{
    const size_t ranks = (size_t)leader->training.machine.rank_count;
    int64_t *release_ns = arena_array(leader->next_memory, ranks, sizeof *release_ns);
    if (leader->is_nominal && leader->training.migration.overlaps) {
        memcpy(release_ns, leader->rank_end_ns, ranks * sizeof *release_ns);
    }
    exec_packet_put(&leader->run.command, release_ns, (int64_t)(ranks * sizeof *release_ns));
}

static void read_answers(exec_leader *leader, exec_move_times *times)
{
    exec_packet *answers = &leader->run.answers;
    while (answers->taken_bytes < answers->byte_count) {
        const exec_move_answer *answer = exec_packet_take(answers, sizeof *answer);
        if (answer->free_ns > times->finish_ns) times->finish_ns = answer->free_ns;
        times->bytes += answer->bytes;
    }
}

status exec_leader_move(exec_leader *leader, const exec_next_plan *next, int iteration,
                        exec_move_times *times, error_message *err)
{
    exec_run *run = &leader->run;
    bal_placed_partition placed = next->placed;
    bal_schedule order;
    exec_migration_leg *legs = NULL;
    int leg_count = 0;
    name_ranks(leader, &placed);
    TRY(find_order(leader, next, &placed, &order, err));
    TRY(find_legs(leader, next, &legs, &leg_count, err));
    const int64_t begin_ns = exec_endpoint_now_ns(run->endpoint); // the order is of the decision
    const exec_command command = {
        .kind = EXEC_COMMAND_MOVE,
        .iteration = iteration,
        .leg_count = leg_count,
        .is_start = next->is_start,
        .paces = run->device->table->is_modelled && !leader->is_nominal,
        .changes_ranks = exec_run_ranks_differ(&run->ranks, &placed),
    };
    exec_run_begin_command(run, &command);
    put_plan(&run->command, &placed, &order);
    exec_packet_put(&run->command, legs, (int64_t)leg_count * (int64_t)sizeof *legs);
    put_releases(leader);
    TRY(exec_run_give_command(run, err));
    if (command.changes_ranks) leader->costs_told = false;
    leader->microbatch_count = next->microbatch_count;
    *times = (exec_move_times){.elapsed_ns = exec_endpoint_now_ns(run->endpoint) - begin_ns};
    read_answers(leader, times);
    const exec_run_plan *plan = exec_run_plan_in_force(run);
    bal_last_backwards(&plan->schedule, plan->memory, &leader->last_backward);
    return STATUS_OK;
}
