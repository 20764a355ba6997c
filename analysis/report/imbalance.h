/// The imbalance that the DynMo paper speaks of, per iteration: c_l of the layers, their sum C, L_j
/// of the workers, and (max - min) / mean, over workers and over experts apart.
#pragma once

#include "analysis/study/setup.h"
#include "balance/costs/layer_costs.h"
#include "base/arena.h"
#include "base/status.h"
#include "traces/store/store.h"

#include <stdint.h>

/// Arrays are carved from the arena of the call.
typedef struct ana_imbalance {
    int iteration;
    int layer_count;
    const int64_t *layer_ns; // [layer_count] c_l: F + B + W of one microbatch, the mean over them;
                             // NULL: not known
    int64_t total_ns;        // C: of all layers, or of all workers where layers are not known
    int worker_count;
    const int64_t *worker_ns;  // [worker_count] L_j
    const int *first_layer;    // [worker_count + 1] layers of each worker; NULL: not known
    double load_spread_ratio;  // of the workers
    int expert_layer_count;    // layers with experts that were given tokens; 0: there are none
    double expert_spread_mean; // (max - min) / mean of the tokens of a layer's experts, the mean
                               // over those layers
    double expert_spread_max;  // of the layer with the largest
    const double
        *expert_spread; // [layer_count] of each layer; -1: no experts. NULL: there are none
} ana_imbalance;

/// Of layers under Megatron-LM's even split.
///
/// @param worker_count stages, each a worker
/// @return STATUS_INVALID if the layers cannot be split so
status ana_imbalance_of_costs(const bal_layer_costs *costs, int worker_count, arena *memory,
                              ana_imbalance *imbalance, error_message *err);

/// Of a study at an iteration, under the even split: c_l is the paper's, whatever the study's load
/// model, and experts are those of replica 0.
status ana_imbalance_of_study(const ana_setup *setup, int iteration, int worker_count,
                              arena *memory, ana_imbalance *imbalance, error_message *err);

/// Of the ranks of a recorded run in every recorded iteration of [first, last]: L_j is how long a
/// rank worked in all of its iteration, under the plan in force.
///
/// @param series      label of the row
/// @param imbalances  [*count] carved from memory
/// @return STATUS_INVALID naming the rows that there are, or what was recorded
status ana_imbalance_of_run(trace_store *store, const char *run, const char *series, int first,
                            int last, arena *memory, ana_imbalance **imbalances, int *count,
                            error_message *err);
