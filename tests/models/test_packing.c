/// packing: hand-made pools, exact beside an exhaustive search, Graham's bound, budgets, dealing;
/// sequence_lengths: every form of file, what is refused, and what is drawn.
#include "base/rng.h"
#include "models/lengths/packing.h"
#include "models/lengths/sequence_lengths.h"
#include "tests/test_memory.h"

#include <string.h>

enum { COUNT_MAX = 40, BINS_MAX = 8 };

typedef struct pool {
    int32_t tokens[COUNT_MAX];
    double cost[COUNT_MAX];
    int bin_of[COUNT_MAX];
    model_packing packing;
} pool;

static void pool_set(pool *made, model_packing_kind kind, int count, const int *tokens, int bins,
                     int64_t budget)
{
    for (int sequence = 0; sequence < count; sequence++) {
        made->tokens[sequence] = tokens[sequence];
        made->cost[sequence] = tokens[sequence];
    }
    made->packing = (model_packing){kind, count, made->tokens, made->cost, bins, budget};
}

static void pack(pool *made)
{
    require(model_pack(&made->packing, memory, made->bin_of, &why));
}

/// The costliest bin; that none exceeds the budget is asserted.
static double largest(const pool *made)
{
    double cost[BINS_MAX] = {0};
    int64_t tokens[BINS_MAX] = {0};
    double most = 0;
    for (int sequence = 0; sequence < made->packing.count; sequence++) {
        const int bin = made->bin_of[sequence];
        assert_in_range(bin, 0, made->packing.bin_count - 1);
        cost[bin] += made->cost[sequence];
        tokens[bin] += made->tokens[sequence];
        assert_true(tokens[bin] <= made->packing.budget);
        if (cost[bin] > most) most = cost[bin];
    }
    return most;
}

TEST(largest_differences_first_beats_the_lightest_bin)
{
    static const int tokens[] = {8, 7, 6, 5, 4}; // Karmarkar and Karp: 16 and 14; LPT: 17 and 13
    pool made;
    pool_set(&made, MODEL_PACK_COST, 5, tokens, 2, 100);
    pack(&made);
    assert_close(largest(&made), 17, 0);
    made.packing.kind = MODEL_PACK_KARMARKAR_KARP;
    pack(&made);
    assert_close(largest(&made), 16, 0);
    made.packing.kind = MODEL_PACK_EXACT;
    pack(&made);
    assert_close(largest(&made), 15, 0);
}

/// The least largest cost within the budget, by trying all; INFINITY: no way keeps it.
static double search(pool *made, int place)
{
    double best = INFINITY;
    if (place == made->packing.count) {
        double cost[BINS_MAX] = {0};
        int64_t tokens[BINS_MAX] = {0};
        double most = 0;
        for (int sequence = 0; sequence < place; sequence++) {
            cost[made->bin_of[sequence]] += made->cost[sequence];
            tokens[made->bin_of[sequence]] += made->tokens[sequence];
        }
        for (int bin = 0; bin < made->packing.bin_count; bin++) {
            if (tokens[bin] > made->packing.budget) return INFINITY;
            most = fmax(most, cost[bin]);
        }
        return most;
    }
    for (int bin = 0; bin < made->packing.bin_count; bin++) {
        made->bin_of[place] = bin;
        best = fmin(best, search(made, place + 1));
    }
    return best;
}

TEST(exact_is_what_trying_all_finds_and_graham_bounds_the_lightest_bin)
{
    rng random = rng_init(7, 1);
    for (int round = 0; round < 300; round++) {
        int tokens[COUNT_MAX];
        pool made;
        const int count = (int)rng_between(&random, 1, 7);
        const int bins = (int)rng_between(&random, 1, 3);
        int64_t sum = 0;
        for (int sequence = 0; sequence < count; sequence++) {
            tokens[sequence] = (int)rng_between(&random, 1, 50);
            sum += tokens[sequence];
        }
        const int64_t budget = round % 2 == 0 ? sum : sum / bins + 25;
        pool_set(&made, MODEL_PACK_EXACT, count, tokens, bins, budget > 50 ? budget : 50);
        for (int sequence = 0; sequence < count; sequence++) {
            made.cost[sequence] = tokens[sequence] + 0.05 * tokens[sequence] * tokens[sequence];
        }
        const double least = search(&made, 0);
        if (least == INFINITY) continue;
        pack(&made);
        assert_close(largest(&made), least, 1e-9);
        if (round % 2 != 0) continue; // Graham's bound knows no budget
        made.packing.kind = MODEL_PACK_COST;
        pack(&made);
        assert_true(largest(&made) <= least * (4.0 / 3 - 1.0 / (3 * bins)) + 1e-9);
        made.packing.kind = MODEL_PACK_KARMARKAR_KARP;
        pack(&made);
        assert_true(largest(&made) >= least - 1e-9);
    }
}

TEST(too_many_for_a_kind_are_refused_with_their_number)
{
    pool made;
    int tokens[COUNT_MAX];
    for (int sequence = 0; sequence < COUNT_MAX; sequence++) {
        tokens[sequence] = 1;
    }
    pool_set(&made, MODEL_PACK_EXACT, 21, tokens, 2, 100);
    assert_fails(model_pack(&made.packing, memory, made.bin_of, &why), STATUS_INVALID,
                 "packing 'exact' takes at most 20 sequences at once, there are 21");
    pool_set(&made, MODEL_PACK_KARMARKAR_KARP, COUNT_MAX, tokens, 1 << 20, 100);
    assert_int_equal(model_pack(&made.packing, memory, made.bin_of, &why), STATUS_INVALID);
}

TEST(groups_are_equally_large_and_cost_alike)
{
    static const double cost[] = {9, 1, 8, 2, 7, 3};
    int group_of[6];
    int members[3] = {0};
    double sum[3] = {0};
    model_pack_deal(cost, 3, 2, memory, group_of);
    for (int bin = 0; bin < 6; bin++) {
        members[group_of[bin]]++;
        sum[group_of[bin]] += cost[bin];
    }
    for (int group = 0; group < 3; group++) {
        assert_int_equal(members[group], 2);
        assert_close(sum[group], 10, 0);
    }
}

static void expect_lengths(const char *text, int count, const int *wanted)
{
    model_sequence_lengths lengths = {0};
    require(model_sequence_lengths_parse("f", text, strlen(text), memory, &lengths, &why));
    assert_int_equal(lengths.given_count, count);
    for (int sequence = 0; sequence < 2 * count; sequence++) {
        assert_int_equal(model_sequence_length(&lengths, sequence), wanted[sequence % count]);
    }
}

TEST(every_form_of_file_is_read)
{
    static const int wanted[] = {5, 3, 9};
    expect_lengths("5\n3\n9\n", 3, wanted);
    expect_lengths(" 5, 3 ,9", 3, wanted);
    expect_lengths("[5, 3, 9]", 3, wanted);
    expect_lengths("[0, 5, 8, 17]", 3, wanted);
    expect_lengths("[0,5]\n[0,3,12]\n", 3, wanted);
    expect_lengths("{\"length\":5,\"id\":1}\n{\"cu_seqlens\":[0,3,12]}", 3, wanted);
}

static void refuse_lengths(const char *text, const char *message)
{
    model_sequence_lengths lengths = {.given_count = -7};
    assert_fails(model_sequence_lengths_parse("f", text, strlen(text), memory, &lengths, &why),
                 STATUS_FORMAT, message);
    assert_int_equal(lengths.given_count, -7);
}

TEST(what_is_no_length_is_refused_with_its_line)
{
    refuse_lengths("", "f: no length of a sequence in it");
    refuse_lengths("[0]", "f: no length of a sequence in it");
    refuse_lengths("7\n-3\n", "f:2: '-3' is no whole number");
    refuse_lengths("7\nnan", "f:2: 'nan' is no whole number");
    refuse_lengths("1.5", "f:1: '1.5' is no whole number");
    refuse_lengths("7\n0\n", "f:2: a length of 0 tokens, expected 1 to 1073741824");
    refuse_lengths("1073741825", "f:1: a length of 1073741825 tokens, expected 1 to 1073741824");
    refuse_lengths("10000000000000000000", "f:1: '10000000000000000000' is no whole number");
    refuse_lengths("[0,5,5]", "f:1: offsets that do not rise at 5");
    refuse_lengths("[3,5", "f:1: an array without its end, number 0");
    refuse_lengths("{\"length\":0}", "f:1: length: 0 is outside [1, 1073741824]");
    refuse_lengths("{\"tokens\":7}", "f:1: length: missing; needs an integer");
    refuse_lengths("{\"cu_seqlens\":[0,5,4]}", "f:1: cu_seqlens[2]: 4 is outside [6, 1073741829]");
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
