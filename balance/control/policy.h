/// When the controller decides, what its decisions look at, and what a change of the model is.
#pragma once

#include "balance/costs/layer_costs.h"
#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum bal_policy_kind {
    BAL_POLICY_NEVER,     ///< keeps the plan of the start
    BAL_POLICY_ON_CHANGE, ///< asks after every iteration whose loads have changed
    BAL_POLICY_EVERY,     ///< asks after every period-th iteration
    BAL_POLICY_THRESHOLD, ///< asks after every iteration; moves where that shortens the predicted
                          ///< iteration by more than threshold_ratio
    BAL_POLICY_SHADOW, ///< moves when waiting has cost what moving costs (balance/control/shadow.h)
} bal_policy_kind;

typedef struct bal_policy {
    bal_policy_kind kind;
    int period;             // BAL_POLICY_EVERY: >= 1
    double threshold_ratio; // BAL_POLICY_THRESHOLD: in [0, 1]; share of the iteration to be saved
} bal_policy;

/// Parses "never", "on-change", "every:N", "every-iteration" (= every:1), "threshold:x" or
/// "shadow".
///
/// @return STATUS_INVALID naming the text and what is known, or the number and its limits; policy
///         is then untouched.
status bal_policy_parse(const char *name, bal_policy *policy, error_message *err);

/// The policy as bal_policy_parse reads it.
text_words bal_policy_name(bal_policy policy);

/// True if the balancer is asked after this iteration: threshold:x asks always; shadow never, as
/// it keeps plans of its own.
///
/// @param iteration >= 0; every:N asks after iterations N - 1, 2N - 1, ...
/// @param changed   the model has changed before this iteration
bool bal_policy_asks(bal_policy policy, int iteration, bool changed);

/// The loads that a decision looks at. An iteration's loads are known once it has ended, and the
/// plan decided from them is in force from the next one on.
typedef enum bal_information {
    BAL_INFORMATION_PROFILE,   ///< those of the iteration that has just ended
    BAL_INFORMATION_FORESIGHT, ///< those of the next iteration: what no run can know
    BAL_INFORMATION_COUNT
} bal_information;

/// "profile", "foresight", as files spell them. Static storage.
extern const char *const bal_information_names[BAL_INFORMATION_COUNT];

/// Tells which changes of the loads are changes of the model: a recorded trace has noise in every
/// iteration and announces nothing. A layer has changed if its F, B or W begins or ceases to cost
/// nothing, or if its sum differs from its value at the last change by more than change_ratio.
typedef struct bal_change_detector {
    double change_ratio; // > 0, for example 0.25
    bool has_reference;
    bal_layer_times reference; // at the last change
} bal_change_detector;

/// @param detector arrays are carved from memory
void bal_change_detector_init(bal_change_detector *detector, int layer_count, double change_ratio,
                              arena *memory);

/// Looks at the next iteration. The first one is no change: the plan of the start was made for it.
///
/// @param now layer_count as at init
/// @return true if the model has changed since the last change
bool bal_change_detector_observe(bal_change_detector *detector, const bal_layer_times *now);
