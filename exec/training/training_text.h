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
