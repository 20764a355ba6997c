/// What the files of the training device share; nobody else includes it.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "exec/model/expert_exchange.h"
#include "exec/model/layer.h"
#include "exec/model/mechanism.h"
#include "exec/stopwatch.h"
#include "exec/training/training_device.h"

#include <stdbool.h>
#include <stdint.h>

// Where the hidden states of microbatches are while they pass through a rank: forward as
// activations, backward as gradients. A stage hands its output to the next stage of the same rank
// by leaving it here; what comes from other ranks and goes there is packed to bytes.

/// One microbatch between two stages.
typedef struct exec_flow_buffer {
    void *values;      // [row_count][width] device memory
    uint8_t *has_left; // [row_count] after the values, forward with early exit only
    int stage;         // that takes it next; -1: nobody has left it
    int microbatch;
    bool is_backward;
} exec_flow_buffer;

/// Filled by exec_flow_pool_init.
typedef struct exec_flow_pool {
    exec_kernels *kernels; // borrowed
    int row_count;
    int width;
    bool sends_left; // tokens leave: has_left travels with the activations
    bool hands_over; // what is packed is a description of memory (exec_kernel_table.offer)
    exec_flow_buffer **buffers;
    int buffer_count;
} exec_flow_pool;

/// @param hands_over only with kernels that offer memory
void exec_flow_pool_init(exec_flow_pool *pool, const exec_model *model, exec_kernels *kernels,
                         bool hands_over);

/// Frees all buffers. A pool that is all zero is allowed.
void exec_flow_pool_reset(exec_flow_pool *pool);

/// A buffer that nobody needs, or a new one. Its content is whatever it was.
exec_flow_buffer *exec_flow_pool_take(exec_flow_pool *pool);

/// A microbatch begins: nobody has left it.
void exec_flow_pool_fill(const exec_flow_pool *pool, exec_flow_buffer *buffer);

/// The buffer that the stage before (after) has left for this stage.
exec_flow_buffer *exec_flow_pool_find(const exec_flow_pool *pool, int stage, int microbatch,
                                      bool is_backward);

/// Takes back what any stage has left.
void exec_flow_pool_clear(exec_flow_pool *pool);

/// Bytes of a packed microbatch, forward the largest.
int64_t exec_flow_pool_packed_bytes(const exec_flow_pool *pool, bool is_backward);

/// Bytes of the rows of a microbatch as they travel.
int64_t exec_flow_pool_row_bytes(const exec_flow_pool *pool);

/// Packs a microbatch, or a description of it: its rows; and forward, where tokens leave, a byte
/// per token.
///
/// @param bytes [exec_flow_pool_packed_bytes] out: aligned for any type
/// @return what the backend's offer returns
status exec_flow_pool_pack(exec_flow_pool *pool, const exec_flow_buffer *buffer, bool is_backward,
                           void *bytes, error_message *err);

/// The other way.
///
/// @return what the backend's take returns
status exec_flow_pool_unpack(exec_flow_pool *pool, const void *bytes, bool is_backward,
                             exec_flow_buffer *buffer, error_message *err);

// The device

/// A layer of the model, which the rank may hold.
typedef struct exec_held_layer {
    exec_layer *layer; // NULL: another rank's
    bool is_filled;    // has parameters
    void *arrived;     // arrays of its state from another rank, until unpacked; or NULL
    int row;           // of the report
    int microbatch_count;
    exec_slot **slots; // [microbatch_count] NULL until the microbatch is first played
} exec_held_layer;

/// A device that learns.
typedef struct exec_learner {
    exec_device device;      // first member
    exec_device_table table; // of device
    exec_model model;
    const exec_training_text *text;
    const exec_packing *packing;
    const exec_mechanism_table *mechanism;
    exec_kernels *kernels;         // owned
    exec_buffers *buffers;         // of the layers' microbatches
    exec_expert_exchange exchange; // where other ranks have experts of its blocks
    clockid_t clock;
    bool hands_over_memory;
    int replica;           // that the rank belongs to
    int layer_count;       // of the model
    exec_held_layer *held; // [layer_count]

    // The plan in force: nothing of it while the rank has no place.
    arena *memory;
    int place;
    int *first_layer; // [stages + 1]
    int microbatch_count;
    exec_flow_pool flows;
    exec_stopwatch watch;
    exec_layer_report report;
    exec_layer **layers; // [report.layer_count] in model order
    int *token;          // [microbatch_count][rows] device memory
    int *target;         // [microbatch_count][rows] device memory
    int *position;       // [microbatch_count][rows] device memory: of packed documents
    float *loss;         // [microbatch_count][rows] device memory: of the head
    int *load;           // [load_count] device memory: as in the report, where it is counted there
    int *read_load;      // [load_count] host memory
    size_t load_count;   // 0: the host counts
    int *drawn;          // [3][microbatch_count][rows] host memory: token, target, position
    float *read_loss;    // [microbatch_count][rows] host memory
    double *square_sum;  // [layer_count][norm_columns] of gradients
    int norm_columns;    // of a layer: one, and one for each expert
    void *input[2];      // of F, of B and BW: host memory for one packed microbatch. Overlapped
                         // pairs have one of each on its way
    void *output[2];     // likewise

    // The iteration.
    int iteration;
    double row_weight; // of packed documents: of a token in the mean over microbatches and replicas
    int replica_count; // whose gradients have been added
    bal_reduction_overlap overlap;
    const exec_group *replicas; // borrowed for the iteration
    exec_group_sum *sums;       // [report.layer_count] of gradients, as they began
    int sum_count, sum_done;    // begun; done, the first of them
    float *received;            // device memory, where GPUs exchange gradients; else NULL
} exec_learner;

// training_device_play.c
/// Rows of a microbatch of the iteration at hand.
int exec_learner_row_count(const exec_learner *learner, int microbatch);
status exec_learner_begin(exec_device *device, const exec_iteration *iteration, error_message *err);
int64_t exec_learner_input_place(exec_device *device, const exec_step *step, void **bytes);
status exec_learner_play(exec_device *device, const exec_step *step, const exec_payload *input,
                         exec_payload *output, int64_t *duration_ns, error_message *err);
status exec_learner_finish(exec_device *device, int64_t *begin_ns, int64_t *end_ns,
                           error_message *err);

// training_device_update.c
int64_t exec_learner_now_ns(const exec_device *device);
/// Whether ops can begin to sum gradients.
bool exec_learner_can_overlap(const exec_learner *learner, const exec_group *replicas);
/// Begins to sum a layer's gradient over the replicas: no op of the iteration adds to it any more.
status exec_learner_begin_sum(exec_learner *learner, exec_layer *layer, error_message *err);
/// Goes on with what has begun, as far as others are, or with `waits` to the end.
status exec_learner_advance_sums(exec_learner *learner, bool waits, error_message *err);
status exec_learner_reduce(exec_device *device, const exec_group *replicas, error_message *err);
status exec_learner_step(exec_device *device, const exec_group *pipeline, double *norm,
                         error_message *err);
status exec_learner_adapt(exec_device *device, int iteration, const exec_group *pipeline,
                          bool *changed, error_message *err);
bool exec_learner_loss(const exec_device *device, double *loss);
