// Layers of traces whose annotations say none: from modules, numbered names and repeated operators.
#include "base/arena.h"
#include "traces/import/kineto_collect.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPERATORS_MAX = 20000, PERIOD_MIN = 3, PERIOD_MAX = 4096, PARTS_MAX = 64, LAYERS_MAX = 512 };

static bool contains(const char *name, const char *word)
{
    for (; *name != '\0'; name++) {
        size_t at = 0;
        while (word[at] != '\0' && tolower((unsigned char)name[at]) == word[at]) {
            at++;
        }
        if (word[at] == '\0') return true;
    }
    return false;
}

kineto_span_role kineto_span_role_of(const char *name)
{
    if (strncmp(name, "nn.Module: ", 11) == 0) return KINETO_SPAN_MODULE;
    if (contains(name, "backward")) return KINETO_SPAN_BACKWARD;
    return contains(name, "forward") ? KINETO_SPAN_FORWARD : KINETO_SPAN_OTHER;
}

int kineto_span_number(const char *name, char group[KINETO_NAME_BYTES])
{
    size_t end = strlen(name);
    while (end > 0 && !isdigit((unsigned char)name[end - 1])) {
        end--;
    }
    size_t begin = end;
    while (begin > 0 && isdigit((unsigned char)name[begin - 1])) {
        begin--;
    }
    snprintf(group, KINETO_NAME_BYTES, "%.*s#%s", (int)begin, name, name + end);
    if (end == begin || end - begin > 5) return -1;
    const long number = strtol(name + begin, NULL, 10);
    return number < TRACE_LAYERS_MAX ? (int)number : -1;
}

static int compare_spans(const void *a, const void *b)
{
    const kineto_span *left = a;
    const kineto_span *right = b;
    if (left->thread != right->thread) return left->thread < right->thread ? -1 : 1;
    if (left->begin_ns != right->begin_ns) return left->begin_ns < right->begin_ns ? -1 : 1;
    if (left->end_ns != right->end_ns) return left->end_ns > right->end_ns ? -1 : 1;
    return (left->group > right->group) - (left->group < right->group);
}

/// What is known of the spans of one group that do not lie in one another.
typedef struct span_group {
    int64_t end_ns; // of the last
    int64_t total_ns;
    uint32_t thread;
    int number_min; // -1: not all are numbered
    int number_max;
    int count;
    kineto_span_role role;
} span_group;

static span_group *survey_groups(const kineto_collector *collector)
{
    const kineto_events *events = &collector->events;
    span_group *groups = memory_array((size_t)collector->groups.count + 1, sizeof *groups);
    for (size_t each = 0; each < events->span_count; each++) {
        const kineto_span *span = &events->spans[each];
        span_group *group = &groups[span->group];
        group->role = span->role;
        if (group->count > 0 && group->thread == span->thread && span->begin_ns < group->end_ns) {
            continue;
        }
        if (group->count == 0 || span->number < group->number_min) {
            group->number_min = span->number;
        }
        if (span->number > group->number_max) group->number_max = span->number;
        group->count++;
        group->thread = span->thread;
        group->end_ns = span->end_ns;
        group->total_ns += span->end_ns - span->begin_ns;
    }
    return groups;
}

/// How long the steps last, or where there are none, the spans.
static int64_t steps_ns(const kineto_events *events)
{
    int64_t sum_ns = 0;
    int64_t first_ns = INT64_MAX;
    int64_t last_ns = 0;
    for (size_t step = 0; step < events->step_count; step++) {
        sum_ns += events->steps[step].end_ns - events->steps[step].begin_ns;
    }
    for (size_t each = 0; each < events->span_count; each++) {
        if (events->spans[each].begin_ns < first_ns) first_ns = events->spans[each].begin_ns;
        if (events->spans[each].end_ns > last_ns) last_ns = events->spans[each].end_ns;
    }
    return events->step_count > 0 ? sum_ns : last_ns - first_ns;
}

/// The numbered group that lasts longest, modules before annotations, and at least a tenth of the
/// steps (annotations a third); -1: there is none.
static int64_t longest_group(const kineto_collector *collector, const span_group *groups)
{
    int64_t best = -1;
    const int64_t lasted_ns = steps_ns(&collector->events);
    for (uint32_t group = 0; group < collector->groups.count; group++) {
        const span_group *each = &groups[group];
        const span_group *other = best >= 0 ? &groups[best] : NULL;
        if (each->number_min < 0 || each->number_min == each->number_max) continue;
        const int64_t share = each->role == KINETO_SPAN_MODULE ? 10 : 3;
        if (each->total_ns < lasted_ns / share) continue;
        if (each->role == KINETO_SPAN_BACKWARD) continue;
        const bool is_module = each->role == KINETO_SPAN_MODULE;
        const bool was_module = other != NULL && other->role == KINETO_SPAN_MODULE;
        const bool is_better = other == NULL || (is_module && !was_module) ||
                               (is_module == was_module && each->total_ns > other->total_ns);
        if (is_better) best = (int64_t)group;
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
    const kineto_span *found = NULL;
    for (size_t each = 0; each < events->span_count; each++) {
        const kineto_span *span = &events->spans[each];
        if (span->role != KINETO_SPAN_MODULE || span->group == first->group) continue;
        if (span->thread != first->thread || span->begin_ns > first->begin_ns) continue;
        if (span->end_ns < last->end_ns) continue;
        if (found == NULL || span->begin_ns >= found->begin_ns) found = span;
    }
    return found;
}

static int compare_backward_times(const void *a, const void *b)
{
    const kineto_work *left = a;
    const kineto_work *right = b;
    if (left->begin_ns != right->begin_ns) return left->begin_ns < right->begin_ns ? -1 : 1;
    return (left->end_ns > right->end_ns) - (left->end_ns < right->end_ns);
}

/// The first operator of a backward in [begin, end); end: there is none. Backwards are by begin.
static int64_t first_backward(const kineto_events *events, int64_t begin_ns, int64_t end_ns)
{
    const kineto_work key = {.begin_ns = begin_ns, .end_ns = INT64_MIN};
    const size_t low = sorted_place(events->backwards, events->backward_count, sizeof key, &key,
                                    compare_backward_times);
    const bool is_found = low < events->backward_count && events->backwards[low].begin_ns < end_ns;
    return is_found ? events->backwards[low].begin_ns : end_ns;
}

/// Layers of one group, outermost spans, as they ran.
typedef struct group_passes {
    kineto_span *spans; // [count]; number is the layer
    size_t count;
    int layer_count;
} group_passes;

static group_passes spans_of_group(const kineto_events *events, int64_t group, arena *scratch)
{
    group_passes passes = {0};
    int *layer_of = arena_array(scratch, TRACE_LAYERS_MAX, sizeof *layer_of);
    passes.spans = arena_array(scratch, events->span_count, sizeof *passes.spans);
    for (size_t each = 0; each < events->span_count; each++) {
        const kineto_span *span = &events->spans[each];
        const kineto_span *last = passes.count > 0 ? &passes.spans[passes.count - 1] : NULL;
        if (span->group != group) continue;
        if (last != NULL && last->thread == span->thread && span->begin_ns < last->end_ns) continue;
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
        const int64_t back_ns = first_backward(events, around->end_ns, next_ns);
        TRY(put_mark(collector, TRACE_OP_FORWARD, 0, thread, around->begin_ns,
                     spans[first].begin_ns, err));
        TRY(put_mark(collector, TRACE_OP_FORWARD, passes->layer_count + 1, thread,
                     spans[end - 1].end_ns, back_ns < next_ns ? back_ns : around->end_ns, err));
    }
    for (size_t each = first; each < end; each++) {
        TRY(put_mark(collector, TRACE_OP_FORWARD, spans[each].number + has_ends, thread,
                     spans[each].begin_ns, spans[each].end_ns, err));
    }
    return STATUS_OK;
}

/// Every span of the group is a layer, in the order of their numbers.
static status mark_group(kineto_collector *collector, int64_t group, arena *scratch,
                         error_message *err)
{
    const group_passes passes = spans_of_group(&collector->events, group, scratch);
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
    uint32_t thread;
    int64_t begin_ns;
    int64_t end_ns;
    const kineto_span *operators; // [count] outermost ones, by begin
    size_t count;
    int layer_count;
    size_t *first_operator; // [layer_count] of each layer; NULL: not divided
} region;

typedef struct region_list {
    region *regions; // [count]
    size_t count;
    arena *scratch; // of them
} region_list;

static void add_region(region_list *all, uint32_t thread, int64_t begin_ns, int64_t end_ns)
{
    all->regions = arena_grow(all->scratch, all->regions, all->count, sizeof *all->regions);
    all->regions[all->count++] =
        (region){.thread = thread, .begin_ns = begin_ns, .end_ns = end_ns, .layer_count = 1};
}

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

static void add_layer(region *of, size_t first)
{
    if (first == 0 || first >= of->count || of->layer_count == LAYERS_MAX) return;
    of->first_operator[of->layer_count++] = first;
}

static int compare_places(const void *a, const void *b)
{
    const size_t left = *(const size_t *)a;
    const size_t right = *(const size_t *)b;
    return (left > right) - (left < right);
}

/// Divides a region where its operators repeat, then what is left of it on either side by
/// repetitions of about that length; one layer if less than half of it repeats.
static void divide(region *of, arena *scratch)
{
    size_t parts[PARTS_MAX][2] = {{0, of->count}};
    size_t covered = 0;
    size_t period_min = PERIOD_MIN;
    of->first_operator = arena_array(scratch, LAYERS_MAX, sizeof *of->first_operator);
    for (int part = 0, count = 1; part < count; part++) {
        const size_t end = parts[part][1];
        const repetition found = find_repetition(of, parts[part][0], end, period_min);
        if (found.repeats == 0) continue;
        const size_t after = found.first + found.period * found.repeats;
        if (part == 0 && found.period / 2 > period_min) period_min = found.period / 2;
        covered += found.period * found.repeats;
        for (size_t repeat = 0; repeat <= found.repeats; repeat++) {
            add_layer(of, found.first + repeat * found.period);
        }
        if (count + 2 > PARTS_MAX) break;
        const size_t sides[2][2] = {{parts[part][0], found.first}, {after, end}};
        memcpy(parts[count], sides, sizeof sides);
        count += 2;
    }
    if (covered * 2 < of->count) of->layer_count = 1;
    qsort(of->first_operator, (size_t)of->layer_count, sizeof *of->first_operator, compare_places);
    int kept = 0;
    for (int layer = 0; layer < of->layer_count; layer++) {
        if (kept > 0 && of->first_operator[kept - 1] == of->first_operator[layer]) continue;
        of->first_operator[kept++] = of->first_operator[layer];
    }
    of->layer_count = kept;
}

/// Marks of one forward: from the first operator of each layer to that of the next.
static status mark_region(kineto_collector *collector, const region *of, error_message *err)
{
    int64_t begin_ns = of->begin_ns;
    for (int layer = 0; layer < of->layer_count; layer++) {
        const bool is_last = layer + 1 == of->layer_count;
        const int64_t end_ns =
            is_last ? of->end_ns : of->operators[of->first_operator[layer + 1]].begin_ns;
        TRY(put_mark(collector, TRACE_OP_FORWARD, layer, of->thread, begin_ns, end_ns, err));
        begin_ns = end_ns;
    }
    return STATUS_OK;
}

/// Leaves the outermost operators, by thread and begin.
static void keep_outermost(kineto_events *events)
{
    size_t kept = 0;
    kineto_sort(events->operators, events->operator_count, sizeof *events->operators,
                compare_spans);
    for (size_t each = 0; each < events->operator_count; each++) {
        const kineto_span *span = &events->operators[each];
        const kineto_span *last = kept > 0 ? &events->operators[kept - 1] : NULL;
        const bool is_inside = last != NULL && last->thread == span->thread &&
                               span->begin_ns < last->end_ns && span->end_ns <= last->end_ns;
        if (!is_inside) events->operators[kept++] = *span;
    }
    events->operator_count = kept;
}

/// The operators of the region's thread that begin in it.
static void find_operators(const kineto_events *events, region *of)
{
    const kineto_span key = {.begin_ns = of->begin_ns, .end_ns = INT64_MAX, .thread = of->thread};
    const size_t low =
        sorted_place(events->operators, events->operator_count, sizeof key, &key, compare_spans);
    if (events->operator_count == 0) return;
    of->operators = events->operators + low;
    while (low + of->count < events->operator_count &&
           of->operators[of->count].thread == of->thread &&
           of->operators[of->count].begin_ns < of->end_ns) {
        of->count++;
    }
}

/// The thread that launches most, or runs most operators where none launches.
static uint32_t main_thread(const kineto_events *events)
{
    int64_t *counts = memory_array(events->thread_count + 1, sizeof *counts);
    uint32_t most = 0;
    for (size_t each = 0; each < events->source_count; each++) {
        counts[events->sources[each].thread] += INT64_C(1)
                                                << 40; // what has a backward is a forward
    }
    for (size_t each = 0; each < events->operator_count; each++) {
        counts[events->operators[each].thread] += 2;
    }
    for (uint32_t thread = 0; thread < events->thread_count; thread++) {
        counts[thread] += events->runners[thread].launch_count;
        if (counts[thread] > counts[most]) most = thread;
    }
    free(counts);
    return most;
}

/// Whether a forward that has a backward runs in [begin, end). Sources are by time.
static bool has_source(const kineto_events *events, int64_t begin_ns, int64_t end_ns)
{
    const kineto_launch key = {.ts_ns = begin_ns};
    const size_t low =
        sorted_place(events->sources, events->source_count, sizeof key, &key, kineto_compare_times);
    return low < events->source_count && events->sources[low].ts_ns < end_ns;
}

/// Forwards of a step without annotations: each until the first operator of its backward, the next
/// from the end of that. Backwards that no links lead to are marked.
static status divide_step(kineto_collector *collector, const kineto_stretch *step, uint32_t thread,
                          region_list *all, error_message *err)
{
    const kineto_events *events = &collector->events;
    const kineto_work *first = NULL; // of a backward
    int64_t end_ns = step->begin_ns;
    for (size_t each = 0; each < events->backward_count; each++) {
        const kineto_work *backward = &events->backwards[each];
        if (backward->begin_ns < step->begin_ns || backward->begin_ns >= step->end_ns) continue;
        if (first == NULL || has_source(events, end_ns, backward->begin_ns)) {
            add_region(all, thread, end_ns, backward->begin_ns);
        }
        if (first == NULL) first = backward;
        if (backward->end_ns > end_ns) end_ns = backward->end_ns;
    }
    if (first == NULL) add_region(all, thread, step->begin_ns, step->end_ns);
    if (first == NULL || events->target_count > 0) return STATUS_OK;
    return put_mark(collector, TRACE_OP_BACKWARD, 0, first->key, first->begin_ns, end_ns, err);
}

/// From the first to the last launch or operator.
static kineto_stretch all_of_file(const kineto_events *events)
{
    kineto_stretch all = {INT64_MAX, INT64_MIN, 0};
    if (events->launches != NULL) {
        all = (kineto_stretch){events->first_launch_ns, events->last_launch_ns, 0};
    }
    for (size_t each = 0; each < events->operator_count; each++) {
        const kineto_span *span = &events->operators[each];
        if (span->begin_ns < all.begin_ns) all.begin_ns = span->begin_ns;
        if (span->end_ns > all.end_ns) all.end_ns = span->end_ns;
    }
    return all;
}

static status divide_steps(kineto_collector *collector, region_list *all, error_message *err)
{
    const kineto_events *events = &collector->events;
    const uint32_t thread = main_thread(events);
    for (size_t step = 0; step < events->step_count; step++) {
        TRY(divide_step(collector, &events->steps[step], thread, all, err));
    }
    if (events->step_count > 0) return STATUS_OK;
    const kineto_stretch whole = all_of_file(events);
    if (whole.begin_ns > whole.end_ns) return STATUS_OK;
    return divide_step(collector, &whole, thread, all, err);
}

/// The outermost of the annotations that are called forward, or backward.
static void find_words(const kineto_events *events, kineto_span_role role, region_list *all)
{
    for (size_t each = 0; each < events->span_count; each++) {
        const kineto_span *span = &events->spans[each];
        const region *last = all->count > 0 ? &all->regions[all->count - 1] : NULL;
        if (span->role != role) continue;
        if (last != NULL && last->thread == span->thread && span->begin_ns < last->end_ns) continue;
        add_region(all, span->thread, span->begin_ns, span->end_ns);
    }
}

/// How many layers of a region have a forward whose backward was recorded.
static int count_linked_layers(const kineto_events *events, const region *of)
{
    bool is_linked[LAYERS_MAX] = {false};
    int linked = 0;
    for (size_t target = 0; target < events->target_count; target++) {
        const kineto_launch *source = kineto_source_of(events, &events->targets[target]);
        if (source == NULL || source->thread != of->thread) continue;
        if (source->ts_ns < of->begin_ns || source->ts_ns >= of->end_ns) continue;
        int layer = of->layer_count - 1;
        while (layer > 0 && of->operators[of->first_operator[layer]].begin_ns > source->ts_ns) {
            layer--;
        }
        linked += !is_linked[layer];
        is_linked[layer] = true;
    }
    return linked;
}

/// Divides the forwards into layers where all of them repeat operators alike and the backwards of
/// most can be found.
static bool divide_regions(kineto_events *events, const region_list *all)
{
    region *regions = all->regions;
    const size_t count = all->count;
    kineto_sort_sources(events);
    bool divides = count > 0 && events->target_count > 0;
    for (size_t each = 0; each < count && divides; each++) {
        find_operators(events, &regions[each]);
        if (regions[each].count <= OPERATORS_MAX) divide(&regions[each], all->scratch);
        divides =
            regions[each].layer_count > 1 && regions[each].layer_count == regions[0].layer_count;
    }
    if (divides) divides = count_linked_layers(events, &regions[0]) * 2 > regions[0].layer_count;
    for (size_t each = 0; each < count && !divides; each++) {
        regions[each].layer_count = 1;
    }
    return divides;
}

/// Whether annotations that nobody knows fill half of the steps: they divide the model, and a phase
/// map has to say how.
static bool is_annotated(const kineto_events *events)
{
    const kineto_span *last = NULL;
    int64_t sum_ns = 0;
    for (size_t each = 0; each < events->span_count; each++) {
        const kineto_span *span = &events->spans[each];
        if (span->role == KINETO_SPAN_MODULE) continue;
        if (last != NULL && last->thread == span->thread && span->begin_ns < last->end_ns) continue;
        sum_ns += span->end_ns - span->begin_ns;
        last = span;
    }
    return events->step_count > 0 && sum_ns >= steps_ns(events) / 2;
}

static int64_t length_of(const region_list *all)
{
    int64_t sum_ns = 0;
    for (size_t each = 0; each < all->count; each++) {
        sum_ns += all->regions[each].end_ns - all->regions[each].begin_ns;
    }
    return sum_ns;
}

static status mark_forwards(kineto_collector *collector, region_list *forwards,
                            region_list *backwards, error_message *err)
{
    const kineto_events *events = &collector->events;
    find_words(events, KINETO_SPAN_FORWARD, forwards);
    const bool has_words = forwards->count > 0;
    if (!has_words && is_annotated(events)) return STATUS_OK;
    if (!has_words) TRY(divide_steps(collector, forwards, err));
    const bool divides = divide_regions(&collector->events, forwards);
    for (size_t each = 0; each < forwards->count; each++) {
        TRY(mark_region(collector, &forwards->regions[each], err));
    }
    snprintf(collector->recording->structure, sizeof collector->recording->structure, "%s",
             divides ? "repeated operators of the forward" : "not told apart: it is one");
    if (has_words && !divides) find_words(events, KINETO_SPAN_BACKWARD, backwards);
    // Hooks are called so, too.
    if (length_of(backwards) < length_of(forwards) / 2) backwards->count = 0;
    for (size_t each = 0; each < backwards->count; each++) {
        const region *of = &backwards->regions[each];
        TRY(put_mark(collector, TRACE_OP_BACKWARD, 0, of->thread, of->begin_ns, of->end_ns, err));
    }
    return STATUS_OK;
}

bool trace_kineto_has_groups(kineto_collector *collector)
{
    kineto_events *events = &collector->events;
    if (events->span_count == 0) return false;
    kineto_sort(events->spans, events->span_count, sizeof *events->spans, compare_spans);
    span_group *groups = survey_groups(collector);
    collector->group = longest_group(collector, groups);
    free(groups);
    return collector->group >= 0;
}

static status find_structure(kineto_collector *collector, arena *scratch, error_message *err)
{
    kineto_events *events = &collector->events;
    kineto_sort(events->backwards, events->backward_count, sizeof *events->backwards,
                compare_backward_times);
    kineto_sort(events->sources, events->source_count, sizeof *events->sources,
                kineto_compare_times);
    if (trace_kineto_has_groups(collector)) {
        snprintf(collector->recording->structure, sizeof collector->recording->structure,
                 "modules or annotations that differ in a number only");
        return mark_group(collector, collector->group, scratch, err);
    }
    region_list forwards = {.scratch = scratch};
    region_list backwards = {.scratch = scratch};
    keep_outermost(events);
    return mark_forwards(collector, &forwards, &backwards, err);
}

status trace_kineto_find_structure(kineto_collector *collector, error_message *err)
{
    arena *scratch = arena_create(1 << 16);
    const status result = find_structure(collector, scratch, err);
    arena_destroy(scratch);
    return result;
}
