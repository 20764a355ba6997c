#include "analysis/validate/validate.h"

#include "analysis/whatif/certainty.h"
#include "analysis/whatif/whatif.h"

#include <math.h>
#include <string.h>

/// What a worker keeps from row to row.
typedef struct row_worker {
    arena *memory;
    ana_point_worker *points;
} row_worker;

static void *begin_worker(arena *memory)
{
    row_worker *created = arena_array(memory, 1, sizeof *created);
    created->memory = arena_within(memory, 1 << 18);
    created->points = ana_point_worker_create(memory);
    return created;
}

/// The error bar of a point: as `dynmo study` draws it.
static status draw_bar(const ana_validation *validation, const ana_whatif *study, const char *text,
                       arena *memory, ana_validated_run *run, error_message *err)
{
    ana_spread alone = {.thread_count = 1};
    ana_uncertainty uncertainty;
    ana_certainty certainty;
    json_value root;
    TRY(json_read_text("row", text, memory, &root, err));
    TRY(ana_uncertainty_read(json_member(root, "uncertainty"), &uncertainty, err));
    uncertainty.draw_count = validation->settings.draw_count;
    uncertainty.draws_are_given = true;
    TRY(ana_certainty_find(&alone, study, &uncertainty, memory, &certainty, err));
    const ana_error_bar *bar = &certainty.points[0].bars[ANA_BAR_ITERATION_NS];
    run->has_bar = true;
    run->low_ns = bar->low;
    run->high_ns = bar->high;
    return STATUS_OK;
}

/// Plays a row's study again, and draws its bar.
static status play_with_bar(const ana_validation *validation, const char *text, row_worker *worker,
                            ana_validated_run *run, error_message *err)
{
    const ana_whatif_options options = {.objective = ANA_OBJECTIVE_TIME};
    ana_whatif study;
    text_buffer result = {0};
    TRY(ana_whatif_open("row", text, &options, worker->memory, &study, err));
    status played = ana_whatif_evaluate(&study, worker->points, 0, &result, err);
    if (played == STATUS_OK) played = ana_whatif_put(&study, 0, &result, err);
    text_free(&result);
    TRY(played);
    TRY(ana_whatif_finish(&study, err));
    return draw_bar(validation, &study, text, worker->memory, run, err);
}

static status play_row(const ana_validation *validation, int row, row_worker *worker,
                       ana_validated_run *run, ana_real_measured *measured, error_message *err)
{
    ana_played_run played;
    TRY(ana_real_play(validation->runs, row, worker->points, worker->memory, &played, err));
    *measured = played.measured;
    run->recompute = played.recompute;
    run->is_allocated = played.measured.is_allocated;
    run->is_ambiguous = played.measured.is_ambiguous;
    run->is_refused = played.refusal != NULL;
    run->message = played.refusal;
    if (run->is_refused) return STATUS_OK;
    run->parts = played.parts;
    run->predicted_ns = played.point.iteration_ns;
    run->peak_bytes = (double)played.point.peak_memory_bytes;
    if (run->is_allocated) run->peak_bytes -= (double)played.point.reserve_bytes;
    if (validation->settings.draw_count == 0) return STATUS_OK;
    return play_with_bar(validation, played.text, worker, run, err);
}

static status predict_row(void *context, void *worker, int64_t item, text_buffer *result,
                          error_message *err)
{
    row_worker *own = worker;
    ana_validated_run run = {0};
    ana_real_measured measured = {0};
    arena_reset(own->memory);
    TRY(play_row(context, (int)item, own, &run, &measured, err));
    run.measured_ns = measured.iteration_ns;
    run.measured_peak_bytes = measured.peak_bytes;
    run.tokens = measured.tokens / measured.gpu_count;
    text_append_bytes(result, (const char *)&run, sizeof run);
    if (run.is_refused) text_append(result, run.message);
    return STATUS_OK;
}

static status put_row(void *context, int64_t item, const text_buffer *result, error_message *err)
{
    ana_validation *validation = context;
    ana_validated_run *run = &validation->rows[item];
    if (result->length < sizeof *run) {
        return error_set(err, STATUS_FORMAT, "a result of %zu bytes is no row", result->length);
    }
    memcpy(run, result->bytes, sizeof *run);
    if (run->is_refused) {
        run->message = arena_string(validation->memory, result->bytes + sizeof *run);
    }
    return STATUS_OK;
}

/// Learns from the rows to fit.
static status learn(ana_validation *validation, ana_correction *correction, error_message *err)
{
    const ana_validation_settings *settings = &validation->settings;
    const size_t count = (size_t)settings->fit_count;
    ana_time_parts *parts = arena_array(validation->memory, count, sizeof *parts);
    double *log_ratios = arena_array(validation->memory, count, sizeof *log_ratios);
    int learned = 0;
    for (int index = 0; index < settings->fit_count; index++) {
        ana_validated_run *run = &validation->rows[settings->fit_rows[index]];
        if (run->is_refused) continue;
        TRY(ana_real_check_units(validation->runs, settings->fit_rows[index], run->measured_ns,
                                 run->predicted_ns, err));
        run->is_learned = true;
        parts[learned] = run->parts;
        log_ratios[learned++] = log(run->measured_ns / run->predicted_ns);
    }
    if (learned == 0) {
        return error_set(err, STATUS_INVALID, "%s: no row to fit can be modelled: %.200s",
                         validation->runs->source.path,
                         validation->rows[settings->fit_rows[0]].message);
    }
    return ana_correction_fit(parts, log_ratios, learned, validation->memory, correction, err);
}

/// Predicts the other rows anew with what was learned.
static void correct(ana_validation *validation, const ana_correction *correction)
{
    double *scratch =
        arena_array(validation->memory, 2 * (size_t)correction->run_count, sizeof *scratch);
    for (int row = 0; row < validation->runs->source.row_count; row++) {
        ana_validated_run *run = &validation->rows[row];
        if (run->is_refused || run->is_learned) continue;
        const double log_ratio = log(run->measured_ns / run->predicted_ns);
        run->is_learned = ana_correction_has(correction, &run->parts, log_ratio);
        if (run->is_learned) continue;
        const ana_corrected found = ana_correction_predict(correction, &run->parts, scratch);
        const double half = exp(ANA_CORRECTION_REACH * found.deviation);
        run->plain_ns = run->predicted_ns;
        run->predicted_ns *= exp(found.log_factor);
        run->low_ns = run->predicted_ns / half;
        run->high_ns = run->predicted_ns * half;
        run->has_bar = true;
    }
}

status ana_validate(ana_spread *spread, const ana_real_runs *runs,
                    const ana_validation_settings *settings, arena *memory,
                    ana_validation *validation, error_message *err)
{
    const int count = runs->source.row_count;
    ana_correction learned;
    *validation = (ana_validation){.runs = runs, .settings = *settings, .memory = memory};
    validation->names = ana_real_run_names(runs, memory);
    validation->rows = arena_array(memory, (size_t)count, sizeof *validation->rows);
    const ana_items items = {.count = count,
                             .context = validation,
                             .begin_worker = begin_worker,
                             .run = predict_row,
                             .put = put_row};
    TRY(ana_spread_run(spread, &items, err));
    if (settings->fit_count > 0) {
        TRY(learn(validation, &learned, err));
        correct(validation, &learned);
    }
    if (settings->calibration != NULL) correct(validation, settings->calibration);
    ana_validation_score(validation);
    return STATUS_OK;
}
