/// Plays ask the system for no memory: the linker leads every call of malloc, calloc and realloc
/// through here, and they are counted.
#include "sim/dispatch.h"
#include "sim/pipeline.h"
#include "tests/assert_close.h"
#include "tests/sim/random_schedules.h"

#include <stdlib.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);

static int call_count;

void *__wrap_malloc(size_t bytes)
{
    call_count++;
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    call_count++;
    return __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    call_count++;
    return __real_realloc(memory, bytes);
}

static void the_static_engine_plays_without_allocating(void **state)
{
    (void)state;
    arena *memory = arena_create(1 << 16);
    for (uint64_t seed = 0; seed < 50; seed++) {
        const random_problem problem = random_problem_draw(seed, memory);
        sim_order order;
        sim_summary summary;
        bal_timeline timeline;
        call_count = 0;
        assert_int_equal(sim_order_compile(&problem.schedule, memory, &order, NULL), STATUS_OK);
        assert_true(call_count > 0); // so the calls of sim are seen
        assert_int_equal(sim_summary_init(&order, memory, &summary, NULL), STATUS_OK);
        assert_int_equal(sim_timeline_init(&problem.schedule, memory, &timeline, NULL), STATUS_OK);
        call_count = 0;

        assert_int_equal(sim_costs_check(&problem.schedule, &problem.costs, NULL), STATUS_OK);
        sim_order_play(&order, &problem.costs, NULL, &timeline);
        sim_order_summarise(&order, &problem.costs, NULL, &summary);

        assert_int_equal(call_count, 0);
    }
    arena_destroy(memory);
}

static void the_event_engine_plays_without_allocating(void **state)
{
    (void)state;
    arena *memory = arena_create(1 << 16);
    for (uint64_t seed = 0; seed < 50; seed++) {
        for (int policy = 0; policy < SIM_POLICY_COUNT; policy++) {
            const random_problem problem = random_problem_draw(seed, memory);
            const int64_t limit[] = {1000, 1000, 1000, 1000, 1000};
            sim_dispatch *dispatch = NULL;
            bal_timeline timeline;
            assert_int_equal(
                sim_dispatch_create(&problem.schedule, (sim_policy)policy, memory, &dispatch, NULL),
                STATUS_OK);
            call_count = 0;

            assert_int_equal(
                sim_dispatch_play(dispatch, &problem.costs, limit, NULL, &timeline, NULL),
                STATUS_OK);

            assert_int_equal(call_count, 0);
        }
    }
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_static_engine_plays_without_allocating),
        cmocka_unit_test(the_event_engine_plays_without_allocating),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
