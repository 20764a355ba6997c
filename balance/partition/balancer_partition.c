/// The exact contiguous optimum of the problem's objective, and Megatron-LM's even split beside it.
///
/// Of the plans with the smallest bottleneck it takes the flattest: where the head alone makes it,
/// the rest is still shared evenly. With several chunks per rank the bottleneck is that of ranks;
/// partition_pairs.h says where it is exact.
#include "balance/partition/balancers.h"
#include "balance/partition/partition.h"
#include "balance/partition/plan_book.h"

#include <string.h>

status bal_balance_partition(const bal_problem *problem, const bal_chain *chain, arena *memory,
                             bal_answer *answer, error_message *err)
{
    int *first = arena_array(memory, (size_t)chain->stage_count + 1, sizeof *first);
    if (problem->objective == BAL_OBJECTIVE_BOTTLENECK) {
        bal_pairs_plan plan;
        TRY(bal_plan_book_find(problem->plan_book, chain, memory, &plan, err));
        answer->first_layer = plan.first_layer;
        answer->bottleneck_lower_bound_ns = plan.lower_bound;
        return STATUS_OK;
    }
    if (problem->objective == BAL_OBJECTIVE_1F1B_BOUND) {
        TRY(bal_partition_1f1b(chain, problem->microbatch_count, memory, first,
                               &answer->bottleneck_lower_bound_ns, err));
    } else {
        TRY(bal_fewest_moved_bytes(problem, chain, memory, first, &answer->moved_bytes, err));
        answer->optimal = true;
    }
    answer->first_layer = first;
    return STATUS_OK;
}

void bal_even_cuts(const bal_chain *chain, int *first_layer)
{
    const int stages = chain->stage_count;
    const int embedding = chain->embedding ? 1 : 0;
    const int transformer_layers = chain->layer_count - embedding - (chain->head ? 1 : 0);
    const int share = transformer_layers / stages;
    const int remainder = transformer_layers % stages;
    first_layer[0] = 0;
    for (int stage = 1; stage < stages; stage++) {
        first_layer[stage] = embedding + stage * share + (stage < remainder ? stage : remainder);
    }
    first_layer[stages] = chain->layer_count;
}

/// Megatron-LM counts transformer layers only; the embedding comes on top on the first stage and
/// the head on the last. It refuses counts that the stages do not divide; here the first stages
/// take one layer more each.
status bal_balance_even(const bal_problem *problem, const bal_chain *chain, arena *memory,
                        bal_answer *answer, error_message *err)
{
    (void)err;
    (void)problem;
    int *first = arena_array(memory, (size_t)chain->stage_count + 1, sizeof *first);
    bal_even_cuts(chain, first);
    answer->first_layer = first;
    return STATUS_OK;
}

/// What is trained with now, or what somebody has in mind.
status bal_balance_given(const bal_problem *problem, const bal_chain *chain, arena *memory,
                         bal_answer *answer, error_message *err)
{
    const size_t cuts = (size_t)chain->stage_count + 1;
    if (problem->given_first_layer == NULL) {
        return error_set(err, STATUS_INVALID,
                         "the balancer given needs a split: a study's pipeline.layers_per_stage");
    }
    int *first = arena_array(memory, cuts, sizeof *first);
    memcpy(first, problem->given_first_layer, cuts * sizeof *first);
    answer->first_layer = first;
    return STATUS_OK;
}

/// What somebody would set who tries both splits: of the optimum and the even one the faster.
status bal_balance_tuned(const bal_problem *problem, const bal_chain *chain, arena *memory,
                         bal_answer *answer, error_message *err)
{
    TRY(bal_balance_partition(problem, chain, memory, answer, err));
    if (problem->evaluator == NULL || problem->objective != BAL_OBJECTIVE_BOTTLENECK) {
        return STATUS_OK;
    }
    int *even = arena_array(memory, (size_t)chain->stage_count + 1, sizeof *even);
    bal_even_cuts(chain, even);
    const size_t bytes = ((size_t)chain->stage_count + 1) * sizeof *even;
    if (memcmp(even, answer->first_layer, bytes) == 0) return STATUS_OK;
    if (bal_chain_check(chain, even, NULL) != STATUS_OK) return STATUS_OK; // does not fit
    int64_t even_ns = 0;
    int64_t optimum_ns = 0;
    const bal_placed_partition even_plan = bal_problem_placed(problem, even);
    const bal_placed_partition optimum_plan = bal_problem_placed(problem, answer->first_layer);
    TRY(bal_problem_predict(problem, &optimum_plan, &optimum_ns, err));
    TRY(bal_problem_predict(problem, &even_plan, &even_ns, err));
    if (even_ns < optimum_ns) answer->first_layer = even;
    return STATUS_OK;
}
