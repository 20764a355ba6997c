/// A training run: what both players are given, what they record of every iteration and what they
/// return.
///
/// iteration_ns = pipeline (the longest makespan of the replicas; without the global barrier the
///                span) + exposed gradient reduction + optimizer step
///              + profiling, where the iteration is profiled
///              + decision and exposed migration, where a decision follows the iteration
///
/// Replicas have one plan and meet in the reduction of the gradients, so that the slowest of them
/// makes the iteration. What the controller learns is the largest over the replicas, layer by
/// layer (balance/run/training_costs.h).
#pragma once

#include "balance/control/controller.h"
#include "balance/costs/disturbance.h"
#include "balance/costs/layer_costs.h"
#include "balance/costs/machine.h"
#include "balance/costs/placement.h"
#include "balance/metrics.h"
#include "balance/partition/balancer.h"
#include "balance/ports.h"
#include "balance/repack/repack.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { BAL_ROUNDS_MAX = 1024, BAL_DRAWN_REPLICAS_MAX = 1 << 14 };

/// What hides the reduction of gradients between replicas. Ranks reduce at the same time over links
/// of their own; the layers of one rank follow each other. A stage's reduction begins when all
/// replicas are ready, their iterations having begun together.
typedef enum bal_reduction_overlap {
    BAL_REDUCTION_EXPOSED,  ///< nothing: after the whole pipeline, as long as the largest rank
                            ///< takes
    BAL_REDUCTION_STAGE,    ///< the other stages: a stage reduces when its own last op has ended
    BAL_REDUCTION_BACKWARD, ///< also the stage's own last W (BW), which finishes layer by layer,
                            ///< the last layer of the stage first
    BAL_REDUCTION_OVERLAP_COUNT
} bal_reduction_overlap;

/// "none", "stage", "backward".
extern const char *const bal_reduction_overlap_names[BAL_REDUCTION_OVERLAP_COUNT];

/// A rank of the machine that is slower than its costs say, in every replica.
typedef struct bal_slow_rank {
    int rank;
    double time_factor;  // > 0; 1.25 is a rank at 0.8 times the speed. Factors of one rank multiply
    int first_iteration; // the factor holds for iterations [first, end)
    int end_iteration;
} bal_slow_rank;

/// One iteration as it was simulated or executed. Arrays are borrowed for the call.
typedef struct bal_training_iteration {
    int iteration;
    int64_t iteration_ns;
    int64_t pipeline_ns;  // of it: makespan or span
    int64_t reduction_ns; // of it: gradients, beyond the pipeline
    int64_t profile_ns;   // of it
    int64_t decision_ns;  // of it
    int64_t migration_ns; // of it
    int round_count;      // of gradient accumulation; 0: 1. A timeline is of the first
    bal_metrics metrics;  // of the slowest replica, the first of several
    bool changed;         // the model had changed before it
    bal_action action;    // what the controller decided after it, and why
    bal_reason reason;
    bool was_asked;  // a decision was made
    bool rebalanced; // layers moved
    int moved_layer_count;
    int64_t moved_bytes;
    int rank_count;          // places of the pipeline
    int replica_count;       // D, and further ones that released ranks make
    int microbatch_count;    // of the replica with the most
    bal_gpu_account gpus;    // of all replicas: in all, and idle
    const int *first_layer;  // [rank_count * chunk_count + 1] in force during it; NULL for a
                             // balancer without stages
    const int *machine_rank; // [rank_count] rank of the machine at each place; with first_layer
    const bal_schedule *searched; // in simulated time the order of a searched schedule; else NULL
    const int64_t *rank_work_ns; // [rank_count] op times of each place in the slowest replica; of a
                                 // balancer without stages the load of each rank
    const bal_timeline *timeline; // of the slowest replica; NULL unless asked for
    const bal_stage_costs *costs; // with timeline
} bal_training_iteration;

/// Where the iterations of a run go.
typedef struct bal_record_sink {
    void *context;
    bool (*wants_timeline)(void *context, int iteration); // NULL: never
    status (*put)(void *context, const bal_training_iteration *iteration, error_message *err);
} bal_record_sink;

/// Zero-initialise, then fill by name. Everything is borrowed for as long as a player has the run.
typedef struct bal_training {
    const bal_cost_source *sources; // [source_count] replica r has the loads of source
                                    // r % source_count; all of the same layers
    int source_count;               // in [1, data_parallel]; 1: the replicas are alike
    bal_machine machine;            // rank_count is the number of ranks of one replica
    int iteration_count;
    int microbatch_count; // M of one replica; a source with another number of columns is cycled
                          // through
    int chunk_count;      // 0: the schedule's own
    const char *schedule;
    int round_count;      // passes of the pipeline whose gradients are added up before they are
                          // reduced and the optimizer steps; 0: 1
    bool post_validation; // no global barrier at the step: the span counts
    bal_disturbance disturbance;
    int data_parallel; // replicas D >= 1; their reduction is in the costs, as reduction_ns
    int gpus_per_rank; // of tensor and context parallelism, for the accounts; 0: 1
    bal_reduction_overlap reduction_overlap;
    int64_t optimizer_step_ns;
    int64_t decision_ns; // of every decision, whether or not layers move
    int64_t profile_ns;  // of every profiled iteration: those that a decision may look at
    // Of the controller: see bal_controller_options.
    double change_ratio;
    const bal_balancer *balancer;
    bal_weight weight;
    const int *given_first_layer; // [ranks x chunks + 1] of the balancer `given`
    bal_policy policy;
    bal_information information;
    const bal_diffuser *diffuser; // ranks that decide for the balancer `diffusion`, or NULL
    bal_migration_options migration;
    bal_repack_options repack;
    bal_peak_book *peak_book;
    struct bal_plan_book *plan_book;
    bool skips_bound;                // of its bottlenecks the result need not know a bound
    const bal_slow_rank *slow_ranks; // [slow_rank_count]
    int slow_rank_count;
    bal_record_sink sink; // put may be NULL
} bal_training;

/// Sums over the run. first and last are iterations 0 and iteration_count - 1.
typedef struct bal_training_result {
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
} bal_training_result;

/// Checks what the numbers of a run, each within its limits, do not say; costs are checked as they
/// come.
///
/// @return STATUS_INVALID for an unknown schedule or one with two copies of the weights, and for
///         replicas of their own draws above BAL_DRAWN_REPLICAS_MAX
status bal_training_check(const bal_training *training, error_message *err);

/// Makes the controller of a run.
///
/// @param evaluator borrowed as long as the controller is used; NULL: none, see
///                  bal_controller_options
/// @param memory    that the controller lives and ends with
/// @return what bal_controller_create refuses
status bal_training_controller(const bal_training *training, const bal_evaluator *evaluator,
                               arena *memory, bal_controller **out, error_message *err);

/// Whether a decision may look at the layers of an iteration. Without announcements only measuring
/// tells whether the model has changed; plans kept in the shadow see every iteration.
///
/// @param is_announced the source has announced a change of the model before this iteration
bool bal_training_is_profiled(const bal_training *training, int iteration, bool is_announced);

/// Whether ranks are slower than their costs, in some iteration.
bool bal_training_has_slow_ranks(const bal_training *training);

/// The speeds of the ranks in an iteration: the product of the factors of a rank's slow_ranks that
/// hold in it, in their order, and of those of the disturbance.
///
/// @param rank_time_factor [machine.rank_count] out
void bal_training_speeds(const bal_training *training, int iteration, double *rank_time_factor);

/// Where the GPUs of the run are, none released.
bal_gpu_layout bal_training_gpu_layout(const bal_training *training);

/// Fills the request for a plan's order. Searched schedules get what the stages cost, and where
/// ranks have a limit what their state leaves of it to activations.
///
/// @param placed           with any number of places up to the machine's
/// @param layers           read for searched schedules only, else may be NULL; where their columns
///                         are neither 1 nor microbatch_count, the means over them count
/// @param microbatch_count that one replica plays
/// @param request          out: arrays are carved from memory
/// @return STATUS_INVALID for times that do not fit
status bal_training_order_request(const bal_training *training, const bal_placed_partition *placed,
                                  const bal_layer_costs *layers, int microbatch_count,
                                  arena *memory, bal_schedule_request *request, error_message *err);

/// Builds the order: equal arguments give equal orders, on every rank that asks.
///
/// @param schedule out: carved from memory
/// @return what bal_training_order_request and bal_schedule_build refuse
status bal_training_order(const bal_training *training, const bal_placed_partition *placed,
                          const bal_layer_costs *layers, int microbatch_count, arena *memory,
                          bal_schedule *schedule, error_message *err);
