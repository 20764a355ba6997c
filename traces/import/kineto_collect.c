#include "traces/import/kineto_collect.h"

#include "base/arena.h"
#include "base/file.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Which annotations are open at a moment, on a thread and in a process. Those of a trace need not
// nest: around one is the last that began before it and had not ended.

const trace_window *kineto_open_window(const kineto_lane *lane, size_t place)
{
    return &lane->marks[lane->opens[place].mark].window;
}

/// From a place outwards, the first that lasts until a moment; -1: none.
static int32_t lasting(const kineto_lane *lane, int32_t place, int64_t until_ns)
{
    while (place >= 0 && kineto_open_window(lane, (size_t)place)->end_ns < until_ns) {
        place = lane->opens[place].longer;
    }
    return place;
}

static void push(kineto_lane *lane, uint32_t mark)
{
    const trace_window *window = &lane->marks[mark].window;
    const int32_t last = (int32_t)lane->count - 1;
    const int32_t around = lasting(lane, last, window->begin_ns);
    // What is no longer than this one has ended where this one has.
    const int64_t longer_ns = window->end_ns + (window->end_ns < INT64_MAX);
    lane->opens[lane->count++] = (kineto_open){mark, around, lasting(lane, around, longer_ns)};
}

/// Lanes of the sizes that they will have.
static kineto_lane *make_lanes(const kineto_events *events, size_t count, bool of_processes)
{
    kineto_lane *lanes = arena_array(events->scratch, count, sizeof *lanes);
    for (uint32_t mark = 0; mark < events->mark_count; mark++) {
        const uint32_t thread = events->marks[mark].thread;
        lanes[of_processes ? events->runners[thread].process : thread].count++;
    }
    for (size_t lane = 0; lane < count; lane++) {
        lanes[lane].marks = events->marks;
        lanes[lane].opens =
            arena_array(events->scratch, lanes[lane].count, sizeof *lanes[lane].opens);
        lanes[lane].count = 0;
    }
    return lanes;
}

kineto_nesting kineto_nesting_of(const kineto_events *events)
{
    const kineto_nesting made = {.threads = make_lanes(events, events->thread_count, false),
                                 .processes = make_lanes(events, events->process_count, true)};
    for (uint32_t mark = 0; mark < events->mark_count; mark++) {
        const uint32_t thread = events->marks[mark].thread;
        push(&made.threads[thread], mark);
        push(&made.processes[events->runners[thread].process], mark);
    }
    return made;
}

size_t kineto_begun_count(const kineto_lane *lane, int64_t moment_ns)
{
    size_t begun = 0;
    size_t end = lane->count;
    while (begun < end) {
        const size_t middle = begun + (end - begun) / 2;
        if (kineto_open_window(lane, middle)->begin_ns <= moment_ns) {
            begun = middle + 1;
        } else {
            end = middle;
        }
    }
    return begun;
}

const kineto_open *kineto_innermost(const kineto_lane *lane, size_t begun_count, int64_t until_ns)
{
    const int32_t place = lasting(lane, (int32_t)begun_count - 1, until_ns);
    return place >= 0 ? &lane->opens[place] : NULL;
}

void kineto_list_add(kineto_list *list, kineto_span span)
{
    list->spans = memory_grow(list->spans, list->count, sizeof span);
    list->spans[list->count++] = span;
}

void kineto_list_sort(kineto_list *list, int (*compare)(const void *, const void *))
{
    if (list->count > 0) qsort(list->spans, list->count, sizeof *list->spans, compare);
}

size_t kineto_list_place(const kineto_list *list, kineto_span key,
                         int (*compare)(const void *, const void *))
{
    return sorted_place(list->spans, list->count, sizeof key, &key, compare);
}

int kineto_compare_times(const void *a, const void *b)
{
    const kineto_span *left = a;
    const kineto_span *right = b;
    if (left->begin_ns != right->begin_ns) return left->begin_ns < right->begin_ns ? -1 : 1;
    if (left->end_ns != right->end_ns) return left->end_ns < right->end_ns ? -1 : 1;
    return (left->number > right->number) - (left->number < right->number);
}

int kineto_compare_threads(const void *a, const void *b)
{
    const kineto_span *left = a;
    const kineto_span *right = b;
    if (left->thread != right->thread) return left->thread < right->thread ? -1 : 1;
    if (left->begin_ns != right->begin_ns) return left->begin_ns < right->begin_ns ? -1 : 1;
    if (left->end_ns != right->end_ns) return left->end_ns > right->end_ns ? -1 : 1;
    return (left->group > right->group) - (left->group < right->group);
}

int kineto_compare_groups(const void *a, const void *b)
{
    const kineto_span *left = a;
    const kineto_span *right = b;
    if (left->group != right->group) return left->group < right->group ? -1 : 1;
    return (left->begin_ns > right->begin_ns) - (left->begin_ns < right->begin_ns);
}

int kineto_span_at(const kineto_list *list, int64_t moment_ns)
{
    const kineto_span last = {moment_ns, INT64_MAX, .number = INT32_MAX};
    return (int)kineto_list_place(list, last, kineto_compare_times) - 1;
}

bool kineto_is_inside(const kineto_span *span, const kineto_span *last)
{
    return last != NULL && last->thread == span->thread && span->begin_ns < last->end_ns;
}

static struct kineto_slot *numbering_slot(const kineto_numbering *table, uint64_t key)
{
    size_t slot = (size_t)(key ^ (key >> 32)) & (table->capacity - 1);
    while (table->slots[slot].place != 0 && table->slots[slot].key != key) {
        slot = (slot + 1) & (table->capacity - 1);
    }
    return &table->slots[slot];
}

static void numbering_grow(kineto_numbering *table)
{
    const size_t capacity = table->capacity == 0 ? 64 : table->capacity * 2;
    kineto_numbering grown = {.capacity = capacity, .count = table->count};
    grown.slots = memory_array(capacity, sizeof *grown.slots);
    for (size_t slot = 0; slot < table->capacity; slot++) {
        if (table->slots[slot].place == 0) continue;
        *numbering_slot(&grown, table->slots[slot].key) = table->slots[slot];
    }
    free(table->slots);
    *table = grown;
}

static uint64_t key_of(const char *name)
{
    return file_hash(FILE_HASH_START, name, strlen(name));
}

/// @return whether it is new
static bool numbering_find(kineto_numbering *table, uint64_t key, uint32_t *number)
{
    if ((size_t)table->count * 2 >= table->capacity) numbering_grow(table);
    struct kineto_slot *slot = numbering_slot(table, key);
    const bool is_new = slot->place == 0;
    if (is_new) *slot = (struct kineto_slot){key, ++table->count};
    *number = slot->place - 1;
    return is_new;
}

uint32_t kineto_collect_thread(kineto_collector *collector, kineto_thread thread)
{
    kineto_events *events = &collector->events;
    if (thread.thread == collector->last_thread_key && events->thread_count > 0) {
        return collector->last_thread;
    }
    if (numbering_find(&collector->threads, thread.thread, &collector->last_thread)) {
        kineto_runner runner = {0};
        numbering_find(&collector->processes, thread.process, &runner.process);
        events->runners =
            memory_grow(events->runners, events->thread_count, sizeof *events->runners);
        events->runners[events->thread_count++] = runner;
        events->process_count = collector->processes.count;
    }
    collector->last_thread_key = thread.thread;
    return collector->last_thread;
}

/// Whether a name begins as one of prefixes, of which NULL is the last.
static bool has_prefix(const char *name, size_t length, const char *const *prefixes)
{
    for (; *prefixes != NULL; prefixes++) {
        const size_t needed = strlen(*prefixes);
        if (length >= needed && memcmp(name, *prefixes, needed) == 0) return true;
    }
    return false;
}

/// Names that PyTorch itself writes, which never are a layer's.
static bool is_of_framework(const char *name)
{
    static const char *const prefixes[] = {"nccl:", "gloo:", "Optimizer.", NULL};
    return has_prefix(name, strlen(name), prefixes);
}

/// What a name says before anybody asks for layers; the number of a step or pause with it.
static kineto_kind kind_of(const trace_phase_map *map, const char *name, int *number)
{
    if (trace_annotation_is_step(name, number)) return KINETO_STEP;
    if (strncmp(name, "enumerate(DataLoader)", 21) == 0) {
        *number = TRACE_GAP_LOADING;
        return KINETO_PAUSE;
    }
    if (strcmp(name, "Python GC") == 0 || strncmp(name, "gc.collect", 10) == 0) {
        *number = TRACE_GAP_COLLECTION;
        return KINETO_PAUSE;
    }
    if (map != NULL && trace_phase_map_is_scope(map, name)) return KINETO_SCOPE;
    return KINETO_ANNOTATION;
}

/// Keeps the first few names that nobody knows, for a message.
static void note_unknown(kineto_collector *collector, const char *name)
{
    for (int known = 0; known < collector->unknown_count; known++) {
        if (strcmp(collector->unknown[known], name) == 0) return;
    }
    if (collector->unknown_count == KINETO_UNKNOWN_MAX) return;
    memcpy(collector->unknown[collector->unknown_count++], name, strlen(name) + 1);
}

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

static kineto_span_role role_of(const char *name)
{
    if (strncmp(name, "nn.Module: ", 11) == 0) return KINETO_SPAN_MODULE;
    if (contains(name, "backward")) return KINETO_SPAN_BACKWARD;
    return contains(name, "forward") ? KINETO_SPAN_FORWARD : KINETO_SPAN_OTHER;
}

/// The last number in a name, -1: none, and the name without it.
static int number_of(const char *name, char group[KINETO_NAME_BYTES])
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

/// Adds a span of a thread to its list. An operator is one of its own group per name.
static void add_span(kineto_collector *collector, kineto_kind kind, const kineto_event *event)
{
    char group[KINETO_NAME_BYTES];
    kineto_span span = {event->begin_ns, event->end_ns, .group = event->number, .number = -1};
    if (kind == KINETO_OPERATOR) {
        numbering_find(&collector->groups, key_of(event->name), &span.group);
    } else if (kind == KINETO_UNKNOWN) {
        span.role = role_of(event->name);
        span.number = number_of(event->name, group);
        numbering_find(&collector->groups, key_of(group), &span.group);
    }
    span.thread = kineto_collect_thread(collector, event->thread);
    kineto_list_add(&collector->events.lists[kind], span);
}

static status collect_annotation(kineto_collector *collector, const kineto_event *event,
                                 error_message *err)
{
    int number = 0;
    bool is_known = false;
    trace_annotation annotation = {0};
    const kineto_kind kind = kind_of(collector->map, event->name, &number);
    if (kind != KINETO_ANNOTATION) {
        const kineto_span span = {event->begin_ns, event->end_ns, .number = number};
        kineto_list_add(&collector->events.lists[kind], span);
        return STATUS_OK;
    }
    TRY(trace_annotation_read(collector->map, event->name, &annotation, &is_known, err));
    if (!is_known) {
        if (is_of_framework(event->name)) return STATUS_OK;
        note_unknown(collector, event->name);
        add_span(collector, KINETO_UNKNOWN, event);
        return STATUS_OK;
    }
    if (annotation.count != TRACE_COUNT_NONE) {
        numbering_find(&collector->names, key_of(event->name), &annotation.name);
    }
    const uint32_t thread = kineto_collect_thread(collector, event->thread);
    return kineto_collect_mark(collector, &annotation, thread, event->begin_ns, event->end_ns, err);
}

status kineto_collect_mark(kineto_collector *collector, const trace_annotation *annotation,
                           uint32_t thread, int64_t begin_ns, int64_t end_ns, error_message *err)
{
    kineto_events *events = &collector->events;
    const bool is_load = annotation->kind <= TRACE_OP_RECOMPUTE;
    if (events->mark_count >= INT32_MAX - 1) {
        return error_set(err, STATUS_UNSUPPORTED, "%s: more than 2^31 annotations",
                         collector->events.path);
    }
    const kineto_mark mark = {
        .window = {.kind = annotation->kind,
                   .iteration = annotation->iteration,
                   .layer = annotation->layer,
                   .microbatch = annotation->microbatch,
                   .is_load = is_load,
                   .begin_ns = begin_ns,
                   .end_ns = end_ns,
                   .work_begin_ns = INT64_MAX,
                   .work_end_ns = INT64_MIN,
                   .cell = -1},
        .thread = thread,
        .name = annotation->name,
        .order = (uint32_t)events->mark_count,
        .naming = (uint8_t)annotation->naming,
        .count = (uint8_t)annotation->count,
        .is_communication = annotation->is_communication ||
                            (!is_load && annotation->kind != TRACE_OP_OPTIMIZER_STEP),
    };
    events->marks = memory_grow(events->marks, events->mark_count, sizeof *events->marks);
    events->marks[events->mark_count++] = mark;
    return STATUS_OK;
}

static int compare_launches(const void *a, const void *b)
{
    const kineto_launch *left = a;
    const kineto_launch *right = b;
    if (left->correlation != right->correlation) {
        return left->correlation < right->correlation ? -1 : 1;
    }
    return (left->ts_ns > right->ts_ns) - (left->ts_ns < right->ts_ns);
}

static status collect_launch(kineto_collector *collector, const kineto_event *event,
                             error_message *err)
{
    kineto_events *events = &collector->events;
    kineto_launch launch = {.ts_ns = event->begin_ns, .correlation = event->number};
    const bool is_first = events->launches == NULL;
    if (is_first) events->launches = sorter_create(sizeof launch, compare_launches);
    if (is_first || launch.ts_ns < events->first_launch_ns) events->first_launch_ns = launch.ts_ns;
    if (is_first || launch.ts_ns > events->last_launch_ns) events->last_launch_ns = launch.ts_ns;
    launch.thread = kineto_collect_thread(collector, event->thread);
    events->runners[launch.thread].launch_count++;
    return sorter_put(events->launches, &launch, err);
}

bool kineto_is_communication(const char *name, size_t length)
{
    static const char *const prefixes[] = {"ncclDevKernel", "ncclKernel",
                                           "deep_ep::", "void deep_ep::", NULL};
    return has_prefix(name, length, prefixes);
}

/// By key, then begin, outer before inner.
static int compare_works(const void *a, const void *b)
{
    const kineto_work *left = a;
    const kineto_work *right = b;
    if (left->key != right->key) return left->key < right->key ? -1 : 1;
    if (left->begin_ns != right->begin_ns) return left->begin_ns < right->begin_ns ? -1 : 1;
    if (left->end_ns != right->end_ns) return left->end_ns > right->end_ns ? -1 : 1;
    return (left->flags > right->flags) - (left->flags < right->flags);
}

static status collect_work(kineto_events *events, const kineto_event *event, error_message *err)
{
    const kineto_work work = {event->begin_ns, event->end_ns, event->number, event->flags};
    if (events->works == NULL) events->works = sorter_create(sizeof work, compare_works);
    return sorter_put(events->works, &work, err);
}

status kineto_collect(kineto_collector *collector, const kineto_event *event, error_message *err)
{
    switch (event->kind) {
    case KINETO_ANNOTATION:
        return collect_annotation(collector, event, err);
    case KINETO_LAUNCH:
        return collect_launch(collector, event, err);
    case KINETO_WORK:
        return collect_work(&collector->events, event, err);
    case KINETO_OTHER:
        return STATUS_OK;
    default:
        add_span(collector, event->kind, event);
        return STATUS_OK;
    }
}

static status nothing_known(const kineto_collector *collector, error_message *err)
{
    char names[400] = "";
    size_t length = 0;
    for (int name = 0; name < collector->unknown_count; name++) {
        const int written = snprintf(names + length, sizeof names - length, "%s'%.60s'",
                                     name > 0 ? ", " : "", collector->unknown[name]);
        if (written > 0) length += (size_t)written;
    }
    if (collector->unknown_count == 0) {
        return error_set(err, STATUS_INVALID,
                         "%s: no annotation says which layer or stage computes: record with a "
                         "schedule of torch.distributed.pipelining, or with dynmo's recorder",
                         collector->events.path);
    }
    return error_set(err, STATUS_INVALID,
                     "%s: no annotation that dynmo knows; there are %s%s: name them with "
                     "--phase-map FILE.json",
                     collector->events.path, names,
                     collector->unknown_count == KINETO_UNKNOWN_MAX ? ", ..." : "");
}

bool kineto_collect_has_load(const kineto_collector *collector)
{
    const kineto_events *events = &collector->events;
    for (size_t mark = 0; mark < events->mark_count; mark++) {
        if (events->marks[mark].window.is_load) return true;
    }
    return false;
}

status kineto_collect_check(const kineto_collector *collector, error_message *err)
{
    return kineto_collect_has_load(collector) ? STATUS_OK : nothing_known(collector, err);
}

status kineto_collect_sum(kineto_collector *collector, error_message *err)
{
    kineto_events *events = &collector->events;
    trace_recording *recording = collector->recording;
    const int layers = collector->map != NULL ? trace_phase_map_layers(collector->map) : 0;
    recording->ops = (trace_attribution){.op_count = sorter_count(events->works)};
    TRY(trace_kineto_resolve(events, layers, recording, err));
    TRY(trace_kineto_attribute(events, recording, err));
    recording->windows =
        arena_array(events->memory, events->mark_count, sizeof *recording->windows);
    recording->input.path = arena_string(events->memory, events->path);
    for (size_t mark = 0; mark < events->mark_count; mark++) {
        recording->windows[mark] = events->marks[mark].window;
    }
    recording->window_count = (int)events->mark_count;
    return STATUS_OK;
}

void kineto_collector_free(kineto_collector *collector)
{
    kineto_events *events = &collector->events;
    for (int kind = 0; kind < KINETO_LISTS; kind++) {
        free(events->lists[kind].spans);
    }
    free(events->marks);
    sorter_destroy(events->launches);
    sorter_destroy(events->works);
    free(events->runners);
    free(collector->threads.slots);
    free(collector->processes.slots);
    free(collector->names.slots);
    free(collector->groups.slots);
    arena_destroy(events->scratch);
}
