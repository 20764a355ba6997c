/// The order of a migration: worked examples, and every order that there is on small machines.
#include "balance/migration/migration.h"
#include "base/rng.h"
#include "tests/assert_close.h"
#include "tests/test_memory.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { RANKS = 3, LAYERS = 6, TABLES = 729 }; // RANKS to the power of LAYERS

static const int64_t state_bytes[] = {30, 30, 40, 20};
static const bal_layer_costs layers = {
    .layer_count = 4, .microbatch_count = 1, .state_bytes = state_bytes};

static bal_placed_partition plan_of(const int *cuts, int ranks, const int *machine_rank)
{
    return (bal_placed_partition){
        .first_layer = cuts, .rank_count = ranks, .chunk_count = 1, .machine_rank = machine_rank};
}

static void full_ranks_that_swap_take_a_detour_over_one_with_room(void **state)
{
    arena *memory = *state;
    const bal_machine machine = {.rank_count = 3,
                                 .ranks_per_node = 3,
                                 .intra_node = {0, 1000000000},
                                 .rank_memory_bytes = 60};
    const int cuts[] = {0, 2, 4};
    const bal_placed_partition from = plan_of(cuts, 2, NULL);
    const bal_placed_partition to = plan_of(cuts, 2, (const int[]){1, 0});
    bal_migration moves;
    bal_migration_steps steps;
    int64_t finish = 0;
    assert_ok(bal_migration_between(&from, &to, &layers, &machine, memory, &moves, NULL));

    assert_ok(bal_migration_order(&from, &moves, &layers, &machine, NULL, memory, &steps, NULL));

    // Layer 0 makes way for layer 3, layer 1 for layer 2.
    assert_int_equal(steps.detour_count, 2);
    assert_int_equal(steps.step_count, 6);
    assert_int_equal(steps.step[0].layer, 0);
    assert_int_equal(steps.step[0].to, 2);
    assert_int_equal(steps.step[1].layer, 3);
    assert_int_equal(steps.step[1].wave, 1);
    assert_int_equal(steps.bytes, 120 + 60);
    for (int rank = 0; rank < 3; rank++) {
        assert_true(steps.peak_bytes[rank] <= 60);
    }
    assert_ok(bal_migration_finish_ns(&steps, &layers, &machine, NULL, memory, &finish, NULL));
    assert_true(finish >= 120); // each rank sends and receives 60 bytes at 1 byte per ns
}

static void without_a_third_rank_a_full_swap_is_infeasible(void **state)
{
    arena *memory = *state;
    const bal_machine machine = {.rank_count = 2, .ranks_per_node = 2, .rank_memory_bytes = 60};
    const int cuts[] = {0, 2, 4};
    const bal_placed_partition from = plan_of(cuts, 2, NULL);
    const bal_placed_partition to = plan_of(cuts, 2, (const int[]){1, 0});
    bal_migration moves;
    bal_migration_steps steps = {.step_count = -7};
    error_message err = {0};
    assert_ok(bal_migration_between(&from, &to, &layers, &machine, memory, &moves, NULL));

    assert_int_equal(
        bal_migration_order(&from, &moves, &layers, &machine, NULL, memory, &steps, &err),
        STATUS_INFEASIBLE);

    assert_string_equal(err.message,
                        "no order of the transfers fits the memory: layer 3 (20 bytes) cannot go "
                        "from rank 1 to rank 0, which holds 60 of its cap of 60 bytes, and no "
                        "third rank has room");
    assert_int_equal(steps.step_count, -7);
    // With room for a layer on each there is an order without detours.
    assert_ok(bal_migration_order(&from, &moves, &layers, &machine, (const int64_t[]){90, 90},
                                  memory, &steps, &err));
    assert_int_equal(steps.detour_count, 0);
    assert_int_equal(steps.peak_bytes[0], 70); // layer 2 came after layer 0 had gone
    assert_int_equal(steps.peak_bytes[1], 90); // layer 0 came first
}

static void a_plan_that_overfills_a_rank_is_named(void **state)
{
    arena *memory = *state;
    const bal_machine machine = {.rank_count = 2, .ranks_per_node = 2, .rank_memory_bytes = 99};
    const bal_placed_partition from = plan_of((const int[]){0, 2, 4}, 2, NULL);
    const bal_placed_partition to = plan_of((const int[]){0, 3, 4}, 2, NULL);
    bal_migration moves;
    bal_migration_steps steps;
    error_message err = {0};
    assert_ok(bal_migration_between(&from, &to, &layers, &machine, memory, &moves, NULL));

    assert_int_equal(
        bal_migration_order(&from, &moves, &layers, &machine, NULL, memory, &steps, &err),
        STATUS_INFEASIBLE);

    assert_string_equal(err.message, "the plan puts 100 bytes on rank 0, whose cap is 99");
}

static void transfers_begin_when_both_ranks_are_released(void **state)
{
    arena *memory = *state;
    const bal_machine machine = {
        .rank_count = 4, .ranks_per_node = 4, .intra_node = {5, 1000000000}};
    const bal_placed_partition from = plan_of((const int[]){0, 1, 2, 3, 4}, 4, NULL);
    const bal_placed_partition to = plan_of((const int[]){0, 2, 2, 2, 4}, 4, NULL);
    bal_migration moves;
    bal_migration_steps steps;
    int64_t finish = 0;
    assert_ok(bal_migration_between(&from, &to, &layers, &machine, memory, &moves, NULL));
    assert_ok(bal_migration_order(&from, &moves, &layers, &machine, NULL, memory, &steps, NULL));

    // 1 to 0 takes 35 ns, 2 to 3 takes 45: two pairs at once, in one wave.
    assert_int_equal(steps.wave_count, 1);
    bal_migration_finish_ns(&steps, &layers, &machine, NULL, memory, &finish, NULL);
    assert_int_equal(finish, 45);
    bal_migration_finish_ns(&steps, &layers, &machine, (const int64_t[]){100, 90, 70, 60}, memory,
                            &finish, NULL);
    assert_int_equal(finish, 135); // 70 + 45 against 100 + 35
    error_message err = {0};
    const int64_t never[] = {0, INT64_MAX - 10, 0, 0};
    assert_int_equal(
        bal_migration_finish_ns(&steps, &layers, &machine, never, memory, &finish, &err),
        STATUS_INVALID);
    assert_string_equal(err.message, "the transfer of layer 1 ends after 64 bits of ns");
}

static void bytes_that_no_sum_holds_are_invalid(void **state)
{
    arena *memory = *state;
    const bal_machine machine = {.rank_count = 2, .ranks_per_node = 2};
    const int64_t huge[] = {INT64_MAX / 4, 1};
    const bal_layer_costs heavy = {.layer_count = 2, .microbatch_count = 1, .state_bytes = huge};
    const bal_placed_partition from = plan_of((const int[]){0, 1, 2}, 2, NULL);
    const bal_placed_partition wide = plan_of((const int[]){0, 0, 1, 2}, 3, NULL);
    const bal_migration none = {0};
    bal_migration_steps steps;
    error_message err = {0};

    assert_int_equal(
        bal_migration_order(&from, &none, &heavy, &machine, NULL, memory, &steps, &err),
        STATUS_INVALID);
    assert_string_equal(
        err.message,
        "state_bytes of layer 1: 1 is negative or the sum exceeds a quarter of 64 bits");
    assert_int_equal(
        bal_migration_order(&wide, &none, &heavy, &machine, NULL, memory, &steps, &err),
        STATUS_INVALID);
    assert_string_equal(err.message, "the plan in force has 3 ranks, the machine 2");
}

/// Whether any sequence of single sendings leads from one table of owners to another: every table
/// that can be reached, as numbers in base RANKS. With only_direct layers go to their last rank at
/// once.
static bool is_reachable(const int64_t *bytes, int count, int64_t cap, const int *from,
                         const int *to, bool only_direct)
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
                if (only_direct && rank != to[layer]) continue;
                const int table = queue[head] + (rank - owner[layer]) * place;
                if (seen[table]) continue;
                seen[table] = true;
                queue[tail++] = table;
            }
        }
    }
    return seen[goal];
}

static void nearly_every_order_that_there_is_is_found(void **state)
{
    arena *memory = *state;
    int direct = 0;
    int direct_found = 0;
    int direct_detours = 0;
    int any = 0;
    int any_found = 0;
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
        const bal_machine machine = {
            .rank_count = RANKS, .ranks_per_node = 1, .rank_memory_bytes = cap};
        const bal_placed_partition from = plan_of(cuts[0], RANKS, ranks[0]);
        const bal_placed_partition to = plan_of(cuts[1], RANKS, ranks[1]);
        bal_migration moves;
        bal_migration_steps steps;
        arena_reset(memory);
        bal_migration_between(&from, &to, &costs, &machine, memory, &moves, NULL);
        const bool is_direct = is_reachable(bytes, LAYERS, cap, owner[0], owner[1], true);
        const bool is_any = is_reachable(bytes, LAYERS, cap, owner[0], owner[1], false);

        const bool found = bal_migration_order(&from, &moves, &costs, &machine, NULL, memory,
                                               &steps, NULL) == STATUS_OK;

        assert_true(is_any || !found);
        direct += is_direct;
        direct_found += is_direct && found;
        direct_detours += is_direct && found && steps.detour_count > 0;
        any += is_any;
        any_found += found;
    }
    print_message("of %d migrations with a direct order %d have one found, %d of them with a "
                  "detour; of %d with any order %d\n",
                  direct, direct_found, direct_detours, any, any_found);
    assert_true(direct_found * 1000L >= direct * 999L);
    assert_true(direct_detours * 100L <= direct);
    assert_true(any_found * 100L >= any * 97L && any > direct);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_ranks_that_swap_take_a_detour_over_one_with_room),
        cmocka_unit_test(without_a_third_rank_a_full_swap_is_infeasible),
        cmocka_unit_test(a_plan_that_overfills_a_rank_is_named),
        cmocka_unit_test(transfers_begin_when_both_ranks_are_released),
        cmocka_unit_test(bytes_that_no_sum_holds_are_invalid),
        cmocka_unit_test(nearly_every_order_that_there_is_is_found),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
