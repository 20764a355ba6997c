#include "balance/control/policy.h"

#include "base/text.h"

#include <math.h>
#include <stdio.h>
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

void bal_policy_name(bal_policy policy, char out[BAL_POLICY_NAME_BYTES])
{
    if (policy.kind == BAL_POLICY_EVERY) {
        snprintf(out, BAL_POLICY_NAME_BYTES, "every:%d", policy.period);
    } else if (policy.kind == BAL_POLICY_THRESHOLD) {
        snprintf(out, BAL_POLICY_NAME_BYTES, "threshold:%.10g", policy.threshold_ratio);
    }
    for (size_t row = 0; row < sizeof plain_names / sizeof plain_names[0]; row++) {
        if (plain_names[row].policy.kind != policy.kind || policy.kind == BAL_POLICY_EVERY)
            continue;
        snprintf(out, BAL_POLICY_NAME_BYTES, "%s", plain_names[row].name);
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

void bal_change_detector_init(bal_change_detector *detector, int layer_count, double change_ratio,
                              arena *memory)
{
    int64_t *both = arena_array(memory, (size_t)layer_count * 6, sizeof *both);
    *detector = (bal_change_detector){
        .layer_count = layer_count,
        .change_ratio = change_ratio,
        .reference_ns = both,
        .current_ns = both + (int64_t)layer_count * 3,
    };
}

static int64_t mean_of(const int64_t *row, int count)
{
    int64_t sum = 0;
    for (int column = 0; column < count; column++) {
        sum += row[column];
    }
    return sum / count;
}

static bool layer_has_changed(const int64_t *reference, const int64_t *current, double ratio)
{
    int64_t before = 0;
    int64_t now = 0;
    for (int phase = 0; phase < 3; phase++) {
        if ((reference[phase] == 0) != (current[phase] == 0)) return true;
        before += reference[phase];
        now += current[phase];
    }
    return fabs((double)now - (double)before) > ratio * (double)before;
}

bool bal_change_detector_observe(bal_change_detector *detector, const bal_layer_costs *layers)
{
    const int columns = layers->microbatch_count;
    bool changed = false;
    for (int layer = 0; layer < detector->layer_count; layer++) {
        const int64_t row = (int64_t)layer * columns;
        int64_t *current = detector->current_ns + (int64_t)layer * 3;
        current[0] = mean_of(layers->forward_ns + row, columns);
        current[1] = mean_of(layers->backward_input_ns + row, columns);
        current[2] = mean_of(layers->backward_weight_ns + row, columns);
        changed = changed || layer_has_changed(detector->reference_ns + (int64_t)layer * 3, current,
                                               detector->change_ratio);
    }
    const bool is_first = !detector->has_reference;
    if (changed || is_first) {
        memcpy(detector->reference_ns, detector->current_ns,
               (size_t)detector->layer_count * 3 * sizeof *detector->current_ns);
        detector->has_reference = true;
    }
    return changed && !is_first;
}
