#include "analysis/report/figures.h"

#include "analysis/report/plot.h"
#include "base/file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/// In the order of ana_figure.
static const struct {
    const char *name; // of the file
    const char *title;
    const char *y_title;
} figures[ANA_FIGURE_COUNT] = {
    [ANA_FIGURE_NONE] = {NULL, NULL, NULL},
    [ANA_FIGURE_IDLENESS] = {"figure-1", "Figure 1: idle share of the GPUs", "idle / total"},
    [ANA_FIGURE_SPEED_UP] = {"figure-3", "Figure 3: speed-up of the six cases", "speed-up"},
    [ANA_FIGURE_OVERHEAD] = {"figure-4", "Figure 4: decisions and migration", "share of the time"},
    [ANA_FIGURE_REPACKING] = {"figure-5", "Figure 5: re-packing", "GPUs of a pipeline"},
    [ANA_FIGURE_WEAK_SCALING] = {"figure-7", "Figure 7: weak scaling", "speed-up over static"},
    [ANA_FIGURE_NETWORK_DELAY] = {"figure-8", "Figure 8: network delay", "speed-up over static"},
    [ANA_FIGURE_TABLE1] = {"table-1", "Table 1: samples per second, Partition by Time",
                           "samples/s"},
};

static status no_folder(const char *folder, error_message *err)
{
    return error_set(err, STATUS_IO, "%.160s: %s", folder, strerror(errno));
}

status ana_figures_check(const char *folder, error_message *err)
{
    static const char probe[] = "title = ''\ny_title = ''\ngroup_count = 1\nmark_count = 0\n"
                                "$bars << EOD\n0 1 1 1 1 \"x\"\nEOD\n"
                                "$marks << EOD\nEOD\n";
    text_buffer settings = {0};
    text_buffer svg = {0};
    text_append(&settings, probe);
    const status drawn = ana_plot("paper", &settings, &svg, err);
    text_free(&settings);
    text_free(&svg);
    TRY(drawn);
    struct stat entry;
    if (stat(folder, &entry) != 0) {
        return mkdir(folder, 0777) == 0 ? STATUS_OK : no_folder(folder, err);
    }
    if (S_ISDIR(entry.st_mode)) return STATUS_OK;
    errno = ENOTDIR;
    return no_folder(folder, err);
}

static void put_number(text_buffer *out, double number)
{
    if (isnan(number)) {
        text_append(out, "NaN ");
    } else {
        text_format(out, "%.6g ", number);
    }
}

/// @return the bars of the figure
static int describe(const ana_reproduction *reproduction, ana_figure figure, text_buffer *settings)
{
    text_buffer bars = {0};
    text_buffer marks = {0};
    int count = 0;
    int mark_count = 0;
    for (int row = 0; row < reproduction->row_count; row++) {
        const ana_reproduced *entry = &reproduction->rows[row];
        if (entry->figure != figure) continue;
        if (isnan(entry->published)) {
            text_format(&marks, "%d\n", count);
            mark_count++;
        }
        text_format(&bars, "%d ", count++);
        put_number(&bars, entry->published);
        put_number(&bars, entry->simulated);
        put_number(&bars, entry->low);
        put_number(&bars, entry->high);
        ana_plot_cell(&bars, entry->bar);
        text_append(&bars, "\n");
    }
    text_append(settings, "title = ");
    ana_plot_quote(settings, figures[figure].title);
    text_append(settings, "\ny_title = ");
    ana_plot_quote(settings, figures[figure].y_title);
    text_format(settings, "\ngroup_count = %d\nmark_count = %d\n$bars << EOD\n%sEOD\n", count,
                mark_count, bars.bytes != NULL ? bars.bytes : "");
    text_format(settings, "$marks << EOD\n%sEOD\n", marks.bytes != NULL ? marks.bytes : "");
    settings->failed = settings->failed || bars.failed || marks.failed;
    text_free(&bars);
    text_free(&marks);
    return count;
}

/// Draws a figure; svg stays empty where the rows have nothing of it.
static status draw(const ana_reproduction *reproduction, ana_figure figure, text_buffer *svg,
                   error_message *err)
{
    text_buffer settings = {0};
    status result = STATUS_OK;
    if (describe(reproduction, figure, &settings) > 0) {
        result = ana_plot("paper", &settings, svg, err);
    }
    text_free(&settings);
    return result;
}

static status write_figure(const char *folder, ana_figure figure, const text_buffer *svg,
                           error_message *err)
{
    if (svg->length == 0) return STATUS_OK;
    text_buffer path = {0};
    text_format(&path, "%s/%s.svg", folder, figures[figure].name);
    const status result = path.failed ? error_set(err, STATUS_NO_MEMORY, "out of memory")
                                      : file_write(path.bytes, svg->bytes, svg->length, err);
    text_free(&path);
    return result;
}

status ana_figures_write(const ana_reproduction *reproduction, const char *folder,
                         error_message *err)
{
    text_buffer svg[ANA_FIGURE_COUNT] = {0};
    status result = STATUS_OK;
    for (int figure = ANA_FIGURE_NONE + 1; figure < ANA_FIGURE_COUNT && result == STATUS_OK;
         figure++) {
        result = draw(reproduction, (ana_figure)figure, &svg[figure], err);
    }
    for (int figure = ANA_FIGURE_NONE + 1; figure < ANA_FIGURE_COUNT; figure++) {
        if (result == STATUS_OK) {
            result = write_figure(folder, (ana_figure)figure, &svg[figure], err);
        }
        text_free(&svg[figure]);
    }
    return result;
}
