/// Walks the order of each rank and keeps the moments that no other one exceeds.
#include "balance/rank_peaks.h"

#include "balance/schedule/schedule.h"

#include <stdbool.h>
#include <string.h>

/// The peaks of one rank while its order is walked.
typedef struct peak_list {
    int chunk_count;
    int count;
    int64_t *held; // [count][chunk_count]
    arena *memory;
} peak_list;

/// Whether one moment holds no more than the other in any chunk.
static bool is_within(const int64_t *one, const int64_t *other, int chunk_count)
{
    for (int chunk = 0; chunk < chunk_count; chunk++) {
        if (one[chunk] > other[chunk]) return false;
    }
    return true;
}

/// Notes a moment of the rank whose peaks begin at `first`, unless another one exceeds it; drops
/// those that it exceeds.
static void note(peak_list *list, int first, const int64_t *held)
{
    const size_t width = (size_t)list->chunk_count;
    int kept = first;
    for (int peak = first; peak < list->count; peak++) {
        const int64_t *known = list->held + (size_t)peak * width;
        if (is_within(held, known, list->chunk_count)) return; // then nothing was dropped
        if (is_within(known, held, list->chunk_count)) continue;
        if (kept < peak) memcpy(list->held + (size_t)kept * width, known, width * sizeof *known);
        kept++;
    }
    list->held = arena_grow(list->memory, list->held, (size_t)kept, width * sizeof *held);
    memcpy(list->held + (size_t)kept * width, held, width * sizeof *held);
    list->count = kept + 1;
}

/// Walks the order of a rank. Only the moments before something is released can be peaks.
static void walk(const bal_schedule *schedule, int rank, int64_t *held, peak_list *list)
{
    const int first = list->count;
    bool has_grown = false;
    memset(held, 0, (size_t)schedule->chunk_count * sizeof *held);
    for (int at = schedule->first_op[rank]; at < schedule->first_op[rank + 1]; at++) {
        const bal_op op = schedule->ops[at];
        if (op.kind == OP_FORWARD) {
            held[op.chunk]++;
            has_grown = true;
        } else if (op.kind != OP_BACKWARD_INPUT) {
            if (has_grown) note(list, first, held);
            held[op.chunk]--;
            has_grown = false;
        }
    }
}

static status of_order(const bal_schedule_request *request, arena *memory, bal_rank_peaks *peaks,
                       error_message *err)
{
    bal_schedule built;
    TRY(bal_schedule_build(request, memory, &built, err));
    const int ranks = built.rank_count;
    int *first = arena_array(memory, (size_t)ranks + 1, sizeof *first);
    int64_t *held = arena_array(memory, (size_t)built.chunk_count, sizeof *held);
    peak_list list = {.chunk_count = built.chunk_count, .memory = memory};
    for (int rank = 0; rank < ranks; rank++) {
        walk(&built, rank, held, &list);
        first[rank + 1] = list.count;
    }
    *peaks = (bal_rank_peaks){.rank_count = ranks,
                              .chunk_count = built.chunk_count,
                              .first_peak = first,
                              .held = list.held};
    return STATUS_OK;
}

/// Copies peaks, which are few, out of the memory of the orders, which is large.
static void copy_peaks(const bal_rank_peaks *peaks, arena *memory, bal_rank_peaks *out)
{
    const size_t ends = (size_t)peaks->rank_count + 1;
    const size_t cells = (size_t)peaks->first_peak[peaks->rank_count] * (size_t)peaks->chunk_count;
    int *first = arena_array(memory, ends, sizeof *first);
    int64_t *held = arena_array(memory, cells, sizeof *held);
    memcpy(first, peaks->first_peak, ends * sizeof *first);
    if (cells > 0) memcpy(held, peaks->held, cells * sizeof *held);
    *out = *peaks;
    out->first_peak = first;
    out->held = held;
}

status bal_rank_peaks_of(const char *schedule, int rank_count, int chunk_count,
                         int microbatch_count, arena *memory, bal_rank_peaks *peaks,
                         error_message *err)
{
    const bal_schedule_family *family = bal_schedule_family_find(schedule);
    bal_schedule_request request = {.name = schedule,
                                    .rank_count = rank_count,
                                    .microbatch_count = microbatch_count,
                                    .chunk_count = chunk_count};
    if (family != NULL && family->is_searched) {
        const int chunks = bal_schedule_chunk_count(family, chunk_count);
        if (!bal_schedule_takes_chunks(family, chunks)) {
            return error_set(err, STATUS_INVALID, "chunk_count %d: schedule %s has %d per rank",
                             chunks, family->name, family->chunk_count);
        }
        request.name = family->counted_as;
    }
    arena *scratch = arena_create(1 << 16);
    bal_rank_peaks made;
    const status found = of_order(&request, scratch, &made, err);
    if (found == STATUS_OK) copy_peaks(&made, memory, peaks);
    arena_destroy(scratch);
    return found;
}

status bal_peak_book_find(bal_peak_book *book, const char *schedule, int rank_count,
                          int chunk_count, int microbatch_count, arena *memory,
                          bal_rank_peaks *peaks, error_message *err)
{
    const bal_schedule_family *family = bal_schedule_family_find(schedule);
    if (book == NULL || family == NULL) {
        return bal_rank_peaks_of(schedule, rank_count, chunk_count, microbatch_count, memory, peaks,
                                 err);
    }
    for (int entry = 0; entry < book->count; entry++) {
        if (book->entries[entry].schedule != family->name ||
            book->entries[entry].peaks.rank_count != rank_count ||
            book->entries[entry].chunk_count != chunk_count ||
            book->entries[entry].microbatch_count != microbatch_count) {
            continue;
        }
        copy_peaks(&book->entries[entry].peaks, memory, peaks);
        return STATUS_OK;
    }
    if (book->count == BAL_PEAKS_KEPT) {
        arena_reset(book->memory);
        book->count = 0;
    }
    TRY(bal_rank_peaks_of(schedule, rank_count, chunk_count, microbatch_count, memory, peaks, err));
    book->entries[book->count].schedule = family->name;
    book->entries[book->count].chunk_count = chunk_count;
    book->entries[book->count].microbatch_count = microbatch_count;
    copy_peaks(peaks, book->memory, &book->entries[book->count].peaks);
    book->count++;
    return STATUS_OK;
}

void bal_stage_inflight_of(const bal_rank_peaks *peaks, bal_placement placement, int64_t *inflight)
{
    for (int rank = 0; rank < peaks->rank_count; rank++) {
        for (int chunk = 0; chunk < peaks->chunk_count; chunk++) {
            int64_t most = 0;
            for (int peak = peaks->first_peak[rank]; peak < peaks->first_peak[rank + 1]; peak++) {
                const int64_t held = bal_rank_peak(peaks, peak)[chunk];
                if (held > most) most = held;
            }
            inflight[bal_stage_of(placement, peaks->rank_count, peaks->chunk_count, rank, chunk)] =
                most;
        }
    }
}
