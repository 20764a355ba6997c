/// Layers as dynamic models have them, drawn: one rule per family.
#pragma once

#include "base/rng.h"

#include <stdint.h>

/// A family of layer times.
typedef struct ana_layer_family {
    const char *name;
    const char *rule; // how its layers are drawn, for people
    /// @param weight [layer_count] out: ns, > 0
    void (*draw)(rng *generator, int layer_count, int64_t *weight);
} ana_layer_family;

/// The table, in the order in which it is shown.
const ana_layer_family *ana_layer_families(int *count);
