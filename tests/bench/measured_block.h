/// A block or the head of the executor's model that is timed apart from any training: F, B and W of
/// one microbatch, the parts that they are made of, and what is held between them.
#pragma once

#include "exec/model/layer.h"
#include "exec/model/mechanism.h"

#include <stdbool.h>
#include <stdint.h>

/// Order of the passes and of the parts of a pass as in models/.
enum { BLOCK_FORWARD, BLOCK_BACKWARD_INPUT, BLOCK_BACKWARD_WEIGHT, BLOCK_PASS_COUNT };
enum { BLOCK_PROJECTION, BLOCK_ATTENTION, BLOCK_MLP, BLOCK_ELEMENTWISE, BLOCK_PART_COUNT };

/// Times are of the calling thread's processor on backends in host memory, so that neighbours on
/// the machine do not count; else of the clock.
typedef struct block_figures {
    double pass_ns[BLOCK_PASS_COUNT];                   // median over the rounds
    double part_ns[BLOCK_PASS_COUNT][BLOCK_PART_COUNT]; // median; elementwise is all that is left
    int64_t activation_bytes;                           // held from F to B
    int64_t gradient_bytes;                             // held from B to W
    int load_columns;
    int64_t load[EXEC_EXPERT_COUNT_MAX]; // of the last round
} block_figures;

typedef struct measured_block {
    exec_model model; // from here on
    exec_kernels *kernels;
    exec_buffers *buffers;
    exec_layer *layer; // freshly initialised
    exec_slot *slot;
    float *host_input; // [rows][width] values that go in, uniform; may be changed
    uint8_t *has_left; // [rows] that go in, all 0; may be changed
    exec_flow flow;
    void *input, *output_gradient, *gradient; // device memory, as what follows
    void *target, *loss;                      // [rows]: class 0 of all
    void *load;                               // [EXEC_EXPERT_COUNT_MAX] of exec_flow
    void *device_left;                        // [rows]
} measured_block;

/// Opens a layer of the model on the backend: 1 is block 0, block_count + 1 the head. Release with
/// measured_block_close. Exits with a message where that fails.
void measured_block_open(measured_block *block, exec_kernels *kernels, const exec_model *model,
                         int layer);
void measured_block_close(measured_block *block);

/// Rounds of F, B and W, one after the other; parts cost a round of their own each.
block_figures measured_block_measure(measured_block *block, int round_count);
