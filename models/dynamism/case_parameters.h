/// Parameters of a case of dynamism: each is given by the user or takes a default whose origin is
/// said; either way it is listed.
#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "models/assumption.h"

/// Zero-initialise all but object and memory.
typedef struct model_case_parameters {
    json_value object;
    arena *memory;
    model_assumption *rows; // [capacity] of which count are used; carved from memory
    int count;
    int capacity;
} model_case_parameters;

/// Where a default comes from: a published figure of the case, or nobody has said it.
#define MODEL_PUBLISHED(text) ((model_origin){MODEL_ORIGIN_PRESET, (text)})
#define MODEL_ASSUMED(text) ((model_origin){MODEL_ORIGIN_ASSUMED, (text)})

/// Reads the member key into *value, which holds the default where it is missing, and lists
/// "dynamism.<key>".
///
/// @param value        in: the default; out: what holds
/// @param default_from origin of the default; its text has static storage
/// @return as json_double; STATUS_NO_MEMORY
status model_parameter_double(model_case_parameters *parameters, const char *key, double min,
                              double max, model_origin default_from, double *value,
                              error_message *err);

/// As model_parameter_double.
status model_parameter_int(model_case_parameters *parameters, const char *key, int min, int max,
                           model_origin default_from, int *value, error_message *err);

/// As model_parameter_double.
status model_parameter_bool(model_case_parameters *parameters, const char *key,
                            model_origin default_from, bool *value, error_message *err);

/// Reads one of names.
///
/// @param index in: the default; out: what holds
/// @return STATUS_FORMAT if it is none of them, with the nearest
status model_parameter_name(model_case_parameters *parameters, const char *key,
                            const char *const *names, int name_count, model_origin default_from,
                            int *index, error_message *err);

/// Reads an array of numbers, each in [min, max].
///
/// @param values out: carved from the parameters' memory; NULL where the key is missing
/// @return STATUS_FORMAT if it is empty, no array or longer than count_max
status model_parameter_doubles(model_case_parameters *parameters, const char *key, double min,
                               double max, int count_max, const double **values, int *count,
                               error_message *err);

/// Lists something that is no member of the object, as a number taken from the model.
status model_parameter_note(model_case_parameters *parameters, const char *name,
                            model_origin origin, error_message *err, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
