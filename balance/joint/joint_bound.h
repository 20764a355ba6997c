/// A makespan that no contiguous partition and no order of its ops can beat.
#pragma once

#include "balance/joint/joint_layers.h"
#include "base/arena.h"
#include "base/rng.h"
#include "base/status.h"

#include <stdint.h>

/// No plan of this shape is faster: whichever contiguous partition into rank_count * chunk_count
/// stages of at least one layer each, and whichever order of ops on the ranks.
///
/// Assumes: F of a microbatch runs through the stages in order, B back through them after that, W
/// after its B; an op runs without a break on the one rank that holds its stage, one op of a rank
/// at a time; a message between two ranks takes at least transfer_ns of its cut; what a rank holds
/// (state, held_bytes from begin of F to end of B, gradient_bytes on to the end of W) never
/// exceeds its cap. Time that nothing forces (contention, reduction of gradients) is not counted.
///
/// For a partition, the bound is the largest over ranks of what its own work, the way of the first
/// microbatch to it and of the last from it, the wait for the first gradient with the forwards that
/// memory allows until then, and the stay of microbatches for which it has room force; JOINT.md
/// derives each. What depends on the cuts of other ranks is taken at its least. The smallest of it
/// over all partitions is found by bisection: exactly for one chunk, within 1/2048 below for two.
///
/// @param first_layer [stages + 1] out: a partition of about that bound, with one chunk per rank
///                    exactly; with two, stages may be empty. After failure it means nothing
/// @param bound_ns    out; untouched on failure
/// @return STATUS_INFEASIBLE where no partition fits the memory caps even if every rank holds one
///         microbatch at a time, or there are fewer layers than stages; STATUS_UNSUPPORTED for
///         interleaved chunks of so many layers and ranks that a probe of the bisection takes more
///         than BAL_JOINT_BOUND_STEPS_MAX steps
///
/// Time: some dozen probes of O(rank_count * layer_count * w), w layers of the largest stage that
/// is not too slow; interleaved layer_count times that.
status bal_joint_bound(const bal_joint_layers *layers, bal_joint_shape shape, arena *memory,
                       int *first_layer, int64_t *bound_ns, error_message *err);
enum { BAL_JOINT_BOUND_STEPS_MAX = 1 << 21 };

/// A partition into two chunks per rank whose bound is near the smallest of those whose first and
/// second chunks have so many layers at least (>= 1). What bal_joint_bound proves with empty runs
/// this only tries without them, so that it is a partition to begin a search with and no proof.
///
/// @return STATUS_INFEASIBLE where none was found
status bal_joint_near_partition(const bal_joint_layers *layers, bal_joint_shape shape,
                                int first_min, int second_min, arena *memory, int *first_layer,
                                error_message *err);

/// Walks from a partition to others of a smaller bound, one or two cuts by one layer a step, and
/// leaves the best that it saw. Late acceptance, as in joint_walk.h.
///
/// @param goal_ns     a bound that no partition is below; the walk ends where one meets it
/// @param first_layer [stages + 1] in: every stage has a layer; out
/// Time O(steps * rank_count), mostly that of four ranks' bounds a step.
void bal_joint_refine(const bal_joint_layers *layers, bal_joint_shape shape, int64_t goal_ns,
                      int step_count, rng *random, arena *memory, int *first_layer);

/// Moves one or two layers, by chance, across cuts.
///
/// @param first_layer [stages + 1] of at least two stages
/// @return false where that leaves a stage empty
bool bal_joint_shift_cuts(int stage_count, rng *random, int *first_layer);

/// The bound of one partition: no order of its ops is faster. INT64_MAX where a rank cannot hold
/// even one microbatch at a time.
///
/// @param first_layer [stages + 1] every stage has a layer
int64_t bal_joint_partition_bound(const bal_joint_layers *layers, bal_joint_shape shape,
                                  const int *first_layer);
