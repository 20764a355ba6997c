/// The event engine: plays a schedule under a policy that decides, whenever a rank is idle, which
/// op it runs next.
///
/// Policies that decide while the iteration runs depend on what arrived by then, so that their
/// order cannot be compiled; nor can the times of messages that wait for a link or for their
/// receiver. Under the static policy on a free network the times are those of the static engine
/// (sim/pipeline.h), to the nanosecond, and a tenth of its speed.
#pragma once

#include "balance/costs/stage_costs.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"
#include "sim/network.h"
#include "sim/policy.h"

#include <stdint.h>

typedef struct sim_dispatch sim_dispatch;

/// Prepares a schedule for plays under a policy.
///
/// @param schedule borrowed for the life of the dispatch. Under greedy its order decides only which
///                 of two chunks of a rank goes first when both are ready.
/// @param network  borrowed until sim_dispatch_set_network gives it another; NULL: asynchronous
///                 messages, each with its own way
/// @param memory   also what sim_dispatch_set_network takes from
/// @param dispatch out: carved from memory
/// @return what bal_schedule_check refuses. Time O(ops).
status sim_dispatch_create(const bal_schedule *schedule, sim_policy policy,
                           const sim_network *network, arena *memory, sim_dispatch **dispatch,
                           error_message *err);

/// Gives the plays that follow another network.
///
/// @param network as in sim_dispatch_create
void sim_dispatch_set_network(sim_dispatch *dispatch, const sim_network *network);

/// Plays one iteration.
///
/// A rank decides when all that happens at that moment has happened. Ready ops of one chunk run in
/// the order in which their messages arrived. Overlapped pairs are one piece of work under the
/// static policy; the others run their ops one by one.
///
/// A limit holds for every moment: an F also claims what its own B will add, and under greedy
/// leaves room for one F of each later chunk of its rank, without which microbatches could block
/// each other. So an iteration that begins also ends, unless messages are sent by rendezvous in an
/// order in which ranks wait for each other.
///
/// @param costs        ones that sim_costs_check accepts
/// @param memory_limit [rank_count] in the unit of costs->memory_*, or NULL: none
/// @param start_ns     [rank_count] as sim_order_play
/// @param timeline     out: begin and end of the ops in the order in which they ran, which is that
///                     of timeline->schedule; borrowed until the next play. Untouched on failure.
/// @return STATUS_INFEASIBLE if a limit is below what the policy needs, naming rank, need and
///         limit; STATUS_INVALID if there is a limit and a microbatch leaves memory after it,
///         naming the stage; or if ranks wait for each other, naming them op by op.
///
/// Time O(ops * (log(ranks) + chunks)), no allocation; where delays make messages overtake each
/// other also O(1) per message that one overtakes.
status sim_dispatch_play(sim_dispatch *dispatch, const bal_stage_costs *costs,
                         const int64_t *memory_limit, const int64_t *start_ns,
                         bal_timeline *timeline, error_message *err);
