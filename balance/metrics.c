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

/// What the ops of one rank add up to.
typedef struct rank_sums {
    int64_t begin_ns;
    int64_t end_ns;
    int64_t work_ns;
} rank_sums;

static rank_sums sum_rank(const bal_timeline *timeline, int first, int end)
{
    rank_sums sums = {.begin_ns = timeline->begin_ns[first], .end_ns = timeline->end_ns[first]};
    for (int op = first; op < end; op++) {
        if (timeline->begin_ns[op] < sums.begin_ns) sums.begin_ns = timeline->begin_ns[op];
        if (timeline->end_ns[op] > sums.end_ns) sums.end_ns = timeline->end_ns[op];
        sums.work_ns += timeline->end_ns[op] - timeline->begin_ns[op];
    }
    return sums;
}

bal_metrics bal_metrics_of(const bal_timeline *timeline)
{
    const bal_schedule *schedule = timeline->schedule;
    const int rank_count = schedule->rank_count;
    bal_metrics metrics = {.imbalance_ratio = 1.0};
    int64_t begin_ns = INT64_MAX;
    int64_t end_ns = INT64_MIN;
    int64_t work_min_ns = INT64_MAX;
    for (int rank = 0; rank < rank_count; rank++) {
        const int first = schedule->first_op[rank];
        const int end = schedule->first_op[rank + 1];
        if (first == end) {
            work_min_ns = 0;
            continue;
        }
        const rank_sums sums = sum_rank(timeline, first, end);
        const int64_t span_ns = sums.end_ns - sums.begin_ns;
        if (sums.begin_ns < begin_ns) begin_ns = sums.begin_ns;
        if (sums.end_ns > end_ns) end_ns = sums.end_ns;
        if (span_ns > metrics.span_ns) metrics.span_ns = span_ns;
        if (sums.work_ns > metrics.work_max_ns) metrics.work_max_ns = sums.work_ns;
        if (sums.work_ns < work_min_ns) work_min_ns = sums.work_ns;
        metrics.busy_ns += sums.work_ns;
    }
    if (metrics.busy_ns == 0) {
        if (end_ns > begin_ns) metrics.makespan_ns = end_ns - begin_ns;
        return metrics;
    }
    metrics.makespan_ns = end_ns - begin_ns;
    const double total = (double)rank_count * (double)metrics.makespan_ns;
    const double busy = (double)metrics.busy_ns;
    metrics.bubble_ratio = 1.0 - busy / total;
    metrics.bubble_overhead_ratio = (total - busy) / busy;
    metrics.zb_bubble_rate = 1.0 - (double)metrics.work_max_ns / (double)metrics.span_ns;
    metrics.imbalance_ratio = (double)metrics.work_max_ns * rank_count / busy;
    metrics.load_spread_ratio = (double)(metrics.work_max_ns - work_min_ns) * rank_count / busy;
    return metrics;
}

/// Change of memory by an op; stage is its own.
static int64_t memory_change(const bal_stage_costs *costs, int stage, uint8_t kind)
{
    switch (kind) {
    case OP_FORWARD:
        return costs->memory_forward[stage];
    case OP_BACKWARD_INPUT:
        return costs->memory_backward_input[stage];
    case OP_BACKWARD_WEIGHT:
        return costs->memory_backward_weight[stage];
    default:
        return costs->memory_backward_input[stage] + costs->memory_backward_weight[stage];
    }
}

void bal_memory_peak(const bal_schedule *schedule, const bal_stage_costs *costs, int64_t *peak)
{
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        int64_t held = 0;
        int64_t largest = 0;
        for (int index = schedule->first_op[rank]; index < schedule->first_op[rank + 1]; index++) {
            const bal_op op = schedule->ops[index];
            const int stage = bal_stage_of(schedule->placement, schedule->rank_count,
                                           schedule->chunk_count, rank, op.chunk);
            held += memory_change(costs, stage, op.kind);
            if (held > largest) largest = held;
        }
        peak[rank] = largest;
    }
}
