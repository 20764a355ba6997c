// Backwards that no annotation names, found through what links a forward operator to its backward.
#include "base/arena.h"
#include "traces/import/kineto_collect.h"

#include <stdlib.h>

/// A run of backward operators on one thread whose forwards ran in one mark.
typedef struct backward_run {
    uint32_t mark; // KINETO_NO_MARK: in none
    uint32_t thread;
    int64_t begin_ns;
    int64_t end_ns;
} backward_run;

static int compare_links(const void *a, const void *b)
{
    const kineto_launch *left = a;
    const kineto_launch *right = b;
    if (left->correlation != right->correlation) {
        return left->correlation < right->correlation ? -1 : 1;
    }
    return (left->ts_ns > right->ts_ns) - (left->ts_ns < right->ts_ns);
}

static int compare_targets(const void *a, const void *b)
{
    const kineto_launch *left = a;
    const kineto_launch *right = b;
    if (left->thread != right->thread) return left->thread < right->thread ? -1 : 1;
    if (left->ts_ns != right->ts_ns) return left->ts_ns < right->ts_ns ? -1 : 1;
    return (left->correlation > right->correlation) - (left->correlation < right->correlation);
}

static int compare_backwards(const void *a, const void *b)
{
    const kineto_work *left = a;
    const kineto_work *right = b;
    if (left->key != right->key) return left->key < right->key ? -1 : 1;
    if (left->begin_ns != right->begin_ns) return left->begin_ns < right->begin_ns ? -1 : 1;
    return (left->end_ns > right->end_ns) - (left->end_ns < right->end_ns);
}

bool trace_kineto_has_backward(const kineto_events *events)
{
    for (size_t mark = 0; mark < events->mark_count; mark++) {
        const trace_window *window = &events->marks[mark].window;
        if (window->is_load && window->kind != TRACE_OP_FORWARD) return true;
    }
    return false;
}

void kineto_sort_sources(kineto_events *events)
{
    kineto_sort(events->sources, events->source_count, sizeof *events->sources, compare_links);
}

const kineto_launch *kineto_source_of(const kineto_events *events, const kineto_launch *target)
{
    const kineto_launch after = {.ts_ns = target->ts_ns + (target->ts_ns < INT64_MAX),
                                 .correlation = target->correlation};
    const size_t place =
        sorted_place(events->sources, events->source_count, sizeof after, &after, compare_links);
    const bool is_found =
        place > 0 && events->sources[place - 1].correlation == target->correlation;
    return is_found ? &events->sources[place - 1] : NULL;
}

/// The mark around each mark on its own thread.
static uint32_t *find_outer_marks(const kineto_events *events, arena *memory)
{
    uint32_t *outer = arena_array(memory, events->mark_count, sizeof *outer);
    uint32_t *top = arena_array(memory, events->thread_count, sizeof *top);
    for (size_t thread = 0; thread < events->thread_count; thread++) {
        top[thread] = KINETO_NO_MARK;
    }
    for (size_t mark = 0; mark < events->mark_count; mark++) {
        const kineto_mark *each = &events->marks[mark];
        uint32_t around = top[each->thread];
        while (around != KINETO_NO_MARK &&
               events->marks[around].window.end_ns < each->window.begin_ns) {
            around = outer[around];
        }
        outer[mark] = around;
        top[each->thread] = (uint32_t)mark;
    }
    return outer;
}

/// The innermost mark of a forward on the link's thread at its moment.
static uint32_t mark_at(const kineto_events *events, const uint32_t *outer,
                        const kineto_launch *link)
{
    const kineto_mark last = {.window = {.begin_ns = link->ts_ns, .end_ns = INT64_MIN}};
    size_t low =
        sorted_place(events->marks, events->mark_count, sizeof last, &last, kineto_compare_marks);
    while (low > 0 && events->marks[low - 1].thread != link->thread) {
        low--;
    }
    uint32_t mark = low > 0 ? (uint32_t)(low - 1) : KINETO_NO_MARK;
    while (mark != KINETO_NO_MARK && (events->marks[mark].window.end_ns < link->ts_ns ||
                                      !events->marks[mark].window.is_load)) {
        mark = outer[mark];
    }
    return mark;
}

/// The end of the last backward operator on the thread that begins before a moment.
static int64_t backward_end(const kineto_events *events, uint32_t thread, int64_t moment_ns)
{
    const kineto_work key = {.begin_ns = moment_ns, .end_ns = INT64_MIN, .key = thread};
    const size_t place = sorted_place(events->backwards, events->backward_count, sizeof key, &key,
                                      compare_backwards);
    const bool is_found = place > 0 && events->backwards[place - 1].key == thread;
    return is_found ? events->backwards[place - 1].end_ns : INT64_MIN;
}

/// @param runs [target_count] out
/// @return their number
static size_t find_runs(const kineto_events *events, const uint32_t *outer, backward_run *runs)
{
    size_t count = 0;
    for (size_t each = 0; each < events->target_count; each++) {
        const kineto_launch *target = &events->targets[each];
        const kineto_launch *source = kineto_source_of(events, target);
        if (source == NULL) continue; // as of the accumulation of gradients
        const uint32_t mark = mark_at(events, outer, source);
        const bool goes_on =
            count > 0 && runs[count - 1].thread == target->thread && runs[count - 1].mark == mark;
        if (!goes_on) runs[count++] = (backward_run){mark, target->thread, target->ts_ns, 0};
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
static kineto_mark backward_mark(const kineto_events *events, const backward_run *run)
{
    kineto_mark mark = events->marks[run->mark];
    mark.window.kind = TRACE_OP_BACKWARD;
    mark.window.begin_ns = run->begin_ns;
    mark.window.end_ns = run->end_ns;
    mark.thread = run->thread;
    return mark;
}

int trace_kineto_link_backward(kineto_events *events)
{
    if (events->target_count == 0 || trace_kineto_has_backward(events)) return 0;
    kineto_sort_sources(events);
    kineto_sort(events->targets, events->target_count, sizeof *events->targets, compare_targets);
    kineto_sort(events->backwards, events->backward_count, sizeof *events->backwards,
                compare_backwards);
    const size_t before = events->mark_count;
    arena *scratch = arena_create(1 << 16);
    uint32_t *outer = find_outer_marks(events, scratch);
    backward_run *runs = arena_array(scratch, events->target_count, sizeof *runs);
    const size_t count = find_runs(events, outer, runs);
    events->marks = memory_resize(events->marks, before + count + 1, sizeof *events->marks);
    for (size_t run = 0; run < count; run++) {
        if (runs[run].mark == KINETO_NO_MARK) continue;
        kineto_mark mark = backward_mark(events, &runs[run]);
        mark.order = (uint32_t)events->mark_count;
        events->marks[events->mark_count++] = mark;
    }
    arena_destroy(scratch);
    return (int)(events->mark_count - before);
}
