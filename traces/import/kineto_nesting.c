/// Which annotations are open at a moment, on a thread and in a process. Those of a trace need not
/// nest: around one is the last that began before it and had not ended.
#include "base/arena.h"
#include "traces/import/kineto_collect.h"

static void push(kineto_lane *lane, const trace_window *window, uint32_t mark, arena *memory)
{
    int32_t around = (int32_t)lane->count - 1;
    while (around >= 0 && lane->opens[around].end_ns < window->begin_ns) {
        around = lane->opens[around].around;
    }
    lane->opens = arena_grow(memory, lane->opens, lane->count, sizeof *lane->opens);
    lane->opens[lane->count++] = (kineto_open){window->begin_ns, window->end_ns, mark, around};
}

kineto_nesting kineto_nesting_of(const kineto_events *events)
{
    arena *memory = events->scratch;
    const kineto_nesting made = {
        .threads = arena_array(memory, events->thread_count, sizeof *made.threads),
        .processes = arena_array(memory, events->process_count, sizeof *made.processes)};
    for (uint32_t mark = 0; mark < events->mark_count; mark++) {
        const kineto_mark *each = &events->marks[mark];
        push(&made.threads[each->thread], &each->window, mark, memory);
        push(&made.processes[events->runners[each->thread].process], &each->window, mark, memory);
    }
    return made;
}

static int compare_begins(const void *item, const void *key)
{
    return ((const kineto_open *)item)->begin_ns <= ((const kineto_open *)key)->begin_ns ? -1 : 1;
}

size_t kineto_begun_count(const kineto_lane *lane, int64_t moment_ns)
{
    const kineto_open key = {.begin_ns = moment_ns};
    return sorted_place(lane->opens, lane->count, sizeof key, &key, compare_begins);
}

const kineto_open *kineto_innermost(const kineto_lane *lane, size_t begun_count, int64_t until_ns)
{
    int64_t place = (int64_t)begun_count - 1;
    while (place >= 0 && lane->opens[place].end_ns < until_ns) {
        place = lane->opens[place].around;
    }
    return place >= 0 ? &lane->opens[place] : NULL;
}
