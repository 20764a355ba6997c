/// Megatron-LM's split: the same number of transformer layers on every stage.
///
/// Megatron-LM counts transformer layers only; the embedding comes on top on the first stage and
/// the head on the last. It refuses counts that the stages do not divide; here the first stages
/// take one layer more each, as its later "uneven" options are mostly used.
#include "balance/balancers.h"

status bal_balance_even(const bal_problem *problem, const bal_chain *chain, arena *memory,
                        bal_answer *answer, error_message *err)
{
    (void)problem;
    const int stages = chain->stage_count;
    int *first = arena_array(memory, (size_t)stages + 1, sizeof *first);
    if (first == NULL)
        return error_set(err, STATUS_NO_MEMORY, "out of memory for %d stages", stages);
    const int transformer_layers =
        chain->layer_count - (chain->embedding ? 1 : 0) - (chain->head ? 1 : 0);
    const int share = transformer_layers / stages;
    const int remainder = transformer_layers % stages;
    for (int stage = 1; stage < stages; stage++) {
        first[stage] =
            (chain->embedding ? 1 : 0) + stage * share + (stage < remainder ? stage : remainder);
    }
    first[stages] = chain->layer_count;
    answer->first_layer = first;
    return STATUS_OK;
}
