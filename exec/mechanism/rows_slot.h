/// The choice of rows of one microbatch, on the host and on the device. Internal to
/// block_rows.c, block_mod.c and block_early_exit.c.
#pragma once

#include "base/arena.h"
#include "exec/model/block_rows.h"

struct exec_rows_slot {
    arena *memory; // of the host arrays
    exec_row_choice choice;
    int chosen_count;
    float *score;      // [row_max] host: of all rows; scratch of 3 [row_max] in all
    float *gate;       // [row_max] host: of chosen rows
    float *minus;      // [row_max] host: scratch
    int *first_chosen; // [row_max + 1] host: chosen rows in front of a row
    int *number;       // [row_max + 1] host: 0, 1, 2, ...

    exec_holding until_input, until_weight;
    // Device memory, until W: as on the host.
    void *device_row, *device_first_chosen, *device_number, *device_gate;
    void *device_score_gradient; // [chosen_count] B to W
    void *input;                 // [chosen_count][width] F to W: chosen rows in front of the block
    void *change; // [chosen_count][width] F to B: what the block made of them, less input
};

/// Copies the choice to the device, and sets the rows that the halves of the block work on.
status exec_rows_slot_upload(exec_layer *layer, exec_block_slot *slot, error_message *err);
