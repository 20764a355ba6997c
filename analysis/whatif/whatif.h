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

#include "analysis/whatif/correction.h"
#include "analysis/whatif/matrix.h"
#include "analysis/whatif/point.h"
#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

// The order of the points of a study, and which of them nothing beats in everything.

typedef enum ana_objective {
    ANA_OBJECTIVE_TIME, ///< of the whole training; tokens per second where tokens are not known
    ANA_OBJECTIVE_GPU_HOURS, ///< of the whole training
    ANA_OBJECTIVE_COST,      ///< of the whole training
    ANA_OBJECTIVE_MEMORY,    ///< of the fullest rank
    ANA_OBJECTIVE_COUNT
} ana_objective;

/// "time", "gpu-hours", "cost", "memory".
extern const char *const ana_objective_names[ANA_OBJECTIVE_COUNT];

/// What the objective wants to be small; INFINITY of a point that is refused, or has no price.
double ana_point_loss(const ana_point *point, ana_objective objective);

/// Filled by ana_standing_find, from an arena.
typedef struct ana_standing {
    int64_t *order; // [feasible_count] indices of points: best first, those of the same
                    // training as the reference before those of another one
    int64_t feasible_count;
    int64_t comparable_count; // of them: of the same training as the reference
    bool *is_pareto;          // [point_count] among its own kind of training
} ana_standing;

/// Orders the points by an objective; ties by time, then by their index.
///
/// A point is in the Pareto set if no other of the same training is at least as good in tokens per
/// second, time, GPU-hours, cost and peak memory, and better in one.
///
/// @param points    [point_count]
/// @param training  of the reference, see ana_point
///
/// Time O(n log n + n * size of the Pareto set).
void ana_standing_find(const ana_point *points, int64_t point_count, uint64_t training,
                       ana_objective objective, arena *memory, ana_standing *standing);

/// Whether two points that were played are the same in all that is told of them.
bool ana_points_are_alike(const ana_point *one, const ana_point *other);

/// The rank after those points from rank on that are like the one at rank, in all that is told of
/// them: values that make no difference, as balancers on one stage.
///
/// @param end rank at which to stop
int64_t ana_standing_alike_end(const ana_standing *standing, const ana_point *points, int64_t rank,
                               int64_t end);

// Points over draws of what is not known.

/// What every point costs in every draw: a time, GPU-hours, money. Less is better. All points of a
/// draw share the values of what is uncertain (common random numbers), so that differences within a
/// draw are differences of the points.
typedef struct ana_losses {
    const double *values; // [point_count][draw_count], > 0; INFINITY: does not fit in this draw
    int point_count;      // >= 1
    int draw_count;       // >= 1
} ana_losses;

/// 9 of 10 draws lie between low and high, half of them below middle.
typedef struct ana_error_bar {
    double low;    // 5 %
    double middle; // 50 %
    double high;   // 95 %
} ana_error_bar;

/// The interval of count >= 1 draws, INFINITY where so many draws are.
///
/// @param values  [count]
/// @param scratch [count] overwritten
/// Quantiles are interpolated between the two draws beside them (Hyndman & Fan, The American
/// Statistician 50 (1996), definition 7).
ana_error_bar ana_error_bar_of(const double *values, int count, double *scratch);

/// Where a point stands.
typedef struct ana_ranked {
    int point; // row of the losses
    int group; // from 1; those of a group are indistinguishable from its first
    double mean;
    ana_error_bar behind;    // of loss / best's loss in the same draw - 1
    double infeasible_ratio; // share of the draws in which it does not fit
    double best_probability; // share of the draws in which no other is better; ties share a draw
} ana_ranked;

/// Ranks the points by their mean; ties by their number. The first is recommended: no other
/// has a smaller expected loss.
///
/// A point is indistinguishable from another if the interval of the paired relative difference
/// holds 0. Group 1 is the best with all that are indistinguishable
/// from it; group 2 begins with the best of the others, and so on.
///
/// Each interval is of one pair, 90 %; of many equal points every tenth would be called different.
/// best_probability counts all points at once, and needs no correction for their number.
///
/// @param standings   [point_count] out, best first
/// Time O(point_count^2 * draw_count log draw_count) at worst, where every point is a group.
void ana_rank(const ana_losses *losses, arena *memory, ana_ranked *standings);

typedef struct ana_whatif_options {
    ana_objective objective;
    const char *calibration; // a table of runs beside the study's file; NULL: none
    double deadline_ns;      // of the whole training; 0: none
    double budget;           // in the study's currency; 0: none
    ana_framework framework; // that points must be exported to; else they are refused
} ana_whatif_options;

/// Filled by ana_whatif_open and what follows it; everything is carved from its arena.
typedef struct ana_whatif {
    const char *path; // of the study's file
    const char *text; // what is in it
    const char *title;
    ana_objective objective;
    double deadline_ns;                // points beyond it are refused when all are put; 0: none
    double budget;                     // the same
    ana_framework framework;           // points that it does not take are refused
    const ana_correction *calibration; // times of points are corrected by it; NULL: none
    bool is_beyond_calibration;        // no run of it was on the machine of the study as written
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

/// Probability that an item fits in memory, as ana_point_fits; 1 where memory is a trace's.
double ana_whatif_fits(const ana_whatif *study, int64_t item);

/// The changes of the matrix' base that make the study of an item, in place of what is in out.
void ana_whatif_changes(const ana_whatif *study, int64_t item, text_buffer *out);

/// Appends the study of an item.
status ana_whatif_text(const ana_whatif *study, int64_t item, text_buffer *out, error_message *err);

/// Points that differ in the last axes only share costs, splits and orders, which workers keep.
enum { ANA_NEIGHBOURS = 64 };

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
