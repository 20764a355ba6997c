/// Migration: which layers change their rank, their bytes, the time of the busiest rank, and the
/// order, against every order that there is on small machines.
#include "balance/migration/migration.h"
#include "base/rng.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <stdbool.h>
#include <stdio.h>

static const int64_t state_bytes[] = {100, 200, 300, 400, 500, 600};
static const bal_layer_costs layers = {
    .layer_count = 6, .microbatch_count = 1, .state_bytes = state_bytes};
// 1 byte per ns inside a node, half of that between nodes.
static const bal_machine machine = {.rank_count = 4,
                                    .ranks_per_node = 2,
                                    .intra_node = {7, 1000000000},
                                    .inter_node = {9, 500000000}};

enum { RANKS = 3, LAYERS = 6, TABLES = 729 }; // RANKS to the power of LAYERS

static bal_placed_partition plan_of(const int *cuts, int ranks, const int *machine_rank)
{
    return (bal_placed_partition){
        .first_layer = cuts, .rank_count = ranks, .chunk_count = 1, .machine_rank = machine_rank};
}

TEST(layers_that_change_their_rank_move_with_their_state)
{
    static const struct {
        int before[5], after[5]; // cuts
        int ranks_before, ranks_after;
        int chunks; // of both; the plan after is folded where there are two
        int count;
        int layer[3], from[3], to[3];
        int64_t bytes, time_ns;
    } cases[] = {
        // Rank 1 takes both: 7 + 200 from its node, 9 + 800 from the other.
        {{0, 2, 3, 6}, {0, 1, 4, 6}, 3, 3, 1, 2, {1, 3}, {0, 2}, {1, 1}, 600, 207 + 809},
        {{0, 2, 3, 6}, {0, 2, 3, 6}, 3, 3, 1, 0, {0}, {0}, {0}, 0, 0},
        // A smaller pipeline gives up its last ranks: 4 and 5 from rank 2, which needs the most.
        {{0, 2, 4, 6}, {0, 3, 6}, 3, 2, 1, 3, {2, 4, 5}, {1, 2, 2}, {0, 1, 1}, 1400, 2525},
        // Chunks count by their rank: stages 2 and 3 swap theirs.
        {{0, 1, 3, 5, 6}, {0, 1, 3, 5, 6}, 2, 2, 2, 3, {3, 4, 5}, {0, 0, 1}, {1, 1, 0}, 1500, 1521},
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        const int chunks = cases[index].chunks;
        const bal_placed_partition from = {.first_layer = cases[index].before,
                                           .rank_count = cases[index].ranks_before,
                                           .chunk_count = chunks};
        const bal_placed_partition to = {.first_layer = cases[index].after,
                                         .rank_count = cases[index].ranks_after,
                                         .chunk_count = chunks,
                                         .placement =
                                             chunks == 2 ? BAL_PLACEMENT_V : BAL_PLACEMENT_LOOP};
        bal_migration moves;

        assert_ok(bal_migration_between(&from, &to, &layers, &machine, memory, &moves, NULL));

        assert_int_equal(moves.layer_count, cases[index].count);
        for (int move = 0; move < moves.layer_count; move++) {
            assert_int_equal(moves.layer[move], cases[index].layer[move]);
            assert_int_equal(moves.from[move], cases[index].from[move]);
            assert_int_equal(moves.to[move], cases[index].to[move]);
        }
        assert_int_equal(moves.bytes, cases[index].bytes);
        assert_int_equal(moves.time_ns, cases[index].time_ns);
    }
}

TEST(plans_of_other_models_or_machines_are_invalid)
{
    const bal_placed_partition good = {
        .first_layer = (const int[]){0, 3, 6}, .rank_count = 2, .chunk_count = 1};
    const bal_placed_partition shorter = {
        .first_layer = (const int[]){0, 3, 5}, .rank_count = 2, .chunk_count = 1};
    const bal_placed_partition wider = {
        .first_layer = (const int[]){0, 1, 2, 3, 4, 6}, .rank_count = 5, .chunk_count = 1};
    const bal_placed_partition none = {.first_layer = (const int[]){0}, .chunk_count = 1};
    bal_migration moves = {.layer_count = -7};

    assert_fails(bal_migration_between(&good, &shorter, &layers, &machine, memory, &moves, &why),
                 STATUS_INVALID, "the new plan runs from layer 0 to 5, not 0 to 6");
    assert_fails(bal_migration_between(&wider, &good, &layers, &machine, memory, &moves, &why),
                 STATUS_INVALID, "the old plan has 5 ranks, the machine 4");
    assert_fails(bal_migration_between(&none, &good, &layers, &machine, memory, &moves, &why),
                 STATUS_INVALID, "the old plan has 0 ranks of 1 chunks");
    const int64_t huge[] = {0, 0, 0, INT64_MAX, 1, 1};
    const bal_layer_costs heavy = {.layer_count = 6, .microbatch_count = 1, .state_bytes = huge};
    const bal_placed_partition all_front = {
        .first_layer = (const int[]){0, 6, 6}, .rank_count = 2, .chunk_count = 1};
    assert_fails(bal_migration_between(&good, &all_front, &heavy, NULL, memory, &moves, &why),
                 STATUS_INVALID,
                 "state_bytes of layer 4: 1 is negative or the sum does not fit 64 bits");
    assert_int_equal(moves.layer_count, -7);
}

TEST(full_ranks_swap_only_with_room_for_a_layer)
{
    static const int64_t bytes[] = {30, 30, 40, 20};
    const bal_layer_costs four = {.layer_count = 4, .microbatch_count = 1, .state_bytes = bytes};
    const int cuts[] = {0, 2, 4};
    const bal_placed_partition from = plan_of(cuts, 2, NULL);
    const bal_placed_partition to = plan_of(cuts, 2, (const int[]){1, 0});
    bal_machine two = {.rank_count = 2, .ranks_per_node = 2, .rank_memory_bytes = 60};
    bal_migration moves;
    bal_migration ordered = {.layer_count = -7};
    assert_ok(bal_migration_between(&from, &to, &four, &two, memory, &moves, NULL));

    assert_fails(bal_migration_order(&from, &moves, &four, &two, memory, &ordered, &why),
                 STATUS_INFEASIBLE,
                 "no order of the transfers fits the memory: layer 3 (20 bytes) cannot go "
                 "from rank 1 to rank 0, which holds 60 of its cap of 60 bytes");
    assert_int_equal(ordered.layer_count, -7);
    two.rank_memory_bytes = 90;
    assert_ok(bal_migration_order(&from, &moves, &four, &two, memory, &ordered, &why));
    assert_int_equal(ordered.layer[0], 0);
    assert_int_equal(ordered.layer[1], 2); // after layer 0 has gone
}

TEST(transfers_begin_when_both_ranks_are_released)
{
    static const int64_t bytes[] = {30, 30, 40, 20};
    const bal_layer_costs four = {.layer_count = 4, .microbatch_count = 1, .state_bytes = bytes};
    const bal_machine alike = {.rank_count = 4, .ranks_per_node = 4, .intra_node = {5, 1000000000}};
    const bal_placed_partition from = plan_of((const int[]){0, 1, 2, 3, 4}, 4, NULL);
    const bal_placed_partition to = plan_of((const int[]){0, 2, 2, 2, 4}, 4, NULL);
    const int64_t release[] = {100, 90, 70, 60};
    const int64_t never[] = {0, INT64_MAX - 10, 0, 0};
    bal_migration moves;
    bal_migration ordered;
    int64_t finish = 0;
    assert_ok(bal_migration_between(&from, &to, &four, &alike, memory, &moves, NULL));
    assert_ok(bal_migration_order(&from, &moves, &four, &alike, memory, &ordered, NULL));

    // 1 to 0 takes 35 ns, 2 to 3 takes 45: two pairs at once.
    assert_ok(bal_migration_finish_ns(&ordered, &four, &alike, NULL, memory, &finish, NULL));
    assert_int_equal(finish, 45);
    assert_ok(bal_migration_finish_ns(&ordered, &four, &alike, release, memory, &finish, NULL));
    assert_int_equal(finish, 135); // 70 + 45 against 100 + 35
    assert_fails(bal_migration_finish_ns(&ordered, &four, &alike, never, memory, &finish, &why),
                 STATUS_INVALID, "the transfer of layer 1 ends after 64 bits of ns");
}

/// Whether any sequence of single sendings, each of a layer to its last rank, leads from one table
/// of owners to another: every table that can be reached, as numbers in base RANKS.
static bool is_reachable(const int64_t *bytes, int count, int64_t cap, const int *from,
                         const int *to)
{
    bool seen[TABLES] = {false};
    int queue[TABLES];
    int tail = 0;
    int start = 0;
    int goal = 0;
    for (int layer = count - 1; layer >= 0; layer--) {
        start = start * RANKS + from[layer];
        goal = goal * RANKS + to[layer];
    }
    queue[tail++] = start;
    seen[start] = true;
    for (int head = 0; head < tail; head++) {
        int owner[LAYERS];
        int64_t held[RANKS] = {0};
        for (int layer = 0, rest = queue[head]; layer < count; layer++, rest /= RANKS) {
            owner[layer] = rest % RANKS;
            held[owner[layer]] += bytes[layer];
        }
        for (int layer = 0, place = 1; layer < count; layer++, place *= RANKS) {
            for (int rank = 0; rank < RANKS; rank++) {
                if (rank == owner[layer] || held[rank] + bytes[layer] > cap) continue;
                if (rank != to[layer]) continue;
                const int table = queue[head] + (rank - owner[layer]) * place;
                if (seen[table]) continue;
                seen[table] = true;
                queue[tail++] = table;
            }
        }
    }
    return seen[goal];
}

TEST(nearly_every_order_that_there_is_is_found)
{
    int direct = 0;
    int direct_found = 0;
    for (uint64_t seed = 1; seed <= 5000; seed++) {
        rng random = rng_init(seed, 5);
        int64_t bytes[LAYERS];
        int64_t held[2][RANKS] = {{0}};
        int cuts[2][RANKS + 1] = {{0}};
        int ranks[2][RANKS] = {{0, 1, 2}, {0, 1, 2}};
        int owner[2][LAYERS];
        int64_t cap = 0;
        for (int layer = 0; layer < LAYERS; layer++) {
            bytes[layer] = rng_between(&random, 1, 9);
        }
        for (int side = 0; side < 2; side++) {
            const int first = (int)rng_between(&random, 0, 2);
            ranks[side][0] = first;
            ranks[side][1] = (first + (int)rng_between(&random, 1, 2)) % RANKS;
            ranks[side][2] = 3 - ranks[side][0] - ranks[side][1];
            cuts[side][1] = (int)rng_between(&random, 0, LAYERS);
            cuts[side][2] = (int)rng_between(&random, cuts[side][1], LAYERS);
            cuts[side][3] = LAYERS;
            const bal_placed_partition plan = plan_of(cuts[side], RANKS, ranks[side]);
            bal_placed_owners(&plan, owner[side]);
            for (int layer = 0; layer < LAYERS; layer++) {
                held[side][owner[side][layer]] += bytes[layer];
            }
            for (int rank = 0; rank < RANKS; rank++) {
                if (held[side][rank] > cap) cap = held[side][rank];
            }
        }
        cap += rng_between(&random, 0, 2); // full, or nearly
        const bal_layer_costs costs = {
            .layer_count = LAYERS, .microbatch_count = 1, .state_bytes = bytes};
        const bal_machine full = {
            .rank_count = RANKS, .ranks_per_node = 1, .rank_memory_bytes = cap};
        const bal_placed_partition from = plan_of(cuts[0], RANKS, ranks[0]);
        const bal_placed_partition to = plan_of(cuts[1], RANKS, ranks[1]);
        bal_migration moves;
        bal_migration ordered;
        arena_reset(memory);
        assert_ok(bal_migration_between(&from, &to, &costs, &full, memory, &moves, NULL));

        const status found =
            bal_migration_order(&from, &moves, &costs, &full, memory, &ordered, NULL);

        const bool is_possible = is_reachable(bytes, LAYERS, cap, owner[0], owner[1]);
        assert_true(found == STATUS_INFEASIBLE || (found == STATUS_OK && is_possible));
        direct += is_possible;
        direct_found += found == STATUS_OK;
    }
    print_message("%d of %d orders found\n", direct_found, direct);
    assert_true(direct > 4000 && direct_found * 1000 >= direct * 985);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
