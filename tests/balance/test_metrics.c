/// Metrics: each ratio by hand on a timeline of four ops, the identity (p-1)/(m+p-1) of equal
/// stages, and memory op by op.
#include "balance/metrics.h"
#include "tests/balance/reference_player.h"
#include "tests/test.h"
#include "tests/test_memory.h"

TEST(the_ratios_of_two_ranks_by_hand)
{
    // Rank 0 works 10 + 20 of [0, 50); rank 1 works 5 + 5 of [10, 30).
    bal_op ops[] = {
        {.kind = OP_FORWARD}, {.kind = OP_BACKWARD}, {.kind = OP_FORWARD}, {.kind = OP_BACKWARD}};
    const int first_op[] = {0, 2, 4};
    const bal_schedule schedule = {
        .rank_count = 2, .chunk_count = 1, .microbatch_count = 1, .first_op = first_op, .ops = ops};
    int64_t begin_ns[] = {100, 130, 110, 125};
    int64_t end_ns[] = {110, 150, 115, 130};
    const bal_timeline timeline = {&schedule, begin_ns, end_ns};

    const bal_metrics metrics = bal_metrics_of(&timeline);

    assert_int_equal(metrics.makespan_ns, 50);
    assert_int_equal(metrics.span_ns, 50);
    assert_int_equal(metrics.busy_ns, 40);
    assert_int_equal(metrics.work_max_ns, 30);
    assert_close(metrics.bubble_ratio, 0.6, 1e-15);
    assert_close(metrics.zb_bubble_rate, 0.4, 1e-15);
    assert_close(metrics.imbalance_ratio, 1.5, 1e-15);
    assert_close(metrics.load_spread_ratio, 1.0, 1e-15);
}

TEST(a_timeline_of_no_length_has_no_bubble)
{
    bal_op ops[] = {{.kind = OP_FORWARD}, {.kind = OP_BACKWARD}};
    const int first_op[] = {0, 2};
    const bal_schedule schedule = {
        .rank_count = 1, .chunk_count = 1, .microbatch_count = 1, .first_op = first_op, .ops = ops};
    int64_t zero[] = {0, 0};
    const bal_timeline timeline = {&schedule, zero, zero};

    const bal_metrics metrics = bal_metrics_of(&timeline);

    assert_int_equal(metrics.makespan_ns, 0);
    assert_true(metrics.bubble_ratio == 0 && metrics.zb_bubble_rate == 0);
    assert_true(metrics.imbalance_ratio == 1 && metrics.load_spread_ratio == 0);
}

TEST(loads_alone_have_the_same_ratios)
{
    const int64_t loads[] = {3, 1, 2};
    assert_close(bal_imbalance_ratio(loads, 3), 1.5, 1e-15);
    assert_close(bal_load_spread_ratio(loads, 3), 1.0, 1e-15);
    const int64_t none[] = {0, 0};
    assert_true(bal_imbalance_ratio(none, 2) == 1);
    assert_true(bal_load_spread_ratio(none, 2) == 0);
    assert_true(bal_imbalance_ratio(none, 0) == 1);
    assert_true(bal_load_spread_ratio(none, 0) == 0);
}

TEST(equal_stages_leave_the_bubble_of_the_textbook)
{
    const char *const names[] = {"gpipe", "1f1b"};
    for (int name = 0; name < 2; name++) {
        for (int p = 1; p <= 6; p++) {
            for (int m = 1; m <= 9; m++) {
                const bal_schedule schedule = reference_build(names[name], p, m, 1);
                const bal_stage_costs costs =
                    reference_uniform_costs(p, 7, 5, 4, 0, (int64_t[]){1, 0, -1});
                const bal_timeline timeline = reference_play(&schedule, &costs);

                const bal_metrics metrics = bal_metrics_of(&timeline);

                assert_int_equal(metrics.makespan_ns, (m + p - 1) * 16);
                if (p > 1) {
                    assert_close(metrics.bubble_ratio, (double)(p - 1) / (m + p - 1), 1e-12);
                } else {
                    assert_true(metrics.bubble_ratio == 0);
                }
                arena_reset(memory);
            }
        }
    }
}

TEST(memory_peaks_follow_the_order)
{
    const bal_schedule gpipe = reference_build("gpipe", 3, 5, 1);
    const bal_schedule one_f_one_b = reference_build("1f1b", 3, 5, 1);
    const bal_stage_costs costs = reference_uniform_costs(3, 1, 1, 1, 0, (int64_t[]){10, -7, -3});
    int64_t peak[3];

    bal_memory_peak(&gpipe, &costs, peak);
    assert_int_equal(peak[0], 50);
    assert_int_equal(peak[2], 50);
    bal_memory_peak(&one_f_one_b, &costs, peak);
    assert_int_equal(peak[0], 30);
    assert_int_equal(peak[1], 20);
    assert_int_equal(peak[2], 10);
    const bal_stage_costs shrinking = reference_uniform_costs(3, 1, 1, 1, 0, (int64_t[]){-1, 0, 0});
    bal_memory_peak(&gpipe, &shrinking, peak);
    assert_int_equal(peak[0], 0);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
