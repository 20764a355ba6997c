/// Intervals, rows with what is published of them, and speed-ups with their bounds.
#include "analysis/paper/rows.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *ana_paper_text(json_value object, const char *key)
{
    const char *text = "";
    (void)json_string(json_member(object, key), &text, NULL);
    return text;
}

double ana_paper_number(json_value object, const char *key)
{
    double number = NAN;
    (void)json_double(json_member(object, key), -1e300, 1e300, &number, NULL);
    return number;
}

double ana_paper_element(json_value array, int index)
{
    double number = NAN;
    (void)json_double(json_element(array, index), -1e300, 1e300, &number, NULL);
    return number;
}

const char *ana_paper_element_text(json_value array, int index)
{
    const char *text = "";
    (void)json_string(json_element(array, index), &text, NULL);
    return text;
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

double ana_rows_published(const ana_rows *rows, const char *quantity)
{
    char name[128];
    snprintf(name, sizeof name, "%s", quantity);
    for (char *comma = name; comma != NULL; comma = strrchr(name, ',')) {
        json_value entry = json_element(json_member(rows->experiment, "published"), 0);
        if (comma != name) *comma = '\0';
        for (; entry.node != NULL; entry = json_next(entry)) {
            if (strcmp(ana_paper_element_text(entry, 0), name) != 0) continue;
            return ana_paper_element(entry, 1);
        }
    }
    return NAN;
}

ana_reproduced *ana_rows_add(ana_rows *rows, const char *quantity, const ana_interval *number,
                             const char *baseline, const char *note)
{
    assert(rows->count < ANA_ROWS_MAX);
    ana_reproduced *row = &rows->rows[rows->count++];
    *row = (ana_reproduced){.experiment = ana_paper_text(rows->experiment, "name"),
                            .quantity = quantity,
                            .published = ana_rows_published(rows, quantity),
                            .simulated = number->value,
                            .low = number->low,
                            .high = number->high,
                            .bound = NAN,
                            .agreement = ANA_AGREEMENT_PREDICTED,
                            .baseline = baseline,
                            .note = note};
    return row;
}

static status add_trial(const ana_trial *trial, const ana_speed_up_case *what, ana_speed_up *out,
                        error_message *err)
{
    const bool is_static = what->baseline == ANA_BASELINE_STATIC;
    const ana_trial_row *still = ana_trial_find(trial, is_static ? "static" : "even");
    const ana_trial_row *dynamic =
        what->repacks ? ana_trial_find(trial, "replicated") : ana_trial_best_dynamic(trial);
    if (still == NULL || dynamic == NULL || (!is_static && trial->still_even_ns == 0)) {
        return error_set(err, STATUS_INFEASIBLE,
                         "%s: needs 'even' and a dynamic row whose plans fit", what->study);
    }
    const double start_ns = (double)(is_static ? still->result.total_ns : trial->still_even_ns);
    const int64_t bound_ns =
        what->repacks ? trial->work_ns : trial->bound_ns + trial->reduction_bound_ns;
    if (out->total.count == 0) {
        memcpy(out->still, still->label, sizeof out->still);
        memcpy(out->dynamic, dynamic->label, sizeof out->dynamic);
    }
    ana_interval_add(&out->total, start_ns / (double)dynamic->result.total_ns);
    ana_interval_add(&out->bound, start_ns / (double)bound_ns);
    ana_interval_add(&out->before, still->result.bubble_ratio);
    ana_interval_add(&out->after, dynamic->result.bubble_ratio);
    ana_interval_add(&out->after_bound, 1 - (double)trial->work_ns / (double)trial->bound_ns);
    return STATUS_OK;
}

status ana_speed_up_play(const ana_speed_up_case *what, ana_speed_up *out, error_message *err)
{
    *out = (ana_speed_up){.still = ""};
    for (int range = 0; range < what->range_count; range++) {
        const char *const changes[] = {what->common, what->ranges[range]};
        ana_trial trial;
        TRY(ana_trial_play(what->study, changes, 2, &trial, err));
        TRY(add_trial(&trial, what, out, err));
    }
    return STATUS_OK;
}

void ana_rows_add_speed_up(ana_rows *rows, const char *quantity, ana_baseline baseline,
                           const ana_speed_up *result, const char *note)
{
    const char *against = baseline == ANA_BASELINE_STATIC
                              ? arena_format(rows->memory, "%s, the same model", result->still)
                              : "even, without the dynamism";
    ana_reproduced *row = ana_rows_add(rows, quantity, &result->total, against, note);
    row->bound = result->bound.high;
    if (row->bound < row->published) row->agreement = ANA_AGREEMENT_UNREACHABLE;
}
