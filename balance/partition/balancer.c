#include "balance/partition/balancer.h"

#include "balance/metrics.h"
#include "balance/partition/balancers.h"
#include "balance/partition/chain.h"
#include "balance/partition/partition.h"
#include "balance/partition/partition_pairs.h"
#include "balance/partition/plan_book.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

const char *const bal_weight_names[BAL_WEIGHT_COUNT] = {
    [BAL_WEIGHT_TIME] = "time",
    [BAL_WEIGHT_PARAMETERS] = "parameters",
    [BAL_WEIGHT_TIME_TRANSFER] = "time+transfer",
    [BAL_WEIGHT_LAYERS] = "layers",
};

static const bal_balancer table[] = {
    {.name = "even", .is_static = true, .balance = bal_balance_even},
    {.name = "given", .is_static = true, .balance = bal_balance_given},
    {.name = "parameters", .weight = BAL_WEIGHT_PARAMETERS, .balance = bal_balance_parameters},
    {.name = "parameters-legacy",
     .weight = BAL_WEIGHT_PARAMETERS,
     .balance = bal_balance_parameters_legacy},
    {.name = "tuned", .is_static = true, .balance = bal_balance_tuned},
    {.name = "partition", .balance = bal_balance_partition},
    {.name = "diffusion-published",
     .owns_freely = true,
     .balance = bal_balance_diffusion_published},
    {.name = "diffusion-coded", .owns_freely = true, .balance = bal_balance_diffusion_coded},
    {.name = "diffusion", .balance = bal_balance_diffusion},
    {.name = "makespan", .evaluates = true, .balance = bal_balance_makespan},
    {.name = "v-partition",
     .needs_chunks = true,
     .placement = BAL_PLACEMENT_V,
     .balance = bal_balance_partition},
    {.name = "interleaved-partition", .needs_chunks = true, .balance = bal_balance_partition},
};
enum { BALANCER_COUNT = sizeof table / sizeof table[0] };

const bal_balancer *bal_balancers(int *count)
{
    *count = BALANCER_COUNT;
    return table;
}

const bal_balancer *bal_balancer_find(const char *name)
{
    for (int row = 0; row < BALANCER_COUNT; row++) {
        if (strcmp(table[row].name, name) == 0) return &table[row];
    }
    return NULL;
}

const char *bal_balancer_suggestion(const char *name, char out[TEXT_SUGGESTION_BYTES])
{
    const char *names[BALANCER_COUNT];
    for (int row = 0; row < BALANCER_COUNT; row++) {
        names[row] = table[row].name;
    }
    return text_suggestion(name, names, BALANCER_COUNT, out);
}

static status check_objective(const bal_balancer *balancer, const bal_problem *problem,
                              error_message *err)
{
    if (balancer->owns_freely && (problem->objective != BAL_OBJECTIVE_BOTTLENECK ||
                                  problem->weight == BAL_WEIGHT_TIME_TRANSFER)) {
        return error_set(err, STATUS_INVALID,
                         "%s assigns layers without cuts: it knows neither transfers nor "
                         "objectives other than bottleneck",
                         balancer->name);
    }
    if (problem->objective == BAL_OBJECTIVE_1F1B_BOUND && problem->chunk_count > 1) {
        return error_set(err, STATUS_INVALID,
                         "the objective 1f1b-bound is of one chunk per rank, not %d",
                         problem->chunk_count);
    }
    if (problem->objective != BAL_OBJECTIVE_MOVED_BYTES) return STATUS_OK;
    if (problem->chunk_count > 2 ||
        (problem->chunk_count == 2 && problem->weight == BAL_WEIGHT_TIME_TRANSFER)) {
        return error_set(err, STATUS_INVALID,
                         "the objective moved-bytes knows one or two chunks per rank, and two only "
                         "where messages cost nothing");
    }
    if (problem->current_first_layer == NULL) {
        return error_set(err, STATUS_INVALID,
                         "the objective moved-bytes needs current_first_layer");
    }
    if (problem->layers.state_bytes == NULL) {
        return error_set(err, STATUS_INVALID, "the objective moved-bytes needs state_bytes");
    }
    return STATUS_OK;
}

/// The exact optimum under the same rules where that is quickly known: the best bound that there
/// is. Else that of an owner per layer.
static status bound_of(const bal_problem *problem, const bal_chain *chain, arena *memory,
                       int64_t *bound, error_message *err)
{
    int *first = arena_array(memory, (size_t)chain->stage_count + 1, sizeof *first);
    if (problem->objective == BAL_OBJECTIVE_1F1B_BOUND) {
        return bal_partition_1f1b(chain, problem->microbatch_count, memory, first, bound, err);
    }
    bal_pairs_plan plan;
    // In a loop the optimum takes milliseconds, and controllers ask at every decision.
    const bool is_exact = chain->chunk_count == 2 && chain->transfer_ns == NULL &&
                          chain->placement == BAL_PLACEMENT_V;
    if (is_exact) {
        TRY(bal_plan_book_find(problem->plan_book, chain, memory, &plan, err)); // for others, too
        *bound = plan.lower_bound;
        return STATUS_OK;
    }
    if (problem->skips_bound) return STATUS_OK;
    if (chain->chunk_count == 1) return bal_partition_bottleneck(chain, memory, first, bound, err);
    *bound = bal_assignment_lower_bound(chain);
    return STATUS_OK;
}

/// The rank that holds each layer under the plan in force, which may have another number of them;
/// NULL: there is none.
static const int *current_owners(const bal_problem *problem, arena *memory)
{
    if (problem->current_first_layer == NULL) return problem->current_owner;
    const int stages =
        problem->current_stage_count > 0 ? problem->current_stage_count : problem->stage_count;
    bal_placed_partition current = bal_problem_placed(problem, problem->current_first_layer);
    current.rank_count = stages / current.chunk_count;
    current.machine_rank = NULL;
    int *owner = arena_array(memory, (size_t)problem->layers.layer_count, sizeof *owner);
    bal_placed_owners(&current, owner);
    return owner;
}

status bal_fewest_moved_bytes(const bal_problem *problem, const bal_chain *chain, arena *memory,
                              int *first_layer, int64_t *moved_bytes, error_message *err)
{
    return bal_partition_chunks_moved_bytes(chain, current_owners(problem, memory), NULL,
                                            problem->load_cap_ns, BAL_ANY_MIDDLE, memory,
                                            first_layer, moved_bytes, err);
}

/// State of the layers that change their rank; with several chunks per rank a layer may change its
/// stage and stay.
///
/// @param owner [layer_count] of the answer
static int64_t count_moved(const bal_problem *problem, const bal_chain *chain, const int *owner,
                           arena *memory)
{
    int64_t moved = 0;
    const int *current = current_owners(problem, memory);
    for (int layer = 0; current != NULL && layer < chain->layer_count; layer++) {
        if (owner[layer] == current[layer]) continue;
        moved += chain->state_before[layer + 1] - chain->state_before[layer];
    }
    return moved;
}

/// Whether the plan moves as few bytes as any within load_cap_ns.
static status complete_moved(const bal_problem *problem, const bal_chain *chain, arena *memory,
                             bal_answer *answer, error_message *err)
{
    if (answer->bottleneck_ns > problem->load_cap_ns) {
        return error_set(err, STATUS_INFEASIBLE,
                         "its largest load %" PRId64 " exceeds load_cap_ns %" PRId64,
                         answer->bottleneck_ns, problem->load_cap_ns);
    }
    if (answer->optimal) return STATUS_OK; // the balancer minimised just that
    int *first = arena_array(memory, (size_t)chain->stage_count + 1, sizeof *first);
    int64_t fewest = 0;
    const status compared = bal_fewest_moved_bytes(problem, chain, memory, first, &fewest, err);
    if (compared == STATUS_UNSUPPORTED) return STATUS_OK; // an answer without a proof
    answer->optimal = compared == STATUS_OK && answer->moved_bytes == fewest;
    return compared;
}

static status complete_partition(const bal_problem *problem, const bal_chain *chain, arena *memory,
                                 bal_answer *answer, error_message *err)
{
    TRY(bal_chain_check(chain, answer->first_layer, err));
    bal_chain_loads(chain, answer->first_layer, answer->stage_load);
    for (int rank = 0; rank < answer->rank_count; rank++) {
        answer->rank_load[rank] = bal_chain_rank_load(chain, answer->first_layer, rank);
    }
    if (answer->bottleneck_lower_bound_ns < 0) {
        TRY(bound_of(problem, chain, memory, &answer->bottleneck_lower_bound_ns, err));
    }
    answer->bottleneck_ns =
        problem->objective == BAL_OBJECTIVE_1F1B_BOUND
            ? bal_1f1b_bound_ns(answer->stage_load, chain->stage_count, problem->microbatch_count)
            : bal_chain_largest_load(chain, answer->first_layer);
    answer->executable = true;
    int *owner = arena_array(memory, (size_t)chain->layer_count, sizeof *owner);
    bal_placed_partition plan = bal_problem_placed(problem, answer->first_layer);
    plan.machine_rank = NULL;
    bal_placed_owners(&plan, owner);
    answer->moved_bytes = count_moved(problem, chain, owner, memory);
    if (problem->objective == BAL_OBJECTIVE_MOVED_BYTES) {
        return complete_moved(problem, chain, memory, answer, err);
    }
    answer->optimal = answer->bottleneck_ns == answer->bottleneck_lower_bound_ns &&
                      answer->iteration_ns < 0; // no bound says what the evaluator could answer
    return STATUS_OK;
}

static void owner_loads(const bal_chain *chain, const int *owner, int64_t *load)
{
    enum { EMPTY = -1 };
    for (int stage = 0; stage < chain->stage_count; stage++) {
        load[stage] = EMPTY;
    }
    for (int layer = 0; layer < chain->layer_count; layer++) {
        int64_t *sum = &load[owner[layer]];
        if (*sum == EMPTY) *sum = 0;
        *sum += chain->weight_before[layer + 1] - chain->weight_before[layer];
    }
    for (int stage = 0; stage < chain->stage_count; stage++) {
        load[stage] =
            load[stage] == EMPTY ? 0 : bal_chain_load_of_weight(chain, stage, load[stage]);
    }
}

static void complete_owners(const bal_problem *problem, const bal_chain *chain, arena *memory,
                            bal_answer *answer)
{
    owner_loads(chain, answer->owner, answer->stage_load);
    for (int rank = 0; rank < answer->rank_count; rank++) { // one chunk each
        answer->rank_load[rank] = answer->stage_load[rank];
        if (answer->rank_load[rank] > answer->bottleneck_ns) {
            answer->bottleneck_ns = answer->rank_load[rank];
        }
    }
    answer->bottleneck_lower_bound_ns = bal_assignment_lower_bound(chain);
    answer->optimal = answer->bottleneck_ns == answer->bottleneck_lower_bound_ns;
    answer->moved_bytes = count_moved(problem, chain, answer->owner, memory);
}

/// The question without chunks, for balancers that give layers to ranks in any order: what a rank
/// of several chunks is to them.
static bal_problem without_chunks(const bal_problem *problem, arena *memory)
{
    const int chunks = problem->chunk_count;
    const int ranks = problem->stage_count / chunks;
    bal_problem plain = *problem;
    plain.stage_count = ranks;
    plain.chunk_count = 1;
    plain.placement = BAL_PLACEMENT_LOOP;
    plain.stage_memory_bytes = problem->rank_memory_bytes;
    plain.rank_memory_bytes = NULL;
    plain.rank_peaks = NULL;
    plain.current_owner = current_owners(problem, memory);
    plain.current_first_layer = NULL;
    plain.current_stage_count = 0;
    // The first chunk of a rank is the stage of its number, and its speed is the rank's.
    int64_t *inflight = arena_array(memory, (size_t)ranks, sizeof *inflight);
    for (int rank = 0; problem->stage_inflight != NULL && rank < ranks; rank++) {
        for (int chunk = 0; chunk < chunks; chunk++) {
            const int stage = bal_stage_of(problem->placement, ranks, chunks, rank, chunk);
            const int64_t held = problem->stage_inflight[stage];
            if (held > inflight[rank]) inflight[rank] = held;
        }
    }
    if (problem->stage_inflight != NULL) plain.stage_inflight = inflight;
    return plain;
}

/// Refuses chunks that a balancer of several chunks per rank does not know.
static status check_chunks(const bal_balancer *balancer, const bal_chain *chain, error_message *err)
{
    const int chunks = chain->chunk_count;
    if (!balancer->needs_chunks) return STATUS_OK;
    if (balancer->placement == BAL_PLACEMENT_V) {
        if (chunks == 2 && chain->placement == BAL_PLACEMENT_V) return STATUS_OK;
        return error_set(
            err, STATUS_INVALID, "%s is for two chunks per rank in V placement, not for %d %s",
            balancer->name, chunks, chunks == 1 ? "alone" : "in interleaved placement");
    }
    if (chunks >= 2 && chain->placement == BAL_PLACEMENT_LOOP) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "%s is for several chunks per rank in interleaved placement, not for %d %s",
                     balancer->name, chunks, chunks == 1 ? "alone" : "in V placement");
}

static status answer_problem(const bal_balancer *balancer, const bal_problem *problem,
                             arena *memory, bal_answer *answer, error_message *err)
{
    bal_chain chain;
    TRY(bal_chain_of(problem, memory, &chain, err));
    TRY(check_objective(balancer, problem, err));
    bal_answer made = {.bottleneck_lower_bound_ns = -1, .iteration_ns = -1};
    made.stage_load = arena_array(memory, (size_t)chain.stage_count, sizeof *made.stage_load);
    made.rank_count = bal_chain_rank_count(&chain);
    made.rank_load = arena_array(memory, (size_t)made.rank_count, sizeof *made.rank_load);
    TRY(check_chunks(balancer, &chain, err));
    TRY(balancer->balance(problem, &chain, memory, &made, err));
    if (made.first_layer != NULL) {
        const status completed = complete_partition(problem, &chain, memory, &made, err);
        if (completed != STATUS_OK) return error_prefix(err, completed, "%s", balancer->name);
    } else {
        complete_owners(problem, &chain, memory, &made);
    }
    assert(made.bottleneck_lower_bound_ns <= made.bottleneck_ns);
    made.imbalance_ratio = bal_imbalance_ratio(made.rank_load, made.rank_count);
    made.load_spread_ratio = bal_load_spread_ratio(made.rank_load, made.rank_count);
    *answer = made;
    return STATUS_OK;
}

status bal_balance(const bal_balancer *balancer, const bal_problem *problem, arena *memory,
                   bal_answer *answer, error_message *err)
{
    if (!balancer->owns_freely || problem->chunk_count <= 1) {
        return answer_problem(balancer, problem, memory, answer, err);
    }
    bal_chain chain;
    TRY(bal_chain_of(problem, memory, &chain, err)); // checks what is dropped here
    const bal_problem plain = without_chunks(problem, memory);
    return answer_problem(balancer, &plain, memory, answer, err);
}
