/// Executes the same training in several ways, and compares what was learnt bit by bit.
#pragma once

#include "exec/run/execution.h"
#include "exec/training/training_device.h"
#include "tests/exec/thread_ranks.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

enum {
    LEARNING_RANKS_MAX = 8,
    LEARNING_PLANS_MAX = 6,
    LEARNING_ITERATIONS_MAX = 64,
    LEARNING_MICROBATCHES = 4, // of all replicas
};

static exec_training_text learning_text; // the project's own README

static inline int learning_read_text(void **state)
{
    const exec_model model = exec_model_default();
    return exec_training_text_read("../README.md", &model, 1, &learning_text, NULL) == STATUS_OK
               ? 0
               : -1;
}

static inline int learning_free_text(void **state)
{
    exec_training_text_free(&learning_text);
    return 0;
}

/// A plan, in force from the beginning or after an iteration.
typedef struct learning_plan {
    int after_iteration; // -1: from the beginning
    int rank_count;      // 0: no more plans
    int first_layer[LEARNING_RANKS_MAX + 1];
    int machine_rank[LEARNING_RANKS_MAX];
} learning_plan;

/// A way to execute a training.
typedef struct learning_way {
    const char *name;
    const char *schedule;
    int rank_count;                          // of the machine, of one replica
    int replica_count;                       // 0: 1
    bal_reduction_overlap overlap;           // but none: under the real clock
    learning_plan plans[LEARNING_PLANS_MAX]; // the first has the ranks of the machine
} learning_way;

static inline int learning_chunk_count(const learning_way *way)
{
    return bal_schedule_chunk_count(bal_schedule_family_find(way->schedule), 0);
}

/// A training, and what came of it. Zero-initialise, then fill by name.
typedef struct learning_run {
    const exec_model *model;
    const learning_way *way;
    int iteration_count;
    const exec_packing *packing;          // NULL: sequences are all alike
    exec_device_maker devices;            // create NULL: plain C
    double loss[LEARNING_ITERATIONS_MAX]; // out, as what follows
    double norm[LEARNING_ITERATIONS_MAX];
    uint64_t state_hash;
    int64_t migrated_bytes;
    int64_t state_bytes; // of the blocks, in the last iteration
} learning_run;

static inline status learning_note(void *context, const exec_measured *measured, error_message *err)
{
    learning_run *run = context;
    const int iteration = measured->record->iteration;
    run->loss[iteration] = measured->loss;
    run->norm[iteration] = measured->gradient_norm;
    run->migrated_bytes += measured->migrated_bytes;
    run->state_hash = measured->state_hash;
    const bal_layer_costs *layers = &measured->played->replicas[0];
    run->state_bytes = 0;
    for (int layer = 1; layer < layers->layer_count - 1; layer++) {
        run->state_bytes += layers->state_bytes[layer];
    }
    return STATUS_OK;
}

typedef struct learning_context {
    exec_training training;
    arena *memory;
    bal_training_result result;
} learning_context;

static inline status learning_body(exec_endpoint *endpoint, void *context, error_message *err)
{
    learning_context *all = context;
    return exec_training_rank(endpoint, &all->training, all->memory, &all->result, err);
}

static inline int learning_forced_plans(const learning_way *way, exec_forced_plan *forced)
{
    const bal_schedule_family *family = bal_schedule_family_find(way->schedule);
    int count = 0;
    for (int index = 1; index < LEARNING_PLANS_MAX && way->plans[index].rank_count > 0; index++) {
        const learning_plan *plan = &way->plans[index];
        forced[count++] = (exec_forced_plan){.after_iteration = plan->after_iteration,
                                             .plan = {.first_layer = plan->first_layer,
                                                      .rank_count = plan->rank_count,
                                                      .chunk_count = learning_chunk_count(way),
                                                      .placement = family->placement,
                                                      .machine_rank = plan->machine_rank}};
    }
    return count;
}

/// Executes the run on threads, under the nominal clock unless ops are to hide something.
static inline status learning_try(learning_run *run, error_message *err)
{
    const learning_way *way = run->way;
    const int replicas = way->replica_count > 0 ? way->replica_count : 1;
    const int microbatch_count = LEARNING_MICROBATCHES / replicas;
    const exec_training_listener listener = {.context = run, .put = learning_note};
    const bal_training training = {
        .data_parallel = replicas,
        .machine = {.rank_count = way->plans[0].rank_count, .ranks_per_node = 8},
        .iteration_count = run->iteration_count,
        .microbatch_count = microbatch_count,
        .chunk_count = learning_chunk_count(way),
        .schedule = way->schedule,
        .change_ratio = 0.25,
        .reduction_overlap = way->overlap,
        .balancer = bal_balancer_find("even")};
    const bal_plan start = {.first_layer = way->plans[0].first_layer,
                            .rank_count = way->plans[0].rank_count,
                            .chunk_count = learning_chunk_count(way),
                            .placement = bal_schedule_family_find(way->schedule)->placement,
                            .schedule = way->schedule,
                            .microbatch_count = microbatch_count,
                            .stage_ranks = way->plans[0].machine_rank,
                            .data_parallel = replicas,
                            .embedding = true,
                            .head = true};
    exec_forced_plan forced[LEARNING_PLANS_MAX];
    exec_training_device device = {.model = run->model,
                                   .text = &learning_text,
                                   .packing = run->packing,
                                   .backend = EXEC_BACKEND_CPU,
                                   .replica_rank_count = way->plans[0].rank_count,
                                   .counts_cpu_time = way->overlap == BAL_REDUCTION_EXPOSED};
    const exec_device_maker plain = {.context = &device, .create = exec_training_device_create};
    learning_context context = {
        .training = {.training = &training,
                     .plan = &start,
                     .forced = forced,
                     .forced_count = learning_forced_plans(way, forced),
                     .layer_count = exec_model_layer_count(run->model),
                     .devices = run->devices.create != NULL ? run->devices : plain,
                     .clock = way->overlap == BAL_REDUCTION_EXPOSED ? EXEC_CLOCK_NOMINAL
                                                                    : EXEC_CLOCK_REAL,
                     .listener = &listener},
        .memory = arena_create(1 << 14)};
    const status result =
        run_threads(way->plans[0].rank_count * replicas, learning_body, &context, err);
    arena_destroy(context.memory);
    return result;
}

static inline void learning_execute(learning_run *run)
{
    if (learning_try(run, &why) != STATUS_OK) fail_msg("%s: %s", run->way->name, why.message);
}

/// Every iteration.
static inline void learning_assert_same_losses(const learning_run *one, const learning_run *other)
{
    const char *mechanism = exec_mechanism_names[one->model->mechanism];
    for (int iteration = 0; iteration < one->iteration_count; iteration++) {
        if (memcmp(&one->loss[iteration], &other->loss[iteration], sizeof(double)) == 0 &&
            memcmp(&one->norm[iteration], &other->norm[iteration], sizeof(double)) == 0) {
            continue;
        }
        fail_msg("%s, iteration %d: loss %.17g and norm %.17g of %s; %.17g and %.17g of %s",
                 mechanism, iteration, one->loss[iteration], one->norm[iteration], one->way->name,
                 other->loss[iteration], other->norm[iteration], other->way->name);
    }
}

/// Every iteration, and the state at the end.
static inline void learning_assert_same(const learning_run *one, const learning_run *other)
{
    const char *mechanism = exec_mechanism_names[one->model->mechanism];
    learning_assert_same_losses(one, other);
    assert_true(one->state_hash != 0);
    if (one->state_hash == other->state_hash) return;
    fail_msg("%s: state %016" PRIx64 " of %s, %016" PRIx64 " of %s", mechanism, one->state_hash,
             one->way->name, other->state_hash, other->way->name);
}

enum { LEARNING_LAYERS = 8 };

/// Small, with as many layers as the largest number of ranks. Mechanisms act within few iterations.
static inline exec_model learning_model(exec_mechanism mechanism)
{
    exec_model model = exec_model_default();
    model.block_count = LEARNING_LAYERS - 2;
    model.width = 16;
    model.head_count = 2;
    model.sequence_length = 32;
    model.microbatch_size = 2;
    model.seed = 11;
    model.mechanism = mechanism;
    model.moe.expert_count = 4;
    model.mod.capacity_ratio = 0.25;
    model.early_exit.threshold = 0.95; // so that tokens do leave
    model.early_exit.settle_iterations = 2;
    model.pruning = (exec_pruning_options){.start_iteration = 1,
                                           .end_iteration = 5,
                                           .interval = 2,
                                           .initial_sparsity = 0.2,
                                           .final_sparsity = 0.8};
    model.freezing =
        (exec_freezing_options){.interval = 2, .tolerance = 1, .patience = 1, .largest_share = 0.7};
    return model;
}

static const learning_way learning_one_rank = {
    .name = "one rank",
    .schedule = "1f1b",
    .plans = {{-1, 1, {0, 8}, {0}}},
};
