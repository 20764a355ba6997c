/// Tests of sim/iterations.h: iterations back to back. Small ones are worked out by hand; random
/// ones equal an oracle that relaxes the definition's inequalities until nothing moves, over all
/// iterations at once; and known schedules have the period that the zero-bubble papers give them.
#include "sim/iterations.h"

#include "sim/costs.h"
#include "sim/pipeline.h"
#include "tests/assert_close.h"
#include "tests/sim/random_schedules.h"

#include <string.h>

enum { ITERATIONS = 4 };

static arena *new_arena(void)
{
    arena *memory = arena_create(1 << 20);
    return memory;
}

static bal_schedule build(const char *name, int ranks, int microbatches,
                          const bal_stage_costs *costs, arena *memory)
{
    error_message err = {0};
    bal_schedule schedule;
    const bal_schedule_request request = {
        .name = name, .rank_count = ranks, .microbatch_count = microbatches, .costs = costs};
    assert_ok(bal_schedule_build(&request, memory, &schedule, &err));
    return schedule;
}

/// Costs of stages that differ by up to spread percent.
static bal_stage_costs imbalanced(rng *generator, int stages, int64_t f, int64_t b, int64_t w,
                                  int64_t send_ns, int spread, arena *memory)
{
    const int64_t bases[] = {f, b, w};
    int64_t *times[3];
    int64_t *send = random_row(generator, stages, 0, memory);
    int64_t *none = random_row(generator, stages, 0, memory);
    for (int kind = 0; kind < 3; kind++) {
        times[kind] = random_row(generator, stages, 0, memory);
    }
    for (int stage = 0; stage < stages; stage++) {
        send[stage] = send_ns;
        for (int kind = 0; kind < 3; kind++) {
            times[kind][stage] = bases[kind] * (100 + rng_between(generator, 0, spread)) / 100;
        }
    }
    return (bal_stage_costs){.stage_count = stages,
                             .microbatch_count = 1,
                             .forward_ns = times[0],
                             .backward_input_ns = times[1],
                             .backward_weight_ns = times[2],
                             .send_forward_ns = send,
                             .send_backward_ns = send,
                             .memory_forward = none,
                             .memory_backward_input = none,
                             .memory_backward_weight = none};
}

/// Where the last rank may begin after each of several iterations.
typedef struct course {
    int64_t end_ns[16];
    int64_t lost_ns[16];
    int64_t span_ns; // of the first iteration
    int64_t makespan_ns;
} course;

static course play_course(const bal_schedule *schedule, const bal_stage_costs *costs,
                          const sim_update *update, int count, int failing, arena *memory)
{
    error_message err = {0};
    sim_iterations *iterations = NULL;
    sim_iteration iteration;
    sim_iteration_state state;
    course made = {0};
    assert_ok(sim_costs_check(schedule, costs, &err));
    sim_iterations_prepare(schedule, memory, &iterations);
    assert_ok(sim_iterations_check_validation(iterations, memory, &err));
    sim_iteration_init(schedule, memory, &iteration, &state);
    for (int index = 0; index < count; index++) {
        sim_iterations_play(iterations, costs, update, &state, &iteration);
        sim_iterations_end(update, iteration.last_end_ns, schedule->rank_count, index == failing,
                           &state);
        made.lost_ns[index] = iteration.lost_ns;
        for (int rank = 0; rank < schedule->rank_count; rank++) {
            const int64_t ns = iteration.last_end_ns[rank] - iteration.first_begin_ns[rank];
            if (index == 0 && ns > made.span_ns) made.span_ns = ns;
            if (index == 0 && iteration.last_end_ns[rank] > made.makespan_ns) {
                made.makespan_ns = iteration.last_end_ns[rank];
            }
            if (state.begin_ns[rank] > made.end_ns[index])
                made.end_ns[index] = state.begin_ns[rank];
        }
    }
    return made;
}

static int64_t period_of(const course *played, int count)
{
    return played->end_ns[count - 1] - played->end_ns[count - 2];
}

/// The oracle: begins and ends of everything in all iterations, raised until nothing moves.
typedef struct oracle {
    const bal_schedule *schedule;
    const bal_stage_costs *costs;
    const sim_update *update;
    int op_count;
    int64_t *begin_ns;                   // [ITERATIONS][op_count]
    int64_t partial_ns[ITERATIONS][16];  // after iteration i
    int64_t seen_ns[ITERATIONS + 1][16]; // in iteration i, of the one before
    int64_t start_ns[ITERATIONS + 1][16];
} oracle;

static bool raise_to(int64_t *value, int64_t to)
{
    if (*value >= to) return false;
    *value = to;
    return true;
}

static int64_t length_of(const oracle *of, int rank, int op)
{
    const bal_op one = of->schedule->ops[op];
    const int stage = bal_stage_of(of->schedule->placement, of->schedule->rank_count,
                                   of->schedule->chunk_count, rank, one.chunk);
    const int columns = of->costs->microbatch_count;
    const int at = stage * columns + (columns > 1 ? one.microbatch : 0);
    if (one.kind == OP_FORWARD) return of->costs->forward_ns[at];
    return (one.kind != OP_BACKWARD_WEIGHT ? of->costs->backward_input_ns[at] : 0) +
           (one.kind != OP_BACKWARD_INPUT ? of->costs->backward_weight_ns[at] : 0);
}

/// When the message of the stage that an op waits for is there; searches the op that sends it.
static int64_t message_ns(const oracle *of, int iteration, int rank, bal_op op)
{
    const bal_schedule *schedule = of->schedule;
    bal_op_kind kind = OP_FORWARD;
    const int sender = bal_op_waits_for(schedule, rank, op, &kind);
    if (sender < 0) return 0;
    int chunk = 0;
    const int from = bal_rank_of_stage(schedule->placement, schedule->rank_count,
                                       schedule->chunk_count, sender, &chunk);
    for (int index = schedule->first_op[from]; index < schedule->first_op[from + 1]; index++) {
        const bal_op sent = schedule->ops[index];
        if (sent.chunk != chunk || sent.microbatch != op.microbatch) continue;
        if (sent.kind == OP_BACKWARD_WEIGHT) continue;
        if ((kind == OP_FORWARD) != (sent.kind == OP_FORWARD)) continue;
        if (from == rank) {
            return of->begin_ns[iteration * of->op_count + index] + length_of(of, from, index);
        }
        const bool is_forward = kind == OP_FORWARD;
        const int columns = of->costs->microbatch_count;
        const int row = (is_forward ? 0 : of->costs->stage_count) + sender;
        const int64_t *delay = of->costs->message_delay_ns;
        const int64_t way =
            (is_forward ? of->costs->send_forward_ns : of->costs->send_backward_ns)[sender] +
            (delay != NULL ? delay[row * columns + (columns > 1 ? op.microbatch : 0)] : 0);
        return of->begin_ns[iteration * of->op_count + index] + length_of(of, from, index) + way;
    }
    fail();
    return 0;
}

/// Raises the ops of a rank in an iteration once.
static bool relax_rank(oracle *of, int iteration, int rank)
{
    const bal_schedule *schedule = of->schedule;
    const int last = schedule->rank_count - 1;
    const int64_t *hop = of->update->hop_ns;
    int64_t *begin = &of->begin_ns[iteration * of->op_count];
    bool moved = false;
    bool is_behind_gate = false;
    int64_t free_ns = of->start_ns[iteration][rank];
    for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
        const bal_op one = schedule->ops[op];
        if (!is_behind_gate && (one.kind != OP_FORWARD || one.chunk != 0)) {
            int64_t *seen = &of->seen_ns[iteration][rank];
            is_behind_gate = true;
            if (of->update->post_validation && iteration > 0) {
                moved |= raise_to(seen, free_ns);
                moved |=
                    raise_to(seen, rank == last ? of->partial_ns[iteration - 1][last]
                                                : of->seen_ns[iteration][rank + 1] + hop[rank + 1]);
                free_ns = *seen;
            }
        }
        moved |= raise_to(&begin[op], free_ns);
        moved |= raise_to(&begin[op], message_ns(of, iteration, rank, one));
        free_ns = begin[op] + length_of(of, rank, op);
    }
    const sim_update *update = of->update;
    int64_t *partial = of->partial_ns[iteration];
    moved |= raise_to(&partial[rank], free_ns + update->norm_ns);
    for (int other = 0; other <= last; other++) {
        if (update->post_validation && other != rank - 1) continue;
        const int64_t way = update->post_validation ? hop[rank] : 0;
        moved |= raise_to(&partial[rank], partial[other] + way);
    }
    moved |= raise_to(&of->start_ns[iteration + 1][rank], partial[rank] + update->optimizer_ns);
    return moved;
}

static void relax(oracle *of)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (int iteration = 0; iteration < ITERATIONS; iteration++) {
            for (int rank = 0; rank < of->schedule->rank_count; rank++) {
                moved |= relax_rank(of, iteration, rank);
            }
        }
    }
}

static void random_iterations_equal_the_definition(void **state)
{
    (void)state;
    int played = 0;
    int refused = 0;
    for (uint64_t seed = 1; seed <= 600; seed++) {
        arena *memory = new_arena();
        random_problem problem = random_problem_draw(seed, memory);
        const bal_schedule *schedule = &problem.schedule;
        rng generator = rng_init(seed, 77);
        if (seed % 2 == 0) random_delays(&generator, &problem.costs, 30, memory);
        const sim_update update = {.post_validation = seed % 3 > 0,
                                   .norm_ns = rng_between(&generator, 0, 5),
                                   .optimizer_ns = rng_between(&generator, 0, 20),
                                   .hop_ns = random_row(&generator, 16, 10, memory)};
        oracle of = {.schedule = schedule, .costs = &problem.costs, .update = &update};
        error_message err = {0};
        sim_iterations *iterations = NULL;
        sim_iteration iteration;
        sim_iteration_state begins;
        bal_timeline timeline;
        of.op_count = schedule->first_op[schedule->rank_count];
        of.begin_ns = random_row(&generator, ITERATIONS * of.op_count, 0, memory);
        sim_iterations_prepare(schedule, memory, &iterations);
        sim_iteration_init(schedule, memory, &iteration, &begins);
        sim_timeline_init(schedule, memory, &timeline);
        iteration.timeline = &timeline;
        if (update.post_validation &&
            sim_iterations_check_validation(iterations, memory, &err) != STATUS_OK) {
            refused++;
            arena_destroy(memory);
            continue;
        }
        relax(&of);
        for (int index = 0; index < ITERATIONS; index++) {
            sim_iterations_play(iterations, &problem.costs, &update, &begins, &iteration);
            assert_memory_equal(timeline.begin_ns, &of.begin_ns[index * of.op_count],
                                (size_t)of.op_count * sizeof(int64_t));
            sim_iterations_end(&update, iteration.last_end_ns, schedule->rank_count, false,
                               &begins);
            assert_memory_equal(begins.begin_ns, of.start_ns[index + 1],
                                (size_t)schedule->rank_count * sizeof(int64_t));
        }
        played++;
        arena_destroy(memory);
    }
    assert_true(played > 250); // enough of each
    assert_true(refused > 20);
}

static void without_a_norm_to_wait_for_times_are_those_of_the_static_engine(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        arena *memory = new_arena();
        random_problem problem = random_problem_draw(seed, memory);
        const bal_schedule *schedule = &problem.schedule;
        const int ranks = schedule->rank_count;
        const int ops = schedule->first_op[ranks];
        rng generator = rng_init(seed, 5);
        const sim_update barrier = {.optimizer_ns = 3};
        if (seed % 2 == 0 && !random_pairs(&generator, schedule)) {
            arena_destroy(memory);
            continue;
        }
        if (seed % 3 == 0) random_delays(&generator, &problem.costs, 30, memory);
        error_message err = {0};
        sim_iterations *iterations = NULL;
        sim_iteration iteration;
        sim_iteration_state begins;
        bal_timeline played;
        bal_timeline expected;
        sim_order order;
        sim_iterations_prepare(schedule, memory, &iterations);
        sim_iteration_init(schedule, memory, &iteration, &begins);
        sim_timeline_init(schedule, memory, &played);
        sim_timeline_init(schedule, memory, &expected);
        assert_ok(sim_order_compile(schedule, memory, &order, &err));
        begins.begin_ns = random_row(&generator, ranks, 50, memory);
        iteration.timeline = &played;

        sim_iterations_play(iterations, &problem.costs, &barrier, &begins, &iteration);

        sim_order_play(&order, &problem.costs, begins.begin_ns, &expected);
        assert_memory_equal(played.begin_ns, expected.begin_ns, (size_t)ops * sizeof(int64_t));
        assert_memory_equal(played.end_ns, expected.end_ns, (size_t)ops * sizeof(int64_t));
        arena_destroy(memory);
    }
}

/// P=2, M=2, F=B=W=10, zb-h1: rank 0 F0 F1 B0 W0 B1 W1, rank 1 F0 B0 F1 B1 W0 W1.
static void two_ranks_validate_as_worked_out_by_hand(void **state)
{
    (void)state;
    arena *memory = new_arena();
    rng generator = rng_init(1, 1);
    const bal_stage_costs costs = imbalanced(&generator, 2, 10, 10, 10, 0, 0, memory);
    const int64_t hop_ns[] = {0, 2};
    const sim_update update = {
        .post_validation = true, .norm_ns = 1, .optimizer_ns = 5, .hop_ns = hop_ns};
    const bal_op rank_0[] = {{OP_FORWARD, 0, 0, 0},         {OP_FORWARD, 0, 0, 1},
                             {OP_BACKWARD_INPUT, 0, 0, 0},  {OP_BACKWARD_WEIGHT, 0, 0, 0},
                             {OP_BACKWARD_INPUT, 0, 0, 1},  {OP_BACKWARD_WEIGHT, 0, 0, 1},
                             {OP_FORWARD, 0, 0, 0},         {OP_BACKWARD_INPUT, 0, 0, 0},
                             {OP_FORWARD, 0, 0, 1},         {OP_BACKWARD_INPUT, 0, 0, 1},
                             {OP_BACKWARD_WEIGHT, 0, 0, 0}, {OP_BACKWARD_WEIGHT, 0, 0, 1}};
    const int first_op[] = {0, 6, 12};
    const bal_schedule schedule = {.name = "by hand",
                                   .rank_count = 2,
                                   .chunk_count = 1,
                                   .microbatch_count = 2,
                                   .has_split = true,
                                   .first_op = first_op,
                                   .ops = rank_0};

    const course played = play_course(&schedule, &costs, &update, 4, -1, memory);

    // Rank 0 ends at 70 (F0 F1 20, B0 30-40 behind rank 1, W0 50, B1 50-60, W1 70), rank 1 at 70.
    // Partial norms at 71 and max(71, 71 + 2) = 73; steps end at 76 and 78.
    assert_int_equal(played.end_ns[0], 78);
    // Rank 1 begins F0 at 86, when rank 0 has done it, 2 ns less after its step than at first, and
    // lasts 60: 146 + 1 + 5. Rank 0 began at 76 and lasts 70: its partial norm, 147 + 2, comes
    // last.
    assert_int_equal(played.end_ns[1], 76 + 70 + 1 + 2 + 5);
    assert_int_equal(period_of(&played, 4), 70 + 1 + 5); // the span, norm and step
    arena_destroy(memory);
}

static void a_failed_validation_costs_what_came_before_it_a_rollback_and_a_step(void **state)
{
    (void)state;
    arena *memory = new_arena();
    rng generator = rng_init(1, 1);
    const bal_stage_costs costs = imbalanced(&generator, 2, 10, 10, 10, 0, 0, memory);
    const int64_t hop_ns[] = {0, 2};
    const sim_update update = {.post_validation = true,
                               .norm_ns = 1,
                               .optimizer_ns = 5,
                               .rollback_ns = 4,
                               .hop_ns = hop_ns};
    const bal_schedule schedule = build("zb-h1", 2, 2, &costs, memory);
    const course kept = play_course(&schedule, &costs, &update, 3, -1, memory);

    const course failed = play_course(&schedule, &costs, &update, 3, 0, memory);

    assert_int_equal(failed.end_ns[0], kept.end_ns[0]);
    assert_int_equal(failed.lost_ns[0], 0);
    assert_true(failed.lost_ns[1] > 0);
    assert_true(failed.end_ns[1] > kept.end_ns[1]);
    // Rank 0 has begun at 76 (as above) and run F0 and F1 when it is at its first B at 96, where
    // the norm of 73 + 2 has been for long: rollback and step end at 96 + 4 + 5. Rank 1 knew at 73.
    assert_int_equal(failed.lost_ns[1], 105 - 78);
    assert_int_equal(failed.end_ns[1], 105 + 70 + 1 + 2 + 5);
    assert_int_equal(failed.lost_ns[2], 0);
    arena_destroy(memory);
}

static void with_a_barrier_the_period_is_the_makespan(void **state)
{
    (void)state;
    static const char *const names[] = {"gpipe", "1f1b", "zb-h1", "zb-h2", "zb-auto"};
    for (size_t each = 0; each < sizeof names / sizeof names[0]; each++) {
        arena *memory = new_arena();
        rng generator = rng_init(each, 3);
        const bal_stage_costs costs = imbalanced(&generator, 4, 1000, 1100, 900, 50, 40, memory);
        const sim_update barrier = {.optimizer_ns = 77};
        const bal_schedule schedule = build(names[each], 4, 12, &costs, memory);

        const course played = play_course(&schedule, &costs, &barrier, 3, -1, memory);

        assert_int_equal(period_of(&played, 3), played.makespan_ns + 77);
        arena_destroy(memory);
    }
}

static void post_validation_takes_the_bubble_of_zb_h2_and_is_a_barrier_for_1f1b(void **state)
{
    (void)state;
    arena *memory = new_arena();
    rng generator = rng_init(1, 3);
    const bal_stage_costs costs = imbalanced(&generator, 8, 1000, 1000, 1000, 0, 0, memory);
    const sim_update update = {.post_validation = true};
    const bal_schedule h2 = build("zb-h2", 8, 32, &costs, memory);
    const bal_schedule h1 = build("zb-h1", 8, 32, &costs, memory);
    const bal_schedule plain = build("1f1b", 8, 32, &costs, memory);

    const course of_h2 = play_course(&h2, &costs, &update, 8, -1, memory);
    const course of_h1 = play_course(&h1, &costs, &update, 8, -1, memory);
    const course of_plain = play_course(&plain, &costs, &update, 8, -1, memory);

    assert_int_equal(of_h2.makespan_ns, 103000); // as ZB-H1's with the barrier
    assert_int_equal(period_of(&of_h2, 8), 96000);
    assert_int_equal(period_of(&of_h1, 8), 103000);
    assert_int_equal(period_of(&of_plain, 8), of_plain.makespan_ns);
    arena_destroy(memory);
}

static void
a_period_is_found_when_iterations_repeat_or_refused_when_they_take_too_long(void **state)
{
    (void)state;
    arena *memory = new_arena();
    rng generator = rng_init(1, 3);
    const bal_stage_costs costs = imbalanced(&generator, 8, 1000, 1000, 1000, 0, 0, memory);
    const bal_stage_costs long_ones =
        imbalanced(&generator, 8, SIM_ITERATIONS_NS_MAX / 20, 1, 1, 0, 0, memory);
    const bal_schedule h2 = build("zb-h2", 8, 32, &costs, memory);
    const sim_update late = {.post_validation = true};
    const sim_update barrier = {0};
    sim_iterations *iterations = NULL;
    int64_t late_ns = 0;
    int64_t barrier_ns = 0;
    int64_t untouched_ns = -7;
    error_message err = {0};
    sim_iterations_prepare(&h2, memory, &iterations);

    assert_ok(sim_iterations_find_period(iterations, &costs, &late, memory, &late_ns, NULL));
    assert_ok(sim_iterations_find_period(iterations, &costs, &barrier, memory, &barrier_ns, NULL));

    assert_int_equal(late_ns, 96000);
    assert_int_equal(barrier_ns, 103000);
    assert_int_equal(
        sim_iterations_find_period(iterations, &long_ones, &barrier, memory, &untouched_ns, &err),
        STATUS_INVALID);
    assert_string_equal(err.message,
                        "iterations back to back are longer than 144115188075855871 ns");
    assert_int_equal(untouched_ns, -7);
    arena_destroy(memory);
}

/// Of zero-bubble orders on stages that differ by up to four times: a rank that lies in the shade
/// of others can begin the next iteration in the bubble of its own, so that the period may be
/// shorter than the span of an iteration on its own.
static void the_period_of_zero_bubble_schedules_is_the_span_or_slightly_less(void **state)
{
    (void)state;
    static const char *const names[] = {"zb-h1", "zb-h2", "zb-auto", "1f1b", "gpipe"};
    int equal = 0;
    int below = 0;
    int above = 0;
    for (uint64_t seed = 0; seed < 1200; seed++) {
        arena *memory = new_arena();
        rng generator = rng_init(seed, 9);
        const int ranks = 2 + (int)rng_below(&generator, 7);
        const int microbatches = 1 + (int)rng_below(&generator, (uint64_t)ranks * 4);
        const bal_stage_costs costs =
            imbalanced(&generator, ranks, 1000, 1100, 900, 20 * (int)(seed % 7), 300, memory);
        const sim_update update = {.post_validation = true, .optimizer_ns = 100};
        const bal_schedule schedule = build(names[seed % 5], ranks, microbatches, &costs, memory);

        const course played = play_course(&schedule, &costs, &update, 12, -1, memory);

        const int64_t period = period_of(&played, 12) - 100;
        equal += period == played.span_ns;
        below += period < played.span_ns;
        above += period > played.span_ns;
        arena_destroy(memory);
    }
    assert_int_equal(above, 0);
    assert_true(below > 0);
    assert_true(equal > 1080); // all but a few in a hundred
}

static void a_norm_that_cannot_come_back_is_refused_by_name(void **state)
{
    (void)state;
    // Rank 1 runs both microbatches of chunk 0 before it passes the norm on; rank 0 waits for the
    // norm after the first.
    const bal_op chunked[] = {
        {OP_FORWARD, 0, 0, 0},  {OP_FORWARD, 0, 0, 1},  {OP_FORWARD, 0, 1, 0},
        {OP_FORWARD, 0, 1, 1},  {OP_BACKWARD, 0, 1, 0}, {OP_BACKWARD, 0, 1, 1},
        {OP_BACKWARD, 0, 0, 0}, {OP_BACKWARD, 0, 0, 1}, {OP_FORWARD, 0, 0, 0},
        {OP_FORWARD, 0, 0, 1},  {OP_FORWARD, 0, 1, 0},  {OP_FORWARD, 0, 1, 1},
        {OP_BACKWARD, 0, 1, 0}, {OP_BACKWARD, 0, 1, 1}, {OP_BACKWARD, 0, 0, 0},
        {OP_BACKWARD, 0, 0, 1}};
    bal_op turned[16];
    const int first_turned[] = {0, 8, 16};
    memcpy(turned, chunked, sizeof turned);
    turned[1] = chunked[2];
    turned[2] = chunked[1];
    const bal_schedule loop = {.name = "by hand",
                               .rank_count = 2,
                               .chunk_count = 2,
                               .microbatch_count = 2,
                               .placement = BAL_PLACEMENT_LOOP,
                               .first_op = first_turned,
                               .ops = turned};
    arena *memory = new_arena();
    sim_iterations *iterations = NULL;
    error_message err = {0};
    sim_iterations_prepare(&loop, memory, &iterations);

    assert_int_equal(sim_iterations_check_validation(iterations, memory, &err), STATUS_INVALID);

    assert_string_equal(err.message,
                        "schedule by hand cannot validate behind the step: rank 0 waits before "
                        "its 1:F0 for a norm that comes back only after it");
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_iterations_equal_the_definition),
        cmocka_unit_test(without_a_norm_to_wait_for_times_are_those_of_the_static_engine),
        cmocka_unit_test(two_ranks_validate_as_worked_out_by_hand),
        cmocka_unit_test(a_failed_validation_costs_what_came_before_it_a_rollback_and_a_step),
        cmocka_unit_test(with_a_barrier_the_period_is_the_makespan),
        cmocka_unit_test(post_validation_takes_the_bubble_of_zb_h2_and_is_a_barrier_for_1f1b),
        cmocka_unit_test(
            a_period_is_found_when_iterations_repeat_or_refused_when_they_take_too_long),
        cmocka_unit_test(the_period_of_zero_bubble_schedules_is_the_span_or_slightly_less),
        cmocka_unit_test(a_norm_that_cannot_come_back_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
