/// How sure the answer of a what-if study is: the second pass, in which the points that matter are
/// played in every draw of what is not known.
#pragma once

#include "analysis/shards/spread.h"
#include "analysis/whatif/calibrated.h"
#include "analysis/whatif/delivery.h"
#include "analysis/whatif/drawn_points.h"
#include "analysis/whatif/draws.h"
#include "analysis/whatif/ranking.h"
#include "analysis/whatif/uncertainty.h"
#include "analysis/whatif/whatif.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// Which points of a study are worth drawing, by their times with the inputs as they are: the first
/// `detail` by the study's objective, as many others of the Pareto set, and the reference, unless
/// one of these is like it; all of the training of the reference.
typedef struct ana_screening {
    int64_t *items; // [count] of the study
    int64_t count;
    int64_t candidate_count; // of the training of the reference, each unlike the others
    double next_ratio;       // how far behind the best the best is that was not chosen; INFINITY:
                             // all were
} ana_screening;

enum { ANA_SOURCE_NAME_BYTES = 256 };

/// One drawn point, all of it over the draws.
typedef struct ana_sure_point {
    int64_t item; // of the study
    ana_ranked ranked;
    bool is_reference; // the study as written, or like it
    bool is_pareto;
    ana_error_bar iteration_ns;
    ana_error_bar per_second;
    ana_error_bar train_ns;  // 0: not asked
    ana_error_bar gpu_hours; // 0: not asked
    ana_error_bar cost;      // of points with a price
    ana_error_bar peak_memory_bytes;
    ana_delivery_range delivery;
} ana_sure_point;

/// What knowing a source first would be worth.
typedef struct ana_source_worth {
    int source;
    ana_choice_quality knowing;
} ana_source_worth;

typedef struct ana_certainty {
    const ana_whatif *study;
    const ana_uncertainty *uncertainty;
    const char *start_date; // of the training; NULL: not given
    ana_draws draws;
    ana_drawn_points drawn;
    ana_calibrated calibrated; // with a calibration
    ana_sure_point *points;    // [point_count] the recommended one first
    int point_count;
    int64_t candidate_count; // points of the study that could have been drawn
    int source_count;        // inputs of draws, then recorded variation, then the calibration
    double next_ratio;       // how far behind the best the best point is that was not drawn, with
                             // inputs as the study has them; INFINITY: all were drawn
    ana_choice_quality now;
    ana_source_worth *worth; // [source_count] those that reduce the regret most first
} ana_certainty;

/// Draws the points that matter of a study that is finished.
///
/// The points are chosen by screening.h; the others are not looked at again, and next_ratio says
/// how near the best of them comes.
///
/// @param certainty borrows study and uncertainty
/// @return STATUS_FORMAT for ranges that the study does not take or whose path an axis sets;
///         STATUS_INVALID if failures are given without checkpoint_s or restart_s; what spreading
///         and evaluation return
status ana_certainty_find(ana_spread *spread, const ana_whatif *study,
                          const ana_uncertainty *uncertainty, arena *memory,
                          ana_certainty *certainty, error_message *err);

/// "hardware.efficiency.gemm of h100-sxm", "recorded variation", "calibration".
void ana_certainty_source_name(const ana_certainty *certainty, int source,
                               char out[ANA_SOURCE_NAME_BYTES]);

/// Appends the sections "How sure", "What the error bars are made of" and "Goodput and delivery",
/// for people.
///
/// @param row_count points of the tables, besides the reference
void ana_certainty_print(const ana_certainty *certainty, int row_count, text_buffer *out);

/// Appends the section of what to measure first, for people.
void ana_certainty_print_worth(const ana_certainty *certainty, text_buffer *out);

/// Appends all of it as one JSON object.
void ana_certainty_write(const ana_certainty *certainty, json_writer *writer);
