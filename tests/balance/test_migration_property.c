/// What a migration must never do, over thousands of random runs. A run is a sequence of plans of
/// the same layers: rebalanced, on fewer ranks, on more, on other ranks. The steps of every
/// migration are applied one by one to a table of owners.
///
/// At every moment every layer exists exactly once and no rank holds more than its cap, counting a
/// layer on both of its ranks while it is under way; at the end it is on the rank that the plan
/// says, and stages are in model order.
#include "balance/migration/migration_plan.h"
#include "balance/partition/balancer.h"
#include "base/rng.h"
#include "tests/test.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { RUNS = 4000, PLANS = 6, LAYERS = 24, RANKS = 8 };

/// A run: what stays the same, and where the layers are.
typedef struct run {
    uint64_t seed;
    rng random;
    int layer_count;
    bal_machine machine;
    int64_t cap;
    int64_t time_ns[LAYERS];
    int64_t state_bytes[LAYERS];
    int64_t message_bytes[LAYERS];
    int owner[LAYERS];
    int first_layer[RANKS + 1]; // of the plan in force
    int machine_rank[RANKS];
    int rank_count;
    arena *memory;
} run;

typedef struct tally {
    int migrations;
    int moves;
    int shrunk;
    int grown;
    int relabelled;
    int stuck; // no order fits: the plan in force stays
} tally;

static bal_layer_costs layers_of(const run *at)
{
    return (bal_layer_costs){.layer_count = at->layer_count,
                             .microbatch_count = 1,
                             .forward_ns = at->time_ns,
                             .state_bytes = at->state_bytes,
                             .message_bytes = at->message_bytes};
}

static bal_placed_partition in_force(const run *at)
{
    return (bal_placed_partition){.first_layer = at->first_layer,
                                  .rank_count = at->rank_count,
                                  .chunk_count = 1,
                                  .machine_rank = at->machine_rank};
}

static int64_t held_by(const run *at, int rank)
{
    int64_t bytes = 0;
    for (int layer = 0; layer < at->layer_count; layer++) {
        if (at->owner[layer] == rank) bytes += at->state_bytes[layer];
    }
    return bytes;
}

static int pick(run *at, int low, int high)
{
    return (int)rng_between(&at->random, low, high);
}

static void start_run(run *at, uint64_t seed)
{
    arena *memory = at->memory;
    memset(at, 0, sizeof *at);
    at->memory = memory;
    at->seed = seed;
    at->random = rng_init(seed, 7);
    at->layer_count = pick(at, 3, LAYERS);
    at->machine = (bal_machine){.rank_count = pick(at, 2, RANKS),
                                .ranks_per_node = pick(at, 1, 4),
                                .intra_node = {pick(at, 0, 50), 2000000000},
                                .inter_node = {pick(at, 0, 50), 300000000}};
    int64_t total = 0;
    int64_t largest = 0;
    for (int layer = 0; layer < at->layer_count; layer++) {
        at->state_bytes[layer] = pick(at, 0, 3) == 0 ? pick(at, 0, 400) : pick(at, 90, 110);
        at->message_bytes[layer] = pick(at, 0, 20);
        total += at->state_bytes[layer];
        if (at->state_bytes[layer] > largest) largest = at->state_bytes[layer];
    }
    // From barely enough for a plan on all ranks to plenty.
    at->cap = total / at->machine.rank_count + largest / 2 + pick(at, 0, (int)total / 3);
    at->rank_count = at->machine.rank_count < at->layer_count ? at->machine.rank_count : 1;
    at->machine.rank_memory_bytes = at->cap;
}

/// Moves layer after layer and looks at every moment.
static void apply(run *at, const bal_migration *ordered)
{
    for (int index = 0; index < ordered->layer_count; index++) {
        const int layer = ordered->layer[index];
        const int from = ordered->from[index];
        const int to = ordered->to[index];
        if (at->owner[layer] != from || from == to) {
            fail_msg("seed %d: step %d sends layer %d from rank %d, it is on %d", (int)at->seed,
                     index, layer, from, at->owner[layer]);
        }
        const int64_t during = held_by(at, to) + at->state_bytes[layer]; // the sender still has it
        if (during > at->cap) {
            fail_msg("seed %d: step %d fills rank %d with %d bytes, cap %d", (int)at->seed, index,
                     to, (int)during, (int)at->cap);
        }
        at->owner[layer] = to;
    }
}

static void check_plan(const run *at, const bal_placed_partition *plan)
{
    assert_int_equal(plan->first_layer[0], 0);
    assert_int_equal(plan->first_layer[plan->rank_count], at->layer_count);
    bool used[RANKS] = {false};
    for (int place = 0; place < plan->rank_count; place++) {
        const int rank = plan->machine_rank[place];
        assert_true(rank >= 0 && rank < at->machine.rank_count && !used[rank]);
        used[rank] = true;
        for (int layer = plan->first_layer[place]; layer < plan->first_layer[place + 1]; layer++) {
            if (at->owner[layer] != rank) {
                fail_msg("seed %d: layer %d is on rank %d, the plan says %d", (int)at->seed, layer,
                         at->owner[layer], rank);
            }
        }
    }
}

static void check_times(run *at, const bal_migration *ordered)
{
    const bal_layer_costs layers = layers_of(at);
    int64_t finish = -1;
    int64_t late = -1;
    int64_t release[RANKS];
    int64_t largest = 0;
    for (int rank = 0; rank < RANKS; rank++) {
        release[rank] = pick(at, 0, 500);
        if (rank < at->machine.rank_count && release[rank] > largest) largest = release[rank];
    }
    assert_ok(
        bal_migration_finish_ns(ordered, &layers, &at->machine, NULL, at->memory, &finish, NULL));
    assert_ok(
        bal_migration_finish_ns(ordered, &layers, &at->machine, release, at->memory, &late, NULL));
    assert_true(finish >= ordered->time_ns); // no rank is done before its own transfers
    assert_true(late >= finish && late <= largest + finish);
}

/// Moves to the plan if an order of the transfers fits.
static void migrate(run *at, const bal_migration_choice *choice, tally *seen)
{
    const bal_layer_costs layers = layers_of(at);
    const bal_placed_partition before = in_force(at);
    bal_migration ordered;
    const status found = bal_migration_order(&before, &choice->migration, &layers, &at->machine,
                                             at->memory, &ordered, &why);
    if (found == STATUS_INFEASIBLE) {
        assert_non_null(strstr(why.message, "cannot go from rank"));
        seen->stuck++;
        return;
    }
    assert_ok(found);
    assert_int_equal(ordered.layer_count, choice->migration.layer_count);
    apply(at, &ordered);
    check_plan(at, &choice->plan);
    check_times(at, &ordered);
    seen->migrations++;
    seen->moves += choice->migration.layer_count;
    seen->shrunk += choice->plan.rank_count < at->rank_count;
    seen->grown += choice->plan.rank_count > at->rank_count;
    for (int place = 1; place < choice->plan.rank_count; place++) {
        if (choice->plan.machine_rank[place] > choice->plan.machine_rank[place - 1]) continue;
        seen->relabelled++;
        break;
    }
    at->rank_count = choice->plan.rank_count;
    memcpy(at->first_layer, choice->plan.first_layer,
           ((size_t)at->rank_count + 1) * sizeof *at->first_layer);
    memcpy(at->machine_rank, choice->plan.machine_rank,
           (size_t)at->rank_count * sizeof *at->machine_rank);
}

/// New loads, another number of ranks at times, other options: one decision of a controller.
static void decide(run *at, tally *seen)
{
    const int most =
        at->machine.rank_count < at->layer_count ? at->machine.rank_count : at->layer_count;
    for (int layer = 0; layer < at->layer_count; layer++) {
        at->time_ns[layer] = pick(at, 0, 4) == 0 ? 0 : pick(at, 1, 1000);
    }
    int64_t caps[RANKS];
    for (int rank = 0; rank < RANKS; rank++) {
        caps[rank] = at->cap;
    }
    const int ranks = pick(at, 0, 1) == 0 ? at->rank_count : pick(at, 1, most);
    const bal_problem problem = {.layers = layers_of(at),
                                 .stage_count = ranks,
                                 .stage_memory_bytes = caps,
                                 .microbatch_count = 4};
    const bal_placed_partition before = in_force(at);
    bal_migration_options options = {.slack_ratio = pick(at, 0, 2) * 0.05,
                                     .relabels = pick(at, 0, 1) == 1,
                                     .hysteresis_ratio = pick(at, 0, 3) == 0 ? 0.1 : 0,
                                     .neighbour_iterations = pick(at, 0, 2)};
    bal_answer answer;
    bal_migration_choice choice;
    const status balanced =
        bal_balance(bal_balancer_find("partition"), &problem, at->memory, &answer, &why);
    if (balanced == STATUS_INFEASIBLE) return; // so few ranks have too little memory
    assert_ok(balanced);
    const bal_migration_question question = {.problem = &problem,
                                             .first_layer = answer.first_layer,
                                             .before = &before,
                                             .machine = &at->machine};
    assert_ok(bal_migration_plan(&question, &options, at->memory, &choice, &why));
    migrate(at, &choice, seen);
}

/// Any plan at all that fits the caps: stages swap ranks, memory is full, orders get hard.
static void wander(run *at, tally *seen)
{
    const int most =
        at->machine.rank_count < at->layer_count ? at->machine.rank_count : at->layer_count;
    const int ranks = pick(at, 1, most);
    int cuts[RANKS + 1] = {0};
    int machine_rank[RANKS];
    for (int rank = 0; rank < RANKS; rank++) {
        machine_rank[rank] = rank;
    }
    for (int last = at->machine.rank_count - 1; last > 0; last--) {
        const int other = pick(at, 0, last);
        const int swap = machine_rank[last];
        machine_rank[last] = machine_rank[other];
        machine_rank[other] = swap;
    }
    for (int place = 0; place < ranks; place++) { // each takes as much as fits, or a little less
        int64_t bytes = 0;
        int end = cuts[place];
        while (end < at->layer_count && bytes + at->state_bytes[end] <= at->cap) {
            bytes += at->state_bytes[end++];
        }
        cuts[place + 1] = end - pick(at, 0, end - cuts[place] > 2 ? 1 : 0);
    }
    if (cuts[ranks] < at->layer_count) return;
    const bal_placed_partition before = in_force(at);
    const bal_layer_costs layers = layers_of(at);
    bal_migration_choice choice = {.plan = {.first_layer = cuts,
                                            .rank_count = ranks,
                                            .chunk_count = 1,
                                            .machine_rank = machine_rank}};
    assert_ok(bal_migration_between(&before, &choice.plan, &layers, &at->machine, at->memory,
                                    &choice.migration, NULL));
    migrate(at, &choice, seen);
}

static bool place_start(run *at)
{
    const int ranks = at->rank_count;
    for (int place = 0; place < ranks; place++) {
        at->first_layer[place] = place * at->layer_count / ranks;
        at->machine_rank[place] = place;
    }
    at->first_layer[ranks] = at->layer_count;
    const bal_placed_partition plan = in_force(at);
    bal_placed_owners(&plan, at->owner);
    for (int rank = 0; rank < at->machine.rank_count; rank++) {
        if (held_by(at, rank) > at->cap) return false;
    }
    return true;
}

TEST(every_layer_exists_once_at_every_moment_and_memory_holds)
{
    tally seen = {0};
    run *at = &(run){.memory = arena_create(1 << 16)};
    for (uint64_t seed = 1; seed <= RUNS; seed++) {
        start_run(at, seed);
        if (!place_start(at)) continue;
        for (int plan = 0; plan < PLANS; plan++) {
            arena_reset(at->memory);
            pick(at, 0, 1) == 0 ? decide(at, &seen) : wander(at, &seen);
        }
    }
    arena_destroy(at->memory);
    print_message("%d migrations of %d moves: %d shrank, %d grew, %d out of order, %d "
                  "without an order\n",
                  seen.migrations, seen.moves, seen.shrunk, seen.grown, seen.relabelled,
                  seen.stuck);
    assert_true(seen.migrations > RUNS && seen.shrunk > 0 && seen.grown > 0);
    assert_true(seen.relabelled > 0 && seen.stuck > 0);
    assert_true(seen.stuck < seen.migrations / 10);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
