#include "analysis/whatif/certainty.h"

#include "base/file.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MS 1e6

enum { DIGITS = 9 };

/// What was fitted, whatever else the point is.
static const char *const as_fitted =
    "{\"pipeline.schedule\":\"1f1b\",\"pipeline.chunks\":null,\"pipeline.policy\":null,"
    "\"balancing\":[{\"balancer\":\"even\"}],\"repack\":null,\"dynamism\":null,"
    "\"training.iterations\":1,\"training.reduction_overlap\":\"none\",\"cluster.memory_bytes\":0}";

/// How far a link's rate in use may be off what a vendor prints or a ping-pong shows: log.
static const double link_deviation = 0.5;
/// Shares of the printed rates that rings and sends usually reach.
static const double ring_share = 0.8;

/// Tells a calibration what a link takes for 1 GB, where it has not measured better.
static void learn_link(ana_calibration *calibration, ana_term term, const bal_link *link)
{
    const double ms = 1e12 / (ring_share * (double)link->bytes_per_s);
    if (calibration->is_measured[term] || link->bytes_per_s <= 0) return;
    ana_calibration_learn(calibration, term, log(ms), link_deviation);
}

/// Opens what was fitted to iterations, and tells it the links of the study.
static status open_fitted(const char *path, const ana_setup *setup, arena *memory,
                          const ana_calibration **fitted, error_message *err)
{
    static const ana_term inside[] = {ANA_TERM_TENSOR_BYTES, ANA_TERM_REDUCTION_BYTES,
                                      ANA_TERM_TRANSFER};
    static const ana_term between[] = {ANA_TERM_TENSOR_NODES, ANA_TERM_REDUCTION_NODES,
                                       ANA_TERM_BETWEEN};
    ana_calibration *opened = arena_array(memory, 1, sizeof *opened);
    TRY(ana_calibration_open(path, memory, opened, err));
    for (int term = 0; setup != NULL && term < 3; term++) {
        learn_link(opened, inside[term], &setup->hardware.intra_node);
        learn_link(opened, between[term], &setup->hardware.inter_node);
    }
    *fitted = opened;
    return STATUS_OK;
}

static status open_correction(const char *path, arena *memory, const ana_correction **correction,
                              error_message *err)
{
    ana_correction *opened = arena_array(memory, 1, sizeof *opened);
    TRY(ana_correction_open(path, memory, opened, err));
    *correction = opened;
    return STATUS_OK;
}

status ana_calibrated_open(const char *study_path, const char *path, const ana_point_worker *worker,
                           arena *memory, const ana_calibrated **calibration, error_message *err)
{
    static const char ending[] = ".csv";
    ana_calibrated *opened = arena_array(memory, 1, sizeof *opened);
    const char *found = file_path_beside(study_path, path, memory);
    const size_t length = strlen(path);
    const bool is_table =
        length >= strlen(ending) && strcmp(path + length - strlen(ending), ending) == 0;
    if (is_table) {
        TRY(open_correction(found, memory, &opened->correction, err));
    } else {
        TRY(open_fitted(found, ana_point_worker_setup(worker), memory, &opened->fitted, err));
    }
    *calibration = opened;
    return STATUS_OK;
}

static status check_point(const ana_setup *setup, bool is_dense, error_message *err)
{
    const char *path = setup->study->path;
    if (setup->study->trace_path != NULL) {
        return error_set(err, STATUS_INVALID,
                         "%s: uncertainty.calibration: it is of a cost model, and the costs here "
                         "are those of a trace",
                         path);
    }
    if (!is_dense || setup->model_costs.config.expert_count == 0) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "%s: uncertainty.calibration: it is of dense models, and this one has experts",
                     path);
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
    ana_point point;
    TRY(ana_point_evaluate(worker, name, text, as_fitted, NULL, &point, err));
    if (point.refusal != ANA_REFUSAL_NONE) {
        return error_set(
            err, STATUS_INVALID,
            "%s: uncertainty.calibration: a point cannot be played under 1F1B, as what was fitted: "
            "%.150s",
            name, point.message);
    }
    *iteration_ns = point.iteration_ns;
    return STATUS_OK;
}

static double predicted_ns(const ana_calibration *calibration, const ana_run_shape *shape)
{
    arena *memory = arena_create(1 << 14);
    double *scratch =
        arena_array(memory, 2 * (size_t)calibration->coefficient_count, sizeof *scratch);
    const double ms = ana_calibration_predict(calibration, shape, scratch).middle_ms;
    arena_destroy(memory);
    return ms * NS_PER_MS;
}

static status level_of_fitted(const ana_calibration *fitted, ana_point_worker *worker,
                              const char *text, ana_calibrated_point *point, error_message *err)
{
    const ana_setup *setup = ana_point_worker_setup(worker);
    const char *name = setup->study->path;
    double played_ns = 0;
    point->shape = shape_of(setup);
    point->is_beyond = ana_calibration_beyond(fitted, &point->shape) != 0;
    TRY(play_as_fitted(worker, name, text, &played_ns, err));
    point->level = text_rounded(predicted_ns(fitted, &point->shape) / played_ns, DIGITS);
    return STATUS_OK;
}

static bool knows_machine(const ana_correction *correction, const char *machine)
{
    int run = 0;
    while (run < correction->run_count && strcmp(correction->runs[run].machine, machine) != 0) {
        run++;
    }
    return run < correction->run_count;
}

static double level_of_correction(const ana_correction *correction, const ana_time_parts *parts)
{
    double *scratch = memory_array(2 * (size_t)correction->run_count, sizeof *scratch);
    const double log_factor = ana_correction_predict(correction, parts, scratch).log_factor;
    free(scratch);
    return text_rounded(exp(log_factor), DIGITS);
}

status ana_calibrated_level(const ana_calibrated *calibration, ana_point_worker *worker,
                            const char *text, const ana_point *played, ana_calibrated_point *point,
                            error_message *err)
{
    const ana_setup *setup = ana_point_worker_setup(worker);
    ana_point again;
    *point = (ana_calibrated_point){.level = 1};
    TRY(check_point(setup, calibration->fitted != NULL, err));
    if (calibration->fitted != NULL) {
        return level_of_fitted(calibration->fitted, worker, text, point, err);
    }
    if (played == NULL) {
        TRY(ana_point_evaluate(worker, setup->study->path, text, "{}", NULL, &again, err));
        if (again.refusal != ANA_REFUSAL_NONE) return STATUS_OK;
        played = &again;
    }
    ana_time_parts_of(setup, played, &point->parts);
    point->is_beyond = !knows_machine(calibration->correction, point->parts.machine);
    point->level = level_of_correction(calibration->correction, &point->parts);
    return STATUS_OK;
}

/// The first point of the same shape.
static int64_t group_of(const ana_run_shape *shapes, int index)
{
    int first = 0;
    while (memcmp(&shapes[first], &shapes[index], sizeof *shapes) != 0) {
        first++;
    }
    return first;
}

static status factors_of_fitted(const ana_calibration *calibration,
                                const ana_calibrated_point *points, int point_count, uint64_t seed,
                                int draw_count, arena *memory, double *factors, error_message *err)
{
    ana_calibration wide;
    ana_run_shape *shapes = arena_array(memory, (size_t)point_count, sizeof *shapes);
    for (int index = 0; index < point_count; index++) {
        shapes[index] = points[index].shape;
    }
    TRY(ana_calibration_extend(calibration, shapes, point_count, memory, &wide, err));
    const size_t count = (size_t)wide.coefficient_count;
    double *factor = arena_array(memory, count * count, sizeof *factor);
    double *drawn = arena_array(memory, count, sizeof *drawn);
    double *scratch = arena_array(memory, 2 * count, sizeof *scratch);
    TRY(ana_calibration_factorise(&wide, factor, err));
    for (int draw = 0; draw < draw_count; draw++) {
        ana_calibration_draw(&wide, factor, seed, draw, drawn);
        for (int index = 0; index < point_count; index++) {
            const double varied = ana_calibration_factor(&wide, drawn, &shapes[index], seed, draw,
                                                         group_of(shapes, index), scratch);
            factors[(size_t)index * (size_t)draw_count + (size_t)draw] =
                text_rounded(points[index].level * varied, DIGITS);
        }
    }
    return STATUS_OK;
}

status ana_calibrated_factors(const ana_calibrated *calibration, const ana_calibrated_point *points,
                              int point_count, uint64_t seed, int draw_count, arena *memory,
                              double *factors, error_message *err)
{
    if (calibration->fitted != NULL) {
        return factors_of_fitted(calibration->fitted, points, point_count, seed, draw_count, memory,
                                 factors, err);
    }
    ana_time_parts *parts = arena_array(memory, (size_t)point_count, sizeof *parts);
    for (int index = 0; index < point_count; index++) {
        parts[index] = points[index].parts;
    }
    return ana_correction_draw(calibration->correction, parts, point_count, seed, draw_count,
                               memory, factors, err);
}
