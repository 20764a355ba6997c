/// Tests of the bound over all partitions and orders, and of what plays orders: random problems
/// with every part that a problem can have, every partition of them, and orders by rule, by family
/// and by chance.
#include "balance/joint/joint_bound.h"
#include "balance/joint/joint_order.h"
#include "balance/joint/joint_walk.h"
#include "tests/balance/joint_cases.h"
#include "tests/balance/reference_player.h"
#include "tests/test.h"
#include "tests/test_memory.h"

enum { CASE_COUNT = 1000, STAGES_MAX = 2 * JOINT_RANKS_MAX };

/// Exchanges neighbours by chance, as far as the lines allow.
static void shuffle(const bal_joint_board *board, bal_joint_code *lines, rng *random)
{
    for (int step = 0; step < 4 * board->line_op_count; step++) {
        const int rank = (int)rng_below(random, (uint64_t)board->rank_count);
        bal_joint_code *line = lines + rank * board->line_op_count;
        const int op = (int)rng_below(random, (uint64_t)board->line_op_count - 1);
        const bal_joint_code moved = line[op];
        line[op] = line[op + 1];
        line[op + 1] = moved;
        if (bal_joint_line_fits(board, rank, line)) continue;
        line[op + 1] = line[op];
        line[op] = moved;
    }
}

/// What the plainest player says of the lines.
static int64_t reference_makespan(const bal_joint_board *board, const bal_joint_code *lines)
{
    bal_schedule schedule;
    bal_timeline timeline;
    bal_joint_lines_schedule(board, lines, "any", memory, &schedule);
    assert_ok(bal_schedule_check(&schedule, NULL));
    timeline = reference_play(&schedule, &board->costs);
    int64_t last = 0;
    for (int op = 0; op < schedule.first_op[schedule.rank_count]; op++) {
        if (timeline.end_ns[op] > last) last = timeline.end_ns[op];
    }
    return last;
}

/// One partition: no order of it, by rule or by chance, may be below its bound or that of all.
static int check_partition(bal_joint_board *board, const int *first_layer, int64_t bound_of_all,
                           bal_joint_code *lines, rng *random, bool with_reference)
{
    static const bal_joint_rule rules[] = {{.warmup_quarters = 4, .gap_quarters = 4},
                                           {.warmup_quarters = 8},
                                           {.forward_first = true, .gap_quarters = 2},
                                           {.outer_first = true, .gap_quarters = 4}};
    const int64_t bound = bal_joint_partition_bound(board->layers, board->shape, first_layer);
    bal_joint_board_set(board, first_layer);
    int played = 0;
    if (bound < bound_of_all)
        fail_msg("a partition of %lld beats the bound of all", (long long)bound);
    for (size_t rule = 0; rule < sizeof rules / sizeof rules[0]; rule++) {
        const bool fits = bal_joint_dispatch(board, &rules[rule], lines);
        if (bound == INT64_MAX) {
            if (fits) assert_false(bal_joint_lines_fit(board, lines));
            continue;
        }
        assert_true(fits);
        assert_true(bal_joint_lines_fit(board, lines));
        for (int turn = 0; turn < 2; turn++) {
            const int64_t makespan = bal_joint_play(board, lines, INT64_MAX);
            if (makespan != INT64_MAX) {
                assert_true(makespan >= bound);
                if (with_reference) {
                    assert_int_equal(reference_makespan(board, lines), makespan);
                }
                played++;
            }
            shuffle(board, lines, random);
        }
    }
    return played;
}

TEST(no_order_of_any_partition_is_below_the_bounds)
{
    int played = 0;
    for (int index = 0; index < CASE_COUNT; index++) {
        rng random = rng_init(6, (uint64_t)index);
        const int ranks = 1 + (int)rng_below(&random, 4);
        const int layers = ranks + (int)rng_below(&random, 6);
        joint_case made;
        joint_case_init(&made, layers, ranks, 1 + (int)rng_below(&random, 7), &random);
        arena_reset(memory);
        bal_joint_layers sums;
        assert_ok(bal_joint_layers_of(&made.problem, memory, &sums, NULL));
        for (int shape = 0; shape < JOINT_SHAPE_COUNT; shape++) {
            const int stages = ranks * joint_shapes[shape].chunk_count;
            int first_layer[STAGES_MAX + 1];
            int64_t bound = 0;
            bal_joint_board board;
            if (stages > layers) continue;
            const status found =
                bal_joint_bound(&sums, joint_shapes[shape], memory, first_layer, &bound, NULL);
            if (found == STATUS_INFEASIBLE) bound = INT64_MAX;
            bal_joint_board_init(&sums, joint_shapes[shape], memory, &board);
            bal_joint_code *lines = arena_array(memory, (size_t)board.op_count, sizeof *lines);
            joint_first_partition(first_layer, stages, layers);
            do {
                played +=
                    check_partition(&board, first_layer, bound, lines, &random, index % 16 == 0);
            } while (joint_next_partition(first_layer, stages));
        }
    }
    assert_true(played > 30000);
}

TEST(the_bound_of_one_chunk_is_the_least_of_all_partitions)
{
    for (int index = 0; index < CASE_COUNT; index++) {
        rng random = rng_init(7, (uint64_t)index);
        const int ranks = 1 + (int)rng_below(&random, 4);
        const int layers = ranks + (int)rng_below(&random, 6);
        joint_case made;
        joint_case_init(&made, layers, ranks, 1 + (int)rng_below(&random, 7), &random);
        arena_reset(memory);
        bal_joint_layers sums;
        int first_layer[STAGES_MAX + 1];
        int found_first[STAGES_MAX + 1];
        int64_t least = INT64_MAX;
        assert_ok(bal_joint_layers_of(&made.problem, memory, &sums, NULL));
        joint_first_partition(first_layer, ranks, layers);
        do {
            const int64_t bound = bal_joint_partition_bound(&sums, joint_shapes[0], first_layer);
            if (bound < least) least = bound;
        } while (joint_next_partition(first_layer, ranks));

        int64_t bound = INT64_MAX;
        const status found =
            bal_joint_bound(&sums, joint_shapes[0], memory, found_first, &bound, NULL);

        assert_int_equal(found, least == INT64_MAX ? STATUS_INFEASIBLE : STATUS_OK);
        assert_int_equal(bound, least);
        if (found == STATUS_OK) {
            assert_int_equal(bal_joint_partition_bound(&sums, joint_shapes[0], found_first), least);
        }
    }
}

/// The bound of layers of one time for F, B and W each, on two ranks.
static int64_t bound_of(bal_problem *problem, const int64_t *layer_ns, bal_joint_layers *sums,
                        int *first_layer)
{
    int64_t bound = 0;
    problem->layers.microbatch_count = 1;
    problem->layers.has_split = true;
    problem->layers.forward_ns = problem->layers.backward_input_ns = layer_ns;
    problem->layers.backward_weight_ns = layer_ns;
    problem->stage_count = 2;
    assert_ok(bal_joint_layers_of(problem, memory, sums, NULL));
    assert_ok(bal_joint_bound(sums, joint_shapes[0], memory, first_layer, &bound, NULL));
    return bound;
}

/// Two ranks, three layers of 2, 1, 3 ns per op, two microbatches, by hand: cut after the second
/// layer, rank 1 begins after 3 ns and has 2 * 9 ns of work: 21; rank 0 has 2 * 9 = 18, and after
/// the first F waits for 3 + 3 ns until the first B, and after that has at least 2 * (3 + 3) ns of
/// B and W. Cut after the first: rank 1 begins after 2 ns and has 24 ns of work: 26.
TEST(a_case_by_hand)
{
    bal_problem problem = {.layers = {.layer_count = 3}, .microbatch_count = 2};
    bal_joint_layers sums;
    int first_layer[3] = {0};

    assert_int_equal(bound_of(&problem, (const int64_t[]){2, 1, 3}, &sums, first_layer), 21);

    assert_int_equal(first_layer[1], 2);
    const int other[] = {0, 1, 3};
    assert_int_equal(bal_joint_partition_bound(&sums, joint_shapes[0], other), 26);
}

/// Memory for one microbatch at a time: every one runs alone through both ranks.
TEST(memory_for_one_microbatch_forces_them_apart)
{
    static const int64_t ones[] = {1, 1};
    bal_problem problem = {.layers = {.layer_count = 2, .activation_bytes = ones},
                           .microbatch_count = 5,
                           .stage_memory_bytes = ones};
    bal_joint_layers sums;

    int first_layer[3] = {0};

    const int64_t bound = bound_of(&problem, ones, &sums, first_layer);

    assert_int_equal(bound, 5 * (1 + 1 + 1 + 1 + 1)); // F F B B W of each
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
