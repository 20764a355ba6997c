/// How sure the answer of a what-if study is: the second pass, in which the points that matter are
/// played in every draw of what is not known.
#pragma once

#include "analysis/shards/spread.h"
#include "analysis/whatif/draws.h"
#include "analysis/whatif/whatif.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// The figures that have error bars.
typedef enum ana_bar {
    ANA_BAR_ITERATION_NS,
    ANA_BAR_RATE, // per_second of a point
    ANA_BAR_TRAIN_S,
    ANA_BAR_GPU_HOURS,
    ANA_BAR_COST,
    ANA_BAR_MEMORY_BYTES,
    ANA_BAR_COUNT
} ana_bar;

/// One drawn point, all of it over the draws.
typedef struct ana_sure_point {
    int64_t item; // of the study
    ana_ranked ranked;
    bool is_reference; // the study as written, or like it
    ana_error_bar bars[ANA_BAR_COUNT];
} ana_sure_point;

enum { ANA_SOURCE_NAME_BYTES = 256 };

/// What error bars are made of.
typedef struct ana_source {
    char name[ANA_SOURCE_NAME_BYTES]; // "hardware.efficiency.gemm of h100-sxm", "calibration"
    const ana_uncertain *input;       // NULL: the calibration
    double share; // of the variance of the first point's loss: the square of its correlation
} ana_source;

typedef struct ana_certainty {
    const ana_whatif *study;
    const ana_uncertainty *uncertainty;
    ana_draws draws;
    int beyond_count;       // points on machines that no run of the calibration used
    ana_sure_point *points; // [point_count] the recommended one first
    int point_count;
    ana_source *sources; // [source_count] of the first point: what is to be measured first first
    int source_count;
} ana_certainty;

/// Draws the points that matter of a study that is finished: the best ones by the study's
/// objective, of those that are alike one, and the reference, all of its training.
///
/// @param certainty borrows study and uncertainty
/// @return STATUS_FORMAT for ranges that the study does not take or whose path an axis sets;
///         what spreading and evaluation return
status ana_certainty_find(ana_spread *spread, const ana_whatif *study,
                          const ana_uncertainty *uncertainty, arena *memory,
                          ana_certainty *certainty, error_message *err);

/// Appends it for people.
///
/// @param row_count points of the tables, besides the reference
void ana_certainty_print(const ana_certainty *certainty, int row_count, text_buffer *out);

/// Appends it as a JSON object.
void ana_certainty_write(const ana_certainty *certainty, json_writer *writer);
