#include "exec/transport/activity.h"

#include <stdio.h>
#include <string.h>

/// What fits 64 bits: from the top a free bit, the flag of an op, its kind, iteration, stage (or
/// phase) and microbatch.
enum {
    KIND_BITS = 2,
    ITERATION_BITS = 24,
    STAGE_BITS = 16,
    MICROBATCH_BITS = 20,
    STAGE_SHIFT = MICROBATCH_BITS,
    ITERATION_SHIFT = STAGE_SHIFT + STAGE_BITS,
    KIND_SHIFT = ITERATION_SHIFT + ITERATION_BITS,
};
_Static_assert(OP_KIND_COUNT <= 1 << KIND_BITS, "the kind fits its bits");
static const uint64_t is_op = UINT64_C(1) << 62;

static const char *const phase_names[EXEC_PHASE_COUNT] = {
    [EXEC_PHASE_START] = "start",           [EXEC_PHASE_REDUCTION] = "reduction",
    [EXEC_PHASE_UPDATE] = "update",         [EXEC_PHASE_REPORT] = "report",
    [EXEC_PHASE_DECISION] = "decision",     [EXEC_PHASE_MIGRATION] = "migration",
    [EXEC_PHASE_CHECKPOINT] = "checkpoint", [EXEC_PHASE_RELEASED] = "released",
};

static uint64_t low_bits(int64_t value, int bits)
{
    return (uint64_t)value & ((UINT64_C(1) << bits) - 1);
}

void exec_activity_set_op(exec_activity *activity, int iteration, int stage, bal_op op)
{
    const uint64_t packed = is_op | low_bits(op.kind, KIND_BITS) << KIND_SHIFT |
                            low_bits(iteration, ITERATION_BITS) << ITERATION_SHIFT |
                            low_bits(stage, STAGE_BITS) << STAGE_SHIFT |
                            low_bits(op.microbatch, MICROBATCH_BITS);
    atomic_store_explicit(&activity->packed, packed, memory_order_relaxed);
}

void exec_activity_set_phase(exec_activity *activity, int iteration, exec_phase phase)
{
    const uint64_t packed = low_bits(phase, STAGE_BITS) << STAGE_SHIFT |
                            low_bits(iteration, ITERATION_BITS) << ITERATION_SHIFT;
    atomic_store_explicit(&activity->packed, packed, memory_order_relaxed);
}

static int bits_at(uint64_t packed, int shift, int bits)
{
    return (int)(packed >> shift & ((UINT64_C(1) << bits) - 1));
}

const char *exec_activity_text(const exec_activity *activity, int rank,
                               char out[EXEC_ACTIVITY_BYTES])
{
    const uint64_t packed = atomic_load_explicit(&activity->packed, memory_order_relaxed);
    const int stage = bits_at(packed, STAGE_SHIFT, STAGE_BITS);
    const int iteration = bits_at(packed, ITERATION_SHIFT, ITERATION_BITS);
    if ((packed & is_op) != 0) {
        char name[32];
        const bal_op op = {.kind = (uint8_t)bits_at(packed, KIND_SHIFT, KIND_BITS),
                           .microbatch = bits_at(packed, 0, MICROBATCH_BITS)};
        bal_op_name(op, name);
        snprintf(out, EXEC_ACTIVITY_BYTES, "rank %d, iteration %d, %s of stage %d", rank, iteration,
                 name, bits_at(packed, STAGE_SHIFT, STAGE_BITS));
    } else if (stage != EXEC_PHASE_NONE && stage < EXEC_PHASE_COUNT) {
        snprintf(out, EXEC_ACTIVITY_BYTES, "rank %d, iteration %d, %s", rank, iteration,
                 phase_names[stage]);
    } else {
        snprintf(out, EXEC_ACTIVITY_BYTES, "rank %d", rank);
    }
    return out;
}

status exec_activity_blame(const exec_activity *activity, int rank, status code, error_message *err)
{
    char text[EXEC_ACTIVITY_BYTES];
    if (err == NULL || strncmp(err->message, "rank ", 5) == 0) return code;
    error_prefix(err, code, "%s", exec_activity_text(activity, rank, text));
    return code;
}
