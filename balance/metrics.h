/// Every number that is reported about a timeline or about stage loads: each defined once, here.
#pragma once

#include "balance/costs/stage_costs.h"
#include "balance/schedule/schedule.h"

#include <stdint.h>

typedef struct bal_metrics {
    int64_t makespan_ns;      // first op begin to last op end over all ranks: an iteration's length
                              // with a global barrier at the optimizer step
    int64_t span_ns;          // largest over ranks of (last end - own first begin): the iteration's
                              // length with post-validation; the zero-bubble papers' cost
    int64_t busy_ns;          // sum of op times over all ranks
    int64_t work_max_ns;      // largest sum of op times of one rank
    double bubble_ratio;      // 1 - busy / (rank_count * makespan), in [0, 1)
    double zb_bubble_rate;    // 1 - work_max / span
    double imbalance_ratio;   // max / mean of the ranks' work, >= 1
    double load_spread_ratio; // (max - min) / mean of the ranks' work: the paper's Delta L
    // Of an iteration of a run: bal_published_eq1_of its costs; else 0.
    double published_eq1_ratio;
    double published_eq1_unequal_ratio;
} bal_metrics;

/// Derives all metrics from begin and end of the ops. Ratios of an empty timeline are 0
/// (imbalance_ratio 1). Time O(ops), no allocation.
bal_metrics bal_metrics_of(const bal_timeline *timeline);

/// The same from what a replay keeps of every rank; each must have played at least one op.
///
/// @param begin_ns, end_ns, work_ns [rank_count] begin of its first op, end of its last, sum of all
bal_metrics bal_metrics_of_ranks(const int64_t *begin_ns, const int64_t *end_ns,
                                 const int64_t *work_ns, int rank_count);

/// What bal_metrics_of_ranks takes, of a timeline: [rank_count] each, out.
void bal_timeline_sum(const bal_timeline *timeline, int64_t *begin_ns, int64_t *end_ns,
                      int64_t *work_ns);

/// 1 - busy / total of sums over many iterations or ranks; 0 where total is 0.
double bal_bubble_ratio(double busy_ns, double total_ns);

/// Imbalance of loads alone.
///
/// @param load_ns [count], >= 0
double bal_imbalance_ratio(const int64_t *load_ns, int count);
double bal_load_spread_ratio(const int64_t *load_ns, int count);

/// Change of memory by an op of a stage: of F when it begins, of the others when they end.
int64_t bal_memory_change(const bal_stage_costs *costs, int stage, bal_op_kind kind);

/// The largest memory of each rank, op by op in its order: prefix sums of the changes in costs.
///
/// @param peak [schedule->rank_count] out, in the unit of costs->memory_*; never below 0
void bal_memory_peak(const bal_schedule *schedule, const bal_stage_costs *costs, int64_t *peak);
