#include "exec/model/block_layer.h"

#include "base/arena.h"

#include <string.h>

struct exec_rows_slot {
    int chosen_count; // at most, as far as the host knows
    int *first_row;   // [microbatch_size + 1] likewise, sequence after sequence
    exec_holding until_input, until_weight;
    const int *row; // [chosen_count] device memory: which, ascending

    // Early exit only.
    exec_live live; // until W
    exec_exit_slot exit;

    // Mixture of depths only.
    exec_chosen chosen;    // until B
    float *score_gradient; // [chosen_count] device memory, B to W
    void *input;           // [chosen_count][width] F to W: chosen rows in front of the block
    void *change;          // [chosen_count][width] F to B: what the block made of them, less input
};

exec_rows_slot *exec_rows_slot_carve(const exec_layer *layer, arena *memory)
{
    const exec_model *model = layer->model;
    const int sequences = model->microbatch_size;
    const int length = model->sequence_length;
    const bool is_early_exit = model->mechanism == EXEC_EARLY_EXIT;
    exec_rows_slot *slot = arena_array(memory, 1, sizeof *slot);
    const int count = is_early_exit ? length : exec_mod_row_count(&model->mod, length);
    slot->live = (exec_live){.sequence_count = sequences, .sequence_length = length};
    slot->chosen =
        (exec_chosen){.sequence_count = sequences, .sequence_length = length, .count = count};
    slot->first_row = arena_array(memory, (size_t)sequences + 1, sizeof(int));
    for (int sequence = 0; sequence <= sequences; sequence++) {
        slot->first_row[sequence] = sequence * count;
    }
    return slot;
}

void exec_rows_slot_let_go(exec_layer *layer, exec_rows_slot *slot)
{
    exec_holding_give(&slot->until_input, layer->buffers);
    exec_holding_give(&slot->until_weight, layer->buffers);
    exec_exit_let_go(layer, &slot->exit);
}

bool exec_block_chooses_rows(const exec_layer *layer)
{
    const int block = layer->index - 1;
    if (layer->model->mechanism == EXEC_MOD) return exec_mod_routes(&layer->model->mod, block);
    return layer->model->mechanism == EXEC_EARLY_EXIT &&
           block >= layer->model->early_exit.first_exit;
}

/// Sets the rows that the halves of the block work on.
static void take_rows(const exec_layer *layer, exec_block_slot *slot)
{
    exec_rows_slot *rows = slot->chosen_rows;
    const int sequences = layer->model->microbatch_size;
    slot->rows.row_count = rows->chosen_count = rows->first_row[sequences];
    slot->rows.row = rows->row;
    slot->rows.attention = exec_block_attention(layer->model, sequences, rows->first_row);
}

/// Has the device choose rows by their scores.
static void choose_rows(exec_block *block, exec_block_slot *slot, const exec_flow *flow)
{
    exec_layer *layer = &block->layer;
    exec_rows_slot *rows = slot->chosen_rows;
    exec_chosen *chosen = &rows->chosen;
    const size_t all = (size_t)flow->row_count;
    const size_t count = (size_t)chosen->sequence_count * (size_t)chosen->count;
    chosen->gate = exec_layer_take_numbers(layer, &rows->until_input, 2 * count + all + 1);
    chosen->row = (int *)(void *)chosen->gate + count;
    chosen->before = chosen->row + count;
    float *score = exec_buffers_take(layer->buffers, all * sizeof *score);
    exec_vector_forward(layer, block->row_router, flow->values, flow->row_count, score);
    layer->kernels->table->choose_rows(layer->kernels, chosen, score);
    exec_buffers_give(layer->buffers, score);
    rows->row = chosen->row;
    take_rows(layer, slot);
}

/// all [row_count][width] += weight * chosen, at the places of the chosen rows.
static void add_chosen(exec_layer *layer, const exec_rows_slot *rows, const void *chosen,
                       const float *weight, void *all)
{
    layer->kernels->table->combine_rows(layer->kernels, chosen, rows->chosen.before, NULL, weight,
                                        1, exec_model_row_count(layer->model), layer->model->width,
                                        all);
}

static status mod_forward(exec_block *block, exec_block_slot *slot, exec_flow *flow,
                          error_message *err)
{
    exec_layer *layer = &block->layer;
    exec_kernels *kernels = layer->kernels;
    exec_rows_slot *rows = slot->chosen_rows;
    const int width = layer->model->width;
    choose_rows(block, slot, flow);
    const size_t bytes = exec_layer_bytes(layer, rows->chosen_count, width);
    rows->input = exec_holding_take(&rows->until_weight, layer->buffers, bytes);
    rows->change = exec_holding_take(&rows->until_input, layer->buffers, bytes);
    kernels->table->gather_rows(kernels, flow->values, rows->row, rows->chosen_count, width,
                                rows->input);
    kernels->table->copy(kernels, rows->change, rows->input, bytes);
    TRY(exec_block_halves_forward(block, slot, rows->change, err));
    kernels->table->combine_rows(kernels, rows->input, NULL, NULL, NULL, -1, rows->chosen_count,
                                 width, rows->change);
    add_chosen(layer, rows, rows->change, rows->chosen.gate, flow->values);
    return STATUS_OK;
}

/// Gradients of the scores, from those of the gates, which multiply what the block changed.
static void backward_gates(exec_layer *layer, exec_rows_slot *rows, const void *output_gradient)
{
    exec_kernels *kernels = layer->kernels;
    const size_t count = (size_t)rows->chosen_count;
    rows->score_gradient = exec_layer_take_numbers(layer, &rows->until_weight, count);
    kernels->table->row_dots(kernels, output_gradient, NULL, rows->change, NULL, rows->chosen_count,
                             layer->model->width, rows->score_gradient);
    kernels->table->gate_input(kernels, rows->chosen.gate, rows->score_gradient, count);
}

/// With y = x + gate(router . x) * (block(x) - x) of chosen rows, the gradient of x beyond that of
/// the residual path: through the block, less gate times that of y, and through the router.
static status mod_backward_input(exec_block *block, exec_block_slot *slot, void *gradient,
                                 error_message *err)
{
    exec_layer *layer = &block->layer;
    exec_kernels *kernels = layer->kernels;
    exec_rows_slot *rows = slot->chosen_rows;
    exec_holding *holding = &rows->until_input;
    const int count = rows->chosen_count;
    const int width = layer->model->width;
    void *output_gradient = exec_layer_take(layer, holding, count, width);
    void *input_gradient = exec_layer_take(layer, holding, count, width);
    int *zero = exec_layer_take_numbers(layer, holding, (size_t)count);
    kernels->table->gather_rows(kernels, gradient, rows->row, count, width, output_gradient);
    backward_gates(layer, rows, output_gradient);
    kernels->table->scale_rows(kernels, output_gradient, rows->chosen.gate, count, width,
                               input_gradient);
    TRY(exec_block_halves_backward_input(block, slot, input_gradient, err));
    kernels->table->combine_rows(kernels, output_gradient, NULL, NULL, rows->chosen.gate, -1, count,
                                 width, input_gradient);
    kernels->table->clear(kernels, zero, (size_t)count * sizeof *zero);
    kernels->table->combine_rows(kernels, exec_layer_weights(layer, block->row_router), NULL, zero,
                                 rows->score_gradient, 1, count, width, input_gradient);
    add_chosen(layer, rows, input_gradient, NULL, gradient);
    exec_holding_give(holding, layer->buffers);
    return STATUS_OK;
}

static void mod_backward_weight(exec_block *block, exec_block_slot *slot)
{
    exec_layer *layer = &block->layer;
    exec_rows_slot *rows = slot->chosen_rows;
    exec_block_halves_backward_weight(block, slot);
    exec_vector_backward_weight(layer, rows->input, rows->score_gradient, rows->chosen_count,
                                exec_layer_gradient(layer, block->row_router));
    exec_holding_give(&rows->until_weight, layer->buffers);
}

/// Finds the rows that have not left, and how many, which the host reads only where it need not
/// wait for that.
static void find_live(exec_layer *layer, exec_block_slot *slot, const exec_flow *flow)
{
    exec_kernels *kernels = layer->kernels;
    exec_rows_slot *rows = slot->chosen_rows;
    exec_live *live = &rows->live;
    const size_t sequences = (size_t)live->sequence_count;
    const size_t all = sequences * (size_t)live->sequence_length;
    live->has_left = flow->has_left;
    live->row = exec_layer_take_numbers(layer, &rows->until_weight, all + sequences + 3);
    rows->row = live->row;
    live->first_row = live->row + all;
    live->extent = live->first_row + sequences + 1;
    kernels->table->find_live(kernels, live);
    if (flow->load != NULL) {
        kernels->table->copy(kernels, flow->load, live->extent + 1, sizeof *flow->load);
    }
    if (kernels->table->has_host_memory) {
        memcpy(rows->first_row, live->first_row, (sequences + 1) * sizeof(int));
    }
    take_rows(layer, slot);
    if (!kernels->table->has_host_memory) slot->rows.attention.live_first_row = live->first_row;
}

/// From here on operations are over the rows that are left; or over all that they are given again.
static void limit_rows(const exec_layer *layer, const exec_rows_slot *rows, bool begins)
{
    const exec_kernel_table *table = layer->kernels->table;
    if (table->limit_rows == NULL) return;
    table->limit_rows(layer->kernels, begins ? rows->live.extent : NULL, rows->chosen_count);
}

static status early_exit_forward(exec_block *block, exec_block_slot *slot, exec_flow *flow,
                                 error_message *err)
{
    exec_layer *layer = &block->layer;
    exec_kernels *kernels = layer->kernels;
    exec_rows_slot *rows = slot->chosen_rows;
    const int width = layer->model->width;
    find_live(layer, slot, flow);
    if (rows->chosen_count == 0) return STATUS_OK;
    const size_t bytes = exec_layer_bytes(layer, rows->chosen_count, width);
    void *before = exec_holding_take(&rows->until_input, layer->buffers, bytes);
    void *after = exec_holding_take(&rows->until_input, layer->buffers, bytes);
    limit_rows(layer, rows, true);
    kernels->table->gather_rows(kernels, flow->values, rows->row, rows->chosen_count, width,
                                before);
    kernels->table->copy(kernels, after, before, bytes);
    TRY(exec_block_halves_forward(block, slot, after, err));
    kernels->table->scatter_rows(kernels, after, rows->row, rows->chosen_count, width,
                                 flow->values);
    if (exec_exit_follows(layer)) {
        const exec_exit_rows computed = {rows->row, rows->chosen_count, before, after};
        exec_exit_forward(layer, &block->exit, &computed, &rows->exit, flow);
    }
    limit_rows(layer, rows, false);
    exec_holding_give(&rows->until_input, layer->buffers);
    return STATUS_OK;
}

static status early_exit_backward_input(exec_block *block, exec_block_slot *slot, void *gradient,
                                        error_message *err)
{
    exec_layer *layer = &block->layer;
    exec_kernels *kernels = layer->kernels;
    exec_rows_slot *rows = slot->chosen_rows;
    const int width = layer->model->width;
    if (rows->chosen_count == 0) return STATUS_OK;
    void *live = exec_layer_take(layer, &rows->until_input, rows->chosen_count, width);
    limit_rows(layer, rows, true);
    kernels->table->gather_rows(kernels, gradient, rows->row, rows->chosen_count, width, live);
    if (exec_exit_follows(layer)) {
        exec_exit_backward_input(layer, &block->exit, &rows->exit, live);
    }
    TRY(exec_block_halves_backward_input(block, slot, live, err));
    kernels->table->scatter_rows(kernels, live, rows->row, rows->chosen_count, width, gradient);
    limit_rows(layer, rows, false);
    exec_holding_give(&rows->until_input, layer->buffers);
    return STATUS_OK;
}

static void early_exit_backward_weight(exec_block *block, exec_block_slot *slot)
{
    exec_layer *layer = &block->layer;
    exec_rows_slot *rows = slot->chosen_rows;
    if (rows->chosen_count > 0) {
        limit_rows(layer, rows, true);
        exec_block_halves_backward_weight(block, slot);
        if (exec_exit_follows(layer)) {
            exec_exit_backward_weight(layer, &block->exit, &rows->exit);
        }
        limit_rows(layer, rows, false);
    }
    exec_holding_give(&rows->until_weight, layer->buffers);
}

static bool is_mod(const exec_block *block)
{
    return block->layer.model->mechanism == EXEC_MOD;
}

status exec_chosen_rows_forward(exec_block *block, exec_block_slot *slot, exec_flow *flow,
                                error_message *err)
{
    return (is_mod(block) ? mod_forward : early_exit_forward)(block, slot, flow, err);
}

status exec_chosen_rows_backward_input(exec_block *block, exec_block_slot *slot, void *gradient,
                                       error_message *err)
{
    return (is_mod(block) ? mod_backward_input : early_exit_backward_input)(block, slot, gradient,
                                                                            err);
}

void exec_chosen_rows_backward_weight(exec_block *block, exec_block_slot *slot)
{
    (is_mod(block) ? mod_backward_weight : early_exit_backward_weight)(block, slot);
}
