#include "exec/model/block_layer.h"

#include "base/arena.h"
#include "exec/model/moe_half.h"

#include <math.h>
#include <stdlib.h>

exec_attention exec_block_attention(const exec_model *model, int sequence_count,
                                    const int *first_row)
{
    // Blocks of 32 rows waste less of the diagonal in short sequences, of 64 less time in long
    // ones.
    int block_rows = model->sequence_length <= 16 ? 16 : model->sequence_length < 256 ? 32 : 64;
    if (model->mechanism == EXEC_SPARSE_ATTENTION && model->sparse_attention.block_rows > 0) {
        block_rows = model->sparse_attention.block_rows;
    }
    int block_count = 0;
    for (int sequence = 0; sequence < sequence_count; sequence++) {
        const int rows = first_row[sequence + 1] - first_row[sequence];
        block_count += (rows + block_rows - 1) / block_rows;
    }
    return (exec_attention){.head_count = model->head_count,
                            .head_width = exec_model_head_width(model),
                            .sequence_count = sequence_count,
                            .first_row = first_row,
                            .block_rows = block_rows,
                            .block_count = block_count};
}

/// Copies the gradient of the half's output into half->output_gradient for W; of a frozen layer
/// that is the gradient itself.
static void keep_gradient(exec_block *block, exec_half_slot *half, int row_count, void *gradient)
{
    const exec_layer *layer = &block->layer;
    half->output_gradient = gradient;
    if (layer->is_frozen) return;
    const size_t bytes = exec_layer_bytes(layer, row_count, layer->model->width);
    half->output_gradient = exec_holding_take(&half->until_weight, layer->buffers, bytes);
    layer->kernels->table->copy(layer->kernels, half->output_gradient, gradient, bytes);
}

/// Gives back what a half holds.
static void let_half_go(exec_block *block, exec_half_slot *half)
{
    exec_holding_give(&half->until_input, block->layer.buffers);
    exec_holding_give(&half->until_weight, block->layer.buffers);
}

/// Of a row's queries, keys and values, heads that are shared once.
static int compact_width(const exec_model *model)
{
    const int shared = model->kv_head_count > 0 ? model->kv_head_count : model->head_count;
    return (model->head_count + 2 * shared) * exec_model_head_width(model);
}

static void write_rotation(exec_block *block)
{
    exec_layer *layer = &block->layer;
    const exec_model *model = layer->model;
    const int half = exec_model_head_width(model) / 2;
    const size_t count = 2 * (size_t)model->sequence_length * (size_t)half;
    float *rotation = memory_array(count, sizeof *rotation);
    for (int position = 0; position < model->sequence_length; position++) {
        for (int pair = 0; pair < half; pair++) {
            const double angle = position * pow(model->rotary_base, -(double)pair / (double)half);
            const size_t at = 2 * ((size_t)position * (size_t)half + (size_t)pair);
            rotation[at] = (float)cos(angle);
            rotation[at + 1] = (float)sin(angle);
        }
    }
    block->rotation = exec_layer_upload(layer, rotation, count * sizeof *rotation);
    free(rotation);
}

/// Deviations keep activations of order 1 at any width; the linears that end on the residual path
/// are smaller by the square root of how many end there.
static void describe(exec_layer *layer)
{
    exec_block *block = (exec_block *)layer;
    const exec_model *model = layer->model;
    const int width = model->width;
    const int hidden = exec_model_hidden_width(model);
    const float deviation = 0.5F / sqrtf((float)width);
    const float residual = sqrtf(2.0F * (float)model->block_count);
    block->norm1 = exec_norm_add(layer, "norm1 weight", "norm1 bias");
    block->query_key_value =
        exec_linear_add(layer, width, compact_width(model), deviation, "query-key-value",
                        model->lacks_query_key_value_bias ? NULL : "query-key-value bias");
    block->attention_output = exec_linear_add(
        layer, exec_model_attention_width(model), width, deviation / residual, "attention output",
        model->lacks_attention_output_bias ? NULL : "attention output bias");
    block->norm2 = exec_norm_add(layer, "norm2 weight", "norm2 bias");
    if (model->mechanism == EXEC_MOE) {
        const int inner = exec_model_expert_width(model);
        block->experts = exec_experts_add(layer, deviation, 0.5F / sqrtf((float)inner) / residual);
    } else {
        const bool is_plain = model->lacks_mlp_bias;
        block->up = exec_linear_add(layer, width, exec_block_inner_width(model, hidden), deviation,
                                    "up", is_plain ? NULL : "up bias");
        block->down = exec_linear_add(layer, hidden, width, 0.5F / sqrtf((float)hidden) / residual,
                                      "down", is_plain ? NULL : "down bias");
    }
    if (model->mechanism == EXEC_MOD && exec_block_chooses_rows(layer)) {
        block->row_router = exec_layer_add_matrix(layer, "row router", 1, width, deviation);
    }
    if (exec_exit_follows(layer)) block->exit = exec_exit_add(layer);
    if (model->rotary_base > 0) write_rotation(block);
}

static void undescribe(exec_layer *layer)
{
    exec_buffers_give(layer->buffers, ((exec_block *)layer)->rotation);
}

static void begin_slot(const exec_layer *layer, exec_slot *slot)
{
    exec_block_slot *kept = (exec_block_slot *)slot;
    const int sequences = layer->model->microbatch_size;
    arena *memory = kept->memory = arena_create(1 << 12);
    kept->first_row = arena_array(memory, (size_t)sequences + 1, sizeof *kept->first_row);
    if (layer->model->mechanism == EXEC_MOE) kept->moe = exec_moe_slot_carve(layer, memory);
    if (layer->model->mechanism == EXEC_SPARSE_ATTENTION) {
        kept->lists = exec_block_lists_carve(layer, memory);
    }
    if (exec_block_chooses_rows(layer)) kept->chosen_rows = exec_rows_slot_carve(layer, memory);
}

static void end_slot(exec_layer *layer, exec_slot *slot)
{
    (void)layer;
    arena_destroy(((exec_block_slot *)slot)->memory);
}

static void let_go(exec_layer *layer, exec_slot *slot)
{
    exec_block_slot *kept = (exec_block_slot *)slot;
    let_half_go((exec_block *)layer, &kept->attention_half);
    let_half_go((exec_block *)layer, &kept->mlp_half);
    if (kept->chosen_rows != NULL) exec_rows_slot_let_go(layer, kept->chosen_rows);
}

/// All rows of the microbatch, as documents of their own lengths or sequences of equal length.
static void take_all_rows(const exec_layer *layer, exec_block_slot *kept, const exec_flow *flow)
{
    const exec_model *model = layer->model;
    const int sequences = flow->row_count / model->sequence_length;
    kept->rows.row_count = flow->row_count;
    kept->rows.row = flow->position;
    kept->rows.lists = kept->lists;
    if (flow->document_count > 0) {
        kept->rows.attention = exec_block_attention(model, flow->document_count, flow->first_row);
        return;
    }
    for (int sequence = 0; sequence <= sequences; sequence++) {
        kept->first_row[sequence] = sequence * model->sequence_length;
    }
    kept->rows.attention = exec_block_attention(model, sequences, kept->first_row);
}

static bool is_sorted(const exec_block_rows *rows)
{
    return rows->lists != NULL && rows->lists->sorts_rows;
}

/// The shape of attention with the key blocks that F has chosen.
static exec_attention shape_of(const exec_block_rows *rows)
{
    exec_attention shape = rows->attention;
    if (rows->lists == NULL) return shape;
    shape.first_entry = rows->lists->first_entry;
    shape.key_block = rows->lists->key_block;
    shape.first_key = rows->lists->first_key;
    return shape;
}

/// How the heads of rows lie before and after they are spread (kernels.h); is_needed: they are not
/// yet as attention takes them.
static exec_heads heads_of(const exec_block *block, const exec_block_rows *rows, bool *is_needed)
{
    const exec_model *model = block->layer.model;
    const int shared = model->kv_head_count > 0 ? model->kv_head_count : model->head_count;
    *is_needed = block->rotation != NULL || shared < model->head_count;
    return (exec_heads){.head_count = model->head_count,
                        .kv_head_count = shared,
                        .head_width = exec_model_head_width(model),
                        .sequence_length = model->sequence_length,
                        .row = rows->row,
                        .rotation = block->rotation};
}

/// qkv [row_count][3 * attention width] of the norm's output.
static void project(const exec_block *block, const exec_block_rows *rows, const void *input,
                    void *qkv)
{
    const exec_layer *layer = &block->layer;
    const int count = rows->row_count;
    exec_holding scratch = {0};
    bool is_needed;
    const exec_heads heads = heads_of(block, rows, &is_needed);
    void *compact =
        is_needed ? exec_layer_take(layer, &scratch, count, compact_width(layer->model)) : qkv;
    exec_linear_forward(layer, &block->query_key_value, input, count, compact);
    if (!is_needed) return;
    layer->kernels->table->spread_heads(layer->kernels, &heads, compact, count, qkv);
    exec_holding_give(&scratch, layer->buffers);
}

/// Attention over qkv, as project leaves it. Sorted rows are gathered into half->inner, where B
/// finds them; half->outer is in the order of the text.
///
/// @param qkv half->inner itself where rows are not sorted
static void attend(const exec_block *block, exec_half_slot *half, const exec_block_rows *rows,
                   void *qkv)
{
    const exec_layer *layer = &block->layer;
    const exec_kernel_table *table = layer->kernels->table;
    exec_block_choice *lists = rows->lists;
    const int count = rows->row_count;
    const int width = exec_model_attention_width(layer->model);
    void *output = half->outer;
    if (lists != NULL) {
        exec_block_lists_choose(layer, &rows->attention, qkv, count, lists, &half->until_input);
    }
    if (is_sorted(rows)) {
        table->gather_rows(layer->kernels, qkv, lists->row, count, 3 * width, half->inner);
        output = qkv; // its room serves
    }
    const exec_attention shape = shape_of(rows);
    table->attention(layer->kernels, &shape, half->inner, output, half->log_sum);
    if (is_sorted(rows)) {
        table->scatter_rows(layer->kernels, output, lists->row, count, width, half->outer);
    }
}

/// The gradient of queries, keys and values from that of attention's output, both in the order of
/// the text.
static void attend_input(const exec_block *block, const exec_half_slot *half,
                         const exec_block_rows *rows, const void *dout, void *dqkv)
{
    const exec_layer *layer = &block->layer;
    const exec_kernel_table *table = layer->kernels->table;
    const exec_attention shape = shape_of(rows);
    if (!is_sorted(rows)) {
        table->attention_input(layer->kernels, &shape, half->inner, half->outer, half->log_sum,
                               dout, dqkv);
        return;
    }
    const int count = rows->row_count;
    const int width = exec_model_attention_width(layer->model);
    const int *row = rows->lists->row;
    exec_holding scratch = {0};
    void *output = exec_layer_take(layer, &scratch, count, width);
    void *sorted_dout = exec_layer_take(layer, &scratch, count, width);
    void *sorted_dqkv = exec_layer_take(layer, &scratch, count, 3 * width);
    table->gather_rows(layer->kernels, half->outer, row, count, width, output);
    table->gather_rows(layer->kernels, dout, row, count, width, sorted_dout);
    table->attention_input(layer->kernels, &shape, half->inner, output, half->log_sum, sorted_dout,
                           sorted_dqkv);
    table->scatter_rows(layer->kernels, sorted_dqkv, row, count, 3 * width, dqkv);
    exec_holding_give(&scratch, layer->buffers);
}

static void attention_half_forward(exec_block *block, exec_half_slot *half,
                                   const exec_block_rows *rows, void *values)
{
    const exec_layer *layer = &block->layer;
    const int count = rows->row_count;
    const int width = exec_model_attention_width(layer->model);
    exec_holding passing = {0}; // what W needs is not kept of a frozen layer
    exec_holding *for_weight = layer->is_frozen ? &passing : &half->until_weight;
    exec_norm_forward(layer, &block->norm1, values, count, &half->norm, &half->until_input,
                      for_weight);
    half->inner = exec_layer_take(layer, &half->until_input, count, 3 * width);
    half->log_sum = exec_layer_take_numbers(layer, &half->until_input,
                                            (size_t)count * (size_t)layer->model->head_count);
    half->outer = exec_layer_take(
        layer, layer->is_frozen ? &half->until_input : &half->until_weight, count, width);
    void *qkv = is_sorted(rows) ? exec_layer_take(layer, &passing, count, 3 * width) : half->inner;
    project(block, rows, half->norm.output, qkv);
    attend(block, half, rows, qkv);
    exec_linear_forward_add(layer, &block->attention_output, half->outer, count, values);
    exec_holding_give(&passing, layer->buffers);
}

static void attention_half_backward_input(exec_block *block, exec_half_slot *half,
                                          const exec_block_rows *rows, void *gradient)
{
    const exec_layer *layer = &block->layer;
    exec_kernels *kernels = layer->kernels;
    const int count = rows->row_count;
    const int width = exec_model_attention_width(layer->model);
    const int model_width = layer->model->width;
    exec_holding scratch = {0};
    bool is_needed;
    const exec_heads heads = heads_of(block, rows, &is_needed);
    keep_gradient(block, half, count, gradient);
    // Of attention's output, then of the norm's.
    void *dout = exec_layer_take(layer, &scratch, count, width > model_width ? width : model_width);
    half->inner_gradient = exec_layer_take(layer, layer->is_frozen ? &scratch : &half->until_weight,
                                           count, compact_width(layer->model));
    // Of queries, keys and values as attention takes them.
    void *dqkv =
        is_needed ? exec_layer_take(layer, &scratch, count, 3 * width) : half->inner_gradient;
    exec_linear_backward_input(layer, &block->attention_output, half->output_gradient, count, dout);
    attend_input(block, half, rows, dout, dqkv);
    if (is_needed) {
        kernels->table->spread_heads_input(kernels, &heads, dqkv, count, half->inner_gradient);
    }
    exec_linear_backward_input(layer, &block->query_key_value, half->inner_gradient, count, dout);
    exec_norm_backward_input(layer, &block->norm1, dout, &half->norm, &half->until_weight,
                             layer->passes_no_gradient ? NULL : gradient);
    exec_holding_give(&scratch, layer->buffers);
    exec_holding_give(&half->until_input, layer->buffers);
}

static void attention_half_backward_weight(exec_block *block, exec_half_slot *half)
{
    const exec_layer *layer = &block->layer;
    const int count = half->norm.row_count;
    exec_linear_backward_weight(layer, &block->query_key_value, half->norm.output,
                                half->inner_gradient, count);
    exec_linear_backward_weight(layer, &block->attention_output, half->outer, half->output_gradient,
                                count);
    exec_norm_backward_weight(layer, &block->norm1, &half->norm);
    exec_holding_give(&half->until_weight, layer->buffers);
}

int exec_block_inner_width(const exec_model *model, int hidden_width)
{
    return model->is_gated ? 2 * hidden_width : hidden_width;
}

void exec_half_activate(const exec_layer *layer, const void *inner, int rows, int hidden_width,
                        void *outer)
{
    exec_kernels *kernels = layer->kernels;
    if (layer->model->is_gated) {
        kernels->table->swiglu(kernels, inner, rows, hidden_width, outer);
    } else {
        kernels->table->gelu(kernels, inner, outer, (size_t)rows * (size_t)hidden_width);
    }
}

void exec_half_activate_input(const exec_layer *layer, const void *inner, int rows,
                              int hidden_width, const void *outer_gradient, void *inner_gradient)
{
    exec_kernels *kernels = layer->kernels;
    if (layer->model->is_gated) {
        kernels->table->swiglu_input(kernels, inner, outer_gradient, rows, hidden_width,
                                     inner_gradient);
    } else {
        kernels->table->gelu_input(kernels, inner, inner_gradient,
                                   (size_t)rows * (size_t)hidden_width);
    }
}

static void mlp_half_forward(exec_block *block, exec_half_slot *half, int row_count, void *values)
{
    const exec_layer *layer = &block->layer;
    const int hidden = exec_model_hidden_width(layer->model);
    const int inner = exec_block_inner_width(layer->model, hidden);
    exec_holding passing = {0}; // what W needs is not kept of a frozen layer
    exec_holding *for_weight = layer->is_frozen ? &passing : &half->until_weight;
    exec_norm_forward(layer, &block->norm2, values, row_count, &half->norm, &half->until_input,
                      for_weight);
    half->inner = exec_layer_take(layer, &half->until_input, row_count, inner);
    half->outer = exec_layer_take(layer, for_weight, row_count, hidden);
    exec_linear_forward(layer, &block->up, half->norm.output, row_count, half->inner);
    exec_half_activate(layer, half->inner, row_count, hidden, half->outer);
    exec_linear_forward_add(layer, &block->down, half->outer, row_count, values);
    exec_holding_give(&passing, layer->buffers);
}

static void mlp_half_backward_input(exec_block *block, exec_half_slot *half, void *gradient)
{
    const exec_layer *layer = &block->layer;
    const int rows = half->norm.row_count;
    const int hidden = exec_model_hidden_width(layer->model);
    const int inner = exec_block_inner_width(layer->model, hidden);
    exec_holding scratch = {0};
    keep_gradient(block, half, rows, gradient);
    void *norm_gradient = exec_layer_take(layer, &scratch, rows, layer->model->width);
    half->inner_gradient =
        exec_layer_take(layer, layer->is_frozen ? &scratch : &half->until_weight, rows, inner);
    void *outer_gradient = layer->model->is_gated ? exec_layer_take(layer, &scratch, rows, hidden)
                                                  : half->inner_gradient;
    exec_linear_backward_input(layer, &block->down, half->output_gradient, rows, outer_gradient);
    exec_half_activate_input(layer, half->inner, rows, hidden, outer_gradient,
                             half->inner_gradient);
    exec_linear_backward_input(layer, &block->up, half->inner_gradient, rows, norm_gradient);
    exec_norm_backward_input(layer, &block->norm2, norm_gradient, &half->norm, &half->until_weight,
                             gradient);
    exec_holding_give(&scratch, layer->buffers);
    exec_holding_give(&half->until_input, layer->buffers);
}

static void mlp_half_backward_weight(exec_block *block, exec_half_slot *half)
{
    const exec_layer *layer = &block->layer;
    const int rows = half->norm.row_count;
    exec_linear_backward_weight(layer, &block->up, half->norm.output, half->inner_gradient, rows);
    exec_linear_backward_weight(layer, &block->down, half->outer, half->output_gradient, rows);
    exec_norm_backward_weight(layer, &block->norm2, &half->norm);
    exec_holding_give(&half->until_weight, layer->buffers);
}

status exec_block_halves_forward(exec_block *block, exec_block_slot *slot, void *values,
                                 error_message *err)
{
    attention_half_forward(block, &slot->attention_half, &slot->rows, values);
    if (slot->moe != NULL) {
        return exec_moe_half_forward(block, &slot->mlp_half, slot->moe, slot->rows.row_count,
                                     values, err);
    }
    mlp_half_forward(block, &slot->mlp_half, slot->rows.row_count, values);
    return STATUS_OK;
}

status exec_block_halves_backward_input(exec_block *block, exec_block_slot *slot, void *gradient,
                                        error_message *err)
{
    if (slot->moe != NULL) {
        TRY(exec_moe_half_backward_input(block, &slot->mlp_half, slot->moe, gradient, err));
    } else {
        mlp_half_backward_input(block, &slot->mlp_half, gradient);
    }
    attention_half_backward_input(block, &slot->attention_half, &slot->rows, gradient);
    return STATUS_OK;
}

void exec_block_halves_backward_weight(exec_block *block, exec_block_slot *slot)
{
    if (slot->moe != NULL) {
        exec_moe_half_backward_weight(block, &slot->mlp_half, slot->moe);
    } else {
        mlp_half_backward_weight(block, &slot->mlp_half);
    }
    attention_half_backward_weight(block, &slot->attention_half);
}

static status forward(exec_layer *layer, exec_slot *slot, exec_flow *flow, error_message *err)
{
    exec_block *block = (exec_block *)layer;
    exec_block_slot *kept = (exec_block_slot *)slot;
    if (kept->chosen_rows != NULL) return exec_chosen_rows_forward(block, kept, flow, err);
    take_all_rows(layer, kept, flow);
    TRY(exec_block_halves_forward(block, kept, flow->values, err));
    if (flow->load == NULL) return STATUS_OK;
    if (layer->model->mechanism == EXEC_EARLY_EXIT) { // nobody has left yet
        layer->kernels->table->to_device(layer->kernels, flow->load, &flow->row_count,
                                         sizeof *flow->load);
    }
    if (kept->moe != NULL) exec_moe_slot_count(layer, kept->moe, flow->load);
    if (kept->lists != NULL) {
        layer->kernels->table->copy(layer->kernels, flow->load, kept->lists->met_count,
                                    2 * sizeof *flow->load);
    }
    return STATUS_OK;
}

static status backward_input(exec_layer *layer, exec_slot *slot, void *gradient, error_message *err)
{
    exec_block *block = (exec_block *)layer;
    exec_block_slot *kept = (exec_block_slot *)slot;
    return (kept->chosen_rows != NULL
                ? exec_chosen_rows_backward_input
                : exec_block_halves_backward_input)(block, kept, gradient, err);
}

static void backward_weight(exec_layer *layer, exec_slot *slot)
{
    exec_block_slot *kept = (exec_block_slot *)slot;
    (kept->chosen_rows != NULL ? exec_chosen_rows_backward_weight
                               : exec_block_halves_backward_weight)((exec_block *)layer, kept);
}

const exec_layer_table exec_block_layer = {
    .layer_bytes = sizeof(exec_block),
    .slot_bytes = sizeof(exec_block_slot),
    .describe = describe,
    .undescribe = undescribe,
    .begin_slot = begin_slot,
    .end_slot = end_slot,
    .let_go = let_go,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};
