/// Plays, and replays once they have seen every plan, ask the system for no memory: the linker
/// leads every call of malloc, calloc and realloc through here, and they are counted.
#include "base/arena.h"
#include "sim/dispatch.h"
#include "sim/pipeline.h"
#include "sim/training_replay.h"
#include "tests/assert_close.h"
#include "tests/sim/random_schedules.h"
#include "tests/sim/table_source.h"

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
        assert_ok(sim_order_compile(&problem.schedule, memory, &order, NULL));
        assert_true(call_count > 0); // so the calls of sim are seen
        sim_summary_init(&order, memory, &summary);
        sim_timeline_init(&problem.schedule, memory, &timeline);
        call_count = 0;

        assert_ok(sim_costs_check(&problem.schedule, &problem.costs, NULL));
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
            assert_ok(sim_dispatch_create(&problem.schedule, (sim_policy)policy, NULL, memory,
                                          &dispatch, NULL));
            call_count = 0;

            assert_ok(sim_dispatch_play(dispatch, &problem.costs, limit, NULL, &timeline, NULL));

            assert_int_equal(call_count, 0);
        }
    }
    arena_destroy(memory);
}

static status turning_costs_at(void *context, int iteration, bal_layer_costs *costs, bool *changed,
                               error_message *err)
{
    return table_costs_at(context, iteration % TABLE_ITERATIONS, costs, changed, err);
}

enum { WARM = 3 * TABLE_ITERATIONS };

static status watch_calls(void *context, const bal_training_iteration *iteration,
                          error_message *err)
{
    (void)context;
    (void)err;
    if (iteration->iteration < WARM) call_count = 0;
    return STATUS_OK;
}

static bool wants_all(void *context, int iteration)
{
    (void)context;
    (void)iteration;
    return true;
}

static void a_replay_that_repeats_asks_for_no_more_memory(void **state)
{
    (void)state;
    table_source *table = memory_array(1, sizeof *table);
    arena *memory = arena_create(1 << 16);
    assert_non_null(table);
    table_source_init(table, TABLE_LAYERS, 1);
    table_fill(table, 0, TABLE_ITERATIONS, 100, 100, 100);
    table->source.costs_at = turning_costs_at;
    const bal_training training = {
        .sources = &table->source,
        .source_count = 1,
        .data_parallel = 1,
        .machine = {.rank_count = 4, .ranks_per_node = 2},
        .iteration_count = 3 * WARM,
        .microbatch_count = 64,
        .schedule = "1f1b",
        .change_ratio = 0.25,
        .balancer = bal_balancer_find("partition"),
        .sink = {.put = watch_calls, .wants_timeline = wants_all},
    };
    bal_training_result result;

    assert_ok(sim_training_replay(&training, memory, &result, NULL));

    assert_int_equal(call_count, 0);
    assert_int_equal(result.simulated_count, 1);
    free(table);
    arena_destroy(memory);
}

static void a_long_replay_asks_for_no_more_memory(void **state)
{
    (void)state;
    enum { REPLICAS = 3 };
    table_source *tables = memory_array(REPLICAS, sizeof *tables);
    bal_cost_source ports[REPLICAS];
    arena *memory = arena_create(1 << 16);
    assert_non_null(tables);
    rng generator = rng_init(1, 0);
    for (int replica = 0; replica < REPLICAS; replica++) {
        table_source_init(&tables[replica], TABLE_LAYERS, 4);
        for (int cell = 0; cell < TABLE_ITERATIONS * TABLE_LAYERS * 4; cell++) {
            const int iteration = cell / (TABLE_LAYERS * 4);
            const int heavy = cell % (TABLE_LAYERS * 4) / 4 < iteration % TABLE_LAYERS ? 2000 : 9;
            tables[replica].forward[iteration][cell % (TABLE_LAYERS * 4)] =
                rng_between(&generator, 1, heavy);
        }
        tables[replica].source.costs_at = turning_costs_at;
        ports[replica] = tables[replica].source;
    }
    const bal_slow_rank slow = {.rank = 2, .time_factor = 1.5, .end_iteration = 1000};
    const bal_training training = {
        .sources = ports,
        .source_count = REPLICAS,
        .data_parallel = REPLICAS,
        .machine = {.rank_count = 4, .ranks_per_node = 2},
        .iteration_count = 3 * WARM,
        .microbatch_count = 8,
        .schedule = "1f1b",
        .change_ratio = 0.25,
        .reduction_overlap = BAL_REDUCTION_BACKWARD,
        .balancer = bal_balancer_find("partition"),
        .policy = {.kind = BAL_POLICY_EVERY, .period = 1},
        .information = BAL_INFORMATION_FORESIGHT,
        .migration = bal_migration_options_default(),
        .slow_ranks = &slow,
        .slow_rank_count = 1,
        .sink = {.put = watch_calls},
    };
    bal_training_result result;

    assert_ok(sim_training_replay(&training, memory, &result, NULL));

    assert_int_equal(call_count, 0);
    assert_true(result.rebalance_count > 3 * WARM / 2);
    free(tables);
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_static_engine_plays_without_allocating),
        cmocka_unit_test(the_event_engine_plays_without_allocating),
        cmocka_unit_test(a_replay_that_repeats_asks_for_no_more_memory),
        cmocka_unit_test(a_long_replay_asks_for_no_more_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
