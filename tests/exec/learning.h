/// Trains a small model on the ranks of a local transport, without a controller: for tests of what
/// is learnt. Everything is done by the functions that a run uses.
#pragma once

#include "exec/program.h"
#include "exec/rank.h"
#include "exec/state_hash.h"
#include "exec/training_device.h"
#include "exec/transport.h"

#include <stdlib.h>

enum { LEARNING_ITERATIONS_MAX = 64, LEARNING_RANKS_MAX = 8 };

/// Zero-initialise, then fill by name; results are out.
typedef struct learning {
    const exec_model *model;
    const exec_training_text *text;
    const char *schedule;
    int rank_count;         // of one replica
    int chunk_count;        // 0: the schedule's own
    const int *first_layer; // [rank_count * chunks + 1]
    int microbatch_count;
    int replica_count; // 0: 1
    int iteration_count;
    double loss[LEARNING_ITERATIONS_MAX]; // of replica 0
    double norm[LEARNING_ITERATIONS_MAX];
    uint64_t state_hash;
} learning;

/// Two blocks of width 16, sequences of 16 bytes, one a microbatch.
static inline exec_model learning_model(void)
{
    exec_model model = exec_model_default();
    model.block_count = 2;
    model.width = 16;
    model.head_count = 2;
    model.sequence_length = 16;
    model.microbatch_size = 1;
    model.seed = 7;
    return model;
}

typedef struct learning_rank {
    learning *all;
    exec_device *device;
    bal_schedule schedule;
    exec_program program;
    int world_rank[LEARNING_RANKS_MAX]; // of the own replica
    int same_place[LEARNING_RANKS_MAX]; // of all replicas
    exec_group pipeline;
    exec_group replicas;
    int sequences[2];
    exec_rank_times times;
} learning_rank;

static inline status learning_prepare(learning_rank *rank, exec_endpoint *endpoint, arena *memory,
                                      error_message *err)
{
    const learning *all = rank->all;
    const int replicas = all->replica_count > 0 ? all->replica_count : 1;
    const int replica = endpoint->rank / all->rank_count;
    const int place = endpoint->rank % all->rank_count;
    const bal_schedule_request request = {.name = all->schedule,
                                          .rank_count = all->rank_count,
                                          .microbatch_count = all->microbatch_count,
                                          .chunk_count = all->chunk_count};
    TRY(bal_schedule_build(&request, memory, &rank->schedule, err));
    TRY(exec_program_compile(&rank->schedule, place, memory, &rank->program, err));
    for (int index = 0; index < all->rank_count; index++) {
        rank->world_rank[index] = replica * all->rank_count + index;
    }
    for (int index = 0; index < replicas; index++) {
        rank->same_place[index] = index * all->rank_count + place;
    }
    rank->pipeline = (exec_group){.endpoint = endpoint,
                                  .rank = rank->world_rank,
                                  .rank_count = all->rank_count,
                                  .self = place,
                                  .sequence = &rank->sequences[0]};
    rank->replicas = (exec_group){.endpoint = endpoint,
                                  .rank = rank->same_place,
                                  .rank_count = replicas,
                                  .self = replica,
                                  .sequence = &rank->sequences[1]};
    const size_t steps = (size_t)rank->program.step_count;
    rank->times.begin_ns = arena_array(memory, steps, sizeof(int64_t));
    rank->times.end_ns = arena_array(memory, steps, sizeof(int64_t));
    const bal_placed_partition plan = {.first_layer = all->first_layer,
                                       .rank_count = all->rank_count,
                                       .chunk_count = rank->schedule.chunk_count,
                                       .placement = rank->schedule.placement};
    TRY(rank->device->table->hold(rank->device, &plan, place, all->microbatch_count, err));
    exec_layer_report report;
    rank->device->table->report(rank->device, &report);
    for (int row = 0; row < report.layer_count; row++) {
        TRY(rank->device->table->initialise(rank->device, report.layer[row], err));
    }
    return STATUS_OK;
}

static inline status learning_iterate(learning_rank *rank, exec_endpoint *endpoint, int iteration,
                                      error_message *err)
{
    learning *all = rank->all;
    exec_device *device = rank->device;
    const exec_rank_play play = {.endpoint = endpoint,
                                 .device = device,
                                 .program = &rank->program,
                                 .world_rank = rank->world_rank,
                                 .clock = EXEC_CLOCK_NOMINAL};
    const exec_iteration at = {.iteration = iteration,
                               .rank_time_factor = 1,
                               .time_scale_ppb = 1000000000,
                               .is_profiled = iteration % 2 == 0};
    TRY(exec_rank_iterate(&play, &at, &rank->times, err));
    if (rank->replicas.rank_count > 1) TRY(device->table->reduce(device, &rank->replicas, err));
    double norm = 0;
    TRY(device->table->step(device, &rank->pipeline, &norm, err));
    if (endpoint->rank == 0) all->norm[iteration] = norm;
    double loss = 0;
    if (device->table->loss(device, &loss) && endpoint->rank < all->rank_count) {
        all->loss[iteration] = loss;
    }
    bool changed = false;
    return device->table->adapt(device, iteration, &rank->pipeline, &changed, err);
}

static inline status learning_run(learning_rank *rank, exec_endpoint *endpoint, arena *memory,
                                  error_message *err)
{
    TRY(learning_prepare(rank, endpoint, memory, err));
    for (int iteration = 0; iteration < rank->all->iteration_count; iteration++) {
        TRY(learning_iterate(rank, endpoint, iteration, err));
    }
    uint64_t hash = 0;
    const int layer_count = exec_model_layer_count(rank->all->model);
    TRY(exec_state_hash(rank->device, layer_count, &rank->pipeline, &hash, err));
    if (endpoint->rank == 0) rank->all->state_hash = hash;
    return STATUS_OK;
}

static inline status learning_body(exec_endpoint *endpoint, void *context, error_message *err)
{
    learning_rank rank = {.all = context};
    const exec_training_device options = {.model = rank.all->model,
                                          .text = rank.all->text,
                                          .backend = EXEC_BACKEND_CPU_PLAIN,
                                          .replica_rank_count = rank.all->rank_count,
                                          .counts_cpu_time = true};
    TRY(exec_training_device_create(&options, endpoint->rank, &rank.device, err));
    arena *memory = arena_create(1 << 14);
    const status result = learning_run(&rank, endpoint, memory, err);
    arena_destroy(memory);
    rank.device->table->destroy(rank.device);
    return result;
}

static inline status learning_train(learning *all, error_message *err)
{
    exec_transport_options options = exec_transport_options_default();
    options.rank_count = all->rank_count * (all->replica_count > 0 ? all->replica_count : 1);
    return exec_transport_run("local", &options, learning_body, all, err);
}
