#include "balance/metrics.h"

double bal_imbalance_ratio(const int64_t *load_ns, int count)
{
    int64_t largest = 0;
    double sum = 0;
    for (int index = 0; index < count; index++) {
        if (load_ns[index] > largest) largest = load_ns[index];
        sum += (double)load_ns[index];
    }
    return sum > 0 ? (double)largest * count / sum : 1.0;
}

double bal_load_spread_ratio(const int64_t *load_ns, int count)
{
    if (count < 1) return 0;
    int64_t smallest = load_ns[0];
    int64_t largest = load_ns[0];
    double sum = 0;
    for (int index = 0; index < count; index++) {
        if (load_ns[index] < smallest) smallest = load_ns[index];
        if (load_ns[index] > largest) largest = load_ns[index];
        sum += (double)load_ns[index];
    }
    return sum > 0 ? (double)(largest - smallest) * count / sum : 0.0;
}

/// Metrics while the ranks are added one by one.
typedef struct rank_totals {
    int64_t begin_ns;
    int64_t end_ns;
    int64_t work_min_ns;
    bal_metrics metrics;
} rank_totals;

static rank_totals totals_start(void)
{
    return (rank_totals){.begin_ns = INT64_MAX,
                         .end_ns = INT64_MIN,
                         .work_min_ns = INT64_MAX,
                         .metrics = {.imbalance_ratio = 1.0}};
}

static void totals_add(rank_totals *totals, int64_t begin_ns, int64_t end_ns, int64_t work_ns)
{
    bal_metrics *metrics = &totals->metrics;
    if (begin_ns < totals->begin_ns) totals->begin_ns = begin_ns;
    if (end_ns > totals->end_ns) totals->end_ns = end_ns;
    if (end_ns - begin_ns > metrics->span_ns) metrics->span_ns = end_ns - begin_ns;
    if (work_ns > metrics->work_max_ns) metrics->work_max_ns = work_ns;
    if (work_ns < totals->work_min_ns) totals->work_min_ns = work_ns;
    metrics->busy_ns += work_ns;
}

static bal_metrics totals_finish(const rank_totals *totals, int rank_count)
{
    bal_metrics metrics = totals->metrics;
    if (totals->end_ns > totals->begin_ns) metrics.makespan_ns = totals->end_ns - totals->begin_ns;
    if (metrics.busy_ns == 0) return metrics;
    const double total = (double)rank_count * (double)metrics.makespan_ns;
    const double busy = (double)metrics.busy_ns;
    metrics.bubble_ratio = (total - busy) / total;
    metrics.zb_bubble_rate =
        (double)(metrics.span_ns - metrics.work_max_ns) / (double)metrics.span_ns;
    metrics.imbalance_ratio = (double)metrics.work_max_ns * rank_count / busy;
    metrics.load_spread_ratio =
        (double)(metrics.work_max_ns - totals->work_min_ns) * rank_count / busy;
    return metrics;
}

double bal_bubble_ratio(double busy_ns, double total_ns)
{
    return total_ns > 0 ? 1 - busy_ns / total_ns : 0;
}

/// First begin of the ops of a rank that has some, last end, and the sum of all.
static void sum_rank(const bal_timeline *timeline, int rank, int64_t *begin_ns, int64_t *end_ns,
                     int64_t *work_ns)
{
    const int first = timeline->schedule->first_op[rank];
    const int end = timeline->schedule->first_op[rank + 1];
    *begin_ns = INT64_MAX;
    *end_ns = INT64_MIN;
    *work_ns = 0;
    for (int op = first; op < end; op++) {
        if (timeline->begin_ns[op] < *begin_ns) *begin_ns = timeline->begin_ns[op];
        if (timeline->end_ns[op] > *end_ns) *end_ns = timeline->end_ns[op];
        *work_ns += timeline->end_ns[op] - timeline->begin_ns[op];
    }
}

bal_metrics bal_metrics_of(const bal_timeline *timeline)
{
    const bal_schedule *schedule = timeline->schedule;
    rank_totals totals = totals_start();
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        if (schedule->first_op[rank] == schedule->first_op[rank + 1]) {
            totals.work_min_ns = 0;
            continue;
        }
        int64_t begin_ns = 0;
        int64_t end_ns = 0;
        int64_t work_ns = 0;
        sum_rank(timeline, rank, &begin_ns, &end_ns, &work_ns);
        totals_add(&totals, begin_ns, end_ns, work_ns);
    }
    return totals_finish(&totals, schedule->rank_count);
}

bal_metrics bal_metrics_of_ranks(const int64_t *begin_ns, const int64_t *end_ns,
                                 const int64_t *work_ns, int rank_count)
{
    rank_totals totals = totals_start();
    for (int rank = 0; rank < rank_count; rank++) {
        totals_add(&totals, begin_ns[rank], end_ns[rank], work_ns[rank]);
    }
    return totals_finish(&totals, rank_count);
}

void bal_timeline_sum(const bal_timeline *timeline, int64_t *begin_ns, int64_t *end_ns,
                      int64_t *work_ns)
{
    for (int rank = 0; rank < timeline->schedule->rank_count; rank++) {
        sum_rank(timeline, rank, &begin_ns[rank], &end_ns[rank], &work_ns[rank]);
    }
}

int64_t bal_memory_change(const bal_stage_costs *costs, int stage, bal_op_kind kind)
{
    return kind == OP_BACKWARD
               ? costs->memory_backward_input[stage] + costs->memory_backward_weight[stage]
               : costs->memory_changes[kind][stage];
}

void bal_memory_peak(const bal_schedule *schedule, const bal_stage_costs *costs, int64_t *peak)
{
    int64_t change[BAL_CHUNKS_MAX][OP_KIND_COUNT];
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        int64_t held = 0;
        int64_t largest = 0;
        for (int chunk = 0; chunk < schedule->chunk_count; chunk++) {
            const int stage = bal_schedule_stage(schedule, rank, chunk);
            for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
                change[chunk][kind] = bal_memory_change(costs, stage, (bal_op_kind)kind);
            }
        }
        for (int index = schedule->first_op[rank]; index < schedule->first_op[rank + 1]; index++) {
            const bal_op op = schedule->ops[index];
            held += change[op.chunk][op.kind];
            if (held > largest) largest = held;
        }
        peak[rank] = largest;
    }
}
