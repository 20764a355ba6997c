/// The best of many candidate partitions in the time that the problem's evaluator predicts, usually
/// by playing the real schedule.
///
/// The smallest bottleneck does not give the shortest iteration: schedules also pay for warmup and
/// cooldown, where the order of heavy and light stages counts. Candidates, in this order: the plan
/// in force; the exact optima of the bottleneck (of ranks, and of stages) and of the 1F1B bound;
/// `even`; `diffusion`; for bottlenecks up to an eighth above the optimum the plans with the
/// latest, the earliest and the flattest cuts; with two chunks per rank plans that joint_bound.h
/// favours, with small first chunks among them; then single layers across single cuts of the best
/// plan so far, until no such step is better, and the same from the best plan with or without small
/// first chunks, whichever the best was not; at most BAL_MAKESPAN_EVALUATIONS_MAX plans are
/// evaluated. Of equal plans the first wins.
#include "balance/joint/joint_bound.h"
#include "balance/partition/balancers.h"
#include "balance/partition/partition.h"
#include "balance/partition/partition_pairs.h"
#include "balance/partition/plan_book.h"

#include <assert.h>
#include <string.h>

enum { EVALUATIONS_MAX = BAL_MAKESPAN_EVALUATIONS_MAX };

typedef struct search {
    const bal_problem *problem;
    const bal_chain *chain;
    size_t cut_count;
    int *evaluated; // [EVALUATIONS_MAX][cut_count] plans asked so far
    int64_t *ns;    // [EVALUATIONS_MAX] what was predicted of them
    int evaluation_count;
    int best; // row of evaluated, or -1
    int64_t best_ns;
} search;

static bool is_known(const search *state, const int *first)
{
    for (int row = 0; row < state->evaluation_count; row++) {
        const int *known = state->evaluated + (size_t)row * state->cut_count;
        if (memcmp(known, first, state->cut_count * sizeof *first) == 0) return true;
    }
    return false;
}

/// Evaluates a plan unless it breaks a rule, is known, or the evaluations are used up.
static status consider(search *state, const int *first, error_message *err)
{
    if (state->evaluation_count == EVALUATIONS_MAX || is_known(state, first)) return STATUS_OK;
    if (bal_chain_check(state->chain, first, NULL) != STATUS_OK) return STATUS_OK;
    const bal_problem *problem = state->problem;
    const bal_placed_partition plan = bal_problem_placed(problem, first);
    int64_t ns = 0;
    TRY(bal_problem_predict(problem, &plan, &ns, err));
    const int row = state->evaluation_count++;
    memcpy(state->evaluated + (size_t)row * state->cut_count, first,
           state->cut_count * sizeof *first);
    state->ns[row] = ns;
    if (state->best >= 0 && ns >= state->best_ns) return STATUS_OK;
    state->best = row;
    state->best_ns = ns;
    return STATUS_OK;
}

/// The plans with the latest, the earliest and the flattest cuts whose largest load is within some
/// loads.
static status consider_near_optima(search *state, int64_t bottleneck, int *first, arena *memory,
                                   error_message *err)
{
    static const int slack_of_256[] = {0, 1, 2, 4, 6, 8, 12, 16, 24, 32};
    bal_chain chain = *state->chain;
    chain.transfer_ns = NULL; // cuts move loads by less than what is tried here
    for (size_t index = 0; index < sizeof slack_of_256 / sizeof slack_of_256[0]; index++) {
        const int64_t slack = bottleneck / 256 * slack_of_256[index];
        const int64_t load =
            slack < chain.load_sum_max - bottleneck ? bottleneck + slack : chain.load_sum_max;
        // With transfers the optimum may lie above every load without them: always a plan.
        TRY(bal_partition_latest(&chain, load, NULL, first, err));
        TRY(consider(state, first, err));
        TRY(bal_partition_earliest(&chain, load, memory, first, err));
        TRY(consider(state, first, err));
        TRY(bal_partition_flattest(&chain, load, memory, first, err));
        TRY(consider(state, first, err));
    }
    return STATUS_OK;
}

/// The plans of two chunks per rank that would be fast under the best order, by how small their
/// first chunks may be: the last rank begins as soon as one microbatch is through those, which no
/// load of a rank shows and no single step from even chunks reaches.
static status consider_shares(search *state, int *first, arena *memory, error_message *err)
{
    const bal_chain *chain = state->chain;
    const int mean = chain->layer_count / chain->stage_count;
    const bal_problem *problem = state->problem;
    if (chain->chunk_count != 2 || mean == 0 || problem->microbatch_count < 1) return STATUS_OK;
    const bal_problem eased = {.layers = problem->layers, // consider() looks at all other rules
                               .stage_count = chain->stage_count / 2,
                               .microbatch_count = problem->microbatch_count,
                               .transfer_ns = problem->transfer_ns,
                               .stage_time_factor_ppb = problem->stage_time_factor_ppb,
                               .stage_fixed_ns = problem->stage_fixed_ns};
    bal_joint_layers layers;
    const status summed = bal_joint_layers_of(&eased, memory, &layers, NULL);
    if (summed != STATUS_OK) return STATUS_OK; // too long for a bound
    const bal_joint_shape shape = {.chunk_count = 2, .placement = problem->placement};
    const int least[][2] = {{1, 1}, {1, mean}, {mean, mean}};
    for (size_t index = 0; index < sizeof least / sizeof least[0]; index++) {
        const status found = bal_joint_near_partition(&layers, shape, least[index][0],
                                                      least[index][1], memory, first, err);
        if (found == STATUS_OK) TRY(consider(state, first, err));
    }
    return STATUS_OK;
}

static status consider_candidates(search *state, int *first, arena *memory, error_message *err)
{
    const bal_problem *problem = state->problem;
    const bal_chain *chain = state->chain;
    if (problem->current_first_layer != NULL &&
        (problem->current_stage_count == 0 || problem->current_stage_count == chain->stage_count)) {
        TRY(consider(state, problem->current_first_layer, err));
    }
    int64_t bottleneck = 0;
    if (chain->chunk_count > 1) { // the only candidate that is sure to keep the caps of ranks
        bal_pairs_plan plan;
        TRY(bal_plan_book_find(problem->plan_book, chain, memory, &plan, err));
        TRY(consider(state, plan.first_layer, err));
    }
    TRY(bal_partition_bottleneck(chain, memory, first, &bottleneck, err));
    TRY(consider(state, first, err));
    if (problem->microbatch_count >= 1) {
        int64_t bound = 0;
        TRY(bal_partition_1f1b(chain, problem->microbatch_count, memory, first, &bound, err));
        TRY(consider(state, first, err));
    }
    bal_even_cuts(chain, first);
    TRY(consider(state, first, err));
    bal_answer diffused = {0};
    TRY(bal_balance_diffusion(problem, chain, memory, &diffused, err));
    TRY(consider(state, diffused.first_layer, err));
    return consider_near_optima(state, bottleneck, first, memory, err);
}

/// Steps from a plan, cut by cut, as long as a round of them finds a better one.
static status climb(search *state, int row, int *first, error_message *err)
{
    for (int centre = -1; centre != row && state->evaluation_count < EVALUATIONS_MAX;) {
        centre = row;
        for (int cut = 1; cut < state->chain->stage_count; cut++) {
            for (int step = -1; step <= 1; step += 2) {
                const int *from = state->evaluated + (size_t)row * state->cut_count;
                memcpy(first, from, state->cut_count * sizeof *first);
                first[cut] += step;
                if (first[cut] < first[cut - 1] || first[cut] > first[cut + 1]) continue;
                const int tried = state->evaluation_count;
                TRY(consider(state, first, err));
                if (tried < state->evaluation_count && state->ns[tried] < state->ns[row]) {
                    row = tried;
                }
            }
        }
    }
    return STATUS_OK;
}

/// The fastest of the plans evaluated from begin up to end, or -1.
static int fastest(const search *state, int begin, int end)
{
    int best = -1;
    for (int row = begin; row < end; row++) {
        if (best < 0 || state->ns[row] < state->ns[best]) best = row;
    }
    return best;
}

/// Climbs from the fastest plan, and from that of the other kind, which leads elsewhere.
static status consider_steps(search *state, int share_begin, int *first, error_message *err)
{
    const int share = fastest(state, share_begin, state->evaluation_count);
    const int other = fastest(state, 0, share_begin);
    const bool share_first = other < 0 || (share >= 0 && state->ns[share] < state->ns[other]);
    const int starts[] = {share_first ? share : other, share_first ? other : share};
    for (int index = 0; index < 2; index++) {
        if (starts[index] >= 0) TRY(climb(state, starts[index], first, err));
    }
    return STATUS_OK;
}

status bal_balance_makespan(const bal_problem *problem, const bal_chain *chain, arena *memory,
                            bal_answer *answer, error_message *err)
{
    if (problem->evaluator == NULL) {
        return error_set(err, STATUS_INVALID,
                         "makespan needs an evaluator: a schedule to play the candidates with");
    }
    search state = {.problem = problem,
                    .chain = chain,
                    .cut_count = (size_t)chain->stage_count + 1,
                    .best = -1};
    int *first = arena_array(memory, state.cut_count, sizeof *first);
    state.evaluated =
        arena_array(memory, state.cut_count * EVALUATIONS_MAX, sizeof *state.evaluated);
    state.ns = arena_array(memory, EVALUATIONS_MAX, sizeof *state.ns);
    TRY(consider_candidates(&state, first, memory, err));
    assert(state.best >= 0); // the exact optimum keeps every rule
    const int share_begin = state.evaluation_count;
    TRY(consider_shares(&state, first, memory, err));
    TRY(consider_steps(&state, share_begin, first, err));
    answer->first_layer = state.evaluated + (size_t)state.best * state.cut_count;
    answer->iteration_ns = state.best_ns;
    return STATUS_OK;
}
