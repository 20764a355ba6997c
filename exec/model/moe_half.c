#include "exec/model/moe_half.h"

#include "base/arena.h"

#include <stdlib.h>

/// Rows that lie by place (routing.h) are "of entries", [entry_count]; others are of tokens.
struct exec_moe_slot {
    exec_routing routing;
    float *logits;          // [row_max][expert_count] host: scratch; after B their gradient
    float *weight_gradient; // [entry_max] host: scratch
    void *row, *place, *first_entry, *weight, *place_weight; // device: as in routing, until W
    void *input;           // [entry_count][width] F to W: tokens, by place
    void *output;          // [entry_count][width] F to B: what experts made of them
    void *output_gradient; // [entry_count][width] B to W
    void *logits_gradient; // [row_count][expert_count] B to W
};

static const exec_moe_options *options_of(const exec_layer *layer)
{
    return &layer->model->moe;
}

exec_experts exec_experts_add(exec_layer *layer, float up_deviation, float down_deviation)
{
    const int width = layer->model->width;
    const int count = options_of(layer)->expert_count;
    const int inner_width =
        exec_moe_expert_width(options_of(layer), exec_model_hidden_width(layer->model));
    const int up_width = exec_block_inner_width(layer->model, inner_width);
    const bool has_bias = !layer->model->lacks_mlp_bias;
    const exec_tensor router = {.name = "router",
                                .rows = width,
                                .columns = count,
                                .decays = true,
                                .initial_deviation = up_deviation};
    const exec_tensor up = {.name = "experts up",
                            .rows = count * width,
                            .columns = up_width,
                            .decays = true,
                            .initial_deviation = up_deviation};
    const exec_tensor down = {.name = "experts down",
                              .rows = count * inner_width,
                              .columns = width,
                              .decays = true,
                              .initial_deviation = down_deviation};
    const exec_tensor up_bias = {.name = "experts up bias", .rows = 1, .columns = count * up_width};
    const exec_tensor down_bias = {
        .name = "experts down bias", .rows = 1, .columns = count * width};
    exec_experts experts = {
        .expert_count = count,
        .router = exec_layer_add_tensor(layer, &router),
        .up = {.input_width = width, .output_width = up_width, .has_bias = has_bias},
        .down = {.input_width = inner_width, .output_width = width, .has_bias = has_bias},
    };
    experts.up.weight = exec_layer_add_tensor(layer, &up);
    if (has_bias) experts.up.bias = exec_layer_add_tensor(layer, &up_bias);
    experts.down.weight = exec_layer_add_tensor(layer, &down);
    if (has_bias) experts.down.bias = exec_layer_add_tensor(layer, &down_bias);
    return experts;
}

exec_moe_slot *exec_moe_slot_carve(const exec_layer *layer, arena *memory)
{
    const int experts = options_of(layer)->expert_count;
    const int rows = exec_model_row_count(layer->model);
    const int entries = rows * options_of(layer)->top_k;
    exec_moe_slot *made = arena_array(memory, 1, sizeof *made);
    made->routing = exec_routing_carve(memory, experts, rows, entries);
    made->routing.sinkhorn_rounds = options_of(layer)->sinkhorn_rounds;
    made->logits = arena_array(memory, (size_t)rows * (size_t)experts, sizeof(float));
    made->weight_gradient = arena_array(memory, (size_t)entries, sizeof(float));
    return made;
}

const exec_routing *exec_moe_slot_routing(const exec_moe_slot *slot)
{
    return &slot->routing;
}

/// The pair of products of one expert.
static exec_linear linear_of(const exec_linear *first, int expert)
{
    exec_linear linear = *first;
    linear.weight += (size_t)expert * (size_t)first->input_width * (size_t)first->output_width;
    linear.bias += (size_t)expert * (size_t)first->output_width; // unused where there is none
    return linear;
}

/// The first row of an expert in an array of entries.
static void *rows_of(const exec_layer *layer, const exec_routing *routing, int expert, void *values,
                     int width)
{
    return (char *)values + exec_layer_bytes(layer, routing->first_place[expert], width);
}

/// Has the router choose; waits for its logits.
static status route(exec_block *block, const void *input, int row_count, exec_moe_slot *slot,
                    error_message *err)
{
    exec_layer *layer = &block->layer;
    const int experts = block->experts.expert_count;
    const size_t bytes = (size_t)row_count * (size_t)experts * sizeof(float);
    const exec_matmul shape = {
        .rows = row_count, .columns = experts, .inner = layer->model->width, .is_float = true};
    void *logits = NULL;
    TRY(exec_buffers_take(layer->buffers, bytes, &logits, err));
    layer->kernels->table->matmul(layer->kernels, &shape, input,
                                  exec_layer_weights(layer, block->experts.router), logits);
    layer->kernels->table->to_host(layer->kernels, slot->logits, logits, bytes);
    exec_buffers_give(layer->buffers, logits);
    exec_route(&slot->routing, slot->logits, row_count, options_of(layer)->top_k);
    return STATUS_OK;
}

/// Copies the routing to the device.
static status upload(exec_layer *layer, exec_holding *holding, exec_moe_slot *slot,
                     error_message *err)
{
    const exec_routing *routing = &slot->routing;
    const size_t entries = (size_t)routing->entry_count;
    const size_t rows = (size_t)routing->row_count;
    TRY(exec_holding_upload(holding, layer->buffers, routing->row, entries * sizeof(int),
                            &slot->row, err));
    TRY(exec_holding_upload(holding, layer->buffers, routing->place, entries * sizeof(int),
                            &slot->place, err));
    TRY(exec_holding_upload(holding, layer->buffers, routing->first_entry, (rows + 1) * sizeof(int),
                            &slot->first_entry, err));
    TRY(exec_holding_upload(holding, layer->buffers, routing->weight, entries * sizeof(float),
                            &slot->weight, err));
    return exec_holding_upload(holding, layer->buffers, routing->place_weight,
                               entries * sizeof(float), &slot->place_weight, err);
}

/// Has every expert work on its rows: all up, the activation, all down.
static void run_experts(exec_block *block, const exec_half_slot *half, exec_moe_slot *slot)
{
    exec_layer *layer = &block->layer;
    const exec_routing *routing = &slot->routing;
    const int width = layer->model->width;
    const int inner_width = block->experts.down.input_width;
    for (int expert = 0; expert < routing->expert_count; expert++) {
        const exec_linear up = linear_of(&block->experts.up, expert);
        exec_linear_forward(layer, &up, rows_of(layer, routing, expert, slot->input, width),
                            exec_routing_count(routing, expert),
                            rows_of(layer, routing, expert, half->inner, up.output_width));
    }
    exec_half_activate(layer, half->inner, routing->entry_count, inner_width, half->outer);
    for (int expert = 0; expert < routing->expert_count; expert++) {
        const exec_linear down = linear_of(&block->experts.down, expert);
        exec_linear_forward(layer, &down, rows_of(layer, routing, expert, half->outer, inner_width),
                            exec_routing_count(routing, expert),
                            rows_of(layer, routing, expert, slot->output, width));
    }
}

status exec_moe_half_forward(exec_block *block, exec_half_slot *half, exec_moe_slot *slot,
                             int row_count, void *values, error_message *err)
{
    exec_layer *layer = &block->layer;
    exec_kernels *kernels = layer->kernels;
    const exec_kernel_table *table = kernels->table;
    const int width = layer->model->width;
    const int inner_width = block->experts.down.input_width;
    TRY(exec_norm_forward(layer, &block->norm2, values, row_count, &half->norm, &half->until_input,
                          &half->until_weight, err));
    TRY(route(block, half->norm.output, row_count, slot, err));
    TRY(upload(layer, &half->until_weight, slot, err));
    const int entries = slot->routing.entry_count;
    const size_t up_bytes = exec_layer_bytes(layer, entries, block->experts.up.output_width);
    const size_t inner_bytes = exec_layer_bytes(layer, entries, inner_width);
    const size_t bytes = exec_layer_bytes(layer, entries, width);
    TRY(exec_holding_take(&half->until_weight, layer->buffers, bytes, &slot->input, err));
    TRY(exec_holding_take(&half->until_input, layer->buffers, up_bytes, &half->inner, err));
    TRY(exec_holding_take(&half->until_weight, layer->buffers, inner_bytes, &half->outer, err));
    TRY(exec_holding_take(&half->until_input, layer->buffers, bytes, &slot->output, err));
    table->gather_rows(kernels, half->norm.output, slot->row, entries, width, slot->input);
    run_experts(block, half, slot);
    table->combine_rows(kernels, slot->output, slot->first_entry, slot->place, slot->weight,
                        row_count, width, values);
    return STATUS_OK;
}

/// Gradient of the logits: from that of the half's output on the host, then to the device.
static status backward_router(exec_block *block, exec_half_slot *half, exec_moe_slot *slot,
                              const void *gradient, error_message *err)
{
    exec_layer *layer = &block->layer;
    exec_kernels *kernels = layer->kernels;
    const exec_routing *routing = &slot->routing;
    const size_t entries = (size_t)routing->entry_count;
    const size_t logits = (size_t)routing->row_count * (size_t)routing->expert_count;
    const size_t scratch_bytes = (logits > entries ? logits : entries) * sizeof(float);
    void *scratch = NULL;
    TRY(exec_holding_take(&half->until_weight, layer->buffers,
                          exec_layer_bytes(layer, routing->row_count, routing->expert_count),
                          &slot->logits_gradient, err));
    TRY(exec_buffers_take(layer->buffers, scratch_bytes, &scratch, err));
    kernels->table->row_dots(kernels, gradient, slot->row, slot->output, NULL, routing->entry_count,
                             layer->model->width, scratch);
    kernels->table->to_host(kernels, slot->weight_gradient, scratch, entries * sizeof(float));
    exec_routing_gradient(routing, slot->weight_gradient, options_of(layer)->balance, slot->logits);
    kernels->table->to_device(kernels, scratch, slot->logits, logits * sizeof(float));
    kernels->table->to_values(kernels, scratch, slot->logits_gradient, logits);
    exec_buffers_give(layer->buffers, scratch);
    return STATUS_OK;
}

/// Back through down, the activation and up of every expert.
///
/// @param outer_gradient [entry_count][expert width] scratch, as exec_half_activate_input takes it
/// @param input_gradient [entry_count][width] out
static void backward_experts(exec_block *block, exec_half_slot *half, exec_moe_slot *slot,
                             void *outer_gradient, void *input_gradient)
{
    exec_layer *layer = &block->layer;
    const exec_routing *routing = &slot->routing;
    const int width = layer->model->width;
    const int inner_width = block->experts.down.input_width;
    for (int expert = 0; expert < routing->expert_count; expert++) {
        const exec_linear down = linear_of(&block->experts.down, expert);
        exec_linear_backward_input(layer, &down,
                                   rows_of(layer, routing, expert, slot->output_gradient, width),
                                   exec_routing_count(routing, expert),
                                   rows_of(layer, routing, expert, outer_gradient, inner_width));
    }
    exec_half_activate_input(layer, half->inner, routing->entry_count, inner_width, outer_gradient,
                             half->inner_gradient);
    for (int expert = 0; expert < routing->expert_count; expert++) {
        const exec_linear up = linear_of(&block->experts.up, expert);
        exec_linear_backward_input(
            layer, &up, rows_of(layer, routing, expert, half->inner_gradient, up.output_width),
            exec_routing_count(routing, expert),
            rows_of(layer, routing, expert, input_gradient, width));
    }
}

/// Gradient of the norm's output: through the router, and from the experts back to their tokens.
static void gather_input_gradient(exec_block *block, exec_moe_slot *slot,
                                  const void *input_gradient, void *norm_gradient)
{
    exec_layer *layer = &block->layer;
    const exec_kernel_table *table = layer->kernels->table;
    const exec_matmul router = {.rows = slot->routing.row_count,
                                .columns = layer->model->width,
                                .inner = block->experts.expert_count,
                                .transposes_b = true};
    table->matmul(layer->kernels, &router, slot->logits_gradient,
                  exec_layer_weights(layer, block->experts.router), norm_gradient);
    table->combine_rows(layer->kernels, input_gradient, slot->first_entry, slot->place, NULL,
                        slot->routing.row_count, layer->model->width, norm_gradient);
}

status exec_moe_half_backward_input(exec_block *block, exec_half_slot *half, exec_moe_slot *slot,
                                    void *gradient, error_message *err)
{
    exec_layer *layer = &block->layer;
    exec_kernels *kernels = layer->kernels;
    const int width = layer->model->width;
    const int entries = slot->routing.entry_count;
    const size_t bytes = exec_layer_bytes(layer, entries, width);
    void *input_gradient = NULL;
    void *norm_gradient = NULL;
    TRY(backward_router(block, half, slot, gradient, err));
    TRY(exec_holding_take(&half->until_weight, layer->buffers, bytes, &slot->output_gradient, err));
    TRY(exec_holding_take(&half->until_weight, layer->buffers,
                          exec_layer_bytes(layer, entries, block->experts.up.output_width),
                          &half->inner_gradient, err));
    TRY(exec_holding_take(&half->until_input, layer->buffers, bytes, &input_gradient, err));
    TRY(exec_holding_take(&half->until_input, layer->buffers,
                          exec_layer_bytes(layer, slot->routing.row_count, width), &norm_gradient,
                          err));
    void *outer_gradient = half->inner_gradient;
    if (layer->model->is_gated) {
        TRY(exec_holding_take(&half->until_input, layer->buffers,
                              exec_layer_bytes(layer, entries, block->experts.down.input_width),
                              &outer_gradient, err));
    }
    kernels->table->gather_rows(kernels, gradient, slot->row, entries, width,
                                slot->output_gradient);
    kernels->table->scale_rows(kernels, slot->output_gradient, slot->place_weight, entries, width,
                               slot->output_gradient);
    backward_experts(block, half, slot, outer_gradient, input_gradient);
    gather_input_gradient(block, slot, input_gradient, norm_gradient);
    TRY(exec_norm_backward_input(layer, &block->norm2, norm_gradient, &half->norm,
                                 &half->until_weight, gradient, err));
    exec_holding_give(&half->until_input, layer->buffers);
    return STATUS_OK;
}

void exec_moe_half_backward_weight(exec_block *block, exec_half_slot *half, exec_moe_slot *slot)
{
    exec_layer *layer = &block->layer;
    const exec_routing *routing = &slot->routing;
    const int width = layer->model->width;
    const int inner_width = block->experts.down.input_width;
    const exec_matmul router = {.rows = width,
                                .columns = routing->expert_count,
                                .inner = routing->row_count,
                                .transposes_a = true,
                                .accumulates = true,
                                .is_float = true};
    layer->kernels->table->matmul(layer->kernels, &router, half->norm.output, slot->logits_gradient,
                                  exec_layer_gradient(layer, block->experts.router));
    for (int expert = 0; expert < routing->expert_count; expert++) {
        const exec_linear up = linear_of(&block->experts.up, expert);
        const exec_linear down = linear_of(&block->experts.down, expert);
        const int rows = exec_routing_count(routing, expert);
        exec_linear_backward_weight(
            layer, &down, rows_of(layer, routing, expert, half->outer, inner_width),
            rows_of(layer, routing, expert, slot->output_gradient, width), rows);
        exec_linear_backward_weight(
            layer, &up, rows_of(layer, routing, expert, slot->input, width),
            rows_of(layer, routing, expert, half->inner_gradient, up.output_width), rows);
    }
    exec_norm_backward_weight(layer, &block->norm2, &half->norm);
    exec_holding_give(&half->until_weight, layer->buffers);
}
