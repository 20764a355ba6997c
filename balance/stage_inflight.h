/// How many microbatches' activations a stage holds at most: what the caps of stages are counted
/// with. With several chunks per rank the rank's own peaks say more (rank_peaks.h).
#pragma once

#include "balance/rank_peaks.h"
#include "balance/stage_placement.h"

#include <stdint.h>

/// The largest number of microbatches that each stage holds at any of its rank's peaks.
///
/// @param inflight [rank_count * chunk_count] out
void bal_stage_inflight_of(const bal_rank_peaks *peaks, bal_placement placement, int64_t *inflight);
