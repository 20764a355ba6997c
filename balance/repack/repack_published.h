/// How others choose which ranks to keep, faithfully and with their faults: they merge whole ranks
/// by memory alone, look neither at load nor at the order of layers, and two of them lose count.
///
/// What comes out is accounted, not executed: a pipeline with its layers in another order, or
/// twice, computes another network. repack.h takes the number of ranks from here and cuts for
/// itself.
#pragma once

#include "balance/partition/balancer.h"
#include "balance/repack/repack.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct bal_pack_question {
    bal_repack_kind kind; // published, coded, or one of the three rules for bins
    int rank_count;
    const int64_t *memory_bytes; // [rank_count] what each rank holds, >= 0
    int64_t cap_bytes;           // of a rank
    int target_rank_count;       // as few ranks as are wanted, >= 1
} bal_pack_question;

/// What the algorithm leaves. Arrays are carved from the arena of the call.
typedef struct bal_pack_result {
    bool *is_active; // [rank_count]
    int active_count;
    int64_t *memory_bytes; // [rank_count] as the algorithm counts it, of `published` with copies
    bool is_dropped;       // coded: the target was not met exactly, and no layer moves
} bal_pack_result;

/// Merges ranks.
///
/// `published` is Algorithm 4 as printed: for every src and every dst after it, if both together
/// are below the cap and more than target ranks are active, src is released and all its layers go
/// to dst. Nothing is subtracted from src and the loop goes on: it sends the same layers again.
///
/// `coded` is DynMo's release, which empties src; but it too goes on, refuses exact fits (as
/// printed), and drops all transfers unless the target is met exactly, while the ranks stay marked
/// as released. Layers arrive after those of dst, which follow them in the model: any merge breaks
/// the order.
///
/// `first-fit`, `best-fit`, `round-robin`: the classical rules for bins, with whole active ranks as
/// items in order of their number. A rank is kept unless one of the ranks kept so far has room
/// (both together at most the cap): the first, the one with the least room, or the next in turn
/// after the last receiver. Beyond the target nothing is merged.
///
/// @return STATUS_INVALID if a count, a memory or the kind is not as above
///
/// Time O(rank_count^2).
/// Source: DynMo (SC'25), Algorithm 4; github.com/wahibium/DynMo at 7faf19e,
/// megatron/balancer/pack.py.
status bal_repack_published(const bal_pack_question *question, arena *memory,
                            bal_pack_result *result, error_message *err);

/// The paper's trigger: the time of all layers together is below this share of the start's, and
/// there are ranks beyond the target.
bool bal_repack_published_triggers(int64_t load_ns, int64_t start_load_ns,
                                   double load_threshold_ratio, int active_count,
                                   int target_rank_count);

/// PipeTransformer: half as many ranks, again and again, while the largest rank of a balanced split
/// holds no more than the largest one did at the start.
///
/// The original weighs parameters of layers that still train, and splits greedily; here it is the
/// state of all layers, which is less where they are frozen, split exactly.
///
/// @param state_bytes          [layer_count]
/// @param rank_count           in force, >= 1
/// @param start_rank_bytes_max of the largest rank at the start
/// @param kept_rank_count      out
/// @return STATUS_INVALID for wrong counts or bytes.
/// Source: He et al., ICML 2021, section 3.3; github.com/Distributed-AI/PipeTransformer,
/// pipe/auto_pipe.py.
status bal_repack_halving(const int64_t *state_bytes, int layer_count, int rank_count,
                          int64_t start_rank_bytes_max, arena *memory, int *kept_rank_count,
                          error_message *err);
