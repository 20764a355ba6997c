#include "analysis/shards/spread.h"

#include "analysis/shards/kept_run.h"
#include "base/arena.h"
#include "traces/store/runs.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW_MAX = 65536, CLAIMS_MIN = 32 };

/// A result that waits to be put.
typedef struct slot {
    text_buffer text;
    bool is_there;
} slot;

/// The items of one run by their order: the n-th that this process does. The fields after the lock
/// are read and written under it.
typedef struct pool {
    ana_spread *spread;
    const ana_items *items;
    pthread_mutex_t lock;
    pthread_cond_t moved; // there is room, or all ends
    int64_t item_count;
    int64_t claimed;   // items before this one have been given to a thread
    int64_t put;       // items before this one have been put
    int64_t end;       // items from this one on are not worth doing
    error_message why; // end is not the last: code and message of the item there
    slot *slots;       // [window] the result of n at n % window
    int64_t window;
    int64_t together; // that a thread claims at a time
} pool;

/// What a thread has claimed and not begun.
typedef struct claim {
    int64_t next;
    int64_t end;
} claim;

static int64_t item_of(const pool *all, int64_t n)
{
    const ana_shard *shard = &all->spread->shard;
    return shard->count > 0 ? shard->index + n * shard->count : n;
}

/// How many items there are to do.
static int64_t count_items(const pool *all)
{
    const ana_shard *shard = &all->spread->shard;
    if (shard->count == 0) return all->items->count;
    const int64_t left = all->items->count - shard->index;
    return left > 0 ? (left + shard->count - 1) / shard->count : 0;
}

static slot *slot_of(const pool *all, int64_t n)
{
    return &all->slots[n % all->window];
}

/// Nothing from n on is worth doing. With the lock.
static void end_at(pool *all, int64_t n, status code, const error_message *why)
{
    if (n >= all->end) return;
    all->end = n;
    all->why = *why;
    all->why.code = code;
    pthread_cond_broadcast(&all->moved);
}

/// Whether some of what is to be claimed has no slot. With the lock.
static bool is_full(const pool *all)
{
    return all->claimed + all->together > all->put + all->window;
}

/// The next item, or -1 where none is left; waits while the window is full. With the lock.
static int64_t claim_item(pool *all, claim *own)
{
    const atomic_bool *interrupt = all->spread->interrupt;
    if (own->next == own->end) {
        while (all->claimed < all->end && is_full(all)) {
            pthread_cond_wait(&all->moved, &all->lock);
        }
        const int64_t left = all->item_count - all->claimed;
        own->next = all->claimed;
        all->claimed += left < all->together ? left : all->together;
        own->end = all->claimed;
    }
    if (interrupt != NULL && atomic_load(interrupt)) {
        const error_message why = {.message = "interrupted"};
        end_at(all, own->next, STATUS_BACKEND, &why);
    }
    return own->next < all->end ? own->next++ : -1;
}

/// Does an item. With the lock, which is released meanwhile.
static void do_item(pool *all, void *worker, int64_t n, text_buffer *result)
{
    error_message err = {0};
    pthread_mutex_unlock(&all->lock);
    text_clear(result);
    const status code = all->items->run(all->items->context, worker, item_of(all, n), result, &err);
    pthread_mutex_lock(&all->lock);
    if (code != STATUS_OK) {
        end_at(all, n, code, &err);
        return;
    }
    slot *own = slot_of(all, n);
    const text_buffer spare = own->text;
    *own = (slot){.text = *result, .is_there = true};
    *result = spare;
}

static status put_result(pool *all, const text_buffer *result, bool is_kept, error_message *err)
{
    const ana_spread *spread = all->spread;
    const int64_t item = item_of(all, all->put);
    if (spread->kept != NULL && !is_kept) {
        TRY(ana_kept_run_put(spread->kept, spread->pass, item, result, err));
    }
    TRY(all->items->put(all->items->context, item, result, err));
    all->put++;
    if (spread->step != NULL) spread->step(spread->step_context, all->put, all->item_count);
    return STATUS_OK;
}

/// Puts the results that are there without a gap. With the lock.
static void put_results(pool *all)
{
    error_message err = {0};
    const bool was_full = is_full(all);
    while (all->put < all->end && slot_of(all, all->put)->is_there) {
        slot *next = slot_of(all, all->put);
        next->is_there = false;
        const status code = put_result(all, &next->text, false, &err);
        if (code != STATUS_OK) end_at(all, all->put, code, &err);
    }
    if (was_full) pthread_cond_broadcast(&all->moved);
}

/// What each thread does: items, and results that can be put.
static void *work(void *context)
{
    pool *all = context;
    arena *memory = arena_create(1 << 16);
    void *worker = all->items->begin_worker(memory);
    text_buffer result = {0};
    pthread_mutex_lock(&all->lock);
    claim own = {0, 0};
    for (int64_t n = claim_item(all, &own); n >= 0; n = claim_item(all, &own)) {
        do_item(all, worker, n, &result);
        put_results(all);
    }
    pthread_mutex_unlock(&all->lock);
    arena_destroy(memory);
    text_free(&result);
    return NULL;
}

static void work_on_threads(pool *all)
{
    const int64_t left = all->end - all->put;
    int wanted = all->spread->thread_count - 1;
    if (wanted >= left) wanted = left > 0 ? (int)left - 1 : 0;
    pthread_t *threads = memory_array(wanted > 0 ? (size_t)wanted : 1, sizeof *threads);
    int started = 0;
    while (started < wanted && pthread_create(&threads[started], NULL, work, all) == 0) {
        started++;
    }
    work(all);
    for (int thread = 0; thread < started; thread++) {
        pthread_join(threads[thread], NULL);
    }
    free(threads);
}

/// Puts what was kept. Nothing after a gap counts.
static status recall_item(void *context, int64_t item, const char *bytes, size_t length,
                          error_message *err)
{
    pool *all = context;
    if (all->put >= all->end || item != item_of(all, all->put)) return STATUS_OK;
    text_buffer text = {0};
    text_append_bytes(&text, bytes, length);
    const status code = put_result(all, &text, true, err);
    text_free(&text);
    all->claimed = all->put;
    return code;
}

/// How many items a thread claims at a time: as many as share work, if that keeps all threads busy
/// to the end.
static int64_t together(const pool *all)
{
    const int64_t fair = (all->end - all->put) / (CLAIMS_MIN * (int64_t)all->spread->thread_count);
    const int64_t wanted = all->items->together < fair ? all->items->together : fair;
    return wanted > 1 ? wanted : 1;
}

static status do_all(pool *all, error_message *err)
{
    const ana_spread *spread = all->spread;
    all->end = all->item_count = count_items(all);
    if (spread->kept != NULL) {
        TRY(trace_items_read(spread->kept->store, spread->kept->number, spread->pass, all,
                             recall_item, err));
    }
    all->window = all->end < WINDOW_MAX ? all->end : WINDOW_MAX;
    if (all->window == 0) return STATUS_OK;
    all->together = together(all);
    all->slots = memory_array((size_t)all->window, sizeof *all->slots);
    pthread_mutex_init(&all->lock, NULL);
    pthread_cond_init(&all->moved, NULL);
    work_on_threads(all);
    pthread_cond_destroy(&all->moved);
    pthread_mutex_destroy(&all->lock);
    for (int64_t index = 0; index < all->window; index++) {
        text_free(&all->slots[index].text);
    }
    free(all->slots);
    if (all->why.code == STATUS_OK) return STATUS_OK;
    return error_set(err, all->why.code, "%s", all->why.message);
}

status ana_spread_run(ana_spread *spread, const ana_items *items, error_message *err)
{
    assert(spread->thread_count >= 1);
    pool all = {.spread = spread, .items = items};
    const status code = do_all(&all, err);
    spread->pass++;
    spread->put_count = all.put;
    return code;
}
