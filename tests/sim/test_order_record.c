/// What is kept of a play against the static engine, the event engine where links are shared, and
/// the definition of the longest path.
#include "sim/order_record.h"

#include "balance/metrics.h"
#include "sim/dispatch.h"
#include "tests/assert_close.h"
#include "tests/balance/reference_player.h"
#include "tests/sim/random_schedules.h"

#include <string.h>

/// Links that each carry what one rank sends: all of it, what it sends in one direction, or a stage
/// at a time; some messages on no link.
static sim_network random_serial_network(rng *generator, const random_problem *problem,
                                         arena *memory)
{
    const bal_schedule *schedule = &problem->schedule;
    const int stages = schedule->rank_count * schedule->chunk_count;
    int *links[2];
    int64_t *occupancies[2];
    const int64_t *send_ns[] = {problem->costs.send_forward_ns, problem->costs.send_backward_ns};
    for (int direction = 0; direction < 2; direction++) {
        links[direction] = arena_array(memory, (size_t)stages, sizeof(int));
        occupancies[direction] = arena_array(memory, (size_t)stages, sizeof(int64_t));
        assert_true(links[direction] != NULL && occupancies[direction] != NULL);
        for (int stage = 0; stage < stages; stage++) {
            const int rank = bal_rank_of_stage(schedule->placement, schedule->rank_count,
                                               schedule->chunk_count, stage, NULL);
            const int which = (int)rng_below(generator, 4);
            links[direction][stage] = which == 3 ? -1 : rank * 3 + (which == 2 ? direction : which);
            occupancies[direction][stage] = rng_between(generator, 0, send_ns[direction][stage]);
        }
    }
    return (sim_network){.link_count = 3 * schedule->rank_count,
                         .forward_link = links[0],
                         .backward_link = links[1],
                         .forward_occupancy_ns = occupancies[0],
                         .backward_occupancy_ns = occupancies[1]};
}

static void assert_same_times(const sim_record *record, const bal_timeline *expected, int op_count,
                              uint64_t seed)
{
    const size_t bytes = (size_t)op_count * sizeof(int64_t);
    if (memcmp(record->timeline.begin_ns, expected->begin_ns, bytes) != 0 ||
        memcmp(record->timeline.end_ns, expected->end_ns, bytes) != 0) {
        fail_msg("seed %llu: another timeline", (unsigned long long)seed);
    }
}

/// The parts of the path add up to the end of the iteration, all of which begin at 0.
static void assert_path_adds_up(const sim_record *record, const bal_stage_costs *costs,
                                uint64_t seed)
{
    const bal_schedule *schedule = record->timeline.schedule;
    const int op_count = schedule->first_op[schedule->rank_count];
    int64_t sum_ns = record->path.link_wait_ns;
    int64_t last_ns = 0;
    for (int op = 0; op < op_count; op++) {
        if (record->timeline.end_ns[op] > last_ns) last_ns = record->timeline.end_ns[op];
    }
    for (int cell = 0; cell < schedule->rank_count * OP_KIND_COUNT; cell++) {
        sum_ns += record->path.op_ns[cell];
    }
    for (int stage = 0; stage < costs->stage_count; stage++) {
        sum_ns += record->path.forward_ns[stage] + record->path.backward_ns[stage];
    }
    if (sum_ns != last_ns) {
        fail_msg("seed %llu: the path takes %lld ns, the iteration %lld", (unsigned long long)seed,
                 (long long)sum_ns, (long long)last_ns);
    }
}

/// Memory behind every op, added up as told, and its peaks.
static void assert_memory(const sim_record *record, const bal_stage_costs *costs, arena *memory)
{
    const bal_schedule *schedule = record->timeline.schedule;
    int64_t *peak = arena_array(memory, (size_t)schedule->rank_count, sizeof *peak);
    assert_non_null(peak);
    bal_memory_peak(schedule, costs, peak);
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        int64_t held = 0;
        assert_int_equal(record->peak_memory[rank], peak[rank]);
        for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
            const int stage = bal_stage_of(schedule->placement, schedule->rank_count,
                                           schedule->chunk_count, rank, schedule->ops[op].chunk);
            held += bal_memory_change(costs, stage, (bal_op_kind)schedule->ops[op].kind);
            assert_int_equal(record->memory[op], held);
        }
    }
}

/// An op that its rank bound begins where the one before it ended; one that a message bound begins
/// later.
static void assert_bounds(const sim_record *record)
{
    const bal_schedule *schedule = record->timeline.schedule;
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        int64_t free_ns = 0;
        for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
            const int64_t begin_ns = record->timeline.begin_ns[op];
            if (record->bound[op] == SIM_BOUND_RANK) assert_int_equal(begin_ns, free_ns);
            if (record->bound[op] != SIM_BOUND_RANK) assert_true(begin_ns > free_ns);
            free_ns = record->timeline.end_ns[op];
        }
    }
}

static bool draw_problem(uint64_t seed, random_problem *problem, arena *memory)
{
    rng generator = rng_init(seed, 11);
    *problem = random_problem_draw(seed, memory);
    if (seed % 3 == 0) random_delays(&generator, &problem->costs, 20, memory);
    return seed % 2 > 0 || random_pairs(&generator, &problem->schedule);
}

static void without_links_a_record_is_the_static_engines_timeline(void **state)
{
    (void)state;
    arena *memory = arena_create(1 << 20);
    for (uint64_t seed = 0; seed < 1000; seed++, arena_reset(memory)) {
        random_problem problem;
        sim_order order;
        sim_recorder *recorder = NULL;
        bal_timeline expected;
        if (!draw_problem(seed, &problem, memory)) continue;
        assert_int_equal(sim_order_compile(&problem.schedule, memory, &order, NULL), STATUS_OK);
        assert_int_equal(sim_timeline_init(&problem.schedule, memory, &expected), STATUS_OK);
        assert_int_equal(sim_recorder_create(&order, NULL, memory, &recorder, NULL), STATUS_OK);
        sim_order_play(&order, &problem.costs, NULL, &expected);

        const sim_record *record = sim_recorder_play(recorder, &problem.costs);

        assert_same_times(record, &expected, problem.schedule.first_op[problem.schedule.rank_count],
                          seed);
        assert_int_equal(record->makespan_ns, bal_metrics_of(&expected).makespan_ns);
        assert_path_adds_up(record, &problem.costs, seed);
        assert_memory(record, &problem.costs, memory);
        assert_bounds(record);
    }
    arena_destroy(memory);
}

static void costs_beyond_cache_are_played_as_all_others(void **state)
{
    (void)state;
    enum { RANKS = 64, MICROBATCHES = 6000 };
    arena *memory = arena_create(1 << 20);
    rng generator = rng_init(1, 14);
    const bal_schedule schedule = reference_build("1f1b", RANKS, MICROBATCHES, 1, memory);
    const bal_stage_costs costs =
        random_costs(&generator, RANKS, MICROBATCHES, 1000000, 1000, memory);
    sim_order order;
    sim_summary summary;
    sim_recorder *recorder = NULL;
    bal_timeline expected;
    assert_int_equal(sim_order_compile(&schedule, memory, &order, NULL), STATUS_OK);
    assert_int_equal(sim_timeline_init(&schedule, memory, &expected), STATUS_OK);
    assert_int_equal(sim_summary_init(&order, memory, &summary), STATUS_OK);
    assert_int_equal(sim_recorder_create(&order, NULL, memory, &recorder, NULL), STATUS_OK);

    sim_order_play(&order, &costs, NULL, &expected);
    sim_order_summarise(&order, &costs, NULL, &summary);
    const sim_record *record = sim_recorder_play(recorder, &costs);

    assert_same_times(record, &expected, schedule.first_op[RANKS], 1);
    assert_int_equal(summary.makespan_ns, record->makespan_ns);
    arena_destroy(memory);
}

static void links_of_one_rank_each_are_those_of_the_event_engine(void **state)
{
    (void)state;
    arena *memory = arena_create(1 << 20);
    int64_t waited_ns = 0;
    for (uint64_t seed = 0; seed < 2000; seed++, arena_reset(memory)) {
        random_problem problem;
        rng generator = rng_init(seed, 12);
        sim_order order;
        sim_recorder *recorder = NULL;
        sim_dispatch *dispatch = NULL;
        bal_timeline expected;
        if (!draw_problem(seed, &problem, memory)) continue;
        const sim_network network = random_serial_network(&generator, &problem, memory);
        assert_int_equal(sim_network_check_serial(&problem.schedule, &network, NULL), STATUS_OK);
        assert_int_equal(sim_order_compile(&problem.schedule, memory, &order, NULL), STATUS_OK);
        assert_int_equal(sim_recorder_create(&order, &network, memory, &recorder, NULL), STATUS_OK);
        assert_int_equal(
            sim_dispatch_create(&problem.schedule, SIM_STATIC, &network, memory, &dispatch, NULL),
            STATUS_OK);
        assert_int_equal(sim_dispatch_play(dispatch, &problem.costs, NULL, NULL, &expected, NULL),
                         STATUS_OK);

        sim_recorder_play(recorder, &problem.costs);
        const sim_record *record = sim_recorder_play(recorder, &problem.costs); // nothing stays

        assert_same_times(record, &expected, problem.schedule.first_op[problem.schedule.rank_count],
                          seed);
        assert_path_adds_up(record, &problem.costs, seed);
        waited_ns += record->path.link_wait_ns;
    }
    assert_true(waited_ns > 0);
    arena_destroy(memory);
}

static void the_order_that_a_policy_played_is_recorded_with_its_times(void **state)
{
    (void)state;
    arena *memory = arena_create(1 << 20);
    int reordered = 0;
    for (uint64_t seed = 0; seed < 2000; seed++, arena_reset(memory)) {
        rng generator = rng_init(seed, 13);
        random_problem problem;
        sim_order order;
        sim_recorder *recorder = NULL;
        sim_dispatch *dispatch = NULL;
        bal_timeline played;
        if (!draw_problem(seed, &problem, memory)) continue;
        const sim_network network = random_serial_network(&generator, &problem, memory);
        const sim_policy policy = seed % 2 == 0 ? SIM_GREEDY : SIM_FLOATING_W;
        const int64_t limit = seed % 5 == 0 ? 1000 : rng_between(&generator, 1, 40);
        const int64_t limits[] = {limit, limit, limit, limit, limit};
        assert_int_equal(
            sim_dispatch_create(&problem.schedule, policy, &network, memory, &dispatch, NULL),
            STATUS_OK);
        if (sim_dispatch_play(dispatch, &problem.costs, limits, NULL, &played, NULL) != STATUS_OK) {
            continue; // below the least limit
        }
        const int op_count = played.schedule->first_op[played.schedule->rank_count];
        reordered += memcmp(played.schedule->ops, problem.schedule.ops,
                            (size_t)op_count * sizeof(bal_op)) != 0;
        assert_int_equal(sim_order_compile(played.schedule, memory, &order, NULL), STATUS_OK);
        assert_int_equal(sim_recorder_create(&order, &network, memory, &recorder, NULL), STATUS_OK);

        const sim_record *record = sim_recorder_play(recorder, &problem.costs);

        assert_same_times(record, &played, op_count, seed);
        assert_path_adds_up(record, &problem.costs, seed);
    }
    assert_true(reordered > 500);
    arena_destroy(memory);
}

static void a_path_through_a_held_link_by_hand(void **state)
{
    (void)state;
    // F take 10, messages 30 of which they hold the link for 25: F0 leaves at 10 and F1, done at
    // 20, at 35; it is there at 65, when rank 1 is long done with F0.
    arena *memory = arena_create(1 << 16);
    const bal_schedule schedule = reference_build("gpipe", 2, 2, 1, memory);
    const bal_stage_costs costs =
        reference_uniform_costs(2, 10, 1, 1, 30, (int64_t[]){1, 0, -1}, memory);
    const sim_network network = {.link_count = 1,
                                 .forward_link = (int[]){0, -1},
                                 .backward_link = (int[]){-1, -1},
                                 .forward_occupancy_ns = (int64_t[]){25, 0},
                                 .backward_occupancy_ns = (int64_t[]){0, 0}};
    sim_order order;
    sim_recorder *recorder = NULL;
    assert_int_equal(sim_order_compile(&schedule, memory, &order, NULL), STATUS_OK);
    assert_int_equal(sim_recorder_create(&order, &network, memory, &recorder, NULL), STATUS_OK);

    const sim_record *record = sim_recorder_play(recorder, &costs);

    // F0 of rank 0, its message's hold, F1's message, F1 and a BW of rank 1, a message, both BW.
    const int first = schedule.first_op[1];
    assert_int_equal(record->timeline.begin_ns[first], 40);
    assert_int_equal(record->timeline.begin_ns[first + 1], 65);
    assert_int_equal(record->bound[first + 1], SIM_BOUND_MESSAGE);
    assert_int_equal(record->path.link_wait_ns, 25);
    assert_int_equal(record->path.forward_ns[0], 30);
    assert_int_equal(record->path.backward_ns[1], 30);
    assert_int_equal(record->path.op_ns[OP_FORWARD], 10);
    assert_int_equal(record->path.op_ns[OP_KIND_COUNT + OP_FORWARD], 10);
    assert_int_equal(record->path.op_ns[OP_KIND_COUNT + OP_BACKWARD], 2);
    assert_int_equal(record->path.op_ns[OP_BACKWARD], 4);
    assert_int_equal(record->path.message_count, 2);
    assert_int_equal(record->makespan_ns, 10 + 25 + 30 + 10 + 2 + 30 + 4);
    arena_destroy(memory);
}

static void links_of_several_ranks_and_other_sends_are_refused(void **state)
{
    (void)state;
    arena *memory = arena_create(1 << 16);
    const bal_schedule schedule = reference_build("1f1b", 3, 2, 1, memory);
    const int64_t occupancy_ns[] = {0, 0, 0};
    const sim_network shared = {.link_count = 2,
                                .forward_link = (int[]){1, 1, -1},
                                .backward_link = (int[]){-1, -1, -1},
                                .forward_occupancy_ns = occupancy_ns,
                                .backward_occupancy_ns = occupancy_ns};
    error_message err = {0};

    assert_int_equal(sim_network_check_serial(&schedule, &shared, &err), STATUS_UNSUPPORTED);
    assert_string_equal(err.message, "link 1 carries messages of ranks 0 and 1; a fixed order is "
                                     "recorded with one rank per link only");
    assert_int_equal(
        sim_network_check_serial(&schedule, &(sim_network){.send = BAL_SEND_BLOCKING}, &err),
        STATUS_UNSUPPORTED);
    assert_string_equal(err.message, "sends are blocking; a fixed order is recorded with "
                                     "asynchronous ones only");
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_links_a_record_is_the_static_engines_timeline),
        cmocka_unit_test(costs_beyond_cache_are_played_as_all_others),
        cmocka_unit_test(links_of_one_rank_each_are_those_of_the_event_engine),
        cmocka_unit_test(the_order_that_a_policy_played_is_recorded_with_its_times),
        cmocka_unit_test(a_path_through_a_held_link_by_hand),
        cmocka_unit_test(links_of_several_ranks_and_other_sends_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
