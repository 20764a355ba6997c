/// How a rank chooses its next op, and what ops claim of its memory, so that a policy that decides
/// as it goes can keep a limit and never gets stuck.
///
/// An F claims the most that its microbatch will ever hold at its stage; B and W give back. If
/// every op of a microbatch after its F frees memory, as in training it does, the claim is what it
/// holds. Claims only grow at an F, so that B and W are always allowed. Under greedy an F also
/// leaves a reserve for one F of each later stage of its rank: the microbatch that has come
/// furthest then always finds room, ends its forward sweep, and comes back to free memory.
#pragma once

#include "balance/costs/stage_costs.h"
#include "balance/schedule/schedule.h"
#include "base/status.h"

#include <stdint.h>

typedef enum sim_policy {
    SIM_STATIC,     ///< the order of the schedule, whatever the costs: what frameworks do
    SIM_FLOATING_W, ///< F, B and BW keep their order; whenever the next of them is not ready, or
                    ///< memory forbids the next F, the oldest pending W runs
    SIM_GREEDY,     ///< B (or BW), else F if memory allows, else the oldest pending W
    SIM_POLICY_COUNT
} sim_policy;

/// "static", "floating-w", "greedy".
extern const char *const sim_policy_names[SIM_POLICY_COUNT];

/// @return STATUS_INVALID naming the text and the names. policy is then untouched.
status sim_policy_parse(const char *name, sim_policy *policy, error_message *err);

/// What a microbatch claims at a stage from the begin of F, the end of B, the end of W on.
typedef struct sim_claim {
    int64_t from_forward;
    int64_t from_backward;
    int64_t from_weight;
    int64_t reserve; // to be left when F begins
} sim_claim;

/// Fills the claims of a play under memory limits.
///
/// @param memory_limit [rank_count] in the unit of costs->memory_*
/// @param claims       [stage_count] out
/// @param need         [rank_count] out: the least limit under which the policy can play
/// @return STATUS_INFEASIBLE if a limit is below the need, naming rank, need and limit;
///         STATUS_INVALID naming the stage where a microbatch leaves memory after it, if the policy
///         is another than static. Time O(ops).
status sim_claims_fill(const bal_schedule *schedule, sim_policy policy,
                       const bal_stage_costs *costs, const int64_t *memory_limit, sim_claim *claims,
                       int64_t *need, error_message *err);
