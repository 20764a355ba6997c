/// A link as nccl-tests measured it: the JSON that `sendrecv_perf -J FILE` writes becomes a latency
/// and a rate, each with its standard error.
///
/// A message of n bytes takes latency + n / rate. Read are `results[].size` in bytes and
/// `results[].out_of_place.time` in us (nccl-tests, src/util.cu, file version 3; `-J` since October
/// 2025); in `sendrecv_perf` each GPU sends to the next while it receives from the one before, so
/// size is what goes one way. Other keys may be there or not.
#pragma once

#include "balance/costs/machine.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"

#include <stdint.h>

enum {
    ANA_LINK_BYTES_MIN = 4096, // smaller messages take other ways than those of training
    ANA_LINK_SIZES_MIN = 3,    // a line goes through any two, with no error to be seen
    ANA_LINK_SIZES_MAX = 4096
};

/// Times of messages, one for each size.
typedef struct ana_message_times {
    double *bytes; // [count] ascending, each ANA_LINK_BYTES_MIN or more
    double *us;    // [count] > 0
    int count;     // ANA_LINK_SIZES_MIN or more
} ana_message_times;

typedef struct ana_measured_link {
    bal_link link;
    double latency_error_ns;   // standard error
    double rate_error_bytes_s; // standard error, bytes per second
    double reach;              // half of a 90 % interval, in standard errors: Student's t
    double misfit_ratio;       // standard deviation of a time around the line, relative
    int size_count;            // that were fitted
} ana_measured_link;

/// Takes the times of messages of ANA_LINK_BYTES_MIN or more out of a document.
///
/// @param times out: carved from memory
/// @return STATUS_FORMAT naming the file and the place: no results, sizes that do not ascend, a
///         time that is no number above 0 (nccl-tests writes "nan"), wrong bytes, fewer than
///         ANA_LINK_SIZES_MIN sizes, another program than sendrecv_perf
status ana_message_times_read(json_value root, arena *memory, ana_message_times *times,
                              error_message *err);

/// Fits latency and rate by least squares of relative errors: weights 1 / time^2. A latency that
/// would be negative is zero, and the rate is fitted alone.
///
/// @return STATUS_FORMAT if time does not grow with size, or the rate is beyond what a study takes
///
/// Errors are those of independent relative errors of one size. Where a library changes its
/// protocol from one size to the next they are not quite: misfit_ratio then is large.
status ana_measured_link_fit(const ana_message_times *times, ana_measured_link *out,
                             error_message *err);

/// Reads a file and fits.
///
/// @return as the two above, with the path in front; STATUS_IO
status ana_measured_link_open(const char *path, ana_measured_link *out, error_message *err);
