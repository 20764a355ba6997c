/// What a search for an order of F, B and W is given, and the best order that it has found.
///
/// A microbatch crosses the ranks in sweeps. With one chunk per rank there are two: F goes down,
/// from rank 0 to the last, and B comes up. With two chunks in V placement there are four: F of
/// chunk 0 down, F of chunk 1 up, B of chunk 1 down, B of chunk 0 up. Even sweeps go down, odd ones
/// up, and a sweep begins on the rank where the one before has ended. Every sweep takes the
/// microbatches in turn, so that the order of a rank is a word of codes: a sweep's code is its
/// number; that of the W after the B of a sweep is its number + chunk_count.
#pragma once

#include "balance/schedule/schedule_families.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { BAL_SWEEPS_MAX = 4, BAL_CODES_MAX = 6 };

/// What a rank's ops cost and take, by code. Where costs vary by microbatch, their means.
typedef struct bal_order_rank {
    int64_t op_ns[BAL_CODES_MAX];
    int64_t send_ns[BAL_SWEEPS_MAX]; // of a sweep to the rank where it goes on; 0 where it ends
    int64_t memory[BAL_CODES_MAX];   // change by the op
    int64_t need[BAL_SWEEPS_MAX];    // that must be free for the op, so that what it leads to can
                                     // follow: an F that another F follows takes room for both
    int64_t memory_limit;
    int64_t work_ns;               // of all its ops
    int next_rank[BAL_SWEEPS_MAX]; // where the message of a sweep goes; -1: nowhere
    int next_sweep[BAL_SWEEPS_MAX];
    int64_t
        *arrival_ns[BAL_SWEEPS_MAX]; // [microbatch_count] scratch: when a sweep reaches the rank
    int64_t *message_ns[BAL_SWEEPS_MAX]; // the same array of the rank and sweep that comes next
} bal_order_rank;

/// Where a rank stands during a play.
typedef struct bal_order_cursor {
    int op;                    // its next
    int done[BAL_CODES_MAX];   // ops by code
    int known[BAL_SWEEPS_MAX]; // messages whose arrival is known
    int chunks;                // held from F to W
    int chunks_max;
    int64_t begin_ns;
    int64_t free_ns;
    int64_t held; // memory
} bal_order_cursor;

/// A search: what it is given, and the best of what was offered to it. Smallest span first, then
/// smallest makespan, then fewest microbatches held, then the one offered first.
typedef struct bal_order_search {
    int rank_count;
    int chunk_count; // 1, or 2 in V placement
    int sweep_count; // 2 * chunk_count
    int microbatch_count;
    bal_order_rank *ranks; // [rank_count]
    uint8_t *codes;        // [rank_count][3 * chunk_count * microbatch_count] being written
    uint8_t *best_codes;   // same shape
    int64_t best_span_ns;  // INT64_MAX: none was offered
    int64_t best_makespan_ns;
    int64_t best_held;         // sum over the ranks of the most chunks held between F and W
    int64_t least_span_ns;     // proven: no order has a smaller one
    int64_t *placed_op_count;  // of the request: ops placed so far are added; NULL: nobody asks
    bal_order_cursor *cursors; // [rank_count] scratch
    int64_t *lost_ns;          // [microbatch_count] scratch: messages to nobody
} bal_order_search;

/// Reads the costs of a request and carves a search from memory. Without a limit in the request a
/// rank may hold chunks_held_max chunks from F to W, whatever their memory.
///
/// @param chunks_held_max 0: any number
/// @return STATUS_INVALID: times or memory outside their limits; STATUS_INFEASIBLE naming rank,
///         need and limit.
status bal_order_search_begin(const bal_schedule_request *request, int chunk_count,
                              int64_t chunks_held_max, arena *memory, bal_order_search *find,
                              error_message *err);

/// Counts work.
static inline void bal_order_search_count(const bal_order_search *find, int64_t op_count)
{
    if (find->placed_op_count != NULL) *find->placed_op_count += op_count;
}

/// Whether an order that is at least so long and holds at least so much can no longer win.
static inline bool bal_order_search_is_beaten(const bal_order_search *find, int64_t span_ns,
                                              int64_t makespan_ns, int64_t held)
{
    if (span_ns != find->best_span_ns) return span_ns > find->best_span_ns;
    if (makespan_ns != find->best_makespan_ns) return makespan_ns > find->best_makespan_ns;
    return held >= find->best_held;
}

/// Keeps the order that stands in codes if it is the best so far; codes is then another array.
void bal_order_search_offer(bal_order_search *find, int64_t span_ns, int64_t makespan_ns,
                            int64_t held);

/// Plays the order that stands in codes, any words with the right number of each code, and offers
/// it if no rank waits for ever and memory stays within the limits. Time O(ops).
void bal_order_search_play(bal_order_search *find);

/// Offers an order of F, B and W that stands in ops, rank after rank.
void bal_order_search_offer_ops(bal_order_search *find, const bal_op *ops);

/// Offers one microbatch after the other: the order that needs least memory.
void bal_order_search_offer_serial(bal_order_search *find);

/// The largest orders that are improved, and what that may cost in ops played.
enum { BAL_IMPROVED_OPS_MAX = 512, BAL_IMPROVING_OPS_MAX = 100000 };

/// Moves one op of one rank earlier or later, by one to three places, as long as that makes the
/// best order of a search better; stops where no such move does, where the span is proven least, or
/// when the work is spent. Deterministic.
///
/// @param find holds a best order
///
/// Orders of more than BAL_IMPROVED_OPS_MAX ops are left as they are: too few moves could be tried.
/// Time: about BAL_IMPROVING_OPS_MAX ops played, 0.4 ms.
void bal_order_search_improve(bal_order_search *find);

/// Writes the best order, rank after rank. There is one.
void bal_order_search_write(const bal_order_search *find, bal_op *ops);

/// Kind and chunk of a code.
static inline bal_op_kind bal_order_kind(int chunk_count, int code)
{
    if (code < chunk_count) return OP_FORWARD;
    return code < 2 * chunk_count ? OP_BACKWARD_INPUT : OP_BACKWARD_WEIGHT;
}
static inline int bal_order_chunk(int chunk_count, int code)
{
    if (code < chunk_count) return code;
    return (code < 2 * chunk_count ? 2 : 3) * chunk_count - 1 - code;
}
