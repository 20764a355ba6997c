#include "analysis/report/report.h"

#include "balance/metrics.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

enum { NAMES_SHOWN_MAX = 3000, SERIES_POINTS_MAX = 2000, DOTS_MAX = 20000 };

const char *const ana_figure_names[ANA_FIGURE_COUNT] = {"timeline", "bubble", "pareto"};

/// The ops of a timeline as a data block for the timeline script, and its title.
static void append_panel(const ana_timeline *timeline, int panel, text_buffer *settings)
{
    static const int colors[OP_KIND_COUNT] = {
        [OP_FORWARD] = 0, [OP_BACKWARD_INPUT] = 1, [OP_BACKWARD_WEIGHT] = 2, [OP_BACKWARD] = 3};
    const bal_schedule *schedule = &timeline->schedule;
    const bal_metrics metrics = bal_metrics_of(&timeline->timeline);
    char title[256];
    text_format(settings, "$ops_%d << EOD\n", panel);
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
            text_format(settings, "%.6f %.6f %d %d %s\n",
                        (double)timeline->timeline.begin_ns[op] / 1e6,
                        (double)timeline->timeline.end_ns[op] / 1e6, rank,
                        colors[schedule->ops[op].kind], bal_op_name(schedule->ops[op]).text);
        }
    }
    snprintf(title, sizeof title, "%s, iteration %d: makespan %s, bubble_ratio %.3f",
             timeline->label, timeline->iteration, text_duration(metrics.makespan_ns).text,
             metrics.bubble_ratio);
    text_format(settings, "EOD\ntitle_%d = ", panel);
    ana_plot_quote(settings, title);
    text_append(settings, "\n");
}

static status draw_timeline(const ana_report *report, text_buffer *svg, error_message *err)
{
    const ana_timeline *const panels[] = {report->before, report->after};
    const int panel_count = report->after != NULL ? 2 : 1;
    if (report->before == NULL) return STATUS_OK;
    text_buffer settings = {0};
    int64_t end_ns = 1;
    int ranks = 0;
    int kinds = 0;
    int op_count = 0;
    for (int panel = 0; panel < panel_count; panel++) {
        const bal_schedule *schedule = &panels[panel]->schedule;
        const int64_t makespan_ns = bal_metrics_of(&panels[panel]->timeline).makespan_ns;
        const int ops = schedule->first_op[schedule->rank_count];
        if (makespan_ns > end_ns) end_ns = makespan_ns;
        if (schedule->rank_count > ranks) ranks = schedule->rank_count;
        if (ops > op_count) op_count = ops;
        kinds |= schedule->has_split ? 7 : 9; // F, B, W or F, BW: bits of the colors
        append_panel(panels[panel], panel, &settings);
    }
    if (panel_count == 1) text_append(&settings, "title_1 = \"\"\n");
    const int rank_height = ranks <= 8 ? 32 : ranks <= 24 ? 16 : 8;
    const int panel_height = ranks * rank_height + 12;
    const int height = panel_count * panel_height + (panel_count - 1) * 62 + 52 + 48;
    text_format(&settings,
                "height = %d\nbottom_margin = %.5f\ntop_margin = %.5f\npanel_gap = %.5f\n"
                "panel_count = %d\nrank_count = %d\nend_ms = %.6f\nshow_names = %d\nkinds = %d\n"
                "rank_step = %d\n",
                height, 48.0 / height, 1.0 - 52.0 / height, 62.0 / height, panel_count, ranks,
                (double)end_ns / 1e6, op_count <= NAMES_SHOWN_MAX, kinds, ranks <= 12 ? 1 : 4);
    const status result = ana_plot("timeline", &settings, svg, err);
    text_free(&settings);
    return result;
}

/// Draws the bubbles of every series, thinned to what a picture can show.
static status draw_bubbles(const ana_report *report, text_buffer *svg, error_message *err)
{
    const ana_recorded *recorded = report->recorded;
    text_buffer settings = {0};
    text_buffer titles = {0};
    int shown = 0;
    int first_iteration = INT_MAX;
    int last_iteration = 0;
    for (int index = 0; index < recorded->series_count; index++) {
        const ana_report_series *series = &recorded->series[index];
        const int step = (series->count + SERIES_POINTS_MAX - 1) / SERIES_POINTS_MAX;
        if (!series->has_times) continue;
        const int first = series->iterations[0].iteration;
        const int last = series->iterations[series->count - 1].iteration;
        text_format(&settings, "$series_%d << EOD\n", shown);
        for (int point = 0; point < series->count; point += step) {
            text_format(&settings, "%d %.6f\n", series->iterations[point].iteration,
                        series->iterations[point].bubble_ratio);
        }
        text_append(&settings, "EOD\n");
        text_format(&titles, "numbers[%d] = %d\ntitles[%d] = ", shown + 1, index, shown + 1);
        ana_plot_quote(&titles, series->label);
        text_append(&titles, "\n");
        if (first < first_iteration) first_iteration = first;
        if (last > last_iteration) last_iteration = last;
        shown++;
    }
    if (shown == 0) return STATUS_OK;
    text_format(&settings,
                "array titles[%d]\narray numbers[%d]\n%stitle_of(n) = titles[n + 1]\n"
                "number_of(n) = numbers[n + 1]\nheight = %d\nseries_count = %d\n"
                "first_iteration = %d\nlast_iteration = %d\ny_title = \"bubble_ratio\"\n",
                shown, shown, titles.bytes, 280 + 20 * ((shown + 1) / 2), shown, first_iteration,
                last_iteration > first_iteration ? last_iteration : first_iteration + 1);
    const status result = ana_plot("series", &settings, svg, err);
    text_free(&settings);
    text_free(&titles);
    return result;
}

/// A figure of points, and how it is drawn.
typedef struct axis {
    const char *key;
    const char *title;
    double unit;
} axis;

static double number_or(json_value object, const char *key, double fallback)
{
    const json_value member = json_member(object, key);
    double number = fallback;
    (void)json_double(member, -1e300, 1e300, &number, NULL);
    return number;
}

/// The first of the axes that some point has; the last where none has.
static const axis *choose(json_value points, const axis *axes, int count)
{
    for (int each = 0; each < count - 1; each++) {
        json_value point = json_element(points, 0);
        for (; point.node != NULL; point = json_next(point)) {
            if (number_or(point, axes[each].key, 0) > 0) return &axes[each];
        }
    }
    return &axes[count - 1];
}

/// One class of points as a data block.
static void append_points(json_value answer, const axis *x, const axis *y, int kind,
                          text_buffer *settings)
{
    static const char *const blocks[] = {"others", "pareto", "reference"};
    const double reference = number_or(answer, "reference", -2); // -1: as written, in no matrix
    int dot_count = 0;
    text_format(settings, "$%s << EOD\n", blocks[kind]);
    for (json_value point = json_element(json_member(answer, "points"), 0);
         point.node != NULL && dot_count < DOTS_MAX; point = json_next(point)) {
        const json_value pareto = json_member(point, "pareto");
        bool is_pareto = false;
        if (!json_is_missing(pareto)) (void)json_bool(pareto, &is_pareto, NULL);
        const double length = number_or(point, x->key, 0) / x->unit;
        const bool is_reference = number_or(point, "point", -1) == reference;
        if (length <= 0 || (kind == 2 ? !is_reference : kind != (int)is_pareto)) continue;
        text_format(settings, "%.9g %.9g\n", length, number_or(point, y->key, 0) / y->unit);
        dot_count++;
    }
    text_append(settings, dot_count == 0 ? "NaN NaN\nEOD\n" : "EOD\n");
}

/// Every point: time against cost, GPU-hours or memory.
static status draw_points(const ana_report *report, text_buffer *svg, error_message *err)
{
    static const axis times[] = {{"train_s", "hours of the whole training", 3600},
                                 {"iteration_ns", "ms of an iteration", 1e6}};
    static const axis others[] = {
        {"cost", "cost of the whole training", 1},
        {"gpu_hours", "GPU-hours of the whole training", 1},
        {"peak_memory_bytes", "memory of the fullest rank, GiB", 1024.0 * 1024 * 1024}};
    const json_value answer = report->recorded->answer;
    if (json_is_missing(answer)) return STATUS_OK;
    const json_value points = json_member(answer, "points");
    const axis *x = choose(points, times, 2);
    const axis *y = choose(points, others, 3);
    text_buffer settings = {0};
    for (int kind = 0; kind < 3; kind++) {
        append_points(answer, x, y, kind, &settings);
    }
    text_format(&settings, "x_title = '%s'\ny_title = '%s'\n", x->title, y->title);
    const status drawn = ana_plot("pareto", &settings, svg, err);
    text_free(&settings);
    return drawn;
}

/// How each picture is drawn, and what stands below it.
static const struct {
    status (*draw)(const ana_report *report, text_buffer *svg, error_message *err);
    const char *caption;
} figures[ANA_FIGURE_COUNT] = {
    [ANA_FIGURE_TIMELINE] =
        {draw_timeline,
         "One iteration before and after balancing, on one time axis. F: forward; B: backward for "
         "the input gradient; W: backward for the weight gradient; BW: both. White is idle."},
    [ANA_FIGURE_BUBBLE] = {draw_bubbles,
                           "Share of all ranks' time that is idle. Iterations count from the first "
                           "one that was replayed."},
    [ANA_FIGURE_PARETO] = {draw_points, "Every point of the study. Nothing beats the Pareto set in "
                                        "everything."},
};

status ana_report_figure(const ana_report *report, ana_figure figure, text_buffer *svg,
                         error_message *err)
{
    return figures[figure].draw(report, svg, err);
}

void ana_page_begin(const char *title, text_buffer *out)
{
    text_append(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>");
    text_append_escaped(out, title);
    text_append(out, "</title>\n<meta name=\"viewport\" content=\"width=device-width\">\n<style>\n"
                     ":root{color-scheme:light dark}\n"
                     "body{font:15px/1.5 system-ui,sans-serif;max-width:1040px;margin:2em auto;"
                     "padding:0 1em;color:#1a1a1a;background:#fff}\n"
                     "h1{font-size:1.5em;margin-bottom:.2em}h2{font-size:1.15em;margin-top:2em}\n"
                     ".lead{font-size:1.1em;margin-top:0}\n"
                     "table{border-collapse:collapse;font-size:.88em;width:100%;"
                     "font-variant-numeric:tabular-nums}\n"
                     "th,td{padding:.25em .6em;text-align:right;border-bottom:1px solid #ddd}\n"
                     "th:first-child,td:first-child,td.text,th.text{text-align:left}\n"
                     "figure{margin:1em 0;padding:8px;background:#fff;overflow-x:auto}\n"
                     "figure svg{max-width:100%;height:auto}\n"
                     ".wide{overflow-x:auto}\n"
                     "figcaption{font-size:.88em;color:#444;max-width:60em}\n"
                     "code{font-size:.92em}\n"
                     "@media(prefers-color-scheme:dark){body{color:#ddd;background:#16181c}"
                     "th,td{border-color:#3a3d44}}\n"
                     "</style></head><body>\n<h1>");
    text_append_escaped(out, title);
    text_append(out, "</h1>\n");
}

/// The sentences at the head of the printed answer: what stands between its first line and its
/// table.
static void append_lead(const char *words, text_buffer *out)
{
    const char *begin = words != NULL ? strstr(words, "\n\n") : NULL;
    const char *end = begin != NULL ? strstr(begin + 2, "\n\n") : NULL;
    if (end == NULL) return;
    text_buffer piece = {0};
    text_append_bytes(&piece, begin + 2, (size_t)(end - begin - 2));
    text_append(out, "<p class=\"lead\">");
    text_append_escaped(out, piece.bytes);
    text_append(out, "</p>\n");
    text_free(&piece);
}

void ana_page_figure(const char *svg, const char *caption, text_buffer *out)
{
    text_format(out, "<figure>%s<figcaption>%s</figcaption></figure>\n", svg, caption);
}

/// The pictures that there are, each with what stands below it.
static status append_figures(const ana_report *report, text_buffer *out, error_message *err)
{
    status drawn = STATUS_OK;
    for (int figure = 0; figure < ANA_FIGURE_COUNT && drawn == STATUS_OK; figure++) {
        text_buffer svg = {0};
        drawn = ana_report_figure(report, (ana_figure)figure, &svg, err);
        if (drawn == STATUS_OK && svg.length > 0) {
            ana_page_figure(svg.bytes, figures[figure].caption, out);
        }
        text_free(&svg);
    }
    if (drawn != STATUS_UNSUPPORTED) return drawn;
    text_append(out, "<p>There was no gnuplot to draw the figures with.</p>\n");
    return STATUS_OK;
}

void ana_page_words(const char *words, text_buffer *out)
{
    text_append(out, "<h2>The answer</h2>\n<div class=\"wide\"><pre>");
    text_append_escaped(out, words);
    text_append(out, "</pre></div>\n");
}

void ana_page_end(text_buffer *out)
{
    text_append(out, "</body></html>\n");
}

static void append_fact(const char *name, const char *value, text_buffer *out)
{
    if (value == NULL) return;
    text_format(out, "<tr><td>%s</td><td class=\"text\">", name);
    text_append_escaped(out, value);
    text_append(out, "</td></tr>\n");
}

static void append_provenance(const ana_recorded *recorded, text_buffer *out)
{
    const trace_run_info *info = &recorded->info;
    text_append(out, "<h2>Provenance</h2>\n<table><tbody>\n");
    append_fact("command", info->command_line, out);
    append_fact("dynmo", info->tool_version, out);
    append_fact("host", info->host, out);
    append_fact("started", info->started_at, out);
    append_fact("finished", info->finished_at, out);
    for (int file = 0; file < recorded->input_count; file++) {
        const trace_input_file *input = &recorded->inputs[file];
        text_buffer value = {0};
        text_format(&value, "%s (%" PRId64 " bytes, FNV-1a %016" PRIx64 ")", input->path,
                    input->bytes, input->hash);
        append_fact("input", value.bytes, out);
        text_free(&value);
    }
    text_append(out, "</tbody></table>\n");
}

status ana_report_write(const ana_report *report, text_buffer *out, error_message *err)
{
    const ana_recorded *recorded = report->recorded;
    ana_page_begin(recorded->info.name, out);
    if (!json_is_missing(recorded->answer)) append_lead(recorded->words, out);
    TRY(append_figures(report, out, err));
    if (recorded->words != NULL) ana_page_words(recorded->words, out);
    append_provenance(recorded, out);
    ana_page_end(out);
    return STATUS_OK;
}

void ana_plot_quote(text_buffer *out, const char *text)
{
    text_append(out, "'");
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '\'') text_append(out, "'");
        text_append_bytes(out, (unsigned char)*c < ' ' ? " " : c, 1);
        if (strncmp(c, "]>", 2) == 0) text_append(out, " "); // "]]>" would end the text in SVG
    }
    text_append(out, "'");
}

/// Runs gnuplot on a file without a name, so that nothing stays behind, and reads what it says and
/// draws.
static status run_gnuplot(FILE *input, text_buffer *out, error_message *err)
{
    enum { NOT_FOUND = 127 }; // what a shell exits with
    char command[64];
    char block[1 << 16];
    snprintf(command, sizeof command,
             "exec gnuplot -d </dev/fd/%d 2>&1", // -d: no settings of the user
             fileno(input));
    FILE *output = popen(command, "r");
    if (output == NULL) return error_set(err, STATUS_BACKEND, "gnuplot: %s", strerror(errno));
    for (size_t count; (count = fread(block, 1, sizeof block, output)) > 0;) {
        text_append_bytes(out, block, count);
    }
    const int state = pclose(output);
    if (WIFEXITED(state) && WEXITSTATUS(state) == NOT_FOUND) {
        return error_set(err, STATUS_UNSUPPORTED, "no gnuplot on PATH, so no pictures");
    }
    const bool is_drawn = WIFEXITED(state) && WEXITSTATUS(state) == 0;
    if (is_drawn && out->length > 0 && strstr(out->bytes, "<svg") != NULL) return STATUS_OK;
    return error_set(err, STATUS_BACKEND, "gnuplot failed: %.200s",
                     out->length > 0 ? out->bytes : "it drew nothing");
}

status ana_plot(const char *script, const text_buffer *settings, text_buffer *svg,
                error_message *err)
{
    const char *commands = embedded_find(ana_plot_scripts, script);
    text_buffer whole = {0};
    status result = STATUS_IO;
    FILE *input = tmpfile();
    assert(commands != NULL);
    if (input == NULL || fwrite(settings->bytes, 1, settings->length, input) != settings->length ||
        fputs(commands, input) == EOF || fflush(input) != 0) {
        error_set(err, result, "temporary file for gnuplot: %s", strerror(errno));
    } else {
        result = run_gnuplot(input, &whole, err);
    }
    if (result == STATUS_OK) text_append(svg, strstr(whole.bytes, "<svg"));
    if (input != NULL) fclose(input);
    text_free(&whole);
    return result;
}
