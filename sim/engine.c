#include "sim/engine.h"

#include <assert.h>
#include <inttypes.h>

/// A heap of four children per node is half as deep as one of two, and the children of a node
/// share two cache lines.
enum { CHILDREN = 4, CAPACITY_MAX = 1 << 30 };

struct sim_engine {
    int64_t now_ns;
    uint64_t next_sequence;
    int64_t taken_count;
    int64_t count;
    int64_t capacity;
    sim_event *heap; // [capacity] heap[0] is the earliest
};

status sim_engine_create(int64_t capacity, arena *memory, sim_engine **engine, error_message *err)
{
    if (capacity < 0 || capacity > CAPACITY_MAX) {
        return error_set(err, STATUS_INVALID, "capacity of %" PRId64 " events is outside [0, %d]",
                         capacity, CAPACITY_MAX);
    }
    sim_engine *created = arena_array(memory, 1, sizeof *created);
    sim_event *heap = arena_array(memory, (size_t)capacity, sizeof *heap);
    if (created == NULL || heap == NULL) {
        return error_set(err, STATUS_NO_MEMORY, "out of memory for %" PRId64 " events", capacity);
    }
    created->capacity = capacity;
    created->heap = heap;
    *engine = created;
    return STATUS_OK;
}

void sim_engine_reset(sim_engine *engine)
{
    engine->now_ns = 0;
    engine->next_sequence = 0;
    engine->taken_count = 0;
    engine->count = 0;
}

static bool is_before(const sim_event *a, const sim_event *b)
{
    return a->time_ns < b->time_ns || (a->time_ns == b->time_ns && a->sequence < b->sequence);
}

void sim_engine_push(sim_engine *engine, int64_t time_ns, uint32_t kind, int32_t subject,
                     int64_t detail)
{
    assert(time_ns >= engine->now_ns);
    assert(engine->count < engine->capacity);
    const sim_event event = {.time_ns = time_ns,
                             .sequence = engine->next_sequence++,
                             .kind = kind,
                             .subject = subject,
                             .detail = detail};
    int64_t place = engine->count++;
    // The new event is the youngest: among equal times it stays behind.
    while (place > 0 && time_ns < engine->heap[(place - 1) / CHILDREN].time_ns) {
        engine->heap[place] = engine->heap[(place - 1) / CHILDREN];
        place = (place - 1) / CHILDREN;
    }
    engine->heap[place] = event;
}

/// Moves the hole at the top down to where event belongs, the earliest child taking its place.
static void sift_down(sim_event *heap, int64_t count, sim_event event)
{
    int64_t hole = 0;
    for (int64_t child = 1; child < count; child = hole * CHILDREN + 1) {
        const int64_t end = child + CHILDREN < count ? child + CHILDREN : count;
        int64_t earliest = child;
        for (int64_t other = child + 1; other < end; other++) {
            if (is_before(&heap[other], &heap[earliest])) earliest = other;
        }
        if (!is_before(&heap[earliest], &event)) break;
        heap[hole] = heap[earliest];
        hole = earliest;
    }
    heap[hole] = event;
}

bool sim_engine_pop(sim_engine *engine, sim_event *event)
{
    if (engine->count == 0) return false;
    *event = engine->heap[0];
    engine->now_ns = event->time_ns;
    engine->taken_count++;
    engine->count--;
    if (engine->count > 0) sift_down(engine->heap, engine->count, engine->heap[engine->count]);
    return true;
}

bool sim_engine_has_more_now(const sim_engine *engine)
{
    return engine->count > 0 && engine->heap[0].time_ns == engine->now_ns;
}

int64_t sim_engine_now_ns(const sim_engine *engine)
{
    return engine->now_ns;
}

int64_t sim_engine_event_count(const sim_engine *engine)
{
    return engine->taken_count;
}
