#include "exec/model/model.h"

#include <math.h>
#include <stdio.h>

const char *const exec_mechanism_names[EXEC_MECHANISM_COUNT] = {
    "none", "moe", "mod", "early-exit", "pruning", "freezing", "sparse-attention"};

const char *const exec_row_order_names[EXEC_ROW_ORDER_COUNT] = {"sorted", "text"};

const char *const exec_exit_measure_names[EXEC_EXIT_MEASURE_COUNT] = {"saturation", "softmax",
                                                                      "probability", "classifier"};

enum {
    BLOCK_MAX = 4096,
    WIDTH_MAX = 16384,
    HEAD_WIDTH_MAX = 1024,
    HIDDEN_WIDTH_MAX = 65536,
    VOCABULARY_MAX = 1 << 20,
    SEQUENCE_MAX = 1 << 16,
    MICROBATCH_MAX = 1 << 12
};

static const double ROTARY_BASE_END = 1e12;

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
        .moe = {.expert_count = 8, .top_k = 2, .balance = 0.01},
        .mod = {.capacity_ratio = 0.125, .every = 2},
        .early_exit = exec_early_exit_options_default(EXEC_EXIT_SATURATION),
        .pruning = {.start_iteration = 30,
                    .end_iteration = 70,
                    .interval = 10,
                    .final_sparsity = 0.9},
        .freezing = {.interval = 10, .tolerance = 0.5, .patience = 2, .largest_share = 0.75},
        .sparse_attention = {.order = EXEC_ROWS_SORTED,
                             .bit_count = 4,
                             .affinity = 1,
                             .block_rows = 16},
    };
}

static status check_heads(const exec_model *model, error_message *err)
{
    const int head_width = exec_model_head_width(model);
    TRY(check_int_range("head_width", model->head_width, 0, HEAD_WIDTH_MAX, err));
    TRY(check_int_range("kv_head_count", model->kv_head_count, 0, model->head_count, err));
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
    if (model->rotary_base >= 0 && model->rotary_base < ROTARY_BASE_END) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "rotary_base %g is outside [0, %g)", model->rotary_base,
                     ROTARY_BASE_END);
}

static status check_sizes(const exec_model *model, error_message *err)
{
    TRY(check_int_range("block_count", model->block_count, 1, BLOCK_MAX, err));
    TRY(check_int_range("width", model->width, 1, WIDTH_MAX, err));
    TRY(check_int_range("head_count", model->head_count, 1, model->width, err));
    TRY(check_heads(model, err));
    TRY(check_int_range("hidden_width", model->hidden_width, 0, HIDDEN_WIDTH_MAX, err));
    TRY(check_int_range("vocabulary", model->vocabulary, 2, VOCABULARY_MAX, err));
    TRY(check_int_range("sequence_length", model->sequence_length, 1, SEQUENCE_MAX, err));
    TRY(check_int_range("packed_rows", model->packed_rows, 0, SEQUENCE_MAX, err));
    return check_int_range("microbatch_size", model->microbatch_size, 1, MICROBATCH_MAX, err);
}

#define MODEL(member) offsetof(exec_model, member)

const exec_model_number exec_model_numbers[EXEC_MODEL_NUMBERS] = {
    {EXEC_MECHANISM_COUNT, "learning_rate", EXEC_FLOAT, MODEL(learning_rate), "[)", 0, 1e3},
    {EXEC_MECHANISM_COUNT, "beta1", EXEC_FLOAT, MODEL(beta1), "[)", 0, 1},
    {EXEC_MECHANISM_COUNT, "beta2", EXEC_FLOAT, MODEL(beta2), "[)", 0, 1},
    {EXEC_MECHANISM_COUNT, "epsilon", EXEC_FLOAT, MODEL(epsilon), "[)", 0, 1},
    {EXEC_MECHANISM_COUNT, "weight_decay", EXEC_FLOAT, MODEL(weight_decay), "[)", 0, 1e3},
    {EXEC_MECHANISM_COUNT, "clip_norm", EXEC_FLOAT, MODEL(clip_norm), "[)", 0, INFINITY},
    {EXEC_MOE, "expert_count", EXEC_INT, MODEL(moe.expert_count), "[]", 1, EXEC_EXPERT_COUNT_MAX},
    {EXEC_MOE, "top_k", EXEC_INT, MODEL(moe.top_k), NULL, 0, 0},
    {EXEC_MOE, "expert_width", EXEC_INT, MODEL(moe.expert_width), "[]", 0, EXEC_EXPERT_WIDTH_MAX},
    {EXEC_MOE, "balance", EXEC_DOUBLE, MODEL(moe.balance), "[]", 0, INFINITY},
    {EXEC_MOE, "sinkhorn_rounds", EXEC_INT, MODEL(moe.sinkhorn_rounds), "[]", 0,
     EXEC_SINKHORN_ROUNDS_MAX},
    {EXEC_MOD, "capacity_ratio", EXEC_DOUBLE, MODEL(mod.capacity_ratio), "(]", 0, 1},
    {EXEC_MOD, "every", EXEC_INT, MODEL(mod.every), "[]", 1, INFINITY},
    {EXEC_EARLY_EXIT, "measure", EXEC_EXIT_MEASURE, MODEL(early_exit.measure), "[]", 0,
     EXEC_EXIT_MEASURE_COUNT - 1},
    {EXEC_EARLY_EXIT, "target_cosine", EXEC_DOUBLE, MODEL(early_exit.target_cosine), NULL, 0, 0},
    {EXEC_EARLY_EXIT, "threshold", EXEC_DOUBLE, MODEL(early_exit.threshold), NULL, 0, 0},
    {EXEC_EARLY_EXIT, "settle_iterations", EXEC_INT, MODEL(early_exit.settle_iterations), "[]", 0,
     INFINITY},
    {EXEC_EARLY_EXIT, "first_exit", EXEC_INT, MODEL(early_exit.first_exit), "[]", 0, INFINITY},
    {EXEC_PRUNING, "start_iteration", EXEC_INT, MODEL(pruning.start_iteration), "[]", 0, INFINITY},
    {EXEC_PRUNING, "end_iteration", EXEC_INT, MODEL(pruning.end_iteration), NULL, 0, 0},
    {EXEC_PRUNING, "interval", EXEC_INT, MODEL(pruning.interval), "[]", 1, INFINITY},
    {EXEC_PRUNING, "initial_sparsity", EXEC_DOUBLE, MODEL(pruning.initial_sparsity), NULL, 0, 0},
    {EXEC_PRUNING, "final_sparsity", EXEC_DOUBLE, MODEL(pruning.final_sparsity), "[]", 0, 1},
    {EXEC_PRUNING, "csr_from", EXEC_DOUBLE, MODEL(pruning.csr_from), "[]", 0, 1},
    {EXEC_FREEZING, "interval", EXEC_INT, MODEL(freezing.interval), "[]", 1, INFINITY},
    {EXEC_FREEZING, "start_iteration", EXEC_INT, MODEL(freezing.start_iteration), "[]", 0,
     INFINITY},
    {EXEC_FREEZING, "tolerance", EXEC_DOUBLE, MODEL(freezing.tolerance), "(]", 0, 1},
    {EXEC_FREEZING, "patience", EXEC_INT, MODEL(freezing.patience), "[]", 1, INFINITY},
    {EXEC_FREEZING, "largest_share", EXEC_DOUBLE, MODEL(freezing.largest_share), "[)", 0, 1},
    {EXEC_SPARSE_ATTENTION, "order", EXEC_ROW_ORDER, MODEL(sparse_attention.order), "[]", 0,
     EXEC_ROW_ORDER_COUNT - 1},
    {EXEC_SPARSE_ATTENTION, "bit_count", EXEC_INT, MODEL(sparse_attention.bit_count), "[]", 1,
     EXEC_HASH_BITS_MAX},
    {EXEC_SPARSE_ATTENTION, "affinity", EXEC_DOUBLE, MODEL(sparse_attention.affinity), "[]", 0,
     INFINITY},
    {EXEC_SPARSE_ATTENTION, "block_rows", EXEC_INT, MODEL(sparse_attention.block_rows), NULL, 0, 0},
};

static status check_number(const exec_model *model, const exec_model_number *number,
                           error_message *err)
{
    const void *place = (const char *)model + number->offset;
    const bool is_int = number->kind != EXEC_FLOAT && number->kind != EXEC_DOUBLE;
    const double value = is_int                       ? *(const int *)place
                         : number->kind == EXEC_FLOAT ? (double)*(const float *)place
                                                      : *(const double *)place;
    const char *bounds = number->bounds;
    char text[32];
    if (bounds == NULL) return STATUS_OK;
    const bool is_above = bounds[0] == '[' ? value >= number->low : value > number->low;
    const bool is_below =
        bounds[1] == ']' && isfinite(number->high) ? value <= number->high : value < number->high;
    if (is_above && is_below) return STATUS_OK;
    snprintf(text, sizeof text, is_int ? "%.0f" : "%g", value);
    if (isfinite(number->high) || bounds[1] == ')') {
        return error_set(err, STATUS_INVALID, "%s %s is outside %c%g, %g%c", number->name, text,
                         bounds[0], number->low, number->high, bounds[1]);
    }
    if (number->low > 0) {
        return error_set(err, STATUS_INVALID, "%s %s is below %g", number->name, text, number->low);
    }
    return error_set(err, STATUS_INVALID, "%s %s is negative%s", number->name, text,
                     is_int ? "" : " or not finite");
}

/// The numbers of a mechanism, or of every model.
static status check_numbers(const exec_model *model, int mechanism, error_message *err)
{
    for (int index = 0; index < EXEC_MODEL_NUMBERS; index++) {
        const exec_model_number *number = &exec_model_numbers[index];
        if (number->mechanism == mechanism) TRY(check_number(model, number, err));
    }
    return STATUS_OK;
}

static status check_experts(const exec_model *model, error_message *err)
{
    const exec_moe_options *options = &model->moe;
    const int ranks = options->expert_parallel;
    const int hidden_width = exec_model_hidden_width(model);
    if (options->top_k < 1 || options->top_k > options->expert_count) {
        return error_set(err, STATUS_INVALID, "top_k %d is outside [1, expert_count %d]",
                         options->top_k, options->expert_count);
    }
    if (ranks < 0 || (ranks > 0 && options->expert_count % ranks != 0)) {
        return error_set(err, STATUS_INVALID, "expert_parallel %d does not divide the %d experts",
                         ranks, options->expert_count);
    }
    if (options->expert_width > 0 || hidden_width % options->top_k == 0) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "hidden_width %d is no multiple of top_k %d, and expert_width is not given",
                     hidden_width, options->top_k);
}

static status check_early_exit(const exec_early_exit_options *options, error_message *err)
{
    const int low = options->measure == EXEC_EXIT_SATURATION ? -1 : 0;
    if (!(options->threshold > low && options->threshold <= 1)) {
        return error_set(err, STATUS_INVALID, "threshold %g is outside (%d, 1]", options->threshold,
                         low);
    }
    if (options->measure == EXEC_EXIT_CLASSIFIER &&
        !(options->target_cosine > -1 && options->target_cosine <= 1)) {
        return error_set(err, STATUS_INVALID, "target_cosine %g is outside (-1, 1]",
                         options->target_cosine);
    }
    return STATUS_OK;
}

static status check_pruning(const exec_pruning_options *options, error_message *err)
{
    if (options->end_iteration <= options->start_iteration) {
        return error_set(err, STATUS_INVALID, "end_iteration %d is not after start_iteration %d",
                         options->end_iteration, options->start_iteration);
    }
    const int length = options->end_iteration - options->start_iteration;
    if (length % options->interval != 0) {
        return error_set(err, STATUS_INVALID,
                         "interval %d does not divide the %d iterations from start_iteration to "
                         "end_iteration",
                         options->interval, length);
    }
    if (options->initial_sparsity >= 0 && options->initial_sparsity <= options->final_sparsity) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID, "initial_sparsity %g is outside [0, final_sparsity %g]",
                     options->initial_sparsity, options->final_sparsity);
}

static status check_block_rows(int rows, error_message *err)
{
    if (rows == 0 || rows == 16 || rows == 32 || rows == 64) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "block_rows %d is none of 0, 16, 32, 64", rows);
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
    if (model->mechanism < 0 || model->mechanism >= EXEC_MECHANISM_COUNT) {
        return error_set(err, STATUS_INVALID, "mechanism %d is outside [0, %d]",
                         (int)model->mechanism, EXEC_MECHANISM_COUNT - 1);
    }
    TRY(check_numbers(model, (int)model->mechanism, err));
    switch (model->mechanism) {
    case EXEC_MOE:
        return check_experts(model, err);
    case EXEC_EARLY_EXIT:
        return check_early_exit(&model->early_exit, err);
    case EXEC_PRUNING:
        return check_pruning(&model->pruning, err);
    case EXEC_SPARSE_ATTENTION:
        return check_block_rows(model->sparse_attention.block_rows, err);
    default:
        return STATUS_OK;
    }
}

status exec_model_check(const exec_model *model, error_message *err)
{
    TRY(check_sizes(model, err));
    TRY(check_numbers(model, EXEC_MECHANISM_COUNT, err));
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

int exec_model_expert_width(const exec_model *model)
{
    const exec_moe_options *options = &model->moe;
    return options->expert_width > 0 ? options->expert_width
                                     : exec_model_hidden_width(model) / options->top_k;
}

int exec_model_row_count(const exec_model *model)
{
    return model->packed_rows > 0 ? model->packed_rows
                                  : model->microbatch_size * model->sequence_length;
}
