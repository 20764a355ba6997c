#include "models/assumption_list.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

enum { TEXT_BYTES = 160 };

void model_assume(model_assumption_list *list, const char *name, model_origin_kind kind,
                  const char *source, const char *format, ...)
{
    char value[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    const char *kept = arena_string(list->memory, value);
    list->failed = list->failed || kept == NULL;
    assert(list->count < MODEL_ASSUMPTIONS_MAX);
    list->rows[list->count++] = (model_assumption){name, kept, {kind, source}};
}

void model_assumption_list_keep(const model_assumption_list *list, const model_assumption **rows)
{
    model_assumption *kept = arena_array(list->memory, (size_t)list->count, sizeof *kept);
    for (int row = 0; row < list->count; row++) {
        kept[row] = list->rows[row];
    }
    *rows = kept;
}
