/// The exact contiguous optimum of the problem's objective. Of the plans with the smallest
/// bottleneck it takes the flattest: where the head alone makes it, the rest is still shared
/// evenly. With several chunks per rank the bottleneck is that of ranks; partition_chunks.h says
/// where it is exact.
#include "balance/partition/balancers.h"
#include "balance/partition/partition.h"
#include "balance/partition/partition_chunks.h"

/// Of the plans with the smallest bottleneck, what several chunks per rank allow.
static status partition_chunks(const bal_chain *chain, arena *memory, bal_answer *answer,
                               error_message *err)
{
    bal_pairs_plan plan;
    TRY(bal_partition_chunks(chain, memory, &plan, err));
    answer->first_layer = plan.first_layer;
    answer->bottleneck_lower_bound_ns = plan.lower_bound;
    return STATUS_OK;
}

/// The fewest bytes that change their rank within load_cap_ns.
static status partition_moved(const bal_problem *problem, const bal_chain *chain, arena *memory,
                              int *first, error_message *err)
{
    const int current_stages =
        problem->current_stage_count > 0 ? problem->current_stage_count : chain->stage_count;
    int64_t moved = 0;
    if (chain->chunk_count == 1) {
        return bal_partition_moved_bytes(chain, problem->current_first_layer, current_stages,
                                         problem->load_cap_ns, memory, first, &moved, err);
    }
    int *owner = NULL;
    int *place_rank = NULL;
    TRY(bal_current_owners(problem, chain, memory, &owner, &place_rank, err));
    return bal_partition_pairs_moved_bytes(chain, owner, place_rank, problem->load_cap_ns,
                                           BAL_ANY_MIDDLE, memory, first, &moved, err);
}

status bal_balance_partition(const bal_problem *problem, const bal_chain *chain, arena *memory,
                             bal_answer *answer, error_message *err)
{
    const int stages = chain->stage_count;
    int *first = arena_array(memory, (size_t)stages + 1, sizeof *first);
    int64_t value = 0;
    switch (problem->objective) {
    case BAL_OBJECTIVE_1F1B_BOUND:
        TRY(bal_partition_1f1b(chain, problem->microbatch_count, memory, first, &value, err));
        answer->bottleneck_lower_bound_ns = value;
        break;
    case BAL_OBJECTIVE_MOVED_BYTES:
        TRY(partition_moved(problem, chain, memory, first, err));
        answer->optimal = true;
        break;
    default:
        return partition_chunks(chain, memory, answer, err);
    }
    answer->first_layer = first;
    return STATUS_OK;
}
