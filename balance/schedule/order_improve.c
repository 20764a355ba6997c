#include "balance/schedule/order_improve.h"

#include <string.h>

enum { SHIFT_MAX = 3 };

/// Moves the op at from to to within a rank's codes.
static void move(uint8_t *codes, int from, int to)
{
    const uint8_t code = codes[from];
    if (from < to) {
        memmove(codes + from, codes + from + 1, (size_t)(to - from));
    } else {
        memmove(codes + to + 1, codes + to, (size_t)(from - to));
    }
    codes[to] = code;
}

/// Tries all moves of one rank. Whether one was better.
static bool improve_rank(bal_order_search *find, int rank, int64_t *left)
{
    const int rank_ops = 3 * find->chunk_count * find->microbatch_count;
    const size_t bytes = (size_t)rank_ops;
    const size_t all_bytes = (size_t)find->rank_count * bytes;
    const size_t row = (size_t)rank * bytes;
    bool has_improved = false;
    for (int from = 0; from < rank_ops; from++) {
        for (int shift = -SHIFT_MAX; shift <= SHIFT_MAX; shift++) {
            const int to = from + shift;
            if (to < 0 || to >= rank_ops) continue;
            const uint8_t *const best = find->best_codes;
            if (best[row + (size_t)from] == best[row + (size_t)to]) continue;
            if (*left <= 0) return has_improved;
            *left -= (int64_t)all_bytes;
            move(find->codes + row, from, to);
            bal_order_search_play(find);
            if (find->best_codes == best) {
                memcpy(find->codes + row, best + row, bytes);
            } else {
                memcpy(find->codes, find->best_codes, all_bytes);
                has_improved = true;
            }
        }
    }
    return has_improved;
}

void bal_order_search_improve(bal_order_search *find)
{
    const size_t op_count =
        3 * (size_t)find->chunk_count * (size_t)find->microbatch_count * (size_t)find->rank_count;
    int64_t left = BAL_IMPROVING_OPS_MAX;
    if (op_count > BAL_IMPROVED_OPS_MAX) return;
    memcpy(find->codes, find->best_codes, op_count);
    for (bool has_improved = true; has_improved && left > 0;) {
        has_improved = false;
        for (int rank = 0; rank < find->rank_count; rank++) {
            if (find->best_span_ns == find->least_span_ns) return;
            has_improved = improve_rank(find, rank, &left) || has_improved;
        }
    }
}
