/// The inputs of a cost model while they are collected: the list that is printed beside its result.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "models/assumption.h"

#include <stdbool.h>

enum { MODEL_ASSUMPTIONS_MAX = 48 };

/// Zero-initialise all but memory.
typedef struct model_assumption_list {
    model_assumption rows[MODEL_ASSUMPTIONS_MAX];
    int count;
    arena *memory;
    bool failed; // out of memory once
} model_assumption_list;

/// Adds an input. More than MODEL_ASSUMPTIONS_MAX are an assert.
///
/// @param name, source live as long as the list's rows
/// @param format value with its unit; the text is carved from the list's memory
void model_assume(model_assumption_list *list, const char *name, model_origin_kind kind,
                  const char *source, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/// Carves the rows as an array that outlives the list.
///
/// @return STATUS_NO_MEMORY, also if an input could not be added
void model_assumption_list_keep(const model_assumption_list *list, const model_assumption **rows);
