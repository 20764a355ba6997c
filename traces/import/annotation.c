#include "traces/import/annotation.h"

#include <string.h>

/// What is left of a name.
typedef struct cursor {
    const char *at;
    bool too_large; // a number was, whatever its limit
} cursor;

static bool skip(cursor *text, const char *word)
{
    const size_t length = strlen(word);
    if (strncmp(text->at, word, length) != 0) return false;
    text->at += length;
    return true;
}

static bool number(cursor *text, int max, int *value)
{
    if (*text->at < '0' || *text->at > '9') return false;
    int parsed = 0;
    for (; *text->at >= '0' && *text->at <= '9'; text->at++) {
        const int digit = *text->at - '0';
        if (parsed > (max - digit) / 10) text->too_large = true;
        if (!text->too_large) parsed = parsed * 10 + digit;
    }
    *value = parsed;
    return true;
}

static bool stage(cursor *text, int *value)
{
    return number(text, TRACE_LAYERS_MAX - 1, value);
}

static bool microbatch(cursor *text, int *value)
{
    return number(text, TRACE_MICROBATCHES_MAX - 1, value);
}

static bool at_end(const cursor *text)
{
    return *text->at == '\0';
}

bool trace_phase_parse(const char *text, trace_op_kind *kind)
{
    static const trace_op_kind phases[] = {TRACE_OP_FORWARD, TRACE_OP_BACKWARD_INPUT,
                                           TRACE_OP_BACKWARD_WEIGHT, TRACE_OP_BACKWARD,
                                           TRACE_OP_RECOMPUTE};
    for (size_t phase = 0; phase < sizeof phases / sizeof phases[0]; phase++) {
        if (strcmp(text, trace_op_kind_name(phases[phase])) == 0) {
            *kind = phases[phase];
            return true;
        }
    }
    return false;
}

bool trace_naming_is_pipeline(trace_naming naming)
{
    return naming == TRACE_NAMED_BY_PIPELINE || naming == TRACE_NAMED_BY_GPIPE;
}

static bool parse_dynmo(cursor text, trace_annotation *found, bool *too_large)
{
    const bool known =
        skip(&text, "dynmo it=") && number(&text, TRACE_ITERATIONS_MAX, &found->iteration) &&
        skip(&text, " mb=") && microbatch(&text, &found->microbatch) && skip(&text, " L=") &&
        stage(&text, &found->layer) && skip(&text, " ") && trace_phase_parse(text.at, &found->kind);
    found->naming = TRACE_NAMED_BY_DYNMO;
    *too_large = text.too_large;
    return known;
}

static bool parse_pipeline(cursor text, trace_annotation *found, bool *too_large)
{
    // The letters of torch: I is the input gradient, B the full backward.
    static const struct {
        const char *word;
        trace_op_kind kind;
    } actions[] = {
        {"F", TRACE_OP_FORWARD},
        {"I", TRACE_OP_BACKWARD_INPUT},
        {"W", TRACE_OP_BACKWARD_WEIGHT},
        {"B", TRACE_OP_BACKWARD},
        {"SEND_F", TRACE_OP_SEND_FORWARD},
        {"RECV_F", TRACE_OP_RECV_FORWARD},
        {"SEND_B", TRACE_OP_SEND_BACKWARD},
        {"RECV_B", TRACE_OP_RECV_BACKWARD},
    };
    if (!skip(&text, "PP:")) return false;
    found->naming = TRACE_NAMED_BY_PIPELINE;
    if (!stage(&text, &found->layer)) return false;
    *too_large = text.too_large;
    if (strcmp(text.at, "REDUCE_GRAD") == 0) {
        found->kind = TRACE_OP_REDUCE_GRADIENTS;
        return true;
    }
    for (size_t action = 0; action < sizeof actions / sizeof actions[0]; action++) {
        cursor rest = text;
        if (skip(&rest, actions[action].word) && microbatch(&rest, &found->microbatch) &&
            at_end(&rest)) {
            found->kind = actions[action].kind;
            *too_large = rest.too_large;
            return true;
        }
    }
    return false;
}

static bool parse_gpipe(cursor text, trace_annotation *found, bool *too_large)
{
    found->naming = TRACE_NAMED_BY_GPIPE;
    if (skip(&text, "Forward ")) {
        found->kind = TRACE_OP_FORWARD;
    } else if (skip(&text, "Backward ")) {
        found->kind = TRACE_OP_BACKWARD;
    } else {
        return false;
    }
    const bool known = microbatch(&text, &found->microbatch) && at_end(&text);
    *too_large = text.too_large;
    return known;
}

status trace_annotation_parse(const char *name, trace_annotation *annotation, bool *is_known,
                              error_message *err)
{
    bool too_large = false;
    const cursor text = {.at = name};
    trace_annotation found = {.rule = -1,
                              .iteration = TRACE_NOT_RECORDED,
                              .layer = TRACE_NOT_RECORDED,
                              .microbatch = TRACE_NOT_RECORDED};
    *is_known = false;
    if (strncmp(name, "Optimizer.step#", 15) == 0) {
        found.naming = TRACE_NAMED_BY_PIPELINE;
        found.kind = TRACE_OP_OPTIMIZER_STEP;
    } else if (!parse_dynmo(text, &found, &too_large) &&
               !parse_pipeline(text, &found, &too_large) &&
               !parse_gpipe(text, &found, &too_large)) {
        return STATUS_OK;
    }
    if (too_large) {
        return error_set(err, STATUS_INVALID,
                         "annotation '%.80s': a number is outside its limit (iteration %d, layer "
                         "or stage %d, microbatch %d)",
                         name, TRACE_ITERATIONS_MAX, TRACE_LAYERS_MAX - 1,
                         TRACE_MICROBATCHES_MAX - 1);
    }
    *is_known = true;
    *annotation = found;
    return STATUS_OK;
}

bool trace_annotation_is_step(const char *name, int *step)
{
    cursor text = {.at = name};
    return skip(&text, "ProfilerStep#") && number(&text, TRACE_ITERATIONS_MAX, step) &&
           at_end(&text) && !text.too_large;
}
