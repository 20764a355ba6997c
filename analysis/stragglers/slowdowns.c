#include "analysis/stragglers/causes.h"

#include <stdlib.h>

static int part_of(const ana_op_run *run, ana_slow_part part, const trace_op *op)
{
    switch (part) {
    case ANA_SLOW_KIND:
        return run->kind_of_name[op->name - 1];
    case ANA_SLOW_STAGE:
        return op->rank % run->stage_count;
    case ANA_SLOW_REPLICA:
        return op->rank / run->stage_count;
    default:
        return op->rank;
    }
}

/// Replays a step where only the ops of one part keep their own time.
///
/// @param which -1: none do
/// @param keeps [worker_count] the workers whose ops do, instead of that part, or NULL
static int64_t replay_supposed(const ana_op_run *run, int step, ana_slow_part part, int which,
                               const bool *keeps)
{
    const ana_op_step *of = &run->steps[step];
    int64_t *duration_ns = memory_array((size_t)of->op_count, sizeof *duration_ns);
    const ana_replay replay = {.duration_ns = duration_ns};
    for (int op = 0; op < of->op_count; op++) {
        const trace_op *each = &of->ops[op];
        const bool is_own = keeps != NULL ? keeps[each->rank] : part_of(run, part, each) == which;
        duration_ns[op] = is_own ? of->own_ns[op] : run->ideal_ns[each->name - 1];
    }
    const int64_t length_ns = ana_op_step_length(of, &replay);
    free(duration_ns);
    return length_ns;
}

static double ratio(double of, double to)
{
    return to > 0 ? of / to : 1;
}

/// Replays every step where one part at a time keeps its own times.
static void replay_parts(const ana_op_run *run, ana_slow_part part, double ideal_ns, arena *memory,
                         ana_slowdowns *found)
{
    const int count = found->count[part];
    double *sums = arena_array(memory, (size_t)count, sizeof *sums);
    double *steps = arena_array(memory, (size_t)run->step_count * (size_t)count, sizeof *steps);
    for (int step = 0; step < run->step_count; step++) {
        const double ideal = (double)found->steps[step].ideal_ns;
        for (int which = 0; which < count; which++) {
            const double length_ns = (double)replay_supposed(run, step, part, which, NULL);
            sums[which] += length_ns;
            steps[(size_t)step * (size_t)count + (size_t)which] = ratio(length_ns, ideal);
        }
    }
    for (int which = 0; which < count; which++) {
        sums[which] = ratio(sums[which], ideal_ns);
    }
    found->by[part] = sums;
    found->step_by[part] = steps;
}

/// Marks the workers whose slowdown is largest; of equals the first.
static void mark_slow(const ana_op_run *run, ana_slowdowns *found)
{
    const double *by_worker = found->by[ANA_SLOW_WORKER];
    found->slow_worker_count = (run->worker_count * 3 + 99) / 100;
    for (int marked = 0; marked < found->slow_worker_count; marked++) {
        int slowest = -1;
        for (int worker = 0; worker < run->worker_count; worker++) {
            if (found->is_slow[worker]) continue;
            if (slowest < 0 || by_worker[worker] > by_worker[slowest]) slowest = worker;
        }
        found->is_slow[slowest] = true;
    }
}

/// What mending all but these workers' ops wins of what is lost.
static double share_of(const ana_op_run *run, const bool *keeps, double replayed_ns,
                       double ideal_ns)
{
    double without_ns = 0;
    for (int step = 0; step < run->step_count; step++) {
        without_ns += (double)replay_supposed(run, step, ANA_SLOW_COUNT, -1, keeps);
    }
    return replayed_ns > ideal_ns ? (replayed_ns - without_ns) / (replayed_ns - ideal_ns) : 0;
}

static ana_straggler_step *play_steps(const ana_op_run *run, arena *memory)
{
    const ana_replay delayed = {.with_delays = true};
    const ana_replay replayed = {0};
    ana_straggler_step *steps = arena_array(memory, (size_t)run->step_count, sizeof *steps);
    for (int step = 0; step < run->step_count; step++) {
        const ana_op_step *of = &run->steps[step];
        steps[step] =
            (ana_straggler_step){.step = of->step,
                                 .recorded_ns = of->recorded_ns,
                                 .delayed_ns = ana_op_step_length(of, &delayed),
                                 .replayed_ns = ana_op_step_length(of, &replayed),
                                 .ideal_ns = replay_supposed(run, step, ANA_SLOW_KIND, -1, NULL)};
    }
    return steps;
}

void ana_slowdowns_of(const ana_op_run *run, arena *memory, ana_slowdowns *slowdowns)
{
    const size_t workers = (size_t)run->worker_count;
    ana_slowdowns found = {
        .steps = play_steps(run, memory),
        .count = {run->kind_count, run->stage_count, run->replica_count, run->worker_count},
        .is_slow = arena_array(memory, workers, sizeof(bool))};
    bool *is_fast = arena_array(memory, workers, sizeof *is_fast);
    bool *is_before_last = arena_array(memory, workers, sizeof *is_before_last);
    double recorded_ns = 0;
    double replayed_ns = 0;
    double ideal_ns = 0;
    for (int step = 0; step < run->step_count; step++) {
        recorded_ns += (double)found.steps[step].recorded_ns;
        replayed_ns += (double)found.steps[step].replayed_ns;
        ideal_ns += (double)found.steps[step].ideal_ns;
    }
    for (int part = 0; part < ANA_SLOW_COUNT; part++) {
        replay_parts(run, (ana_slow_part)part, ideal_ns, memory, &found);
    }
    found.slowdown = ratio(replayed_ns, ideal_ns);
    found.launch_slowdown = ratio(recorded_ns, replayed_ns);
    mark_slow(run, &found);
    for (int worker = 0; worker < run->worker_count; worker++) {
        is_fast[worker] = !found.is_slow[worker];
        is_before_last[worker] = worker % run->stage_count != run->stage_count - 1;
    }
    found.worker_share = share_of(run, is_fast, replayed_ns, ideal_ns);
    if (run->stage_count > 1) {
        found.stage_share = share_of(run, is_before_last, replayed_ns, ideal_ns);
    }
    *slowdowns = found;
}
