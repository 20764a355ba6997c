/// The file of `dynmo plan --loads`: what the layers and stages of one decision cost.
#pragma once

#include "balance/problem.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"

#include <stdbool.h>

typedef struct cli_plan_loads {
    bal_problem problem; // layers, and what the file says of stages; stage_count as given
    bool has_load_cap;
} cli_plan_loads;

/// Reads {"forward_ns":[L],"backward_input_ns":[L],"backward_weight_ns":[L],"parameters":[L],
/// "state_bytes":[L],"activation_bytes":[L],"gradient_bytes":[L],"transfer_ns":[L],"embedding":bool,"head":bool,
/// "stage_memory_bytes":[P],"stage_inflight":[P],"stage_time_factor":[P],"stage_fixed_ns":[P],
/// "load_cap_ns":n,"current_first_layer":[stages in force + 1]}. Every key but forward_ns may be
/// missing; missing times are 0, anything else missing is not known.
///
/// @param path  "-" is standard input
/// @param loads arrays are carved from memory
/// @return STATUS_IO; STATUS_FORMAT naming file and key. loads is then untouched.
status cli_plan_loads_read(const char *path, int stage_count, arena *memory, cli_plan_loads *loads,
                           error_message *err);

/// The same from an object that is open already.
status cli_plan_loads_of(json_value object, int stage_count, arena *memory, cli_plan_loads *loads,
                         error_message *err);
