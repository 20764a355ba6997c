/// training.step: how an iteration ends, and what validating behind the step costs.
#include "analysis/study/study_reading.h"

#include <stdio.h>

static const int64_t longest_ns = INT64_C(1000000000000);

/// Iterations whose norm is above the limit.
static status read_failures(const ana_reading *reading, json_value step)
{
    ana_study *study = reading->study;
    const json_value failures = json_member(step, "failures");
    const int count = json_count(failures);
    char list[64];
    int64_t iterations[ANA_FAILURES_MAX];
    if (json_is_missing(failures)) return STATUS_OK;
    if (!json_is_array(failures) || count > ANA_FAILURES_MAX) {
        return json_error(failures, STATUS_FORMAT, reading->err, "needs an array of at most %d",
                          ANA_FAILURES_MAX);
    }
    TRY(json_int64_array(failures, count, 0, ANA_ITERATIONS_MAX, iterations, reading->err));
    for (int failure = 0; failure < count; failure++) {
        study->failures[failure] = (int)iterations[failure];
    }
    study->validation.failures = study->failures;
    study->validation.failure_count = count;
    snprintf(list, sizeof list, "%d iterations", count);
    return ana_list_given(reading, "training.step", "failures", list);
}

/// {"kind":"post-validation", ...}: what validating behind the step costs, and how often it fails.
static status read_validation(const ana_reading *reading, json_value step)
{
    static const char *const keys[] = {
        "kind", "norm_ns", "rollback_ns", "unclipped", "failure_probability", "failures", "seed"};
    static const char *const of_validation[] = {"rollback_ns", "unclipped", "failure_probability",
                                                "failures", "seed"};
    static const char *const kinds[] = {"barrier", "post-validation"};
    static const char *const section = "training.step";
    bal_validation *validation = &reading->study->validation;
    int kind = 0;
    TRY(json_check_keys(step, keys, ANA_COUNT_OF(keys), reading->err));
    if (json_is_missing(json_member(step, "kind"))) {
        return json_error(step, STATUS_FORMAT, reading->err, "'kind' is missing");
    }
    TRY(ana_read_choice(reading, step, section, "kind", kinds, ANA_COUNT_OF(kinds), &kind));
    reading->study->post_validation = kind == 1;
    TRY(ana_read_int64(reading, step, section, "norm_ns", "ns", 0, longest_ns,
                       &validation->norm_ns));
    for (int key = 0; key < ANA_COUNT_OF(of_validation) && kind == 0; key++) {
        const json_value member = json_member(step, of_validation[key]);
        if (json_is_missing(member)) continue;
        return json_error(
            member, STATUS_FORMAT, reading->err,
            "is of post-validation; with a barrier the norm is known before the step");
    }
    TRY(ana_read_int64(reading, step, section, "rollback_ns", "ns", 0, longest_ns,
                       &validation->rollback_ns));
    TRY(ana_read_int(reading, step, section, "unclipped", "iterations", 0, ANA_ITERATIONS_MAX,
                     &validation->unclipped_count));
    TRY(ana_read_double(reading, step, section, "failure_probability", 0, 1,
                        &validation->failure_probability));
    TRY(ana_read_seed(reading, step, section, &validation->seed));
    return read_failures(reading, step);
}

status ana_read_step(const ana_reading *reading, json_value training)
{
    static const char *const steps[] = {"barrier", "post-validation"};
    const json_value step = json_member(training, "step");
    int kind = 0;
    if (json_is_object(step)) return read_validation(reading, step);
    TRY(ana_read_choice(reading, training, "training", "step", steps, ANA_COUNT_OF(steps), &kind));
    reading->study->post_validation = kind == 1;
    return STATUS_OK;
}
