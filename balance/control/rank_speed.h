/// Tells slow ranks from heavy layers.
///
/// A measured time is the product of a layer's load and its rank's time factor, and one iteration
/// does not tell them apart. A layer that has changed its rank does: what it takes there over what
/// it took before is the ratio of the two factors, once what all layers have in common, a longer
/// sequence or a warmer machine, is divided out by those that stayed. Every moved layer is one such
/// ratio between two ranks; together they are a graph of ranks, and factors are fitted to it by
/// least squares:
///
///     minimise  sum over moved layers of (s_to ratio - s_from)^2 / variance
///             + sum over ranks of (s - 1)^2 / 0.15^2,             s = 1 / factor
///
/// The second sum draws ranks without evidence to 1. Ratios cannot tell a slow rank from fast
/// others, so in every connected part of the graph the median factor is 1 (the smaller of two
/// middle ones). Factors that differ from 1 by no more than the noise of the measurements are 1.
/// The variance is estimated from layers that stay.
#pragma once

#include "balance/costs/layer_costs.h"
#include "balance/ports.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// One layer that changed its rank.
typedef struct bal_speed_evidence {
    int from; // machine ranks; -1: forgotten
    int to;
    double ratio;    // of its time after to before, without what all layers have in common
    double variance; // of the ratio; shrinks as iterations on the new rank are seen
} bal_speed_evidence;

/// Filled by bal_rank_speed_init; one object for one run.
typedef struct bal_rank_speed {
    int rank_count; // of the machine
    int layer_count;
    int iteration_count;          // seen so far
    int *rank_of_layer;           // [layer_count] as last seen
    double *level_ns;             // [layer_count] mean of what it took on this rank
    int *level_count;             // [layer_count] iterations in the mean
    double *share;                // [layer_count] scratch: time over level
    double noise2;                // relative variance of one measurement
    int event_age;                // iterations since layers last moved; -1: never
    double *before_ns;            // [layer_count] levels before that
    double *before_variance;      // [layer_count] relative
    int *event_from;              // [layer_count] rank before that; -1: it stayed
    double *after_sum;            // [layer_count] moved: times since, over what is common
    int *event_row;               // [layer_count] moved: row of its evidence
    bal_speed_evidence *evidence; // [evidence_max] ring
    int evidence_max;
    int evidence_count;  // rows in use
    int evidence_next;   // row that is written next
    double *speed;       // [rank_count] s of the last fit
    double *scratch;     // [4 * rank_count] of the fit
    int *part;           // [rank_count] connected part of the graph: its smallest rank
    int64_t *factor_ppb; // [rank_count] parts per 10^9
    bool is_uniform;     // all factors are 1
} bal_rank_speed;

/// Carves the arrays from memory.
void bal_rank_speed_init(bal_rank_speed *speed, int rank_count, int layer_count, arena *memory);

/// Learns from an iteration. Call for every one, in order.
///
/// Layers that jump on the spot are no evidence; where all of a rank's layers do, what was known of
/// the rank is forgotten, as its speed may be what has changed.
///
/// @param times         as measured
/// @param rank_of_layer [layer_count] machine rank that held each layer
/// Time O(layers log layers); for 16 iterations after layers have moved also the fit: conjugate
/// gradients, O(min(4 ranks, 200) * (evidence + ranks)).
void bal_rank_speed_observe(bal_rank_speed *speed, const bal_layer_times *times,
                            const int *rank_of_layer);

/// Time factors of the machine's ranks, parts per 10^9; NULL: all 1.
const int64_t *bal_rank_speed_factors_ppb(const bal_rank_speed *speed);

/// Divides times by the factors of the ranks that they were measured on.
void bal_rank_speed_correct(const bal_rank_speed *speed, const int *rank_of_layer,
                            bal_layer_times *times);

/// The context of the evaluator. Everything is borrowed as long as it is asked.
typedef struct bal_speed_evaluator {
    const bal_evaluator *inner;     // plays layers as they are given
    const int64_t *rank_factor_ppb; // [ranks of the machine] parts per 10^9
    arena *memory;                  // scratch: reset by every call
} bal_speed_evaluator;

/// Multiplies the times of each layer by the factor of the rank that the plan puts it on, rounded
/// half up, and asks the inner evaluator; for another number of microbatches where that can.
///
/// Its calls return STATUS_INVALID if a time then does not fit int64, and what
/// the inner one returns. Time O(layers x microbatches) and the inner one's.
bal_evaluator bal_speed_evaluator_of(bal_speed_evaluator *context);
