/// The inputs of a result: each with its value and where it comes from.
#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "base/text.h"
#include "models/assumption.h"

#include <stdbool.h>

typedef struct ana_input {
    const char *name;  // path in the study, for example "cluster.links.intra.latency_ns"
    const char *value; // as text with its unit
    model_origin_kind origin;
} ana_input;

/// The inputs of a result, in the order in which they were added.
typedef struct ana_inputs {
    ana_input *entries; // [count] from the arena of who adds
    int count;
} ana_inputs;

/// Adds an input; the texts are copied into memory.
void ana_inputs_add(ana_inputs *inputs, arena *memory, const char *name, model_origin_kind origin,
                    const char *format, ...) __attribute__((format(printf, 5, 6)));

/// True if an input of this name is in the list: whoever gave it comes before a default.
bool ana_inputs_have(const ana_inputs *inputs, const char *name);

/// Appends the list for people; ends with the inputs counted by origin.
void ana_inputs_print(const ana_inputs *inputs, text_buffer *out);

/// Appends the list as a JSON array.
void ana_inputs_write(const ana_inputs *inputs, json_writer *writer);
