/// Where the hidden states of microbatches are while they pass through a rank: forward as
/// activations, backward as gradients. A stage hands its output to the next stage of the same rank
/// by leaving it here; what comes from other ranks and goes there is packed to bytes.
#pragma once

#include "base/status.h"
#include "exec/model/layer.h"

#include <stdbool.h>
#include <stdint.h>

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
