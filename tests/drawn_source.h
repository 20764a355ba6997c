/// Costs of layers that are drawn from a seed, for tests of whole training runs.
#pragma once

#include "balance/ports.h"
#include "base/rng.h"

#include <stdbool.h>
#include <stdint.h>

enum { DRAWN_LAYERS_MAX = 60, DRAWN_MICROBATCHES_MAX = 48, DRAWN_REPLICAS_MAX = 3 };

/// Draws an iteration's costs from its number, so that iterations may be asked in any order.
typedef struct drawn_source {
    uint64_t seed;
    int layer_count;
    int column_count;
    int period; // iterations with the same costs
    bool always_changes;
    bool comes_back; // in every other period all layers but one cost next to nothing
    int last;        // iteration asked for last; -1: none
    int64_t times[3][DRAWN_LAYERS_MAX * DRAWN_MICROBATCHES_MAX];
    int64_t parameters[DRAWN_LAYERS_MAX];
    int64_t bytes[DRAWN_LAYERS_MAX];
    int64_t reduction_ns[DRAWN_LAYERS_MAX];
} drawn_source;

static inline status drawn_costs_at(void *context, int iteration, bal_layer_costs *costs,
                                    bool *changed, error_message *err)
{
    (void)err;
    drawn_source *source = context;
    const int era = iteration / source->period;
    rng generator = rng_init(source->seed, (uint64_t)era);
    const int64_t heavy = rng_between(&generator, 0, source->layer_count - 1);
    for (int layer = 0; layer < source->layer_count; layer++) {
        const bool is_light = source->comes_back && era % 2 == 1 && layer != heavy;
        const int64_t most = is_light ? 9 : layer >= heavy ? 900 : 100 + 400 / (era + 1);
        for (int column = 0; column < source->column_count; column++) {
            for (int pass = 0; pass < 3; pass++) {
                source->times[pass][layer * source->column_count + column] =
                    rng_between(&generator, 0, most);
            }
        }
    }
    *changed = source->always_changes || source->last < 0 || source->last / source->period != era;
    source->last = iteration;
    *costs = (bal_layer_costs){.layer_count = source->layer_count,
                               .microbatch_count = source->column_count,
                               .has_split = true,
                               .forward_ns = source->times[0],
                               .backward_input_ns = source->times[1],
                               .backward_weight_ns = source->times[2],
                               .parameters = source->parameters,
                               .state_bytes = source->bytes,
                               .activation_bytes = source->bytes,
                               .gradient_bytes = source->bytes,
                               .message_bytes = source->bytes,
                               .reduction_ns = source->reduction_ns};
    return STATUS_OK;
}

static inline int pick(rng *generator, int count)
{
    return (int)rng_below(generator, (uint64_t)count);
}

/// What the sources of a run have in common.
typedef struct drawn_shape {
    int layer_count;
    int column_count;
    int period_max;
    int iteration_count; // that the sources know
    bool announces_changes;
} drawn_shape;

/// Draws the sources of as many replicas, with one period.
///
/// @param sources [DRAWN_REPLICAS_MAX] in: zero
/// @param ports   [DRAWN_REPLICAS_MAX] out: borrow the sources
static inline void draw_sources(const drawn_shape *shape, rng *generator, drawn_source *sources,
                                bal_cost_source *ports)
{
    const int period = 1 + pick(generator, shape->period_max);
    for (int replica = 0; replica < DRAWN_REPLICAS_MAX; replica++) {
        drawn_source *source = &sources[replica];
        source->seed = rng_next(generator);
        source->layer_count = shape->layer_count;
        source->column_count = shape->column_count;
        source->period = period;
        source->last = -1;
        for (int layer = 0; layer < shape->layer_count; layer++) {
            source->parameters[layer] = rng_between(generator, 1, 50);
            source->bytes[layer] = rng_between(generator, 0, 500);
            source->reduction_ns[layer] = rng_between(generator, 0, 800);
        }
        ports[replica] = (bal_cost_source){.context = source,
                                           .layer_count = shape->layer_count,
                                           .iteration_count = shape->iteration_count,
                                           .announces_changes = shape->announces_changes,
                                           .costs_at = drawn_costs_at};
    }
}
