/// Lengths of sequences in their order of arrival: read from a file, or drawn.
#pragma once

#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

enum { MODEL_SEQUENCE_TOKENS_MAX = 1 << 30, MODEL_SEQUENCES_MAX = 1 << 26 };

/// Where lengths come from. Plain numbers; any index may be asked in any order.
typedef struct model_sequence_lengths {
    const int32_t *given; // [given_count] tokens, >= 1, begun again when used up; NULL: drawn
    int64_t given_count;
    uint64_t seed;
    double mean;   // tokens, of those drawn before they are cut at longest
    double spread; // standard deviation of the logarithm; 0: all alike
    int longest;   // tokens
} model_sequence_lengths;

/// Tokens of a sequence, in [1, MODEL_SEQUENCE_TOKENS_MAX]. Drawn ones are log-normal, rounded to
/// whole tokens and cut at longest. O(1).
int model_sequence_length(const model_sequence_lengths *lengths, int64_t index);

/// Reads lengths from a file of one of three forms, told apart by its first character:
/// - whole numbers between white space or commas
/// - JSON arrays (one after the other): of lengths, or, where the first element is 0, the offsets
///   of a packed batch (cu_seqlens)
/// - JSON lines: objects with a number "length" or an array "cu_seqlens"; other keys are passed
///   over
///
/// @param lengths given and given_count are filled, carved from memory
/// @return STATUS_IO; STATUS_FORMAT naming path, line and what is wrong with it: no number, a
///         length outside [1, MODEL_SEQUENCE_TOKENS_MAX], offsets that do not rise, none at all;
///         STATUS_INVALID above MODEL_SEQUENCES_MAX lengths or 1 GiB
status model_sequence_lengths_read(const char *path, arena *memory, model_sequence_lengths *lengths,
                                   error_message *err);

/// The same from bytes[length], which one zero byte follows; name stands for the path.
status model_sequence_lengths_parse(const char *name, const char *bytes, size_t length,
                                    arena *memory, model_sequence_lengths *lengths,
                                    error_message *err);
