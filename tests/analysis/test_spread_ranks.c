/// spread over ranks that are threads with letters between them (thread_carrier.h): the same
/// results for any number of ranks; a lost rank's items are done by others and put once, also if it
/// comes back; failures, interruptions and another number of items end all ranks with one status.
#include "analysis/spread/spread.h"
#include "tests/analysis/thread_carrier.h"
#include "tests/assert_close.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct world world;

/// A rank, on a thread of its own.
typedef struct rank {
    world *all;
    int number;
    pthread_t thread;
    atomic_llong run_count;
    status code;
    error_message err;
    ana_spread_report report;
} rank;

struct world {
    thread_world *letters;
    int rank_count;
    int thread_count;
    int64_t item_count;
    int64_t watchdog_ns;
    void (*before)(rank *own, int64_t item); // each item; NULL: nothing
    status (*body)(rank *own, ana_spread *spread);
    int64_t other_count_of; // this rank has an item more; -1: none
    int64_t failing_item;   // -1: none
    int begin_fails_at;     // rank whose workers cannot begin; -1: none
    int64_t put_count;
    atomic_bool has_lost;
    atomic_bool interrupt;
    rank ranks[THREAD_RANKS_MAX];
};

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

static status begin_worker(void *context, void **worker, error_message *err)
{
    const rank *own = context;
    *worker = NULL;
    if (own->number != own->all->begin_fails_at) return STATUS_OK;
    return error_set(err, STATUS_IO, "no trace here");
}

static status run(void *context, void *worker, int64_t item, text_buffer *result,
                  error_message *err)
{
    rank *own = context;
    (void)worker;
    atomic_fetch_add(&own->run_count, 1);
    if (own->all->before != NULL) own->all->before(own, item);
    if (item == own->all->failing_item) return error_set(err, STATUS_IO, "item %" PRId64, item);
    text_format(result, "%" PRId64, 3 * item);
    return STATUS_OK;
}

static status put(void *context, int64_t item, const text_buffer *result, error_message *err)
{
    rank *own = context;
    (void)err;
    assert_int_equal(own->number, 0);
    assert_int_equal(item, own->all->put_count);
    assert_int_equal(atoll(result->bytes), 3 * item);
    own->all->put_count++;
    return STATUS_OK;
}

static status run_once(rank *own, ana_spread *spread)
{
    const ana_items items = {.count = own->all->item_count +
                                      (own->number == own->all->other_count_of ? 1 : 0),
                             .context = own,
                             .begin_worker = begin_worker,
                             .run = run,
                             .put = put};
    return ana_spread_run(spread, &items, &own->report, &own->err);
}

static void *rank_main(void *argument)
{
    rank *own = argument;
    ana_spread *spread = NULL;
    const ana_spread_options options = {.thread_count = own->all->thread_count,
                                        .interrupt = &own->all->interrupt,
                                        .watchdog_ns = own->all->watchdog_ns,
                                        .carrier =
                                            thread_world_carrier(own->all->letters, own->number)};
    own->code = ana_spread_open(&options, &spread, &own->err);
    if (own->code == STATUS_OK) own->code = own->all->body(own, spread);
    ana_spread_close(spread);
    return NULL;
}

static world world_of(int rank_count, int64_t item_count)
{
    return (world){.rank_count = rank_count,
                   .thread_count = 2,
                   .item_count = item_count,
                   .body = run_once,
                   .other_count_of = -1,
                   .failing_item = -1,
                   .begin_fails_at = -1};
}

static void play(world *all)
{
    all->letters = thread_world_create(all->rank_count);
    for (int number = 0; number < all->rank_count; number++) {
        rank *own = &all->ranks[number];
        own->all = all;
        own->number = number;
        assert_int_equal(pthread_create(&own->thread, NULL, rank_main, own), 0);
    }
    for (int number = 0; number < all->rank_count; number++) {
        pthread_join(all->ranks[number].thread, NULL);
    }
    thread_world_destroy(all->letters);
}

static void assert_all(const world *all, status code)
{
    for (int number = 0; number < all->rank_count; number++) {
        if (all->ranks[number].code != code) {
            fail_msg("rank %d: %d '%s'", number, (int)all->ranks[number].code,
                     all->ranks[number].err.message);
        }
    }
}

static void any_number_of_ranks_puts_the_same(void **state)
{
    (void)state;
    for (int rank_count = 1; rank_count <= THREAD_RANKS_MAX; rank_count++) {
        world all = world_of(rank_count, 20000);

        play(&all);

        assert_all(&all, STATUS_OK);
        assert_int_equal(all.put_count, 20000);
        assert_int_equal(all.ranks[0].report.rank_count, rank_count);
        assert_int_equal(all.ranks[0].report.lost_rank_count, 0);
        assert_int_equal(all.ranks[0].report.repeated_item_count, 0);
    }
}

/// The leader waits in its first items until rank 1 has done some.
static void wait_for_rank_1(rank *own, int64_t item)
{
    (void)item;
    while (own->number == 0 && atomic_load(&own->all->ranks[1].run_count) < 100) {
        nap();
    }
}

static void the_others_work_too(void **state)
{
    (void)state;
    world all = world_of(2, 20000);
    all.before = wait_for_rank_1;

    play(&all);

    assert_all(&all, STATUS_OK);
    assert_true(atomic_load(&all.ranks[1].run_count) >= 100);
    assert_int_equal(atomic_load(&all.ranks[0].run_count) + atomic_load(&all.ranks[1].run_count),
                     20000);
}

/// Rank 2 is cut in its 10th item; the others wait for that.
static void lose_rank_2(rank *own, bool is_seen)
{
    if (own->number == 2 && atomic_load(&own->run_count) == 10) {
        thread_world_cut(own->all->letters, 2, is_seen);
        atomic_store(&own->all->has_lost, true);
    }
    while (own->number != 2 && atomic_load(&own->run_count) > 5 &&
           !atomic_load(&own->all->has_lost)) {
        nap();
    }
}

static void lose_rank_2_for_all_to_see(rank *own, int64_t item)
{
    (void)item;
    lose_rank_2(own, true);
}

static void lose_rank_2_silently(rank *own, int64_t item)
{
    (void)item;
    lose_rank_2(own, false);
}

static void a_rank_that_is_gone_has_its_items_done_by_others(void **state)
{
    (void)state;
    world all = world_of(4, 20000);
    all.thread_count = 1;
    all.before = lose_rank_2_for_all_to_see;

    play(&all);

    assert_all(&all, STATUS_OK);
    assert_int_equal(all.put_count, 20000);
    assert_int_equal(all.ranks[0].report.lost_rank_count, 1);
    assert_true(all.ranks[0].report.repeated_item_count >= 1);
}

static void a_rank_that_is_silent_for_too_long_is_given_up(void **state)
{
    (void)state;
    world all = world_of(3, 20000);
    all.thread_count = 1;
    all.watchdog_ns = 1500000000; // half a second longer than signs of life are apart
    all.before = lose_rank_2_silently;

    play(&all);

    assert_int_equal(all.ranks[0].code, STATUS_OK);
    assert_int_equal(all.put_count, 20000);
    assert_true(all.ranks[0].report.lost_rank_count >= 1);
}

/// Rank 2 is cut silently; in the leader's last item, which waits for it to be given up, all that
/// it has done arrives after all.
static void lose_rank_2_for_a_while(rank *own, int64_t item)
{
    world *all = own->all;
    lose_rank_2(own, false);
    if (item != all->item_count - 1 || own->number == 2) return;
    thread_world_restore(all->letters, 2);
    for (int moment = 0; moment < 50; moment++) {
        nap();
    }
}

static void a_rank_that_comes_back_has_its_results_put_once(void **state)
{
    (void)state;
    world all = world_of(3, 5000);
    all.thread_count = 1;
    all.watchdog_ns = 1500000000;
    all.before = lose_rank_2_for_a_while;

    play(&all);

    assert_int_equal(all.ranks[0].code, STATUS_OK);
    assert_int_equal(all.put_count, 5000);
}

static void a_failing_item_ends_all_ranks_with_its_message(void **state)
{
    (void)state;
    world all = world_of(4, 100000);
    all.failing_item = 1234;

    play(&all);

    assert_all(&all, STATUS_IO);
    assert_int_equal(all.put_count, 1234);
    for (int number = 0; number < 4; number++) {
        assert_string_equal(all.ranks[number].err.message, "item 1234");
    }
}

static void wait_for_end(rank *own, int64_t item)
{
    (void)item;
    if (own->number == 0) nap();
}

static void a_rank_that_cannot_begin_ends_all_and_is_named(void **state)
{
    (void)state;
    world all = world_of(3, 1000000);
    all.begin_fails_at = 2;
    all.before = wait_for_end;

    play(&all);

    assert_all(&all, STATUS_IO);
    assert_string_equal(all.ranks[0].err.message, "rank 2: no trace here");
    assert_string_equal(all.ranks[1].err.message, "rank 2: no trace here");
}

static void ranks_with_other_items_are_refused(void **state)
{
    (void)state;
    world all = world_of(2, 1000000);
    all.other_count_of = 1;
    all.before = wait_for_end;

    play(&all);

    assert_all(&all, STATUS_INVALID);
    assert_string_equal(all.ranks[0].err.message,
                        "rank 1 has 1000001 items, rank 0 has 1000000: do they read the same "
                        "files?");
}

static void interrupt_at_300(rank *own, int64_t item)
{
    if (item == 300) atomic_store(&own->all->interrupt, true);
    if (item > 300) nap();
}

static void an_interruption_ends_all_without_a_gap(void **state)
{
    (void)state;
    world all = world_of(3, 100000);
    all.before = interrupt_at_300;

    play(&all);

    assert_all(&all, STATUS_BACKEND);
    assert_string_equal(all.ranks[0].err.message, "interrupted");
    assert_true(all.put_count < 100000);
}

/// Rank 1 objects, all hear of it; then work goes on with what the leader shares, twice.
static status agree_share_and_run(rank *own, ana_spread *spread)
{
    text_buffer bytes = {0};
    error_message objection = {0};
    status mine = STATUS_OK;
    if (own->number == 1) mine = error_set(&objection, STATUS_FORMAT, "study.json:3: what");
    assert_int_equal(ana_spread_agree(spread, mine, &objection), STATUS_FORMAT);
    assert_string_equal(objection.message, "rank 1: study.json:3: what");
    TRY(ana_spread_agree(spread, STATUS_OK, &own->err));
    if (own->number == 0) text_append(&bytes, "from the leader");
    TRY(ana_spread_share(spread, &bytes, &own->err));
    assert_string_equal(bytes.bytes, "from the leader");
    text_free(&bytes);
    TRY(run_once(own, spread));
    if (own->number == 0) own->all->put_count = 0;
    return run_once(own, spread);
}

static void calls_follow_each_other(void **state)
{
    (void)state;
    world all = world_of(4, 3000);
    all.body = agree_share_and_run;

    play(&all);

    assert_all(&all, STATUS_OK);
    assert_int_equal(all.put_count, 3000);
}

/// The leader gives up without a word.
static status only_followers_run(rank *own, ana_spread *spread)
{
    return own->number == 0 ? STATUS_IO : run_once(own, spread);
}

static void a_leader_that_gives_up_ends_the_others(void **state)
{
    (void)state;
    world all = world_of(3, 1000);
    all.body = only_followers_run;

    play(&all);

    assert_int_equal(all.ranks[1].code, STATUS_BACKEND);
    assert_int_equal(all.ranks[2].code, STATUS_BACKEND);
    assert_string_equal(all.ranks[2].err.message, "rank 0 has given up");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_ranks_puts_the_same),
        cmocka_unit_test(the_others_work_too),
        cmocka_unit_test(a_rank_that_is_gone_has_its_items_done_by_others),
        cmocka_unit_test(a_rank_that_is_silent_for_too_long_is_given_up),
        cmocka_unit_test(a_rank_that_comes_back_has_its_results_put_once),
        cmocka_unit_test(a_failing_item_ends_all_ranks_with_its_message),
        cmocka_unit_test(a_rank_that_cannot_begin_ends_all_and_is_named),
        cmocka_unit_test(ranks_with_other_items_are_refused),
        cmocka_unit_test(an_interruption_ends_all_without_a_gap),
        cmocka_unit_test(calls_follow_each_other),
        cmocka_unit_test(a_leader_that_gives_up_ends_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
