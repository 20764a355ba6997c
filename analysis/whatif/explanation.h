/// Where the time of one point of a study goes: the work of its stages, and what its ranks idle
/// for.
#pragma once

#include "analysis/whatif/bubble_causes.h"
#include "analysis/whatif/point.h"
#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

#include <stdint.h>

enum { ANA_EXPLAINED_ITERATIONS = 16 };

typedef struct ana_explanation {
    const ana_study *study; // borrowed until the worker's next evaluation
    ana_point point;
    ana_bubble_causes causes; // over ANA_EXPLAINED_ITERATIONS iterations of the run, evenly spaced
    int iteration;            // the last of them, of which the plan is told
    int stage_count;          // chunks count apart
    int *first_layer;         // [stage_count + 1]
    int64_t *stage_ns;        // [stage_count] F, B and W of all its microbatches
} ana_explanation;

/// Plays a point and looks into some of its iterations.
///
/// @param text   of the point's study
/// @param memory of the arrays
/// @return STATUS_INFEASIBLE with its message for a point that cannot be played; as
///         ana_point_evaluate
status ana_explain(ana_point_worker *worker, const char *name, const char *text, arena *memory,
                   ana_explanation *explanation, error_message *err);

/// Appends it for people; the inputs come last.
void ana_explanation_print(const ana_explanation *explanation, text_buffer *out);

/// Appends it as one JSON object ("dynmo-explanation/2").
void ana_explanation_write(const ana_explanation *explanation, text_buffer *out);
