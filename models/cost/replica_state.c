#include "models/cost/replica_state.h"

#include "models/cost/saturating.h"

static int64_t share_of(int64_t parameters, int bytes, bool is_sharded, int replica_count)
{
    const int64_t all = saturating_multiply(parameters, bytes);
    if (!is_sharded || all == INT64_MAX) return all;
    return all / replica_count + (all % replica_count > 0);
}

int64_t model_state_bytes(int64_t parameters, model_parameter_bytes bytes, model_sharding sharding,
                          int replica_count)
{
    const int64_t weights =
        share_of(parameters, bytes.weight, sharding >= MODEL_SHARDING_PARAMETERS, replica_count);
    const int64_t gradients =
        share_of(parameters, bytes.gradient, sharding >= MODEL_SHARDING_GRADIENTS, replica_count);
    const int64_t optimizer =
        share_of(parameters, bytes.optimizer, sharding >= MODEL_SHARDING_OPTIMIZER, replica_count);
    return saturating_add(saturating_add(weights, gradients), optimizer);
}

model_replica_traffic model_replica_traffic_of(int64_t parameters, model_parameter_bytes bytes,
                                               model_sharding sharding, const bal_group *replicas)
{
    model_replica_traffic traffic = {0};
    if (parameters == 0) return traffic;
    const int64_t gradient_bytes = saturating_multiply(parameters, bytes.gradient);
    const int64_t weight_bytes = saturating_multiply(parameters, bytes.weight);
    const int64_t scatter_ns = bal_group_reduce_scatter_ns(replicas, gradient_bytes);
    const int64_t gather_ns = bal_group_all_gather_ns(replicas, weight_bytes);
    switch (sharding) {
    case MODEL_SHARDING_PARAMETERS:
        traffic.forward_ns = gather_ns;
        traffic.backward_ns = gather_ns;
        traffic.gradient_ns = scatter_ns;
        break;
    case MODEL_SHARDING_GRADIENTS:
        traffic.gradient_ns = scatter_ns;
        traffic.step_ns = gather_ns;
        break;
    case MODEL_SHARDING_OPTIMIZER:
        traffic.step_ns = scatter_ns + gather_ns;
        break;
    default:
        traffic.step_ns = bal_group_all_reduce_ns(replicas, gradient_bytes);
        break;
    }
    if (traffic.step_ns > INT64_MAX / 4) traffic.step_ns = INT64_MAX / 4;
    return traffic;
}
