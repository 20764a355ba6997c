/// What names of profiler annotations say of the stretch of a training step that they stand for:
/// names that dynmo knows, and rules for others, phase maps; traces/phase-maps/README.md describes
/// their file.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "traces/store/writer.h"

#include <stdbool.h>
#include <stddef.h>
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

/// "F", "B", "W", "BW", "R" as an op. @return false for any other text
bool trace_phase_parse(const char *text, trace_op_kind *kind);

/// Recognises `ProfilerStep#<n>`. A step beyond TRACE_ITERATIONS_MAX is none.
bool trace_annotation_is_step(const char *name, int *step);

typedef struct trace_phase_map trace_phase_map;

/// @param map carved from memory
/// @return STATUS_IO; STATUS_FORMAT naming the place: not JSON, a key missing, unknown or of the
///         wrong type, a regular expression that does not compile or has too few groups
status trace_phase_map_open(const char *path, arena *memory, trace_phase_map **map,
                            error_message *err);

/// The same from bytes[length]; name stands for the path in messages.
status trace_phase_map_open_bytes(const char *name, const char *bytes, size_t length, arena *memory,
                                  trace_phase_map **map, error_message *err);

/// After how many layers counting starts over; 0: never.
int trace_phase_map_layers(const trace_phase_map *map);

/// Whether counting starts over inside annotations of that name.
bool trace_phase_map_is_scope(const trace_phase_map *map, const char *name);

/// What a name says, by the first rule of the map that matches, else as one of these:
///
/// - `PP:<stage><F|I|W|B><microbatch>`: I is B here, B is BW; `SEND_F`, `RECV_F`, `SEND_B`,
///   `RECV_B` in place of the letter; `PP:<stage>REDUCE_GRAD`
/// - `Forward <microbatch>`, `Backward <microbatch>`: the stage is the rank
/// - `dynmo it=<i> mb=<m> L=<layer> <F|B|W|BW|R>`
/// - `Optimizer.step#...`
///
/// Of a name with a number beyond the limits of traces/store/writer.h nothing is known.
///
/// @param map      may be NULL
/// @param is_known out: false if neither knows it
/// @return STATUS_INVALID naming annotation and rule: a group holds no number, or no phase
status trace_annotation_read(const trace_phase_map *map, const char *name,
                             trace_annotation *annotation, bool *is_known, error_message *err);
