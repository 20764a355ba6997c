/// What F and backward took, taken apart: mean of the part of the model x factor of the worker x
/// length of the microbatch x rest.
#pragma once

#include "analysis/stragglers/op_graph.h"

enum { ANA_WORK_KINDS = 3 }; // F; B or BW; W

typedef struct ana_work_step {
    int count;      // of F and backwards
    int *ops;       // [count] places in the step, by group
    int *group;     // [op_count] of an op; -1: it is neither F nor backward
    double *length; // [group_count] of a microbatch: what most parts of the model took of it over
                    // what they take in the mean (lower median); F and backward apart where the
                    // model has several parts
    int group_count;
} ana_work_step;

typedef struct ana_work_times {
    const ana_op_run *run;
    int part_count;  // of the model: stages x chunks
    double *mean_ns; // [ANA_WORK_KINDS][part_count] median over the replicas of their means
    double *factor;  // [worker_count] of all its ops, against the median of the stage's replicas
    double *factor_error; // [worker_count] standard error over the steps
    ana_work_step *steps; // [step_count]
    double *usual_length; // [step_count][ANA_WORK_KINDS] mean of the lengths
    double *rest_limit;   // [ANA_WORK_KINDS] above which an op was held up: 8 times the scatter of
                          // the rest (from its median deviation), at least 15 %
    bool *is_changed;   // [step_count][ANA_WORK_KINDS][part_count] most of at least 4 ops are above
                        // that: the part changed, nothing held it up
    double correlation; // of F on the first and backward on the last part of the model, less
                        // the means of step and worker; 0 where there are too few
} ana_work_times;

/// The kind of an F or backward, in [0, ANA_WORK_KINDS); -1 for any other op.
int ana_work_kind(const trace_op *op);

/// Everything is carved from memory. Time O(ops log ops).
void ana_work_times_of(const ana_op_run *run, arena *memory, ana_work_times *times);

/// What an op of a step would have taken with nothing but its part, worker and microbatch, ns.
double ana_work_expected_ns(const ana_work_times *times, int step, int op);

/// Whether an op took more than the limit of the rest, unlike most of its part in that step; an op
/// that is no work did not.
bool ana_work_is_held_up(const ana_work_times *times, int step, int op);

/// The lower median of values[count], which are reordered; 0 of none.
double ana_lower_median(double *values, int count);
