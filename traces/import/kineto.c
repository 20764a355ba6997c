#include "traces/import/kineto.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/text.h"
#include "traces/import/json_stream.h"
#include "traces/import/kineto_collect.h"

#include <inttypes.h>
#include <string.h>

/// What a reading of the file is for.
typedef enum reading_pass {
    PASS_ALL,
    PASS_CPU,       // operators of the CPU, where no device did anything
    PASS_OPERATORS, // operators of the CPU, where no annotation divides the steps; with sequences
                    // where the profiler drew no arrows
    PASS_SEQUENCE   // forward and backward operators by their sequence numbers
} reading_pass;

typedef struct reader {
    const trace_profile_source *source;
    trace_recording *recording;
    kineto_collector collector;
    reading_pass pass;
    bool has_sequences;     // they were read
    int64_t last_end_ns;    // of all events
    uint32_t thread_count;  // after the first reading; those that come later have no annotation
    kineto_span *last_work; // [thread_count] the outermost operator so far, second reading; number:
                            // 1 if the thread is annotated
} reader;

/// Categories of events; those with a capital are of versions before torch 1.12.
static const struct {
    const char *category;
    size_t length;
    kineto_kind kind;
} kinds[] = {
    {"cpu_op", 6, KINETO_OPERATOR},
    {"python_function", 15, KINETO_UNKNOWN},
    {"cuda_runtime", 12, KINETO_LAUNCH},
    {"kernel", 6, KINETO_WORK},
    {"user_annotation", 15, KINETO_ANNOTATION},
    {"cuda_driver", 11, KINETO_LAUNCH},
    {"gpu_memcpy", 10, KINETO_WORK},
    {"gpu_memset", 10, KINETO_WORK},
    {"Kernel", 6, KINETO_WORK},
    {"Memcpy", 6, KINETO_WORK},
    {"Memset", 6, KINETO_WORK},
    {"Runtime", 7, KINETO_LAUNCH},
    {"Operator", 8, KINETO_OPERATOR},
};

static kineto_kind kind_of(trace_json_slice category)
{
    if (!trace_json_is_string(category)) return KINETO_OTHER;
    for (size_t each = 0; each < sizeof kinds / sizeof kinds[0]; each++) {
        const size_t length = kinds[each].length;
        if (category.length == length + 2 &&
            memcmp(category.bytes + 1, kinds[each].category, length) == 0) {
            return kinds[each].kind;
        }
    }
    return KINETO_OTHER;
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

static kineto_thread thread_of(const trace_json_event *event)
{
    const uint64_t process = hash_of(FILE_HASH_START, event->pid);
    return (kineto_thread){process, hash_of(process * 31, event->tid)};
}

/// @return false, number untouched: there is no such number
static bool read_number(trace_json_slice value, uint32_t *number)
{
    int64_t read = -1;
    if (value.bytes == NULL || !trace_json_int64(value, &read)) return false;
    if (read < 0 || read >= KINETO_NO_CORRELATION) return false;
    *number = (uint32_t)read;
    return true;
}

static bool begins_with(trace_json_slice name, const char *prefix)
{
    const size_t length = strlen(prefix);
    return trace_json_is_string(name) && name.length > length + 1 &&
           memcmp(name.bytes + 1, prefix, length) == 0;
}

static bool is_autograd(const trace_json_event *event)
{
    return begins_with(event->name, "autograd::engine::evaluate_function");
}

static bool is_module(const trace_json_event *event)
{
    return begins_with(event->name, "nn.Module: ");
}

/// Of Python's functions, modules and garbage collection say something.
static kineto_kind kind_of_python(const trace_json_event *event)
{
    if (is_module(event)) return KINETO_UNKNOWN;
    const bool is_collection =
        begins_with(event->name, "Python GC") || begins_with(event->name, "gc.collect");
    return is_collection ? KINETO_ANNOTATION : KINETO_OTHER;
}

/// An arrow of the profiler from a forward operator to its backward.
static kineto_kind kind_of_flow(const trace_json_event *event)
{
    if (!trace_json_equals(event->category, "fwdbwd")) return KINETO_OTHER;
    if (trace_json_equals(event->phase, "s")) return KINETO_SOURCE;
    return trace_json_equals(event->phase, "f") ? KINETO_TARGET : KINETO_OTHER;
}

/// What read_event reads; notes its kind.
static bool is_event_wanted(void *context, trace_json_event *event)
{
    const reader *reading = context;
    const bool is_complete = trace_json_equals(event->phase, "X");
    kineto_kind kind = is_complete ? kind_of(event->category) : kind_of_flow(event);
    if (reading->pass != PASS_ALL) return kind == KINETO_OPERATOR;
    if (kind == KINETO_UNKNOWN) kind = kind_of_python(event);
    if (kind == KINETO_OPERATOR) kind = is_autograd(event) ? KINETO_BACKWARD : KINETO_OTHER;
    event->kind = (int)kind;
    return kind != KINETO_OTHER;
}

/// An operator of a CPU that is the device. One that lies within the last outermost one of its
/// thread adds nothing.
static status read_cpu_op(reader *reading, const trace_json_event *event, error_message *err)
{
    kineto_event work = {.kind = KINETO_WORK};
    work.number = kineto_collect_thread(&reading->collector, thread_of(event));
    if (work.number >= reading->thread_count) return STATUS_OK;
    kineto_span *last = &reading->last_work[work.number];
    if (last->number == 0) return STATUS_OK;
    TRY(read_interval(reading, event, &work.begin_ns, &work.end_ns, err));
    if (work.begin_ns >= last->begin_ns && work.end_ns <= last->end_ns) return STATUS_OK;
    last->begin_ns = work.begin_ns;
    last->end_ns = work.end_ns;
    if (begins_with(event->name, "c10d::") || begins_with(event->name, "gloo:") ||
        begins_with(event->name, "mpi:") || begins_with(event->name, "nccl:")) {
        work.flags = KINETO_COMMUNICATION;
    }
    return kineto_collect(&reading->collector, &work, err);
}

/// What happens at a moment and has a number by which something else finds it: launches and both
/// ends of links.
static status read_moment(reader *reading, const trace_json_event *event, kineto_kind kind,
                          trace_json_slice number, error_message *err)
{
    kineto_event found = {.kind = kind};
    if (!read_number(number, &found.number)) return STATUS_OK;
    TRY(read_time(reading, event, "ts", event->ts, &found.begin_ns, err));
    found.thread = thread_of(event);
    return kineto_collect(&reading->collector, &found, err);
}

/// What lasts and has a name.
static status read_stretch(reader *reading, const trace_json_event *event, kineto_kind kind,
                           error_message *err)
{
    char name[KINETO_NAME_BYTES];
    kineto_event found = {.kind = kind, .name = name, .thread = thread_of(event)};
    if (kind != KINETO_BACKWARD) trace_json_text(event->name, name, sizeof name);
    TRY(read_interval(reading, event, &found.begin_ns, &found.end_ns, err));
    return kineto_collect(&reading->collector, &found, err);
}

static status read_work(reader *reading, const trace_json_event *event, error_message *err)
{
    kineto_event work = {.kind = KINETO_WORK, .number = KINETO_NO_CORRELATION};
    const trace_json_slice name = event->name;
    read_number(trace_json_find(event->args, "correlation"), &work.number);
    TRY(read_interval(reading, event, &work.begin_ns, &work.end_ns, err));
    if (trace_json_is_string(name) && kineto_is_communication(name.bytes + 1, name.length - 2)) {
        work.flags = KINETO_COMMUNICATION;
    }
    return kineto_collect(&reading->collector, &work, err);
}

/// An operator of the CPU, in a later reading. Those of one sequence number are a forward and its
/// backward.
static status read_operator(reader *reading, const trace_json_event *event, error_message *err)
{
    const bool is_backward = is_autograd(event);
    if (reading->pass == PASS_CPU) return read_cpu_op(reading, event, err);
    if (reading->pass == PASS_SEQUENCE || reading->has_sequences) {
        TRY(read_moment(reading, event, is_backward ? KINETO_TARGET : KINETO_SOURCE,
                        trace_json_find(event->args, "Sequence number"), err));
    }
    if (reading->pass == PASS_SEQUENCE || is_backward) return STATUS_OK;
    return read_stretch(reading, event, KINETO_OPERATOR, err);
}

static status read_event(reader *reading, const trace_json_event *event, error_message *err)
{
    if (reading->pass != PASS_ALL) return read_operator(reading, event, err);
    const kineto_kind kind = (kineto_kind)event->kind;
    switch (kind) {
    case KINETO_SOURCE:
    case KINETO_TARGET:
        return read_moment(reading, event, kind, event->id, err);
    case KINETO_LAUNCH:
        return read_moment(reading, event, KINETO_LAUNCH,
                           trace_json_find(event->args, "correlation"), err);
    case KINETO_WORK:
        return read_work(reading, event, err);
    default:
        return read_stretch(reading, event, kind, err);
    }
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
        const trace_json_item *item = NULL;
        TRY(trace_json_next(json, &item, err));
        switch (item->kind) {
        case TRACE_JSON_EVENT:
            TRY(read_event(reading, &item->event, err));
            break;
        case TRACE_JSON_MEMBER:
            TRY(read_member(reading, item, err));
            break;
        case TRACE_JSON_END:
            reading->recording->event_count = item->event_count;
            reading->recording->malformed_count = item->malformed_count;
            return STATUS_OK;
        }
    }
}

/// Reads the whole file once.
static status read_file(reader *reading, error_message *err)
{
    const trace_profile_source *source = reading->source;
    trace_recording *recording = reading->recording;
    trace_stream *stream = NULL;
    TRY(source->bytes != NULL
            ? trace_stream_open_bytes(source->path, source->bytes, source->length, &stream)
            : trace_stream_open(source->path, &stream, err));
    trace_json_stream *json = trace_json_open(stream, source->path, is_event_wanted, reading);
    const status result = read_items(reading, json, err);
    if (result == STATUS_OK) {
        recording->input = trace_stream_input(stream);
        recording->input.path = source->path;
    }
    trace_json_close(json);
    trace_stream_close(stream);
    return result;
}

static bool is_standard_input(const reader *reading)
{
    return strcmp(reading->source->path, "-") == 0 && reading->source->bytes == NULL;
}

/// The second reading, where no device did anything.
static status read_cpu(reader *reading, error_message *err)
{
    kineto_events *events = &reading->collector.events;
    const kineto_list *targets = &events->lists[KINETO_TARGET];
    const size_t thread_count = events->thread_count;
    if (is_standard_input(reading)) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "standard input: a trace without device activity is read twice; give its "
                         "file");
    }
    reading->last_work = arena_array(events->memory, thread_count, sizeof *reading->last_work);
    for (size_t thread = 0; thread < thread_count; thread++) {
        reading->last_work[thread].begin_ns = INT64_MAX; // nothing lies within it
    }
    for (size_t mark = 0; mark < events->mark_count; mark++) {
        reading->last_work[events->marks[mark].thread].number = 1;
    }
    for (size_t target = 0; target < targets->count; target++) {
        reading->last_work[targets->spans[target].thread].number = 1;
    }
    reading->thread_count = (uint32_t)thread_count;
    reading->pass = PASS_CPU;
    return read_file(reading, err);
}

/// Where annotations are of forwards alone and the profiler drew no arrows: what links them to
/// their backwards. Standard input was read already.
static status read_sequences(reader *reading, error_message *err)
{
    const kineto_events *events = &reading->collector.events;
    const bool is_linked = events->lists[KINETO_TARGET].count > 0;
    if (is_linked || trace_kineto_has_backward(events)) return STATUS_OK;
    if (is_standard_input(reading) || events->lists[KINETO_BACKWARD].count == 0) return STATUS_OK;
    if (reading->has_sequences) return STATUS_OK;
    reading->pass = PASS_SEQUENCE;
    return read_file(reading, err);
}

/// Where annotations name no load. With a phase map they are meant to: then its names are at fault.
static status find_structure(reader *reading, error_message *err)
{
    if (reading->source->map != NULL) return STATUS_OK;
    const int64_t group = trace_kineto_layer_group(&reading->collector);
    if (group < 0 && !is_standard_input(reading)) {
        reading->has_sequences = reading->collector.events.lists[KINETO_TARGET].count == 0;
        reading->pass = PASS_OPERATORS;
        TRY(read_file(reading, err));
    }
    return trace_kineto_find_structure(&reading->collector, group, err);
}

static status read_and_sum(reader *reading, error_message *err)
{
    trace_recording *recording = reading->recording;
    TRY(read_file(reading, err));
    if (reading->last_end_ns > INT64_MAX - recording->base_ns) {
        return error_set(err, STATUS_FORMAT,
                         "%s: baseTimeNanoseconds %" PRId64 " plus the last time, %" PRId64
                         " ns, is beyond 64 bits",
                         reading->source->path, recording->base_ns, reading->last_end_ns);
    }
    if (!kineto_collect_has_load(&reading->collector)) TRY(find_structure(reading, err));
    TRY(kineto_collect_check(&reading->collector, err));
    recording->on_device = sorter_count(reading->collector.events.works) > 0;
    TRY(read_sequences(reading, err));
    if (!recording->on_device) TRY(read_cpu(reading, err));
    return kineto_collect_sum(&reading->collector, err);
}

status trace_kineto_read(const trace_profile_source *source, arena *memory,
                         trace_recording *recording, error_message *err)
{
    trace_recording made = {.rank = source->rank, .world_size = TRACE_NOT_RECORDED};
    reader reading = {
        .source = source,
        .recording = &made,
        .collector = {
            .map = source->map,
            .recording = &made,
            .events = {.path = source->path, .memory = memory, .scratch = arena_create(1 << 16)}}};
    const status result = read_and_sum(&reading, err);
    kineto_collector_free(&reading.collector);
    if (result == STATUS_OK) *recording = made;
    return result;
}
