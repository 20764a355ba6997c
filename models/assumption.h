/// Where a number that stands in for a measurement comes from.
#pragma once

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
