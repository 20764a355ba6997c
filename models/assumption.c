#include "models/assumption.h"

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
    int kind = 0;
    while (kind < MODEL_ORIGIN_KIND_COUNT && strcmp(names[kind], name) != 0) {
        kind++;
    }
    return (model_origin_kind)kind;
}

void model_assume_list(model_assumption_list *list, const char *name, model_origin origin,
                       const char *format, va_list arguments)
{
    enum { FIRST_CAPACITY = 32, VALUE_BYTES = 160 };
    char value[VALUE_BYTES];
    vsnprintf(value, sizeof value, format, arguments);
    if (list->count == list->capacity) {
        const int capacity = list->capacity == 0 ? FIRST_CAPACITY : 2 * list->capacity;
        model_assumption *rows = arena_array(list->memory, (size_t)capacity, sizeof *rows);
        if (list->count > 0) memcpy(rows, list->rows, (size_t)list->count * sizeof *rows);
        list->rows = rows;
        list->capacity = capacity;
    }
    list->rows[list->count++] = (model_assumption){name, arena_string(list->memory, value), origin};
}

void model_assume(model_assumption_list *list, const char *name, model_origin_kind kind,
                  const char *source, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    model_assume_list(list, name, (model_origin){kind, source}, format, arguments);
    va_end(arguments);
}
