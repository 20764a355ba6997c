/// Where a number that stands in for a measurement comes from, and the list of all of them that is
/// printed beside a result.
#pragma once

#include "base/arena.h"

#include <stdarg.h>
#include <stdbool.h>

typedef enum model_origin_kind {
    MODEL_ORIGIN_GIVEN,    ///< said by the user: a file, an option
    MODEL_ORIGIN_MEASURED, ///< on the machine in question
    MODEL_ORIGIN_FITTED,   ///< to measured runs
    MODEL_ORIGIN_PRESET,   ///< a published figure of the model or device
    MODEL_ORIGIN_ASSUMED,  ///< nobody has said or measured it
    MODEL_ORIGIN_KIND_COUNT
} model_origin_kind;

typedef struct model_origin {
    model_origin_kind kind;
    const char *text; // which file, datasheet or measurement
} model_origin;

/// One input of a cost model.
typedef struct model_assumption {
    const char *name;
    const char *value; // with its unit, for people
    model_origin origin;
} model_assumption;

/// "given", "measured", "fitted", "preset" or "assumed". Static storage.
const char *model_origin_kind_name(model_origin_kind kind);

/// MODEL_ORIGIN_KIND_COUNT if no kind has this name.
model_origin_kind model_origin_kind_find(const char *name);

/// The inputs while they are collected. Zero-initialise all but memory.
typedef struct model_assumption_list {
    arena *memory;
    model_assumption *rows; // [count] carved from memory
    int count;
    bool has_names_only; // nobody will read the values, which stay ""
} model_assumption_list;

/// Adds an input.
///
/// @param name, source live as long as the list's rows
/// @param format value with its unit; the text is carved from the list's memory
void model_assume(model_assumption_list *list, const char *name, model_origin_kind kind,
                  const char *source, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/// The same with the arguments of format in a list.
void model_assume_list(model_assumption_list *list, const char *name, model_origin origin,
                       const char *format, va_list arguments);
