/// What the chunks of a rank hold at once: every fixed order of the table against a plain walk of
/// it, and what searched schedules count as.
#include "balance/rank_peaks.h"

#include "balance/schedule/schedule.h"
#include "base/rng.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <string.h>

enum { MICROBATCHES = 9, RANKS = 6, CHUNKS_MAX = 3, WEIGHINGS = 8 };

static bal_rank_peaks peaks_of(const char *schedule, int ranks, int chunks, int microbatches)
{
    bal_rank_peaks peaks = {0};
    if (bal_rank_peaks_of(schedule, ranks, chunks, microbatches, memory, &peaks, &why) !=
        STATUS_OK) {
        fail_msg("%s: %s", schedule, why.message);
    }
    return peaks;
}

/// The largest weighed sum of what a rank holds at any moment, by a walk of its order.
static int64_t plain_most(const bal_schedule *schedule, int rank, const int64_t *weight)
{
    bool is_held[CHUNKS_MAX][MICROBATCHES] = {0};
    int64_t most = 0;
    for (int at = schedule->first_op[rank]; at < schedule->first_op[rank + 1]; at++) {
        const bal_op op = schedule->ops[at];
        if (op.kind == OP_BACKWARD_INPUT) continue;
        is_held[op.chunk][op.microbatch] = op.kind == OP_FORWARD;
        int64_t sum = 0;
        for (int chunk = 0; chunk < schedule->chunk_count; chunk++) {
            for (int microbatch = 0; microbatch < schedule->microbatch_count; microbatch++) {
                sum += is_held[chunk][microbatch] ? weight[chunk] : 0;
            }
        }
        if (sum > most) most = sum;
    }
    return most;
}

static int64_t most_of_peaks(const bal_rank_peaks *peaks, int rank, const int64_t *weight)
{
    int64_t most = 0;
    for (int peak = peaks->first_peak[rank]; peak < peaks->first_peak[rank + 1]; peak++) {
        int64_t sum = 0;
        for (int chunk = 0; chunk < peaks->chunk_count; chunk++) {
            sum += weight[chunk] * bal_rank_peak(peaks, peak)[chunk];
        }
        if (sum > most) most = sum;
    }
    return most;
}

/// Whether another peak of the rank holds no less in every chunk.
static bool is_exceeded(const bal_rank_peaks *peaks, int rank, int peak)
{
    for (int other = peaks->first_peak[rank]; other < peaks->first_peak[rank + 1]; other++) {
        bool is_within = other != peak;
        for (int chunk = 0; chunk < peaks->chunk_count; chunk++) {
            if (bal_rank_peak(peaks, peak)[chunk] > bal_rank_peak(peaks, other)[chunk]) {
                is_within = false;
            }
        }
        if (is_within) return true;
    }
    return false;
}

/// Compares the peaks of one order with what walking it says, whatever activations weigh.
static void check_order(const char *name, int ranks, int chunks, int microbatches, rng *random)
{
    bal_schedule built;
    const bal_schedule_request request = {
        .name = name, .rank_count = ranks, .chunk_count = chunks, .microbatch_count = microbatches};
    assert_ok(bal_schedule_build(&request, memory, &built, NULL));
    const bal_rank_peaks peaks = peaks_of(name, ranks, chunks, microbatches);
    for (int rank = 0; rank < ranks; rank++) {
        for (int peak = peaks.first_peak[rank]; peak < peaks.first_peak[rank + 1]; peak++) {
            assert_false(is_exceeded(&peaks, rank, peak));
        }
        for (int weighing = 0; weighing < WEIGHINGS; weighing++) {
            int64_t weight[CHUNKS_MAX];
            for (int chunk = 0; chunk < CHUNKS_MAX; chunk++) {
                weight[chunk] = rng_between(random, 0, 20);
            }
            if (most_of_peaks(&peaks, rank, weight) != plain_most(&built, rank, weight)) {
                fail_msg("%s, rank %d of %d, %d microbatches", name, rank, ranks, microbatches);
            }
        }
    }
}

TEST(whatever_activations_weigh_a_rank_is_fullest_at_a_peak)
{
    int count = 0;
    int checked = 0;
    rng random = rng_init(1, 0);
    const bal_schedule_family *families = bal_schedule_families(&count);
    for (int row = 0; row < count; row++) {
        const bal_schedule_family *family = &families[row];
        if (family->is_searched) continue;
        for (int ranks = 1; ranks <= RANKS; ranks++) {
            for (int microbatches = 1; microbatches <= MICROBATCHES; microbatches++) {
                if (!bal_schedule_takes(family, ranks, microbatches)) continue;
                for (int chunks = 1; chunks <= CHUNKS_MAX; chunks++) {
                    if (!bal_schedule_takes_chunks(family, chunks)) continue;
                    check_order(family->name, ranks, chunks, microbatches, &random);
                    checked++;
                }
            }
        }
    }
    assert_true(checked > 400);
}

static void assert_same_peaks(const bal_rank_peaks *one, const bal_rank_peaks *other)
{
    const int ranks = one->rank_count;
    assert_int_equal(ranks, other->rank_count);
    assert_int_equal(one->chunk_count, other->chunk_count);
    assert_memory_equal(one->first_peak, other->first_peak,
                        ((size_t)ranks + 1) * sizeof *one->first_peak);
    assert_memory_equal(one->held, other->held,
                        (size_t)one->first_peak[ranks] * (size_t)one->chunk_count *
                            sizeof *one->held);
}

TEST(a_searched_schedule_counts_as_the_order_of_its_row)
{
    static const char *const pairs[][2] = {
        {"zb-auto", "1f1b"}, {"zb-v", "zb-v-hand"}, {"v-adaptive", "v-min"}};
    for (size_t index = 0; index < sizeof pairs / sizeof pairs[0]; index++) {
        arena_reset(memory);
        const bal_rank_peaks searched = peaks_of(pairs[index][0], 4, 0, 9);
        const bal_rank_peaks fixed = peaks_of(pairs[index][1], 4, 0, 9);

        assert_same_peaks(&searched, &fixed);
    }
}

TEST(other_counts_are_refused_in_the_name_of_the_schedule)
{
    bal_rank_peaks peaks = {.rank_count = -7};

    assert_fails(bal_rank_peaks_of("zb-v", 4, 3, 8, memory, &peaks, &why), STATUS_INVALID,
                 "chunk_count 3: schedule zb-v has 2 per rank");
    assert_fails(bal_rank_peaks_of("v-half", 4, 3, 8, memory, &peaks, &why), STATUS_INVALID,
                 "chunk_count 3: schedule v-half has 2 per rank");
    assert_fails(bal_rank_peaks_of("zb-auto", 0, 1, 8, memory, &peaks, &why), STATUS_INVALID,
                 "rank_count 0 is outside [1, 4096]");
    assert_int_equal(peaks.rank_count, -7);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
