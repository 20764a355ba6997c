#include "analysis/inputs.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

void ana_inputs_add(ana_inputs *inputs, arena *memory, const char *name, model_origin_kind origin,
                    const char *format, ...)
{
    assert(inputs->count < ANA_INPUTS_MAX);
    char value[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    const char *name_copy = arena_string(memory, name);
    const char *value_copy = arena_string(memory, value);
    if (name_copy == NULL || value_copy == NULL) {
        inputs->failed = true;
        return;
    }
    inputs->entries[inputs->count++] = (ana_input){name_copy, value_copy, origin};
}
