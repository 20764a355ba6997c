#include "models/cost_model.h"

#include "models/parameters.h"
#include "models/saturating.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

enum {
    SEQUENCE_LENGTH_MAX = 1 << 24,
    SEQUENCE_LENGTH_DEFAULT = 2048,
    MICROBATCH_SIZE_MAX = 1 << 16,
    STATE_BYTES_MAX = 1024,
    ASSUMPTIONS_MAX = 32,
    TEXT_BYTES = 160
};
#define COST_MAX (INT64_MAX / 4) // what sums over stages still hold

int64_t model_roofline_ns(model_work work, double flop_per_s, double bytes_per_s)
{
    if (work.flop == INT64_MAX || work.bytes == INT64_MAX) return COST_MAX; // counts that saturated
    const double compute_s = (double)work.flop / flop_per_s;
    const double memory_s = (double)work.bytes / bytes_per_s;
    const double ns = round((compute_s > memory_s ? compute_s : memory_s) * 1e9);
    return ns < (double)COST_MAX ? (int64_t)ns : COST_MAX;
}

static int64_t sum_ns(int64_t a, int64_t b)
{
    return a > COST_MAX - b ? COST_MAX : a + b;
}

int64_t model_work_ns(const model_layer_work *work, const model_hardware *hardware,
                      model_dtype dtype)
{
    assert(hardware->flop_per_s[dtype] > 0);
    const double peak = (double)hardware->flop_per_s[dtype];
    const double gemm = peak * hardware->gemm_efficiency;
    const double core = peak * hardware->attention_efficiency;
    const double bytes = (double)hardware->memory_bytes_per_s * hardware->memory_efficiency;
    const int64_t attention_ns = sum_ns(model_roofline_ns(work->projection, gemm, bytes),
                                        model_roofline_ns(work->attention, core, bytes));
    const int64_t rest_ns = sum_ns(model_roofline_ns(work->mlp, gemm, bytes),
                                   model_roofline_ns(work->elementwise, gemm, bytes));
    return sum_ns(attention_ns, rest_ns);
}

/// The list that is printed beside every result.
typedef struct assumption_list {
    model_assumption rows[ASSUMPTIONS_MAX];
    int count;
    arena *memory;
    bool failed; // out of memory once
} assumption_list;

static void assume(assumption_list *list, const char *name, model_origin_kind kind,
                   const char *source, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

static void assume(assumption_list *list, const char *name, model_origin_kind kind,
                   const char *source, const char *format, ...)
{
    char value[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    const char *kept = arena_string(list->memory, value);
    list->failed = list->failed || kept == NULL;
    assert(list->count < ASSUMPTIONS_MAX);
    list->rows[list->count++] = (model_assumption){name, kept, {kind, source}};
}

static status check_limits(const char *what, int value, int max, error_message *err)
{
    if (value >= 0 && value <= max) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%s %d is outside [1, %d]", what, value, max);
}

static status choose_sequence_length(const model_config *config, const model_training *training,
                                     assumption_list *list, model_shape *shape, error_message *err)
{
    const int longest = config->position_count;
    TRY(check_limits("sequence_length", training->sequence_length, SEQUENCE_LENGTH_MAX, err));
    shape->sequence_length = training->sequence_length;
    if (training->sequence_length > 0) {
        if (longest > 0 && training->sequence_length > longest) {
            return error_set(err, STATUS_INVALID,
                             "sequence_length %d exceeds the %d positions of the model",
                             training->sequence_length, longest);
        }
        assume(list, "sequence_length", MODEL_ORIGIN_GIVEN, "", "%d", shape->sequence_length);
        return STATUS_OK;
    }
    const bool is_short = longest > 0 && longest < SEQUENCE_LENGTH_DEFAULT;
    shape->sequence_length = is_short ? longest : SEQUENCE_LENGTH_DEFAULT;
    assume(list, "sequence_length", MODEL_ORIGIN_ASSUMED,
           is_short ? "the positions of the model" : "default", "%d", shape->sequence_length);
    return STATUS_OK;
}

/// Fills in what the training leaves open.
static status choose_shape(const model_config *config, const model_training *training,
                           assumption_list *list, model_shape *shape, error_message *err)
{
    TRY(choose_sequence_length(config, training, list, shape, err));
    TRY(check_limits("microbatch_size", training->microbatch_size, MICROBATCH_SIZE_MAX, err));
    const bool has_size = training->microbatch_size > 0;
    shape->microbatch_size = has_size ? training->microbatch_size : 1;
    assume(list, "microbatch_size", has_size ? MODEL_ORIGIN_GIVEN : MODEL_ORIGIN_ASSUMED,
           has_size ? "" : "default", "%d", shape->microbatch_size);

    const bool has_dtype = training->dtype != MODEL_DTYPE_UNKNOWN;
    shape->dtype = has_dtype ? training->dtype : MODEL_DTYPE_BFLOAT16;
    assume(list, "dtype", has_dtype ? MODEL_ORIGIN_GIVEN : MODEL_ORIGIN_ASSUMED,
           has_dtype ? "" : "default, whatever the checkpoint is kept in", "%s",
           model_dtype_name(shape->dtype));

    const bool has_attention = training->attention != NULL;
    shape->attention =
        has_attention ? model_attention_find(training->attention) : MODEL_ATTENTION_FLASH;
    if (shape->attention == MODEL_ATTENTION_COUNT) {
        return error_set(err, STATUS_INVALID, "attention '%.60s' is neither flash nor unfused",
                         training->attention);
    }
    assume(list, "attention", has_attention ? MODEL_ORIGIN_GIVEN : MODEL_ORIGIN_ASSUMED,
           has_attention ? "" : "default", "%s",
           shape->attention == MODEL_ATTENTION_FLASH ? "flash, skips what the causal mask hides"
                                                     : "unfused, computes what the mask hides");
    return STATUS_OK;
}

static status choose_state_bytes(const model_training *training, const model_shape *shape,
                                 assumption_list *list, int *state_bytes, error_message *err)
{
    TRY(check_limits("state_bytes_per_parameter", training->state_bytes_per_parameter,
                     STATE_BYTES_MAX, err));
    const bool is_given = training->state_bytes_per_parameter > 0;
    const int dtype_bytes = model_dtype_bytes(shape->dtype);
    enum { GRADIENT = 4, MASTER = 4, MOMENTS = 8 };
    const int usual = dtype_bytes + GRADIENT + MOMENTS + (dtype_bytes < 4 ? MASTER : 0);
    *state_bytes = is_given ? training->state_bytes_per_parameter : usual;
    assume(list, "state_bytes_per_parameter", is_given ? MODEL_ORIGIN_GIVEN : MODEL_ORIGIN_ASSUMED,
           is_given ? ""
                    : "Adam: weight, 32-bit gradient and moments, and a 32-bit copy of a 16-bit "
                      "weight; not sharded",
           "%d", *state_bytes);
    return STATUS_OK;
}

static void assume_model(const model_config *config, const char *origin, assumption_list *list)
{
    assume(list, "model", MODEL_ORIGIN_GIVEN, origin, "%s, %d layers, hidden %d, %d/%d heads",
           config->model_type, config->layer_count, config->hidden_size, config->head_count,
           config->kv_head_count);
    assume(list, "dropout", MODEL_ORIGIN_GIVEN, origin, "%s",
           config->has_residual_dropout || config->has_attention_dropout ? "masks kept" : "none");
    if (config->expert_count > 0) {
        assume(list, "routing", MODEL_ORIGIN_ASSUMED, "no trace of the router",
               "%d of %d experts per token, all experts alike, none dropped", config->expert_top_k,
               config->expert_count);
    }
    if (config->prediction_layer_count > 0) {
        assume(list, "prediction layers", MODEL_ORIGIN_ASSUMED, "not modelled",
               "%d multi-token-prediction layers left out", config->prediction_layer_count);
    }
}

static void assume_hardware(const model_hardware *hardware, const model_shape *shape,
                            const char *origin, assumption_list *list)
{
    assume(list, "hardware", MODEL_ORIGIN_GIVEN, origin, "%s", hardware->name);
    assume(list, "flop_per_s", hardware->flop_origin.kind, hardware->flop_origin.text,
           "%.6g TFLOP/s", (double)hardware->flop_per_s[shape->dtype] / 1e12);
    const model_origin efficiency = hardware->efficiency_origin;
    assume(list, "efficiency.gemm", efficiency.kind, efficiency.text, "%.6g",
           hardware->gemm_efficiency);
    assume(list, "efficiency.attention", efficiency.kind, efficiency.text, "%.6g",
           hardware->attention_efficiency);
    assume(list, "efficiency.memory", efficiency.kind, efficiency.text, "%.6g",
           hardware->memory_efficiency);
    assume(list, "memory_bytes_per_s", hardware->memory_origin.kind, hardware->memory_origin.text,
           "%.6g GB/s", (double)hardware->memory_bytes_per_s / 1e9);
}

static void assume_absences(assumption_list *list)
{
    assume(list, "recomputation", MODEL_ORIGIN_ASSUMED, "not modelled", "none");
    assume(list, "tensor and expert parallelism", MODEL_ORIGIN_ASSUMED, "not modelled", "none");
    assume(list, "kernel launches", MODEL_ORIGIN_ASSUMED,
           "not modelled: small layers take longer than is said here", "0 ns");
}

/// The arrays of the costs, writable while they are filled.
typedef struct cost_arrays {
    int64_t *pass_ns[MODEL_PASS_COUNT];   // [row_count]
    int64_t *pass_flop[MODEL_PASS_COUNT]; // [row_count]
    int64_t *parameters;
    int64_t *state_bytes;
    int64_t *activation_bytes;
    int64_t *gradient_bytes;
    int64_t *message_bytes;
} cost_arrays;

static status carve(int row_count, arena *memory, cost_arrays *arrays, error_message *err)
{
    enum { ARRAYS = 2 * MODEL_PASS_COUNT + 5 };
    const size_t rows = (size_t)row_count;
    int64_t *all = arena_array(memory, rows * ARRAYS, sizeof *all);
    if (all == NULL) {
        return error_set(err, STATUS_NO_MEMORY, "out of memory for the costs of %d layers",
                         row_count);
    }
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        arrays->pass_ns[pass] = all;
        arrays->pass_flop[pass] = all + rows;
        all += 2 * rows;
    }
    arrays->parameters = all;
    arrays->state_bytes = all + rows;
    arrays->activation_bytes = all + rows * 2;
    arrays->gradient_bytes = all + rows * 3;
    arrays->message_bytes = all + rows * 4;
    return STATUS_OK;
}

/// Row 0 is the embedding, the last one the head.
static model_layer_work work_of_row(const model_costs *costs, int row, model_pass pass)
{
    if (row == 0) return model_embedding_work(&costs->config, &costs->shape, pass);
    if (row > costs->config.layer_count) {
        return model_head_work(&costs->config, &costs->shape, pass);
    }
    return model_layer_work_of(&costs->config, &costs->shape, row - 1, pass);
}

static void fill_row(const model_costs *costs, int row, cost_arrays *arrays)
{
    const model_config *config = &costs->config;
    const model_shape *shape = &costs->shape;
    const bool is_head = row > config->layer_count;
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        const model_layer_work work = work_of_row(costs, row, (model_pass)pass);
        arrays->pass_ns[pass][row] = model_work_ns(&work, &costs->hardware, shape->dtype);
        arrays->pass_flop[pass][row] = model_work_flop(&work);
    }
    const model_memory memory = row == 0  ? model_embedding_memory(config, shape)
                                : is_head ? model_head_memory(config, shape)
                                          : model_layer_memory(config, shape, row - 1);
    arrays->parameters[row] = row == 0  ? model_embedding_parameters(config)
                              : is_head ? model_head_parameters(config)
                                        : model_layer_parameters(config, row - 1);
    arrays->state_bytes[row] =
        saturating_multiply(arrays->parameters[row], costs->state_bytes_per_parameter);
    arrays->activation_bytes[row] = memory.activation_bytes;
    arrays->gradient_bytes[row] = memory.gradient_bytes;
    arrays->message_bytes[row] = is_head ? 0 : model_message_bytes(config, shape);
}

/// Refuses what saturated or would not survive being added up over a stage.
static status check_row(const cost_arrays *arrays, int row, error_message *err)
{
    const struct {
        const char *name;
        int64_t value;
    } costs[] = {
        {"forward_ns", arrays->pass_ns[MODEL_PASS_FORWARD][row]},
        {"forward_flop", arrays->pass_flop[MODEL_PASS_FORWARD][row] / 4},
        {"backward_input_ns", arrays->pass_ns[MODEL_PASS_BACKWARD_INPUT][row]},
        {"backward_input_flop", arrays->pass_flop[MODEL_PASS_BACKWARD_INPUT][row] / 4},
        {"backward_weight_ns", arrays->pass_ns[MODEL_PASS_BACKWARD_WEIGHT][row]},
        {"backward_weight_flop", arrays->pass_flop[MODEL_PASS_BACKWARD_WEIGHT][row] / 4},
        {"activation_bytes", arrays->activation_bytes[row]},
        {"gradient_bytes", arrays->gradient_bytes[row]},
        {"state_bytes", arrays->state_bytes[row]},
    };
    for (size_t cost = 0; cost < sizeof costs / sizeof costs[0]; cost++) {
        if (costs[cost].value < COST_MAX) continue;
        return error_set(err, STATUS_INVALID, "%s of layer %d: too large to be counted in 64 bits",
                         costs[cost].name, row);
    }
    return STATUS_OK;
}

static bal_layer_costs layer_costs_of(const cost_arrays *arrays, int row_count)
{
    return (bal_layer_costs){
        .layer_count = row_count,
        .microbatch_count = 1,
        .has_split = true,
        .embedding = true,
        .head = true,
        .forward_ns = arrays->pass_ns[MODEL_PASS_FORWARD],
        .backward_input_ns = arrays->pass_ns[MODEL_PASS_BACKWARD_INPUT],
        .backward_weight_ns = arrays->pass_ns[MODEL_PASS_BACKWARD_WEIGHT],
        .parameters = arrays->parameters,
        .state_bytes = arrays->state_bytes,
        .activation_bytes = arrays->activation_bytes,
        .gradient_bytes = arrays->gradient_bytes,
        .message_bytes = arrays->message_bytes,
    };
}

/// Computes all rows once shape and state bytes are chosen.
static status fill_costs(model_costs *costs, arena *memory, error_message *err)
{
    const int row_count = costs->config.layer_count + 2;
    cost_arrays arrays = {0};
    TRY(carve(row_count, memory, &arrays, err));
    for (int row = 0; row < row_count; row++) {
        fill_row(costs, row, &arrays);
        TRY(check_row(&arrays, row, err));
    }
    costs->layers = layer_costs_of(&arrays, row_count);
    costs->forward_flop = arrays.pass_flop[MODEL_PASS_FORWARD];
    costs->backward_input_flop = arrays.pass_flop[MODEL_PASS_BACKWARD_INPUT];
    costs->backward_weight_flop = arrays.pass_flop[MODEL_PASS_BACKWARD_WEIGHT];
    costs->total_parameters = model_total_parameters(&costs->config);
    costs->active_parameters = model_active_parameters(&costs->config);
    return STATUS_OK;
}

static status keep_assumptions(const assumption_list *list, model_costs *costs, error_message *err)
{
    model_assumption *rows = arena_array(list->memory, (size_t)list->count, sizeof *rows);
    if (rows == NULL || list->failed) {
        return error_set(err, STATUS_NO_MEMORY, "out of memory for the list of assumptions");
    }
    for (int row = 0; row < list->count; row++) {
        rows[row] = list->rows[row];
    }
    costs->assumptions = rows;
    costs->assumption_count = list->count;
    return STATUS_OK;
}

status model_costs_build(const model_config *config, const model_hardware *hardware,
                         const model_training *training, const char *config_origin,
                         const char *hardware_origin, arena *memory, model_costs *costs,
                         error_message *err)
{
    model_costs built = {.config = *config, .hardware = *hardware};
    assumption_list list = {.memory = memory};
    const char *config_text = arena_string(memory, config_origin);
    const char *hardware_text = arena_string(memory, hardware_origin);
    if (config_text == NULL || hardware_text == NULL) {
        return error_set(err, STATUS_NO_MEMORY, "out of memory");
    }
    assume_model(config, config_text, &list);
    TRY(choose_shape(config, training, &list, &built.shape, err));
    TRY(choose_state_bytes(training, &built.shape, &list, &built.state_bytes_per_parameter, err));
    if (hardware->flop_per_s[built.shape.dtype] == 0) {
        return error_set(err, STATUS_INVALID, "hardware '%.80s' has no flop_per_s for dtype %s",
                         hardware->name, model_dtype_name(built.shape.dtype));
    }
    assume_hardware(hardware, &built.shape, hardware_text, &list);
    assume_absences(&list);
    TRY(fill_costs(&built, memory, err));
    TRY(keep_assumptions(&list, &built, err));
    *costs = built;
    return STATUS_OK;
}

status model_costs_from_files(const char *config_name_or_path, const char *hardware_name_or_path,
                              const model_training *training, arena *memory, model_costs *costs,
                              error_message *err)
{
    model_config config;
    model_hardware hardware;
    TRY(model_config_open(config_name_or_path, memory, &config, err));
    TRY(model_hardware_open(hardware_name_or_path, memory, &hardware, err));
    return model_costs_build(&config, &hardware, training, config_name_or_path,
                             hardware_name_or_path, memory, costs, err);
}
