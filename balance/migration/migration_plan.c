/// Finds candidates by exact searches over moved bytes and ranks, and picks the cheapest.
#include "balance/migration/migration_plan.h"

#include "balance/migration/assignment.h"
#include "balance/partition/chain.h"
#include "balance/partition/move_table.h"
#include "balance/partition/partition_pairs.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/// Rounds of ranks and cuts in turn, and what they and the rest can find.
enum { ROUNDS_MAX = 4, CANDIDATES_MAX = 1 + 3 * (1 + 2 * ROUNDS_MAX) };

/// One plan that could be moved to.
typedef struct candidate {
    int *first_layer;        // [stage_count + 1]
    int *machine_rank;       // [place_count]
    bal_migration migration; // from the plan in force
    int64_t bottleneck_ns;
    int64_t neighbour_ns;
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
    int group_size;      // ranks used together
    int group_count;     // groups of which every rank is available
    int *group_rank;     // [group_count * group_size] in the order in which places try them
    int *owner;          // [layer_count] rank that holds it now
    int64_t *intra_cost; // [layer_count] of a transfer inside a node: ns, or bytes where no link
    int64_t *inter_cost; // takes time
    int64_t load_max;
    bal_move_table table; // cuts within load_max, or the balancer's alone
    bool is_pinned;       // the latter
    int *stage_rank;      // [stage_count] scratch
    candidate candidates[CANDIDATES_MAX];
    int candidate_count;
} search;

enum { NOWHERE = -1 };

static bool is_available(const search *at, int rank)
{
    return at->question->is_available == NULL || at->question->is_available[rank];
}

static bal_placed_partition placed(const search *at, const candidate *plan)
{
    bal_placed_partition out = bal_problem_placed(at->question->problem, plan->first_layer);
    out.machine_rank = plan->machine_rank;
    return out;
}

static int place_of(const search *at, int stage)
{
    return bal_rank_of_stage(at->question->problem->placement, at->place_count, at->chunk_count,
                             stage, NULL);
}

static void fill_stage_ranks(const search *at, const int *machine_rank)
{
    for (int stage = 0; stage < at->stage_count; stage++) {
        at->stage_rank[stage] = machine_rank[place_of(at, stage)];
    }
}

static status check_counts(const search *at)
{
    const bal_machine *machine = at->question->machine;
    if (at->stage_count % at->chunk_count != 0) {
        return error_set(at->err, STATUS_INVALID, "%d stages are no multiple of %d chunks",
                         at->stage_count, at->chunk_count);
    }
    if (at->place_count > machine->rank_count) {
        return error_set(at->err, STATUS_INVALID, "the plan has %d places, the machine %d ranks",
                         at->place_count, machine->rank_count);
    }
    if (at->group_size < 1 || at->place_count % at->group_size != 0 ||
        machine->rank_count % at->group_size != 0) {
        return error_set(at->err, STATUS_INVALID,
                         "rank_unit %d divides not both %d places and %d ranks of the machine",
                         at->group_size, at->place_count, machine->rank_count);
    }
    return bal_placed_check(at->question->before, at->chain.layer_count, machine->rank_count,
                            "the plan in force", at->err);
}

/// Puts a group of ranks after those that places try, if all of it is available and it is new.
static void add_group(search *at, int group, bool *is_listed)
{
    if (is_listed[group]) return;
    for (int index = 0; index < at->group_size; index++) {
        if (!is_available(at, group * at->group_size + index)) return;
    }
    is_listed[group] = true;
    for (int index = 0; index < at->group_size; index++) {
        at->group_rank[at->group_count * at->group_size + index] = group * at->group_size + index;
    }
    at->group_count++;
}

static bool is_rising(const bal_placed_partition *plan)
{
    for (int place = 1; plan->machine_rank != NULL && place < plan->rank_count; place++) {
        if (plan->machine_rank[place] < plan->machine_rank[place - 1]) return false;
    }
    return true;
}

/// The order in which places try ranks: by number; where ranks may have any order and those in
/// force have another one, first these in theirs.
static status list_groups(search *at)
{
    const int ranks = at->question->machine->rank_count;
    const bal_placed_partition *before = at->question->before;
    at->group_rank = arena_array(at->memory, (size_t)ranks, sizeof *at->group_rank);
    bool *is_listed = arena_array(at->memory, (size_t)ranks, sizeof *is_listed);
    const bool by_place = at->options->relabels && !is_rising(before);
    for (int place = 0; by_place && place < before->rank_count; place++) {
        add_group(at, before->machine_rank[place] / at->group_size, is_listed);
    }
    for (int group = 0; group < ranks / at->group_size; group++) {
        add_group(at, group, is_listed);
    }
    if (at->group_count * at->group_size >= at->place_count) return STATUS_OK;
    return error_set(at->err, STATUS_INFEASIBLE,
                     "%d places need as many ranks, and only %d are available in units of %d",
                     at->place_count, at->group_count * at->group_size, at->group_size);
}

/// What each layer's transfer costs inside a node and between nodes.
static status fill_costs(search *at)
{
    const bal_layer_costs *layers = &at->question->problem->layers;
    const bal_machine *machine = at->question->machine;
    const size_t count = (size_t)layers->layer_count;
    at->intra_cost = arena_array(at->memory, count, sizeof *at->intra_cost);
    at->inter_cost = arena_array(at->memory, count, sizeof *at->inter_cost);
    const bool has_time = machine->intra_node.bytes_per_s > 0 ||
                          machine->inter_node.bytes_per_s > 0 ||
                          machine->intra_node.latency_ns > 0 || machine->inter_node.latency_ns > 0;
    const int64_t limit = INT64_MAX / 4 / ((int64_t)at->place_count + 1);
    int64_t sum = 0;
    for (int layer = 0; layer < layers->layer_count; layer++) {
        const int64_t bytes = layers->state_bytes != NULL ? layers->state_bytes[layer] : 0;
        at->intra_cost[layer] = has_time ? bal_link_transfer_ns(machine->intra_node, bytes) : bytes;
        at->inter_cost[layer] = has_time ? bal_link_transfer_ns(machine->inter_node, bytes) : bytes;
        const int64_t more = at->intra_cost[layer] > at->inter_cost[layer] ? at->intra_cost[layer]
                                                                           : at->inter_cost[layer];
        if (more > limit - sum) {
            return error_set(at->err, STATUS_INVALID,
                             "the transfers of layers 0 to %d together exceed %" PRId64 " %s",
                             layer, limit, has_time ? "ns" : "bytes");
        }
        sum += more;
    }
    return STATUS_OK;
}

/// The largest value that the slack allows: value * (1 + slack_ratio), at most INT64_MAX.
static int64_t within_slack(int64_t value, double slack_ratio)
{
    const double slack = slack_ratio * (double)value;
    if (slack >= (double)(INT64_MAX - value)) return INT64_MAX;
    return value + (int64_t)slack;
}

/// Load of a place, all its chunks together.
static int64_t place_load(const search *at, const int *first_layer, int place)
{
    int64_t load = 0;
    for (int chunk = 0; chunk < at->chunk_count; chunk++) {
        const int stage = bal_chain_stage_of(&at->chain, place, chunk);
        load += bal_chain_load(&at->chain, stage, first_layer[stage], first_layer[stage + 1]);
    }
    return load;
}

static status search_init(search *at)
{
    const bal_problem *problem = at->question->problem;
    bal_problem plain = *problem; // what is compared here has no use for the plan in force
    plain.current_first_layer = NULL;
    plain.current_owner = NULL;
    TRY(bal_migration_options_check(at->options, at->err));
    TRY(bal_chain_of(&plain, at->memory, &at->chain, at->err));
    at->stage_count = problem->stage_count;
    at->chunk_count = problem->chunk_count > 0 ? problem->chunk_count : 1;
    at->place_count = at->stage_count / at->chunk_count;
    at->group_size = at->question->rank_unit != 0 ? at->question->rank_unit : 1;
    TRY(check_counts(at));
    TRY(bal_chain_check(&at->chain, at->question->first_layer, at->err));
    at->owner = arena_array(at->memory, (size_t)at->chain.layer_count, sizeof *at->owner);
    at->stage_rank = arena_array(at->memory, (size_t)at->stage_count, sizeof *at->stage_rank);
    bal_placed_owners(at->question->before, at->owner);
    TRY(list_groups(at));
    TRY(fill_costs(at));
    int64_t bottleneck = 0;
    for (int place = 0; place < at->place_count; place++) {
        const int64_t load = place_load(at, at->question->first_layer, place);
        if (load > bottleneck) bottleneck = load;
    }
    at->load_max = within_slack(bottleneck, at->options->slack_ratio);
    return STATUS_OK;
}

/// Makes the table for these cuts alone, or where they are NULL for all within the slack.
static status take_table(search *at, const int *first_layer)
{
    at->is_pinned = first_layer != NULL;
    return bal_move_table_init(&at->chain, at->owner, at->load_max, first_layer, at->memory,
                               &at->table, at->err);
}

/// What messages between neighbours of the pipeline take: one each way over every cut.
static void add_neighbours(const search *at, candidate *plan)
{
    const bal_machine *machine = at->question->machine;
    const int64_t *message = at->question->problem->layers.message_bytes;
    fill_stage_ranks(at, plan->machine_rank);
    for (int stage = 0; stage + 1 < at->stage_count; stage++) {
        const int rank = at->stage_rank[stage];
        const int other = at->stage_rank[stage + 1];
        const int cut = plan->first_layer[stage + 1];
        if (rank == other || cut == 0 || cut == at->chain.layer_count) continue;
        const int64_t ns = bal_link_transfer_ns(bal_machine_link(machine, rank, other),
                                                message != NULL ? message[cut - 1] : 0);
        const int64_t both = 2 * ns; // a link saturates at a quarter of int64
        plan->neighbour_ns =
            plan->neighbour_ns > INT64_MAX - both ? INT64_MAX : plan->neighbour_ns + both;
    }
}

static bool is_same(const search *at, const candidate *one, const candidate *other)
{
    return memcmp(one->first_layer, other->first_layer,
                  ((size_t)at->stage_count + 1) * sizeof *one->first_layer) == 0 &&
           memcmp(one->machine_rank, other->machine_rank,
                  (size_t)at->place_count * sizeof *one->machine_rank) == 0;
}

/// Fills what a plan's cuts and ranks cost, from them and its migration. False if a load exceeds
/// load_max.
static bool measure(search *at, candidate *plan)
{
    bool is_within = true;
    plan->bottleneck_ns = 0;
    for (int place = 0; place < at->place_count; place++) {
        const int64_t load = place_load(at, plan->first_layer, place);
        if (load > at->load_max) is_within = false;
        if (load > plan->bottleneck_ns) plan->bottleneck_ns = load;
    }
    add_neighbours(at, plan);
    const bal_wide cost =
        (bal_wide)plan->neighbour_ns * at->options->neighbour_iterations + plan->migration.time_ns;
    plan->cost_ns = cost > INT64_MAX ? INT64_MAX : (int64_t)cost;
    return is_within && bal_chain_check(&at->chain, plan->first_layer, NULL) == STATUS_OK;
}

/// Adds a plan to the candidates, unless it is known or a stage's load does not suit its rank.
///
/// @param plan with first_layer and machine_rank, which are copied, and is_decided
static status consider(search *at, candidate plan)
{
    assert(at->candidate_count < CANDIDATES_MAX);
    for (int index = 0; index < at->candidate_count; index++) {
        if (is_same(at, &plan, &at->candidates[index])) return STATUS_OK;
    }
    const size_t cuts = (size_t)at->stage_count + 1;
    const size_t places = (size_t)at->place_count;
    int *first_layer = arena_array(at->memory, cuts, sizeof *first_layer);
    int *machine_rank = arena_array(at->memory, places, sizeof *machine_rank);
    memcpy(first_layer, plan.first_layer, cuts * sizeof *first_layer);
    memcpy(machine_rank, plan.machine_rank, places * sizeof *machine_rank);
    plan.first_layer = first_layer;
    plan.machine_rank = machine_rank;
    const bal_placed_partition to = placed(at, &plan);
    TRY(bal_migration_between(at->question->before, &to, &at->question->problem->layers,
                              at->question->machine, at->memory, &plan.migration, at->err));
    if (!measure(at, &plan)) return STATUS_OK;
    at->candidates[at->candidate_count++] = plan;
    return STATUS_OK;
}

/// Whether the ranks are available and make up whole groups.
static bool may_use_ranks(const search *at, const int *machine_rank)
{
    for (int place = 0; place < at->place_count; place++) {
        if (!is_available(at, machine_rank[place])) return false;
        int mates = 0; // of its group, itself included
        for (int other = 0; at->group_size > 1 && other < at->place_count; other++) {
            mates += machine_rank[other] / at->group_size == machine_rank[place] / at->group_size;
        }
        if (at->group_size > 1 && mates != at->group_size) return false;
    }
    return true;
}

/// The ranks that the balancer had in mind, with its cuts, if they may be used.
static status consider_decided(search *at)
{
    const int *first_layer = at->question->first_layer;
    int *machine_rank = arena_array(at->memory, (size_t)at->place_count, sizeof *machine_rank);
    int *cuts = arena_array(at->memory, (size_t)at->stage_count + 1, sizeof *cuts);
    const int *wanted = at->question->problem->machine_rank;
    for (int place = 0; place < at->place_count; place++) {
        machine_rank[place] = wanted != NULL ? wanted[place] : place;
        if (machine_rank[place] < 0 || machine_rank[place] >= at->question->machine->rank_count) {
            return error_set(at->err, STATUS_INVALID, "place %d is on rank %d of a machine of %d",
                             place, machine_rank[place], at->question->machine->rank_count);
        }
    }
    if (!may_use_ranks(at, machine_rank)) return STATUS_OK;
    memcpy(cuts, first_layer, ((size_t)at->stage_count + 1) * sizeof *cuts);
    return consider(
        at, (candidate){.first_layer = cuts, .machine_rank = machine_rank, .is_decided = true});
}

/// Bytes that stay where they are if a group of places is on a group of ranks, both in order, with
/// the balancer's cuts.
///
/// @param stay [group_count][wanted] out, 0 at first
static void fill_staying(const search *at, const int *group_of_rank, int wanted, int64_t *stay)
{
    const int *first_layer = at->question->first_layer;
    const int64_t *state = at->chain.state_before;
    for (int stage = 0; stage < at->stage_count; stage++) {
        const int place = place_of(at, stage);
        for (int layer = first_layer[stage]; layer < first_layer[stage + 1]; layer++) {
            const int rank = at->owner[layer];
            const int group = group_of_rank[rank / at->group_size];
            if (group == NOWHERE || rank % at->group_size != place % at->group_size) continue;
            stay[(int64_t)group * wanted + place / at->group_size] +=
                state[layer + 1] - state[layer];
        }
    }
}

/// Chooses groups of ranks, in order, so that the most bytes stay under the balancer's cuts.
///
/// @param machine_rank [place_count] out
static void keep_groups(search *at, int *machine_rank)
{
    const int wanted = at->place_count / at->group_size;
    const int groups = at->group_count;
    const int all = at->question->machine->rank_count / at->group_size;
    const size_t cells = (size_t)groups * (size_t)wanted;
    int *group_of_rank = arena_array(at->memory, (size_t)all, sizeof *group_of_rank);
    int64_t *stay = arena_array(at->memory, cells, sizeof *stay);
    int64_t *most = arena_array(at->memory, (size_t)wanted + 1, sizeof *most);
    bool *is_taken = arena_array(at->memory, cells, sizeof *is_taken);
    for (int group = 0; group < all; group++) {
        group_of_rank[group] = NOWHERE;
    }
    for (int group = 0; group < groups; group++) {
        group_of_rank[at->group_rank[group * at->group_size] / at->group_size] = group;
    }
    fill_staying(at, group_of_rank, wanted, stay);
    for (int taken = 1; taken <= wanted; taken++) {
        most[taken] = NOWHERE;
    }
    for (int group = 0; group < groups; group++) {
        for (int taken = wanted - 1; taken >= 0; taken--) {
            if (most[taken] == NOWHERE) continue;
            const int64_t more = most[taken] + stay[(int64_t)group * wanted + taken];
            if (more <= most[taken + 1]) continue;
            most[taken + 1] = more;
            is_taken[(int64_t)group * wanted + taken] = true;
        }
    }
    int taken = wanted;
    for (int group = groups - 1; group >= 0 && taken > 0; group--) {
        if (!is_taken[(int64_t)group * wanted + taken - 1]) continue;
        taken--;
        memcpy(&machine_rank[taken * at->group_size], &at->group_rank[group * at->group_size],
               (size_t)at->group_size * sizeof *machine_rank);
    }
    assert(taken == 0);
}

/// The fewest bytes with two chunks on each of the ranks that are chosen. Of a loop only the
/// balancer's middle is looked at.
static void fewest_of_pairs(search *at, candidate *plan, bool *is_found)
{
    int64_t bytes = 0;
    error_message why = {0};
    const status found = bal_partition_pairs_moved_bytes(
        &at->chain, at->owner, plan->machine_rank, at->load_max,
        at->question->first_layer[at->place_count], at->memory, plan->first_layer, &bytes, &why);
    *is_found = found == STATUS_OK;
    return; // none, or too many to compare: the balancer's cuts remain
}

/// The fewest bytes with the ranks that are chosen.
///
/// @param plan machine_rank; first_layer is filled
static void fewest_bytes(search *at, candidate *plan, bool *is_found)
{
    if (at->chunk_count == 2 && !at->is_pinned && at->chain.transfer_ns == NULL) {
        fewest_of_pairs(at, plan, is_found);
        return;
    }
    int64_t bytes = 0;
    fill_stage_ranks(at, plan->machine_rank);
    *is_found = bal_move_table_fixed(&at->table, at->stage_rank, plan->first_layer, &bytes);
}

/// The fewest bytes with ranks in order.
///
/// @param plan first_layer and machine_rank are filled
static void search_in_order(search *at, candidate *plan, bool *is_found)
{
    int64_t bytes = 0;
    const bool needs_all = at->group_count * at->group_size == at->place_count;
    if (!needs_all && at->chunk_count == 1 &&
        bal_move_table_allows_subset(&at->table, at->group_count)) {
        bal_move_table_subset(&at->table, at->group_rank, at->group_count, at->group_size,
                              at->memory, plan->machine_rank, plan->first_layer, &bytes, is_found);
        return;
    }
    keep_groups(at, plan->machine_rank);
    fewest_bytes(at, plan, is_found);
}

/// Takes back what a layer does not cost on its own rank and on the ranks of its node.
static void credit_node(const search *at, int layer, int64_t *row)
{
    const bal_machine *machine = at->question->machine;
    const int owner = at->owner[layer];
    const int first = owner / machine->ranks_per_node * machine->ranks_per_node;
    for (int rank = first; rank < first + machine->ranks_per_node; rank++) {
        if (rank >= machine->rank_count || row[rank] == BAL_ASSIGNMENT_FORBIDDEN) continue;
        row[rank] += (rank == owner ? 0 : at->intra_cost[layer]) - at->inter_cost[layer];
    }
}

/// What it costs to have the layers of every place on every rank.
///
/// @param cost [place_count][rank_count] out, 0 at first
static void fill_assignment(search *at, const candidate *plan, const bool *may_use, int64_t *cost)
{
    const int ranks = at->question->machine->rank_count;
    for (int stage = 0; stage < at->stage_count; stage++) {
        const int begin = plan->first_layer[stage];
        const int end = plan->first_layer[stage + 1];
        int64_t *row = cost + (int64_t)place_of(at, stage) * ranks;
        int64_t all = 0;
        for (int layer = begin; layer < end; layer++) {
            all += at->inter_cost[layer];
        }
        for (int rank = 0; rank < ranks; rank++) {
            if (row[rank] == BAL_ASSIGNMENT_FORBIDDEN) continue;
            const bool carries = may_use[rank] && place_load(at, plan->first_layer,
                                                             place_of(at, stage)) <= at->load_max;
            row[rank] = carries ? row[rank] + all : BAL_ASSIGNMENT_FORBIDDEN;
        }
        for (int layer = begin; layer < end; layer++) {
            credit_node(at, layer, row);
        }
    }
}

/// Gives the places of a plan the ranks that are cheapest to get to. Groups of several ranks stay
/// the ones that the plan has.
static status relabel(search *at, candidate *plan, bool *is_found)
{
    const int ranks = at->question->machine->rank_count;
    bool *may_use = arena_array(at->memory, (size_t)ranks, sizeof *may_use);
    int64_t *cost = arena_array(at->memory, (size_t)ranks * (size_t)at->place_count, sizeof *cost);
    if (at->group_size == 1) {
        for (int rank = 0; rank < ranks; rank++) {
            may_use[rank] = is_available(at, rank);
        }
    } else {
        for (int place = 0; place < at->place_count; place++) {
            may_use[plan->machine_rank[place]] = true;
        }
    }
    fill_assignment(at, plan, may_use, cost);
    const status assigned =
        bal_assignment(cost, at->place_count, ranks, at->memory, plan->machine_rank, NULL, at->err);
    *is_found = assigned == STATUS_OK;
    return assigned == STATUS_INFEASIBLE ? STATUS_OK : assigned;
}

/// Improves ranks and cuts in turn, each time as well as the other allows.
///
/// @param plan where it begins; its arrays are scratch afterwards
static status improve(search *at, candidate *plan)
{
    for (int round = 0; round < ROUNDS_MAX; round++) {
        const int known = at->candidate_count;
        bool is_found = false;
        TRY(relabel(at, plan, &is_found));
        if (!is_found) return STATUS_OK;
        TRY(consider(at, *plan));
        if (plan->is_decided) return STATUS_OK;
        fewest_bytes(at, plan, &is_found);
        if (!is_found) return STATUS_OK;
        TRY(consider(at, *plan));
        if (at->candidate_count == known) return STATUS_OK;
    }
    return STATUS_OK;
}

static bool is_cheaper(const candidate *one, const candidate *other)
{
    if (one->cost_ns != other->cost_ns) return one->cost_ns < other->cost_ns;
    return one->migration.bytes < other->migration.bytes;
}

/// The cheapest candidate that is not rejected, or NULL: the smallest cost, then the fewest bytes,
/// then the first.
static candidate *cheapest(search *at, bool is_decided_only)
{
    candidate *best = NULL;
    for (int index = 0; index < at->candidate_count; index++) {
        candidate *plan = &at->candidates[index];
        if (plan->is_rejected || (is_decided_only && !plan->is_decided)) continue;
        if (best == NULL || is_cheaper(plan, best)) best = plan;
    }
    return best;
}

/// Carves the arrays of a candidate.
static void carve_candidate(search *at, candidate *plan)
{
    plan->first_layer =
        arena_array(at->memory, (size_t)at->stage_count + 1, sizeof *plan->first_layer);
    plan->machine_rank =
        arena_array(at->memory, (size_t)at->place_count, sizeof *plan->machine_rank);
}

/// Considers the best that the table at hand gives with ranks in their order, and what comes of it.
static status consider_in_order(search *at, candidate *plan)
{
    bool is_found = false;
    carve_candidate(at, plan);
    search_in_order(at, plan, &is_found);
    if (!is_found) return STATUS_OK;
    TRY(consider(at, *plan));
    return at->options->relabels ? improve(at, plan) : STATUS_OK;
}

static status search_decided(search *at)
{
    candidate plan = {.is_decided = true};
    TRY(take_table(at, at->question->first_layer));
    TRY(consider_decided(at));
    return consider_in_order(at, &plan);
}

/// Starts from the cuts that move least, and from the balancer's on the ranks found for them.
static status search_within_slack(search *at)
{
    candidate plan = {0};
    TRY(take_table(at, NULL));
    TRY(consider_in_order(at, &plan));
    const candidate *decided = cheapest(at, true);
    if (decided == NULL || !at->options->relabels) return STATUS_OK;
    memcpy(plan.first_layer, decided->first_layer,
           ((size_t)at->stage_count + 1) * sizeof *plan.first_layer);
    memcpy(plan.machine_rank, decided->machine_rank,
           (size_t)at->place_count * sizeof *plan.machine_rank);
    return improve(at, &plan);
}

/// Checks the question and fills candidates.
static status search_all(search *at)
{
    TRY(search_init(at));
    TRY(search_decided(at));
    return at->options->slack_ratio > 0 ? search_within_slack(at) : STATUS_OK;
}

bal_migration_options bal_migration_options_default(void)
{
    return (bal_migration_options){.neighbour_iterations = 100};
}

static status check_ratio(double value, double limit, const char *name, error_message *err)
{
    if (value >= 0 && value <= limit) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%s %g is outside [0, %g]", name, value, limit);
}

status bal_migration_options_check(const bal_migration_options *options, error_message *err)
{
    TRY(check_ratio(options->slack_ratio, 1000, "slack_ratio", err));
    TRY(check_ratio(options->hysteresis_ratio, 1, "hysteresis_ratio", err));
    if (options->neighbour_iterations >= 0) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "neighbour_iterations %d is negative",
                     options->neighbour_iterations);
}

static status predict(const search *at, const bal_placed_partition *plan, int64_t *iteration_ns)
{
    return bal_problem_predict(at->question->problem, plan, iteration_ns, at->err);
}

/// The cheapest candidate whose predicted iteration is within the slack of the decided cuts'.
static status pick(search *at, const candidate **picked)
{
    candidate *decided = cheapest(at, true);
    int64_t decided_ns = -1;
    for (;;) {
        candidate *best = cheapest(at, false);
        if (best == NULL) {
            return error_set(at->err, STATUS_INFEASIBLE,
                             "no available ranks carry the plan's stages within its largest load");
        }
        *picked = best;
        if (best->is_decided || decided == NULL || at->question->problem->evaluator == NULL) {
            return STATUS_OK;
        }
        int64_t best_ns = 0;
        const bal_placed_partition reference = placed(at, decided);
        const bal_placed_partition plan = placed(at, best);
        if (decided_ns < 0) TRY(predict(at, &reference, &decided_ns));
        TRY(predict(at, &plan, &best_ns));
        if (best_ns <= within_slack(decided_ns, at->options->slack_ratio)) return STATUS_OK;
        best->is_rejected = true;
    }
}

/// Whether the plan in force could be kept as far as rules go.
///
/// @param machine_rank [place_count] out: its ranks
static bool may_keep(const search *at, int *machine_rank)
{
    const bal_placed_partition *before = at->question->before;
    if (before->rank_count != at->place_count || before->chunk_count != at->chunk_count ||
        before->placement != at->question->problem->placement) {
        return false;
    }
    for (int place = 0; place < at->place_count; place++) {
        machine_rank[place] = before->machine_rank != NULL ? before->machine_rank[place] : place;
    }
    return may_use_ranks(at, machine_rank) &&
           bal_chain_check(&at->chain, before->first_layer, NULL) == STATUS_OK;
}

/// Replaces the picked plan by the one in force if it does not gain enough.
static status keep_by_hysteresis(search *at, candidate *picked)
{
    candidate kept = {0};
    carve_candidate(at, &kept);
    if (!may_keep(at, kept.machine_rank)) return STATUS_OK;
    memcpy(kept.first_layer, at->question->before->first_layer,
           ((size_t)at->stage_count + 1) * sizeof *kept.first_layer);
    (void)measure(at, &kept); // its loads may exceed those of the new one
    int64_t before_ns = kept.bottleneck_ns;
    int64_t after_ns = picked->bottleneck_ns;
    if (at->question->problem->evaluator != NULL) {
        const bal_placed_partition plan = placed(at, picked);
        TRY(predict(at, at->question->before, &before_ns));
        TRY(predict(at, &plan, &after_ns));
    }
    if ((double)after_ns < (double)before_ns * (1 - at->options->hysteresis_ratio)) {
        return STATUS_OK;
    }
    *picked = kept;
    return STATUS_OK;
}

status bal_migration_plan(const bal_migration_question *question,
                          const bal_migration_options *options, arena *memory,
                          bal_migration_choice *choice, error_message *err)
{
    search *at = arena_array(memory, 1, sizeof *at);
    *at = (search){.question = question, .options = options, .memory = memory, .err = err};
    TRY(search_all(at));
    const candidate *picked = NULL;
    TRY(pick(at, &picked));
    candidate chosen = *picked;
    if (options->hysteresis_ratio > 0) TRY(keep_by_hysteresis(at, &chosen));
    *choice = (bal_migration_choice){
        .plan = placed(at, &chosen),
        .migration = chosen.migration,
        .bottleneck_ns = chosen.bottleneck_ns,
        .neighbour_ns = chosen.neighbour_ns,
        .cost_ns = chosen.cost_ns,
    };
    return STATUS_OK;
}
