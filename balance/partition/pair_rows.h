/// The layers of a chain as ranks of two chunks take them: rank after rank, each a run of both
/// rows.
///
/// Under BAL_PLACEMENT_V the first row is the chain from its begin and the second the chain from
/// its end: together they take every layer. Under BAL_PLACEMENT_LOOP the chain is split at a
/// middle, the first row is what stands in front of it and the second what stands behind. A place
/// in a row is the number of its layers that ranks have taken so far; after rank k - 1 both rows
/// stand at (left[k], right[k]).
#pragma once

#include "balance/partition/chain.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct bal_pair_rows {
    const bal_chain *chain; // of two chunks, without transfer_ns
    bool is_v;
    int rank_count;
    int middle;                   // loop: the first layer of the second row; v: not used
    int length[2];                // places of a row beyond 0; under v each is all layers
    const int64_t *weight[2];     // [length + 1] sums up to a place; only differences mean anything
    const int64_t *state[2];      // likewise, bytes
    const int64_t *activation[2]; // likewise
    int *rest[2];                 // [rank_count + 1] layers that ranks k and later must have
    bool has_memory;              // there are caps
    bool is_plain;                // the load of a run is its weight
} bal_pair_rows;

/// Makes the rows of a chain of two chunks per rank without transfer_ns (asserted); of a loop at
/// middle 0.
///
/// @param rows arrays are carved from memory or borrowed from chain, which is borrowed too
/// @return STATUS_NO_MEMORY
status bal_pair_rows_init(const bal_chain *chain, arena *memory, bal_pair_rows *rows,
                          error_message *err);

/// Moves the middle of a loop.
void bal_pair_rows_split(bal_pair_rows *rows, int middle);

/// The stage of a rank in a row.
static inline int bal_pair_stage(const bal_pair_rows *rows, int rank, int row)
{
    if (row == 0) return rank;
    return rows->is_v ? 2 * rows->rank_count - 1 - rank : rows->rank_count + rank;
}

/// Layers that a rank must have of a row: 0 or 1.
static inline int bal_pair_need(const bal_pair_rows *rows, int rank, int row)
{
    return rows->rest[row][rank] - rows->rest[row][rank + 1];
}

/// The furthest place of the second row after a rank, with the first at left, that leaves the ranks
/// behind it the layers that they must have.
static inline int bal_pair_right_limit(const bal_pair_rows *rows, int rank, int left)
{
    if (!rows->is_v) return rows->length[1] - rows->rest[1][rank + 1];
    return rows->length[1] - left - rows->rest[0][rank + 1] - rows->rest[1][rank + 1];
}

/// The same of the first row, wherever the second stands.
static inline int bal_pair_left_limit(const bal_pair_rows *rows, int rank)
{
    const int limit = rows->length[0] - rows->rest[0][rank + 1];
    return rows->is_v ? limit - rows->rest[1][rank + 1] : limit;
}

/// Whether the ranks have taken all layers.
static inline bool bal_pair_is_end(const bal_pair_rows *rows, int left, int right)
{
    if (rows->is_v) return left + right == rows->length[0];
    return left == rows->length[0] && right == rows->length[1];
}

/// Load of a rank's run [begin, end) of a row.
static inline int64_t bal_pair_load(const bal_pair_rows *rows, int rank, int row, int begin,
                                    int end)
{
    const int64_t weight = rows->weight[row][end] - rows->weight[row][begin];
    if (begin == end || rows->is_plain) return weight;
    return bal_chain_load_of_weight(rows->chain, bal_pair_stage(rows, rank, row), weight);
}

/// The largest weight of a rank's run of a row that keeps its load within load; -1 if none does.
static inline int64_t bal_pair_weight_within(const bal_pair_rows *rows, int rank, int row,
                                             int64_t load)
{
    if (rows->is_plain) return load;
    return bal_chain_weight_within(rows->chain, bal_pair_stage(rows, rank, row), load);
}

/// Whether a rank's runs [left, left_end) and [right, right_end) stay within the caps of its stages
/// and its own. Never true for longer runs where it is false for shorter ones.
bool bal_pair_fits(const bal_pair_rows *rows, int rank, int left, int left_end, int right,
                   int right_end);

/// Upper bounds on the weights that ranks can take within a load, at most the weight of all layers.
///
/// @param front  [rank_count + 1] out: of ranks [0, k)
/// @param behind [rank_count + 1] out: of ranks [k, rank_count)
void bal_pair_capacity(const bal_pair_rows *rows, int64_t load, int64_t *front, int64_t *behind);

/// Writes the partition whose rows stand at left and right.
///
/// @param left, right [rank_count + 1]
/// @param first_layer [2 * rank_count + 1] out
void bal_pair_cuts(const bal_pair_rows *rows, const int *left, const int *right, int *first_layer);
