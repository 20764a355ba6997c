/// What one device computes and moves: products of matrices, attention, streams through memory.
/// Each is warmed up, then taken until there are enough samples, told as median, least and number.
#pragma once

#include "base/status.h"
#include "exec/kernels/kernels.h"

#include <stdbool.h>
#include <stdint.h>

enum { EXEC_PROBE_SAMPLES_MIN = 5, EXEC_PROBE_SAMPLES_MAX = 1000 };

/// A clock; tests have their own.
typedef struct exec_probe_clock {
    void *context;
    int64_t (*now_ns)(void *context);
} exec_probe_clock;

/// The monotonic clock of the machine.
exec_probe_clock exec_probe_clock_default(void);

typedef struct exec_probe_times {
    int64_t median_ns; // of the samples; the lower one of two in the middle
    int64_t min_ns;
    int count;
} exec_probe_times;

/// @param samples [count] ns, count >= 1; sorted after the call
exec_probe_times exec_probe_times_of(int64_t *samples, int count);

/// What is measured: enqueues operations and does not wait for them.
typedef struct exec_probe_work {
    void *context;
    void (*enqueue)(void *context, exec_kernels *kernels);
} exec_probe_work;

/// Measures work on a backend: once unseen, then until budget_ns has passed, at least
/// EXEC_PROBE_SAMPLES_MIN times. A backend that marks its own time is asked for it; of others the
/// clock is read around the work and its end.
///
/// @return what the backend's finish returns
status exec_probe_measure(exec_kernels *kernels, exec_probe_clock clock, int64_t budget_ns,
                          const exec_probe_work *work, exec_probe_times *times, error_message *err);

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
