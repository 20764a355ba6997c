/// Which annotations are open at a moment, on a thread and in a process. Those of a trace need not
/// nest: around one is the last that began before it and had not ended.
#include "base/arena.h"
#include "traces/import/kineto_collect.h"

const trace_window *kineto_open_window(const kineto_lane *lane, size_t place)
{
    return &lane->marks[lane->opens[place].mark].window;
}

/// From a place outwards, the first that lasts until a moment; -1: none.
static int32_t lasting(const kineto_lane *lane, int32_t place, int64_t until_ns)
{
    while (place >= 0 && kineto_open_window(lane, (size_t)place)->end_ns < until_ns) {
        place = lane->opens[place].longer;
    }
    return place;
}

static void push(kineto_lane *lane, uint32_t mark)
{
    const trace_window *window = &lane->marks[mark].window;
    const int32_t last = (int32_t)lane->count - 1;
    const int32_t around = lasting(lane, last, window->begin_ns);
    // What is no longer than this one has ended where this one has.
    const int64_t longer_ns = window->end_ns + (window->end_ns < INT64_MAX);
    lane->opens[lane->count++] = (kineto_open){mark, around, lasting(lane, around, longer_ns)};
}

/// Lanes of the sizes that they will have.
static kineto_lane *make_lanes(const kineto_events *events, size_t count, bool of_processes)
{
    kineto_lane *lanes = arena_array(events->scratch, count, sizeof *lanes);
    for (uint32_t mark = 0; mark < events->mark_count; mark++) {
        const uint32_t thread = events->marks[mark].thread;
        lanes[of_processes ? events->runners[thread].process : thread].count++;
    }
    for (size_t lane = 0; lane < count; lane++) {
        lanes[lane].marks = events->marks;
        lanes[lane].opens =
            arena_array(events->scratch, lanes[lane].count, sizeof *lanes[lane].opens);
        lanes[lane].count = 0;
    }
    return lanes;
}

kineto_nesting kineto_nesting_of(const kineto_events *events)
{
    const kineto_nesting made = {.threads = make_lanes(events, events->thread_count, false),
                                 .processes = make_lanes(events, events->process_count, true)};
    for (uint32_t mark = 0; mark < events->mark_count; mark++) {
        const uint32_t thread = events->marks[mark].thread;
        push(&made.threads[thread], mark);
        push(&made.processes[events->runners[thread].process], mark);
    }
    return made;
}

size_t kineto_begun_count(const kineto_lane *lane, int64_t moment_ns)
{
    size_t begun = 0;
    size_t end = lane->count;
    while (begun < end) {
        const size_t middle = begun + (end - begun) / 2;
        if (kineto_open_window(lane, middle)->begin_ns <= moment_ns) {
            begun = middle + 1;
        } else {
            end = middle;
        }
    }
    return begun;
}

const kineto_open *kineto_innermost(const kineto_lane *lane, size_t begun_count, int64_t until_ns)
{
    const int32_t place = lasting(lane, (int32_t)begun_count - 1, until_ns);
    return place >= 0 ? &lane->opens[place] : NULL;
}
