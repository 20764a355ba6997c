/// Cuts a chain of layers into stages, exactly: whole numbers, no tolerance.
#pragma once

#include "balance/partition/chain.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

/// Minimises the largest stage load under the rules of the chain (memory caps, pinned layers,
/// empty stages).
///
/// @param memory      for scratch
/// @param first_layer [stage_count + 1] out: stage s owns [first_layer[s], first_layer[s + 1]).
///                    Untouched on failure.
/// @param bottleneck  out: the largest load
/// @return STATUS_INFEASIBLE if no plan keeps the rules, saying how far the stages reach.
///
/// Without transfer_ns: about log2(largest load) probes at the very most, typically 10 to 20, each
/// O(stage_count * log(layers per stage)). With transfer_ns: O(stage_count * layer_count * layers
/// per stage). Ties: every cut as far behind as the smallest bottleneck allows (with transfer_ns,
/// seen from the last stage).
/// Source: probe by Han, Narahari & Choi and exact bisection by Pinar & Aykanat, JPDC 64 (2004),
/// made to keep stages from being empty; partition.c has the proof.
status bal_partition_bottleneck(const bal_chain *chain, arena *memory, int *first_layer,
                                int64_t *bottleneck, error_message *err);

/// Minimises max over stages of (sum of the loads of the stages before + microbatch_count * own
/// load), which no 1F1B iteration with these costs can beat. Otherwise as
/// bal_partition_bottleneck.
///
/// With time factors, fixed times or transfers a stage's own place no longer tells the loads before
/// it; then O(log2(largest load) * stage_count * layer_count * layers per stage).
/// @return also STATUS_INVALID if the bound does not fit int64.
status bal_partition_1f1b(const bal_chain *chain, int microbatch_count, arena *memory,
                          int *first_layer, int64_t *bound_ns, error_message *err);

/// The plan with every cut as far behind as any plan whose largest load is within load, or with no
/// cut after those of at_most (NULL: no such limit).
///
/// @param at_most     [stage_count + 1]
/// @param first_layer [stage_count + 1] out; after failure its content means nothing
/// @return STATUS_INFEASIBLE if there is none. Needs a chain without transfer_ns (asserted).
status bal_partition_latest(const bal_chain *chain, int64_t load, const int *at_most,
                            int *first_layer, error_message *err);

/// The plan with every cut as far in front as any plan whose largest load is within load. Otherwise
/// as bal_partition_latest.
status bal_partition_earliest(const bal_chain *chain, int64_t load, arena *memory, int *first_layer,
                              error_message *err);

/// Of the plans whose largest load is within load, the one with the smallest sum of squared loads:
/// where one heavy layer makes the bottleneck, the other stages still share the rest evenly. Ties:
/// the latest cut, seen from the last stage.
///
/// Where the plans within load leave more than BAL_FLATTEST_CUTS_MAX places for the cuts, it is the
/// plan with the latest cuts (with transfer_ns: STATUS_UNSUPPORTED).
///
/// @return STATUS_INFEASIBLE if no plan is within load. first_layer is then untouched.
///
/// Time O(places for the cuts * layers that fit load).
status bal_partition_flattest(const bal_chain *chain, int64_t load, arena *memory, int *first_layer,
                              error_message *err);
enum { BAL_FLATTEST_CUTS_MAX = 1 << 26 };

/// Of the plans whose largest load is within load, the one that moves the fewest bytes.
///
/// @param owner       [layer_count] rank of the machine that holds a layer now
/// @param place_rank  [rank_count] rank of the machine at each place; NULL: place p is rank p
/// @param first_layer [stage_count + 1] out, untouched on failure
/// @param moved_bytes out: state_bytes of the layers that change their rank
/// @return STATUS_INFEASIBLE also if no plan keeps within load, naming the smallest bottleneck.
///
/// Time O(places for the cuts * layers that fit load). Ties: the latest cut, seen from the last
/// stage.
status bal_partition_moved_bytes(const bal_chain *chain, const int *owner, const int *place_rank,
                                 int64_t load, arena *memory, int *first_layer,
                                 int64_t *moved_bytes, error_message *err);

/// Value of the 1F1B bound for given loads.
///
/// @param stage_load [stage_count]
int64_t bal_1f1b_bound_ns(const int64_t *stage_load, int stage_count, int microbatch_count);
