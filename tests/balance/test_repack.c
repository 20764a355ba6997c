/// Re-packing: how many ranks, what becomes of the others, and what is refused.
#include "balance/repack/repack.h"
#include "base/rng.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <stdio.h>
#include <string.h>

TEST(options_outside_their_limits_are_named)
{
    static const struct {
        bal_repack_options options;
        int ranks;
        const char *message; // NULL: allowed
    } cases[] = {
        {{.rank_unit = 4, .rank_count_min = 8}, 24, NULL},
        {{.rank_unit = 4, .rank_count_min = 6},
         24,
         "rank_count_min 6 is no multiple of rank_unit 4"},
        {{.rank_unit = 4}, 22, "the machine's rank_count 22 is no multiple of rank_unit 4"},
        {{.rank_unit = 30}, 24, "rank_unit 30 is outside [1, 24]"},
        {{.target_rank_count = 25}, 24, "target_rank_count 25 is outside [0, 24]"},
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        const bal_machine machine = {.rank_count = cases[index].ranks, .ranks_per_node = 4};

        const status code = bal_repack_options_check(&cases[index].options, &machine, &why);

        assert_int_equal(code, cases[index].message == NULL ? STATUS_OK : STATUS_INVALID);
        if (code != STATUS_OK) assert_string_equal(why.message, cases[index].message);
    }
}

/// What Algorithm 4 as printed and as coded, and the rules for bins, make of ranks, each failure
/// with the very numbers at which it shows.
TEST(others_merge_whole_ranks_by_memory)
{
    enum { MOST = 8 };
    static const struct {
        bal_repack_kind kind;
        int ranks;
        int64_t cap;
        int target;
        int64_t before[MOST];
        int active;
        int64_t after[MOST];
    } cases[] = {
        // As printed the first rank goes to all others and still holds its layers; four are wanted.
        {BAL_REPACK_PUBLISHED,
         8,
         32,
         4,
         {10, 10, 10, 10, 10, 10, 10, 10},
         7,
         {10, 20, 20, 20, 20, 20, 20, 20}},
        {BAL_REPACK_PUBLISHED, 4, 10, 1, {2, 2, 2, 2}, 2, {2, 4, 8, 8}}, // copies are copied
        // As coded layers cascade to the last rank, and an exact fit is refused.
        {BAL_REPACK_CODED, 4, 10, 1, {2, 2, 2, 2}, 1, {0, 0, 0, 8}},
        {BAL_REPACK_CODED, 2, 10, 1, {5, 5}, 2, {5, 5}},
        {BAL_REPACK_CODED, 4, 10, 2, {4, 4, 9, 9}, 3, {0, 8, 9, 9}}, // the target is missed
        {BAL_REPACK_CODED,
         8,
         32,
         4,
         {12, 20, 9, 14, 8, 18, 7, 16},
         4,
         {0, 0, 0, 0, 28, 18, 28, 30}},
        // The classical rules take exact fits: the first, the fullest, or the next.
        {BAL_REPACK_FIRST_FIT, 2, 10, 1, {5, 5}, 1, {10, 0}},
        {BAL_REPACK_FIRST_FIT, 5, 10, 1, {5, 6, 3, 2, 4}, 2, {10, 10}},
        {BAL_REPACK_BEST_FIT, 5, 10, 1, {5, 6, 3, 2, 4}, 3, {7, 9, 0, 0, 4}},
        {BAL_REPACK_ROUND_ROBIN, 5, 10, 1, {5, 6, 3, 2, 4}, 3, {8, 8, 0, 0, 4}},
        {BAL_REPACK_ROUND_ROBIN, 5, 10, 4, {5, 6, 3, 2, 4}, 4, {8, 6, 0, 2, 4}},
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        int64_t bytes[MOST];
        bool is_active[MOST];
        int active = 0;
        memcpy(bytes, cases[index].before, sizeof bytes);

        const int count = bal_repack_merge(cases[index].kind, cases[index].ranks, cases[index].cap,
                                           cases[index].target, bytes, is_active);

        for (int rank = 0; rank < cases[index].ranks; rank++) {
            active += is_active[rank];
        }
        assert_int_equal(count, active);
        if (count != cases[index].active || memcmp(bytes, cases[index].after, sizeof bytes) != 0) {
            fail_msg("case %d: %d active, %ld %ld %ld %ld %ld %ld %ld %ld", (int)index, count,
                     (long)bytes[0], (long)bytes[1], (long)bytes[2], (long)bytes[3], (long)bytes[4],
                     (long)bytes[5], (long)bytes[6], (long)bytes[7]);
        }
    }
}

TEST(halving_stops_where_a_rank_would_hold_more_than_at_the_start)
{
    static const struct {
        int ranks;
        int64_t start;
        int kept;
    } cases[] = {
        {8, 64, 4},  // 232 bytes on 4 ranks are 58 and a bit
        {8, 116, 4}, // 40 + 12 * 16 does not split in two halves of 116
        {8, 232, 1},
        {7, 80, 3}, // halves are rounded down
    };
    int64_t bytes[32];
    for (int layer = 0; layer < 32; layer++) {
        bytes[layer] = layer < 20 ? 2 : 16; // 20 frozen: their weights alone are left
    }
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        int kept = 0;

        assert_ok(bal_repack_halving(bytes, 32, cases[index].ranks, cases[index].start, memory,
                                     &kept, NULL));

        assert_int_equal(kept, cases[index].kept);
    }
}

/// M times the largest load, and a message per cut: a player with a closed form.
static status play(void *context, const bal_layer_costs *layers, const bal_placed_partition *plan,
                   int microbatch_count, int64_t *iteration_ns, error_message *err)
{
    int64_t largest = 0;
    for (int stage = 0; stage < bal_placed_stage_count(plan); stage++) {
        int64_t load = 0;
        for (int layer = plan->first_layer[stage]; layer < plan->first_layer[stage + 1]; layer++) {
            load += layers->forward_ns[layer];
        }
        if (load > largest) largest = load;
    }
    *iteration_ns = largest * microbatch_count;
    return STATUS_OK;
}

static const bal_evaluator evaluator = {.iteration_ns = play};

enum { LAYERS = 48, RANKS = 31 };

/// One pipeline with all its arrays inside.
static struct {
    bal_problem problem;
    bal_machine machine;
    bal_placed_partition before;
    bal_repack_question question;
    int64_t layer_ns[LAYERS];
    int64_t state_bytes[LAYERS];
    int64_t activation_bytes[LAYERS];
    int cuts[RANKS + 1];
} at;

static bal_repack_choice choice;

static void fill_pipeline(int layers, int ranks, int before)
{
    memset(&at, 0, sizeof at);
    for (int layer = 0; layer < layers; layer++) {
        at.layer_ns[layer] = 1000;
        at.state_bytes[layer] = 100;
        at.activation_bytes[layer] = 10;
    }
    for (int place = 0; place <= before; place++) {
        at.cuts[place] = place * layers / before;
    }
    at.machine = (bal_machine){.rank_count = ranks, .ranks_per_node = 2};
    at.before =
        (bal_placed_partition){.first_layer = at.cuts, .rank_count = before, .chunk_count = 1};
    at.problem = (bal_problem){.layers = {.layer_count = layers,
                                          .microbatch_count = 1,
                                          .forward_ns = at.layer_ns,
                                          .state_bytes = at.state_bytes,
                                          .activation_bytes = at.activation_bytes},
                               .microbatch_count = 8,
                               .evaluator = &evaluator};
    at.question = (bal_repack_question){.problem = &at.problem,
                                        .machine = &at.machine,
                                        .schedule = "1f1b",
                                        .balancer = bal_balancer_find("partition"),
                                        .before = &at.before};
}

/// The time of a number of ranks by asking for exactly that; -1 where it has no plan.
static int64_t time_of(int ranks)
{
    bal_repack_question question = at.question;
    bal_machine machine = at.machine;
    bal_placed_partition before = {.first_layer = at.cuts, .rank_count = 1, .chunk_count = 1};
    int cuts[] = {0, at.problem.layers.layer_count};
    bal_repack_options options = {.kind = BAL_REPACK_THROUGHPUT, .rank_count_min = ranks};
    bal_repack_choice chosen;
    machine.rank_count = ranks;
    before.first_layer = cuts;
    question.machine = &machine;
    question.before = &before;
    if (bal_repack_choose(&question, &options, memory, &chosen, NULL) != STATUS_OK) return -1;
    return chosen.iteration_ns;
}

static void choose(const bal_repack_options *options)
{
    require(bal_repack_choose(&at.question, options, memory, &choice, &why));
}

TEST(it_equals_a_search_that_plays_every_number_of_ranks)
{
    int checked = 0;
    int packed = 0;
    for (uint64_t seed = 1; seed <= 600; seed++) {
        rng random = rng_init(seed, 1);
        const int ranks = (int)rng_between(&random, 1, 8);
        const int layers = (int)rng_between(&random, ranks, 12);
        fill_pipeline(layers, ranks, ranks);
        for (int layer = 0; layer < layers; layer++) {
            at.layer_ns[layer] = rng_between(&random, 0, 20);
            at.state_bytes[layer] = rng_between(&random, 1, 9);
        }
        if (rng_below(&random, 2) == 0)
            at.machine.rank_memory_bytes = rng_between(&random, 30, 300);
        bal_repack_options options = {.kind = rng_below(&random, 2) == 0 ? BAL_REPACK_THROUGHPUT
                                                                         : BAL_REPACK_GPU_TIME,
                                      .tolerance_ratio = (double)rng_between(&random, 0, 4) * 0.25};
        const bool by_gpu_time = options.kind == BAL_REPACK_GPU_TIME;
        int64_t reference = -1;
        for (int count = ranks; count >= 1 && reference < 0; count--) {
            reference = time_of(count);
        }
        int best = 0;
        int64_t best_ns = -1;
        for (int count = 1; count <= ranks && reference >= 0; count++) {
            const int64_t ns = time_of(count);
            if (ns < 0 || (double)ns > (double)reference * (1 + options.tolerance_ratio)) continue;
            if (best > 0 && (!by_gpu_time || count * ns >= best * best_ns)) continue;
            best = count;
            best_ns = ns;
        }

        const status chosen = bal_repack_choose(&at.question, &options, memory, &choice, NULL);

        arena_reset(memory);
        if (reference < 0) {
            assert_int_equal(chosen, STATUS_INFEASIBLE);
            continue;
        }
        if (chosen != STATUS_OK || choice.rank_count != best || choice.iteration_ns != best_ns) {
            fail_msg("seed %d: %d ranks, %d are best", (int)seed, choice.rank_count, best);
        }
        checked++;
        packed += best < ranks;
    }
    print_message("%d pipelines, %d of them packed\n", checked, packed);
    assert_true(checked > 400 && packed > 200);
}

TEST(plateaus_are_left_at_no_cost)
{
    bal_repack_options options = {.kind = BAL_REPACK_THROUGHPUT};
    fill_pipeline(32, 31, 31);

    choose(&options);

    assert_int_equal(choice.rank_count, 16); // 16 to 31 ranks all need two layers on some rank
    assert_int_equal(choice.iteration_ns, 16000);
    assert_int_equal(choice.reference_ns, 16000);
    assert_int_equal(choice.problem.stage_count, 16);
    assert_int_equal(choice.answer.first_layer[1], 2);
    options.tolerance_ratio = 0.5;
    choose(&options);
    assert_int_equal(choice.rank_count, 11); // 11 to 15 need three
    // Of 48 layers two ten times as heavy: 15 on two ranks, one alone, 15 on two, one alone, 16 on
    // two: nobody has more than one heavy layer's time.
    fill_pipeline(48, 16, 16);
    at.layer_ns[15] = at.layer_ns[31] = 10000;
    options.tolerance_ratio = 0;
    choose(&options);
    assert_int_equal(choice.rank_count, 8);
    assert_int_equal(choice.iteration_ns, choice.reference_ns);
}

TEST(fewer_ranks_need_memory_for_what_their_stages_hold)
{
    fill_pipeline(12, 6, 6);
    const bal_repack_options options = {.kind = BAL_REPACK_THROUGHPUT, .tolerance_ratio = 10};

    choose(&options);
    assert_int_equal(choice.rank_count, 1);
    // Under 1f1b rank r of P' holds P' - r microbatches: 400 bytes of state and 4 * 10 * 3 on the
    // first of three ranks, 6 * 100 and 6 * 10 * 2 on the first of two.
    at.machine.rank_memory_bytes = 520;
    choose(&options);
    assert_int_equal(choice.rank_count, 3);
    at.machine.rank_memory_bytes = 99;
    assert_fails(bal_repack_choose(&at.question, &options, memory, &choice, &why),
                 STATUS_INFEASIBLE,
                 "no number of ranks in [1, 1] has a plan within 99 bytes of memory per rank");
}

TEST(ranks_are_taken_back_only_beyond_the_hysteresis)
{
    fill_pipeline(12, 4, 3); // 3 ranks take 32000, 4 take 24000
    bal_repack_options options = {
        .kind = BAL_REPACK_THROUGHPUT, .tolerance_ratio = 0.2, .grow_ratio = 0.2};

    // A third more than all ranks take: beyond the tolerance, within what is borne.
    choose(&options);
    assert_int_equal(choice.rank_count, 3);
    options.grow_ratio = 0.1;
    choose(&options);
    assert_int_equal(choice.rank_count, 4);
}

TEST(whole_units_are_kept)
{
    fill_pipeline(12, 6, 6);
    bal_repack_options options = {
        .kind = BAL_REPACK_THROUGHPUT, .tolerance_ratio = 0.9, .rank_unit = 2};

    // 4 ranks take 1.5 times as long as 6; 2 take 3 times as long.
    choose(&options);
    assert_int_equal(choice.rank_count, 4);
}

/// As play, with a fill and a drain of the other stages.
static status play_with_bubble(void *context, const bal_layer_costs *layers,
                               const bal_placed_partition *plan, int microbatch_count,
                               int64_t *iteration_ns, error_message *err)
{
    return play(context, layers, plan, microbatch_count + plan->rank_count - 1, iteration_ns, err);
}

TEST(released_ranks_that_replicate_shorten_the_iteration)
{
    fill_pipeline(12, 8, 8);
    const bal_evaluator bubbly = {.iteration_ns = play_with_bubble};
    at.problem.evaluator = &bubbly;
    at.question.replica_count = 2;
    int64_t reduction_ns[12];
    for (int layer = 0; layer < 12; layer++) {
        reduction_ns[layer] = 16;
    }
    at.problem.layers.reduction_ns = reduction_ns;
    bal_repack_options options = {
        .kind = BAL_REPACK_THROUGHPUT, .tolerance_ratio = 0.1, .use = BAL_RELEASED_REPLICATE};

    // 16 ranks and 16 microbatches in all. 8 ranks: 2 layers, 15 steps. 6: 2 layers, 2
    // replicas, 13. 4: 3 layers, 4 replicas of 4, 7 steps. 3: 4 layers, 5 replicas, 4 at most, 6
    // steps. 2: 6 layers, 8 replicas of 2, 3 steps. 1: 12 layers, 16 replicas of 1.
    choose(&options);
    assert_int_equal(choice.reference_ns, 30000);
    assert_int_equal(choice.rank_count, 1);
    assert_int_equal(choice.iteration_ns, 12000);
    assert_int_equal(choice.problem.microbatch_count, 8);        // of the replicas that there were
    assert_int_equal(choice.problem.layers.reduction_ns[0], 30); // 2 * 15 / 16 against 2 * 1 / 2
    at.machine.rank_memory_bytes = 400; // three layers of 100 and 10 * inflight
    choose(&options);
    assert_int_equal(choice.rank_count, 6); // on 5 ranks 3 replicas take 10 steps of 3 layers
    assert_int_equal(choice.iteration_ns, 26000);
    at.before.rank_count = 7; // 2 layers, 14 steps: no more than a tenth longer
    memcpy(at.cuts, (const int[]){0, 2, 4, 6, 8, 10, 11, 12}, 8 * sizeof *at.cuts);
    choose(&options);
    assert_int_equal(choice.rank_count, 7);
    at.question.replica_count = 1; // by the tolerance: 13 steps of 2 layers against 15
    choose(&options);
    assert_int_equal(choice.rank_count, 6);
}

TEST(historical_kinds_choose_the_number_and_the_balancer_cuts)
{
    fill_pipeline(12, 6, 6);
    for (int layer = 0; layer < LAYERS; layer++) {
        at.activation_bytes[layer] = 0;
    }
    at.machine.rank_memory_bytes = 650;
    at.question.start_load_ns = 24000;
    at.question.start_rank_state_bytes = 400;
    bal_repack_options options = {
        .kind = BAL_REPACK_CODED, .target_rank_count = 2, .load_threshold_ratio = 0.6};

    // 12000 ns are below 0.6 of 24000. Six times 200 bytes: 600 and 600 are below 650.
    choose(&options);
    assert_int_equal(choice.rank_count, 2);
    assert_int_equal(choice.answer.first_layer[1], 6);
    options.kind = BAL_REPACK_PUBLISHED; // releases one rank, to five others
    choose(&options);
    assert_int_equal(choice.rank_count, 5);
    options.kind = BAL_REPACK_HALVING; // 400 bytes on each of 3
    choose(&options);
    assert_int_equal(choice.rank_count, 3);
    options.kind = BAL_REPACK_FIRST_FIT;
    options.load_threshold_ratio = 0.5; // not below it
    choose(&options);
    assert_int_equal(choice.rank_count, 6);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
