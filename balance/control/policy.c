#include "balance/control/policy.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

const char *const bal_information_names[BAL_INFORMATION_COUNT] = {
    [BAL_INFORMATION_PROFILE] = "profile",
    [BAL_INFORMATION_FORECAST] = "forecast",
    [BAL_INFORMATION_FORESIGHT] = "foresight",
};

static const struct {
    const char *name;
    bal_policy policy;
} plain_names[] = {
    {"never", {.kind = BAL_POLICY_NEVER}},
    {"on-change", {.kind = BAL_POLICY_ON_CHANGE}},
    {"every-iteration", {.kind = BAL_POLICY_EVERY, .period = 1}},
    {"shadow", {.kind = BAL_POLICY_SHADOW}},
};

status bal_policy_parse(const char *name, bal_policy *policy, error_message *err)
{
    for (size_t row = 0; row < sizeof plain_names / sizeof plain_names[0]; row++) {
        if (strcmp(name, plain_names[row].name) != 0) continue;
        *policy = plain_names[row].policy;
        return STATUS_OK;
    }
    if (strncmp(name, "every:", 6) == 0) {
        int64_t period = 0;
        TRY(text_parse_int64(name + 6, "policy every:N", 1, 1000000000, &period, err));
        *policy = (bal_policy){.kind = BAL_POLICY_EVERY, .period = (int)period};
        return STATUS_OK;
    }
    if (strncmp(name, "threshold:", 10) == 0) {
        double ratio = 0;
        TRY(text_parse_double(name + 10, "policy threshold:x", 0, 1, &ratio, err));
        *policy = (bal_policy){.kind = BAL_POLICY_THRESHOLD, .threshold_ratio = ratio};
        return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID,
                     "unknown policy '%.60s'; known: never, on-change, every:N, every-iteration, "
                     "threshold:x, shadow",
                     name);
}

void bal_policy_name(bal_policy policy, char out[BAL_POLICY_NAME_BYTES])
{
    switch (policy.kind) {
    case BAL_POLICY_NEVER:
        snprintf(out, BAL_POLICY_NAME_BYTES, "never");
        break;
    case BAL_POLICY_ON_CHANGE:
        snprintf(out, BAL_POLICY_NAME_BYTES, "on-change");
        break;
    case BAL_POLICY_EVERY:
        snprintf(out, BAL_POLICY_NAME_BYTES, "every:%d", policy.period);
        break;
    case BAL_POLICY_THRESHOLD:
        snprintf(out, BAL_POLICY_NAME_BYTES, "threshold:%.10g", policy.threshold_ratio);
        break;
    case BAL_POLICY_SHADOW:
        snprintf(out, BAL_POLICY_NAME_BYTES, "shadow");
        break;
    }
}

bool bal_policy_asks(bal_policy policy, int iteration, bool changed)
{
    switch (policy.kind) {
    case BAL_POLICY_ON_CHANGE:
        return changed;
    case BAL_POLICY_EVERY:
        return iteration % policy.period == policy.period - 1;
    case BAL_POLICY_THRESHOLD:
        return true;
    case BAL_POLICY_NEVER:
    case BAL_POLICY_SHADOW:
        break;
    }
    return false;
}
