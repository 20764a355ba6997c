/// What the idle time of an iteration is there for: how much of it would be gone if stages were
/// alike, if messages cost nothing, if nothing was moved, if nobody waited at the optimizer step.
#pragma once

#include "balance/run/training.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

typedef enum ana_bubble_cause {
    ANA_BUBBLE_FILL,          ///< warm-up and cool-down: alike stages, messages that cost nothing
    ANA_BUBBLE_IMBALANCE,     ///< stages and microbatches that are not alike
    ANA_BUBBLE_COMMUNICATION, ///< messages between stages
    ANA_BUBBLE_BARRIER,       ///< the global barrier at the optimizer step, and the step, also one
                              ///< that is taken back
    ANA_BUBBLE_REDUCTION,     ///< gradients between replicas, beyond the pipeline
    ANA_BUBBLE_MIGRATION,     ///< moving layers, deciding on it, profiling for it
    ANA_BUBBLE_CAUSE_COUNT
} ana_bubble_cause;

/// "warm-up and cool-down", "imbalance", "communication", "optimizer barrier", "gradient
/// reduction", "migration".
extern const char *const ana_bubble_cause_names[ANA_BUBBLE_CAUSE_COUNT];

/// The time of the ranks of the slowest replica, in ns of one rank. Sums of several iterations are
/// added up member by member; zero-initialise.
typedef struct ana_bubble_causes {
    int64_t rank_ns;                          // ranks x length of the iteration
    int64_t busy_ns;                          // of it: ops
    int64_t cause_ns[ANA_BUBBLE_CAUSE_COUNT]; // >= 0; sum is rank_ns - busy_ns
} ana_bubble_causes;

/// Adds an iteration to causes by playing its order again without what is asked about, one thing
/// after the other:
///
///   as it was          iteration_ns - makespan is MIGRATION, REDUCTION and the step of BARRIER
///   no messages        what the makespan falls by is COMMUNICATION
///   all stages alike   every F (B, W) as long as the mean of F (B, W) over stages and
///   microbatches:
///                      what it falls by again is IMBALANCE, and 0 if it does not fall
///   no barrier         makespan - span of what is left is BARRIER (with post-validation: 0)
///   the rest           FILL
///
/// Causes depend on the order in which they are taken away; this one blames a stage for being long
/// only as far as messages are not to blame. With post-validation the span takes the makespan's
/// place throughout, and what the slowest replica waits for the others is IMBALANCE, too. Where
/// messages occupy ranks or share links, the order is played without that, and all that the
/// iteration takes longer is COMMUNICATION.
///
/// @param iteration with timeline and costs, or those of a repeated one: see
///                  bal_record_sink.wants_timeline. Where its rounds of gradient accumulation draw
///                  times of their own, those of the first stand for all.
/// @param scratch   taken back
/// @return STATUS_INVALID if sums do not fit int64. causes is then untouched.
///
/// Time O(ops), most of it for compiling the order.
status ana_bubble_causes_add(ana_bubble_causes *causes, const bal_training_iteration *iteration,
                             arena *scratch, error_message *err);

/// Idle time over all time of the ranks, in [0, 1); 0 of nothing. Unlike bubble_ratio it counts
/// what follows the pipeline.
double ana_bubble_causes_idle_ratio(const ana_bubble_causes *causes);

/// The share of all time that is idle for a cause.
double ana_bubble_causes_share(const ana_bubble_causes *causes, ana_bubble_cause cause);
