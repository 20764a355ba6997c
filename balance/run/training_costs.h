/// The loads of a training run: what the layers of every replica cost in the iteration at hand,
/// what a profiler would measure of it, and what the controller sees of all replicas: one plan
/// serves every replica and the slowest makes the iteration, so a layer counts with the largest of
/// what it costs in any of them.
#pragma once

#include "balance/costs/layer_costs.h"
#include "balance/run/training.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// What is merged. Zero-initialise, then fill by name.
typedef struct bal_replica_costs {
    int iteration;                   // that the messages of errors name
    const bal_layer_costs *replicas; // [replica_count], of the same layers
    int replica_count;
    int column_count; // of the result: 1, for which rows of several columns count with their mean,
                      // or the columns that all replicas have
    const double *rank_time_factor; // [rank of the machine] or NULL: no rank is slow. Of costs that
                                    // were measured on slow ranks NULL, too
    const int *rank_of_layer;       // [layer_count] rank of the machine, or NULL: not placed yet
} bal_replica_costs;

/// Merges them: times are means over the microbatches, rounded to the nearest, made longer by the
/// factor of the rank and at most INT64_MAX / 4 then, the largest over the replicas. Bytes,
/// parameters and reductions are the largest, NULL where no replica knows them; the rest is the
/// first replica's.
///
/// @param merged out: arrays are carved from memory
/// @return STATUS_INVALID if a time is negative or the times of a row do not fit int64. Time
/// O(replicas x layers x columns).
status bal_replica_costs_merge(const bal_replica_costs *costs, arena *memory,
                               bal_layer_costs *merged, error_message *err);

/// How the global batch is split.
typedef struct bal_batch {
    int microbatch_count; // of each of the D replicas of the start
    int played_count;     // of the replica with the most; fewer where there are further replicas
} bal_batch;

/// Filled by bal_training_costs_init.
typedef struct bal_training_costs {
    const bal_training *training;
    int layer_count;
    int replica_count; // sources: replicas whose loads differ
    int iteration;     // at hand; -1: none
    bool is_new;       // costs or speeds of ranks may be others than in the iteration before
    bool is_announced; // a source that announces changes of the model has announced one
    bal_batch batch;   // of the iteration
    bal_layer_costs *replicas; // [replica_count] of the iteration: one column or played_count
    bal_layer_costs *fetched;  // [replica_count] scratch: as the sources give them
    bal_costs_copy *copies; // [replica_count] of sources that announce changes of the model, and do
                            // not say whether numbers differ
    int *differing;         // [replica_count] iterations in which numbers differed unannounced
    double *rank_time_factor;   // [machine.rank_count] of the iteration, or NULL: no rank is slow
    double *time_factor_before; // [machine.rank_count] scratch, with rank_time_factor
    arena *column_memory;       // of the columns that are cycled through
    arena *measured_memory[2];  // of iteration at hand and of the one looked at ahead, in turns
    int measured_count;
} bal_training_costs;

/// @param memory that they live and end with
void bal_training_costs_init(bal_training_costs *costs, const bal_training *training,
                             arena *memory);

/// Fetches the costs of an iteration from every source. May be called again for the same iteration,
/// so that one can look ahead; its costs are then fetched only once, unless the batch is split
/// otherwise.
///
/// @param iteration not below the one at hand
/// @return what a source returns; STATUS_INVALID: layers without a backward split under a schedule
///         that needs one, other layers than the first source's, negative bytes, sums of them that
///         do not fit a quarter of int64
status bal_training_costs_fetch(bal_training_costs *costs, int iteration, bal_batch batch,
                                error_message *err);

/// Whether what is measured are a source's arrays, as it gave them.
bool bal_training_costs_borrow(const bal_training_costs *costs);

/// What the layers take as measured: on the rank that holds them, the largest over the replicas.
/// One replica keeps its columns; unlike ones are measured by their means over the microbatches.
///
/// @param rank_of_layer [layer_count] rank of the machine, or NULL: not placed yet, no rank is slow
/// @param measured      out: of the sources until the next fetch where they are borrowed,
///                      else until the call after the next
/// @return STATUS_INVALID if a time is negative or the times of a layer do not fit int64, where
///         they are not borrowed
status bal_training_costs_measure(bal_training_costs *costs, const int *rank_of_layer,
                                  bal_layer_costs *measured, error_message *err);

/// What the layers will take in the iteration after the one at hand, as measured then under the
/// plan in force, for controllers with foresight.
///
/// @param profile as measured of the one at hand
/// @param ahead   of the other, where it differs
/// @param next    out: one of them; NULL: there is no foresight, or nothing to come
/// @return as bal_training_costs_fetch and _measure
status bal_training_costs_look_ahead(bal_training_costs *costs, bal_batch batch,
                                     const int *rank_of_layer, const bal_layer_costs *profile,
                                     bal_layer_costs *ahead, const bal_layer_costs **next,
                                     error_message *err);
