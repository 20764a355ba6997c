/// The pictures of a report: data blocks and settings for the scripts of plots/.
#include "analysis/report/html.h"
#include "analysis/report/plot.h"
#include "balance/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_SHOWN_MAX = 3000, SERIES_POINTS_MAX = 2000 };

const char *const ana_figure_names[ANA_FIGURE_COUNT] = {
    [ANA_FIGURE_TIMELINE] = "timeline", [ANA_FIGURE_LOAD] = "load",
    [ANA_FIGURE_RANKS] = "ranks",       [ANA_FIGURE_THROUGHPUT] = "throughput",
    [ANA_FIGURE_BUBBLE] = "bubble",     [ANA_FIGURE_IMBALANCE] = "imbalance",
};

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

static status draw_timeline(const ana_report *report, text_buffer *svg, error_message *err)
{
    const ana_timeline *const panels[] = {report->before, report->after};
    const int panel_count = report->after != NULL ? 2 : 1;
    if (report->before == NULL) return STATUS_OK;
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
static const struct {
    const char *title;
    int low; // where the axis begins: the value at its best
} courses[ANA_FIGURE_COUNT] = {
    [ANA_FIGURE_BUBBLE] = {"bubble_ratio", 0},
    [ANA_FIGURE_IMBALANCE] = {"imbalance_ratio (max / mean)", 1},
    [ANA_FIGURE_RANKS] = {"ranks in use", 0},
};

/// The points of a series for one quantity, thinned to what a picture can show.
static void append_values(const ana_report_series *series, const double *values,
                          text_buffer *settings)
{
    const int step = (series->count + SERIES_POINTS_MAX - 1) / SERIES_POINTS_MAX;
    for (int point = 0; point < series->count; point += step) {
        text_format(settings, "%d %.6f\n", series->iteration[point], values[point]);
    }
}

/// The ranks of all replicas, constant from step to step.
static void append_ranks(const ana_report_series *series, text_buffer *settings)
{
    for (int step = 0; step < series->rank_step_count; step++) {
        const ana_rank_step *from = &series->rank_steps[step];
        const int ranks = from->rank_count * from->replica_count;
        const bool is_last = step + 1 == series->rank_step_count;
        const int end = is_last ? series->iteration[series->count - 1]
                                : series->rank_steps[step + 1].from_iteration;
        text_format(settings, "%d %d\n%d %d\n", from->from_iteration, ranks, end, ranks);
    }
}

static bool ranks_change(const ana_report *report)
{
    for (int index = 0; index < report->series_count; index++) {
        if (report->series[index].rank_step_count > 1) return true;
    }
    return false;
}

/// True if a series has the quantity.
static bool has_course(const ana_report_series *series, ana_figure figure)
{
    if (series->count == 0) return false;
    if (figure == ANA_FIGURE_BUBBLE) return series->bubble_ratio != NULL;
    if (figure == ANA_FIGURE_RANKS) return series->rank_step_count > 0;
    return true;
}

static void append_series(const ana_report_series *series, ana_figure figure, int shown,
                          text_buffer *settings)
{
    text_format(settings, "$series_%d << EOD\n", shown);
    if (figure == ANA_FIGURE_RANKS) {
        append_ranks(series, settings);
    } else {
        append_values(series,
                      figure == ANA_FIGURE_BUBBLE ? series->bubble_ratio : series->imbalance_ratio,
                      settings);
    }
    text_append(settings, "EOD\n");
}

/// Draws one quantity of every series.
static status draw_series(const ana_report *report, ana_figure figure, text_buffer *svg,
                          error_message *err)
{
    text_buffer settings = {0};
    text_buffer titles = {0};
    int shown = 0;
    int last_iteration = 1;
    if (figure == ANA_FIGURE_RANKS && !ranks_change(report)) return STATUS_OK;
    for (int index = 0; index < report->series_count; index++) {
        const ana_report_series *series = &report->series[index];
        if (!has_course(series, figure)) continue;
        append_series(series, figure, shown, &settings);
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
                "number_of(n) = numbers[n + 1]\nheight = %d\nseries_count = %d\n"
                "last_iteration = %d\ny_low = %d\ny_title = \"%s\"\n",
                shown, shown, titles.bytes, 280 + 20 * ((shown + 1) / 2), shown, last_iteration,
                courses[figure].low, courses[figure].title);
    const status result = ana_plot("series", &settings, svg, err);
    text_free(&settings);
    text_free(&titles);
    return result;
}

static status draw_throughput(const ana_report *report, text_buffer *svg, error_message *err)
{
    const json_value rows = json_member(json_root(report->comparison), "rows");
    text_buffer settings = {0};
    const char *unit = "";
    double largest = 0;
    int count = 0;
    text_append(&settings, "$rows << EOD\n");
    for (json_value row = json_element(rows, 0); !json_is_missing(row); row = json_next(row)) {
        if (!ana_row_has_times(row)) continue;
        const double rate = ana_json_number_or(json_member(row, ana_rate_key(row)), 0);
        const double tuned = ana_json_number_or(json_member(row, "relative_to_tuned"), 0);
        const char *policy = ana_json_string_or(json_member(row, "policy"), "");
        char label[64];
        if (rate > largest) largest = rate;
        unit = ana_rate_unit(ana_rate_key(row));
        if (tuned > 0) {
            snprintf(label, sizeof label, "%.*f (%.3fx tuned)", rate >= 100 ? 0 : 2, rate, tuned);
        } else {
            snprintf(label, sizeof label, "%.*f", rate >= 100 ? 0 : 2, rate);
        }
        text_format(&settings, "%d %.9g %d ", count, rate, strcmp(policy, "never") != 0);
        ana_plot_cell(&settings, label);
        text_append(&settings, " ");
        ana_plot_cell(&settings, ana_json_string_or(json_member(row, "label"), ""));
        text_append(&settings, "\n");
        count++;
    }
    text_format(&settings, "EOD\nrow_count = %d\nlargest = %.9g\nx_title = \"%s\"\nheight = %d\n",
                count, largest, unit, 70 + 34 * count);
    const status result = count > 0 ? ana_plot("throughput", &settings, svg, err) : STATUS_OK;
    text_free(&settings);
    return result;
}

/// Cells next to each other that look the same are drawn as one.
enum { COLUMNS_MAX = 240, LEVELS = 32 };

/// The work of one row of the comparison, put into columns of iterations.
typedef struct load_grid {
    int rank_count; // of the machine
    int column_count;
    int column_width;   // iterations
    double *share;      // [rank_count][column_count] sum over samples of work / largest work
    int *sample_counts; // [rank_count][column_count]
} load_grid;

static void create_grid(int rank_count, int iteration_count, load_grid *grid)
{
    *grid = (load_grid){.rank_count = rank_count};
    grid->column_width = (iteration_count + COLUMNS_MAX - 1) / COLUMNS_MAX;
    grid->column_count = (iteration_count + grid->column_width - 1) / grid->column_width;
    const size_t cells = (size_t)rank_count * (size_t)grid->column_count;
    grid->share = memory_array(cells, sizeof *grid->share);
    grid->sample_counts = memory_array(cells, sizeof *grid->sample_counts);
}

/// Adds one iteration: the work of each rank as a share of the largest.
static void add_sample(load_grid *grid, const trace_run_work *work, int count)
{
    int64_t largest_ns = 1;
    for (int index = 0; index < count; index++) {
        if (work[index].work_ns > largest_ns) largest_ns = work[index].work_ns;
    }
    for (int index = 0; index < count; index++) {
        const size_t cell = (size_t)work[index].rank * (size_t)grid->column_count +
                            (size_t)(work[index].iteration / grid->column_width);
        grid->share[cell] += (double)work[index].work_ns / (double)largest_ns;
        grid->sample_counts[cell]++;
    }
}

static void add_samples(load_grid *grid, const ana_report_series *series)
{
    int first = 0;
    for (int index = 1; index <= series->work_count; index++) {
        if (index < series->work_count &&
            series->work[index].iteration == series->work[first].iteration) {
            continue;
        }
        add_sample(grid, &series->work[first], index - first);
        first = index;
    }
}

/// -1: the rank was not in use.
static int level_of(const load_grid *grid, int rank, int column)
{
    const size_t cell = (size_t)rank * (size_t)grid->column_count + (size_t)column;
    if (grid->sample_counts[cell] == 0) return -1;
    return (int)(grid->share[cell] / grid->sample_counts[cell] * LEVELS + 0.5);
}

static void append_cells(const load_grid *grid, text_buffer *settings)
{
    for (int rank = 0; rank < grid->rank_count; rank++) {
        int begin = 0;
        for (int column = 1; column <= grid->column_count; column++) {
            const int level = level_of(grid, rank, begin);
            if (column < grid->column_count && level_of(grid, rank, column) == level) continue;
            if (level >= 0) {
                text_format(settings, "%d %d %d %.4f\n", begin * grid->column_width,
                            column * grid->column_width, rank, (double)level / LEVELS);
            }
            begin = column;
        }
    }
}

static const ana_report_series *find_series(const ana_report *report, const char *label)
{
    for (int index = 0; label != NULL && index < report->series_count; index++) {
        const ana_report_series *series = &report->series[index];
        if (strcmp(series->label, label) == 0 && series->work_count > 0) return series;
    }
    return NULL;
}

static void extend(const ana_report_series *series, int *rank_count, int *iteration_count)
{
    for (int index = 0; index < series->work_count; index++) {
        const trace_run_work *work = &series->work[index];
        if (work->rank >= *rank_count) *rank_count = work->rank + 1;
        if (work->iteration >= *iteration_count) *iteration_count = work->iteration + 1;
    }
}

static void append_panel(const ana_report_series *series, int panel, int rank_count,
                         int iteration_count, text_buffer *settings)
{
    load_grid grid;
    create_grid(rank_count, iteration_count, &grid);
    add_samples(&grid, series);
    text_format(settings, "$cells_%d << EOD\n", panel);
    append_cells(&grid, settings);
    text_format(settings, "EOD\ntitle_%d = ", panel);
    ana_plot_quote(settings, series->label);
    text_append(settings, "\n");
    free(grid.share);
    free(grid.sample_counts);
}

static status draw_load(const ana_report *report, text_buffer *svg, error_message *err)
{
    const ana_report_series *panels[2];
    const char *const labels[] = {report->before_label, report->after_label};
    text_buffer settings = {0};
    int panel_count = 0;
    int ranks = 1;
    int iterations = 1;
    for (int label = 0; label < 2; label++) {
        const ana_report_series *series = find_series(report, labels[label]);
        if (series == NULL || (panel_count > 0 && panels[0] == series)) continue;
        extend(series, &ranks, &iterations);
        panels[panel_count++] = series;
    }
    if (panel_count == 0) return STATUS_OK;
    for (int panel = 0; panel < panel_count; panel++) {
        append_panel(panels[panel], panel, ranks, iterations, &settings);
    }
    if (panel_count == 1) text_append(&settings, "title_1 = \"\"\n");
    const int rank_height = ranks <= 8 ? 22 : ranks <= 32 ? 12 : 6;
    const int panel_height = ranks * rank_height;
    const int height = panel_count * panel_height + (panel_count - 1) * 58 + 44 + 48;
    text_format(&settings,
                "height = %d\nbottom_margin = %.5f\ntop_margin = %.5f\npanel_gap = %.5f\n"
                "panel_count = %d\nrank_count = %d\nrank_step = %d\niteration_count = %d\n",
                height, 48.0 / height, 1.0 - 44.0 / height, 58.0 / height, panel_count, ranks,
                ranks <= 12 ? 1 : 4, iterations);
    const status result = ana_plot("load", &settings, svg, err);
    text_free(&settings);
    return result;
}

status ana_report_figure(const ana_report *report, ana_figure figure, text_buffer *svg,
                         error_message *err)
{
    switch (figure) {
    case ANA_FIGURE_TIMELINE:
        return draw_timeline(report, svg, err);
    case ANA_FIGURE_LOAD:
        return draw_load(report, svg, err);
    case ANA_FIGURE_THROUGHPUT:
        return draw_throughput(report, svg, err);
    default:
        return draw_series(report, figure, svg, err);
    }
}
