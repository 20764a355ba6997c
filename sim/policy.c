#include "sim/policy.h"

#include "balance/metrics.h"
#include "base/text.h"

#include <inttypes.h>
#include <string.h>

const char *const sim_policy_names[SIM_POLICY_COUNT] = {
    [SIM_STATIC] = "static", [SIM_FLOATING_W] = "floating-w", [SIM_GREEDY] = "greedy"};

status sim_policy_parse(const char *name, sim_policy *policy, error_message *err)
{
    const int found = text_find(name, sim_policy_names, SIM_POLICY_COUNT);
    if (found < SIM_POLICY_COUNT) {
        *policy = (sim_policy)found;
        return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID, "policy '%.60s' is none of static, floating-w and greedy",
                     name);
}

static sim_claim claim_of(const bal_stage_costs *costs, int stage)
{
    const int64_t forward = costs->memory_forward[stage];
    const int64_t backward = forward + costs->memory_backward_input[stage];
    const int64_t weight = backward + costs->memory_backward_weight[stage];
    return (sim_claim){.from_forward = bal_larger(forward, bal_larger(backward, weight)),
                       .from_backward = bal_larger(backward, weight),
                       .from_weight = weight};
}

/// The stages from the first to reach to the last. Those of two pipelines alternate: of the two on
/// a rank, the one nearer to the end of its pipeline must find room.
static int stage_by_depth(const bal_schedule *schedule, int step)
{
    if (schedule->placement != BAL_PLACEMENT_BIDIRECTIONAL) return step;
    return step % 2 * schedule->rank_count + step / 2;
}

/// Gives every stage a reserve, and every rank the need of one F at each of its stages.
static void reserve(const bal_schedule *schedule, sim_claim *claims, int64_t *need)
{
    const int chunks = schedule->chunk_count;
    memset(need, 0, (size_t)schedule->rank_count * sizeof *need);
    for (int step = schedule->rank_count * chunks - 1; step >= 0; step--) {
        const int stage = stage_by_depth(schedule, step);
        const int rank =
            bal_rank_of_stage(schedule->placement, schedule->rank_count, chunks, stage, NULL);
        claims[stage].reserve = need[rank];
        need[rank] += bal_larger(0, claims[stage].from_forward);
    }
}

/// The least memory in which a rank can keep its order of F and B: every W right after its B.
static int64_t floating_need(const bal_schedule *schedule, const sim_claim *claims, int rank)
{
    int64_t claimed = 0;
    int64_t need = 0;
    for (int index = schedule->first_op[rank]; index < schedule->first_op[rank + 1]; index++) {
        const bal_op op = schedule->ops[index];
        const int stage = bal_schedule_stage(schedule, rank, op.chunk);
        if (op.kind == OP_BACKWARD_WEIGHT) continue;
        claimed += op.kind == OP_FORWARD ? claims[stage].from_forward
                                         : claims[stage].from_weight - claims[stage].from_forward;
        need = bal_larger(need, claimed);
    }
    return need;
}

static status check_nothing_left(const sim_claim *claims, int stage_count, sim_policy policy,
                                 error_message *err)
{
    for (int stage = 0; stage < stage_count; stage++) {
        if (claims[stage].from_weight <= 0) continue;
        return error_set(err, STATUS_INVALID,
                         "a microbatch leaves %" PRId64 " of memory behind at stage %d: policy %s "
                         "cannot keep a limit",
                         claims[stage].from_weight, stage, sim_policy_names[policy]);
    }
    return STATUS_OK;
}

status sim_claims_fill(const bal_schedule *schedule, sim_policy policy,
                       const bal_stage_costs *costs, const int64_t *memory_limit, sim_claim *claims,
                       int64_t *need, error_message *err)
{
    const int stages = schedule->rank_count * schedule->chunk_count;
    for (int stage = 0; stage < stages; stage++) {
        claims[stage] = claim_of(costs, stage);
    }
    if (policy == SIM_STATIC) {
        bal_memory_peak(schedule, costs, need);
    } else {
        TRY(check_nothing_left(claims, stages, policy, err));
    }
    if (policy == SIM_GREEDY) reserve(schedule, claims, need);
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        if (policy == SIM_FLOATING_W) need[rank] = floating_need(schedule, claims, rank);
        if (need[rank] <= memory_limit[rank]) continue;
        return error_set(err, STATUS_INFEASIBLE,
                         "rank %d needs memory of %" PRId64
                         " under policy %s; its limit is %" PRId64,
                         rank, need[rank], sim_policy_names[policy], memory_limit[rank]);
    }
    return STATUS_OK;
}
