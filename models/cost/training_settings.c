#include "models/cost/cost_model.h"

enum {
    SEQUENCE_LENGTH_MAX = 1 << 24,
    SEQUENCE_LENGTH_DEFAULT = 2048,
    MICROBATCH_SIZE_MAX = 1 << 16,
    STATE_BYTES_MAX = 1024,
    GRADIENT_BYTES_DEFAULT = 4,
    LAYERS_MAX = 1 << 14
};

/// @param value 0: not given
static status check_given(const char *name, int value, int max, error_message *err)
{
    return value == 0 ? STATUS_OK : check_int_range(name, value, 1, max, err);
}

/// Layers beyond the model's own are like its last one.
static status choose_layers(const model_training *training, arena *memory, model_config *config,
                            error_message *err)
{
    TRY(check_given("layer_count", training->layer_count, LAYERS_MAX, err));
    const int own = config->layer_count;
    const int wanted = training->layer_count;
    if (wanted == 0 || wanted == own) return STATUS_OK;
    bool *is_moe = arena_array(memory, (size_t)wanted, sizeof *is_moe);
    unsigned char *parts = arena_array(memory, (size_t)wanted, sizeof *parts);
    for (int layer = 0; layer < wanted; layer++) {
        is_moe[layer] = config->is_moe[layer < own ? layer : own - 1];
        if (config->layer_parts == NULL) continue;
        parts[layer] = config->layer_parts[layer < own ? layer : own - 1];
    }
    if (config->layer_parts != NULL) config->layer_parts = parts;
    config->layer_count = wanted;
    config->is_moe = is_moe;
    return STATUS_OK;
}

static void assume_model(const model_config *config, const char *origin,
                         model_assumption_list *list)
{
    model_assume(list, "model", MODEL_ORIGIN_GIVEN, origin, "%s, %d layers, hidden %d, %d/%d heads",
                 config->model_type, config->layer_count, config->hidden_size, config->head_count,
                 config->kv_head_count);
    model_assume(list, "dropout", MODEL_ORIGIN_GIVEN, origin, "%s",
                 config->has_residual_dropout || config->has_attention_dropout ? "masks kept"
                                                                               : "none");
    if (config->expert_count > 0) {
        model_assume(list, "routing", MODEL_ORIGIN_ASSUMED, "no trace of the router",
                     "%d of %d experts per token, all experts alike, none dropped",
                     config->expert_top_k, config->expert_count);
    }
    if (config->prediction_layer_count > 0) {
        model_assume(list, "prediction layers", MODEL_ORIGIN_GIVEN, origin,
                     "%d beside the head, each a layer like the last and the head once more",
                     config->prediction_layer_count);
    }
}

static status choose_sequence_length(const model_config *config, const model_training *training,
                                     model_assumption_list *list, model_shape *shape,
                                     error_message *err)
{
    const int longest = config->position_count;
    TRY(check_given("sequence_length", training->sequence_length, SEQUENCE_LENGTH_MAX, err));
    shape->sequence_length = training->sequence_length;
    if (training->sequence_length > 0) {
        if (longest > 0 && training->sequence_length > longest) {
            return error_set(err, STATUS_INVALID,
                             "sequence_length %d exceeds the %d positions of the model",
                             training->sequence_length, longest);
        }
        model_assume(list, "sequence_length", MODEL_ORIGIN_GIVEN, "", "%d", shape->sequence_length);
        return STATUS_OK;
    }
    const bool is_short = longest > 0 && longest < SEQUENCE_LENGTH_DEFAULT;
    shape->sequence_length = is_short ? longest : SEQUENCE_LENGTH_DEFAULT;
    model_assume(list, "sequence_length", MODEL_ORIGIN_ASSUMED,
                 is_short ? "the positions of the model" : "default", "%d", shape->sequence_length);
    return STATUS_OK;
}

static status choose_dtype(const model_training *training, const model_hardware *hardware,
                           model_assumption_list *list, model_shape *shape, error_message *err)
{
    const bool has_dtype = training->dtype != MODEL_DTYPE_UNKNOWN;
    shape->dtype = has_dtype ? training->dtype : MODEL_DTYPE_BFLOAT16;
    const model_dtype needed[] = {shape->dtype, model_dtype_wide(shape->dtype)};
    for (size_t dtype = 0; dtype < sizeof needed / sizeof needed[0]; dtype++) {
        if (hardware->flop_per_s[needed[dtype]] > 0) continue;
        return error_set(err, STATUS_INVALID, "hardware '%.80s' has no flop_per_s for dtype %s",
                         hardware->name, model_dtype_name(needed[dtype]));
    }
    model_assume(list, "dtype", has_dtype ? MODEL_ORIGIN_GIVEN : MODEL_ORIGIN_ASSUMED,
                 has_dtype ? "" : "default, whatever the checkpoint is kept in", "%s%s",
                 model_dtype_name(shape->dtype),
                 shape->dtype == MODEL_DTYPE_FLOAT8 ? " products of layers, all else bfloat16"
                                                    : "");
    return STATUS_OK;
}

/// Fills in what the training leaves open of a microbatch.
static status choose_shape(const model_config *config, const model_training *training,
                           const model_hardware *hardware, model_assumption_list *list,
                           model_shape *shape, error_message *err)
{
    TRY(choose_sequence_length(config, training, list, shape, err));
    TRY(check_given("microbatch_size", training->microbatch_size, MICROBATCH_SIZE_MAX, err));
    const bool has_size = training->microbatch_size > 0;
    shape->microbatch_size = has_size ? training->microbatch_size : 1;
    model_assume(list, "microbatch_size", has_size ? MODEL_ORIGIN_GIVEN : MODEL_ORIGIN_ASSUMED,
                 has_size ? "" : "default", "%d", shape->microbatch_size);
    TRY(choose_dtype(training, hardware, list, shape, err));

    const bool has_attention = training->attention != NULL;
    shape->attention =
        has_attention ? model_attention_find(training->attention) : MODEL_ATTENTION_FLASH;
    if (shape->attention == MODEL_ATTENTION_COUNT) {
        return error_set(err, STATUS_INVALID,
                         "attention '%.60s' is none of flash, flash-2 and unfused",
                         training->attention);
    }
    const bool is_unfused = shape->attention == MODEL_ATTENTION_UNFUSED;
    model_assume(list, "attention", has_attention ? MODEL_ORIGIN_GIVEN : MODEL_ORIGIN_ASSUMED,
                 has_attention ? "" : "default", "%s, %s what the %smask hides",
                 model_attention_names[shape->attention], is_unfused ? "computes" : "skips",
                 is_unfused ? "" : "causal ");
    return STATUS_OK;
}

static status choose_state_bytes(const model_training *training, const model_shape *shape,
                                 model_assumption_list *list, model_training_choice *choice,
                                 error_message *err)
{
    enum { MASTER = 4, MOMENTS = 8 };
    const int given = training->state_bytes_per_parameter;
    const int given_gradient = training->gradient_bytes_per_parameter;
    TRY(check_given("state_bytes_per_parameter", given, STATE_BYTES_MAX, err));
    TRY(check_given("gradient_bytes_per_parameter", given_gradient, STATE_BYTES_MAX, err));
    const int weight = model_dtype_bytes(model_dtype_wide(shape->dtype));
    const int gradient = given_gradient > 0 ? given_gradient : GRADIENT_BYTES_DEFAULT;
    const int usual = weight + gradient + MOMENTS + (weight < 4 ? MASTER : 0);
    const int all = given > 0 ? given : usual;
    if (all < weight + gradient && shape->parallel.sharding != MODEL_SHARDING_NONE) {
        return error_set(err, STATUS_INVALID,
                         "state_bytes_per_parameter %d is below the %d of a weight and the %d of "
                         "its gradient, which sharding tells apart",
                         all, weight, gradient);
    }
    const int rest = all - weight - gradient;
    choice->state_bytes_per_parameter = all;
    choice->parameter_bytes =
        (model_parameter_bytes){.weight = weight, .gradient = gradient, .optimizer = rest};
    model_assume(list, "state_bytes_per_parameter",
                 given > 0 ? MODEL_ORIGIN_GIVEN : MODEL_ORIGIN_ASSUMED,
                 given > 0 ? ""
                           : "Adam: weight, gradient, 32-bit moments, and a 32-bit copy of a "
                             "16-bit weight",
                 "%d", all);
    model_assume(list, "gradient_bytes_per_parameter",
                 given_gradient > 0 ? MODEL_ORIGIN_GIVEN : MODEL_ORIGIN_ASSUMED,
                 given_gradient > 0 ? "" : "default", "%d", gradient);
    return STATUS_OK;
}

/// Lists a choice: given, or the default for a reason.
static void assume_choice(model_assumption_list *list, const char *name, bool is_given,
                          const char *reason, const char *value)
{
    model_assume(list, name, is_given ? MODEL_ORIGIN_GIVEN : MODEL_ORIGIN_ASSUMED,
                 is_given ? "" : reason, "%s", value);
}

static void assume_parallel(const model_parallel *parallel, model_assumption_list *list)
{
    const bool is_alone = parallel->data == 1 && parallel->tensor == 1 && parallel->context == 1;
    model_assume(list, "parallelism", is_alone ? MODEL_ORIGIN_ASSUMED : MODEL_ORIGIN_GIVEN,
                 is_alone ? "default" : "", "data %d, tensor %d%s, context %d, expert %d",
                 parallel->data, parallel->tensor, parallel->sequence ? " with sequence" : "",
                 parallel->context, parallel->expert);
    if (parallel->expert_tensor != parallel->tensor) {
        model_assume(list, "expert_tensor_parallel", MODEL_ORIGIN_GIVEN, "", "%d",
                     parallel->expert_tensor);
    }
    assume_choice(list, "recompute", parallel->recompute != MODEL_RECOMPUTE_NONE, "default",
                  model_recompute_names[parallel->recompute]);
    assume_choice(list, "sharding", parallel->sharding != MODEL_SHARDING_NONE, "default",
                  model_sharding_names[parallel->sharding]);
    if (parallel->eager) {
        model_assume(list, "layers", MODEL_ORIGIN_GIVEN, "", "operator by operator%s",
                     parallel->fused_norms ? " but norms and rotation" : "");
    }
    if (parallel->eager_loss) {
        model_assume(list, "loss", MODEL_ORIGIN_GIVEN, "", "operator by operator");
    }
    if (parallel->blocking_launches) {
        model_assume(list, "launches", MODEL_ORIGIN_GIVEN, "", "the host waits for each kernel");
    }
    if (parallel->cuda_graphs) {
        model_assume(list, "cuda_graphs", MODEL_ORIGIN_GIVEN, "", "of whole iterations");
    }
    if (is_alone) return;
    assume_choice(list, "rank_order", parallel->order != MODEL_RANK_ORDER_DATA_FIRST, "default",
                  model_rank_order_names[parallel->order]);
}

static void assume_groups(const model_parallel *parallel, const model_hardware *hardware,
                          model_assumption_list *list)
{
    const model_groups groups = model_parallel_groups(parallel, hardware);
    if (groups.tensor.node_rank_count == groups.tensor.rank_count) return;
    model_assume(list, "tensor group", MODEL_ORIGIN_ASSUMED, "as its degree says",
                 "%d GPUs on nodes of %d: every collective of a layer crosses nodes",
                 groups.tensor.rank_count, groups.tensor.node_rank_count);
}

status model_training_choose(const model_training *training, const model_config *config,
                             const char *origin, const model_hardware *hardware,
                             model_assumption_list *list, model_training_choice *choice,
                             error_message *err)
{
    model_training_choice chosen = {.config = *config};
    chosen.shape.parallel = model_parallel_filled(training->parallel);
    TRY(choose_layers(training, list->memory, &chosen.config, err));
    assume_model(&chosen.config, origin, list);
    TRY(choose_shape(&chosen.config, training, hardware, list, &chosen.shape, err));
    TRY(choose_state_bytes(training, &chosen.shape, list, &chosen, err));
    if (chosen.shape.parallel.cuda_graphs && chosen.shape.parallel.blocking_launches) {
        return error_set(err, STATUS_INVALID,
                         "cuda_graphs: with blocking_launches the host starts each kernel");
    }
    TRY(model_parallel_check(&chosen.shape.parallel, &chosen.config, err));
    TRY(model_parallel_check_sequence(&chosen.shape.parallel, chosen.shape.sequence_length, err));
    assume_parallel(&chosen.shape.parallel, list);
    assume_groups(&chosen.shape.parallel, hardware, list);
    *choice = chosen;
    return STATUS_OK;
}
