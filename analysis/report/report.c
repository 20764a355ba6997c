#include "analysis/report/report_parts.h"

#include "analysis/compare/factors.h"

#include <stdio.h>
#include <string.h>

double ana_json_number_or(json_value value, double fallback)
{
    double number = fallback;
    if (json_is_number(value)) (void)json_double(value, -1e300, 1e300, &number, NULL);
    return number;
}

const char *ana_json_string_or(json_value value, const char *fallback)
{
    const char *text = fallback;
    if (json_is_string(value)) (void)json_string(value, &text, NULL);
    return text;
}

/// The key under which rows carry their throughput, and its unit.
const char *ana_rate_key(json_value row)
{
    return json_is_missing(json_member(row, "tokens_per_s")) ? "microbatches_per_s"
                                                             : "tokens_per_s";
}

const char *ana_rate_unit(const char *key)
{
    return strcmp(key, "tokens_per_s") == 0 ? "tokens/s" : "microbatches/s";
}

bool ana_row_has_times(json_value row)
{
    return json_is_number(json_member(row, ana_rate_key(row)));
}

void ana_html_begin(const char *title, text_buffer *out)
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
                     "tr.best td{font-weight:600}\n"
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

static json_value best_row(json_value rows)
{
    json_value best = {0};
    double best_rate = 0;
    for (json_value row = json_element(rows, 0); !json_is_missing(row); row = json_next(row)) {
        const double rate = ana_json_number_or(json_member(row, ana_rate_key(row)), 0);
        if (rate > best_rate) {
            best = row;
            best_rate = rate;
        }
    }
    return best;
}

static void append_lead(json_value root, json_value best, text_buffer *out)
{
    text_format(out,
                "<p class=\"lead\">%.0f iterations, %.0f layers on %.0f stages, %.0f "
                "microbatches, schedule <code>",
                ana_json_number_or(json_member(root, "iterations"), 0),
                ana_json_number_or(json_member(root, "layers"), 0),
                ana_json_number_or(json_member(root, "stages"), 0),
                ana_json_number_or(json_member(root, "microbatches"), 0));
    text_append_escaped(out, ana_json_string_or(json_member(root, "schedule"), ""));
    text_append(out, "</code>.");
    if (!json_is_missing(best)) {
        const double even = ana_json_number_or(json_member(best, "relative_to_even"), 0);
        const double tuned = ana_json_number_or(json_member(best, "relative_to_tuned"), 0);
        text_append(out, " Fastest: <b>");
        text_append_escaped(out, ana_json_string_or(json_member(best, "label"), ""));
        text_append(out, "</b>");
        if (even > 0) text_format(out, ", %.3fx <i>even</i>", even);
        if (tuned > 0)
            text_format(out, ", %.3fx <i>tuned</i> (the best split for the first iteration)",
                        tuned);
        text_append(out, ".");
    }
    text_append(out, "</p>\n");
}

void ana_html_figure(text_buffer *out, const text_buffer *svg, const char *caption)
{
    if (svg->length == 0) return;
    text_append(out, "<figure>");
    text_append_bytes(out, svg->bytes, svg->length);
    text_format(out, "<figcaption>%s</figcaption></figure>\n", caption);
}

static void append_ratio_cell(text_buffer *out, json_value value)
{
    if (json_is_number(value)) {
        text_format(out, "<td>%.3fx</td>", ana_json_number_or(value, 0));
    } else {
        text_append(out, "<td>-</td>");
    }
}

static int64_t largest_of(json_value array)
{
    double largest = 0;
    for (json_value entry = json_element(array, 0); !json_is_missing(entry);
         entry = json_next(entry)) {
        if (ana_json_number_or(entry, 0) > largest) largest = ana_json_number_or(entry, 0);
    }
    return (int64_t)largest;
}

static void append_row_times(text_buffer *out, json_value row)
{
    char duration[32];
    char memory[32];
    const double rate = ana_json_number_or(json_member(row, ana_rate_key(row)), 0);
    text_duration((int64_t)ana_json_number_or(json_member(row, "iteration_mean_ns"), 0), duration);
    text_size(largest_of(json_member(row, "peak_memory_bytes")), memory);
    text_format(out, "<td>%.*f</td>", rate >= 100 ? 0 : 2, rate);
    append_ratio_cell(out, json_member(row, "relative_to_even"));
    append_ratio_cell(out, json_member(row, "relative_to_tuned"));
    text_format(out, "<td>%s</td><td>%.3f</td><td>%.3f</td>", duration,
                ana_json_number_or(json_member(json_member(row, "first"), "bubble_ratio"), 0),
                ana_json_number_or(json_member(json_member(row, "last"), "bubble_ratio"), 0));
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
    text_append_escaped(out, ana_json_string_or(json_member(row, "label"), ""));
    text_append(out, "</td>");
    const json_value infeasible = json_member(row, "infeasible");
    if (!json_is_missing(infeasible)) {
        text_append(out, "<td class=\"text\" colspan=\"11\">infeasible: ");
        text_append_escaped(out, ana_json_string_or(infeasible, ""));
        text_append(out, "</td></tr>\n");
        return;
    }
    if (ana_row_has_times(row)) {
        append_row_times(out, row);
    } else {
        text_append(out, "<td class=\"text\" colspan=\"7\">loads only, not executable</td>");
    }
    char moved[32];
    text_size((int64_t)ana_json_number_or(json_member(row, "moved_bytes"), 0), moved);
    text_format(out, "<td>%.3f</td><td>%.0f</td><td>%.0f</td><td>%s</td></tr>\n",
                ana_json_number_or(json_member(row, "imbalance_ratio"), 1),
                ana_json_number_or(json_member(row, "rebalances"), 0),
                ana_json_number_or(json_member(row, "moved_layers"), 0), moved);
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
        ana_rate_unit(ana_rate_key(first)));
    for (json_value row = json_element(rows, 0); !json_is_missing(row); row = json_next(row)) {
        append_row(out, row, row.node == best.node);
    }
    text_append(out,
                "</tbody></table></div>\n<p>iteration: mean over the run, decisions and migration "
                "included. bubble: bubble_ratio = idle / total time of all ranks. imbalance: "
                "max / mean load of the ranks, mean over the run.</p>\n");
}

static void append_factors(text_buffer *out, json_value rows)
{
    bool has_header = false;
    for (json_value row = json_element(rows, 0); !json_is_missing(row); row = json_next(row)) {
        const json_value factors = json_member(row, "factors");
        if (!json_is_number(json_member(factors, "total"))) continue;
        if (!has_header) {
            text_append(out, "<h2>Where the speed-up comes from</h2>\n<div class=\"wide\"><table>"
                             "<thead><tr><th>balancer</th><th>algorithm</th><th>static</th>"
                             "<th>dynamic</th><th>re-packing</th><th>product</th></tr></thead>"
                             "<tbody>\n");
        }
        has_header = true;
        text_append(out, "<tr><td>");
        text_append_escaped(out, ana_json_string_or(json_member(row, "label"), ""));
        text_append(out, "</td>");
        for (int factor = 0; factor < ANA_FACTOR_COUNT; factor++) {
            append_ratio_cell(out, json_member(factors, ana_factor_names[factor]));
        }
        append_ratio_cell(out, json_member(factors, "total"));
        text_append(out, "</tr>\n");
    }
    if (has_header) text_append(out, "</tbody></table></div>\n");
}

static void append_inputs(text_buffer *out, json_value inputs)
{
    text_append(out, "<h2>Inputs and where they come from</h2>\n<table><thead><tr><th>input</th>"
                     "<th class=\"text\">value</th><th class=\"text\">origin</th></tr></thead>"
                     "<tbody>\n");
    for (json_value input = json_element(inputs, 0); !json_is_missing(input);
         input = json_next(input)) {
        text_append(out, "<tr><td>");
        text_append_escaped(out, ana_json_string_or(json_member(input, "name"), ""));
        text_append(out, "</td><td class=\"text\">");
        text_append_escaped(out, ana_json_string_or(json_member(input, "value"), ""));
        text_append(out, "</td><td class=\"text\">");
        text_append_escaped(out, ana_json_string_or(json_member(input, "origin"), ""));
        text_append(out, "</td></tr>\n");
    }
    text_append(out, "</tbody></table>\n");
}

void ana_html_provenance(text_buffer *out, const ana_report_fact *facts, int count)
{
    text_append(out, "<h2>Provenance</h2>\n<table><tbody>\n");
    for (int fact = 0; fact < count; fact++) {
        text_append(out, "<tr><td>");
        text_append_escaped(out, facts[fact].name);
        text_append(out, "</td><td class=\"text\">");
        text_append_escaped(out, facts[fact].value);
        text_append(out, "</td></tr>\n");
    }
    text_append(out, "</tbody></table>\n");
}

/// What stands below each figure.
static const char *const captions[ANA_FIGURE_COUNT] = {
    [ANA_FIGURE_TIMELINE] =
        "One iteration before and after balancing, on one time axis. F: forward; B: backward for "
        "the input gradient; W: backward for the weight gradient; BW: both. White is idle.",
    [ANA_FIGURE_THROUGHPUT] = "Throughput over the whole run, decisions and migration paid. Grey: "
                              "static splits.",
    [ANA_FIGURE_LOAD] = "How long each rank works, as a share of the busiest rank of the same "
                        "iteration. White: not in use.",
    [ANA_FIGURE_RANKS] = "Ranks in use over the iterations, all replicas.",
    [ANA_FIGURE_BUBBLE] = "Share of all ranks' time that is idle. Iterations count from the first "
                          "one that was replayed.",
    [ANA_FIGURE_IMBALANCE] = "Largest load of a rank over the mean, per iteration.",
};

/// In the order in which they stand on the page.
static const ana_figure page_figures[] = {ANA_FIGURE_TIMELINE, ANA_FIGURE_THROUGHPUT,
                                          ANA_FIGURE_LOAD,     ANA_FIGURE_RANKS,
                                          ANA_FIGURE_BUBBLE,   ANA_FIGURE_IMBALANCE};

static status append_figures(const ana_report *report, text_buffer *out, error_message *err)
{
    for (size_t place = 0; place < sizeof page_figures / sizeof page_figures[0]; place++) {
        const ana_figure figure = page_figures[place];
        text_buffer svg = {0};
        const status drawn = ana_report_figure(report, figure, &svg, err);
        if (drawn == STATUS_OK) ana_html_figure(out, &svg, captions[figure]);
        text_free(&svg);
        if (drawn == STATUS_UNSUPPORTED) {
            text_append(out, "<p>There was no gnuplot to draw the figures with.</p>\n");
            return STATUS_OK;
        }
        if (drawn != STATUS_OK) return drawn;
    }
    return STATUS_OK;
}

status ana_report_write(const ana_report *report, text_buffer *out, error_message *err)
{
    const json_value root = json_root(report->comparison);
    const json_value rows = json_member(root, "rows");
    if (strcmp(ana_json_string_or(json_member(root, "schema"), ""), "dynmo-simulation/1") != 0) {
        return json_error(json_member(root, "schema"), STATUS_FORMAT, err,
                          "is not 'dynmo-simulation/1'");
    }
    const json_value best = best_row(rows);
    ana_html_begin(report->title, out);
    append_lead(root, best, out);
    TRY(append_figures(report, out, err));
    append_table(out, rows, best);
    append_factors(out, rows);
    append_inputs(out, json_member(root, "inputs"));
    ana_html_provenance(out, report->provenance, report->provenance_count);
    text_append(out, "</body></html>\n");
    return STATUS_OK;
}
