/// A plan's prediction against a run, or a run against another: quantity by quantity, with what
/// departed first and the most likely cause.
///
/// Changes are relative: measured / planned - 1 of lengths, work and memory; differences over the
/// planned iteration of idle time and of what lies outside the pipeline; differences over a
/// microbatch's share of the planned iteration of messages (README.md says why). They are taken
/// iteration by iteration where both sides have the same iterations, so that what changes while
/// training goes on cancels.
#pragma once

#include "analysis/check/observed.h"
#include "balance/plan.h"
#include "balance/run/training.h"
#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

// How far pairs of values are apart, with an interval that supposes no distribution.

typedef struct ana_shift {
    double estimate;
    double low; // the shift is in [low, high] with the confidence that was asked for
    double high;
    bool is_bounded;  // false: too few values for that confidence; low and high are not set
    int needed_count; // of values, at least, for that confidence
} ana_shift;

/// The median of the differences of pairs from since on, with the interval between two order
/// statistics that the sign test does not reject.
///
/// Values that resemble their neighbours tell less than as many that do not: where the signs of all
/// about the medians before and after are correlated beyond 2 / sqrt(count), the ranks of the
/// interval are those of as many values as these count for (shift.c); where those are too few for
/// the confidence it goes beyond the smallest and the largest by the median absolute deviation.
///
/// @param values [count] differences in the order in which they came
/// @param since  0: all of them
/// @param alpha  in (0, 1): how often the interval may miss the median
void ana_shift_since(const double *values, int count, int since, double alpha, arena *scratch,
                     ana_shift *shift);

/// The mean of the differences of pairs, with Student's interval for as many values as these count
/// for, where those are 12 or more; else it is not bounded.
void ana_shift_of_mean(const double *values, int count, double alpha, arena *scratch,
                       ana_shift *shift);

/// Sorts in place, ascending. @return the median; 0 of none
double ana_shift_median(double *values, int count);

/// What is compared, causes before effects: of what departs in the same iteration the first counts.
typedef enum ana_check_group {
    ANA_CHECK_PLAN,      ///< layers and ranks of the first iteration
    ANA_CHECK_ORDER,     ///< of ops on each rank
    ANA_CHECK_OP,        ///< time of an op, by stage and kind
    ANA_CHECK_MESSAGE,   ///< way of an awaited message, by the stage and kind that receive it
    ANA_CHECK_OUTSIDE,   ///< iteration less makespan: reduction, step, decision, migration
    ANA_CHECK_BUSY,      ///< of a rank: sum of its ops
    ANA_CHECK_IDLE,      ///< of a rank: makespan less that
    ANA_CHECK_ITERATION, ///< the length
    ANA_CHECK_DECISIONS, ///< plans in force after the first iteration, and what led to them
    ANA_CHECK_MEMORY,    ///< peak of a rank
    ANA_CHECK_GROUP_COUNT
} ana_check_group;

/// "plan", "order", "op", ...: for options and files.
extern const char *const ana_check_group_names[ANA_CHECK_GROUP_COUNT];

typedef enum ana_check_verdict {
    ANA_CHECK_AGREES,    ///< the interval is within the tolerance
    ANA_CHECK_DEPARTS,   ///< the interval is beyond it
    ANA_CHECK_UNDECIDED, ///< it is across it, or too few iterations
    ANA_CHECK_IGNORED,   ///< it departs, and was asked not to count
    ANA_CHECK_VERDICT_COUNT
} ana_check_verdict;

/// "agrees", "departs", "undecided", "ignored".
extern const char *const ana_check_verdict_names[ANA_CHECK_VERDICT_COUNT];

typedef struct ana_check_options {
    double tolerance;  // in (0, 1): 0.05 is 5 %
    double confidence; // in [0.5, 1): chance that no quantity is said to depart which does not
    int warmup;        // iterations that are dropped; -1: found
    bool only_slower;  // what is shorter or smaller than planned agrees; idle time
                       // is left out
    bool ignores[ANA_CHECK_GROUP_COUNT];
} ana_check_options;

ana_check_options ana_check_options_default(void);

/// One quantity of one rank, stage or of the whole.
typedef struct ana_check_quantity {
    ana_check_group group;
    int rank;  // of the machine; -1: none
    int stage; // -1: none
    bal_op_kind op;
    char name[64];    // "F of stage 1 (rank 1)"
    bool is_number;   // false: plans and orders, which have only verdict, since and detail
    bool is_bytes;    // else ns
    bool is_of_means; // planned, measured and change are; else of medians
    double planned;
    double measured;
    ana_shift change; // relative, see above
    int count;        // of iterations that were compared
    ana_check_verdict verdict;
    int since;        // iteration from which on it departs; -1
    char detail[320]; // what differs, of plans and orders; else what the verdict goes by, or ""
} ana_check_quantity;

typedef enum ana_check_cause_kind {
    ANA_CHECK_CAUSE_NONE,      ///< nothing departs
    ANA_CHECK_CAUSE_PLAN,      ///< another plan to begin with
    ANA_CHECK_CAUSE_ALL_OPS,   ///< ops of all stages alike: machine or kernels
    ANA_CHECK_CAUSE_KIND,      ///< ops of one kind on all stages
    ANA_CHECK_CAUSE_STAGES,    ///< ops of some stages
    ANA_CHECK_CAUSE_STRAGGLER, ///< all ops of one rank by one factor
    ANA_CHECK_CAUSE_LINK,      ///< messages that come late though they were sent in time
    ANA_CHECK_CAUSE_ORDER,     ///< ops in another order
    ANA_CHECK_CAUSE_DECISION,  ///< the controller decided otherwise
    ANA_CHECK_CAUSE_OUTSIDE,   ///< time outside the pipeline
    ANA_CHECK_CAUSE_MEMORY,    ///< only memory
    ANA_CHECK_CAUSE_UNKNOWN,   ///< none of these
    ANA_CHECK_CAUSE_COUNT
} ana_check_cause_kind;

/// "none", "plan", "ops-of-all-stages", ...: for files.
extern const char *const ana_check_cause_names[ANA_CHECK_CAUSE_COUNT];

enum { ANA_CHECK_LINES_MAX = 12, ANA_CHECK_LINE_BYTES = 400 };

/// Lines for people.
typedef struct ana_check_lines {
    char line[ANA_CHECK_LINES_MAX][ANA_CHECK_LINE_BYTES];
    int count;
} ana_check_lines;

typedef struct ana_check_cause {
    ana_check_cause_kind kind;
    int rank;      // of a straggler; -1
    double factor; // of a straggler, of ops of all stages: measured / planned; else 0
    char summary[ANA_CHECK_LINE_BYTES];
    ana_check_lines evidence;
} ana_check_cause;

/// An iteration of both sides.
typedef struct ana_check_pair {
    int plan_row; // index into iterations
    int measured_row;
    bool same_plan; // the same layers on the same ranks
} ana_check_pair;

typedef struct ana_check {
    const ana_observed *plan;
    const ana_observed *measured;
    ana_check_options options;
    const ana_check_pair *pairs; // [pair_count] iterations that both have, in ascending order; or,
    int pair_count;              // where they share none, both in order
    int warmup;                  // iterations dropped at the start of what is compared
    bool is_paired;              // false: they share no iteration
    bool is_exact;               // both are predictions
    bool has_stalls;             // both were measured, and may have stalled
    ana_check_quantity *quantities; // [quantity_count] in the order of the groups
    int quantity_count;
    int length;                // the quantity that is the iterations' length
    ana_check_verdict verdict; // of all: agrees, departs or undecided
    int first;                 // the quantity that departed first; -1
    ana_check_cause cause;
    ana_check_lines notes; // what a reader has to know
} ana_check;

/// Compares.
///
/// @param plan, measured borrowed for the life of the check
/// @param memory         of the arrays of the check
/// @param options        within their limits (asserted)
/// @return STATUS_INVALID for runs of different layers, microbatches, stages, replicas or
///         schedules, naming both; for a warm-up that leaves no iteration
status ana_check_compare(const ana_observed *plan, const ana_observed *measured,
                         const ana_check_options *options, arena *memory, ana_check *check,
                         error_message *err);

/// Appends what people read: the quantities that do not agree, and the worst of each group.
void ana_check_print(const ana_check *check, text_buffer *out);

/// Appends one JSON object, "dynmo-check/1", with every quantity, and a line end.
void ana_check_write(const ana_check *check, text_buffer *out);

// A run under one plan that stays: what a plan file predicts, iteration by iteration.

/// Simulates every iteration of a run under a plan, as `dynmo run` executes it, and hands each to
/// training->sink. Nothing is decided; balancer and policy are not read.
///
/// @param training   of the plan's ranks, chunks, schedule and microbatches
/// @param plan       of as many layers as the sources have; its order counts where it has one
/// @param memory     for as long as the run
/// @param peak_bytes [machine.rank_count] out: state and activations, largest over the run
/// @return what the sources, the sink, bal_training_order and sim_plan_replay_play return
///
/// Iterations whose costs are those of the one before are not played again.
status ana_plan_predict(const bal_training *training, const bal_plan *plan, arena *memory,
                        int64_t *peak_bytes, error_message *err);
