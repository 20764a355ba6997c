/// Series of layer times that a test writes down or draws, as a source.
#pragma once

#include "analysis/diagnosis/diagnosis.h"
#include "base/arena.h"
#include "base/rng.h"

#include <stdint.h>

enum { LOADS_LAYERS_MAX = 64 };

/// Iteration i costs the layers load_ns[i * layer_count ...], a third in F and the rest in B.
typedef struct loads_source {
    int layer_count;
    int iteration_count;
    int sampling;               // costs change at every sampling-th iteration only; 0: 1
    const int64_t *load_ns;     // [iteration_count][layer_count]
    const int64_t *state_bytes; // [layer_count] or NULL
    int64_t times[3][LOADS_LAYERS_MAX];
} loads_source;

static inline status loads_costs_at(void *context, int iteration, bal_layer_costs *costs,
                                    bool *changed, error_message *err)
{
    (void)err;
    loads_source *source = context;
    const int sampling = source->sampling > 0 ? source->sampling : 1;
    const int sample = iteration - iteration % sampling;
    for (int layer = 0; layer < source->layer_count; layer++) {
        const int64_t load =
            source->load_ns[(size_t)sample * (size_t)source->layer_count + (size_t)layer];
        source->times[0][layer] = load / 3;
        source->times[1][layer] = load - load / 3;
        source->times[2][layer] = 0;
    }
    *changed = iteration % sampling == 0;
    *costs = (bal_layer_costs){.layer_count = source->layer_count,
                               .microbatch_count = 1,
                               .forward_ns = source->times[0],
                               .backward_input_ns = source->times[1],
                               .backward_weight_ns = source->times[2],
                               .state_bytes = source->state_bytes};
    return STATUS_OK;
}

static inline bal_cost_source loads_port(loads_source *source)
{
    return (bal_cost_source){.context = source,
                             .layer_count = source->layer_count,
                             .iteration_count = source->iteration_count,
                             .costs_at = loads_costs_at};
}
