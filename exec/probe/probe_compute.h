/// What one device computes and moves: products of matrices, attention, streams through memory.
#pragma once

#include "base/status.h"
#include "exec/kernels/kernels.h"
#include "exec/probe/probe_times.h"

#include <stdbool.h>
#include <stdint.h>

/// How long each thing is measured, on what clock.
typedef struct exec_probe_options {
    exec_probe_clock clock;
    int64_t budget_ns;    // of one measurement
    int64_t stream_bytes; // of the buffer that is copied to find the bandwidth; >= 8
} exec_probe_options;

/// The machine's clock, 0.2 s, 256 MiB.
exec_probe_options exec_probe_options_default(void);

/// A product of matrices, and what it took.
typedef struct exec_probe_product {
    const char *name; // "query, key, value, F"; static storage
    exec_matmul shape;
    exec_probe_times times; // out
} exec_probe_product;

/// 2 * rows * columns * inner.
int64_t exec_probe_product_flop(const exec_matmul *shape);

/// Floating-point operations per second of work that took ns; 0 where ns is.
double exec_probe_rate(int64_t flop, int64_t ns);

/// Measures each of the products. Operands are small whole numbers.
///
/// @param products [count] times out
/// @return what the backend returns
status exec_probe_products(exec_kernels *kernels, const exec_probe_options *options,
                           exec_probe_product *products, int count, error_message *err);

/// Causal attention over one sequence.
typedef struct exec_probe_attention {
    int sequence_length;
    int head_count;
    int head_width;
    exec_probe_times forward;  // out
    exec_probe_times backward; // out
} exec_probe_attention;

/// Measures it. @return what the backend returns
status exec_probe_attention_measure(exec_kernels *kernels, const exec_probe_options *options,
                                    exec_probe_attention *attention, error_message *err);

/// How fast memory streams: a copy that is much larger than caches, and kernels of training on an
/// array of activations.
typedef struct exec_probe_memory {
    int64_t value_count; // of the array
    int64_t copy_bytes;  // out: read and written by the copy
    exec_probe_times copy;
    int64_t kernel_bytes; // out: read and written by an addition and a GELU
    exec_probe_times kernels;
} exec_probe_memory;

/// @param memory value_count in, the rest out
/// @return what the backend returns
status exec_probe_memory_measure(exec_kernels *kernels, const exec_probe_options *options,
                                 exec_probe_memory *memory, error_message *err);

/// The largest piece of memory that the backend gives out, to the nearest 64 MiB below, looked for
/// by bisection up to limit_bytes; 0 if not even 64 MiB are.
int64_t exec_probe_capacity(exec_kernels *kernels, int64_t limit_bytes);
