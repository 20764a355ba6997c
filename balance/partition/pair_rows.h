/// The layers of a chain as ranks of two chunks take them: rank after rank, each a run of both
/// rows.
///
/// Under BAL_PLACEMENT_V the first row is the chain from its begin and the second the chain from
/// its end: together they take every layer. Under BAL_PLACEMENT_LOOP the chain is split at a
/// middle, the first row is what stands in front of it and the second what stands after. A place
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
    const int *rest[2];           // [rank_count + 1] layers that ranks k and later must have
    bool has_memory;              // there are caps
    bool is_plain;                // the load of a run is its weight
} bal_pair_rows;

/// Makes the rows of a chain of two chunks per rank without transfer_ns (asserted); of a loop at
/// middle 0.
///
/// @param rows arrays are carved from memory or borrowed from chain, which is borrowed too
void bal_pair_rows_init(const bal_chain *chain, arena *memory, bal_pair_rows *rows);

/// Moves the middle of a loop; v has none.
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
/// after it the layers that they must have.
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

typedef enum bal_pair_value {
    BAL_PAIR_ANY,         ///< nothing: is there a plan?
    BAL_PAIR_SQUARES,     ///< the sum of the ranks' squared loads
    BAL_PAIR_MOVED_BYTES, ///< state bytes of the layers that are on another rank now
} bal_pair_value;

/// What is minimised over the plans with every rank's load within load_max. Of a loop only plans
/// with the rows' middle are asked for.
typedef struct bal_pair_question {
    const bal_pair_rows *rows;
    bal_pair_value value;
    int64_t load_max;
    const int *owner;      // [layer_count] moved bytes only: rank of the machine that holds a layer
    const int *place_rank; // [rank_count] moved bytes only: rank of the machine at each place
    int64_t *step_count;   // in and out: pairs of runs that were looked at; questions that share it
                           // share the limit
} bal_pair_question;

enum {
    BAL_PAIR_CELLS_MAX = 1 << 21, // pairs of places, over all ranks
    BAL_PAIR_STEPS_MAX = 1 << 28, // pairs of runs that are looked at: about 2 s
};

typedef enum bal_pair_outcome {
    BAL_PAIR_FOUND,
    BAL_PAIR_NONE,     ///< proven: no plan keeps the rules
    BAL_PAIR_TOO_MANY, ///< more pairs than the limits
} bal_pair_outcome;

/// Finds the least value and a plan that has it. Ties: of plans with the same squares the one whose
/// stages have the smallest sum of squared loads; of those that move the same bytes the flattest;
/// then the one whose last ranks' runs are shortest, the first row before the second.
///
/// @param memory      for scratch: 40 bytes per pair of places
/// @param first_layer [stage_count + 1] out, untouched unless found
/// @param least       out, likewise; may be NULL
/// Time O(pairs of places * pairs of runs that fit load_max): with a load
///         near the mean the second row has few places for each of the first.
void bal_pair_table_answer(const bal_pair_question *ask, arena *memory, int *first_layer,
                           bal_wide *least, bal_pair_outcome *outcome);
