/// The list of inputs of a result.
#include "analysis/study/study.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void ana_inputs_add(ana_inputs *inputs, arena *memory, const char *name, model_origin_kind origin,
                    const char *format, ...)
{
    char value[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    ana_inputs_put(inputs, memory, name, origin, value);
}

void ana_inputs_put(ana_inputs *inputs, arena *memory, const char *name, model_origin_kind origin,
                    const char *value)
{
    const char *name_copy = arena_string(memory, name);
    const char *value_copy = arena_string(memory, value);
    if ((inputs->count & (inputs->count - 1)) == 0) { // at powers of two there is no more room
        ana_input *grown = arena_array(memory, 2 * (size_t)inputs->count + 1, sizeof *grown);
        if (inputs->count > 0) {
            memcpy(grown, inputs->entries, (size_t)inputs->count * sizeof *grown);
        }
        inputs->entries = grown;
    }
    inputs->entries[inputs->count++] = (ana_input){name_copy, value_copy, origin};
}

bool ana_inputs_have(const ana_inputs *inputs, const char *name)
{
    for (int input = 0; input < inputs->count; input++) {
        if (strcmp(inputs->entries[input].name, name) == 0) return true;
    }
    return false;
}

void ana_inputs_print(const ana_inputs *inputs, text_buffer *out)
{
    int counts[MODEL_ORIGIN_KIND_COUNT] = {0};
    int width = 0;
    for (int input = 0; input < inputs->count; input++) {
        const int length = (int)strlen(inputs->entries[input].name);
        if (length > width) width = length;
    }
    text_append(out, "Inputs\n");
    for (int input = 0; input < inputs->count; input++) {
        const ana_input *entry = &inputs->entries[input];
        counts[entry->origin]++;
        text_format(out, "  %-8s  %-*s  %s\n", model_origin_kind_name(entry->origin), width,
                    entry->name, entry->value);
    }
    text_append(out, " ");
    for (int origin = 0; origin < MODEL_ORIGIN_KIND_COUNT; origin++) {
        text_format(out, " %d %s%s", counts[origin],
                    model_origin_kind_name((model_origin_kind)origin),
                    origin + 1 < MODEL_ORIGIN_KIND_COUNT ? "," : "\n");
    }
}

void ana_inputs_write(const ana_inputs *inputs, json_writer *writer)
{
    json_begin_array(writer);
    for (int input = 0; input < inputs->count; input++) {
        json_begin_object(writer);
        json_put_string(writer, "name", inputs->entries[input].name);
        json_put_string(writer, "value", inputs->entries[input].value);
        json_put_string(writer, "origin", model_origin_kind_name(inputs->entries[input].origin));
        json_end_object(writer);
    }
    json_end_array(writer);
}
