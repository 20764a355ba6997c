#include "sim/policy.h"

#include <assert.h>
#include <string.h>

static const char *const policy_names[SIM_POLICY_COUNT] = {
    [SIM_STATIC] = "static", [SIM_FLOATING_W] = "floating-w", [SIM_GREEDY] = "greedy"};

const char *sim_policy_name(sim_policy policy)
{
    assert(policy >= 0 && policy < SIM_POLICY_COUNT);
    return policy_names[policy];
}

status sim_policy_parse(const char *name, sim_policy *policy, error_message *err)
{
    for (int index = 0; index < SIM_POLICY_COUNT; index++) {
        if (strcmp(name, policy_names[index]) != 0) continue;
        *policy = (sim_policy)index;
        return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID, "policy '%.60s' is none of static, floating-w and greedy",
                     name);
}
