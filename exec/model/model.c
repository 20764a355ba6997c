#include "exec/model/model.h"

#include <math.h>

const char *const exec_mechanism_names[EXEC_MECHANISM_COUNT] = {
    "none", "moe", "mod", "early-exit", "pruning", "freezing", "sparse-attention"};

enum {
    BLOCK_MAX = 4096,
    WIDTH_MAX = 16384,
    HEAD_WIDTH_MAX = 1024,
    HIDDEN_WIDTH_MAX = 65536,
    VOCABULARY_MAX = 1 << 20,
    SEQUENCE_MAX = 1 << 16,
    MICROBATCH_MAX = 1 << 12
};

exec_model exec_model_default(void)
{
    return (exec_model){
        .block_count = 8,
        .width = 64,
        .head_count = 4,
        .vocabulary = 256,
        .sequence_length = 64,
        .microbatch_size = 4,
        .seed = 1,
        .learning_rate = 3e-3F,
        .beta1 = 0.9F,
        .beta2 = 0.95F,
        .epsilon = 1e-8F,
        .weight_decay = 0.1F,
        .clip_norm = 1.0F,
        .mechanism = EXEC_DENSE,
        .moe = exec_moe_options_default(),
        .mod = exec_mod_options_default(),
        .early_exit = exec_early_exit_options_default(EXEC_EXIT_SATURATION),
        .pruning = exec_pruning_options_default(),
        .freezing = exec_freezing_options_default(),
        .sparse_attention = exec_sparse_attention_options_default(),
    };
}

static status check_count(const char *name, int value, int low, int high, error_message *err)
{
    if (value >= low && value <= high) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%s %d is outside [%d, %d]", name, value, low, high);
}

/// @param limit the value must be below it
static status check_number(const char *name, float value, double limit, error_message *err)
{
    if (value >= 0 && (double)value < limit) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%s %g is outside [0, %g)", name, (double)value, limit);
}

static status check_heads(const exec_model *model, error_message *err)
{
    const int head_width = exec_model_head_width(model);
    TRY(check_count("head_width", model->head_width, 0, HEAD_WIDTH_MAX, err));
    TRY(check_count("kv_head_count", model->kv_head_count, 0, model->head_count, err));
    if (model->head_width == 0 && model->width % model->head_count != 0) {
        return error_set(err, STATUS_INVALID, "head_count %d does not divide width %d",
                         model->head_count, model->width);
    }
    if (model->kv_head_count > 0 && model->head_count % model->kv_head_count != 0) {
        return error_set(err, STATUS_INVALID, "kv_head_count %d does not divide head_count %d",
                         model->kv_head_count, model->head_count);
    }
    if (model->rotary_base == 0) return STATUS_OK;
    if (head_width % 2 != 0) {
        return error_set(err, STATUS_INVALID,
                         "heads of %d numbers: rotary positions need an even "
                         "number",
                         head_width);
    }
    return check_number("rotary_base", (float)model->rotary_base, 1e12, err);
}

static status check_sizes(const exec_model *model, error_message *err)
{
    TRY(check_count("block_count", model->block_count, 1, BLOCK_MAX, err));
    TRY(check_count("width", model->width, 1, WIDTH_MAX, err));
    TRY(check_count("head_count", model->head_count, 1, model->width, err));
    TRY(check_heads(model, err));
    TRY(check_count("hidden_width", model->hidden_width, 0, HIDDEN_WIDTH_MAX, err));
    TRY(check_count("vocabulary", model->vocabulary, 2, VOCABULARY_MAX, err));
    TRY(check_count("sequence_length", model->sequence_length, 1, SEQUENCE_MAX, err));
    TRY(check_count("packed_rows", model->packed_rows, 0, SEQUENCE_MAX, err));
    return check_count("microbatch_size", model->microbatch_size, 1, MICROBATCH_MAX, err);
}

static status check_optimizer(const exec_model *model, error_message *err)
{
    TRY(check_number("learning_rate", model->learning_rate, 1e3, err));
    TRY(check_number("beta1", model->beta1, 1, err));
    TRY(check_number("beta2", model->beta2, 1, err));
    TRY(check_number("epsilon", model->epsilon, 1, err));
    TRY(check_number("weight_decay", model->weight_decay, 1e3, err));
    return check_number("clip_norm", model->clip_norm, INFINITY, err);
}

static status check_mechanism(const exec_model *model, error_message *err)
{
    if (model->recomputes && model->mechanism == EXEC_EARLY_EXIT) {
        return error_set(err, STATUS_INVALID,
                         "early-exit: blocks that compute F again would find other tokens gone");
    }
    if (model->packed_rows > 0 && model->mechanism != EXEC_DENSE) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "packed documents of unlike length are trained without a mechanism");
    }
    switch (model->mechanism) {
    case EXEC_MOE:
        return exec_moe_options_check(&model->moe, exec_model_hidden_width(model), err);
    case EXEC_MOD:
        return exec_mod_options_check(&model->mod, err);
    case EXEC_EARLY_EXIT:
        return exec_early_exit_options_check(&model->early_exit, err);
    case EXEC_PRUNING:
        return exec_pruning_options_check(&model->pruning, err);
    case EXEC_FREEZING:
        return exec_freezing_options_check(&model->freezing, err);
    case EXEC_SPARSE_ATTENTION:
        return exec_sparse_attention_options_check(&model->sparse_attention, err);
    case EXEC_DENSE:
        return STATUS_OK;
    case EXEC_MECHANISM_COUNT:
        break;
    }
    return error_set(err, STATUS_INVALID, "mechanism %d is outside [0, %d]", (int)model->mechanism,
                     EXEC_MECHANISM_COUNT - 1);
}

status exec_model_check(const exec_model *model, error_message *err)
{
    TRY(check_sizes(model, err));
    TRY(check_optimizer(model, err));
    return check_mechanism(model, err);
}

int exec_model_layer_count(const exec_model *model)
{
    return model->block_count + 2;
}

int exec_model_head_width(const exec_model *model)
{
    return model->head_width > 0 ? model->head_width : model->width / model->head_count;
}

int exec_model_attention_width(const exec_model *model)
{
    return model->head_count * exec_model_head_width(model);
}

int exec_model_hidden_width(const exec_model *model)
{
    return model->hidden_width > 0 ? model->hidden_width : 4 * model->width;
}

int exec_model_row_count(const exec_model *model)
{
    return model->packed_rows > 0 ? model->packed_rows
                                  : model->microbatch_size * model->sequence_length;
}
