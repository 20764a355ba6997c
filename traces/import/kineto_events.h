/// What traces/import/kineto.c takes from the events, and hands to the files that make sense of it.
#pragma once

#include "base/status.h"
#include "traces/import/kineto.h"

#include <stddef.h>
#include <stdint.h>

enum {
    KINETO_COMMUNICATION = 1, ///< by the name of the kernel or a rule for it
    KINETO_COMPUTE = 2,       ///< by a rule, whatever the annotation says
    KINETO_AUTOGRAD = 4       ///< a CPU operator of the backward
};

/// A stretch of time with a number: a ProfilerStep, or a scope of the phase map.
typedef struct kineto_stretch {
    int64_t begin_ns;
    int64_t end_ns;
    int number;
} kineto_stretch;

/// An annotation as it was found. An overlapped forward and backward becomes two, one behind the
/// other, of which the second is_twin.
typedef struct kineto_mark {
    trace_window window;
    uint32_t thread;
    uint32_t name;  // equal for equal names, where a layer is counted
    uint32_t order; // in the file: ties stay in it
    int32_t scope;
    uint8_t naming; // trace_naming
    uint8_t count;  // trace_count
    bool is_communication;
    bool is_overlapped;
    bool is_twin;
} kineto_mark;

typedef struct kineto_launch {
    union {
        int64_t ts_ns; // as it is read
        int64_t mark;  // once it is placed: the mark it belongs to, or -1
    };
    uint32_t correlation;
    uint32_t thread;
} kineto_launch;
_Static_assert(sizeof(kineto_launch) == 16, "stated in kineto.h");

typedef struct kineto_work {
    int64_t begin_ns;
    int64_t end_ns;
    uint32_t key; // correlation of a device operation, thread of a CPU operator; later the mark
    uint32_t flags;
} kineto_work;
_Static_assert(sizeof(kineto_work) == 24, "stated in kineto.h");

#define KINETO_NO_CORRELATION UINT32_MAX

/// A growing array.
typedef struct kineto_list {
    size_t count;
    size_t capacity;
} kineto_list;

typedef struct kineto_events {
    const char *path;
    kineto_stretch *steps;
    kineto_stretch *scopes;
    kineto_mark *marks;
    kineto_launch *launches;
    kineto_work *works;
    uint32_t *process_of; // [thread_count]
    kineto_list step_list, scope_list, mark_list, launch_list, work_list, thread_list;
    uint32_t process_count;
} kineto_events;

/// Gives every mark its iteration and layer, and every load its cell; leaves out marks of coarser
/// namings and those outside the steps. Afterwards marks are sorted by begin, outer before inner.
///
/// @param layers of the phase map, 0: none
status trace_kineto_resolve(kineto_events *events, int layers, trace_recording *recording,
                            error_message *err);

/// Sums what the device ran into the marks' windows, and the windows into recording->cells.
status trace_kineto_attribute_device(kineto_events *events, trace_recording *recording,
                                     error_message *err);

/// The same with CPU operators: each moment of a thread belongs to the innermost annotation open
/// on it, and is busy if an operator runs.
status trace_kineto_attribute_cpu(kineto_events *events, trace_recording *recording,
                                  error_message *err);
