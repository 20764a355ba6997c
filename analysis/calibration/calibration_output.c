/// Calibrations in words and as JSON: of a fit without predictions the terms and the error of the
/// fitted rows.
#include "analysis/calibration/calibration.h"
#include "base/json.h"

#include <inttypes.h>
#include <math.h>

enum { DIGITS = 6 };

#define NORMAL_REACH 1.6449 // deviations to 95 %

static const char *const origins[] = {"not measured", "fitted"};

static double deviation_of(const ana_calibration *calibration, int coefficient)
{
    const size_t at = (size_t)coefficient;
    return sqrt(calibration->covariance[at * (size_t)calibration->coefficient_count + at]);
}

static void put_errors(json_writer *writer, const ana_calibration_score *score)
{
    json_put_rounded(writer, "mape", score->error.mean, DIGITS);
    json_put_rounded(writer, "median", score->error.median, DIGITS);
    json_put_rounded(writer, "p90", score->error.p90, DIGITS);
    json_put_rounded(writer, "max", score->error.max, DIGITS);
    json_put_rounded(writer, "bias", score->error.signed_mean, DIGITS);
    json_put_rounded(writer, "interval_level", score->level, DIGITS);
    json_put_rounded(writer, "interval_coverage", score->interval_coverage, DIGITS);
    json_put_rounded(writer, "interval_mean_width", score->interval_width_mean, DIGITS);
}

static void put_reach(json_writer *writer, const ana_calibration_score *score)
{
    json_put_int64(writer, "predicted_and_fitted", score->both_count);
    json_put_object(writer, "beyond_fitted");
    for (int field = 0; field < ANA_SHAPE_FIELDS; field++) {
        if (score->beyond_count[field] == 0) continue;
        json_put_int64(writer, ana_run_field_name(field), score->beyond_count[field]);
    }
    json_end_object(writer);
}

static void put_score(json_writer *writer, const ana_calibration_score *score)
{
    json_put_int64(writer, "fitted", score->fitted_count);
    json_put_int64(writer, "predicted", score->predicted_count);
    if (score->predicted_count > 0) put_errors(writer, score);
    json_put_rounded(writer, "fitted_mape", score->fitted_error_mean, DIGITS);
    if (score->predicted_count > 0) put_reach(writer, score);
}

static void put_terms(json_writer *writer, const ana_calibration *calibration)
{
    json_put_array(writer, "terms");
    for (int term = 0; term < ANA_TERM_COUNT; term++) {
        json_begin_object(writer);
        json_put_string(writer, "term", ana_terms[term].name);
        json_put_string(writer, "unit", ana_terms[term].unit);
        json_put_string(writer, "origin", origins[calibration->is_measured[term]]);
        json_put_rounded(writer, "coefficient", exp(calibration->logs[term]), DIGITS);
        json_put_rounded(writer, "deviation", deviation_of(calibration, term), 3);
        json_end_object(writer);
    }
    json_end_array(writer);
}

static void put_runs(json_writer *writer, const ana_calibration_score *score)
{
    json_put_array(writer, "runs");
    for (int run = 0; run < score->predicted_count; run++) {
        const ana_scored_run *each = &score->runs[run];
        json_begin_object(writer);
        json_put_int64(writer, "line", each->line);
        json_put_rounded(writer, "measured_ms", each->measured_ms, DIGITS);
        json_put_rounded(writer, "predicted_ms", each->predicted_ms, DIGITS);
        json_put_rounded(writer, "low_ms", each->low_ms, DIGITS);
        json_put_rounded(writer, "high_ms", each->high_ms, DIGITS);
        json_end_object(writer);
    }
    json_end_array(writer);
}

void ana_calibration_write_json(const ana_calibration *calibration,
                                const ana_calibration_score *score, bool with_runs,
                                text_buffer *out)
{
    json_writer writer = json_line_begin(out);
    put_score(&writer, score);
    put_terms(&writer, calibration);
    json_put_object(&writer, "deviation_between_shapes");
    for (int part = 0; part < ANA_PART_COUNT; part++) {
        json_put_rounded(&writer, ana_part_names[part], calibration->part_deviation[part], 3);
    }
    json_end_object(&writer);
    json_put_rounded(&writer, "residual", calibration->residual_ratio, 3);
    json_put_rounded(&writer, "degrees_of_freedom", calibration->degrees, DIGITS);
    json_put_optional(&writer, "assumed_vocabulary",
                      calibration->vocabulary_size > 0 ? calibration->vocabulary_size : -1);
    if (with_runs) put_runs(&writer, score);
    json_line_end(&writer);
}

static void write_terms(text_buffer *out, const ana_calibration *calibration)
{
    text_append(out, "terms of an iteration       value     within\n");
    for (int term = 0; term < ANA_TERM_COUNT; term++) {
        const double factor = exp(NORMAL_REACH * deviation_of(calibration, term));
        text_format(out, "  %-26s %7.3g x/ %-7.3g %-28s %s\n", ana_terms[term].name,
                    exp(calibration->logs[term]), factor, ana_terms[term].unit,
                    origins[calibration->is_measured[term]]);
    }
    text_append(out, "deviation between shapes  ");
    for (int part = 0; part < ANA_PART_COUNT; part++) {
        text_format(out, "%s %.1f %%%s", ana_part_names[part],
                    100 * calibration->part_deviation[part],
                    part + 1 < ANA_PART_COUNT ? ", " : "\n");
    }
    text_format(out, "residual of a run         %.2f %%, %.1f degrees of freedom\n\n",
                100 * calibration->residual_ratio, calibration->degrees);
}

/// In which columns the predicted rows leave what was fitted.
static void write_beyond(text_buffer *out, const ana_calibration_score *score)
{
    bool any = false;
    for (int field = 0; field < ANA_SHAPE_FIELDS; field++) {
        if (score->beyond_count[field] == 0) continue;
        text_format(out, "%s%s (%d rows)", any ? ", " : "beyond what was fitted    ",
                    ana_run_field_name(field), score->beyond_count[field]);
        any = true;
    }
    if (any) text_append(out, "\n");
}

static void write_runs(text_buffer *out, const ana_calibration_score *score)
{
    text_format(out, "\n%6s  %12s  %12s  %8s  %12s  %12s\n", "line", "measured", "predicted",
                "error", "low", "high");
    for (int run = 0; run < score->predicted_count; run++) {
        const ana_scored_run *each = &score->runs[run];
        text_format(out, "%6d  %9.3f ms  %9.3f ms  %+6.2f %%  %9.3f ms  %9.3f ms\n", each->line,
                    each->measured_ms, each->predicted_ms,
                    100 * (each->predicted_ms / each->measured_ms - 1), each->low_ms,
                    each->high_ms);
    }
}

static void write_head(text_buffer *out, const ana_calibration *calibration,
                       const ana_calibration_score *score)
{
    text_format(out, "%d rows fitted", score->fitted_count);
    if (score->predicted_count > 0) text_format(out, ", %d predicted", score->predicted_count);
    text_append(out, "\n");
    if (score->both_count > 0) {
        text_format(out, "%d of them were both: their errors say nothing about prediction\n",
                    score->both_count);
    }
    if (calibration->vocabulary_size > 0) {
        text_format(out, "no column vocabulary: %" PRId64 " assumed\n",
                    calibration->vocabulary_size);
    }
    text_append(out, "\n");
}

void ana_calibration_write_text(const ana_calibration *calibration,
                                const ana_calibration_score *score, bool with_runs,
                                text_buffer *out)
{
    const bool has_predictions = score->predicted_count > 0;
    write_head(out, calibration, score);
    write_terms(out, calibration);
    write_beyond(out, score);
    if (has_predictions) {
        text_format(out,
                    "error                     mean %.2f %%, median %.2f %%, 90th percentile "
                    "%.2f %%, worst %.2f %%, signed %+.2f %%\n",
                    100 * score->error.mean, 100 * score->error.median, 100 * score->error.p90,
                    100 * score->error.max, 100 * score->error.signed_mean);
    }
    text_format(out, "error of fitted rows      mean %.2f %%\n", 100 * score->fitted_error_mean);
    if (!has_predictions) return;
    text_format(out, "%.0f %% intervals            cover %.1f %%, mean width %.2f %% of the time\n",
                100 * score->level, 100 * score->interval_coverage,
                100 * score->interval_width_mean);
    if (with_runs) write_runs(out, score);
}
