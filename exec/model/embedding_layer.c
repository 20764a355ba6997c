/// The layer that turns tokens into vectors.
#include "base/arena.h"
#include "exec/model/layer_table.h"

#include <math.h>
#include <stdlib.h>

typedef struct embedding {
    exec_layer layer; // first member
    size_t token_table, position_table;
    int *position; // [row_count] device memory: of each row in its sequence; NULL: without a table
} embedding;

typedef struct embedding_slot {
    exec_slot slot; // first member
    int row_count;
    const int *token;    // of the flow
    const int *position; // of the flow, or of the layer
    exec_holding until_weight;
    void *output_gradient; // [row_count][width] B to W
} embedding_slot;

static void write_positions(embedding *self)
{
    exec_layer *layer = &self->layer;
    const int rows = exec_model_row_count(layer->model);
    const size_t bytes = (size_t)rows * sizeof(int);
    int *position = memory_array(1, bytes);
    for (int row = 0; row < rows; row++) {
        position[row] = row % layer->model->sequence_length;
    }
    self->position = exec_layer_upload(layer, position, bytes);
    free(position);
}

static void describe(exec_layer *layer)
{
    embedding *self = (embedding *)layer;
    const exec_model *model = layer->model;
    const float deviation = 0.5F / sqrtf((float)model->width);
    self->token_table =
        exec_layer_add_matrix(layer, "tokens", model->vocabulary, model->width, deviation);
    if (model->rotary_base > 0) return;
    self->position_table =
        exec_layer_add_matrix(layer, "positions", model->sequence_length, model->width, deviation);
    write_positions(self);
}

static void undescribe(exec_layer *layer)
{
    exec_buffers_give(layer->buffers, ((embedding *)layer)->position);
}

static void let_go(exec_layer *layer, exec_slot *slot)
{
    exec_holding_give(&((embedding_slot *)slot)->until_weight, layer->buffers);
}

static status forward(exec_layer *layer, exec_slot *slot, exec_flow *flow, error_message *err)
{
    (void)err;
    const embedding *self = (const embedding *)layer;
    const bool has_table = self->position != NULL;
    embedding_slot *kept = (embedding_slot *)slot;
    kept->row_count = flow->row_count;
    kept->token = flow->token;
    kept->position = flow->position != NULL ? flow->position : self->position;
    layer->kernels->table->embed(layer->kernels, flow->token, kept->position,
                                 exec_layer_weights(layer, self->token_table),
                                 has_table ? exec_layer_weights(layer, self->position_table) : NULL,
                                 flow->row_count, layer->model->width, flow->values);
    return STATUS_OK;
}

static status backward_input(exec_layer *layer, exec_slot *slot, void *gradient, error_message *err)
{
    (void)err;
    embedding_slot *kept = (embedding_slot *)slot;
    if (layer->is_frozen) return STATUS_OK;
    const size_t bytes = exec_layer_bytes(layer, kept->row_count, layer->model->width);
    kept->output_gradient = exec_holding_take(&kept->until_weight, layer->buffers, bytes);
    layer->kernels->table->copy(layer->kernels, kept->output_gradient, gradient, bytes);
    return STATUS_OK;
}

static void backward_weight(exec_layer *layer, exec_slot *slot)
{
    const embedding *self = (const embedding *)layer;
    const bool has_table = self->position != NULL;
    embedding_slot *kept = (embedding_slot *)slot;
    layer->kernels->table->embed_weight(
        layer->kernels, kept->output_gradient, kept->token, kept->position, kept->row_count,
        layer->model->width, layer->model->vocabulary, layer->model->sequence_length,
        exec_layer_gradient(layer, self->token_table),
        has_table ? exec_layer_gradient(layer, self->position_table) : NULL);
    let_go(layer, slot);
}

const exec_layer_table exec_embedding_layer = {
    .layer_bytes = sizeof(embedding),
    .slot_bytes = sizeof(embedding_slot),
    .describe = describe,
    .undescribe = undescribe,
    .let_go = let_go,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};
