/// Intervals, speed-ups with their bounds, and calibrations: what rows are made of.
#include "analysis/paper/rows.h"

#include "analysis/paper/published.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *ana_rows_text(ana_rows *rows, const char *format, ...)
{
    char text[800];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return arena_string(rows->memory, text);
}

const char *ana_rows_join(ana_rows *rows, const char *first, const char *second)
{
    if (first == NULL || second == NULL) return first != NULL ? first : second;
    return ana_rows_text(rows, "%.*s,%s", (int)strlen(first) - 1, first, second + 1);
}

ana_interval ana_interval_of(double number)
{
    return (ana_interval){number, number, number, 1};
}

void ana_interval_add(ana_interval *interval, double number)
{
    if (interval->count == 0) *interval = (ana_interval){number, number, number, 0};
    interval->count++;
    interval->low = fmin(interval->low, number);
    interval->high = fmax(interval->high, number);
}

static const ana_trial_row *dynamic_row(const ana_trial *trial, const ana_speed_up_case *what)
{
    return what->repacks ? ana_trial_find(trial, "replicated") : ana_trial_best_dynamic(trial);
}

static status check_rows(const ana_speed_up_case *what, const ana_trial *trial, error_message *err)
{
    if (ana_trial_find(trial, "even") == NULL || ana_trial_find(trial, "tuned") == NULL ||
        dynamic_row(trial, what) == NULL) {
        return error_set(err, STATUS_INFEASIBLE,
                         "%s: needs rows 'even', 'tuned' and a dynamic one whose plans fit",
                         what->study);
    }
    if (what->baseline == ANA_BASELINE_STILL && trial->still_even_ns == 0) {
        return error_set(err, STATUS_INFEASIBLE,
                         "%s: without the dynamism the even split does not fit", what->study);
    }
    return STATUS_OK;
}

static double ratio_to(const ana_trial *trial, const char *label, const ana_trial_row *row)
{
    const ana_trial_row *other = ana_trial_find(trial, label);
    return other != NULL ? (double)other->total_ns / (double)row->total_ns : NAN;
}

static void describe_first(const ana_trial *trial, const ana_trial_row *still,
                           const ana_trial_row *dynamic, const ana_factor_times *times,
                           ana_speed_up *out)
{
    out->factors = ana_factors_of(times);
    out->over = (ana_over_statics){
        .even = ratio_to(trial, "even", dynamic),
        .parameters = ratio_to(trial, "parameters", dynamic),
        .parameters_legacy = ratio_to(trial, "parameters-legacy", dynamic),
        .tuned = ratio_to(trial, "tuned", dynamic),
    };
    snprintf(out->still, sizeof out->still, "%s", still->label);
    snprintf(out->dynamic, sizeof out->dynamic, "%s", dynamic->label);
}

static void add_trial(const ana_trial *trial, const ana_speed_up_case *what, ana_speed_up *out)
{
    const bool is_static = what->baseline == ANA_BASELINE_STATIC;
    const ana_trial_row *dynamic = dynamic_row(trial, what);
    const ana_trial_row *still =
        is_static ? ana_trial_best_static(trial) : ana_trial_find(trial, "even");
    const ana_factor_times times = {
        .still_even_ns = is_static ? 0 : trial->still_even_ns,
        .even_ns = still->total_ns,
        .tuned_ns = ana_trial_find(trial, "tuned")->total_ns,
        .unpacked_ns = dynamic->unpacked_ns,
        .row_ns = dynamic->total_ns,
    };
    const double start_ns = (double)(is_static ? still->total_ns : trial->still_even_ns);
    if (out->total.count == 0) describe_first(trial, still, dynamic, &times, out);
    ana_interval_add(&out->total, start_ns / (double)dynamic->total_ns);
    const int64_t bound_ns =
        what->repacks ? trial->work_ns : trial->bound_ns + trial->reduction_bound_ns;
    ana_interval_add(&out->bound, start_ns / (double)bound_ns);
    ana_interval_add(&out->before, still->bubble_ratio);
    ana_interval_add(&out->after, dynamic->bubble_ratio);
    ana_interval_add(&out->after_bound, 1 - (double)trial->work_ns / (double)trial->bound_ns);
}

status ana_speed_up_play(const ana_speed_up_case *what, ana_speed_up *out, error_message *err)
{
    *out = (ana_speed_up){.still = ""};
    for (int range = 0; range < what->range_count; range++) {
        const char *const changes[] = {what->common, what->ranges[range]};
        ana_trial trial;
        TRY(ana_trial_play(what->study, changes, 2, &trial, err));
        TRY(check_rows(what, &trial, err));
        add_trial(&trial, what, out);
    }
    return STATUS_OK;
}

double ana_measure_static_bubble(const ana_trial *trial)
{
    const ana_trial_row *row = ana_trial_best_static(trial);
    return row != NULL ? row->bubble_ratio : NAN;
}

/// reached is NAN where no plan fits.
static status measure_at(const ana_calibration *calibration, double value,
                         ana_calibrated *calibrated, error_message *err)
{
    calibrated->value = value;
    calibrated->reached = NAN;
    snprintf(calibrated->change, sizeof calibrated->change, "{\"%s\":%.6g}", calibration->path,
             value);
    const char *const changes[] = {calibration->common, calibrated->change, calibration->rows};
    ana_trial trial;
    error_message infeasible = {0};
    const status played = ana_trial_play(calibration->study, changes, 3, &trial, &infeasible);
    if (played == STATUS_OK) calibrated->reached = calibration->measure(&trial);
    if (played == STATUS_OK || played == STATUS_INFEASIBLE) return STATUS_OK;
    return error_set(err, played, "%s", infeasible.message);
}

/// The ends of the range, the high one drawn in until a plan fits.
static status measure_ends(const ana_calibration *calibration, ana_calibrated *low,
                           ana_calibrated *high, error_message *err)
{
    enum { STEPS = 8 };
    TRY(measure_at(calibration, calibration->low, low, err));
    TRY(measure_at(calibration, calibration->high, high, err));
    for (int step = 0; step < STEPS && isnan(high->reached); step++) {
        TRY(measure_at(calibration, (low->value + high->value) / 2, high, err));
    }
    if (!isnan(low->reached) && !isnan(high->reached)) return STATUS_OK;
    return error_set(err, STATUS_INFEASIBLE, "%s: no plan fits with %s from %g to %g",
                     calibration->study, calibration->path, low->value, calibration->high);
}

status ana_calibrate(const ana_calibration *calibration, ana_calibrated *calibrated,
                     error_message *err)
{
    enum { STEPS = 10 };
    ana_calibrated low;
    ana_calibrated high;
    TRY(measure_ends(calibration, &low, &high, err));
    const bool rises = low.reached <= high.reached;
    const double wanted = calibration->wanted;
    *calibrated = fabs(low.reached - wanted) < fabs(high.reached - wanted) ? low : high;
    if (wanted < fmin(low.reached, high.reached) || wanted > fmax(low.reached, high.reached)) {
        return STATUS_OK;
    }
    for (int step = 0; step < STEPS; step++) {
        TRY(measure_at(calibration, (low.value + high.value) / 2, calibrated, err));
        if ((calibrated->reached < wanted) == rises) {
            low = *calibrated;
        } else {
            high = *calibrated;
        }
    }
    return STATUS_OK;
}

/// What the paper publishes of a quantity, or of the quantity that this is a variant of: what
/// follows its last comma is left away until something is found. NAN: nothing.
static double published_value(const char *experiment, const char *quantity)
{
    char name[128];
    snprintf(name, sizeof name, "%s", quantity);
    for (;;) {
        const ana_published *published = ana_published_find(experiment, name);
        if (published != NULL) return published->value;
        char *comma = strrchr(name, ',');
        if (comma == NULL) return NAN;
        *comma = '\0';
    }
}

static void add_row(ana_rows *rows, ana_reproduced row)
{
    assert(rows->count < ANA_ROWS_MAX);
    row.experiment = rows->experiment;
    row.published = published_value(rows->experiment, row.quantity);
    rows->rows[rows->count++] = row;
}

void ana_rows_add_number(ana_rows *rows, const char *quantity, const ana_interval *number,
                         double bound, ana_agreement agreement, const char *baseline,
                         const char *note)
{
    add_row(rows, (ana_reproduced){.quantity = quantity,
                                   .simulated = number->value,
                                   .low = number->low,
                                   .high = number->high,
                                   .bound = bound,
                                   .agreement = agreement,
                                   .baseline = baseline,
                                   .note = note});
}

void ana_rows_add_speed_up(ana_rows *rows, const char *quantity, ana_baseline baseline,
                           const ana_speed_up *result, const char *note)
{
    const char *against = baseline == ANA_BASELINE_STATIC
                              ? ana_rows_text(rows, "%s, the same model", result->still)
                              : "even, without the dynamism";
    ana_rows_add_number(rows, quantity, &result->total, result->bound.high, ANA_AGREEMENT_PREDICTED,
                        against, note);
    ana_reproduced *row = &rows->rows[rows->count - 1];
    row->factors = result->factors;
    row->over = result->over;
    if (result->bound.high < row->published) row->agreement = ANA_AGREEMENT_UNREACHABLE;
}

void ana_rows_publish(ana_rows *rows, double published)
{
    assert(rows->count > 0);
    rows->rows[rows->count - 1].published = published;
}
