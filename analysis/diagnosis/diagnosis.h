/// Is dynamic balancing worth anything for this run? Everything that the answer rests on.
#pragma once

#include "analysis/compare/compare.h"
#include "analysis/diagnosis/data_imbalance.h"
#include "analysis/diagnosis/expert_imbalance.h"
#include "analysis/diagnosis/iteration_series.h"
#include "analysis/diagnosis/verdict.h"
#include "analysis/study/setup.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct ana_diagnosis_options {
    double threshold_ratio;    // gain over the better of `even` and `tuned` from which balancing
                               // is worth it
    double tail_probability;   // that an interval leaves out at each end
    uint64_t seed;             // of the bootstrap
    int64_t layer_state_bytes; // of every layer where the trace does not say; 0: not given
    ana_known_lengths lengths; // where ops say more of microbatches than costs of layers do
} ana_diagnosis_options;

/// 1 %, 95 % of both sides, seed 1, no bytes.
ana_diagnosis_options ana_diagnosis_options_default(void);

/// What a row that was played takes, beside the baseline.
typedef struct ana_row_gain {
    const ana_row *row;
    int64_t total_ns;           // over the series; migration, decisions and profiling weighed down
                                // to one iteration of the run in spacing
    int64_t overhead_ns;        // of it, these three
    ana_gain_interval interval; // of its gain over the baseline; all 0 where it was not played
} ana_row_gain;

/// What is to be mended first.
typedef enum ana_mend {
    ANA_MEND_NOTHING, ///< neither gains the threshold, or it is not known
    ANA_MEND_DATA,    ///< microbatches of unlike length
    ANA_MEND_LAYERS,  ///< the split, or when it changes
    ANA_MEND_COUNT
} ana_mend;

/// "nothing", "data", "layers".
extern const char *const ana_mend_names[ANA_MEND_COUNT];

typedef struct ana_diagnosis {
    const ana_setup *setup; // of the series
    ana_diagnosis_options options;
    const ana_series *series;
    double spacing;   // iterations of the run that one of the series stands for
    bool has_columns; // microbatches apart
    ana_comparison comparison;
    const ana_row_gain *rows; // [study->balancing_count] in the order of the study
    int baseline;             // row of the better of `even` and `tuned`, which gains are over
    int best;                 // row that gains most, of those whose plan may change; -1: none fits
    ana_evidence evidence;
    const int *kept_first_layer;  // [stage_count + 1] the best split that is kept
    ana_gain_interval kept;       // of it, known beforehand
    ana_expert_imbalance experts; // of a run whose tokens were counted
    ana_data_imbalance data;
    ana_gain_interval alike; // of microbatches that all cost the same, under the baseline's plan
    ana_mend mend;           // the larger gain
    ana_judgement judgement;
} ana_diagnosis;

/// The rows that are played, as the "balancing" of a study.
extern const char ana_diagnosis_rows[];

/// Diagnoses the run of a study that was opened, whose rows must be ana_diagnosis_rows.
///
/// The setup's costs are replaced by the series of its samples.
///
/// @param step      told of every iteration that is replayed, or NULL
/// @param memory    everything that the diagnosis points to
/// @param diagnosis untouched on failure
/// @return STATUS_UNSUPPORTED for schedules of more than one chunk, or replicas with loads of their
///         own; what reading and replaying return
status ana_diagnose(ana_setup *setup, const ana_diagnosis_options *options,
                    void (*step)(void *context), void *step_context, arena *memory,
                    ana_diagnosis *diagnosis, error_message *err);

/// Appends the page for people, or one JSON object ("dynmo-diagnosis/1").
///
/// @param trace_path of the store as the reader calls it, for commands; NULL: of counts
void ana_diagnosis_print(const ana_diagnosis *diagnosis, const char *trace_path, text_buffer *out);
void ana_diagnosis_write(const ana_diagnosis *diagnosis, text_buffer *out);
