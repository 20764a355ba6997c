/// A what-if study from its file to its answer.
///
///   open      the matrix is made, its axes are checked value by value
///   evaluate  every point once, by workers, each with its own state, in any order
///   put       the results, in ascending order, on whoever leads
///   finish    order and Pareto set
///
/// The functions of evaluation have the form that work in items has, so that threads and processes
/// can share it.
#pragma once

#include "analysis/whatif/matrix.h"
#include "analysis/whatif/point.h"
#include "analysis/whatif/standing.h"
#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct ana_whatif_options {
    ana_objective objective;
    const char *calibration; // a file beside the study's; NULL: none
    double deadline_ns;      // of the whole training; 0: none
    double budget;           // in the study's currency; 0: none
} ana_whatif_options;

/// Filled by ana_whatif_open and what follows it; everything is carved from its arena.
typedef struct ana_whatif {
    const char *path; // of the study's file
    const char *text; // what is in it
    const char *title;
    ana_objective objective;
    double deadline_ns; // points beyond it are refused when all are put; 0: none
    double budget;      // the same
    const struct ana_calibration *calibration; // times of points are at its level; NULL: none
    ana_matrix matrix;
    int64_t item_count;   // the points that are taken and, after them, the study as written where
                          // it is none of them
    int64_t reference;    // item of the study as written; of the first point where that cannot be
                          // opened
    bool is_written;      // the reference is the study as written
    int64_t token_count;  // of the study as written
    int iteration_count;  // that are played of it
    bool is_modelled;     // its costs are a model's, not a trace's
    bool has_experts;     // that model
    const char *currency; // of its prices
    const char
        *beyond;       // in what it leaves the runs that the cost model was held to; "": in nothing
    ana_point *points; // [item_count] as far as they are put
    uint64_t training; // of the reference
    int64_t refusal_counts[ANA_REFUSAL_COUNT]; // points of the matrix by their outcome, from finish
    int64_t first_refused[ANA_REFUSAL_COUNT];  // the first of each
    ana_standing standing;
    arena *memory;
} ana_whatif;

/// Opens a study and checks every value of its axes, with the other axes at their first values,
/// before anything is played.
///
/// @param path for messages and for what the study names relative to it
/// @param study must stay where it is
/// @return as ana_matrix_open; STATUS_FORMAT and STATUS_UNSUPPORTED naming axis and value where a
///         study has not the form that is read; STATUS_INVALID where the objective is cost, or
///         there is a budget, and no price
status ana_whatif_open(const char *path, const char *text, const ana_whatif_options *options,
                       arena *memory, ana_whatif *study, error_message *err);

/// The number of an item in the matrix, which is the item; -1: it is the study as written and none
/// of the points.
int64_t ana_whatif_number(const ana_whatif *study, int64_t item);

/// The values of an item, of the study as written as far as the axes have them.
///
/// @param value [axis_count] out: index into the axis' values; -1: none of them
void ana_whatif_values(const ana_whatif *study, int64_t item, int *value);

/// The changes of the matrix' base that make the study of an item, in place of what is in out.
void ana_whatif_changes(const ana_whatif *study, int64_t item, text_buffer *out);

/// Appends the study of an item.
status ana_whatif_text(const ana_whatif *study, int64_t item, text_buffer *out, error_message *err);

/// What workers do; context is the ana_whatif, worker an ana_point_worker. They read it only.
///
/// @return as ana_point_evaluate, with the point's number in front of the message
status ana_whatif_evaluate(void *context, void *worker, int64_t item, text_buffer *result,
                           error_message *err);

/// Takes a result; context is the ana_whatif. Not from several threads.
///
/// @return as ana_point_read
status ana_whatif_put(void *context, int64_t item, const text_buffer *result, error_message *err);

/// Refuses points beyond the deadline or the budget, and orders the others, when all are put.
///
/// @return STATUS_INFEASIBLE if none is left, with the reason of most and the least that would do
status ana_whatif_finish(ana_whatif *study, error_message *err);

// A study for who has no file yet: the parallelism, the schedules and the splits that somebody
// would try first for a model on so many GPUs (study_draft.c).

/// Zero-initialise, then fill by name.
typedef struct ana_draft_options {
    const char *model;    // path or shipped name; written as it is
    const char *hardware; // path or shipped name; written as it is
    int gpu_count;
    bool has_fewer;            // fewer GPUs are tried, too: gpu_count is the most
    int64_t token_count;       // of the whole training; 0: not known
    int global_batch;          // sequences; 0: up to 4 million tokens, that replicas divide
    int sequence_length;       // 0: what the model can take, at most 8192
    double price_per_gpu_hour; // below 0: not known
    const char *currency;      // with a price
    const char *price_date;    // with a price
} ana_draft_options;

/// Writes the study, laid out to be edited. Axes:
/// - training.tensor_parallel: 1, 2, 4, 8 within a node, as far as they divide the model
/// - training.expert_parallel: 1, 2, 4, 8, as far as they divide the experts; not of a dense model
/// - pipeline.stages: 1 and powers of two up to the layers, 64 and the GPUs
/// - training.microbatch_size: 1, 2, 4
/// - cluster.gpus, with has_fewer: up to 8 counts of whole nodes; the batch is held within 5 %
/// - training.recompute: none, selective, full; training.sharding: optimizer, parameters
/// - training.dtype: bfloat16 and float8, where the hardware multiplies in both
/// - pipeline.schedule: 1f1b, zb-h1, zb-v, interleaved-1f1b with 2 to 8 chunks
/// - balancing: even, tuned
/// Replicas fill the cluster; the optimizer is sharded, replicas fill nodes, reductions hide behind
/// the backward sweep.
///
/// @return what the model's and the hardware's file refuse
status ana_study_draft(const ana_draft_options *options, text_buffer *out, error_message *err);
