/// What replicas keep of a parameter and send each other: sharded optimizers and the reduction of
/// gradients.
///
/// Source: Rajbhandari, Rasley, Ruwase & He, ZeRO, arXiv 1910.02054, sections 3 and 5.
#pragma once

#include "balance/machine.h"
#include "models/cost/parallel.h"

#include <stdint.h>

/// Bytes of a parameter: the weight that layers multiply by, its gradient, and all else that the
/// optimizer keeps (a copy of the weight in 32 bits, moments).
typedef struct model_parameter_bytes {
    int weight;
    int gradient;
    int optimizer;
} model_parameter_bytes;

/// Bytes that a GPU keeps of parameters that replica_count GPUs hold: what is sharded is divided by
/// them and rounded up. Saturates at INT64_MAX.
int64_t model_state_bytes(int64_t parameters, model_parameter_bytes bytes, model_sharding sharding,
                          int replica_count);

/// When and how long replicas exchange what they share of a layer.
typedef struct model_replica_traffic {
    int64_t step_ns;     // at the end of an iteration
    int64_t forward_ns;  // before F of a microbatch: gathering weights
    int64_t backward_ns; // before B: gathering them again
    int64_t gradient_ns; // after W: reduce-scatter of gradients
} model_replica_traffic;

/// Traffic of parameters between the replicas that hold them.
///
/// none: an all-reduce of gradients at the step. optimizer: gradients are scattered and weights
/// gathered at the step. gradients: as no rank keeps all gradients, they are scattered after every
/// W; weights are gathered at the step. parameters: weights are gathered before F and B, gradients
/// scattered after W; nothing is left for the step. Saturates at INT64_MAX / 4.
model_replica_traffic model_replica_traffic_of(int64_t parameters, model_parameter_bytes bytes,
                                               model_sharding sharding, const bal_group *replicas);
