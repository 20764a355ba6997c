#include "sim/engine.h"

enum { SUBJECTS_MAX = 1 << 30 };

status sim_engine_init(int subject_count, arena *memory, sim_engine *engine, error_message *err)
{
    if (subject_count < 1 || subject_count > SUBJECTS_MAX) {
        return error_set(err, STATUS_INVALID, "%d subjects are outside [1, %d]", subject_count,
                         SUBJECTS_MAX);
    }
    int leaf_count = 1;
    while (leaf_count < subject_count) {
        leaf_count *= 2;
    }
    int64_t *next_ns = arena_array(memory, 2 * (size_t)leaf_count, sizeof *next_ns);
    *engine =
        (sim_engine){.subject_count = subject_count, .leaf_count = leaf_count, .next_ns = next_ns};
    sim_engine_reset(engine);
    return STATUS_OK;
}

void sim_engine_reset(sim_engine *engine)
{
    for (int node = 0; node < 2 * engine->leaf_count; node++) {
        engine->next_ns[node] = SIM_NEVER;
    }
}
