#include "analysis/report/report.h"

#include "analysis/compare/columns.h"
#include "analysis/compare/compare.h"
#include "analysis/report/html.h"

#include <limits.h>
#include <string.h>

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
    char memory[32];
    const double rate = ana_json_number_or(json_member(row, ana_rate_key(row)), 0);
    const json_value fits = json_member(row, "fits");
    bool is_enough = true;
    text_size(largest_of(json_member(row, "peak_memory_bytes")), memory);
    text_format(out, "<td>%.*f</td>", rate >= 100 ? 0 : 2, rate);
    ana_columns_page(ANA_COLUMNS_TIMES, row, out);
    ana_columns_page(ANA_COLUMNS_BUBBLE, row, out);
    ana_columns_page(ANA_COLUMNS_EQ1, row, out);
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
        text_append(out, "<td class=\"text\" colspan=\"13\">infeasible: ");
        text_append_escaped(out, ana_json_string_or(infeasible, ""));
        text_append(out, "</td></tr>\n");
        return;
    }
    if (ana_row_has_times(row)) {
        append_row_times(out, row);
    } else {
        text_append(out, "<td class=\"text\" colspan=\"9\">loads only, not executable</td>");
    }
    ana_columns_page(ANA_COLUMNS_LOADS, row, out);
    text_append(out, "</tr>\n");
}

static void append_table(text_buffer *out, json_value rows, json_value best)
{
    const json_value first = json_is_missing(best) ? json_element(rows, 0) : best;
    text_format(out,
                "<h2>Comparison</h2>\n<div class=\"wide\"><table><thead><tr><th>balancer</th>"
                "<th>%s</th>",
                ana_rate_unit(ana_rate_key(first)));
    ana_columns_page_title(ANA_COLUMNS_TIMES, out);
    ana_columns_page_title(ANA_COLUMNS_BUBBLE, out);
    ana_columns_page_title(ANA_COLUMNS_EQ1, out);
    text_append(out, "<th>peak memory</th>");
    ana_columns_page_title(ANA_COLUMNS_LOADS, out);
    text_append(out, "</tr></thead><tbody>\n");
    for (json_value row = json_element(rows, 0); !json_is_missing(row); row = json_next(row)) {
        append_row(out, row, row.node == best.node);
    }
    text_append(out,
                "</tbody></table></div>\n<p>iteration: mean over the run, decisions and migration "
                "included. bubble: bubble_ratio = idle / total time of all ranks. Eq. 1: "
                "what the DynMo paper's Equation 1 says of the mean loads of the ranks; it is "
                "Chimera's bubble at as many microbatches as ranks, messages free. imbalance: "
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

/// "12: 4 4 3 3": the iteration, and the layers of each stage; nothing of what is none.
static void append_split(text_buffer *out, json_value split)
{
    int from = 0;
    int before = 0;
    if (json_int(json_member(split, "from_iteration"), 0, INT_MAX, &from, NULL) != STATUS_OK)
        return;
    text_format(out, "<div>%d:", from);
    json_value bound = json_element(json_member(split, "first_layer"), 0);
    for (bound = json_next(bound); !json_is_missing(bound); bound = json_next(bound)) {
        int layer = 0;
        if (json_int(bound, before, INT_MAX, &layer, NULL) != STATUS_OK) break;
        text_format(out, " %d", layer - before);
        before = layer;
    }
    text_append(out, "</div>");
}

/// What is to be set, and when.
static void append_splits(text_buffer *out, json_value rows)
{
    text_append(out, "<h2>Splits</h2>\n<p>Layers per stage, from the iteration on that stands in "
                     "front.</p>\n<table><tbody>\n");
    for (json_value row = json_element(rows, 0); !json_is_missing(row); row = json_next(row)) {
        json_value split = json_element(json_member(row, "splits"), 0);
        if (json_is_missing(split)) continue;
        text_append(out, "<tr><td>");
        text_append_escaped(out, ana_json_string_or(json_member(row, "label"), ""));
        text_append(out, "</td><td class=\"text\">");
        for (; !json_is_missing(split); split = json_next(split)) {
            append_split(out, split);
        }
        text_append(out, "</td></tr>\n");
    }
    text_append(out, "</tbody></table>\n");
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
    append_splits(out, rows);
    append_inputs(out, json_member(root, "inputs"));
    ana_html_provenance(out, report->provenance, report->provenance_count);
    text_append(out, "</body></html>\n");
    return STATUS_OK;
}
