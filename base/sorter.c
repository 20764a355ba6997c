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

/// Records in order: a stretch of the file, or all of them in memory.
typedef struct run {
    const char *at; // in memory: [at, end) of the piece
    const char *end;
    char *piece;
    int64_t next; // in the file only: [next, until)
    int64_t until;
} run;

struct sorter {
    int (*compare)(const void *, const void *);
    size_t record_bytes;
    int64_t count;
    char *buffer;    // records that are not in the file; later, pieces of the runs
    size_t buffered; // bytes
    char *last;      // the greatest record of the last run
    FILE *file;      // NULL: none is needed yet
    run *runs;       // [run_count] later a heap of those that are not over: the least record first
    size_t run_count;
    size_t piece_bytes; // a multiple of record_bytes
    bool is_taken;      // the least record
};

sorter *sorter_create(size_t record_bytes, int (*compare)(const void *, const void *))
{
    sorter *made = memory_array(1, sizeof *made);
    assert(record_bytes > 0 && record_bytes <= PIECE_BYTES_MIN);
    made->compare = compare;
    made->record_bytes = record_bytes;
    made->buffer = memory_array(1, BUFFER_BYTES);
    made->last = memory_array(1, record_bytes);
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
    snprintf(name, sizeof name, "%s/dynmo-XXXXXX", folder());
    const int file = mkstemp(name);
    if (file >= 0) unlink(name);
    if (file >= 0) records->file = fdopen(file, "w+b");
    if (records->file == NULL) return failed("cannot be made", err);
    setvbuf(records->file, NULL, _IONBF, 0);
    return STATUS_OK;
}

/// Most records come in order: qsort would take memory for nothing.
static void sort_buffer(sorter *records)
{
    const size_t bytes = records->record_bytes;
    for (size_t at = bytes; at < records->buffered; at += bytes) {
        if (records->compare(records->buffer + at - bytes, records->buffer + at) > 0) {
            qsort(records->buffer, records->buffered / bytes, bytes, records->compare);
            return;
        }
    }
}

/// The run that the sorted buffer goes on with, if it comes after all of that, or a new one.
static run *run_of_buffer(sorter *records)
{
    const size_t count = records->run_count;
    const int64_t end = count > 0 ? records->runs[count - 1].until : 0;
    if (count == 0 || records->compare(records->last, records->buffer) > 0) {
        records->runs = memory_resize(records->runs, count + 1, sizeof *records->runs);
        records->runs[records->run_count++] = (run){.next = end, .until = end};
    }
    return &records->runs[records->run_count - 1];
}

static status write_buffer(sorter *records, error_message *err)
{
    const size_t bytes = records->buffered;
    if (records->file == NULL) TRY(make_file(records, err));
    sort_buffer(records);
    run_of_buffer(records)->until += (int64_t)bytes;
    if (fwrite(records->buffer, 1, bytes, records->file) != bytes) {
        return failed("cannot be written", err);
    }
    memcpy(records->last, records->buffer + bytes - records->record_bytes, records->record_bytes);
    records->buffered = 0;
    return STATUS_OK;
}

status sorter_put(sorter *records, const void *record, error_message *err)
{
    if (records->buffered + records->record_bytes > BUFFER_BYTES) TRY(write_buffer(records, err));
    memcpy(records->buffer + records->buffered, record, records->record_bytes);
    records->buffered += records->record_bytes;
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
    from->at = from->end = from->piece;
    if (bytes == 0) return STATUS_OK;
    if (fseeko(records->file, from->next, SEEK_SET) != 0 ||
        fread(from->piece, 1, bytes, records->file) != bytes) {
        return failed("cannot be read", err);
    }
    from->end += bytes;
    from->next += (int64_t)bytes;
    return STATUS_OK;
}

/// Moves a run down to where it belongs in the heap.
static void sift(sorter *records, size_t place)
{
    run *heap = records->runs;
    for (;;) {
        size_t least = place;
        for (size_t below = 2 * place + 1; below <= 2 * place + 2; below++) {
            if (below >= records->run_count) break;
            if (records->compare(heap[below].at, heap[least].at) < 0) least = below;
        }
        if (least == place) return;
        const run moved = heap[place];
        heap[place] = heap[least];
        heap[least] = moved;
        place = least;
    }
}

static status open_runs(sorter *records, error_message *err)
{
    TRY(write_buffer(records, err));
    const size_t share = BUFFER_BYTES / records->run_count;
    const size_t bytes = share > PIECE_BYTES_MIN ? share : PIECE_BYTES_MIN;
    records->piece_bytes = bytes - bytes % records->record_bytes;
    records->buffer = memory_resize(records->buffer, records->run_count, records->piece_bytes);
    for (size_t each = 0; each < records->run_count; each++) {
        records->runs[each].piece = records->buffer + each * records->piece_bytes;
        TRY(read_piece(records, &records->runs[each], err));
    }
    return STATUS_OK;
}

status sorter_sort(sorter *records, error_message *err)
{
    if (sorter_count(records) == 0) return STATUS_OK;
    if (records->file != NULL) {
        TRY(open_runs(records, err));
    } else {
        sort_buffer(records);
        run *all = run_of_buffer(records);
        all->at = records->buffer;
        all->end = records->buffer + records->buffered;
    }
    for (size_t place = records->run_count / 2; place-- > 0;) {
        sift(records, place);
    }
    return STATUS_OK;
}

status sorter_next(sorter *records, const void **record, error_message *err)
{
    *record = NULL;
    if (records == NULL || records->run_count == 0) return STATUS_OK;
    run *least = &records->runs[0];
    if (records->is_taken) least->at += records->record_bytes;
    records->is_taken = true;
    if (least->at == least->end) TRY(read_piece(records, least, err));
    if (least->at == least->end) *least = records->runs[--records->run_count];
    if (records->run_count > 1) sift(records, 0);
    if (records->run_count > 0) *record = least->at;
    return STATUS_OK;
}

void sorter_destroy(sorter *records)
{
    if (records == NULL) return;
    if (records->file != NULL) fclose(records->file);
    free(records->buffer);
    free(records->last);
    free(records->runs);
    free(records);
}

size_t sorted_place(const void *items, size_t count, size_t item_bytes, const void *key,
                    int (*compare)(const void *item, const void *key))
{
    size_t low = 0;
    while (low < count) {
        const size_t middle = low + (count - low) / 2;
        if (compare((const char *)items + middle * item_bytes, key) < 0) {
            low = middle + 1;
        } else {
            count = middle;
        }
    }
    return low;
}
