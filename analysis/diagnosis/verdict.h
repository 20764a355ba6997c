/// Gains with their intervals, whether dynamic balancing is worth it, and what to record where that
/// cannot be told.
#pragma once

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

enum { ANA_BOOTSTRAP_ROUNDS = 1000, ANA_BOOTSTRAP_COUNT_MIN = 20, ANA_BOOTSTRAP_BLOCKS_MIN = 5 };

/// A gain, and how far it could have come out otherwise on iterations like these.
typedef struct ana_gain_interval {
    double gain; // sum of the baseline over sum of the other, minus 1
    double low;  // of the interval; the gain itself where is_short
    double high;
    int block;     // iterations that are drawn together
    bool is_short; // too few iterations for an interval
} ana_gain_interval;

/// A moving-block bootstrap of paired iterations (Kuensch, Annals of Statistics 17 (1989);
/// circular: Politis & Romano (1992)): draws blocks of consecutive iterations, the same of both
/// runs, and takes quantiles of the gain. A block is as long as the first of the lags 1, 2, 4, ...
/// at which the differences of the two runs are not correlated any more (within 2 / sqrt(count)),
/// at least the cube root of count and at most a fifth of it.
///
/// @param baseline_ns [count] lengths of the iterations
/// @param other_ns    [count] of the same iterations; where their sum is 0 the gain is 0
/// @param tail        probability that is cut off at each end, in (0, 0.5)
/// @param interval    is_short where count is below ANA_BOOTSTRAP_COUNT_MIN
///
/// Time O(ANA_BOOTSTRAP_ROUNDS * count).
void ana_gain_interval_of(const int64_t *baseline_ns, const int64_t *other_ns, int count,
                          double tail, uint64_t seed, arena *memory, ana_gain_interval *interval);

typedef enum ana_verdict {
    ANA_VERDICT_WORTHWHILE,
    ANA_VERDICT_NOT_WORTHWHILE,
    ANA_VERDICT_UNDECIDABLE,
} ana_verdict;

/// Why; each decides alone where it holds, the first one first. An interval is below the threshold
/// if its high end is, above it if its low end is.
typedef enum ana_ground {
    ANA_GROUND_UNIFORM,       ///< undecidable: measured, and all layers alike to the ns
    ANA_GROUND_SHORT,         ///< undecidable: too few iterations for an interval
    ANA_GROUND_STAGES,        ///< undecidable: stages were recorded, not the layers in them
    ANA_GROUND_PROVEN,        ///< not worthwhile: no contiguous plan can gain the threshold
    ANA_GROUND_NOISE,         ///< not worthwhile: no row gains it; only noise is left
    ANA_GROUND_ONE_SPLIT,     ///< not worthwhile: no row gains it over the best split that is kept
    ANA_GROUND_STATE_UNKNOWN, ///< undecidable: it would be, but for bytes to move that are not
                              ///< known
    ANA_GROUND_GAIN,          ///< worthwhile: the low end of the best row's gain exceeds it
    ANA_GROUND_INTERVAL,      ///< undecidable: the best row's interval includes the threshold
    ANA_GROUND_COUNT
} ana_ground;

/// What the verdict looks at. Gains are over the better of `even` and `tuned`, where nothing else
/// is said.
typedef struct ana_evidence {
    double threshold_ratio; // the gain from which it is worth the trouble
    bool is_uniform;        // measured, and in no iteration do transformer layers differ
    bool is_of_stages;      // not more layers than stages, of a trace: there is one split only
    bool knows_state;       // bytes that a migration moves
    ana_gain_interval best; // of the rows that were played
    ana_gain_interval best_over_kept; // of the same row over the best split that is kept
    ana_gain_interval bound;          // proven: any contiguous plan, any schedule that splits alike
} ana_evidence;

typedef struct ana_judgement {
    ana_verdict verdict;
    ana_ground ground;
} ana_judgement;

ana_judgement ana_judge(const ana_evidence *evidence);

/// "worthwhile", "not worthwhile", "undecidable".
const char *ana_verdict_name(ana_verdict verdict);

/// One word for programs: "uniform", "short", ...
const char *ana_ground_name(ana_ground ground);

/// Iterations like these after which the interval of the best row would probably leave the
/// threshold: its half gets smaller with the root of their number. At most INT32_MAX.
int64_t ana_iterations_to_decide(const ana_evidence *evidence, int count);
