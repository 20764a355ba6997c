/// What came out of a study under each of its balancers, side by side: for people and for programs.
#pragma once

#include "analysis/compare/course.h"
#include "analysis/compare/factors.h"
#include "analysis/compare/splits.h"
#include "analysis/study/setup.h"
#include "balance/run/training.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum { ANA_QUANTILE_COUNT = 4 };

/// 0.05, 0.5, 0.95 and 1.
extern const double ana_quantile_shares[ANA_QUANTILE_COUNT];

/// The outcome under one balancer and policy.
typedef struct ana_row {
    const ana_balancing *balancing;
    status outcome; // STATUS_INFEASIBLE: no plan fits; message says why
    char message[256];
    bal_training_result result; // if outcome is STATUS_OK
    ana_course course;
    ana_splits splits;
    int64_t iteration_quantile_ns[ANA_QUANTILE_COUNT]; // of lengths of iterations
    int64_t iteration_mean_ns;                         // total / iterations
    double per_second;       // tokens (or microbatches) per second, all replicas
    double relative_to_even; // per_second over that of `even`; 0: no such row
    double relative_to_tuned;
    int64_t informed_ns[BAL_INFORMATION_COUNT]; // the length of the run under the same policy with
                                                // other information; 0: not played
    int64_t unpacked_ns; // without re-packing; 0: it does not re-pack, or no plan fits
    ana_factors factors; // all 0 for a row that keeps its plan
} ana_row;

typedef struct ana_comparison {
    const ana_setup *setup;
    const ana_row *rows;   // [study->balancing_count]
    int64_t still_even_ns; // `even` without the study's case of dynamism; 0: not played
    int64_t even_ns;       // `even` and `tuned`, whether or not they are rows; 0: not played
    int64_t tuned_ns;
} ana_comparison;

/// True if the plan of the row may change after the start.
bool ana_balancing_is_dynamic(const ana_balancing *balancing);

/// True if something is drawn or disturbed, or a step may be taken back, so that iterations differ
/// without their loads.
bool ana_study_is_disturbed(const ana_study *study);

/// The largest memory of a rank over the run, in bytes.
int64_t ana_row_peak_bytes(const ana_row *row, const ana_setup *setup);

/// Derives the mean iteration and the throughput of a row from its result.
void ana_row_rate(ana_row *row, const ana_setup *setup);

/// Appends the comparison as a table for people; ends with the inputs counted by origin.
void ana_comparison_print(const ana_comparison *comparison, text_buffer *out);

/// Appends every decision of a row, one line each.
///
/// @param label of the row; "all" means every row whose plan may change
void ana_comparison_print_decisions(const ana_comparison *comparison, const char *label,
                                    text_buffer *out);

/// Appends the comparison as one JSON object ("dynmo-simulation/1").
void ana_comparison_write(const ana_comparison *comparison, text_buffer *out);
