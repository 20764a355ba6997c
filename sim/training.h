/// Replays a training run: iteration after iteration of one pipeline, with the controller deciding
/// and every rebalance paid for.
///
/// iteration_ns = makespan (span without the global barrier) + gradient reduction + optimizer step
///              + decision and migration, where a rebalance follows the iteration
///
/// The gradient reduction is a ring over the links between nodes, 2 (D - 1) / D of the gradients of
/// the largest rank, and hides behind nothing.
#pragma once

#include "balance/balancer.h"
#include "balance/machine.h"
#include "balance/metrics.h"
#include "balance/policy.h"
#include "balance/ports.h"
#include "balance/timeline.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// One iteration as it was played. Arrays are borrowed for the call.
typedef struct sim_training_iteration {
    int iteration;
    int64_t iteration_ns;
    bal_metrics metrics;
    bool changed;    // the model had changed before it
    bool rebalanced; // the plan changed behind it
    int moved_layer_count;
    int64_t moved_bytes;
    int64_t migration_ns;
    const int *first_layer;       // [stage_count * chunk_count + 1] in force during it; NULL for a
                                  // balancer without stages
    const bal_timeline *timeline; // NULL unless asked for
    const bal_stage_costs *costs; // with timeline
} sim_training_iteration;

/// Where the iterations of a replay go.
typedef struct sim_training_sink {
    void *context;
    bool (*wants_timeline)(void *context, int iteration); // NULL: never
    status (*put)(void *context, const sim_training_iteration *iteration, error_message *err);
} sim_training_sink;

typedef struct sim_training {
    bal_cost_source source;
    bal_machine machine; // rank_count is the number of stages
    int iteration_count;
    int microbatch_count; // M; a source with another number of columns is cycled through
    int chunk_count;      // 0: the schedule's own
    const char *schedule;
    bool post_validation; // no global barrier at the step: the span counts
    int data_parallel;    // replicas D >= 1 that reduce their gradients after each iteration
    int gradient_bytes;   // of one parameter in that reduction
    int64_t optimizer_step_ns;
    int64_t decision_ns; // of every decision, whether or not layers move
    double change_ratio; // see bal_change_detector
    const bal_balancer *balancer;
    bal_weight weight;
    bal_policy policy;
    sim_training_sink sink; // put may be NULL
} sim_training;

/// Sums over the run. first and last are iterations 0 and iteration_count - 1.
typedef struct sim_training_result {
    bool executable;      // false: loads only; no times but the imbalance
    int64_t total_ns;     // sum of iteration_ns
    int64_t pipeline_ns;  // of it: makespan or span
    int64_t decision_ns;  // of it: decisions
    int64_t migration_ns; // of it: migration
    bal_metrics first;
    bal_metrics last;
    double bubble_ratio;    // over the run: 1 - sum of busy / (ranks * sum of makespan)
    double imbalance_ratio; // mean over the iterations
    int change_count;
    int decision_count;
    int rebalance_count; // decisions that changed the plan
    int64_t moved_layer_count;
    int64_t moved_bytes;
    int64_t bottleneck_ns;             // of the last plan, in the unit of the weight
    int64_t bottleneck_lower_bound_ns; // of the last decision
    int stage_count;                   // ranks x chunks
    const int *start_first_layer;      // [stage_count + 1], or NULL; from the arena
    const int *final_first_layer;
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
/// @param result arrays are carved from memory
/// @return STATUS_INVALID for a wrong count, a schedule rule broken, costs without a backward split
///         under a schedule that needs one, or sums (of an iteration's layers or over the run) that
///         do not fit int64; STATUS_INFEASIBLE if at some decision no plan fits the memory; what
///         the source or the sink returns.
///
/// Time O(iterations x ops) where loads change in every iteration. Owners of layers without stages
/// (`diffusion-published`, `diffusion-coded`) are followed in loads only.
status sim_training_replay(const sim_training *training, arena *memory, sim_training_result *result,
                           error_message *err);
