/// Megatron-LM's split: the same number of transformer layers on every stage.
///
/// Megatron-LM counts transformer layers only; the embedding comes on top on the first stage and
/// the head on the last. It refuses counts that the stages do not divide; here the first stages
/// take one layer more each.
#include "balance/partition/balancers.h"

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
