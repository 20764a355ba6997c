/// The local search: a walk through orders and cuts, one change at a time.
#pragma once

#include "balance/joint/joint_order.h"
#include "base/arena.h"
#include "base/rng.h"

#include <stdint.h>

/// A partition with an order that fits it.
typedef struct bal_joint_place {
    bal_joint_board *board; // of its shape
    int *first_layer;       // [stage_count + 1]
    bal_joint_code *lines;  // [rank_count][line_op_count]
    int64_t makespan_ns;
    const char *source; // of the order
} bal_joint_place;

/// Carves a place from memory, for any board of at most so many stages and ops.
void bal_joint_place_init(int stage_count, int op_count, arena *memory, bal_joint_place *place);

void bal_joint_place_copy(const bal_joint_place *from, bal_joint_place *to);

enum { BAL_JOINT_HISTORY = 50 };

/// Where a walk stands and what it has seen. A change is taken if the makespan is no longer than
/// now, or than it was BAL_JOINT_HISTORY changes ago, so that the walk leaves small hollows.
/// Source: late acceptance, Burke & Bykov, EJOR 258 (2017).
typedef struct bal_joint_walk {
    bal_joint_place here;
    bal_joint_place best;
    int *spare_first_layer; // [stage_count + 1] scratch
    int64_t history[BAL_JOINT_HISTORY];
    int64_t step_count;
    rng random;
} bal_joint_walk;

/// Begins a walk at its best place.
void bal_joint_walk_begin(bal_joint_walk *walk, uint64_t seed, uint64_t purpose);

/// Walks on for so many steps, each of which plays one order at the most, or until the best
/// makespan is goal_ns. Fewer steps take the first of those that more would take.
///
/// @return steps taken
int64_t bal_joint_walk_on(bal_joint_walk *walk, int64_t step_count, int64_t goal_ns);
