#include "analysis/validate/validate.h"

#include "analysis/validate/real_runs.h"
#include "analysis/whatif/certainty.h"
#include "analysis/whatif/whatif.h"

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

/// A row that cannot be modelled is a result; a broken file or machine is not.
static bool is_refusal(status code)
{
    return code == STATUS_INVALID || code == STATUS_INFEASIBLE || code == STATUS_FORMAT ||
           code == STATUS_UNSUPPORTED || code == STATUS_IO;
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
    uncertainty.calibration = validation->settings.calibration;
    TRY(ana_certainty_find(&alone, study, &uncertainty, memory, &certainty, err));
    const ana_error_bar *bar = &certainty.points[0].bars[ANA_BAR_ITERATION_NS];
    run->has_bar = true;
    run->low_ns = bar->low;
    run->high_ns = bar->high;
    return STATUS_OK;
}

static status play_point(const ana_validation *validation, const char *text, row_worker *worker,
                         ana_validated_run *run, ana_whatif *study, error_message *err)
{
    const ana_whatif_options options = {.objective = ANA_OBJECTIVE_TIME,
                                        .calibration = validation->settings.calibration};
    text_buffer result = {0};
    TRY(ana_whatif_open("row", text, &options, worker->memory, study, err));
    status played = ana_whatif_evaluate(study, worker->points, 0, &result, err);
    if (played == STATUS_OK) played = ana_whatif_put(study, 0, &result, err);
    text_free(&result);
    TRY(played);
    const ana_point *point = &study->points[0];
    if (point->refusal != ANA_REFUSAL_NONE) {
        return error_set(err, STATUS_INFEASIBLE, "%s: %.200s", ana_refusal_names[point->refusal],
                         point->message != NULL ? point->message : "");
    }
    TRY(ana_whatif_finish(study, err));
    run->predicted_ns = point->iteration_ns;
    run->peak_bytes = (double)point->peak_memory_bytes;
    run->fits =
        point->peak_memory_bytes <= ana_point_worker_setup(worker->points)->hardware.memory_bytes;
    if (run->is_allocated) run->peak_bytes -= (double)point->reserve_bytes;
    return STATUS_OK;
}

/// Plays a row as far as memory allows: with the first recomputation that fits, or as it is written
/// if none does.
static status play_row(const ana_validation *validation, int row, row_worker *worker,
                       ana_validated_run *run, ana_real_measured *measured, error_message *err)
{
    const ana_real_runs *runs = validation->runs;
    error_message inner = {0};
    for (int attempt = 0; !run->fits; attempt++) {
        const char *recompute = ana_real_recompute(runs, row, attempt, worker->memory);
        const bool is_last = recompute == NULL;
        ana_whatif study;
        text_buffer text = {0};
        run->recompute = is_last ? ana_real_recompute(runs, row, 0, worker->memory) : recompute;
        status played =
            ana_real_study_write(runs, row, run->recompute, worker->memory, &text, measured, err);
        if (played == STATUS_OK) {
            run->is_allocated = measured->is_allocated;
            run->is_ambiguous = measured->is_ambiguous;
            played = play_point(validation, text.bytes, worker, run, &study, &inner);
            run->fits = run->fits || is_last || played != STATUS_OK;
            if (played == STATUS_OK && run->fits && validation->settings.draw_count > 0) {
                played = draw_bar(validation, &study, text.bytes, worker->memory, run, &inner);
            }
            run->is_refused = is_refusal(played);
            if (run->is_refused) run->message = arena_string(worker->memory, inner.message);
            if (run->is_refused) played = STATUS_OK;
            if (played != STATUS_OK) error_set(err, played, "%s", inner.message);
        }
        text_free(&text);
        TRY(played);
    }
    return STATUS_OK;
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
    if (!run.is_refused) {
        run.tokens_per_s_per_gpu = measured.tokens / measured.gpu_count / run.predicted_ns * 1e9;
    }
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

status ana_validate(ana_spread *spread, const ana_real_runs *runs,
                    const ana_validation_settings *settings, arena *memory,
                    ana_validation *validation, error_message *err)
{
    const int count = runs->source.row_count;
    *validation = (ana_validation){.runs = runs, .settings = *settings, .memory = memory};
    validation->rows = arena_array(memory, (size_t)count, sizeof *validation->rows);
    const ana_items items = {.count = count,
                             .context = validation,
                             .begin_worker = begin_worker,
                             .run = predict_row,
                             .put = put_row};
    TRY(ana_spread_run(spread, &items, err));
    ana_validation_score(validation);
    return STATUS_OK;
}
