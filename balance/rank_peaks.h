/// What the chunks of a rank hold at the moments when the rank holds most. The chunks of a rank do
/// not peak together, so that the sum of their own peaks would be far too much: under zb-v that is
/// nearly twice what the rank ever holds.
#pragma once

#include "balance/costs/placement.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

/// Per rank the moments of its order that no other moment of it exceeds in every chunk. Whatever
/// the chunks' activations weigh, the rank is fullest at one of them.
typedef struct bal_rank_peaks {
    int rank_count;
    int chunk_count;
    const int *first_peak; // [rank_count + 1] rank r has peaks [first_peak[r], first_peak[r + 1])
    const int64_t *held;   // [first_peak[rank_count]][chunk_count] microbatches whose activations
                           // each chunk holds then
} bal_rank_peaks;

/// One peak: [chunk_count] microbatches.
static inline const int64_t *bal_rank_peak(const bal_rank_peaks *peaks, int peak)
{
    return peaks->held + (int64_t)peak * peaks->chunk_count;
}

/// Finds the peaks of a schedule's orders, each microbatch held from its F to its W (BW).
///
/// Fixed orders do not depend on costs. A searched order uses what room there is, so it is counted
/// as the fixed order that its row of the schedule table names: below that a search may still find
/// orders, but slow ones.
///
/// @param memory where the arrays of peaks are carved
/// @return what bal_schedule_build refuses. Time O(ops * peaks of a rank), which are few.
status bal_rank_peaks_of(const char *schedule, int rank_count, int chunk_count,
                         int microbatch_count, arena *memory, bal_rank_peaks *peaks,
                         error_message *err);

enum { BAL_PEAKS_KEPT = 64 };

/// Keeps peaks for who asks for the same ones again and again. Zero-initialise all but memory.
typedef struct bal_peak_book {
    arena *memory; // of all entries, and of nothing else
    int count;
    struct {
        const char *schedule; // static storage
        int chunk_count, microbatch_count;
        bal_rank_peaks peaks;
    } entries[BAL_PEAKS_KEPT];
} bal_peak_book;

/// bal_rank_peaks_of, looked up in a book that is begun anew when it is full.
///
/// @param book used by nobody else meanwhile; NULL: nothing is kept
status bal_peak_book_find(bal_peak_book *book, const char *schedule, int rank_count,
                          int chunk_count, int microbatch_count, arena *memory,
                          bal_rank_peaks *peaks, error_message *err);

/// The largest number of microbatches that each stage holds at any of its rank's peaks.
///
/// @param inflight [rank_count * chunk_count] out
void bal_stage_inflight_of(const bal_rank_peaks *peaks, bal_placement placement, int64_t *inflight);
