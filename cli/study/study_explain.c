#include "cli/study/study_explain.h"

#include "analysis/whatif/explanation.h"
#include "analysis/whatif/point.h"

#include <inttypes.h>
#include <string.h>

status cli_study_explained_item(const ana_whatif *study, const char *word, bool *needs_ranking,
                                int64_t *item, error_message *err)
{
    int64_t number = 0;
    *needs_ranking = strcmp(word, "best") == 0;
    if (*needs_ranking) return STATUS_OK;
    if (strcmp(word, "reference") == 0) {
        *item = study->reference;
        return STATUS_OK;
    }
    TRY(text_parse_int64(word, "--explain", 0, study->matrix.full_count - 1, &number, err));
    const int64_t found = ana_whatif_item(study, number);
    if (found < 0) {
        return error_set(err, STATUS_INVALID, "--explain: point %" PRId64 " is not in the sample",
                         number);
    }
    *item = found;
    return STATUS_OK;
}

/// "Point 17: pipeline.stages 8, pipeline.schedule zb-h1".
static void print_name(const ana_whatif *study, int64_t item, text_buffer *out)
{
    int value[ANA_AXES_MAX];
    const int64_t number = ana_whatif_number(study, item);
    if (number < 0) {
        text_append(out, "The study as written\n");
        return;
    }
    ana_matrix_values(&study->matrix, number, value);
    text_format(out, "Point %" PRId64, number);
    for (int axis = 0; axis < study->matrix.axis_count; axis++) {
        const ana_axis *along = &study->matrix.axes[axis];
        text_format(out, "%s %s %s", axis == 0 ? ":" : ",", along->name,
                    along->values[value[axis]].label);
    }
    text_append(out, "\n");
}

static ana_worth worth_of(const ana_point *point, const ana_study *study)
{
    return (ana_worth){
        .iteration_count = point->iteration_ns > 0 ? point->train_ns / point->iteration_ns : 0,
        .gpu_count = point->gpu_count,
        .price_per_gpu_hour = study->price_per_gpu_hour > 0 ? study->price_per_gpu_hour : 0,
        .currency = study->price_currency,
    };
}

/// Evaluates the point for its setup and for what its time is worth, then explains it.
static status explain(const ana_whatif *study, int64_t item, ana_point_worker *worker,
                      const char *text, bool as_json, text_buffer *out, error_message *err)
{
    ana_point point;
    ana_explanation explanation;
    TRY(ana_point_evaluate(worker, study->path, text, NULL, &point, err));
    if (point.refusal != ANA_REFUSAL_NONE) {
        return error_set(err, STATUS_INFEASIBLE, "%.400s", point.message);
    }
    const ana_setup *setup = ana_point_worker_setup(worker);
    const ana_worth worth = worth_of(&point, setup->study);
    arena *memory = arena_create(1 << 16);
    const status explained =
        ana_explain(setup, &setup->study->balancings[0], &worth, memory, &explanation, err);
    if (explained == STATUS_OK && as_json) {
        ana_explanation_write(&explanation, out);
    } else if (explained == STATUS_OK) {
        print_name(study, item, out);
        ana_explanation_print(&explanation, out);
    }
    arena_destroy(memory);
    return explained;
}

status cli_study_explain(const ana_whatif *study, int64_t item, bool as_json, text_buffer *out,
                         error_message *err)
{
    ana_point_worker *worker = ana_point_worker_create();
    text_buffer text = {0};
    status result = ana_whatif_text(study, item, NULL, &text, err);
    if (result == STATUS_OK) {
        result = explain(study, item, worker, text.bytes, as_json, out, err);
    }
    text_free(&text);
    ana_point_worker_destroy(worker);
    return result;
}
