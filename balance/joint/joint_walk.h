/// The local search: a walk through orders and cuts, one change at a time.
#pragma once

#include "balance/joint/joint_layers.h"
#include "balance/joint/joint_order.h"
#include "base/arena.h"
#include "base/rng.h"
#include "base/status.h"

#include <stdint.h>

/// What walks of one shape share: a board, and room for what is tried.
typedef struct bal_joint_ground {
    const bal_joint_layers *layers;
    bal_joint_shape shape;
    bal_joint_board board;
    bal_stage_costs costs;
    bal_joint_path path;
    bal_joint_code *tried;  // [ops] lines
    int *tried_first_layer; // [stages + 1]
    int op_count;           // of all ranks
    int stage_count;
} bal_joint_ground;

/// A partition with an order that fits it.
typedef struct bal_joint_place {
    int *first_layer;      // [stages + 1]
    bal_joint_code *lines; // [rank_count][line_op_count]
    int64_t makespan_ns;
    const char *source; // of the order
} bal_joint_place;

enum { BAL_JOINT_HISTORY = 50 };

/// Where a walk stands and what it has seen. A change is taken if the makespan is no longer than
/// now, or than it was BAL_JOINT_HISTORY changes ago, so that the walk leaves small hollows.
/// Source: late acceptance, Burke & Bykov, EJOR 258 (2017).
typedef struct bal_joint_walk {
    bal_joint_place here;
    bal_joint_place best;
    int64_t history[BAL_JOINT_HISTORY];
    int64_t step_count;
    rng random;
} bal_joint_walk;

/// Carves the ground of a shape from memory.
void bal_joint_ground_init(const bal_joint_layers *layers, bal_joint_shape shape, arena *memory,
                           bal_joint_ground *ground);

/// Carves a place from memory.
void bal_joint_place_init(const bal_joint_ground *ground, arena *memory, bal_joint_place *place);

void bal_joint_place_copy(const bal_joint_ground *ground, const bal_joint_place *from,
                          bal_joint_place *to);

/// Puts a partition on the board of the ground.
void bal_joint_ground_set(bal_joint_ground *ground, const int *first_layer);

/// Begins a walk at a place. Its places are carved from memory.
void bal_joint_walk_begin(const bal_joint_ground *ground, const bal_joint_place *from,
                          uint64_t seed, uint64_t purpose, arena *memory, bal_joint_walk *walk);

/// Walks on for so many steps, each of which plays one order at the most, or until the best
/// makespan is goal_ns. Fewer steps take the first of those that more would take.
///
/// @return steps taken
int64_t bal_joint_walk_on(bal_joint_ground *ground, bal_joint_walk *walk, int64_t play_count,
                          int64_t goal_ns);
