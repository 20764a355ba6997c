/// Exact partitioning where the value of a stage depends on more than its own layers: on the
/// messages over its cuts, on what the stages before it cost, or on where its layers are now. A
/// dynamic program with one row per stage; partition.h is the entrance.
#pragma once

#include "balance/partition/chain.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum bal_cut_value {
    BAL_CUT_LARGEST_LOAD, ///< the largest load of the stages so far
    BAL_CUT_LOAD_SUM,     ///< their sum, with (sum before + microbatch_count * load) <= bound
    BAL_CUT_MOVED_BYTES,  ///< state bytes of their layers that are on another stage now
} bal_cut_value;

/// What is minimised over the partitions with every load within load_max.
typedef struct bal_cut_question {
    const bal_chain *chain;
    bal_cut_value value;
    int64_t load_max;
    int64_t microbatch_count;       // load sum only
    int64_t bound;                  // load sum only
    const int *current_first_layer; // [current_stage_count + 1] moved bytes only
    int current_stage_count;
    const int *earliest; // [stage_count + 1] or NULL: no plan within load_max has a cut before
    const int *latest;   // [stage_count + 1] with earliest: nor behind
} bal_cut_question;

/// The rows. Made once, filled by every answer.
typedef struct bal_cut_table {
    int64_t *value;    // [layer_count + 1] by number of layers: the least of the stages so far
    int64_t *previous; // [layer_count + 1] of the stages before
    int *choice;       // [stage_count][layer_count + 1] begin of the stage that ends here
} bal_cut_table;

/// Carves the rows from memory: 4 bytes per stage and layer. STATUS_NO_MEMORY.
void bal_cut_table_init(const bal_chain *chain, arena *memory, bal_cut_table *table);

/// Finds the least value and a partition that has it. Ties: the latest cut, seen from the last
/// stage.
///
/// @param first_layer [stage_count + 1] out, untouched if there is none
/// @return false if no partition keeps the rules. Time O(stage_count * layer_count * layers that
///         fit load_max); with earliest and latest only the places between them count.
bool bal_cut_table_answer(const bal_cut_question *ask, bal_cut_table *table, int *first_layer,
                          int64_t *least);
