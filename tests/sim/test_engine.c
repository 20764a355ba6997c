/// The event queue: order, ties, capacity; against a sorted list.
#include "base/rng.h"
#include "sim/engine.h"
#include "tests/assert_close.h"

#include <stdlib.h>

static sim_engine *create(int64_t capacity, arena *memory)
{
    sim_engine *engine = NULL;
    assert_int_equal(sim_engine_create(capacity, memory, &engine, NULL), STATUS_OK);
    return engine;
}

static void events_come_by_time_and_equal_times_in_the_order_of_their_pushes(void **state)
{
    (void)state;
    arena *memory = arena_create(1 << 12);
    sim_engine *engine = create(5, memory);
    sim_event event = {.subject = -7};

    sim_engine_push(engine, 20, 1, 0, 100);
    sim_engine_push(engine, 10, 1, 1, 101);
    sim_engine_push(engine, 20, 1, 2, 102);
    sim_engine_push(engine, 10, 1, 3, 103);
    sim_engine_push(engine, 20, 1, 4, 104);

    const int subjects[] = {1, 3, 0, 2, 4};
    for (int taken = 0; taken < 5; taken++) {
        assert_true(sim_engine_pop(engine, &event));
        assert_int_equal(event.subject, subjects[taken]);
        assert_int_equal(event.detail, 100 + subjects[taken]);
        assert_int_equal(sim_engine_now_ns(engine), event.time_ns);
        assert_int_equal(sim_engine_has_more_now(engine), taken != 1 && taken != 4);
    }
    assert_false(sim_engine_pop(engine, &event));
    assert_int_equal(event.subject, 4);
    assert_int_equal(sim_engine_now_ns(engine), 20);
    assert_int_equal(sim_engine_event_count(engine), 5);
    arena_destroy(memory);
}

typedef struct listed {
    int64_t time_ns;
    int number;
} listed;

static int compare(const void *left, const void *right)
{
    const listed *a = left;
    const listed *b = right;
    if (a->time_ns != b->time_ns) return a->time_ns < b->time_ns ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

static void random_pushes_and_pops_come_as_from_a_sorted_list(void **state)
{
    (void)state;
    enum { CAPACITY = 200 };
    arena *memory = arena_create(1 << 14);
    sim_engine *engine = create(CAPACITY, memory);
    for (uint64_t seed = 0; seed < 300; seed++) {
        rng generator = rng_init(seed, 2);
        listed list[CAPACITY];
        int count = 0;
        int64_t now_ns = 0;
        sim_engine_reset(engine);
        for (int number = 0; number < 1000; number++) {
            if (count < CAPACITY && rng_below(&generator, 5) < 3) {
                const int64_t time_ns = now_ns + rng_between(&generator, 0, 9);
                sim_engine_push(engine, time_ns, 0, number, 0);
                list[count++] = (listed){time_ns, number};
                continue;
            }
            sim_event event;
            assert_int_equal(sim_engine_pop(engine, &event), count > 0);
            if (count == 0) continue;
            qsort(list, (size_t)count, sizeof *list, compare);
            if (event.time_ns != list[0].time_ns || event.subject != list[0].number) {
                fail_msg("seed %llu: event %d came instead of %d", (unsigned long long)seed,
                         event.subject, list[0].number);
            }
            now_ns = event.time_ns;
            list[0] = list[--count];
        }
    }
    arena_destroy(memory);
}

static void a_capacity_outside_its_limits_is_refused(void **state)
{
    (void)state;
    arena *memory = arena_create(1 << 12);
    sim_engine *engine = NULL;
    error_message err = {0};

    assert_int_equal(sim_engine_create((INT64_C(1) << 30) + 1, memory, &engine, &err),
                     STATUS_INVALID);
    assert_string_equal(err.message, "capacity of 1073741825 events is outside [0, 1073741824]");
    assert_int_equal(sim_engine_create(-1, memory, &engine, &err), STATUS_INVALID);
    assert_null(engine);
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_come_by_time_and_equal_times_in_the_order_of_their_pushes),
        cmocka_unit_test(random_pushes_and_pops_come_as_from_a_sorted_list),
        cmocka_unit_test(a_capacity_outside_its_limits_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
