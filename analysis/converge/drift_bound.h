/// How far loads that drift can be from balance while a scheme works against the drift.
///
/// Before every iteration the deviation from the mean changes by at most d, then the scheme plays k
/// rounds. The README of this folder has the proofs.
#pragma once

#include "analysis/converge/converge_scheme.h"

#include <stdint.h>

/// Sum over the iterations of what is left of their drift: the deviation after the rounds is at
/// most d times this, the one before them at most d times 1 more. d and deviations in l2; of
/// max-neighbor in the potential (sum over pairs), and in expectation.
///
/// @param graph a path
/// @return INFINITY where the rounds promise nothing, as a scan that is cut short; NaN for a scheme
///         of which no bound is known
double ana_drift_sum(const ana_scheme *scheme, const ana_graph *graph,
                     const ana_scheme_options *options, int64_t round_count);

/// The largest (max - min) of loads that deviate from their mean by this much: in l2 sqrt(2) times
/// it; of max-neighbor, whose deviation is the potential, 1/(n - 1).
double ana_drift_gap(const ana_scheme *scheme, int node_count, double deviation);
