/// One PyTorch profiler (Kineto) trace, reduced to what its annotations cost.
///
/// What the device ran is found through its launch: kernel, copy or fill -> the runtime or driver
/// call of the same correlation -> the innermost annotation that was open on the launching thread
/// at that moment, or, where that thread had none, on any thread of its process. The latter is
/// what finds the backward, which PyTorch launches from threads of its own while the annotated
/// thread waits. Where annotations are of forwards alone, their backwards are found through the
/// profiler's arrows (fwdbwd) or the operators' sequence numbers; where none is of a layer, layers
/// are modules or annotations that differ in a number, else what annotations call forward and
/// backward or the steps, divided where their operators repeat.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "traces/import/annotation.h"
#include "traces/store/store.h"
#include "traces/store/writer.h"

#include <stdbool.h>
#include <stdint.h>

/// All of a rank's time in an iteration: what is charged to ops, and what is not.
typedef struct trace_iteration_time {
    int iteration;
    int64_t begin_ns; // of its step, or of what ran of the iteration before, if that lasted longer
    int64_t end_ns;   // of its step, or of the last that it launched
    int64_t tail_ns;  // after its last op
    int64_t charged_ns[TRACE_GAP_COUNT]; // of gaps, in charge_ns of the ops
    int64_t outside_ns[TRACE_GAP_COUNT]; // in no op
} trace_iteration_time;

/// An annotation. Times count from the file's own zero (see base_ns).
typedef struct trace_window {
    trace_op_kind kind;
    int iteration;
    int layer;        // or virtual stage; TRACE_NOT_RECORDED for the optimizer
    int microbatch;   // TRACE_NOT_RECORDED where there is none
    bool is_load;     // a layer's work; false: message, gradient reduction, optimizer
    int cell;         // of the load it belongs to; -1 if it is none
    int64_t begin_ns; // on the host
    int64_t end_ns;
    int64_t work_begin_ns; // first begin and last end of what ran for it; begin > end: nothing did
    int64_t work_end_ns;
    int64_t busy_ns;          // length of the union of its compute
    int64_t communication_ns; // length of the union of its communication
    int64_t charge_ns;        // wall time that was its alone: compute, and the gaps that fell in it
    int64_t lead_ns;   // idle right before what ran for it: waiting, or the host; in before_ns
    int64_t before_ns; // after the op before it, in no op
} trace_window;

/// All annotations of one phase of a layer, iteration and microbatch.
typedef struct trace_cell {
    int iteration;
    int layer;
    int microbatch;
    trace_op_kind kind;
    int64_t busy_ns;
    int64_t communication_ns;
    int64_t span_ns;   // sum over its annotations, from first begin to last end of what ran
    int64_t charge_ns; // sum over its annotations
} trace_cell;

/// What became of the operations of the device (of the CPU, where there is no other).
typedef struct trace_attribution {
    int64_t op_count;
    int64_t loads;          // in annotations of layers
    int64_t others;         // in those of messages, gradient reduction and optimizer
    int64_t outside;        // launched outside every annotation
    int64_t without_launch; // no launch of its correlation in the file
    int64_t total_ns;       // sum of durations
} trace_attribution;

/// A trace file as it was read. Arrays and strings are of the arena that it was read into.
typedef struct trace_recording {
    trace_input_file input;
    int64_t event_count;
    int64_t malformed_count; // events that were passed over
    int rank;                // of distributedInfo, or the file's place on the command line
    bool rank_is_known;      // it was of distributedInfo
    int world_size;          // TRACE_NOT_RECORDED if the file does not say
    bool has_base;
    int64_t base_ns;            // of the file's zero since the Unix epoch; 0 without has_base
    bool on_device;             // false: no device activity, CPU operators were counted
    bool has_steps;             // ProfilerStep#<n> or dynmo it=<i> number the iterations
    trace_naming naming;        // of the loads
    int64_t loss_count;         // times that the profiler itself says that it lost events
    char loss[160];             // the first such message; "" without one
    bool has_backward;          // of some load; false: forwards alone were found
    int linked_count;           // backwards that no annotation names, found through their forwards
    char structure[64];         // what layers are, where no name says it; "" else
    int64_t stray_window_count; // annotations outside every ProfilerStep: left out
    trace_attribution ops;
    int window_count;
    int cell_count;
    trace_window *windows; // [window_count] by begin
    trace_cell *cells;     // [cell_count] by iteration, layer, microbatch, kind
    int iteration_count;
    trace_iteration_time *iterations; // [iteration_count] that have loads, by iteration
} trace_recording;

/// Where an iteration is among recording->iterations, which are in order; -1: it is not recorded.
/// O(log iterations).
int trace_recording_place(const trace_recording *recording, int iteration);

/// A file of a profiler.
typedef struct trace_profile_source {
    const char *path;  // or the name of bytes
    const void *bytes; // [length] NULL: read path
    size_t length;
    const trace_phase_map *map; // NULL: none
    int rank;                   // of a trace of Kineto that does not say it
} trace_profile_source;

/// Reads a trace, plain or gzip. One that has no device activity is read twice: the operators of
/// the CPU are told apart from the annotations only then. So is one whose backwards or layers are
/// to be found by operators.
///
/// Time O(bytes + n log n). Memory: a fixed 4 MiB, and 32 bytes per operator of the backward, per
/// end of an arrow and per module (per outermost operator, where those are the layers) and 200 per
/// annotation that is known, up to twice that while they grow and are sorted; nothing for the other
/// events. Launches and what ran on the device (outermost CPU operators inside the annotated
/// threads, where there is no device) are sorted by sorters: 16 bytes of TMPDIR per launch, 64 per
/// operation.
///
/// @param recording untouched on failure
/// @return STATUS_IO: as of sorter_put; STATUS_FORMAT: what trace_json_next and trace_stream_read
///         say; a time that is missing, no number, negative or beyond int64, naming the event;
///         STATUS_INVALID: no annotation that is known (some that are there are named),
///         annotations that contradict each other, what the phase map says
status trace_kineto_read(const trace_profile_source *source, arena *memory,
                         trace_recording *recording, error_message *err);

// One export of Nsight Systems to SQLite (nsys.c), reduced to what its NVTX ranges cost: a
// recording per process, made by the same rules as those of a Kineto trace.
//
//     nsys profile -t cuda,nvtx -o run%q{RANK} python train.py
//     nsys export --type sqlite -o run0.sqlite run0.nsys-rep
//
// What is read: NVTX_EVENTS (ranges of event types 59 and 60, their text or StringIds of textId),
// CUPTI_ACTIVITY_KIND_RUNTIME (launches), CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY, _MEMSET and
// _GRAPH_TRACE (what ran), TARGET_INFO_SESSION_START_TIME (the zero of the clock),
// DIAGNOSTIC_EVENT (whether events were lost). nsys makes tables only for what there is, and their
// columns vary with its version. A correlation is unique within a
// process only, and the process is globalTid or globalPid without its lowest 24 bits. What
// PyTorch's emit_nvtx appends to a name (", seq = 3", ", op_id = 9", ", sizes = [...]") is not of
// the name. Source: "SQLite Schema Reference" in NVIDIA's Nsight Systems documentation; the NVTX
// tables were checked with files of nsys 2022.4.2.

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
