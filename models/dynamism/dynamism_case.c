/// What all cases of dynamism share: streams of random numbers, what they read, and what they ask
/// of their base.
#include "models/dynamism/dynamism_case.h"

#include "base/text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

rng model_case_stream(uint64_t seed, int purpose, int layer, int iteration, int replica)
{
    const int parts[] = {layer, iteration, replica};
    uint64_t mixed = (uint64_t)purpose;
    for (int part = 0; part < 3; part++) {
        mixed = (mixed + (uint64_t)parts[part]) * UINT64_C(0x9fb21c651e98df25);
        mixed ^= mixed >> 32;
    }
    return rng_init(seed, mixed);
}

status model_case_first_costs(const model_case *of, bal_layer_costs *costs, error_message *err)
{
    const bal_cost_source *source = &of->base->source;
    bool changed = false;
    return source->costs_at(source->context, 0, costs, &changed, err);
}

double *model_case_ones(arena *memory, size_t count)
{
    double *factors = arena_array(memory, count, sizeof *factors);
    for (size_t factor = 0; factor < count; factor++) {
        factors[factor] = 1;
    }
    return factors;
}

int64_t model_case_bytes_ns(const model_hardware *hardware, int64_t bytes)
{
    if (hardware == NULL) return 0;
    const double bytes_per_s = (double)hardware->memory_bytes_per_s * hardware->memory_efficiency;
    return model_roofline_ns((model_work){.bytes = bytes}, 1, bytes_per_s);
}

int model_case_weight_bytes(const model_case *of)
{
    enum { ASSUMED_BYTES = 2 };
    const model_shape *shape = of->base->shape;
    if (shape != NULL) return model_dtype_bytes(model_dtype_wide(shape->dtype));
    model_parameter_note(of->parameters, "weight_bytes",
                         MODEL_ASSUMED("no model beside the trace: 16-bit weights"), "%d",
                         ASSUMED_BYTES);
    return ASSUMED_BYTES;
}

const model_origin model_given = {MODEL_ORIGIN_GIVEN, ""};

void model_parameter_note(model_case_parameters *parameters, const char *name, model_origin origin,
                          const char *format, ...)
{
    enum { NAME_BYTES = 96 };
    char full_name[NAME_BYTES];
    model_assumption_list *list = &parameters->list;
    va_list arguments;
    snprintf(full_name, sizeof full_name, "dynamism.%s", name);
    va_start(arguments, format);
    model_assume_list(list, arena_string(list->memory, full_name), origin, format, arguments);
    va_end(arguments);
}

json_value model_parameter_ask(model_case_parameters *parameters, const char *key)
{
    int at = 0;
    while (at < parameters->asked_count && strcmp(parameters->asked[at], key) != 0) {
        at++;
    }
    assert(at < MODEL_CASE_KEYS_MAX);
    parameters->asked[at] = key;
    if (at == parameters->asked_count) parameters->asked_count++;
    return json_member(parameters->object, key);
}

status model_parameter_read(json_value member, status result, const error_message *why,
                            error_message *err)
{
    if (result == STATUS_OK) return STATUS_OK;
    if (result == STATUS_IO) return json_error(member, result, err, "%.180s", why->message);
    return error_set(err, result, "%s", why->message);
}

status model_parameters_check(const model_case_parameters *parameters, error_message *err)
{
    return json_check_keys(parameters->object, parameters->asked, parameters->asked_count, err);
}

/// Reads one of the row's names.
static status read_name(json_value member, const model_parameter *row, error_message *err)
{
    const char *word = NULL;
    char suggestion[TEXT_SUGGESTION_BYTES];
    TRY(json_string(member, &word, err));
    for (*row->whole = 0; *row->whole < row->name_count; ++*row->whole) {
        if (strcmp(row->names[*row->whole], word) == 0) return STATUS_OK;
    }
    return json_error(member, STATUS_FORMAT, err, "unknown %s '%.60s'%s", row->key, word,
                      text_suggestion(word, row->names, row->name_count, suggestion));
}

static status read_parameter(model_case_parameters *parameters, const model_parameter *row,
                             error_message *err)
{
    const json_value member = model_parameter_ask(parameters, row->key);
    const bool is_given = !json_is_missing(member);
    const model_origin origin = is_given ? model_given : row->from;
    if (row->real != NULL) {
        *row->real = row->fallback;
        if (is_given) TRY(json_double(member, row->min, row->max, row->real, err));
        model_parameter_note(parameters, row->key, origin, "%g", *row->real);
    } else if (row->names != NULL) {
        *row->whole = (int)row->fallback;
        if (is_given) TRY(read_name(member, row, err));
        model_parameter_note(parameters, row->key, origin, "%s", row->names[*row->whole]);
    } else if (row->whole != NULL) {
        *row->whole = (int)row->fallback;
        if (is_given) TRY(json_int(member, (int)row->min, (int)row->max, row->whole, err));
        model_parameter_note(parameters, row->key, origin, "%d", *row->whole);
    } else {
        *row->flag = row->fallback != 0;
        if (is_given) TRY(json_bool(member, row->flag, err));
        model_parameter_note(parameters, row->key, origin, "%s", *row->flag ? "true" : "false");
    }
    return STATUS_OK;
}

status model_parameters_read(model_case_parameters *parameters, const model_parameter *rows,
                             size_t count, error_message *err)
{
    for (size_t row = 0; row < count; row++) {
        TRY(read_parameter(parameters, &rows[row], err));
    }
    return STATUS_OK;
}

status model_parameter_doubles(model_case_parameters *parameters, const char *key, double min,
                               double max, int count_max, const double **values, int *count,
                               error_message *err)
{
    const json_value member = model_parameter_ask(parameters, key);
    if (json_is_missing(member)) {
        *values = NULL;
        *count = 0;
        return STATUS_OK;
    }
    const int given = json_count(member);
    if (!json_is_array(member) || given < 1 || given > count_max) {
        return json_error(member, STATUS_FORMAT, err, "not an array of 1 to %d numbers", count_max);
    }
    double *read = arena_array(parameters->list.memory, (size_t)given, sizeof *read);
    json_value element = json_element(member, 0);
    for (int number = 0; number < given; number++) {
        TRY(json_double(element, min, max, &read[number], err));
        element = json_next(element);
    }
    *values = read;
    *count = given;
    model_parameter_note(parameters, key, model_given, "%d numbers, %g to %g", given, read[0],
                         read[given - 1]);
    return STATUS_OK;
}
