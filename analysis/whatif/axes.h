/// Reads the axes of a what-if study. Only for matrix.c.
#pragma once

#include "analysis/whatif/matrix.h"
#include "base/json.h"

/// Reads `vary`, `alternatives` and rows of `balancing` of a study into the axes of matrix.
///
/// @return as ana_matrix_open
status ana_axes_read(json_value root, arena *memory, ana_matrix *matrix, error_message *err);
