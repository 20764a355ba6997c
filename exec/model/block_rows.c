#include "exec/model/block_rows.h"

#include "base/arena.h"
#include "exec/mechanism/rows_slot.h"

#include <stdlib.h>

static status carve(const exec_layer *layer, exec_rows_slot *slot)
{
    const exec_model *model = layer->model;
    const size_t rows = (size_t)exec_model_row_count(model);
    const size_t sequences = (size_t)model->microbatch_size;
    slot->choice = (exec_row_choice){
        .sequence_count = model->microbatch_size,
        .sequence_length = model->sequence_length,
        .row = arena_array(slot->memory, rows, sizeof(int)),
        .first_row = arena_array(slot->memory, sequences + 1, sizeof(int)),
    };
    slot->score = arena_array(slot->memory, 3 * rows, sizeof(float));
    slot->gate = arena_array(slot->memory, rows, sizeof(float));
    slot->minus = arena_array(slot->memory, rows, sizeof(float));
    slot->first_chosen = arena_array(slot->memory, rows + 1, sizeof(int));
    slot->number = arena_array(slot->memory, rows + 1, sizeof(int));
    for (size_t row = 0; row <= rows; row++) {
        slot->number[row] = (int)row;
    }
    return STATUS_OK;
}

status exec_rows_slot_create(const exec_layer *layer, exec_rows_slot **slot)
{
    exec_rows_slot *made = memory_array(1, sizeof *made);
    if (made != NULL) made->memory = arena_create(1 << 14);
    const status code = carve(layer, made);
    if (code != STATUS_OK) {
        exec_rows_slot_destroy(made);
        return code;
    }
    *slot = made;
    return STATUS_OK;
}

void exec_rows_slot_destroy(exec_rows_slot *slot)
{
    if (slot == NULL) return;
    arena_destroy(slot->memory);
    free(slot);
}

void exec_rows_slot_let_go(exec_layer *layer, exec_rows_slot *slot)
{
    exec_holding_give(&slot->until_input, layer->buffers);
    exec_holding_give(&slot->until_weight, layer->buffers);
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

status exec_rows_slot_upload(exec_layer *layer, exec_block_slot *slot, error_message *err)
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
    TRY(exec_holding_upload(holding, layer->buffers, rows->first_chosen, all * sizeof(int),
                            &rows->device_first_chosen, err));
    return exec_holding_upload(holding, layer->buffers, rows->number, all * sizeof(int),
                               &rows->device_number, err);
}
