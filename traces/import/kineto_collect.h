/// What is taken from a profiler's file, Kineto's trace or an export of Nsight Systems, and what
/// makes sense of it: annotations that say which layer or stage computes, launches, and what ran on
/// the device.
#pragma once

#include "base/sorter.h"
#include "base/status.h"
#include "traces/import/annotation.h"
#include "traces/import/kineto.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// A flag of work: communication, by the kernel's name or its annotation.
enum { KINETO_COMMUNICATION = 1 };
enum { KINETO_NAME_BYTES = 512, KINETO_UNKNOWN_MAX = 5 };

#define KINETO_NO_CORRELATION UINT32_MAX
#define KINETO_NO_MARK UINT32_MAX

/// What stands in a profile. Of the first ones a span each is held, in a list per kind.
typedef enum kineto_kind {
    KINETO_STEP,     ///< number: its own
    KINETO_SCOPE,    ///< of the phase map; number: its place in the iteration, once that is known
    KINETO_PAUSE,    ///< of the host; number: a trace_gap
    KINETO_UNKNOWN,  ///< a module, or an annotation that nobody knows: it may tell layers apart
    KINETO_OPERATOR, ///< of the CPU, where those say nothing
    KINETO_SOURCE,   ///< a forward operator that a backward was recorded for; group: its number
    KINETO_TARGET,   ///< that backward; group: the same number
    KINETO_BACKWARD, ///< an operator of the backward
    KINETO_FORWARD,  ///< of a model whose layers nothing names; found by structure
    KINETO_WHOLE_BACKWARD, ///< its backward, where an annotation calls it so
    KINETO_LISTS,
    KINETO_ANNOTATION = KINETO_LISTS, ///< its name says which of them it is, or a mark
    KINETO_LAUNCH,
    KINETO_WORK, ///< of the device, or a CPU operator where there is none
    KINETO_OTHER
} kineto_kind;

/// What a name that nobody knows may be.
typedef enum kineto_span_role {
    KINETO_SPAN_OTHER,
    KINETO_SPAN_MODULE,  ///< "nn.Module: Block_3"
    KINETO_SPAN_FORWARD, ///< it says "forward"
    KINETO_SPAN_BACKWARD
} kineto_span_role;

/// A stretch of time, mostly of a thread.
typedef struct kineto_span {
    int64_t begin_ns;
    int64_t end_ns;
    uint32_t thread;
    uint32_t group; // equal for names that differ in their last number only
    int32_t number; // that number; -1: none
    kineto_span_role role;
} kineto_span;
_Static_assert(sizeof(kineto_span) == 32, "stated in kineto.h");

typedef struct kineto_list {
    kineto_span *spans; // [count]
    size_t count;
} kineto_list;

void kineto_list_add(kineto_list *list, kineto_span span);
void kineto_list_sort(kineto_list *list, int (*compare)(const void *, const void *));

/// How many spans of a sorted list stand before key.
size_t kineto_list_place(const kineto_list *list, kineto_span key,
                         int (*compare)(const void *, const void *));

/// Spans by begin, end, number; by thread, then begin, outer before inner, then group; and by
/// group, then begin.
int kineto_compare_times(const void *a, const void *b);
int kineto_compare_threads(const void *a, const void *b);
int kineto_compare_groups(const void *a, const void *b);

/// The last span, of those sorted by times, that begins at or before a moment; -1: none does.
int kineto_span_at(const kineto_list *list, int64_t moment_ns);

/// Whether a span begins inside the last one, which may be NULL, on the same thread.
bool kineto_is_inside(const kineto_span *span, const kineto_span *last);

/// What things are grouped by, and their order within a group.
enum { KINETO_KEY_PARTS = 4 };
typedef struct kineto_key {
    int32_t parts[KINETO_KEY_PARTS];
    uint32_t order;
} kineto_key;

int kineto_compare_keys(const void *a, const void *b);
bool kineto_is_same_group(const kineto_key *left, const kineto_key *right);

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
    uint32_t thread;
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

/// What a thread did.
typedef struct kineto_runner {
    uint32_t process;
    int64_t launch_count;
} kineto_runner;

typedef struct kineto_events {
    const char *path; // for messages
    arena *memory;    // of what a recording keeps
    arena *scratch;   // ends with the collector
    kineto_list lists[KINETO_LISTS];
    kineto_mark *marks;     // [mark_count]
    sorter *launches;       // kineto_launch by correlation; NULL: none
    sorter *works;          // kineto_work by key, then time; NULL: none
    kineto_runner *runners; // [thread_count]
    size_t mark_count;
    size_t thread_count;
    uint32_t process_count;
    int64_t first_launch_ns; // where there are launches
    int64_t last_launch_ns;
} kineto_events;

/// A mark among those of its thread or process.
typedef struct kineto_open {
    uint32_t mark;
    int32_t around; // place of the one that is open around it; -1: none
    int32_t longer; // of the first around it that ends later than it does; -1: none
} kineto_open;

typedef struct kineto_lane {
    const kineto_mark *marks; // of the events
    kineto_open *opens;       // [count] by begin
    size_t count;
} kineto_lane;

typedef struct kineto_nesting {
    kineto_lane *threads;   // [thread_count]
    kineto_lane *processes; // [process_count]
} kineto_nesting;

/// @param events with marks by begin, outer before inner
kineto_nesting kineto_nesting_of(const kineto_events *events);

/// From when until when the mark at a place of a lane is open.
const trace_window *kineto_open_window(const kineto_lane *lane, size_t place);

/// How many marks of a lane begin at or before a moment. O(log count)
size_t kineto_begun_count(const kineto_lane *lane, int64_t moment_ns);

/// Of the first begun_count the last that lasts until a moment; NULL: none does.
const kineto_open *kineto_innermost(const kineto_lane *lane, size_t begun_count, int64_t until_ns);

/// Gives every mark its iteration and layer, and every load its cell; leaves out marks of coarser
/// namings and those outside the steps. Afterwards marks are sorted by begin, outer before inner.
///
/// @param layers of the phase map, 0: none
status trace_kineto_resolve(kineto_events *events, int layers, trace_recording *recording,
                            error_message *err);

/// The forward of a backward: the last operator of its number before it. Sources are by group.
/// NULL: none was recorded.
const kineto_span *kineto_source_of(const kineto_events *events, const kineto_span *target);

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

/// Sums what the device ran into the marks' windows, and the windows into recording->cells. Where
/// CPU operators are counted, each moment of a thread belongs to the innermost annotation open on
/// it, and is busy if an operator runs.
status trace_kineto_attribute(kineto_events *events, trace_recording *recording,
                              error_message *err);

/// Numbers for 64-bit keys, in the order of their first appearance; open addressing.
typedef struct kineto_numbering {
    struct kineto_slot {
        uint64_t key;
        uint32_t place; // its number + 1; 0: the slot is free
    } * slots;          // [capacity]
    size_t capacity;    // power of two
    uint32_t count;
} kineto_numbering;

/// Zero-initialise, then fill the first two, and the arenas and path of the events.
typedef struct kineto_collector {
    const trace_phase_map *map; // or NULL
    trace_recording *recording; // its counts of annotations are kept
    kineto_events events;
    kineto_numbering threads;
    kineto_numbering processes;
    kineto_numbering names;
    kineto_numbering groups; // of spans
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

/// Something that a profile says.
typedef struct kineto_event {
    kineto_kind kind;
    const char *name; // of annotations, modules and operators; below KINETO_NAME_BYTES characters
    kineto_thread thread;
    int64_t begin_ns;
    int64_t end_ns;
    uint32_t number; // of both ends of a link; key of work; correlation of a launch
    uint32_t flags;  // of work
} kineto_event;

/// Takes an event. An annotation that nobody knows is counted, and held as KINETO_UNKNOWN.
///
/// @return what the phase map says; as sorter_put; STATUS_UNSUPPORTED beyond 2^31 annotations
status kineto_collect(kineto_collector *collector, const kineto_event *event, error_message *err);

/// A load of a thread that kineto_collect_thread numbered, by whatever it was found.
status kineto_collect_mark(kineto_collector *collector, const trace_annotation *annotation,
                           uint32_t thread, int64_t begin_ns, int64_t end_ns, error_message *err);

/// The group of modules or annotations that differ in a number and tell layers apart: operators
/// then need not be read. -1: there is none.
int64_t trace_kineto_layer_group(kineto_collector *collector);

/// Marks forwards (and backwards where no links lead to them) in a trace whose annotations name
/// no load: that group; else annotations that say forward and backward; else the steps, or all of
/// the file. Forwards of the latter two are divided where they repeat operators. Nothing is marked
/// where other annotations fill half of the steps: they say what the layers are.
status trace_kineto_find_structure(kineto_collector *collector, int64_t group, error_message *err);

/// Whether a kernel is one of NCCL or DeepEP.
bool kineto_is_communication(const char *name, size_t length);

bool kineto_collect_has_load(const kineto_collector *collector);

/// Fails unless an annotation of a load was collected.
///
/// @return STATUS_INVALID naming some annotations that are there
status kineto_collect_check(const kineto_collector *collector, error_message *err);

/// Makes the recording of what was collected: of the device, or of the CPU where it says so.
///
/// @return as trace_kineto_resolve and trace_kineto_attribute
status kineto_collect_sum(kineto_collector *collector, error_message *err);
