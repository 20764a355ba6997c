/// Iterations, microbatches and layers, from what annotations say; and backwards that none names,
/// from what links a forward operator to its backward.
#include "base/arena.h"
#include "traces/import/kineto_collect.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/// Marks by begin, outer before inner, then as in the file.
static int compare_marks(const void *a, const void *b)
{
    const kineto_mark *left = a;
    const kineto_mark *right = b;
    if (left->window.begin_ns != right->window.begin_ns) {
        return left->window.begin_ns < right->window.begin_ns ? -1 : 1;
    }
    if (left->window.end_ns != right->window.end_ns) {
        return left->window.end_ns > right->window.end_ns ? -1 : 1;
    }
    return (left->order > right->order) - (left->order < right->order);
}

bool kineto_is_same_group(const kineto_key *left, const kineto_key *right)
{
    return memcmp(left->parts, right->parts, sizeof left->parts) == 0;
}

int kineto_compare_keys(const void *a, const void *b)
{
    const kineto_key *left = a;
    const kineto_key *right = b;
    int part = 0;
    while (part < KINETO_KEY_PARTS && left->parts[part] == right->parts[part]) {
        part++;
    }
    if (part < KINETO_KEY_PARTS) return left->parts[part] < right->parts[part] ? -1 : 1;
    return (left->order > right->order) - (left->order < right->order);
}

/// The end of the group that begins at first.
static size_t group_end(const kineto_key *keys, size_t count, size_t first)
{
    size_t end = first + 1;
    while (end < count && kineto_is_same_group(&keys[first], &keys[end])) {
        end++;
    }
    return end;
}

/// The last span that begins at or before a moment, if it lasts until then; NULL: none does.
static const kineto_span *span_at(const kineto_list *list, int64_t moment_ns)
{
    const int at = kineto_span_at(list, moment_ns);
    return at >= 0 && list->spans[at].end_ns >= moment_ns ? &list->spans[at] : NULL;
}

/// Keeps the loads of the finest naming, and what is no load.
static void keep_finest(kineto_events *events, trace_recording *recording)
{
    size_t kept = 0;
    recording->naming = TRACE_NAMING_COUNT;
    for (size_t mark = 0; mark < events->mark_count; mark++) {
        const kineto_mark *each = &events->marks[mark];
        if (each->window.is_load && each->naming < recording->naming) {
            recording->naming = (trace_naming)each->naming;
        }
    }
    for (size_t mark = 0; mark < events->mark_count; mark++) {
        const kineto_mark *each = &events->marks[mark];
        if (each->window.is_load && each->naming != recording->naming) continue;
        events->marks[kept++] = *each;
    }
    events->mark_count = kept;
}

/// dynmo's names number the iterations; what else happens belongs to the iteration of the last such
/// name before it, or of the first.
static void iterations_from_names(kineto_events *events)
{
    int current = TRACE_NOT_RECORDED;
    for (size_t mark = 0; mark < events->mark_count && current < 0; mark++) {
        if (events->marks[mark].window.is_load) current = events->marks[mark].window.iteration;
    }
    for (size_t mark = 0; mark < events->mark_count; mark++) {
        trace_window *window = &events->marks[mark].window;
        if (window->is_load) current = window->iteration;
        window->iteration = current;
    }
}

/// Iterations from ProfilerStep#<n>; marks outside all of them are left out.
static void iterations_from_steps(kineto_events *events, trace_recording *recording)
{
    size_t kept = 0;
    for (size_t mark = 0; mark < events->mark_count; mark++) {
        kineto_mark *each = &events->marks[mark];
        const kineto_span *step = span_at(&events->lists[KINETO_STEP], each->window.begin_ns);
        if (step == NULL) {
            recording->stray_window_count++;
            continue;
        }
        each->window.iteration = step->number;
        events->marks[kept++] = *each;
    }
    events->mark_count = kept;
}

/// Without steps, the k-th time that a name of the pipeline occurs is iteration k.
static void iterations_from_repetition(kineto_events *events, kineto_key *keys)
{
    const size_t count = events->mark_count;
    for (size_t mark = 0; mark < count; mark++) {
        const trace_window *window = &events->marks[mark].window;
        keys[mark] = (kineto_key){{(int32_t)window->kind, window->layer, window->microbatch, 0},
                                  (uint32_t)mark};
    }
    qsort(keys, count, sizeof *keys, kineto_compare_keys);
    for (size_t key = 0, first = 0; key < count; key++) {
        if (!kineto_is_same_group(&keys[first], &keys[key])) first = key;
        events->marks[keys[key].order].window.iteration = (int)(key - first);
    }
}

static status number_iterations(kineto_events *events, kineto_key *keys, trace_recording *recording,
                                error_message *err)
{
    recording->has_steps = true;
    if (recording->naming == TRACE_NAMED_BY_DYNMO) {
        iterations_from_names(events);
    } else if (events->lists[KINETO_STEP].count > 0) {
        iterations_from_steps(events, recording);
    } else if (!trace_naming_is_pipeline(recording->naming)) {
        recording->has_steps = false;
        for (size_t mark = 0; mark < events->mark_count; mark++) {
            events->marks[mark].window.iteration = 0;
        }
    } else {
        recording->has_steps = false;
        iterations_from_repetition(events, keys);
    }
    if (events->mark_count > 0) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "%s: all %" PRId64 " annotations of layers are outside every ProfilerStep",
                     events->path, recording->stray_window_count);
}

/// Gives the marks of one name in one scope their layers.
static status count_layers(kineto_events *events, const kineto_key *keys, size_t count, int layers,
                           error_message *err)
{
    const int per_pass = layers > 0 ? layers : (int)count;
    const int passes = (int)(count / (size_t)per_pass);
    const kineto_mark *first = &events->marks[keys[0].order];
    if (count % (size_t)per_pass != 0) {
        return error_set(err, STATUS_INVALID,
                         "%s: an annotation of iteration %d occurs %zu times, which is no multiple "
                         "of the phase map's layers, %d",
                         events->path, first->window.iteration, count, layers);
    }
    if (per_pass > TRACE_LAYERS_MAX) {
        return error_set(err, STATUS_INVALID,
                         "%s: an annotation of iteration %d occurs %zu times, more than %d layers",
                         events->path, first->window.iteration, count, TRACE_LAYERS_MAX);
    }
    for (size_t key = 0; key < count; key++) {
        kineto_mark *mark = &events->marks[keys[key].order];
        const int place = (int)(key % (size_t)per_pass);
        const int pass = (int)(key / (size_t)per_pass);
        mark->window.layer = mark->count == TRACE_COUNT_UP ? place : per_pass - 1 - place;
        if (mark->window.microbatch == TRACE_NOT_RECORDED) {
            mark->window.microbatch = mark->scope * passes + pass;
        }
    }
    return STATUS_OK;
}

/// The scopes' places in their iterations: 0 for the first, ...
static void number_scopes(kineto_list *scopes, const kineto_list *steps)
{
    const kineto_span *iteration = NULL;
    int number = 0;
    for (size_t scope = 0; scope < scopes->count; scope++) {
        const kineto_span *step = span_at(steps, scopes->spans[scope].begin_ns);
        if (step != iteration) number = 0;
        iteration = step;
        scopes->spans[scope].number = number++;
    }
}

/// Drops counted marks outside every scope, where there are scopes.
static void place_in_scopes(kineto_events *events, trace_recording *recording)
{
    kineto_list *scopes = &events->lists[KINETO_SCOPE];
    size_t kept = 0;
    number_scopes(scopes, &events->lists[KINETO_STEP]);
    for (size_t mark = 0; mark < events->mark_count; mark++) {
        kineto_mark *each = &events->marks[mark];
        const kineto_span *scope = span_at(scopes, each->window.begin_ns);
        if (scope != NULL) each->scope = scope->number;
        if (scope == NULL && each->count != TRACE_COUNT_NONE && scopes->count > 0) {
            recording->stray_window_count++;
            continue;
        }
        events->marks[kept++] = *each;
    }
    events->mark_count = kept;
}

static status place_layers(kineto_events *events, kineto_key *keys, int layers,
                           trace_recording *recording, error_message *err)
{
    size_t count = 0;
    place_in_scopes(events, recording);
    for (size_t mark = 0; mark < events->mark_count; mark++) {
        const kineto_mark *each = &events->marks[mark];
        if (each->count == TRACE_COUNT_NONE) continue;
        keys[count++] =
            (kineto_key){{each->window.iteration, each->scope, each->count, (int32_t)each->name},
                         (uint32_t)mark};
    }
    qsort(keys, count, sizeof *keys, kineto_compare_keys);
    size_t previous = 0;
    for (size_t first = 0; first < count;) {
        const size_t end = group_end(keys, count, first);
        const kineto_key *other = &keys[previous];
        const bool is_comparable = first > 0 && other->parts[0] == keys[first].parts[0] &&
                                   other->parts[1] == keys[first].parts[1] &&
                                   other->parts[2] == keys[first].parts[2];
        if (layers == 0 && is_comparable && first - previous != end - first) {
            return error_set(err, STATUS_INVALID,
                             "%s: iteration %d: two annotations that count layers the same way "
                             "occur %zu and %zu times: which layers are which cannot be told",
                             events->path, keys[first].parts[0], first - previous, end - first);
        }
        TRY(count_layers(events, keys + first, end - first, layers, err));
        previous = first;
        first = end;
    }
    return STATUS_OK;
}

/// Of what no name says, the k-th of a layer and phase in an iteration is of microbatch k.
static void microbatches_from_order(kineto_events *events, kineto_key *keys)
{
    const size_t count = events->mark_count;
    for (size_t mark = 0; mark < count; mark++) {
        const trace_window *window = &events->marks[mark].window;
        keys[mark] = (kineto_key){{window->iteration, window->layer, (int32_t)window->kind, 0},
                                  (uint32_t)mark};
    }
    qsort(keys, count, sizeof *keys, kineto_compare_keys);
    for (size_t key = 0, first = 0; key < count; key++) {
        if (!kineto_is_same_group(&keys[first], &keys[key])) first = key;
        trace_window *window = &events->marks[keys[key].order].window;
        if (window->is_load) window->microbatch = (int)(key - first);
    }
}

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

/// The innermost forward on the thread of a source at its moment; -1: none.
static int forward_of(const kineto_events *events, const kineto_nesting *nesting,
                      const kineto_span *source)
{
    const kineto_lane *lane = &nesting->threads[source->thread];
    size_t begun_count = kineto_begun_count(lane, source->begin_ns);
    for (;;) {
        const kineto_open *open = kineto_innermost(lane, begun_count, source->begin_ns);
        if (open == NULL) return -1;
        if (events->marks[open->mark].window.is_load) return (int)open->mark;
        begun_count = (size_t)(open->around + 1);
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
static size_t find_runs(const kineto_events *events, const kineto_nesting *nesting,
                        kineto_span *runs)
{
    const kineto_list *targets = &events->lists[KINETO_TARGET];
    size_t count = 0;
    for (size_t each = 0; each < targets->count; each++) {
        const kineto_span *source = kineto_source_of(events, &targets->spans[each]);
        if (source == NULL) continue; // as of the accumulation of gradients
        kineto_span run = targets->spans[each];
        run.number = forward_of(events, nesting, source);
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

/// Where no annotation is of a backward: gives every run of backward operators, of which the
/// forward ran in one annotation of a forward, a mark of its own, as a full backward of the same
/// layer and microbatch. Marks must be sorted by begin; the new ones stand after them.
///
/// @return their number
static int link_backward(kineto_events *events)
{
    kineto_list *lists = events->lists;
    const size_t before = events->mark_count;
    if (lists[KINETO_TARGET].count == 0 || trace_kineto_has_backward(events)) return 0;
    kineto_list_sort(&lists[KINETO_SOURCE], kineto_compare_groups);
    kineto_list_sort(&lists[KINETO_TARGET], kineto_compare_threads);
    kineto_list_sort(&lists[KINETO_BACKWARD], kineto_compare_threads);
    const kineto_nesting nesting = kineto_nesting_of(events);
    kineto_span *runs = arena_array(events->scratch, lists[KINETO_TARGET].count, sizeof *runs);
    const size_t count = find_runs(events, &nesting, runs);
    events->marks = memory_resize(events->marks, before + count + 1, sizeof *events->marks);
    for (size_t run = 0; run < count; run++) {
        if (runs[run].number < 0) continue;
        const kineto_mark mark = backward_mark(events, &runs[run]);
        events->marks[events->mark_count++] = mark;
    }
    return (int)(events->mark_count - before);
}

static status number_cells(kineto_events *events, trace_recording *recording, error_message *err)
{
    kineto_key *keys = arena_array(events->scratch, events->mark_count, sizeof *keys);
    size_t count = 0;
    for (size_t mark = 0; mark < events->mark_count; mark++) {
        const trace_window *window = &events->marks[mark].window;
        if (!window->is_load) continue;
        keys[count++] = (kineto_key){
            {window->iteration, window->layer, window->microbatch, (int32_t)window->kind},
            (uint32_t)mark};
    }
    qsort(keys, count, sizeof *keys, kineto_compare_keys);
    recording->cells = arena_array(events->memory, count, sizeof *recording->cells);
    for (size_t first = 0; first < count;) {
        const size_t end = group_end(keys, count, first);
        const trace_window *window = &events->marks[keys[first].order].window;
        if (end - first > 1 && trace_naming_is_pipeline(recording->naming)) {
            return error_set(err, STATUS_INVALID,
                             "%s: %s of stage %d, microbatch %d occurs %zu times in ProfilerStep#%d"
                             ": call prof.step() once per schedule step",
                             events->path, trace_op_kind_names[window->kind], window->layer,
                             window->microbatch, end - first, window->iteration);
        }
        for (size_t key = first; key < end; key++) {
            events->marks[keys[key].order].window.cell = recording->cell_count;
        }
        recording->cells[recording->cell_count++] = (trace_cell){.iteration = window->iteration,
                                                                 .layer = window->layer,
                                                                 .microbatch = window->microbatch,
                                                                 .kind = window->kind};
        first = end;
    }
    return STATUS_OK;
}

/// What neither name nor count says: the rank is the stage of "Forward 3"; microbatches that are
/// not told apart are one per scope.
static void fill_in(kineto_events *events, const trace_recording *recording)
{
    for (size_t mark = 0; mark < events->mark_count; mark++) {
        kineto_mark *each = &events->marks[mark];
        if (!each->window.is_load) continue;
        if (each->naming == TRACE_NAMED_BY_GPIPE) each->window.layer = recording->rank;
        if (each->window.microbatch == TRACE_NOT_RECORDED) each->window.microbatch = each->scope;
    }
}

status trace_kineto_resolve(kineto_events *events, int layers, trace_recording *recording,
                            error_message *err)
{
    keep_finest(events, recording);
    qsort(events->marks, events->mark_count, sizeof *events->marks, compare_marks);
    for (int kind = KINETO_STEP; kind <= KINETO_PAUSE; kind++) {
        kineto_list_sort(&events->lists[kind], kineto_compare_times);
    }
    kineto_key *keys = arena_array(events->scratch, events->mark_count, sizeof *keys);
    TRY(number_iterations(events, keys, recording, err));
    TRY(place_layers(events, keys, layers, recording, err));
    if (recording->naming == TRACE_NAMED_BY_STRUCTURE) microbatches_from_order(events, keys);
    fill_in(events, recording);
    recording->linked_count = link_backward(events);
    qsort(events->marks, events->mark_count, sizeof *events->marks, compare_marks);
    recording->has_backward = trace_kineto_has_backward(events);
    return number_cells(events, recording, err);
}
