#include "analysis/whatif/study_report.h"

#include "analysis/report/html.h"
#include "analysis/report/plot.h"

#include <string.h>

enum { DOTS_MAX = 20000 };

/// A figure of points, and how it is drawn.
typedef struct axis {
    const char *key;
    const char *title;
    double unit;
} axis;

static double number_of(json_value object, const char *key)
{
    return ana_json_number_or(json_member(object, key), 0);
}

/// The first of the axes that some point has; the last where none has.
static const axis *choose(json_value points, const axis *axes, int count)
{
    for (int each = 0; each < count - 1; each++) {
        json_value point = json_element(points, 0);
        for (; point.node != NULL; point = json_next(point)) {
            if (number_of(point, axes[each].key) > 0) return &axes[each];
        }
    }
    return &axes[count - 1];
}

/// One class of points as a data block.
static void append_points(json_value answer, const axis *x, const axis *y, int kind,
                          text_buffer *settings)
{
    static const char *const blocks[] = {"others", "pareto", "reference"};
    const double reference = ana_json_number_or(json_member(answer, "reference"), -2);
    int dot_count = 0;
    text_format(settings, "$%s << EOD\n", blocks[kind]);
    for (json_value point = json_element(json_member(answer, "points"), 0);
         point.node != NULL && dot_count < DOTS_MAX; point = json_next(point)) {
        bool is_pareto = false;
        (void)json_bool(json_member(point, "pareto"), &is_pareto, NULL);
        const double length = number_of(point, x->key) / x->unit;
        const bool is_reference = ana_json_number_or(json_member(point, "point"), -1) == reference;
        if (length <= 0 || (kind == 2 ? !is_reference : kind != (int)is_pareto)) continue;
        text_format(settings, "%.9g %.9g\n", length, number_of(point, y->key) / y->unit);
        dot_count++;
    }
    text_append(settings, dot_count == 0 ? "NaN NaN\nEOD\n" : "EOD\n");
}

/// Every point: time against cost, GPU-hours or memory. Without gnuplot the page says so.
static status append_figure(json_value answer, text_buffer *out, error_message *err)
{
    static const axis times[] = {{"train_s", "hours of the whole training", 3600},
                                 {"iteration_ns", "ms of an iteration", 1e6}};
    static const axis others[] = {
        {"cost", "cost of the whole training", 1},
        {"gpu_hours", "GPU-hours of the whole training", 1},
        {"peak_memory_bytes", "memory of the fullest rank, GiB", 1024.0 * 1024 * 1024}};
    const json_value points = json_member(answer, "points");
    const axis *x = choose(points, times, 2);
    const axis *y = choose(points, others, 3);
    text_buffer settings = {0};
    text_buffer svg = {0};
    for (int kind = 0; kind < 3; kind++) {
        append_points(answer, x, y, kind, &settings);
    }
    text_format(&settings, "x_title = '%s'\ny_title = '%s'\n", x->title, y->title);
    const status drawn = ana_plot("pareto", &settings, &svg, err);
    if (drawn == STATUS_OK) {
        ana_html_figure(out, &svg,
                        "Every point of the study. Nothing beats the Pareto set in everything.");
    } else if (drawn == STATUS_UNSUPPORTED) {
        text_append(out, "<p>There was no gnuplot to draw this figure with.</p>\n");
    }
    text_free(&settings);
    text_free(&svg);
    return drawn == STATUS_UNSUPPORTED ? STATUS_OK : drawn;
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

status ana_study_report_write(const ana_recorded *recorded, text_buffer *out, error_message *err)
{
    const json_value answer = json_root(recorded->answer);
    const json_value schema = json_member(answer, "schema");
    if (strcmp(ana_json_string_or(schema, ""), "dynmo-study-result/1") != 0) {
        return json_error(schema, STATUS_FORMAT, err, "is not 'dynmo-study-result/1'");
    }
    ana_html_begin(ana_json_string_or(json_member(answer, "name"), "study"), out);
    append_lead(recorded->words, out);
    TRY(append_figure(answer, out, err));
    ana_html_words(out, recorded->words);
    ana_html_provenance(out, recorded->provenance, recorded->provenance_count);
    text_append(out, "</body></html>\n");
    return STATUS_OK;
}
