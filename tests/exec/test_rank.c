/// The engine over the timed device and threads. Under the nominal clock random orders give the
/// simulator's timeline to the nanosecond (schedules and plans are in test_nominal_clock.c); under
/// the clocks that sleep, what must hold at any speed of the machine.
#include "base/rng.h"
#include "exec/run/rank.h"
#include "sim/pipeline.h"
#include "tests/balance/reference_player.h"
#include "tests/exec/thread_ranks.h"
#include "tests/exec/world_group.h"
#include "tests/sim/random_schedules.h"
#include "tests/test_memory.h"

#include <stdio.h>

enum { RANKS_MAX = 24 };

/// What all ranks of a world play.
typedef struct played {
    const bal_schedule *schedule;
    const bal_layer_costs *layers;
    bal_placed_partition plan;
    const double *rank_time_factor; // [rank_count]
    const bal_stage_costs *costs;   // for the transfers
    exec_clock clock;
    int iteration_count;
    bal_timeline timeline; // out
    exec_rank_times times[RANKS_MAX];
} played;

/// The ranks agree on a moment at which the iteration begins.
static status agree_on_begin(exec_endpoint *endpoint, int64_t *begin_ns, error_message *err)
{
    int ranks[RANKS_MAX];
    int sequence;
    const exec_group group = world_group(endpoint, ranks, &sequence);
    *begin_ns = endpoint->transport->now_ns(endpoint) + 1000000;
    TRY(exec_group_broadcast(&group, begin_ns, sizeof *begin_ns, err));
    return exec_group_barrier(&group, err);
}

/// @param own memory of this rank alone
static status play_with(exec_endpoint *endpoint, played *shared, exec_device *device, arena *own,
                        error_message *err)
{
    const int place = endpoint->rank;
    exec_program program;
    int world_rank[RANKS_MAX];
    for (int rank = 0; rank < endpoint->rank_count; rank++) {
        world_rank[rank] = rank;
    }
    TRY(device->table->hold(device, &shared->plan, place, shared->schedule->microbatch_count, err));
    exec_program_compile(shared->schedule, place, own, &program);
    exec_rank_play play = {
        .endpoint = endpoint,
        .device = device,
        .program = &program,
        .world_rank = world_rank,
        .send_forward_ns = shared->costs->send_forward_ns,
        .send_backward_ns = shared->costs->send_backward_ns,
        .clock = shared->clock,
    };
    exec_rank_times *times = &shared->times[place];
    times->begin_ns = shared->timeline.begin_ns + shared->schedule->first_op[place];
    times->end_ns = shared->timeline.end_ns + shared->schedule->first_op[place];
    for (int iteration = 0; iteration < shared->iteration_count; iteration++) {
        const exec_iteration what = {.iteration = iteration,
                                     .costs = shared->layers,
                                     .rank_time_factor = shared->rank_time_factor[place]};
        TRY(agree_on_begin(endpoint, &play.iteration_begin_ns, err));
        TRY(exec_rank_iterate(&play, &what, times, err));
    }
    return STATUS_OK;
}

static status play_rank(exec_endpoint *endpoint, void *context, error_message *err)
{
    played *shared = context;
    arena *own = arena_create(1 << 14);
    exec_device *device = exec_device_timed_create(shared->layers->layer_count);
    const status code = play_with(endpoint, shared, device, own, err);
    device->table->destroy(device);
    arena_destroy(own);
    return code;
}

static void execute(played *shared)
{
    sim_timeline_init(shared->schedule, memory, &shared->timeline);
    run_ranks(shared->schedule->rank_count, play_rank, shared);
}

static void assert_as_simulated(const played *shared, const char *what)
{
    sim_order order;
    bal_timeline expected;
    require(sim_order_compile(shared->schedule, memory, &order, &why));
    sim_timeline_init(shared->schedule, memory, &expected);
    sim_order_play(&order, shared->costs, NULL, &expected);
    for (int op = 0; op < shared->schedule->first_op[shared->schedule->rank_count]; op++) {
        if (expected.begin_ns[op] == shared->timeline.begin_ns[op] &&
            expected.end_ns[op] == shared->timeline.end_ns[op]) {
            continue;
        }
        fail_msg("%s, P=%d: op %d [%lld, %lld), simulated [%lld, %lld)", what,
                 shared->schedule->rank_count, op, (long long)shared->timeline.begin_ns[op],
                 (long long)shared->timeline.end_ns[op], (long long)expected.begin_ns[op],
                 (long long)expected.end_ns[op]);
    }
}

static const double no_factor[RANKS_MAX] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                            1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

/// A random order whose stages have one layer each.
static played shared_of(const random_problem *problem, bal_layer_costs *layers)
{
    const bal_schedule *schedule = &problem->schedule;
    const int stages = schedule->rank_count * schedule->chunk_count;
    int *first = arena_array(memory, (size_t)stages + 1, sizeof *first);
    assert_non_null(first);
    for (int stage = 0; stage <= stages; stage++) {
        first[stage] = stage;
    }
    *layers = (bal_layer_costs){.layer_count = stages,
                                .microbatch_count = problem->costs.microbatch_count,
                                .has_split = true,
                                .forward_ns = problem->costs.forward_ns,
                                .backward_input_ns = problem->costs.backward_input_ns,
                                .backward_weight_ns = problem->costs.backward_weight_ns};
    return (played){.schedule = schedule,
                    .layers = layers,
                    .plan = {.first_layer = first,
                             .rank_count = schedule->rank_count,
                             .chunk_count = schedule->chunk_count,
                             .placement = schedule->placement},
                    .rank_time_factor = no_factor,
                    .costs = &problem->costs,
                    .iteration_count = 1};
}

TEST(random_orders_take_the_simulated_times)
{
    for (uint64_t seed = 0; seed < 300; seed++) {
        const random_problem problem = random_problem_draw(seed);
        char what[40];
        bal_layer_costs layers;
        played shared = shared_of(&problem, &layers);
        shared.clock = EXEC_CLOCK_NOMINAL;
        snprintf(what, sizeof what, "seed %llu", (unsigned long long)seed);

        execute(&shared);

        assert_as_simulated(&shared, what);
        arena_reset(memory);
    }
}

/// Under a clock that sleeps no op begins before its message or the op before it has let it, and
/// none is shorter than it shall be; how much later all that is depends on the machine.
static void assert_possible(const played *shared, const char *what)
{
    const bal_schedule *schedule = shared->schedule;
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
            const int stage = bal_stage_of(schedule->placement, schedule->rank_count,
                                           schedule->chunk_count, rank, schedule->ops[op].chunk);
            const int64_t duration_ns = shared->timeline.end_ns[op] - shared->timeline.begin_ns[op];
            const int64_t least_ns = reference_op_ns(shared->costs, stage, schedule->ops[op]);
            const int64_t arrival_ns =
                reference_arrival(&shared->timeline, shared->costs, rank, schedule->ops[op]);
            const int64_t free_ns =
                op > schedule->first_op[rank] ? shared->timeline.end_ns[op - 1] : 0;
            if (duration_ns < least_ns) fail_msg("%s: op %d is too short", what, op);
            if (shared->clock == EXEC_CLOCK_QUEUE && duration_ns != least_ns) {
                fail_msg("%s: op %d is too long", what, op);
            }
            if (shared->timeline.begin_ns[op] < arrival_ns ||
                shared->timeline.begin_ns[op] < free_ns) {
                fail_msg("%s: op %d begins too early", what, op);
            }
        }
    }
}

TEST(clocks_that_sleep_let_no_op_begin_too_early)
{
    for (uint64_t seed = 0; seed < 24; seed++) {
        random_problem problem = random_problem_draw(seed);
        rng random = rng_init(seed, 9);
        problem.costs =
            random_costs(&random, problem.schedule.rank_count * problem.schedule.chunk_count,
                         problem.costs.microbatch_count, 300000, seed % 3 == 0 ? 0 : 200000);
        for (int clock = EXEC_CLOCK_QUEUE; clock <= EXEC_CLOCK_REAL; clock++) {
            char what[40];
            bal_layer_costs layers;
            played shared = shared_of(&problem, &layers);
            shared.clock = (exec_clock)clock;
            snprintf(what, sizeof what, "seed %llu, %s", (unsigned long long)seed,
                     exec_clock_names[clock]);

            execute(&shared);

            assert_possible(&shared, what);
        }
        arena_reset(memory);
    }
}

TEST(one_rank_on_the_queue_clock_keeps_its_deadlines)
{
    random_problem problem = {
        .schedule = reference_build("zb-h1", 1, 4, 1),
        .costs = reference_uniform_costs(1, 200000, 300000, 100000, 0, (int64_t[]){1, 0, -1})};
    bal_layer_costs layers;
    played shared = shared_of(&problem, &layers);
    shared.clock = EXEC_CLOCK_QUEUE;

    execute(&shared);

    assert_as_simulated(&shared, "one rank");
    assert_int_equal(shared.times[0].message_count, 0);
    assert_true(shared.times[0].wake_ns >= 0);
    assert_true(shared.times[0].overhead_ns >= 0);
}

TEST(messages_are_counted)
{
    random_problem problem = {
        .schedule = reference_build("1f1b", 2, 3, 1),
        .costs = reference_uniform_costs(2, 100, 200, 30, 0, (int64_t[]){1, 0, -1})};
    bal_layer_costs layers;
    played shared = shared_of(&problem, &layers);

    execute(&shared);

    assert_int_equal(shared.timeline.end_ns[0], 100);
    assert_int_equal(shared.times[0].message_count, 3);
    assert_int_equal(shared.times[1].message_count, 3);
    assert_true(shared.times[1].awaited_count <= 3);
}

TEST(a_rank_that_meets_no_other_hears_of_the_end)
{
    random_problem problem = {
        .schedule = reference_build("1f1b", 1, 3, 1),
        .costs = reference_uniform_costs(1, 100, 200, 30, 0, (int64_t[]){1, 0, -1})};
    bal_layer_costs layers;
    played shared = shared_of(&problem, &layers);
    atomic_bool interrupt = true;
    exec_transport_options options = exec_transport_options_default();
    options.interrupt = &interrupt;
    options.grace_ns = INT64_MAX / 4;
    shared.iteration_count = INT32_MAX;
    sim_timeline_init(shared.schedule, memory, &shared.timeline);

    assert_fails(exec_transport_run("local", &options, play_rank, &shared, &why), STATUS_BACKEND,
                 "interrupted");
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
