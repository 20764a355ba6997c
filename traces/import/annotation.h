/// Names of profiler annotations that say what a stretch of a training step computes.
#pragma once

#include "base/status.h"
#include "traces/store/writer.h"

#include <stdbool.h>
#include <stdint.h>

/// Who wrote a name. Loads come from the first of these that a trace has: the finest.
typedef enum trace_naming {
    TRACE_NAMED_BY_MAP,       ///< a rule of a phase map
    TRACE_NAMED_BY_DYNMO,     ///< "dynmo it=2 mb=0 L=5 F"
    TRACE_NAMED_BY_PIPELINE,  ///< "PP:2F5": torch.distributed.pipelining with a runtime schedule
    TRACE_NAMED_BY_GPIPE,     ///< "Forward 5": its ScheduleGPipe
    TRACE_NAMED_BY_STRUCTURE, ///< no name says it: modules, numbered names, repeated operators
    TRACE_NAMING_COUNT
} trace_naming;

typedef enum trace_count {
    TRACE_COUNT_NONE,
    TRACE_COUNT_UP,   ///< the k-th of its name is layer k
    TRACE_COUNT_DOWN, ///< the k-th of n is layer n - 1 - k
} trace_count;

typedef struct trace_annotation {
    trace_naming naming;
    trace_op_kind kind;
    trace_count count;     // how the layer is found where it is not in the name
    uint32_t name;         // equal for equal names, where a layer is counted
    int iteration;         // TRACE_NOT_RECORDED where the name does not say it
    int layer;             // or virtual stage; TRACE_NOT_RECORDED: the rank's, or counted
    int microbatch;        // TRACE_NOT_RECORDED where the name does not say it
    bool is_communication; // all that it launches is
} trace_annotation;

/// Whether a layer is a stage of torch.distributed.pipelining.
bool trace_naming_is_pipeline(trace_naming naming);

/// Recognises the names that need no phase map:
///
/// - `PP:<stage><F|I|W|B><microbatch>`: I is B here, B is BW; `SEND_F`, `RECV_F`, `SEND_B`,
///   `RECV_B` in place of the letter; `PP:<stage>REDUCE_GRAD`
/// - `Forward <microbatch>`, `Backward <microbatch>`: the stage is the rank
/// - `dynmo it=<i> mb=<m> L=<layer> <F|B|W|BW|R>`
/// - `Optimizer.step#...`
///
/// @return false for any other name, also for one with a number beyond the limits of
///         traces/store/writer.h
bool trace_annotation_parse(const char *name, trace_annotation *annotation);

/// "F", "B", "W", "BW", "R" as an op. @return false for any other text
bool trace_phase_parse(const char *text, trace_op_kind *kind);

/// Recognises `ProfilerStep#<n>`. A step beyond TRACE_ITERATIONS_MAX is none.
bool trace_annotation_is_step(const char *name, int *step);
