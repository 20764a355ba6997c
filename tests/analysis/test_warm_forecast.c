/// The forecast of a run from its first warm iterations: by hand, and on random orders, where the
/// parts of the error add up to it whatever happened.
#include "analysis/compare/agreement.h"

#include "base/rng.h"
#include "sim/training_play.h"
#include "tests/test_memory.h"

#include <string.h>

enum { RANKS = 4, LAYERS = 16, MICROBATCHES = 8, ITERATIONS = 8 };

/// One plan, and the costs of an iteration.
static struct {
    bal_schedule schedule;
    bal_placed_partition plan;
    int first_layer[2 * RANKS + 1];
    int machine_rank[RANKS];
    int64_t times[3][LAYERS * MICROBATCHES];
    int64_t bytes[LAYERS];
    bal_layer_costs layers;
    bal_played_plan played;
    bal_machine machine;
} of;

static ana_forecast forecast;

static void begin(const char *schedule, int ranks, int microbatches)
{
    memset(&of, 0, sizeof of);
    if (forecast.memory != NULL) arena_reset(forecast.memory);
    forecast = (ana_forecast){.memory = arena_within(memory, 1 << 14)};
    const bal_schedule_request request = {
        .name = schedule, .rank_count = ranks, .microbatch_count = microbatches};
    assert_ok(bal_schedule_build(&request, memory, &of.schedule, &why));
    const int stages = ranks * of.schedule.chunk_count;
    for (int stage = 0; stage <= stages; stage++) {
        of.first_layer[stage] = stage * LAYERS / stages;
    }
    for (int rank = 0; rank < ranks; rank++) {
        of.machine_rank[rank] = rank;
    }
    of.plan = (bal_placed_partition){.first_layer = of.first_layer,
                                     .rank_count = ranks,
                                     .chunk_count = of.schedule.chunk_count,
                                     .placement = of.schedule.placement,
                                     .machine_rank = of.machine_rank};
    of.layers = (bal_layer_costs){.layer_count = LAYERS,
                                  .microbatch_count = microbatches,
                                  .has_split = true,
                                  .forward_ns = of.times[0],
                                  .backward_input_ns = of.times[1],
                                  .backward_weight_ns = of.times[2],
                                  .message_bytes = of.bytes};
    of.played = (bal_played_plan){
        .plan = &of.plan, .schedule = &of.schedule, .replicas = &of.layers, .replica_count = 1};
    of.machine = (bal_machine){.rank_count = ranks, .ranks_per_node = ranks};
    for (int cell = 0; cell < LAYERS * MICROBATCHES; cell++) {
        of.times[0][cell] = 1000;
        of.times[1][cell] = 1500;
        of.times[2][cell] = 500;
    }
}

/// What really happens on a machine with these costs, an op of which may begin late.
static bal_timeline execute(int64_t latency_ns)
{
    sim_plan_replay replay;
    bal_machine real = of.machine;
    real.intra_node.latency_ns = latency_ns;
    assert_ok(sim_plan_replay_play(&real, &of.played, memory, &replay, &why));
    return replay.timelines[0];
}

static void add(const bal_timeline *timeline, bool changed, int64_t step_ns)
{
    arena *scratch = arena_create(1 << 16);
    const ana_executed executed = {
        .machine = &of.machine, .played = &of.played, .timelines = timeline};
    require(ana_forecast_add(&forecast, &executed, changed, step_ns, scratch, &why));
    arena_destroy(scratch);
}

static void add_profile(void)
{
    const bal_timeline timeline = execute(0);
    for (int iteration = 0; iteration < ANA_FORECAST_PROFILE; iteration++) {
        add(&timeline, false, 700);
    }
}

TEST(slower_ops_messages_and_gaps_are_told_apart)
{
    // One microbatch through two ranks: F0 F0 B0 B0 W, with two messages between.
    begin("zb-h1", 2, 1);
    add_profile();
    bal_timeline late = execute(300);
    add(&late, false, 700);
    assert_int_equal(forecast.measured.op_ns, forecast.forecast.op_ns);
    assert_int_equal(forecast.measured.message_ns - forecast.forecast.message_ns, 600);
    assert_int_equal(forecast.measured.gap_ns, 0);
    // The W that ends the first rank begins later than its B ends.
    const int last = of.schedule.first_op[1] - 1;
    late.begin_ns[last] += 50;
    late.end_ns[last] += 50;
    add(&late, false, 700);
    assert_int_equal(forecast.measured.gap_ns, 50);
    for (int cell = 0; cell < LAYERS; cell++) {
        of.times[2][cell] *= 3;
    }
    late = execute(0);
    add(&late, false, 900);
    assert_int_equal(forecast.measured.kind_ns[OP_FORWARD], forecast.forecast.kind_ns[OP_FORWARD]);
    assert_int_equal(forecast.measured.kind_ns[OP_BACKWARD_WEIGHT] -
                         forecast.forecast.kind_ns[OP_BACKWARD_WEIGHT],
                     LAYERS * 1000);
    assert_int_equal(forecast.measured.op_ns - forecast.forecast.op_ns, LAYERS / 2 * 1000);
    assert_int_equal(forecast.measured.step_ns - forecast.forecast.step_ns, 200);
}

TEST(the_warm_up_and_what_was_before_a_change_are_left_out)
{
    begin("1f1b", RANKS, MICROBATCHES);
    forecast.warmup_count = 2;
    for (int iteration = 0; iteration < 2; iteration++) {
        of.times[0][0] = 1000000; // cold
        const bal_timeline cold = execute(0);
        add(&cold, false, 700);
    }
    of.times[0][0] = 1000;
    add_profile();
    for (int cell = 0; cell < LAYERS * MICROBATCHES; cell++) {
        of.times[1][cell] /= 2;
    }
    const bal_timeline changed = execute(0);
    for (int iteration = 0; iteration < ANA_FORECAST_PROFILE + 2; iteration++) {
        add(&changed, iteration == 0, 700);
    }
    assert_int_equal(forecast.change_count, 1);
    assert_int_equal(forecast.iteration_count, 2);
    assert_close(ana_forecast_error_ratio(&forecast) + 1, 1, 0);
}

/// Whatever an iteration did, its parts sum up to the time from its first begin to its last end.
TEST(parts_sum_up_on_random_timelines)
{
    static const char *const schedules[] = {"gpipe",     "1f1b",      "zb-h2", "interleaved-1f1b",
                                            "zb-v-hand", "dualpipe-v"};
    rng generator = rng_init(7, 1);
    for (int drawn = 0; drawn < 60; drawn++) {
        begin(schedules[drawn % 6], RANKS, MICROBATCHES);
        add_profile();
        for (int cell = 0; cell < LAYERS * MICROBATCHES; cell++) {
            of.times[cell % 3][cell] = rng_between(&generator, 0, 3000);
        }
        bal_timeline timeline = execute(rng_between(&generator, 0, 2000));
        const int ops = of.schedule.first_op[RANKS];
        const int64_t late_ns = rng_between(&generator, 0, 500); // the host, before every iteration
        int64_t end_ns = 0;
        for (int op = 0; op < ops; op++) {
            timeline.begin_ns[op] += late_ns;
            timeline.end_ns[op] += late_ns + op % 5;
            if (timeline.end_ns[op] > end_ns) end_ns = timeline.end_ns[op];
        }
        int64_t begin_ns = end_ns;
        for (int op = 0; op < ops; op++) {
            if (timeline.begin_ns[op] < begin_ns) begin_ns = timeline.begin_ns[op];
        }
        add(&timeline, false, 0);
        assert_int_equal(ana_time_parts_ns(&forecast.measured), end_ns - begin_ns);
    }
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
