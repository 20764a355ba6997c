/// Documents of unlike length, laid one after the other into the microbatches of a whole run: which
/// of them a microbatch has, and at which rows they begin.
///
/// Each attends to itself alone and counts its positions from 0. A microbatch that is not full has
/// fewer rows: there is no padding, and nothing is computed for it. Every token of an iteration
/// weighs the same in the loss, whichever microbatch or replica it is in, and which text a document
/// has depends on its number alone: packing an iteration otherwise changes the order of sums only.
#pragma once

#include "exec/training/training_text.h"

#include <stdint.h>

/// Filled before the run; read only, shared by the ranks of a process.
typedef struct exec_packing {
    int iteration_count;
    int replica_count;
    int microbatch_count;
    int row_max;                   // rows of the fullest microbatch
    const int64_t *first_document; // [iterations * replicas * microbatches + 1] of each microbatch,
                                   // by iteration, replica and microbatch
    const int *first_row;  // of microbatch k from first_document[k] + k on: rows at which its
                           // documents begin, from 0, and then how many it has
    const int64_t *number; // [documents] by which the text is drawn, in [0, 2^62)
} exec_packing;

/// A microbatch of it.
typedef struct exec_packed_rows {
    int document_count;
    const int *first_row;  // [document_count + 1] from 0
    const int64_t *number; // [document_count]
} exec_packed_rows;

exec_packed_rows exec_packing_rows(const exec_packing *packing, int iteration, int replica,
                                   int microbatch);

/// Tokens of an iteration, of all replicas.
int64_t exec_packing_tokens(const exec_packing *packing, int iteration);

/// Draws the documents of a microbatch, each from anywhere in the text.
///
/// @param token, target [rows of it] out
/// @param position      [rows of it] out: of each row in its document
void exec_packing_draw(const exec_packed_rows *rows, const exec_training_text *text, uint64_t seed,
                       int *token, int *target, int *position);
