/// Tests of the joint search: against every partition and every order of small problems, by seed
/// and budget, within memory, and on problems that cannot be solved.
#include "balance/joint/joint.h"
#include "balance/joint/joint_bound.h"
#include "balance/joint/joint_order.h"
#include "balance/joint/joint_walk.h"
#include "tests/balance/joint_cases.h"
#include "tests/balance/reference_player.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <stdio.h>
#include <string.h>

enum { STAGES_MAX = 2 * JOINT_RANKS_MAX, LINES_MAX = 1 << 10, LINE_OPS_MAX = 16, BUDGET = 4000 };

/// The exhaustive search: every line that a rank may have, in every combination.
typedef struct oracle {
    bal_joint_board board;
    bal_joint_code *lines; // [ops] of all ranks, the combination in hand
    bal_joint_code of_rank[JOINT_RANKS_MAX][LINES_MAX][LINE_OPS_MAX];
    int line_count[JOINT_RANKS_MAX];
    int64_t least;
} oracle;

/// Writes the lines of a rank that begin with those of the ops so far, and fit.
static void list_lines(oracle *all, int rank, bal_joint_code *line, int op)
{
    const bal_joint_board *board = &all->board;
    int count[BAL_JOINT_CODES_MAX] = {0};
    if (op == board->line_op_count) {
        if (!bal_joint_line_fits(board, rank, line)) return;
        assert_true(all->line_count[rank] < LINES_MAX);
        memcpy(all->of_rank[rank][all->line_count[rank]++], line, (size_t)op);
        return;
    }
    for (int index = 0; index < op; index++) {
        count[line[index]]++;
    }
    for (int code = 0; code < board->code_count; code++) {
        const bool is_forward = code % 3 == 0;
        if (code % 3 == 2 && !board->has_split) continue;
        if (count[code] == board->microbatch_count) continue;
        if (!is_forward && count[code] >= count[code - 1]) continue;
        line[op] = (bal_joint_code)code;
        list_lines(all, rank, line, op + 1);
    }
}

static void combine(oracle *all, int rank)
{
    bal_joint_board *board = &all->board;
    if (rank == board->rank_count || rank == JOINT_RANKS_MAX) {
        const int64_t makespan = bal_joint_play(board, all->lines, all->least);
        if (makespan < all->least) all->least = makespan;
        return;
    }
    for (int line = 0; line < all->line_count[rank]; line++) {
        memcpy(all->lines + rank * board->line_op_count, all->of_rank[rank][line],
               (size_t)board->line_op_count);
        combine(all, rank + 1);
    }
}

/// The least makespan of all partitions into one shape and all their orders; INT64_MAX if none
/// fits.
static int64_t least_of_all(const bal_joint_layers *sums, bal_joint_shape shape)
{
    static oracle all;
    const int stages = sums->rank_count * shape.chunk_count;
    int first_layer[STAGES_MAX + 1];
    memset(&all, 0, sizeof all);
    all.least = INT64_MAX;
    bal_joint_board_init(sums, shape, memory, &all.board);
    assert_true(all.board.line_op_count <= LINE_OPS_MAX);
    all.lines = arena_array(memory, (size_t)all.board.op_count, 1);
    joint_first_partition(first_layer, stages, sums->layer_count);
    do {
        bal_joint_board_set(&all.board, first_layer);
        for (int rank = 0; rank < sums->rank_count; rank++) {
            bal_joint_code line[LINE_OPS_MAX];
            all.line_count[rank] = 0;
            list_lines(&all, rank, line, 0);
        }
        combine(&all, 0);
    } while (joint_next_partition(first_layer, stages));
    return all.least;
}

typedef struct tally {
    int reached;
    int solved;
    int bound_met;
} tally;

/// Compares the search with the exhaustive one on a case; both may find that nothing fits.
static void compare(const joint_case *made, int chunks, bool with_loop, tally *count)
{
    bal_joint_layers sums;
    bal_joint_answer answer;
    const bal_joint_question question = {
        .problem = &made->problem, .chunk_count = chunks, .play_budget = BUDGET, .seed = 1};
    assert_ok(bal_joint_layers_of(&made->problem, memory, &sums, NULL));
    int64_t least = least_of_all(&sums, joint_shapes[chunks - 1]);
    if (with_loop) {
        const int64_t of_loop = least_of_all(&sums, joint_shapes[2]);
        if (of_loop < least) least = of_loop;
    }

    const status found = bal_joint_search(&question, memory, &answer, NULL);

    assert_int_equal(found, least == INT64_MAX ? STATUS_INFEASIBLE : STATUS_OK);
    if (found == STATUS_OK) {
        assert_true(answer.lower_bound_ns <= least);
        assert_true(answer.makespan_ns >= least);
        count->solved++;
        count->reached += answer.makespan_ns == least;
        count->bound_met += answer.lower_bound_ns == least;
    }
}

TEST(small_problems_are_solved_to_the_optimum)
{
    static const struct {
        int ranks, layers, microbatches, cases;
    } sizes[] = {{2, 3, 2, 60}, {2, 5, 3, 60}, {2, 6, 4, 12},
                 {3, 4, 2, 60}, {3, 6, 2, 40}, {3, 5, 3, 24}};
    for (size_t size = 0; size < sizeof sizes / sizeof sizes[0]; size++) {
        const int cases = sizes[size].cases / TEST_SHARE;
        tally count = {0};
        for (int index = 0; index < cases; index++) {
            rng random = rng_init(8 + size, (uint64_t)index);
            joint_case made;
            joint_case_init(&made, sizes[size].layers, sizes[size].ranks, sizes[size].microbatches,
                            &random);
            compare(&made, 1, false, &count);
        }
        print_message("%d ranks, %d layers, %d microbatches: optimum reached in %d of %d, bound "
                      "met by it in %d\n",
                      sizes[size].ranks, sizes[size].layers, sizes[size].microbatches,
                      count.reached, count.solved, count.bound_met);
        assert_true(count.solved > cases / 2);
        assert_int_equal(count.reached, count.solved);
    }
}

/// Orders of two chunks are too many with a split; without one, two ranks of two microbatches are
/// 280 lines each.
TEST(small_problems_of_two_chunks_are_solved_to_the_optimum)
{
    tally count = {0};
    for (int index = 0; index < 16; index++) {
        rng random = rng_init(20, (uint64_t)index);
        joint_case made;
        joint_case_init(&made, 5, 2, 2, &random);
        made.problem.layers.has_split = false;
        compare(&made, 2, true, &count);
    }
    print_message("two chunks: optimum reached in %d of %d, bound met by it in %d\n", count.reached,
                  count.solved, count.bound_met);
    assert_true(count.solved > 4);
    assert_int_equal(count.reached, count.solved);
}

/// What an order found without the rule of the first stage takes under it.
static int64_t makespan_under_the_rule(const bal_joint_answer *found, const bal_problem *whole)
{
    bal_joint_layers sums;
    bal_joint_board board;
    int64_t last = 0;
    assert_ok(bal_joint_layers_of(whole, memory, &sums, NULL));
    bal_joint_board_init(&sums, found->shape, memory, &board);
    bal_joint_board_set(&board, found->first_layer);
    const bal_timeline timeline = reference_play(&found->order, &board.costs);
    for (int op = 0; op < found->order.first_op[sums.rank_count]; op++) {
        if (timeline.end_ns[op] > last) last = timeline.end_ns[op];
    }
    return last;
}

/// The optimum among all orders under the rule is found, and sometimes it is below what the search
/// that does not know the rule finds.
TEST(a_whole_first_stage_is_searched_for_and_never_worse)
{
    tally count = {0};
    int better = 0;
    for (int index = 0; index < 60; index++) {
        rng random = rng_init(21, (uint64_t)index);
        joint_case made;
        joint_case_init(&made, 5, 2 + index % 2, 3, &random);
        arena_reset(memory);
        bal_joint_answer split;
        bal_joint_answer whole;
        const bal_joint_question question = {
            .problem = &made.problem, .chunk_count = 1, .play_budget = BUDGET, .seed = 1};
        const status found = bal_joint_search(&question, memory, &split, NULL);
        made.problem.layers.first_stage_whole = true;

        compare(&made, 1, false, &count);

        if (found == STATUS_OK) {
            assert_ok(bal_joint_search(&question, memory, &whole, NULL));
            const int64_t under = makespan_under_the_rule(&split, &made.problem);
            assert_true(whole.makespan_ns <= under);
            assert_true(whole.makespan_ns >= split.lower_bound_ns);
            better += whole.makespan_ns < under;
        }
    }
    print_message("a whole first stage: optimum reached in %d of %d, better than without the rule "
                  "in %d\n",
                  count.reached, count.solved, better);
    assert_int_equal(count.reached, count.solved);
    assert_true(count.solved > 30);
    assert_true(better > 0);
}

/// A problem large enough that a search does not end at the bound.
static void init_medium(joint_case *made, rng *random)
{
    joint_case_init(made, 14, 4, 8, random);
    made->problem.layers.has_split = true;
    made->problem.stage_memory_bytes = NULL;
}

TEST(the_makespan_never_rises_with_the_budget)
{
    for (int index = 0; index < 8; index++) {
        rng random = rng_init(31, (uint64_t)index);
        joint_case made;
        init_medium(&made, &random);
        int64_t before = INT64_MAX;
        int64_t bound = 0;
        for (int64_t budget = 1; budget < 20000; budget = 2 * budget + 1) {
            arena_reset(memory);
            bal_joint_answer answer;
            const bal_joint_question question = {
                .problem = &made.problem, .play_budget = budget, .seed = 3};
            assert_ok(bal_joint_search(&question, memory, &answer, NULL));
            assert_true(answer.makespan_ns <= before);
            assert_true(answer.play_count <= budget);
            if (bound != 0) assert_int_equal(answer.lower_bound_ns, bound);
            before = answer.makespan_ns;
            bound = answer.lower_bound_ns;
        }
        assert_true(before < INT64_MAX);
    }
}

/// Everything that an answer says of itself is so: order, makespan, memory, counts.
TEST(answers_are_what_they_say)
{
    int solved = 0;
    for (int index = 0; index < 200; index++) {
        rng random = rng_init(32, (uint64_t)index);
        const int ranks = 1 + (int)rng_below(&random, 4);
        const int layers = ranks + (int)rng_below(&random, 8);
        joint_case made;
        joint_case_init(&made, layers, ranks, 1 + (int)rng_below(&random, 6), &random);
        made.problem.layers.first_stage_whole = index % 2 == 1;
        arena_reset(memory);
        bal_joint_answer answer;
        const bal_joint_question question = {
            .problem = &made.problem, .play_budget = 600, .seed = (uint64_t)index};
        if (bal_joint_search(&question, memory, &answer, NULL) == STATUS_OK) {
            int64_t last = 0;
            solved++;
            assert_ok(bal_schedule_check(&answer.order, NULL));
            const bal_timeline timeline = reference_play(&answer.order, &answer.costs);
            for (int op = 0; op < answer.order.first_op[ranks]; op++) {
                if (timeline.end_ns[op] > last) last = timeline.end_ns[op];
            }
            assert_int_equal(answer.makespan_ns, last);
            assert_true(answer.lower_bound_ns <= last);
            assert_true(answer.partition_bound_ns <= last);
            assert_true(answer.partition_bound_ns >= answer.lower_bound_ns);
            for (int rank = 0; rank < ranks; rank++) {
                if (made.problem.stage_memory_bytes == NULL) break;
                assert_true(answer.peak_bytes[rank] <= made.problem.stage_memory_bytes[rank]);
            }
        }
    }
    assert_true(solved > 100);
}

typedef struct listened {
    int64_t last;
    int64_t stop_at;
} listened;

static bool go_on(void *context, int64_t play_count)
{
    listened *own = context;
    assert_true(play_count >= own->last);
    own->last = play_count;
    return play_count < own->stop_at;
}

TEST(a_listener_ends_the_search_and_leaves_the_answer_alone)
{
    rng random = rng_init(33, 0);
    joint_case made;
    init_medium(&made, &random);
    for (int64_t stop_at = 1; stop_at < 5000; stop_at = 5 * stop_at) {
        arena_reset(memory);
        bal_joint_answer answer = {.makespan_ns = -7};
        listened own = {.stop_at = stop_at};
        const bal_joint_listener listener = {.context = &own, .go_on = go_on};
        const bal_joint_question question = {
            .problem = &made.problem, .play_budget = 1000000, .seed = 3, .listener = &listener};

        assert_fails(bal_joint_search(&question, memory, &answer, &why), STATUS_BACKEND,
                     "interrupted");
        assert_int_equal(answer.makespan_ns, -7);
        assert_true(own.last >= stop_at && own.last < stop_at + 2000);
    }
}

TEST(what_cannot_be_asked_is_refused)
{
    static const int64_t ones[] = {1, 1, 1, 1};
    static const int64_t tens[] = {10, 10, 10, 10};
    static const int64_t caps[] = {45, 29};
    static const int64_t long_ns[] = {INT64_MAX / 16, 1, 1, 1};
    static const struct {
        int budget, chunks, microbatches;
        const int64_t *forward_ns, *inflight, *caps;
        bool has_empty;
        status code;
        const char *message;
    } cases[] = {
        {0, 0, 4, ones, NULL, NULL, false, STATUS_INVALID, "play_budget 0 is below 1"},
        {9, 3, 4, ones, NULL, NULL, false, STATUS_INVALID,
         "chunk_count 3: the joint search has 1 or 2"},
        {9, 0, 4, ones, ones, NULL, false, STATUS_INVALID,
         "stage_inflight: the joint search decides itself what is in flight"},
        {9, 0, 0, ones, NULL, NULL, false, STATUS_INVALID,
         "the joint search needs microbatch_count >= 1"},
        {9, 0, INT32_MAX, ones, NULL, NULL, false, STATUS_INVALID,
         "2 ranks of 2147483647 microbatches and 2 chunks are 25769803764 ops; the limit is "
         "268435456"},
        {9, 0, 4, ones, NULL, NULL, true, STATUS_INVALID,
         "the joint search gives every stage a layer: no empty stages"},
        {9, 0, 4, long_ns, NULL, NULL, false, STATUS_INVALID,
         "all ops and messages of 4 microbatches may together take longer than "
         "2305843009213693951 ns"},
        {9, 0, 4, ones, NULL, caps, false, STATUS_INFEASIBLE,
         "no partition fits within the memory of every rank: all layers and one microbatch need 80 "
         "bytes, all ranks together have 74; the least is that of rank 1, 29"},
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        const bal_problem problem = {.layers = {.layer_count = 4,
                                                .microbatch_count = 1,
                                                .has_split = true,
                                                .forward_ns = cases[index].forward_ns,
                                                .backward_input_ns = ones,
                                                .backward_weight_ns = ones,
                                                .state_bytes = tens,
                                                .activation_bytes = tens},
                                     .stage_count = 2,
                                     .allow_empty_stages = cases[index].has_empty,
                                     .stage_inflight = cases[index].inflight,
                                     .stage_memory_bytes = cases[index].caps,
                                     .microbatch_count = cases[index].microbatches};
        const bal_joint_question question = {.problem = &problem,
                                             .play_budget = cases[index].budget,
                                             .chunk_count = cases[index].chunks};
        bal_joint_answer answer = {.makespan_ns = -7};

        const status code = bal_joint_search(&question, memory, &answer, &why);

        assert_string_equal(why.message, cases[index].message);
        assert_int_equal(code, cases[index].code);
        assert_int_equal(answer.makespan_ns, -7);
    }
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
