/// Executed runs beyond the simulator: plans that are given, what is refused, what fails, and the
/// clocks under which time passes.
#include "exec/run/execution.h"
#include "tests/drawn_run.h"
#include "tests/exec/thread_ranks.h"
#include "tests/test_memory.h"

#include <string.h>

enum { RANKS = 3, ITERATIONS = 5 };

/// A run of three ranks, and what the leader tells of it.
static struct {
    drawn_run drawn;
    exec_training training;
    exec_training_listener listener;
    bal_training_result result;
    int record_count;
    int fails_at; // the sink has no room in this iteration; -1: never
    int64_t pipeline_ns[ITERATIONS];
    int64_t ideal_ns[ITERATIONS]; // largest sum of op times of a rank
    int first_of_second[ITERATIONS];
    int64_t message_count;
    int64_t op_count;
} run;

static status put(void *context, const bal_training_iteration *iteration, error_message *err)
{
    if (iteration->iteration == run.fails_at) {
        return error_set(err, STATUS_IO, "runs.db: disk full");
    }
    run.pipeline_ns[run.record_count] = iteration->pipeline_ns;
    run.ideal_ns[run.record_count] = iteration->metrics.work_max_ns;
    run.first_of_second[run.record_count] = iteration->first_layer[1];
    run.record_count++;
    return STATUS_OK;
}

static status listen(void *context, const exec_measured *measured, error_message *err)
{
    run.message_count += measured->message_count;
    run.op_count += measured->op_count;
    return STATUS_OK;
}

static status make_timed(void *context, int world_rank, exec_device **device, error_message *err)
{
    *device = exec_device_timed_create(run.drawn.ports[0].layer_count);
    return STATUS_OK;
}

/// 1F1B on three ranks without links that take time; the balancer is asked after every iteration.
static int prepare(void **state)
{
    bal_training *training = &run.drawn.training;
    memset(&run, 0, sizeof run);
    draw_run(&run.drawn, 5, RANKS, 30 - RANKS, 1, ITERATIONS);
    *training = (bal_training){
        .sources = run.drawn.ports,
        .source_count = 1,
        .data_parallel = 1,
        .machine = {.rank_count = RANKS, .ranks_per_node = RANKS},
        .iteration_count = ITERATIONS,
        .microbatch_count = 6,
        .schedule = "1f1b",
        .change_ratio = 0.25,
        .balancer = bal_balancer_find("partition"),
        .policy = {.kind = BAL_POLICY_EVERY, .period = 1},
        .migration = bal_migration_options_default(),
        .repack = bal_repack_options_default(),
        .sink = {.put = put},
    };
    run.fails_at = -1;
    run.listener.put = listen;
    run.training = (exec_training){
        .training = training,
        .devices = {NULL, make_timed},
        .clock = EXEC_CLOCK_NOMINAL,
        .listener = &run.listener,
    };
    return 0;
}

static status run_rank(exec_endpoint *endpoint, void *context, error_message *err)
{
    return exec_training_rank(endpoint, &run.training, memory, &run.result, err);
}

static status execute(void)
{
    return run_threads(RANKS, run_rank, NULL, &why);
}

TEST_BETWEEN(a_plan_that_is_given_stays_where_nobody_asks, prepare, NULL)
{
    const int layers = run.drawn.ports[0].layer_count;
    const int first_layer[] = {0, layers - 1, layers};
    const int ranks[] = {2, 0};
    const bal_plan plan = {.first_layer = first_layer,
                           .rank_count = 2,
                           .chunk_count = 1,
                           .schedule = "1f1b",
                           .microbatch_count = 6,
                           .stage_ranks = ranks,
                           .data_parallel = 1};
    run.drawn.training.policy = (bal_policy){.kind = BAL_POLICY_NEVER};
    run.training.plan = &plan;

    require(execute());

    assert_int_equal(run.record_count, ITERATIONS);
    assert_int_equal(run.first_of_second[ITERATIONS - 1], layers - 1);
    assert_int_equal(run.result.final_rank_count, 2);
    assert_int_equal(run.result.final_machine_rank[0], 2);
    assert_int_equal(run.result.decision_count, 0);
    // F and B cross the cut once per microbatch.
    assert_int_equal(run.message_count, ITERATIONS * 6 * 2);
    assert_int_equal(run.op_count, ITERATIONS * 6 * 2 * 2);
}

TEST_BETWEEN(after_a_plan_that_is_given_the_policy_asks, prepare, NULL)
{
    const int layers = run.drawn.ports[0].layer_count;
    const int first_layer[] = {0, 1, 2, layers};
    const bal_plan plan = {.first_layer = first_layer,
                           .rank_count = RANKS,
                           .chunk_count = 1,
                           .schedule = "1f1b",
                           .microbatch_count = 6,
                           .data_parallel = 1};
    run.training.plan = &plan;

    require(execute());

    assert_int_equal(run.first_of_second[0], 1);
    assert_true(run.first_of_second[1] > 1);
    assert_true(run.pipeline_ns[1] < run.pipeline_ns[0]);
}

/// Executes and expects a refusal with this text in it.
static void assert_refused(const char *text)
{
    assert_fails_naming(execute(), STATUS_INVALID, text);
    assert_int_equal(run.record_count, 0);
}

TEST_BETWEEN(a_world_of_another_size_is_refused, prepare, NULL)
{
    run.drawn.training.data_parallel = 2;
    assert_refused("2 replicas of 3 ranks need 6 ranks, and the world has 3");
}

TEST_BETWEEN(a_plan_of_something_else_is_refused, prepare, NULL)
{
    const int first_layer[] = {0, 1, 2, 3};
    bal_plan plan = {.first_layer = first_layer,
                     .rank_count = RANKS,
                     .chunk_count = 1,
                     .schedule = "1f1b",
                     .microbatch_count = 6};
    run.training.plan = &plan;
    assert_refused("the plan runs from layer 0 to 3");

    prepare(state);
    const int all[] = {0, 1, 2, run.drawn.ports[0].layer_count};
    plan.first_layer = all;
    plan.microbatch_count = 7;
    run.training.plan = &plan;
    assert_refused("the plan has 7 microbatches, the run 6");

    prepare(state);
    plan.microbatch_count = 6;
    plan.schedule = "gpipe";
    run.training.plan = &plan;
    assert_refused("the plan has schedule gpipe, the run 1f1b");
}

TEST_BETWEEN(a_plan_that_is_placed_otherwise_is_refused, prepare, NULL)
{
    const int first_layer[] = {0, 1, 2, 3, 4, 5, run.drawn.ports[0].layer_count};
    bal_plan plan = {.first_layer = first_layer,
                     .rank_count = RANKS,
                     .chunk_count = 2,
                     .placement = BAL_PLACEMENT_LOOP,
                     .schedule = "zb-v-hand",
                     .microbatch_count = 6};
    run.drawn.training.schedule = "zb-v-hand";
    run.training.plan = &plan;
    assert_refused("the plan places chunks interleaved, schedule zb-v-hand v");

    prepare(state);
    plan.placement = BAL_PLACEMENT_V;
    plan.schedule = "1f1b";
    run.training.plan = &plan;
    assert_refused("the plan has 2 chunks per rank, schedule 1f1b 1");
}

TEST_BETWEEN(an_order_that_waits_for_itself_is_found_before_the_start, prepare, NULL)
{
    // Rank 0 wants B0 before it has done F1, and rank 1 wants F1 before it does B0.
    static const bal_op ops[] = {{OP_FORWARD, 0, 0, 0},  {OP_BACKWARD, 0, 0, 0},
                                 {OP_FORWARD, 0, 0, 1},  {OP_BACKWARD, 0, 0, 1},
                                 {OP_FORWARD, 0, 0, 1},  {OP_FORWARD, 0, 0, 0},
                                 {OP_BACKWARD, 0, 0, 1}, {OP_BACKWARD, 0, 0, 0}};
    static const int first_op[] = {0, 4, 8};
    const bal_schedule order = {.name = "1f1b",
                                .rank_count = 2,
                                .chunk_count = 1,
                                .microbatch_count = 2,
                                .first_op = first_op,
                                .ops = ops};
    const int first_layer[] = {0, 2, run.drawn.ports[0].layer_count};
    const bal_plan plan = {.first_layer = first_layer,
                           .rank_count = 2,
                           .chunk_count = 1,
                           .schedule = "1f1b",
                           .microbatch_count = 2,
                           .order = &order};
    run.drawn.training.microbatch_count = 2;
    run.training.plan = &plan;
    assert_refused("waits for");
}

TEST_BETWEEN(a_record_that_cannot_be_written_ends_all_ranks, prepare, NULL)
{
    run.fails_at = 3;

    assert_fails_naming(execute(), STATUS_IO, "runs.db: disk full");

    assert_int_equal(run.record_count, 3);
}

TEST_BETWEEN(time_that_passes_is_at_least_that_of_the_ops, prepare, NULL)
{
    for (int clock = EXEC_CLOCK_QUEUE; clock < EXEC_CLOCK_COUNT; clock++) {
        prepare(state);
        run.training.clock = (exec_clock)clock;

        require(execute());

        assert_int_equal(run.record_count, ITERATIONS);
        for (int iteration = 0; iteration < ITERATIONS; iteration++) {
            assert_true(run.pipeline_ns[iteration] >= run.ideal_ns[iteration]);
        }
        assert_true(run.result.migration_ns > 0);
    }
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
