/// The re-packing of others, its failures with the very numbers at which they show, and what a
/// correct one does in the same place.
#include "balance/repack/repack_published.h"

#include "balance/partition/partition.h"
#include "base/rng.h"
#include "tests/assert_close.h"
#include "tests/test_memory.h"

#include <string.h>

enum { RANKS_MAX = 16 };

static bal_pack_question question_of(bal_repack_kind kind, const int64_t *memory_bytes, int ranks,
                                     int64_t cap, int target)
{
    return (bal_pack_question){.kind = kind,
                               .rank_count = ranks,
                               .memory_bytes = memory_bytes,
                               .cap_bytes = cap,
                               .target_rank_count = target};
}

static void expect_bytes(const bal_pack_result *result, const int64_t *expected, int ranks)
{
    for (int rank = 0; rank < ranks; rank++) {
        assert_int_equal(result->memory_bytes[rank], expected[rank]);
    }
}

static void as_printed_the_first_rank_goes_to_all_others(void **state)
{
    arena *memory = *state;
    const int64_t bytes[] = {10, 10, 10, 10, 10, 10, 10, 10};
    const int64_t copies[] = {10, 20, 20, 20, 20, 20, 20, 20};
    const bal_pack_question ask = question_of(BAL_REPACK_PUBLISHED, bytes, 8, 32, 4);
    bal_pack_result result;

    assert_ok(bal_repack_published(&ask, memory, &result, NULL));

    assert_int_equal(result.active_count, 7); // four are wanted
    assert_false(result.is_active[0]);        // and still holds its layers
    expect_bytes(&result, copies, 8);
}

static void as_printed_copies_are_copied(void **state)
{
    arena *memory = *state;
    const int64_t bytes[] = {2, 2, 2, 2};
    const int64_t copies[] = {2, 4, 8, 8};
    const bal_pack_question ask = question_of(BAL_REPACK_PUBLISHED, bytes, 4, 10, 1);
    bal_pack_result result;

    assert_ok(bal_repack_published(&ask, memory, &result, NULL));

    expect_bytes(&result, copies, 4);
}

static void as_coded_layers_cascade_to_the_last_rank(void **state)
{
    arena *memory = *state;
    const int64_t bytes[] = {2, 2, 2, 2};
    const int64_t cascaded[] = {0, 0, 0, 8};
    const bal_pack_question ask = question_of(BAL_REPACK_CODED, bytes, 4, 10, 1);
    bal_pack_result result;

    assert_ok(bal_repack_published(&ask, memory, &result, NULL));

    assert_int_equal(result.active_count, 1);
    expect_bytes(&result, cascaded, 4);
}

static void as_coded_an_exact_fit_is_refused(void **state)
{
    arena *memory = *state;
    const int64_t bytes[] = {5, 5};
    bal_pack_question ask = question_of(BAL_REPACK_CODED, bytes, 2, 10, 1);
    bal_pack_result result;

    assert_ok(bal_repack_published(&ask, memory, &result, NULL));
    assert_int_equal(result.active_count, 2);
    ask.kind = BAL_REPACK_FIRST_FIT; // the classical rule takes it
    assert_ok(bal_repack_published(&ask, memory, &result, NULL));
    assert_int_equal(result.active_count, 1);
}

static void as_coded_a_missed_target_marks_ranks_and_moves_nothing(void **state)
{
    arena *memory = *state;
    const int64_t bytes[] = {4, 4, 9, 9};
    const bal_pack_question ask = question_of(BAL_REPACK_CODED, bytes, 4, 10, 2);
    bal_pack_result result;

    assert_ok(bal_repack_published(&ask, memory, &result, NULL));

    assert_true(result.is_dropped);
    assert_int_equal(result.active_count, 3);
    assert_false(result.is_active[0]);
}

/// The fewest stages into which a chain can be cut within a cap.
static int fewest_stages(const int64_t *bytes, int count, int64_t cap_bytes, arena *memory)
{
    for (int stages = 1; stages <= count; stages++) {
        const bal_problem problem = {.layers = {.layer_count = count,
                                                .microbatch_count = 1,
                                                .forward_ns = bytes,
                                                .state_bytes = bytes},
                                     .stage_count = stages};
        bal_chain chain;
        int first[RANKS_MAX + 1];
        int64_t largest = 0;
        assert_ok(bal_chain_of(&problem, memory, &chain, NULL));
        assert_ok(bal_partition_bottleneck(&chain, memory, first, &largest, NULL));
        if (largest <= cap_bytes) return stages;
    }
    return count;
}

static void cuts_that_use_exact_fits_need_no_more_ranks_than_algorithm_4(void **state)
{
    arena *memory = *state;
    const int64_t bytes[] = {12, 20, 9, 14, 8, 18, 7, 16};
    const bal_pack_question ask = question_of(BAL_REPACK_CODED, bytes, 8, 32, 4);
    bal_pack_result result;

    assert_ok(bal_repack_published(&ask, memory, &result, NULL));

    assert_int_equal(result.active_count, 4);
    assert_int_equal(fewest_stages(bytes, 8, 32, memory), 4); // 12 20 | 9 14 8 | 18 7 | 16
    assert_int_equal(fewest_stages(bytes, 8, 31, memory), 5); // as its < would have it
}

static void bins_take_the_first_the_fullest_or_the_next(void **state)
{
    arena *memory = *state;
    const int64_t bytes[] = {5, 6, 3, 2, 4};
    bal_pack_question ask = question_of(BAL_REPACK_FIRST_FIT, bytes, 5, 10, 1);
    bal_pack_result result;

    assert_ok(bal_repack_published(&ask, memory, &result, NULL));
    // 0 and 1 are kept; 2 goes to 0 (8), 3 to 0 (10), 4 to 1 (10).
    assert_int_equal(result.active_count, 2);
    assert_int_equal(result.memory_bytes[0], 10);
    assert_int_equal(result.memory_bytes[1], 10);
    ask.kind = BAL_REPACK_BEST_FIT; // 2 to 1 (9), 3 to 0 (7), 4 is kept
    assert_ok(bal_repack_published(&ask, memory, &result, NULL));
    assert_int_equal(result.active_count, 3);
    assert_int_equal(result.memory_bytes[0], 7);
    assert_int_equal(result.memory_bytes[1], 9);
    ask.kind = BAL_REPACK_ROUND_ROBIN; // 2 to 0 (8), 3 to 1 (8), 4 is kept
    assert_ok(bal_repack_published(&ask, memory, &result, NULL));
    assert_int_equal(result.active_count, 3);
    assert_int_equal(result.memory_bytes[0], 8);
    assert_int_equal(result.memory_bytes[1], 8);
    ask.target_rank_count = 4;
    assert_ok(bal_repack_published(&ask, memory, &result, NULL));
    assert_int_equal(result.active_count, 4);
}

static void books_add_up_except_as_printed(void **state)
{
    arena *memory = *state;
    for (uint64_t seed = 1; seed <= 5000; seed++) {
        rng random = rng_init(seed, 1);
        const int ranks = (int)rng_between(&random, 2, 12);
        int64_t bytes[RANKS_MAX];
        for (int rank = 0; rank < ranks; rank++) {
            bytes[rank] = rng_between(&random, 1, 9);
        }
        bal_pack_question ask =
            question_of(BAL_REPACK_CODED, bytes, ranks, 12, (int)rng_between(&random, 1, ranks));
        for (int kind = BAL_REPACK_PUBLISHED; kind <= BAL_REPACK_ROUND_ROBIN; kind++) {
            bal_pack_result result;
            int active = 0;
            int64_t before = 0;
            int64_t after = 0;
            arena_reset(memory);
            ask.kind = (bal_repack_kind)kind;
            assert_ok(bal_repack_published(&ask, memory, &result, NULL));
            for (int rank = 0; rank < ranks; rank++) {
                active += result.is_active[rank];
                before += bytes[rank];
                after += result.memory_bytes[rank];
                assert_true(result.memory_bytes[rank] <= 12);
                if (kind > BAL_REPACK_CODED && !result.is_active[rank]) {
                    assert_int_equal(result.memory_bytes[rank], 0);
                }
            }
            assert_int_equal(active, result.active_count);
            assert_true(active >= (ask.target_rank_count < ranks ? ask.target_rank_count : ranks));
            if (kind == BAL_REPACK_PUBLISHED) {
                assert_true(active == ranks ? after == before : after > before);
            } else {
                assert_int_equal(before, after);
            }
        }
    }
}

static void the_trigger_needs_less_load_and_ranks_to_spare(void **state)
{
    (void)state;
    assert_true(bal_repack_published_triggers(59, 100, 0.6, 8, 4));
    assert_false(bal_repack_published_triggers(60, 100, 0.6, 8, 4));
    assert_false(bal_repack_published_triggers(59, 100, 0.6, 4, 4));
}

static void halving_stops_where_a_rank_would_hold_more_than_at_the_start(void **state)
{
    arena *memory = *state;
    int64_t bytes[32];
    int kept = 0;
    error_message err = {0};
    for (int layer = 0; layer < 32; layer++) {
        bytes[layer] = layer < 20 ? 2 : 16; // 20 frozen: their weights alone are left
    }
    // 8 ranks of 4 layers held 64 at the start; 232 bytes on 4 ranks are 58 and a bit.
    assert_ok(bal_repack_halving(bytes, 32, 8, 64, memory, &kept, &err));
    assert_int_equal(kept, 4);
    assert_ok(bal_repack_halving(bytes, 32, 8, 116, memory, &kept, &err));
    assert_int_equal(kept, 4); // 40 + 12 * 16 does not split in two halves of 116
    assert_ok(bal_repack_halving(bytes, 32, 8, 232, memory, &kept, &err));
    assert_int_equal(kept, 1);
    assert_ok(bal_repack_halving(bytes, 32, 7, 80, memory, &kept, &err));
    assert_int_equal(kept, 3); // halves are rounded down
    assert_int_equal(bal_repack_halving(bytes, 32, 0, 80, memory, &kept, &err), STATUS_INVALID);
    assert_string_equal(err.message, "rank_count 0 is outside [1, 4096]");
}

static void wrong_questions_are_invalid(void **state)
{
    arena *memory = *state;
    const int64_t bytes[] = {1, -2};
    bal_pack_question ask = question_of(BAL_REPACK_CODED, bytes, 2, 10, 1);
    bal_pack_result result;
    error_message err = {0};

    assert_int_equal(bal_repack_published(&ask, memory, &result, &err), STATUS_INVALID);
    assert_string_equal(err.message, "memory of rank 1: -2 is outside [0, 1152921504606846975]");
    ask.kind = BAL_REPACK_HALVING;
    assert_int_equal(bal_repack_published(&ask, memory, &result, &err), STATUS_INVALID);
    assert_string_equal(err.message, "'halving' does not merge ranks");
    ask.kind = BAL_REPACK_CODED;
    ask.target_rank_count = 0;
    assert_int_equal(bal_repack_published(&ask, memory, &result, &err), STATUS_INVALID);
    assert_string_equal(err.message, "target_rank_count 0 is below 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_printed_the_first_rank_goes_to_all_others),
        cmocka_unit_test(as_printed_copies_are_copied),
        cmocka_unit_test(as_coded_layers_cascade_to_the_last_rank),
        cmocka_unit_test(as_coded_an_exact_fit_is_refused),
        cmocka_unit_test(as_coded_a_missed_target_marks_ranks_and_moves_nothing),
        cmocka_unit_test(cuts_that_use_exact_fits_need_no_more_ranks_than_algorithm_4),
        cmocka_unit_test(bins_take_the_first_the_fullest_or_the_next),
        cmocka_unit_test(books_add_up_except_as_printed),
        cmocka_unit_test(the_trigger_needs_less_load_and_ranks_to_spare),
        cmocka_unit_test(halving_stops_where_a_rank_would_hold_more_than_at_the_start),
        cmocka_unit_test(wrong_questions_are_invalid),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
