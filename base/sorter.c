#include "base/sorter.h"

#include "base/arena.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 19, PIECE_BYTES_MIN = 1 << 12 };

/// Records in order: a run of the file, or all of them in memory.
typedef struct run {
    const char *at; // of the piece in memory: [at, end)
    const char *end;
    char *piece;
    int64_t next; // what of the file is not in memory yet: [next, until)
    int64_t until;
} run;

struct sorter {
    int (*compare)(const void *, const void *);
    size_t record_bytes;
    size_t capacity; // of buffer
    size_t buffered;
    int64_t count;
    char *buffer; // [capacity] not in the file yet
    char *last;   // one record: the greatest of the last run
    int file;     // -1: none yet
    run *runs;    // [run_count]
    size_t run_count;
    size_t run_capacity;
    char *pieces;       // of all runs
    size_t piece_bytes; // a multiple of record_bytes
    run **heap;         // [heap_count] that are not over: the least record on top
    size_t heap_count;
    bool is_taken; // the one on top
};

sorter *sorter_create(size_t record_bytes, int (*compare)(const void *, const void *))
{
    sorter *made = memory_array(1, sizeof *made);
    assert(record_bytes > 0 && record_bytes <= PIECE_BYTES_MIN);
    made->compare = compare;
    made->record_bytes = record_bytes;
    made->capacity = BUFFER_BYTES / record_bytes;
    made->buffer = memory_array(made->capacity, record_bytes);
    made->last = memory_array(1, record_bytes);
    made->file = -1;
    return made;
}

static const char *folder(void)
{
    const char *named = getenv("TMPDIR");
    return named == NULL || named[0] == '\0' ? P_tmpdir : named;
}

static status failed(const char *what, error_message *err)
{
    return error_set(err, STATUS_IO, "a temporary file in %.120s: %s: %s (TMPDIR names the folder)",
                     folder(), what, strerror(errno));
}

static status make_file(sorter *records, error_message *err)
{
    char name[4096];
    const int length = snprintf(name, sizeof name, "%s/dynmo-XXXXXX", folder());
    if (length < 0 || (size_t)length >= sizeof name) errno = ENAMETOOLONG;
    if ((size_t)length < sizeof name) records->file = mkstemp(name);
    if (records->file < 0) return failed("cannot be made", err);
    unlink(name);
    return STATUS_OK;
}

/// Most records come in order: qsort would take memory for nothing.
static void sort_buffer(sorter *records)
{
    const size_t bytes = records->record_bytes;
    const char *at = records->buffer;
    for (size_t each = 1; each < records->buffered; each++, at += bytes) {
        if (records->compare(at, at + bytes) > 0) {
            qsort(records->buffer, records->buffered, bytes, records->compare);
            return;
        }
    }
}

/// The run that the buffer goes on with, if it comes after all of that, or a new one.
static run *run_of_buffer(sorter *records)
{
    run *last = records->run_count > 0 ? &records->runs[records->run_count - 1] : NULL;
    if (last != NULL && records->compare(records->last, records->buffer) <= 0) return last;
    const int64_t end = last != NULL ? last->until : 0;
    if (records->run_count == records->run_capacity) {
        records->run_capacity += records->run_capacity / 2 + 16;
        records->runs = memory_resize(records->runs, records->run_capacity, sizeof *records->runs);
    }
    last = &records->runs[records->run_count++];
    *last = (run){.next = end, .until = end};
    return last;
}

static status write_buffer(sorter *records, error_message *err)
{
    const size_t bytes = records->buffered * records->record_bytes;
    if (bytes == 0) return STATUS_OK;
    if (records->file < 0) TRY(make_file(records, err));
    sort_buffer(records);
    run *into = run_of_buffer(records);
    for (size_t done = 0; done < bytes;) {
        const ssize_t written =
            pwrite(records->file, records->buffer + done, bytes - done, into->until);
        if (written <= 0) return failed("cannot be written", err);
        done += (size_t)written;
        into->until += written;
    }
    memcpy(records->last, records->buffer + bytes - records->record_bytes, records->record_bytes);
    records->buffered = 0;
    return STATUS_OK;
}

status sorter_put(sorter *records, const void *record, error_message *err)
{
    if (records->buffered == records->capacity) TRY(write_buffer(records, err));
    memcpy(records->buffer + records->buffered++ * records->record_bytes, record,
           records->record_bytes);
    records->count++;
    return STATUS_OK;
}

int64_t sorter_count(const sorter *records)
{
    return records != NULL ? records->count : 0;
}

/// Reads the next piece of a run; at == end: there is none.
static status read_piece(sorter *records, run *from, error_message *err)
{
    const int64_t left = from->until - from->next;
    const size_t bytes = left < (int64_t)records->piece_bytes ? (size_t)left : records->piece_bytes;
    for (size_t done = 0; done < bytes;) {
        const ssize_t count = pread(records->file, from->piece + done, bytes - done, from->next);
        if (count <= 0) return failed("cannot be read", err);
        done += (size_t)count;
        from->next += count;
    }
    from->at = from->piece;
    from->end = from->piece + bytes;
    return STATUS_OK;
}

/// Moves a run down to where it belongs in the heap.
static void sift(sorter *records, size_t place)
{
    run **heap = records->heap;
    for (;;) {
        size_t least = place;
        for (size_t below = 2 * place + 1; below <= 2 * place + 2; below++) {
            if (below >= records->heap_count) break;
            if (records->compare(heap[below]->at, heap[least]->at) < 0) least = below;
        }
        if (least == place) return;
        run *moved = heap[place];
        heap[place] = heap[least];
        heap[least] = moved;
        place = least;
    }
}

/// All records, which are in the buffer, as a run.
static void keep_in_memory(sorter *records)
{
    sort_buffer(records);
    run *all = run_of_buffer(records);
    all->at = records->buffer;
    all->end = records->buffer + records->buffered * records->record_bytes;
}

static status open_runs(sorter *records, error_message *err)
{
    TRY(write_buffer(records, err));
    free(records->buffer);
    records->buffer = NULL;
    const size_t share = BUFFER_BYTES / records->run_count;
    const size_t bytes = share > PIECE_BYTES_MIN ? share : PIECE_BYTES_MIN;
    records->piece_bytes = bytes - bytes % records->record_bytes;
    records->pieces = memory_array(records->run_count, records->piece_bytes);
    for (size_t each = 0; each < records->run_count; each++) {
        records->runs[each].piece = records->pieces + each * records->piece_bytes;
        TRY(read_piece(records, &records->runs[each], err));
    }
    return STATUS_OK;
}

status sorter_sort(sorter *records, error_message *err)
{
    if (sorter_count(records) == 0) return STATUS_OK;
    if (records->file < 0) {
        keep_in_memory(records);
    } else {
        TRY(open_runs(records, err));
    }
    records->heap = memory_array(records->run_count, sizeof *records->heap);
    for (size_t each = 0; each < records->run_count; each++) {
        records->heap[each] = &records->runs[each];
    }
    records->heap_count = records->run_count;
    for (size_t place = records->heap_count / 2; place-- > 0;) {
        sift(records, place);
    }
    return STATUS_OK;
}

status sorter_next(sorter *records, const void **record, error_message *err)
{
    *record = NULL;
    if (records == NULL || records->heap_count == 0) return STATUS_OK;
    run *top = records->heap[0];
    if (records->is_taken) top->at += records->record_bytes;
    records->is_taken = true;
    if (top->at == top->end) TRY(read_piece(records, top, err));
    if (top->at == top->end) records->heap[0] = records->heap[--records->heap_count];
    if (records->heap_count > 1) sift(records, 0);
    if (records->heap_count > 0) *record = records->heap[0]->at;
    return STATUS_OK;
}

void sorter_destroy(sorter *records)
{
    if (records == NULL) return;
    if (records->file >= 0) close(records->file);
    free(records->buffer);
    free(records->last);
    free(records->runs);
    free(records->pieces);
    free(records->heap);
    free(records);
}
