#include "traces/import/kineto_collect.h"

#include "base/arena.h"
#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kineto_sort(void *items, size_t count, size_t item_bytes,
                 int (*compare)(const void *, const void *))
{
    if (count > 0) qsort(items, count, item_bytes, compare);
}

int kineto_compare_stretches(const void *a, const void *b)
{
    const kineto_stretch *left = a;
    const kineto_stretch *right = b;
    if (left->begin_ns != right->begin_ns) return left->begin_ns < right->begin_ns ? -1 : 1;
    if (left->end_ns != right->end_ns) return left->end_ns < right->end_ns ? -1 : 1;
    return (left->number > right->number) - (left->number < right->number);
}

int kineto_stretch_at(const kineto_stretch *stretches, size_t count, int64_t moment_ns)
{
    const kineto_stretch last = {moment_ns, INT64_MAX, INT32_MAX};
    return (int)sorted_place(stretches, count, sizeof last, &last, kineto_compare_stretches) - 1;
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

/// Names under which a thread of PyTorch does other things than launch.
static bool is_pause(const char *name, trace_gap *pause)
{
    if (strncmp(name, "enumerate(DataLoader)", 21) == 0) {
        *pause = TRACE_GAP_LOADING;
    } else if (strcmp(name, "Python GC") == 0 || strncmp(name, "gc.collect", 10) == 0) {
        *pause = TRACE_GAP_COLLECTION;
    } else {
        return false;
    }
    return true;
}

/// Keeps the first few names that nobody knows, for a message.
static void note_unknown(kineto_collector *collector, const char *name)
{
    if (is_of_framework(name)) return;
    for (int known = 0; known < collector->unknown_count; known++) {
        if (strcmp(collector->unknown[known], name) == 0) return;
    }
    if (collector->unknown_count == KINETO_UNKNOWN_MAX) return;
    memcpy(collector->unknown[collector->unknown_count++], name, strlen(name) + 1);
}

static void append_stretch(kineto_stretch **stretches, size_t *count, int64_t begin_ns,
                           int64_t end_ns, int number)
{
    *stretches = memory_grow(*stretches, *count, sizeof **stretches);
    (*stretches)[(*count)++] = (kineto_stretch){begin_ns, end_ns, number};
}

status kineto_collect_annotation(kineto_collector *collector, const char *name,
                                 kineto_thread thread, int64_t begin_ns, int64_t end_ns,
                                 error_message *err)
{
    kineto_events *events = &collector->events;
    int step = 0;
    bool is_known = false;
    trace_gap pause = TRACE_GAP_HOST;
    trace_annotation annotation = {0};
    if (trace_annotation_is_step(name, &step)) {
        append_stretch(&events->steps, &events->step_count, begin_ns, end_ns, step);
        return STATUS_OK;
    }
    if (is_pause(name, &pause)) {
        append_stretch(&events->pauses, &events->pause_count, begin_ns, end_ns, (int)pause);
        return STATUS_OK;
    }
    if (collector->map != NULL && trace_phase_map_is_scope(collector->map, name)) {
        append_stretch(&events->scopes, &events->scope_count, begin_ns, end_ns, 0);
        return STATUS_OK;
    }
    if (collector->map != NULL) {
        TRY(trace_phase_map_apply(collector->map, name, &annotation, &is_known, err));
    }
    if (!is_known) is_known = trace_annotation_parse(name, &annotation);
    if (!is_known) {
        note_unknown(collector, name);
        if (!is_of_framework(name)) {
            kineto_collect_span(collector, name, false, thread, begin_ns, end_ns);
        }
        return STATUS_OK;
    }
    if (annotation.count != TRACE_COUNT_NONE) {
        numbering_find(&collector->names, key_of(name), &annotation.name);
    }
    return kineto_collect_mark(collector, &annotation, kineto_collect_thread(collector, thread),
                               begin_ns, end_ns, err);
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

void kineto_collect_span(kineto_collector *collector, const char *name, bool is_operator,
                         kineto_thread thread, int64_t begin_ns, int64_t end_ns)
{
    kineto_events *events = &collector->events;
    char group[KINETO_NAME_BYTES];
    kineto_span span = {.begin_ns = begin_ns, .end_ns = end_ns};
    span.role = is_operator ? KINETO_SPAN_OTHER : kineto_span_role_of(name);
    span.number = kineto_span_number(name, group);
    numbering_find(&collector->groups, key_of(is_operator ? name : group), &span.group);
    span.thread = kineto_collect_thread(collector, thread);
    kineto_span **spans = is_operator ? &events->operators : &events->spans;
    size_t *count = is_operator ? &events->operator_count : &events->span_count;
    *spans = memory_grow(*spans, *count, sizeof **spans);
    (*spans)[(*count)++] = span;
}

int kineto_compare_times(const void *a, const void *b)
{
    const kineto_launch *left = a;
    const kineto_launch *right = b;
    return (left->ts_ns > right->ts_ns) - (left->ts_ns < right->ts_ns);
}

status kineto_collect_launch(kineto_collector *collector, uint32_t correlation,
                             kineto_thread thread, int64_t begin_ns, error_message *err)
{
    kineto_events *events = &collector->events;
    kineto_launch launch = {.ts_ns = begin_ns, .correlation = correlation};
    const bool is_first = events->launches == NULL;
    if (is_first) events->launches = sorter_create(sizeof launch, kineto_compare_times);
    if (is_first || begin_ns < events->first_launch_ns) events->first_launch_ns = begin_ns;
    if (is_first || begin_ns > events->last_launch_ns) events->last_launch_ns = begin_ns;
    launch.thread = kineto_collect_thread(collector, thread);
    events->runners[launch.thread].launch_count++;
    return sorter_put(events->launches, &launch, err);
}

void kineto_collect_link(kineto_collector *collector, bool is_target, uint32_t number,
                         kineto_thread thread, int64_t begin_ns)
{
    kineto_events *events = &collector->events;
    kineto_launch **links = is_target ? &events->targets : &events->sources;
    size_t *count = is_target ? &events->target_count : &events->source_count;
    kineto_launch link = {.ts_ns = begin_ns, .correlation = number};
    link.thread = kineto_collect_thread(collector, thread);
    *links = memory_grow(*links, *count, sizeof **links);
    (*links)[(*count)++] = link;
}

void kineto_collect_backward(kineto_collector *collector, kineto_thread thread, int64_t begin_ns,
                             int64_t end_ns)
{
    kineto_events *events = &collector->events;
    kineto_work backward = {.begin_ns = begin_ns, .end_ns = end_ns};
    backward.key = kineto_collect_thread(collector, thread);
    events->backwards =
        memory_grow(events->backwards, events->backward_count, sizeof *events->backwards);
    events->backwards[events->backward_count++] = backward;
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

status kineto_collect_work(kineto_collector *collector, const kineto_work *work, error_message *err)
{
    kineto_events *events = &collector->events;
    if (events->works == NULL) events->works = sorter_create(sizeof *work, compare_works);
    return sorter_put(events->works, work, err);
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
    TRY(recording->on_device ? trace_kineto_attribute_device(events, recording, err)
                             : trace_kineto_attribute_cpu(events, recording, err));
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
    free(events->steps);
    free(events->scopes);
    free(events->pauses);
    free(events->marks);
    free(events->spans);
    free(events->operators);
    sorter_destroy(events->launches);
    free(events->sources);
    free(events->targets);
    free(events->backwards);
    sorter_destroy(events->works);
    free(events->runners);
    free(collector->threads.slots);
    free(collector->processes.slots);
    free(collector->names.slots);
    free(collector->groups.slots);
}
