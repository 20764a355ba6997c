#include "analysis/spread/spread_crew.h"
#include "base/arena.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/// So many results wake who waits for them: a switch of threads takes longer than a short item.
enum { RESULTS_WORTH_WAKING = 256 };

typedef struct item_range {
    int64_t first;
    int64_t end;
} item_range;

typedef struct result_list {
    ana_result *results; // [capacity]
    int64_t count;
    int64_t capacity;
} result_list;

struct ana_crew {
    const ana_items *items;
    int thread_count;
    pthread_t *threads; // [thread_count]

    pthread_mutex_t lock; // over all below
    pthread_cond_t given;
    pthread_cond_t done;
    item_range *ranges; // [range_capacity], [range_first, range_end) are to be done
    int range_first;
    int range_end;
    int range_capacity;
    int busy_count; // items at hand
    bool is_stopping;
    bool has_failed; // a worker could not begin, or there was no memory for a result
    error_message failure;
    result_list fresh;
    result_list taken; // the caller's
};

static void clear_results(result_list *list)
{
    for (int64_t index = 0; index < list->count; index++) {
        text_free(&list->results[index].text);
    }
    list->count = 0;
}

/// With the lock.
static void fail(ana_crew *crew, const error_message *why)
{
    if (!crew->has_failed) crew->failure = *why;
    crew->has_failed = true;
    pthread_cond_signal(&crew->done);
}

/// Appends a result whose text moves. With the lock.
static void hand_in(ana_crew *crew, ana_result *result)
{
    result_list *list = &crew->fresh;
    if (list->count == list->capacity) {
        const int64_t capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
        ana_result *grown = memory_resize(list->results, (size_t)capacity, sizeof *grown);
        if (grown == NULL) {
            text_free(&result->text);
            fail(crew, &(error_message){STATUS_NO_MEMORY, "out of memory"});
            return;
        }
        list->results = grown;
        list->capacity = capacity;
    }
    list->results[list->count++] = *result;
    const bool is_dry = crew->busy_count == 0 && crew->range_first == crew->range_end;
    if (list->count == RESULTS_WORTH_WAKING || is_dry) pthread_cond_signal(&crew->done);
}

/// Waits for an item; false: the crew ends. With the lock.
static bool next_item(ana_crew *crew, int64_t *item)
{
    while (!crew->is_stopping && crew->range_first == crew->range_end) {
        pthread_cond_wait(&crew->given, &crew->lock);
    }
    if (crew->is_stopping) return false;
    item_range *range = &crew->ranges[crew->range_first];
    *item = range->first++;
    if (range->first == range->end) crew->range_first++;
    return true;
}

static void run_item(const ana_items *items, void *worker, int64_t item, ana_result *result)
{
    error_message err = {0};
    *result = (ana_result){.item = item};
    result->code = items->run(items->context, worker, item, &result->text, &err);
    if (result->code == STATUS_OK && result->text.failed) {
        result->code = error_set(&err, STATUS_NO_MEMORY, "out of memory");
    }
    if (result->code == STATUS_OK) return;
    text_free(&result->text);
    text_append(&result->text, err.message);
}

static void work(ana_crew *crew, void *worker)
{
    int64_t item = 0;
    pthread_mutex_lock(&crew->lock);
    while (next_item(crew, &item)) {
        ana_result result;
        crew->busy_count++;
        pthread_mutex_unlock(&crew->lock);
        run_item(crew->items, worker, item, &result);
        pthread_mutex_lock(&crew->lock);
        crew->busy_count--;
        hand_in(crew, &result);
    }
    pthread_mutex_unlock(&crew->lock);
}

static void *thread_main(void *argument)
{
    ana_crew *crew = argument;
    const ana_items *items = crew->items;
    void *worker = NULL;
    error_message err = {0};
    status code = STATUS_OK;
    if (items->begin_worker != NULL) code = items->begin_worker(items->context, &worker, &err);
    if (code != STATUS_OK) {
        err.code = code;
        pthread_mutex_lock(&crew->lock);
        fail(crew, &err);
        pthread_mutex_unlock(&crew->lock);
        return NULL;
    }
    work(crew, worker);
    if (items->end_worker != NULL) items->end_worker(items->context, worker);
    return NULL;
}

/// So that waits with a limit go by the clock that nobody sets.
static void open_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

status ana_crew_start(const ana_items *items, int thread_count, ana_crew **crew, error_message *err)
{
    assert(thread_count >= 1);
    ana_crew *made = memory_array(1, sizeof *made);
    made->items = items;
    pthread_mutex_init(&made->lock, NULL);
    open_condition(&made->given);
    open_condition(&made->done);
    made->threads = memory_array((size_t)thread_count, sizeof *made->threads);
    int error = made->threads == NULL ? ENOMEM : 0;
    while (error == 0 && made->thread_count < thread_count) {
        error = pthread_create(&made->threads[made->thread_count], NULL, thread_main, made);
        if (error == 0) made->thread_count++;
    }
    if (error != 0) {
        ana_crew_stop(made);
        return error_set(err, STATUS_NO_MEMORY, "thread %d of %d cannot be started: %s",
                         made->thread_count + 1, thread_count, strerror(error));
    }
    *crew = made;
    return STATUS_OK;
}

/// Makes room for one range more. With the lock.
static bool has_room(ana_crew *crew)
{
    if (crew->range_end < crew->range_capacity) return true;
    const int count = crew->range_end - crew->range_first;
    if (count > 0) {
        memmove(crew->ranges, crew->ranges + crew->range_first,
                (size_t)count * sizeof *crew->ranges);
    }
    crew->range_first = 0;
    crew->range_end = count;
    if (count < crew->range_capacity / 2) return true;
    const int capacity = crew->range_capacity == 0 ? 16 : 2 * crew->range_capacity;
    item_range *grown = memory_resize(crew->ranges, (size_t)capacity, sizeof *grown);
    if (grown == NULL) return false;
    crew->ranges = grown;
    crew->range_capacity = capacity;
    return true;
}

status ana_crew_give(ana_crew *crew, int64_t first, int64_t end, error_message *err)
{
    assert(first < end);
    pthread_mutex_lock(&crew->lock);
    const bool is_given = has_room(crew);
    if (is_given) crew->ranges[crew->range_end++] = (item_range){.first = first, .end = end};
    if (is_given && end - first == 1) pthread_cond_signal(&crew->given);
    if (is_given && end - first > 1) pthread_cond_broadcast(&crew->given);
    pthread_mutex_unlock(&crew->lock);
    return is_given ? STATUS_OK : error_set(err, STATUS_NO_MEMORY, "out of memory");
}

void ana_crew_drop(ana_crew *crew)
{
    pthread_mutex_lock(&crew->lock);
    crew->range_first = crew->range_end;
    pthread_mutex_unlock(&crew->lock);
}

bool ana_crew_is_busy(ana_crew *crew)
{
    pthread_mutex_lock(&crew->lock);
    const bool is_busy = crew->busy_count > 0;
    pthread_mutex_unlock(&crew->lock);
    return is_busy;
}

void ana_crew_await(ana_crew *crew, int64_t until_ns)
{
    const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000),
                                   .tv_nsec = (long)(until_ns % 1000000000)};
    pthread_mutex_lock(&crew->lock);
    int error = 0;
    while (
        error == 0 && !crew->has_failed && crew->fresh.count < RESULTS_WORTH_WAKING &&
        (crew->fresh.count == 0 || crew->busy_count > 0 || crew->range_first < crew->range_end)) {
        error = pthread_cond_timedwait(&crew->done, &crew->lock, &until);
    }
    pthread_mutex_unlock(&crew->lock);
}

int64_t ana_crew_take(ana_crew *crew, ana_result **results)
{
    clear_results(&crew->taken);
    pthread_mutex_lock(&crew->lock);
    const result_list fresh = crew->fresh;
    crew->fresh = crew->taken;
    pthread_mutex_unlock(&crew->lock);
    crew->taken = fresh;
    *results = fresh.results;
    return fresh.count;
}

status ana_crew_check(ana_crew *crew, error_message *err)
{
    pthread_mutex_lock(&crew->lock);
    const status code = crew->has_failed
                            ? error_set(err, crew->failure.code, "%s", crew->failure.message)
                            : STATUS_OK;
    pthread_mutex_unlock(&crew->lock);
    return code;
}

void ana_crew_stop(ana_crew *crew)
{
    if (crew == NULL) return;
    pthread_mutex_lock(&crew->lock);
    crew->is_stopping = true;
    pthread_cond_broadcast(&crew->given);
    pthread_mutex_unlock(&crew->lock);
    for (int thread = 0; thread < crew->thread_count; thread++) {
        pthread_join(crew->threads[thread], NULL);
    }
    clear_results(&crew->fresh);
    clear_results(&crew->taken);
    free(crew->fresh.results);
    free(crew->taken.results);
    free(crew->ranges);
    free(crew->threads);
    pthread_cond_destroy(&crew->given);
    pthread_cond_destroy(&crew->done);
    pthread_mutex_destroy(&crew->lock);
    free(crew);
}
