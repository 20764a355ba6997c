/// Which rank holds which layers in which order, while the historical diffusion balancers move
/// them.
#pragma once

#include "balance/partition/balancers.h"

/// A list of layers per rank. The arrays are carved from an arena.
typedef struct bal_layer_lists {
    int rank_count;
    int layer_count;
    int *next;     // [layer_count] the layer behind it on its rank, or -1
    int *first;    // [rank_count] or -1
    int *count;    // [rank_count]
    int64_t *load; // [rank_count] sum of the weights
} bal_layer_lists;

/// Fills the lists from the plan in force, or from `even` where there is none with as many stages.
status bal_layer_lists_init(const bal_problem *problem, const bal_chain *chain, arena *memory,
                            bal_layer_lists *lists, error_message *err);

/// Index of the lightest layer of a rank among those from skip_front on and before the last
/// skip_back; the first of equal ones. *layer: which it is. -1 if there is none.
int bal_layer_lists_lightest(const bal_layer_lists *lists, const bal_chain *chain, int rank,
                             int skip_front, int skip_back, int *layer);

/// The layer at an index of a rank's list.
int bal_layer_lists_at(const bal_layer_lists *lists, int rank, int index);

typedef enum bal_list_end { BAL_LIST_FRONT, BAL_LIST_BACK } bal_list_end;

/// Takes the layer at an index out of its list and puts it at an end of another.
void bal_layer_lists_move(bal_layer_lists *lists, const bal_chain *chain, int from, int index,
                          int to, bal_list_end end);

/// Writes the owner of every layer.
///
/// @param owner [layer_count] out
void bal_layer_lists_owners(const bal_layer_lists *lists, int *owner);

/// The rank with the smallest load, the first of equal ones.
int bal_layer_lists_least_loaded(const bal_layer_lists *lists);
