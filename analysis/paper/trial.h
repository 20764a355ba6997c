/// One study of the paper played with other values at some of its places: what experiments are made
/// of.
#pragma once

#include "balance/run/training.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { ANA_TRIAL_ROWS_MAX = 16, ANA_TRIAL_LABEL_BYTES = 64 };

/// What an experiment keeps of a row of a comparison.
typedef struct ana_trial_row {
    char label[ANA_TRIAL_LABEL_BYTES];
    bool is_dynamic;            // its plan may change after the start
    bool is_played;             // a plan fits, and it has times; else nothing below means anything
    bal_training_result result; // its arrays are gone
    int64_t unpacked_ns;        // the length of the run without re-packing; 0: it does not re-pack
} ana_trial_row;

typedef struct ana_trial {
    ana_trial_row rows[ANA_TRIAL_ROWS_MAX]; // [row_count] as the study lists them
    int row_count;
    int iteration_count;
    int64_t still_even_ns;      // `even` without the study's case of dynamism; 0: not played
    int64_t bound_ns;           // proven: no contiguous plan and no schedule makes the run shorter
    int64_t reduction_bound_ns; // nor exposes less of the reduction of gradients on top
    int64_t work_ns;            // a rank's share of one replica's compute, over the run
} ana_trial;

/// Plays a shipped study of the paper.
///
/// @param study   of ana_paper_studies (asserted)
/// @param changes [change_count] JSON objects of paths and values as json_change takes them,
///                applied one after the other; an entry may be NULL: nothing
/// @return what study, costs and replay return; STATUS_INVALID if the sums do not fit int64
status ana_trial_play(const char *study, const char *const *changes, int change_count,
                      ana_trial *trial, error_message *err);

/// The row of a label if it was played, else NULL. "static": the fastest of those that the paper
/// calls static, even and both versions of parameters.
const ana_trial_row *ana_trial_find(const ana_trial *trial, const char *label);

/// The fastest dynamic row that does not re-pack; NULL if none was played.
const ana_trial_row *ana_trial_best_dynamic(const ana_trial *trial);

/// Time that profiling, deciding and migrating added to the run.
int64_t ana_trial_overhead_ns(const ana_trial_row *row);
