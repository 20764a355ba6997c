#include "analysis/whatif/study_report.h"

#include "analysis/report/html.h"
#include "analysis/report/plot.h"

#include <string.h>

enum { ROW_HEIGHT = 24 };

static double number_of(json_value object, const char *key)
{
    return ana_json_number_or(json_member(object, key), 0);
}

/// Draws the rows in settings.
static status draw(const char *script, text_buffer *settings, text_buffer *svg, error_message *err)
{
    const status drawn = ana_plot(script, settings, svg, err);
    text_free(settings);
    return drawn;
}

/// What time is measured by: hours of the whole training or, where tokens are not known, ms of an
/// iteration.
typedef struct time_axis {
    const char *key;
    double unit;
    const char *title;
} time_axis;

static time_axis choose_time(json_value points)
{
    for (json_value point = json_element(points, 0); point.node != NULL; point = json_next(point)) {
        if (json_is_missing(json_member(point, "train_s"))) continue;
        return (time_axis){"train_s", 3600, "hours of the whole training"};
    }
    return (time_axis){"iteration_ns", 1e6, "ms of an iteration"};
}

/// The drawn points, by their numbers, with their error bars; nothing if none are drawn.
static status draw_bars(json_value answer, text_buffer *svg, error_message *err)
{
    const json_value drawn = json_member(json_member(answer, "certainty"), "points");
    const time_axis time = choose_time(drawn);
    text_buffer settings = {0};
    double smallest = 0;
    double largest = 0;
    int row_count = 0;
    text_append(&settings, "$rows << EOD\n");
    for (json_value at = json_element(drawn, 0);
         at.node != NULL && row_count < ANA_STUDY_REPORT_ROWS; at = json_next(at)) {
        const json_value bar = json_member(at, time.key);
        const double low = number_of(bar, "p5") / time.unit;
        const double high = number_of(bar, "p95") / time.unit;
        const double number = ana_json_number_or(json_member(at, "point"), -1);
        if (!(high > 0)) continue;
        text_format(&settings, "%d %.9g %.9g %.9g %d ", row_count,
                    number_of(bar, "p50") / time.unit, low, high, number_of(at, "group") > 1);
        if (number >= 0) text_format(&settings, "%.0f\n", number);
        if (number < 0) text_append(&settings, "written\n");
        if (row_count++ == 0 || low < smallest) smallest = low;
        if (high > largest) largest = high;
    }
    text_format(&settings, "EOD\nheight = %d\nrow_count = %d\nsmallest = %.9g\nlargest = %.9g\n",
                80 + row_count * ROW_HEIGHT, row_count, smallest * 0.97, largest * 1.03);
    text_format(&settings, "x_title = '%s'\n", time.title);
    if (row_count > 0) return draw("bars", &settings, svg, err);
    text_free(&settings);
    return STATUS_OK;
}

/// What time is set against: the first figure that any point has.
typedef struct other_axis {
    const char *key;
    const char *title;
    double unit;
} other_axis;

static other_axis choose_other(json_value points)
{
    static const other_axis others[] = {
        {"cost", "cost of the whole training", 1},
        {"gpu_hours", "GPU-hours of the whole training", 1},
        {"peak_memory_bytes", "memory of the fullest rank, GiB", 1024.0 * 1024 * 1024}};
    for (json_value point = json_element(points, 0); point.node != NULL; point = json_next(point)) {
        if (number_of(point, "iteration_ns") <= 0) continue;
        for (size_t index = 0; index < 2; index++) {
            if (number_of(point, others[index].key) > 0) return others[index];
        }
        break;
    }
    return others[2];
}

/// One class of points as a data block.
static void append_points(json_value answer, const time_axis *time, const other_axis *other,
                          int kind, text_buffer *settings)
{
    static const char *const blocks[] = {"others", "pareto", "reference"};
    const double reference = ana_json_number_or(json_member(answer, "reference"), -2);
    int dot_count = 0;
    text_format(settings, "$%s << EOD\n", blocks[kind]);
    for (json_value point = json_element(json_member(answer, "points"), 0);
         point.node != NULL && dot_count < ANA_STUDY_REPORT_DOTS; point = json_next(point)) {
        bool is_pareto = false;
        (void)json_bool(json_member(point, "pareto"), &is_pareto, NULL);
        const double length = number_of(point, time->key) / time->unit;
        const bool is_reference = ana_json_number_or(json_member(point, "point"), -1) == reference;
        if (length <= 0 || (kind == 2 ? !is_reference : kind != (int)is_pareto)) continue;
        text_format(settings, "%.9g %.9g\n", length, number_of(point, other->key) / other->unit);
        dot_count++;
    }
    text_append(settings, dot_count == 0 ? "NaN NaN\nEOD\n" : "EOD\n");
}

/// Every point: time against cost, GPU-hours or memory.
static status draw_pareto(json_value answer, text_buffer *svg, error_message *err)
{
    const json_value points = json_member(answer, "points");
    const time_axis time = choose_time(points);
    const other_axis other = choose_other(points);
    text_buffer settings = {0};
    for (int kind = 0; kind < 3; kind++) {
        append_points(answer, &time, &other, kind, &settings);
    }
    text_format(&settings, "x_title = '%s'\ny_title = '%s'\n", time.title, other.title);
    return draw("pareto", &settings, svg, err);
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

/// A figure, or that there is none.
static status append_figure(json_value answer, const char *caption,
                            status (*figure)(json_value answer, text_buffer *svg,
                                             error_message *err),
                            text_buffer *out, error_message *err)
{
    text_buffer svg = {0};
    const status drawn = figure(answer, &svg, err);
    if (drawn == STATUS_OK) ana_html_figure(out, &svg, caption);
    text_free(&svg);
    if (drawn != STATUS_UNSUPPORTED) return drawn;
    text_append(out, "<p>There was no gnuplot to draw this figure with.</p>\n");
    return STATUS_OK;
}

status ana_study_report_write(const ana_study_report *report, text_buffer *out, error_message *err)
{
    const json_value answer = json_root(report->answer);
    if (strcmp(ana_json_string_or(json_member(answer, "schema"), ""), "dynmo-study-result/1") !=
        0) {
        return json_error(json_member(answer, "schema"), STATUS_FORMAT, err,
                          "is not 'dynmo-study-result/1'");
    }
    ana_html_begin(ana_json_string_or(json_member(answer, "name"), "study"), out);
    append_lead(report->words, out);
    TRY(append_figure(answer,
                      "Where 9 of 10 draws of what is uncertain lie, and their middle, by the "
                      "points' numbers. Blue: cannot be told from the first.",
                      draw_bars, out, err));
    TRY(append_figure(answer,
                      "Every point of the study. Nothing beats the Pareto set in everything.",
                      draw_pareto, out, err));
    ana_html_words(out, report->words);
    ana_html_provenance(out, report->provenance, report->provenance_count);
    text_append(out, "</body></html>\n");
    return STATUS_OK;
}
