/// An evaluator for machines with slow ranks: layers take longer on them.
#pragma once

#include "balance/ports.h"
#include "base/arena.h"

#include <stdint.h>

/// The context of the evaluator. Everything is borrowed as long as it is asked.
typedef struct bal_speed_evaluator {
    const bal_evaluator *inner;     // plays layers as they are given
    const int64_t *rank_factor_ppb; // [ranks of the machine] parts per 10^9
    arena *memory;                  // scratch: reset by every call
} bal_speed_evaluator;

/// Multiplies the times of each layer by the factor of the rank that the plan puts it on, rounded
/// half up, and asks the inner evaluator; for another number of microbatches where that can.
///
/// Its calls return STATUS_NO_MEMORY, STATUS_INVALID if a time then does not fit int64, and what
/// the inner one returns. Time O(layers x microbatches) and the inner one's.
bal_evaluator bal_speed_evaluator_of(bal_speed_evaluator *context);
