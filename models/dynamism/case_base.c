#include "models/dynamism/case_base.h"

status model_case_first_costs(const model_case_setup *setup, bal_layer_costs *costs,
                              error_message *err)
{
    const bal_cost_source *source = &setup->base->source;
    bool changed = false;
    return source->costs_at(source->context, 0, costs, &changed, err);
}

void model_case_ones(arena *memory, size_t count, double **factors)
{
    double *carved = arena_array(memory, count, sizeof *carved);
    for (size_t factor = 0; factor < count; factor++) {
        carved[factor] = 1;
    }
    *factors = carved;
}

int64_t model_case_bytes_ns(const model_hardware *hardware, int64_t bytes)
{
    if (hardware == NULL) return 0;
    const double bytes_per_s = (double)hardware->memory_bytes_per_s * hardware->memory_efficiency;
    return model_roofline_ns((model_work){.bytes = bytes}, 1, bytes_per_s);
}

status model_case_weight_bytes(const model_case_setup *setup, int *weight_bytes, error_message *err)
{
    if (setup->base->shape != NULL) {
        *weight_bytes = model_dtype_bytes(model_dtype_wide(setup->base->shape->dtype));
        return STATUS_OK;
    }
    *weight_bytes = 2;
    return model_parameter_note(setup->parameters, "weight_bytes",
                                MODEL_ASSUMED("no model beside the trace: 16-bit weights"), err,
                                "%d", *weight_bytes);
}
