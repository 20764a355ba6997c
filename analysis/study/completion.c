/// Wraps a source of costs: fills in bytes of state and reductions that it does not say.
#include "analysis/study/completion.h"

#include <inttypes.h>

enum { BYTES_PER_PARAMETER_MAX = 64 };

static status check_parameters(const bal_layer_costs *costs, error_message *err)
{
    for (int layer = 0; layer < costs->layer_count; layer++) {
        const int64_t parameters = costs->parameters[layer];
        if (parameters <= INT64_MAX / BYTES_PER_PARAMETER_MAX) continue;
        return error_set(err, STATUS_INVALID, "layer %d: %" PRId64 " parameters are too many",
                         layer, parameters);
    }
    return STATUS_OK;
}

static status completed_costs_at(void *context, int iteration, bal_layer_costs *costs,
                                 bool *changed, error_message *err)
{
    ana_completion *completion = context;
    TRY(completion->inner.costs_at(completion->inner.context,
                                   iteration + completion->first_iteration, costs, changed, err));
    if (costs->parameters != NULL) TRY(check_parameters(costs, err));
    if (costs->state_bytes == NULL && costs->parameters != NULL) {
        for (int layer = 0; layer < costs->layer_count; layer++) {
            completion->state_bytes[layer] =
                costs->parameters[layer] * completion->state_bytes_per_parameter;
        }
        costs->state_bytes = completion->state_bytes;
    }
    if (costs->reduction_ns == NULL && costs->parameters != NULL &&
        completion->replicas.rank_count > 1) {
        bal_gradient_reductions_ns(costs->parameters, costs->layer_count,
                                   completion->gradient_bytes_per_parameter, &completion->replicas,
                                   completion->reduction_ns);
        costs->reduction_ns = completion->reduction_ns;
    }
    if (costs->gradient_bytes == NULL) costs->gradient_bytes = costs->activation_bytes;
    return STATUS_OK;
}

void ana_complete(ana_completion *completion, arena *memory, bal_cost_source *source)
{
    const size_t layers = (size_t)completion->inner.layer_count;
    completion->state_bytes = arena_array(memory, layers, sizeof *completion->state_bytes);
    completion->reduction_ns = arena_array(memory, layers, sizeof *completion->reduction_ns);
    *source = completion->inner;
    source->context = completion;
    source->costs_at = completed_costs_at;
}
