#include "analysis/whatif/whatif.h"

#include "analysis/whatif/certainty.h"
#include "analysis/whatif/result.h"

#include "base/file.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/// Opens the study with these values, to see its form.
static status check_values(const ana_whatif *study, const int *value, ana_point_worker *worker,
                           error_message *err)
{
    text_buffer changes = {0};
    ana_matrix_changes(&study->matrix, value, &changes);
    const status result =
        ana_point_check(worker, study->path, study->matrix.base, changes.bytes, err);
    text_free(&changes);
    return result;
}

static bool is_priced(const ana_point_worker *worker)
{
    const ana_study *opened = ana_point_worker_study(worker);
    return opened != NULL && opened->price_per_gpu_hour >= 0;
}

/// What stands under an axis and is none of its values could be a value of it.
static status check_replaced(const ana_whatif *study, int axis, ana_point_worker *worker,
                             error_message *err)
{
    int value[ANA_AXES_MAX] = {0};
    if (!study->matrix.axes[axis].replaces) return STATUS_OK;
    value[axis] = -1;
    const status checked = check_values(study, value, worker, err);
    if (checked == STATUS_OK) return STATUS_OK;
    return error_prefix(err, checked, "%s: what the axis '%.60s' replaces", study->path,
                        study->matrix.axes[axis].name);
}

/// Checks every value of every axis, the other axes being at their first values.
///
/// @param written why the study as written cannot be opened: no axis is to blame for the same
static status check_axes(const ana_whatif *study, const error_message *written,
                         ana_point_worker *worker, bool *has_price, error_message *err)
{
    int value[ANA_AXES_MAX] = {0};
    const ana_matrix *matrix = &study->matrix;
    for (int axis = 0; axis < matrix->axis_count; axis++) {
        for (int index = 0; index < matrix->axes[axis].value_count; index++) {
            value[axis] = index;
            const status checked = check_values(study, value, worker, err);
            *has_price = *has_price || is_priced(worker);
            if (checked == STATUS_OK) continue;
            if (strcmp(written->message, err->message) == 0) return checked;
            return error_prefix(err, checked, "%s: axis '%.60s' at '%.60s'", study->path,
                                matrix->axes[axis].name, matrix->axes[axis].values[index].label);
        }
        value[axis] = 0;
        TRY(check_replaced(study, axis, worker, err));
    }
    return STATUS_OK;
}

/// The study as written becomes the reference, if it can be opened; else the first point.
static void choose_reference(ana_whatif *study)
{
    study->item_count = study->matrix.point_count;
    study->reference = study->is_written ? ana_matrix_base_point(&study->matrix) : 0;
    if (study->reference < 0) study->reference = study->item_count++;
}

/// Runs that others measured and the cost model was held to (tests/VALIDATION.md) had such sizes.
enum { HIDDEN_MIN = 2048, HIDDEN_MAX = 25600, GPUS_MAX = 16384 };

/// Values of 16 bits that tensor cores take together: runs with other heads, whose attention is not
/// fused (bloom-2022), took 1.5 times as long as predicted.
enum { HEAD_MULTIPLE = 8 };

/// In what a study leaves them. Costs of a trace are no estimate, and a calibration has its own
/// range.
static const char *beyond_validated(const ana_setup *setup, arena *memory)
{
    text_buffer text = {0};
    if (setup == NULL || setup->study->trace_path != NULL) return "";
    const model_parallel *parallel = &setup->study->parallel;
    const int hidden = setup->model_costs.config.hidden_size;
    const int head = setup->model_costs.config.query_key_dim;
    const int64_t gpus =
        (int64_t)parallel->tensor * parallel->data * parallel->context * setup->study->stage_count;
    if (hidden < HIDDEN_MIN || hidden > HIDDEN_MAX) {
        text_format(&text, "hidden size %d, not %d to %d", hidden, HIDDEN_MIN, HIDDEN_MAX);
    }
    if (gpus > GPUS_MAX) {
        text_format(&text, "%s%" PRId64 " GPUs, more than %d", text.length > 0 ? "; " : "", gpus,
                    GPUS_MAX);
    }
    const bool is_unfused = setup->model_costs.shape.attention == MODEL_ATTENTION_UNFUSED;
    if (is_unfused && head % HEAD_MULTIPLE != 0) {
        text_format(&text, "%sheads of %d, no multiple of %d: such runs took 1.5 times as long",
                    text.length > 0 ? "; " : "", head, HEAD_MULTIPLE);
    }
    return text_keep(&text, memory);
}

/// What the study says of itself, from the setup of the reference.
static status read_reference(ana_whatif *study, ana_point_worker *worker, error_message *err)
{
    int value[ANA_AXES_MAX] = {0};
    TRY(check_values(study, study->is_written ? NULL : value, worker, err));
    const ana_study *opened = ana_point_worker_study(worker);
    study->title = arena_string(study->memory, opened != NULL ? opened->name : study->path);
    study->currency = arena_string(study->memory, opened != NULL ? opened->price_currency : "");
    const ana_setup *setup = ana_point_worker_setup(worker);
    study->token_count = opened != NULL ? opened->token_count : 0;
    study->iteration_count = setup != NULL ? setup->iteration_count : 1;
    study->beyond = beyond_validated(setup, study->memory);
    study->is_modelled = opened != NULL && opened->trace_path == NULL;
    study->has_experts =
        setup != NULL && study->is_modelled && setup->model_costs.config.expert_count > 0;
    return STATUS_OK;
}

static status check_objective(const ana_whatif *study, bool has_price, error_message *err)
{
    const bool needs_price = study->objective == ANA_OBJECTIVE_COST || study->budget > 0;
    if (!needs_price || has_price) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "%s: %s needs cluster.price_per_gpu_hour, which is missing", study->path,
                     study->budget > 0 ? "a budget" : "an order by cost");
}

/// Checks the study as written, which may be no study without the values of its axes, and these.
static status check_study(ana_whatif *study, ana_point_worker *worker, error_message *err)
{
    error_message written = {0};
    const status checked = check_values(study, NULL, worker, &written);
    bool has_price = is_priced(worker);
    if (study->matrix.axis_count == 0 && checked != STATUS_OK) {
        return error_set(err, checked, "%s", written.message);
    }
    study->is_written = checked == STATUS_OK;
    TRY(check_axes(study, &written, worker, &has_price, err));
    return check_objective(study, has_price, err);
}

/// The runs of a table that says no hardware ran on that of the study.
static status open_calibration(ana_whatif *study, const char *path, const ana_setup *setup,
                               error_message *err)
{
    ana_correction *opened = arena_array(study->memory, 1, sizeof *opened);
    const ana_study *read = setup != NULL ? setup->study : NULL;
    const char *constants = "";
    if (read != NULL && read->trace_path != NULL) {
        return error_set(err, STATUS_INVALID,
                         "%s: uncertainty.calibration: it is of a cost model, and the costs here "
                         "are those of a trace",
                         study->path);
    }
    if (read != NULL && read->hardware != NULL && read->hardware_changes == NULL &&
        strchr(read->hardware, ',') == NULL) {
        constants = arena_format(study->memory, "hardware=%s", read->hardware);
    }
    const status result = ana_correction_open(file_path_beside(study->path, path, study->memory),
                                              "", constants, study->memory, opened, err);
    if (result == STATUS_IO) {
        return error_prefix(err, result, "%s: uncertainty.calibration", study->path);
    }
    TRY(result);
    study->calibration = opened;
    if (setup != NULL) {
        char machine[ANA_MACHINE_BYTES];
        ana_machine_name(setup, machine);
        study->is_beyond_calibration = !ana_correction_knows(opened, machine);
    }
    return STATUS_OK;
}

static status open_checked(ana_whatif *study, const char *calibration, error_message *err)
{
    arena *scratch = arena_within(study->memory, 1 << 16);
    ana_point_worker *worker = ana_point_worker_create(scratch);
    TRY(check_study(study, worker, err));
    choose_reference(study);
    TRY(read_reference(study, worker, err));
    if (calibration != NULL) {
        TRY(open_calibration(study, calibration, ana_point_worker_setup(worker), err));
    }
    arena_reset(scratch);
    study->points = arena_array(study->memory, (size_t)study->item_count, sizeof *study->points);
    return STATUS_OK;
}

status ana_whatif_open(const char *path, const char *text, const ana_whatif_options *options,
                       arena *memory, ana_whatif *study, error_message *err)
{
    *study = (ana_whatif){
        .path = arena_string(memory, path),
        .text = arena_string(memory, text),
        .objective = options->objective,
        .deadline_ns = options->deadline_ns,
        .budget = options->budget,
        .framework = options->framework,
        .memory = memory,
    };
    TRY(ana_matrix_open(path, text, memory, &study->matrix, err));
    return open_checked(study, options->calibration, err);
}

int64_t ana_whatif_number(const ana_whatif *study, int64_t item)
{
    return item < study->matrix.point_count ? item : -1;
}

double ana_whatif_fits(const ana_whatif *study, int64_t item)
{
    return study->is_modelled ? ana_point_fits(&study->points[item]) : 1;
}

void ana_whatif_values(const ana_whatif *study, int64_t item, int *value)
{
    if (item < study->matrix.point_count) {
        ana_matrix_values(&study->matrix, item, value);
    } else {
        for (int axis = 0; axis < study->matrix.axis_count; axis++) {
            value[axis] = study->matrix.axes[axis].base_value;
        }
    }
}

void ana_whatif_changes(const ana_whatif *study, int64_t item, text_buffer *out)
{
    int value[ANA_AXES_MAX];
    const bool is_point = item < study->matrix.point_count;
    if (is_point) ana_matrix_values(&study->matrix, item, value);
    ana_matrix_changes(&study->matrix, is_point ? value : NULL, out);
}

status ana_whatif_text(const ana_whatif *study, int64_t item, text_buffer *out, error_message *err)
{
    text_buffer changes = {0};
    ana_whatif_changes(study, item, &changes);
    const status result = json_change(study->path, study->matrix.base, changes.bytes, out, err);
    text_free(&changes);
    return result;
}

/// Corrects the times of a point that was played.
static void calibrate(const ana_whatif *study, const ana_point_worker *worker, ana_point *point)
{
    ana_time_parts parts;
    if (study->calibration == NULL || point->refusal != ANA_REFUSAL_NONE) return;
    ana_time_parts_of(ana_point_worker_setup(worker), point, &parts);
    ana_point_scale(point, ana_correction_factor(study->calibration, &parts));
}

status ana_whatif_evaluate(void *context, void *worker, int64_t item, text_buffer *result,
                           error_message *err)
{
    const ana_whatif *study = context;
    ana_point point;
    text_buffer changes = {0};
    ana_whatif_changes(study, item, &changes);
    const status evaluated =
        ana_point_evaluate(worker, study->path, study->matrix.base, changes.bytes, &point, err);
    text_free(&changes);
    if (evaluated == STATUS_OK) {
        ana_point_note_frameworks(worker, study->framework, &point);
        calibrate(study, worker, &point);
        ana_point_write(&point, result);
        return STATUS_OK;
    }
    const int64_t number = ana_whatif_number(study, item);
    return number >= 0 ? error_prefix(err, evaluated, "point %" PRId64, number)
                       : error_prefix(err, evaluated, "the study as written");
}

status ana_whatif_put(void *context, int64_t item, const text_buffer *result, error_message *err)
{
    ana_whatif *study = context;
    return ana_point_read(result->bytes, result->length, study->memory, &study->points[item], err);
}

/// Whether a value is beyond a limit that is there, and was typed with the digits that are printed.
static bool exceeds(double value, double limit)
{
    return limit > 0 && value > limit * (1 + 1e-9);
}

/// Refuses what takes longer or costs more than is allowed.
static void hold_to_limits(ana_whatif *study)
{
    char assumed_tokens[96];
    snprintf(assumed_tokens, sizeof assumed_tokens, " %s tokens (the study names none)",
             ana_short_number((double)ANA_TOKENS_DEFAULT).text);
    for (int64_t item = 0; item < study->item_count; item++) {
        ana_point *point = &study->points[item];
        char message[300];
        if (point->refusal != ANA_REFUSAL_NONE) continue;
        if (exceeds(point->train_ns, study->deadline_ns)) {
            snprintf(message, sizeof message, "trains%s for %s, the deadline is %s",
                     study->token_count == 0 ? assumed_tokens : "",
                     ana_long_time(point->train_ns).text, ana_long_time(study->deadline_ns).text);
        } else if (study->budget > 0 && point->cost < 0) {
            snprintf(message, sizeof message, "has no price");
        } else if (exceeds(point->cost, study->budget)) {
            snprintf(message, sizeof message, "costs %.0f %s, the budget is %.0f", point->cost,
                     study->currency, study->budget);
        } else {
            continue;
        }
        point->refusal = ANA_REFUSAL_LIMIT;
        point->message = arena_string(study->memory, message);
    }
}

/// By how much a refused point misses: the largest part of what it would need more; INFINITY where
/// that is not known.
static double shortfall(const ana_whatif *study, const ana_point *point)
{
    if (point->refusal == ANA_REFUSAL_MEMORY && point->missing_bytes > 0) {
        return (double)point->missing_bytes;
    }
    if (point->refusal != ANA_REFUSAL_LIMIT) return INFINITY;
    const double late = study->deadline_ns > 0 ? point->train_ns / study->deadline_ns : 0;
    const double dear = study->budget > 0 ? point->cost / study->budget : 0;
    return late > dear ? late : dear;
}

/// The reason that comes nearest to an answer: points that only the limits refuse, or only memory;
/// else the one of most.
static ana_refusal nearest_refusal(const int64_t counts[ANA_REFUSAL_COUNT])
{
    ana_refusal most = ANA_REFUSAL_NONE;
    if (counts[ANA_REFUSAL_LIMIT] > 0) return ANA_REFUSAL_LIMIT;
    if (counts[ANA_REFUSAL_MEMORY] > 0) return ANA_REFUSAL_MEMORY;
    for (int refusal = ANA_REFUSAL_NONE + 1; refusal < ANA_REFUSAL_COUNT; refusal++) {
        if (counts[refusal] > counts[most]) most = (ana_refusal)refusal;
    }
    return most;
}

/// Counts the outcomes, and refuses a study none of whose points can be played, with the point that
/// misses by least. The study as written is no answer to its own axes.
static status count_refusals(ana_whatif *study, error_message *err)
{
    int64_t *counts = study->refusal_counts;
    int64_t nearest[ANA_REFUSAL_COUNT] = {0};
    for (int64_t item = 0; item < study->matrix.point_count; item++) {
        const ana_refusal refusal = study->points[item].refusal;
        const double least = shortfall(study, &study->points[nearest[refusal]]);
        if (counts[refusal]++ == 0) study->first_refused[refusal] = nearest[refusal] = item;
        if (shortfall(study, &study->points[item]) < least) nearest[refusal] = item;
    }
    if (counts[ANA_REFUSAL_NONE] > 0) return STATUS_OK;
    const ana_refusal reason = nearest_refusal(counts);
    const ana_point *point = &study->points[nearest[reason]];
    text_buffer example = {.memory = study->memory};
    if (isfinite(shortfall(study, point))) {
        text_append(&example, "by least ");
        ana_name_point(study, nearest[reason], &example);
        text_append(&example, ":");
    } else {
        text_append(&example, "as");
    }
    return error_set(err, STATUS_INFEASIBLE,
                     "%s: none of %" PRId64 " points can be played; %" PRId64 ": %s, %.220s %.170s",
                     study->path, study->matrix.point_count, counts[reason],
                     ana_refusal_names[reason], example.bytes, point->message);
}

status ana_whatif_finish(ana_whatif *study, error_message *err)
{
    uint64_t training = study->points[study->reference].training;
    // A reference that cannot be played may not have come to its settings: any other will do.
    for (int64_t item = 0; item < study->item_count && training == 0; item++) {
        training = study->points[item].training;
    }
    hold_to_limits(study);
    ana_standing_find(study->points, study->item_count, training, study->objective, study->memory,
                      &study->standing);
    study->training = training;
    return count_refusals(study, err);
}
