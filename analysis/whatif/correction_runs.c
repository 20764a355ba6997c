/// Measured runs as the cost model plays them.
#include "analysis/calibration/measured_runs.h"
#include "analysis/whatif/correction.h"

#include "base/file.h"
#include "base/text.h"

#include <math.h>

/// A row that cannot be modelled, be it for a file that it names, is a result.
static bool is_refusal(status code)
{
    return code == STATUS_INVALID || code == STATUS_INFEASIBLE || code == STATUS_FORMAT ||
           code == STATUS_UNSUPPORTED || code == STATUS_IO;
}

static status evaluate(ana_point_worker *worker, const char *text, ana_point *point,
                       error_message *err)
{
    TRY(ana_point_evaluate(worker, "row", text, "{}", point, err));
    if (point->refusal == ANA_REFUSAL_NONE) return STATUS_OK;
    return error_set(err, STATUS_INFEASIBLE, "%s: %.200s", ana_refusal_names[point->refusal],
                     point->message != NULL ? point->message : "");
}

/// Plays a row with one choice of what is computed again.
static status attempt(const ana_real_runs *runs, int row, ana_point_worker *worker, arena *memory,
                      ana_played_run *played, error_message *err)
{
    error_message inner = {0};
    text_buffer text = {.memory = memory};
    TRY(ana_real_study_write(runs, row, played->recompute, memory, &text, &played->measured, err));
    played->text = text.bytes;
    const status result = evaluate(worker, played->text, &played->point, &inner);
    if (is_refusal(result)) {
        played->refusal = arena_string(memory, inner.message);
        return STATUS_OK;
    }
    if (result != STATUS_OK) return error_set(err, result, "%s", inner.message);
    const ana_setup *setup = ana_point_worker_setup(worker);
    played->fits = played->point.peak_memory_bytes <= setup->hardware.memory_bytes;
    ana_time_parts_of(setup, &played->point, &played->parts);
    return STATUS_OK;
}

status ana_real_play(const ana_real_runs *runs, int row, ana_point_worker *worker, arena *memory,
                     ana_played_run *played, error_message *err)
{
    *played = (ana_played_run){0};
    for (int number = 0; !played->fits && played->refusal == NULL; number++) {
        played->recompute = ana_real_recompute(runs, row, number, memory);
        if (played->recompute == NULL) break;
        TRY(attempt(runs, row, worker, memory, played, err));
    }
    if (played->recompute != NULL) return STATUS_OK;
    played->recompute = ana_real_recompute(runs, row, 0, memory);
    return attempt(runs, row, worker, memory, played, err);
}

status ana_real_check_units(const ana_real_runs *runs, int row, double measured_ns,
                            double predicted_ns, error_message *err)
{
    const double ratio = measured_ns / predicted_ns;
    if (ratio >= 0.1 && ratio <= 100) return STATUS_OK;
    return error_set(err, STATUS_FORMAT,
                     "%s:%d: measured %.4g ms, where %.4g ms are predicted: not in the unit that "
                     "its column says?",
                     runs->source.path, runs->source.lines[row], measured_ns / 1e6,
                     predicted_ns / 1e6);
}

status ana_correction_learn(const ana_real_runs *runs, const int *rows, int count, arena *memory,
                            ana_correction *out, error_message *err)
{
    ana_time_parts *parts = arena_array(memory, (size_t)count, sizeof *parts);
    double *log_ratios = arena_array(memory, (size_t)count, sizeof *log_ratios);
    ana_point_worker *worker = ana_point_worker_create(memory);
    const char *refusal = NULL;
    uint64_t hash = FILE_HASH_START;
    int learned = 0;
    for (int row = 0; row < count; row++) {
        ana_played_run played;
        TRY(ana_real_play(runs, rows[row], worker, memory, &played, err));
        if (played.refusal != NULL) {
            if (refusal == NULL) refusal = played.refusal;
            continue;
        }
        TRY(ana_real_check_units(runs, rows[row], played.measured.iteration_ns,
                                 played.point.iteration_ns, err));
        const double times[] = {played.measured.iteration_ns, played.point.iteration_ns};
        hash = file_hash(hash, times, sizeof times);
        hash = file_hash(hash, played.parts.machine, sizeof played.parts.machine);
        parts[learned] = played.parts;
        log_ratios[learned++] = log(played.measured.iteration_ns / played.point.iteration_ns);
    }
    if (learned == 0) {
        return error_set(err, STATUS_INVALID, "%s: no run can be modelled: %.200s",
                         runs->source.path, refusal);
    }
    TRY(ana_correction_fit(parts, log_ratios, learned, memory, out, err));
    out->hash = hash;
    out->refused_count = count - learned;
    out->refusal = refusal;
    return STATUS_OK;
}

status ana_correction_open(const char *path, const char *renamed, const char *constants,
                           arena *memory, ana_correction *out, error_message *err)
{
    table from;
    ana_real_runs runs;
    TRY(ana_measured_table_open(path, memory, &from, err));
    TRY(ana_real_runs_read(&from, renamed, constants, memory, &runs, err));
    if (!ana_real_says(&runs, ANA_REAL_HARDWARE)) {
        return error_set(err, STATUS_INVALID, "%s: no column says the hardware", path);
    }
    if (from.row_count > ANA_CORRECTION_RUNS_MAX) {
        return error_set(err, STATUS_INVALID, "%s: %d runs to learn from: it takes 1 to %d", path,
                         from.row_count, ANA_CORRECTION_RUNS_MAX);
    }
    int *rows = arena_array(memory, (size_t)from.row_count, sizeof *rows);
    for (int row = 0; row < from.row_count; row++) {
        rows[row] = row;
    }
    TRY(ana_correction_learn(&runs, rows, from.row_count, memory, out, err));
    out->ignored = runs.ignored;
    return STATUS_OK;
}
