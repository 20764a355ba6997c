#include "analysis/stragglers/op_graph.h"

#include <gsl/gsl_sort_double.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

double ana_lower_median(double *values, int count)
{
    if (count == 0) return 0;
    gsl_sort(values, 1, (size_t)count);
    return values[(count - 1) / 2];
}

/// The kind of an F or backward; -1 for any other op.
static int kind_of(const trace_op *op)
{
    switch (op->kind) {
    case TRACE_OP_FORWARD:
        return 0;
    case TRACE_OP_BACKWARD:
    case TRACE_OP_BACKWARD_INPUT:
        return 1;
    case TRACE_OP_BACKWARD_WEIGHT:
        return 2;
    default:
        return -1;
    }
}

/// The cell of a kind and part of the model.
static int cell_of(const ana_work_times *times, const ana_work *work)
{
    return work->kind * times->part_count + work->op->layer;
}

/// What an op took over the mean of its part of the model and the factor of its worker.
static double ratio_of(const ana_work_times *times, const ana_work *work)
{
    const double mean_ns = times->mean_ns[cell_of(times, work)];
    const double ratio = mean_ns > 0 ? (double)work->own_ns / mean_ns : 1;
    return ratio / times->factor[work->op->rank];
}

static int compare_works(const void *a, const void *b)
{
    const ana_work *left = a;
    const ana_work *right = b;
    const trace_op *one = left->op;
    const trace_op *other = right->op;
    if (left->step != right->step) return left->step < right->step ? -1 : 1;
    if (left->group != right->group) return left->group < right->group ? -1 : 1;
    if (one->replica != other->replica) return one->replica < other->replica ? -1 : 1;
    if (one->microbatch != other->microbatch) return one->microbatch < other->microbatch ? -1 : 1;
    return (one > other) - (one < other);
}

/// Sorts the F and backwards into groups of one microbatch, and of one kind unless the model has a
/// single part.
static void list_works(ana_work_times *times, arena *memory)
{
    const ana_op_run *run = times->run;
    const bool by_kind = times->part_count > 1;
    ana_work *works = arena_array(memory, (size_t)run->table->op_count + 1, sizeof *works);
    int64_t count = 0;
    times->work_of = arena_array(memory, (size_t)run->step_count, sizeof *times->work_of);
    for (int step = 0; step < run->step_count; step++) {
        const ana_op_step *of = &run->steps[step];
        times->work_of[step] = arena_array(memory, (size_t)of->op_count, sizeof(ana_work *));
        for (int op = 0; op < of->op_count; op++) {
            const int kind = kind_of(&of->ops[op]);
            if (kind < 0) continue;
            works[count++] =
                (ana_work){&of->ops[op], of->own_ns[op], step, kind, by_kind ? kind : 0};
        }
    }
    qsort(works, (size_t)count, sizeof *works, compare_works);
    int before = 0; // what tells groups apart, of the work before
    for (int64_t each = 0; each < count; each++) {
        ana_work *work = &works[each];
        const ana_work *last = work - 1;
        const bool is_new = each == 0 || work->step != last->step || work->group != before ||
                            work->op->replica != last->op->replica ||
                            work->op->microbatch != last->op->microbatch;
        before = work->group;
        times->group_count += is_new;
        work->group = times->group_count - 1;
        times->work_of[work->step][work->op - run->steps[work->step].ops] = work;
    }
    times->works = works;
    times->work_count = count;
    times->length = arena_array(memory, (size_t)times->group_count + 1, sizeof *times->length);
}

/// The mean of every kind and part of the model: the median over the replicas.
static void find_means(ana_work_times *times, arena *memory)
{
    const size_t replicas = (size_t)times->run->replica_count;
    const int cells = ANA_WORK_KINDS * times->part_count;
    double *sums = memory_array((size_t)cells * replicas * 2, sizeof *sums);
    double *means = memory_array(replicas, sizeof *means);
    times->mean_ns = arena_array(memory, (size_t)cells, sizeof *times->mean_ns);
    for (int64_t each = 0; each < times->work_count; each++) {
        const ana_work *work = &times->works[each];
        const size_t row = (size_t)cell_of(times, work) * replicas;
        double *sum = &sums[2 * (row + (size_t)work->op->replica)];
        sum[0] += (double)work->own_ns;
        sum[1]++;
    }
    for (int cell = 0; cell < cells; cell++) {
        int count = 0;
        for (size_t replica = 0; replica < replicas; replica++) {
            const double *sum = &sums[2 * ((size_t)cell * replicas + replica)];
            if (sum[1] > 0) means[count++] = sum[0] / sum[1];
        }
        times->mean_ns[cell] = ana_lower_median(means, count);
    }
    free(sums);
    free(means);
}

/// The length of every group, by what its ops took beside the factors of their workers.
static void find_lengths(ana_work_times *times)
{
    const size_t cells = (size_t)times->run->step_count * ANA_WORK_KINDS;
    double *ratios = memory_array((size_t)times->work_count + 1, sizeof *ratios);
    int *counts = memory_array(cells, sizeof *counts);
    double *usual = times->usual_length;
    memset(usual, 0, cells * sizeof *usual);
    for (int64_t begin = 0, end = 0; begin < times->work_count; begin = end) {
        const ana_work *first = &times->works[begin];
        for (; end < times->work_count && times->works[end].group == first->group; end++) {
            ratios[end - begin] = ratio_of(times, &times->works[end]);
        }
        times->length[first->group] = ana_lower_median(ratios, (int)(end - begin));
        usual[first->step * ANA_WORK_KINDS + first->kind] += times->length[first->group];
        counts[first->step * ANA_WORK_KINDS + first->kind]++;
    }
    for (size_t cell = 0; cell < cells; cell++) {
        if (counts[cell] > 0) usual[cell] /= counts[cell];
        const size_t of_step = cell - cell % ANA_WORK_KINDS;
        if (times->part_count == 1) usual[cell] = usual[of_step]; // one group for all kinds
    }
    free(ratios);
    free(counts);
}

/// The factor of a worker: its mean over the steps, and the standard error of that.
static void average_factor(const double *sums, int worker, double *steps, ana_work_times *times)
{
    const size_t workers = (size_t)times->run->worker_count;
    size_t count = 0;
    for (int step = 0; step < times->run->step_count; step++) {
        const double *sum = sums + 2 * ((size_t)step * workers + (size_t)worker);
        if (sum[0] > 0 && sum[1] > 0) steps[count++] = sum[0] / sum[1];
    }
    if (count > 0) times->factor[worker] = gsl_stats_mean(steps, 1, count);
    if (count > 1)
        times->factor_error[worker] = gsl_stats_sd(steps, 1, count) / sqrt((double)count);
}

/// What every worker took in each step over what was expected of it by part and, where other parts
/// tell them, lengths; then over the other replicas of its stage.
static void find_factors(ana_work_times *times)
{
    const ana_op_run *run = times->run;
    const size_t steps = (size_t)run->step_count;
    double *sums = memory_array(steps * (size_t)run->worker_count * 2, sizeof *sums);
    double *scratch = memory_array(steps + (size_t)run->replica_count, sizeof *scratch);
    for (int64_t each = 0; each < times->work_count; each++) {
        const ana_work *work = &times->works[each];
        const size_t row = (size_t)work->step * (size_t)run->worker_count;
        double *sum = &sums[2 * (row + (size_t)work->op->rank)];
        double expected_ns = times->mean_ns[cell_of(times, work)];
        if (times->part_count > 1) expected_ns *= times->length[work->group];
        sum[0] += (double)work->own_ns;
        sum[1] += expected_ns;
    }
    for (int worker = 0; worker < run->worker_count; worker++) {
        average_factor(sums, worker, scratch, times);
    }
    for (int stage = 0; stage < run->stage_count; stage++) {
        for (int replica = 0; replica < run->replica_count; replica++) {
            scratch[replica] = times->factor[replica * run->stage_count + stage];
        }
        const double usual = ana_lower_median(scratch, run->replica_count);
        for (int replica = 0; replica < run->replica_count && usual > 0; replica++) {
            times->factor[replica * run->stage_count + stage] /= usual;
            times->factor_error[replica * run->stage_count + stage] /= usual;
        }
    }
    free(sums);
    free(scratch);
}

double ana_work_expected_ns(const ana_work_times *times, const ana_work *work)
{
    return times->mean_ns[cell_of(times, work)] * times->factor[work->op->rank] *
           times->length[work->group];
}

/// Whether an op took more than the limit of the rest.
static bool is_over_limit(const ana_work_times *times, const ana_work *work)
{
    const double expected_ns = ana_work_expected_ns(times, work);
    return expected_ns > 0 &&
           (double)work->own_ns > expected_ns * (1 + times->rest_limit[work->kind]);
}

static size_t step_cell_of(const ana_work_times *times, const ana_work *work)
{
    return (size_t)work->step * ANA_WORK_KINDS * (size_t)times->part_count +
           (size_t)cell_of(times, work);
}

/// A pause holds up single ops. Where most ops of a part are over the limit in a step, the part had
/// more to do in it than in others: layers were frozen, tokens left early.
static void find_changes(ana_work_times *times, arena *memory)
{
    enum { OPS_MIN = 4 };
    const size_t cells =
        (size_t)times->run->step_count * ANA_WORK_KINDS * (size_t)times->part_count;
    int *counts = memory_array(cells * 2, sizeof *counts); // of all, of those over the limit
    times->is_changed = arena_array(memory, cells, sizeof *times->is_changed);
    for (int64_t each = 0; each < times->work_count; each++) {
        int *count = &counts[2 * step_cell_of(times, &times->works[each])];
        count[0]++;
        count[1] += is_over_limit(times, &times->works[each]);
    }
    for (size_t cell = 0; cell < cells; cell++) {
        const int *count = &counts[2 * cell];
        times->is_changed[cell] = count[0] >= OPS_MIN && 2 * count[1] > count[0];
    }
    free(counts);
}

bool ana_work_is_held_up(const ana_work_times *times, const ana_work *work)
{
    return !times->is_changed[step_cell_of(times, work)] && is_over_limit(times, work);
}

/// Scatter of the rest of all ops but those held up, which its median does not see.
static void find_limits(ana_work_times *times, arena *memory)
{
    double *rests = memory_array((size_t)times->work_count + 1, sizeof *rests);
    times->rest_limit = arena_array(memory, ANA_WORK_KINDS, sizeof *times->rest_limit);
    for (int kind = 0; kind < ANA_WORK_KINDS; kind++) {
        int count = 0;
        for (int64_t each = 0; each < times->work_count; each++) {
            const ana_work *work = &times->works[each];
            const double expected_ns = ana_work_expected_ns(times, work);
            if (work->kind != kind || expected_ns <= 0) continue;
            const double rest = fabs((double)work->own_ns / expected_ns - 1);
            if (rest > 1e-9) rests[count++] = rest; // of each group one op is its length: 0
        }
        const double limit = 8 * 1.4826 * ana_lower_median(rests, count);
        times->rest_limit[kind] = limit > 0.15 ? limit : 0.15;
    }
    free(rests);
}

typedef struct pair {
    double forward; // over the mean of its part of the model and the factor of its worker
    double backward;
} pair;

/// The F of the first and the backwards of the last part of the model in the step of a work and
/// those that follow it, by replica and microbatch, less the factors of their workers.
///
/// @param at out: the first work of the next step
/// @return how many pairs
static int find_pairs(const ana_work_times *times, int64_t *at, pair *pairs)
{
    const int step = times->works[*at].step;
    int counts[2] = {0};
    for (; *at < times->work_count && times->works[*at].step == step; ++*at) {
        const ana_work *work = &times->works[*at];
        if (work->kind > 1 || work->op->layer != (work->kind == 0 ? 0 : times->part_count - 1))
            continue;
        // Groups are sorted: the k-th F and the k-th backward are of one microbatch.
        pair *into = &pairs[counts[work->kind]++];
        *(work->kind == 0 ? &into->forward : &into->backward) =
            ana_work_is_held_up(times, work) ? times->length[work->group] : ratio_of(times, work);
    }
    return counts[0] == counts[1] ? counts[0] : 0;
}

static double correlate(const ana_work_times *times)
{
    pair *pairs = memory_array((size_t)times->work_count + 1, sizeof *pairs);
    int64_t all = 0;
    for (int64_t at = 0; at < times->work_count;) {
        pair mean = {0};
        pair *of_step = pairs + all;
        const int count = find_pairs(times, &at, of_step);
        for (int each = 0; each < count; each++) {
            mean.forward += of_step[each].forward / count;
            mean.backward += of_step[each].backward / count;
        }
        for (int each = 0; each < count; each++) {
            of_step[each].forward -= mean.forward;
            of_step[each].backward -= mean.backward;
        }
        all += count;
    }
    const size_t stride = sizeof(pair) / sizeof(double);
    const double found = all < 8 ? 0
                                 : gsl_stats_correlation(&pairs[0].forward, stride,
                                                         &pairs[0].backward, stride, (size_t)all);
    free(pairs);
    return isfinite(found) ? found : 0;
}

void ana_work_times_of(const ana_op_run *run, arena *memory, ana_work_times *times)
{
    *times = (ana_work_times){.run = run, .part_count = run->stage_count * run->table->chunk_count};
    const size_t workers = (size_t)run->worker_count;
    const size_t steps = (size_t)run->step_count;
    times->factor = arena_array(memory, workers, sizeof(double));
    times->factor_error = arena_array(memory, workers, sizeof(double));
    times->usual_length = arena_array(memory, steps * ANA_WORK_KINDS, sizeof(double));
    for (int worker = 0; worker < run->worker_count; worker++) {
        times->factor[worker] = 1;
    }
    list_works(times, memory);
    find_means(times, memory);
    // Where the model has several parts the lengths come from what most of them say, and then the
    // workers; a single part cannot tell a slow worker from long microbatches but over the run.
    if (times->part_count > 1) find_lengths(times);
    find_factors(times);
    find_lengths(times);
    find_limits(times, memory);
    find_changes(times, memory);
    times->correlation = correlate(times);
}
