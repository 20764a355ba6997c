/// Time in which the GPU waited: why, and to which op it is charged.
#include "base/arena.h"
#include "traces/import/kineto_collect.h"

#include <stdlib.h>
#include <string.h>

/// Until when what began in order covers the time, and whose it is.
typedef struct cover {
    int64_t until_ns;
    uint32_t mark;
    uint32_t place; // of an iteration
} cover;

/// Covers of one kind that are not over, the next to end first.
typedef struct cover_queue {
    cover *covers; // [count], of which those before first are over
    size_t count;
    size_t first;
} cover_queue;

struct kineto_gaps {
    const kineto_events *events;
    trace_recording *recording;
    kineto_list stretches; // of the host, one per iteration, by begin; number: its place
    bool may_wait;         // what comes before an op may be waiting for another rank
    size_t next_pause;
    cover_queue compute;
    cover_queue communication;
    int64_t now_ns;    // what is before is divided
    int current;       // place of the iteration; -1: none yet
    uint32_t last;     // mark of what ran last
    int64_t before_ns; // in no op since the last op
};

static void queue_push(cover_queue *queue, cover added)
{
    if (queue->first < queue->count && queue->covers[queue->count - 1].until_ns >= added.until_ns) {
        return; // what began before it hides it
    }
    if (queue->first > queue->count / 2) {
        queue->count -= queue->first;
        memmove(queue->covers, queue->covers + queue->first, queue->count * sizeof *queue->covers);
        queue->first = 0;
    }
    queue->covers = memory_grow(queue->covers, queue->count, sizeof *queue->covers);
    queue->covers[queue->count++] = added;
}

/// What covers now_ns; NULL: nothing.
static const cover *queue_top(cover_queue *queue, int64_t now_ns)
{
    while (queue->first < queue->count && queue->covers[queue->first].until_ns <= now_ns) {
        queue->first++;
    }
    return queue->first < queue->count ? &queue->covers[queue->first] : NULL;
}

/// The iterations that cells are of, which are sorted by them.
static void list_iterations(trace_recording *recording, arena *memory)
{
    for (int cell = 0; cell < recording->cell_count; cell++) {
        const int iteration = recording->cells[cell].iteration;
        if (cell > 0 && iteration == recording->cells[cell - 1].iteration) continue;
        const size_t count = (size_t)recording->iteration_count++;
        recording->iterations =
            arena_grow(memory, recording->iterations, count, sizeof *recording->iterations);
        recording->iterations[count] = (trace_iteration_time){
            .iteration = iteration, .begin_ns = INT64_MAX, .end_ns = INT64_MIN};
    }
}

static int compare_iterations(const void *a, const void *b)
{
    const trace_iteration_time *left = a;
    const trace_iteration_time *right = b;
    return (left->iteration > right->iteration) - (left->iteration < right->iteration);
}

int trace_recording_place(const trace_recording *recording, int iteration)
{
    const trace_iteration_time key = {.iteration = iteration};
    if (recording->iteration_count == 0) return -1;
    const trace_iteration_time *found =
        bsearch(&key, recording->iterations, (size_t)recording->iteration_count, sizeof key,
                compare_iterations);
    return found != NULL ? (int)(found - recording->iterations) : -1;
}

static void widen(trace_iteration_time *iteration, int64_t begin_ns, int64_t end_ns)
{
    if (begin_ns < iteration->begin_ns) iteration->begin_ns = begin_ns;
    if (end_ns > iteration->end_ns) iteration->end_ns = end_ns;
}

/// When the iterations were on the host: their steps, or from first to last annotation.
static void find_stretches(kineto_gaps *gaps)
{
    const kineto_events *events = gaps->events;
    trace_recording *recording = gaps->recording;
    const kineto_list *steps = &events->lists[KINETO_STEP];
    const bool by_steps = steps->count > 0 && recording->naming != TRACE_NAMED_BY_DYNMO;
    for (size_t at = 0; by_steps && at < steps->count; at++) {
        const kineto_span *step = &steps->spans[at];
        const int place = trace_recording_place(recording, step->number);
        if (place >= 0) widen(&recording->iterations[place], step->begin_ns, step->end_ns);
    }
    for (size_t mark = 0; !by_steps && mark < events->mark_count; mark++) {
        const trace_window *window = &events->marks[mark].window;
        const int place = trace_recording_place(recording, window->iteration);
        if (place < 0) continue;
        widen(&recording->iterations[place], window->begin_ns, window->end_ns);
    }
    for (int place = 0; place < recording->iteration_count; place++) {
        const trace_iteration_time *each = &recording->iterations[place];
        const kineto_span stretch = {each->begin_ns, each->end_ns, .number = place};
        kineto_list_add(&gaps->stretches, stretch);
    }
    kineto_list_sort(&gaps->stretches, kineto_compare_times);
}

kineto_gaps *kineto_gaps_begin(const kineto_events *events, trace_recording *recording)
{
    kineto_gaps *begun = memory_array(1, sizeof *begun);
    begun->events = events;
    begun->recording = recording;
    begun->may_wait =
        recording->naming >= TRACE_NAMED_BY_PIPELINE && recording->naming <= TRACE_NAMED_BY_GPIPE;
    begun->last = KINETO_NO_MARK;
    begun->current = -1;
    list_iterations(recording, events->memory);
    find_stretches(begun);
    begun->now_ns = recording->iteration_count > 0 ? begun->stretches.spans[0].begin_ns : INT64_MAX;
    return begun;
}

static const kineto_mark *mark_at(const kineto_gaps *gaps, uint32_t mark)
{
    return mark == KINETO_NO_MARK ? NULL : &gaps->events->marks[mark];
}

static bool is_load(const kineto_mark *mark)
{
    return mark != NULL && mark->window.is_load;
}

static void enter(kineto_gaps *gaps, int place)
{
    if (place == gaps->current) return;
    if (gaps->current >= 0) {
        gaps->recording->iterations[gaps->current].tail_ns += gaps->before_ns;
    }
    gaps->current = place;
    gaps->before_ns = 0;
}

/// Time of an op.
static void charge(kineto_gaps *gaps, uint32_t mark, int place, int64_t length_ns)
{
    trace_window *window = &gaps->events->marks[mark].window;
    enter(gaps, place);
    window->charge_ns += length_ns;
    window->before_ns += gaps->before_ns;
    gaps->before_ns = 0;
}

static void leave_out(kineto_gaps *gaps, int place, trace_gap gap, int64_t length_ns)
{
    enter(gaps, place);
    gaps->recording->iterations[place].outside_ns[gap] += length_ns;
    gaps->before_ns += length_ns;
}

static trace_gap cause_of_work(const kineto_mark *mark)
{
    if (mark == NULL) return TRACE_GAP_OUTSIDE;
    switch (mark->window.kind) {
    case TRACE_OP_OPTIMIZER_STEP:
        return TRACE_GAP_OPTIMIZER;
    case TRACE_OP_REDUCE_GRADIENTS:
        return TRACE_GAP_REDUCTION;
    default:
        return TRACE_GAP_WAITING; // messages
    }
}

/// [now_ns, end_ns), in which something of the mark ran and nothing else of its kind.
static void divide_work(kineto_gaps *gaps, const cover *top, int64_t end_ns, bool is_compute)
{
    const int64_t length_ns = end_ns - gaps->now_ns;
    const kineto_mark *mark = mark_at(gaps, top->mark);
    const int place = (int)top->place;
    if (is_load(mark)) {
        charge(gaps, top->mark, place, length_ns);
        if (!is_compute) {
            gaps->recording->iterations[place].charged_ns[TRACE_GAP_COMMUNICATION] += length_ns;
        }
    } else {
        leave_out(gaps, place, cause_of_work(mark), length_ns);
    }
    gaps->now_ns = end_ns;
    gaps->last = top->mark;
}

/// Part of a gap with one cause, in front of what next runs.
static void divide_gap(kineto_gaps *gaps, uint32_t owner, uint32_t next, int place, trace_gap gap,
                       int64_t end_ns)
{
    const int64_t length_ns = end_ns - gaps->now_ns;
    if (length_ns <= 0) return;
    gaps->now_ns = end_ns;
    if (owner == KINETO_NO_MARK) {
        leave_out(gaps, place, gap, length_ns);
        return;
    }
    trace_window *window = &gaps->events->marks[owner].window;
    const bool is_lead = gaps->may_wait && owner == next && gaps->last != next;
    if (is_lead) {
        window->lead_ns += length_ns;
        leave_out(gaps, place, TRACE_GAP_WAITING, length_ns);
        return;
    }
    charge(gaps, owner, place, length_ns);
    gaps->recording->iterations[place].charged_ns[gap] += length_ns;
}

/// The host's part of a gap, until end_ns: pauses that are known, and the rest.
static void divide_host(kineto_gaps *gaps, uint32_t owner, uint32_t next, int place, int64_t end_ns)
{
    const kineto_list *pauses = &gaps->events->lists[KINETO_PAUSE];
    while (gaps->next_pause < pauses->count) {
        const kineto_span *pause = &pauses->spans[gaps->next_pause];
        if (pause->begin_ns >= end_ns) break;
        if (pause->begin_ns > gaps->now_ns) {
            divide_gap(gaps, owner, next, place, TRACE_GAP_HOST, pause->begin_ns);
        }
        divide_gap(gaps, owner, next, place, (trace_gap)pause->number,
                   pause->end_ns < end_ns ? pause->end_ns : end_ns);
        if (pause->end_ns > end_ns) break;
        gaps->next_pause++;
    }
    divide_gap(gaps, owner, next, place, TRACE_GAP_HOST, end_ns);
}

static int64_t least(int64_t left, int64_t right)
{
    return left < right ? left : right;
}

/// A gap within one iteration, in front of a launch at ready_ns: it fell in the op that was to run,
/// once the host was in it or if it had just been in another op; else in the op that ran last, as
/// long as the host was in that; else in none.
static void divide_in_iteration(kineto_gaps *gaps, uint32_t next, int place, int64_t ready_ns,
                                int64_t end_ns)
{
    const kineto_mark *after = mark_at(gaps, next);
    const kineto_mark *last = mark_at(gaps, gaps->last);
    const int iteration = gaps->recording->iterations[place].iteration;
    const int64_t launched_ns = least(ready_ns, end_ns);
    const bool has_next = is_load(after) && after->window.iteration == iteration;
    const bool has_last = is_load(last) && last->window.iteration == iteration;
    if (!has_next || !has_last) {
        const int64_t left_ns = has_last ? least(last->window.end_ns, launched_ns) : INT64_MIN;
        const int64_t entered_ns =
            has_next ? least(after->window.begin_ns, launched_ns) : INT64_MAX;
        if (left_ns > gaps->now_ns) divide_host(gaps, gaps->last, next, place, left_ns);
        divide_host(gaps, KINETO_NO_MARK, next, place, least(entered_ns, launched_ns));
    }
    const uint32_t owner = has_next ? next : KINETO_NO_MARK;
    divide_host(gaps, owner, next, place, launched_ns);
    divide_gap(gaps, owner, next, place, TRACE_GAP_LAUNCH, end_ns);
}

/// [now_ns, end_ns), in which nothing ran; what next runs was launched at ready_ns.
///
/// @param of the iteration that next is of; -1: nothing runs next
static void divide_idle(kineto_gaps *gaps, uint32_t next, int of, int64_t ready_ns, int64_t end_ns)
{
    while (gaps->now_ns < end_ns) {
        // One that is over counts too: the device may lag behind.
        const int at = kineto_span_at(&gaps->stretches, gaps->now_ns);
        const kineto_span *stretch = &gaps->stretches.spans[at];
        // The device lags behind: the gap is of the iteration that is still to run.
        if (of >= 0 && gaps->recording->iterations[of].begin_ns < stretch->begin_ns) {
            divide_in_iteration(gaps, next, of, ready_ns, end_ns);
            return;
        }
        const bool is_over = gaps->now_ns >= stretch->end_ns && stretch->number != of;
        const bool is_last = at + 1 == gaps->recording->iteration_count;
        int64_t until_ns = is_last ? INT64_MAX : gaps->stretches.spans[at + 1].begin_ns;
        if (gaps->now_ns < stretch->end_ns) until_ns = least(until_ns, stretch->end_ns);
        until_ns = least(until_ns, end_ns);
        if (is_over) {
            gaps->now_ns = until_ns; // between two steps, or after the last
        } else {
            const bool is_next = until_ns == end_ns;
            divide_in_iteration(gaps, is_next ? next : KINETO_NO_MARK, stretch->number,
                                is_next ? ready_ns : until_ns, until_ns);
        }
    }
}

/// Divides the time until end_ns.
static void advance(kineto_gaps *gaps, uint32_t next, int of, int64_t ready_ns, int64_t end_ns)
{
    while (gaps->now_ns < end_ns) {
        const cover *compute = queue_top(&gaps->compute, gaps->now_ns);
        const cover *other = queue_top(&gaps->communication, gaps->now_ns);
        if (compute != NULL) {
            divide_work(gaps, compute, least(compute->until_ns, end_ns), true);
        } else if (other != NULL) {
            divide_work(gaps, other, least(other->until_ns, end_ns), false);
        } else {
            divide_idle(gaps, next, of, ready_ns, end_ns);
        }
    }
}

void kineto_gaps_put(kineto_gaps *gaps, const kineto_run *run)
{
    const kineto_mark *found = mark_at(gaps, run->mark);
    int place =
        found != NULL ? trace_recording_place(gaps->recording, found->window.iteration) : -1;
    if (place < 0) {
        const int at = kineto_span_at(&gaps->stretches, run->ready_ns);
        if (at < 0 || run->ready_ns > gaps->stretches.spans[at].end_ns) return; // of no iteration
        place = gaps->stretches.spans[at].number;
    }
    if (run->end_ns <= gaps->now_ns && run->begin_ns < gaps->now_ns) return;
    advance(gaps, run->mark, place, run->ready_ns, run->begin_ns);
    const cover added = {run->end_ns, run->mark, (uint32_t)place};
    const bool is_communication = (run->flags & KINETO_COMMUNICATION) != 0;
    queue_push(is_communication ? &gaps->communication : &gaps->compute, added);
    trace_iteration_time *iteration = &gaps->recording->iterations[place];
    if (run->end_ns > iteration->end_ns) iteration->end_ns = run->end_ns;
}

/// Iterations one after the other: one that lasted longer than its step ends where it ended.
static void end_iterations(kineto_gaps *gaps)
{
    int64_t end_ns = INT64_MIN;
    for (int at = 0; at < gaps->recording->iteration_count; at++) {
        trace_iteration_time *each = &gaps->recording->iterations[gaps->stretches.spans[at].number];
        if (each->begin_ns < end_ns) each->begin_ns = end_ns;
        if (each->end_ns < each->begin_ns) each->end_ns = each->begin_ns;
        end_ns = each->end_ns;
    }
}

void kineto_gaps_end(kineto_gaps *gaps)
{
    trace_recording *recording = gaps->recording;
    int64_t end_ns = INT64_MIN;
    for (int place = 0; place < recording->iteration_count; place++) {
        if (recording->iterations[place].end_ns > end_ns) {
            end_ns = recording->iterations[place].end_ns;
        }
    }
    if (recording->iteration_count > 0) advance(gaps, KINETO_NO_MARK, -1, end_ns, end_ns);
    enter(gaps, -1);
    end_iterations(gaps);
    for (size_t mark = 0; mark < gaps->events->mark_count; mark++) {
        const trace_window *window = &gaps->events->marks[mark].window;
        if (window->cell >= 0) recording->cells[window->cell].charge_ns += window->charge_ns;
    }
    free(gaps->compute.covers);
    free(gaps->communication.covers);
    free(gaps->stretches.spans);
    free(gaps);
}
