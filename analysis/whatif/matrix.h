/// The matrix of a what-if study: its axes, and the study that stands at each point.
///
///   "vary": {"pipeline.stages": [4, 8], "training.microbatch_size": [1, 2, 4]}
///       one axis for each path of a value; its values are of any JSON type
///   "alternatives": {"cluster": {"small": {"cluster.gpus": 256, "hardware": "a100-sxm-80gb"},
///                                "large": {"cluster.gpus": 512, "hardware": "h100-sxm"}}}
///       one axis for each name; a value sets several paths at once
///   "balancing": [ROW, ROW]
///       several rows are an axis by themselves, the last, unless another axis sets a path of them
///
/// Points are numbered from 0, the last axis running fastest. A point's study is the base with the
/// changes of its values, as json_change makes them.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum { ANA_AXES_MAX = 32, ANA_AXIS_VALUES_MAX = 4096, ANA_POINTS_MAX = 4000000 };

typedef struct ana_axis_value {
    const char *label;   // for people; unique in its axis
    const char *changes; // JSON object of paths and values, as json_change takes them
} ana_axis_value;

typedef struct ana_axis {
    const char *name; // a path, or the name of alternatives
    int value_count;
    ana_axis_value *values; // [value_count]
    int path_count;
    const char **paths; // [path_count] that its values set, some perhaps several times
    int base_value;     // index of the value that the base has; -1: none of them
    bool replaces;      // the base has something else at one of the paths
} ana_axis;

/// Filled by ana_matrix_open; everything is carved from its arena.
typedef struct ana_matrix {
    const char *name; // of the study's file, for messages
    const char *base; // the study without its axes, with one row of balancing
    ana_axis axes[ANA_AXES_MAX];
    int axis_count;
    int64_t point_count;
} ana_matrix;

/// Reads the axes of a study. Values are not looked at but for their number and their being
/// different.
///
/// Where the study has no row of balancing and no axis sets one, the row is `tuned`.
///
/// @param name, text the study's file and what is in it
/// @param matrix     untouched on failure
/// @return STATUS_FORMAT naming the axis: a path that names nothing (with the nearest one), no
///         axis or no value where some are announced, a value that is given twice, a path that two
///         axes set, or malformed text; STATUS_INVALID naming the number of points if they are too
///         many
status ana_matrix_open(const char *name, const char *text, arena *memory, ana_matrix *matrix,
                       error_message *err);

/// The values of a point.
///
/// @param value [axis_count] out: index into the axis' values
void ana_matrix_values(const ana_matrix *matrix, int64_t number, int *value);

/// The point of the study as written, if it is one of the matrix: on every axis a value that the
/// base has, too. -1: it is none.
int64_t ana_matrix_base_point(const ana_matrix *matrix);

/// The axis that sets this path, something below it or what is around it; NULL if none does.
const ana_axis *ana_matrix_axis(const ana_matrix *matrix, const char *path);

/// The changes of the base that make the study of a point, in place of what is in out.
///
/// @param value [axis_count], negative: what the study has there; or NULL: the study as written
void ana_matrix_changes(const ana_matrix *matrix, const int *value, text_buffer *out);
