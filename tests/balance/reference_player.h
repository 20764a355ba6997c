/// The plainest player: the longest path through the waits of an order, by repeated relaxation
/// over the ranks until every op has its time. The oracle of the schedule tests.
#pragma once

#include "balance/costs/stage_costs.h"
#include "balance/schedule/schedule.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <stdbool.h>

static inline bal_schedule reference_build(const char *name, int rank_count, int microbatch_count,
                                           int chunk_count)
{
    const bal_schedule_request request = {.name = name,
                                          .rank_count = rank_count,
                                          .microbatch_count = microbatch_count,
                                          .chunk_count = chunk_count};
    bal_schedule schedule = {0};
    require(bal_schedule_build(&request, memory, &schedule, &why));
    return schedule;
}

/// Copies count values into the arena, or count times values[0] where only_first.
static inline int64_t *reference_row(const int64_t *values, int count, bool only_first)
{
    int64_t *row = arena_array(memory, (size_t)count, sizeof *row);
    assert_non_null(row);
    for (int index = 0; index < count; index++) {
        row[index] = values[only_first ? 0 : index];
    }
    return row;
}

/// One cost for all stages.
static inline bal_stage_costs reference_uniform_costs(int stage_count, int64_t forward_ns,
                                                      int64_t input_ns, int64_t weight_ns,
                                                      int64_t send_ns, const int64_t *memory_fbw)
{
    return (bal_stage_costs){
        .stage_count = stage_count,
        .microbatch_count = 1,
        .forward_ns = reference_row(&forward_ns, stage_count, true),
        .backward_input_ns = reference_row(&input_ns, stage_count, true),
        .backward_weight_ns = reference_row(&weight_ns, stage_count, true),
        .send_forward_ns = reference_row(&send_ns, stage_count, true),
        .send_backward_ns = reference_row(&send_ns, stage_count, true),
        .memory_forward = reference_row(&memory_fbw[0], stage_count, true),
        .memory_backward_input = reference_row(&memory_fbw[1], stage_count, true),
        .memory_backward_weight = reference_row(&memory_fbw[2], stage_count, true),
    };
}

static inline int64_t reference_op_ns(const bal_stage_costs *costs, int stage, bal_op op)
{
    const int64_t cell = (int64_t)stage * costs->microbatch_count +
                         (costs->microbatch_count > 1 ? op.microbatch : 0);
    if (op.kind == OP_FORWARD) return costs->forward_ns[cell];
    if (op.kind == OP_BACKWARD_INPUT) return costs->backward_input_ns[cell];
    if (op.kind == OP_BACKWARD_WEIGHT) return costs->backward_weight_ns[cell];
    return costs->backward_input_ns[cell] + costs->backward_weight_ns[cell];
}

static inline int64_t reference_delay_ns(const bal_stage_costs *costs, bal_op_kind kind, int stage,
                                         int microbatch)
{
    const int columns = costs->microbatch_count;
    const int row = kind == OP_FORWARD ? stage : costs->stage_count + stage;
    if (costs->message_delay_ns == NULL) return 0;
    return costs->message_delay_ns[row * columns + (columns > 1 ? microbatch : 0)];
}

/// When the message that the op waits for has arrived; 0 if it waits for none, -1 if not known yet.
static inline int64_t reference_arrival(const bal_timeline *timeline, const bal_stage_costs *costs,
                                        int rank, bal_op op)
{
    const bal_schedule *schedule = timeline->schedule;
    bal_op_kind kind = OP_FORWARD;
    const int stage = bal_op_waits_for(schedule, rank, op, &kind);
    if (stage < 0) return 0;
    int chunk = 0;
    const int other = bal_rank_of_stage(schedule->placement, schedule->rank_count,
                                        schedule->chunk_count, stage, &chunk);
    const int64_t send_ns =
        kind == OP_FORWARD ? costs->send_forward_ns[stage] : costs->send_backward_ns[stage];
    for (int index = schedule->first_op[other]; index < schedule->first_op[other + 1]; index++) {
        const bal_op sender = schedule->ops[index];
        const bool is_forward = sender.kind == OP_FORWARD;
        if (sender.kind == OP_BACKWARD_WEIGHT || is_forward != (kind == OP_FORWARD)) continue;
        if (sender.chunk != chunk || sender.microbatch != op.microbatch) continue;
        const int last = index + sender.overlaps_next; // both messages of a pair leave at its end
        if (timeline->end_ns[last] < 0) return -1;
        if (other == rank) return timeline->end_ns[last];
        return timeline->end_ns[last] + send_ns +
               reference_delay_ns(costs, kind, stage, op.microbatch);
    }
    fail_msg("nobody sends to rank %d", rank);
    return -1;
}

/// Runs the next ops of a rank as far as they can; how many.
static inline int reference_advance(const bal_timeline *timeline, const bal_stage_costs *costs,
                                    int rank, int *next)
{
    const bal_schedule *schedule = timeline->schedule;
    int ran = 0;
    for (; *next < schedule->first_op[rank + 1]; (*next)++, ran++) {
        const bal_op op = schedule->ops[*next];
        int64_t arrival_ns = reference_arrival(timeline, costs, rank, op);
        if (arrival_ns >= 0 && op.overlaps_next != 0) {
            const int64_t second_ns =
                reference_arrival(timeline, costs, rank, schedule->ops[*next + 1]);
            arrival_ns = second_ns < 0 || second_ns > arrival_ns ? second_ns : arrival_ns;
        }
        const bool is_second =
            *next > schedule->first_op[rank] && schedule->ops[*next - 1].overlaps_next != 0;
        if (is_second) arrival_ns = 0; // the pair has waited for it
        if (arrival_ns < 0) break;
        const int stage = bal_stage_of(schedule->placement, schedule->rank_count,
                                       schedule->chunk_count, rank, op.chunk);
        const bool is_first = *next == schedule->first_op[rank];
        const int64_t free_ns = is_first ? 0 : timeline->end_ns[*next - 1];
        timeline->begin_ns[*next] = arrival_ns > free_ns ? arrival_ns : free_ns;
        timeline->end_ns[*next] = timeline->begin_ns[*next] + reference_op_ns(costs, stage, op);
    }
    return ran;
}

/// Plays an order that can be played.
static inline bal_timeline reference_play(const bal_schedule *schedule,
                                          const bal_stage_costs *costs)
{
    const int op_count = schedule->first_op[schedule->rank_count];
    const int64_t unknown = -1;
    const bal_timeline timeline = {.schedule = schedule,
                                   .begin_ns = reference_row(&unknown, op_count, true),
                                   .end_ns = reference_row(&unknown, op_count, true)};
    int *next = arena_array(memory, (size_t)schedule->rank_count, sizeof *next);
    assert_non_null(next);
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        next[rank] = schedule->first_op[rank];
    }
    int done = 0;
    while (done < op_count) {
        int ran = 0;
        for (int rank = 0; rank < schedule->rank_count; rank++) {
            ran += reference_advance(&timeline, costs, rank, &next[rank]);
        }
        if (ran == 0) fail_msg("%s: no rank can go on", schedule->name);
        done += ran;
    }
    return timeline;
}
