#include "models/dynamism/case_parameters.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { VALUE_BYTES = 160, NAME_BYTES = 96, FIRST_CAPACITY = 32 };

static void reserve_row(model_case_parameters *parameters)
{
    if (parameters->count < parameters->capacity) return;
    const int capacity = parameters->capacity == 0 ? FIRST_CAPACITY : 2 * parameters->capacity;
    model_assumption *rows = arena_array(parameters->memory, (size_t)capacity, sizeof *rows);
    if (parameters->count > 0) {
        memcpy(rows, parameters->rows, (size_t)parameters->count * sizeof *rows);
    }
    parameters->rows = rows;
    parameters->capacity = capacity;
}

static void add_row(model_case_parameters *parameters, const char *name, const char *value,
                    model_origin origin)
{
    char full_name[NAME_BYTES];
    snprintf(full_name, sizeof full_name, "dynamism.%s", name);
    reserve_row(parameters);
    model_assumption row = {.name = arena_string(parameters->memory, full_name),
                            .value = arena_string(parameters->memory, value),
                            .origin = origin};
    parameters->rows[parameters->count++] = row;
}

status model_parameter_note(model_case_parameters *parameters, const char *name,
                            model_origin origin, error_message *err, const char *format, ...)
{
    (void)err;
    char value[VALUE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    add_row(parameters, name, value, origin);
    return STATUS_OK;
}

static model_origin origin_of(json_value value, model_origin default_from)
{
    return json_is_missing(value) ? default_from : (model_origin){MODEL_ORIGIN_GIVEN, ""};
}

status model_parameter_double(model_case_parameters *parameters, const char *key, double min,
                              double max, model_origin default_from, double *value,
                              error_message *err)
{
    const json_value member = json_member(parameters->object, key);
    if (!json_is_missing(member)) TRY(json_double(member, min, max, value, err));
    return model_parameter_note(parameters, key, origin_of(member, default_from), err, "%g",
                                *value);
}

status model_parameter_int(model_case_parameters *parameters, const char *key, int min, int max,
                           model_origin default_from, int *value, error_message *err)
{
    const json_value member = json_member(parameters->object, key);
    if (!json_is_missing(member)) TRY(json_int(member, min, max, value, err));
    return model_parameter_note(parameters, key, origin_of(member, default_from), err, "%d",
                                *value);
}

status model_parameter_bool(model_case_parameters *parameters, const char *key,
                            model_origin default_from, bool *value, error_message *err)
{
    const json_value member = json_member(parameters->object, key);
    if (!json_is_missing(member)) TRY(json_bool(member, value, err));
    return model_parameter_note(parameters, key, origin_of(member, default_from), err, "%s",
                                *value ? "true" : "false");
}

status model_parameter_name(model_case_parameters *parameters, const char *key,
                            const char *const *names, int name_count, model_origin default_from,
                            int *index, error_message *err)
{
    const json_value member = json_member(parameters->object, key);
    if (!json_is_missing(member)) {
        const char *word = NULL;
        int found = 0;
        TRY(json_string(member, &word, err));
        while (found < name_count && strcmp(names[found], word) != 0) {
            found++;
        }
        if (found == name_count) {
            char suggestion[TEXT_SUGGESTION_BYTES];
            return json_error(member, STATUS_FORMAT, err, "unknown %s '%.60s'%s", key, word,
                              text_suggestion(word, names, name_count, suggestion));
        }
        *index = found;
    }
    return model_parameter_note(parameters, key, origin_of(member, default_from), err, "%s",
                                names[*index]);
}

status model_parameter_doubles(model_case_parameters *parameters, const char *key, double min,
                               double max, int count_max, const double **values, int *count,
                               error_message *err)
{
    const json_value member = json_member(parameters->object, key);
    if (json_is_missing(member)) {
        *values = NULL;
        *count = 0;
        return STATUS_OK;
    }
    const int given = json_count(member);
    if (!json_is_array(member) || given < 1 || given > count_max) {
        return json_error(member, STATUS_FORMAT, err, "not an array of 1 to %d numbers", count_max);
    }
    double *read = arena_array(parameters->memory, (size_t)given, sizeof *read);
    json_value element = json_element(member, 0);
    for (int number = 0; number < given; number++) {
        TRY(json_double(element, min, max, &read[number], err));
        element = json_next(element);
    }
    *values = read;
    *count = given;
    return model_parameter_note(parameters, key, (model_origin){MODEL_ORIGIN_GIVEN, ""}, err,
                                "%d numbers, %g to %g", given, read[0], read[given - 1]);
}
