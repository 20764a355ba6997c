/// When layers freeze, front to back: schedules that fill in, for every transformer layer, the
/// first iteration in which it no longer learns.
#pragma once

#include "base/rng.h"
#include "base/status.h"

#include <limits.h>

enum { MODEL_FREEZE_NEVER = INT_MAX };

/// One more layer every so many iterations: layer l freezes at first + l * interval.
///
/// @param first, interval, max_frozen >= 0, >= 1, in [0, layer_count]: layers from max_frozen on
///                                    never freeze
/// @param freeze_at [layer_count] out
void model_freeze_by_interval(int first, int interval, int max_frozen, int layer_count,
                              int *freeze_at);

/// A share of the layers that are still learning, every interval: after e intervals from first on,
/// ceil(L (1 - (1 - share)^e)) layers are frozen.
///
/// @param share in (0, 1)
/// Source: He, Li, Soltanolkotabi, Avestimehr, PipeTransformer, ICML 2021, and
/// freeze/auto_freeze.py of its code, which sums the same series term by term and whose interval is
/// an epoch.
void model_freeze_by_share(double share, int first, int interval, int max_frozen, int layer_count,
                           int *freeze_at);

/// Layers whose loss-change rate falls below a tolerance, the front ones first.
typedef struct model_plasticity {
    int first_iteration;     // when the front layer gets there, >= 1
    int last_iteration;      // when the last of max_frozen layers does, >= first_iteration
    int evaluation_interval; // freezing is decided at its multiples only, >= 1
    double jitter;           // in [0, 1): times vary by up to this share
} model_plasticity;

/// The rate of layer l is exp(-k / tau_l) at iteration k and tau_l grows linearly with depth, and
/// so do the times at which rates reach a tolerance. A layer waits for those in front of it.
///
/// Source of the shape (front layers first, decisions at fixed intervals, one after the other):
/// Wang et al., Egeria, EuroSys 2023. It publishes no times: they are the caller's.
void model_freeze_by_plasticity(const model_plasticity *plasticity, rng *random, int max_frozen,
                                int layer_count, int *freeze_at);

/// Layers that are frozen while an iteration runs: those at the front with freeze_at <= iteration.
///
/// @param freeze_at [layer_count] not falling
int model_frozen_count(const int *freeze_at, int layer_count, int iteration);
