#include "exec/model/block_rows.h"

#include "base/arena.h"

struct exec_rows_slot {
    exec_row_choice choice;
    int chosen_count;
    float *score;      // [row_max] host: of all rows
    float *gate;       // [row_max] host: of chosen rows
    float *minus;      // [row_max] host: scratch
    int *first_chosen; // [row_max + 1] host: chosen rows in front of a row
    int *number;       // [row_max + 1] host: 0, 1, 2, ...

    exec_exit_slot exit; // early exit only

    exec_holding until_input, until_weight;
    // Device memory, until W: as on the host.
    void *device_row, *device_first_chosen, *device_number, *device_gate;
    void *device_score_gradient; // [chosen_count] B to W
    void *input;                 // [chosen_count][width] F to W: chosen rows in front of the block
    void *change; // [chosen_count][width] F to B: what the block made of them, less input
};

exec_rows_slot *exec_rows_slot_carve(const exec_layer *layer, arena *memory)
{
    const exec_model *model = layer->model;
    const size_t rows = (size_t)exec_model_row_count(model);
    const size_t sequences = (size_t)model->microbatch_size;
    exec_rows_slot *slot = arena_array(memory, 1, sizeof *slot);
    slot->choice = (exec_row_choice){
        .sequence_count = model->microbatch_size,
        .sequence_length = model->sequence_length,
        .row = arena_array(memory, rows, sizeof(int)),
        .first_row = arena_array(memory, sequences + 1, sizeof(int)),
    };
    slot->score = arena_array(memory, rows, sizeof(float));
    slot->gate = arena_array(memory, rows, sizeof(float));
    slot->minus = arena_array(memory, rows, sizeof(float));
    slot->first_chosen = arena_array(memory, rows + 1, sizeof(int));
    slot->number = arena_array(memory, rows + 1, sizeof(int));
    for (size_t row = 0; row <= rows; row++) {
        slot->number[row] = (int)row;
    }
    if (exec_exit_follows(layer)) exec_exit_carve(layer, memory, &slot->exit);
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

static void count_chosen(exec_rows_slot *slot)
{
    const exec_row_choice *choice = &slot->choice;
    const int rows = choice->sequence_count * choice->sequence_length;
    int chosen = 0;
    slot->chosen_count = choice->first_row[choice->sequence_count];
    for (int row = 0; row < rows; row++) {
        slot->first_chosen[row] = chosen;
        if (chosen < slot->chosen_count && choice->row[chosen] == row) chosen++;
    }
    slot->first_chosen[rows] = chosen;
}

/// Copies the choice to the device, and sets the rows that the halves of the block work on.
static status upload_choice(exec_layer *layer, exec_block_slot *slot, error_message *err)
{
    exec_rows_slot *rows = slot->chosen_rows;
    exec_holding *holding = &rows->until_weight;
    const size_t all = (size_t)exec_model_row_count(layer->model) + 1;
    count_chosen(rows);
    slot->rows.row_count = rows->chosen_count;
    slot->rows.attention =
        exec_block_attention(layer->model, rows->choice.sequence_count, rows->choice.first_row);
    TRY(exec_holding_upload(holding, layer->buffers, rows->choice.row,
                            (size_t)rows->chosen_count * sizeof(int), &rows->device_row, err));
    slot->rows.row = rows->device_row;
    TRY(exec_holding_upload(holding, layer->buffers, rows->first_chosen, all * sizeof(int),
                            &rows->device_first_chosen, err));
    return exec_holding_upload(holding, layer->buffers, rows->number, all * sizeof(int),
                               &rows->device_number, err);
}

/// to [chosen_count][width] += weight * from, row by row.
static void add_rows(exec_layer *layer, const exec_rows_slot *rows, const void *from,
                     const float *weight, void *to)
{
    layer->kernels->table->combine_rows(layer->kernels, from, rows->device_number,
                                        rows->device_number, weight, rows->chosen_count,
                                        layer->model->width, to);
}

/// all [row_count][width] += weight * chosen, at the places of the chosen rows.
static void add_chosen(exec_layer *layer, const exec_rows_slot *rows, const void *chosen,
                       const float *weight, void *all)
{
    layer->kernels->table->combine_rows(
        layer->kernels, chosen, rows->device_first_chosen, rows->device_number, weight,
        exec_model_row_count(layer->model), layer->model->width, all);
}

/// Uploads the gates, and a scratch of as many times -1.
static status upload_gates(exec_layer *layer, exec_rows_slot *rows, void **minus,
                           error_message *err)
{
    const size_t bytes = (size_t)rows->chosen_count * sizeof(float);
    for (int chosen = 0; chosen < rows->chosen_count; chosen++) {
        rows->gate[chosen] = exec_gate(rows->score[rows->choice.row[chosen]]);
        rows->minus[chosen] = -1;
    }
    TRY(exec_holding_upload(&rows->until_weight, layer->buffers, rows->gate, bytes,
                            &rows->device_gate, err));
    return exec_holding_upload(&rows->until_input, layer->buffers, rows->minus, bytes, minus, err);
}

status exec_block_mod_forward(exec_block *block, exec_block_slot *slot, exec_flow *flow,
                              error_message *err)
{
    exec_layer *layer = &block->layer;
    exec_kernels *kernels = layer->kernels;
    exec_rows_slot *rows = slot->chosen_rows;
    const exec_mod_options *options = &layer->model->mod;
    const int width = layer->model->width;
    void *minus = NULL;
    TRY(exec_vector_forward(layer, block->row_router, flow->values, flow->row_count, rows->score,
                            err));
    exec_choose_top_rows(&rows->choice, rows->score,
                         exec_mod_row_count(options, layer->model->sequence_length));
    TRY(upload_choice(layer, slot, err));
    TRY(upload_gates(layer, rows, &minus, err));
    const size_t bytes = exec_layer_bytes(layer, rows->chosen_count, width);
    TRY(exec_holding_take(&rows->until_weight, layer->buffers, bytes, &rows->input, err));
    TRY(exec_holding_take(&rows->until_input, layer->buffers, bytes, &rows->change, err));
    kernels->table->gather_rows(kernels, flow->values, rows->device_row, rows->chosen_count, width,
                                rows->input);
    kernels->table->copy(kernels, rows->change, rows->input, bytes);
    TRY(exec_block_halves_forward(block, slot, rows->change, err));
    add_rows(layer, rows, rows->input, minus, rows->change);
    add_chosen(layer, rows, rows->change, rows->device_gate, flow->values);
    return STATUS_OK;
}

/// Gradients of the scores, from those of the gates, which multiply what the block changed.
static status backward_gates(exec_layer *layer, exec_rows_slot *rows, const void *output_gradient,
                             error_message *err)
{
    exec_kernels *kernels = layer->kernels;
    const size_t bytes = (size_t)rows->chosen_count * sizeof(float);
    void *score_gradient = NULL;
    TRY(exec_holding_take(&rows->until_weight, layer->buffers, bytes, &score_gradient, err));
    kernels->table->row_dots(kernels, output_gradient, NULL, rows->change, NULL, rows->chosen_count,
                             layer->model->width, score_gradient);
    kernels->table->to_host(kernels, rows->score, score_gradient, bytes);
    for (int chosen = 0; chosen < rows->chosen_count; chosen++) {
        rows->score[chosen] = exec_gate_gradient(rows->gate[chosen], rows->score[chosen]);
        rows->minus[chosen] = -rows->gate[chosen];
    }
    kernels->table->to_device(kernels, score_gradient, rows->score, bytes);
    rows->device_score_gradient = score_gradient;
    return STATUS_OK;
}

/// With y = x + gate(router . x) * (block(x) - x) of chosen rows, the gradient of x beyond that of
/// the residual path: through the block, less gate times that of y, and through the router.
status exec_block_mod_backward_input(exec_block *block, exec_block_slot *slot, void *gradient,
                                     error_message *err)
{
    exec_layer *layer = &block->layer;
    exec_kernels *kernels = layer->kernels;
    exec_rows_slot *rows = slot->chosen_rows;
    exec_holding *holding = &rows->until_input;
    const int width = layer->model->width;
    const size_t numbers = (size_t)rows->chosen_count * sizeof(float);
    const size_t bytes = exec_layer_bytes(layer, rows->chosen_count, width);
    void *output_gradient = NULL;
    void *input_gradient = NULL;
    void *minus = NULL;
    void *zero = NULL;
    TRY(exec_holding_take(holding, layer->buffers, bytes, &output_gradient, err));
    TRY(exec_holding_take(holding, layer->buffers, bytes, &input_gradient, err));
    kernels->table->gather_rows(kernels, gradient, rows->device_row, rows->chosen_count, width,
                                output_gradient);
    TRY(backward_gates(layer, rows, output_gradient, err));
    kernels->table->scale_rows(kernels, output_gradient, rows->device_gate, rows->chosen_count,
                               width, input_gradient);
    TRY(exec_block_halves_backward_input(block, slot, input_gradient, err));
    TRY(exec_holding_upload(holding, layer->buffers, rows->minus, numbers, &minus, err));
    TRY(exec_holding_take(holding, layer->buffers, numbers, &zero, err));
    kernels->table->clear(kernels, zero, numbers);
    add_rows(layer, rows, output_gradient, minus, input_gradient);
    kernels->table->combine_rows(kernels, exec_layer_weights(layer, block->row_router),
                                 rows->device_number, zero, rows->device_score_gradient,
                                 rows->chosen_count, width, input_gradient);
    add_chosen(layer, rows, input_gradient, NULL, gradient);
    exec_holding_give(holding, layer->buffers);
    return STATUS_OK;
}

status exec_block_mod_backward_weight(exec_block *block, exec_block_slot *slot, error_message *err)
{
    exec_layer *layer = &block->layer;
    exec_rows_slot *rows = slot->chosen_rows;
    exec_block_halves_backward_weight(block, slot);
    TRY(exec_vector_backward_weight(layer, rows->input, rows->device_score_gradient,
                                    rows->chosen_count,
                                    exec_layer_gradient(layer, block->row_router), err));
    exec_holding_give(&rows->until_weight, layer->buffers);
    return STATUS_OK;
}

status exec_block_early_exit_forward(exec_block *block, exec_block_slot *slot, exec_flow *flow,
                                     error_message *err)
{
    exec_layer *layer = &block->layer;
    exec_kernels *kernels = layer->kernels;
    exec_rows_slot *rows = slot->chosen_rows;
    const int width = layer->model->width;
    void *before = NULL;
    void *after = NULL;
    exec_choose_live_rows(&rows->choice, flow->is_live);
    TRY(upload_choice(layer, slot, err));
    if (rows->chosen_count == 0) return STATUS_OK;
    const size_t bytes = exec_layer_bytes(layer, rows->chosen_count, width);
    TRY(exec_holding_take(&rows->until_input, layer->buffers, bytes, &before, err));
    TRY(exec_holding_take(&rows->until_input, layer->buffers, bytes, &after, err));
    kernels->table->gather_rows(kernels, flow->values, rows->device_row, rows->chosen_count, width,
                                before);
    kernels->table->copy(kernels, after, before, bytes);
    TRY(exec_block_halves_forward(block, slot, after, err));
    kernels->table->scatter_rows(kernels, after, rows->device_row, rows->chosen_count, width,
                                 flow->values);
    if (exec_exit_follows(layer)) {
        const exec_exit_rows computed = {rows->choice.row, rows->chosen_count, before, after};
        TRY(exec_exit_forward(layer, &block->exit, &computed, &rows->exit, flow, err));
    }
    exec_holding_give(&rows->until_input, layer->buffers);
    return STATUS_OK;
}

status exec_block_early_exit_backward_input(exec_block *block, exec_block_slot *slot,
                                            void *gradient, error_message *err)
{
    exec_layer *layer = &block->layer;
    exec_kernels *kernels = layer->kernels;
    exec_rows_slot *rows = slot->chosen_rows;
    const int width = layer->model->width;
    void *live = NULL;
    if (rows->chosen_count == 0) return STATUS_OK;
    TRY(exec_holding_take(&rows->until_input, layer->buffers,
                          exec_layer_bytes(layer, rows->chosen_count, width), &live, err));
    kernels->table->gather_rows(kernels, gradient, rows->device_row, rows->chosen_count, width,
                                live);
    if (exec_exit_follows(layer)) {
        TRY(exec_exit_backward_input(layer, &block->exit, &rows->exit, live, err));
    }
    TRY(exec_block_halves_backward_input(block, slot, live, err));
    kernels->table->scatter_rows(kernels, live, rows->device_row, rows->chosen_count, width,
                                 gradient);
    exec_holding_give(&rows->until_input, layer->buffers);
    return STATUS_OK;
}

void exec_block_early_exit_backward_weight(exec_block *block, exec_block_slot *slot)
{
    exec_layer *layer = &block->layer;
    exec_rows_slot *rows = slot->chosen_rows;
    if (rows->chosen_count > 0) {
        exec_block_halves_backward_weight(block, slot);
        if (exec_exit_follows(layer)) {
            exec_exit_backward_weight(layer, &block->exit, &rows->exit);
        }
    }
    exec_holding_give(&rows->until_weight, layer->buffers);
}
