/// The order in which schedules add up gradients: all families do it in ascending microbatches; an
/// order that does not is refused by name.
#include "exec/device/device.h"
#include "tests/test_memory.h"

#include <stdio.h>
#include <string.h>

enum { STAGES_MAX = 32 };

/// Stages that cost nearly, but not quite, the same, for the schedules that are searched.
static bal_stage_costs stage_costs(int64_t times[6][STAGES_MAX], int stage_count)
{
    for (int stage = 0; stage < stage_count; stage++) {
        times[0][stage] = 1000 + 37 * (stage % 5);
        times[1][stage] = 900 + 53 * (stage % 3);
        times[2][stage] = 700 + 91 * (stage % 4);
        times[3][stage] = 10;
        times[4][stage] = 2;
        times[5][stage] = -1;
    }
    return (bal_stage_costs){.stage_count = stage_count,
                             .microbatch_count = 1,
                             .forward_ns = times[0],
                             .backward_input_ns = times[1],
                             .backward_weight_ns = times[2],
                             .send_forward_ns = times[3],
                             .send_backward_ns = times[3],
                             .memory_forward = times[4],
                             .memory_backward_input = times[5],
                             .memory_backward_weight = times[5]};
}

static void check_family(const bal_schedule_family *family, int rank_count, int microbatch_count)
{
    int64_t times[6][STAGES_MAX];
    const int chunk_count = bal_schedule_chunk_count(family, 0);
    const bal_stage_costs costs = stage_costs(times, rank_count * chunk_count);
    const bal_schedule_request request = {.name = family->name,
                                          .rank_count = rank_count,
                                          .microbatch_count = microbatch_count,
                                          .costs = &costs};
    bal_schedule schedule;
    arena_reset(memory);
    require(bal_schedule_build(&request, memory, &schedule, &why));

    const status result = exec_weight_order_check(&schedule, &why);

    if (result != STATUS_OK) {
        fail_msg("%s, %d ranks, %d microbatches: %s", family->name, rank_count, microbatch_count,
                 why.message);
    }
}

TEST(all_families_add_in_ascending_microbatches)
{
    int count = 0;
    const bal_schedule_family *families = bal_schedule_families(&count);
    for (int family = 0; family < count; family++) {
        for (int rank_count = 1; rank_count <= 8; rank_count++) {
            for (int microbatch_count = 1; microbatch_count <= 24; microbatch_count += TEST_SHARE) {
                if (!bal_schedule_takes(&families[family], rank_count, microbatch_count)) continue;
                check_family(&families[family], rank_count, microbatch_count);
            }
        }
    }
}

TEST(weights_out_of_order_are_named)
{
    const int first_op[] = {0, 6};
    const char *const names[] = {"F0", "F1", "B0", "B1", "W1", "W0"};
    bal_op ops[6];
    for (int op = 0; op < 6; op++) {
        assert_ok(bal_op_parse(names[op], &ops[op], NULL));
    }
    const bal_schedule schedule = {.rank_count = 1,
                                   .chunk_count = 1,
                                   .microbatch_count = 2,
                                   .has_split = true,
                                   .first_op = first_op,
                                   .ops = ops};

    assert_fails(exec_weight_order_check(&schedule, &why), STATUS_INVALID,
                 "rank 0: W1 of stage 0 stands before W0: training adds up "
                 "gradients in ascending microbatches");
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
