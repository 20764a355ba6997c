/// What happened while a row was played: its decisions, and the ranks that it was on.
#pragma once

#include "balance/control/controller.h"
#include "balance/run/training.h"
#include "base/arena.h"

#include <stdint.h>

/// Moves and steps beyond this are counted and not kept.
enum { ANA_COURSE_MAX = 1 << 17 };

/// One decision that changed the plan, after an iteration.
typedef struct ana_move {
    int iteration;
    bal_action action;
    bal_reason reason;
    int moved_layer_count;
    int64_t moved_bytes;
    int64_t decision_ns;
    int64_t migration_ns; // that the iteration lasted longer for it
} ana_move;

/// The ranks from an iteration on, until the next step.
typedef struct ana_rank_step {
    int from_iteration;
    int rank_count; // of one replica
    int replica_count;
    int microbatch_count; // of one replica
} ana_rank_step;

/// Arrays grow in memory while the row is played.
typedef struct ana_course {
    arena *memory;
    int reason_counts[BAL_REASON_COUNT]; // of all decisions
    int asked_count;
    int acted_count; // decisions that changed the plan
    int64_t decision_ns;
    int64_t migration_ns;
    ana_move *moves; // [move_count] in order
    int move_count;
    ana_rank_step *steps; // [step_count] in order; the first is from iteration 0
    int step_count;
    int64_t *iteration_ns; // [iteration_kept_count] lengths of iterations 0, stride, 2 stride, ...
    int iteration_kept_count;
    int iteration_stride; // 1 up to ANA_COURSE_MAX iterations
} ana_course;

/// @param memory borrowed as long as the course is used
void ana_course_init(ana_course *course, arena *memory);

/// The length that the share of the kept iterations does not exceed: of n in ascending order the
/// one at ceil(share * n), counted from 1.
///
/// @param share (0, 1]
/// @return 0 where there are none
///
/// Sorts what is kept: call after the last ana_course_add.
int64_t ana_course_quantile_ns(ana_course *course, double share);

/// Adds an iteration as it was played. Call in order.
void ana_course_add(ana_course *course, const bal_training_iteration *iteration);
