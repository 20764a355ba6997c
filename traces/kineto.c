#include "traces/kineto.h"

#include "base/file.h"
#include "base/text.h"
#include "traces/json_stream.h"
#include "traces/kineto_events.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 512, KERNEL_NAME_BYTES = 8192, UNKNOWN_NAMES_MAX = 5 };

/// Numbers for 64-bit keys, in the order of their first appearance; open addressing.
typedef struct numbering {
    uint64_t *keys; // [capacity]
    uint32_t *numbers;
    bool *is_used;
    size_t capacity; // power of two
    uint32_t count;
} numbering;

typedef enum event_kind {
    EVENT_OTHER,
    EVENT_ANNOTATION,
    EVENT_LAUNCH,
    EVENT_DEVICE,
    EVENT_CPU_OPERATOR
} event_kind;

typedef struct reader {
    const trace_kineto_source *source;
    trace_recording *recording;
    kineto_events events;
    bool wants_cpu; // the second reading
    numbering threads;
    numbering processes;
    numbering names;
    numbering kernels;     // number i: component_of[i]
    uint8_t *component_of; // [kernels.count]
    kineto_list component_list;
    uint64_t last_thread_key;
    uint32_t last_thread;
    int64_t last_end_ns;    // of all events
    uint32_t thread_count;  // after the first reading; those that come later have no annotation
    bool *is_annotated;     // [thread_count]
    kineto_work *last_work; // [thread_count] the outermost operator so far, second reading
    char unknown[UNKNOWN_NAMES_MAX][NAME_BYTES];
    int unknown_count;
} reader;

static status no_memory(error_message *err)
{
    return error_set(err, STATUS_NO_MEMORY, "out of memory");
}

/// Room for one more item behind list->count. NULL: out of memory, items as they were.
static void *reserve(void *items, kineto_list *list, size_t item_bytes)
{
    if (list->count < list->capacity) return items;
    const size_t wanted = list->capacity + list->capacity / 2 + 64;
    if (wanted > SIZE_MAX / item_bytes) return NULL;
    void *moved = realloc(items, wanted * item_bytes);
    if (moved != NULL) list->capacity = wanted;
    return moved;
}

/// Appends a value to an array and its list. A macro, as arrays differ in type.
#define APPEND(items, list, value, err)                                                            \
    do {                                                                                           \
        void *moved = reserve(items, list, sizeof *(items));                                       \
        if (moved == NULL) return no_memory(err);                                                  \
        (items) = moved;                                                                           \
        (items)[(list)->count++] = (value);                                                        \
    } while (0)

static void numbering_free(numbering *table)
{
    free(table->keys);
    free(table->numbers);
    free(table->is_used);
}

static size_t numbering_slot(const numbering *table, uint64_t key)
{
    size_t slot = (size_t)(key ^ (key >> 32)) & (table->capacity - 1);
    while (table->is_used[slot] && table->keys[slot] != key) {
        slot = (slot + 1) & (table->capacity - 1);
    }
    return slot;
}

static status numbering_grow(numbering *table, error_message *err)
{
    const size_t capacity = table->capacity == 0 ? 64 : table->capacity * 2;
    numbering grown = {.capacity = capacity, .count = table->count};
    grown.keys = calloc(capacity, sizeof *grown.keys);
    grown.numbers = calloc(capacity, sizeof *grown.numbers);
    grown.is_used = calloc(capacity, sizeof *grown.is_used);
    if (grown.keys == NULL || grown.numbers == NULL || grown.is_used == NULL) {
        numbering_free(&grown);
        return no_memory(err);
    }
    for (size_t slot = 0; slot < table->capacity; slot++) {
        if (!table->is_used[slot]) continue;
        const size_t place = numbering_slot(&grown, table->keys[slot]);
        grown.keys[place] = table->keys[slot];
        grown.numbers[place] = table->numbers[slot];
        grown.is_used[place] = true;
    }
    numbering_free(table);
    *table = grown;
    return STATUS_OK;
}

static status numbering_find(numbering *table, uint64_t key, uint32_t *number, bool *is_new,
                             error_message *err)
{
    if ((size_t)table->count * 2 >= table->capacity) TRY(numbering_grow(table, err));
    const size_t slot = numbering_slot(table, key);
    *is_new = !table->is_used[slot];
    if (*is_new) {
        table->is_used[slot] = true;
        table->keys[slot] = key;
        table->numbers[slot] = table->count++;
    }
    *number = table->numbers[slot];
    return STATUS_OK;
}

static event_kind kind_of(trace_json_slice category)
{
    switch (category.length) {
    case 8:
        if (trace_json_equals(category, "kernel")) return EVENT_DEVICE;
        if (trace_json_equals(category, "cpu_op")) return EVENT_CPU_OPERATOR;
        return EVENT_OTHER;
    case 12:
        if (trace_json_equals(category, "gpu_memcpy")) return EVENT_DEVICE;
        if (trace_json_equals(category, "gpu_memset")) return EVENT_DEVICE;
        return EVENT_OTHER;
    case 13:
        return trace_json_equals(category, "cuda_driver") ? EVENT_LAUNCH : EVENT_OTHER;
    case 14:
        return trace_json_equals(category, "cuda_runtime") ? EVENT_LAUNCH : EVENT_OTHER;
    case 17:
        return trace_json_equals(category, "user_annotation") ? EVENT_ANNOTATION : EVENT_OTHER;
    default:
        return EVENT_OTHER;
    }
}

static status event_error(const reader *reading, const trace_json_event *event, const char *key,
                          trace_json_slice value, const char *what, error_message *err)
{
    char name[96];
    char text[48];
    trace_json_text(event->name, name, sizeof name);
    trace_json_text(value, text, sizeof text);
    return error_set(err, STATUS_FORMAT, "%s: event %" PRId64 " ('%s'): %s%s%s %s",
                     reading->source->path, event->index, name, key, value.bytes != NULL ? " " : "",
                     text, what);
}

static status read_time(const reader *reading, const trace_json_event *event, const char *key,
                        trace_json_slice value, int64_t *ns, error_message *err)
{
    if (value.bytes == NULL) return event_error(reading, event, key, value, "is missing", err);
    if (text_parse_decimal_ns(value.bytes, value.length, 1000, ns, NULL) != STATUS_OK) {
        return event_error(reading, event, key, value, "is no time in microseconds", err);
    }
    if (*ns < 0) return event_error(reading, event, key, value, "is negative", err);
    return STATUS_OK;
}

static status read_interval(reader *reading, const trace_json_event *event, int64_t *begin_ns,
                            int64_t *end_ns, error_message *err)
{
    int64_t duration_ns = 0;
    TRY(read_time(reading, event, "ts", event->ts, begin_ns, err));
    TRY(read_time(reading, event, "dur", event->duration, &duration_ns, err));
    if (__builtin_add_overflow(*begin_ns, duration_ns, end_ns)) {
        return event_error(reading, event, "dur", event->duration, "ends beyond 64 bits of ns",
                           err);
    }
    if (*end_ns > reading->last_end_ns) reading->last_end_ns = *end_ns;
    return STATUS_OK;
}

static uint64_t hash_of(uint64_t hash, trace_json_slice value)
{
    return value.bytes == NULL ? hash : file_hash(hash, value.bytes, value.length);
}

static status find_thread(reader *reading, const trace_json_event *event, uint32_t *thread,
                          error_message *err)
{
    kineto_events *events = &reading->events;
    const uint64_t process_key = hash_of(FILE_HASH_START, event->pid);
    const uint64_t key = hash_of(process_key * 31, event->tid);
    bool is_new = false;
    if (key == reading->last_thread_key && events->thread_list.count > 0) {
        *thread = reading->last_thread;
        return STATUS_OK;
    }
    TRY(numbering_find(&reading->threads, key, thread, &is_new, err));
    if (is_new) {
        bool is_new_process = false;
        uint32_t process = 0;
        TRY(numbering_find(&reading->processes, process_key, &process, &is_new_process, err));
        APPEND(events->process_of, &events->thread_list, process, err);
        events->process_count = reading->processes.count;
    }
    reading->last_thread_key = key;
    reading->last_thread = *thread;
    return STATUS_OK;
}

static status append_mark(reader *reading, const kineto_mark *mark, error_message *err)
{
    kineto_events *events = &reading->events;
    if (events->mark_list.count >= INT32_MAX - 1) {
        return error_set(err, STATUS_UNSUPPORTED, "%s: more than 2^31 annotations",
                         reading->source->path);
    }
    kineto_mark kept = *mark;
    kept.order = (uint32_t)events->mark_list.count;
    APPEND(events->marks, &events->mark_list, kept, err);
    return STATUS_OK;
}

static status append_annotation(reader *reading, const trace_annotation *annotation,
                                kineto_mark mark, error_message *err)
{
    mark.window.kind = annotation->kind;
    mark.window.iteration = annotation->iteration;
    mark.window.layer = annotation->layer;
    mark.window.microbatch = annotation->microbatch;
    mark.window.is_load = annotation->kind <= TRACE_OP_RECOMPUTE;
    mark.naming = (uint8_t)annotation->naming;
    mark.count = (uint8_t)annotation->count;
    mark.is_communication = annotation->is_communication || !mark.window.is_load;
    if (annotation->kind == TRACE_OP_OPTIMIZER_STEP) mark.is_communication = false;
    mark.is_overlapped = annotation->is_overlapped;
    TRY(append_mark(reading, &mark, err));
    if (!annotation->is_overlapped) return STATUS_OK;
    mark.window.kind = TRACE_OP_BACKWARD;
    mark.window.layer = annotation->backward_layer;
    mark.window.microbatch = annotation->backward_microbatch;
    mark.is_twin = true;
    reading->recording->has_overlap = true;
    return append_mark(reading, &mark, err);
}

/// Names that PyTorch itself writes, which never are a layer's.
static bool is_of_framework(const char *name)
{
    static const char *const prefixes[] = {"nccl:", "gloo:", "Optimizer.", "enumerate(DataLoader)"};
    for (size_t prefix = 0; prefix < sizeof prefixes / sizeof prefixes[0]; prefix++) {
        if (strncmp(name, prefixes[prefix], strlen(prefixes[prefix])) == 0) return true;
    }
    return false;
}

/// Keeps the first few names that nobody knows, for a message.
static void note_unknown(reader *reading, const char *name)
{
    reading->recording->unknown_annotation_count++;
    if (is_of_framework(name)) return;
    for (int known = 0; known < reading->unknown_count; known++) {
        if (strcmp(reading->unknown[known], name) == 0) return;
    }
    if (reading->unknown_count == UNKNOWN_NAMES_MAX) return;
    memcpy(reading->unknown[reading->unknown_count++], name, strlen(name) + 1);
}

static status read_annotation(reader *reading, const trace_json_event *event, error_message *err)
{
    const trace_phase_map *map = reading->source->map;
    kineto_events *events = &reading->events;
    char name[NAME_BYTES];
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
    int step = 0;
    bool is_known = false;
    bool is_new = false;
    trace_annotation annotation = {0};
    kineto_mark mark = {0};
    trace_json_text(event->name, name, sizeof name);
    TRY(read_interval(reading, event, &begin_ns, &end_ns, err));
    if (trace_annotation_is_step(name, &step)) {
        const kineto_stretch stretch = {begin_ns, end_ns, step};
        APPEND(events->steps, &events->step_list, stretch, err);
        return STATUS_OK;
    }
    if (map != NULL && trace_phase_map_is_scope(map, name)) {
        const kineto_stretch stretch = {begin_ns, end_ns, 0};
        APPEND(events->scopes, &events->scope_list, stretch, err);
        return STATUS_OK;
    }
    if (map != NULL) TRY(trace_phase_map_apply(map, name, &annotation, &is_known, err));
    if (!is_known) TRY(trace_annotation_parse(name, &annotation, &is_known, err));
    if (!is_known) {
        note_unknown(reading, name);
        return STATUS_OK;
    }
    TRY(find_thread(reading, event, &mark.thread, err));
    if (annotation.count != TRACE_COUNT_NONE) {
        const uint64_t key = hash_of(FILE_HASH_START, event->name);
        TRY(numbering_find(&reading->names, key, &mark.name, &is_new, err));
    }
    mark.window.begin_ns = begin_ns;
    mark.window.end_ns = end_ns;
    mark.window.work_begin_ns = INT64_MAX;
    mark.window.work_end_ns = INT64_MIN;
    mark.window.cell = -1;
    return append_annotation(reading, &annotation, mark, err);
}

static uint32_t correlation_of(const trace_json_event *event)
{
    int64_t correlation = -1;
    const trace_json_slice value = trace_json_find(event->args, "correlation");
    if (value.bytes == NULL || !trace_json_int64(value, &correlation)) return KINETO_NO_CORRELATION;
    if (correlation < 0 || correlation >= KINETO_NO_CORRELATION) return KINETO_NO_CORRELATION;
    return (uint32_t)correlation;
}

static status read_launch(reader *reading, const trace_json_event *event, error_message *err)
{
    kineto_events *events = &reading->events;
    kineto_launch launch = {.correlation = correlation_of(event)};
    if (launch.correlation == KINETO_NO_CORRELATION) return STATUS_OK;
    TRY(read_time(reading, event, "ts", event->ts, &launch.ts_ns, err));
    TRY(find_thread(reading, event, &launch.thread, err));
    APPEND(events->launches, &events->launch_list, launch, err);
    return STATUS_OK;
}

static bool begins_with(trace_json_slice name, const char *prefix)
{
    const size_t length = strlen(prefix);
    return trace_json_is_string(name) && name.length > length + 1 &&
           memcmp(name.bytes + 1, prefix, length) == 0;
}

/// Rules are regular expressions and kernel names are long: each name is tried once.
static status kernel_flags(reader *reading, const trace_json_event *event, uint32_t *flags,
                           error_message *err)
{
    const bool is_nccl =
        begins_with(event->name, "ncclDevKernel") || begins_with(event->name, "ncclKernel");
    const trace_phase_map *map = reading->source->map;
    *flags = is_nccl ? KINETO_COMMUNICATION : 0;
    if (map == NULL) return STATUS_OK;
    uint32_t number = 0;
    bool is_new = false;
    TRY(numbering_find(&reading->kernels, hash_of(FILE_HASH_START, event->name), &number, &is_new,
                       err));
    if (is_new) {
        char name[KERNEL_NAME_BYTES];
        trace_json_text(event->name, name, sizeof name);
        const uint8_t found = (uint8_t)trace_phase_map_kernel(map, name);
        APPEND(reading->component_of, &reading->component_list, found, err);
    }
    const trace_component component = (trace_component)reading->component_of[number];
    if (component == TRACE_COMPONENT_COMPUTE) *flags = KINETO_COMPUTE;
    if (component == TRACE_COMPONENT_COMMUNICATION) *flags = KINETO_COMMUNICATION;
    return STATUS_OK;
}

static status append_work(reader *reading, const kineto_work *work, error_message *err)
{
    kineto_events *events = &reading->events;
    APPEND(events->works, &events->work_list, *work, err);
    return STATUS_OK;
}

static status read_device_op(reader *reading, const trace_json_event *event, error_message *err)
{
    kineto_work work = {.key = correlation_of(event)};
    TRY(read_interval(reading, event, &work.begin_ns, &work.end_ns, err));
    TRY(kernel_flags(reading, event, &work.flags, err));
    return append_work(reading, &work, err);
}

/// An operator that lies within the last outermost one of its thread adds nothing.
static status read_cpu_op(reader *reading, const trace_json_event *event, error_message *err)
{
    kineto_work work = {0};
    TRY(find_thread(reading, event, &work.key, err));
    if (work.key >= reading->thread_count || !reading->is_annotated[work.key]) return STATUS_OK;
    TRY(read_interval(reading, event, &work.begin_ns, &work.end_ns, err));
    kineto_work *last = &reading->last_work[work.key];
    if (work.begin_ns >= last->begin_ns && work.end_ns <= last->end_ns) return STATUS_OK;
    *last = work;
    if (begins_with(event->name, "autograd::engine::evaluate_function")) {
        work.flags = KINETO_AUTOGRAD;
    } else if (begins_with(event->name, "c10d::") || begins_with(event->name, "gloo:") ||
               begins_with(event->name, "mpi:") || begins_with(event->name, "nccl:")) {
        work.flags = KINETO_COMMUNICATION;
    }
    return append_work(reading, &work, err);
}

static status read_event(reader *reading, const trace_json_event *event, error_message *err)
{
    if (!trace_json_equals(event->phase, "X")) return STATUS_OK;
    const event_kind kind = kind_of(event->category);
    if (reading->wants_cpu) {
        return kind == EVENT_CPU_OPERATOR ? read_cpu_op(reading, event, err) : STATUS_OK;
    }
    switch (kind) {
    case EVENT_ANNOTATION:
        return read_annotation(reading, event, err);
    case EVENT_LAUNCH:
        return read_launch(reading, event, err);
    case EVENT_DEVICE:
        return read_device_op(reading, event, err);
    case EVENT_CPU_OPERATOR:
    case EVENT_OTHER:
        break;
    }
    return STATUS_OK;
}

static status small_int(const reader *reading, trace_json_slice value, const char *what, int max,
                        int *out, error_message *err)
{
    int64_t number = -1;
    char text[48];
    if (value.bytes == NULL) return STATUS_OK;
    if (trace_json_int64(value, &number) && number >= 0 && number <= max) {
        *out = (int)number;
        return STATUS_OK;
    }
    trace_json_text(value, text, sizeof text);
    return error_set(err, STATUS_FORMAT, "%s: distributedInfo: %s %s is outside [0, %d]",
                     reading->source->path, what, text, max);
}

static status read_member(reader *reading, const trace_json_item *item, error_message *err)
{
    trace_recording *recording = reading->recording;
    if (trace_json_equals(item->key, "distributedInfo")) {
        int rank = TRACE_NOT_RECORDED;
        TRY(small_int(reading, trace_json_find(item->value, "rank"), "rank", TRACE_RANKS_MAX - 1,
                      &rank, err));
        TRY(small_int(reading, trace_json_find(item->value, "world_size"), "world_size",
                      TRACE_RANKS_MAX, &recording->world_size, err));
        recording->rank_is_known = rank >= 0;
        if (rank >= 0) recording->rank = rank;
        return STATUS_OK;
    }
    if (trace_json_equals(item->key, "baseTimeNanoseconds")) {
        char text[48];
        recording->has_base = trace_json_int64(item->value, &recording->base_ns);
        if (recording->has_base && recording->base_ns >= 0) return STATUS_OK;
        trace_json_text(item->value, text, sizeof text);
        return error_set(err, STATUS_FORMAT, "%s: baseTimeNanoseconds %s is no time in ns",
                         reading->source->path, text);
    }
    return STATUS_OK;
}

static status read_items(reader *reading, trace_json_stream *json, error_message *err)
{
    for (;;) {
        trace_json_item item;
        TRY(trace_json_next(json, &item, err));
        switch (item.kind) {
        case TRACE_JSON_EVENT:
            reading->recording->event_count++;
            TRY(read_event(reading, &item.event, err));
            break;
        case TRACE_JSON_MEMBER:
            TRY(read_member(reading, &item, err));
            break;
        case TRACE_JSON_END:
            return STATUS_OK;
        }
    }
}

/// Reads the whole file once.
static status read_file(reader *reading, error_message *err)
{
    const trace_kineto_source *source = reading->source;
    trace_recording *recording = reading->recording;
    trace_stream *stream = NULL;
    trace_json_stream *json = NULL;
    TRY(source->bytes != NULL
            ? trace_stream_open_bytes(source->path, source->bytes, source->length, &stream, err)
            : trace_stream_open(source->path, &stream, err));
    recording->event_count = 0;
    status result = trace_json_open(stream, source->path, &json, err);
    if (result == STATUS_OK) result = read_items(reading, json, err);
    if (result == STATUS_OK) {
        recording->malformed_count = trace_json_malformed_count(json);
        recording->malformed_first = trace_json_malformed_first(json);
        recording->event_count += recording->malformed_count;
        recording->json_bytes = trace_json_bytes(json);
        recording->input = trace_stream_input(stream);
        recording->input.path = source->path;
    }
    trace_json_close(json);
    trace_stream_close(stream);
    return result;
}

static status nothing_known(const reader *reading, error_message *err)
{
    char names[400] = "";
    size_t length = 0;
    for (int name = 0; name < reading->unknown_count; name++) {
        const int written = snprintf(names + length, sizeof names - length, "%s'%.60s'",
                                     name > 0 ? ", " : "", reading->unknown[name]);
        if (written > 0) length += (size_t)written;
    }
    if (reading->unknown_count == 0) {
        return error_set(err, STATUS_INVALID,
                         "%s: no annotation says which layer or stage computes: record with a "
                         "schedule of torch.distributed.pipelining, or with dynmo's recorder",
                         reading->source->path);
    }
    return error_set(err, STATUS_INVALID,
                     "%s: no annotation that dynmo knows; there are %s%s: name them with "
                     "--phase-map FILE.json",
                     reading->source->path, names,
                     reading->unknown_count == UNKNOWN_NAMES_MAX ? ", ..." : "");
}

static bool has_load(const kineto_events *events)
{
    for (size_t mark = 0; mark < events->mark_list.count; mark++) {
        if (events->marks[mark].window.is_load) return true;
    }
    return false;
}

/// The second reading, where no device did anything.
static status read_cpu(reader *reading, error_message *err)
{
    kineto_events *events = &reading->events;
    const size_t thread_count = events->thread_list.count;
    if (strcmp(reading->source->path, "-") == 0 && reading->source->bytes == NULL) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "standard input: a trace without device activity is read twice; give its "
                         "file");
    }
    reading->is_annotated = calloc(thread_count + 1, sizeof *reading->is_annotated);
    reading->last_work = calloc(thread_count + 1, sizeof *reading->last_work);
    if (reading->is_annotated == NULL || reading->last_work == NULL) return no_memory(err);
    for (size_t thread = 0; thread < thread_count; thread++) {
        reading->last_work[thread].begin_ns = INT64_MAX; // nothing lies within it
    }
    for (size_t mark = 0; mark < events->mark_list.count; mark++) {
        reading->is_annotated[events->marks[mark].thread] = true;
    }
    reading->thread_count = (uint32_t)thread_count;
    reading->wants_cpu = true;
    return read_file(reading, err);
}

static status read_and_sum(reader *reading, error_message *err)
{
    trace_recording *recording = reading->recording;
    kineto_events *events = &reading->events;
    const trace_phase_map *map = reading->source->map;
    TRY(read_file(reading, err));
    if (reading->last_end_ns > INT64_MAX - recording->base_ns) {
        return error_set(err, STATUS_FORMAT,
                         "%s: baseTimeNanoseconds %" PRId64 " plus the last time, %" PRId64
                         " ns, is beyond 64 bits",
                         reading->source->path, recording->base_ns, reading->last_end_ns);
    }
    if (!has_load(events)) return nothing_known(reading, err);
    recording->on_device = events->work_list.count > 0;
    if (!recording->on_device) TRY(read_cpu(reading, err));
    recording->ops = (trace_attribution){.op_count = (int64_t)events->work_list.count};
    TRY(trace_kineto_resolve(events, map != NULL ? trace_phase_map_layers(map) : 0, recording,
                             err));
    return recording->on_device ? trace_kineto_attribute_device(events, recording, err)
                                : trace_kineto_attribute_cpu(events, recording, err);
}

static status keep_windows(reader *reading, error_message *err)
{
    const kineto_events *events = &reading->events;
    trace_recording *recording = reading->recording;
    char *path = strdup(reading->source->path);
    recording->windows = calloc(events->mark_list.count + 1, sizeof *recording->windows);
    recording->input.path = path;
    if (path == NULL || recording->windows == NULL) return no_memory(err);
    for (size_t mark = 0; mark < events->mark_list.count; mark++) {
        recording->windows[mark] = events->marks[mark].window;
    }
    recording->window_count = (int)events->mark_list.count;
    return STATUS_OK;
}

static void reader_free(reader *reading)
{
    kineto_events *events = &reading->events;
    free(events->steps);
    free(events->scopes);
    free(events->marks);
    free(events->launches);
    free(events->works);
    free(events->process_of);
    numbering_free(&reading->threads);
    numbering_free(&reading->processes);
    numbering_free(&reading->names);
    numbering_free(&reading->kernels);
    free(reading->component_of);
    free(reading->is_annotated);
    free(reading->last_work);
    free(reading);
}

status trace_kineto_read(const trace_kineto_source *source, trace_recording *recording,
                         error_message *err)
{
    reader *reading = calloc(1, sizeof *reading);
    if (reading == NULL) return no_memory(err);
    trace_recording made = {.rank = source->rank, .world_size = TRACE_NOT_RECORDED};
    reading->source = source;
    reading->recording = &made;
    reading->events.path = source->path;
    status result = read_and_sum(reading, err);
    made.input.path = NULL;
    if (result == STATUS_OK) result = keep_windows(reading, err);
    reader_free(reading);
    if (result != STATUS_OK) {
        trace_recording_free(&made);
        return result;
    }
    *recording = made;
    return STATUS_OK;
}

void trace_recording_free(trace_recording *recording)
{
    free((char *)recording->input.path);
    free(recording->windows);
    free(recording->cells);
    *recording = (trace_recording){0};
}
