/// The table of schedules, the orders written out by hand for small cases, and the proof that an
/// order can be played: every way of being wrong is refused by name.
#include "balance/metrics.h"
#include "balance/schedule/schedule.h"
#include "base/rng.h"
#include "tests/balance/reference_player.h"
#include "tests/sim/random_schedules.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <stdio.h>
#include <string.h>

static void assert_order(const bal_schedule *schedule, int rank, const char *expected)
{
    text_buffer text = {0};
    for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
        text_format(&text, "%s%s", text.length > 0 ? " " : "", bal_op_name(schedule->ops[op]).text);
    }
    assert_string_equal(text.bytes, expected);
    text_free(&text);
}

TEST(gpipe_runs_all_forwards_first)
{
    const bal_schedule schedule = reference_build("gpipe", 2, 3, 0);
    assert_order(&schedule, 0, "F0 F1 F2 BW0 BW1 BW2");
    assert_order(&schedule, 1, "F0 F1 F2 BW0 BW1 BW2");
}

TEST(one_f_one_b_warms_up_by_the_ranks_behind)
{
    const bal_schedule schedule = reference_build("1f1b", 3, 4, 1);
    assert_order(&schedule, 0, "F0 F1 F2 BW0 F3 BW1 BW2 BW3");
    assert_order(&schedule, 1, "F0 F1 BW0 F2 BW1 F3 BW2 BW3");
    assert_order(&schedule, 2, "F0 BW0 F1 BW1 F2 BW2 F3 BW3");
    const bal_schedule few = reference_build("1f1b", 4, 2, 1);
    assert_order(&few, 0, "F0 F1 BW0 BW1");
}

TEST(interleaved_takes_p_microbatches_through_each_chunk)
{
    const bal_schedule schedule = reference_build("interleaved-1f1b", 2, 4, 2);
    assert_order(&schedule, 0,
                 "F0 F1 1:F0 1:F1 F2 1:BW0 F3 1:BW1 1:F2 BW0 1:F3 BW1 1:BW2 1:BW3 BW2 BW3");
    assert_order(&schedule, 1,
                 "F0 F1 1:F0 1:BW0 1:F1 1:BW1 F2 BW0 F3 BW1 1:F2 1:BW2 1:F3 1:BW3 BW2 BW3");
    assert_int_equal(reference_build("interleaved-1f1b", 2, 4, 0).chunk_count, 2);
}

TEST(hand_zero_bubble_orders_hold_back_weights_by_rank)
{
    const bal_schedule h1 = reference_build("zb-h1", 3, 4, 1);
    assert_order(&h1, 0, "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3");
    assert_order(&h1, 2, "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3");
    const bal_schedule h2 = reference_build("zb-h2", 2, 5, 1);
    assert_order(&h2, 0, "F0 F1 F2 B0 W0 F3 B1 W1 F4 B2 W2 B3 W3 B4 W4");
    assert_order(&h2, 1, "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 F4 B4 W2 W3 W4");
}

TEST(every_built_order_passes_the_check)
{
    int family_count = 0;
    const bal_schedule_family *families = bal_schedule_families(&family_count);
    for (int family = 0; family < family_count; family++) {
        if (families[family].is_searched) continue;
        for (int ranks = 1; ranks <= 7; ranks++) {
            for (int least = 1; least <= 4 * ranks; least += 1 + ranks / 2) {
                const int microbatches =
                    bal_schedule_microbatch_count(&families[family], ranks, least);
                if (microbatches < 0) continue;
                const bal_schedule schedule =
                    reference_build(families[family].name, ranks, microbatches, 0);
                if (bal_schedule_check(&schedule, &why) != STATUS_OK) {
                    fail_msg("%s: %s", schedule.name, why.message);
                }
                arena_reset(memory);
            }
        }
    }
}

TEST(no_schedule_is_shorter_than_its_busiest_rank)
{
    rng generator = rng_init(7, 0);
    int family_count = 0;
    const bal_schedule_family *families = bal_schedule_families(&family_count);
    for (int instance = 0; instance < 600; instance++) {
        const bal_schedule_family *family = &families[instance % family_count];
        const int ranks = (int)rng_between(&generator, 1, 6);
        const int chunks = bal_schedule_chunk_count(family, 0);
        const int microbatches = bal_schedule_microbatch_count(
            family, ranks, ranks * (int)rng_between(&generator, 1, 3));
        if (microbatches < 0) continue; // none for so many ranks
        const bal_stage_costs costs =
            random_costs(&generator, ranks * chunks, microbatches, 100, 20);
        const bal_schedule_request request = {.name = family->name,
                                              .rank_count = ranks,
                                              .microbatch_count = microbatches,
                                              .costs = &costs};
        bal_schedule schedule;

        assert_ok(bal_schedule_build(&request, memory, &schedule, NULL));

        const bal_timeline timeline = reference_play(&schedule, &costs);
        const bal_metrics metrics = bal_metrics_of(&timeline);
        assert_true(metrics.makespan_ns >= metrics.span_ns);
        assert_true(metrics.span_ns >= metrics.work_max_ns);
        assert_true(metrics.bubble_ratio >= 0 && metrics.bubble_ratio < 1);
        arena_reset(memory);
    }
}

/// Whether every op still stands behind those of its own rank and other ranks that it needs, by
/// running whatever can run until nothing can.
static bool can_be_played(const bal_schedule *schedule)
{
    const int op_count = schedule->first_op[schedule->rank_count];
    const int ranks = schedule->rank_count;
    bool ran[OP_KIND_COUNT][8][16] = {0}; // [kind][stage][microbatch]
    int next[8];
    int done = 0;
    for (int rank = 0; rank < ranks; rank++) {
        next[rank] = schedule->first_op[rank];
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (int rank = 0; rank < ranks; rank++) {
            if (next[rank] == schedule->first_op[rank + 1]) continue;
            const bal_op op = schedule->ops[next[rank]];
            if (ran[op.kind][rank][op.microbatch]) return false; // twice
            const bool ready =
                op.kind == OP_FORWARD ? rank == 0 || ran[OP_FORWARD][rank - 1][op.microbatch]
                : op.kind == OP_BACKWARD_WEIGHT
                    ? ran[OP_BACKWARD_INPUT][rank][op.microbatch]
                    : ran[OP_FORWARD][rank][op.microbatch] &&
                          (rank == ranks - 1 || ran[op.kind][rank + 1][op.microbatch]);
            if (!ready) continue;
            ran[op.kind][rank][op.microbatch] = true;
            next[rank]++;
            done++;
            moved = true;
        }
    }
    return done == op_count;
}

/// One op is replaced by another, or two of a rank change places: sometimes that can still be
/// played, and the check must say the same as the player above.
TEST(a_corrupted_order_is_refused_unless_it_can_be_played)
{
    rng generator = rng_init(11, 0);
    const char *const names[] = {"gpipe", "1f1b", "zb-h1", "zb-h2"};
    int refused = 0;
    int accepted = 0;
    for (int instance = 0; instance < 4000; instance++) {
        const int ranks = (int)rng_between(&generator, 2, 5);
        const int microbatches = (int)rng_between(&generator, 2, 9);
        const bal_schedule schedule =
            reference_build(names[rng_below(&generator, 4)], ranks, microbatches, 1);
        bal_op *ops = (bal_op *)(uintptr_t)schedule.ops; // the arena's, ours to spoil
        const int rank = (int)rng_below(&generator, (uint64_t)ranks);
        const int first = schedule.first_op[rank];
        const uint64_t length = (uint64_t)(schedule.first_op[rank + 1] - first);
        bal_op *one = &ops[first + (int)rng_below(&generator, length)];
        bal_op *other = &ops[first + (int)rng_below(&generator, length)];
        const bal_op kept = *one;
        *one = *other;
        if (rng_below(&generator, 2) == 0) *other = kept;

        const status result = bal_schedule_check(&schedule, NULL);

        assert_int_equal(result, can_be_played(&schedule) ? STATUS_OK : STATUS_INVALID);
        if (result == STATUS_OK) {
            accepted++;
        } else {
            refused++;
        }
        arena_reset(memory);
    }
    assert_true(refused > 2000 && accepted > 100);
}

/// Plays an order given as text, one rank per row: what the check answers.
static status check_rows(const char *const *rows, int rank_count, int chunk_count,
                         int microbatch_count, bool has_split, bal_placement placement,
                         error_message *err)
{
    bal_op ops[64];
    int first_op[8] = {0};
    int count = 0;
    for (int rank = 0; rank < rank_count; rank++) {
        char row[256];
        snprintf(row, sizeof row, "%s", rows[rank]);
        for (char *name = strtok(row, " "); name != NULL; name = strtok(NULL, " ")) {
            assert_ok(bal_op_parse(name, &ops[count++], NULL));
        }
        first_op[rank + 1] = count;
    }
    const bal_schedule schedule = {.name = "text",
                                   .rank_count = rank_count,
                                   .chunk_count = chunk_count,
                                   .microbatch_count = microbatch_count,
                                   .placement = placement,
                                   .has_split = has_split,
                                   .first_op = first_op,
                                   .ops = ops};
    return bal_schedule_check(&schedule, err);
}

static void assert_refused(const char *row0, const char *row1, bool has_split, const char *message)
{
    const char *const rows[] = {row0, row1};
    assert_fails(check_rows(rows, 2, 1, 2, has_split, BAL_PLACEMENT_LOOP, &why), STATUS_INVALID,
                 message);
}

TEST(a_wrong_order_is_refused_by_name)
{
    const char *good = "F0 F1 BW0 BW1";
    assert_refused("F0 F1 BW0", good, false, "rank 0: BW1 is missing");
    assert_refused(good, "F0 BW0 BW1", false, "rank 1: BW1 is too early: F1 is not before it");
    assert_refused(good, "F0 F1 F0 BW0 BW1", false, "rank 1: F0 is repeated");
    assert_refused(good, "F0 F1 BW0 BW2", false, "rank 1 op 3: BW2: microbatch is outside [0, 1]");
    assert_refused(good, "F0 F1 1:BW0 BW1", false, "rank 1 op 2: 1:BW0: chunk is outside [0, 0]");
    assert_refused(good, "F0 F1 B0 W0 BW1", false, "rank 1 op 2: B0: the schedule has no split");
    assert_refused("F0 F1 B0 W0 B1", good, true, "rank 0: W1 is missing");
    assert_refused("F0 F1 W0 B0 B1 W1", good, true, "rank 0: W0 is too early: B0 is not before it");
    assert_refused("F0 F1 BW0 W0 BW1", good, true, "rank 0: W0 is repeated: BW0 holds it");
    assert_refused("F0 F1 B0 BW0 W0 BW1", good, true, "rank 0: BW0 is repeated");
    assert_refused("F0 F1 W0", "", true, "rank 0: W0 is too early: B0 is not before it");
}

TEST(the_pipelines_of_a_bidirectional_order_do_not_wait_for_each_other)
{
    // Under V, 1:F0 of rank 1 would wait for F0 of rank 1.
    const char *const rows[] = {"F0 BW0 1:F0 1:BW0", "1:F0 F0 BW0 1:BW0"};

    assert_ok(check_rows(rows, 2, 2, 1, false, BAL_PLACEMENT_BIDIRECTIONAL, &why));
    assert_int_equal(check_rows(rows, 2, 2, 1, false, BAL_PLACEMENT_V, &why), STATUS_INVALID);

    const char *const half[] = {"F0 BW0 1:F0 1:BW0", "1:F0 F0 BW0"};
    assert_fails(check_rows(half, 2, 2, 1, false, BAL_PLACEMENT_BIDIRECTIONAL, &why),
                 STATUS_INVALID, "rank 1: 1:BW0 is missing");
    const char *const ring[] = {"F0 1:BW0 1:F0 BW0", "1:F0 F0 BW0 1:BW0"};
    assert_fails(check_rows(ring, 2, 2, 1, false, BAL_PLACEMENT_BIDIRECTIONAL, &why),
                 STATUS_INVALID, "rank 0: 1:BW0 is too early: 1:F0 is not before it");
    const char *const one[] = {"F0 BW0", "F0 BW0"};
    assert_fails(check_rows(one, 2, 1, 1, false, BAL_PLACEMENT_BIDIRECTIONAL, &why), STATUS_INVALID,
                 "bidirectional placement has 2 chunks per rank, not 1");
}

TEST(chimera_counts_the_microbatches_of_each_direction)
{
    const bal_schedule schedule = reference_build("chimera", 4, 8, 0);

    assert_int_equal(schedule.microbatch_count, 4);
    assert_int_equal(bal_iteration_microbatch_count(&schedule), 8);
    assert_int_equal(schedule.chunk_count, 2);
    assert_int_equal(schedule.placement, BAL_PLACEMENT_BIDIRECTIONAL);
    assert_int_equal(schedule.first_op[4], 4 * 2 * 4 * 2);
    const bal_schedule_family *family = bal_schedule_family_find("chimera");
    assert_true(bal_schedule_takes(family, 4, 6));
    assert_false(bal_schedule_takes(family, 4, 7));
    assert_int_equal(bal_schedule_microbatch_count(family, 4, 7), 8);
    assert_int_equal(bal_schedule_microbatch_count(family, 5, 8), -1);
}

TEST(a_mixed_order_may_fuse_some_backwards)
{
    const char *const rows[] = {"F0 F1 B0 BW1 W0", "F0 BW0 F1 B1 W1"};
    assert_ok(check_rows(rows, 2, 1, 2, true, BAL_PLACEMENT_LOOP, NULL));
}

TEST(names_of_ops_read_back)
{
    const char *const names[] = {"F0", "B12", "W7", "BW1048575", "1:F0", "63:BW9"};
    for (size_t index = 0; index < sizeof names / sizeof names[0]; index++) {
        bal_op op;
        assert_ok(bal_op_parse(names[index], &op, NULL));
        assert_string_equal(bal_op_name(op).text, names[index]);
    }
    const char *const wrong[] = {"",   "F",   "X0",    "F-1",      "F0 ",  "0F0",
                                 "1:", ":F0", "64:F0", "F1048576", "B0W0", "F99999999999999999999"};
    for (size_t index = 0; index < sizeof wrong / sizeof wrong[0]; index++) {
        bal_op op;
        assert_int_equal(bal_op_parse(wrong[index], &op, NULL), STATUS_FORMAT);
    }
}

TEST(a_bad_request_is_refused_by_name)
{
    const struct {
        bal_schedule_request request;
        const char *message;
    } cases[] = {
        {{.name = "1f1c", .rank_count = 2, .microbatch_count = 2},
         "unknown schedule '1f1c'; did you mean '1f1b'?"},
        {{.name = "gpipe", .rank_count = 0, .microbatch_count = 2},
         "rank_count 0 is outside [1, 4096]"},
        {{.name = "gpipe", .rank_count = 4097, .microbatch_count = 2},
         "rank_count 4097 is outside [1, 4096]"},
        {{.name = "gpipe", .rank_count = 2, .microbatch_count = 0},
         "microbatch_count 0 is outside [1, 1048576]"},
        {{.name = "gpipe", .rank_count = 2, .microbatch_count = 2, .chunk_count = 2},
         "chunk_count 2: schedule gpipe has 1 per rank"},
        {{.name = "interleaved-1f1b", .rank_count = 4, .microbatch_count = 6},
         "microbatch_count 6: schedule interleaved-1f1b needs a multiple of rank_count 4"},
        {{.name = "interleaved-1f1b", .rank_count = 4, .microbatch_count = 8, .chunk_count = 1},
         "chunk_count 1 is outside [2, 64]"},
        {{.name = "chimera", .rank_count = 3, .microbatch_count = 4},
         "rank_count 3: schedule chimera needs an even number of ranks"},
        {{.name = "chimera", .rank_count = 4, .microbatch_count = 3},
         "microbatch_count 3: schedule chimera needs an even number, half for each direction"},
        {{.name = "chimera", .rank_count = 4, .microbatch_count = 4, .chunk_count = 1},
         "chunk_count 1: schedule chimera has 2 per rank"},
        {{.name = "gpipe", .rank_count = 4096, .microbatch_count = 1048576},
         "4096 ranks of 1048576 microbatches and 1 chunks are 8589934592 ops; the limit is "
         "268435456"},
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        bal_schedule schedule = {.rank_count = -7};
        assert_fails(bal_schedule_build(&cases[index].request, memory, &schedule, &why),
                     STATUS_INVALID, cases[index].message);
        assert_int_equal(schedule.rank_count, -7);
    }
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
