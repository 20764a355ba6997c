#include "analysis/whatif/study_figures.h"

#include "analysis/report/html.h"
#include "analysis/report/plot.h"

#include <string.h>

enum { CAUSE_COUNT = 6, ROW_HEIGHT = 24 };

/// As ana_result_write names them.
static const char *const causes[CAUSE_COUNT] = {"warm-up and cool-down", "imbalance",
                                                "communication",         "optimizer barrier",
                                                "gradient reduction",    "migration"};

static double number_of(json_value object, const char *key)
{
    return ana_json_number_or(json_member(object, key), 0);
}

json_value ana_study_point(json_value answer, int64_t number)
{
    const json_value points = json_member(answer, "points");
    for (json_value point = json_element(points, 0); point.node != NULL; point = json_next(point)) {
        if (ana_json_number_or(json_member(point, "point"), -1) == (double)number) return point;
    }
    return (json_value){0};
}

void ana_study_label(json_value answer, json_value point, text_buffer *out)
{
    const json_value axes = json_member(answer, "axes");
    json_value index = json_element(json_member(point, "values"), 0);
    text_format(out, "%.0f", number_of(point, "point"));
    for (json_value axis = json_element(axes, 0); axis.node != NULL && index.node != NULL;
         axis = json_next(axis), index = json_next(index)) {
        const char *name = ana_json_string_or(json_member(axis, "name"), "");
        const char *last = strrchr(name, '.');
        const int value = (int)ana_json_number_or(index, 0);
        const json_value text = json_element(json_member(axis, "values"), value);
        text_format(out, "%s %s %s", axis.node == json_element(axes, 0).node ? ":" : ",",
                    last != NULL ? last + 1 : name, ana_json_string_or(text, ""));
    }
}

double ana_study_time(json_value point, bool *is_hours)
{
    const json_value train = json_member(point, "train_s");
    *is_hours = json_is_number(train);
    return *is_hours ? ana_json_number_or(train, 0) / 3600 : number_of(point, "iteration_ns") / 1e6;
}

static void append_label(json_value answer, json_value point, text_buffer *settings)
{
    text_buffer label = {0};
    ana_study_label(answer, point, &label);
    text_append(settings, " ");
    ana_plot_cell(settings, label.bytes != NULL ? label.bytes : "");
    text_append(settings, "\n");
    text_free(&label);
}

/// Draws the rows in settings.
static status draw(const char *script, text_buffer *settings, text_buffer *svg, error_message *err)
{
    const status drawn = settings->failed ? error_set(err, STATUS_NO_MEMORY, "out of memory")
                                          : ana_plot(script, settings, svg, err);
    text_free(settings);
    return drawn;
}

/// The quantiles of the time of a point, in hours or ms.
static bool read_bar(json_value drawn, bool is_hours, double *low, double *middle, double *high)
{
    const json_value bar = json_member(drawn, is_hours ? "train_s" : "iteration_ns");
    const double unit = is_hours ? 3600 : 1e6;
    *low = number_of(bar, "p5") / unit;
    *middle = number_of(bar, "p50") / unit;
    *high = number_of(bar, "p95") / unit;
    return json_is_object(bar) && *high > 0;
}

status ana_study_figure_bars(json_value answer, text_buffer *svg, error_message *err)
{
    const json_value drawn = json_member(json_member(answer, "certainty"), "points");
    text_buffer settings = {0};
    double smallest = 0;
    double largest = 0;
    int row_count = 0;
    bool is_hours = false;
    text_append(&settings, "$rows << EOD\n");
    for (json_value at = json_element(drawn, 0);
         at.node != NULL && row_count < ANA_STUDY_REPORT_ROWS; at = json_next(at)) {
        const json_value point = ana_study_point(answer, (int64_t)number_of(at, "point"));
        double low = 0;
        double middle = 0;
        double high = 0;
        bool may_be_best = false;
        (void)ana_study_time(point, &is_hours);
        if (point.node == NULL || !read_bar(at, is_hours, &low, &middle, &high)) continue;
        (void)json_bool(json_member(at, "may_be_best"), &may_be_best, NULL);
        text_format(&settings, "%d %.9g %.9g %.9g %d", row_count, middle, low, high, !may_be_best);
        append_label(answer, point, &settings);
        if (row_count == 0 || low < smallest) smallest = low;
        if (high > largest) largest = high;
        row_count++;
    }
    text_format(&settings, "EOD\nheight = %d\nrow_count = %d\nsmallest = %.9g\nlargest = %.9g\n",
                80 + row_count * ROW_HEIGHT, row_count, smallest * 0.97, largest * 1.03);
    text_format(&settings, "x_title = '%s'\n",
                is_hours ? "hours of the whole training" : "ms of an iteration");
    if (row_count > 0) return draw("bars", &settings, svg, err);
    text_free(&settings);
    return STATUS_OK;
}

/// What time is set against: the first figure that the best point has.
typedef struct other_figure {
    const char *key;
    const char *title;
    double unit;
} other_figure;

static other_figure choose_other(json_value point)
{
    static const other_figure others[] = {
        {"cost", "cost of the whole training", 1},
        {"gpu_hours", "GPU-hours of the whole training", 1},
        {"peak_memory_bytes", "memory of the fullest rank, GiB", 1024.0 * 1024 * 1024}};
    for (size_t index = 0; index < sizeof others / sizeof others[0]; index++) {
        if (number_of(point, others[index].key) > 0) return others[index];
    }
    return others[2];
}

/// One class of points as a data block.
static void append_points(json_value answer, const other_figure *other, const char *block, int kind,
                          text_buffer *settings)
{
    const double reference = ana_json_number_or(json_member(answer, "reference"), -2);
    int dot_count = 0;
    text_format(settings, "$%s << EOD\n", block);
    for (json_value point = json_element(json_member(answer, "points"), 0);
         point.node != NULL && dot_count < ANA_STUDY_REPORT_DOTS; point = json_next(point)) {
        bool is_hours = false;
        bool is_pareto = false;
        const double time = ana_study_time(point, &is_hours);
        (void)json_bool(json_member(point, "pareto"), &is_pareto, NULL);
        const bool is_reference = ana_json_number_or(json_member(point, "point"), -1) == reference;
        if (time <= 0 || (kind == 2 ? !is_reference : kind != (int)is_pareto)) continue;
        text_format(settings, "%.9g %.9g\n", time, number_of(point, other->key) / other->unit);
        dot_count++;
    }
    if (dot_count == 0) text_append(settings, "NaN NaN\n");
    text_append(settings, "EOD\n");
}

status ana_study_figure_pareto(json_value answer, text_buffer *svg, error_message *err)
{
    static const char *const blocks[] = {"others", "pareto", "reference"};
    const json_value first = json_element(json_member(answer, "ranking"), 0);
    const json_value best = ana_study_point(answer, (int64_t)ana_json_number_or(first, -2));
    text_buffer settings = {0};
    bool is_hours = false;
    if (best.node == NULL) return STATUS_OK;
    (void)ana_study_time(best, &is_hours);
    const other_figure other = choose_other(best);
    for (int kind = 0; kind < 3; kind++) {
        append_points(answer, &other, blocks[kind], kind, &settings);
    }
    text_format(&settings, "x_title = '%s'\ny_title = '%s'\n",
                is_hours ? "hours of the whole training" : "ms of an iteration", other.title);
    return draw("pareto", &settings, svg, err);
}

status ana_study_figure_idle(json_value answer, text_buffer *svg, error_message *err)
{
    text_buffer settings = {0};
    double largest = 0;
    int row_count = 0;
    text_append(&settings, "$rows << EOD\n");
    for (json_value at = json_element(json_member(answer, "ranking"), 0);
         at.node != NULL && row_count < ANA_STUDY_REPORT_ROWS; at = json_next(at)) {
        const json_value point = ana_study_point(answer, (int64_t)ana_json_number_or(at, -2));
        const json_value idle = json_member(point, "idle");
        if (!json_is_object(idle)) continue;
        text_format(&settings, "%d", row_count++);
        for (int cause = 0; cause < CAUSE_COUNT; cause++) {
            text_format(&settings, " %.6g", 100 * number_of(idle, causes[cause]));
        }
        append_label(answer, point, &settings);
        if (100 * number_of(idle, "all") > largest) largest = 100 * number_of(idle, "all");
    }
    text_format(&settings, "EOD\nheight = %d\nrow_count = %d\nlargest = %.6g\n",
                100 + row_count * ROW_HEIGHT, row_count, largest > 0 ? largest * 1.05 : 1);
    if (row_count > 0) return draw("idle", &settings, svg, err);
    text_free(&settings);
    return STATUS_OK;
}
