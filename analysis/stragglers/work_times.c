#include "analysis/stragglers/op_graph.h"

#include <gsl/gsl_sort_double.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>

double ana_lower_median(double *values, int count)
{
    if (count == 0) return 0;
    gsl_sort(values, 1, (size_t)count);
    return values[(count - 1) / 2];
}

int ana_work_kind(const trace_op *op)
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

static double *mean_of(const ana_work_times *times, const trace_op *op)
{
    return &times->mean_ns[ana_work_kind(op) * times->part_count + op->layer];
}

/// What an op took over the mean of its part of the model.
static double ratio_of(const ana_work_times *times, int step, int op)
{
    const ana_op_step *of = &times->run->steps[step];
    const double mean_ns = *mean_of(times, &of->ops[op]);
    return mean_ns > 0 ? (double)of->own_ns[op] / mean_ns : 1;
}

typedef struct grouped {
    int op;
    int kind;
    int replica;
    int microbatch;
} grouped;

static int compare_grouped(const void *a, const void *b)
{
    const grouped *left = a;
    const grouped *right = b;
    if (left->kind != right->kind) return left->kind < right->kind ? -1 : 1;
    if (left->replica != right->replica) return left->replica < right->replica ? -1 : 1;
    if (left->microbatch != right->microbatch) return left->microbatch < right->microbatch ? -1 : 1;
    return (left->op > right->op) - (left->op < right->op);
}

/// Sorts the F and backwards of a step into groups of one microbatch, and of one kind unless the
/// model has a single part.
static void group_step(const ana_op_step *of, bool by_kind, arena *memory, ana_work_step *step)
{
    grouped *works = memory_array((size_t)of->op_count, sizeof *works);
    int count = 0;
    step->group = arena_array(memory, (size_t)of->op_count, sizeof *step->group);
    for (int op = 0; op < of->op_count; op++) {
        const trace_op *each = &of->ops[op];
        const int kind = ana_work_kind(each);
        step->group[op] = -1;
        if (kind < 0) continue;
        works[count++] = (grouped){op, by_kind ? kind : 0, each->replica, each->microbatch};
    }
    qsort(works, (size_t)count, sizeof *works, compare_grouped);
    step->count = count;
    step->ops = arena_array(memory, (size_t)count + 1, sizeof *step->ops);
    step->length = arena_array(memory, (size_t)count + 1, sizeof *step->length);
    for (int each = 0; each < count; each++) {
        const bool is_new = each == 0 || works[each].kind != works[each - 1].kind ||
                            works[each].replica != works[each - 1].replica ||
                            works[each].microbatch != works[each - 1].microbatch;
        if (is_new) step->group_count++;
        step->ops[each] = works[each].op;
        step->group[works[each].op] = step->group_count - 1;
    }
    free(works);
}

/// The mean of every kind and part of the model: the median over the replicas.
static void find_means(ana_work_times *times, arena *memory)
{
    const ana_op_run *run = times->run;
    const int cells = ANA_WORK_KINDS * times->part_count;
    double *sums = memory_array((size_t)cells * (size_t)run->replica_count * 2, sizeof *sums);
    double *means = memory_array((size_t)run->replica_count, sizeof *means);
    times->mean_ns = arena_array(memory, (size_t)cells, sizeof *times->mean_ns);
    for (int step = 0; step < run->step_count; step++) {
        const ana_op_step *of = &run->steps[step];
        for (int each = 0; each < times->steps[step].count; each++) {
            const int op = times->steps[step].ops[each];
            const int cell = ana_work_kind(&of->ops[op]) * times->part_count + of->ops[op].layer;
            double *sum = &sums[2 * ((size_t)cell * (size_t)run->replica_count +
                                     (size_t)of->ops[op].replica)];
            sum[0] += (double)of->own_ns[op];
            sum[1]++;
        }
    }
    for (int cell = 0; cell < cells; cell++) {
        int count = 0;
        for (int replica = 0; replica < run->replica_count; replica++) {
            const double *sum =
                &sums[2 * ((size_t)cell * (size_t)run->replica_count + (size_t)replica)];
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
    double *ratios = memory_array((size_t)times->run->table->op_count + 1, sizeof *ratios);
    for (int step = 0; step < times->run->step_count; step++) {
        const ana_work_step *of = &times->steps[step];
        double *sums = times->usual_length + step * ANA_WORK_KINDS;
        int counts[ANA_WORK_KINDS] = {0};
        for (int begin = 0; begin < of->count;) {
            const int group = of->group[of->ops[begin]];
            int end = begin;
            for (; end < of->count && of->group[of->ops[end]] == group; end++) {
                const int op = of->ops[end];
                const int worker = times->run->steps[step].ops[op].rank;
                ratios[end - begin] = ratio_of(times, step, op) / times->factor[worker];
            }
            of->length[group] = ana_lower_median(ratios, end - begin);
            const int kind = ana_work_kind(&times->run->steps[step].ops[of->ops[begin]]);
            sums[kind] += of->length[group];
            counts[kind]++;
            begin = end;
        }
        for (int kind = 0; kind < ANA_WORK_KINDS; kind++) {
            if (counts[kind] > 0) sums[kind] /= counts[kind];
        }
        if (times->part_count == 1) sums[1] = sums[2] = sums[0]; // one group for all kinds
    }
    free(ratios);
}

/// What every worker took in each step, and what was expected of it by part and, where other parts
/// tell them, lengths. @param sums [step_count][worker_count][2] out
static void sum_work(const ana_work_times *times, double *sums)
{
    const ana_op_run *run = times->run;
    for (int step = 0; step < run->step_count; step++) {
        const ana_op_step *of = &run->steps[step];
        double *row = sums + (size_t)step * (size_t)run->worker_count * 2;
        for (int each = 0; each < times->steps[step].count; each++) {
            const int op = times->steps[step].ops[each];
            const int group = times->steps[step].group[op];
            double expected_ns = *mean_of(times, &of->ops[op]);
            if (times->part_count > 1) expected_ns *= times->steps[step].length[group];
            row[2 * of->ops[op].rank] += (double)of->own_ns[op];
            row[2 * of->ops[op].rank + 1] += expected_ns;
        }
    }
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

static void find_factors(ana_work_times *times)
{
    const ana_op_run *run = times->run;
    const size_t steps = (size_t)run->step_count;
    double *sums = memory_array(steps * (size_t)run->worker_count * 2, sizeof *sums);
    double *scratch = memory_array(steps + (size_t)run->replica_count, sizeof *scratch);
    sum_work(times, sums);
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

double ana_work_expected_ns(const ana_work_times *times, int step, int op)
{
    const trace_op *each = &times->run->steps[step].ops[op];
    const int group = times->steps[step].group[op];
    return *mean_of(times, each) * times->factor[each->rank] * times->steps[step].length[group];
}

/// Whether an op took more than the limit of the rest.
static bool is_over_limit(const ana_work_times *times, int step, int op)
{
    const int kind = ana_work_kind(&times->run->steps[step].ops[op]);
    const double expected_ns = ana_work_expected_ns(times, step, op);
    const double own_ns = (double)times->run->steps[step].own_ns[op];
    return expected_ns > 0 && own_ns > expected_ns * (1 + times->rest_limit[kind]);
}

/// The cell of a step, kind and part of the model.
static size_t cell_of(const ana_work_times *times, int step, const trace_op *op)
{
    const size_t row = (size_t)step * ANA_WORK_KINDS + (size_t)ana_work_kind(op);
    return row * (size_t)times->part_count + (size_t)op->layer;
}

/// A pause holds up single ops. Where most ops of a part are over the limit in a step, the part had
/// more to do in it than in others: layers were frozen, tokens left early.
static void find_changes(ana_work_times *times, arena *memory)
{
    enum { OPS_MIN = 4 };
    const ana_op_run *run = times->run;
    const size_t cells = (size_t)run->step_count * ANA_WORK_KINDS * (size_t)times->part_count;
    int *counts = memory_array(cells * 2, sizeof *counts); // of all, of those over the limit
    times->is_changed = arena_array(memory, cells, sizeof *times->is_changed);
    for (int step = 0; step < run->step_count; step++) {
        for (int each = 0; each < times->steps[step].count; each++) {
            const int op = times->steps[step].ops[each];
            int *count = &counts[2 * cell_of(times, step, &run->steps[step].ops[op])];
            count[0]++;
            count[1] += is_over_limit(times, step, op);
        }
    }
    for (size_t cell = 0; cell < cells; cell++) {
        const int *count = &counts[2 * cell];
        times->is_changed[cell] = count[0] >= OPS_MIN && 2 * count[1] > count[0];
    }
    free(counts);
}

bool ana_work_is_held_up(const ana_work_times *times, int step, int op)
{
    const trace_op *each = &times->run->steps[step].ops[op];
    return ana_work_kind(each) >= 0 && !times->is_changed[cell_of(times, step, each)] &&
           is_over_limit(times, step, op);
}

/// Scatter of the rest of all ops but those held up, which its median does not see.
static void find_limits(ana_work_times *times, arena *memory)
{
    const ana_op_run *run = times->run;
    double *rests = memory_array((size_t)run->table->op_count + 1, sizeof *rests);
    times->rest_limit = arena_array(memory, ANA_WORK_KINDS, sizeof *times->rest_limit);
    for (int kind = 0; kind < ANA_WORK_KINDS; kind++) {
        int count = 0;
        for (int step = 0; step < run->step_count; step++) {
            for (int each = 0; each < times->steps[step].count; each++) {
                const int op = times->steps[step].ops[each];
                if (ana_work_kind(&run->steps[step].ops[op]) != kind) continue;
                const double expected_ns = ana_work_expected_ns(times, step, op);
                const double own_ns = (double)run->steps[step].own_ns[op];
                // Of each group one op is its length: its rest is 0 and says nothing.
                if (expected_ns > 0 && fabs(own_ns / expected_ns - 1) > 1e-9) {
                    rests[count++] = fabs(own_ns / expected_ns - 1);
                }
            }
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

/// The F of the first and the backwards of the last part of the model in a step, by replica and
/// microbatch, less the factors of their workers. @return how many pairs
static int find_pairs(const ana_work_times *times, int step, pair *pairs)
{
    const ana_op_step *of = &times->run->steps[step];
    int counts[2] = {0};
    for (int each = 0; each < times->steps[step].count; each++) {
        const int op = times->steps[step].ops[each];
        const trace_op *this = &of->ops[op];
        const int kind = ana_work_kind(this);
        const int group = times->steps[step].group[op];
        if (kind > 1 || this->layer != (kind == 0 ? 0 : times->part_count - 1)) continue;
        double ratio = ratio_of(times, step, op) / times->factor[this->rank];
        if (ana_work_is_held_up(times, step, op)) ratio = times->steps[step].length[group];
        // Groups are sorted: the k-th F and the k-th backward are of one microbatch.
        pair *into = &pairs[counts[kind]++];
        *(kind == 0 ? &into->forward : &into->backward) = ratio;
    }
    return counts[0] == counts[1] ? counts[0] : 0;
}

static double correlate(const ana_work_times *times)
{
    const ana_op_run *run = times->run;
    const size_t most = (size_t)run->table->op_count + 1;
    pair *pairs = memory_array(most, sizeof *pairs);
    int64_t all = 0;
    for (int step = 0; step < run->step_count; step++) {
        pair mean = {0};
        pair *of_step = pairs + all;
        const int count = find_pairs(times, step, of_step);
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
    times->steps = arena_array(memory, steps, sizeof *times->steps);
    times->usual_length = arena_array(memory, steps * ANA_WORK_KINDS, sizeof(double));
    for (int worker = 0; worker < run->worker_count; worker++) {
        times->factor[worker] = 1;
    }
    for (int step = 0; step < run->step_count; step++) {
        group_step(&run->steps[step], times->part_count > 1, memory, &times->steps[step]);
    }
    find_means(times, memory);
    // Where the model has several parts the lengths come from what most of them say, and then the
    // workers; a single part cannot tell a slow worker from long microbatches but over the run.
    if (times->part_count > 1) find_lengths(times);
    find_factors(times);
    for (size_t cell = 0; cell < steps * ANA_WORK_KINDS; cell++) {
        times->usual_length[cell] = 0;
    }
    find_lengths(times);
    find_limits(times, memory);
    find_changes(times, memory);
    times->correlation = correlate(times);
}
