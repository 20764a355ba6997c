/// The event queue of a discrete-event simulation: what happens next, and when.
#pragma once

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// One thing that will happen. What kind, subject and detail mean is the pusher's business.
typedef struct sim_event {
    int64_t time_ns;
    uint64_t sequence; // given by the queue: events of one time keep the order of their pushes
    uint32_t kind;
    int32_t subject;
    int64_t detail;
} sim_event;
_Static_assert(sizeof(sim_event) == 32, "two events per cache line");

typedef struct sim_engine sim_engine;

/// @param capacity most events that are ever waiting at once, in [0, 2^30]
/// @param engine   out: carved from memory, at time 0
/// @return STATUS_INVALID if capacity is outside its limits; STATUS_NO_MEMORY
status sim_engine_create(int64_t capacity, arena *memory, sim_engine **engine, error_message *err);

/// Forgets all events and goes back to time 0.
void sim_engine_reset(sim_engine *engine);

/// Adds an event at time_ns. Not before now, and within the capacity (both asserted). O(log
/// events).
void sim_engine_push(sim_engine *engine, int64_t time_ns, uint32_t kind, int32_t subject,
                     int64_t detail);

/// Takes the earliest event and moves now to its time; of equal times the one pushed first.
/// O(log events).
///
/// @return false if none is left; now and *event are then untouched
bool sim_engine_pop(sim_engine *engine, sim_event *event);

/// Whether the next event happens at the time of the last one.
bool sim_engine_has_more_now(const sim_engine *engine);

/// Time of the event that was taken last.
int64_t sim_engine_now_ns(const sim_engine *engine);

/// How many events were taken since the engine was created or reset.
int64_t sim_engine_event_count(const sim_engine *engine);
