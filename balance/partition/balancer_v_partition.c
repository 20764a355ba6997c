/// The exact optimum for two chunks per rank in V placement: rank r of P owns stages r and
/// 2P - 1 - r, and the largest sum of a rank's two is as small as can be.
#include "balance/partition/balancers.h"

status bal_balance_v_partition(const bal_problem *problem, const bal_chain *chain, arena *memory,
                               bal_answer *answer, error_message *err)
{
    if (chain->chunk_count != 2 || chain->placement != BAL_PLACEMENT_V) {
        return error_set(err, STATUS_INVALID,
                         "v-partition is for two chunks per rank in V placement, not for %d %s",
                         chain->chunk_count,
                         chain->chunk_count == 1 ? "alone" : "in interleaved placement");
    }
    return bal_balance_partition(problem, chain, memory, answer, err);
}
