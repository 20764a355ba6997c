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

static const char *print(arena *memory, const char *format, va_list arguments)
{
    char first[160]; // most are shorter
    va_list once_more;
    va_copy(once_more, arguments);
    const size_t bytes = (size_t)vsnprintf(first, sizeof first, format, arguments) + 1;
    char *text = arena_array(memory, bytes, 1);
    memcpy(text, first, bytes < sizeof first ? bytes : sizeof first);
    if (bytes > sizeof first) vsnprintf(text, bytes, format, once_more);
    va_end(once_more);
    return text;
}

void model_assume_list(model_assumption_list *list, const char *name, model_origin origin,
                       const char *format, va_list arguments)
{
    const char *value = list->has_names_only ? "" : print(list->memory, format, arguments);
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
