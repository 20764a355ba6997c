#include "models/lengths/context_sharding.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

const char *const model_context_names[MODEL_CONTEXT_COUNT] = {"equal", "sequence", "document",
                                                              "adaptive", "hybrid"};

double model_causal_pairs(int64_t tokens, int64_t sliding_window)
{
    const double n = (double)tokens;
    const double w = (double)sliding_window;
    return sliding_window == 0 || tokens <= sliding_window ? n * n : w * (2 * n - w);
}

static int64_t sum_of(const int32_t *tokens, int count)
{
    int64_t sum = 0;
    for (int sequence = 0; sequence < count; sequence++) {
        sum += tokens[sequence];
    }
    return sum;
}

/// What a rank has.
typedef struct rank_load {
    int64_t tokens;
    double pairs;
} rank_load;

static double cost_of(const model_context *context, const rank_load *rank)
{
    return context->token_cost * (double)rank->tokens + context->pair_cost * rank->pairs;
}

/// Queries [from, to) of a sequence. A tile that is not full takes as long as a full one.
static void add_piece(const model_context *context, int64_t from, int64_t to, rank_load *rank)
{
    const int64_t rows = to - from;
    if (rows == 0) return;
    const int64_t tiled = (rows + context->tile_rows - 1) / context->tile_rows * context->tile_rows;
    const double pairs = model_causal_pairs(to, context->sliding_window) -
                         model_causal_pairs(from, context->sliding_window);
    rank->tokens += rows;
    rank->pairs += pairs * (double)tiled / (double)rows;
}

/// Of 2c pieces rank r has r and 2c - 1 - r, which causal attention makes alike together.
static int rank_of_piece(const model_context *context, int piece)
{
    return piece < context->rank_count ? piece : 2 * context->rank_count - 1 - piece;
}

static int64_t piece_end(const model_context *context, int64_t tokens, int piece)
{
    return tokens * (piece + 1) / (2 * context->rank_count);
}

/// Cuts a row of sequences into 2c pieces.
///
/// @param turn shifts who has which piece, so that what does not divide is not always the same
///             rank's
static void cut_row(const model_context *context, const int32_t *tokens, int count, int turn,
                    rank_load *rank)
{
    const int64_t all = sum_of(tokens, count);
    int64_t begin = 0; // of the sequence in the row
    int piece = 0;
    for (int sequence = 0; sequence < count; sequence++) {
        for (int64_t at = 0; at < tokens[sequence];) {
            while (piece_end(context, all, piece) <= begin + at) {
                piece++;
            }
            const int64_t left = piece_end(context, all, piece) - begin;
            const int64_t to = left < tokens[sequence] ? left : tokens[sequence];
            const int owner = (rank_of_piece(context, piece) + turn) % context->rank_count;
            add_piece(context, at, to, &rank[owner]);
            at = to;
        }
        begin += tokens[sequence];
    }
}

static model_context_share slowest_of(const model_context *context, const rank_load *rank,
                                      int64_t exchanged)
{
    const double ranks = context->rank_count;
    int found = 0;
    for (int index = 1; index < context->rank_count; index++) {
        if (cost_of(context, &rank[index]) > cost_of(context, &rank[found])) found = index;
    }
    return (model_context_share){.tokens = (double)rank[found].tokens * ranks,
                                 .pairs = rank[found].pairs * ranks,
                                 .exchanged = (double)exchanged};
}

static double group_cost(const model_context *context, const model_context_share *share)
{
    return context->token_cost * share->tokens + context->pair_cost * share->pairs +
           context->exchange_cost * share->exchanged;
}

static int longer_first(const void *a, const void *b)
{
    const int32_t left = *(const int32_t *)a;
    const int32_t right = *(const int32_t *)b;
    return (left < right) - (left > right);
}

/// Gives a sequence to the cheapest rank with room.
///
/// @return false: none has room
static bool give_whole(const model_context *context, int64_t tokens, rank_load *rank)
{
    const int64_t most = (context->budget + context->rank_count - 1) / context->rank_count;
    int found = -1;
    for (int index = 0; index < context->rank_count; index++) {
        if (rank[index].tokens + tokens > most) continue;
        if (found < 0 || cost_of(context, &rank[index]) < cost_of(context, &rank[found])) {
            found = index;
        }
    }
    if (found >= 0) add_piece(context, 0, tokens, &rank[found]);
    return found >= 0;
}

/// @param sorted [count] the longest first, of which so many are cut
/// @return whether the others find room
static bool share_hybrid(const model_context *context, const int32_t *sorted, int count, int cut,
                         rank_load *rank, int64_t *exchanged)
{
    *exchanged = 0;
    memset(rank, 0, (size_t)context->rank_count * sizeof *rank);
    for (int sequence = 0; sequence < count; sequence++) {
        if (sequence < cut) {
            cut_row(context, &sorted[sequence], 1, sequence, rank);
            *exchanged += sorted[sequence];
        } else if (!give_whole(context, sorted[sequence], rank)) {
            return false;
        }
    }
    return true;
}

static model_context_share best_hybrid(const model_context *context, const int32_t *tokens,
                                       int count, rank_load *rank, arena *scratch)
{
    int32_t *sorted = arena_array(scratch, (size_t)count, sizeof *sorted);
    model_context_share best = {0};
    bool has_best = false;
    memcpy(sorted, tokens, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, longer_first);
    for (int cut = 0;; cut = cut == 0 ? 1 : 2 * cut) {
        int64_t exchanged = 0;
        if (cut > count) cut = count;
        if (share_hybrid(context, sorted, count, cut, rank, &exchanged)) {
            const model_context_share share = slowest_of(context, rank, exchanged);
            if (!has_best || group_cost(context, &share) < group_cost(context, &best)) best = share;
            has_best = true;
        }
        if (cut == count) return best;
    }
}

static model_context_share share_equally(const model_context *context, const int32_t *tokens,
                                         int count)
{
    model_context_share share = {.tokens = (double)sum_of(tokens, count)};
    share.exchanged = share.tokens;
    for (int sequence = 0; sequence < count; sequence++) {
        share.pairs += model_causal_pairs(tokens[sequence], context->sliding_window);
    }
    return share;
}

model_context_share model_context_slowest(const model_context *context, const int32_t *tokens,
                                          int count, arena *scratch)
{
    if (context->kind == MODEL_CONTEXT_EQUAL || count == 0) {
        return share_equally(context, tokens, count);
    }
    const size_t ranks = (size_t)context->rank_count;
    rank_load *rank = arena_array(scratch, ranks, sizeof *rank);
    const int64_t all = sum_of(tokens, count);
    if (context->kind == MODEL_CONTEXT_HYBRID) {
        return best_hybrid(context, tokens, count, rank, scratch);
    }
    cut_row(context, tokens, count, 0, rank);
    const model_context_share by_row = slowest_of(context, rank, all);
    if (context->kind == MODEL_CONTEXT_SEQUENCE) return by_row;
    memset(rank, 0, ranks * sizeof *rank);
    for (int sequence = 0; sequence < count; sequence++) {
        cut_row(context, &tokens[sequence], 1, sequence, rank);
    }
    const model_context_share by_document = slowest_of(context, rank, all);
    if (context->kind == MODEL_CONTEXT_DOCUMENT) return by_document;
    return group_cost(context, &by_document) < group_cost(context, &by_row) ? by_document : by_row;
}
