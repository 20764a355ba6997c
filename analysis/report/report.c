#include "analysis/report/report.h"

#include "analysis/report/html.h"
#include "analysis/report/plot.h"
#include "balance/metrics.h"

#include <stdio.h>

enum { NAMES_SHOWN_MAX = 3000, SERIES_POINTS_MAX = 2000 };

const char *const ana_figure_names[ANA_FIGURE_COUNT] = {"timeline", "bubble"};

/// What stands below each picture.
static const char *const captions[ANA_FIGURE_COUNT] = {
    [ANA_FIGURE_TIMELINE] =
        "One iteration before and after balancing, on one time axis. F: forward; B: backward for "
        "the input gradient; W: backward for the weight gradient; BW: both. White is idle.",
    [ANA_FIGURE_BUBBLE] = "Share of all ranks' time that is idle. Iterations count from the first "
                          "one that was replayed.",
};

/// The ops of a timeline as a data block for the timeline script, and its title.
static void append_panel(const ana_timeline *timeline, int panel, text_buffer *settings)
{
    static const int colors[OP_KIND_COUNT] = {
        [OP_FORWARD] = 0, [OP_BACKWARD_INPUT] = 1, [OP_BACKWARD_WEIGHT] = 2, [OP_BACKWARD] = 3};
    const bal_schedule *schedule = &timeline->schedule;
    const bal_metrics metrics = bal_metrics_of(&timeline->timeline);
    char makespan[32];
    char title[256];
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
    text_duration(metrics.makespan_ns, makespan);
    snprintf(title, sizeof title, "%s, iteration %d: makespan %s, bubble_ratio %.3f",
             timeline->label, timeline->iteration, makespan, metrics.bubble_ratio);
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
static status draw_bubbles(const ana_recorded *recorded, text_buffer *svg, error_message *err)
{
    text_buffer settings = {0};
    text_buffer titles = {0};
    int shown = 0;
    int last_iteration = 1;
    for (int index = 0; index < recorded->series_count; index++) {
        const ana_report_series *series = &recorded->series[index];
        const int step = (series->count + SERIES_POINTS_MAX - 1) / SERIES_POINTS_MAX;
        if (series->count == 0 || series->bubble_ratio == NULL) continue;
        const int last = series->iteration[series->count - 1];
        text_format(&settings, "$series_%d << EOD\n", shown);
        for (int point = 0; point < series->count; point += step) {
            text_format(&settings, "%d %.6f\n", series->iteration[point],
                        series->bubble_ratio[point]);
        }
        text_append(&settings, "EOD\n");
        text_format(&titles, "numbers[%d] = %d\ntitles[%d] = ", shown + 1, index, shown + 1);
        ana_plot_quote(&titles, series->label);
        text_append(&titles, "\n");
        if (last > last_iteration) last_iteration = last;
        shown++;
    }
    if (shown == 0) return STATUS_OK;
    text_format(&settings,
                "array titles[%d]\narray numbers[%d]\n%stitle_of(n) = titles[n + 1]\n"
                "number_of(n) = numbers[n + 1]\nheight = %d\nseries_count = %d\n"
                "last_iteration = %d\ny_title = \"bubble_ratio\"\n",
                shown, shown, titles.bytes, 280 + 20 * ((shown + 1) / 2), shown, last_iteration);
    const status result = ana_plot("series", &settings, svg, err);
    text_free(&settings);
    text_free(&titles);
    return result;
}

status ana_report_figure(const ana_report *report, ana_figure figure, text_buffer *svg,
                         error_message *err)
{
    return figure == ANA_FIGURE_TIMELINE ? draw_timeline(report, svg, err)
                                         : draw_bubbles(report->recorded, svg, err);
}

status ana_report_write(const ana_report *report, text_buffer *out, error_message *err)
{
    const ana_recorded *recorded = report->recorded;
    status drawn = STATUS_OK;
    ana_html_begin(recorded->info.name, out);
    for (int figure = 0; figure < ANA_FIGURE_COUNT && drawn == STATUS_OK; figure++) {
        text_buffer svg = {0};
        drawn = ana_report_figure(report, (ana_figure)figure, &svg, err);
        if (drawn == STATUS_OK) ana_html_figure(out, &svg, captions[figure]);
        text_free(&svg);
    }
    if (drawn == STATUS_UNSUPPORTED) {
        text_append(out, "<p>There was no gnuplot to draw the figures with.</p>\n");
    } else {
        TRY(drawn);
    }
    ana_html_words(out, recorded->words);
    ana_html_provenance(out, recorded->provenance, recorded->provenance_count);
    text_append(out, "</body></html>\n");
    return STATUS_OK;
}
