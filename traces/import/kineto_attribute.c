/// Which kernels ran for which op and layer.
#include "base/arena.h"
#include "traces/import/kineto_collect.h"

#define NO_MARK KINETO_NO_MARK

static int compare_runs(const void *a, const void *b)
{
    const kineto_run *left = a;
    const kineto_run *right = b;
    if (left->begin_ns != right->begin_ns) return left->begin_ns < right->begin_ns ? -1 : 1;
    if (left->end_ns != right->end_ns) return left->end_ns > right->end_ns ? -1 : 1;
    return (left->key > right->key) - (left->key < right->key);
}

/// The mark around a launch: on its thread or, where that has none, in its process.
static uint32_t mark_of_launch(const kineto_events *events, const kineto_nesting *nesting,
                               const kineto_launch *launch)
{
    const kineto_lane *lanes[] = {&nesting->threads[launch->thread],
                                  &nesting->processes[events->runners[launch->thread].process]};
    const kineto_open *open = NULL;
    for (int lane = 0; lane < 2 && open == NULL; lane++) {
        const size_t begun_count = kineto_begun_count(lanes[lane], launch->ts_ns);
        open = kineto_innermost(lanes[lane], begun_count, launch->ts_ns);
    }
    return open != NULL ? open->mark : NO_MARK;
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

/// Gives every device operation the mark of its launch: of several of one correlation, of the one
/// whose mark is the first, and which began first.
///
/// @param runs out
static status match(kineto_events *events, const kineto_nesting *nesting, sorter *runs,
                    trace_attribution *ops, error_message *err)
{
    const void *next = NULL;
    const void *record = NULL;
    kineto_launch found = {.correlation = KINETO_NO_CORRELATION};
    uint32_t mark = NO_MARK; // of found
    TRY(sorter_sort(events->launches, err));
    TRY(sorter_sort(events->works, err));
    TRY(sorter_next(events->launches, &next, err));
    for (;;) {
        TRY(sorter_next(events->works, &record, err));
        if (record == NULL) return STATUS_OK;
        const kineto_work *work = record;
        while (next != NULL && ((const kineto_launch *)next)->correlation <= work->key) {
            const kineto_launch launch = *(const kineto_launch *)next;
            const uint32_t own = mark_of_launch(events, nesting, &launch);
            if (found.correlation != launch.correlation || own < mark) {
                found = launch;
                mark = own;
            }
            TRY(sorter_next(events->launches, &next, err));
        }
        const bool is_launched =
            work->key != KINETO_NO_CORRELATION && found.correlation == work->key;
        kineto_run run = {work->begin_ns, work->end_ns, work->begin_ns,
                          work->key,      NO_MARK,      work->flags};
        if (is_launched) run.ready_ns = found.ts_ns;
        if (is_launched) run.mark = mark;
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

/// Until when runs cover the time, by component. An operation begins no earlier than the last, and
/// none before 0.
typedef struct union_end {
    int64_t until_ns[2];
} union_end;

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
    union_end *windows = arena_array(events->scratch, events->mark_count, sizeof *windows);
    union_end *cells = arena_array(events->scratch, (size_t)recording->cell_count, sizeof *cells);
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
        if (!recording->on_device) cells[window->cell] = (union_end){0};
        trace_cell *cell = &recording->cells[window->cell];
        add_to_union(&cells[window->cell], run, &cell->busy_ns, &cell->communication_ns);
    }
    kineto_gaps_end(gaps);
    sum_spans(events, recording);
    return result;
}

/// Shares out [begin_ns, end) of an operator among the marks that are open meanwhile.
///
/// @param first  out: the mark that its first moment belongs to
/// @param pieces out: kineto_run; key is the mark
static status share_operator(const kineto_events *events, const kineto_lane *lane,
                             const kineto_work *work, int64_t begin_ns, uint32_t *first,
                             sorter *pieces, error_message *err)
{
    int64_t moment_ns = begin_ns;
    do {
        // What ends at this very moment is over, unless the operator has no length.
        const size_t begun_count = kineto_begun_count(lane, moment_ns);
        const kineto_open *open =
            kineto_innermost(lane, begun_count, moment_ns + (moment_ns < work->end_ns));
        const uint32_t mark = open != NULL ? open->mark : NO_MARK;
        int64_t until_ns = work->end_ns;
        if (open != NULL && events->marks[mark].window.end_ns < until_ns) {
            until_ns = events->marks[mark].window.end_ns;
        }
        if (begun_count < lane->count) {
            const int64_t next_ns = kineto_open_window(lane, begun_count)->begin_ns;
            if (next_ns < until_ns) until_ns = next_ns;
        }
        if (moment_ns == begin_ns) *first = mark;
        if (until_ns <= moment_ns) break;
        kineto_run piece = {moment_ns, until_ns, moment_ns, mark, mark, work->flags};
        if (open != NULL) piece.flags = component_in(&events->marks[mark], work->flags);
        TRY(sorter_put(pieces, &piece, err));
        moment_ns = until_ns;
    } while (moment_ns < work->end_ns);
    return STATUS_OK;
}

/// Operators of all threads, sorted by thread and begin. Nested ones add nothing and are not
/// counted; the rest of one that overlaps its neighbour is.
static status share_operators(const kineto_events *events, const kineto_nesting *nesting,
                              sorter *pieces, trace_attribution *ops, error_message *err)
{
    const void *record = NULL;
    int64_t covered_ns = INT64_MIN;
    uint32_t thread = UINT32_MAX;
    ops->op_count = 0;
    TRY(sorter_sort(events->works, err));
    for (;;) {
        TRY(sorter_next(events->works, &record, err));
        const kineto_work *work = record;
        if (work == NULL) return STATUS_OK;
        if (work->key != thread) covered_ns = INT64_MIN;
        thread = work->key;
        const int64_t begin_ns = work->begin_ns > covered_ns ? work->begin_ns : covered_ns;
        if (work->end_ns < begin_ns || (work->end_ns == covered_ns)) continue;
        ops->op_count++;
        uint32_t mark = NO_MARK;
        TRY(share_operator(events, &nesting->threads[thread], work, begin_ns, &mark, pieces, err));
        count_op(events, mark, ops);
        ops->total_ns += work->end_ns - begin_ns;
        covered_ns = work->end_ns;
    }
}

status trace_kineto_attribute(kineto_events *events, trace_recording *recording, error_message *err)
{
    sorter *runs = sorter_create(sizeof(kineto_run), compare_runs);
    const kineto_nesting nesting = kineto_nesting_of(events);
    status result = recording->on_device
                        ? match(events, &nesting, runs, &recording->ops, err)
                        : share_operators(events, &nesting, runs, &recording->ops, err);
    sorter_destroy(events->launches);
    sorter_destroy(events->works);
    events->launches = events->works = NULL;
    if (result == STATUS_OK) result = sum_runs(events, recording, runs, err);
    sorter_destroy(runs);
    return result;
}
