#include "analysis/report/timeline_file.h"

#include "analysis/compare/agreement.h"
#include "balance/metrics.h"

#include <inttypes.h>
#include <stdio.h>

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
