/// Which kernels ran for which op and layer.
#include "base/arena.h"
#include "traces/import/kineto_collect.h"

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

/// [count] of no mark.
static uint32_t *no_marks(size_t count, arena *memory)
{
    uint32_t *made = arena_array(memory, count, sizeof *made);
    for (size_t each = 0; each < count; each++) {
        made[each] = NO_MARK;
    }
    return made;
}

static open_marks open_marks_of(const kineto_events *events, arena *memory)
{
    return (open_marks){.marks = events->marks,
                        .top_of_thread = no_marks(events->thread_count, memory),
                        .top_of_process = no_marks(events->process_count, memory),
                        .below_in_thread = no_marks(events->mark_count, memory),
                        .below_in_process = no_marks(events->mark_count, memory)};
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

/// By correlation; of one correlation, the launch that has a mark and began first comes first.
static int compare_launches(const void *a, const void *b)
{
    const kineto_launch *left = a;
    const kineto_launch *right = b;
    if (left->correlation != right->correlation) {
        return left->correlation < right->correlation ? -1 : 1;
    }
    if (left->mark != right->mark) return left->mark < right->mark ? -1 : 1;
    return (left->ts_ns > right->ts_ns) - (left->ts_ns < right->ts_ns);
}

static int compare_runs(const void *a, const void *b)
{
    const kineto_run *left = a;
    const kineto_run *right = b;
    if (left->begin_ns != right->begin_ns) return left->begin_ns < right->begin_ns ? -1 : 1;
    if (left->end_ns != right->end_ns) return left->end_ns > right->end_ns ? -1 : 1;
    return (left->key > right->key) - (left->key < right->key);
}

/// The mark of the next launch in time.
///
/// @param next_mark the first that has not begun
static uint32_t mark_of_launch(const kineto_events *events, const kineto_launch *launch,
                               open_marks *open, uint32_t *next_mark)
{
    const int64_t moment_ns = launch->ts_ns;
    for (; *next_mark < events->mark_count; ++*next_mark) {
        const kineto_mark *next = &events->marks[*next_mark];
        if (next->window.begin_ns > moment_ns) break;
        open_marks_push(open, *next_mark, next->thread, events->runners[next->thread].process);
    }
    const uint32_t process = events->runners[launch->thread].process;
    const uint32_t mark = open_marks_top(open, &open->top_of_thread[launch->thread],
                                         open->below_in_thread, moment_ns);
    if (mark != NO_MARK) return mark;
    return open_marks_top(open, &open->top_of_process[process], open->below_in_process, moment_ns);
}

/// Launches with their marks. @param placed out: by correlation
static status place_launches(kineto_events *events, sorter *placed, error_message *err)
{
    const void *record = NULL;
    uint32_t next_mark = 0;
    TRY(sorter_sort(events->launches, err));
    arena *scratch = arena_create(1 << 16);
    open_marks open = open_marks_of(events, scratch);
    status result = sorter_next(events->launches, &record, err);
    while (result == STATUS_OK && record != NULL) {
        kineto_launch launch = *(const kineto_launch *)record;
        launch.mark = mark_of_launch(events, &launch, &open, &next_mark);
        result = sorter_put(placed, &launch, err);
        if (result == STATUS_OK) result = sorter_next(events->launches, &record, err);
    }
    arena_destroy(scratch);
    return result == STATUS_OK ? sorter_sort(placed, err) : result;
}

static uint32_t component_in(const kineto_mark *mark, uint32_t flags)
{
    return mark->is_communication ? KINETO_COMMUNICATION : flags;
}

/// Counts an operation or operator by the mark that it is attributed to.
static void count_op(const kineto_events *events, uint32_t mark, trace_attribution *ops)
{
    if (mark == NO_MARK) {
        ops->outside++;
    } else if (events->marks[mark].window.is_load) {
        ops->loads++;
    } else {
        ops->others++;
    }
}

static status count_work(const kineto_events *events, const kineto_run *run, bool is_launched,
                         trace_attribution *ops, error_message *err)
{
    if (__builtin_add_overflow(ops->total_ns, run->end_ns - run->begin_ns, &ops->total_ns)) {
        return error_set(err, STATUS_INVALID, "%s: its operations last longer than 64 bits",
                         events->path);
    }
    if (is_launched) {
        count_op(events, run->mark, ops);
    } else {
        ops->without_launch++;
    }
    return STATUS_OK;
}

/// Gives every device operation the mark of its launch.
///
/// @param placed launches by correlation
/// @param runs   out
static status match(kineto_events *events, sorter *placed, sorter *runs, trace_attribution *ops,
                    error_message *err)
{
    const void *next = NULL;
    const void *record = NULL;
    TRY(sorter_sort(events->works, err));
    TRY(sorter_next(placed, &next, err));
    for (;;) {
        TRY(sorter_next(events->works, &record, err));
        if (record == NULL) return STATUS_OK;
        const kineto_work *work = record;
        while (next != NULL && ((const kineto_launch *)next)->correlation < work->key) {
            TRY(sorter_next(placed, &next, err));
        }
        const kineto_launch *launch = next;
        const bool is_launched = launch != NULL && launch->correlation == work->key;
        kineto_run run = {work->begin_ns, work->end_ns, work->begin_ns,
                          work->key,      NO_MARK,      work->flags};
        if (is_launched) run.ready_ns = launch->ts_ns;
        if (is_launched) run.mark = launch->mark;
        if (run.mark != NO_MARK) run.flags = component_in(&events->marks[run.mark], run.flags);
        TRY(count_work(events, &run, is_launched, ops, err));
        TRY(sorter_put(runs, &run, err));
    }
}

static void widen(trace_window *window, int64_t begin_ns, int64_t end_ns)
{
    if (begin_ns < window->work_begin_ns) window->work_begin_ns = begin_ns;
    if (end_ns > window->work_end_ns) window->work_end_ns = end_ns;
}

/// Until when runs cover the time, by component. An operation begins no earlier than the last.
typedef struct union_end {
    int64_t until_ns[2];
} union_end;

static const union_end no_union = {{INT64_MIN, INT64_MIN}};

/// Adds an operation to the length of the union of those before it.
static void add_to_union(union_end *end, const kineto_run *run, int64_t *busy_ns,
                         int64_t *communication_ns)
{
    const bool is_communication = run->flags == KINETO_COMMUNICATION;
    int64_t *until_ns = &end->until_ns[is_communication];
    const int64_t begin_ns = run->begin_ns > *until_ns ? run->begin_ns : *until_ns;
    if (run->end_ns <= begin_ns) return;
    *(is_communication ? communication_ns : busy_ns) += run->end_ns - begin_ns;
    *until_ns = run->end_ns;
}

/// [count] unions that hold nothing.
static union_end *unions_create(size_t count, arena *memory)
{
    union_end *ends = arena_array(memory, count, sizeof *ends);
    for (size_t each = 0; each < count; each++) {
        ends[each] = no_union;
    }
    return ends;
}

static void sum_spans(const kineto_events *events, trace_recording *recording)
{
    for (size_t mark = 0; mark < events->mark_count; mark++) {
        const trace_window *window = &events->marks[mark].window;
        if (window->cell < 0 || window->work_begin_ns > window->work_end_ns) continue;
        recording->cells[window->cell].span_ns += window->work_end_ns - window->work_begin_ns;
    }
}

/// Adds what ran to its windows, cells and gaps.
///
/// @param runs by begin
static status sum_runs(kineto_events *events, trace_recording *recording, sorter *runs,
                       error_message *err)
{
    const void *record = NULL;
    TRY(sorter_sort(runs, err));
    // Annotations of one cell may overlap on the device; threads of the CPU add up.
    arena *scratch = arena_create(1 << 16);
    union_end *windows = unions_create(events->mark_count, scratch);
    union_end *cells = unions_create((size_t)recording->cell_count, scratch);
    kineto_gaps *gaps = kineto_gaps_begin(events, recording);
    status result = sorter_next(runs, &record, err);
    for (; result == STATUS_OK && record != NULL; result = sorter_next(runs, &record, err)) {
        const kineto_run *run = record;
        kineto_gaps_put(gaps, run);
        if (run->mark == NO_MARK) continue;
        trace_window *window = &events->marks[run->mark].window;
        widen(window, run->begin_ns, run->end_ns);
        add_to_union(&windows[run->mark], run, &window->busy_ns, &window->communication_ns);
        if (window->cell < 0) continue;
        if (!recording->on_device) cells[window->cell] = no_union;
        trace_cell *cell = &recording->cells[window->cell];
        add_to_union(&cells[window->cell], run, &cell->busy_ns, &cell->communication_ns);
    }
    kineto_gaps_end(gaps);
    sum_spans(events, recording);
    arena_destroy(scratch);
    return result;
}

status trace_kineto_attribute_device(kineto_events *events, trace_recording *recording,
                                     error_message *err)
{
    sorter *placed = sorter_create(sizeof(kineto_launch), compare_launches);
    sorter *runs = sorter_create(sizeof(kineto_run), compare_runs);
    status result = place_launches(events, placed, err);
    sorter_destroy(events->launches);
    events->launches = NULL;
    if (result == STATUS_OK) result = match(events, placed, runs, &recording->ops, err);
    sorter_destroy(placed);
    sorter_destroy(events->works);
    events->works = NULL;
    if (result == STATUS_OK) result = sum_runs(events, recording, runs, err);
    sorter_destroy(runs);
    return result;
}

/// The CPU at work on one thread: the operators and marks that are still to come.
typedef struct cpu_sweep {
    kineto_events *events;
    open_marks open;
    uint32_t *first_mark; // [thread_count] of a thread; NO_MARK: none
    uint32_t *mark_after; // [mark_count] the next of the same thread
    uint32_t next_mark;   // of this thread
    sorter *pieces;       // kineto_run by begin: what the operators are cut into; key is the mark
} cpu_sweep;

/// Shares out [begin_ns, end_ns) of an operator among the marks that are open meanwhile.
///
/// @param first out: the mark that its first moment belongs to
static status share_operator(cpu_sweep *sweep, uint32_t thread, uint32_t flags, int64_t begin_ns,
                             int64_t end_ns, uint32_t *first, error_message *err)
{
    const kineto_mark *marks = sweep->events->marks;
    uint32_t *top = &sweep->open.top_of_thread[thread];
    bool is_first = true;
    for (int64_t moment_ns = begin_ns; moment_ns < end_ns || is_first;) {
        for (; sweep->next_mark != NO_MARK && marks[sweep->next_mark].window.begin_ns <= moment_ns;
             sweep->next_mark = sweep->mark_after[sweep->next_mark]) {
            open_marks_push(&sweep->open, sweep->next_mark, thread, 0);
        }
        // What ends at this very moment is over, unless the operator has no length.
        const int64_t needed_ns = moment_ns < end_ns ? moment_ns + 1 : moment_ns;
        const uint32_t mark =
            open_marks_top(&sweep->open, top, sweep->open.below_in_thread, needed_ns);
        int64_t until_ns = end_ns;
        if (mark != NO_MARK && marks[mark].window.end_ns < until_ns) {
            until_ns = marks[mark].window.end_ns;
        }
        if (sweep->next_mark != NO_MARK && marks[sweep->next_mark].window.begin_ns < until_ns) {
            until_ns = marks[sweep->next_mark].window.begin_ns;
        }
        if (is_first) *first = mark;
        is_first = false;
        if (until_ns <= moment_ns) break;
        kineto_run piece = {moment_ns, until_ns, moment_ns, mark, mark, flags};
        if (mark != NO_MARK) piece.flags = component_in(&marks[mark], flags);
        TRY(sorter_put(sweep->pieces, &piece, err));
        moment_ns = until_ns;
    }
    return STATUS_OK;
}

/// Operators of all threads, sorted by thread and begin. Nested ones add nothing and are not
/// counted; the rest of one that overlaps its neighbour is.
static status sweep_operators(cpu_sweep *sweep, trace_recording *recording, error_message *err)
{
    const kineto_events *events = sweep->events;
    const void *record = NULL;
    int64_t covered_ns = INT64_MIN;
    uint32_t thread = UINT32_MAX;
    recording->ops.op_count = 0;
    TRY(sorter_sort(events->works, err));
    for (;;) {
        TRY(sorter_next(events->works, &record, err));
        const kineto_work *work = record;
        if (work == NULL) return STATUS_OK;
        if (work->key != thread) {
            thread = work->key;
            covered_ns = INT64_MIN;
            sweep->next_mark = sweep->first_mark[thread];
        }
        const int64_t begin_ns = work->begin_ns > covered_ns ? work->begin_ns : covered_ns;
        if (work->end_ns < begin_ns || (work->end_ns == covered_ns)) continue;
        recording->ops.op_count++;
        uint32_t mark = NO_MARK;
        TRY(share_operator(sweep, thread, work->flags, begin_ns, work->end_ns, &mark, err));
        count_op(events, mark, &recording->ops);
        recording->ops.total_ns += work->end_ns - begin_ns;
        covered_ns = work->end_ns;
    }
}

status trace_kineto_attribute_cpu(kineto_events *events, trace_recording *recording,
                                  error_message *err)
{
    arena *scratch = arena_create(1 << 16);
    cpu_sweep sweep = {.events = events,
                       .open = open_marks_of(events, scratch),
                       .first_mark = no_marks(events->thread_count, scratch),
                       .mark_after = no_marks(events->mark_count, scratch),
                       .pieces = sorter_create(sizeof(kineto_run), compare_runs)};
    for (size_t mark = events->mark_count; mark-- > 0;) {
        uint32_t *first = &sweep.first_mark[events->marks[mark].thread];
        sweep.mark_after[mark] = *first;
        *first = (uint32_t)mark;
    }
    status result = sweep_operators(&sweep, recording, err);
    if (result == STATUS_OK) result = sum_runs(events, recording, sweep.pieces, err);
    sorter_destroy(sweep.pieces);
    arena_destroy(scratch);
    return result;
}
