/// Fewer ranks, same work: when to release ranks of a pipeline, and how many.
#pragma once

#include <stdbool.h>

typedef enum bal_repack_kind {
    BAL_REPACK_NONE,
    BAL_REPACK_THROUGHPUT, ///< the fewest ranks that keep the iteration within a tolerance
    BAL_REPACK_GPU_TIME,   ///< the least ranks x iteration time within it
    BAL_REPACK_PUBLISHED,  ///< Algorithm 4 of the DynMo paper as printed
    BAL_REPACK_CODED,      ///< the same as its release does it
    BAL_REPACK_FIRST_FIT,
    BAL_REPACK_BEST_FIT,
    BAL_REPACK_ROUND_ROBIN,
    BAL_REPACK_HALVING, ///< PipeTransformer's
    BAL_REPACK_COUNT
} bal_repack_kind;

/// What released ranks are for.
typedef enum bal_released_use {
    BAL_RELEASED_RELEASE,   ///< given back
    BAL_RELEASED_REPLICATE, ///< another replica of the pipeline; the global batch is held
    BAL_RELEASED_LEND,      ///< given to another job until load returns
    BAL_RELEASED_COUNT
} bal_released_use;

typedef struct bal_repack_options {
    bal_repack_kind kind;
    double tolerance_ratio;      // throughput, gpu-time: T(P') <= (1 + this) T(P)
    int rank_count_min;          // >= 1
    int rank_unit;               // ranks are released in multiples of this: 1, or ranks_per_node
    int target_rank_count;       // published, coded
    double load_threshold_ratio; // published: acts when all loads together are below this share of
                                 // the start's
    double grow_ratio; // load returned: grows only if the tolerance is missed by more than this
    bal_released_use use;
    bool chooses_microbatches; // after re-packing the number of microbatches may be re-chosen
} bal_repack_options;
