#include "models/assumption.h"

#include <assert.h>
#include <string.h>

static const char *const names[MODEL_ORIGIN_KIND_COUNT] = {"given", "measured", "fitted", "preset",
                                                           "assumed"};

const char *model_origin_kind_name(model_origin_kind kind)
{
    assert(kind < MODEL_ORIGIN_KIND_COUNT);
    return names[kind];
}

model_origin_kind model_origin_kind_find(const char *name)
{
    int kind = 0;
    while (kind < MODEL_ORIGIN_KIND_COUNT && strcmp(names[kind], name) != 0) {
        kind++;
    }
    return (model_origin_kind)kind;
}
