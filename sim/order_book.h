/// Compiled orders: those of fixed schedules, each compiled once for every number of ranks and
/// microbatches, and the last few that were searched.
#pragma once

#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"
#include "sim/dispatch.h"
#include "sim/network.h"
#include "sim/pipeline.h"

#include <stdint.h>

/// An order that can be played. It serves one play at a time.
typedef struct sim_compiled_order {
    bal_schedule schedule;
    sim_order order;
    const int *last_backward; // [stage_count] op with the last gradients of each stage: W or BW
    arena *memory;            // that its arrays are carved from
    sim_dispatch *dispatch;   // NULL until sim_compiled_order_dispatch
    int64_t *peak;            // [rank_count] of sim_compiled_order_peak, and
    int64_t *peak_costs;      // [3][stage_count] what they were found for; NULL until then
} sim_compiled_order;

/// Compiles the order that a request describes.
///
/// @param out arrays are carved from memory; must stay where it is, as its parts point to each
/// other
/// @return what bal_schedule_build refuses. Time O(ops).
status sim_compiled_order_build(const bal_schedule_request *request, arena *memory,
                                sim_compiled_order *out, error_message *err);

/// The event engine for an order under the static policy: made at the first call, then given
/// another network.
///
/// @param network  as in sim_dispatch_set_network
/// @param dispatch out: lives as long as the order; the network is its until the next call
/// Time O(ops) at the first call, then O(1).
status sim_compiled_order_dispatch(sim_compiled_order *order, const sim_network *network,
                                   sim_dispatch **dispatch, error_message *err);

/// As bal_memory_peak: runs that differ in times alone have the same.
///
/// @return [rank_count] bytes, borrowed until the next call
/// Time O(ops), or O(stages) where the call before was for the same changes of memory.
const int64_t *sim_compiled_order_peak(sim_compiled_order *order, const bal_stage_costs *costs);

enum { SIM_ORDERS_KEPT = 64, SIM_ORDER_OPS_KEPT = 1 << 22 };
enum { SIM_SEARCHED_KEPT = 4, SIM_SEARCHED_OPS_KEPT = 1 << 18 };

typedef struct sim_order_entry {
    const bal_schedule_family *family;
    int rank_count;
    int chunk_count;
    int microbatch_count;
    sim_compiled_order compiled;
} sim_order_entry;

/// A searched order.
typedef struct sim_searched_entry {
    arena *memory;   // of all below; NULL where nothing is kept
    const char *key; // [key_bytes] all that the search looked at; NULL: nothing
    size_t key_bytes;
    int64_t last_use;
    sim_compiled_order compiled;
} sim_searched_entry;

/// Keeps the orders of fixed schedules, and where there is no room for another forgets them all; of
/// searched ones those that were asked for last.
typedef struct sim_order_book {
    arena *memory; // that it lives in
    arena *fixed;  // of the entries; NULL: none yet
    sim_order_entry entries[SIM_ORDERS_KEPT];
    int order_count;
    int64_t op_count; // of all entries
    sim_searched_entry searched[SIM_SEARCHED_KEPT];
    int64_t search_count;
} sim_order_book;

/// An empty book, which lives and ends with memory.
sim_order_book *sim_order_book_create(arena *memory);

/// Finds the order of a fixed schedule, or compiles it.
///
/// @param request of a schedule that is not searched: its costs and limits are not looked at
/// @param out borrowed until the next call
/// @return as sim_compiled_order_build
status sim_order_book_find(sim_order_book *book, const bal_schedule_request *request,
                           sim_compiled_order **out, error_message *err);

/// The same of a searched schedule. Runs that differ in what a search does not look at, or try a
/// plan before they take it, search once.
///
/// @param request that does not count ops
/// @param held    an order of this book that must stay; NULL: none need
/// @param out     borrowed until the next call that does not hold it
/// @return as sim_compiled_order_build; another order than held may then be gone
status sim_order_book_search(sim_order_book *book, const bal_schedule_request *request,
                             const sim_compiled_order *held, sim_compiled_order **out,
                             error_message *err);
