/// The cuts that move the fewest bytes while every load stays within a limit: a table over stages
/// and the places that the limit leaves to each cut. migration_plan.h is the entrance.
#pragma once

#include "balance/partition/chain.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// A question and its rows. The arrays are carved from an arena or borrowed.
typedef struct bal_move_table {
    bal_chain chain;
    const int *owner; // [layer_count] rank that holds each layer
    int64_t load_max;
    int *earliest;       // [stage_count + 1] first place of each cut
    int *latest;         // [stage_count + 1] last place
    size_t *row;         // [stage_count + 2] where the places of a cut begin among all
    int64_t *away;       // [layer_count + 1] scratch: bytes in front that are not on a rank
    int *queue;          // [layer_count + 1] scratch: begins of a stage, by rising value
    int64_t *value;      // [layer_count + 1] scratch: fewest bytes of the stages so far
    int64_t *next_value; // [layer_count + 1] scratch
    int *choice;         // [row[stage_count + 1]] scratch: begin of the stage that ends here
} bal_move_table;

/// Finds the places that load_max and the rules of the chain leave to the cuts.
///
/// @param pinned [stage_count + 1] a partition that is to be the only one, or NULL
/// @return STATUS_INFEASIBLE if no plan keeps within load_max on any ranks.
status bal_move_table_init(const bal_chain *chain, const int *owner, int64_t load_max,
                           const int *pinned, arena *memory, bal_move_table *table,
                           error_message *err);

/// Fewest bytes where each stage is on a given rank.
///
/// @param stage_rank  [stage_count]
/// @param first_layer [stage_count + 1] out, untouched if there is none
/// @return false if no partition keeps the rules. Time O(places of all cuts + layers that stages
///         reach). Ties: the latest cut, seen from the last stage.
bool bal_move_table_fixed(bal_move_table *table, const int *stage_rank, int *first_layer,
                          int64_t *moved_bytes);

enum { BAL_MOVE_TABLE_CELLS_MAX = 1 << 25 };

/// Whether bal_move_table_subset would keep within BAL_MOVE_TABLE_CELLS_MAX cells.
bool bal_move_table_allows_subset(const bal_move_table *table, int group_count);

/// Fewest bytes where stage_count of the ranks, in the order in which they are given, hold a stage
/// each; a group of group_size ranks is used as a whole or not at all.
///
/// @param rank        [group_count * group_size]
/// @param memory      for scratch: 4 bytes per group and place of a cut
/// @param stage_rank  [stage_count] out; stage_count is a multiple of group_size (asserted)
/// @param first_layer [stage_count + 1] out
/// @param is_found    out: false if no ranks and cuts keep the rules; the outputs then mean nothing
/// Time O(group_count * places of all cuts). Ties: groups in front, then
///         as bal_move_table_fixed.
void bal_move_table_subset(bal_move_table *table, const int *rank, int group_count, int group_size,
                           arena *memory, int *stage_rank, int *first_layer, int64_t *moved_bytes,
                           bool *is_found);

/// Minimises the bytes of the layers that change their stage among the plans with every load within
/// load_cap.
///
/// @param current_first_layer [current_stage_count + 1] the plan in force; another number of stages
///                            than the chain's is allowed
/// @param moved_bytes         out: state_bytes of the layers whose stage differs
/// @return STATUS_INFEASIBLE also if no plan keeps within load_cap, naming the smallest bottleneck.
///
/// O(places that load_cap leaves to the cuts). Ties: the latest cut,
/// seen from the last stage.
status bal_partition_moved_bytes(const bal_chain *chain, const int *current_first_layer,
                                 int current_stage_count, int64_t load_cap, arena *memory,
                                 int *first_layer, int64_t *moved_bytes, error_message *err);
