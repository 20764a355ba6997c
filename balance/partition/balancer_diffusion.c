/// What diffusion should be on a chain: the flow between neighbours that balances a chain of
/// divisible load is unique, and prefix sums give it in one scan. Each cut goes to the layer
/// boundary nearest to where that flow puts it, which keeps every stage within one layer of the
/// mean. Then single layers cross a cut as long as that lowers the larger of its two stages.
///
/// Stages take load in proportion to their speed. Where caps or rules forbid the rounded cuts, it
/// starts from the latest allowed cuts in front of them. The result depends on neighbours only, so
/// it is not the optimum: `partition` is, and costs no more.
#include "balance/partition/balancers.h"
#include "balance/partition/diffusion.h"

status bal_balance_diffusion(const bal_problem *problem, const bal_chain *chain, arena *memory,
                             bal_answer *answer, error_message *err)
{
    int *first = arena_array(memory, (size_t)chain->stage_count + 1, sizeof *first);
    bool has_decided = false;
    if (problem->diffuser != NULL) {
        TRY(problem->diffuser->cuts(problem->diffuser->context, problem, first, &has_decided, err));
    }
    if (!has_decided) TRY(bal_diffusion_cuts(chain, memory, first, err));
    answer->first_layer = first;
    return STATUS_OK;
}
