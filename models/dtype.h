/// The number formats that weights and activations are kept in.
#pragma once

typedef enum model_dtype {
    MODEL_DTYPE_UNKNOWN, ///< not said, or one that is not listed here
    MODEL_DTYPE_BFLOAT16,
    MODEL_DTYPE_FLOAT16,
    MODEL_DTYPE_FLOAT32,
    MODEL_DTYPE_COUNT
} model_dtype;

/// "bfloat16", as PyTorch spells it. Static storage.
const char *model_dtype_name(model_dtype dtype);

/// MODEL_DTYPE_UNKNOWN if no dtype has this name.
model_dtype model_dtype_find(const char *name);

/// Bytes of one number. dtype must be known (asserted).
int model_dtype_bytes(model_dtype dtype);
