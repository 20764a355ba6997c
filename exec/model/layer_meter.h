/// What a rank measures of its layers in an iteration: times by layer and microbatch, bytes that
/// were really held, loads.
#pragma once

#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"
#include "exec/device/device.h"

#include <stdbool.h>
#include <stdint.h>

/// Rows are the rank's layers in model order. Carved by exec_layer_meter_init, then filled by who
/// plays.
typedef struct exec_layer_meter {
    int layer_count;
    int microbatch_count;
    int load_columns;
    int *layer;                // [layer_count] numbers in the model
    int64_t *forward_ns;       // [layer_count][microbatch_count]
    int64_t *backward_ns;      // [layer_count][microbatch_count] of B
    int64_t *weight_ns;        // [layer_count][microbatch_count] of W
    int64_t *parameters;       // [layer_count]
    int64_t *state_bytes;      // [layer_count]
    int64_t *activation_bytes; // [layer_count] largest so far
    int64_t *gradient_bytes;   // [layer_count] largest so far
    int64_t *message_bytes;    // [layer_count]
    int64_t *load_count;       // [layer_count][microbatch_count][load_columns]
} exec_layer_meter;

/// All 0.
void exec_layer_meter_init(exec_layer_meter *meter, arena *memory, int layer_count,
                           int microbatch_count, int load_columns);

/// Forgets what was measured, but not which layers they are.
void exec_layer_meter_clear(exec_layer_meter *meter);

/// Where the time of a row and microbatch belongs; kind is not OP_BACKWARD, which is a B and a W.
int64_t *exec_layer_meter_cell(const exec_layer_meter *meter, bal_op_kind kind, int row,
                               int microbatch);

/// Where the loads of a row and microbatch belong. [load_columns]
int64_t *exec_layer_meter_loads(const exec_layer_meter *meter, int row, int microbatch);

/// @param has_times false: the report has none
void exec_layer_meter_report(const exec_layer_meter *meter, bool has_times,
                             exec_layer_report *report);
