/// The ops of a recorded run with what each of them waits for, ready to be replayed.
///
/// Per worker the ops that it does by itself, its collectives and what they wait for form one chain
/// in recorded order; sends and receives are streams of their own beside it, one per direction. A
/// receive is waited for by the F or backward that needs its message, in order, and waits for the
/// one before that (unless it was recorded to be posted earlier); a send waits for the one that
/// makes it. A collective that was recorded
/// beside other ops of its worker (overlap) is waited for by the first op of the chain that began
/// after it. All that take part in a collective, and the two ends of a message, go on when the last
/// of them has begun and what they carry has travelled. Where no messages were recorded, F and
/// backward wait for each other.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "traces/store/op_table.h"

#include <stdbool.h>
#include <stdint.h>

/// One step. Ops are in an order in which they can be played; those that go on together (a unit)
/// stand together. 92 bytes per op and 4 per edge.
typedef struct ana_op_step {
    int step;
    int op_count;
    trace_op *ops; // [op_count]
    int unit_count;
    int *first_op;       // [unit_count + 1]
    int *first_before;   // [op_count + 1]
    int *before;         // ops whose end an op waits for
    int *posted;         // [op_count] the op after which a receive was posted; -1: it is none
    int64_t *own_ns;     // [op_count] recorded duration; of messages and collectives since the last
                         // of their unit began
    int64_t *delay_ns;   // [op_count] began so much after all that it waited for: launch delay
    int64_t recorded_ns; // first begin to last end
    int64_t begin_ns;    // first begin
    int negative_count;  // ops of a unit that ended before another of it began: clocks are apart
    int64_t negative_ns; // by so much at most
} ana_op_step;

typedef struct ana_op_run {
    const trace_op_table *table;
    int stage_count;
    int replica_count;
    int worker_count; // replica_count x stage_count
    int kind_count;
    const char **kinds; // [kind_count] names as recorded; a send and its receive are one kind
    int *kind_of_name;  // [name_count]
    int64_t *ideal_ns;  // [name_count] mean of own_ns, of messages and collectives the median
    int step_count;
    ana_op_step *steps; // [step_count]
} ana_op_run;

/// Everything is carved from memory. Time O(ops log ops).
///
/// @param table borrowed as long as run
/// @return STATUS_FORMAT naming step, replica and stage: sends and receives of a link that are not
///         as many as each other or as the F or backwards that need them, a collective that some
///         workers do less often than others, ops that wait for each other in a circle, a step too
///         long for its number of ops
status ana_op_run_make(const trace_op_table *table, arena *memory, ana_op_run *run,
                       error_message *err);

/// The same without steps and ideal times, for one who looks at a step at a time.
status ana_op_run_begin(const trace_op_table *table, arena *memory, ana_op_run *run,
                        error_message *err);

/// A step of a run.
///
/// @param begin in: its first op in the table; out: that of the next step
status ana_op_step_make(const ana_op_run *run, int64_t *begin, arena *memory, ana_op_step *step,
                        error_message *err);

/// Whether ops of a kind are matched with those of other workers.
bool ana_op_is_shared(trace_op_kind kind);

/// How a step is replayed.
typedef struct ana_replay {
    const int64_t *duration_ns; // [op_count] in place of own_ns, or NULL
    bool with_delays;
} ana_replay;

/// Replays a step.
///
/// @param begin_ns, end_ns [op_count] out, from the begin of the step
/// @return its length, ns
int64_t ana_op_step_replay(const ana_op_step *step, const ana_replay *replay, int64_t *begin_ns,
                           int64_t *end_ns);

/// The length alone.
int64_t ana_op_step_length(const ana_op_step *step, const ana_replay *replay);

// What F and backward took, taken apart: mean of the part of the model x factor of the worker x
// length of the microbatch x rest.

enum { ANA_WORK_KINDS = 3 }; // F; B or BW; W

/// An F or backward.
typedef struct ana_work {
    const trace_op *op;
    int64_t own_ns;
    int step;
    int kind;  // in [0, ANA_WORK_KINDS)
    int group; // ops of one microbatch; F and backward apart where the model has several parts
} ana_work;

typedef struct ana_work_times {
    const ana_op_run *run;
    const ana_work *works; // [work_count] by step and group
    int64_t work_count;
    const ana_work ***work_of; // [step_count][op_count]; NULL: it is neither F nor backward
    int group_count;
    double *length;  // [group_count] of a microbatch: what most parts of the model took of it over
                     // what they take in the mean (lower median)
    int part_count;  // of the model: stages x chunks
    double *mean_ns; // [ANA_WORK_KINDS][part_count] median over the replicas of their means
    double *factor;  // [worker_count] of all its ops, against the median of the stage's replicas
    double *factor_error; // [worker_count] standard error over the steps
    double *usual_length; // [step_count][ANA_WORK_KINDS] mean of the lengths
    double *rest_limit;   // [ANA_WORK_KINDS] above which an op was held up: 8 times the scatter of
                          // the rest (from its median deviation), at least 15 %
    bool *is_changed;   // [step_count][ANA_WORK_KINDS][part_count] most of at least 4 ops are above
                        // that: the part changed, nothing held it up
    double correlation; // of F on the first and backward on the last part of the model, less
                        // the means of step and worker; 0 where there are too few
} ana_work_times;

/// Everything is carved from memory. Time O(ops log ops).
void ana_work_times_of(const ana_op_run *run, arena *memory, ana_work_times *times);

/// What an op would have taken with nothing but its part, worker and microbatch, ns.
double ana_work_expected_ns(const ana_work_times *times, const ana_work *work);

/// Whether an op took more than the limit of the rest, unlike most of its part in that step.
bool ana_work_is_held_up(const ana_work_times *times, const ana_work *work);

/// The lower median of values[count], which are reordered; 0 of none.
double ana_lower_median(double *values, int count);
