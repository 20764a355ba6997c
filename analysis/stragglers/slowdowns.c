#include "analysis/stragglers/slowdowns.h"

#include <stdlib.h>

/// What is supposed: where ops keep their own time.
typedef enum part {
    PART_NONE,
    PART_KIND,
    PART_STAGE,
    PART_REPLICA,
    PART_WORKER,
    PART_FAST,       // all but the slowest workers
    PART_BEFORE_LAST // all but the last stage
} part;

typedef struct supposition {
    part part;
    int which;
} supposition;

/// Whether an op keeps its own time. @param is_slow [worker_count], or NULL without PART_FAST
static bool keeps_time(const ana_op_run *run, supposition what, const bool *is_slow,
                       const trace_op *op)
{
    switch (what.part) {
    case PART_NONE:
        return false;
    case PART_KIND:
        return run->kind_of_name[op->name - 1] == what.which;
    case PART_STAGE:
        return op->rank % run->stage_count == what.which;
    case PART_REPLICA:
        return op->rank / run->stage_count == what.which;
    case PART_WORKER:
        return op->rank == what.which;
    case PART_FAST:
        return !is_slow[op->rank];
    default: // PART_BEFORE_LAST
        return op->rank % run->stage_count != run->stage_count - 1;
    }
}

/// Replays a step where only some ops keep their own time. @param scratch [3 * op_count]
static int64_t replay_supposed(const ana_op_run *run, int step, supposition what,
                               const bool *is_slow, int64_t *scratch)
{
    const ana_op_step *of = &run->steps[step];
    const ana_replay replay = {.duration_ns = scratch};
    for (int op = 0; op < of->op_count; op++) {
        const trace_op *each = &of->ops[op];
        scratch[op] =
            keeps_time(run, what, is_slow, each) ? of->own_ns[op] : run->ideal_ns[each->name - 1];
    }
    return ana_op_step_replay(of, &replay, scratch + of->op_count,
                              scratch + 2 * (size_t)of->op_count);
}

static double ratio(double of, double to)
{
    return to > 0 ? of / to : 1;
}

/// Replays a step where one part at a time keeps its own times.
///
/// @param sums  [count] its lengths are added
/// @param steps [step_count][count] out: over the ideal length, or NULL
static void replay_parts(const ana_op_run *run, int step, part kept, int count, double ideal_ns,
                         int64_t *scratch, double *sums, double *steps)
{
    for (int which = 0; which < count; which++) {
        const double length_ns =
            (double)replay_supposed(run, step, (supposition){kept, which}, NULL, scratch);
        sums[which] += length_ns;
        if (steps == NULL) continue;
        steps[(size_t)step * (size_t)count + (size_t)which] = ratio(length_ns, ideal_ns);
    }
}

static void divide(double *sums, int count, double ideal_ns)
{
    for (int which = 0; which < count; which++) {
        sums[which] = ratio(sums[which], ideal_ns);
    }
}

/// Marks the workers whose slowdown is largest; of equals the first.
static void mark_slow(const ana_op_run *run, ana_slowdowns *found)
{
    found->slow_worker_count = (run->worker_count * 3 + 99) / 100;
    for (int marked = 0; marked < found->slow_worker_count; marked++) {
        int slowest = -1;
        for (int worker = 0; worker < run->worker_count; worker++) {
            if (found->is_slow[worker]) continue;
            if (slowest < 0 || found->by_worker[worker] > found->by_worker[slowest]) {
                slowest = worker;
            }
        }
        found->is_slow[slowest] = true;
    }
}

/// What mending only the slowest workers, or the last stage, wins of what is lost.
static void take_shares(const ana_op_run *run, double replayed_ns, double ideal_ns,
                        ana_slowdowns *found)
{
    const double lost_ns = replayed_ns - ideal_ns;
    double without_slow_ns = 0;
    double without_last_ns = 0;
    for (int step = 0; step < run->step_count; step++) {
        int64_t *scratch = memory_array((size_t)run->steps[step].op_count * 3, sizeof *scratch);
        without_slow_ns += (double)replay_supposed(run, step, (supposition){PART_FAST, 0},
                                                   found->is_slow, scratch);
        without_last_ns +=
            (double)replay_supposed(run, step, (supposition){PART_BEFORE_LAST, 0}, NULL, scratch);
        free(scratch);
    }
    if (lost_ns <= 0) return;
    found->worker_share = (replayed_ns - without_slow_ns) / lost_ns;
    if (run->stage_count > 1) found->stage_share = (replayed_ns - without_last_ns) / lost_ns;
}

ana_straggler_step *ana_straggler_steps(const ana_op_run *run, arena *memory)
{
    const ana_replay delayed = {.with_delays = true};
    const ana_replay replayed = {0};
    ana_straggler_step *steps = arena_array(memory, (size_t)run->step_count, sizeof *steps);
    for (int step = 0; step < run->step_count; step++) {
        const ana_op_step *of = &run->steps[step];
        int64_t *scratch = memory_array((size_t)of->op_count * 3, sizeof *scratch);
        int64_t *end_ns = scratch + of->op_count;
        steps[step] = (ana_straggler_step){
            .step = of->step,
            .recorded_ns = of->recorded_ns,
            .delayed_ns = ana_op_step_replay(of, &delayed, scratch, end_ns),
            .replayed_ns = ana_op_step_replay(of, &replayed, scratch, end_ns),
            .ideal_ns = replay_supposed(run, step, (supposition){PART_NONE, 0}, NULL, scratch)};
        free(scratch);
    }
    return steps;
}

/// Room for everything that is found.
static ana_slowdowns carve(const ana_op_run *run, arena *memory)
{
    const size_t steps = (size_t)run->step_count;
    const size_t kinds = (size_t)run->kind_count;
    const size_t stages = (size_t)run->stage_count;
    const size_t replicas = (size_t)run->replica_count;
    const size_t workers = (size_t)run->worker_count;
    return (ana_slowdowns){
        .steps = ana_straggler_steps(run, memory),
        .by_kind = arena_array(memory, kinds, sizeof(double)),
        .by_stage = arena_array(memory, stages, sizeof(double)),
        .by_replica = arena_array(memory, replicas, sizeof(double)),
        .by_worker = arena_array(memory, workers, sizeof(double)),
        .step_by_kind = arena_array(memory, steps * kinds, sizeof(double)),
        .step_by_stage = arena_array(memory, steps * stages, sizeof(double)),
        .step_by_replica = arena_array(memory, steps * replicas, sizeof(double)),
        .is_slow = arena_array(memory, workers, sizeof(bool)),
    };
}

void ana_slowdowns_of(const ana_op_run *run, arena *memory, ana_slowdowns *slowdowns)
{
    ana_slowdowns found = carve(run, memory);
    double recorded_ns = 0;
    double replayed_ns = 0;
    double ideal_ns = 0;
    for (int step = 0; step < run->step_count; step++) {
        const double ideal = (double)found.steps[step].ideal_ns;
        int64_t *scratch = memory_array((size_t)run->steps[step].op_count * 3, sizeof *scratch);
        replay_parts(run, step, PART_KIND, run->kind_count, ideal, scratch, found.by_kind,
                     found.step_by_kind);
        replay_parts(run, step, PART_STAGE, run->stage_count, ideal, scratch, found.by_stage,
                     found.step_by_stage);
        replay_parts(run, step, PART_REPLICA, run->replica_count, ideal, scratch, found.by_replica,
                     found.step_by_replica);
        replay_parts(run, step, PART_WORKER, run->worker_count, ideal, scratch, found.by_worker,
                     NULL);
        free(scratch);
        recorded_ns += (double)found.steps[step].recorded_ns;
        replayed_ns += (double)found.steps[step].replayed_ns;
        ideal_ns += ideal;
    }
    divide(found.by_kind, run->kind_count, ideal_ns);
    divide(found.by_stage, run->stage_count, ideal_ns);
    divide(found.by_replica, run->replica_count, ideal_ns);
    divide(found.by_worker, run->worker_count, ideal_ns);
    found.slowdown = ratio(replayed_ns, ideal_ns);
    found.launch_slowdown = ratio(recorded_ns, replayed_ns);
    mark_slow(run, &found);
    take_shares(run, replayed_ns, ideal_ns, &found);
    *slowdowns = found;
}
