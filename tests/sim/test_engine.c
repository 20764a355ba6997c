/// The next event of every subject: order, ties, changes; against a look at all of them.
#include "base/rng.h"
#include "sim/engine.h"
#include "tests/assert_close.h"
#include "tests/test_memory.h"

#include <stdbool.h>

static sim_engine init(int subject_count, arena *memory)
{
    sim_engine engine = {0};
    assert_ok(sim_engine_init(subject_count, memory, &engine, NULL));
    return engine;
}

static void events_come_by_time_and_equal_times_by_subject(void **state)
{
    arena *memory = *state;
    const sim_engine engine = init(5, memory);
    const int64_t time_ns[] = {20, 10, 20, 10, INT64_MAX - 1};
    const int subjects[] = {1, 3, 0, 2, 4};
    for (int subject = 4; subject >= 0; subject--) {
        sim_engine_set(&engine, subject, time_ns[subject]);
    }

    for (int taken = 0; taken < 5; taken++) {
        assert_int_equal(sim_engine_next_ns(&engine), time_ns[subjects[taken]]);
        assert_int_equal(sim_engine_next(&engine), subjects[taken]);
        sim_engine_set(&engine, subjects[taken], SIM_NEVER);
    }

    assert_int_equal(sim_engine_next_ns(&engine), SIM_NEVER);
}

static void a_reset_engine_has_no_event(void **state)
{
    arena *memory = *state;
    sim_engine engine = init(3, memory);
    sim_engine_set(&engine, 2, 7);

    sim_engine_reset(&engine);

    assert_int_equal(sim_engine_next_ns(&engine), SIM_NEVER);
    sim_engine_set(&engine, 0, 9);
    assert_int_equal(sim_engine_next_ns(&engine), 9);
}

static int earliest(const int64_t *time_ns, int count)
{
    int first = 0;
    for (int subject = 1; subject < count; subject++) {
        if (time_ns[subject] < time_ns[first]) first = subject;
    }
    return first;
}

static void random_changes_leave_the_earliest_that_a_look_at_all_finds(void **state)
{
    arena *memory = *state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        rng generator = rng_init(seed, 1);
        const int count = 1 + (int)rng_below(&generator, 40);
        const sim_engine engine = init(count, memory);
        int64_t time_ns[40];
        for (int subject = 0; subject < count; subject++) {
            time_ns[subject] = SIM_NEVER;
        }
        for (int change = 0; change < 200; change++) {
            const int subject = (int)rng_below(&generator, (uint64_t)count);
            const bool is_never = rng_below(&generator, 4) == 0;
            time_ns[subject] = is_never ? SIM_NEVER : rng_between(&generator, 0, 20);

            sim_engine_set(&engine, subject, time_ns[subject]);

            const int first = earliest(time_ns, count);
            if (sim_engine_next_ns(&engine) != time_ns[first] ||
                (time_ns[first] != SIM_NEVER && sim_engine_next(&engine) != first)) {
                fail_msg("seed %llu, change %d: subject %d is the earliest",
                         (unsigned long long)seed, change, first);
            }
        }
        arena_reset(memory);
    }
}

static void a_count_outside_its_limits_is_invalid_and_touches_nothing(void **state)
{
    arena *memory = *state;
    sim_engine engine = {.subject_count = -7};
    error_message err = {0};

    assert_int_equal(sim_engine_init(0, memory, &engine, &err), STATUS_INVALID);

    assert_string_equal(err.message, "0 subjects are outside [1, 1073741824]");
    assert_int_equal(engine.subject_count, -7);
    assert_int_equal(sim_engine_init((1 << 30) + 1, memory, &engine, NULL), STATUS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_come_by_time_and_equal_times_by_subject),
        cmocka_unit_test(a_reset_engine_has_no_event),
        cmocka_unit_test(random_changes_leave_the_earliest_that_a_look_at_all_finds),
        cmocka_unit_test(a_count_outside_its_limits_is_invalid_and_touches_nothing),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
