/// Executed runs beyond the simulator: plans that are given, what is refused, what fails, and the
/// clocks under which time passes.
#include "base/arena.h"
#include "exec/run/execution.h"
#include "tests/drawn_run.h"
#include "tests/exec/thread_ranks.h"

#include <stdlib.h>

enum { RANKS = 3, ITERATIONS = 5 };

/// A run of three ranks, and what the leader tells of it.
typedef struct small_run {
    drawn_run drawn;
    exec_training training;
    exec_training_listener listener;
    arena *memory;
    bal_training_result result;
    error_message err;
    int record_count;
    int fails_at; // the sink has no room in this iteration; -1: never
    int64_t pipeline_ns[ITERATIONS];
    int64_t ideal_ns[ITERATIONS]; // largest sum of op times of a rank
    int first_of_second[ITERATIONS];
    int64_t message_count;
    int64_t op_count;
} small_run;

static status put(void *context, const bal_training_iteration *iteration, error_message *err)
{
    small_run *run = context;
    if (iteration->iteration == run->fails_at) {
        return error_set(err, STATUS_IO, "runs.db: disk full");
    }
    run->pipeline_ns[run->record_count] = iteration->pipeline_ns;
    run->ideal_ns[run->record_count] = iteration->metrics.work_max_ns;
    run->first_of_second[run->record_count] = iteration->first_layer[1];
    run->record_count++;
    return STATUS_OK;
}

static status listen(void *context, const exec_measured *measured, error_message *err)
{
    small_run *run = context;
    run->message_count += measured->message_count;
    run->op_count += measured->op_count;
    return STATUS_OK;
}

static status make_timed(void *context, int world_rank, exec_device **device, error_message *err)
{
    const small_run *run = context;
    *device = exec_device_timed_create(run->drawn.ports[0].layer_count);
    return STATUS_OK;
}

/// 1F1B on three ranks without links that take time; the balancer is asked after every iteration.
static small_run *small_run_create(void)
{
    small_run *run = memory_array(1, sizeof *run);
    bal_training *training = &run->drawn.training;
    draw_run(&run->drawn, 5, RANKS, 30 - RANKS, 1, ITERATIONS);
    *training = (bal_training){
        .sources = run->drawn.ports,
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
        .sink = {.context = run, .put = put},
    };
    run->fails_at = -1;
    run->memory = arena_create(1 << 14);
    run->listener = (exec_training_listener){run, listen};
    run->training = (exec_training){
        .training = training,
        .devices = {run, make_timed},
        .clock = EXEC_CLOCK_NOMINAL,
        .listener = &run->listener,
    };
    return run;
}

static void small_run_destroy(small_run *run)
{
    arena_destroy(run->memory);
    free(run);
}

static status run_rank(exec_endpoint *endpoint, void *context, error_message *err)
{
    small_run *run = context;
    return exec_training_rank(endpoint, &run->training, run->memory, &run->result, err);
}

static void a_plan_that_is_given_stays_where_nobody_asks(void **state)
{
    small_run *run = small_run_create();
    const int layers = run->drawn.ports[0].layer_count;
    const int first_layer[] = {0, layers - 1, layers};
    const int ranks[] = {2, 0};
    const bal_plan plan = {.first_layer = first_layer,
                           .rank_count = 2,
                           .chunk_count = 1,
                           .schedule = "1f1b",
                           .microbatch_count = 6,
                           .stage_ranks = ranks,
                           .data_parallel = 1};
    run->drawn.training.policy = (bal_policy){.kind = BAL_POLICY_NEVER};
    run->training.plan = &plan;

    assert_ok(run_threads(RANKS, run_rank, run, &run->err));

    assert_int_equal(run->record_count, ITERATIONS);
    assert_int_equal(run->first_of_second[ITERATIONS - 1], layers - 1);
    assert_int_equal(run->result.final_rank_count, 2);
    assert_int_equal(run->result.final_machine_rank[0], 2);
    assert_int_equal(run->result.decision_count, 0);
    // F and B cross the cut once per microbatch.
    assert_int_equal(run->message_count, ITERATIONS * 6 * 2);
    assert_int_equal(run->op_count, ITERATIONS * 6 * 2 * 2);
    small_run_destroy(run);
}

static void after_a_plan_that_is_given_the_policy_asks(void **state)
{
    small_run *run = small_run_create();
    const int layers = run->drawn.ports[0].layer_count;
    const int first_layer[] = {0, 1, 2, layers};
    const bal_plan plan = {.first_layer = first_layer,
                           .rank_count = RANKS,
                           .chunk_count = 1,
                           .schedule = "1f1b",
                           .microbatch_count = 6,
                           .data_parallel = 1};
    run->training.plan = &plan;

    assert_ok(run_threads(RANKS, run_rank, run, &run->err));

    assert_int_equal(run->first_of_second[0], 1);
    assert_true(run->first_of_second[1] > 1);
    assert_true(run->pipeline_ns[1] < run->pipeline_ns[0]);
    small_run_destroy(run);
}

/// Executes and expects a refusal with this text in it.
static void assert_refused(small_run *run, status code, const char *text)
{
    assert_int_equal(run_threads(RANKS, run_rank, run, &run->err), code);
    if (strstr(run->err.message, text) == NULL) {
        fail_msg("'%s' is not in '%s'", text, run->err.message);
    }
    assert_int_equal(run->record_count, 0);
    small_run_destroy(run);
}

static void a_world_of_another_size_is_refused(void **state)
{
    small_run *run = small_run_create();
    run->drawn.training.data_parallel = 2;
    assert_refused(run, STATUS_INVALID, "2 replicas of 3 ranks need 6 ranks, and the world has 3");
}

static void a_plan_of_something_else_is_refused(void **state)
{
    const int first_layer[] = {0, 1, 2, 3};
    bal_plan plan = {.first_layer = first_layer,
                     .rank_count = RANKS,
                     .chunk_count = 1,
                     .schedule = "1f1b",
                     .microbatch_count = 6};
    small_run *run = small_run_create();
    run->training.plan = &plan;
    assert_refused(run, STATUS_INVALID, "the plan runs from layer 0 to 3");

    run = small_run_create();
    const int all[] = {0, 1, 2, run->drawn.ports[0].layer_count};
    plan.first_layer = all;
    plan.microbatch_count = 7;
    run->training.plan = &plan;
    assert_refused(run, STATUS_INVALID, "the plan has 7 microbatches, the run 6");

    run = small_run_create();
    plan.microbatch_count = 6;
    plan.schedule = "gpipe";
    run->training.plan = &plan;
    assert_refused(run, STATUS_INVALID, "the plan has schedule gpipe, the run 1f1b");
}

static void a_plan_that_is_placed_otherwise_is_refused(void **state)
{
    small_run *run = small_run_create();
    const int first_layer[] = {0, 1, 2, 3, 4, 5, run->drawn.ports[0].layer_count};
    bal_plan plan = {.first_layer = first_layer,
                     .rank_count = RANKS,
                     .chunk_count = 2,
                     .placement = BAL_PLACEMENT_LOOP,
                     .schedule = "zb-v-hand",
                     .microbatch_count = 6};
    run->drawn.training.schedule = "zb-v-hand";
    run->training.plan = &plan;
    assert_refused(run, STATUS_INVALID, "the plan places chunks interleaved, schedule zb-v-hand v");

    run = small_run_create();
    plan.placement = BAL_PLACEMENT_V;
    plan.schedule = "1f1b";
    run->training.plan = &plan;
    assert_refused(run, STATUS_INVALID, "the plan has 2 chunks per rank, schedule 1f1b 1");
}

static void an_order_that_waits_for_itself_is_found_before_the_start(void **state)
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
    small_run *run = small_run_create();
    const int first_layer[] = {0, 2, run->drawn.ports[0].layer_count};
    const bal_plan plan = {.first_layer = first_layer,
                           .rank_count = 2,
                           .chunk_count = 1,
                           .schedule = "1f1b",
                           .microbatch_count = 2,
                           .order = &order};
    run->drawn.training.microbatch_count = 2;
    run->training.plan = &plan;
    assert_refused(run, STATUS_INVALID, "waits for");
}

static void a_record_that_cannot_be_written_ends_all_ranks(void **state)
{
    small_run *run = small_run_create();
    run->fails_at = 3;

    assert_int_equal(run_threads(RANKS, run_rank, run, &run->err), STATUS_IO);

    assert_non_null(strstr(run->err.message, "runs.db: disk full"));
    assert_int_equal(run->record_count, 3);
    small_run_destroy(run);
}

static void time_that_passes_is_at_least_that_of_the_ops(void **state)
{
    for (int clock = EXEC_CLOCK_QUEUE; clock < EXEC_CLOCK_COUNT; clock++) {
        small_run *run = small_run_create();
        run->training.clock = (exec_clock)clock;

        assert_ok(run_threads(RANKS, run_rank, run, &run->err));

        assert_int_equal(run->record_count, ITERATIONS);
        for (int iteration = 0; iteration < ITERATIONS; iteration++) {
            assert_true(run->pipeline_ns[iteration] >= run->ideal_ns[iteration]);
        }
        assert_true(run->result.migration_ns > 0);
        small_run_destroy(run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_that_is_given_stays_where_nobody_asks),
        cmocka_unit_test(after_a_plan_that_is_given_the_policy_asks),
        cmocka_unit_test(a_world_of_another_size_is_refused),
        cmocka_unit_test(a_plan_of_something_else_is_refused),
        cmocka_unit_test(a_plan_that_is_placed_otherwise_is_refused),
        cmocka_unit_test(an_order_that_waits_for_itself_is_found_before_the_start),
        cmocka_unit_test(a_record_that_cannot_be_written_ends_all_ranks),
        cmocka_unit_test(time_that_passes_is_at_least_that_of_the_ops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
