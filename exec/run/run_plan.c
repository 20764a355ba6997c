/// What all ranks know: the plan, and what the layers cost.
#include "exec/run/run.h"

#include <stdbool.h>
#include <string.h>

static int64_t bytes_of(int count, size_t element_bytes)
{
    return (int64_t)count * (int64_t)element_bytes;
}

/// Partition and schedule travel as they are; their pointers mean nothing elsewhere, and what they
/// point to follows.
void exec_run_plan_put(exec_packet *packet, const bal_placed_partition *placed,
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

void exec_run_plan_take(exec_run_plan *plan, exec_packet *packet, int machine_rank)
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

void exec_run_plan_free(exec_run_plan *plan)
{
    arena_destroy(plan->memory);
    *plan = (exec_run_plan){0};
}

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

bool exec_run_costs_put(exec_run_costs *costs, const bal_layer_costs *sources, int source_count)
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

bal_layer_costs exec_run_costs_of(exec_run_costs *costs, int replica)
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

status exec_run_costs_fill_sends(exec_run_costs *costs, const bal_placed_partition *plan,
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

void exec_run_costs_free(exec_run_costs *costs)
{
    exec_packet_free(&costs->packet);
    arena_destroy(costs->memory);
    *costs = (exec_run_costs){0};
}
