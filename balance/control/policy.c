#include "balance/control/policy.h"

#include <math.h>
#include <string.h>

const char *const bal_information_names[BAL_INFORMATION_COUNT] = {
    [BAL_INFORMATION_PROFILE] = "profile",
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

text_words bal_policy_name(bal_policy policy)
{
    if (policy.kind == BAL_POLICY_EVERY) return text_wording("every:%d", policy.period);
    if (policy.kind == BAL_POLICY_THRESHOLD) {
        return text_wording("threshold:%.10g", policy.threshold_ratio);
    }
    int row = 0;
    while (plain_names[row].policy.kind != policy.kind) {
        row++;
    }
    return text_wording("%s", plain_names[row].name);
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

void bal_change_detector_init(bal_change_detector *detector, int layer_count, double change_ratio,
                              arena *memory)
{
    *detector = (bal_change_detector){.change_ratio = change_ratio};
    bal_layer_times_init(&detector->reference, layer_count, memory);
}

bool bal_change_detector_observe(bal_change_detector *detector, const bal_layer_times *now)
{
    bal_layer_times *reference = &detector->reference;
    const bool is_first = !detector->has_reference;
    bool changed = false;
    for (int layer = 0; layer < now->layer_count && !changed; layer++) {
        const double before = (double)bal_layer_time_ns(reference, layer);
        const double away = fabs((double)bal_layer_time_ns(now, layer) - before);
        changed = away > detector->change_ratio * before;
        for (int pass = 0; pass < BAL_COST_TIMES_COUNT; pass++) {
            const bool was_free = reference->passes[pass][layer] == 0;
            if (was_free != (now->passes[pass][layer] == 0)) changed = true;
        }
    }
    detector->has_reference = true;
    for (int pass = 0; pass < BAL_COST_TIMES_COUNT && (changed || is_first); pass++) {
        memcpy(reference->passes[pass], now->passes[pass],
               (size_t)now->layer_count * sizeof(int64_t));
    }
    return changed && !is_first;
}
