#include "exec/model/layer_meter.h"

#include <string.h>

void exec_layer_meter_init(exec_layer_meter *meter, arena *memory, int layer_count,
                           int microbatch_count, int load_columns)
{
    const size_t rows = (size_t)layer_count;
    const size_t cells = rows * (size_t)microbatch_count;
    const size_t loads = cells * (size_t)load_columns;
    const exec_layer_meter made = {
        .layer_count = layer_count,
        .microbatch_count = microbatch_count,
        .load_columns = load_columns,
        .layer = arena_array(memory, rows, sizeof(int)),
        .forward_ns = arena_array(memory, cells, sizeof(int64_t)),
        .backward_ns = arena_array(memory, cells, sizeof(int64_t)),
        .weight_ns = arena_array(memory, cells, sizeof(int64_t)),
        .parameters = arena_array(memory, rows, sizeof(int64_t)),
        .state_bytes = arena_array(memory, rows, sizeof(int64_t)),
        .activation_bytes = arena_array(memory, rows, sizeof(int64_t)),
        .gradient_bytes = arena_array(memory, rows, sizeof(int64_t)),
        .message_bytes = arena_array(memory, rows, sizeof(int64_t)),
        .load_count = arena_array(memory, loads, sizeof(int64_t)),
    };
    *meter = made;
}

void exec_layer_meter_clear(exec_layer_meter *meter)
{
    const size_t row_bytes = (size_t)meter->layer_count * sizeof(int64_t);
    const size_t time_bytes = row_bytes * (size_t)meter->microbatch_count;
    memset(meter->forward_ns, 0, time_bytes);
    memset(meter->backward_ns, 0, time_bytes);
    memset(meter->weight_ns, 0, time_bytes);
    memset(meter->activation_bytes, 0, row_bytes);
    memset(meter->gradient_bytes, 0, row_bytes);
    memset(meter->load_count, 0, time_bytes * (size_t)meter->load_columns);
}

int64_t *exec_layer_meter_cell(const exec_layer_meter *meter, bal_op_kind kind, int row,
                               int microbatch)
{
    int64_t *times = kind == OP_FORWARD          ? meter->forward_ns
                     : kind == OP_BACKWARD_INPUT ? meter->backward_ns
                                                 : meter->weight_ns;
    return &times[(int64_t)row * meter->microbatch_count + microbatch];
}

int64_t *exec_layer_meter_loads(const exec_layer_meter *meter, int row, int microbatch)
{
    const int64_t cell = (int64_t)row * meter->microbatch_count + microbatch;
    return &meter->load_count[cell * meter->load_columns];
}

void exec_layer_meter_report(const exec_layer_meter *meter, bool has_times,
                             exec_layer_report *report)
{
    *report = (exec_layer_report){
        .layer_count = meter->layer_count,
        .layer = meter->layer,
        .microbatch_count = meter->microbatch_count,
        .forward_ns = has_times ? meter->forward_ns : NULL,
        .backward_input_ns = has_times ? meter->backward_ns : NULL,
        .backward_weight_ns = has_times ? meter->weight_ns : NULL,
        .parameters = meter->parameters,
        .state_bytes = meter->state_bytes,
        .activation_bytes = meter->activation_bytes,
        .gradient_bytes = meter->gradient_bytes,
        .message_bytes = meter->message_bytes,
        .load_count = meter->load_columns > 0 ? meter->load_count : NULL,
        .load_columns = meter->load_columns,
    };
}
