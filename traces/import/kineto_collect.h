/// What is taken from a profiler's file, Kineto's trace or an export of Nsight Systems, and what
/// makes sense of it: annotations that say which layer or stage computes, launches, and what ran on
/// the device.
#pragma once

#include "base/sorter.h"
#include "base/status.h"
#include "traces/import/kineto.h"
#include "traces/import/phase_map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// A flag of work: communication, by the kernel's name or its annotation.
enum { KINETO_COMMUNICATION = 1 };

/// A stretch of time with a number: a ProfilerStep, or a scope of the phase map.
typedef struct kineto_stretch {
    int64_t begin_ns;
    int64_t end_ns;
    int number;
} kineto_stretch;

/// An annotation as it was found.
typedef struct kineto_mark {
    trace_window window;
    uint32_t thread;
    uint32_t name;  // equal for equal names, where a layer is counted
    uint32_t order; // in the file: ties stay in it
    int32_t scope;
    uint8_t naming; // trace_naming
    uint8_t count;  // trace_count
    bool is_communication;
} kineto_mark;

typedef struct kineto_launch {
    int64_t ts_ns;
    uint32_t correlation;
    union {
        uint32_t thread; // as it is read
        uint32_t mark;   // once it is placed: the mark it belongs to, or KINETO_NO_MARK
    };
} kineto_launch;

typedef struct kineto_work {
    int64_t begin_ns;
    int64_t end_ns;
    uint32_t key; // correlation of a device operation, thread of a CPU operator
    uint32_t flags;
} kineto_work;

/// Work of which is known who ran it.
typedef struct kineto_run {
    int64_t begin_ns;
    int64_t end_ns;
    int64_t ready_ns; // when it was launched; its begin where nothing launched it
    uint32_t key;     // of what begins and ends at once, the least is first
    uint32_t mark;    // its annotation, or KINETO_NO_MARK
    uint32_t flags;
} kineto_run;

/// What a name that nobody knows may be.
typedef enum kineto_span_role {
    KINETO_SPAN_OTHER,
    KINETO_SPAN_MODULE,  ///< "nn.Module: Block_3"
    KINETO_SPAN_FORWARD, ///< it says "forward"
    KINETO_SPAN_BACKWARD
} kineto_span_role;

/// An annotation, module or operator that may tell layers apart.
typedef struct kineto_span {
    int64_t begin_ns;
    int64_t end_ns;
    uint32_t thread;
    uint32_t group; // equal for names that differ in their last number only
    int32_t number; // that number; -1: none
    kineto_span_role role;
} kineto_span;

/// Launches by time.
int kineto_compare_times(const void *a, const void *b);

#define KINETO_NO_CORRELATION UINT32_MAX
#define KINETO_NO_MARK UINT32_MAX

/// What a thread did.
typedef struct kineto_runner {
    uint32_t process;
    int64_t launch_count;
} kineto_runner;

/// As qsort; items may be NULL where there are none.
void kineto_sort(void *items, size_t count, size_t item_bytes,
                 int (*compare)(const void *, const void *));

/// Stretches by begin, end, number.
int kineto_compare_stretches(const void *a, const void *b);

/// The last stretch, of those sorted so, that begins at or before a moment; -1: none does.
int kineto_stretch_at(const kineto_stretch *stretches, size_t count, int64_t moment_ns);

typedef struct kineto_events {
    const char *path; // for messages
    arena *memory;    // of what a recording keeps
    kineto_stretch *steps;
    kineto_stretch *scopes;
    kineto_stretch *pauses; // of the host; number is a trace_gap
    kineto_mark *marks;
    kineto_span *spans;     // annotations that nobody knows, and modules
    kineto_span *operators; // of the CPU, where those say nothing
    sorter *launches;       // kineto_launch by time; NULL: none
    kineto_launch *sources; // forward operators that a backward was recorded for; correlation: its
                            // number, the same as of its backward
    kineto_launch *targets; // those backwards
    kineto_work *backwards; // operators of the backward; key is the thread
    sorter *works;          // kineto_work by key, then time; NULL: none
    kineto_runner *runners; // [thread_count]
    size_t span_count, operator_count, step_count, scope_count, pause_count, mark_count,
        source_count, target_count, backward_count, thread_count;
    uint32_t process_count;
    int64_t first_launch_ns; // where there are launches
    int64_t last_launch_ns;
} kineto_events;

/// Marks by begin, outer before inner, then as in the file.
int kineto_compare_marks(const void *a, const void *b);

/// Gives every mark its iteration and layer, and every load its cell; leaves out marks of coarser
/// namings and those outside the steps. Afterwards marks are sorted by begin, outer before inner.
///
/// @param layers of the phase map, 0: none
status trace_kineto_resolve(kineto_events *events, int layers, trace_recording *recording,
                            error_message *err);

/// Where no annotation is of a backward: gives every run of backward operators, of which the
/// forward ran in one annotation of a forward, a mark of its own, as a full backward of the same
/// layer and microbatch. Marks must be sorted by begin; the new ones stand after them.
///
/// @return their number
int trace_kineto_link_backward(kineto_events *events);

/// So that kineto_source_of finds them.
void kineto_sort_sources(kineto_events *events);

/// The forward of a backward: the last operator of its number before it. NULL: none was recorded.
const kineto_launch *kineto_source_of(const kineto_events *events, const kineto_launch *target);

/// Whether some mark is of a backward.
bool trace_kineto_has_backward(const kineto_events *events);

/// Divides the time of a rank: every moment of an iteration goes to one op, or to a cause outside
/// of all ops. What runs at once is counted once: compute before communication, the earlier before
/// the later.
typedef struct kineto_gaps kineto_gaps;

/// @param events resolved: marks by begin
/// @return release with kineto_gaps_end
kineto_gaps *kineto_gaps_begin(const kineto_events *events, trace_recording *recording);

/// What ran, in the order of begin.
void kineto_gaps_put(kineto_gaps *gaps, const kineto_run *run);

/// Fills recording->iterations and the windows' charges.
void kineto_gaps_end(kineto_gaps *gaps);

/// Sums what the device ran into the marks' windows, and the windows into recording->cells.
status trace_kineto_attribute_device(kineto_events *events, trace_recording *recording,
                                     error_message *err);

/// The same with CPU operators: each moment of a thread belongs to the innermost annotation open
/// on it, and is busy if an operator runs.
status trace_kineto_attribute_cpu(kineto_events *events, trace_recording *recording,
                                  error_message *err);

enum { KINETO_NAME_BYTES = 512, KINETO_UNKNOWN_MAX = 5 };

/// Numbers for 64-bit keys, in the order of their first appearance; open addressing.
typedef struct kineto_numbering {
    struct kineto_slot {
        uint64_t key;
        uint32_t place; // its number + 1; 0: the slot is free
    } * slots;          // [capacity]
    size_t capacity;    // power of two
    uint32_t count;
} kineto_numbering;

/// Zero-initialise, then fill the first two, and path and memory of the events.
typedef struct kineto_collector {
    const trace_phase_map *map; // or NULL
    trace_recording *recording; // its counts of annotations are kept
    kineto_events events;
    kineto_numbering threads;
    kineto_numbering processes;
    kineto_numbering names;
    kineto_numbering groups; // of spans
    int64_t group;           // whose spans are the layers; -1: none
    uint64_t last_thread_key;
    uint32_t last_thread;
    char unknown[KINETO_UNKNOWN_MAX][KINETO_NAME_BYTES];
    int unknown_count;
} kineto_collector;

/// A thread by keys that are equal where process and thread are.
typedef struct kineto_thread {
    uint64_t process;
    uint64_t thread; // also different in different processes
} kineto_thread;

void kineto_collector_free(kineto_collector *collector);

/// The number of a thread, and with it its process.
uint32_t kineto_collect_thread(kineto_collector *collector, kineto_thread thread);

/// An annotation, a step or a scope. A name that nobody knows is counted and left out.
///
/// @param name at most KINETO_NAME_BYTES - 1 characters
/// @return what the phase map says; STATUS_UNSUPPORTED beyond 2^31
///         annotations
status kineto_collect_annotation(kineto_collector *collector, const char *name,
                                 kineto_thread thread, int64_t begin_ns, int64_t end_ns,
                                 error_message *err);

/// @return as sorter_put
status kineto_collect_launch(kineto_collector *collector, uint32_t correlation,
                             kineto_thread thread, int64_t begin_ns, error_message *err);

/// A load of a thread that kineto_collect_thread numbered, by whatever it was found.
status kineto_collect_mark(kineto_collector *collector, const trace_annotation *annotation,
                           uint32_t thread, int64_t begin_ns, int64_t end_ns, error_message *err);

/// What may tell layers apart. An operator is one of its own group per name.
void kineto_collect_span(kineto_collector *collector, const char *name, bool is_operator,
                         kineto_thread thread, int64_t begin_ns, int64_t end_ns);

kineto_span_role kineto_span_role_of(const char *name);

/// The last number in a name, -1: none, and the name without it.
int kineto_span_number(const char *name, char group[KINETO_NAME_BYTES]);

/// Whether modules or annotations that differ in a number tell layers apart: operators then need
/// not be read.
bool trace_kineto_has_groups(kineto_collector *collector);

/// Marks forwards (and backwards where no links lead to them) in a trace whose annotations name
/// no load: those groups; else annotations that say forward and backward; else the steps, or all of
/// the file. Forwards of the latter two are divided where they repeat operators. Nothing is marked
/// where other annotations fill half of the steps: they say what the layers are.
status trace_kineto_find_structure(kineto_collector *collector, error_message *err);

/// A forward operator (a source) or its backward (a target) of that number.
void kineto_collect_link(kineto_collector *collector, bool is_target, uint32_t number,
                         kineto_thread thread, int64_t begin_ns);

void kineto_collect_backward(kineto_collector *collector, kineto_thread thread, int64_t begin_ns,
                             int64_t end_ns);

/// Whether a kernel is one of NCCL or DeepEP.
bool kineto_is_communication(const char *name, size_t length);

/// @return as sorter_put
status kineto_collect_work(kineto_collector *collector, const kineto_work *work,
                           error_message *err);

bool kineto_collect_has_load(const kineto_collector *collector);

/// Fails unless an annotation of a load was collected.
///
/// @return STATUS_INVALID naming some annotations that are there
status kineto_collect_check(const kineto_collector *collector, error_message *err);

/// Makes the recording of what was collected: of the device, or of the CPU where it says so.
///
/// @return as trace_kineto_resolve and trace_kineto_attribute_device
status kineto_collect_sum(kineto_collector *collector, error_message *err);
