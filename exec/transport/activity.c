#include "exec/transport/activity.h"

#include <stdio.h>
#include <string.h>

static const char *const phase_names[EXEC_PHASE_COUNT] = {
    [EXEC_PHASE_START] = "start",       [EXEC_PHASE_REDUCTION] = "reduction",
    [EXEC_PHASE_UPDATE] = "update",     [EXEC_PHASE_REPORT] = "report",
    [EXEC_PHASE_DECISION] = "decision", [EXEC_PHASE_MIGRATION] = "migration",
    [EXEC_PHASE_HASH] = "state hash",   [EXEC_PHASE_RELEASED] = "released",
};

static void set(exec_activity *activity, int iteration, int what, int stage, int microbatch)
{
    atomic_store_explicit(&activity->iteration, iteration, memory_order_relaxed);
    atomic_store_explicit(&activity->stage, stage, memory_order_relaxed);
    atomic_store_explicit(&activity->microbatch, microbatch, memory_order_relaxed);
    atomic_store_explicit(&activity->what, what, memory_order_relaxed);
}

void exec_activity_set_op(exec_activity *activity, int iteration, int stage, bal_op op)
{
    set(activity, iteration, EXEC_PHASE_COUNT + op.kind, stage, op.microbatch);
}

void exec_activity_set_phase(exec_activity *activity, int iteration, exec_phase phase)
{
    set(activity, iteration, (int)phase, 0, 0);
}

const char *exec_activity_text(const exec_activity *activity, int rank,
                               char out[EXEC_ACTIVITY_BYTES])
{
    const int what = atomic_load_explicit(&activity->what, memory_order_relaxed);
    const int iteration = atomic_load_explicit(&activity->iteration, memory_order_relaxed);
    if (what >= EXEC_PHASE_COUNT) {
        const bal_op op = {.kind = (uint8_t)(what - EXEC_PHASE_COUNT),
                           .microbatch =
                               atomic_load_explicit(&activity->microbatch, memory_order_relaxed)};
        snprintf(out, EXEC_ACTIVITY_BYTES, "rank %d, iteration %d, %s of stage %d", rank, iteration,
                 bal_op_name(op).text,
                 atomic_load_explicit(&activity->stage, memory_order_relaxed));
    } else if (what != EXEC_PHASE_NONE) {
        snprintf(out, EXEC_ACTIVITY_BYTES, "rank %d, iteration %d, %s", rank, iteration,
                 phase_names[what]);
    } else {
        snprintf(out, EXEC_ACTIVITY_BYTES, "rank %d", rank);
    }
    return out;
}

void exec_activity_blame(const exec_activity *activity, int rank, status code, error_message *err)
{
    char text[EXEC_ACTIVITY_BYTES];
    if (strncmp(err->message, "rank ", 5) != 0) {
        error_prefix(err, code, "%s", exec_activity_text(activity, rank, text));
    }
    err->code = code;
}
