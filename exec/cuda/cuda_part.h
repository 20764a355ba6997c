/// A part of a GPU that one stage computes on: some of the multiprocessors, and a stream on them.
///
/// One stage has the whole GPU. Several stages of one process each have a green context (driver
/// API; CUDA 12.4 and later) with an equal number of multiprocessors, all groups from one split,
/// because the groups of two splits overlap. The primary context stays current: streams, events,
/// memory and handles are of that one context, so stages can share them; only where kernels run is
/// the green context's, through its stream.
#pragma once

#include "base/status.h"

enum { EXEC_CUDA_PARTS_MAX = 16 };

typedef struct exec_cuda_part {
    int place;
    int place_count;
    int multiprocessor_count; // of this part
    int device_multiprocessor_count;
    void *stream;        // cudaStream_t
    void *beside;        // a second one; NULL where the part is not the whole
    void *green_context; // CUgreenCtx, NULL where the part is the whole
} exec_cuda_part;

/// Takes the part of a place on the GPU whose context is current on this thread (device 0 if none
/// is), and makes that context current.
///
/// @return STATUS_UNSUPPORTED without a GPU or a driver; STATUS_INVALID if place is not in
///         [0, place_count), or the process has split the GPU into another number of parts and uses
///         them still; STATUS_INFEASIBLE if the GPU cannot be split so, naming both numbers
status exec_cuda_part_open(int place, int place_count, exec_cuda_part *part, error_message *err);
void exec_cuda_part_close(exec_cuda_part *part);
