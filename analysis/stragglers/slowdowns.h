/// What stragglers cost a recorded run, by replaying what would have been without them.
///
/// Source: Lin et al., Understanding Stragglers in Large Model Training Using What-if Analysis,
/// OSDI'25. A run without stragglers has every op at its kind's ideal time. The slowdown of a part
/// (a kind, a stage, a replica, a worker) is that of a run in which only the ops of that part keep
/// their own time.
#pragma once

#include "analysis/stragglers/op_graph.h"

/// One step, ns.
typedef struct ana_straggler_step {
    int step;
    int64_t recorded_ns;
    int64_t delayed_ns;  // replayed with the launch delays that were recorded
    int64_t replayed_ns; // replayed without them
    int64_t ideal_ns;    // with every op at its kind's ideal time
} ana_straggler_step;

/// What a run is taken apart by.
typedef enum ana_slow_part {
    ANA_SLOW_KIND,
    ANA_SLOW_STAGE,
    ANA_SLOW_REPLICA,
    ANA_SLOW_WORKER,
    ANA_SLOW_COUNT
} ana_slow_part;

typedef struct ana_slowdowns {
    ana_straggler_step *steps;       // [step_count]
    double slowdown;                 // sum of replayed over sum of ideal
    double launch_slowdown;          // sum of recorded over sum of replayed
    double *by[ANA_SLOW_COUNT];      // [parts of the kind]; workers each replayed alone
    double *step_by[ANA_SLOW_COUNT]; // [step_count][parts of the kind] the same of every step
    int slow_worker_count;           // 3 % of the workers, rounded up: those slowed most
    bool *is_slow;                   // [worker_count]
    double worker_share; // M_W: of the time lost, what is won with only those at ideal times
    double stage_share;  // M_S: the same of the last stage; 0 with one stage
} ana_slowdowns;

/// Everything is carved from memory. Time O(ops x (kinds + stages + replicas + workers)).
void ana_slowdowns_of(const ana_op_run *run, arena *memory, ana_slowdowns *slowdowns);
