#include "traces/import/annotation.h"

#include <stdlib.h>
#include <string.h>

enum { NUMBERS_MAX = 3 };

/// Names, with % where they have a number, and * where anything follows.
static const struct {
    const char *pattern;
    trace_naming naming;
    trace_op_kind kind;
} names[] = {
    // The letters of torch: I is the input gradient, B the full backward.
    {"PP:%F%", TRACE_NAMED_BY_PIPELINE, TRACE_OP_FORWARD},
    {"PP:%I%", TRACE_NAMED_BY_PIPELINE, TRACE_OP_BACKWARD_INPUT},
    {"PP:%W%", TRACE_NAMED_BY_PIPELINE, TRACE_OP_BACKWARD_WEIGHT},
    {"PP:%B%", TRACE_NAMED_BY_PIPELINE, TRACE_OP_BACKWARD},
    {"PP:%SEND_F%", TRACE_NAMED_BY_PIPELINE, TRACE_OP_SEND_FORWARD},
    {"PP:%RECV_F%", TRACE_NAMED_BY_PIPELINE, TRACE_OP_RECV_FORWARD},
    {"PP:%SEND_B%", TRACE_NAMED_BY_PIPELINE, TRACE_OP_SEND_BACKWARD},
    {"PP:%RECV_B%", TRACE_NAMED_BY_PIPELINE, TRACE_OP_RECV_BACKWARD},
    {"PP:%REDUCE_GRAD", TRACE_NAMED_BY_PIPELINE, TRACE_OP_REDUCE_GRADIENTS},
    {"Forward %", TRACE_NAMED_BY_GPIPE, TRACE_OP_FORWARD},
    {"Backward %", TRACE_NAMED_BY_GPIPE, TRACE_OP_BACKWARD},
    {"dynmo it=% mb=% L=% F", TRACE_NAMED_BY_DYNMO, TRACE_OP_FORWARD},
    {"dynmo it=% mb=% L=% B", TRACE_NAMED_BY_DYNMO, TRACE_OP_BACKWARD_INPUT},
    {"dynmo it=% mb=% L=% W", TRACE_NAMED_BY_DYNMO, TRACE_OP_BACKWARD_WEIGHT},
    {"dynmo it=% mb=% L=% BW", TRACE_NAMED_BY_DYNMO, TRACE_OP_BACKWARD},
    {"dynmo it=% mb=% L=% R", TRACE_NAMED_BY_DYNMO, TRACE_OP_RECOMPUTE},
    {"Optimizer.step#*", TRACE_NAMED_BY_PIPELINE, TRACE_OP_OPTIMIZER_STEP},
};

/// @param numbers out, in the order of the name; TRACE_NOT_RECORDED: it has fewer
static bool matches(const char *name, const char *pattern, int numbers[NUMBERS_MAX])
{
    int count = 0;
    for (; *pattern != '\0' && *pattern != '*'; pattern++) {
        if (*pattern != '%') {
            if (*name++ != *pattern) return false;
            continue;
        }
        const size_t digits = strspn(name, "0123456789");
        const long number = digits > 0 && digits <= 10 ? strtol(name, NULL, 10) : -1;
        if (number < 0 || number > TRACE_ITERATIONS_MAX) return false;
        numbers[count++] = (int)number;
        name += digits;
    }
    while (count < NUMBERS_MAX) {
        numbers[count++] = TRACE_NOT_RECORDED;
    }
    return *pattern == '*' || *name == '\0';
}

bool trace_phase_parse(const char *text, trace_op_kind *kind)
{
    for (int phase = TRACE_OP_FORWARD; phase <= TRACE_OP_RECOMPUTE; phase++) {
        if (strcmp(text, trace_op_kind_names[phase]) != 0) continue;
        *kind = (trace_op_kind)phase;
        return true;
    }
    return false;
}

bool trace_naming_is_pipeline(trace_naming naming)
{
    return naming == TRACE_NAMED_BY_PIPELINE || naming == TRACE_NAMED_BY_GPIPE;
}

bool trace_annotation_parse(const char *name, trace_annotation *annotation)
{
    int numbers[NUMBERS_MAX];
    size_t known = 0;
    while (known < sizeof names / sizeof names[0] &&
           !matches(name, names[known].pattern, numbers)) {
        known++;
    }
    if (known == sizeof names / sizeof names[0]) return false;
    trace_annotation found = {.naming = names[known].naming,
                              .kind = names[known].kind,
                              .iteration = TRACE_NOT_RECORDED,
                              .layer = TRACE_NOT_RECORDED,
                              .microbatch = numbers[1]};
    if (found.naming == TRACE_NAMED_BY_PIPELINE) found.layer = numbers[0];
    if (found.naming == TRACE_NAMED_BY_GPIPE) found.microbatch = numbers[0];
    if (found.naming == TRACE_NAMED_BY_DYNMO) {
        found.iteration = numbers[0];
        found.layer = numbers[2];
    }
    if (found.layer >= TRACE_LAYERS_MAX || found.microbatch >= TRACE_MICROBATCHES_MAX) return false;
    *annotation = found;
    return true;
}

bool trace_annotation_is_step(const char *name, int *step)
{
    int numbers[NUMBERS_MAX];
    if (!matches(name, "ProfilerStep#%", numbers)) return false;
    *step = numbers[0];
    return true;
}
