/// The parts of an iteration from what ran when: two ranks with a layer each under GPipe, two
/// microbatches, two replicas whose ops are written down, so that times can be added by hand.
#include "balance/run/iteration_times.h"
#include "tests/assert_close.h"

enum { OPS = 8 };

/// F takes 100 and BW 200 in replica 0; in replica 1 the ops of rank 1 take twice as long.
static const int64_t begin_ns[2][OPS] = {
    {0, 100, 400, 600, 100, 200, 300, 500},
    {0, 100, 700, 1100, 100, 300, 500, 900},
};
static const int64_t end_ns[2][OPS] = {
    {100, 200, 600, 800, 200, 300, 500, 700},
    {100, 200, 900, 1300, 300, 500, 900, 1300},
};

/// The plan that both replicas played, and what came of it.
typedef struct played_case {
    arena *memory;
    bal_schedule schedule;
    bal_layer_costs layers[2];
    bal_placed_partition placed;
    bal_played_plan played;
} played_case;

static const int64_t forward_ns[] = {100, 100};
static const int64_t backward_ns[] = {200, 200};
static const int64_t none_ns[] = {0, 0};
static const int first_layer[] = {0, 1, 2};

static void prepare(played_case *at, const int64_t *reduction_ns, int replica_count)
{
    const bal_schedule_request request = {.name = "gpipe", .rank_count = 2, .microbatch_count = 2};
    *at = (played_case){.memory = arena_create(1 << 12)};
    assert_ok(bal_schedule_build(&request, at->memory, &at->schedule, &why));
    assert_int_equal(at->schedule.first_op[2], OPS);
    for (int replica = 0; replica < 2; replica++) {
        at->layers[replica] = (bal_layer_costs){.layer_count = 2,
                                                .microbatch_count = 1,
                                                .forward_ns = forward_ns,
                                                .backward_input_ns = backward_ns,
                                                .backward_weight_ns = none_ns,
                                                .reduction_ns = reduction_ns};
    }
    at->placed =
        (bal_placed_partition){.first_layer = first_layer, .rank_count = 2, .chunk_count = 1};
    at->played = (bal_played_plan){.plan = &at->placed,
                                   .schedule = &at->schedule,
                                   .replicas = at->layers,
                                   .replica_count = replica_count};
    bal_last_backwards(&at->schedule, at->memory, &at->played.last_backward);
}

static bal_iteration_times times_of(played_case *at)
{
    bal_iteration_times times;
    assert_ok(bal_iteration_begin(&at->played, at->memory, &times, &why));
    for (int replica = 0; replica < at->played.replica_count; replica++) {
        bal_timeline timeline = {
            .schedule = &at->schedule,
            .begin_ns = arena_array(at->memory, OPS, sizeof *timeline.begin_ns),
            .end_ns = arena_array(at->memory, OPS, sizeof *timeline.end_ns),
        };
        for (int op = 0; op < OPS; op++) {
            timeline.begin_ns[op] = begin_ns[replica][op];
            timeline.end_ns[op] = end_ns[replica][op];
        }
        assert_ok(
            bal_iteration_add_timeline(&at->played, replica, &timeline, at->memory, &times, &why));
    }
    bal_iteration_finish(&at->played, at->memory, &times);
    return times;
}

static void the_last_backward_of_every_stage_is_found(void **state)
{
    played_case at;

    prepare(&at, NULL, 1);

    assert_int_equal(at.played.last_backward[0], 3);
    assert_int_equal(at.played.last_backward[1], 7);
    arena_destroy(at.memory);
}

static void the_slowest_replica_makes_the_pipeline(void **state)
{
    played_case at;
    prepare(&at, NULL, 2);

    const bal_iteration_times times = times_of(&at);

    assert_int_equal(times.slowest, 1);
    assert_int_equal(times.pipeline_ns, 1300);
    assert_int_equal(times.makespan_ns, 1300);
    assert_int_equal(times.reduction_ns, 0);
    assert_null(times.layer_ns);
    assert_int_equal(times.busy_ns, 600 + 600 + 600 + 1200);
    assert_int_equal(times.rank_work_ns[1], 1200);
    assert_int_equal(times.rank_begin_ns[1], 100);
    assert_int_equal(times.rank_end_ns[1], 1300);
    arena_destroy(at.memory);
}

static void without_barrier_a_place_lasts_from_its_first_begin(void **state)
{
    played_case at;
    prepare(&at, NULL, 2);
    at.played.post_validation = true;

    const bal_iteration_times times = times_of(&at);

    assert_int_equal(times.pipeline_ns, 1300); // rank 0 from 0; rank 1 lasts 1200
    assert_int_equal(times.metrics.span_ns, 1300);
    arena_destroy(at.memory);
}

static void a_reduction_begins_when_both_replicas_are_ready(void **state)
{
    const int64_t reduction_ns[] = {400, 1000};
    played_case at;
    prepare(&at, reduction_ns, 2);

    const bal_iteration_times exposed = times_of(&at);
    at.played.reduction_overlap = BAL_REDUCTION_STAGE;
    const bal_iteration_times stage = times_of(&at);
    at.played.replica_count = 1; // replica 0 alone: stage 1 is ready at 700, stage 0 at 800
    const bal_iteration_times alone = times_of(&at);

    assert_int_equal(exposed.reduction_ns, 1000);
    assert_int_equal(stage.layer_ready_ns[1], 1300);
    assert_int_equal(stage.reduction_ns, 1000);
    assert_int_equal(alone.pipeline_ns, 800);
    assert_int_equal(alone.reduction_ns, 700 + 1000 - 800);
    arena_destroy(at.memory);
}

static void the_largest_reduction_over_the_replicas_counts(void **state)
{
    const int64_t few[] = {100, 900};
    const int64_t many[] = {300, 200};
    const int64_t *merged = NULL;
    played_case at;
    prepare(&at, few, 2);
    at.layers[1].reduction_ns = many;

    assert_ok(bal_reduction_merge(at.layers, 2, 0, 0, at.memory, &merged, &why));
    assert_int_equal(merged[0], 300);
    assert_int_equal(merged[1], 900);
    // A ring of 4 sends 3/4 of the bytes, one of 2 a half.
    assert_ok(bal_reduction_merge(at.layers, 2, 2, 4, at.memory, &merged, &why));
    assert_int_equal(merged[0], 450);
    const int64_t huge[] = {INT64_MAX / 4, 1};
    at.layers[0].reduction_ns = huge;
    assert_fails(bal_reduction_merge(at.layers, 2, 0, 0, at.memory, &merged, &why), STATUS_INVALID,
                 "the reduction of gradients takes too long");
    arena_destroy(at.memory);
}

static void op_times_that_do_not_add_up_are_refused(void **state)
{
    played_case at;
    prepare(&at, NULL, 2);
    const int64_t begin[] = {0, 0};
    const int64_t end[] = {INT64_MAX / 4, INT64_MAX / 4};
    const bal_replica_times replica = {begin, end, end, NULL};
    bal_iteration_times times;
    assert_ok(bal_iteration_begin(&at.played, at.memory, &times, &why));

    assert_ok(bal_iteration_add(&at.played, 0, &replica, &times, &why));
    assert_fails(bal_iteration_add(&at.played, 1, &replica, &times, &why), STATUS_INVALID,
                 "the ns of all ops of 2 replicas do not fit 64 bits");
    arena_destroy(at.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_backward_of_every_stage_is_found),
        cmocka_unit_test(the_slowest_replica_makes_the_pipeline),
        cmocka_unit_test(without_barrier_a_place_lasts_from_its_first_begin),
        cmocka_unit_test(a_reduction_begins_when_both_replicas_are_ready),
        cmocka_unit_test(the_largest_reduction_over_the_replicas_counts),
        cmocka_unit_test(op_times_that_do_not_add_up_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
