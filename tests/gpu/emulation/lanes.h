/// Runs the lanes of a CUDA kernel on the host, one after another, as fibers: it shows that a
/// kernel computes what it should, with its barriers, shuffles and matrix instructions, and nothing
/// about how fast a GPU would be.
///
/// Blocks run one after another, the lanes of each in an order drawn anew. A lane runs until it
/// waits for others: at a barrier of its block or at an operation of its warp. The operation is
/// done once, by the last lane of the warp to come. An operation that not all lanes of a warp come
/// to, or that they come to at different places, ends the program with a message.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lanes_index {
    unsigned x, y, z;
} lanes_index;

/// Of the running lane: CUDA's names.
extern lanes_index threadIdx, blockIdx, blockDim, gridDim;

/// Runs body(argument) for every lane of every block of the grid.
void lanes_run(lanes_index block_count, unsigned lane_count, size_t shared_bytes,
               void (*body)(const void *argument), const void *argument);

/// Blocks begun so far.
extern unsigned lanes_block_number;

/// The block's shared memory of shared_bytes, filled with a pattern when a block begins.
void *lanes_shared(void);

/// A barrier of the block's lanes that have not ended. Returns whether any of them gave true.
bool lanes_barrier(bool value);

/// An operation of a warp: operate(in, out) runs once, when the 32 lanes have come; in[lane] and
/// out[lane] are what each of them gave. `what` must be the same on all of them.
typedef void lanes_operation(const void *const in[32], void *const out[32]);
void lanes_together(lanes_operation *what, const void *in, void *out);

#ifdef __cplusplus
}
#endif
