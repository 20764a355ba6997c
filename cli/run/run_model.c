/// What `dynmo run` trains.
#include "cli/run/run.h"

#include "base/file.h"
#include "base/json.h"
#include "models/cost/config.h"

#include <string.h>

enum { KEYS_MAX = 12, INTEGER_MAX = 1 << 30 };

/// A number or a choice that "execution" may give, and where it goes.
typedef struct number_key {
    const char *name;
    enum { TO_INT, TO_FLOAT, TO_DOUBLE, TO_BOOL } kind;
    void *value;
} number_key;

static status read_number(json_value value, const number_key *key, error_message *err)
{
    double number = 0;
    if (json_is_missing(value)) return STATUS_OK;
    if (key->kind == TO_BOOL) return json_bool(value, key->value, err);
    if (key->kind == TO_INT) return json_int(value, 0, INTEGER_MAX, key->value, err);
    TRY(json_double(value, -1e9, 1e9, &number, err));
    if (key->kind == TO_FLOAT) {
        *(float *)key->value = (float)number;
    } else {
        *(double *)key->value = number;
    }
    return STATUS_OK;
}

/// Reads an object of numbers.
///
/// @param other [other_count] keys that are read elsewhere
static status read_numbers(json_value object, const number_key *keys, int key_count,
                           const char *const *other, int other_count, error_message *err)
{
    const char *allowed[KEYS_MAX * 2];
    for (int key = 0; key < key_count; key++) {
        allowed[key] = keys[key].name;
    }
    for (int key = 0; key < other_count; key++) {
        allowed[key_count + key] = other[key];
    }
    TRY(json_check_keys(object, allowed, key_count + other_count, err));
    for (int key = 0; key < key_count; key++) {
        TRY(read_number(json_member(object, keys[key].name), &keys[key], err));
    }
    return STATUS_OK;
}

/// The numbers of a mechanism. [*count]
static void list_mechanism_keys(exec_model *model, number_key keys[KEYS_MAX], int *count)
{
    const number_key moe[] = {{"expert_count", TO_INT, &model->moe.expert_count},
                              {"top_k", TO_INT, &model->moe.top_k},
                              {"expert_width", TO_INT, &model->moe.expert_width},
                              {"balance", TO_DOUBLE, &model->moe.balance}};
    const number_key mod[] = {{"capacity_ratio", TO_DOUBLE, &model->mod.capacity_ratio},
                              {"every", TO_INT, &model->mod.every}};
    const number_key early_exit[] = {
        {"threshold", TO_DOUBLE, &model->early_exit.threshold},
        {"settle_iterations", TO_INT, &model->early_exit.settle_iterations},
        {"first_exit", TO_INT, &model->early_exit.first_exit}};
    exec_pruning_options *pruned = &model->pruning;
    const number_key pruning[] = {{"start_iteration", TO_INT, &pruned->start_iteration},
                                  {"end_iteration", TO_INT, &pruned->end_iteration},
                                  {"interval", TO_INT, &pruned->interval},
                                  {"initial_sparsity", TO_DOUBLE, &pruned->initial_sparsity},
                                  {"final_sparsity", TO_DOUBLE, &pruned->final_sparsity},
                                  {"gathers", TO_BOOL, &pruned->gathers},
                                  {"compress_density", TO_DOUBLE, &pruned->compress_density}};
    const number_key freezing[] = {{"interval", TO_INT, &model->freezing.interval},
                                   {"start_iteration", TO_INT, &model->freezing.start_iteration},
                                   {"tolerance", TO_DOUBLE, &model->freezing.tolerance},
                                   {"patience", TO_INT, &model->freezing.patience},
                                   {"largest_share", TO_DOUBLE, &model->freezing.largest_share}};
    const number_key sparse_attention[] = {
        {"bit_count", TO_INT, &model->sparse_attention.bit_count},
        {"affinity", TO_DOUBLE, &model->sparse_attention.affinity},
        {"block_rows", TO_INT, &model->sparse_attention.block_rows}};
    const struct {
        const number_key *keys;
        int count;
    } lists[EXEC_MECHANISM_COUNT] = {
        [EXEC_MOE] = {moe, sizeof moe / sizeof moe[0]},
        [EXEC_MOD] = {mod, sizeof mod / sizeof mod[0]},
        [EXEC_EARLY_EXIT] = {early_exit, sizeof early_exit / sizeof early_exit[0]},
        [EXEC_PRUNING] = {pruning, sizeof pruning / sizeof pruning[0]},
        [EXEC_FREEZING] = {freezing, sizeof freezing / sizeof freezing[0]},
        [EXEC_SPARSE_ATTENTION] = {sparse_attention,
                                   sizeof sparse_attention / sizeof sparse_attention[0]},
    };
    *count = lists[model->mechanism].count;
    if (*count > 0) memcpy(keys, lists[model->mechanism].keys, (size_t)*count * sizeof keys[0]);
}

static status read_mechanism(json_value mechanism, exec_model *model, error_message *err)
{
    static const char *const name_key[] = {"name"};
    number_key keys[KEYS_MAX];
    int key_count = 0;
    const char *name = NULL;
    if (json_is_missing(mechanism)) return STATUS_OK;
    const json_value named = json_member(mechanism, "name");
    TRY(json_string(named, &name, err));
    int found = 0;
    while (found < EXEC_MECHANISM_COUNT && strcmp(name, exec_mechanism_names[found]) != 0) {
        found++;
    }
    if (found == EXEC_MECHANISM_COUNT) {
        char suggestion[TEXT_SUGGESTION_BYTES];
        return json_error(
            named, STATUS_FORMAT, err, "unknown mechanism '%.40s'%s", name,
            text_suggestion(name, exec_mechanism_names, EXEC_MECHANISM_COUNT, suggestion));
    }
    model->mechanism = (exec_mechanism)found;
    list_mechanism_keys(model, keys, &key_count);
    return read_numbers(mechanism, keys, key_count, name_key, 1, err);
}

static status read_execution(json_value execution, exec_model *model, const char **text,
                             error_message *err)
{
    static const char *const other[] = {"text", "seed", "mechanism"};
    const number_key keys[] = {{"learning_rate", TO_FLOAT, &model->learning_rate},
                               {"beta1", TO_FLOAT, &model->beta1},
                               {"beta2", TO_FLOAT, &model->beta2},
                               {"epsilon", TO_FLOAT, &model->epsilon},
                               {"weight_decay", TO_FLOAT, &model->weight_decay},
                               {"clip_norm", TO_FLOAT, &model->clip_norm}};
    int64_t seed = (int64_t)model->seed;
    if (json_is_missing(execution)) return STATUS_OK;
    TRY(read_numbers(execution, keys, sizeof keys / sizeof keys[0], other,
                     sizeof other / sizeof other[0], err));
    const json_value named = json_member(execution, "text");
    const json_value seeded = json_member(execution, "seed");
    if (!json_is_missing(named)) TRY(json_string(named, text, err));
    if (!json_is_missing(seeded)) TRY(json_int64(seeded, 0, JSON_INTEGER_MAX, &seed, err));
    model->seed = (uint64_t)seed;
    return read_mechanism(json_member(execution, "mechanism"), model, err);
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
    if (strcmp(config.model_type, "gpt2") != 0 || config.expert_count > 0) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: device %s trains models of type gpt2 only, not %s", study->model,
                         request->device, config.model_type);
    }
    if (config.vocabulary_size != 256) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: device %s trains on bytes: vocab_size must be 256, not %d",
                         study->model, request->device, config.vocabulary_size);
    }
    model->block_count =
        study->transformer_layer_count > 0 ? study->transformer_layer_count : config.layer_count;
    model->width = config.hidden_size;
    model->head_count = config.head_count;
    model->hidden_width = config.ffn_size;
    model->vocabulary = config.vocabulary_size;
    model->sequence_length = opened->setup.model_costs.shape.sequence_length;
    model->microbatch_size = opened->setup.model_costs.shape.microbatch_size;
    if (config.position_count > 0 && model->sequence_length > config.position_count) {
        return error_set(err, STATUS_INVALID, "%s: sequence_length %d exceeds n_positions %d",
                         study->model, model->sequence_length, config.position_count);
    }
    return STATUS_OK;
}

status cli_run_model_read(const cli_run_request *request, const cli_run_study *opened,
                          arena *memory, exec_model *model, const char **text, error_message *err)
{
    exec_model read = exec_model_default();
    const char *named = NULL;
    TRY(read_sizes(request, opened, memory, &read, err));
    TRY(read_execution(opened->study.execution, &read, &named, err));
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
