/// What `dynmo run` trains.
#include "cli/run/run.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "base/launcher.h"
#include "models/cost/config.h"

#include <string.h>

enum { INTEGER_MAX = 1 << 30 };

/// The number of a name among names.
static status read_name(json_value named, const char *what, const char *const *names,
                        int name_count, int *number, error_message *err)
{
    const char *name = NULL;
    char suggestion[TEXT_SUGGESTION_BYTES];
    TRY(json_string(named, &name, err));
    const int found = text_find(name, names, name_count);
    if (found < name_count) {
        *number = found;
        return STATUS_OK;
    }
    return json_error(named, STATUS_FORMAT, err, "unknown %s '%.40s'%s", what, name,
                      text_suggestion(name, names, name_count, suggestion));
}

static status read_number(json_value value, const exec_model_number *key, exec_model *model,
                          error_message *err)
{
    void *place = (char *)model + key->offset;
    double number = 0;
    if (json_is_missing(value)) return STATUS_OK;
    if (key->kind == EXEC_ROW_ORDER) {
        return read_name(value, key->name, exec_row_order_names, EXEC_ROW_ORDER_COUNT, place, err);
    }
    if (key->kind ==
        EXEC_EXIT_MEASURE) { // has defaults of its own; keys that follow are read after it
        int measure = 0;
        TRY(read_name(value, key->name, exec_exit_measure_names, EXEC_EXIT_MEASURE_COUNT, &measure,
                      err));
        model->early_exit = exec_early_exit_options_default((exec_exit_measure)measure);
        return STATUS_OK;
    }
    if (key->kind == EXEC_INT) return json_int(value, 0, INTEGER_MAX, place, err);
    TRY(json_double(value, -1e9, 1e9, &number, err));
    if (key->kind == EXEC_FLOAT) {
        *(float *)place = (float)number;
    } else {
        *(double *)place = number;
    }
    return STATUS_OK;
}

/// Reads the numbers of a mechanism, or of "execution".
///
/// @param other [other_count] keys that are read elsewhere
static status read_numbers(json_value object, int mechanism, const char *const *other,
                           int other_count, exec_model *model, error_message *err)
{
    const char *allowed[EXEC_MODEL_NUMBERS + 4];
    int allowed_count = 0;
    for (int key = 0; key < EXEC_MODEL_NUMBERS; key++) {
        const exec_model_number *number = &exec_model_numbers[key];
        if (number->mechanism == mechanism) allowed[allowed_count++] = number->name;
    }
    for (int key = 0; key < other_count; key++) {
        allowed[allowed_count++] = other[key];
    }
    TRY(json_check_keys(object, allowed, allowed_count, err));
    for (int key = 0; key < EXEC_MODEL_NUMBERS; key++) {
        const exec_model_number *number = &exec_model_numbers[key];
        if (number->mechanism != mechanism) continue;
        TRY(read_number(json_member(object, number->name), number, model, err));
    }
    return STATUS_OK;
}

/// Refuses a key that a mechanism has under another value only.
static status refuse_key(json_value mechanism, const char *name, const char *value,
                         error_message *err)
{
    const json_value given = json_member(mechanism, name);
    if (json_is_missing(given)) return STATUS_OK;
    return json_error(given, STATUS_INVALID, err, "given, but it is of %s", value);
}

static status read_mechanism(json_value mechanism, exec_model *model, error_message *err)
{
    const bool has_experts = model->mechanism == EXEC_MOE;
    static const char *const name_key[] = {"name"};
    int found = EXEC_DENSE;
    if (json_is_missing(mechanism)) return STATUS_OK;
    const json_value named = json_member(mechanism, "name");
    TRY(read_name(named, "mechanism", exec_mechanism_names, EXEC_MECHANISM_COUNT, &found, err));
    if (has_experts && found != EXEC_MOE) {
        return json_error(named, STATUS_UNSUPPORTED, err,
                          "'%s', but the model's layers have experts", exec_mechanism_names[found]);
    }
    model->mechanism = (exec_mechanism)found;
    TRY(read_numbers(mechanism, found, name_key, 1, model, err));
    if (model->sparse_attention.order != EXEC_ROWS_AS_TEXT) {
        TRY(refuse_key(mechanism, "affinity", "\"order\":\"text\"", err));
    }
    if (model->early_exit.measure == EXEC_EXIT_CLASSIFIER) return STATUS_OK;
    return refuse_key(mechanism, "target_cosine", "\"measure\":\"classifier\"", err);
}

static status read_execution(json_value execution, exec_model *model, const char **text,
                             int *token_bytes, error_message *err)
{
    static const char *const other[] = {"text", "token_bytes", "seed", "mechanism"};
    int64_t seed = (int64_t)model->seed;
    if (json_is_missing(execution)) return STATUS_OK;
    TRY(read_numbers(execution, EXEC_MECHANISM_COUNT, other, sizeof other / sizeof other[0], model,
                     err));
    const json_value named = json_member(execution, "text");
    const json_value seeded = json_member(execution, "seed");
    const json_value sized = json_member(execution, "token_bytes");
    if (!json_is_missing(named)) TRY(json_string(named, text, err));
    if (!json_is_missing(sized)) TRY(json_int(sized, 1, 4, token_bytes, err));
    if (*token_bytes == 3) return json_error(sized, STATUS_FORMAT, err, "3 is not 1, 2 or 4");
    if (!json_is_missing(seeded)) TRY(json_int64(seeded, 0, JSON_INTEGER_MAX, &seed, err));
    model->seed = (uint64_t)seed;
    return read_mechanism(json_member(execution, "mechanism"), model, err);
}

/// What the executor has not of a model; NULL: it has all.
static const char *missing_feature(const model_config *config)
{
    static const char *const families[] = {"gpt2", "llama", "mistral", "mixtral", "qwen2"};
    const int family_count = sizeof families / sizeof families[0];
    if (text_find(config->model_type, families, family_count) == family_count)
        return "models of type gpt2, llama, mistral, mixtral and qwen2 only";
    if (config->prediction_layer_count > 0) return "models without multi-token prediction only";
    if (config->sliding_window > 0) return "models without a sliding window only";
    for (int layer = 0; config->expert_count > 0 && layer < config->layer_count; layer++) {
        if (!config->is_moe[layer]) return "models with experts in all layers or in none only";
    }
    return NULL;
}

/// What blocks are made of.
static void read_blocks(const model_config *config, exec_model *model)
{
    model->width = config->hidden_size;
    model->head_count = config->head_count;
    model->head_width = config->query_key_dim;
    model->kv_head_count = config->kv_head_count;
    model->hidden_width = config->ffn_size;
    model->vocabulary = config->vocabulary_size;
    model->rotary_base = config->rotary_base;
    model->has_rms_norm = config->norm == MODEL_NORM_RMS;
    model->is_gated = config->has_gated_mlp;
    model->lacks_query_key_value_bias = !config->has_query_key_value_bias;
    model->lacks_attention_output_bias = !config->has_attention_output_bias;
    model->lacks_mlp_bias = !config->has_mlp_bias;
    if (config->expert_count == 0) return;
    model->mechanism = EXEC_MOE;
    model->moe.expert_count = config->expert_count;
    model->moe.top_k = config->expert_top_k;
    model->moe.expert_width = config->expert_ffn_size;
}

/// Weights, gradients and two moments in 32 bits of all replicas, where all ranks are threads here.
static status check_room(const cli_run_request *request, const ana_study *study,
                         const model_config *config, error_message *err)
{
    enum { STATE_BYTES = 16 };
    const double parameters = (double)model_total_parameters(config) * study->parallel.data;
    const double half = memory_half_of_machine();
    if (strcmp(request->device, "cpu") != 0 || launcher_process_count(NULL) > 1) return STATUS_OK;
    if (parameters * STATE_BYTES <= half) return STATUS_OK;
    return error_set(err, STATUS_INFEASIBLE,
                     "%s: device cpu keeps %.1f GB for the state of %.3g parameters, half of this "
                     "machine's memory is %.1f GB",
                     request->path, parameters * STATE_BYTES / 1e9, parameters, half / 1e9);
}

/// The sizes of the study's model, which must be one that the executor has.
static status read_sizes(const cli_run_request *request, const cli_run_study *opened, arena *memory,
                         exec_model *model, error_message *err)
{
    const ana_study *study = &opened->study;
    model_config config;
    if (study->model == NULL) {
        return error_set(err, STATUS_INVALID,
                         "%s: device %s trains a model; the study needs \"model\", or --model",
                         request->path, request->device);
    }
    TRY(model_config_open(study->model, study->model_changes, memory, &config, err));
    const char *missing = missing_feature(&config);
    if (missing != NULL) {
        return error_set(err, STATUS_UNSUPPORTED, "%s: device %s trains %s; this is a %s",
                         study->model, request->device, missing, config.model_type);
    }
    model->block_count =
        study->transformer_layer_count > 0 ? study->transformer_layer_count : config.layer_count;
    config.layer_count = model->block_count;
    TRY(check_room(request, study, &config, err));
    read_blocks(&config, model);
    model->sequence_length = opened->setup.model_costs.shape.sequence_length;
    model->microbatch_size = opened->setup.model_costs.shape.microbatch_size;
    model->moe.expert_parallel = study->parallel.expert;
    model->recomputes = study->parallel.recompute == MODEL_RECOMPUTE_FULL;
    if (config.position_count > 0 && model->sequence_length > config.position_count) {
        return error_set(err, STATUS_INVALID, "%s: sequence_length %d exceeds n_positions %d",
                         study->model, model->sequence_length, config.position_count);
    }
    return STATUS_OK;
}

status cli_run_model_read(const cli_run_request *request, const cli_run_study *opened,
                          arena *memory, exec_model *model, const char **text, int *token_bytes,
                          error_message *err)
{
    exec_model read = exec_model_default();
    const char *named = NULL;
    TRY(read_sizes(request, opened, memory, &read, err));
    TRY(read_execution(opened->study.execution, &read, &named, token_bytes, err));
    if (request->text != NULL) {
        *text = request->text;
    } else if (named != NULL) {
        *text = file_path_beside(request->path, named, memory);
    } else {
        TRY(refuse_key(opened->study.execution, "token_bytes", "a text", err));
        *text = NULL;
    }
    const status checked = exec_model_check(&read, err);
    if (checked != STATUS_OK) return error_prefix(err, checked, "%s", request->path);
    *model = read;
    return STATUS_OK;
}
