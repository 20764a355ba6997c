/// What cases of dynamism need of the base they are put over, and of their own memory.
#pragma once

#include "models/dynamism/dynamism_case.h"

/// Costs of the base's iteration 0, borrowed until it is asked again: while a case opens only, as
/// later the costs that its load is put on would be gone.
status model_case_first_costs(const model_case_setup *setup, bal_layer_costs *costs,
                              error_message *err);

/// Carves count factors of 1.
///
/// @return STATUS_NO_MEMORY; *factors is then untouched
void model_case_ones(arena *memory, size_t count, double **factors);

/// Time to read and write so many bytes of device memory, in ns, at most INT64_MAX / 4; 0 without
/// hardware.
int64_t model_case_bytes_ns(const model_hardware *hardware, int64_t bytes);

/// Bytes per parameter of a base's weights: of its model's dtype, or 2, which is then noted among
/// the parameters as assumed.
status model_case_weight_bytes(const model_case_setup *setup, int *weight_bytes,
                               error_message *err);
