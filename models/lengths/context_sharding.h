/// How the ranks of a context-parallel group share the sequences of a microbatch, and what the
/// rank has that all others wait for.
#pragma once

#include "base/arena.h"

#include <stdint.h>

typedef enum model_context_kind {
    MODEL_CONTEXT_EQUAL,    ///< all have the same, whatever the lengths
    MODEL_CONTEXT_SEQUENCE, ///< the row of packed sequences in 2c pieces, an early and a late one
                            ///< each: what frameworks do
    MODEL_CONTEXT_DOCUMENT, ///< every packed sequence so; pieces are short
    MODEL_CONTEXT_ADAPTIVE, ///< of these two whichever is faster (WLB-LLM, arXiv 2503.17924)
    MODEL_CONTEXT_HYBRID,   ///< the longest so, each other is one rank's and needs no exchange
                            ///< (ByteScale, arXiv 2502.21231)
    MODEL_CONTEXT_COUNT
} model_context_kind;

/// "equal", "sequence", "document", "adaptive", "hybrid".
extern const char *const model_context_names[MODEL_CONTEXT_COUNT];

/// A group, and what its ranks compute.
typedef struct model_context {
    model_context_kind kind;
    int rank_count;         // c, >= 1
    int tile_rows;          // queries that a kernel takes at once: pieces are rounded up to them
    int64_t sliding_window; // keys that a query sees; 0: all
    int64_t budget;         // tokens of a microbatch, of which hybrid gives a rank no more than its
                            // part
    double token_cost;      // per token beside attention and exchange
    double pair_cost;       // per pair
    double exchange_cost;   // per token of the microbatch whose keys and values travel
} model_context;

/// What the rank with the largest cost has, times the ranks of the group, so that work which
/// divides evenly stays what it is.
typedef struct model_context_share {
    double tokens;
    double pairs;     // in units of a causal sequence of n tokens: n^2; with what tiles round up
    double exchanged; // of all ranks: tokens whose keys and values travel
} model_context_share;

/// Pairs of query and key of a causal sequence, twice: n^2, or w (2n - w) with a window w < n.
double model_causal_pairs(int64_t tokens, int64_t sliding_window);

/// Shares a microbatch.
///
/// hybrid tries to cut none, the longest 1, 2, 4, ... and all, and deals the others, the costliest
/// first, to the cheapest rank; the least largest cost with that of the exchange counts.
///
/// @param tokens [count] of its sequences as they are packed, each >= 1
/// Time O(count rank_count), hybrid O(count (rank_count + log count) log count). Ties: the rank
/// with the lower index, the fewest that are cut, `sequence` before `document`.
model_context_share model_context_slowest(const model_context *context, const int32_t *tokens,
                                          int count, arena *scratch);
