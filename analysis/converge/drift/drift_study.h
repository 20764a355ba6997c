/// Drift against rounds: the curve, the bound beside it, the smallest budget, and what whole layers
/// leave.
#pragma once

#include "analysis/converge/drift/drift.h"
#include "analysis/shards/spread.h"
#include "base/json.h"
#include "base/text.h"
#include "traces/store/store.h"

#include <stdbool.h>
#include <stdint.h>

enum { ANA_DRIFT_POINTS_MAX = 64, ANA_DRIFT_FLOORS = 4, ANA_COURSE_TIMES_MAX = 1 << 26 };

typedef struct ana_drift_study {
    ana_drift_question question; // all but shape, drift and round_count, which the points vary
    const char *trace;           // its name; NULL: drifts without a course
    int64_t rounds[ANA_DRIFT_POINTS_MAX];
    int round_option_count;
    double drifts[ANA_DRIFT_POINTS_MAX]; // without a course
    int drift_count;
    double tolerance; // of tracked_max
} ana_drift_study;

/// What whole layers leave: a discrete balancer on the layers of every sample of a course.
typedef struct ana_drift_floor {
    const char *balancer;
    double gap_mean; // (max - min) of the stage loads in units of their mean, over the samples
    double gap_max;
    double imbalance_mean; // max in units of the mean
    double imbalance_max;
    double moved_mean; // layers that change their stage from sample to sample
} ana_drift_floor;

typedef struct ana_drift_result {
    int point_count;
    ana_drift_point *points; // by shape, then drift, then rounds; of a course by rounds
    double *drift;           // [point_count] what was asked for; of a course 0
    bool has_budget;         // of a course: the fewest rounds within the tolerance
    ana_drift_point budget;
    ana_drift_point exact; // of a course: balanced without remainder after every iteration
    ana_drift_floor floors[ANA_DRIFT_FLOORS]; // of a course
} ana_drift_result;

/// Reads F + B + W of one microbatch, the mean over them, of every sample in a range of iterations.
///
/// @param trace       as trace_find
/// @param first, last iterations, both included
/// @param course out: arrays are from memory
/// @return as trace_find and the reader; STATUS_INVALID for fewer than two samples, more than
///         ANA_COURSE_TIMES_MAX times, or an iteration that takes no time at all
status ana_layer_course_read(trace_store *store, const char *trace, int first, int last,
                             arena *memory, ana_layer_course *course, error_message *err);

/// The balancers even, partition, diffusion, and diffusion-published, which goes on from where it
/// was; each decides from the very times that are then executed.
///
/// @param memory for scratch
/// @param floors [ANA_DRIFT_FLOORS] out
/// @return STATUS_INVALID if the layers do not make that many stages
status ana_drift_floors(const ana_layer_course *course, int stage_count, arena *memory,
                        ana_drift_floor *floors, error_message *err);

/// Arrays are from memory.
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
