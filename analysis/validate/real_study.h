/// The study of one measured run: what would have been asked before it was rented.
#pragma once

#include "analysis/validate/real_runs.h"

/// What was measured of a run.
typedef struct ana_real_measured {
    double iteration_ns;
    double peak_bytes; // of the fullest GPU; 0: not measured
    bool is_allocated; // peak_bytes is of the framework's allocator alone
    bool is_ambiguous; // float32, and not said whether products are of TF32
    double tokens;     // of an iteration, all replicas
    int gpu_count;
} ana_real_measured;

/// Appends the study of a row, one point, and says what was measured of it.
///
/// Memory is not limited. What the row leaves open is what launchers do: README.md has the table.
///
/// @param recompute of ana_real_recompute
/// @param memory    of what is read meanwhile
/// @return STATUS_FORMAT "path:line: ..." for a cell outside its limits, an unknown word, GPUs that
///         the degrees do not divide, neither a model nor its sizes, no batch, or nothing measured
status ana_real_study_write(const ana_real_runs *runs, int row, const char *recompute,
                            arena *memory, text_buffer *out, ana_real_measured *measured,
                            error_message *err);

/// What may be computed again in a row, from what costs least time; NULL: no further attempt. A run
/// that was measured has fitted: the first that fits is taken.
const char *ana_real_recompute(const ana_real_runs *runs, int row, int attempt);

/// Appends what holds for rows that do not say otherwise, one "name: value" after the other.
void ana_real_defaults(text_buffer *out);

/// Appends the name of the group of a row: runs of the same training on the same machine, among
/// which one would have chosen.
void ana_real_group(const ana_real_runs *runs, int row, text_buffer *out);
