/// Exact partitioning for ranks of two chunks where more counts than the largest load: a dynamic
/// program over the places that a load leaves to both rows. partition_pairs.h is the entrance.
#pragma once

#include "balance/partition/pair_rows.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

typedef enum bal_pair_value {
    BAL_PAIR_ANY,         ///< nothing: is there a plan?
    BAL_PAIR_SQUARES,     ///< the sum of the ranks' squared loads
    BAL_PAIR_MOVED_BYTES, ///< state bytes of the layers that are on another rank now
} bal_pair_value;

/// What is minimised over the plans with every rank's load within load_max. Of a loop only plans
/// with the rows' middle are asked for.
typedef struct bal_pair_question {
    const bal_pair_rows *rows;
    bal_pair_value value;
    int64_t load_max;
    const int *owner;      // [layer_count] moved bytes only: rank of the machine that holds a layer
    const int *place_rank; // [rank_count] moved bytes only: rank of the machine at each place
    int64_t *step_count;   // in and out: pairs of runs that were looked at; questions that share it
                           // share the limit
} bal_pair_question;

enum {
    BAL_PAIR_CELLS_MAX = 1 << 21, // pairs of places, over all ranks
    BAL_PAIR_STEPS_MAX = 1 << 28, // pairs of runs that are looked at: about 2 s
};

typedef enum bal_pair_outcome {
    BAL_PAIR_FOUND,
    BAL_PAIR_NONE,     ///< proven: no plan keeps the rules
    BAL_PAIR_TOO_MANY, ///< more pairs than the limits
} bal_pair_outcome;

/// Finds the least value and a plan that has it. Ties: of plans with the same squares the one whose
/// stages have the smallest sum of squared loads; of those that move the same bytes the flattest;
/// then the one whose last ranks' runs are shortest, the first row before the second.
///
/// @param memory      for scratch: 40 bytes per pair of places
/// @param first_layer [stage_count + 1] out, untouched unless found
/// @param least       out, likewise; may be NULL
/// @return STATUS_NO_MEMORY. Time O(pairs of places * pairs of runs that fit load_max): with a load
///         near the mean the second row has few places for each of the first.
void bal_pair_table_answer(const bal_pair_question *ask, arena *memory, int *first_layer,
                           bal_wide *least, bal_pair_outcome *outcome);
