/// context_sharding: hand-made microbatches, every kind beside a search that asks token by token
/// and way by way.
#include "base/rng.h"
#include "models/lengths/context_sharding.h"
#include "tests/test.h"

#include <stdbool.h>

enum { COUNT_MAX = 5, RANKS_MAX = 3 };

static model_context_share share(model_context context, const int32_t *tokens, int count)
{
    arena *scratch = arena_create(1 << 12);
    const model_context_share found = model_context_slowest(&context, tokens, count, scratch);
    arena_destroy(scratch);
    return found;
}

static const model_context pairs_alone = {
    .rank_count = 2, .tile_rows = 1, .budget = 1000, .pair_cost = 1};

static void expect(model_context context, model_context_kind kind, const int32_t *tokens, int count,
                   const model_context_share *expected)
{
    context.kind = kind;
    const model_context_share found = share(context, tokens, count);
    assert_close(found.tokens, expected->tokens, 0);
    assert_close(found.pairs, expected->pairs, 0);
    assert_close(found.exchanged, expected->exchanged, 0);
}

TEST(a_row_gives_the_end_of_a_long_sequence_to_one_rank)
{
    static const int32_t tokens[] = {6, 2};
    // Queries of the row two by two: 4, 12, 20 pairs of the first sequence, 4 of the second.
    const model_context_share row = {8, 2 * (12 + 20), 8};
    // 1, 8, 7, 20 pairs of the first, 0, 1, 0, 3 of the second, whose turn begins with the other.
    const model_context_share each = {8, 2 * (1 + 20 + 1), 8};
    const model_context_share even = {8, 36 + 4, 8};

    expect(pairs_alone, MODEL_CONTEXT_EQUAL, tokens, 2, &even);
    expect(pairs_alone, MODEL_CONTEXT_SEQUENCE, tokens, 2, &row);
    expect(pairs_alone, MODEL_CONTEXT_DOCUMENT, tokens, 2, &each);
    expect(pairs_alone, MODEL_CONTEXT_ADAPTIVE, tokens, 2, &each);
}

TEST(pieces_shorter_than_a_tile_take_a_whole_one)
{
    static const int32_t tokens[] = {4, 4};
    const model_context_share row = {8, 2 * (4 + 12), 8};
    const model_context_share each = {8, 2 * (1 + 7 + 3 + 5) * 2, 8}; // of one query each
    model_context tiled = pairs_alone;
    tiled.tile_rows = 2;

    expect(tiled, MODEL_CONTEXT_SEQUENCE, tokens, 2, &row);
    expect(tiled, MODEL_CONTEXT_DOCUMENT, tokens, 2, &each);
    expect(tiled, MODEL_CONTEXT_ADAPTIVE, tokens, 2, &row);
}

TEST(short_sequences_stay_whole_where_they_find_room)
{
    static const int32_t tokens[] = {2, 8, 2};
    // 4 + 28 and 12 + 20 pairs of the longest; the others 4 each.
    const model_context_share one_is_cut = {12, 2 * (32 + 4), 8};
    const model_context_share none_is_cut = {2 * 8, 2 * 64, 0};
    const model_context_share all_are_cut = {12, 2 * (32 + 3 + 1), 12};
    model_context narrow = pairs_alone;

    expect(pairs_alone, MODEL_CONTEXT_HYBRID, tokens, 3, &one_is_cut);
    narrow.budget = 12;
    expect(narrow, MODEL_CONTEXT_HYBRID, tokens, 3, &one_is_cut);
    narrow.exchange_cost = 5;
    expect(narrow, MODEL_CONTEXT_HYBRID, tokens, 3, &one_is_cut);
    narrow.budget = 16; // 64 and 8 pairs, without 8 exchanged tokens: 128 is less than 72 + 8 x 7.5
    narrow.exchange_cost = 7.5;
    expect(narrow, MODEL_CONTEXT_HYBRID, tokens, 3, &none_is_cut);
    narrow.budget = 10;
    expect(narrow, MODEL_CONTEXT_HYBRID, tokens, 3, &all_are_cut);
}

TEST(a_window_bounds_the_pairs_of_a_piece)
{
    static const int32_t tokens[] = {8};
    model_context windowed = pairs_alone;
    windowed.sliding_window = 2; // queries meet 1, 3, 4, 4, ... doubled pairs
    const model_context_share row = {8, 2 * (8 + 8), 8};

    expect(windowed, MODEL_CONTEXT_SEQUENCE, tokens, 1, &row);
}

/// The owner of a token, found among the pieces one by one.
static int owner_of(int64_t token, int64_t all, int ranks)
{
    int piece = 0;
    while (token >= all * (piece + 1) / (2 * ranks)) {
        piece++;
    }
    return piece < ranks ? piece : 2 * ranks - 1 - piece;
}

/// The cost of the slowest rank, of one token for each query and its pairs.
static double slowest(const model_context *context, const int64_t *tokens, const int64_t *pairs)
{
    double most = 0;
    for (int rank = 0; rank < context->rank_count; rank++) {
        most = fmax(most, context->token_cost * (double)tokens[rank] +
                              context->pair_cost * (double)pairs[rank]);
    }
    return most;
}

static double cost_of(const model_context *context, model_context_kind kind, const int32_t *tokens,
                      int count)
{
    int64_t held[RANKS_MAX] = {0};
    int64_t pairs[RANKS_MAX] = {0};
    int64_t all = 0;
    int64_t row = 0;
    for (int sequence = 0; sequence < count; sequence++) {
        all += tokens[sequence];
    }
    for (int sequence = 0; sequence < count; sequence++) {
        for (int query = 0; query < tokens[sequence]; query++, row++) {
            const int owner =
                kind == MODEL_CONTEXT_SEQUENCE
                    ? owner_of(row, all, context->rank_count)
                    : (owner_of(query, tokens[sequence], context->rank_count) + sequence) %
                          context->rank_count;
            held[owner]++;
            pairs[owner] += 2 * query + 1;
        }
    }
    return slowest(context, held, pairs);
}

/// The best of all ways to cut some sequences evenly, which no cut does better, and to put each
/// other on one rank.
static double least(const model_context *context, const int32_t *tokens, int count, double *rank,
                    double cut)
{
    double best = INFINITY;
    if (count == 0) {
        best = 0;
        for (int index = 0; index < context->rank_count; index++) {
            best = fmax(best, rank[index] + cut);
        }
        return best;
    }
    const double n = tokens[0];
    const double cost = context->token_cost * n + context->pair_cost * n * n;
    for (int index = 0; index < context->rank_count; index++) {
        rank[index] += cost;
        best = fmin(best, least(context, tokens + 1, count - 1, rank, cut));
        rank[index] -= cost;
    }
    return fmin(best,
                least(context, tokens + 1, count - 1, rank, cut + cost / context->rank_count));
}

TEST(every_kind_is_what_asking_every_token_finds)
{
    rng random = rng_init(11, 3);
    for (int round = 0; round < 2000; round++) {
        int32_t tokens[COUNT_MAX];
        double rank[RANKS_MAX] = {0};
        const int count = (int)rng_between(&random, 1, COUNT_MAX);
        model_context context = {.rank_count = (int)rng_between(&random, 1, RANKS_MAX),
                                 .tile_rows = 1,
                                 .budget = 1000,
                                 .token_cost = (double)rng_between(&random, 0, 20),
                                 .pair_cost = 1};
        const double ranks = context.rank_count;
        for (int sequence = 0; sequence < count; sequence++) {
            tokens[sequence] = (int32_t)rng_between(&random, 1, round % 2 == 0 ? 8 : 60);
        }
        double found[MODEL_CONTEXT_COUNT];
        for (int kind = 0; kind < MODEL_CONTEXT_COUNT; kind++) {
            context.kind = (model_context_kind)kind;
            const model_context_share of = share(context, tokens, count);
            found[kind] = context.token_cost * of.tokens + of.pairs;
        }
        const double row = ranks * cost_of(&context, MODEL_CONTEXT_SEQUENCE, tokens, count);
        const double each = ranks * cost_of(&context, MODEL_CONTEXT_DOCUMENT, tokens, count);
        assert_close(found[MODEL_CONTEXT_SEQUENCE], row, 1e-12);
        assert_close(found[MODEL_CONTEXT_DOCUMENT], each, 1e-12);
        assert_close(found[MODEL_CONTEXT_ADAPTIVE], fmin(row, each), 1e-12);
        assert_true(found[MODEL_CONTEXT_EQUAL] <= found[MODEL_CONTEXT_ADAPTIVE]);
        assert_true(found[MODEL_CONTEXT_HYBRID] >=
                    ranks * least(&context, tokens, count, rank, 0) - 1e-6);
    }
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
