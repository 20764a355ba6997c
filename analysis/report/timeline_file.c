#include "analysis/report/timeline_file.h"

#include "analysis/compare/agreement.h"
#include "balance/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PASSES = 3 };
static const char *const memory_keys[PASSES] = {"memory_forward", "memory_backward_input",
                                                "memory_backward_weight"};

static void write_ops(const ana_timeline *timeline, json_writer *writer)
{
    const bal_schedule *schedule = &timeline->schedule;
    json_begin_array(writer);
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        json_begin_array(writer);
        for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
            json_begin_array(writer);
            json_put_string(writer, NULL, bal_op_name(schedule->ops[op]).text);
            json_put_int64(writer, NULL, timeline->timeline.begin_ns[op]);
            json_put_int64(writer, NULL, timeline->timeline.end_ns[op]);
            json_end_array(writer);
        }
        json_end_array(writer);
    }
    json_end_array(writer);
}

void ana_timeline_write(const ana_timeline *timeline, text_buffer *out)
{
    const bal_schedule *schedule = &timeline->schedule;
    const int stages = schedule->rank_count * schedule->chunk_count;
    json_writer writer = json_writer_init(out);
    json_begin_object(&writer);
    json_put_string(&writer, "schema", "dynmo-timeline/1");
    json_put_string(&writer, "label", timeline->label);
    json_put_int64(&writer, "iteration", timeline->iteration);
    json_put_string(&writer, "schedule", schedule->name);
    json_put_int64(&writer, "ranks", schedule->rank_count);
    json_put_int64(&writer, "chunks", schedule->chunk_count);
    json_put_string(&writer, "placement", bal_placement_name(schedule->placement));
    json_put_int64(&writer, "microbatches", schedule->microbatch_count);
    json_put_int_array(&writer, "first_layer", timeline->first_layer, stages + 1);
    const int64_t *const changes[] = {timeline->memory_forward, timeline->memory_backward_input,
                                      timeline->memory_backward_weight};
    for (int pass = 0; pass < PASSES; pass++) {
        json_put_int64_array(&writer, memory_keys[pass], changes[pass], stages);
    }
    json_write_key(&writer, "ops");
    write_ops(timeline, &writer);
    json_end_object(&writer);
}

static status read_op(json_value entry, bal_op *op, int64_t *begin_ns, int64_t *end_ns,
                      error_message *err)
{
    const char *name = NULL;
    const json_value begin = json_element(entry, 1);
    TRY(json_string(json_element(entry, 0), &name, err));
    TRY(bal_op_parse(name, op, err));
    TRY(json_int64(begin, 0, JSON_INTEGER_MAX, begin_ns, err));
    return json_int64(json_next(begin), *begin_ns, JSON_INTEGER_MAX, end_ns, err);
}

static status read_ops(json_value ranks, arena *memory, ana_timeline *timeline, error_message *err)
{
    bal_schedule *schedule = &timeline->schedule;
    int *first_op = arena_array(memory, (size_t)schedule->rank_count + 1, sizeof *first_op);
    if (json_count(ranks) != schedule->rank_count) {
        return json_error(ranks, STATUS_FORMAT, err, "has %d ranks, needs %d", json_count(ranks),
                          schedule->rank_count);
    }
    json_value row = json_element(ranks, 0);
    for (int rank = 0; rank < schedule->rank_count; rank++, row = json_next(row)) {
        const int count = json_count(row);
        if (count > BAL_OPS_MAX - first_op[rank]) {
            return json_error(row, STATUS_FORMAT, err, "more than %d ops", BAL_OPS_MAX);
        }
        first_op[rank + 1] = first_op[rank] + count;
    }
    const size_t op_count = (size_t)first_op[schedule->rank_count];
    bal_op *ops = arena_array(memory, op_count, sizeof *ops);
    timeline->timeline.begin_ns = arena_array(memory, op_count, sizeof(int64_t));
    timeline->timeline.end_ns = arena_array(memory, op_count, sizeof(int64_t));
    int op = 0;
    for (row = json_element(ranks, 0); !json_is_missing(row); row = json_next(row)) {
        for (json_value entry = json_element(row, 0); !json_is_missing(entry);
             entry = json_next(entry), op++) {
            TRY(read_op(entry, &ops[op], &timeline->timeline.begin_ns[op],
                        &timeline->timeline.end_ns[op], err));
            schedule->has_split = schedule->has_split || ops[op].kind == OP_BACKWARD_INPUT;
        }
    }
    schedule->first_op = first_op;
    schedule->ops = ops;
    timeline->timeline.schedule = schedule;
    return STATUS_OK;
}

status ana_timeline_read(json_value root, arena *memory, ana_timeline *timeline, error_message *err)
{
    const char *schema = NULL;
    const char *placement = NULL;
    *timeline = (ana_timeline){0};
    bal_schedule *schedule = &timeline->schedule;
    TRY(json_string(json_member(root, "schema"), &schema, err));
    if (strcmp(schema, "dynmo-timeline/1") != 0) {
        return json_error(json_member(root, "schema"), STATUS_FORMAT, err,
                          "'%.40s' is not 'dynmo-timeline/1'", schema);
    }
    TRY(json_string(json_member(root, "label"), &timeline->label, err));
    TRY(json_string(json_member(root, "schedule"), &schedule->name, err));
    TRY(json_string(json_member(root, "placement"), &placement, err));
    TRY(json_int(json_member(root, "iteration"), 0, INT32_MAX, &timeline->iteration, err));
    TRY(json_int(json_member(root, "ranks"), 1, BAL_RANKS_MAX, &schedule->rank_count, err));
    TRY(json_int(json_member(root, "chunks"), 1, BAL_CHUNKS_MAX, &schedule->chunk_count, err));
    TRY(json_int(json_member(root, "microbatches"), 1, BAL_MICROBATCHES_MAX,
                 &schedule->microbatch_count, err));
    if (!bal_placement_find(placement, &schedule->placement)) {
        return json_error(json_member(root, "placement"), STATUS_FORMAT, err,
                          "'%.40s' is neither v nor interleaved", placement);
    }
    const int stages = schedule->rank_count * schedule->chunk_count;
    int64_t *wide = arena_array(memory, (size_t)stages + 1, sizeof *wide);
    int *first_layer = arena_array(memory, (size_t)stages + 1, sizeof *first_layer);
    TRY(json_int64_array(json_member(root, "first_layer"), stages + 1, 0, INT32_MAX, wide, err));
    for (int stage = 0; stage <= stages; stage++) {
        first_layer[stage] = (int)wide[stage];
    }
    timeline->first_layer = first_layer;
    const int64_t **const changes[] = {&timeline->memory_forward, &timeline->memory_backward_input,
                                       &timeline->memory_backward_weight};
    for (int pass = 0; pass < PASSES; pass++) {
        int64_t *values = arena_array(memory, (size_t)stages, sizeof *values);
        *changes[pass] = values;
        TRY(json_int64_array(json_member(root, memory_keys[pass]), stages, -JSON_INTEGER_MAX,
                             JSON_INTEGER_MAX, values, err));
    }
    TRY(read_ops(json_member(root, "ops"), memory, timeline, err));
    return bal_schedule_check(schedule, err);
}

/// Where the objects of one timeline go: its process id and the next free flow id.
typedef struct perfetto_writer {
    ana_events events;
    int process;
    int64_t next_flow;
    const int *sender; // [op] whose output it waits for
} perfetto_writer;

ana_events ana_events_begin(text_buffer *out)
{
    text_append(out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    return (ana_events){.out = out};
}

void ana_events_end(ana_events *events)
{
    text_append(events->out, "\n]}\n");
}

static void begin_event(ana_events *events)
{
    text_append(events->out, events->has_events ? ",\n" : "\n");
    events->has_events = true;
}

static void append_us(ana_events *events, int64_t ns)
{
    text_format(events->out, "%" PRId64 ".%03d", ns / 1000, (int)(ns % 1000));
}

void ana_event_name(ana_events *events, const char *what, int process, int thread, const char *name)
{
    json_writer quoted = json_writer_init(events->out);
    begin_event(events);
    text_format(events->out,
                "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":", what,
                process, thread);
    json_put_string(&quoted, NULL, name);
    text_append(events->out, "}}");
}

void ana_event_slice(ana_events *events, const char *name, int process, int thread,
                     int64_t begin_ns, int64_t length_ns)
{
    json_writer quoted = json_writer_init(events->out);
    begin_event(events);
    text_append(events->out, "{\"ph\":\"X\",\"name\":");
    json_put_string(&quoted, NULL, name);
    text_format(events->out, ",\"pid\":%d,\"tid\":%d,\"ts\":", process, thread);
    append_us(events, begin_ns);
    text_append(events->out, ",\"dur\":");
    append_us(events, length_ns);
}

static void write_names(perfetto_writer *writer, const ana_timeline *timeline)
{
    const bal_schedule *schedule = &timeline->schedule;
    char name[256];
    snprintf(name, sizeof name, "%s, iteration %d, %s", timeline->label, timeline->iteration,
             schedule->name);
    ana_event_name(&writer->events, "process_name", writer->process, 0, name);
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        text_buffer layers = {0};
        text_format(&layers, "rank %d: layers", rank);
        for (int chunk = 0; chunk < schedule->chunk_count; chunk++) {
            const int stage = bal_schedule_stage(schedule, rank, chunk);
            text_format(&layers, " %d-%d", timeline->first_layer[stage],
                        timeline->first_layer[stage + 1] - 1);
        }
        ana_event_name(&writer->events, "thread_name", writer->process, rank, layers.bytes);
        text_free(&layers);
    }
}

static void write_flow_end(perfetto_writer *writer, const char *phase, const char *name, int rank,
                           int64_t ns)
{
    begin_event(&writer->events);
    text_format(writer->events.out,
                "{\"ph\":\"%s\",%s\"cat\":\"message\",\"name\":\"%s\",\"id\":%" PRId64
                ",\"pid\":%d,\"tid\":%d,\"ts\":",
                phase, phase[0] == 'f' ? "\"bp\":\"e\"," : "", name, writer->next_flow,
                writer->process, rank);
    append_us(&writer->events, ns);
    text_append(writer->events.out, "}");
}

/// An arrow from the op that sends to the op that waits, if they are on different ranks.
static void write_message(perfetto_writer *writer, const ana_timeline *timeline, int rank, int op)
{
    const bal_schedule *schedule = &timeline->schedule;
    const int sender = writer->sender[op];
    bal_op_kind kind;
    if (sender < 0) return;
    const int stage = bal_op_waits_for(schedule, rank, schedule->ops[op], &kind);
    const char *name = kind == OP_FORWARD ? "activation" : "gradient";
    // The arrow leaves inside the sending slice: Perfetto binds it to the slice that covers it.
    const int64_t end = timeline->timeline.end_ns[sender];
    const int64_t begin = timeline->timeline.begin_ns[sender];
    write_flow_end(writer, "s", name, bal_schedule_rank(schedule, stage),
                   end > begin ? end - 1 : end);
    write_flow_end(writer, "f", name, rank, timeline->timeline.begin_ns[op]);
    writer->next_flow++;
}

static void write_slices(perfetto_writer *writer, const ana_timeline *timeline)
{
    const bal_schedule *schedule = &timeline->schedule;
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
            const int64_t begin = timeline->timeline.begin_ns[op];
            ana_event_slice(&writer->events, bal_op_name(schedule->ops[op]).text, writer->process,
                            rank, begin, timeline->timeline.end_ns[op] - begin);
            text_append(writer->events.out, "}");
            write_message(writer, timeline, rank, op);
        }
    }
}

static void write_counter(perfetto_writer *writer, const char *unit, int rank, int64_t ns,
                          int64_t held)
{
    const char *name = unit == NULL ? "activation bytes" : unit;
    begin_event(&writer->events);
    text_format(writer->events.out,
                "{\"ph\":\"C\",\"name\":\"%s, rank %d\",\"pid\":%d,\"ts\":", name, rank,
                writer->process);
    append_us(&writer->events, ns);
    text_format(writer->events.out, ",\"args\":{\"%s\":%" PRId64 "}}",
                unit == NULL ? "bytes" : unit, held);
}

/// Activation memory of a rank over time.
static void write_memory(perfetto_writer *writer, const ana_timeline *timeline, int rank)
{
    const bal_schedule *schedule = &timeline->schedule;
    const bal_stage_costs costs = {.memory_forward = timeline->memory_forward,
                                   .memory_backward_input = timeline->memory_backward_input,
                                   .memory_backward_weight = timeline->memory_backward_weight};
    int64_t held = 0;
    for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
        const bal_op *played = &schedule->ops[op];
        const int stage = bal_schedule_stage(schedule, rank, played->chunk);
        const bool forward = played->kind == OP_FORWARD;
        const int64_t change = bal_memory_change(&costs, stage, (bal_op_kind)played->kind);
        if (change == 0) continue;
        held += change;
        write_counter(writer, timeline->memory_unit, rank,
                      forward ? timeline->timeline.begin_ns[op] : timeline->timeline.end_ns[op],
                      held);
    }
}

void ana_perfetto_write(const ana_timeline *const *timelines, int timeline_count, arena *memory,
                        text_buffer *out)
{
    perfetto_writer writer = {.events = ana_events_begin(out), .next_flow = 1};
    for (int index = 0; index < timeline_count; index++) {
        writer.process = index + 1;
        writer.sender = ana_senders(&timelines[index]->schedule, memory);
        write_names(&writer, timelines[index]);
        write_slices(&writer, timelines[index]);
        for (int rank = 0; rank < timelines[index]->schedule.rank_count; rank++) {
            write_memory(&writer, timelines[index], rank);
        }
    }
    ana_events_end(&writer.events);
}
