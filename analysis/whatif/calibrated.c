#include "analysis/whatif/calibrated.h"

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define NS_PER_MS 1e6

enum { DIGITS = 9 };

/// What was fitted, whatever else the point is.
static const char *const as_fitted =
    "{\"pipeline.schedule\":\"1f1b\",\"pipeline.chunks\":null,\"pipeline.policy\":null,"
    "\"balancing\":[{\"balancer\":\"even\"}],\"repack\":null,\"dynamism\":null,"
    "\"training.iterations\":1,\"training.reduction_overlap\":\"none\",\"cluster.memory_bytes\":0}";

status ana_calibrated_open(const char *study_path, const char *path, int point_capacity,
                           arena *memory, ana_calibrated *calibrated, error_message *err)
{
    *calibrated = (ana_calibrated){
        .path = file_path_beside(study_path, path, memory),
        .points = arena_array(memory, (size_t)point_capacity, sizeof *calibrated->points),
        .point_capacity = point_capacity,
        .level_min = INFINITY,
    };
    return ana_calibration_open(calibrated->path, memory, &calibrated->calibration, err);
}

static status check_point(const ana_calibrated *calibrated, const ana_setup *setup,
                          error_message *err)
{
    const char *path = setup->study->path;
    if (setup->study->trace_path != NULL) {
        return error_set(
            err, STATUS_INVALID,
            "%s: uncertainty.calibration: %.80s is of a cost model, and the costs here "
            "are those of a trace",
            path, calibrated->path);
    }
    if (setup->model_costs.config.expert_count == 0) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "%s: uncertainty.calibration: %.80s is of dense models, and this one has "
                     "experts",
                     path, calibrated->path);
}

static ana_run_shape shape_of(const ana_setup *setup)
{
    const model_config *config = &setup->model_costs.config;
    const model_shape *shape = &setup->model_costs.shape;
    const model_parallel *parallel = &setup->study->parallel;
    const int64_t replica_gpus = (int64_t)parallel->tensor * setup->study->stage_count;
    return (ana_run_shape){
        .gpu_count = replica_gpus * parallel->data,
        .global_batch_count =
            (int64_t)setup->microbatch_count * shape->microbatch_size * parallel->data,
        .microbatch_size = shape->microbatch_size,
        .hidden_size = config->hidden_size,
        .head_count = config->head_count,
        .layer_count = config->layer_count,
        .sequence_length = shape->sequence_length,
        .vocabulary_size = config->vocabulary_size,
        .tensor_degree = parallel->tensor,
        .data_degree = parallel->data,
        .pipeline_degree = setup->study->stage_count,
    };
}

/// The time of an iteration of the cost model, as what was fitted.
static status play_as_fitted(ana_point_worker *worker, const char *name, const char *text,
                             double *iteration_ns, error_message *err)
{
    text_buffer changed = {0};
    ana_point point;
    status result = json_change(name, text, as_fitted, &changed, err);
    if (result == STATUS_OK) {
        result = ana_point_evaluate(worker, name, changed.bytes, NULL, &point, err);
    }
    text_free(&changed);
    if (result != STATUS_OK) return result;
    if (point.refusal != ANA_REFUSAL_NONE) {
        return error_set(
            err, STATUS_INVALID,
            "%s: uncertainty.calibration: a point cannot be played under 1F1B, as what "
            "was fitted: %.150s",
            name, point.message);
    }
    *iteration_ns = point.iteration_ns;
    return STATUS_OK;
}

static void predict_ns(const ana_calibration *calibration, const ana_run_shape *shape,
                       double *iteration_ns)
{
    arena *memory = arena_create(1 << 14);
    double *scratch = NULL;
    if (memory != NULL) {
        scratch = arena_array(memory, 2 * (size_t)calibration->coefficient_count, sizeof *scratch);
    }
    if (scratch != NULL) {
        *iteration_ns = ana_calibration_predict(calibration, shape, scratch).mean_ms * NS_PER_MS;
    }
    arena_destroy(memory);
}

static int64_t group_of(const ana_calibrated *calibrated, const ana_run_shape *shape)
{
    int point = 0;
    while (point < calibrated->point_count &&
           memcmp(&calibrated->points[point].shape, shape, sizeof *shape) != 0) {
        point++;
    }
    return point;
}

status ana_calibrated_add_point(ana_calibrated *calibrated, ana_point_worker *worker,
                                const char *text, error_message *err)
{
    const ana_setup *setup = ana_point_worker_setup(worker);
    const char *name = setup->study->path;
    double fitted_ns = 0;
    double played_ns = 0;
    assert(calibrated->point_count < calibrated->point_capacity);
    TRY(check_point(calibrated, setup, err));
    const ana_run_shape shape = shape_of(setup);
    predict_ns(&calibrated->calibration, &shape, &fitted_ns);
    TRY(play_as_fitted(worker, name, text, &played_ns, err));
    const double level = fitted_ns > 0 ? text_rounded(fitted_ns / played_ns, DIGITS) : 1;
    const int64_t group = group_of(calibrated, &shape);
    calibrated->points[calibrated->point_count++] = (ana_calibrated_point){shape, level, group};
    calibrated->level_min = fmin(calibrated->level_min, level);
    calibrated->level_max = fmax(calibrated->level_max, level);
    calibrated->beyond_count += ana_calibration_beyond(&calibrated->calibration, &shape) != 0;
    return STATUS_OK;
}

status ana_calibrated_factors(const ana_calibrated *calibrated, uint64_t seed, int draw_count,
                              arena *memory, double *factors, error_message *err)
{
    const ana_calibration *calibration = &calibrated->calibration;
    const size_t count = (size_t)calibration->coefficient_count;
    double *coefficients = arena_array(memory, count * (count + 3), sizeof *coefficients);
    double *const scratch = coefficients + count;
    for (int draw = 0; draw < draw_count; draw++) {
        TRY(ana_calibration_draw(calibration, seed, draw, coefficients, scratch, err));
        for (int index = 0; index < calibrated->point_count; index++) {
            const ana_calibrated_point *point = &calibrated->points[index];
            const double factor = ana_calibration_factor(calibration, coefficients, &point->shape,
                                                         seed, draw, point->group, scratch);
            factors[(size_t)index * (size_t)draw_count + (size_t)draw] =
                text_rounded(factor * point->level, DIGITS);
        }
    }
    return STATUS_OK;
}
