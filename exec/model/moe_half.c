#include "exec/model/moe_half.h"

#include "base/arena.h"
#include "exec/model/expert_exchange.h"

#include <stddef.h>

static const exec_moe_options *options_of(const exec_layer *layer)
{
    return &layer->model->moe;
}

/// Ranks that share the experts, and which of them this one is.
static int rank_count_of(const exec_layer *layer)
{
    const exec_expert_exchange *exchange = layer->model->expert_exchange;
    return exchange != NULL ? exchange->member_count : 1;
}

static int rank_of(const exec_layer *layer)
{
    const exec_expert_exchange *exchange = layer->model->expert_exchange;
    return exchange != NULL ? exchange->member : 0;
}

/// Makes the tensor at an offset, the last, one of all experts that are here. All ranks draw from
/// one stream of numbers.
///
/// @return offset
static size_t of_experts(exec_layer *layer, size_t offset)
{
    const size_t count = layer->parameter_count - offset;
    layer->tensors[layer->tensor_count - 1].before = (size_t)rank_of(layer) * count;
    layer->expert_parameter_count += count;
    return offset;
}

static exec_linear add_linears(exec_layer *layer, int input_width, int output_width, int count,
                               float deviation, const char *const names[2])
{
    exec_linear linear = {.input_width = input_width,
                          .output_width = output_width,
                          .has_bias = !layer->model->lacks_mlp_bias};
    linear.weight = of_experts(layer, exec_layer_add_matrix(layer, names[0], count * input_width,
                                                            output_width, deviation));
    if (linear.has_bias) {
        linear.bias =
            of_experts(layer, exec_layer_add_vector(layer, names[1], count * output_width, 0));
    }
    return linear;
}

exec_experts exec_experts_add(exec_layer *layer, float up_deviation, float down_deviation)
{
    static const char *const up_names[] = {"experts up", "experts up bias"};
    static const char *const down_names[] = {"experts down", "experts down bias"};
    const int width = layer->model->width;
    const int inner_width = exec_model_expert_width(layer->model);
    const int up_width = exec_block_inner_width(layer->model, inner_width);
    exec_experts experts = {.expert_count = options_of(layer)->expert_count};
    const int count = experts.held_count = experts.expert_count / rank_count_of(layer);
    experts.router =
        exec_layer_add_matrix(layer, "router", width, experts.expert_count, up_deviation);
    experts.up = add_linears(layer, width, up_width, count, up_deviation, up_names);
    experts.down = add_linears(layer, inner_width, width, count, down_deviation, down_names);
    return experts;
}

exec_moe_slot *exec_moe_slot_carve(const exec_layer *layer, arena *memory)
{
    const size_t experts = (size_t)options_of(layer)->expert_count;
    exec_moe_slot *made = arena_array(memory, 1, sizeof *made);
    if (layer->model->expert_exchange == NULL) return made;
    made->count = arena_array(memory, (size_t)rank_count_of(layer) * experts, sizeof(int));
    made->shared_entry = arena_array(memory, experts + 1, sizeof(int));
    const size_t entries = (size_t)(exec_model_row_count(layer->model) * options_of(layer)->top_k);
    const size_t held_max = (size_t)rank_count_of(layer) * entries;
    made->shared_row = arena_array(memory, experts + 1 + held_max, sizeof(int));
    return made;
}

void exec_moe_slot_count(const exec_layer *layer, const exec_moe_slot *slot, int *count)
{
    const int experts = slot->routing.expert_count;
    const size_t bytes = (size_t)experts * sizeof *count;
    if (slot->count == NULL) {
        layer->kernels->table->copy(layer->kernels, count, slot->routing.count, bytes);
        return;
    }
    int of_all[EXEC_EXPERT_COUNT_MAX] = {0};
    for (int at = 0; at < rank_count_of(layer) * experts; at++) {
        of_all[at % experts] += slot->count[at];
    }
    layer->kernels->table->to_device(layer->kernels, count, of_all, bytes);
}

/// One of the pair of linears of an expert that is here.
static exec_linear linear_of(const exec_linear *first, int expert)
{
    exec_linear linear = *first;
    linear.weight += (size_t)expert * (size_t)first->input_width * (size_t)first->output_width;
    linear.bias += (size_t)expert * (size_t)first->output_width; // unused where there is none
    return linear;
}

/// The first linear where its gradient is, which ranks that send rows do not share.
static exec_linear gradient_of(const exec_layer *layer, const exec_linear *first, int rank)
{
    exec_linear linear = *first;
    linear.weight += (size_t)rank * layer->expert_parameter_count;
    linear.bias += (size_t)rank * layer->expert_parameter_count;
    return linear;
}

static double square_norm_of(const exec_layer *layer, const exec_linear *linear)
{
    const exec_kernel_table *table = layer->kernels->table;
    const size_t columns = (size_t)linear->output_width;
    const double sum =
        table->sum_of_squares(layer->kernels, exec_layer_gradient(layer, linear->weight),
                              (size_t)linear->input_width * columns);
    if (!linear->has_bias) return sum;
    return sum +
           table->sum_of_squares(layer->kernels, exec_layer_gradient(layer, linear->bias), columns);
}

void exec_experts_square_norms(exec_layer *layer, double *sum)
{
    const exec_block *block = (const exec_block *)layer;
    const exec_experts *experts = &block->experts;
    for (int expert = 0; expert < experts->held_count; expert++) {
        const exec_linear up = linear_of(&experts->up, expert);
        const exec_linear down = linear_of(&experts->down, expert);
        sum[rank_of(layer) * experts->held_count + expert] =
            square_norm_of(layer, &up) + square_norm_of(layer, &down);
    }
}

/// The segments of the rows that come from a rank: groups of all experts that are here.
static exec_groups groups_of(const exec_block *block, const exec_moe_slot *slot, int rank)
{
    const int held = block->experts.held_count;
    exec_groups groups = {.count = held,
                          .row_count = slot->held_row_count,
                          .first = slot->first_row + (ptrdiff_t)rank * held,
                          .of_row = slot->row_group};
    if (slot->count == NULL) return groups;
    groups.begin = slot->shared_row[rank * held];
    groups.row_count = slot->shared_row[(rank + 1) * held] - groups.begin;
    groups.of_row += groups.begin;
    return groups;
}

/// Lists where rows that come here lie, by rank and expert, and where those lie that go.
static void list_shared(const exec_block *block, exec_moe_slot *slot)
{
    const exec_layer *layer = &block->layer;
    const int experts = block->experts.expert_count;
    const int held = block->experts.held_count;
    int *row_group = slot->shared_row + experts + 1;
    for (int segment = 0; segment < experts; segment++) {
        const int expert = rank_of(layer) * held + segment % held;
        slot->shared_entry[segment + 1] =
            slot->shared_entry[segment] + slot->count[rank_of(layer) * experts + segment];
        slot->shared_row[segment + 1] =
            slot->shared_row[segment] + slot->count[segment / held * experts + expert];
        for (int row = slot->shared_row[segment]; row < slot->shared_row[segment + 1]; row++) {
            row_group[row] = segment % held;
        }
    }
    slot->held_row_count = slot->shared_row[experts];
}

/// Finds out which rows come here: held by rank and expert.
static status find_rows(exec_block *block, exec_half_slot *half, exec_moe_slot *slot,
                        error_message *err)
{
    exec_layer *layer = &block->layer;
    const exec_kernel_table *table = layer->kernels->table;
    const exec_routing *routing = &slot->routing;
    const int experts = block->experts.expert_count;
    slot->held_row_count = routing->row_count * routing->top_k;
    slot->first_row = routing->first_place;
    slot->row_group = routing->place_expert;
    if (slot->count == NULL) return STATUS_OK;
    table->to_host(layer->kernels, slot->count + (ptrdiff_t)rank_of(layer) * experts,
                   routing->count, (size_t)experts * sizeof *slot->count);
    TRY(table->check(layer->kernels, err));
    TRY(exec_expert_exchange_counts(layer->model->expert_exchange, slot->count, experts, err));
    list_shared(block, slot);
    int *lists = slot->shared_row;
    if (!table->has_host_memory) {
        const size_t count = (size_t)(experts + 1 + slot->held_row_count);
        lists = (int *)exec_layer_take_numbers(layer, &half->until_weight, count);
        table->to_device(layer->kernels, lists, slot->shared_row, count * sizeof *lists);
    }
    slot->first_row = lists;
    slot->row_group = lists + experts + 1;
    return STATUS_OK;
}

/// Memory for rows of entries on their way, or of held ones: where the rank has all experts that of
/// the rows that they become.
static void *take_passing(const exec_layer *layer, int row_count, void *same)
{
    if (layer->model->expert_exchange == NULL) return same;
    return exec_buffers_take(layer->buffers,
                             exec_layer_bytes(layer, row_count, layer->model->width));
}

/// Sends rows [][width] of entries to their experts, or back.
///
/// @param from of take_passing, which ends
static status pass_rows(exec_block *block, const exec_moe_slot *slot, bool is_back, void *from,
                        void *to, error_message *err)
{
    const exec_layer *layer = &block->layer;
    exec_expert_exchange *exchange = layer->model->expert_exchange;
    const int *first_sent = is_back ? slot->shared_row : slot->shared_entry;
    const int *first_received = is_back ? slot->shared_entry : slot->shared_row;
    if (exchange == NULL) return STATUS_OK;
    TRY(exec_expert_exchange_rows(exchange, block->experts.held_count,
                                  exec_layer_bytes(layer, 1, layer->model->width), first_sent, from,
                                  first_received, to, err));
    exec_buffers_give(layer->buffers, from);
    return STATUS_OK;
}

/// Memory of the routing, of numbers of four bytes.
static exec_routing take_routing(exec_layer *layer, exec_half_slot *half, int row_count)
{
    const size_t experts = (size_t)options_of(layer)->expert_count;
    const size_t rows = (size_t)row_count;
    const size_t entries = rows * (size_t)options_of(layer)->top_k;
    int *places = exec_layer_take_numbers(layer, &half->until_weight, experts + 1 + entries);
    float *numbers = exec_layer_take_numbers(layer, &half->until_input,
                                             rows * experts + 5 * entries + rows + 1 + experts);
    int *indices = (int *)(void *)numbers + rows * experts + 2 * entries;
    return (exec_routing){.row_count = row_count,
                          .expert_count = options_of(layer)->expert_count,
                          .top_k = options_of(layer)->top_k,
                          .sinkhorn_rounds = options_of(layer)->sinkhorn_rounds,
                          .probability = numbers,
                          .weight = numbers + rows * experts,
                          .place_weight = numbers + rows * experts + entries,
                          .expert = indices,
                          .place = indices + entries,
                          .row = indices + 2 * entries,
                          .first_entry = indices + 3 * entries,
                          .count = indices + 3 * entries + rows + 1,
                          .first_place = places,
                          .place_expert = places + experts + 1};
}

/// Has the router choose.
static status route(exec_block *block, exec_half_slot *half, int row_count, exec_moe_slot *slot,
                    error_message *err)
{
    exec_layer *layer = &block->layer;
    const exec_kernel_table *table = layer->kernels->table;
    const int experts = block->experts.expert_count;
    const exec_matmul shape = {
        .rows = row_count, .columns = experts, .inner = layer->model->width, .is_float = true};
    slot->routing = take_routing(layer, half, row_count);
    float *logits =
        exec_buffers_take(layer->buffers, (size_t)row_count * (size_t)experts * sizeof *logits);
    table->matmul(layer->kernels, &shape, half->norm.output,
                  exec_layer_weights(layer, block->experts.router), logits);
    table->route(layer->kernels, &slot->routing, logits);
    exec_buffers_give(layer->buffers, logits);
    return find_rows(block, half, slot, err);
}

/// Has every expert work on its rows: all up, the activation, all down.
///
/// @param output [held][width] out
static void run_experts(exec_block *block, const exec_half_slot *half, const exec_moe_slot *slot,
                        void *output)
{
    exec_layer *layer = &block->layer;
    const exec_experts *experts = &block->experts;
    for (int rank = 0; rank < rank_count_of(layer); rank++) {
        const exec_groups groups = groups_of(block, slot, rank);
        exec_linears_forward(layer, &experts->up, &groups, slot->input, half->inner);
    }
    exec_half_activate(layer, half->inner, slot->held_row_count, experts->down.input_width,
                       half->outer);
    for (int rank = 0; rank < rank_count_of(layer); rank++) {
        const exec_groups groups = groups_of(block, slot, rank);
        exec_linears_forward(layer, &experts->down, &groups, half->outer, output);
    }
}

status exec_moe_half_forward(exec_block *block, exec_half_slot *half, exec_moe_slot *slot,
                             int row_count, void *values, error_message *err)
{
    exec_layer *layer = &block->layer;
    exec_kernels *kernels = layer->kernels;
    const exec_kernel_table *table = kernels->table;
    const int width = layer->model->width;
    exec_norm_forward(layer, &block->norm2, values, row_count, &half->norm, &half->until_input,
                      &half->until_weight);
    TRY(route(block, half, row_count, slot, err));
    const int entries = row_count * slot->routing.top_k;
    const int held = slot->held_row_count;
    slot->input = exec_layer_take(layer, &half->until_weight, held, width);
    half->inner = exec_layer_take(layer, &half->until_input, held, block->experts.up.output_width);
    half->outer =
        exec_layer_take(layer, &half->until_weight, held, block->experts.down.input_width);
    slot->output = exec_layer_take(layer, &half->until_input, entries, width);
    void *sent = take_passing(layer, entries, slot->input);
    table->gather_rows(kernels, half->norm.output, slot->routing.row, entries, width, sent);
    TRY(pass_rows(block, slot, false, sent, slot->input, err));
    void *made = take_passing(layer, held, slot->output);
    run_experts(block, half, slot, made);
    TRY(pass_rows(block, slot, true, made, slot->output, err));
    table->combine_rows(kernels, slot->output, slot->routing.first_entry, slot->routing.place,
                        slot->routing.weight, 1, row_count, width, values);
    return STATUS_OK;
}

/// Gradient of the logits, from that of the half's output.
static void backward_router(exec_block *block, exec_half_slot *half, exec_moe_slot *slot,
                            const void *gradient)
{
    exec_layer *layer = &block->layer;
    exec_kernels *kernels = layer->kernels;
    const exec_routing *routing = &slot->routing;
    const int entries = routing->row_count * routing->top_k;
    slot->logits_gradient =
        exec_layer_take(layer, &half->until_weight, routing->row_count, routing->expert_count);
    float *weight_gradient =
        exec_buffers_take(layer->buffers, (size_t)entries * sizeof *weight_gradient);
    kernels->table->row_dots(kernels, gradient, routing->row, slot->output, NULL, entries,
                             layer->model->width, weight_gradient);
    kernels->table->route_input(kernels, routing, weight_gradient, options_of(layer)->balance,
                                slot->logits_gradient);
    exec_buffers_give(layer->buffers, weight_gradient);
}

/// Back through down, the activation and up of every expert.
///
/// @param outer_gradient [held][expert width] scratch, as exec_half_activate_input takes it
/// @param input_gradient [held][width] out
static void backward_experts(exec_block *block, exec_half_slot *half, const exec_moe_slot *slot,
                             void *outer_gradient, void *input_gradient)
{
    exec_layer *layer = &block->layer;
    const exec_experts *experts = &block->experts;
    for (int rank = 0; rank < rank_count_of(layer); rank++) {
        const exec_groups groups = groups_of(block, slot, rank);
        exec_linears_backward_input(layer, &experts->down, &groups, slot->output_gradient,
                                    outer_gradient);
    }
    exec_half_activate_input(layer, half->inner, slot->held_row_count, experts->down.input_width,
                             outer_gradient, half->inner_gradient);
    for (int rank = 0; rank < rank_count_of(layer); rank++) {
        const exec_groups groups = groups_of(block, slot, rank);
        exec_linears_backward_input(layer, &experts->up, &groups, half->inner_gradient,
                                    input_gradient);
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
    table->combine_rows(layer->kernels, input_gradient, slot->routing.first_entry,
                        slot->routing.place, NULL, 1, slot->routing.row_count, layer->model->width,
                        norm_gradient);
}

status exec_moe_half_backward_input(exec_block *block, exec_half_slot *half, exec_moe_slot *slot,
                                    void *gradient, error_message *err)
{
    exec_layer *layer = &block->layer;
    exec_kernels *kernels = layer->kernels;
    const int width = layer->model->width;
    const int entries = slot->routing.row_count * slot->routing.top_k;
    const int held = slot->held_row_count;
    backward_router(block, half, slot, gradient);
    slot->output_gradient = exec_layer_take(layer, &half->until_weight, held, width);
    half->inner_gradient =
        exec_layer_take(layer, &half->until_weight, held, block->experts.up.output_width);
    void *input_gradient = exec_layer_take(layer, &half->until_input, entries, width);
    void *norm_gradient =
        exec_layer_take(layer, &half->until_input, slot->routing.row_count, width);
    void *outer_gradient = half->inner_gradient;
    if (layer->model->is_gated) {
        outer_gradient =
            exec_layer_take(layer, &half->until_input, held, block->experts.down.input_width);
    }
    void *sent = take_passing(layer, entries, slot->output_gradient);
    kernels->table->gather_rows(kernels, gradient, slot->routing.row, entries, width, sent);
    kernels->table->scale_rows(kernels, sent, slot->routing.place_weight, entries, width, sent);
    TRY(pass_rows(block, slot, false, sent, slot->output_gradient, err));
    void *made = take_passing(layer, held, input_gradient);
    backward_experts(block, half, slot, outer_gradient, made);
    TRY(pass_rows(block, slot, true, made, input_gradient, err));
    gather_input_gradient(block, slot, input_gradient, norm_gradient);
    exec_norm_backward_input(layer, &block->norm2, norm_gradient, &half->norm, &half->until_weight,
                             gradient);
    exec_holding_give(&half->until_input, layer->buffers);
    return STATUS_OK;
}

void exec_moe_half_backward_weight(exec_block *block, exec_half_slot *half, exec_moe_slot *slot)
{
    exec_layer *layer = &block->layer;
    const exec_experts *experts = &block->experts;
    const exec_matmul router = {.rows = layer->model->width,
                                .columns = experts->expert_count,
                                .inner = slot->routing.row_count,
                                .transposes_a = true,
                                .accumulates = true,
                                .is_float = true};
    layer->kernels->table->matmul(layer->kernels, &router, half->norm.output, slot->logits_gradient,
                                  exec_layer_gradient(layer, experts->router));
    for (int rank = 0; rank < rank_count_of(layer); rank++) {
        const exec_groups groups = groups_of(block, slot, rank);
        const exec_linear down = gradient_of(layer, &experts->down, rank);
        const exec_linear up = gradient_of(layer, &experts->up, rank);
        exec_linears_backward_weight(layer, &down, &groups, half->outer, slot->output_gradient);
        exec_linears_backward_weight(layer, &up, &groups, slot->input, half->inner_gradient);
    }
    exec_norm_backward_weight(layer, &block->norm2, &half->norm);
    exec_holding_give(&half->until_weight, layer->buffers);
}
