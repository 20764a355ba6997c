/// What was decided while a row was played.
#pragma once

#include "balance/control/controller.h"
#include "balance/run/training.h"
#include "base/arena.h"

#include <stdint.h>

/// Moves beyond this are counted and not kept.
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

/// Zero-initialise, with memory, which is borrowed: moves grow in it while the row is played.
typedef struct ana_course {
    arena *memory;
    int reason_counts[BAL_REASON_COUNT]; // of all decisions
    int asked_count;
    int acted_count; // decisions that changed the plan
    int64_t decision_ns;
    int64_t migration_ns;
    ana_move *moves; // [move_count] in order
    int move_count;
} ana_course;

/// Adds an iteration as it was played. Call in order.
void ana_course_add(ana_course *course, const bal_training_iteration *iteration);
