/// A pass: a whole order of F, B and W built op by op, whatever decides which comes next, with what
/// bounds every order that begins like it.
#pragma once

#include "balance/schedule/order_search.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// A rank during a pass.
typedef struct bal_pass_rank {
    int64_t begin_ns;       // of its first op
    int64_t free_ns;        // end of its last op
    int64_t idle_ns;        // since its first op
    int64_t held;           // memory
    int64_t pending_memory; // <= 0: change by all W that could run
    int done[BAL_SWEEPS_MAX];
    int known[BAL_SWEEPS_MAX]; // messages that were sent to it
    int chunks;                // held from F to W
    int chunks_max;
    int op_count;
    int pending_first; // W that could run: pending[pending_first, pending_end), oldest first
    int pending_end;
    uint8_t *codes;   // where its order is written
    uint8_t *pending; // [chunk_count * microbatch_count] codes of W
} bal_pass_rank;

typedef struct bal_order_pass {
    bal_order_search *find;
    bal_pass_rank *ranks; // [rank_count]
    int64_t span_ns;      // no order that begins like this one has less
    int64_t makespan_ns;  // likewise
    int64_t held;         // likewise: sum of chunks_max
} bal_order_pass;

/// Carves a pass from memory.
void bal_order_pass_init(bal_order_search *find, arena *memory, bal_order_pass *pass);

/// Begins a new order in the codes of the search. Rank 0 has its inputs at 0.
void bal_order_pass_reset(bal_order_pass *pass);

/// Whether the order can no longer win.
bool bal_order_pass_is_beaten(const bal_order_pass *pass);

/// Offers an order that is complete.
void bal_order_pass_offer(bal_order_pass *pass);

static inline bool bal_pass_has_weight(const bal_pass_rank *rank)
{
    return rank->pending_first < rank->pending_end;
}

/// Appends an op to a rank, beginning at begin_ns, when the rank is free or later.
static inline void bal_order_pass_put(bal_order_pass *pass, int rank, int code, int64_t begin_ns)
{
    bal_pass_rank *at = &pass->ranks[rank];
    const bal_order_rank *of = &pass->find->ranks[rank];
    if (at->op_count == 0) {
        at->begin_ns = begin_ns;
    } else {
        at->idle_ns += begin_ns - at->free_ns;
    }
    const int64_t span_ns = of->work_ns + at->idle_ns;
    if (span_ns > pass->span_ns) pass->span_ns = span_ns;
    if (at->begin_ns + span_ns > pass->makespan_ns) pass->makespan_ns = at->begin_ns + span_ns;
    at->codes[at->op_count++] = (uint8_t)code;
    at->free_ns = begin_ns + of->op_ns[code];
    at->held += of->memory[code];
}

/// Appends the oldest W that could run.
static inline void bal_order_pass_put_weight(bal_order_pass *pass, int rank, int64_t begin_ns)
{
    bal_pass_rank *at = &pass->ranks[rank];
    const int code = at->pending[at->pending_first++];
    at->pending_memory -= pass->find->ranks[rank].memory[code];
    at->chunks--;
    bal_order_pass_put(pass, rank, code, begin_ns);
}

/// Appends the next op of a sweep, and tells the rank where the sweep goes on.
///
/// @return its microbatch, whose message arrives at message_ns[sweep] of the rank
static inline int bal_order_pass_put_sweep(bal_order_pass *pass, int rank, int sweep,
                                           int64_t begin_ns)
{
    bal_pass_rank *at = &pass->ranks[rank];
    const bal_order_rank *of = &pass->find->ranks[rank];
    const int chunk_count = pass->find->chunk_count;
    const int microbatch = at->done[sweep]++;
    if (sweep >= chunk_count) {
        const int weight = sweep + chunk_count;
        at->pending[at->pending_end++] = (uint8_t)weight;
        at->pending_memory += of->memory[weight];
    } else if (++at->chunks > at->chunks_max) {
        at->chunks_max = at->chunks;
        pass->held++;
    }
    bal_order_pass_put(pass, rank, sweep, begin_ns);
    of->message_ns[sweep][microbatch] = at->free_ns + of->send_ns[sweep];
    if (of->next_rank[sweep] >= 0) {
        pass->ranks[of->next_rank[sweep]].known[of->next_sweep[sweep]]++;
    }
    return microbatch;
}

// Orders by dispatch: every rank, whenever it is free, runs the best op that it can.

/// What dispatch decides by.
typedef struct bal_greedy_plan {
    uint8_t first[BAL_SWEEPS_MAX]; // the sweeps, first choice first, of ops that could run now
    bool alternates;               // after a B, any F is preferred to any B
    bool overruns_backward;        // W before a B that arrives while it runs, always; else only
                                   // where the rank cannot afford to wait
    bool overruns_forward;         // the same before an F
    int held_factor;               // most microbatches on a rank, in rank_count; 0: any number
} bal_greedy_plan;

/// Builds an order by each plan and offers it; gives it up once it can no longer win. An op runs as
/// soon as its message is there, the rank is free and memory allows it with what it leads to; W run
/// while nothing else can, or to make room. Never stuck: an F that another F follows on the rank
/// takes room for both, so the oldest microbatch can always go on.
///
/// @param memory for scratch
/// Time O(plan_count * ops * log ranks).
void bal_order_search_greedy(bal_order_search *find, const bal_greedy_plan *plans, int plan_count,
                             arena *memory);
