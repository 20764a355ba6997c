/// Discrete balancers on layers drawn at random: how far from the best they end, how often, and
/// after how many transfers.
#pragma once

#include "analysis/converge/trials/sample_statistics.h"
#include "analysis/shards/spread.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/text.h"

#include <stdint.h>

enum {
    ANA_TRIAL_SIZES_MAX = 16,
    ANA_TRIAL_LAYERS_MAX = 4096,
    ANA_TRIAL_STAGES_MAX = 512,
    ANA_TRIAL_INSTANCES_MAX = 2000000, // of all cells together
};

/// Layers as dynamic models have them, drawn: one rule per family.
typedef struct ana_layer_family {
    const char *name;
    const char *rule; // how its layers are drawn, for people
    /// @param weight [layer_count] out: ns, > 0
    void (*draw)(rng *generator, int layer_count, int64_t *weight);
} ana_layer_family;

/// The table, in the order in which it is shown.
const ana_layer_family *ana_layer_families(int *count);

/// What is asked: every family with every number of layers and stages, stages <= layers.
typedef struct ana_trial_question {
    const ana_layer_family *family; // one, or NULL: all
    int layer_counts[ANA_TRIAL_SIZES_MAX];
    int layer_count_count;
    int stage_counts[ANA_TRIAL_SIZES_MAX];
    int stage_count_count;
    int chunk_count;    // >= 2: also the balancers of ranks with so many chunks, each rank as many
                        // stages, all chunks <= layers; 0 or 1: none
    int instance_count; // per cell
    uint64_t seed;
} ana_trial_question;

/// One balancer on one cell, or on all of them. It starts from the even split. The load of a rank
/// of several chunks is that of all of them.
typedef struct ana_trial_row {
    const char *balancer;
    const ana_layer_family *family; // NULL: of all cells
    int layer_count;                // 0: of all cells
    int stage_count;                // ranks, whatever their chunks
    ana_sample assignment_ratio;    // largest load / lower bound of any assignment
    ana_sample contiguous_ratio;    // largest load / contiguous optimum
    ana_sample transfers;           // per layer; 0 for balancers that go in one step
    int64_t worse_count;            // instances that end above the contiguous optimum
    double worse_low;               // 95 % interval of their share
    double worse_high;
    int64_t above_guarantee_count; // above (2 - 2/(P+1)) times the lower bound
} ana_trial_row;

/// Arrays are from the arena of the call.
typedef struct ana_trials {
    ana_trial_question question;
    int cell_count;
    int row_count;
    ana_trial_row *rows; // the rows of all cells first, then cell by cell
} ana_trials;

///
/// @return STATUS_INVALID if no cell has as many layers as chunks, or there are more instances than
///         ANA_TRIAL_INSTANCES_MAX; as ana_spread_run
status ana_trials_run(const ana_trial_question *question, ana_spread *spread, arena *memory,
                      ana_trials *trials, error_message *err);

void ana_trials_append(const ana_trials *trials, text_buffer *out);
void ana_trials_write(const ana_trials *trials, json_writer *writer);
