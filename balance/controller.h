/// When to rebalance: Algorithm 1 of the DynMo paper, the same object for every player.
///
/// The model changes at the end of an iteration; the first iteration with the new loads is
/// profiled; the decision falls, and layers migrate, at its end; the new plan is in force from the
/// iteration after it.
#pragma once

#include "balance/balancer.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum bal_policy_kind {
    BAL_POLICY_NEVER,     ///< keeps the plan of the start
    BAL_POLICY_ON_CHANGE, ///< acts after every iteration whose loads have changed
    BAL_POLICY_EVERY,     ///< acts after every period-th iteration
} bal_policy_kind;

typedef struct bal_policy {
    bal_policy_kind kind;
    int period; // BAL_POLICY_EVERY: >= 1
} bal_policy;

/// Parses "never", "on-change", "every:N" or "every-iteration" (= every:1).
///
/// @return STATUS_INVALID naming the text and what is known.
status bal_policy_parse(const char *name, bal_policy *policy, error_message *err);

/// Writes the policy as bal_policy_parse reads it into out.
void bal_policy_name(bal_policy policy, char out[32]);

/// True if the controller acts after this iteration.
///
/// @param iteration >= 0; every:N acts after iterations N - 1, 2N - 1, ...
/// @param changed   the loads of this iteration differ from those of the one before
bool bal_policy_acts(bal_policy policy, int iteration, bool changed);

/// Tells which changes of the loads are changes of the model: a recorded trace has noise in every
/// iteration and announces nothing. A layer has changed if its F, B or W begins or ceases to cost
/// nothing, or if its sum differs from its value at the last change by more than change_ratio.
typedef struct bal_change_detector {
    int layer_count;
    double change_ratio; // > 0, for example 0.25
    bool has_reference;
    int64_t *reference_ns; // [layer_count][3] means over the microbatches at the last change
    int64_t *current_ns;   // [layer_count][3]
} bal_change_detector;

/// @param detector arrays are carved from memory
status bal_change_detector_init(bal_change_detector *detector, int layer_count, double change_ratio,
                                arena *memory, error_message *err);

/// Looks at the costs of the next iteration. The first one is no change: the plan of the start was
/// made for it.
///
/// @param layers layer_count as at init
/// @return true if the model has changed since the last change
bool bal_change_detector_observe(bal_change_detector *detector, const bal_layer_costs *layers);
