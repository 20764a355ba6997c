/// Many scenarios at once against one at a time, lane by lane.
#include "sim/lanes.h"
#include "tests/assert_close.h"
#include "tests/balance/reference_player.h"
#include "tests/sim/random_schedules.h"

enum { ITERATIONS = 3 };

/// A scenario of an order, played alone.
typedef struct lone_play {
    bal_stage_costs costs;
    int64_t *start_ns; // [rank_count]
    sim_summary summary;
} lone_play;

/// A scenario of its own for every lane: some with costs per stage where others have them per
/// microbatch, some without delays.
static void draw_plays(rng *generator, const sim_lanes *lanes, int count, lone_play *plays,
                       arena *memory)
{
    const bal_schedule *schedule = lanes->order->schedule;
    const int stages = schedule->rank_count * schedule->chunk_count;
    for (int lane = 0; lane < count; lane++) {
        const int columns = rng_below(generator, 3) > 0 ? lanes->column_count : 1;
        plays[lane].costs = random_costs(generator, stages, columns, 100, 30, memory);
        if (lanes->message_columns > 1 && columns > 1 && rng_below(generator, 2) == 0) {
            random_delays(generator, &plays[lane].costs, 20, memory);
        }
        plays[lane].start_ns = random_row(generator, schedule->rank_count, 200, memory);
        sim_summary_init(lanes->order, memory, &plays[lane].summary);
    }
}

static void set_lanes(sim_lanes *lanes, int count, const lone_play *plays)
{
    for (int lane = 0; lane < count; lane++) {
        sim_lanes_set(lanes, lane, &plays[lane].costs);
        for (int rank = 0; rank < lanes->order->schedule->rank_count; rank++) {
            lanes->start_ns[rank * lanes->lane_count + lane] = plays[lane].start_ns[rank];
        }
    }
}

/// Plays iterations one after the other, in lanes and alone.
static void compare(sim_order *order, sim_lanes *lanes, int count, lone_play *plays, uint64_t seed)
{
    const int ranks = order->schedule->rank_count;
    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        sim_lanes_play(lanes);
        for (int lane = 0; lane < count; lane++) {
            lone_play *alone = &plays[lane];
            sim_order_summarise(order, &alone->costs, alone->start_ns, &alone->summary);
            for (int rank = 0; rank < ranks; rank++) {
                if (lanes->end_ns[rank * lanes->lane_count + lane] !=
                    alone->summary.last_end_ns[rank]) {
                    fail_msg("seed %llu: lane %d, rank %d", (unsigned long long)seed, lane, rank);
                }
                alone->start_ns[rank] = alone->summary.last_end_ns[rank];
            }
        }
        sim_lanes_go_on(lanes);
    }
}

static void lanes_play_as_each_scenario_alone(void **state)
{
    (void)state;
    arena *memory = arena_create(1 << 20);
    lone_play plays[SIM_LANES_MAX];
    for (uint64_t seed = 0; seed < 800; seed++, arena_reset(memory)) {
        rng generator = rng_init(seed, 7);
        random_problem problem = random_problem_draw(seed, memory);
        if (seed % 4 == 0) random_pairs(&generator, &problem.schedule);
        sim_order order;
        sim_lanes lanes;
        if (sim_order_compile(&problem.schedule, memory, &order, NULL) != STATUS_OK) continue;
        const int width = rng_below(&generator, 2) == 0 ? SIM_LANES_MIN : SIM_LANES_MAX;
        const bool has_columns = rng_below(&generator, 2) == 0;
        const bool has_delays = has_columns && rng_below(&generator, 2) == 0;
        const int count = 1 + (int)rng_below(&generator, (uint64_t)width);
        sim_lanes_init(&order, width, has_columns, has_delays, memory, &lanes);
        draw_plays(&generator, &lanes, count, plays, memory);
        set_lanes(&lanes, count, plays);
        compare(&order, &lanes, count, plays, seed);
    }
    arena_destroy(memory);
}

static void lanes_are_as_many_as_scenarios_and_memory_allow(void **state)
{
    (void)state;
    const int64_t most_bytes = INT64_C(8) << 20;
    assert_int_equal(sim_lanes_suited(1, 1), SIM_LANES_MIN);
    assert_int_equal(sim_lanes_suited(SIM_LANES_MIN, 1), SIM_LANES_MIN);
    assert_int_equal(sim_lanes_suited(SIM_LANES_MIN + 1, 1), SIM_LANES_MAX);
    assert_int_equal(sim_lanes_suited(1000000, most_bytes), SIM_LANES_MAX);
    assert_int_equal(sim_lanes_suited(1000000, most_bytes + 1), SIM_LANES_MIN);
}

static void lanes_take_the_memory_that_is_told(void **state)
{
    (void)state;
    arena *memory = arena_create(1 << 16);
    const bal_schedule schedule = reference_build("zb-h1", 3, 5, 1, memory);
    sim_order order;
    assert_int_equal(sim_order_compile(&schedule, memory, &order, NULL), STATUS_OK);

    const int64_t without = sim_lanes_lane_bytes(&order, false, false);
    const int64_t with = sim_lanes_lane_bytes(&order, true, true);

    // F, B and W of 3 ranks; once, and with 5 columns, each with the time of its message.
    assert_int_equal(with - without, 2 * 9 * 4 * (int64_t)sizeof(int64_t));
    assert_int_equal(without, (2 * 9 + order.slot_count + 2 * 3) * (int64_t)sizeof(int64_t));
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_play_as_each_scenario_alone),
        cmocka_unit_test(lanes_are_as_many_as_scenarios_and_memory_allow),
        cmocka_unit_test(lanes_take_the_memory_that_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
