#include "analysis/study/setup_parts.h"

#include <stdio.h>
#include <string.h>

/// The model that was traced: it tells what parts a layer's recorded time is made of.
static status open_traced_model(ana_setup *setup, arena *memory, error_message *err)
{
    const ana_study *study = setup->study;
    const model_training training = {.sequence_length = study->sequence_length,
                                     .microbatch_size = study->microbatch_size,
                                     .parallel = study->parallel};
    const model_costs *costs = &setup->model_costs;
    const int layer_count = setup->source.layer_count;
    model_config config;
    TRY(model_config_open(study->trace_model, memory, &config, err));
    TRY(model_costs_build(&config, &setup->hardware, &training, study->trace_model,
                          setup->hardware.name, memory, &setup->model_costs, err));
    if (costs->layers.layer_count == layer_count && setup->embedding && setup->head) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID,
                     "%s: trace.model: '%.80s' has %d layers with embedding and head, the trace "
                     "%d layers%s",
                     study->path, study->trace_model, costs->layers.layer_count, layer_count,
                     setup->embedding && setup->head ? "" : " without both of them");
}

/// Messages of a case that name no place in the file get the file in front.
static status named_error(const ana_setup *setup, const error_message *inner, error_message *err)
{
    const char *path = setup->study->path;
    if (strncmp(inner->message, path, strlen(path)) == 0) {
        return error_set(err, inner->code, "%s", inner->message);
    }
    return error_set(err, inner->code, "%s: dynamism: %.*s", path, 200, inner->message);
}

static void add_dynamism_inputs(ana_setup *setup, arena *memory)
{
    int count = 0;
    const model_assumption *rows = model_dynamism_assumptions(setup->dynamism, &count);
    for (int row = 0; row < count; row++) {
        ana_inputs_add(&setup->study->inputs, memory, rows[row].name, rows[row].origin.kind, "%s",
                       rows[row].value);
    }
}

static void take_sources(ana_setup *setup, arena *memory)
{
    const int count = model_dynamism_source_count(setup->dynamism);
    bal_cost_source *sources = arena_array(memory, (size_t)count, sizeof *sources);
    for (int replica = 0; replica < count; replica++) {
        sources[replica] = model_dynamism_source(setup->dynamism, replica);
    }
    setup->sources = sources;
    setup->source_count = count;
    setup->source = sources[0];
}

status ana_setup_open_dynamism(ana_setup *setup, arena *memory, error_message *err)
{
    const ana_study *study = setup->study;
    const bool is_traced = study->trace_path != NULL;
    setup->still = setup->source;
    setup->sources = &setup->source;
    setup->source_count = 1;
    if (json_is_missing(study->dynamism)) return STATUS_OK;
    if (!is_traced && study->iteration_count == 0) {
        return error_set(err, STATUS_FORMAT,
                         "%s: training.iterations: missing; a case over a model needs to know how "
                         "long training lasts",
                         study->path);
    }
    if (is_traced && study->trace_model != NULL) TRY(open_traced_model(setup, memory, err));
    const bool has_model = !is_traced || study->trace_model != NULL;
    if (has_model) TRY(model_layer_shares_of_costs(&setup->model_costs, memory, &setup->shares));
    const model_dynamism_base base = {
        .source = setup->source,
        .shares = has_model ? &setup->shares : NULL,
        .config = has_model ? &setup->model_costs.config : NULL,
        .shape = has_model ? &setup->model_costs.shape : NULL,
        .hardware = setup->hardware_is_named ? &setup->hardware : NULL,
        .parallel = study->parallel,
        .path = study->path,
        .iteration_count = setup->iteration_count,
        .microbatch_count = setup->microbatch_count,
        .transformer_first = setup->embedding,
        .transformer_end = setup->source.layer_count - setup->head,
    };
    error_message inner = {0};
    if (model_dynamism_open(study->dynamism, &base, memory, &setup->dynamism, &inner) !=
        STATUS_OK) {
        return named_error(setup, &inner, err);
    }
    add_dynamism_inputs(setup, memory);
    take_sources(setup, memory);
    return STATUS_OK;
}
