#include "models/cost/dtype.h"

#include <assert.h>
#include <string.h>

const char *const model_dtype_names[MODEL_DTYPE_COUNT] = {
    "unknown", "bfloat16", "float16", "float32", "float8", "tfloat32", "mxfloat8", "nvfloat4"};

const char *model_dtype_name(model_dtype dtype)
{
    assert(dtype < MODEL_DTYPE_COUNT);
    return model_dtype_names[dtype];
}

model_dtype model_dtype_find(const char *name)
{
    for (int dtype = MODEL_DTYPE_UNKNOWN + 1; dtype < MODEL_DTYPE_COUNT; dtype++) {
        if (strcmp(model_dtype_names[dtype], name) == 0) return (model_dtype)dtype;
    }
    return MODEL_DTYPE_UNKNOWN;
}

bool model_dtype_is_narrow(model_dtype dtype)
{
    return dtype == MODEL_DTYPE_FLOAT8 || dtype == MODEL_DTYPE_MXFLOAT8 ||
           dtype == MODEL_DTYPE_NVFLOAT4;
}

model_dtype model_dtype_wide(model_dtype dtype)
{
    return model_dtype_is_narrow(dtype) ? MODEL_DTYPE_BFLOAT16 : dtype;
}

int model_dtype_bytes(model_dtype dtype)
{
    assert(dtype > MODEL_DTYPE_UNKNOWN && dtype < MODEL_DTYPE_COUNT);
    if (model_dtype_is_narrow(dtype)) return 1;
    return dtype == MODEL_DTYPE_FLOAT32 || dtype == MODEL_DTYPE_TFLOAT32 ? 4 : 2;
}
