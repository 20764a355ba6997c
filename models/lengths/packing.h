/// Which sequences share a microbatch, and which microbatches a replica and a step: packing to a
/// budget of tokens, in the order of arrival or so that microbatches take equally long.
#pragma once

#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

typedef enum model_packing_kind {
    MODEL_PACK_ARRIVAL,        ///< as they come; a sequence that does not fit opens the next
    MODEL_PACK_SORTED,         ///< the same from the longest to the shortest
    MODEL_PACK_TOKENS,         ///< longest first, each where there are fewest tokens
    MODEL_PACK_COST,           ///< costliest first, each where the cost is least (LPT, Graham 1969)
    MODEL_PACK_KARMARKAR_KARP, ///< the two largest differences joined (1982), again and again; as
                               ///< cost where that exceeds the budget
    MODEL_PACK_EXACT,          ///< the least largest cost: all ways that are not shown to be worse
    MODEL_PACK_COUNT
} model_packing_kind;

extern const char *const model_packing_names[MODEL_PACK_COUNT];

enum {
    MODEL_PACK_EXACT_MAX = 20,           ///< sequences that exact takes
    MODEL_PACK_DIFFERENCES_MAX = 1 << 20 ///< sequences x bins that karmarkar-karp takes
};

/// A pool of sequences to be put into bins of a budget. Borrowed arrays.
typedef struct model_packing {
    model_packing_kind kind;
    int count;
    const int32_t *tokens; // [count] each in [1, budget]
    const double *cost;    // [count] > 0
    int bin_count;
    int64_t budget; // tokens of a bin
} model_packing;

/// Puts every sequence into a bin.
///
/// No bin exceeds the budget as long as the sequence at hand finds one with room; where none has
/// room, it goes to the bin with the fewest tokens. In the order of arrival, sequences that fill
/// the bins exactly never exceed it.
///
/// @param bin_of [count] out: bin in [0, bin_count)
/// @return STATUS_INVALID: more sequences than the kind takes, saying how many
/// Ties: the lower index. Time O(count log count), with a budget that binds O(count * bin_count);
/// karmarkar-karp O(count * bin_count log bin_count); exact is exponential in count.
status model_pack(const model_packing *packing, arena *scratch, int *bin_of, error_message *err);

/// Deals bins to groups of equal size so that groups cost about the same: costliest first, each to
/// the cheapest group with room.
///
/// @param cost     [group_count * group_size] of the bins
/// @param group_of [group_count * group_size] out
void model_pack_deal(const double *cost, int group_count, int group_size, arena *scratch,
                     int *group_of);
