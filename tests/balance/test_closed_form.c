/// Closed forms against the plainest player over grids of ranks, microbatches, times and
/// latencies: where a form holds it is exact; where it does not it says why. Every condition is
/// shown to be needed. Also the DynMo paper's Equation 1 against its published values.
#include "balance/metrics.h"
#include "balance/schedule/closed_form.h"
#include "base/rng.h"
#include "tests/balance/reference_player.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <stdio.h>
#include <string.h>

enum { FAMILY_COUNT = 8 };
static const char *const families[FAMILY_COUNT] = {"gpipe",     "1f1b",      "interleaved-1f1b",
                                                   "zb-h1",     "zb-h2",     "interleaved-zb",
                                                   "zb-v-hand", "dualpipe-v"};

/// Stages of a family: where it has two chunks, F, B and W are often alike, as its forms ask.
static bal_equal_stages random_stages(rng *generator, const char *name)
{
    const bal_schedule_family *family = bal_schedule_family_find(name);
    const int chunks =
        family->chunk_count > 0
            ? family->chunk_count
            : (int)rng_between(generator, family->chunk_count_min, family->chunk_count_min + 2);
    const int ranks = (int)rng_between(generator, 1, 6);
    const int least = chunks > 1 && family->placement == BAL_PLACEMENT_LOOP
                          ? ranks * (int)rng_between(generator, 1, 4)
                          : (int)rng_between(generator, 1, 18);
    const int64_t forward_ns = chunks * rng_between(generator, 0, 9);
    const bool is_alike = chunks > 1 && rng_below(generator, 3) > 0;
    const bool has_short_weight = rng_below(generator, 2) == 0;
    return (bal_equal_stages){
        .rank_count = ranks,
        .microbatch_count = bal_schedule_microbatch_count(family, ranks, least),
        .chunk_count = chunks,
        .forward_ns = forward_ns,
        .backward_input_ns = is_alike ? forward_ns : chunks * rng_between(generator, 0, 9),
        .backward_weight_ns =
            is_alike && !has_short_weight ? forward_ns : chunks * rng_between(generator, 0, 9),
        .send_ns = rng_below(generator, 2) == 0 ? 0 : rng_between(generator, 1, 6),
    };
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/// What a rank holds of a building block, once there are as many microbatches as it can hold; -1
/// while there are not.
static int64_t block_memory(const char *schedule, const bal_equal_stages *stages, int rank)
{
    const int64_t ranks = stages->rank_count;
    int64_t most = 2 * (2 * ranks / 3 + 1); // 1f1b-v
    if (strcmp(schedule, "v-half") == 0) most = 2 * ((ranks + 2) / 2);
    if (strcmp(schedule, "v-min") == 0) most = 2 * ((ranks + 4) / 3);
    if (stages->microbatch_count + 1 < most) return -1;
    const bool is_early = strcmp(schedule, "v-min") == 0 && rank == 0 && ranks % 3 == 2;
    return is_early ? most - 1 : most;
}

/// Peak of the activations that a rank holds, in those of one chunk, as
/// balance/schedule/SCHEDULES.md has it; -1 where no formula is known.
static int64_t closed_memory(const char *schedule, const bal_equal_stages *stages, int rank)
{
    const int64_t ranks = stages->rank_count;
    const int64_t all = (int64_t)stages->microbatch_count * stages->chunk_count;
    if (strcmp(schedule, "chimera") == 0) {
        const int64_t unit = smaller(stages->microbatch_count, ranks);
        return smaller(unit, unit / 2 + 1 + smaller(rank, ranks - 1 - rank));
    }
    if (strcmp(schedule, "gpipe") == 0) return all;
    if (strcmp(schedule, "1f1b") == 0) return smaller(all, ranks - rank);
    if (strcmp(schedule, "interleaved-1f1b") == 0) {
        return smaller(all, 2 * (ranks - 1 - rank) + (stages->chunk_count - 1) * ranks + 1);
    }
    if (strcmp(schedule, "zb-h1") == 0) return smaller(all, ranks);
    if (strcmp(schedule, "zb-h2") == 0) return smaller(all, 2 * ranks - 1);
    if (strcmp(schedule, "interleaved-zb") == 0) {
        const int64_t rounds = stages->microbatch_count / ranks;
        const int64_t round = stages->microbatch_count / (rounds > 1 ? rounds : 1);
        return smaller(all, (stages->chunk_count - 1) * round + ranks);
    }
    const bool is_long = stages->microbatch_count >= 2 * ranks - 1;
    if (strcmp(schedule, "zb-v-hand") == 0) return is_long ? smaller(all, 2 * ranks) : -1;
    if (strcmp(schedule, "dualpipe-v") == 0) return smaller(all, 2 * ranks + 1);
    return block_memory(schedule, stages, rank);
}

static bal_metrics play(const char *name, const bal_equal_stages *stages)
{
    const int chunks = stages->chunk_count;
    const bal_schedule schedule =
        reference_build(name, stages->rank_count, stages->microbatch_count, chunks);
    // Copies of stages are whole.
    const int divisor = schedule.placement == BAL_PLACEMENT_BIDIRECTIONAL ? 1 : chunks;
    const bal_stage_costs costs = reference_uniform_costs(
        stages->rank_count * chunks, stages->forward_ns / divisor,
        stages->backward_input_ns / divisor, stages->backward_weight_ns / divisor, stages->send_ns,
        (int64_t[]){1, 0, -1});
    const bal_timeline timeline = reference_play(&schedule, &costs);
    int64_t *peak = arena_array(memory, (size_t)stages->rank_count, sizeof *peak);
    bal_memory_peak(&schedule, &costs, peak);
    for (int rank = 0; rank < stages->rank_count; rank++) {
        const int64_t form = closed_memory(name, stages, rank);
        // The blocks of V-placed chunks have none while a rank could hold every microbatch.
        const bool may_be_unknown = schedule.placement == BAL_PLACEMENT_V &&
                                    stages->microbatch_count < 2 * stages->rank_count;
        if (form >= 0 || !may_be_unknown) assert_int_equal(form, peak[rank]);
    }
    return bal_metrics_of(&timeline);
}

static void assert_closed(bal_closed_ns form, int64_t played_ns, const char *name, int instance)
{
    if (form.because == NULL) {
        if (form.ns != played_ns) {
            fail_msg("%s, instance %d: %lld by formula, %lld played", name, instance,
                     (long long)form.ns, (long long)played_ns);
        }
    } else {
        assert_int_equal(form.ns, -1);
    }
}

TEST(a_form_that_holds_is_exact)
{
    rng generator = rng_init(20240507, 0);
    int held[FAMILY_COUNT] = {0};
    for (int instance = 0; instance < 9600; instance++) {
        const int family = instance % FAMILY_COUNT;
        const char *name = families[family];
        const bal_equal_stages stages = random_stages(&generator, name);

        const bal_metrics metrics = play(name, &stages);

        const bal_closed_form form = bal_closed_form_of(name, &stages);
        assert_closed(form.makespan, metrics.makespan_ns, name, instance);
        assert_closed(form.span, metrics.span_ns, name, instance);
        held[family] += form.span.because == NULL;
        arena_reset(memory);
    }
    assert_int_equal(held[0], 1200); // always
    assert_int_equal(held[1], 1200);
    assert_true(held[2] > 600 && held[3] > 300 && held[4] > 300);
    assert_true(held[5] > 300 && held[6] > 150 && held[7] > 150);
}

/// One step outside each condition the formula would be wrong: ns is what it would give there.
TEST(every_condition_is_needed)
{
    const struct {
        const char *schedule;
        bal_equal_stages stages;
        const char *because;
        int64_t formula_span_ns;
    } cases[] = {
        {"interleaved-1f1b",
         {2, 4, 2, 2, 2, 2, 2},
         "a message takes longer than F or BW of a chunk",
         4 * 6 + 3 + 2 * 3 * 2},
        {"zb-h1", {3, 2, 1, 1, 8, 6, 0}, "there are fewer microbatches than ranks", 2 * 15 + 2 * 8},
        {"zb-h1",
         {3, 3, 1, 12, 7, 7, 2},
         "messages take time and there are fewer than 2P-1 microbatches",
         3 * 26 + 2 * 12 + 8 * 2},
        {"zb-h1",
         {2, 4, 1, 10, 10, 20, 1},
         "messages take time and W is longer than F or B",
         4 * 40 + 10 + 4},
        {"zb-h1", {2, 6, 1, 10, 10, 10, 6}, "two messages take longer than W", 6 * 30 + 10 + 4 * 6},
        {"zb-h2", {2, 2, 1, 3, 2, 1, 0}, "there are fewer than 2P-1 microbatches", 2 * 6 + 3},
        {"zb-h2", {2, 18, 1, 0, 3, 2, 4}, "two messages take longer than W", 18 * 5 + 11},
        {"interleaved-zb", {2, 4, 2, 2, 2, 2, 1}, "messages take time", 4 * 6 + 1},
        {"interleaved-zb", {2, 1, 1, 1, 1, 1, 0}, "there are fewer microbatches than ranks", 3 + 1},
        {"zb-v-hand", {2, 4, 2, 2, 2, 2, 1}, "messages take time", 4 * 6},
        {"zb-v-hand", {3, 3, 2, 2, 2, 2, 0}, "there are fewer than 2P-1 microbatches", 3 * 6},
        {"zb-v-hand", {2, 4, 2, 2, 4, 2, 0}, "F and B differ, or W is longer", 4 * 8},
        {"dualpipe-v", {2, 4, 2, 2, 4, 2, 0}, "F, B and W differ", 4 * 8 + 2},
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        const bal_closed_form form =
            bal_closed_form_of(cases[index].schedule, &cases[index].stages);
        assert_non_null(form.span.because);
        assert_string_equal(form.span.because, cases[index].because);
        const bal_metrics metrics = play(cases[index].schedule, &cases[index].stages);
        if (metrics.span_ns == cases[index].formula_span_ns) {
            fail_msg("case %d: the condition is not needed", (int)index);
        }
    }
}

/// Blocks of V-placed chunks, each op in one unit: from the first number of microbatches for which
/// a form holds on, it is exact.
TEST(a_form_of_a_v_block_is_exact_up_to_32_ranks)
{
    static const char *const blocks[] = {"v-half", "v-min", "1f1b-v"};
    int held = 0;
    int refused = 0;
    for (int instance = 0; instance < 3 * 32 * 4; instance++) {
        const int ranks = 1 + instance / 3 % 32;
        const char *name = blocks[instance % 3];
        const int first = ranks + (ranks > 1 ? 2 - instance % 3 : 0);
        const int microbatches = first + (int[]){-1, 0, 1, ranks}[instance / 96];
        const bal_equal_stages stages = {ranks, microbatches > 0 ? microbatches : 1, 2, 6, 6, 6, 0};

        const bal_metrics metrics = play(name, &stages);

        const bal_closed_form form = bal_closed_form_of(name, &stages);
        assert_closed(form.makespan, metrics.makespan_ns, name, instance);
        assert_closed(form.span, metrics.span_ns, name, instance);
        const bool is_known = instance % 3 < 2 || ranks % 3 != 0;
        assert_int_equal(form.span.because == NULL,
                         ranks == 1 || (microbatches >= first && is_known));
        held += form.span.because == NULL;
        refused += form.span.because != NULL;
        arena_reset(memory);
    }
    assert_true(held > 200 && refused > 90);
}

TEST(a_form_of_a_v_block_names_what_it_needs)
{
    const struct {
        const char *schedule;
        bal_equal_stages stages;
        const char *because;
    } cases[] = {
        {"v-half", {4, 5, 2, 2, 2, 2, 0}, "there are fewer than P+2 microbatches"},
        {"v-min", {3, 3, 2, 2, 2, 2, 0}, "there are fewer than P+1 microbatches"},
        {"1f1b-v", {4, 3, 2, 2, 2, 2, 0}, "there are fewer microbatches than ranks"},
        {"1f1b-v", {6, 8, 2, 2, 2, 2, 0}, "no formula is known where 3 divides the ranks"},
        {"v-half", {4, 8, 2, 2, 4, 2, 0}, "F, B and W take different times"},
        {"v-min", {4, 8, 2, 2, 2, 4, 0}, "F, B and W take different times"},
        {"v-min", {4, 8, 2, 3, 3, 3, 0}, "the times of a chunk are no integers"},
        {"1f1b-v", {4, 8, 2, 2, 2, 2, 1}, "messages take time"},
        {"chimera", {4, 4, 2, 2, 2, 2, 1}, "messages take time"},
        {"chimera",
         {4, 6, 2, 2, 2, 2, 0},
         "there are more microbatches than ranks and no multiple of them"},
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        const bal_closed_form form =
            bal_closed_form_of(cases[index].schedule, &cases[index].stages);
        assert_non_null(form.span.because);
        assert_string_equal(form.span.because, cases[index].because);
        assert_int_equal(form.makespan.ns, -1);
    }
}

TEST(chimera_has_its_length_and_memory_for_up_to_24_ranks)
{
    int held = 0;
    for (int ranks = 2; ranks <= 24; ranks += 2) {
        for (int microbatches = 2; microbatches <= 3 * ranks; microbatches += ranks > 8 ? 4 : 2) {
            for (int times = 0; times < 6; times++) {
                const bal_equal_stages stages = {ranks, microbatches,           2, 1 + times % 3,
                                                 1,     times % 2 == 0 ? 0 : 3, 0};

                const bal_metrics metrics = play("chimera", &stages);

                const bal_closed_form form = bal_closed_form_of("chimera", &stages);
                assert_closed(form.makespan, metrics.makespan_ns, "chimera", ranks);
                assert_closed(form.span, metrics.span_ns, "chimera", ranks);
                const bool has_form = microbatches <= ranks || microbatches % ranks == 0;
                assert_int_equal(form.span.because == NULL, has_form);
                held += has_form;
                arena_reset(memory);
            }
        }
    }
    assert_true(held > 300);
}

/// Li & Hoefler's critical path: P of the longer, 2P-2 of the shorter.
TEST(equation_1_is_the_bubble_ratio_of_chimera_with_as_many_microbatches_as_ranks)
{
    for (int ranks = 2; ranks <= 24; ranks += 2) {
        for (int forward = 1; forward <= 4; forward++) {
            for (int backward = forward; backward <= 8; backward++) {
                const bal_equal_stages stages = {ranks, ranks, 2, forward, backward, 0, 0};

                const bal_metrics metrics = play("chimera", &stages);

                assert_int_equal(metrics.makespan_ns, ranks * forward + (2 * ranks - 2) * backward);
                const double ratio = bal_published_eq1_ratio(ranks, forward, backward, 0);
                assert_true(fabs(ratio - metrics.bubble_ratio) < 1e-12);
                arena_reset(memory);
            }
        }
    }
    const bal_equal_stages faster = {8, 8, 2, 4, 3, 0, 0};
    const bal_metrics metrics = play("chimera", &faster);
    assert_int_equal(metrics.makespan_ns, 14 * 4 + 8 * 3);
    assert_true(bal_published_eq1_ratio(8, 4, 3, 0) < 0.2433 && metrics.bubble_ratio > 0.2999);
}

TEST(what_has_no_formula_says_so)
{
    const bal_equal_stages stages = {4, 8, 1, 5, 6, 4, 0};
    assert_string_equal(bal_closed_form_of("zb-auto", &stages).span.because, "no formula is known");
    assert_string_equal(bal_closed_form_of("zb-h2", &stages).makespan.because,
                        "no formula is known; at least M(F+B+W) + (P-1)(F+c)");
    const bal_equal_stages odd = {2, 4, 2, 5, 6, 4, 0};
    assert_string_equal(bal_closed_form_of("interleaved-1f1b", &odd).span.because,
                        "the times of a chunk are no integers");
}

TEST(equation_1_has_the_values_of_the_paper)
{
    const double expected[][2] = {{2, 0}, {4, .2500}, {8, .3333}, {16, .3684}, {24, .3793}};
    for (int index = 0; index < 5; index++) {
        const double ratio = bal_published_eq1_ratio((int)expected[index][0], 100, 200, 0);
        assert_true(fabs(ratio - expected[index][1]) <= 0.00005);
    }
    const double messages[][2] = {{5, .3413}, {20, .3626}, {50, .3963}, {100, .4353}, {500, .5360}};
    for (int index = 0; index < 5; index++) {
        const double ratio = bal_published_eq1_ratio(8, 100, 200, (int64_t)messages[index][0]);
        assert_true(fabs(ratio - messages[index][1]) <= 0.00005);
    }
    const double forward_ns[] = {10, 20, 10, 10};
    const double backward_ns[] = {20, 40, 20, 20};
    const bal_published_eq1 unequal = bal_published_eq1_of(forward_ns, backward_ns, 4);
    assert_close(unequal.printed_ratio, 0.25, 1e-12);
    assert_close(unequal.unequal_ratio, 1 - 150.0 / (4 * 20 + 6 * 40), 1e-12);
    assert_true(isnan(bal_published_eq1_of(forward_ns, backward_ns, 3).printed_ratio));
    assert_true(isnan(bal_published_eq1_ratio(3, 1, 2, 0)));
    assert_true(isnan(bal_published_eq1_ratio(1, 1, 2, 0)));
    assert_true(isnan(bal_published_eq1_ratio(4, 0, 0, 0)));
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
