/// The arrays of a layer report: their list, their memory.
#include "exec/device/device.h"

void exec_layer_report_list(exec_layer_report *report, int64_t **arrays[EXEC_REPORT_ARRAYS],
                            int columns[EXEC_REPORT_ARRAYS])
{
    int64_t **const all[EXEC_REPORT_ARRAYS] = {
        &report->forward_ns,       &report->backward_input_ns, &report->backward_weight_ns,
        &report->exchange_ns,      &report->parameters,        &report->state_bytes,
        &report->activation_bytes, &report->gradient_bytes,    &report->message_bytes,
        &report->load_count};
    for (int array = 0; array < EXEC_REPORT_ARRAYS; array++) {
        arrays[array] = all[array];
        columns[array] = array < EXEC_REPORT_TIMES ? report->microbatch_count : 1;
    }
    columns[EXEC_REPORT_ARRAYS - 1] = report->microbatch_count * report->load_columns;
}

void exec_layer_report_carve(exec_layer_report *report, arena *memory)
{
    int64_t **arrays[EXEC_REPORT_ARRAYS];
    int columns[EXEC_REPORT_ARRAYS];
    exec_layer_report_list(report, arrays, columns);
    const size_t rows = (size_t)report->layer_count;
    report->layer = arena_array(memory, rows, sizeof *report->layer);
    for (int array = 0; array < EXEC_REPORT_ARRAYS; array++) {
        *arrays[array] = arena_array(memory, rows * (size_t)columns[array], sizeof **arrays[array]);
    }
}
