/// Drift against rounds: the curve, the bound beside it, the smallest budget, the floor.
#pragma once

#include "analysis/converge/drift.h"
#include "analysis/converge/drift_floor.h"
#include "base/json.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum { ANA_DRIFT_POINTS_MAX = 64 };

typedef struct ana_drift_study {
    ana_drift_question question; // all but shape, drift and round_count, which the points vary
    const char *trace;           // its name; NULL: drifts without a course
    int64_t rounds[ANA_DRIFT_POINTS_MAX];
    int round_option_count;
    double drifts[ANA_DRIFT_POINTS_MAX]; // without a course
    int drift_count;
    double tolerance; // of tracked_max
} ana_drift_study;

typedef struct ana_drift_result {
    int point_count;
    ana_drift_point *points; // by shape, then drift, then rounds; of a course by rounds
    double *drift;           // [point_count] what was asked for; of a course 0
    bool has_budget;         // of a course: the fewest rounds within the tolerance
    ana_drift_point budget;
    ana_drift_point exact; // of a course: balanced without remainder after every iteration
    ana_drift_floor floors[ANA_DRIFT_FLOORS]; // of a course
} ana_drift_result;

/// Collective; complete on the leader. Arrays are from memory.
///
/// @return as ana_drift_measure, ana_drift_floors, ana_spread_run
status ana_drift_study_run(const ana_drift_study *study, ana_spread *spread, arena *memory,
                           ana_drift_result *result, error_message *err);

void ana_drift_append(const ana_drift_study *study, const ana_drift_result *result,
                      text_buffer *out);
void ana_drift_write(const ana_drift_study *study, const ana_drift_result *result,
                     json_writer *writer);

/// Draws what is left after the rounds, measured and bound: of a course against the rounds per
/// iteration, else against the drift, a pair of lines per number of rounds.
///
/// @param svg as ana_plot
status ana_drift_draw(const ana_drift_study *study, const ana_drift_result *result,
                      text_buffer *svg, error_message *err);
