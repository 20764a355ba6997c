#include "exec/run/run_plan.h"

#include "exec/run/run_ranks.h"

#include <stdbool.h>
#include <string.h>

/// The counts of a plan as they travel; the arrays follow.
typedef struct plan_head {
    int rank_count;
    int chunk_count;
    int microbatch_count;
    int op_count;
    bal_placement placement;
    bool has_split;
} plan_head;

static int64_t bytes_of(int count, size_t element_bytes)
{
    return (int64_t)count * (int64_t)element_bytes;
}

status exec_run_plan_put(exec_parcel *parcel, const bal_placed_partition *placed,
                         const bal_schedule *schedule)
{
    const int ranks = placed->rank_count;
    const plan_head head = {
        .rank_count = ranks,
        .chunk_count = placed->chunk_count,
        .microbatch_count = schedule->microbatch_count,
        .op_count = schedule->first_op[ranks],
        .placement = placed->placement,
        .has_split = schedule->has_split,
    };
    TRY(exec_parcel_put(parcel, &head, (int64_t)sizeof head));
    TRY(exec_parcel_put(parcel, placed->first_layer,
                        bytes_of(bal_placed_stage_count(placed) + 1, sizeof(int))));
    TRY(exec_parcel_put(parcel, placed->machine_rank, bytes_of(ranks, sizeof(int))));
    TRY(exec_parcel_put(parcel, schedule->name, (int64_t)strlen(schedule->name) + 1));
    TRY(exec_parcel_put(parcel, schedule->first_op, bytes_of(ranks + 1, sizeof(int))));
    return exec_parcel_put(parcel, schedule->ops, bytes_of(head.op_count, sizeof(bal_op)));
}

/// Copies the next array of the parcel. NULL if out of memory.
static void *take_array(exec_parcel *parcel, arena *memory, int count, size_t element_bytes)
{
    const void *taken = exec_parcel_take(parcel, bytes_of(count, element_bytes));
    void *copy = arena_array(memory, (size_t)count, element_bytes);
    if (copy != NULL) memcpy(copy, taken, (size_t)count * element_bytes);
    return copy;
}

static const char *take_name(exec_parcel *parcel)
{
    const char *name = (const char *)parcel->bytes + parcel->taken_bytes;
    (void)exec_parcel_take(parcel, (int64_t)strlen(name) + 1);
    const bal_schedule_family *family = bal_schedule_family_find(name);
    return family != NULL ? family->name : "";
}

/// Lists the layers of this rank's stages.
static void list_layers(exec_run_plan *plan, int machine_rank)
{
    const bal_placed_partition *placed = &plan->placed;
    const int stages = bal_placed_stage_count(placed);
    int *layers = arena_array(plan->memory, (size_t)placed->first_layer[stages], sizeof *layers);
    plan->layer = layers;
    plan->layer_count = 0;
    for (int stage = 0; stage < stages; stage++) {
        if (bal_placed_machine_rank(placed, stage) != machine_rank) continue;
        for (int layer = placed->first_layer[stage]; layer < placed->first_layer[stage + 1];
             layer++) {
            layers[plan->layer_count++] = layer;
        }
    }
}

status exec_run_plan_take(exec_run_plan *plan, exec_parcel *parcel, int machine_rank)
{
    const plan_head *head = exec_parcel_take(parcel, (int64_t)sizeof *head);
    if (plan->memory == NULL) plan->memory = arena_create(1 << 16);
    arena_reset(plan->memory);
    const int ranks = head->rank_count;
    plan->placed = (bal_placed_partition){
        .rank_count = ranks, .chunk_count = head->chunk_count, .placement = head->placement};
    plan->schedule = (bal_schedule){
        .rank_count = ranks,
        .chunk_count = head->chunk_count,
        .microbatch_count = head->microbatch_count,
        .placement = head->placement,
        .has_split = head->has_split,
    };
    plan->placed.first_layer =
        take_array(parcel, plan->memory, bal_placed_stage_count(&plan->placed) + 1, sizeof(int));
    plan->placed.machine_rank = take_array(parcel, plan->memory, ranks, sizeof(int));
    plan->schedule.name = take_name(parcel);
    plan->schedule.first_op = take_array(parcel, plan->memory, ranks + 1, sizeof(int));
    plan->schedule.ops = take_array(parcel, plan->memory, head->op_count, sizeof(bal_op));
    plan->place = exec_run_place_of(&plan->placed, machine_rank);
    plan->program = (exec_program){.place = plan->place};
    list_layers(plan, machine_rank);
    if (plan->place < 0) return STATUS_OK;
    return exec_program_compile(&plan->schedule, plan->place, plan->memory, &plan->program);
}

void exec_run_plan_free(exec_run_plan *plan)
{
    arena_destroy(plan->memory);
    *plan = (exec_run_plan){0};
}
