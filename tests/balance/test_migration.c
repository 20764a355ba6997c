/// Migration: which layers change their rank, their bytes, and the time of the busiest rank.
#include "balance/migration/migration.h"
#include "tests/assert_close.h"
#include "tests/test_memory.h"

static const int64_t state_bytes[] = {100, 200, 300, 400, 500, 600};
static const bal_layer_costs layers = {
    .layer_count = 6, .microbatch_count = 1, .state_bytes = state_bytes};
// 1 byte per ns inside a node, half of that between nodes.
static const bal_machine machine = {.rank_count = 4,
                                    .ranks_per_node = 2,
                                    .intra_node = {7, 1000000000},
                                    .inter_node = {9, 500000000}};

static void layers_that_change_their_rank_move_with_their_state(void **state)
{
    arena *memory = *state;
    const bal_placed_partition from = {
        .first_layer = (const int[]){0, 2, 3, 6}, .rank_count = 3, .chunk_count = 1};
    const bal_placed_partition to = {
        .first_layer = (const int[]){0, 1, 4, 6}, .rank_count = 3, .chunk_count = 1};
    bal_migration moves;

    assert_ok(bal_migration_between(&from, &to, &layers, &machine, memory, &moves, NULL));

    assert_int_equal(moves.layer_count, 2);
    assert_int_equal(moves.layer[0], 1);
    assert_int_equal(moves.from[0], 0);
    assert_int_equal(moves.to[0], 1);
    assert_int_equal(moves.layer[1], 3);
    assert_int_equal(moves.from[1], 2);
    assert_int_equal(moves.to[1], 1);
    assert_int_equal(moves.bytes, 600);
    // Rank 1 takes both: 7 + 200 from its node, 9 + 800 from the other.
    assert_int_equal(moves.time_ns, 207 + 809);
}

static void equal_plans_move_nothing(void **state)
{
    arena *memory = *state;
    const bal_placed_partition plan = {
        .first_layer = (const int[]){0, 2, 3, 6}, .rank_count = 3, .chunk_count = 1};
    bal_migration moves;

    assert_ok(bal_migration_between(&plan, &plan, &layers, &machine, memory, &moves, NULL));

    assert_int_equal(moves.layer_count, 0);
    assert_int_equal(moves.bytes, 0);
    assert_int_equal(moves.time_ns, 0);
}

static void a_smaller_pipeline_gives_up_its_last_ranks(void **state)
{
    arena *memory = *state;
    const bal_placed_partition from = {
        .first_layer = (const int[]){0, 2, 4, 6}, .rank_count = 3, .chunk_count = 1};
    const bal_placed_partition to = {
        .first_layer = (const int[]){0, 3, 6}, .rank_count = 2, .chunk_count = 1};
    bal_migration moves;

    assert_ok(bal_migration_between(&from, &to, &layers, NULL, memory, &moves, NULL));

    assert_int_equal(moves.layer_count, 3); // 2 to rank 0; 4 and 5 from rank 2 to rank 1
    assert_int_equal(moves.bytes, 300 + 500 + 600);
    assert_int_equal(moves.from[2], 2);
    assert_int_equal(moves.time_ns, 0); // no machine
}

static void chunks_count_by_their_rank(void **state)
{
    arena *memory = *state;
    const int cuts[] = {0, 1, 3, 5, 6};
    const bal_placed_partition loop = {
        .first_layer = cuts, .rank_count = 2, .chunk_count = 2, .placement = BAL_PLACEMENT_LOOP};
    const bal_placed_partition v = {
        .first_layer = cuts, .rank_count = 2, .chunk_count = 2, .placement = BAL_PLACEMENT_V};
    bal_migration moves;

    assert_ok(bal_migration_between(&loop, &v, &layers, &machine, memory, &moves, NULL));

    assert_int_equal(moves.layer_count, 3); // stages 2 and 3 swap their ranks
    assert_int_equal(moves.layer[0], 3);
    assert_int_equal(moves.to[0], 1);
    assert_int_equal(moves.to[2], 0);
}

static void plans_of_other_models_or_machines_are_invalid(void **state)
{
    arena *memory = *state;
    const bal_placed_partition good = {
        .first_layer = (const int[]){0, 3, 6}, .rank_count = 2, .chunk_count = 1};
    const bal_placed_partition shorter = {
        .first_layer = (const int[]){0, 3, 5}, .rank_count = 2, .chunk_count = 1};
    const bal_placed_partition wider = {
        .first_layer = (const int[]){0, 1, 2, 3, 4, 6}, .rank_count = 5, .chunk_count = 1};
    const bal_placed_partition none = {.first_layer = (const int[]){0}, .chunk_count = 1};
    bal_migration moves = {.layer_count = -7};
    error_message err = {0};

    assert_int_equal(
        bal_migration_between(&good, &shorter, &layers, &machine, memory, &moves, &err),
        STATUS_INVALID);
    assert_string_equal(err.message, "the new plan runs from layer 0 to 5, not 0 to 6");
    assert_int_equal(bal_migration_between(&wider, &good, &layers, &machine, memory, &moves, &err),
                     STATUS_INVALID);
    assert_string_equal(err.message, "the old plan has 5 ranks, the machine 4");
    assert_int_equal(bal_migration_between(&none, &good, &layers, &machine, memory, &moves, &err),
                     STATUS_INVALID);
    assert_string_equal(err.message, "the old plan has 0 ranks of 1 chunks");
    const int64_t huge[] = {0, 0, 0, INT64_MAX, 1, 1};
    const bal_layer_costs heavy = {.layer_count = 6, .microbatch_count = 1, .state_bytes = huge};
    const bal_placed_partition all_front = {
        .first_layer = (const int[]){0, 6, 6}, .rank_count = 2, .chunk_count = 1};
    assert_int_equal(bal_migration_between(&good, &all_front, &heavy, NULL, memory, &moves, &err),
                     STATUS_INVALID);
    assert_string_equal(err.message,
                        "state_bytes of layer 4: 1 is negative or the sum does not fit 64 bits");
    assert_int_equal(moves.layer_count, -7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_that_change_their_rank_move_with_their_state),
        cmocka_unit_test(equal_plans_move_nothing),
        cmocka_unit_test(a_smaller_pipeline_gives_up_its_last_ranks),
        cmocka_unit_test(chunks_count_by_their_rank),
        cmocka_unit_test(plans_of_other_models_or_machines_are_invalid),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
