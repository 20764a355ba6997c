/// Sums a timeline up by stage and kind of op.
#include "analysis/report/recording.h"

#include "analysis/compare/agreement.h"

#include <gsl/gsl_sort_long.h>

/// A timeline in the midst of being summed up. Cells are [stage][kind].
typedef struct summing {
    const bal_timeline *timeline;
    int stage_count;
    const int *sender;  // [op] whose output it waits for
    int64_t *op_ns;     // [cell][microbatch]
    int64_t *travel_ns; // [cell][microbatch]
    int *op_count;      // [cell]
    int *awaited_count; // [cell]
} summing;

static void make(summing *at, const bal_timeline *timeline, arena *memory)
{
    const bal_schedule *schedule = timeline->schedule;
    const size_t microbatches = (size_t)schedule->microbatch_count;
    *at = (summing){.timeline = timeline,
                    .stage_count = schedule->rank_count * schedule->chunk_count};
    const size_t cells = (size_t)at->stage_count * OP_KIND_COUNT;
    at->sender = ana_senders(schedule, memory);
    at->op_ns = arena_array(memory, cells * microbatches, sizeof(int64_t));
    at->travel_ns = arena_array(memory, cells * microbatches, sizeof(int64_t));
    at->op_count = arena_array(memory, cells, sizeof(int));
    at->awaited_count = arena_array(memory, cells, sizeof(int));
}

/// Notes how long the message of an op travelled, if the rank waited for it.
static void add_travel(const summing *at, int op, int64_t free_ns, int cell)
{
    const bal_timeline *timeline = at->timeline;
    const int64_t begin_ns = timeline->begin_ns[op];
    if (at->sender[op] < 0) return;
    const int64_t travel_ns = begin_ns - timeline->end_ns[at->sender[op]];
    if (begin_ns <= free_ns || begin_ns - free_ns < travel_ns - (begin_ns - free_ns)) return;
    const int64_t first = (int64_t)cell * timeline->schedule->microbatch_count;
    at->travel_ns[first + at->awaited_count[cell]++] = travel_ns > 0 ? travel_ns : 0;
}

static void add_rank(const summing *at, int rank)
{
    const bal_schedule *schedule = at->timeline->schedule;
    int64_t free_ns = 0;
    for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
        const bal_op *played = &schedule->ops[op];
        const int cell =
            bal_schedule_stage(schedule, rank, played->chunk) * OP_KIND_COUNT + played->kind;
        const int64_t first = (int64_t)cell * schedule->microbatch_count;
        at->op_ns[first + at->op_count[cell]++] =
            at->timeline->end_ns[op] - at->timeline->begin_ns[op];
        add_travel(at, op, free_ns, cell);
        free_ns = at->timeline->end_ns[op];
    }
}

int64_t ana_op_median(int64_t *values, int count)
{
    if (count == 0) return -1;
    gsl_sort_long(values, 1, (size_t)count);
    return values[(count - 1) / 2];
}

void ana_op_times_of(const bal_timeline *timeline, int iteration, arena *memory,
                     trace_run_op_time **rows, int *count)
{
    const bal_schedule *schedule = timeline->schedule;
    summing at;
    make(&at, timeline, memory);
    const int cells = at.stage_count * OP_KIND_COUNT;
    trace_run_op_time *made = arena_array(memory, (size_t)cells, sizeof *made);
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        add_rank(&at, rank);
    }
    int made_count = 0;
    for (int cell = 0; cell < cells; cell++) {
        const int64_t first = (int64_t)cell * schedule->microbatch_count;
        if (at.op_count[cell] == 0) continue;
        made[made_count++] = (trace_run_op_time){
            .iteration = iteration,
            .stage = cell / OP_KIND_COUNT,
            .kind = (bal_op_kind)(cell % OP_KIND_COUNT),
            .op_count = at.op_count[cell],
            .median_ns = ana_op_median(at.op_ns + first, at.op_count[cell]),
            .awaited_count = at.awaited_count[cell],
            .travel_ns = ana_op_median(at.travel_ns + first, at.awaited_count[cell]),
        };
    }
    *rows = made;
    *count = made_count;
}
