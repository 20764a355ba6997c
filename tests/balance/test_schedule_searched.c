/// The searched orders of one chunk and of two in V, on seeded random costs and limits, every chunk
/// with its own: they can be played, stay within every rank's memory, are no worse than the fixed
/// orders where those fit, and never beat their bound. Small cases are held to every order there
/// is. The bubble rates of the zero-bubble papers are met to the printed digits.
#include "balance/metrics.h"
#include "balance/schedule/order_search.h"
#include "sim/pipeline.h"
#include "tests/balance/searched_orders.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <stdio.h>
#include <string.h>

/// A family, and how it is tried.
typedef struct searched_family {
    const char *name;
    int chunk_count;
    int instance_count;
    int microbatches_max;
    int64_t spare_max;      // memory of a rank over the least, per rank
    const char *fixed[2];   // orders that are never better
    bool has_one_fixed;     // the second is compared where the first does not fit
    int compared_least[2];  // how often each is to be compared
    int small_count;        // instances that are searched exhaustively
    int64_t small_limit[2]; // of their memory, least and most
    int64_t small_worst;    // in percent of the optimum
    int small_optimal;      // at least so many are found
} searched_family;

static const searched_family families[] = {
    {"zb-auto", 1, 1500, 24, 8, {"zb-h1", "zb-h2"}, false, {100, 100}, 120, {2, 8}, 110, 119},
    {"zb-v", 2, 800, 20, 12, {"zb-v-hand", "v-half"}, true, {100, 20}, 60, {4, 12}, 115, 54},
};
enum { FAMILY_COUNT = sizeof families / sizeof families[0] };

/// What a rank holds at most while one microbatch runs on it alone: every F, then B and W of each
/// chunk, from the last.
static int64_t least_memory(const bal_stage_costs *costs, int ranks, int rank)
{
    const int stages[] = {rank, 2 * ranks - 1 - rank};
    int64_t held = 0;
    int64_t most = 0;
    for (int chunk = 0; chunk < costs->stage_count / ranks; chunk++) {
        held += costs->memory_forward[stages[chunk]];
        if (held > most) most = held;
    }
    for (int chunk = costs->stage_count / ranks - 1; chunk >= 0; chunk--) {
        held += costs->memory_backward_input[stages[chunk]];
        if (held > most) most = held;
        held += costs->memory_backward_weight[stages[chunk]];
    }
    return most;
}

/// Compares with the fixed orders that fit the limits. Not where costs vary by microbatch, since
/// the search plans with the mean.
static void assert_beats_fixed(const searched_family *family, const bal_schedule *found,
                               int64_t span_ns, const bal_stage_costs *costs, const int64_t *limit,
                               int compared[2])
{
    for (int index = 0; index < 2 && costs->microbatch_count == 1; index++) {
        const bal_schedule order = reference_build(family->fixed[index], found->rank_count,
                                                   found->microbatch_count, family->chunk_count);
        if (!fits(&order, costs, limit)) continue;
        const bal_timeline played = reference_play(&order, costs);
        assert_true(span_ns <= bal_metrics_of(&played).span_ns);
        compared[index]++;
        if (family->has_one_fixed) return;
    }
}

static void search_randomly(const searched_family *family)
{
    const uint64_t seed = 20240123;
    rng generator = rng_init(seed, 0);
    int compared[2] = {0};
    for (int instance = 0; instance < family->instance_count; instance++) {
        const int ranks = (int)rng_between(&generator, 1, 9);
        const int microbatches = (int)rng_between(&generator, 1, family->microbatches_max);
        const int columns = rng_below(&generator, 3) == 0 ? microbatches : 1;
        const bal_stage_costs costs =
            random_costs(&generator, family->chunk_count * ranks, columns);
        int64_t *limit = arena_array(memory, (size_t)ranks, sizeof *limit);
        for (int rank = 0; rank < ranks; rank++) {
            limit[rank] = least_memory(&costs, ranks, rank) +
                          rng_between(&generator, 0, family->spare_max * ranks);
        }
        bal_schedule schedule;

        const status result =
            search(family->name, ranks, microbatches, &costs, limit, &schedule, &why);

        if (result != STATUS_OK || bal_schedule_check(&schedule, &why) != STATUS_OK) {
            fail_msg("%s, seed %d instance %d: %s", family->name, (int)seed, instance, why.message);
        }
        assert_true(fits(&schedule, &costs, limit));
        const bal_timeline timeline = reference_play(&schedule, &costs);
        const bal_metrics metrics = bal_metrics_of(&timeline);
        assert_true(metrics.makespan_ns >= metrics.span_ns);
        assert_true(metrics.span_ns >= metrics.work_max_ns);
        if (columns == 1) { // else the search knows means alone
            const bal_schedule_request request = {
                .rank_count = ranks, .microbatch_count = microbatches, .costs = &costs};
            bal_order_search find;
            assert_ok(
                bal_order_search_begin(&request, family->chunk_count, 0, memory, &find, NULL));
            assert_true(metrics.span_ns >= find.least_span_ns);
        }
        assert_beats_fixed(family, &schedule, metrics.span_ns, &costs, limit, compared);
        arena_reset(memory);
    }
    assert_true(compared[0] >= family->compared_least[0]);
    assert_true(compared[1] >= family->compared_least[1]);
}

TEST(random_searches_stay_within_memory_and_beat_the_fixed_orders)
{
    for (int family = 0; family < FAMILY_COUNT; family++) {
        search_randomly(&families[family]);
    }
}

/// The search tries some orders of thousands and improves the best: it may miss the optimum, but
/// hardly ever, and never by much.
TEST(small_searches_nearly_always_find_the_optimum)
{
    for (const searched_family *of = families; of < families + FAMILY_COUNT; of++) {
        rng generator = rng_init(3, 0);
        int optimal = 0;
        for (int instance = 0; instance < of->small_count; instance++) {
            const bool is_one = of->chunk_count == 1;
            const int ranks = is_one ? (int)rng_between(&generator, 2, SMALL_RANKS) : 2;
            const int microbatches =
                is_one ? (int)rng_between(&generator, 2, ranks == 2 ? 4 : 3) : 2;
            const int stages = of->chunk_count * ranks;
            bal_stage_costs costs = reference_uniform_costs(
                stages, rng_between(&generator, 1, 12), rng_between(&generator, 1, 12),
                rng_between(&generator, 1, 12), rng_between(&generator, 0, 3),
                (int64_t[]){2, -1, -1});
            if (instance % 2 == 0) costs.forward_ns = random_row(&generator, stages, 1, 12);
            const int64_t *limit =
                random_row(&generator, ranks, of->small_limit[0], of->small_limit[1]);
            bal_schedule schedule;
            assert_ok(search(of->name, ranks, microbatches, &costs, limit, &schedule, NULL));
            const bal_timeline timeline = reference_play(&schedule, &costs);
            const int64_t found = bal_metrics_of(&timeline).span_ns;

            const int64_t smallest = smallest_span(ranks, microbatches, &costs, limit, found + 1);

            assert_true(smallest <= found); // the found order is one of all
            assert_true(found * 100 <= smallest * of->small_worst);
            optimal += found == smallest;
            arena_reset(memory);
        }
        assert_true(optimal >= of->small_optimal);
    }
}

TEST(a_limit_below_one_microbatch_is_infeasible_by_name)
{
    static const char *const messages[FAMILY_COUNT] = {
        "rank 1 needs memory 6 for one microbatch; its limit is 5",
        "rank 1 needs memory 10 for one microbatch; its limit is 9"};
    for (int family = 0; family < FAMILY_COUNT; family++) {
        const int chunks = families[family].chunk_count;
        const bal_stage_costs costs =
            reference_uniform_costs(3 * chunks, 1, 1, 1, 0, (int64_t[]){4, 2, -6});
        int64_t limit[] = {2 + 4 * chunks, 1 + 4 * chunks, 2 + 4 * chunks};
        bal_schedule schedule = {.rank_count = -7};

        assert_fails(search(families[family].name, 3, 4, &costs, limit, &schedule, &why),
                     STATUS_INFEASIBLE, messages[family]);
        assert_int_equal(schedule.rank_count, -7);
        limit[1]++;
        assert_ok(search(families[family].name, 3, 4, &costs, limit, &schedule, &why));
        assert_true(fits(&schedule, &costs, limit));
    }
}

TEST(costs_that_do_not_fit_are_refused_by_name)
{
    bal_schedule schedule;
    assert_fails(search("zb-auto", 2, 4, NULL, NULL, &schedule, &why), STATUS_INVALID,
                 "schedule zb-auto is searched and needs costs");

    bal_stage_costs costs = reference_uniform_costs(3, 1, 1, 1, 0, (int64_t[]){1, 0, -1});
    assert_fails(search("zb-auto", 2, 4, &costs, NULL, &schedule, &why), STATUS_INVALID,
                 "costs of 3 stages for 2 ranks of 1 chunks");
    costs.microbatch_count = 3;
    assert_fails(search("zb-auto", 3, 4, &costs, NULL, &schedule, &why), STATUS_INVALID,
                 "costs of 3 microbatches for microbatch_count 4");

    costs = reference_uniform_costs(2, 1, -5, 1, 0, (int64_t[]){1, 0, -1});
    assert_fails(search("zb-auto", 2, 4, &costs, NULL, &schedule, &why), STATUS_INVALID,
                 "backward_input_ns of stage 0: -5 ns is negative or makes the sum over the "
                 "microbatches longer than 2305843009213693951 ns");
    costs = reference_uniform_costs(2, INT64_MAX / 4, 1, 1, 0, (int64_t[]){1, 0, -1});
    assert_fails(search("zb-auto", 2, 4, &costs, NULL, &schedule, &why), STATUS_INVALID,
                 "stage 0: its times are negative or sum to more than "
                 "288230376151711743 ns for one microbatch");

    const int64_t limit[] = {9, 9};
    costs = reference_uniform_costs(2, 1, 1, 1, 0, (int64_t[]){1, 0, 0});
    assert_fails(search("zb-auto", 2, 4, &costs, limit, &schedule, &why), STATUS_INVALID,
                 "memory of stage 0 changes by 1, 0, 0 at F, B, W: F must take, "
                 "W must give, and the sum be 0");
}

TEST(without_a_limit_no_rank_holds_more_chunks_than_1f1b_holds_memory)
{
    enum { RANKS = 4 };
    const bal_stage_costs costs =
        reference_uniform_costs(2 * RANKS, 10, 11, 9, 1, (int64_t[]){1, 0, -1});
    bal_schedule schedule;
    int64_t peak[RANKS];

    assert_ok(search("zb-v", RANKS, 24, &costs, NULL, &schedule, NULL));

    bal_memory_peak(&schedule, &costs, peak);
    for (int rank = 0; rank < RANKS; rank++) {
        assert_true(peak[rank] <= 2 * RANKS);
    }
}

TEST(activations_near_the_largest_are_counted_without_overflow)
{
    enum { RANKS = 20, MICROBATCHES = 2 };
    const int64_t activation = INT64_C(1) << 58;
    const bal_stage_costs costs =
        reference_uniform_costs(2 * RANKS, 10, 10, 10, 1, (int64_t[]){activation, 0, -activation});
    int64_t limit[RANKS];
    for (int rank = 0; rank < RANKS; rank++) {
        limit[rank] = 3 * activation;
    }
    bal_schedule schedule;

    assert_ok(search("zb-v", RANKS, MICROBATCHES, &costs, limit, &schedule, NULL));

    assert_ok(bal_schedule_check(&schedule, NULL));
    assert_true(fits(&schedule, &costs, limit));
}

/// A row of Qi et al., ICLR 2024, tables 5 and 6: sequences of 1024, times in us.
typedef struct published_row {
    int ranks;
    int microbatches;
    int hidden;
    int heads;
    int chunks; // of interleaved 1F1B
    int64_t forward_us;
    int64_t input_us;
    int64_t weight_us;
    int64_t send_us;
    int one_f_one_b; // bubble rates in 1/10000
    int interleaved; // with all dependencies: the printed value leaves some out
    int h1;
    int h2;
    int zb_1p;
    int zb_2p;
} published_row;

static const published_row published[] = {
    {8, 24, 2304, 24, 3, 18522, 18086, 9337, 601, 2431, 1090, 1585, 1083, 1585, 433},
    {8, 32, 2304, 24, 3, 18513, 18086, 9331, 626, 1985, 847, 1242, 837, 1242, 39},
    {8, 64, 2304, 24, 3, 18546, 18097, 9321, 762, 1240, 461, 674, 444, 674, 26},
    {8, 24, 4096, 32, 4, 29718, 29444, 19927, 527, 2347, 827, 1323, 698, 1323, 29},
    {8, 32, 4096, 32, 4, 29802, 29428, 19530, 577, 1898, 644, 1045, 559, 1045, 22},
    {8, 64, 4096, 32, 4, 29935, 29621, 19388, 535, 1091, 328, 554, 294, 554, 10},
    {16, 48, 5120, 40, 3, 11347, 11248, 8132, 377, 2552, 1136, 1397, 672, 1397, 66},
    {16, 64, 5120, 40, 3, 11307, 11254, 8101, 379, 2082, 878, 1088, 516, 1088, 54},
    {16, 128, 5120, 40, 3, 11325, 11308, 8109, 378, 1251, 459, 576, 266, 576, 28},
    {32, 96, 6144, 48, 2, 10419, 10207, 7715, 408, 2646, 1528, 1421, 641, 1421, 38},
    {32, 128, 6144, 48, 2, 10408, 10204, 7703, 408, 2168, 1192, 1106, 490, 1106, 29},
    {32, 256, 6144, 48, 2, 10402, 10248, 7698, 460, 1352, 641, 594, 257, 594, 18},
};

/// Costs of a stage in the given number of chunks, all times multiplied by it. Activations of a
/// transformer layer are 34 h + 5 a s bytes per token from F on, 32 h of them from B on (table 1).
static bal_stage_costs published_costs(const published_row *row, int chunks)
{
    const int64_t held = 34L * row->hidden + 5L * row->heads * 1024;
    const int64_t kept = 32L * row->hidden;
    return reference_uniform_costs(row->ranks * chunks, row->forward_us, row->input_us,
                                   row->weight_us, row->send_us * chunks,
                                   (int64_t[]){held, kept - held, -kept});
}

/// With the static engine: the plainest player takes too long for 32 ranks of 256 microbatches.
static bal_metrics play_fast(const bal_schedule *schedule, const bal_stage_costs *costs)
{
    sim_order order;
    bal_timeline timeline;
    assert_ok(sim_order_compile(schedule, memory, &order, NULL));
    sim_timeline_init(schedule, memory, &timeline);
    sim_order_play(&order, costs, NULL, &timeline);
    return bal_metrics_of(&timeline);
}

/// 1 - work / length in 1/10000, rounded as printed.
static int rate_of(int64_t work_us, int64_t length_us)
{
    return (int)lround(1e4 * (double)(length_us - work_us) / (double)length_us);
}

static bal_metrics play_named(const char *name, const published_row *row, int chunks)
{
    const bal_schedule schedule = reference_build(name, row->ranks, row->microbatches, chunks);
    const bal_stage_costs costs = published_costs(row, chunks);
    return play_fast(&schedule, &costs);
}

static int searched_rate(const published_row *row, int memory_factor)
{
    const bal_stage_costs costs = published_costs(row, 1);
    const int64_t limit = costs.memory_forward[0] * memory_factor * row->ranks;
    bal_schedule schedule;
    assert_ok(search("zb-auto", row->ranks, row->microbatches, &costs,
                     reference_row(&limit, row->ranks, true), &schedule, NULL));
    const bal_metrics metrics = play_fast(&schedule, &costs);
    return rate_of(metrics.work_max_ns, metrics.span_ns);
}

/// The tables print makespans for 1F1B, its interleaving and H1, spans for the others.
TEST(published_bubble_rates_are_met)
{
    for (size_t index = 0; index < sizeof published / sizeof published[0]; index++) {
        const published_row *row = &published[index];
        bal_metrics metrics = play_named("1f1b", row, 1);
        assert_int_equal(rate_of(metrics.work_max_ns, metrics.makespan_ns), row->one_f_one_b);
        metrics = play_named("interleaved-1f1b", row, row->chunks);
        assert_int_equal(rate_of(metrics.work_max_ns, metrics.makespan_ns), row->interleaved);
        metrics = play_named("zb-h1", row, 1);
        assert_int_equal(rate_of(metrics.work_max_ns, metrics.makespan_ns), row->h1);
        metrics = play_named("zb-h2", row, 1);
        assert_int_equal(rate_of(metrics.work_max_ns, metrics.span_ns), row->h2);
        assert_true(searched_rate(row, 1) <= row->zb_1p);
        assert_true(searched_rate(row, 2) <= row->zb_2p);
        arena_reset(memory);
    }
}

/// Qi et al., Zero bubble pipeline parallelism, arXiv 2401.10241, table 8: times of a chunk in us,
/// bubble rate of ZB-V in 1/10000 of its span.
static const struct {
    int ranks;
    int microbatches;
    int64_t forward_us;
    int64_t input_us;
    int64_t weight_us;
    int64_t send_us;
    int rate;
} published_v[] = {
    {16, 48, 14407, 14380, 9676, 1610, 697},  {16, 64, 14412, 14393, 9688, 1621, 533},
    {16, 128, 14316, 14306, 9639, 1619, 274}, {24, 72, 6763, 6969, 5251, 755, 638},
    {24, 96, 6783, 6984, 5259, 758, 483},     {24, 192, 6785, 6990, 5260, 770, 250},
    {32, 96, 9458, 9748, 7288, 879, 593},     {32, 128, 9469, 9744, 7306, 892, 451},
    {32, 256, 9447, 9644, 7193, 887, 236},
};

TEST(published_bubble_rates_of_zb_v_are_met_or_beaten)
{
    for (size_t row = 0; row < sizeof published_v / sizeof published_v[0]; row++) {
        const int ranks = published_v[row].ranks;
        const bal_stage_costs costs = reference_uniform_costs(
            2 * ranks, published_v[row].forward_us, published_v[row].input_us,
            published_v[row].weight_us, published_v[row].send_us, (int64_t[]){1, 0, -1});
        const int64_t limit = 2 * ranks;
        bal_schedule schedule;

        assert_ok(search("zb-v", ranks, published_v[row].microbatches, &costs,
                         reference_row(&limit, ranks, true), &schedule, NULL));

        const bal_metrics metrics = play_fast(&schedule, &costs);
        const int rate = rate_of(metrics.work_max_ns, metrics.span_ns);
        // The same schedule, not a fluke.
        assert_in_range(rate, published_v[row].rate - 20, published_v[row].rate);
        arena_reset(memory);
    }
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
