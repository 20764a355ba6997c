/// spread: whatever the threads do first, results are put in ascending order, each once; who is far
/// ahead waits; the failure of the lowest item ends the whole after those before it; an
/// interruption leaves no gap. Where one item has to wait for another, it waits for what that one
/// has done, not for a time.
#include "analysis/shards/spread.h"
#include "base/arena.h"
#include "base/rng.h"
#include "tests/test.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct work work;

/// What an item does before it has its result.
typedef status item_body(work *all, int64_t item, error_message *err);

struct work {
    item_body *body;
    status (*before_put)(work *all, int64_t item, error_message *err);
    atomic_llong done_count;
    atomic_llong highest;
    atomic_bool flag;
    void **done_by; // [count] the worker of each item; NULL: nobody asks
    int64_t put_count;
    int64_t last_put;
};

static atomic_int begun_workers;
static atomic_int ended_workers;

static void end_worker(void *worker)
{
    (void)worker;
    atomic_fetch_add(&ended_workers, 1);
}

static void *begin_worker(arena *memory)
{
    void *worker = arena_array(memory, 1, 1);
    atomic_fetch_add(&begun_workers, 1);
    arena_own(memory, worker, end_worker);
    return worker;
}

static status run(void *context, void *worker, int64_t item, text_buffer *result,
                  error_message *err)
{
    work *all = context;
    assert_non_null(worker);
    long long highest = atomic_load(&all->highest);
    while (highest < item && !atomic_compare_exchange_weak(&all->highest, &highest, item)) {
    }
    if (all->body != NULL) TRY(all->body(all, item, err));
    if (all->done_by != NULL) all->done_by[item] = worker;
    text_format(result, "%" PRId64, item * item);
    atomic_fetch_add(&all->done_count, 1);
    return STATUS_OK;
}

static status put(void *context, int64_t item, const text_buffer *result, error_message *err)
{
    work *all = context;
    char wanted[32];
    if (all->before_put != NULL) TRY(all->before_put(all, item, err));
    snprintf(wanted, sizeof wanted, "%" PRId64, item * item);
    assert_string_equal(result->bytes, wanted);
    assert_true(item > all->last_put);
    all->last_put = item;
    all->put_count++;
    return STATUS_OK;
}

static ana_items items_of(work *all, int64_t count)
{
    all->last_put = -1;
    return (ana_items){
        .count = count, .context = all, .begin_worker = begin_worker, .run = run, .put = put};
}

/// Runs so many items on so many threads.
static status spread(work *all, int64_t count, int thread_count, error_message *err)
{
    ana_spread threads = {.thread_count = thread_count, .interrupt = &all->flag};
    const ana_items items = items_of(all, count);
    return ana_spread_run(&threads, &items, err);
}

static status dawdle(work *all, int64_t item, error_message *err)
{
    rng random = rng_init((uint64_t)item, 0);
    for (int64_t pause = rng_between(&random, 0, 19); pause > 0; pause--) {
        sched_yield();
    }
    return STATUS_OK;
}

TEST(results_are_put_in_order_whoever_is_faster)
{
    work all = {.body = dawdle};

    assert_ok(spread(&all, 20000, 8, NULL));

    assert_int_equal(all.put_count, 20000);
    assert_int_equal(atomic_load(&begun_workers), 8);
    assert_int_equal(atomic_load(&ended_workers), 8);
    assert_true(ana_spread_core_count() >= 1);
}

TEST(a_shard_does_every_nth_item)
{
    int64_t put_count = 0;
    for (int index = 0; index < 7; index++) {
        work all = {0};
        ana_spread threads = {.thread_count = 3, .shard = {.index = index, .count = 7}};
        const ana_items items = items_of(&all, 1000);

        assert_ok(ana_spread_run(&threads, &items, NULL));

        assert_int_equal(all.last_put % 7, index);
        assert_int_equal(all.put_count, 142 + (index < 6));
        put_count += all.put_count;
    }
    assert_int_equal(put_count, 1000);
    work none = {0};
    ana_spread threads = {.thread_count = 3, .shard = {.index = 5, .count = 7}};
    const ana_items items = items_of(&none, 5);
    assert_ok(ana_spread_run(&threads, &items, NULL));
    assert_int_equal(none.put_count, 0);
}

TEST(neighbours_that_share_work_have_the_same_worker)
{
    enum { COUNT = 10000, TOGETHER = 16 };
    static void *done_by[COUNT];
    work all = {.body = dawdle, .done_by = done_by};
    ana_spread threads = {.thread_count = 4};
    ana_items items = items_of(&all, COUNT);
    items.together = TOGETHER;

    assert_ok(ana_spread_run(&threads, &items, NULL));

    assert_int_equal(all.put_count, COUNT);
    for (int item = 0; item < COUNT; item++) {
        assert_ptr_equal(done_by[item], done_by[item / TOGETHER * TOGETHER]);
    }
}

enum { WINDOW = 65536 };

/// Item 0 waits until all others of the window are done, and a moment longer.
static status keep_others_waiting(work *all, int64_t item, error_message *err)
{
    const struct timespec moment = {.tv_nsec = 20000000};
    if (item != 0) return STATUS_OK;
    while (atomic_load(&all->done_count) < WINDOW - 1) {
        nanosleep(&moment, NULL);
    }
    nanosleep(&moment, NULL);
    return atomic_load(&all->highest) == WINDOW - 1 ? STATUS_OK : STATUS_BACKEND;
}

TEST(who_is_far_ahead_waits)
{
    work all = {.body = keep_others_waiting};

    assert_ok(spread(&all, 3 * WINDOW, 4, NULL));

    assert_int_equal(all.put_count, 3 * WINDOW);
}

/// 7 fails first, then 3.
static status fail_at_7_and_3(work *all, int64_t item, error_message *err)
{
    while (item == 3 && !atomic_load(&all->flag)) {
        sched_yield();
    }
    if (item == 3) return error_set(err, STATUS_IO, "item 3 fails");
    if (item != 7) return STATUS_OK;
    atomic_store(&all->flag, true);
    return error_set(err, STATUS_FORMAT, "item 7 fails");
}

TEST(the_failure_of_the_lowest_item_counts_and_those_before_are_put)
{
    work all = {.body = fail_at_7_and_3};

    ana_spread threads = {.thread_count = 8}; // the flag is the items' own
    const ana_items items = items_of(&all, 1000000);

    assert_fails(ana_spread_run(&threads, &items, &why), STATUS_IO, "item 3 fails");
    assert_int_equal(all.put_count, 3);
    assert_true(atomic_load(&all.highest) < WINDOW);
}

static status refuse_10(work *all, int64_t item, error_message *err)
{
    return item < 10 ? STATUS_OK : error_set(err, STATUS_IO, "disk full");
}

static status interrupt_at_500(work *all, int64_t item, error_message *err)
{
    if (item == 500) atomic_store(&all->flag, true);
    return STATUS_OK;
}

TEST(an_interruption_leaves_no_gap)
{
    work all = {.body = interrupt_at_500};

    assert_fails(spread(&all, 10000000, 4, &why), STATUS_BACKEND, "interrupted");
    assert_true(all.put_count > 0);
    assert_int_equal(all.put_count, all.last_put + 1);
    assert_true(all.put_count < 10000000);
}

TEST(what_cannot_be_put_ends_the_whole)
{
    work all = {.before_put = refuse_10};

    assert_fails(spread(&all, 1000000, 4, &why), STATUS_IO, "disk full");
    assert_int_equal(all.put_count, 10);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
