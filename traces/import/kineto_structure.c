// Layers of traces whose annotations say none: from modules, numbered names and repeated operators.
#include "base/arena.h"
#include "traces/import/kineto_collect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPERATORS_MAX = 20000, PERIOD_MIN = 3, PERIOD_MAX = 4096, PARTS_MAX = 64, LAYERS_MAX = 512 };

/// What is known of the spans of one group that do not lie in one another.
typedef struct span_group {
    const kineto_span *last;
    int64_t total_ns;
    int number_min; // -1: not all are numbered
    int number_max;
} span_group;

static span_group *survey_groups(const kineto_collector *collector)
{
    const kineto_list *spans = &collector->events.lists[KINETO_UNKNOWN];
    span_group *groups = memory_array((size_t)collector->groups.count + 1, sizeof *groups);
    for (size_t each = 0; each < spans->count; each++) {
        const kineto_span *span = &spans->spans[each];
        span_group *group = &groups[span->group];
        if (kineto_is_inside(span, group->last)) continue;
        if (group->last == NULL || span->number < group->number_min) {
            group->number_min = span->number;
        }
        if (span->number > group->number_max) group->number_max = span->number;
        group->last = span;
        group->total_ns += span->end_ns - span->begin_ns;
    }
    return groups;
}

/// How long the steps last, or where there are none, the spans.
static int64_t steps_ns(const kineto_events *events)
{
    const kineto_list *steps = &events->lists[KINETO_STEP];
    const kineto_list *spans = &events->lists[KINETO_UNKNOWN];
    int64_t sum_ns = 0;
    int64_t first_ns = INT64_MAX;
    int64_t last_ns = 0;
    for (size_t step = 0; step < steps->count; step++) {
        sum_ns += steps->spans[step].end_ns - steps->spans[step].begin_ns;
    }
    for (size_t each = 0; each < spans->count; each++) {
        if (spans->spans[each].begin_ns < first_ns) first_ns = spans->spans[each].begin_ns;
        if (spans->spans[each].end_ns > last_ns) last_ns = spans->spans[each].end_ns;
    }
    return steps->count > 0 ? sum_ns : last_ns - first_ns;
}

/// The numbered group that lasts longest, modules before annotations, and at least a tenth of the
/// steps (annotations a third); -1: there is none.
static int64_t longest_group(const kineto_collector *collector, const span_group *groups)
{
    int64_t best = -1;
    bool was_module = false;
    const int64_t lasted_ns = steps_ns(&collector->events);
    for (uint32_t group = 0; group < collector->groups.count; group++) {
        const span_group *each = &groups[group];
        if (each->last == NULL || each->number_min < 0) continue;
        if (each->number_min == each->number_max) continue;
        const bool is_module = each->last->role == KINETO_SPAN_MODULE;
        if (each->total_ns < lasted_ns / (is_module ? 10 : 3)) continue;
        if (each->last->role == KINETO_SPAN_BACKWARD) continue;
        const bool is_better = best < 0 || (is_module && !was_module) ||
                               (is_module == was_module && each->total_ns > groups[best].total_ns);
        if (!is_better) continue;
        best = (int64_t)group;
        was_module = is_module;
    }
    return best;
}

static status put_mark(kineto_collector *collector, trace_op_kind kind, int layer, uint32_t thread,
                       int64_t begin_ns, int64_t end_ns, error_message *err)
{
    const trace_annotation annotation = {.naming = TRACE_NAMED_BY_STRUCTURE,
                                         .kind = kind,
                                         .iteration = TRACE_NOT_RECORDED,
                                         .layer = layer,
                                         .microbatch = TRACE_NOT_RECORDED};
    return kineto_collect_mark(collector, &annotation, thread, begin_ns, end_ns, err);
}

/// The shortest module that holds [first, last] of one thread and is not of their group; NULL:
/// none.
static const kineto_span *module_around(const kineto_events *events, const kineto_span *first,
                                        const kineto_span *last)
{
    const kineto_list *spans = &events->lists[KINETO_UNKNOWN];
    const kineto_span *found = NULL;
    for (size_t each = 0; each < spans->count; each++) {
        const kineto_span *span = &spans->spans[each];
        if (span->role != KINETO_SPAN_MODULE || span->group == first->group) continue;
        if (span->thread != first->thread || span->begin_ns > first->begin_ns) continue;
        if (span->end_ns < last->end_ns) continue;
        if (found == NULL || span->begin_ns >= found->begin_ns) found = span;
    }
    return found;
}

/// The first span of a list by times that begins in [begin, end); NULL: there is none.
static const kineto_span *first_in(const kineto_list *list, int64_t begin_ns, int64_t end_ns)
{
    const kineto_span key = {begin_ns, INT64_MIN, .number = INT32_MIN};
    const size_t place = kineto_list_place(list, key, kineto_compare_times);
    const bool is_found = place < list->count && list->spans[place].begin_ns < end_ns;
    return is_found ? &list->spans[place] : NULL;
}

/// Layers of one group, outermost spans, as they ran.
typedef struct group_passes {
    kineto_span *spans; // [count]; number is the layer
    size_t count;
    int layer_count;
} group_passes;

static group_passes spans_of_group(const kineto_events *events, int64_t group)
{
    const kineto_list *all = &events->lists[KINETO_UNKNOWN];
    arena *scratch = events->scratch;
    group_passes passes = {0};
    int *layer_of = arena_array(scratch, TRACE_LAYERS_MAX, sizeof *layer_of);
    passes.spans = arena_array(scratch, all->count, sizeof *passes.spans);
    for (size_t each = 0; each < all->count; each++) {
        const kineto_span *span = &all->spans[each];
        const kineto_span *last = passes.count > 0 ? &passes.spans[passes.count - 1] : NULL;
        if (span->group != group || kineto_is_inside(span, last)) continue;
        layer_of[span->number] = 1;
        passes.spans[passes.count++] = *span;
    }
    for (int number = 0; number < TRACE_LAYERS_MAX; number++) {
        if (layer_of[number] != 0) layer_of[number] = passes.layer_count++;
    }
    for (size_t each = 0; each < passes.count; each++) {
        passes.spans[each].number = layer_of[passes.spans[each].number];
    }
    return passes;
}

static size_t pass_end(const group_passes *passes, size_t first)
{
    size_t end = first + 1;
    while (end < passes->count && passes->spans[end].thread == passes->spans[first].thread &&
           passes->spans[end].number > passes->spans[end - 1].number) {
        end++;
    }
    return end;
}

/// One pass through the layers; with a module around them, what it runs before them is the first
/// layer, and what runs after them until the backward, the last.
static status mark_pass(kineto_collector *collector, const group_passes *passes, size_t first,
                        size_t end, bool has_ends, error_message *err)
{
    const kineto_events *events = &collector->events;
    const kineto_span *spans = passes->spans;
    const uint32_t thread = spans[first].thread;
    if (has_ends) {
        const kineto_span *around = module_around(events, &spans[first], &spans[end - 1]);
        const bool has_next = end < passes->count && spans[end].thread == thread;
        const int64_t next_ns = has_next ? spans[end].begin_ns : INT64_MAX;
        const kineto_span *back =
            first_in(&events->lists[KINETO_BACKWARD], around->end_ns, next_ns);
        TRY(put_mark(collector, TRACE_OP_FORWARD, 0, thread, around->begin_ns,
                     spans[first].begin_ns, err));
        TRY(put_mark(collector, TRACE_OP_FORWARD, passes->layer_count + 1, thread,
                     spans[end - 1].end_ns, back != NULL ? back->begin_ns : around->end_ns, err));
    }
    for (size_t each = first; each < end; each++) {
        TRY(put_mark(collector, TRACE_OP_FORWARD, spans[each].number + has_ends, thread,
                     spans[each].begin_ns, spans[each].end_ns, err));
    }
    return STATUS_OK;
}

/// Every span of the group is a layer, in the order of their numbers.
static status mark_group(kineto_collector *collector, int64_t group, error_message *err)
{
    const group_passes passes = spans_of_group(&collector->events, group);
    bool has_ends = true;
    for (size_t first = 0; first < passes.count && has_ends; first = pass_end(&passes, first)) {
        const kineto_span *last = &passes.spans[pass_end(&passes, first) - 1];
        has_ends = module_around(&collector->events, &passes.spans[first], last) != NULL;
    }
    for (size_t first = 0, end = 0; first < passes.count; first = end) {
        end = pass_end(&passes, first);
        TRY(mark_pass(collector, &passes, first, end, has_ends, err));
    }
    return STATUS_OK;
}

/// A stretch of operators of one thread in which one forward runs.
typedef struct region {
    kineto_span span;
    const kineto_span *operators; // [count] outermost ones, by begin
    size_t count;
    int layer_count;
    size_t *first_operator; // [layer_count] of each layer; NULL: not divided
} region;

/// Operators that repeat: first, first + period, ...
typedef struct repetition {
    size_t first;
    size_t period;
    size_t repeats; // 0: none
} repetition;

/// The repetition in [begin, end) that covers most operators, the shortest of those.
static repetition find_repetition(const region *of, size_t begin, size_t end, size_t period_min)
{
    const kineto_span *ops = of->operators;
    repetition found = {0};
    for (size_t period = period_min; begin + period * 2 <= end && period <= PERIOD_MAX; period++) {
        size_t equal = 0;
        for (size_t at = begin + period; at < end; at++) {
            equal = ops[at].group == ops[at - period].group ? equal + 1 : 0;
            const size_t repeats = equal / period + 1;
            if (repeats < 2 || repeats * period <= found.repeats * found.period) continue;
            found = (repetition){at + 1 - period - equal, period, repeats};
        }
    }
    return found;
}

/// Divides a region where its operators repeat, then what is left of it on either side by
/// repetitions of about that length; one layer if less than half of it repeats.
static void divide(region *of, arena *scratch)
{
    size_t parts[PARTS_MAX][2] = {{0, of->count}};
    size_t covered = 0;
    size_t period_min = PERIOD_MIN;
    bool *begins_layer = arena_array(scratch, of->count + 1, sizeof *begins_layer);
    for (int part = 0, count = 1; part < count; part++) {
        const size_t end = parts[part][1];
        const repetition found = find_repetition(of, parts[part][0], end, period_min);
        if (found.repeats == 0) continue;
        const size_t after = found.first + found.period * found.repeats;
        if (part == 0 && found.period / 2 > period_min) period_min = found.period / 2;
        covered += found.period * found.repeats;
        for (size_t first = found.first; first <= after; first += found.period) {
            begins_layer[first] = true;
        }
        if (count + 2 > PARTS_MAX) break;
        const size_t sides[2][2] = {{parts[part][0], found.first}, {after, end}};
        memcpy(parts[count], sides, sizeof sides);
        count += 2;
    }
    if (covered * 2 < of->count) return;
    of->first_operator = arena_array(scratch, LAYERS_MAX, sizeof *of->first_operator);
    for (size_t op = 1; op < of->count && of->layer_count < LAYERS_MAX; op++) {
        if (begins_layer[op]) of->first_operator[of->layer_count++] = op;
    }
}

/// Marks of one forward: from the first operator of each layer to that of the next.
static status mark_region(kineto_collector *collector, const region *of, error_message *err)
{
    int64_t begin_ns = of->span.begin_ns;
    for (int layer = 0; layer < of->layer_count; layer++) {
        const bool is_last = layer + 1 == of->layer_count;
        const int64_t end_ns =
            is_last ? of->span.end_ns : of->operators[of->first_operator[layer + 1]].begin_ns;
        TRY(put_mark(collector, TRACE_OP_FORWARD, layer, of->span.thread, begin_ns, end_ns, err));
        begin_ns = end_ns;
    }
    return STATUS_OK;
}

/// Leaves the outermost operators, by thread and begin.
static void keep_outermost(kineto_list *operators)
{
    size_t kept = 0;
    kineto_list_sort(operators, kineto_compare_threads);
    for (size_t each = 0; each < operators->count; each++) {
        const kineto_span *span = &operators->spans[each];
        const kineto_span *last = kept > 0 ? &operators->spans[kept - 1] : NULL;
        if (kineto_is_inside(span, last) && span->end_ns <= last->end_ns) continue;
        operators->spans[kept++] = *span;
    }
    operators->count = kept;
}

/// The operators of the region's thread that begin in it.
static void find_operators(const kineto_list *operators, region *of)
{
    const kineto_span key = {of->span.begin_ns, INT64_MAX, .thread = of->span.thread};
    const size_t low = kineto_list_place(operators, key, kineto_compare_threads);
    if (operators->count == 0) return;
    of->operators = operators->spans + low;
    while (low + of->count < operators->count &&
           of->operators[of->count].thread == of->span.thread &&
           of->operators[of->count].begin_ns < of->span.end_ns) {
        of->count++;
    }
}

/// The thread that launches most, or runs most operators where none launches.
static uint32_t main_thread(const kineto_events *events)
{
    const kineto_list *sources = &events->lists[KINETO_SOURCE];
    const kineto_list *operators = &events->lists[KINETO_OPERATOR];
    int64_t *counts = memory_array(events->thread_count + 1, sizeof *counts);
    uint32_t most = 0;
    for (size_t each = 0; each < sources->count; each++) {
        counts[sources->spans[each].thread] += INT64_C(1) << 40; // with a backward: a forward
    }
    for (size_t each = 0; each < operators->count; each++) {
        counts[operators->spans[each].thread] += 2;
    }
    for (uint32_t thread = 0; thread < events->thread_count; thread++) {
        counts[thread] += events->runners[thread].launch_count;
        if (counts[thread] > counts[most]) most = thread;
    }
    free(counts);
    return most;
}

/// Forwards of a step without annotations: each until the first operator of its backward, the next
/// from the end of that. Backwards that no links lead to are marked. Sources are by time.
static status divide_step(kineto_collector *collector, kineto_span step, error_message *err)
{
    kineto_list *lists = collector->events.lists;
    const kineto_list *backwards = &lists[KINETO_BACKWARD];
    const kineto_span *first = NULL; // of a backward
    kineto_span forward = step;
    for (size_t each = 0; each < backwards->count; each++) {
        const kineto_span *backward = &backwards->spans[each];
        if (backward->begin_ns < step.begin_ns || backward->begin_ns >= step.end_ns) continue;
        forward.end_ns = backward->begin_ns;
        if (first == NULL ||
            first_in(&lists[KINETO_SOURCE], forward.begin_ns, forward.end_ns) != NULL) {
            kineto_list_add(&lists[KINETO_FORWARD], forward);
        }
        if (first == NULL) first = backward;
        if (backward->end_ns > forward.begin_ns) forward.begin_ns = backward->end_ns;
    }
    if (first == NULL) kineto_list_add(&lists[KINETO_FORWARD], step);
    if (first == NULL || lists[KINETO_TARGET].count > 0) return STATUS_OK;
    return put_mark(collector, TRACE_OP_BACKWARD, 0, first->thread, first->begin_ns,
                    forward.begin_ns, err);
}

/// From the first to the last launch or operator.
static kineto_span all_of_file(const kineto_events *events)
{
    const kineto_list *operators = &events->lists[KINETO_OPERATOR];
    kineto_span all = {.begin_ns = INT64_MAX, .end_ns = INT64_MIN};
    if (events->launches != NULL) {
        all.begin_ns = events->first_launch_ns;
        all.end_ns = events->last_launch_ns;
    }
    for (size_t each = 0; each < operators->count; each++) {
        const kineto_span *span = &operators->spans[each];
        if (span->begin_ns < all.begin_ns) all.begin_ns = span->begin_ns;
        if (span->end_ns > all.end_ns) all.end_ns = span->end_ns;
    }
    return all;
}

static status divide_steps(kineto_collector *collector, error_message *err)
{
    const kineto_list *steps = &collector->events.lists[KINETO_STEP];
    kineto_span whole = all_of_file(&collector->events);
    const kineto_list one = {&whole, whole.begin_ns <= whole.end_ns};
    const kineto_list *divided = steps->count > 0 ? steps : &one;
    const uint32_t thread = main_thread(&collector->events);
    if (collector->events.thread_count == 0) return STATUS_OK; // steps, and nothing that ran
    for (size_t each = 0; each < divided->count; each++) {
        kineto_span step = divided->spans[each];
        step.thread = thread;
        TRY(divide_step(collector, step, err));
    }
    return STATUS_OK;
}

/// The outermost of the annotations that are called forward, or backward.
static void find_words(const kineto_list *spans, kineto_span_role role, kineto_list *found)
{
    for (size_t each = 0; each < spans->count; each++) {
        const kineto_span *span = &spans->spans[each];
        const kineto_span *last = found->count > 0 ? &found->spans[found->count - 1] : NULL;
        if (span->role == role && !kineto_is_inside(span, last)) kineto_list_add(found, *span);
    }
}

/// How many layers of a region have a forward whose backward was recorded.
static int count_linked_layers(const kineto_events *events, const region *of)
{
    const kineto_list *targets = &events->lists[KINETO_TARGET];
    bool is_linked[LAYERS_MAX] = {false};
    int linked = 0;
    for (size_t target = 0; target < targets->count; target++) {
        const kineto_span *source = kineto_source_of(events, &targets->spans[target]);
        if (source == NULL || source->thread != of->span.thread) continue;
        if (source->begin_ns < of->span.begin_ns || source->begin_ns >= of->span.end_ns) continue;
        int layer = of->layer_count - 1;
        while (layer > 0 && of->operators[of->first_operator[layer]].begin_ns > source->begin_ns) {
            layer--;
        }
        linked += !is_linked[layer];
        is_linked[layer] = true;
    }
    return linked;
}

/// Divides the forwards into layers where all of them repeat operators alike and the backwards of
/// most can be found.
///
/// @param regions [count of forwards] out
static bool divide_regions(kineto_events *events, region *regions)
{
    const kineto_list *forwards = &events->lists[KINETO_FORWARD];
    kineto_list_sort(&events->lists[KINETO_SOURCE], kineto_compare_groups);
    if (forwards->count == 0 || events->lists[KINETO_TARGET].count == 0) return false;
    for (size_t each = 0; each < forwards->count; each++) {
        region *of = &regions[each];
        find_operators(&events->lists[KINETO_OPERATOR], of);
        if (of->count <= OPERATORS_MAX) divide(of, events->scratch);
        if (of->layer_count == 1 || of->layer_count != regions[0].layer_count) return false;
    }
    return count_linked_layers(events, &regions[0]) * 2 > regions[0].layer_count;
}

/// Whether annotations that nobody knows fill half of the steps: they divide the model, and a phase
/// map has to say how.
static bool is_annotated(const kineto_events *events)
{
    const kineto_list *spans = &events->lists[KINETO_UNKNOWN];
    const kineto_span *last = NULL;
    int64_t sum_ns = 0;
    for (size_t each = 0; each < spans->count; each++) {
        const kineto_span *span = &spans->spans[each];
        if (span->role == KINETO_SPAN_MODULE || kineto_is_inside(span, last)) continue;
        sum_ns += span->end_ns - span->begin_ns;
        last = span;
    }
    return events->lists[KINETO_STEP].count > 0 && sum_ns >= steps_ns(events) / 2;
}

static int64_t length_of(const kineto_list *list)
{
    int64_t sum_ns = 0;
    for (size_t each = 0; each < list->count; each++) {
        sum_ns += list->spans[each].end_ns - list->spans[each].begin_ns;
    }
    return sum_ns;
}

static status mark_forwards(kineto_collector *collector, error_message *err)
{
    kineto_events *events = &collector->events;
    const kineto_list *spans = &events->lists[KINETO_UNKNOWN];
    kineto_list *forwards = &events->lists[KINETO_FORWARD];
    kineto_list *backwards = &events->lists[KINETO_WHOLE_BACKWARD];
    find_words(spans, KINETO_SPAN_FORWARD, forwards);
    const bool has_words = forwards->count > 0;
    if (!has_words && is_annotated(events)) return STATUS_OK;
    if (!has_words) TRY(divide_steps(collector, err));
    region *regions = arena_array(events->scratch, forwards->count, sizeof *regions);
    for (size_t each = 0; each < forwards->count; each++) {
        regions[each] = (region){.span = forwards->spans[each], .layer_count = 1};
    }
    const bool divides = divide_regions(events, regions);
    for (size_t each = 0; each < forwards->count; each++) {
        if (!divides) regions[each].layer_count = 1;
        TRY(mark_region(collector, &regions[each], err));
    }
    snprintf(collector->recording->structure, sizeof collector->recording->structure, "%s",
             divides ? "repeated operators of the forward" : "not told apart: it is one");
    if (has_words && !divides) find_words(spans, KINETO_SPAN_BACKWARD, backwards);
    // Hooks are called so, too.
    if (length_of(backwards) < length_of(forwards) / 2) return STATUS_OK;
    for (size_t each = 0; each < backwards->count; each++) {
        const kineto_span *span = &backwards->spans[each];
        TRY(put_mark(collector, TRACE_OP_BACKWARD, 0, span->thread, span->begin_ns, span->end_ns,
                     err));
    }
    return STATUS_OK;
}

int64_t trace_kineto_layer_group(kineto_collector *collector)
{
    kineto_list *spans = &collector->events.lists[KINETO_UNKNOWN];
    if (spans->count == 0) return -1;
    kineto_list_sort(spans, kineto_compare_threads);
    span_group *groups = survey_groups(collector);
    const int64_t longest = longest_group(collector, groups);
    free(groups);
    return longest;
}

status trace_kineto_find_structure(kineto_collector *collector, int64_t group, error_message *err)
{
    kineto_list *lists = collector->events.lists;
    kineto_list_sort(&lists[KINETO_BACKWARD], kineto_compare_times);
    kineto_list_sort(&lists[KINETO_SOURCE], kineto_compare_times);
    if (group >= 0) {
        snprintf(collector->recording->structure, sizeof collector->recording->structure,
                 "modules or annotations that differ in a number only");
        return mark_group(collector, group, err);
    }
    keep_outermost(&lists[KINETO_OPERATOR]);
    return mark_forwards(collector, err);
}
