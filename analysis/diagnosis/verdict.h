/// Whether dynamic balancing is worth it, by rules that README.md lists, and what to record where
/// that cannot be told.
#pragma once

#include "analysis/diagnosis/gain_interval.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum ana_verdict {
    ANA_VERDICT_WORTHWHILE,
    ANA_VERDICT_NOT_WORTHWHILE,
    ANA_VERDICT_UNDECIDABLE,
} ana_verdict;

/// Why; each decides alone where it holds, the first one first.
typedef enum ana_ground {
    ANA_GROUND_UNIFORM,       ///< undecidable: measured, and all layers alike to the ns
    ANA_GROUND_SHORT,         ///< undecidable: too few iterations for an interval
    ANA_GROUND_PROVEN,        ///< not worthwhile: no contiguous plan can gain the threshold
    ANA_GROUND_CLAIRVOYANT,   ///< not worthwhile: not even plans made with hindsight gain it
    ANA_GROUND_NOISE,         ///< not worthwhile: neither a row nor plans that follow the drift,
                              ///< known beforehand, gain it; only noise is left
    ANA_GROUND_ONE_SPLIT,     ///< not worthwhile: neither a row nor plans that follow the drift
                              ///< gain it over the best split that is kept
    ANA_GROUND_STATE_UNKNOWN, ///< undecidable: it would be, but for bytes to move that are not
                              ///< known
    ANA_GROUND_GAIN,          ///< worthwhile: the low end of the best row's gain exceeds it
    ANA_GROUND_INTERVAL,      ///< undecidable: the best row's interval includes the threshold
    ANA_GROUND_FORECAST,      ///< undecidable: no row gains it, following the drift would
    ANA_GROUND_COUNT
} ana_ground;

/// What the verdict looks at. Gains are over the better of `even` and `tuned`, where nothing else
/// is said.
typedef struct ana_evidence {
    double threshold_ratio; // the gain from which it is worth the trouble
    bool is_uniform;
    bool knows_state;
    ana_gain_interval best;            // of the rows that were played
    ana_gain_interval drift;           // plans of the iterations around each, moves for nothing
    ana_gain_interval best_over_kept;  // of the same row over the best split that is kept
    ana_gain_interval drift_over_kept; // of plans of the iterations around each, likewise
    ana_gain_interval clairvoyant;     // every iteration's own plan, moves for nothing
    ana_gain_interval bound; // proven: any contiguous plan, any schedule that splits alike
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
