#include "analysis/stragglers/pictures.h"

#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/// Rows of a worker; ops on one row never overlap.
static const char *const row_names[] = {"",           "collectives", "sends F",
                                        "receives F", "sends B",     "receives B"};
enum { ROWS = sizeof row_names / sizeof row_names[0] };

static int row_of(trace_op_kind kind)
{
    if (kind >= TRACE_OP_REPLICAS) return 1;
    const bool is_message = kind >= TRACE_OP_SEND_FORWARD && kind <= TRACE_OP_RECV_BACKWARD;
    return is_message ? 2 + (int)kind - (int)TRACE_OP_SEND_FORWARD : 0;
}

static void separate(text_buffer *out, bool *has_events)
{
    text_append(out, *has_events ? ",\n" : "\n");
    *has_events = true;
}

static void write_label(text_buffer *out, bool *has_events, const char *what, int process,
                        int thread, const char *name)
{
    json_writer quoted = json_writer_init(out);
    separate(out, has_events);
    text_format(out,
                "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":", what,
                process, thread);
    json_write_string(&quoted, name);
    text_append(out, "}}");
}

static void write_rows(const ana_op_run *run, text_buffer *out, bool *has_events, int process,
                       const char *title)
{
    char name[80];
    write_label(out, has_events, "process_name", process, 0, title);
    for (int worker = 0; worker < run->worker_count; worker++) {
        for (int row = 0; row < ROWS; row++) {
            snprintf(name, sizeof name, "replica %d stage %d %s", worker / run->stage_count,
                     worker % run->stage_count, row_names[row]);
            write_label(out, has_events, "thread_name", process, worker * ROWS + row, name);
        }
    }
}

/// @param begin_ns, end_ns [op_count] from the begin of the step
static void write_ops(const ana_op_run *run, const ana_op_step *step, const int64_t *begin_ns,
                      const int64_t *end_ns, text_buffer *out, bool *has_events, int process)
{
    // Recorded events are a few us apart; slices on a row must not overlap.
    int64_t *free_ns = memory_array((size_t)run->worker_count * ROWS, sizeof *free_ns);
    for (int op = 0; op < step->op_count; op++) {
        const trace_op *each = &step->ops[op];
        const int row = each->rank * ROWS + row_of(each->kind);
        const int64_t from_ns = begin_ns[op] > free_ns[row] ? begin_ns[op] : free_ns[row];
        const int64_t long_ns = end_ns[op] > from_ns ? end_ns[op] - from_ns : 0;
        free_ns[row] = from_ns + long_ns;
        json_writer quoted = json_writer_init(out);
        separate(out, has_events);
        text_append(out, "{\"ph\":\"X\",\"name\":");
        json_write_string(&quoted, run->table->names[each->name - 1]);
        text_format(out, ",\"pid\":%d,\"tid\":%d,\"ts\":%" PRId64 ".%03d,\"dur\":%" PRId64 ".%03d",
                    process, row, from_ns / 1000, (int)(from_ns % 1000), long_ns / 1000,
                    (int)(long_ns % 1000));
        if (each->microbatch >= 0) {
            text_format(out, ",\"args\":{\"chunk\":%d,\"microbatch\":%d}", each->chunk,
                        each->microbatch);
        }
        text_append(out, "}");
    }
    free(free_ns);
}

void ana_straggler_timelines(const ana_op_run *run, const ana_causes *causes, int step,
                             text_buffer *out)
{
    static const char *const titles[] = {"recorded", "ideal", "causes mended"};
    const ana_op_step *of = &run->steps[step];
    const int timeline_count = causes->named_count > 0 ? 3 : 2;
    int64_t *begin_ns = memory_array((size_t)of->op_count * 3, sizeof *begin_ns);
    int64_t *end_ns = begin_ns + of->op_count;
    int64_t *duration_ns = end_ns + of->op_count;
    bool has_events = false;
    text_append(out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    for (int timeline = 0; timeline < timeline_count; timeline++) {
        char title[64];
        snprintf(title, sizeof title, "step %d, %s", of->step, titles[timeline]);
        for (int op = 0; op < of->op_count; op++) {
            begin_ns[op] = of->ops[op].begin_ns - of->begin_ns;
            end_ns[op] = of->ops[op].end_ns - of->begin_ns;
            duration_ns[op] =
                timeline == 1 ? run->ideal_ns[of->ops[op].name - 1]
                              : (int64_t)(causes->mending[step][op] * (double)of->own_ns[op] + 0.5);
        }
        const ana_replay replay = {.duration_ns = duration_ns};
        if (timeline > 0) ana_op_step_replay(of, &replay, begin_ns, end_ns);
        write_rows(run, out, &has_events, timeline + 1, title);
        write_ops(run, of, begin_ns, end_ns, out, &has_events, timeline + 1);
    }
    text_append(out, "\n]}\n");
    free(begin_ns);
}

void ana_straggler_heat_map(const ana_op_run *run, const ana_slowdowns *slowdowns, text_buffer *out)
{
    enum { WIDTH = 56, HEIGHT = 18, LEFT = 76, TOP = 40 };
    double largest = 1.001;
    for (int worker = 0; worker < run->worker_count; worker++) {
        if (slowdowns->by_worker[worker] > largest) largest = slowdowns->by_worker[worker];
    }
    text_format(out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                "font-family=\"sans-serif\" font-size=\"11\">\n"
                "<text x=\"4\" y=\"14\">slowdown by each worker alone, white 1, darkest %.3f"
                "</text>\n",
                LEFT + run->stage_count * WIDTH + 220, TOP + run->replica_count * HEIGHT + 8,
                largest);
    for (int stage = 0; stage < run->stage_count; stage++) {
        text_format(out, "<text x=\"%d\" y=\"%d\">stage %d</text>\n", LEFT + stage * WIDTH + 4,
                    TOP - 6, stage);
    }
    for (int worker = 0; worker < run->worker_count; worker++) {
        const int x = LEFT + worker % run->stage_count * WIDTH;
        const int y = TOP + worker / run->stage_count * HEIGHT;
        const double slowdown = slowdowns->by_worker[worker];
        const double depth = slowdown > 1 ? (slowdown - 1) / (largest - 1) : 0;
        if (worker % run->stage_count == 0) {
            text_format(out, "<text x=\"4\" y=\"%d\">replica %d</text>\n", y + 13,
                        worker / run->stage_count);
        }
        text_format(out,
                    "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"rgb(255,%d,%d)\" "
                    "stroke=\"#ccc\"/>\n<text x=\"%d\" y=\"%d\">%.3f</text>\n",
                    x, y, WIDTH, HEIGHT, 255 - (int)(depth * 140), 255 - (int)(depth * 200), x + 10,
                    y + 13, slowdown);
    }
    text_append(out, "</svg>\n");
}

int ana_slowest_step(const ana_op_run *run, const ana_slowdowns *slowdowns)
{
    int slowest = 0;
    for (int step = 1; step < run->step_count; step++) {
        if (slowdowns->steps[step].replayed_ns > slowdowns->steps[slowest].replayed_ns) {
            slowest = step;
        }
    }
    return slowest;
}
