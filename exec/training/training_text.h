/// The text that a language model learns: any file, byte for byte, or tokens of 2 or 4 bytes,
/// little end first, as tokenizers of other projects leave them; or synthetic tokens.
///
/// Which tokens a microbatch has depends on seed, iteration, microbatch and sequence, never on the
/// rank that asks: every plan learns from the same sequences in the same order.
#pragma once

#include "base/status.h"
#include "exec/model/model.h"

#include <stddef.h>
#include <stdint.h>

/// Read only once it has been read: the ranks of a process share one.
typedef struct exec_training_text {
    unsigned char *bytes; // [token_count * token_bytes] owned; release with exec_training_text_free
    size_t token_count;
    int token_bytes; // 1, 2 or 4
} exec_training_text;

/// Reads the whole of path.
///
/// @param model       its sequences; a text needs one token more, the last target
/// @param token_bytes 1, 2 or 4
/// @param text        out: release with exec_training_text_free
/// @return STATUS_IO naming path and the system's reason; STATUS_INVALID for a text that is empty,
///         too short or larger than 1 GiB, that ends within a token, or has one that is not in the
///         model's vocabulary, naming path, size or place, and need
status exec_training_text_read(const char *path, const exec_model *model, int token_bytes,
                               exec_training_text *text, error_message *err);

/// Makes a text where there is none to read: tokens of the model's vocabulary that depend on its
/// seed alone, each below a bound that is drawn, too, so that low ones come more often. There is
/// little to learn from it, but as much to do as from a real one.
///
/// @param text out: release with exec_training_text_free
void exec_training_text_make(const exec_model *model, exec_training_text *text);

/// Of a text that is all zero nothing.
void exec_training_text_free(exec_training_text *text);

/// Which sequences. Microbatches are numbered through all replicas of an iteration.
typedef struct exec_text_batch {
    uint64_t seed;
    int iteration;
    int microbatch;
    int sequence_count;
    int sequence_length;
} exec_text_batch;

/// Draws the sequences of a microbatch, each from anywhere in the text.
///
/// @param token  [sequence_count][sequence_length] out
/// @param target [sequence_count][sequence_length] out: the token after each
void exec_training_text_draw(const exec_training_text *text, const exec_text_batch *batch,
                             int *token, int *target);

// Documents of unlike length, laid one after the other into the microbatches of a whole run: which
// of them a microbatch has, and at which rows they begin.
//
// Each attends to itself alone and counts its positions from 0. A microbatch that is not full has
// fewer rows: there is no padding, and nothing is computed for it. Every token of an iteration
// weighs the same in the loss, whichever microbatch or replica it is in, and which text a document
// has depends on its number alone: packing an iteration otherwise changes the order of sums only.

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
