/// The list of inputs of a result.
#include "analysis/study/study.h"

#include <string.h>

const model_assumption *ana_inputs_find(const model_assumption_list *inputs, const char *name)
{
    for (int input = 0; input < inputs->count; input++) {
        if (strcmp(inputs->rows[input].name, name) == 0) return &inputs->rows[input];
    }
    return NULL;
}

void ana_inputs_print(const model_assumption_list *inputs, text_buffer *out)
{
    int counts[MODEL_ORIGIN_KIND_COUNT] = {0};
    int width = 0;
    for (int input = 0; input < inputs->count; input++) {
        const int length = (int)strlen(inputs->rows[input].name);
        if (length > width) width = length;
    }
    text_append(out, "Inputs\n");
    for (int input = 0; input < inputs->count; input++) {
        const model_assumption *entry = &inputs->rows[input];
        counts[entry->origin.kind]++;
        text_format(out, "  %-8s  %-*s  %s\n", model_origin_kind_name(entry->origin.kind), width,
                    entry->name, entry->value);
    }
    text_append(out, " ");
    for (int origin = 0; origin < MODEL_ORIGIN_KIND_COUNT; origin++) {
        text_format(out, " %d %s%s", counts[origin],
                    model_origin_kind_name((model_origin_kind)origin),
                    origin + 1 < MODEL_ORIGIN_KIND_COUNT ? "," : "\n");
    }
}

void ana_inputs_write(const model_assumption_list *inputs, json_writer *writer)
{
    json_begin_array(writer);
    for (int input = 0; input < inputs->count; input++) {
        json_begin_object(writer);
        json_put_string(writer, "name", inputs->rows[input].name);
        json_put_string(writer, "value", inputs->rows[input].value);
        json_put_string(writer, "origin", model_origin_kind_name(inputs->rows[input].origin.kind));
        json_end_object(writer);
    }
    json_end_array(writer);
}
