// Backwards that no annotation names, found through what links a forward operator to its backward.
#include "base/arena.h"
#include "traces/import/kineto_collect.h"

#include <string.h>

bool trace_kineto_has_backward(const kineto_events *events)
{
    for (size_t mark = 0; mark < events->mark_count; mark++) {
        const trace_window *window = &events->marks[mark].window;
        if (window->is_load && window->kind != TRACE_OP_FORWARD) return true;
    }
    return false;
}

const kineto_span *kineto_source_of(const kineto_events *events, const kineto_span *target)
{
    const kineto_list *sources = &events->lists[KINETO_SOURCE];
    const kineto_span after = {.begin_ns = target->begin_ns + (target->begin_ns < INT64_MAX),
                               .group = target->group};
    const size_t place = kineto_list_place(sources, after, kineto_compare_groups);
    const bool is_found = place > 0 && sources->spans[place - 1].group == target->group;
    return is_found ? &sources->spans[place - 1] : NULL;
}

/// Gives every source the number of the innermost forward on its thread at its moment, or -1.
/// Sources are by time, as marks are. Those that have ended are taken off a thread's stack when
/// they come to its top.
static void place_sources(const kineto_events *events, arena *scratch)
{
    const kineto_list *sources = &events->lists[KINETO_SOURCE];
    int *top = arena_array(scratch, events->thread_count, sizeof *top);
    int *below = arena_array(scratch, events->mark_count, sizeof *below);
    int next = 0;
    memset(top, -1, events->thread_count * sizeof *top);
    for (size_t each = 0; each < sources->count; each++) {
        kineto_span *source = &sources->spans[each];
        for (; next < (int)events->mark_count; next++) {
            const kineto_mark *mark = &events->marks[next];
            if (mark->window.begin_ns > source->begin_ns) break;
            below[next] = top[mark->thread];
            top[mark->thread] = next;
        }
        int *mark = &top[source->thread];
        while (*mark >= 0 && events->marks[*mark].window.end_ns < source->begin_ns) {
            *mark = below[*mark];
        }
        source->number = *mark;
        while (source->number >= 0 &&
               (events->marks[source->number].window.end_ns < source->begin_ns ||
                !events->marks[source->number].window.is_load)) {
            source->number = below[source->number];
        }
    }
}

/// The end of the last backward operator on the thread that begins before a moment; of several that
/// begin at once, the outermost's.
static int64_t backward_end(const kineto_events *events, uint32_t thread, int64_t moment_ns)
{
    const kineto_list *backwards = &events->lists[KINETO_BACKWARD];
    const kineto_span key = {.begin_ns = moment_ns, .end_ns = INT64_MAX, .thread = thread};
    size_t place = kineto_list_place(backwards, key, kineto_compare_threads);
    if (place == 0 || backwards->spans[place - 1].thread != thread) return INT64_MIN;
    const kineto_span *last = &backwards->spans[--place];
    while (place > 0 && backwards->spans[place - 1].thread == thread &&
           backwards->spans[place - 1].begin_ns == last->begin_ns) {
        last = &backwards->spans[--place];
    }
    return last->end_ns;
}

/// A run of backward operators on one thread whose forwards ran in one mark, its number: -1 in
/// none.
///
/// @param runs [target_count] out
/// @return their number
static size_t find_runs(const kineto_events *events, kineto_span *runs)
{
    const kineto_list *targets = &events->lists[KINETO_TARGET];
    size_t count = 0;
    for (size_t each = 0; each < targets->count; each++) {
        const kineto_span *source = kineto_source_of(events, &targets->spans[each]);
        if (source == NULL) continue; // as of the accumulation of gradients
        kineto_span run = targets->spans[each];
        run.number = source->number;
        const bool goes_on = count > 0 && runs[count - 1].thread == run.thread &&
                             runs[count - 1].number == run.number;
        if (!goes_on) runs[count++] = run;
    }
    for (size_t run = 0; run < count; run++) {
        const bool has_next = run + 1 < count && runs[run + 1].thread == runs[run].thread;
        const int64_t next_ns = has_next ? runs[run + 1].begin_ns : INT64_MAX;
        const int64_t end_ns = backward_end(events, runs[run].thread, next_ns);
        runs[run].end_ns = end_ns < next_ns ? end_ns : next_ns;
        if (runs[run].end_ns < runs[run].begin_ns) runs[run].end_ns = runs[run].begin_ns;
    }
    return count;
}

/// A mark like that of the forward, but for what is said of time.
static kineto_mark backward_mark(const kineto_events *events, const kineto_span *run)
{
    kineto_mark mark = events->marks[run->number];
    mark.window.kind = TRACE_OP_BACKWARD;
    mark.window.begin_ns = run->begin_ns;
    mark.window.end_ns = run->end_ns;
    mark.thread = run->thread;
    mark.order = (uint32_t)events->mark_count;
    return mark;
}

int trace_kineto_link_backward(kineto_events *events)
{
    kineto_list *lists = events->lists;
    const size_t before = events->mark_count;
    if (lists[KINETO_TARGET].count == 0 || trace_kineto_has_backward(events)) return 0;
    arena *scratch = arena_create(1 << 16);
    kineto_list_sort(&lists[KINETO_SOURCE], kineto_compare_times);
    place_sources(events, scratch);
    kineto_list_sort(&lists[KINETO_SOURCE], kineto_compare_groups);
    kineto_list_sort(&lists[KINETO_TARGET], kineto_compare_threads);
    kineto_list_sort(&lists[KINETO_BACKWARD], kineto_compare_threads);
    kineto_span *runs = arena_array(scratch, lists[KINETO_TARGET].count, sizeof *runs);
    const size_t count = find_runs(events, runs);
    events->marks = memory_resize(events->marks, before + count + 1, sizeof *events->marks);
    for (size_t run = 0; run < count; run++) {
        if (runs[run].number < 0) continue;
        const kineto_mark mark = backward_mark(events, &runs[run]);
        events->marks[events->mark_count++] = mark;
    }
    arena_destroy(scratch);
    return (int)(events->mark_count - before);
}
