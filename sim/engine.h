/// What happens next in a discrete-event simulation whose subjects have at most one event each: the
/// end of what they do, or the moment at which they ask again.
///
/// A rank of a pipeline runs one op at a time, and a message is known as soon as the op that sends
/// it has begun, so that the ranks' own times are all there is to order. They are the leaves of a
/// tree whose nodes hold the earlier of their two children: an array, no pointers, and one path of
/// log2(subjects) nodes per change. Of equal times the lowest subject comes first.
#pragma once

#include "base/arena.h"

#include <assert.h>
#include <stdint.h>

/// The time of a subject that has no event.
#define SIM_NEVER INT64_MAX

typedef struct sim_engine {
    int leaf_count;   // power of two, at least as many as there are subjects
    int64_t *next_ns; // [2 * leaf_count] node 1 is the root, the children of n are 2n and 2n + 1,
                      // subject s is leaf_count + s
} sim_engine;

/// Forgets all events. O(subjects).
static inline void sim_engine_reset(sim_engine *engine)
{
    for (int node = 0; node < 2 * engine->leaf_count; node++) {
        engine->next_ns[node] = SIM_NEVER;
    }
}

/// @param engine out: carved from memory, no event
static inline void sim_engine_init(int subject_count, arena *memory, sim_engine *engine)
{
    *engine = (sim_engine){.leaf_count = 1};
    while (engine->leaf_count < subject_count) {
        engine->leaf_count *= 2;
    }
    engine->next_ns = arena_array(memory, 2 * (size_t)engine->leaf_count, sizeof(int64_t));
    sim_engine_reset(engine);
}

/// Gives a subject its next event, in place of the one it had; SIM_NEVER: none. O(log subjects):
/// always the whole path, as where it could end early no processor foresees.
static inline void sim_engine_set(const sim_engine *engine, int subject, int64_t time_ns)
{
    int64_t *next_ns = engine->next_ns;
    int node = engine->leaf_count + subject;
    next_ns[node] = time_ns;
    while (node > 1) {
        const int64_t other_ns = next_ns[node ^ 1];
        time_ns = time_ns < other_ns ? time_ns : other_ns;
        node /= 2;
        next_ns[node] = time_ns;
    }
}

/// Time of the next event; SIM_NEVER: there is none.
static inline int64_t sim_engine_next_ns(const sim_engine *engine)
{
    return engine->next_ns[1];
}

/// Whose event is next, the lowest of several. There must be one. O(log subjects).
static inline int sim_engine_next(const sim_engine *engine)
{
    const int64_t time_ns = engine->next_ns[1];
    assert(time_ns != SIM_NEVER);
    int node = 1;
    while (node < engine->leaf_count) {
        node = 2 * node + (engine->next_ns[2 * node] != time_ns);
    }
    return node - engine->leaf_count;
}
