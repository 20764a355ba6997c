/// Drift against rounds as a table, as JSON and as a figure.
#include "analysis/converge/drift/drift_study.h"

#include "analysis/report/plot.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

enum { DIGITS = 9 };

/// The numbers of a point: in JSON by key, in tables those that have a heading.
static const struct {
    const char *key;
    const char *heading;
    size_t offset;
} columns[] = {
    {"drift_mean", NULL, offsetof(ana_drift_point, drift_mean)},
    {"drift_max", "drift", offsetof(ana_drift_point, drift_max)},
    {"gap_after_mean", "mean", offsetof(ana_drift_point, tracked_mean)},
    {"gap_after_max", "max", offsetof(ana_drift_point, tracked_max)},
    {"gap_after_bound", "bound", offsetof(ana_drift_point, tracked_bound)},
    {"gap_executed_mean", "mean", offsetof(ana_drift_point, executed_mean)},
    {"gap_executed_max", "max", offsetof(ana_drift_point, executed_max)},
    {"gap_executed_bound", "bound", offsetof(ana_drift_point, executed_bound)},
    {"imbalance_ratio_mean", "mean", offsetof(ana_drift_point, imbalance_mean)},
    {"imbalance_ratio_max", NULL, offsetof(ana_drift_point, imbalance_max)},
};
enum { COLUMN_COUNT = sizeof columns / sizeof columns[0] };

static double value_of(const ana_drift_point *point, int column)
{
    double value = 0;
    memcpy(&value, (const char *)point + columns[column].offset, sizeof value);
    return value;
}

static void append_point(const ana_drift_point *point, text_buffer *out)
{
    for (int column = 0; column < COLUMN_COUNT; column++) {
        const double value = value_of(point, column);
        if (columns[column].heading == NULL) continue;
        if (isfinite(value)) {
            text_format(out, "  %9.4g", value);
        } else {
            text_format(out, "  %9s", "none");
        }
    }
    text_append(out, "\n");
}

/// @param drift heading of the first column
static void append_head(const char *drift, text_buffer *out)
{
    text_format(out, "  %10s  %9s  %31s  %31s  %9s\n  %10s", "", "", "gap after the rounds",
                "gap as executed", "max load", "rounds");
    for (int column = 0; column < COLUMN_COUNT; column++) {
        if (columns[column].heading == NULL) continue;
        text_format(out, "  %9s", column == 1 ? drift : columns[column].heading);
    }
    text_append(out, "\n");
}

static void append_course(const ana_drift_study *study, const ana_drift_result *result,
                          text_buffer *out)
{
    const ana_layer_course *course = study->question.course;
    text_format(out,
                "trace '%s': %d layers on %d stages, %d samples of iterations %d to %d; %s; "
                "divisible layers\nloads and gaps (max - min) in units of the mean stage load\n\n",
                study->trace, course->layer_count, study->question.stage_count,
                course->sample_count, course->iteration[0],
                course->iteration[course->sample_count - 1], study->question.scheme->name);
    append_head("drift max", out);
    for (int point = 0; point < result->point_count; point++) {
        text_format(out, "  %10" PRId64, result->points[point].round_count);
        append_point(&result->points[point], out);
    }
    text_format(out, "  %10s", "exact");
    append_point(&result->exact, out);
    const ana_drift_point *budget = &result->budget;
    if (result->has_budget) {
        text_format(out,
                    "\nfewest rounds per iteration that keep the gap after them within %g: %" PRId64
                    " (largest gap %.4g)\n",
                    study->tolerance, budget->round_count, budget->tracked_max);
    } else {
        text_format(out,
                    "\nno number of rounds up to %" PRId64
                    " keeps the gap after them within %g (largest gap %.4g)\n",
                    budget->round_count, study->tolerance, budget->tracked_max);
    }
    text_append(out, "\nwhat whole layers leave, each decided from the times that are executed\n");
    text_format(out, "  %-20s  %9s  %9s  %9s  %9s  %16s\n", "balancer", "gap mean", "gap max",
                "load mean", "load max", "layers moved");
    for (int index = 0; index < ANA_DRIFT_FLOORS; index++) {
        const ana_drift_floor *floor = &result->floors[index];
        text_format(out, "  %-20s  %9.4g  %9.4g  %9.4g  %9.4g  %16.4g\n", floor->balancer,
                    floor->gap_mean, floor->gap_max, floor->imbalance_mean, floor->imbalance_max,
                    floor->moved_mean);
    }
}

static void append_shapes(const ana_drift_study *study, const ana_drift_result *result,
                          text_buffer *out)
{
    text_format(out,
                "%d stages, %s; drift: l2 norm of what an iteration changes\nloads and gaps "
                "(max - min) in units of the mean stage load; the last %" PRId64 " iterations\n",
                study->question.stage_count, study->question.scheme->name,
                result->points[0].iteration_count);
    for (int point = 0; point < result->point_count; point++) {
        const ana_drift_point *at = &result->points[point];
        if (point == 0 || at->shape != result->points[point - 1].shape) {
            text_append(out, at->shape == ANA_DRIFT_SLOW
                                 ? "\nsteady drift, along the slowest mode\n"
                                 : "\nrandom drift\n");
            append_head("drift", out);
        }
        text_format(out, "  %10" PRId64, at->round_count);
        append_point(at, out);
    }
}

void ana_drift_append(const ana_drift_study *study, const ana_drift_result *result,
                      text_buffer *out)
{
    if (study->question.course != NULL) {
        append_course(study, result, out);
    } else {
        append_shapes(study, result, out);
    }
}

static void write_point(const ana_drift_study *study, const ana_drift_point *point, double drift,
                        json_writer *writer)
{
    json_begin_object(writer);
    if (study->question.course == NULL) {
        json_put_string(writer, "shape", ana_drift_shape_names[point->shape]);
        json_put_rounded(writer, "drift", drift, DIGITS);
    }
    json_put_int64(writer, "rounds_per_iteration", point->round_count);
    json_put_int64(writer, "iterations", point->iteration_count);
    for (int column = 0; column < COLUMN_COUNT; column++) {
        json_put_rounded(writer, columns[column].key, value_of(point, column), DIGITS);
    }
    json_end_object(writer);
}

static void write_course(const ana_drift_study *study, const ana_drift_result *result,
                         json_writer *writer)
{
    const ana_layer_course *course = study->question.course;
    json_put_string(writer, "trace", study->trace);
    json_put_int64(writer, "layers", course->layer_count);
    json_put_int64(writer, "samples", course->sample_count);
    json_write_key(writer, "exact");
    write_point(study, &result->exact, 0, writer);
    json_put_rounded(writer, "tolerance", study->tolerance, DIGITS);
    json_write_key(writer, "budget");
    if (result->has_budget) {
        write_point(study, &result->budget, 0, writer);
    } else {
        json_write_null(writer);
    }
    json_write_key(writer, "whole_layers");
    json_begin_array(writer);
    for (int index = 0; index < ANA_DRIFT_FLOORS; index++) {
        const ana_drift_floor *floor = &result->floors[index];
        json_begin_object(writer);
        json_put_string(writer, "balancer", floor->balancer);
        json_put_rounded(writer, "gap_mean", floor->gap_mean, DIGITS);
        json_put_rounded(writer, "gap_max", floor->gap_max, DIGITS);
        json_put_rounded(writer, "imbalance_ratio_mean", floor->imbalance_mean, DIGITS);
        json_put_rounded(writer, "imbalance_ratio_max", floor->imbalance_max, DIGITS);
        json_put_rounded(writer, "layers_moved_mean", floor->moved_mean, DIGITS);
        json_end_object(writer);
    }
    json_end_array(writer);
}

void ana_drift_write(const ana_drift_study *study, const ana_drift_result *result,
                     json_writer *writer)
{
    json_begin_object(writer);
    json_put_string(writer, "scheme", study->question.scheme->name);
    json_put_int64(writer, "stages", study->question.stage_count);
    if (study->question.course != NULL) write_course(study, result, writer);
    json_write_key(writer, "points");
    json_begin_array(writer);
    for (int point = 0; point < result->point_count; point++) {
        write_point(study, &result->points[point], result->drift[point], writer);
    }
    json_end_array(writer);
    json_end_object(writer);
}

/// A value that a logarithmic axis can show.
static void plot_number(double value, text_buffer *out)
{
    if (isfinite(value) && value > 0) {
        text_format(out, " %.9g", value);
    } else {
        text_append(out, " NaN");
    }
}

/// The rows of one pair of lines: every step-th point from first on, of the first shape.
static void plot_series(const ana_drift_study *study, const ana_drift_result *result, int series,
                        text_buffer *out)
{
    const bool has_course = study->question.course != NULL;
    const int step = has_course ? 1 : study->round_option_count;
    const int end = has_course ? result->point_count : study->drift_count * step;

    text_format(out, "$series_%d << EOD\n", series);
    for (int point = series; point < end; point += step) {
        const ana_drift_point *at = &result->points[point];
        text_format(out, "%.9g", has_course ? (double)at->round_count : result->drift[point]);
        plot_number(at->tracked_max, out);
        plot_number(at->tracked_bound, out);
        text_append(out, "\n");
    }
    text_append(out, "EOD\n");
}

status ana_drift_draw(const ana_drift_study *study, const ana_drift_result *result,
                      text_buffer *svg, error_message *err)
{
    const bool has_course = study->question.course != NULL;
    const int series_count = has_course ? 1 : study->round_option_count;
    text_buffer settings = {0};
    text_format(&settings, "x_title = '%s'\nseries_count = %d\narray titles[%d]\n",
                has_course ? "rounds per iteration" : "drift per iteration / mean stage load",
                series_count, series_count);
    for (int series = 0; series < series_count; series++) {
        text_format(&settings, "titles[%d] = ", series + 1);
        if (has_course) {
            ana_plot_quote(&settings, study->trace);
        } else {
            text_format(&settings, "'%" PRId64 " rounds'", study->rounds[series]);
        }
        text_append(&settings, "\n");
        plot_series(study, result, series, &settings);
    }
    const status drawn = ana_plot("drift", &settings, svg, err);
    text_free(&settings);
    return drawn;
}
