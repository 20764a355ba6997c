/// Which kernels ran for which op and layer.
#include "base/arena.h"
#include "traces/import/kineto_collect.h"

#include <inttypes.h>
#include <stdlib.h>

#define NO_MARK KINETO_NO_MARK

/// Open marks of every thread and every process, the last begun on top. A mark that has ended is
/// taken off when it comes to the top: marks of a trace need not nest.
typedef struct open_marks {
    const kineto_mark *marks;
    uint32_t *top_of_thread;    // [thread_count]
    uint32_t *top_of_process;   // [process_count]
    uint32_t *below_in_thread;  // [mark_count]
    uint32_t *below_in_process; // [mark_count]
} open_marks;

static void open_marks_free(open_marks *open)
{
    free(open->top_of_thread);
    free(open->top_of_process);
    free(open->below_in_thread);
    free(open->below_in_process);
}

static void open_marks_init(const kineto_events *events, open_marks *open)
{
    const size_t threads = events->thread_list.count + 1;
    const size_t processes = (size_t)events->process_count + 1;
    const size_t marks = events->mark_list.count + 1;
    *open = (open_marks){.marks = events->marks};
    open->top_of_thread = memory_array(threads, sizeof *open->top_of_thread);
    open->top_of_process = memory_array(processes, sizeof *open->top_of_process);
    open->below_in_thread = memory_array(marks, sizeof *open->below_in_thread);
    open->below_in_process = memory_array(marks, sizeof *open->below_in_process);
    for (size_t thread = 0; thread < threads; thread++) {
        open->top_of_thread[thread] = NO_MARK;
    }
    for (size_t process = 0; process < processes; process++) {
        open->top_of_process[process] = NO_MARK;
    }
}

static void open_marks_push(open_marks *open, uint32_t mark, uint32_t thread, uint32_t process)
{
    open->below_in_thread[mark] = open->top_of_thread[thread];
    open->below_in_process[mark] = open->top_of_process[process];
    open->top_of_thread[thread] = mark;
    open->top_of_process[process] = mark;
}

/// The innermost mark that lasts until moment_ns.
static uint32_t open_marks_top(const open_marks *open, uint32_t *top, const uint32_t *below,
                               int64_t moment_ns)
{
    while (*top != NO_MARK && open->marks[*top].window.end_ns < moment_ns) {
        *top = below[*top];
    }
    return *top;
}

static int compare_launch_times(const void *a, const void *b)
{
    const kineto_launch *left = a;
    const kineto_launch *right = b;
    if (left->ts_ns != right->ts_ns) return left->ts_ns < right->ts_ns ? -1 : 1;
    return (left->correlation > right->correlation) - (left->correlation < right->correlation);
}

/// Of launches with one correlation, the one that has a mark and began first comes first.
static int compare_launch_correlations(const void *a, const void *b)
{
    const kineto_launch *left = a;
    const kineto_launch *right = b;
    if (left->correlation != right->correlation) {
        return left->correlation < right->correlation ? -1 : 1;
    }
    if (left->mark != right->mark) return left->mark < right->mark ? -1 : 1;
    return (left->ts_ns > right->ts_ns) - (left->ts_ns < right->ts_ns);
}

static int compare_work_begins(const void *a, const void *b)
{
    const kineto_work *left = a;
    const kineto_work *right = b;
    if (left->begin_ns != right->begin_ns) return left->begin_ns < right->begin_ns ? -1 : 1;
    if (left->end_ns != right->end_ns) return left->end_ns > right->end_ns ? -1 : 1;
    return (left->key > right->key) - (left->key < right->key);
}

static int compare_work_times(const void *a, const void *b)
{
    const kineto_work *left = a;
    const kineto_work *right = b;
    if (left->key != right->key) return left->key < right->key ? -1 : 1;
    if (left->begin_ns != right->begin_ns) return left->begin_ns < right->begin_ns ? -1 : 1;
    if (left->end_ns != right->end_ns) return left->end_ns > right->end_ns ? -1 : 1;
    return (left->flags > right->flags) - (left->flags < right->flags);
}

/// Most files hold launches and operations in order: qsort would take memory for nothing.
static void sort(void *items, size_t count, size_t bytes,
                 int (*compare)(const void *, const void *))
{
    const char *at = items;
    for (size_t item = 1; item < count; item++, at += bytes) {
        if (compare(at, at + bytes) > 0) {
            qsort(items, count, bytes, compare);
            return;
        }
    }
}

/// Puts the mark of each launch in the place of its time, then sorts by correlation.
static void place_launches(kineto_events *events)
{
    const size_t count = events->launch_list.count;
    open_marks open;
    uint32_t next = 0;
    open_marks_init(events, &open);
    sort(events->launches, count, sizeof *events->launches, compare_launch_times);
    for (size_t each = 0; each < count; each++) {
        kineto_launch *launch = &events->launches[each];
        const int64_t moment_ns = launch->ts_ns;
        for (; next < events->mark_list.count && events->marks[next].window.begin_ns <= moment_ns;
             next++) {
            const uint32_t thread = events->marks[next].thread;
            open_marks_push(&open, next, thread, events->process_of[thread]);
        }
        const uint32_t process = events->process_of[launch->thread];
        uint32_t mark = open_marks_top(&open, &open.top_of_thread[launch->thread],
                                       open.below_in_thread, moment_ns);
        if (mark == NO_MARK) {
            mark = open_marks_top(&open, &open.top_of_process[process], open.below_in_process,
                                  moment_ns);
        }
        launch->mark = mark;
    }
    open_marks_free(&open);
    sort(events->launches, count, sizeof *events->launches, compare_launch_correlations);
}

/// The first launch of a correlation, NULL: none. @param next where it may be; out: after it
static const kineto_launch *find_launch(const kineto_events *events, uint32_t correlation,
                                        size_t *next)
{
    const kineto_launch *launches = events->launches;
    size_t low = 0;
    size_t high = events->launch_list.count;
    if (correlation == KINETO_NO_CORRELATION) return NULL;
    const bool is_next = *next < high && launches[*next].correlation == correlation &&
                         (*next == 0 || launches[*next - 1].correlation != correlation);
    if (is_next) low = high = *next;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (launches[middle].correlation < correlation) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == events->launch_list.count || launches[low].correlation != correlation) return NULL;
    *next = low + 1;
    return &launches[low];
}

static uint32_t component_in(const kineto_mark *mark, uint32_t flags)
{
    return mark->is_communication ? KINETO_COMMUNICATION : flags;
}

static const kineto_mark *count_work(const kineto_events *events, const kineto_launch *launch,
                                     trace_attribution *ops)
{
    if (launch == NULL) {
        ops->without_launch++;
        return NULL;
    }
    if (launch->mark == NO_MARK) {
        ops->outside++;
        return NULL;
    }
    const kineto_mark *mark = &events->marks[launch->mark];
    if (mark->window.is_load) {
        ops->loads++;
    } else {
        ops->others++;
    }
    return mark;
}

static void widen(trace_window *window, int64_t begin_ns, int64_t end_ns)
{
    if (begin_ns < window->work_begin_ns) window->work_begin_ns = begin_ns;
    if (end_ns > window->work_end_ns) window->work_end_ns = end_ns;
}

/// Until when works cover the time, by component. An operation begins no earlier than the last.
typedef struct union_end {
    int64_t until_ns[2];
} union_end;

/// Adds an operation to the length of the union of those before it.
static void add_to_union(union_end *end, const kineto_work *work, int64_t *busy_ns,
                         int64_t *communication_ns)
{
    const bool is_communication = work->flags == KINETO_COMMUNICATION;
    int64_t *until_ns = &end->until_ns[is_communication];
    const int64_t begin_ns = work->begin_ns > *until_ns ? work->begin_ns : *until_ns;
    if (work->end_ns <= begin_ns) return;
    *(is_communication ? communication_ns : busy_ns) += work->end_ns - begin_ns;
    *until_ns = work->end_ns;
}

/// [count] unions that hold nothing.
static union_end *unions_create(size_t count)
{
    union_end *ends = memory_array(count + 1, sizeof *ends);
    for (size_t each = 0; each < count; each++) {
        ends[each] = (union_end){{INT64_MIN, INT64_MIN}};
    }
    return ends;
}

/// What the device ran, and the unions that it adds to.
typedef struct placing {
    kineto_events *events;
    trace_recording *recording;
    kineto_gaps *gaps;
    union_end *windows; // [mark_count]
    union_end *cells;   // [cell_count]; annotations of one may overlap on the device
    size_t next_launch; // where that of the next operation may be
} placing;

/// Gives a device operation its mark; those without one are counted only.
static status place_work(placing *to, kineto_work work, error_message *err)
{
    trace_attribution *ops = &to->recording->ops;
    const kineto_launch *launch = find_launch(to->events, work.key, &to->next_launch);
    const int64_t length_ns = work.end_ns - work.begin_ns;
    if (__builtin_add_overflow(ops->total_ns, length_ns, &ops->total_ns)) {
        return error_set(err, STATUS_INVALID, "%s: its operations last longer than 64 bits",
                         to->events->path);
    }
    const kineto_mark *mark = count_work(to->events, launch, ops);
    if (mark != NULL) work.flags = component_in(mark, work.flags);
    kineto_gaps_put(to->gaps, &work, mark != NULL ? (int64_t)launch->mark : -1,
                    launch != NULL ? launch->ts_ns : work.begin_ns);
    if (mark == NULL) return STATUS_OK;
    trace_window *window = &to->events->marks[launch->mark].window;
    widen(window, work.begin_ns, work.end_ns);
    add_to_union(&to->windows[launch->mark], &work, &window->busy_ns, &window->communication_ns);
    if (window->cell < 0) return STATUS_OK;
    trace_cell *cell = &to->recording->cells[window->cell];
    add_to_union(&to->cells[window->cell], &work, &cell->busy_ns, &cell->communication_ns);
    return STATUS_OK;
}

static void sum_spans(const kineto_events *events, trace_recording *recording)
{
    for (size_t mark = 0; mark < events->mark_list.count; mark++) {
        const trace_window *window = &events->marks[mark].window;
        if (window->cell < 0 || window->work_begin_ns > window->work_end_ns) continue;
        recording->cells[window->cell].span_ns += window->work_end_ns - window->work_begin_ns;
    }
}

status trace_kineto_attribute_device(kineto_events *events, trace_recording *recording,
                                     error_message *err)
{
    placing to = {.events = events, .recording = recording};
    status result = STATUS_OK;
    place_launches(events);
    sort(events->works, events->work_list.count, sizeof *events->works, compare_work_begins);
    kineto_gaps_begin(events, recording, &to.gaps);
    to.windows = unions_create(events->mark_list.count);
    to.cells = unions_create((size_t)recording->cell_count);
    for (size_t work = 0; work < events->work_list.count && result == STATUS_OK; work++) {
        result = place_work(&to, events->works[work], err);
    }
    kineto_gaps_end(to.gaps);
    free(to.windows);
    free(to.cells);
    if (result == STATUS_OK) sum_spans(events, recording);
    return result;
}

/// The CPU at work on one thread: the operators and marks that are still to come.
typedef struct cpu_sweep {
    kineto_events *events;
    open_marks open;
    const uint32_t *marks; // [mark_count] of all threads, by thread, then as in events
    size_t next_mark;
    size_t mark_end;     // of this thread
    kineto_work *pieces; // what the operators are cut into: key is the mark
    kineto_list piece_list;
} cpu_sweep;

static void keep_piece(cpu_sweep *sweep, uint32_t mark, uint32_t flags, int64_t begin_ns,
                       int64_t end_ns)
{
    kineto_list *list = &sweep->piece_list;
    if (list->count == list->capacity) {
        list->capacity += list->capacity / 2 + 64;
        sweep->pieces = memory_resize(sweep->pieces, list->capacity, sizeof *sweep->pieces);
    }
    sweep->pieces[list->count++] =
        (kineto_work){.begin_ns = begin_ns, .end_ns = end_ns, .key = mark, .flags = flags};
}

static void add_cpu_time(cpu_sweep *sweep, uint32_t mark, uint32_t flags, int64_t begin_ns,
                         int64_t end_ns)
{
    if (mark == NO_MARK) {
        keep_piece(sweep, mark, flags, begin_ns, end_ns);
        return;
    }
    kineto_mark *owner = &sweep->events->marks[mark];
    widen(&owner->window, begin_ns, end_ns);
    const uint32_t component = component_in(owner, flags);
    keep_piece(sweep, (uint32_t)(owner - sweep->events->marks), component, begin_ns, end_ns);
    if (component == KINETO_COMMUNICATION) {
        owner->window.communication_ns += end_ns - begin_ns;
    } else {
        owner->window.busy_ns += end_ns - begin_ns;
    }
}

/// Shares out [begin_ns, end_ns) of an operator among the marks that are open meanwhile.
///
/// @return the mark that its first moment belongs to
static uint32_t share_operator(cpu_sweep *sweep, uint32_t thread, uint32_t flags, int64_t begin_ns,
                               int64_t end_ns)
{
    kineto_mark *marks = sweep->events->marks;
    uint32_t *top = &sweep->open.top_of_thread[thread];
    uint32_t first = NO_MARK;
    bool is_first = true;
    for (int64_t moment_ns = begin_ns; moment_ns < end_ns || is_first;) {
        while (sweep->next_mark < sweep->mark_end &&
               marks[sweep->marks[sweep->next_mark]].window.begin_ns <= moment_ns) {
            open_marks_push(&sweep->open, sweep->marks[sweep->next_mark++], thread, 0);
        }
        // What ends at this very moment is over, unless the operator has no length.
        const int64_t needed_ns = moment_ns < end_ns ? moment_ns + 1 : moment_ns;
        const uint32_t mark =
            open_marks_top(&sweep->open, top, sweep->open.below_in_thread, needed_ns);
        int64_t until_ns = end_ns;
        if (mark != NO_MARK && marks[mark].window.end_ns < until_ns) {
            until_ns = marks[mark].window.end_ns;
        }
        if (sweep->next_mark < sweep->mark_end) {
            const int64_t next_ns = marks[sweep->marks[sweep->next_mark]].window.begin_ns;
            if (next_ns < until_ns) until_ns = next_ns;
        }
        if (is_first) first = mark;
        is_first = false;
        if (until_ns > moment_ns) {
            add_cpu_time(sweep, mark, flags, moment_ns, until_ns);
        }
        if (until_ns <= moment_ns) break;
        moment_ns = until_ns;
    }
    return first;
}

static void count_operator(trace_recording *recording, const kineto_events *events, uint32_t mark,
                           int64_t length_ns)
{
    trace_attribution *ops = &recording->ops;
    ops->total_ns += length_ns;
    if (mark == NO_MARK) {
        ops->outside++;
    } else if (events->marks[mark].window.is_load) {
        ops->loads++;
    } else {
        ops->others++;
    }
}

/// Operators of all threads, sorted by thread and begin. Nested ones add nothing and are not
/// counted; the rest of one that overlaps its neighbour is.
static void sweep_operators(cpu_sweep *sweep, const size_t *first_mark, trace_recording *recording)
{
    const kineto_events *events = sweep->events;
    int64_t covered_ns = INT64_MIN;
    uint32_t thread = UINT32_MAX;
    recording->ops.op_count = 0;
    for (size_t each = 0; each < events->work_list.count; each++) {
        const kineto_work *work = &events->works[each];
        if (work->key != thread) {
            thread = work->key;
            covered_ns = INT64_MIN;
            sweep->next_mark = first_mark[thread];
            sweep->mark_end = first_mark[thread + 1];
        }
        const int64_t begin_ns = work->begin_ns > covered_ns ? work->begin_ns : covered_ns;
        if (work->end_ns < begin_ns || (work->end_ns == covered_ns)) continue;
        recording->ops.op_count++;
        const uint32_t mark = share_operator(sweep, thread, work->flags, begin_ns, work->end_ns);
        count_operator(recording, events, mark, work->end_ns - begin_ns);
        covered_ns = work->end_ns;
    }
}

/// Marks by thread, keeping their order.
///
/// @param first_mark [thread_count + 1] out
static void group_marks(const kineto_events *events, size_t *first_mark, uint32_t *marks)
{
    const size_t threads = events->thread_list.count;
    for (size_t mark = 0; mark < events->mark_list.count; mark++) {
        first_mark[events->marks[mark].thread + 1]++;
    }
    for (size_t thread = 0; thread < threads; thread++) {
        first_mark[thread + 1] += first_mark[thread];
    }
    for (size_t mark = events->mark_list.count; mark-- > 0;) {
        marks[--first_mark[events->marks[mark].thread + 1]] = (uint32_t)mark;
    }
    // Each place now holds the begin of its thread, one entry late.
    for (size_t thread = 0; thread < threads; thread++) {
        first_mark[thread] = first_mark[thread + 1];
    }
    first_mark[threads] = events->mark_list.count;
}

/// Divides the time of the process among what ran, of all threads.
static void divide_cpu_time(cpu_sweep *sweep, trace_recording *recording)
{
    kineto_gaps *gaps = NULL;
    sort(sweep->pieces, sweep->piece_list.count, sizeof *sweep->pieces, compare_work_begins);
    kineto_gaps_begin(sweep->events, recording, &gaps);
    for (size_t piece = 0; piece < sweep->piece_list.count; piece++) {
        const kineto_work *each = &sweep->pieces[piece];
        kineto_gaps_put(gaps, each, each->key == NO_MARK ? -1 : (int64_t)each->key, each->begin_ns);
    }
    kineto_gaps_end(gaps);
    free(sweep->pieces);
}

static void sum_cpu_cells(const kineto_events *events, trace_recording *recording)
{
    for (size_t mark = 0; mark < events->mark_list.count; mark++) {
        const trace_window *window = &events->marks[mark].window;
        if (window->cell < 0) continue;
        recording->cells[window->cell].busy_ns += window->busy_ns;
        recording->cells[window->cell].communication_ns += window->communication_ns;
    }
    sum_spans(events, recording);
}

void trace_kineto_attribute_cpu(kineto_events *events, trace_recording *recording)
{
    size_t *first_mark = memory_array(events->thread_list.count + 2, sizeof *first_mark);
    uint32_t *marks = memory_array(events->mark_list.count + 1, sizeof *marks);
    cpu_sweep sweep = {.events = events, .marks = marks};
    open_marks_init(events, &sweep.open);
    sort(events->works, events->work_list.count, sizeof *events->works, compare_work_times);
    group_marks(events, first_mark, marks);
    sweep_operators(&sweep, first_mark, recording);
    sum_cpu_cells(events, recording);
    divide_cpu_time(&sweep, recording);
    open_marks_free(&sweep.open);
    free(first_mark);
    free(marks);
}
