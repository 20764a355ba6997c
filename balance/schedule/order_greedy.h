/// Orders by dispatch: every rank, whenever it is free, runs the best op that it can.
#pragma once

#include "balance/schedule/order_search.h"

#include <stdbool.h>

/// What a pass decides by.
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
/// @return STATUS_NO_MEMORY. Time O(plan_count * ops * log ranks).
void bal_order_search_greedy(bal_order_search *find, const bal_greedy_plan *plans, int plan_count,
                             arena *memory);
