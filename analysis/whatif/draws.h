/// The uncertain inputs of a study, and their values in every draw.
///
/// Each input is drawn by its own stream of random numbers, stratified (Latin hypercube: of n draws
/// one lies in each n-th of the range; McKay, Beckman & Conover, Technometrics 21 (1979)). A draw
/// has the same values at all points: a range is of the value itself, or a factor of what a point
/// has. What belongs to a kind of GPU is an input for each kind, drawn independently.
#pragma once

#include "analysis/study/setup.h"
#include "analysis/whatif/point.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

// The section `uncertainty` of a study: what is not known, and how often it is drawn
// (uncertainty.c).
//
//   "uncertainty": {"draws": 128, "seed": 1, "assumed": true, "model_error": 0.08,
//                   "ranges": {"hardware.efficiency.gemm": [0.5, 0.7],
//                              "cluster.links.inter.latency_ns": {"factor": [0.5, 4]},
//                              "training.decision_ns": {"log": [1000, 1000000]}},
//                   "calibration": "runs.csv"}

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

/// The value below which a share of unit in (0, 1) lies; 9 significant digits, so that it is the
/// same on every machine.
double ana_range_quantile(const ana_range *range, double unit);

enum {
    ANA_DRAWS_DEFAULT = 128,
    ANA_DRAWS_MIN = 20, // fewer have no 5 and 95 %
    ANA_DRAWS_MAX = 10000,
    ANA_RANGES_MAX = 64
};

/// A judgement, of which draws.c adds shares for what a point has: bars of 90 % then hold 83 to 100
/// % of the runs of the tables that `dynmo validate` ships, but for those of software that is
/// older.
#define ANA_MODEL_ERROR_DEFAULT 0.08
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
    bool ranges_assumed;     // inputs that are assumed have the ranges of assumed_ranges.c
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

// What is drawn.

enum { ANA_UNCERTAIN_MAX = 256 };

typedef struct ana_uncertain {
    const char *path;  // in the study
    const char *scope; // the kind of GPU, what the cost model misjudges or the measurement that has
                       // it; NULL: all points
    bool is_model_error; // multiplies times, and is no value of the study
    ana_range range;
    double min, max; // values are cut to them
    bool is_integer;
    const char *unit;   // "" where it has none or is not known
    const char *reason; // why it is uncertain; NULL: the study declares it
    double nominal_min; // of the points' own values; NAN: none is known
    double nominal_max;
} ana_uncertain;

/// A point that is drawn.
typedef struct ana_drawn_point {
    double *nominal; // [ANA_UNCERTAIN_MAX] the point's own value; of a model error the power that
                     // the drawn factor has at this point; NAN: not known
    bool *has;       // [ANA_UNCERTAIN_MAX] whether the input is one of this point
    const char *unranged; // names of what is assumed at this point and has no range, with commas
} ana_drawn_point;

typedef struct ana_draws {
    const ana_uncertainty *uncertainty;
    arena *memory;
    ana_uncertain inputs[ANA_UNCERTAIN_MAX];
    int input_count;
    ana_drawn_point *points; // [point_count]
    int point_count;
    double *values; // [input_count][draw_count] values or factors, from ana_draws_make
} ana_draws;

/// @param draws borrows uncertainty and memory
/// @param point_capacity points that may be added
void ana_draws_init(const ana_uncertainty *uncertainty, int point_capacity, arena *memory,
                    ana_draws *draws);

/// Adds a point, and what is uncertain at it that has not been at those before.
///
/// @param setup of the point's study, open
/// @return STATUS_FORMAT if a factor is declared of what the point has no number for;
///         STATUS_INVALID if there are more than ANA_UNCERTAIN_MAX inputs
status ana_draws_add_point(ana_draws *draws, const ana_setup *setup, error_message *err);

/// Tries the ends of every declared range at the first point, so that what a study does not take is
/// refused before anything is drawn; learns which inputs are whole numbers.
///
/// @param text of the point
/// @return STATUS_FORMAT naming the range and what the study says of it
status ana_draws_check(ana_draws *draws, ana_point_worker *worker, const char *name,
                       const char *text, error_message *err);

/// Draws the values.
void ana_draws_make(ana_draws *draws);

/// The value of an input in a draw at a point; its own value where it is not one of this point.
double ana_draws_value(const ana_draws *draws, int input, int point, int draw);

/// The factor of a draw on the times of a point: 1 but for the error of a cost model.
double ana_draws_time_factor(const ana_draws *draws, int point, int draw);

/// Appends the changes of the point's study in a draw, as json_change takes them.
void ana_draws_changes(const ana_draws *draws, int point, int draw, text_buffer *out);

// How far off a number may be that nobody has measured: the ranges that a study's assumed inputs
// have unless it declares others, and what measures an input (assumed_ranges.c).

/// What numbers of a kind are, and how their ranges are spread.
typedef struct ana_assumed_kind {
    ana_distribution distribution;
    bool is_of_hardware; // a property of the kind of GPU, not of the study; its range is a factor
    bool is_integer;
    double min, max; // what the study takes
    const char *unit;
} ana_assumed_kind;

/// A row of the table.
typedef struct ana_assumed_range {
    const char *path;  // in the study
    const char *input; // in the list of inputs, which says where the value comes from
    const ana_assumed_kind *kind;
    double low, high;
    const char *reason;
} ana_assumed_range;

/// The table; ends at a path of NULL.
extern const ana_assumed_range ana_assumed_ranges[];

/// Whether a range holds for what this study says: for what is assumed; of a link's rate also where
/// it is a preset, as a vendor prints what no message reaches.
bool ana_assumed_range_holds(const ana_assumed_range *row, const ana_setup *setup);

/// The value that a study has at the row's path.
double ana_assumed_range_value(const ana_assumed_range *row, const ana_setup *setup);

/// The command, or what else there is to do, that measures what is at path. Never NULL.
const char *ana_measurement_of(const char *path);
