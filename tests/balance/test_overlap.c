/// Costs of overlapped pairs: what overlaps gets shorter, what does not stays, and the plainest
/// player's iteration with them.
#include "balance/metrics.h"
#include "balance/schedule/overlap.h"
#include "tests/assert_close.h"
#include "tests/balance/reference_player.h"
#include "tests/test_memory.h"

static bal_stage_costs dual_costs(arena *memory)
{
    return reference_uniform_costs(4, 100, 101, 103, 7, (int64_t[]){1, 0, -1}, memory);
}

static void only_overlapped_ops_get_shorter(void **state)
{
    arena *memory = *state;
    const bal_schedule schedule = reference_build("dualpipe-v", 2, 4, 2, memory);
    const bal_stage_costs costs = dual_costs(memory);
    bal_stage_costs shorter;

    assert_ok(bal_overlap_costs(&schedule, &costs, 0.5, memory, &shorter, NULL));

    assert_int_equal(shorter.microbatch_count, 4);
    for (int rank = 0; rank < 2; rank++) {
        bool overlaps = false;
        for (int index = schedule.first_op[rank]; index < schedule.first_op[rank + 1]; index++) {
            const bal_op op = schedule.ops[index];
            const int stage = bal_stage_of(schedule.placement, 2, 2, rank, op.chunk);
            overlaps = op.overlaps_next != 0 || (overlaps && schedule.ops[index - 1].overlaps_next);
            const int64_t whole_ns = reference_op_ns(&costs, stage, op);
            const int64_t halves_ns = op.kind == OP_FORWARD ? 50 : 51 + 52;
            assert_int_equal(reference_op_ns(&shorter, stage, op), overlaps ? halves_ns : whole_ns);
        }
    }
}

static void a_ratio_of_one_changes_nothing(void **state)
{
    arena *memory = *state;
    const bal_schedule schedule = reference_build("dualpipe-v", 3, 7, 2, memory);
    bal_stage_costs costs =
        reference_uniform_costs(6, 100, 101, 103, 7, (int64_t[]){1, 0, -1}, memory);
    int64_t delays[12];
    for (int cell = 0; cell < 12; cell++) {
        delays[cell] = 3 * cell;
    }
    costs.message_delay_ns = delays;
    bal_stage_costs same;

    assert_ok(bal_overlap_costs(&schedule, &costs, 1, memory, &same, NULL));

    const bal_timeline before = reference_play(&schedule, &costs, memory);
    const bal_timeline after = reference_play(&schedule, &same, memory);
    const size_t bytes = (size_t)schedule.first_op[3] * sizeof *before.end_ns;
    assert_memory_equal(after.begin_ns, before.begin_ns, bytes);
    assert_memory_equal(after.end_ns, before.end_ns, bytes);
}

/// With F = B = W = t and pairs of time o, all but P of the microbatches pass both chunks as pairs.
static void a_shorter_pair_shortens_the_iteration(void **state)
{
    arena *memory = *state;
    const bal_schedule schedule = reference_build("dualpipe-v", 4, 32, 2, memory);
    const bal_stage_costs costs =
        reference_uniform_costs(8, 100, 100, 100, 0, (int64_t[]){1, 0, -1}, memory);
    int64_t before_ns = INT64_MAX;
    for (int percent = 100; percent >= 60; percent -= 10) {
        bal_stage_costs shorter;
        assert_ok(bal_overlap_costs(&schedule, &costs, percent / 100.0, memory, &shorter, NULL));
        const bal_timeline timeline = reference_play(&schedule, &shorter, memory);
        const int64_t makespan_ns = bal_metrics_of(&timeline).makespan_ns;
        assert_true(makespan_ns < before_ns);
        before_ns = makespan_ns;
    }
}

static void ratios_outside_their_limits_are_refused(void **state)
{
    arena *memory = *state;
    const bal_schedule schedule = reference_build("dualpipe-v", 2, 4, 2, memory);
    const bal_stage_costs costs = dual_costs(memory);
    const double wrong[] = {0, -1, 1.01, 0.0 / 0.0};
    for (size_t index = 0; index < sizeof wrong / sizeof wrong[0]; index++) {
        bal_stage_costs out = {.stage_count = -7};
        assert_int_equal(bal_overlap_costs(&schedule, &costs, wrong[index], memory, &out, NULL),
                         STATUS_INVALID);
        assert_int_equal(out.stage_count, -7);
    }
}

static void only_dualpipe_v_overlaps(void **state)
{
    arena *memory = *state;
    const bal_schedule dual = reference_build("dualpipe-v", 2, 4, 2, memory);
    const bal_schedule hand = reference_build("zb-v-hand", 2, 4, 2, memory);
    assert_true(bal_schedule_overlaps(&dual));
    assert_false(bal_schedule_overlaps(&hand));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_overlapped_ops_get_shorter),
        cmocka_unit_test(a_ratio_of_one_changes_nothing),
        cmocka_unit_test(a_shorter_pair_shortens_the_iteration),
        cmocka_unit_test(ratios_outside_their_limits_are_refused),
        cmocka_unit_test(only_dualpipe_v_overlaps),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
