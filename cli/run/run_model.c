/// What `dynmo run` trains.
#include "cli/run/run.h"

#include "base/file.h"
#include "base/json.h"
#include "models/cost/config.h"

#include <stddef.h>
#include <string.h>

enum { INTEGER_MAX = 1 << 30, EVERY_MECHANISM = EXEC_MECHANISM_COUNT };

#define MODEL(member) offsetof(exec_model, member)

/// The numbers and choices that "execution" may give, and below it those of each mechanism.
static const struct number_key {
    int mechanism; // EVERY_MECHANISM: of "execution" itself
    const char *name;
    enum { TO_INT, TO_FLOAT, TO_DOUBLE, TO_ORDER, TO_MEASURE } kind;
    size_t offset; // in exec_model
} number_keys[] = {
    {EVERY_MECHANISM, "learning_rate", TO_FLOAT, MODEL(learning_rate)},
    {EVERY_MECHANISM, "beta1", TO_FLOAT, MODEL(beta1)},
    {EVERY_MECHANISM, "beta2", TO_FLOAT, MODEL(beta2)},
    {EVERY_MECHANISM, "epsilon", TO_FLOAT, MODEL(epsilon)},
    {EVERY_MECHANISM, "weight_decay", TO_FLOAT, MODEL(weight_decay)},
    {EVERY_MECHANISM, "clip_norm", TO_FLOAT, MODEL(clip_norm)},
    {EXEC_MOE, "expert_count", TO_INT, MODEL(moe.expert_count)},
    {EXEC_MOE, "top_k", TO_INT, MODEL(moe.top_k)},
    {EXEC_MOE, "expert_width", TO_INT, MODEL(moe.expert_width)},
    {EXEC_MOE, "balance", TO_DOUBLE, MODEL(moe.balance)},
    {EXEC_MOE, "sinkhorn_rounds", TO_INT, MODEL(moe.sinkhorn_rounds)},
    {EXEC_MOD, "capacity_ratio", TO_DOUBLE, MODEL(mod.capacity_ratio)},
    {EXEC_MOD, "every", TO_INT, MODEL(mod.every)},
    {EXEC_EARLY_EXIT, "measure", TO_MEASURE, MODEL(early_exit)},
    {EXEC_EARLY_EXIT, "target_cosine", TO_DOUBLE, MODEL(early_exit.target_cosine)},
    {EXEC_EARLY_EXIT, "threshold", TO_DOUBLE, MODEL(early_exit.threshold)},
    {EXEC_EARLY_EXIT, "settle_iterations", TO_INT, MODEL(early_exit.settle_iterations)},
    {EXEC_EARLY_EXIT, "first_exit", TO_INT, MODEL(early_exit.first_exit)},
    {EXEC_PRUNING, "start_iteration", TO_INT, MODEL(pruning.start_iteration)},
    {EXEC_PRUNING, "end_iteration", TO_INT, MODEL(pruning.end_iteration)},
    {EXEC_PRUNING, "interval", TO_INT, MODEL(pruning.interval)},
    {EXEC_PRUNING, "initial_sparsity", TO_DOUBLE, MODEL(pruning.initial_sparsity)},
    {EXEC_PRUNING, "final_sparsity", TO_DOUBLE, MODEL(pruning.final_sparsity)},
    {EXEC_PRUNING, "csr_from", TO_DOUBLE, MODEL(pruning.csr_from)},
    {EXEC_FREEZING, "interval", TO_INT, MODEL(freezing.interval)},
    {EXEC_FREEZING, "start_iteration", TO_INT, MODEL(freezing.start_iteration)},
    {EXEC_FREEZING, "tolerance", TO_DOUBLE, MODEL(freezing.tolerance)},
    {EXEC_FREEZING, "patience", TO_INT, MODEL(freezing.patience)},
    {EXEC_FREEZING, "largest_share", TO_DOUBLE, MODEL(freezing.largest_share)},
    {EXEC_SPARSE_ATTENTION, "order", TO_ORDER, MODEL(sparse_attention.order)},
    {EXEC_SPARSE_ATTENTION, "bit_count", TO_INT, MODEL(sparse_attention.bit_count)},
    {EXEC_SPARSE_ATTENTION, "affinity", TO_DOUBLE, MODEL(sparse_attention.affinity)},
    {EXEC_SPARSE_ATTENTION, "block_rows", TO_INT, MODEL(sparse_attention.block_rows)},
};
enum { NUMBER_KEYS = sizeof number_keys / sizeof number_keys[0] };

/// The number of a name among names.
static status read_name(json_value named, const char *what, const char *const *names,
                        int name_count, int *number, error_message *err)
{
    const char *name = NULL;
    char suggestion[TEXT_SUGGESTION_BYTES];
    TRY(json_string(named, &name, err));
    for (int found = 0; found < name_count; found++) {
        if (strcmp(name, names[found]) != 0) continue;
        *number = found;
        return STATUS_OK;
    }
    return json_error(named, STATUS_FORMAT, err, "unknown %s '%.40s'%s", what, name,
                      text_suggestion(name, names, name_count, suggestion));
}

static status read_number(json_value value, const struct number_key *key, exec_model *model,
                          error_message *err)
{
    void *place = (char *)model + key->offset;
    double number = 0;
    if (json_is_missing(value)) return STATUS_OK;
    if (key->kind == TO_ORDER) {
        return read_name(value, key->name, exec_row_order_names, EXEC_ROW_ORDER_COUNT, place, err);
    }
    if (key->kind == TO_MEASURE) { // has defaults of its own; keys that follow are read after it
        int measure = 0;
        TRY(read_name(value, key->name, exec_exit_measure_names, EXEC_EXIT_MEASURE_COUNT, &measure,
                      err));
        model->early_exit = exec_early_exit_options_default((exec_exit_measure)measure);
        return STATUS_OK;
    }
    if (key->kind == TO_INT) return json_int(value, 0, INTEGER_MAX, place, err);
    TRY(json_double(value, -1e9, 1e9, &number, err));
    if (key->kind == TO_FLOAT) {
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
    const char *allowed[NUMBER_KEYS + 4];
    int allowed_count = 0;
    for (int key = 0; key < NUMBER_KEYS; key++) {
        if (number_keys[key].mechanism == mechanism) {
            allowed[allowed_count++] = number_keys[key].name;
        }
    }
    for (int key = 0; key < other_count; key++) {
        allowed[allowed_count++] = other[key];
    }
    TRY(json_check_keys(object, allowed, allowed_count, err));
    for (int key = 0; key < NUMBER_KEYS; key++) {
        if (number_keys[key].mechanism != mechanism) continue;
        TRY(read_number(json_member(object, number_keys[key].name), &number_keys[key], model, err));
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
    TRY(read_numbers(execution, EVERY_MECHANISM, other, sizeof other / sizeof other[0], model,
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
    bool is_known = false;
    for (size_t family = 0; family < sizeof families / sizeof families[0]; family++) {
        is_known = is_known || strcmp(config->model_type, families[family]) == 0;
    }
    if (!is_known) return "models of type gpt2, llama, mistral, mixtral and qwen2 only";
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
    TRY(model_config_open_changed(study->model, study->model_changes, memory, &config, err));
    const char *missing = missing_feature(&config);
    if (missing != NULL) {
        return error_set(err, STATUS_UNSUPPORTED, "%s: device %s trains %s; this is a %s",
                         study->model, request->device, missing, config.model_type);
    }
    model->block_count =
        study->transformer_layer_count > 0 ? study->transformer_layer_count : config.layer_count;
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
        return error_set(err, STATUS_INVALID,
                         "%s: device %s needs a text to train on: --text FILE, or "
                         "\"execution\":{\"text\":FILE}",
                         request->path, request->device);
    }
    const status checked = exec_model_check(&read, err);
    if (checked != STATUS_OK) return error_prefix(err, checked, "%s", request->path);
    *model = read;
    return STATUS_OK;
}
