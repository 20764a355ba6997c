/// The section `uncertainty` of a study: what is not known, and how often it is drawn.
///
///   "uncertainty": {"draws": 128, "seed": 1, "assumed": true, "model_error": 0.1,
///                   "ranges": {"hardware.efficiency.gemm": [0.5, 0.7],
///                              "cluster.links.inter.latency_ns": {"factor": [0.5, 4]},
///                              "training.decision_ns": {"log": [1000, 1000000]}},
///                   "calibration": "fitted.json"}
#pragma once

#include "base/json.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum ana_distribution {
    ANA_UNIFORM,     ///< every value from low to high is as likely
    ANA_LOG_UNIFORM, ///< every order of magnitude is; low > 0
    ANA_TRIANGULAR,  ///< mode is the likeliest, low and high are the ends
    ANA_NORMAL,      ///< 9 of 10 values lie from low to high; cut at 0.1 % and 99.9 %
    ANA_DISTRIBUTION_COUNT
} ana_distribution;

extern const char *const ana_distribution_names[ANA_DISTRIBUTION_COUNT];

typedef struct ana_range {
    ana_distribution distribution;
    bool is_factor;   // of the value that a point has
    double low, high; // low <= high; the same: certain
    double mode;      // of a triangle; low <= mode <= high
} ana_range;

/// Reads [low, high], uniform, {"log":[low, high]}, log-uniform, or {"factor":[low, high]},
/// uniform.
///
/// @return STATUS_FORMAT naming what is malformed: low above high, a factor below 0, log of what is
///         not above 0
status ana_range_read(json_value value, ana_range *range, error_message *err);

/// The value below which a share of unit in (0, 1) lies; 9 significant digits, so that it is the
/// same on every machine.
double ana_range_quantile(const ana_range *range, double unit);

enum {
    ANA_DRAWS_DEFAULT = 128,
    ANA_DRAWS_MIN = 20, // fewer have no 5 and 95 %
    ANA_DRAWS_MAX = 10000,
    ANA_RANGES_MAX = 64
};

/// A judgement, of which draws.c adds shares for what a point has: bars of 90 % then hold 87 to 100
/// % of the runs of the tables that `dynmo validate` ships.
#define ANA_MODEL_ERROR_DEFAULT 0.1
#define ANA_MODEL_ERROR_MAX 0.25

typedef struct ana_declared_range {
    const char *path;
    ana_range range;
    json_value place; // in the file, for messages
} ana_declared_range;

typedef struct ana_uncertainty {
    int draw_count; // 0: no error bars are asked for
    bool draws_are_given;
    uint64_t seed;
    int point_count;         // the best ones, which are drawn
    bool ranges_assumed;     // inputs that are assumed have the ranges of assumed_ranges.h
    const char *calibration; // path as written, or NULL
    double model_error;      // standard deviation, relative, of what the cost model says of a
                             // machine; where nothing was fitted
    ana_declared_range ranges[ANA_RANGES_MAX];
    int range_count;
} ana_uncertainty;

/// Reads the section; a missing one gives the defaults. What a hardware file says of links,
/// `hardware.links...`, may be named; it stands for the links in force.
///
/// @param uncertainty texts are borrowed from the document
/// @return STATUS_FORMAT naming what is malformed: unknown keys, a path that names nothing, a range
///         from high to low, numbers outside of their limits. uncertainty is then untouched.
status ana_uncertainty_read(json_value section, ana_uncertainty *uncertainty, error_message *err);

/// Refuses a number of draws that is neither 0 nor enough, from a file or an option.
status ana_uncertainty_check(const ana_uncertainty *uncertainty, error_message *err);

/// Draws fewer points, down to 8, and fewer times, down to 64, unless that is given, where runs are
/// long.
///
/// @param iteration_count of a run
void ana_uncertainty_limit(ana_uncertainty *uncertainty, int iteration_count);
