/// Random small problems for the joint search.
#pragma once

#include "balance/joint/joint_layers.h"
#include "balance/problem.h"
#include "base/rng.h"

enum { JOINT_LAYERS_MAX = 16, JOINT_RANKS_MAX = 8 };

/// A problem with the arrays that it borrows.
typedef struct joint_case {
    bal_problem problem;
    int64_t forward_ns[JOINT_LAYERS_MAX];
    int64_t input_ns[JOINT_LAYERS_MAX];
    int64_t weight_ns[JOINT_LAYERS_MAX];
    int64_t state_bytes[JOINT_LAYERS_MAX];
    int64_t activation_bytes[JOINT_LAYERS_MAX];
    int64_t gradient_bytes[JOINT_LAYERS_MAX];
    int64_t transfer_ns[JOINT_LAYERS_MAX];
    int64_t memory_bytes[JOINT_RANKS_MAX];
    int64_t factor_ppb[JOINT_RANKS_MAX];
    int64_t fixed_ns[JOINT_RANKS_MAX];
} joint_case;

static const bal_joint_shape joint_shapes[] = {{.chunk_count = 1, .placement = BAL_PLACEMENT_LOOP},
                                               {.chunk_count = 2, .placement = BAL_PLACEMENT_V},
                                               {.chunk_count = 2, .placement = BAL_PLACEMENT_LOOP}};
enum { JOINT_SHAPE_COUNT = sizeof joint_shapes / sizeof joint_shapes[0] };

static inline void joint_case_fill(rng *random, int64_t *values, int count, int64_t low,
                                   int64_t high)
{
    for (int index = 0; index < count; index++) {
        values[index] = rng_between(random, low, high);
    }
}

/// Fills a case; every optional part of a problem is there in about half of the cases.
static inline void joint_case_init(joint_case *made, int layers, int ranks, int microbatches,
                                   rng *random)
{
    *made = (joint_case){0};
    const bool has_split = rng_below(random, 4) != 0;
    joint_case_fill(random, made->forward_ns, layers, 0, 9);
    joint_case_fill(random, made->input_ns, layers, 0, 9);
    joint_case_fill(random, made->weight_ns, layers, 0, has_split ? 9 : 0);
    joint_case_fill(random, made->state_bytes, layers, 0, 5);
    joint_case_fill(random, made->activation_bytes, layers, 0, 6);
    joint_case_fill(random, made->gradient_bytes, layers, 0, 6);
    joint_case_fill(random, made->transfer_ns, layers, 0, 4);
    joint_case_fill(random, made->memory_bytes, ranks, 6 * layers / ranks,
                    (5 + 6 * microbatches) * layers / ranks + 10);
    joint_case_fill(random, made->factor_ppb, ranks, 500000000, 2000000000);
    joint_case_fill(random, made->fixed_ns, ranks, 0, 3);
    made->problem = (bal_problem){
        .layers = {.layer_count = layers,
                   .microbatch_count = 1,
                   .has_split = has_split,
                   .forward_ns = made->forward_ns,
                   .backward_input_ns = made->input_ns,
                   .backward_weight_ns = made->weight_ns,
                   .state_bytes = made->state_bytes,
                   .activation_bytes = made->activation_bytes,
                   .gradient_bytes = rng_below(random, 2) == 0 ? made->gradient_bytes : NULL},
        .stage_count = ranks,
        .microbatch_count = microbatches,
        .transfer_ns = rng_below(random, 2) == 0 ? made->transfer_ns : NULL,
        .stage_memory_bytes = rng_below(random, 2) == 0 ? made->memory_bytes : NULL,
        .stage_time_factor_ppb = rng_below(random, 3) == 0 ? made->factor_ppb : NULL,
        .stage_fixed_ns = rng_below(random, 3) == 0 ? made->fixed_ns : NULL};
}

/// Steps to the next partition in which every stage has a layer.
///
/// @param first_layer [stages + 1] begins as 0, 1, ..., stages - 1, layers
/// @return false after the last one
static inline bool joint_next_partition(int *first_layer, int stages)
{
    for (int stage = stages - 1; stage > 0; stage--) {
        if (first_layer[stage] + 1 >= first_layer[stage + 1]) continue;
        first_layer[stage]++;
        for (int later = stage + 1; later < stages; later++) {
            first_layer[later] = first_layer[later - 1] + 1;
        }
        return true;
    }
    return false;
}

static inline void joint_first_partition(int *first_layer, int stages, int layers)
{
    for (int stage = 0; stage < stages; stage++) {
        first_layer[stage] = stage;
    }
    first_layer[stages] = layers;
}
