#include "analysis/whatif/certainty.h"

#include "analysis/whatif/result.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { DIGITS = 9 };

/// The figure that is ranked by, and its column.
static ana_bar bar_of(const ana_certainty *certainty, const char **head)
{
    static const struct {
        ana_bar bar;
        const char *head;
    } bars[ANA_OBJECTIVE_COUNT] = {{ANA_BAR_TRAIN_S, "train"},
                                   {ANA_BAR_GPU_HOURS, "GPU-hours"},
                                   {ANA_BAR_COST, "cost"},
                                   {ANA_BAR_MEMORY_BYTES, "peak"}};
    const ana_objective objective = certainty->study->objective;
    const bool has_train = certainty->points[0].bars[ANA_BAR_TRAIN_S].middle > 0;
    *head = bars[objective].head;
    if (objective != ANA_OBJECTIVE_TIME || has_train) return bars[objective].bar;
    *head = "microbatches/s";
    return ANA_BAR_RATE;
}

static text_words show(ana_bar bar, double value)
{
    if (isinf(value)) return (text_words){"never"};
    switch (bar) {
    case ANA_BAR_TRAIN_S:
        return ana_long_time(value * 1e9);
    case ANA_BAR_MEMORY_BYTES:
        return text_size((int64_t)value);
    case ANA_BAR_RATE:
        return ana_short_number(value);
    default:
        return ana_grouped_number(value);
    }
}

static void put_difference(ana_table *rows, double ratio)
{
    if (isfinite(ratio)) {
        ana_table_cell(rows, "%+.1f %%", 100 * ratio);
    } else {
        ana_table_cell(rows, "never");
    }
}

/// Probability that a point can be played and fits; memory as played is part of every draw.
static double fits_of(const ana_certainty *certainty, const ana_sure_point *point)
{
    return ana_whatif_fits(certainty->study, point->item) * (1 - point->ranked.infeasible_ratio);
}

static void put_row(const ana_certainty *certainty, int place, ana_bar bar, ana_table *rows)
{
    const ana_sure_point *point = &certainty->points[place];
    const ana_error_bar value = point->bars[bar];
    const ana_error_bar behind = point->ranked.behind;
    ana_table_row(rows);
    ana_table_cell(rows, "%d", point->ranked.group);
    ana_table_cell(rows, "%s", ana_point_number(certainty->study, point->item).text);
    ana_table_values(rows, certainty->study, point->item);
    ana_table_cell(rows, "%s", show(bar, value.middle).text);
    ana_table_cell(rows, "%s", show(bar, value.low).text);
    ana_table_cell(rows, "%s", show(bar, value.high).text);
    put_difference(rows, behind.middle);
    put_difference(rows, behind.low);
    put_difference(rows, behind.high);
    ana_table_cell(rows, "%.1f %%", 100 * point->ranked.best_probability);
    ana_table_cell(rows, "%.0f %%", 100 * fits_of(certainty, point));
    ana_table_cell(rows, "%s", point->is_reference ? "as written" : "");
}

/// The first points, and the reference.
static bool is_shown(const ana_certainty *certainty, int place, int row_count)
{
    return place < row_count || certainty->points[place].is_reference;
}

static void print_points(const ana_certainty *certainty, int row_count, text_buffer *out)
{
    static const char *const rest[] = {"low",  "high",    "behind", "low",
                                       "high", "best in", "fits in"};
    arena *memory = arena_create(1 << 16);
    ana_table rows = ana_table_begin(certainty->point_count, memory);
    const char *head = NULL;
    const ana_bar bar = bar_of(certainty, &head);
    ana_table_column(&rows, "group", false);
    ana_table_column(&rows, "point", false);
    ana_table_axes(&rows, certainty->study);
    ana_table_column(&rows, head, false);
    for (size_t word = 0; word < sizeof rest / sizeof rest[0]; word++) {
        ana_table_column(&rows, rest[word], false);
    }
    ana_table_column(&rows, "", true);
    for (int place = 0; place < certainty->point_count; place++) {
        if (is_shown(certainty, place, row_count)) put_row(certainty, place, bar, &rows);
    }
    ana_table_print(&rows, out);
    arena_destroy(memory);
}

static void print_head(const ana_certainty *certainty, text_buffer *out)
{
    const ana_uncertainty *uncertainty = certainty->uncertainty;
    const ana_correction *calibration = certainty->study->calibration;
    text_buffer words = {0};
    text_format(&words, "%d draws of %d uncertain inputs", uncertainty->draw_count,
                certainty->draws.input_count);
    if (calibration != NULL) {
        text_format(&words, " and of what %d measured run%s open", calibration->run_count,
                    calibration->run_count == 1 ? " leaves" : "s leave");
    }
    text_format(
        &words,
        " (seed %" PRIu64
        ") at the best %d points that differ and the study as written. 9 of 10 draws lie "
        "between low and high, their median comes before; `behind` is the difference to "
        "the first point of this table, the best in the mean of the draws, in the same draw; "
        "`fits in` is how likely its memory is enough, by the peaks of published runs. Points of "
        "a group cannot be told from its first: 9 of 10 draws of their difference hold 0.",
        uncertainty->seed, uncertainty->point_count);
    if (certainty->beyond_count > 0) {
        text_format(&words, " %d of %d points are on machines that no measured run used.",
                    certainty->beyond_count, certainty->point_count);
    }
    text_append_wrapped(out, words.bytes, 0, ANA_TEXT_COLUMNS);
    text_append(out, "\n");
    text_free(&words);
}

static const char *origin_of(const ana_uncertain *input)
{
    return input->reason == NULL ? "declared" : "assumed";
}

/// "0.65 x 0.8 .. 1.15, triangular; assumed: shapes, clocks under load"
static void print_range(const ana_uncertain *input, text_buffer *out)
{
    const ana_range *range = &input->range;
    text_append(out, "         ");
    if (!isnan(input->nominal_min)) {
        text_format(out, "%.6g", input->nominal_min);
        if (input->nominal_max > input->nominal_min)
            text_format(out, " .. %.6g", input->nominal_max);
        text_format(out, "%s%s%s", input->unit[0] != '\0' ? " " : "", input->unit,
                    range->is_factor ? " x " : "; ");
    }
    text_format(out, "%.4g .. %.4g", range->low, range->high);
    if (!range->is_factor && input->unit[0] != '\0') text_format(out, " %s", input->unit);
    text_format(out, ", %s; %s%s%s\n", ana_distribution_names[range->distribution],
                origin_of(input), input->reason != NULL ? ": " : "",
                input->reason != NULL ? input->reason : "");
}

static void print_sources(const ana_certainty *certainty, text_buffer *out)
{
    const ana_draws *draws = &certainty->draws;
    const char *unranged = draws->points[certainty->points[0].ranked.point].unranged;
    text_buffer words = {0};
    text_append(out, "\nWhat to measure next: what the first point's error bar is made of\n\n");
    for (int line = 0; line < certainty->source_count; line++) {
        const ana_source *source = &certainty->sources[line];
        text_format(out, "%5.1f %%  %s\n", 100 * source->share, source->name);
        if (source->input != NULL) print_range(source->input, out);
        text_format(out, "         %s\n", ana_measurement_of(source->name));
    }
    if (certainty->source_count == 0) text_append(out, "No input is uncertain.\n");
    text_format(&words, "Not in the error bars, though assumed: %s.",
                unranged[0] != '\0' ? unranged : "nothing");
    text_append(out, "\n");
    text_append_wrapped(out, words.bytes, 0, ANA_TEXT_COLUMNS);
    text_free(&words);
}

void ana_certainty_print(const ana_certainty *certainty, int row_count, text_buffer *out)
{
    text_append(out, "\nHow sure\n\n");
    if (certainty->point_count == 0) {
        text_append(out, "No point could be drawn.\n");
        return;
    }
    print_head(certainty, out);
    print_points(certainty, row_count, out);
    print_sources(certainty, out);
}

// JSON

static void put(json_writer *writer, const char *key, double value)
{
    json_put_rounded(writer, key, value, DIGITS);
}

static void put_bar(json_writer *writer, const char *key, ana_error_bar bar)
{
    json_put_object(writer, key);
    put(writer, "p5", bar.low);
    put(writer, "p50", bar.middle);
    put(writer, "p95", bar.high);
    json_end_object(writer);
}

static void write_point(const ana_certainty *certainty, const ana_sure_point *point,
                        json_writer *writer)
{
    static const char *const keys[ANA_BAR_COUNT] = {
        "iteration_ns", "per_second", "train_s", "gpu_hours", "cost", "peak_memory_bytes"};
    const int64_t number = ana_whatif_number(certainty->study, point->item);
    const bool has_train = point->bars[ANA_BAR_TRAIN_S].middle > 0;
    json_begin_object(writer);
    if (number >= 0) json_put_int64(writer, "point", number);
    json_put_int64(writer, "group", point->ranked.group);
    put(writer, "best_probability", point->ranked.best_probability);
    put(writer, "infeasible_ratio", point->ranked.infeasible_ratio);
    put(writer, "fit_probability", fits_of(certainty, point));
    put_bar(writer, "behind_ratio", point->ranked.behind);
    for (int bar = 0; bar < ANA_BAR_COUNT; bar++) {
        const bool needs_train = bar >= ANA_BAR_TRAIN_S && bar <= ANA_BAR_COST;
        if (needs_train && !has_train) continue;
        if (point->bars[bar].middle >= 0) put_bar(writer, keys[bar], point->bars[bar]);
    }
    json_end_object(writer);
}

static void write_source(const ana_source *source, json_writer *writer)
{
    const ana_uncertain *input = source->input;
    json_begin_object(writer);
    json_put_string(writer, "name", source->name);
    put(writer, "share", source->share);
    json_put_string(writer, "command", ana_measurement_of(source->name));
    if (input != NULL) {
        json_put_string(writer, "path", input->path);
        json_put_string(writer, "origin", origin_of(input));
        json_put_string(writer, "distribution", ana_distribution_names[input->range.distribution]);
        json_put_bool(writer, "factor", input->range.is_factor);
        put(writer, "low", input->range.low);
        put(writer, "high", input->range.high);
        put(writer, "nominal_min", input->nominal_min);
        put(writer, "nominal_max", input->nominal_max);
        json_put_string(writer, "unit", input->unit);
    }
    json_end_object(writer);
}

void ana_certainty_write(const ana_certainty *certainty, json_writer *writer)
{
    json_begin_object(writer);
    json_put_int64(writer, "draws", certainty->uncertainty->draw_count);
    json_put_int64(writer, "seed", (int64_t)certainty->uncertainty->seed);
    const ana_correction *calibration = certainty->study->calibration;
    json_put_bool(writer, "calibration", calibration != NULL);
    if (calibration != NULL) {
        json_put_int64(writer, "calibration_runs", calibration->run_count);
        json_put_int64(writer, "calibration_refused", calibration->refused_count);
    }
    json_put_int64(writer, "points_beyond_calibration", certainty->beyond_count);
    json_put_array(writer, "points");
    for (int place = 0; place < certainty->point_count; place++) {
        write_point(certainty, &certainty->points[place], writer);
    }
    json_end_array(writer);
    json_put_array(writer, "what_to_measure");
    for (int line = 0; line < certainty->source_count; line++) {
        write_source(&certainty->sources[line], writer);
    }
    json_end_array(writer);
    json_end_object(writer);
}
