/// The devices that learn: `cpu` and `cuda` compute what their ops stand for, the forward and
/// backward passes of a language model, over the layers of layer.h. A rank holds the layers of its
/// stages, each with its optimizer's state, and for each layer a slot for each microbatch; a rank
/// without a place holds nothing.
#pragma once

#include "base/status.h"
#include "exec/device/device.h"
#include "exec/kernels/kernels.h"
#include "exec/model/layer.h"
#include "exec/training/training_text.h"

#include <stdbool.h>

typedef enum exec_backend {
    EXEC_BACKEND_CPU,       ///< plain C
    EXEC_BACKEND_CUDA_FP32, ///< values in fp32
    EXEC_BACKEND_CUDA_BF16, ///< values in bf16, sums and state in fp32
} exec_backend;

/// Zero-initialise, then fill by name. Borrowed by the devices made of it.
typedef struct exec_training_device {
    const exec_model *model;
    const exec_training_text *text; // at least sequence_length + 1 bytes
    const exec_packing *packing;    // of documents of unlike length; its row_max is the model's
                                    // packed_rows. Plain C only; NULL: sequences are all alike
    exec_backend backend;
    int replica_rank_count; // ranks of one replica: world rank r is of replica r /
                            // replica_rank_count and learns its share of the text; 0: there is one
                            // replica
    int gpu_place_count;    // cuda: ranks that share one GPU, each a part of it; 0: 1. World rank r
                            // has part r % gpu_place_count
    bool hands_over_memory; // outputs, and rows for shared experts, travel as descriptions of
                            // device memory, for transports that take these; host memory is copied
                            // all the same
    bool runs_ahead;        // cuda: play returns before its op has run, and times come with the
                            // iteration's end; not with EXEC_CLOCK_NOMINAL
    bool counts_cpu_time;   // cpu: an op takes the time that its thread computes, not the time that
                          // passes. So ranks that outnumber the cores do not count in each other's
                          // ops; for EXEC_CLOCK_NOMINAL. cpu, cuda: ranks that share experts
                          // compose how long they wait for each other
} exec_training_device;

/// What no rank could do, so that it need not be found by each.
///
/// @return STATUS_INVALID for a model outside its limits or a text that is too short;
///         STATUS_UNSUPPORTED for what the backend does not compute
status exec_training_device_check(const exec_training_device *options, error_message *err);

/// Makes the device of a rank, as a run asks for it.
///
/// @param context a const exec_training_device
/// @param out released with its table's destroy
/// @return what exec_training_device_check refuses; STATUS_UNSUPPORTED if the backend is not in
///         this build or on this machine, saying what is missing
status exec_training_device_create(void *context, int world_rank, exec_device **out,
                                   error_message *err);

/// The same over kernels that are open already.
///
/// @param kernels the device's from now on: it closes them
exec_device *exec_training_device_create_over(const exec_training_device *options, int world_rank,
                                              exec_kernels *kernels);
