/// Chunks of a rank weighed together where they stand in model order: rank r of P owns stages r,
/// P + r, 2P + r, ... Exact for two chunks; for more a search with a proven bound beside it.
#include "balance/partition/balancers.h"

status bal_balance_interleaved_partition(const bal_problem *problem, const bal_chain *chain,
                                         arena *memory, bal_answer *answer, error_message *err)
{
    if (chain->chunk_count < 2 || chain->placement != BAL_PLACEMENT_LOOP) {
        return error_set(err, STATUS_INVALID,
                         "interleaved-partition is for several chunks per rank in interleaved "
                         "placement, not for %d %s",
                         chain->chunk_count, chain->chunk_count == 1 ? "alone" : "in V placement");
    }
    return bal_balance_partition(problem, chain, memory, answer, err);
}
