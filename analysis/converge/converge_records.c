#include "analysis/converge/converge_records.h"

#include <stdlib.h>
#include <string.h>

enum { ARENA_BYTES = 1 << 18, BATCH_MAX = 64 };

/// An item is a batch of plays of one group, so that short ones are not sent one by one.
typedef struct batches {
    const ana_record_plays *plays;
    char *records;
    int batch;       // plays per item
    int batch_count; // items per group
} batches;

typedef struct records_worker {
    arena *memory;
    void *state;
} records_worker;

static status begin_worker(void *context, void **worker, error_message *err)
{
    (void)context;
    (void)err;
    records_worker *made = memory_array(1, sizeof *made);
    made->memory = arena_create(ARENA_BYTES);
    *worker = made;
    return STATUS_OK;
}

static void end_worker(void *context, void *worker)
{
    (void)context;
    records_worker *ended = worker;
    arena_destroy(ended->memory);
    free(ended);
}

static int first_of(const batches *all, int64_t item)
{
    return (int)(item % all->batch_count) * all->batch;
}

static int length_of(const batches *all, int64_t item)
{
    const int left = all->plays->group_length - first_of(all, item);
    return left < all->batch ? left : all->batch;
}

static status run_item(void *context, void *worker, int64_t item, text_buffer *result,
                       error_message *err)
{
    const batches *all = context;
    const ana_record_plays *plays = all->plays;
    records_worker *own = worker;
    const int group = (int)(item / all->batch_count);
    char *record = memory_array(1, plays->record_bytes);
    status code = STATUS_OK;
    for (int index = 0; index < length_of(all, item) && code == STATUS_OK; index++) {
        memset(record, 0, plays->record_bytes);
        code = plays->play(plays->context, own->memory, &own->state, group,
                           first_of(all, item) + index, record, err);
        text_append_bytes(result, record, plays->record_bytes);
    }
    free(record);
    return code;
}

static status put_item(void *context, int64_t item, const text_buffer *result, error_message *err)
{
    const batches *all = context;
    const size_t bytes = all->plays->record_bytes;
    const size_t group = (size_t)(item / all->batch_count);
    const size_t first = group * (size_t)all->plays->group_length + (size_t)first_of(all, item);
    if (result->length != (size_t)length_of(all, item) * bytes) {
        return error_set(err, STATUS_BACKEND, "item %lld has %zu bytes, not %d records of %zu",
                         (long long)item, result->length, length_of(all, item), bytes);
    }
    memcpy(all->records + first * bytes, result->bytes, result->length);
    return STATUS_OK;
}

status ana_records_play(const ana_record_plays *plays, ana_spread *spread, void *records,
                        ana_spread_report *report, error_message *err)
{
    const int share = plays->group_length / BATCH_MAX;
    const int batch = share < 1 ? 1 : share < BATCH_MAX ? share : BATCH_MAX;
    batches all = {.plays = plays,
                   .records = records,
                   .batch = batch,
                   .batch_count = (plays->group_length + batch - 1) / batch};
    const ana_items items = {.count = (int64_t)plays->group_count * all.batch_count,
                             .context = &all,
                             .begin_worker = begin_worker,
                             .end_worker = end_worker,
                             .run = run_item,
                             .put = put_item};
    return ana_spread_run(spread, &items, report, err);
}
