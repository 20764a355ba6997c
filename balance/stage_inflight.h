/// How many microbatches' activations a stage holds at most: what memory caps are counted with.
#pragma once

#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

/// Fills the largest number of microbatches that each stage holds under a schedule, each held from
/// its F to its W: the memory peak with one unit per microbatch. Fixed orders do not depend on
/// costs. A searched order uses what room there is, so it is counted as the fixed
/// order whose memory it is made for, 1f1b, or zb-v-hand with two chunks: below that a search
/// still finds orders, but slow ones. v-adaptive is made for any memory and counted as its least,
/// v-min.
///
/// @param memory   for scratch
/// @param inflight [rank_count * chunk_count] out
/// @return what bal_schedule_build refuses
status bal_stage_inflight(const char *schedule, int rank_count, int chunk_count,
                          int microbatch_count, arena *memory, int64_t *inflight,
                          error_message *err);
