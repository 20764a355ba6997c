#include "balance/run/training_order.h"

#include "balance/layer_times.h"

/// What a searched schedule may fill with activations: a rank's memory less its state.
static void activation_limits(const bal_machine *machine, const bal_placed_partition *placed,
                              const bal_layer_costs *layers, arena *memory, const int64_t **limits)
{
    *limits = NULL;
    if (machine->rank_memory_bytes == 0) return;
    int64_t *room = arena_array(memory, (size_t)placed->rank_count, sizeof *room);
    for (int place = 0; place < placed->rank_count; place++) {
        room[place] =
            machine->rank_memory_bytes - bal_placed_sum(placed, place, layers->state_bytes);
        if (room[place] < 0) room[place] = 0;
    }
    *limits = room;
}

/// Costs of one column for those of another number of microbatches than are to be played.
static status mean_columns(const bal_layer_costs *layers, arena *memory, bal_layer_costs *mean,
                           error_message *err)
{
    bal_layer_times times;
    bal_layer_times_init(&times, layers->layer_count, memory);
    TRY(bal_layer_times_fill(&times, layers, err));
    *mean = bal_layer_times_costs(&times, layers);
    return STATUS_OK;
}

/// Adds what a search looks at: the costs of the stages and the room for activations.
static status add_costs(const bal_machine *machine, const bal_placed_partition *placed,
                        const bal_layer_costs *layers, arena *memory, bal_schedule_request *request,
                        error_message *err)
{
    bal_layer_costs like = *layers;
    bal_stage_costs *stages = arena_array(memory, 1, sizeof *stages);
    if (layers->microbatch_count != 1 && layers->microbatch_count != request->microbatch_count) {
        TRY(mean_columns(layers, memory, &like, err));
    }
    TRY(bal_stage_costs_from_layers(&like, placed, machine, NULL, memory, stages, err));
    activation_limits(machine, placed, &like, memory, &request->memory_limit);
    request->costs = stages;
    return STATUS_OK;
}

status bal_training_order_request(const bal_training *training, const bal_placed_partition *placed,
                                  const bal_layer_costs *layers, int microbatch_count,
                                  arena *memory, bal_schedule_request *request, error_message *err)
{
    bal_schedule_request made = {
        .name = training->schedule,
        .rank_count = placed->rank_count,
        .microbatch_count = microbatch_count,
        .chunk_count = placed->chunk_count,
    };
    if (bal_schedule_family_find(training->schedule)->is_searched) {
        TRY(add_costs(&training->machine, placed, layers, memory, &made, err));
    }
    *request = made;
    return STATUS_OK;
}

status bal_training_order(const bal_training *training, const bal_placed_partition *placed,
                          const bal_layer_costs *layers, int microbatch_count, arena *memory,
                          bal_schedule *schedule, error_message *err)
{
    bal_schedule_request request;
    TRY(bal_training_order_request(training, placed, layers, microbatch_count, memory, &request,
                                   err));
    return bal_schedule_build(&request, memory, schedule, err);
}
