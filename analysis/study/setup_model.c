#include "analysis/study/setup_parts.h"

#include <stdio.h>
#include <string.h>

enum { MICROBATCHES_PER_STAGE_DEFAULT = 4 };

/// Lists what the cost model was computed from; what the study gave is listed already.
static void add_model_inputs(const ana_setup *setup, const model_costs *costs, arena *memory)
{
    ana_inputs *inputs = &setup->study->inputs;
    for (int input = 0; input < costs->assumption_count; input++) {
        const model_assumption *assumption = &costs->assumptions[input];
        char given[128];
        snprintf(given, sizeof given, "training.%s", assumption->name);
        if (ana_inputs_have(inputs, given)) continue;
        if (strncmp(assumption->name, "links.", 6) == 0) continue; // the machine's are listed
        ana_inputs_add(inputs, memory, assumption->name, assumption->origin.kind, "%s",
                       assumption->value);
    }
}

status ana_setup_open_model(ana_setup *setup, arena *memory, error_message *err)
{
    const ana_study *study = setup->study;
    const model_training training = {
        .sequence_length = study->sequence_length,
        .microbatch_size = study->microbatch_size,
        .dtype = study->dtype,
        .attention = study->attention,
        .state_bytes_per_parameter = study->state_bytes_per_parameter,
        .gradient_bytes_per_parameter = study->gradient_bytes_per_parameter,
        .layer_count = study->transformer_layer_count,
        .parallel = study->parallel,
    };
    model_costs *costs = &setup->model_costs;
    model_config config;
    TRY(model_config_open_changed(study->model, study->model_changes, memory, &config, err));
    const status built = model_costs_build(&config, &setup->hardware, &training, study->model,
                                           study->hardware, memory, costs, err);
    if (built != STATUS_OK) return error_prefix(err, built, "%s", study->path);
    setup->base = model_source_init(&setup->model, costs);
    setup->embedding = costs->layers.embedding;
    setup->head = costs->layers.head;
    setup->iteration_count = 1;
    setup->microbatch_count = MICROBATCHES_PER_STAGE_DEFAULT * study->stage_count;
    setup->tokens_per_microbatch =
        (int64_t)costs->shape.sequence_length * costs->shape.microbatch_size;
    add_model_inputs(setup, costs, memory);
    return STATUS_OK;
}
