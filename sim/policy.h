/// How a rank chooses its next op.
#pragma once

#include "base/status.h"

typedef enum sim_policy {
    SIM_STATIC,     ///< the order of the schedule, whatever the costs: what frameworks do
    SIM_FLOATING_W, ///< F, B and BW keep their order; whenever the next of them is not ready, or
                    ///< memory forbids the next F, the oldest pending W runs
    SIM_GREEDY,     ///< B (or BW), else F if memory allows, else the oldest pending W
    SIM_POLICY_COUNT
} sim_policy;

/// "static", "floating-w", "greedy". Static storage.
const char *sim_policy_name(sim_policy policy);

/// @return STATUS_INVALID naming the text and the names. policy is then untouched.
status sim_policy_parse(const char *name, sim_policy *policy, error_message *err);
