/// Rules for annotations whose names dynmo does not know: phase maps.
///
/// traces/phase-maps/README.md describes the file.
#pragma once

#include "base/status.h"
#include "traces/import/annotation.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct trace_phase_map trace_phase_map;

/// @param map release with trace_phase_map_close
/// @return STATUS_IO; STATUS_FORMAT naming the place: not JSON, a key missing, unknown or of the
///         wrong type, a regular expression that does not compile or has too few groups
status trace_phase_map_open(const char *path, trace_phase_map **map, error_message *err);

/// The same from bytes[length]; name stands for the path in messages.
status trace_phase_map_open_bytes(const char *name, const char *bytes, size_t length,
                                  trace_phase_map **map, error_message *err);

void trace_phase_map_close(trace_phase_map *map); ///< NULL is allowed

/// After how many layers counting starts over; 0: never.
int trace_phase_map_layers(const trace_phase_map *map);

/// Whether counting starts over inside annotations of that name.
bool trace_phase_map_is_scope(const trace_phase_map *map, const char *name);

/// Applies the first rule that matches.
///
/// @param is_known out: false if no rule matches, or the one that does says to ignore the name
/// @return STATUS_INVALID naming annotation and rule: a group holds no number, or no phase
status trace_phase_map_apply(const trace_phase_map *map, const char *name,
                             trace_annotation *annotation, bool *is_known, error_message *err);
