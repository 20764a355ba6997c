/// What one node does in how long: products of matrices, attention, streams through memory,
/// messages between ranks. Each is warmed up, then taken again and again, and told as median, least
/// and number.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "exec/kernels/kernels.h"

#include <stdbool.h>
#include <stdint.h>

enum { EXEC_PROBE_SAMPLES_MIN = 5, EXEC_PROBE_SAMPLES_MAX = 1000, EXEC_PROBE_RANKS_MAX = 64 };

typedef enum exec_probe_kind {
    EXEC_PROBE_PRODUCT,            ///< of shape
    EXEC_PROBE_ATTENTION,          ///< causal over one sequence: shape.rows tokens, shape.inner
    EXEC_PROBE_ATTENTION_BACKWARD, ///< heads of width shape.columns
    EXEC_PROBE_COPY,               ///< amount is twice the bytes of the array
    EXEC_PROBE_ELEMENTS,           ///< an addition and a GELU over shape.rows x shape.columns
    EXEC_PROBE_MESSAGE,            ///< half of a round trip of amount bytes from shape.rows to
                                   ///< shape.columns, ranks of the world
} exec_probe_kind;

typedef struct exec_measurement {
    const char *name;
    exec_probe_kind kind;
    exec_matmul shape; // what it means depends on the kind
    int repeat;        // how often a microbatch of the model has it; 0: it is not the model's
    int64_t amount;    // FLOP of products and attention, else bytes
    int64_t median_ns; // out, as what follows: of the samples; the lower of two in the middle
    int64_t min_ns;
    int count;
    bool is_intra; // of a message: both ranks are on one machine, by its name
} exec_measurement;

/// @param samples [count] ns, count >= 1; sorted after the call
void exec_probe_tell(int64_t *samples, int count, exec_measurement *measured);

/// Measures anything but messages: once unseen, then until budget_ns has passed, at least
/// EXEC_PROBE_SAMPLES_MIN times. A backend that marks its own time is asked for it, with the same
/// work before each sample, so that it does not wait for the host; of others the clock is read
/// around the work and its end. Operands are random numbers.
///
/// @return what the backend returns
status exec_probe_measure(exec_kernels *kernels, int64_t budget_ns, exec_measurement *measured,
                          error_message *err);

/// The largest piece of memory that the backend gives out, to the nearest 64 MiB below, looked for
/// by bisection up to limit_bytes; 0 if not even 64 MiB are.
int64_t exec_probe_capacity(exec_kernels *kernels, int64_t limit_bytes);

/// Messages of `bytes` take latency_ns + bytes / bytes_per_s.
typedef struct exec_probe_line {
    int64_t latency_ns;
    int64_t bytes_per_s;
    double deviation_ratio; // largest |line / measured - 1| over the messages
    int count;              // of them
} exec_probe_line;

/// Fits a line to the medians of messages: least squares of relative errors, so that short ones
/// count as much as long ones; a latency below 0 is 0.
///
/// @param messages [count], all counted
/// @return STATUS_INVALID if they are of fewer than two sizes, or do not take longer for more
///         bytes; line is then untouched
status exec_probe_line_fit(const exec_measurement *messages, int count, exec_probe_line *line,
                           error_message *err);

typedef struct exec_probe_links {
    int rank_count;
    int count;
    const exec_measurement *messages; // [count] of every two ranks and every size; from memory
    bool is_leader;                   // this process knows all of it; else count is 0
} exec_probe_links;

/// Has every two ranks in turn send messages to and fro while all others wait: of 64 bytes and
/// every fourfold up to size_max.
///
/// @param rank_count of the world; for `mpi` and `nccl` as launched
/// @param uses_cuda  messages lie in memory of the GPU, where the transport takes it
/// @param links      untouched on failure
/// @return STATUS_INVALID for fewer than 2 or more than EXEC_PROBE_RANKS_MAX ranks; what
///         exec_transport_run returns
status exec_probe_links_measure(const char *transport, int rank_count, int64_t size_max,
                                bool uses_cuda, arena *memory, exec_probe_links *links,
                                error_message *err);
