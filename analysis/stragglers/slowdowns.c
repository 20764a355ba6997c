#include "analysis/stragglers/slowdowns.h"

#include <stdlib.h>

/// What is supposed: where ops keep their own time. -1: everywhere.
typedef enum part {
    PART_ALL,
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
    case PART_BEFORE_LAST:
        return op->rank % run->stage_count != run->stage_count - 1;
    default:
        return true;
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

/// Replays every step under each of the suppositions.
///
/// @param lengths [step_count][count] out
static void suppose(const ana_op_run *run, const supposition *what, int count, const bool *is_slow,
                    int64_t *lengths)
{
    for (int step = 0; step < run->step_count; step++) {
        int64_t *scratch = memory_array((size_t)run->steps[step].op_count * 3, sizeof *scratch);
        for (int each = 0; each < count; each++) {
            *lengths++ = replay_supposed(run, step, what[each], is_slow, scratch);
        }
        free(scratch);
    }
}

static double ratio(double of, double to)
{
    return to > 0 ? of / to : 1;
}

/// Ratios of one part from the lengths. @param steps [step_count][count], or NULL
static void take_ratios(const ana_op_run *run, const int64_t *lengths, int columns, int first,
                        int count, double *sums, double *steps)
{
    double ideal_ns = 0;
    for (int which = 0; which < count; which++) {
        sums[which] = 0;
    }
    for (int step = 0; step < run->step_count; step++) {
        const int64_t *row = lengths + (size_t)step * (size_t)columns;
        ideal_ns += (double)row[1];
        for (int which = 0; which < count; which++) {
            const double length_ns = (double)row[first + which];
            sums[which] += length_ns;
            if (steps == NULL) continue;
            steps[(size_t)step * (size_t)count + (size_t)which] = ratio(length_ns, (double)row[1]);
        }
    }
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
    static const supposition rests[] = {{PART_FAST, 0}, {PART_BEFORE_LAST, 0}};
    double shares[2] = {0};
    int64_t *lengths = memory_array((size_t)run->step_count * 2, sizeof *lengths);
    suppose(run, rests, 2, found->is_slow, lengths);
    for (int rest = 0; rest < 2; rest++) {
        double sum_ns = 0;
        for (int step = 0; step < run->step_count; step++) {
            sum_ns += (double)lengths[2 * step + rest];
        }
        if (replayed_ns > ideal_ns) {
            shares[rest] = (replayed_ns - sum_ns) / (replayed_ns - ideal_ns);
        }
    }
    found->worker_share = shares[0];
    found->stage_share = run->stage_count > 1 ? shares[1] : 0;
    free(lengths);
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
    const struct {
        part part;
        int count;
        double *sums;  // [count]
        double *steps; // [step_count][count], or NULL
    } parts[] = {{PART_ALL, 1, &found.slowdown, NULL},
                 {PART_NONE, 1, NULL, NULL},
                 {PART_KIND, run->kind_count, found.by_kind, found.step_by_kind},
                 {PART_STAGE, run->stage_count, found.by_stage, found.step_by_stage},
                 {PART_REPLICA, run->replica_count, found.by_replica, found.step_by_replica},
                 {PART_WORKER, run->worker_count, found.by_worker, NULL}};
    enum { PARTS = sizeof parts / sizeof parts[0] };
    const int most =
        2 + run->kind_count + run->stage_count + run->replica_count + run->worker_count;
    supposition *what = memory_array((size_t)most, sizeof *what);
    int64_t *lengths = memory_array((size_t)run->step_count * (size_t)most, sizeof *lengths);
    double sums_ns[3] = {0}; // recorded, replayed, ideal
    int count = 0;
    for (int each = 0; each < PARTS; each++) {
        for (int which = 0; which < parts[each].count; which++) {
            what[count++] = (supposition){parts[each].part, which};
        }
    }
    suppose(run, what, count, NULL, lengths);
    for (int each = 0, first = 0; each < PARTS; first += parts[each++].count) {
        if (parts[each].sums == NULL) continue;
        take_ratios(run, lengths, count, first, parts[each].count, parts[each].sums,
                    parts[each].steps);
    }
    for (int step = 0; step < run->step_count; step++) {
        sums_ns[0] += (double)found.steps[step].recorded_ns;
        sums_ns[1] += (double)found.steps[step].replayed_ns;
        sums_ns[2] += (double)found.steps[step].ideal_ns;
    }
    found.launch_slowdown = ratio(sums_ns[0], sums_ns[1]);
    mark_slow(run, &found);
    take_shares(run, sums_ns[1], sums_ns[2], &found);
    free(what);
    free(lengths);
    *slowdowns = found;
}
