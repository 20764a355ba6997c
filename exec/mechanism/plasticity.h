/// When a layer has learnt what it will: how far its parameters still move, against how far they
/// once did. Layers freeze front to back, one after the other.
///
/// A single step says little: under Adam steps stay about as long as ever while they turn about.
/// So movement is measured from one decision to the next, over many steps, in which what is noise
/// cancels.
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct exec_freezing_options {
    int interval;         // iterations from decision to decision, >= 1
    int start_iteration;  // nothing freezes before
    double tolerance;     // a layer is calm where its movement is below this share of its largest,
                          // in (0, 1]
    int patience;         // decisions in a row for which it must be calm while it is the first that
                          // learns, >= 1
    double largest_share; // of the layers, embedding and head among them, that may freeze, in
                          // [0, 1)
} exec_freezing_options;

/// Whether layers may freeze after an iteration.
bool exec_freezing_decides(const exec_freezing_options *options, int iteration);

/// What is known of a layer's movement. All zero: nothing yet.
typedef struct exec_plasticity {
    double movement;    // the mean of the last one and of what was known before it
    double largest;     // movement so far
    int32_t calm_count; // decisions in a row for which it has been calm, and the first that learns
    int32_t decision_count;
} exec_plasticity;
_Static_assert(sizeof(exec_plasticity) == 24, "no padding: it travels as it is");

/// ||now - before|| / ||now||, 0 where now is all zeros. In double, one by one.
double exec_parameter_movement(const float *now, const float *before, int64_t count);

/// Takes in the movement from the decision before to this one.
///
/// @param is_first whether the layer is the first that learns
///
/// Source of watching the first layer that learns alone: Wang et al., Egeria, EuroSys 2023, which
/// compares with a reference model what here are the layer's own parameters.
void exec_plasticity_observe(exec_plasticity *plasticity, double movement, bool is_first,
                             const exec_freezing_options *options);

/// How many layers are frozen from now on: those that were, and after them all that are calm, up
/// to the first that is not.
///
/// @param is_frozen, is_calm [layer_count] in model order, 0 or 1
int exec_frozen_layer_count(const int64_t *is_frozen, const int64_t *is_calm, int layer_count,
                            const exec_freezing_options *options);
