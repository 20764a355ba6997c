/// What a training run says of itself: checks, speeds of ranks, profiled iterations, GPUs, and the
/// order under a plan.
#include "balance/run/iteration_times.h"
#include "balance/run/training.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <string.h>

static const bal_cost_source source = {
    .layer_count = 4, .iteration_count = 1, .announces_changes = true};

static bal_training two_ranks(void)
{
    return (bal_training){
        .sources = &source,
        .source_count = 1,
        .data_parallel = 1,
        .machine = {.rank_count = 2, .ranks_per_node = 2},
        .iteration_count = 10,
        .microbatch_count = 4,
        .schedule = "1f1b",
        .balancer = bal_balancer_find("partition"),
        .policy = {.kind = BAL_POLICY_ON_CHANGE},
    };
}

static void assert_refused(const bal_training *training, const char *message)
{
    assert_fails(bal_training_check(training, &why), STATUS_INVALID, message);
}

TEST(wrong_runs_are_refused)
{
    bal_training run = two_ranks();
    assert_ok(bal_training_check(&run, &why));

    run.schedule = "2f2b";
    assert_refused(&run, "unknown schedule '2f2b'");
    run = two_ranks();
    run.schedule = "chimera";
    assert_refused(&run,
                   "schedule chimera keeps two copies of the weights; training runs have one");
}

TEST(factors_of_a_rank_multiply_while_they_hold)
{
    const bal_slow_rank slow[] = {
        {.rank = 1, .time_factor = 2, .first_iteration = 3, .end_iteration = 6},
        {.rank = 1, .time_factor = 1.5, .first_iteration = 5, .end_iteration = 10},
    };
    bal_training run = two_ranks();
    run.slow_ranks = slow;
    run.slow_rank_count = 2;
    double factor[2] = {-1, -1};

    bal_training_speeds(&run, 2, factor);
    assert_close(factor[0], 1, 0);
    assert_close(factor[1], 1, 0);
    bal_training_speeds(&run, 5, factor);
    assert_close(factor[0], 1, 0);
    assert_close(factor[1], 3, 0);
    bal_training_speeds(&run, 6, factor);
    assert_close(factor[1], 1.5, 0);
}

TEST(an_iteration_is_profiled_where_a_decision_may_look)
{
    bal_training run = two_ranks();

    assert_false(bal_training_is_profiled(&run, 1, false));
    assert_true(bal_training_is_profiled(&run, 1, true));
    run.policy.kind = BAL_POLICY_SHADOW;
    assert_true(bal_training_is_profiled(&run, 1, false));
    run.policy.kind = BAL_POLICY_NEVER;
    assert_false(bal_training_is_profiled(&run, 1, true));
}

TEST(gpus_are_counted_as_one_per_rank_unless_told)
{
    bal_training run = two_ranks();

    assert_int_equal(bal_training_gpu_layout(&run).gpus_per_rank, 1);
    assert_int_equal(bal_training_gpu_layout(&run).gpus_per_node, 2);
    run.gpus_per_rank = 4;
    run.data_parallel = 3;
    assert_int_equal(bal_training_gpu_layout(&run).gpus_per_node, 8);
    assert_int_equal(bal_training_gpu_layout(&run).replica_count, 3);
}

TEST(only_searched_orders_look_at_costs_and_memory)
{
    const int64_t ns[] = {10, 10, 10, 10};
    const int64_t state_bytes[] = {100, 100, 100, 300};
    const int64_t activation_bytes[] = {1, 1, 1, 1};
    const bal_layer_costs layers = {.layer_count = 4,
                                    .microbatch_count = 1,
                                    .has_split = true,
                                    .forward_ns = ns,
                                    .backward_input_ns = ns,
                                    .backward_weight_ns = ns,
                                    .state_bytes = state_bytes,
                                    .activation_bytes = activation_bytes};
    const int first_layer[] = {0, 2, 4};
    const bal_placed_partition placed = {
        .first_layer = first_layer, .rank_count = 2, .chunk_count = 1};
    bal_training run = two_ranks();
    bal_schedule_request request;
    bal_schedule schedule;

    assert_ok(bal_training_order(&run, &placed, NULL, 4, memory, &schedule, &why));
    assert_int_equal(schedule.first_op[2], 2 * 2 * 4);
    run.schedule = "zb-auto";
    run.machine.rank_memory_bytes = 350;
    assert_ok(bal_training_order_request(&run, &placed, &layers, 4, memory, &request, &why));
    assert_int_equal(request.costs->forward_ns[1], 20);
    assert_int_equal(request.memory_limit[0], 150);
    assert_int_equal(request.memory_limit[1], 0); // its state alone is more than it has
    assert_int_equal(bal_training_order(&run, &placed, &layers, 4, memory, &schedule, &why),
                     STATUS_INFEASIBLE);
    run.machine.rank_memory_bytes = 420;
    assert_ok(bal_training_order(&run, &placed, &layers, 4, memory, &schedule, &why));
    assert_int_equal(schedule.first_op[2], 3 * 2 * 4);
}

TEST(op_times_that_do_not_add_up_are_refused)
{
    const bal_schedule_request request = {.name = "gpipe", .rank_count = 2, .microbatch_count = 2};
    const int64_t ns[] = {100, 100};
    const int64_t begin[] = {0, 0};
    const int64_t end[] = {INT64_MAX / 4, INT64_MAX / 4};
    const bal_replica_times replica = {begin, end, end, NULL};
    const bal_layer_costs layers = {.layer_count = 2,
                                    .microbatch_count = 1,
                                    .forward_ns = ns,
                                    .backward_input_ns = ns,
                                    .backward_weight_ns = ns};
    const bal_layer_costs both[] = {layers, layers};
    const bal_placed_partition placed = {
        .first_layer = (const int[]){0, 1, 2}, .rank_count = 2, .chunk_count = 1};
    bal_schedule schedule;
    bal_iteration_times times;
    assert_ok(bal_schedule_build(&request, memory, &schedule, NULL));
    bal_played_plan played = {
        .plan = &placed, .schedule = &schedule, .replicas = both, .replica_count = 2};
    bal_last_backwards(&schedule, memory, &played.last_backward);
    assert_ok(bal_iteration_begin(&played, memory, &times, NULL));

    assert_ok(bal_iteration_add(&played, 0, &replica, &times, NULL));
    assert_fails(bal_iteration_add(&played, 1, &replica, &times, &why), STATUS_INVALID,
                 "the ns of all ops of 2 replicas do not fit 64 bits");
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
