#include "analysis/report/report_parts.h"

#include "analysis/report/plot.h"
#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

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

static void free_grid(load_grid *grid)
{
    free(grid->share);
    free(grid->sample_counts);
}

static status create_grid(int rank_count, int iteration_count, load_grid *grid, error_message *err)
{
    *grid = (load_grid){.rank_count = rank_count};
    grid->column_width = (iteration_count + COLUMNS_MAX - 1) / COLUMNS_MAX;
    grid->column_count = (iteration_count + grid->column_width - 1) / grid->column_width;
    const size_t cells = (size_t)rank_count * (size_t)grid->column_count;
    grid->share = memory_array(cells, sizeof *grid->share);
    grid->sample_counts = memory_array(cells, sizeof *grid->sample_counts);
    if (grid->share != NULL && grid->sample_counts != NULL) return STATUS_OK;
    free_grid(grid);
    return error_set(err, STATUS_NO_MEMORY, "out of memory");
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

static status append_panel(const ana_report_series *series, int panel, int rank_count,
                           int iteration_count, text_buffer *settings, error_message *err)
{
    load_grid grid;
    TRY(create_grid(rank_count, iteration_count, &grid, err));
    add_samples(&grid, series);
    text_format(settings, "$cells_%d << EOD\n", panel);
    append_cells(&grid, settings);
    text_format(settings, "EOD\ntitle_%d = ", panel);
    ana_plot_quote(settings, series->label);
    text_append(settings, "\n");
    free_grid(&grid);
    return STATUS_OK;
}

status ana_report_load(const ana_report *report, text_buffer *svg, error_message *err)
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
    status result = STATUS_OK;
    for (int panel = 0; panel < panel_count && result == STATUS_OK; panel++) {
        result = append_panel(panels[panel], panel, ranks, iterations, &settings, err);
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
    if (result == STATUS_OK) result = ana_plot("load", &settings, svg, err);
    text_free(&settings);
    return result;
}
