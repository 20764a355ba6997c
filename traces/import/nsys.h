/// One export of Nsight Systems to SQLite, reduced to what its NVTX ranges cost: a recording per
/// process, made by the same rules as those of a Kineto trace (traces/import/kineto.h).
///
///     nsys profile -t cuda,nvtx -o run%q{RANK} python train.py
///     nsys export --type sqlite -o run0.sqlite run0.nsys-rep
///
/// What is read: NVTX_EVENTS (ranges of event types 59 and 60, their text or StringIds of textId),
/// CUPTI_ACTIVITY_KIND_RUNTIME (launches), CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY, _MEMSET and
/// _GRAPH_TRACE (what ran), TARGET_INFO_SESSION_START_TIME (the zero of the clock),
/// DIAGNOSTIC_EVENT (whether events were lost). nsys makes tables only for what there is, and their
/// columns vary with its version. A correlation is unique within a
/// process only, and the process is globalTid or globalPid without its lowest 24 bits. What
/// PyTorch's emit_nvtx appends to a name (", seq = 3", ", op_id = 9", ", sizes = [...]") is not of
/// the name. Source: "SQLite Schema Reference" in NVIDIA's Nsight Systems documentation; the NVTX
/// tables were checked with files of nsys 2022.4.2.
#pragma once

#include "base/status.h"
#include "traces/import/kineto.h"

/// Recordings of the processes of a file that have annotations which are known, in the order of
/// their devices, then of their process numbers. Everything is of the arena that it was read into.
typedef struct trace_nsys_file {
    int recording_count;
    trace_recording *recordings; // [recording_count] rank: the place in this list
} trace_nsys_file;

/// Reads a file. It is opened read-only and as one that nobody changes meanwhile: nothing is
/// written beside it.
///
/// @param file untouched on failure
/// @return STATUS_IO: it cannot be opened; STATUS_FORMAT: no database, a damaged one, a column that
///         is missing (named), a time that ends before it begins or beyond 64 bits;
///         STATUS_INVALID: no NVTX ranges, launches or device activity (the option to record them
///         is named), no annotation that is known (some that are there are named), what
///         trace_kineto_resolve and the phase map say
///
/// Time O(processes x rows), memory as trace_kineto_read.
status trace_nsys_read(const trace_profile_source *source, arena *memory, trace_nsys_file *file,
                       error_message *err);
