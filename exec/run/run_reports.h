/// What the ranks measured of an iteration, as they tell the leader.
#pragma once

#include "balance/layer_costs.h"
#include "balance/timeline.h"
#include "base/arena.h"
#include "base/status.h"
#include "exec/device.h"
#include "exec/run/rank.h"
#include "exec/run/run_plan.h"
#include "exec/run/run_ranks.h"
#include "exec/transport/parcel.h"

#include <stdbool.h>
#include <stdint.h>

/// What one rank tells.
typedef struct exec_rank_report {
    exec_rank_times times;
    int step_count;     // 0 without a place
    int64_t reduced_ns; // of the gradients, from when all ranks had played their ops
    int64_t stepped_ns; // until after step and adapt, from the same moment
    bool has_loss;      // the head is on this rank
    bool has_changed;   // the mechanism's loads may be others from now on
    double loss;
    double gradient_norm;
    exec_layer_report layers; // layer_count 0: not told
} exec_rank_report;

/// Puts the report of this rank into a parcel for the leader.
status exec_rank_report_put(exec_parcel *parcel, const exec_rank_report *report);

/// What all ranks of the crew have told, as the leader reads it.
typedef struct exec_run_reports {
    const bal_timeline *timelines; // [replica_count]
    bool has_layers;               // layers were measured
    bal_layer_costs *layers;       // [replica_count] then, one column per microbatch
    int64_t *load_count;           // [layer_count][microbatch_count][load_columns], replica 0
    int load_columns;
    bool has_changed;
    double loss;          // mean over the replicas
    double gradient_norm; // of replica 0
    int64_t reduced_ns;   // largest over the ranks
    int64_t stepped_ns;   // likewise
    int64_t overhead_ns;  // sums over the ranks
    int64_t wake_ns;
    int64_t latency_ns;
    int64_t op_count;
    int64_t message_count;
} exec_run_reports;

/// What was gathered of a command, at the leader.
typedef struct exec_gathered {
    const exec_group *group;
    int64_t *sizes; // [group->rank_count] bytes of each rank's parcel
    void *bytes;    // one behind the other
} exec_gathered;

/// The parcel of a rank of the group.
///
/// @param offset in and out: where it begins; 0 for the first. Ranks are read in their order
exec_parcel exec_gathered_next(const exec_gathered *gathered, int index, int64_t *offset);

/// Reads the reports of an iteration.
///
/// @param plan          in force during it
/// @param layer_memory  of layers and load_count: reset where the layers were measured, else kept
/// @param memory        of the rest
/// @param reports       layers and load_count in: of the iteration that was profiled last; the
///                      rest out
status exec_run_reports_read(const exec_gathered *gathered, const exec_run_ranks *ranks,
                             const exec_run_plan *plan, int layer_count, arena *layer_memory,
                             arena *memory, exec_run_reports *reports, error_message *err);
