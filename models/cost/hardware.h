/// What one GPU and its links can do, from a hardware file or a preset.
///
/// A file is JSON, {"schema":"dynmo-hardware/1", ...}, with the fields of model_hardware under
/// their own names; models/hardware holds some to start from. Unknown keys are errors.
#pragma once

#include "balance/costs/machine.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "models/assumption.h"
#include "models/cost/dtype.h"

#include <stdint.h>

/// Strings are carved from the arena given to the reader.
typedef struct model_hardware {
    const char *name;
    int64_t flop_per_s[MODEL_DTYPE_COUNT]; // dense matrix products in this dtype; 0: not known
    double gemm_efficiency;                // share of flop_per_s that large products reach, (0, 1]
    double attention_efficiency;           // the same of the attention core
    double memory_efficiency;              // share of memory_bytes_per_s that kernels reach
    double intra_efficiency; // share of the links' rates that collectives reach; 1 unless given
    double inter_efficiency;
    int multiprocessor_count;   // 0: not said; products are then not cut into tiles
    int64_t kernel_ns;          // of a kernel whatever its size: gap before it, ramp and tail
    int64_t operator_ns;        // of the host for an operator of the framework, Python included
    int64_t launch_ns;          // of the host for a kernel that a library starts in a loop
    int64_t context_bytes;      // of a GPU, of CUDA's context and the kernels that are loaded
    int64_t communicator_bytes; // of the buffers of each NCCL communicator
    int64_t allocator_bytes;    // that the framework's allocator holds and cannot use
    int64_t memory_bytes;       // of one GPU
    int64_t memory_bytes_per_s;
    int gpus_per_node;
    bal_link intra_node; // one direction, of one GPU
    bal_link inter_node;
    bal_link host; // to the memory of the GPU's host; 0 bytes_per_s: not said
    model_origin flop_origin;
    model_origin efficiency_origin;
    model_origin memory_origin;
    model_origin links_origin; // bytes per second
    model_origin latency_origin;
    model_origin overhead_origin;
} model_hardware;

/// Reads a preset by its name (models/hardware) or a file by its path.
///
/// Each entry of "source" is optional, {"kind": one of model_origin_kind_name, "text": any}; an
/// entry that is missing makes its numbers "given", by the file. Of "flop_per_s", an object of
/// dtypes, one entry is enough. "name" defaults to name_or_path.
///
/// @param changes  other values at some places of the file, as json_change takes them; NULL: none
/// @param hardware untouched on failure
/// @return STATUS_FORMAT naming key, value and limit; STATUS_INVALID if a rate of 16 or 8 bits is
///         the figure that a vendor prints for sparse matrices, naming the dense one; STATUS_IO.
status model_hardware_open(const char *name_or_path, const char *changes, arena *memory,
                           model_hardware *hardware, error_message *err);

/// As model_hardware_open, from a document that is open.
status model_hardware_read(const json_document *document, const char *name, arena *memory,
                           model_hardware *hardware, error_message *err);

/// The machine of a pipeline of rank_count of these GPUs, one process each.
bal_machine model_hardware_machine(const model_hardware *hardware, int rank_count);
