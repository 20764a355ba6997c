#include "analysis/stragglers/causes.h"

#include "analysis/report/report.h"
#include "analysis/report/timeline_file.h"
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 9, SHOWN = 5 };

/// By the recorded names; F and backward also by what they are, unless a kind is called so.
static void write_kinds(json_writer *writer, const ana_op_run *run, const double *ratios)
{
    static const char *const words[] = {[TRACE_OP_FORWARD] = "forward",
                                        [TRACE_OP_BACKWARD_INPUT] = "backward_input",
                                        [TRACE_OP_BACKWARD_WEIGHT] = "backward_weight",
                                        [TRACE_OP_BACKWARD] = "backward"};
    const trace_op_table *table = run->table;
    bool is_told[TRACE_OP_COUNT] = {false};
    json_put_object(writer, "by_kind");
    for (int kind = 0; kind < run->kind_count; kind++) {
        json_put_rounded(writer, run->kinds[kind], ratios[kind], DIGITS);
        for (int known = 0; known <= TRACE_OP_BACKWARD; known++) {
            if (strcmp(run->kinds[kind], words[known]) == 0) is_told[known] = true;
        }
    }
    for (int name = 0; name < table->name_count; name++) {
        const trace_op_kind kind = table->kinds[name];
        if (kind > TRACE_OP_BACKWARD || is_told[kind]) continue;
        is_told[kind] = true;
        json_put_rounded(writer, words[kind], ratios[run->kind_of_name[name]], DIGITS);
    }
    json_end_object(writer);
}

/// Slowdowns of a step by its parts, [count].
static const double *of_step(const ana_slowdowns *found, ana_slow_part part, int step)
{
    return found->step_by[part] + (size_t)step * (size_t)found->count[part];
}

static void write_steps(json_writer *writer, const ana_op_run *run, const ana_slowdowns *found)
{
    json_put_array(writer, "steps");
    for (int step = 0; step < run->step_count; step++) {
        const ana_straggler_step *each = &found->steps[step];
        const double ideal_ns = (double)each->ideal_ns;
        json_begin_object(writer);
        json_put_int64(writer, "step", each->step);
        json_put_int64(writer, "recorded_ns", each->recorded_ns);
        json_put_int64(writer, "replayed_ns", each->replayed_ns);
        json_put_int64(writer, "ideal_ns", each->ideal_ns);
        json_put_int64(writer, "replayed_with_delays_ns", each->delayed_ns);
        json_put_rounded(writer, "slowdown",
                         ideal_ns > 0 ? (double)each->replayed_ns / ideal_ns : 1, DIGITS);
        write_kinds(writer, run, of_step(found, ANA_SLOW_KIND, step));
        json_put_double_array(writer, "by_stage", of_step(found, ANA_SLOW_STAGE, step),
                              run->stage_count, DIGITS);
        json_put_double_array(writer, "by_replica", of_step(found, ANA_SLOW_REPLICA, step),
                              run->replica_count, DIGITS);
        json_end_object(writer);
    }
    json_end_array(writer);
}

static void write_workers(json_writer *writer, const ana_op_run *run, const ana_slowdowns *found)
{
    json_put_array(writer, "by_worker");
    for (int worker = 0; worker < run->worker_count; worker++) {
        json_begin_object(writer);
        json_put_int64(writer, "replica", worker / run->stage_count);
        json_put_int64(writer, "stage", worker % run->stage_count);
        json_put_rounded(writer, "slowdown", found->by[ANA_SLOW_WORKER][worker], DIGITS);
        json_end_object(writer);
    }
    json_end_array(writer);
}

void ana_cause_write(const ana_cause *cause, json_writer *writer)
{
    json_begin_object(writer);
    json_put_string(writer, "cause", cause->name);
    json_put_string(writer, "evidence", cause->evidence);
    json_put_rounded(writer, "gain", cause->gain.gain, DIGITS);
    if (cause->is_bound) json_put_bool(writer, "is_bound", true);
    if (!cause->gain.is_short) {
        json_put_rounded(writer, "gain_low", cause->gain.low, DIGITS);
        json_put_rounded(writer, "gain_high", cause->gain.high, DIGITS);
    }
    json_end_object(writer);
}

static void write_causes(json_writer *writer, const ana_op_run *run, const ana_causes *causes)
{
    json_put_array(writer, "causes");
    for (int each = 0; each < causes->named_count; each++) {
        ana_cause_write(&causes->all[each], writer);
    }
    json_end_array(writer);
    json_put_rounded(writer, "correlation", causes->correlation, DIGITS);
    json_put_int64_array(writer, "stage_ns", causes->split.stage_ns, run->stage_count);
    json_put_int_array(writer, "split", causes->split.layers, run->stage_count);
}

void ana_stragglers_write(const ana_stragglers *of, text_buffer *out)
{
    const ana_op_run *run = &of->run;
    const ana_slowdowns *slowdowns = &of->slowdowns;
    json_writer to = json_line_begin(out);
    json_writer *writer = &to;
    if (of->cold_factor > 0) {
        json_put_int64(writer, "cold_step", of->cold_step);
        json_put_rounded(writer, "cold_factor", of->cold_factor, DIGITS);
    }
    json_put_rounded(writer, "slowdown", slowdowns->slowdown, DIGITS);
    json_put_rounded(writer, "launch_slowdown", slowdowns->launch_slowdown, DIGITS);
    write_kinds(writer, run, slowdowns->by[ANA_SLOW_KIND]);
    json_put_double_array(writer, "by_stage", slowdowns->by[ANA_SLOW_STAGE], run->stage_count,
                          DIGITS);
    json_put_double_array(writer, "by_replica", slowdowns->by[ANA_SLOW_REPLICA], run->replica_count,
                          DIGITS);
    write_workers(writer, run, slowdowns);
    json_put_rounded(writer, "worker_share", slowdowns->worker_share, DIGITS);
    json_put_rounded(writer, "stage_share", slowdowns->stage_share, DIGITS);
    write_causes(writer, run, &of->causes);
    write_steps(writer, run, slowdowns);
    json_line_end(writer);
}

/// One line per part, longest first.
///
/// @param ratios [count]
/// @param stages parts are workers, so many of each replica; 0: they are called by their number
static void print_largest(text_buffer *out, const char *what, const double *ratios, int count,
                          int shown, int stages)
{
    bool *is_shown = memory_array((size_t)count, sizeof *is_shown);
    text_format(out, "  by %-8s", what);
    for (int place = 0; place < shown && place < count; place++) {
        int largest = -1;
        for (int each = 0; each < count; each++) {
            if (!is_shown[each] && (largest < 0 || ratios[each] > ratios[largest])) largest = each;
        }
        is_shown[largest] = true;
        if (stages > 0) {
            text_format(out, "  replica %d, stage %d", largest / stages, largest % stages);
        } else {
            text_format(out, "  %d", largest);
        }
        text_format(out, ": %.3f", ratios[largest]);
    }
    text_append(out, count > shown ? "  ...\n" : "\n");
    free(is_shown);
}

static void print_slowdowns(const ana_op_run *run, const ana_slowdowns *found, text_buffer *out)
{
    text_format(out, "slowdown %.3f: %s of %s x %s against every op at the mean of its kind\n",
                found->slowdown, text_count(run->step_count, "step").text,
                text_count(run->replica_count, "replica").text,
                text_count(run->stage_count, "stage").text);
    text_append(out, "  by kind   ");
    for (int kind = 0; kind < run->kind_count; kind++) {
        if (found->by[ANA_SLOW_KIND][kind] < 1.0005) continue;
        text_format(out, "  %s: %.3f", run->kinds[kind], found->by[ANA_SLOW_KIND][kind]);
    }
    text_append(out, "\n");
    print_largest(out, "stage", found->by[ANA_SLOW_STAGE], run->stage_count, SHOWN, 0);
    print_largest(out, "replica", found->by[ANA_SLOW_REPLICA], run->replica_count, SHOWN, 0);
    print_largest(out, "worker", found->by[ANA_SLOW_WORKER], run->worker_count, SHOWN,
                  run->stage_count);
    text_format(out,
                "  mending the slowest %d of %d workers wins %.0f %% of what is lost, "
                "mending the last stage %.0f %%\n",
                found->slow_worker_count, run->worker_count, 100 * found->worker_share,
                100 * found->stage_share);
}

/// Appends a cause with its gain and evidence, for people.
static void print_cause(const ana_cause *cause, text_buffer *out)
{
    text_format(out, "cause: %s; mending it gains %s%.1f %%", cause->name,
                cause->is_bound ? "up to " : "", 100 * cause->gain.gain);
    if (cause->gain.is_short) {
        text_append(out, ", of too few steps for an interval");
    } else {
        text_format(out, " (%.1f to %.1f)", 100 * cause->gain.low, 100 * cause->gain.high);
    }
    text_append(out, "\n");
    text_append_wrapped(out, cause->evidence, 4, 100);
}

void ana_stragglers_print(const ana_stragglers *of, text_buffer *out)
{
    const bool has_untold = of->causes.untold >= ANA_CAUSE_GAIN_MIN;
    print_slowdowns(&of->run, &of->slowdowns, out);
    if (of->cold_factor > 0) {
        text_format(out,
                    "note: most ops of step %d take %.2f times as long as those of step %d: %s\n",
                    of->cold_step, of->cold_factor, of->next_step,
                    of->next_step == of->cold_step + 1 ? "it is left out as warm-up"
                                                       : "warm-up, or a model that changed");
    }
    if (of->causes.named_count == 0) {
        text_format(out, "no cause%s: mending none of them gains %g %%\n",
                    has_untold ? " that can be told" : "", 100 * ANA_CAUSE_GAIN_MIN);
    }
    for (int each = 0; each < of->causes.named_count; each++) {
        print_cause(&of->causes.all[each], out);
    }
    if (!has_untold) return;
    text_format(out,
                "not told: late launches and the travel of messages lengthen the run by %.1f %% "
                "together\n    messages were not recorded, so pauses of the host cannot be told "
                "from slow links\n",
                100 * of->causes.untold);
}

// Pictures.

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

static void write_rows(const ana_op_run *run, ana_events *events, int process, const char *title)
{
    char name[80];
    ana_event_name(events, "process_name", process, 0, title);
    for (int worker = 0; worker < run->worker_count; worker++) {
        for (int row = 0; row < ROWS; row++) {
            snprintf(name, sizeof name, "replica %d stage %d %s", worker / run->stage_count,
                     worker % run->stage_count, row_names[row]);
            ana_event_name(events, "thread_name", process, worker * ROWS + row, name);
        }
    }
}

/// @param begin_ns, end_ns [op_count] from the begin of the step
static void write_ops(const ana_op_run *run, const ana_op_step *step, const int64_t *begin_ns,
                      const int64_t *end_ns, ana_events *events, int process)
{
    // Recorded events are a few us apart; slices on a row must not overlap.
    int64_t *free_ns = memory_array((size_t)run->worker_count * ROWS, sizeof *free_ns);
    for (int op = 0; op < step->op_count; op++) {
        const trace_op *each = &step->ops[op];
        const int row = each->rank * ROWS + row_of(each->kind);
        const int64_t from_ns = begin_ns[op] > free_ns[row] ? begin_ns[op] : free_ns[row];
        const int64_t long_ns = end_ns[op] > from_ns ? end_ns[op] - from_ns : 0;
        free_ns[row] = from_ns + long_ns;
        ana_event_slice(events, run->table->names[each->name - 1], process, row, from_ns, long_ns);
        if (each->microbatch >= 0) {
            text_format(events->out, ",\"args\":{\"chunk\":%d,\"microbatch\":%d}", each->chunk,
                        each->microbatch);
        }
        text_append(events->out, "}");
    }
    free(free_ns);
}

/// A step three times: as recorded, ideal, with all named causes mended.
enum { RECORDED, IDEAL, MENDED, TIMELINES };

static const char *const timeline_names[TIMELINES] = {"recorded", "ideal", "causes mended"};

/// How many there are to show.
static int timeline_count(const ana_causes *causes)
{
    return causes->named_count > 0 ? TIMELINES : MENDED;
}

/// When the ops of a step run, from its begin. @param begin_ns, end_ns [op_count] out
static void time_ops(const ana_op_run *run, const ana_causes *causes, int step, int timeline,
                     int64_t *begin_ns, int64_t *end_ns)
{
    const ana_op_step *of = &run->steps[step];
    int64_t *duration_ns = memory_array((size_t)of->op_count, sizeof *duration_ns);
    for (int op = 0; op < of->op_count; op++) {
        begin_ns[op] = of->ops[op].begin_ns - of->begin_ns;
        end_ns[op] = of->ops[op].end_ns - of->begin_ns;
        duration_ns[op] = timeline == IDEAL
                              ? run->ideal_ns[of->ops[op].name - 1]
                              : (int64_t)(causes->mending[step][op] * (double)of->own_ns[op] + 0.5);
    }
    const ana_replay replay = {.duration_ns = duration_ns};
    if (timeline != RECORDED) ana_op_step_replay(of, &replay, begin_ns, end_ns);
    free(duration_ns);
}

void ana_straggler_timelines(const ana_stragglers *of, int step, text_buffer *out)
{
    const ana_op_run *run = &of->run;
    const ana_causes *causes = &of->causes;
    const ana_op_step *at = &run->steps[step];
    int64_t *begin_ns = memory_array((size_t)at->op_count * 2, sizeof *begin_ns);
    int64_t *end_ns = begin_ns + at->op_count;
    ana_events events = ana_events_begin(out);
    for (int timeline = 0; timeline < timeline_count(causes); timeline++) {
        char title[64];
        snprintf(title, sizeof title, "step %d, %s", at->step, timeline_names[timeline]);
        time_ops(run, causes, step, timeline, begin_ns, end_ns);
        write_rows(run, &events, timeline + 1, title);
        write_ops(run, at, begin_ns, end_ns, &events, timeline + 1);
    }
    ana_events_end(&events);
    free(begin_ns);
}

void ana_straggler_heat_map(const ana_stragglers *of, text_buffer *out)
{
    const ana_op_run *run = &of->run;
    const ana_slowdowns *slowdowns = &of->slowdowns;
    enum { CELL = 56, HEIGHT = 18, MARGIN = 76, TOP = 40 };
    double largest = 1.001;
    for (int worker = 0; worker < run->worker_count; worker++) {
        if (slowdowns->by[ANA_SLOW_WORKER][worker] > largest)
            largest = slowdowns->by[ANA_SLOW_WORKER][worker];
    }
    text_format(out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                "font-family=\"sans-serif\" font-size=\"11\">\n"
                "<text x=\"4\" y=\"14\">slowdown by each worker alone, white 1, darkest %.3f"
                "</text>\n",
                MARGIN + run->stage_count * CELL + 220, TOP + run->replica_count * HEIGHT + 8,
                largest);
    for (int stage = 0; stage < run->stage_count; stage++) {
        text_format(out, "<text x=\"%d\" y=\"%d\">stage %d</text>\n", MARGIN + stage * CELL + 4,
                    TOP - 6, stage);
    }
    for (int worker = 0; worker < run->worker_count; worker++) {
        const int x = MARGIN + worker % run->stage_count * CELL;
        const int y = TOP + worker / run->stage_count * HEIGHT;
        const double slowdown = slowdowns->by[ANA_SLOW_WORKER][worker];
        const double depth = slowdown > 1 ? (slowdown - 1) / (largest - 1) : 0;
        if (worker % run->stage_count == 0) {
            text_format(out, "<text x=\"4\" y=\"%d\">replica %d</text>\n", y + 13,
                        worker / run->stage_count);
        }
        text_format(out,
                    "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"rgb(255,%d,%d)\" "
                    "stroke=\"#ccc\"/>\n<text x=\"%d\" y=\"%d\">%.3f</text>\n",
                    x, y, CELL, HEIGHT, 255 - (int)(depth * 140), 255 - (int)(depth * 200), x + 10,
                    y + 13, slowdown);
    }
    text_append(out, "</svg>\n");
}

/// The colours of the other pictures; collectives are grey, messages not drawn.
static const char *color_of(trace_op_kind kind)
{
    static const char *const colors[] = {[TRACE_OP_FORWARD] = "#0072B2",
                                         [TRACE_OP_BACKWARD_INPUT] = "#E69F00",
                                         [TRACE_OP_BACKWARD_WEIGHT] = "#009E73",
                                         [TRACE_OP_BACKWARD] = "#D55E00"};
    if (kind <= TRACE_OP_BACKWARD) return colors[kind];
    return row_of(kind) <= 1 ? "#bbb" : NULL;
}

enum { LEFT = 130, WIDTH = 860, ROW = 12, TITLE = 24 };

/// One timeline, a row per worker. @param scale pixels of a ns
static void draw_ops(const ana_op_run *run, const ana_op_step *step, const int64_t *begin_ns,
                     const int64_t *end_ns, int top, double scale, text_buffer *out)
{
    for (int worker = 0; worker < run->worker_count; worker++) {
        text_format(out, "<text x=\"0\" y=\"%d\">replica %d, stage %d</text>\n",
                    top + worker * ROW + 9, worker / run->stage_count, worker % run->stage_count);
    }
    for (int op = 0; op < step->op_count; op++) {
        const char *color = color_of(step->ops[op].kind);
        if (color == NULL) continue;
        text_format(out, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n",
                    LEFT + scale * (double)begin_ns[op], top + step->ops[op].rank * ROW,
                    scale * (double)(end_ns[op] - begin_ns[op]), ROW - 1, color);
    }
}

/// The timelines of a step below each other, as SVG, all on one time axis.
static void draw_timelines(const ana_op_run *run, const ana_causes *causes, int step,
                           text_buffer *out)
{
    const ana_op_step *of = &run->steps[step];
    const int height = run->worker_count * ROW + TITLE;
    int64_t *begin_ns = memory_array((size_t)of->op_count * 2, sizeof *begin_ns);
    int64_t *end_ns = begin_ns + of->op_count;
    double scale = 0;
    text_format(out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                "font-family=\"sans-serif\" font-size=\"10\">\n",
                LEFT + WIDTH, timeline_count(causes) * height);
    for (int timeline = 0; timeline < timeline_count(causes); timeline++) {
        const int top = timeline * height + TITLE;
        int64_t last_ns = 1;
        time_ops(run, causes, step, timeline, begin_ns, end_ns);
        for (int op = 0; op < of->op_count; op++) {
            if (end_ns[op] > last_ns) last_ns = end_ns[op];
        }
        if (timeline == RECORDED) scale = WIDTH / (double)last_ns; // the longest
        text_format(out, "<text x=\"%d\" y=\"%d\">step %d, %s: %s</text>\n", LEFT, top - 6,
                    of->step, timeline_names[timeline], text_duration(last_ns).text);
        draw_ops(run, of, begin_ns, end_ns, top, scale, out);
    }
    text_append(out, "</svg>\n");
    free(begin_ns);
}

void ana_stragglers_page(const ana_stragglers *of, const char *title, text_buffer *out)
{
    text_buffer part = {0};
    ana_page_begin(title, out);
    draw_timelines(&of->run, &of->causes, ana_slowest_step(of), &part);
    ana_page_figure(
        part.bytes,
        "The slowest step: as recorded; with every op at the mean of its kind; with the "
        "named causes mended, if there are any. Blue: F; red: backward, or orange: B and "
        "green: W; grey: collectives and others. White is idle.",
        out);
    text_clear(&part);
    ana_straggler_heat_map(of, &part);
    ana_page_figure(part.bytes, "The slowdown of the run by the ops of each worker alone.", out);
    text_clear(&part);
    ana_stragglers_print(of, &part);
    ana_page_words(part.bytes, out);
    text_free(&part);
    ana_page_end(out);
}

int ana_slowest_step(const ana_stragglers *of)
{
    const ana_straggler_step *steps = of->slowdowns.steps;
    int slowest = 0;
    for (int step = 1; step < of->run.step_count; step++) {
        if (steps[step].replayed_ns > steps[slowest].replayed_ns) slowest = step;
    }
    return slowest;
}
