/// Finds candidates by exact searches over moved bytes and ranks, and picks the cheapest.
#include "balance/migration/migration_plan.h"

#include "balance/migration/assignment.h"
#include "balance/partition/chain.h"
#include "balance/partition/partition_pairs.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/// Rounds of ranks and cuts in turn, and what they and the rest can find.
enum { ROUNDS = 2, CANDIDATES_MAX = 1 + 4 * 2 * ROUNDS };

/// One plan that could be moved to.
typedef struct candidate {
    int *first_layer;        // [stage_count + 1]
    int *machine_rank;       // [place_count]
    bal_migration migration; // from the plan in force
    int64_t bottleneck_ns;
    int64_t cost_ns;
    bool is_decided; // its cuts are the balancer's: beyond the evaluator's doubt
    bool is_rejected;
} candidate;

/// The search. The first four are the caller's, who zeroes the rest; arrays are carved from memory.
typedef struct search {
    const bal_migration_question *question;
    const bal_migration_options *options;
    arena *memory;
    error_message *err;
    bal_chain chain;
    int stage_count;
    int chunk_count;
    int place_count;
    int group_size;  // ranks used together
    int group_count; // of the machine
    int *owner;      // [layer_count] rank that holds it now
    int64_t load_max;
    candidate candidates[CANDIDATES_MAX];
    int candidate_count;
} search;

enum { NOWHERE = -1 };

static bal_placed_partition placed(const search *at, const int *first_layer,
                                   const int *machine_rank)
{
    bal_placed_partition out = bal_problem_placed(at->question->problem, first_layer);
    out.machine_rank = machine_rank;
    return out;
}

static status search_init(search *at)
{
    const bal_problem *problem = at->question->problem;
    bal_problem plain = *problem; // what is compared here has no use for the plan in force
    plain.current_first_layer = NULL;
    plain.current_owner = NULL;
    TRY(bal_chain_of(&plain, at->memory, &at->chain, at->err));
    at->stage_count = problem->stage_count;
    at->chunk_count = at->chain.chunk_count;
    at->place_count = at->stage_count / at->chunk_count;
    at->group_size = at->question->rank_unit != 0 ? at->question->rank_unit : 1;
    assert(at->place_count <= at->question->machine->rank_count);
    assert(at->place_count % at->group_size == 0);
    at->group_count = at->question->machine->rank_count / at->group_size;
    at->owner = arena_array(at->memory, (size_t)at->chain.layer_count, sizeof *at->owner);
    bal_placed_owners(at->question->before, at->owner);
    at->load_max = bal_grown(bal_chain_largest_load(&at->chain, at->question->first_layer),
                             at->options->slack_ratio);
    return STATUS_OK;
}

/// What messages between neighbours of the pipeline take: one each way over every cut.
static int64_t neighbours_ns(const search *at, const candidate *plan)
{
    const bal_machine *machine = at->question->machine;
    const int64_t *message = at->question->problem->layers.message_bytes;
    const bal_placed_partition to = placed(at, plan->first_layer, plan->machine_rank);
    int64_t sum = 0;
    for (int stage = 0; stage + 1 < at->stage_count; stage++) {
        const int rank = bal_placed_machine_rank(&to, stage);
        const int other = bal_placed_machine_rank(&to, stage + 1);
        const int cut = plan->first_layer[stage + 1];
        if (rank == other || cut == 0 || cut == at->chain.layer_count) continue;
        const int64_t ns = bal_link_transfer_ns(bal_machine_link(machine, rank, other),
                                                message != NULL ? message[cut - 1] : 0);
        const int64_t both = 2 * ns; // a link saturates at a quarter of int64
        sum = sum > INT64_MAX - both ? INT64_MAX : sum + both;
    }
    return sum;
}

/// Fills what a plan's cuts and ranks cost, but for its migration's time where it has none.
static void measure(const search *at, candidate *plan)
{
    plan->bottleneck_ns = bal_chain_largest_load(&at->chain, plan->first_layer);
    const bal_wide cost = (bal_wide)neighbours_ns(at, plan) * at->options->neighbour_iterations +
                          plan->migration.time_ns;
    plan->cost_ns = cost > INT64_MAX ? INT64_MAX : (int64_t)cost;
}

/// Copies cuts and ranks into a new candidate, and measures it, unless it breaks a rule.
static status consider(search *at, const int *first_layer, const int *machine_rank)
{
    assert(at->candidate_count < CANDIDATES_MAX);
    const size_t cuts = (size_t)at->stage_count + 1;
    const size_t places = (size_t)at->place_count;
    candidate plan = {.first_layer = arena_array(at->memory, cuts, sizeof *first_layer),
                      .machine_rank = arena_array(at->memory, places, sizeof *machine_rank)};
    memcpy(plan.first_layer, first_layer, cuts * sizeof *first_layer);
    memcpy(plan.machine_rank, machine_rank, places * sizeof *machine_rank);
    plan.is_decided =
        memcmp(first_layer, at->question->first_layer, cuts * sizeof *first_layer) == 0;
    const bal_placed_partition to = placed(at, plan.first_layer, plan.machine_rank);
    TRY(bal_migration_between(at->question->before, &to, &at->question->problem->layers,
                              at->question->machine, at->memory, &plan.migration, at->err));
    measure(at, &plan);
    if (plan.bottleneck_ns > at->load_max) return STATUS_OK;
    if (bal_chain_check(&at->chain, first_layer, NULL) != STATUS_OK) return STATUS_OK;
    at->candidates[at->candidate_count++] = plan;
    return STATUS_OK;
}

/// Whether the ranks make up whole groups.
static bool may_use_ranks(const search *at, const int *machine_rank)
{
    for (int place = 0; place < at->place_count; place++) {
        int mates = 0; // of its group, itself included
        for (int other = 0; other < at->place_count; other++) {
            mates += machine_rank[other] / at->group_size == machine_rank[place] / at->group_size;
        }
        if (mates != at->group_size) return false;
    }
    return true;
}

/// Fills the ranks in force. False if a plan of so many places may not be on them.
static bool take_ranks_in_force(const search *at, int *machine_rank)
{
    const bal_placed_partition *before = at->question->before;
    for (int place = 0; place < at->place_count && place < before->rank_count; place++) {
        machine_rank[place] = before->machine_rank != NULL ? before->machine_rank[place] : place;
    }
    return before->rank_count == at->place_count && may_use_ranks(at, machine_rank);
}

/// The ranks that the balancer had in mind, with its cuts, if they may be used.
static status consider_decided(search *at)
{
    const int *wanted = at->question->problem->machine_rank;
    int *machine_rank = arena_array(at->memory, (size_t)at->place_count, sizeof *machine_rank);
    for (int place = 0; place < at->place_count; place++) {
        machine_rank[place] = wanted != NULL ? wanted[place] : place;
    }
    if (!may_use_ranks(at, machine_rank)) return STATUS_OK;
    return consider(at, at->question->first_layer, machine_rank);
}

/// Bytes that stay where they are under some cuts if a group of places is on a group of
/// ranks, place by place.
static int64_t staying_bytes(const search *at, const int *first_layer, int group, int taken)
{
    const int64_t *state = at->chain.state_before;
    int64_t bytes = 0;
    for (int index = 0; index < at->group_size; index++) {
        const int rank = group * at->group_size + index;
        for (int chunk = 0; chunk < at->chunk_count; chunk++) {
            const int stage = bal_chain_stage_of(&at->chain, taken * at->group_size + index, chunk);
            for (int layer = first_layer[stage]; layer < first_layer[stage + 1]; layer++) {
                if (at->owner[layer] == rank) bytes += state[layer + 1] - state[layer];
            }
        }
    }
    return bytes;
}

/// Chooses groups of ranks, in order, so that the most bytes stay under some cuts:
/// most[k] by the first k groups of places, on some of the groups of ranks seen so far.
///
/// @param machine_rank [place_count] out
static void keep_groups(search *at, const int *first_layer, int *machine_rank)
{
    const int wanted = at->place_count / at->group_size;
    const size_t cells = (size_t)at->group_count * (size_t)wanted;
    int64_t *most = arena_array(at->memory, (size_t)wanted + 1, sizeof *most);
    bool *is_taken = arena_array(at->memory, cells, sizeof *is_taken);
    for (int taken = 1; taken <= wanted; taken++) {
        most[taken] = NOWHERE;
    }
    for (int group = 0; group < at->group_count; group++) {
        for (int taken = wanted - 1; taken >= 0; taken--) {
            if (most[taken] == NOWHERE) continue;
            const int64_t more = most[taken] + staying_bytes(at, first_layer, group, taken);
            if (more <= most[taken + 1]) continue;
            most[taken + 1] = more;
            is_taken[(int64_t)group * wanted + taken] = true;
        }
    }
    int place = at->place_count;
    for (int group = at->group_count - 1; group >= 0 && place > 0; group--) {
        const int taken = place / at->group_size - 1;
        if (!is_taken[(int64_t)group * wanted + taken]) continue;
        for (int index = at->group_size - 1; index >= 0; index--) {
            machine_rank[--place] = group * at->group_size + index;
        }
    }
    assert(place == 0);
}

/// The cuts within the slack that move the fewest bytes to given ranks. Of a loop of two chunks
/// only the balancer's middle is looked at.
static bool find_cuts(search *at, const int *machine_rank, int *first_layer)
{
    int64_t bytes = 0;
    const int middle = at->question->first_layer[at->place_count];
    return bal_partition_chunks_moved_bytes(&at->chain, at->owner, machine_rank, at->load_max,
                                            middle, at->memory, first_layer, &bytes,
                                            NULL) == STATUS_OK;
}

/// Whether transfers take any time; if not, bytes are compared instead.
static bool has_time(const bal_machine *machine)
{
    return machine->intra_node.bytes_per_s > 0 || machine->inter_node.bytes_per_s > 0 ||
           machine->intra_node.latency_ns > 0 || machine->inter_node.latency_ns > 0;
}

/// What it costs to have the layers of a place on a rank.
static int64_t cost_of(const search *at, const int *first_layer, int place, int rank)
{
    const int64_t *state = at->chain.state_before;
    const bal_machine *machine = at->question->machine;
    bal_wide sum = 0;
    for (int chunk = 0; chunk < at->chunk_count; chunk++) {
        const int stage = bal_chain_stage_of(&at->chain, place, chunk);
        for (int layer = first_layer[stage]; layer < first_layer[stage + 1]; layer++) {
            const int64_t bytes = state[layer + 1] - state[layer];
            if (at->owner[layer] == rank) continue;
            sum += !has_time(machine)
                       ? bytes
                       : bal_link_transfer_ns(bal_machine_link(machine, at->owner[layer], rank),
                                              bytes);
        }
    }
    return sum > INT64_MAX ? INT64_MAX : (int64_t)sum;
}

/// Gives the places of some cuts the ranks that are cheapest to get to: an assignment problem.
/// Groups of several ranks stay the ones that the places have.
static status relabel(search *at, const int *first_layer, int *machine_rank)
{
    const int places = at->place_count;
    const int ranks = at->group_size > 1 ? places : at->group_count;
    const size_t cells = (size_t)ranks * (size_t)places;
    int *rank = arena_array(at->memory, (size_t)ranks, sizeof *rank);
    int *column = arena_array(at->memory, (size_t)places, sizeof *column);
    int64_t *cost = arena_array(at->memory, cells, sizeof *cost);
    for (int index = 0; index < ranks; index++) {
        rank[index] = at->group_size > 1 ? machine_rank[index] : index;
    }
    for (int place = 0; place < places; place++) {
        for (int index = 0; index < ranks; index++) {
            cost[(int64_t)place * ranks + index] = cost_of(at, first_layer, place, rank[index]);
        }
    }
    TRY(bal_assignment(cost, places, ranks, at->memory, column, at->err));
    for (int place = 0; place < places; place++) {
        machine_rank[place] = rank[column[place]];
    }
    return STATUS_OK;
}

/// From some cuts on, ranks and cuts in turn, each as good as the other allows; ranks in their
/// order or, relabelled, in any.
static status improve(search *at, bool relabels, int *first_layer, int *machine_rank)
{
    for (int round = 0; round < ROUNDS; round++) {
        if (relabels) TRY(relabel(at, first_layer, machine_rank));
        if (!relabels) keep_groups(at, first_layer, machine_rank);
        TRY(consider(at, first_layer, machine_rank));
        if (at->options->slack_ratio == 0) return STATUS_OK;
        if (!find_cuts(at, machine_rank, first_layer)) return STATUS_OK;
        TRY(consider(at, first_layer, machine_rank));
    }
    return STATUS_OK;
}

/// Fills the candidates.
static status search_all(search *at)
{
    const size_t cuts = (size_t)at->stage_count + 1;
    int *first_layer = arena_array(at->memory, cuts, sizeof *first_layer);
    int *machine_rank = arena_array(at->memory, (size_t)at->place_count, sizeof *machine_rank);
    memcpy(first_layer, at->question->first_layer, cuts * sizeof *first_layer);
    TRY(consider_decided(at));
    TRY(improve(at, false, first_layer, machine_rank));
    if (!at->options->relabels) return STATUS_OK;
    if (at->options->slack_ratio > 0) {
        TRY(improve(at, true, first_layer, machine_rank));
        int *kept = arena_array(at->memory, (size_t)at->place_count, sizeof *kept);
        if (take_ranks_in_force(at, kept) && find_cuts(at, kept, first_layer)) {
            TRY(improve(at, true, first_layer, kept));
        }
    }
    memcpy(first_layer, at->question->first_layer, cuts * sizeof *first_layer);
    return improve(at, true, first_layer, machine_rank);
}

bal_migration_options bal_migration_options_default(void)
{
    return (bal_migration_options){.neighbour_iterations = 100};
}

/// The candidate with the smallest cost, then the fewest bytes, then the first; NULL: none.
static candidate *cheapest(search *at, bool is_decided_only)
{
    candidate *best = NULL;
    for (int index = 0; index < at->candidate_count; index++) {
        candidate *plan = &at->candidates[index];
        if (plan->is_rejected || (is_decided_only && !plan->is_decided)) continue;
        const bool is_cheaper =
            best == NULL || plan->cost_ns < best->cost_ns ||
            (plan->cost_ns == best->cost_ns && plan->migration.bytes < best->migration.bytes);
        if (is_cheaper) best = plan;
    }
    return best;
}

static status predict(const search *at, const candidate *plan, int64_t *iteration_ns)
{
    const bal_placed_partition asked = placed(at, plan->first_layer, plan->machine_rank);
    return bal_problem_predict(at->question->problem, &asked, iteration_ns, at->err);
}

/// The cheapest candidate whose predicted iteration is within the slack of the decided cuts'.
static status pick(search *at, const candidate **picked)
{
    candidate *decided = cheapest(at, true);
    const bool is_held = decided != NULL && at->question->problem->evaluator != NULL;
    int64_t decided_ns = -1;
    for (;;) {
        candidate *best = cheapest(at, false);
        *picked = best;
        assert(best != NULL); // the balancer's cuts, on ranks in their order
        if (best->is_decided || !is_held) return STATUS_OK;
        int64_t best_ns = 0;
        if (decided_ns < 0) TRY(predict(at, decided, &decided_ns));
        TRY(predict(at, best, &best_ns));
        if (best_ns <= bal_grown(decided_ns, at->options->slack_ratio)) return STATUS_OK;
        best->is_rejected = true;
    }
}

/// Replaces the picked plan by the one in force if that could be kept and the new one does not gain
/// enough.
static status keep_by_hysteresis(search *at, candidate *picked)
{
    const bal_placed_partition *before = at->question->before;
    if (before->chunk_count != at->chunk_count ||
        before->placement != at->question->problem->placement) {
        return STATUS_OK;
    }
    const size_t cuts = (size_t)at->stage_count + 1;
    candidate kept = {.first_layer = arena_array(at->memory, cuts, sizeof *kept.first_layer),
                      .machine_rank = arena_array(at->memory, (size_t)at->place_count,
                                                  sizeof *kept.machine_rank)};
    if (!take_ranks_in_force(at, kept.machine_rank)) return STATUS_OK;
    memcpy(kept.first_layer, before->first_layer, cuts * sizeof *kept.first_layer);
    if (bal_chain_check(&at->chain, kept.first_layer, NULL) != STATUS_OK) return STATUS_OK;
    measure(at, &kept);
    int64_t before_ns = kept.bottleneck_ns;
    int64_t after_ns = picked->bottleneck_ns;
    if (at->question->problem->evaluator != NULL) {
        TRY(predict(at, &kept, &before_ns));
        TRY(predict(at, picked, &after_ns));
    }
    const bool gains = (double)after_ns < (double)before_ns * (1 - at->options->hysteresis_ratio);
    if (!gains) *picked = kept;
    return STATUS_OK;
}

status bal_migration_plan(const bal_migration_question *question,
                          const bal_migration_options *options, arena *memory,
                          bal_migration_choice *choice, error_message *err)
{
    search *at = arena_array(memory, 1, sizeof *at);
    *at = (search){.question = question, .options = options, .memory = memory, .err = err};
    TRY(search_init(at));
    TRY(search_all(at));
    const candidate *picked = NULL;
    TRY(pick(at, &picked));
    candidate chosen = *picked;
    if (options->hysteresis_ratio > 0) TRY(keep_by_hysteresis(at, &chosen));
    *choice = (bal_migration_choice){.plan = placed(at, chosen.first_layer, chosen.machine_rank),
                                     .migration = chosen.migration,
                                     .bottleneck_ns = chosen.bottleneck_ns,
                                     .cost_ns = chosen.cost_ns};
    return STATUS_OK;
}
