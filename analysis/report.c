#include "analysis/report.h"

#include "analysis/plot.h"
#include "balance/metrics.h"

#include <stdio.h>
#include <string.h>

enum { NAMES_SHOWN_MAX = 3000, SERIES_POINTS_MAX = 2000 };

static void append_escaped(text_buffer *out, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        switch (*c) {
        case '<':
            text_append(out, "&lt;");
            break;
        case '>':
            text_append(out, "&gt;");
            break;
        case '&':
            text_append(out, "&amp;");
            break;
        case '"':
            text_append(out, "&quot;");
            break;
        default:
            text_append_bytes(out, c, 1);
        }
    }
}

/// The ops of a timeline as a data block for the timeline script.
static void append_ops(const ana_timeline *timeline, int panel, text_buffer *settings)
{
    const bal_schedule *schedule = &timeline->schedule;
    static const int colors[OP_KIND_COUNT] = {
        [OP_FORWARD] = 0, [OP_BACKWARD_INPUT] = 1, [OP_BACKWARD_WEIGHT] = 2, [OP_BACKWARD] = 3};
    text_format(settings, "$ops_%d << EOD\n", panel);
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
            char name[32];
            bal_op_name(schedule->ops[op], name);
            text_format(settings, "%.6f %.6f %d %d %s\n",
                        (double)timeline->timeline.begin_ns[op] / 1e6,
                        (double)timeline->timeline.end_ns[op] / 1e6, rank,
                        colors[schedule->ops[op].kind], name);
        }
    }
    text_append(settings, "EOD\n");
}

static void append_timeline_title(const ana_timeline *timeline, int panel, text_buffer *settings)
{
    const bal_metrics metrics = bal_metrics_of(&timeline->timeline);
    char makespan[32];
    char title[256];
    text_duration(metrics.makespan_ns, makespan);
    snprintf(title, sizeof title, "%s, iteration %d: makespan %s, bubble_ratio %.3f",
             timeline->label, timeline->iteration, makespan, metrics.bubble_ratio);
    text_format(settings, "title_%d = ", panel);
    ana_plot_quote(settings, title);
    text_append(settings, "\n");
}

static int kinds_of(const ana_timeline *timeline)
{
    return timeline->schedule.has_split ? 7 : 9; // F, B, W or F, BW: bits of the colors
}

status ana_report_timeline(const ana_timeline *before, const ana_timeline *after, text_buffer *svg,
                           error_message *err)
{
    const ana_timeline *const panels[] = {before, after};
    const int panel_count = after != NULL ? 2 : 1;
    text_buffer settings = {0};
    int64_t end_ns = 0;
    int ranks = 0;
    int kinds = 0;
    int op_count = 0;
    for (int panel = 0; panel < panel_count; panel++) {
        const bal_metrics metrics = bal_metrics_of(&panels[panel]->timeline);
        const bal_schedule *schedule = &panels[panel]->schedule;
        if (metrics.makespan_ns > end_ns) end_ns = metrics.makespan_ns;
        if (schedule->rank_count > ranks) ranks = schedule->rank_count;
        if (schedule->first_op[schedule->rank_count] > op_count) {
            op_count = schedule->first_op[schedule->rank_count];
        }
        kinds |= kinds_of(panels[panel]);
        append_ops(panels[panel], panel, &settings);
        append_timeline_title(panels[panel], panel, &settings);
    }
    if (panel_count == 1) text_append(&settings, "title_1 = \"\"\n");
    const int rank_height = ranks <= 8 ? 32 : ranks <= 24 ? 16 : 8;
    const int panel_height = ranks * rank_height + 12;
    const int height = panel_count * panel_height + (panel_count - 1) * 62 + 52 + 48;
    text_format(&settings,
                "height = %d\nbottom_margin = %.5f\ntop_margin = %.5f\npanel_gap = %.5f\n", height,
                48.0 / height, 1.0 - 52.0 / height, 62.0 / height);
    text_format(&settings,
                "panel_count = %d\nrank_count = %d\nend_ms = %.6f\nshow_names = %d\nkinds = %d\n"
                "rank_step = %d\n",
                panel_count, ranks, (double)(end_ns > 0 ? end_ns : 1) / 1e6,
                op_count <= NAMES_SHOWN_MAX, kinds, ranks <= 12 ? 1 : 4);
    const status result = ana_plot("timeline", &settings, svg, err);
    text_free(&settings);
    return result;
}

/// A quantity whose course over the iterations is drawn.
typedef enum course { COURSE_BUBBLE, COURSE_IMBALANCE } course;

static const struct {
    const char *title;
    int low; // where the axis begins: the value at its best
} courses[] = {
    [COURSE_BUBBLE] = {"bubble_ratio", 0},
    [COURSE_IMBALANCE] = {"imbalance_ratio (max / mean)", 1},
};

/// Draws one quantity of every series, thinned to what a picture can show.
static status plot_series(const ana_report *report, course of, text_buffer *svg, error_message *err)
{
    text_buffer settings = {0};
    text_buffer titles = {0};
    int shown = 0;
    int last_iteration = 1;
    for (int index = 0; index < report->series_count; index++) {
        const ana_report_series *series = &report->series[index];
        const double *values = of == COURSE_BUBBLE ? series->bubble_ratio : series->imbalance_ratio;
        if (values == NULL || series->count == 0) continue;
        const int step = (series->count + SERIES_POINTS_MAX - 1) / SERIES_POINTS_MAX;
        text_format(&settings, "$series_%d << EOD\n", shown);
        for (int point = 0; point < series->count; point += step) {
            text_format(&settings, "%d %.6f\n", series->iteration[point], values[point]);
        }
        text_append(&settings, "EOD\n");
        text_format(&titles, "numbers[%d] = %d\ntitles[%d] = ", shown + 1, index, shown + 1);
        ana_plot_quote(&titles, series->label);
        text_append(&titles, "\n");
        if (series->iteration[series->count - 1] > last_iteration) {
            last_iteration = series->iteration[series->count - 1];
        }
        shown++;
    }
    if (shown == 0) {
        text_free(&settings);
        return STATUS_OK;
    }
    text_format(&settings,
                "array titles[%d]\narray numbers[%d]\n%stitle_of(n) = titles[n + 1]\n"
                "number_of(n) = numbers[n + 1]\nheight = 300\nseries_count = %d\n"
                "last_iteration = %d\ny_low = %d\ny_title = \"%s\"\n",
                shown, shown, titles.failed ? "" : titles.bytes, shown, last_iteration,
                courses[of].low, courses[of].title);
    settings.failed = settings.failed || titles.failed;
    const status result = ana_plot("series", &settings, svg, err);
    text_free(&settings);
    text_free(&titles);
    return result;
}

/// The key under which rows carry their throughput, and its unit.
static const char *rate_key(json_value row)
{
    return json_is_missing(json_member(row, "tokens_per_s")) ? "microbatches_per_s"
                                                             : "tokens_per_s";
}

static const char *rate_unit(const char *key)
{
    return strcmp(key, "tokens_per_s") == 0 ? "tokens/s" : "microbatches/s";
}

static double number_or(json_value value, double fallback)
{
    double number = fallback;
    if (json_is_number(value)) (void)json_double(value, -1e300, 1e300, &number, NULL);
    return number;
}

static const char *string_or(json_value value, const char *fallback)
{
    const char *text = fallback;
    if (json_is_string(value)) (void)json_string(value, &text, NULL);
    return text;
}

static bool row_has_times(json_value row)
{
    return json_is_number(json_member(row, rate_key(row)));
}

static status plot_throughput(json_value rows, text_buffer *svg, error_message *err)
{
    text_buffer settings = {0};
    const char *unit = "";
    double largest = 0;
    int count = 0;
    text_append(&settings, "$rows << EOD\n");
    for (json_value row = json_element(rows, 0); !json_is_missing(row); row = json_next(row)) {
        if (!row_has_times(row)) continue;
        const double rate = number_or(json_member(row, rate_key(row)), 0);
        const double tuned = number_or(json_member(row, "relative_to_tuned"), 0);
        const char *policy = string_or(json_member(row, "policy"), "");
        char label[64];
        if (rate > largest) largest = rate;
        unit = rate_unit(rate_key(row));
        if (tuned > 0) {
            snprintf(label, sizeof label, "%.*f (%.3fx tuned)", rate >= 100 ? 0 : 2, rate, tuned);
        } else {
            snprintf(label, sizeof label, "%.*f", rate >= 100 ? 0 : 2, rate);
        }
        text_format(&settings, "%d %.9g %d ", count, rate, strcmp(policy, "never") != 0);
        ana_plot_cell(&settings, label);
        text_append(&settings, " ");
        ana_plot_cell(&settings, string_or(json_member(row, "label"), ""));
        text_append(&settings, "\n");
        count++;
    }
    text_format(&settings, "EOD\nrow_count = %d\nlargest = %.9g\nx_title = \"%s\"\nheight = %d\n",
                count, largest, unit, 70 + 34 * count);
    const status result = count > 0 ? ana_plot("throughput", &settings, svg, err) : STATUS_OK;
    text_free(&settings);
    return result;
}

static void append_head(const ana_report *report, text_buffer *out)
{
    text_append(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>");
    append_escaped(out, report->title);
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
                     "tr.best td{font-weight:600}\n"
                     "figure{margin:1em 0;padding:8px;background:#fff;overflow-x:auto}\n"
                     "figure svg{max-width:100%;height:auto}\n"
                     ".wide{overflow-x:auto}\n"
                     "figcaption{font-size:.88em;color:#444;max-width:60em}\n"
                     "code{font-size:.92em}\n"
                     "@media(prefers-color-scheme:dark){body{color:#ddd;background:#16181c}"
                     "th,td{border-color:#3a3d44}}\n"
                     "</style></head><body>\n<h1>");
    append_escaped(out, report->title);
    text_append(out, "</h1>\n");
}

static json_value best_row(json_value rows)
{
    json_value best = {0};
    double best_rate = 0;
    for (json_value row = json_element(rows, 0); !json_is_missing(row); row = json_next(row)) {
        const double rate = number_or(json_member(row, rate_key(row)), 0);
        if (rate > best_rate) {
            best = row;
            best_rate = rate;
        }
    }
    return best;
}

static void append_lead(json_value root, json_value best, text_buffer *out)
{
    text_format(
        out,
        "<p class=\"lead\">%.0f iterations, %.0f layers on %.0f stages, %.0f "
        "microbatches, schedule <code>",
        number_or(json_member(root, "iterations"), 0), number_or(json_member(root, "layers"), 0),
        number_or(json_member(root, "stages"), 0), number_or(json_member(root, "microbatches"), 0));
    append_escaped(out, string_or(json_member(root, "schedule"), ""));
    text_append(out, "</code>.");
    if (!json_is_missing(best)) {
        const double even = number_or(json_member(best, "relative_to_even"), 0);
        const double tuned = number_or(json_member(best, "relative_to_tuned"), 0);
        text_append(out, " Fastest: <b>");
        append_escaped(out, string_or(json_member(best, "label"), ""));
        text_append(out, "</b>");
        if (even > 0) text_format(out, ", %.3fx <i>even</i>", even);
        if (tuned > 0)
            text_format(out, ", %.3fx <i>tuned</i> (the best split for the first iteration)",
                        tuned);
        text_append(out, ".");
    }
    text_append(out, "</p>\n");
}

static void append_figure(text_buffer *out, const text_buffer *svg, const char *caption)
{
    if (svg->length == 0) return;
    text_append(out, "<figure>");
    text_append_bytes(out, svg->bytes, svg->length);
    text_format(out, "<figcaption>%s</figcaption></figure>\n", caption);
}

static void append_ratio_cell(text_buffer *out, json_value value)
{
    if (json_is_number(value)) {
        text_format(out, "<td>%.3fx</td>", number_or(value, 0));
    } else {
        text_append(out, "<td>-</td>");
    }
}

static int64_t largest_of(json_value array)
{
    double largest = 0;
    for (json_value entry = json_element(array, 0); !json_is_missing(entry);
         entry = json_next(entry)) {
        if (number_or(entry, 0) > largest) largest = number_or(entry, 0);
    }
    return (int64_t)largest;
}

static void append_row_times(text_buffer *out, json_value row)
{
    char duration[32];
    char memory[32];
    const double rate = number_or(json_member(row, rate_key(row)), 0);
    text_duration((int64_t)number_or(json_member(row, "iteration_mean_ns"), 0), duration);
    text_size(largest_of(json_member(row, "peak_memory_bytes")), memory);
    text_format(out, "<td>%.*f</td>", rate >= 100 ? 0 : 2, rate);
    append_ratio_cell(out, json_member(row, "relative_to_even"));
    append_ratio_cell(out, json_member(row, "relative_to_tuned"));
    text_format(out, "<td>%s</td><td>%.3f</td><td>%.3f</td>", duration,
                number_or(json_member(json_member(row, "first"), "bubble_ratio"), 0),
                number_or(json_member(json_member(row, "last"), "bubble_ratio"), 0));
    const json_value fits = json_member(row, "fits");
    bool is_enough = true;
    if (json_is_bool(fits)) (void)json_bool(fits, &is_enough, NULL);
    text_format(out, "<td>%s%s</td>", memory,
                !is_enough           ? " (too much)"
                : json_is_bool(fits) ? ""
                                     : " (not all known)");
}

static void append_row(text_buffer *out, json_value row, bool is_best)
{
    text_format(out, "<tr%s><td>", is_best ? " class=\"best\"" : "");
    append_escaped(out, string_or(json_member(row, "label"), ""));
    text_append(out, "</td>");
    const json_value infeasible = json_member(row, "infeasible");
    if (!json_is_missing(infeasible)) {
        text_append(out, "<td class=\"text\" colspan=\"11\">infeasible: ");
        append_escaped(out, string_or(infeasible, ""));
        text_append(out, "</td></tr>\n");
        return;
    }
    if (row_has_times(row)) {
        append_row_times(out, row);
    } else {
        text_append(out, "<td class=\"text\" colspan=\"7\">loads only, not executable</td>");
    }
    char moved[32];
    text_size((int64_t)number_or(json_member(row, "moved_bytes"), 0), moved);
    text_format(out, "<td>%.3f</td><td>%.0f</td><td>%.0f</td><td>%s</td></tr>\n",
                number_or(json_member(row, "imbalance_ratio"), 1),
                number_or(json_member(row, "rebalances"), 0),
                number_or(json_member(row, "moved_layers"), 0), moved);
}

static void append_table(text_buffer *out, json_value rows, json_value best)
{
    const json_value first = json_is_missing(best) ? json_element(rows, 0) : best;
    text_format(
        out,
        "<h2>Comparison</h2>\n<div class=\"wide\"><table><thead><tr><th>balancer</th><th>%s</th>"
        "<th>vs even</th><th>vs tuned</th><th>iteration</th><th>bubble first</th>"
        "<th>bubble last</th><th>peak memory</th><th>imbalance</th><th>rebalances</th>"
        "<th>layers moved</th><th>bytes moved</th></tr></thead><tbody>\n",
        rate_unit(rate_key(first)));
    for (json_value row = json_element(rows, 0); !json_is_missing(row); row = json_next(row)) {
        append_row(out, row, row.node == best.node);
    }
    text_append(out,
                "</tbody></table></div>\n<p>iteration: mean over the run, decisions and migration "
                "included. bubble: bubble_ratio = idle / total time of all ranks. imbalance: "
                "max / mean load of the ranks, mean over the run.</p>\n");
}

static void append_inputs(text_buffer *out, json_value inputs)
{
    text_append(out, "<h2>Inputs and where they come from</h2>\n<table><thead><tr><th>input</th>"
                     "<th class=\"text\">value</th><th class=\"text\">origin</th></tr></thead>"
                     "<tbody>\n");
    for (json_value input = json_element(inputs, 0); !json_is_missing(input);
         input = json_next(input)) {
        text_append(out, "<tr><td>");
        append_escaped(out, string_or(json_member(input, "name"), ""));
        text_append(out, "</td><td class=\"text\">");
        append_escaped(out, string_or(json_member(input, "value"), ""));
        text_append(out, "</td><td class=\"text\">");
        append_escaped(out, string_or(json_member(input, "origin"), ""));
        text_append(out, "</td></tr>\n");
    }
    text_append(out, "</tbody></table>\n");
}

static void append_provenance(text_buffer *out, const ana_report *report)
{
    text_append(out, "<h2>Provenance</h2>\n<table><tbody>\n");
    for (int fact = 0; fact < report->provenance_count; fact++) {
        text_append(out, "<tr><td>");
        append_escaped(out, report->provenance[fact].name);
        text_append(out, "</td><td class=\"text\">");
        append_escaped(out, report->provenance[fact].value);
        text_append(out, "</td></tr>\n");
    }
    text_append(out, "</tbody></table>\n");
}

typedef struct report_figures {
    text_buffer timeline;
    text_buffer bubble;
    text_buffer imbalance;
    text_buffer throughput;
    bool drawn; // false: there is no gnuplot
} report_figures;

static status draw(const ana_report *report, json_value rows, report_figures *figures,
                   error_message *err)
{
    status result = STATUS_OK;
    if (report->before != NULL) {
        result = ana_report_timeline(report->before, report->after, &figures->timeline, err);
    }
    if (result == STATUS_OK) result = plot_series(report, COURSE_BUBBLE, &figures->bubble, err);
    if (result == STATUS_OK) {
        result = plot_series(report, COURSE_IMBALANCE, &figures->imbalance, err);
    }
    if (result == STATUS_OK) result = plot_throughput(rows, &figures->throughput, err);
    figures->drawn = result == STATUS_OK;
    return result == STATUS_UNSUPPORTED ? STATUS_OK : result;
}

static void free_figures(report_figures *figures)
{
    text_free(&figures->timeline);
    text_free(&figures->bubble);
    text_free(&figures->imbalance);
    text_free(&figures->throughput);
}

status ana_report_write(const ana_report *report, text_buffer *out, error_message *err)
{
    const json_value root = json_root(report->comparison);
    const json_value rows = json_member(root, "rows");
    if (strcmp(string_or(json_member(root, "schema"), ""), "dynmo-simulation/1") != 0) {
        return json_error(json_member(root, "schema"), STATUS_FORMAT, err,
                          "is not 'dynmo-simulation/1'");
    }
    report_figures figures = {0};
    const status drawn = draw(report, rows, &figures, err);
    if (drawn != STATUS_OK) {
        free_figures(&figures);
        return drawn;
    }
    const json_value best = best_row(rows);
    append_head(report, out);
    append_lead(root, best, out);
    if (!figures.drawn) text_append(out, "<p>There was no gnuplot to draw the figures with.</p>\n");
    append_figure(out, &figures.timeline,
                  "One iteration before and after balancing, on one time axis. F: forward; B: "
                  "backward for the input gradient; W: backward for the weight gradient; BW: both. "
                  "White is idle.");
    append_figure(out, &figures.throughput,
                  "Throughput over the whole run, decisions and migration paid. Grey: static "
                  "splits.");
    append_figure(out, &figures.bubble,
                  "Share of all ranks' time that is idle. Iterations count from the first one "
                  "that was replayed.");
    append_figure(out, &figures.imbalance, "Largest load of a rank over the mean, per iteration.");
    append_table(out, rows, best);
    append_inputs(out, json_member(root, "inputs"));
    append_provenance(out, report);
    text_append(out, "</body></html>\n");
    free_figures(&figures);
    return out->failed ? error_set(err, STATUS_NO_MEMORY, "out of memory") : STATUS_OK;
}
