#include "analysis/whatif/study_report.h"

#include "analysis/report/html.h"
#include "analysis/report/plot.h"
#include "analysis/whatif/result_words.h"

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
    const status drawn = ana_plot(script, settings, svg, err);
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

static json_value point_at(json_value answer, json_value number)
{
    return ana_study_point(answer, (int64_t)ana_json_number_or(number, -2));
}

/// The printed answer from the paragraph that begins with `from` to the one that begins with `to`,
/// as it stands; nothing if it is not there.
static void append_words(const char *words, const char *from, const char *to, const char *heading,
                         text_buffer *out)
{
    const char *begin = words != NULL ? strstr(words, from) : NULL;
    if (begin == NULL) return;
    begin += strlen(from);
    begin += strspn(begin, "\n");
    const char *end = to != NULL ? strstr(begin, to) : NULL;
    text_buffer piece = {0};
    text_append_bytes(&piece, begin, end != NULL ? (size_t)(end - begin) : strlen(begin));
    text_format(out, "<h2>%s</h2>\n<div class=\"wide\"><pre>", heading);
    text_append_escaped(out, piece.bytes != NULL ? piece.bytes : "");
    text_append(out, "</pre></div>\n");
    text_free(&piece);
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
    text_append_escaped(out, piece.bytes != NULL ? piece.bytes : "");
    text_append(out, "</p>\n");
    text_free(&piece);
}

static void append_held(json_value answer, text_buffer *out)
{
    char tokens[ANA_CELL_BYTES];
    ana_short_number(number_of(answer, "tokens"), tokens);
    text_append(out, "<h2>What was asked</h2>\n<p>");
    text_format(out, "%.0f of %.0f points were played, ranked by ",
                number_of(answer, "points_played"), number_of(answer, "matrix_points"));
    text_append_escaped(out, ana_json_string_or(json_member(answer, "ranked_by"), ""));
    if (number_of(answer, "tokens") > 0) text_format(out, ", for a training of %s tokens", tokens);
    text_append(out,
                ". Held: everything in the study but the axes below. Points whose global batch, "
                "sequences or other settings of learning differ from the study as written are "
                "another training and are ranked apart.</p>\n<table><thead><tr><th>axis</th>"
                "<th class=\"text\">values</th></tr></thead><tbody>\n");
    for (json_value axis = json_element(json_member(answer, "axes"), 0); axis.node != NULL;
         axis = json_next(axis)) {
        const json_value values = json_member(axis, "values");
        text_append(out, "<tr><td>");
        text_append_escaped(out, ana_json_string_or(json_member(axis, "name"), ""));
        text_append(out, "</td><td class=\"text\">");
        for (json_value value = json_element(values, 0); value.node != NULL;
             value = json_next(value)) {
            if (value.node != json_element(values, 0).node) text_append(out, ", ");
            text_append_escaped(out, ana_json_string_or(value, ""));
        }
        text_append(out, "</td></tr>\n");
    }
    text_append(out, "</tbody></table>\n");
}

/// What the draws say of a point; missing if it was not drawn.
static json_value drawn_of(json_value answer, double number)
{
    const json_value drawn = json_member(json_member(answer, "certainty"), "points");
    for (json_value at = json_element(drawn, 0); at.node != NULL; at = json_next(at)) {
        if (ana_json_number_or(json_member(at, "point"), -1) == number) return at;
    }
    return (json_value){0};
}

/// A time of the point, in words, and the range in which 9 of 10 draws lie.
static void append_time_cells(json_value point, json_value drawn, text_buffer *out)
{
    bool is_hours = false;
    const double time = ana_study_time(point, &is_hours);
    const double unit_ns = is_hours ? 3600e9 : 1e6;
    const json_value bar = json_member(drawn, is_hours ? "train_s" : "iteration_ns");
    const double bar_ns = is_hours ? 1e9 : 1;
    char words[3][ANA_CELL_BYTES];
    const double ns[] = {time * unit_ns, number_of(bar, "p5") * bar_ns,
                         number_of(bar, "p95") * bar_ns};
    for (int at = 0; at < 3; at++) {
        char duration[32];
        text_duration((int64_t)ns[at], duration);
        if (is_hours) {
            ana_long_time(ns[at], words[at]);
        } else {
            memcpy(words[at], duration, sizeof duration);
        }
    }
    text_format(out, "<td>%s</td>", words[0]);
    if (json_is_object(bar)) {
        text_format(out, "<td>%s to %s</td>", words[1], words[2]);
    } else {
        text_append(out, "<td>-</td>");
    }
}

static void append_chance(json_value drawn, text_buffer *out)
{
    if (!json_is_number(json_member(drawn, "best_probability"))) {
        text_append(out, "<td>-</td><td>-</td>");
        return;
    }
    text_format(out, "<td>%.0f</td><td>%.1f %%</td>", number_of(drawn, "group"),
                100 * number_of(drawn, "best_probability"));
}

static void append_row(json_value answer, json_value point, int place, text_buffer *out)
{
    const json_value drawn = drawn_of(answer, ana_json_number_or(json_member(point, "point"), -2));
    char cell[ANA_CELL_BYTES];
    char memory[32];
    bool is_pareto = false;
    text_buffer label = {0};
    ana_study_label(answer, point, &label);
    (void)json_bool(json_member(point, "pareto"), &is_pareto, NULL);
    text_format(out, "<tr%s><td class=\"text\">", place == 0 ? " class=\"best\"" : "");
    text_append_escaped(out, label.bytes != NULL ? label.bytes : "");
    text_append(out, is_pareto ? " *</td>" : "</td>");
    append_time_cells(point, drawn, out);
    append_chance(drawn, out);
    ana_short_number(number_of(point, json_is_number(json_member(point, "tokens_per_s"))
                                          ? "tokens_per_s"
                                          : "microbatches_per_s"),
                     cell);
    text_format(out, "<td>%s</td><td>%.4g</td>", cell, number_of(point, "gpu_count"));
    ana_grouped_number(number_of(point, "gpu_hours"), cell);
    text_format(out, "<td>%s</td>", cell);
    ana_grouped_number(number_of(point, "cost"), cell);
    text_format(out, "<td>%s</td>", json_is_number(json_member(point, "cost")) ? cell : "-");
    text_size((int64_t)number_of(point, "peak_memory_bytes"), memory);
    const json_value idle = json_member(point, "idle");
    const double share =
        json_is_object(idle) ? number_of(idle, "all") : number_of(point, "bubble_ratio");
    text_format(out, "<td>%s</td><td>%.1f %%</td><td class=\"text\">", memory, 100 * share);
    text_append_escaped(out, ana_json_string_or(json_member(point, "learning"), ""));
    text_append(out, "</td></tr>\n");
    text_free(&label);
}

static void append_table(json_value answer, text_buffer *out)
{
    const json_value ranking = json_member(answer, "ranking");
    int place = 0;
    text_append(out,
                "<h2>The best points</h2>\n<div class=\"wide\"><table><thead><tr>"
                "<th class=\"text\">point</th><th>time</th><th>9 of 10 draws</th><th>group</th>"
                "<th>best in</th><th>tokens/s</th><th>GPUs</th><th>GPU-hours</th><th>cost");
    if (json_is_string(json_member(answer, "currency"))) {
        text_append(out, ", ");
        text_append_escaped(out, ana_json_string_or(json_member(answer, "currency"), ""));
    }
    text_append(out, "</th><th>peak memory</th><th>idle</th><th class=\"text\">learning</th></tr>"
                     "</thead><tbody>\n");
    for (json_value at = json_element(ranking, 0); at.node != NULL && place < ANA_STUDY_REPORT_ROWS;
         at = json_next(at)) {
        append_row(answer, point_at(answer, at), place++, out);
    }
    text_append(out,
                "</tbody></table></div>\n<p>*: in the Pareto set, nothing beats it in "
                "everything. Points of one group cannot be told apart by what is known: 9 of "
                "10 draws of their difference to its first hold 0. best in: share of the draws "
                "in which the point is the best.");
    if (json_count(ranking) > ANA_STUDY_REPORT_ROWS) {
        text_format(out, " %d more follow in the order.", json_count(ranking) - place);
    }
    text_append(out, "</p>\n");
}

static void append_infeasible(json_value answer, text_buffer *out)
{
    const json_value reasons = json_member(answer, "infeasible");
    if (json_count(reasons) == 0) return;
    text_append(out, "<h2>What cannot be</h2>\n<table><thead><tr><th>reason</th><th>points</th>"
                     "</tr></thead><tbody>\n");
    for (json_value reason = json_element(reasons, 0); reason.node != NULL;
         reason = json_next(reason)) {
        text_append(out, "<tr><td>");
        text_append_escaped(out, json_key(reason));
        text_format(out, "</td><td>%.0f</td></tr>\n", ana_json_number_or(reason, 0));
    }
    text_append(out, "</tbody></table>\n");
}

static void append_worth(json_value answer, text_buffer *out)
{
    const json_value worth = json_member(json_member(answer, "certainty"), "what_to_measure");
    int row = 0;
    if (json_count(worth) == 0) return;
    text_append(out, "<h2>What to measure first</h2>\n<div class=\"wide\"><table><thead><tr>"
                     "<th>input</th><th>chance of choosing wrongly, once it is known</th>"
                     "<th class=\"text\">how</th></tr></thead><tbody>\n");
    for (json_value at = json_element(worth, 0); at.node != NULL && row < 8;
         at = json_next(at), row++) {
        text_append(out, "<tr><td>");
        text_append_escaped(out, ana_json_string_or(json_member(at, "name"), ""));
        text_format(out, "</td><td>%.0f %%</td><td class=\"text\"><code>",
                    100 * number_of(at, "wrong_probability"));
        text_append_escaped(out, ana_json_string_or(json_member(at, "command"), ""));
        text_append(out, "</code></td></tr>\n");
    }
    text_format(out, "</tbody></table></div>\n<p>Now it is %.0f %%.</p>\n",
                100 * number_of(json_member(answer, "certainty"), "wrong_probability"));
}

/// A figure, or once that there is none. @param is_drawn out: false without gnuplot
static status append_figure(json_value answer, text_buffer *out, const char *caption,
                            status (*figure)(json_value answer, text_buffer *svg,
                                             error_message *err),
                            bool *is_drawn, error_message *err)
{
    text_buffer svg = {0};
    if (!*is_drawn) return STATUS_OK;
    const status drawn = figure(answer, &svg, err);
    if (drawn == STATUS_OK) ana_html_figure(out, &svg, caption);
    text_free(&svg);
    if (drawn != STATUS_UNSUPPORTED) return drawn;
    text_append(out, "<p>There was no gnuplot to draw the figures with.</p>\n");
    *is_drawn = false;
    return STATUS_OK;
}

status ana_study_report_write(const ana_study_report *report, text_buffer *out, error_message *err)
{
    const json_value answer = json_root(report->answer);
    bool is_drawn = true;
    if (strcmp(ana_json_string_or(json_member(answer, "schema"), ""), "dynmo-study-result/1") !=
        0) {
        return json_error(json_member(answer, "schema"), STATUS_FORMAT, err,
                          "is not 'dynmo-study-result/1'");
    }
    ana_html_begin(ana_json_string_or(json_member(answer, "name"), "study"), out);
    append_lead(report->words, out);
    TRY(append_figure(
        answer, out,
        "Where 9 of 10 draws of what is uncertain lie, and their middle. Blue: may be "
        "the best.",
        ana_study_figure_bars, &is_drawn, err));
    append_table(answer, out);
    TRY(append_figure(answer, out,
                      "Every point of the study. Nothing beats the Pareto set in "
                      "everything.",
                      ana_study_figure_pareto, &is_drawn, err));
    TRY(append_figure(answer, out, "What the ranks' idle time is there for, in the best points.",
                      ana_study_figure_idle, &is_drawn, err));
    append_held(answer, out);
    append_infeasible(answer, out);
    append_worth(answer, out);
    append_words(report->words, "\nHow sure\n", "\nInputs\n", "How sure", out);
    append_words(report->words, "\nInputs\n", NULL, "Inputs and where they come from", out);
    ana_html_provenance(out, report->provenance, report->provenance_count);
    text_append(out, "</body></html>\n");
    return STATUS_OK;
}
