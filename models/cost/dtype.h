/// The number formats that weights and activations are kept in.
#pragma once

#include <stdbool.h>

typedef enum model_dtype {
    MODEL_DTYPE_UNKNOWN, ///< not said, or one that is not listed here
    MODEL_DTYPE_BFLOAT16,
    MODEL_DTYPE_FLOAT16,
    MODEL_DTYPE_FLOAT32,
    MODEL_DTYPE_FLOAT8,   ///< of the operands of matrix products alone, see model_dtype_wide
    MODEL_DTYPE_TFLOAT32, ///< float32 whose products are multiplied with 10 bits of fraction (TF32)
    MODEL_DTYPE_MXFLOAT8, ///< float8 with a scale for every 32 numbers; operands alone
    MODEL_DTYPE_NVFLOAT4, ///< 4 bits with a scale for every 16 numbers and one for all; operands
                          ///< alone
    MODEL_DTYPE_COUNT
} model_dtype;

/// "unknown", "bfloat16", ...
extern const char *const model_dtype_names[MODEL_DTYPE_COUNT];

/// "bfloat16", as PyTorch spells it. Static storage.
const char *model_dtype_name(model_dtype dtype);

/// MODEL_DTYPE_UNKNOWN if no dtype has this name.
model_dtype model_dtype_find(const char *name);

/// Whether a format is one of 8 or 4 bits, of operands of matrix products alone.
bool model_dtype_is_narrow(model_dtype dtype);

/// What everything but the operands of matrix products is kept and computed in: bfloat16 for the
/// formats of 8 and 4 bits (weights, attention core, norms, head, messages), else dtype itself.
/// Source: Micikevicius et al., FP8 Formats for Deep Learning, arXiv 2209.05433; NVIDIA Transformer
/// Engine.
model_dtype model_dtype_wide(model_dtype dtype);

/// Bytes of one number, rounded up: scales of blocks are not counted, and two numbers of 4 bits
/// count as kept in a byte each. dtype must be known (asserted).
int model_dtype_bytes(model_dtype dtype);
