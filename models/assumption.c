#include "models/assumption.h"

#include "base/text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
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
    return (model_origin_kind)text_find(name, names, MODEL_ORIGIN_KIND_COUNT);
}

void model_assume_list(model_assumption_list *list, const char *name, model_origin origin,
                       const char *format, va_list arguments)
{
    char first[160]; // most are shorter
    va_list once_more;
    va_copy(once_more, arguments);
    const size_t bytes = (size_t)vsnprintf(first, sizeof first, format, arguments) + 1;
    char *value = arena_array(list->memory, bytes, 1);
    memcpy(value, first, bytes < sizeof first ? bytes : sizeof first);
    if (bytes > sizeof first) vsnprintf(value, bytes, format, once_more);
    va_end(once_more);
    list->rows = arena_grow(list->memory, list->rows, (size_t)list->count, sizeof *list->rows);
    list->rows[list->count++] = (model_assumption){name, value, origin};
}

void model_assume(model_assumption_list *list, const char *name, model_origin_kind kind,
                  const char *source, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    model_assume_list(list, name, (model_origin){kind, source}, format, arguments);
    va_end(arguments);
}
