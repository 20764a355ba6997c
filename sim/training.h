/// Replays a training run: iteration after iteration of all pipeline replicas, with the controller
/// deciding and every rebalance paid for.
///
/// iteration_ns = pipeline (the longest makespan of the replicas; without the global barrier the
///                span) + exposed gradient reduction + optimizer step
///              + profiling, where the iteration is profiled
///              + decision and exposed migration, where a decision follows the iteration
///
/// Replicas have one plan and meet in the reduction of the gradients, so that the slowest of them
/// makes the iteration. What the controller learns is the largest over the replicas, layer by
/// layer.
#pragma once

#include "balance/balancer.h"
#include "balance/controller.h"
#include "balance/machine.h"
#include "balance/metrics.h"
#include "balance/ports.h"
#include "balance/timeline.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// What hides the reduction of gradients between replicas. Ranks reduce at the same time over links
/// of their own; the layers of one rank follow each other. A stage's reduction begins when all
/// replicas are ready, their iterations having begun together.
typedef enum sim_reduction_overlap {
    SIM_REDUCTION_EXPOSED,  ///< nothing: behind the whole pipeline, as long as the largest rank
                            ///< takes
    SIM_REDUCTION_STAGE,    ///< the other stages: a stage reduces when its own last op has ended
    SIM_REDUCTION_BACKWARD, ///< also the stage's own last W (BW), which finishes layer by layer,
                            ///< the last layer of the stage first
    SIM_REDUCTION_OVERLAP_COUNT
} sim_reduction_overlap;

/// "none", "stage", "backward".
extern const char *const sim_reduction_overlap_names[SIM_REDUCTION_OVERLAP_COUNT];

/// A rank of the machine that is slower than its costs say, in every replica.
typedef struct sim_slow_rank {
    int rank;
    double time_factor;  // > 0; 1.25 is a rank at 0.8 times the speed. Factors of one rank multiply
    int first_iteration; // the factor holds for iterations [first, end)
    int end_iteration;
} sim_slow_rank;

/// One iteration as it was played. Arrays are borrowed for the call.
typedef struct sim_training_iteration {
    int iteration;
    int64_t iteration_ns;
    int64_t pipeline_ns;  // of it: makespan or span
    int64_t reduction_ns; // of it: gradients, beyond the pipeline
    int64_t profile_ns;   // of it
    int64_t decision_ns;  // of it
    int64_t migration_ns; // of it
    bal_metrics metrics;  // of the slowest replica, the first of several
    bool changed;         // the model had changed before it
    bal_action action;    // what the controller decided behind it, and why
    bal_reason reason;
    bool was_asked;  // a decision was made
    bool rebalanced; // layers moved
    int moved_layer_count;
    int64_t moved_bytes;
    int rank_count;              // places of the pipeline
    int replica_count;           // D, and further ones that released ranks make
    int microbatch_count;        // of the replica with the most
    bal_gpu_account gpus;        // of all replicas: in all, and idle
    const int *first_layer;      // [rank_count * chunk_count + 1] in force during it; NULL for a
                                 // balancer without stages
    const int *machine_rank;     // [rank_count] rank of the machine at each place; with first_layer
    const int64_t *rank_work_ns; // [rank_count] op times of each place in the slowest replica; of a
                                 // balancer without stages the load of each rank
    const bal_timeline *timeline; // of the slowest replica; NULL unless asked for
    const bal_stage_costs *costs; // with timeline
} sim_training_iteration;

/// Where the iterations of a replay go.
typedef struct sim_training_sink {
    void *context;
    bool (*wants_timeline)(void *context, int iteration); // NULL: never
    status (*put)(void *context, const sim_training_iteration *iteration, error_message *err);
} sim_training_sink;

typedef struct sim_training {
    const bal_cost_source *sources; // [source_count] replica r has the loads of source
                                    // r % source_count; all of the same layers
    int source_count;               // in [1, data_parallel]; 1: the replicas are alike
    bal_machine machine;            // rank_count is the number of ranks of one replica
    int iteration_count;
    int microbatch_count; // M of one replica; a source with another number of columns is cycled
                          // through
    int chunk_count;      // 0: the schedule's own
    const char *schedule;
    bool post_validation; // no global barrier at the step: the span counts
    int data_parallel;    // replicas D >= 1; their reduction is in the costs, as reduction_ns
    int gpus_per_rank;    // of tensor and context parallelism, for the accounts; 0: 1
    sim_reduction_overlap reduction_overlap;
    int64_t optimizer_step_ns;
    int64_t decision_ns; // of every decision, whether or not layers move
    int64_t profile_ns;  // of every profiled iteration: those that a decision may look at
    // Of the controller: see bal_controller_options.
    double change_ratio;
    const bal_balancer *balancer;
    bal_weight weight;
    bal_policy policy;
    bal_information information;
    bool estimates_speed;
    bal_migration_options migration;
    bal_repack_options repack;
    const sim_slow_rank *slow_ranks; // [slow_rank_count]
    int slow_rank_count;
    sim_training_sink sink; // put may be NULL
} sim_training;

/// Sums over the run. first and last are iterations 0 and iteration_count - 1.
typedef struct sim_training_result {
    bool executable;      // false: loads only; no times but the imbalance
    int64_t total_ns;     // sum of iteration_ns
    int64_t pipeline_ns;  // of it: makespan or span
    int64_t reduction_ns; // of it: gradients, beyond the pipeline
    int64_t profile_ns;   // of it: profiling
    int64_t decision_ns;  // of it: decisions
    int64_t migration_ns; // of it: migration
    bal_metrics first;
    bal_metrics last;
    double bubble_ratio;    // over the run and all replicas: 1 - sum of busy / (ranks * sum of the
                            // longest makespans); waiting for the slowest replica is idle
    double imbalance_ratio; // mean over the iterations
    int change_count;
    int decision_count;
    int rebalance_count; // decisions that moved layers
    int repack_count;    // decisions that changed the number of ranks
    int64_t moved_layer_count;
    int64_t moved_bytes;
    int64_t bottleneck_ns;             // of the last plan, in the unit of the weight
    int64_t bottleneck_lower_bound_ns; // of the last decision
    int stage_count;                   // ranks x chunks
    const int *start_first_layer;      // [stage_count + 1], or NULL; from the arena
    const int *final_first_layer;      // [final_rank_count * chunks + 1]
    int final_rank_count;
    const int *final_machine_rank;    // [final_rank_count]
    double rank_count_mean;           // of the pipeline, over time
    int64_t gpu_count;                // of the run
    int64_t gpu_ns;                   // gpu_count x total_ns
    int64_t idle_gpu_ns;              // of it: GPUs of released ranks x time
    int64_t released_rank_ns;         // released ranks of all replicas x time
    int64_t released_node_ns;         // nodes all of whose GPUs are idle x time
    const int64_t *peak_memory_bytes; // [rank_count] state and activations, largest over the run
    bool is_memory_known; // the costs hold both state and activations; else peaks are too low
    bool fits;            // every peak is within machine.rank_memory_bytes (or no limit)
    int simulated_count;  // iterations that were played; the others repeated their input
} sim_training_result;

/// Replays the run.
///
/// The plan of the start is the balancer's own for iteration 0, as somebody would choose who
/// profiled it before the training began; iteration 0 is therefore no change.
///
/// With several sources the controller sees one column of times per layer: the mean over the
/// microbatches of a replica, the largest over the replicas.
///
/// @param result arrays are carved from memory
/// @return STATUS_INVALID for a wrong count, a slow rank that the machine does not have or without
///         a positive factor, sources of different layers, a schedule rule broken, costs without a
///         backward split under a schedule that needs one, or sums (of an iteration's layers or
///         over the run) that do not fit int64; STATUS_INFEASIBLE if at some decision no plan fits
///         the memory; what the source or the sink returns.
///
/// Time O(iterations x sources x (ops + layers x microbatches)) where loads change in every
/// iteration; iterations that repeat the costs and the plan of the one before are not played again.
/// Owners of layers without stages (`diffusion-published`, `diffusion-coded`) are followed in loads
/// only.
status sim_training_replay(const sim_training *training, arena *memory, sim_training_result *result,
                           error_message *err);
