/// How the forecast of a run is told: what the simulator said from the first warm iterations.
#include "cli/run/run.h"

#include "balance/schedule/schedule.h"

#include <math.h>

/// What the times are compared by: their names in JSON and for people.
enum { PART_COUNT = 5 };
static const char *const part_keys[PART_COUNT] = {"ops", "messages", "gaps", "reduction", "step"};
static const char *const part_names[PART_COUNT] = {"ops", "messages", "gaps of the host",
                                                   "reduction", "optimizer step"};

bool cli_run_has_forecast(const cli_run_request *request)
{
    return request->learns && request->clock != EXEC_CLOCK_NOMINAL;
}

/// What each part adds to the error: they sum up to it.
static void list_parts(const ana_forecast *forecast, double *part)
{
    const ana_time_parts *told = &forecast->forecast, *came = &forecast->measured;
    const int64_t more_ns[PART_COUNT] = {
        came->op_ns - told->op_ns, came->message_ns - told->message_ns, came->gap_ns - told->gap_ns,
        came->reduction_ns - told->reduction_ns, came->step_ns - told->step_ns};
    const int64_t whole_ns = ana_time_parts_ns(told);
    for (int index = 0; index < PART_COUNT; index++) {
        part[index] = whole_ns > 0 ? (double)more_ns[index] / (double)whole_ns : 0;
    }
}

/// measured / forecast - 1 of all ops of a kind. @return false if there are none
static bool find_kind(const ana_forecast *forecast, int kind, double *error)
{
    const int64_t told_ns = forecast->forecast.kind_ns[kind];
    if (told_ns <= 0) return false;
    *error = (double)forecast->measured.kind_ns[kind] / (double)told_ns - 1;
    return true;
}

void cli_run_forecast_write(const cli_run_outcome *outcome, json_writer *writer)
{
    const ana_forecast *forecast = &outcome->forecast;
    double part[PART_COUNT], error = 0;
    list_parts(forecast, part);
    json_put_object(writer, "forecast");
    json_put_int64(writer, "warmup_iterations", forecast->warmup_count);
    json_put_int64(writer, "profile_iterations", ANA_FORECAST_PROFILE);
    json_put_int64(writer, "profiles_given_up", forecast->change_count);
    json_put_int64(writer, "iterations", forecast->iteration_count);
    json_put_int64(writer, "forecast_ns", ana_time_parts_ns(&forecast->forecast));
    json_put_int64(writer, "measured_ns", ana_time_parts_ns(&forecast->measured));
    json_put_double(writer, "error_ratio", ana_forecast_error_ratio(forecast));
    json_put_double(writer, "tolerance", outcome->request->tolerance);
    json_put_object(writer, "error_of_kind");
    for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
        if (find_kind(forecast, kind, &error))
            json_put_double(writer, bal_op_kind_names[kind], error);
    }
    json_end_object(writer);
    json_put_object(writer, "error_from");
    for (int index = 0; index < PART_COUNT; index++) {
        json_put_double(writer, part_keys[index], part[index]);
    }
    json_end_object(writer);
    json_end_object(writer);
}

void cli_run_forecast_print(const cli_run_outcome *outcome, text_buffer *out)
{
    const ana_forecast *forecast = &outcome->forecast;
    double part[PART_COUNT], error = 0;
    if (forecast->iteration_count == 0) {
        text_format(out, "no iteration after warm-up (%d) and profile (%d), so no forecast\n",
                    forecast->warmup_count, ANA_FORECAST_PROFILE);
        return;
    }
    text_format(out, "forecast from %d iterations after a warm-up of %d", ANA_FORECAST_PROFILE,
                forecast->warmup_count);
    if (forecast->change_count > 0) {
        text_format(out, ", anew after %d changes of the model", forecast->change_count);
    }
    text_format(out, ": %s for %d iterations, measured %s: %+.2f %%\n  all ops:",
                text_duration(ana_time_parts_ns(&forecast->forecast)).text,
                forecast->iteration_count,
                text_duration(ana_time_parts_ns(&forecast->measured)).text,
                ana_forecast_error_ratio(forecast) * 100);
    for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
        if (!find_kind(forecast, kind, &error)) continue;
        text_format(out, " %s %+.2f %%", bal_op_kind_names[kind], error * 100);
    }
    text_append(out, "\n  the error comes from");
    list_parts(forecast, part);
    for (int index = 0; index < PART_COUNT; index++) {
        text_format(out, "%s %s %+.2f %%", index > 0 ? "," : "", part_names[index],
                    part[index] * 100);
    }
    text_append(out, "\n");
}

status cli_run_forecast_check(const cli_run_outcome *outcome, error_message *err)
{
    const cli_run_request *request = outcome->request;
    const double error = ana_forecast_error_ratio(&outcome->forecast);
    if (!cli_run_has_forecast(request) || request->tolerance <= 0) return STATUS_OK;
    if (outcome->forecast.iteration_count == 0) {
        if (!request->needs_forecast) return STATUS_OK;
        return error_set(err, STATUS_UNDECIDED,
                         "--tolerance: no iteration follows a warm-up of %d and %d of a profile",
                         request->warmup_count, ANA_FORECAST_PROFILE);
    }
    if (fabs(error) <= request->tolerance) return STATUS_OK;
    return error_set(err, STATUS_EXCEEDED,
                     "measured %+.2f %% from the forecast, more than the tolerance of %g %%",
                     error * 100, request->tolerance * 100);
}
