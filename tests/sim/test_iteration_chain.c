/// Chains of iterations against playing every one of them, and their draws against playing each
/// alone.
#include "sim/iteration_chain.h"
#include "sim/perturbation.h"
#include "tests/assert_close.h"
#include "tests/balance/reference_player.h"
#include "tests/sim/random_schedules.h"

#include <math.h>
#include <string.h>

/// Plays every iteration; what the chain takes after each.
static void play_all(sim_order *order, const bal_stage_costs *costs, int iteration_count,
                     int64_t *total_ns, arena *memory)
{
    sim_summary summary;
    int64_t first_ns = 0;
    sim_summary_init(order, memory, &summary);
    for (int iteration = 0; iteration < iteration_count; iteration++) {
        sim_order_summarise(order, costs, iteration > 0 ? summary.last_end_ns : NULL, &summary);
        int64_t last_ns = 0;
        for (int rank = 0; rank < order->schedule->rank_count; rank++) {
            if (summary.last_end_ns[rank] > last_ns) last_ns = summary.last_end_ns[rank];
        }
        if (iteration == 0) first_ns = last_ns - summary.makespan_ns;
        total_ns[iteration] = last_ns - first_ns;
    }
}

static void what_repeats_takes_as_long_as_what_is_played(void **state)
{
    (void)state;
    enum { ITERATIONS = 60 };
    arena *memory = arena_create(1 << 20);
    int64_t total_ns[ITERATIONS];
    int repeated = 0;
    for (uint64_t seed = 0; seed < 600; seed++) {
        const random_problem problem = random_problem_draw(seed, memory);
        sim_order order;
        assert_int_equal(sim_order_compile(&problem.schedule, memory, &order, NULL), STATUS_OK);
        play_all(&order, &problem.costs, ITERATIONS, total_ns, memory);
        for (int count = 1; count <= ITERATIONS; count += 1 + (int)(seed % 7)) {
            sim_chain chain;

            assert_int_equal(sim_chain_play(&order, &problem.costs, count, memory, &chain, NULL),
                             STATUS_OK);

            assert_int_equal(chain.total_ns, total_ns[count - 1]);
            repeated += chain.played_count < count;
            if (chain.steady_iteration < 0) continue;
            for (int64_t at = chain.steady_iteration + chain.period_iterations; at < count; at++) {
                assert_int_equal(total_ns[at] - total_ns[at - chain.period_iterations],
                                 chain.period_ns);
            }
        }
        arena_reset(memory);
    }
    assert_true(repeated > 1000);
    arena_destroy(memory);
}

static void without_a_barrier_an_equal_pipeline_takes_its_work_per_iteration(void **state)
{
    (void)state;
    arena *memory = arena_create(1 << 18);
    const bal_schedule schedule = reference_build("1f1b", 4, 8, 1, memory);
    const bal_stage_costs costs =
        reference_uniform_costs(4, 50, 60, 40, 0, (int64_t[]){1, 0, -1}, memory);
    sim_order order;
    sim_chain chain;
    assert_int_equal(sim_order_compile(&schedule, memory, &order, NULL), STATUS_OK);

    assert_int_equal(sim_chain_play(&order, &costs, 1000000, memory, &chain, NULL), STATUS_OK);

    // Under 1F1B the first rank ends last and begins first: no iteration overlaps the next.
    assert_int_equal(chain.period_ns, (8 + 4 - 1) * 150);
    assert_int_equal(chain.period_iterations, 1);
    assert_int_equal(chain.total_ns, INT64_C(1000000) * (8 + 4 - 1) * 150);
    assert_true(chain.played_count < 10);
    arena_destroy(memory);
}

static void a_chain_that_is_too_long_is_refused(void **state)
{
    (void)state;
    arena *memory = arena_create(1 << 16);
    const bal_schedule schedule = reference_build("1f1b", 2, 1, 1, memory);
    const bal_stage_costs costs =
        reference_uniform_costs(2, INT64_C(1) << 58, 1, 1, 0, (int64_t[]){1, 0, -1}, memory);
    sim_order order;
    sim_chain chain = {.iteration_count = -7};
    error_message err = {0};
    assert_int_equal(sim_order_compile(&schedule, memory, &order, NULL), STATUS_OK);

    assert_int_equal(sim_chain_play(&order, &costs, 100, memory, &chain, &err), STATUS_INVALID);

    assert_string_equal(err.message,
                        "100 iterations together take longer than 4611686018427387903 ns");
    assert_int_equal(chain.iteration_count, -7);
    arena_destroy(memory);
}

/// One draw, iteration by iteration, as its parts say.
static int64_t play_draw(sim_order *order, const bal_stage_costs *costs,
                         const bal_disturbance *disturbance, int iteration_count, arena *memory)
{
    const bal_schedule *schedule = order->schedule;
    const size_t cells = (size_t)costs->stage_count * (size_t)costs->microbatch_count;
    sim_summary summary;
    int64_t first_ns = 0;
    int64_t last_ns = 0;
    sim_summary_init(order, memory, &summary);
    for (int iteration = 0; iteration < iteration_count; iteration++) {
        double factor[8] = {1, 1, 1, 1, 1, 1, 1, 1};
        bal_stage_costs slowed = *costs;
        bal_stage_costs drawn;
        const int64_t **times[] = {&slowed.forward_ns, &slowed.backward_input_ns,
                                   &slowed.backward_weight_ns};
        bal_disturbance_slow_ranks(disturbance, schedule->rank_count, iteration, factor);
        for (int kind = 0; kind < 3; kind++) {
            int64_t *scaled = reference_row(*times[kind], (int)cells, false, memory);
            for (size_t cell = 0; cell < cells; cell++) {
                const int stage = (int)cell / costs->microbatch_count;
                const int rank = bal_rank_of_stage(schedule->placement, schedule->rank_count,
                                                   schedule->chunk_count, stage, NULL);
                scaled[cell] = (int64_t)round((double)scaled[cell] * factor[rank]);
            }
            *times[kind] = scaled;
        }
        const sim_perturbed_play play = {.iteration = iteration};
        sim_perturb(disturbance, schedule, &play, &slowed, memory, &drawn);
        sim_order_summarise(order, &drawn, iteration > 0 ? summary.last_end_ns : NULL, &summary);
        last_ns = 0;
        for (int rank = 0; rank < schedule->rank_count; rank++) {
            if (summary.last_end_ns[rank] > last_ns) last_ns = summary.last_end_ns[rank];
        }
        if (iteration == 0) first_ns = last_ns - summary.makespan_ns;
    }
    return last_ns - first_ns;
}

/// The seed of a draw, as sim/ensemble.c makes it.
static uint64_t seed_of_draw(uint64_t seed, int draw)
{
    rng generator = rng_init(seed ^ 0x64726177, (uint64_t)draw);
    return rng_next(&generator);
}

static void every_draw_is_what_it_is_alone(void **state)
{
    (void)state;
    enum { DRAWS = 11, ITERATIONS = 4 };
    arena *memory = arena_create(1 << 20);
    for (uint64_t seed = 0; seed < 120; seed++) {
        random_problem problem = random_problem_draw(seed, memory);
        rng generator = rng_init(seed, 9);
        sim_order order;
        int64_t total_ns[DRAWS];
        int64_t few_ns[DRAWS];
        if (seed % 3 == 0) random_delays(&generator, &problem.costs, 20, memory);
        assert_int_equal(sim_order_compile(&problem.schedule, memory, &order, NULL), STATUS_OK);
        bal_disturbance disturbance = {.seed = seed,
                                       .iteration_sigma = seed % 2 == 0 ? 0.2 : 0,
                                       .op_sigma = seed % 5 < 2 ? 0.1 : 0};
        sim_ensemble ensemble = {.order = &order,
                                 .costs = &problem.costs,
                                 .disturbance = &disturbance,
                                 .draw_count = DRAWS,
                                 .iteration_count = ITERATIONS};

        assert_int_equal(sim_ensemble_play(&ensemble, memory, total_ns, NULL), STATUS_OK);
        ensemble.draw_count = 3;
        assert_int_equal(sim_ensemble_play(&ensemble, memory, few_ns, NULL), STATUS_OK);

        assert_memory_equal(few_ns, total_ns, 3 * sizeof *few_ns);
        for (int draw = 0; draw < DRAWS; draw++) {
            disturbance.seed = seed_of_draw(seed, draw);
            assert_int_equal(total_ns[draw],
                             play_draw(&order, &problem.costs, &disturbance, ITERATIONS, memory));
        }
        arena_reset(memory);
    }
    arena_destroy(memory);
}

/// How often a play has asked, and when it is to end.
typedef struct asked {
    int64_t count;
    int64_t last;
} asked;

static status count_until_last(void *context, error_message *err)
{
    asked *so_far = context;
    so_far->count++;
    return so_far->count < so_far->last ? STATUS_OK : error_set(err, STATUS_BACKEND, "enough");
}

static void a_play_asks_behind_every_iteration_and_ends_when_told(void **state)
{
    (void)state;
    enum { DRAWS = 70, ITERATIONS = 3 };
    arena *memory = arena_create(1 << 16);
    const bal_schedule schedule = reference_build("1f1b", 2, 2, 1, memory);
    const bal_stage_costs costs =
        reference_uniform_costs(2, 50, 60, 40, 3, (int64_t[]){1, 0, -1}, memory);
    const bal_disturbance disturbance = {.op_sigma = 0.1};
    sim_order order;
    int64_t total_ns[DRAWS];
    error_message err = {0};
    asked so_far = {.last = INT64_MAX};
    assert_int_equal(sim_order_compile(&schedule, memory, &order, NULL), STATUS_OK);
    const sim_ensemble ensemble = {.order = &order,
                                   .costs = &costs,
                                   .disturbance = &disturbance,
                                   .draw_count = DRAWS,
                                   .iteration_count = ITERATIONS,
                                   .step = count_until_last,
                                   .context = &so_far};

    assert_int_equal(sim_ensemble_play(&ensemble, memory, total_ns, &err), STATUS_OK);
    const int64_t whole = so_far.count;
    so_far = (asked){.last = ITERATIONS + 1};
    assert_int_equal(sim_ensemble_play(&ensemble, memory, total_ns, &err), STATUS_BACKEND);

    assert_int_equal(whole, sim_ensemble_batch_count(&ensemble) * ITERATIONS);
    assert_true(sim_ensemble_batch_count(&ensemble) > 1);
    assert_int_equal(so_far.count, ITERATIONS + 1);
    assert_string_equal(err.message, "enough");
    arena_destroy(memory);
}

static void draws_that_take_too_long_are_refused(void **state)
{
    (void)state;
    arena *memory = arena_create(1 << 16);
    const bal_schedule schedule = reference_build("1f1b", 2, 1, 1, memory);
    const bal_stage_costs costs =
        reference_uniform_costs(2, INT64_C(1) << 57, 1, 1, 0, (int64_t[]){1, 0, -1}, memory);
    const bal_disturbance disturbance = {.rank_sigma = 0.01};
    sim_order order;
    int64_t total_ns[1];
    error_message err = {0};
    assert_int_equal(sim_order_compile(&schedule, memory, &order, NULL), STATUS_OK);
    const sim_ensemble ensemble = {.order = &order,
                                   .costs = &costs,
                                   .disturbance = &disturbance,
                                   .draw_count = 1,
                                   .iteration_count = 100};

    assert_int_equal(sim_ensemble_play(&ensemble, memory, total_ns, &err), STATUS_INVALID);

    assert_string_equal(err.message,
                        "100 iterations together take longer than 4611686018427387903 ns");
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_repeats_takes_as_long_as_what_is_played),
        cmocka_unit_test(without_a_barrier_an_equal_pipeline_takes_its_work_per_iteration),
        cmocka_unit_test(a_chain_that_is_too_long_is_refused),
        cmocka_unit_test(every_draw_is_what_it_is_alone),
        cmocka_unit_test(a_play_asks_behind_every_iteration_and_ends_when_told),
        cmocka_unit_test(draws_that_take_too_long_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
