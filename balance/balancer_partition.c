/// The exact contiguous optimum of the problem's objective. Of the plans with the smallest
/// bottleneck it takes the flattest: where the head alone makes it, the rest is still shared
/// evenly.
#include "balance/balancers.h"
#include "balance/partition.h"

status bal_balance_partition(const bal_problem *problem, const bal_chain *chain, arena *memory,
                             bal_answer *answer, error_message *err)
{
    const int stages = chain->stage_count;
    int *first = arena_array(memory, (size_t)stages + 1, sizeof *first);
    if (first == NULL) {
        return error_set(err, STATUS_NO_MEMORY, "out of memory for %d stages", stages);
    }
    int64_t value = 0;
    switch (problem->objective) {
    case BAL_OBJECTIVE_1F1B_BOUND:
        TRY(bal_partition_1f1b(chain, problem->microbatch_count, memory, first, &value, err));
        answer->bottleneck_lower_bound_ns = value;
        break;
    case BAL_OBJECTIVE_MOVED_BYTES: {
        const int current_stages =
            problem->current_stage_count > 0 ? problem->current_stage_count : stages;
        TRY(bal_partition_moved_bytes(chain, problem->current_first_layer, current_stages,
                                      problem->load_cap_ns, memory, first, &value, err));
        answer->optimal = true;
        break;
    }
    default:
        TRY(bal_partition_bottleneck(chain, memory, first, &value, err));
        TRY(bal_partition_flattest(chain, value, memory, first, err));
        answer->bottleneck_lower_bound_ns = value;
        break;
    }
    answer->first_layer = first;
    return STATUS_OK;
}
