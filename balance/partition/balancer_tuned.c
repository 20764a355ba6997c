/// The best split that never changes: what an expert would set by hand from a profile of the first
/// iteration, with embedding and head counted. The caller asks it once (is_static), so it is the
/// exact optimum of the costs that it is given then.
#include "balance/partition/balancers.h"

status bal_balance_tuned(const bal_problem *problem, const bal_chain *chain, arena *memory,
                         bal_answer *answer, error_message *err)
{
    return bal_balance_partition(problem, chain, memory, answer, err);
}
