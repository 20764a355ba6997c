/// Where the time of the slowest stage goes: an exact sum of what a better static split would save,
/// what following the drift would, what only knowing every iteration beforehand would, and what no
/// contiguous plan can.
///
/// The quantity is the bottleneck, the largest sum of layer times (F + B + W of one microbatch)
/// over the stages, added up over the iterations of a series. Memory, messages and migration do not
/// count here; the rows that are played have them.
#pragma once

#include "analysis/diagnosis/iteration_series.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// From worst to best. All but the first two are ordered for every series (README.md has the
/// proof): only `tuned`, which knows one iteration, can be worse than `even`.
typedef enum ana_level {
    ANA_LEVEL_EVEN,        ///< the same number of transformer layers in every stage
    ANA_LEVEL_TUNED,       ///< the exact optimum of the first iteration, kept
    ANA_LEVEL_STATIC,      ///< the best plan found that is kept over the whole run
    ANA_LEVEL_DRIFT,       ///< the exact optimum of the iterations around each one, itself left
                           ///< out, at the best of several widths; or STATIC where that is better
    ANA_LEVEL_CLAIRVOYANT, ///< every iteration's own exact optimum, moves for nothing
    ANA_LEVEL_ANY_OWNER,   ///< no assignment of layers to ranks is better, contiguous or not
    ANA_LEVEL_DIVISIBLE,   ///< every iteration's mean over the ranks: layers cut into pieces
    ANA_LEVEL_COUNT
} ana_level;

/// What lies between a level and the next one.
typedef enum ana_imbalance_part {
    ANA_SPLIT_STATIC,      ///< even to tuned; negative where tuned is worse over the run
    ANA_SPLIT_FIRST,       ///< tuned to static: the first iteration was not like the run
    ANA_SPLIT_DRIFT,       ///< static to drift
    ANA_SPLIT_NOISE,       ///< drift to clairvoyant
    ANA_SPLIT_CONTIGUITY,  ///< clairvoyant to any owner; what that bound misses is in it
    ANA_SPLIT_GRANULARITY, ///< any owner to divisible
    ANA_SPLIT_COUNT
} ana_imbalance_part;
_Static_assert(ANA_SPLIT_COUNT + 1 == ANA_LEVEL_COUNT, "a part between every two levels");

typedef struct ana_imbalance_split {
    int stage_count;
    int64_t level_ns[ANA_LEVEL_COUNT]; // sums over the series
    const int *even_first_layer;       // [stage_count + 1]
    const int *tuned_first_layer;      // [stage_count + 1]
    const int *static_first_layer;     // [stage_count + 1]
    int64_t static_lower_bound_ns;     // no plan that is kept has a smaller sum
    bool static_is_optimal;            // proven, by the bound or by trying all plans
    int drift_width;                   // samples on each side that DRIFT averages; 0: it is STATIC
    const int *drift_first_layer;      // [iterations][stage_count + 1] its plans
} ana_imbalance_split;

/// Splits the bottleneck of a series.
///
/// @param stage_count in [1, layer_count of the series]
/// @param memory      the plans are carved from it
/// @return STATUS_INVALID if `even` cannot have so many stages, or the times of all iterations do
///         not fit int64
///
/// Time O(iterations x log(iterations) x one exact partition), plus the search for the static
/// plan: O(iterations x stages) for each of its steps.
status ana_imbalance_split_of(const ana_series *series, int stage_count, arena *memory,
                              ana_imbalance_split *split, error_message *err);

/// What lies between a level and the next, in ns over the series.
int64_t ana_imbalance_part_ns(const ana_imbalance_split *split, ana_imbalance_part part);

/// Improves a plan that is kept over a whole run, until moving no single cut by one layer makes it
/// better, or flatter; where there are few plans, all of them are tried. Unlike one iteration's
/// plan it is no chain to be cut: which stage is slowest changes.
///
/// @param first_layer [stage_count + 1] in: a plan without empty stages; out: the best one found
/// @param sum_ns      out: its bottleneck, added up over the series
/// @param is_optimal  out: all plans were tried
///
/// Time O(iterations x stages) for each step.
void ana_static_plan_improve(const ana_series *series, int stage_count, arena *memory,
                             int *first_layer, int64_t *sum_ns, bool *is_optimal);
