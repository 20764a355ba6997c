/// Where the costs of a study come from: a trace or a model, and the case of dynamism over them.
#include "analysis/study/setup.h"
#include "traces/store/catalog.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MICROBATCHES_PER_STAGE_DEFAULT = 4, BYTES_PER_PARAMETER_MAX = 64 };

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
        ana_inputs_put(inputs, memory, assumption->name, assumption->origin.kind,
                       assumption->value);
    }
}

/// The study's model, read unless an earlier setup has.
static status find_model(const ana_setup *setup, const model_config **config, error_message *err)
{
    const ana_study *study = setup->study;
    ana_memo_entry own;
    ana_memo_entry *file =
        ana_setup_find_file(setup->cache != NULL ? setup->cache->models : NULL, study->model,
                            study->model_changes, setup->inputs_memory, &own);
    if (file->value == NULL) {
        model_config *read = arena_array(file->memory, 1, sizeof *read);
        TRY(model_config_open_changed(arena_string(file->memory, study->model),
                                      study->model_changes, file->memory, read, err));
        file->value = read;
    }
    *config = file->value;
    return STATUS_OK;
}

/// Computes the costs of the study's model, unless an earlier setup has.
static status find_costs(ana_setup *setup, error_message *err)
{
    const ana_study *study = setup->study;
    ana_model_inputs *inputs = setup->inputs;
    arena *memory = setup->inputs_memory;
    const model_config *config = NULL;
    if (inputs->has_costs) return STATUS_OK;
    TRY(find_model(setup, &config, err));
    const model_training training = {
        .sequence_length = study->sequence_length,
        .microbatch_size = study->microbatch_size,
        .dtype = study->dtype,
        .attention = study->attention != NULL ? arena_string(memory, study->attention) : NULL,
        .state_bytes_per_parameter = study->state_bytes_per_parameter,
        .gradient_bytes_per_parameter = study->gradient_bytes_per_parameter,
        .layer_count = study->transformer_layer_count,
        .parallel = study->parallel,
    };
    const status built =
        model_costs_build(config, &setup->hardware, &training, study->model,
                          arena_string(memory, study->hardware), memory, &inputs->costs, err);
    if (built != STATUS_OK) return error_prefix(err, built, "%s", study->path);
    inputs->has_costs = true;
    return STATUS_OK;
}

static status open_model(ana_setup *setup, arena *memory, error_message *err)
{
    const ana_study *study = setup->study;
    model_costs *costs = &setup->model_costs;
    TRY(find_costs(setup, err));
    *costs = setup->inputs->costs;
    costs->hardware = setup->hardware;
    setup->base = model_source_init(&setup->model, costs);
    setup->embedding = costs->layers.embedding;
    setup->head = costs->layers.head;
    setup->iteration_count = 1;
    setup->microbatch_count = MICROBATCHES_PER_STAGE_DEFAULT * study->stage_count;
    setup->tokens_per_microbatch =
        (int64_t)costs->shape.sequence_length * costs->shape.microbatch_size;
    if (!ana_inputs_have(&study->inputs, "training.optimizer_step_ns")) {
        setup->study->optimizer_step_ns = costs->update_ns / study->stage_count; // of an even split
    }
    add_model_inputs(setup, costs, memory);
    return STATUS_OK;
}

static model_origin_kind origin_of_known(trace_known known)
{
    switch (known) {
    case TRACE_MEASURED:
        return MODEL_ORIGIN_MEASURED;
    case TRACE_FITTED:
        return MODEL_ORIGIN_FITTED;
    case TRACE_PRESET:
        return MODEL_ORIGIN_PRESET;
    default:
        return MODEL_ORIGIN_ASSUMED;
    }
}

static void add_trace_inputs(ana_setup *setup, const trace_info *info, arena *memory)
{
    ana_inputs *inputs = &setup->study->inputs;
    ana_inputs_add(inputs, memory, "trace.times", origin_of_known(info->times),
                   "%s: %" PRId64 " sampled iterations, %d layers, %d columns, device %s",
                   info->name, info->iteration_count, info->layer_count, info->microbatch_columns,
                   info->device != NULL ? info->device : "not said");
    if (setup->study->first_iteration < 0 && info->first_iteration > 0) {
        ana_inputs_add(inputs, memory, "trace.first_iteration", MODEL_ORIGIN_MEASURED, "%" PRId64,
                       info->first_iteration);
    }
    if (info->communication != TRACE_UNKNOWN) {
        ana_inputs_add(inputs, memory, "trace.communication", MODEL_ORIGIN_ASSUMED,
                       info->has_gaps ? "inside layers: charged where nothing hid it"
                                      : "inside layers: hidden behind compute");
    }
    if (info->has_gaps && !ana_inputs_have(inputs, "training.optimizer_step_ns")) {
        setup->study->optimizer_step_ns = info->outside_ns;
        ana_inputs_add(inputs, memory, "training.optimizer_step_ns", MODEL_ORIGIN_MEASURED,
                       "%" PRId64 ", all of an iteration that is outside ops", info->outside_ns);
    }
    if (!info->has_split) {
        if (info->backward_split >= 0) {
            ana_inputs_add(inputs, memory, "trace.backward_split", origin_of_known(info->split),
                           "%g of a full backward is B", info->backward_split);
        } else {
            ana_inputs_add(inputs, memory, "trace.backward", MODEL_ORIGIN_MEASURED,
                           "full backwards, not split into B and W");
        }
    }
}

/// Lists what a trace has of each layer, or what stands for it.
static void add_bytes(ana_inputs *inputs, arena *memory, const char *name, bool is_known,
                      trace_known origin, const char *otherwise)
{
    ana_inputs_add(inputs, memory, name, is_known ? origin_of_known(origin) : MODEL_ORIGIN_ASSUMED,
                   "%s", is_known ? "per layer, from the trace" : otherwise);
}

/// What the trace holds of memory and traffic, and what stands in for the rest.
static void add_byte_inputs(ana_setup *setup, const trace_info *info, const bal_layer_costs *raw,
                            arena *memory)
{
    ana_inputs *inputs = &setup->study->inputs;
    const bool has_parameters = raw->parameters != NULL;
    if (has_parameters) {
        add_bytes(inputs, memory, "trace.parameters", true, info->parameters, "");
    }
    if (raw->state_bytes != NULL || !has_parameters) {
        add_bytes(inputs, memory, "trace.state_bytes", raw->state_bytes != NULL, info->parameters,
                  "0 B: the trace has no parameters; migration is charged latency only");
    } else if (setup->study->state_bytes_per_parameter == 0) {
        ana_inputs_add(inputs, memory, "training.state_bytes_per_parameter", MODEL_ORIGIN_ASSUMED,
                       "%d B: weights, gradients and Adam's moments in fp32",
                       ANA_STATE_BYTES_DEFAULT);
    }
    if (setup->study->parallel.data > 1 && setup->study->gradient_bytes_per_parameter == 0) {
        ana_inputs_add(inputs, memory, "training.gradient_bytes_per_parameter",
                       MODEL_ORIGIN_ASSUMED, "%d B", ANA_GRADIENT_BYTES_DEFAULT);
    }
    add_bytes(inputs, memory, "trace.activation_bytes", raw->activation_bytes != NULL,
              info->activations, "0 B: not recorded");
    if (raw->activation_bytes != NULL) {
        ana_inputs_add(inputs, memory, "trace.gradient_bytes", MODEL_ORIGIN_ASSUMED,
                       "activations are held until W");
    }
    add_bytes(inputs, memory, "trace.message_bytes", raw->message_bytes != NULL, info->messages,
              "0 B: not recorded; messages are charged latency only");
}

/// The trace of the study, opened for this setup alone or found in the cache.
static status open_source(ana_setup *setup, arena *memory, const trace_info **info,
                          error_message *err)
{
    const ana_study *study = setup->study;
    if (setup->cache != NULL) {
        return ana_trace_cache_find(setup->cache->traces, study->trace_path, study->trace_name,
                                    memory, info, &setup->base, err);
    }
    trace_info *found = arena_array(memory, 1, sizeof *found);
    TRY(trace_store_open(study->trace_path, TRACE_READ, &setup->store, err));
    TRY(trace_find(setup->store, study->trace_name, memory, found, err));
    TRY(trace_reader_open(setup->store, found->trace_id, TRACE_COLUMNS_RECORDED, &setup->reader,
                          err));
    setup->base = trace_reader_source(setup->reader);
    *info = found;
    return STATUS_OK;
}

static status open_trace(ana_setup *setup, arena *memory, error_message *err)
{
    const ana_study *study = setup->study;
    const trace_info *info = NULL;
    bal_layer_costs raw;
    bool changed = false;
    TRY(open_source(setup, memory, &info, err));
    setup->first_iteration =
        study->first_iteration >= 0 ? study->first_iteration : (int)info->first_iteration;
    TRY(setup->base.costs_at(setup->base.context, setup->first_iteration, &raw, &changed, err));
    setup->embedding = raw.embedding;
    setup->head = raw.head;
    if (study->first_iteration > info->last_iteration) {
        return error_set(
            err, STATUS_INVALID,
            "%s: trace.first_iteration: %d is after the trace's last iteration %" PRId64,
            study->path, study->first_iteration, info->last_iteration);
    }
    setup->iteration_count = (int)(info->last_iteration + 1) - setup->first_iteration;
    setup->microbatch_count = info->microbatch_count > 0 ? info->microbatch_count : 1;
    if (info->tokens_per_microbatch > 0) setup->tokens_per_microbatch = info->tokens_per_microbatch;
    add_trace_inputs(setup, info, memory);
    add_byte_inputs(setup, info, &raw, memory);
    return STATUS_OK;
}

status ana_setup_open_base(ana_setup *setup, arena *memory, error_message *err)
{
    return setup->study->trace_path != NULL ? open_trace(setup, memory, err)
                                            : open_model(setup, memory, err);
}

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
    costs->first_stage_whole = completion->first_stage_whole;
    return STATUS_OK;
}

void ana_setup_complete(ana_setup *setup, arena *memory)
{
    ana_completion *completion = &setup->completion;
    const size_t layers = (size_t)completion->inner.layer_count;
    completion->state_bytes = arena_array(memory, layers, sizeof *completion->state_bytes);
    completion->reduction_ns = arena_array(memory, layers, sizeof *completion->reduction_ns);
    setup->source = completion->inner;
    setup->source.context = completion;
    setup->source.costs_at = completed_costs_at;
}

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

static const bal_cost_source *sources_of(model_dynamism *dynamism, arena *memory)
{
    const int count = model_dynamism_source_count(dynamism);
    bal_cost_source *sources = arena_array(memory, (size_t)count, sizeof *sources);
    for (int replica = 0; replica < count; replica++) {
        sources[replica] = model_dynamism_source(dynamism, replica);
    }
    return sources;
}

/// The case once more for every row that packs its sequences otherwise.
static status open_row_sources(ana_setup *setup, model_dynamism_base *base, arena *memory,
                               error_message *err)
{
    const ana_study *study = setup->study;
    const size_t rows = (size_t)study->balancing_count;
    for (int row = 0; row < study->balancing_count; row++) {
        const ana_balancing *balancing = &study->balancings[row];
        model_dynamism *dynamism = NULL;
        error_message inner = {0};
        if (balancing->packing == NULL) continue;
        if (setup->dynamism == NULL ||
            strcmp(model_dynamism_name(setup->dynamism), "lengths") != 0) {
            return error_set(err, STATUS_FORMAT,
                             "%s: balancing: '%.60s': a packing needs the case 'lengths'",
                             study->path, balancing->label);
        }
        base->packing = balancing->packing;
        if (model_dynamism_open(study->dynamism, base, memory, &dynamism, &inner) != STATUS_OK) {
            return named_error(setup, &inner, err);
        }
        if (setup->row_sources == NULL) {
            setup->row_sources = arena_array(memory, rows, sizeof *setup->row_sources);
            setup->row_dynamism = arena_array(memory, rows, sizeof *setup->row_dynamism);
        }
        setup->row_sources[row] = sources_of(dynamism, memory);
        setup->row_dynamism[row] = dynamism;
    }
    return STATUS_OK;
}

status ana_setup_open_dynamism(ana_setup *setup, arena *memory, error_message *err)
{
    const ana_study *study = setup->study;
    const bool is_traced = study->trace_path != NULL;
    setup->still = setup->source;
    setup->sources = &setup->source;
    setup->source_count = 1;
    if (json_is_missing(study->dynamism)) return open_row_sources(setup, NULL, memory, err);
    if (!is_traced && study->iteration_count == 0) {
        return error_set(err, STATUS_FORMAT,
                         "%s: training.iterations: missing; a case over a model needs to know how "
                         "long training lasts",
                         study->path);
    }
    if (is_traced && study->trace_model != NULL) TRY(open_traced_model(setup, memory, err));
    const bool has_model = !is_traced || study->trace_model != NULL;
    if (has_model) model_layer_shares_of_costs(&setup->model_costs, memory, &setup->shares);
    model_dynamism_base base = {
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
    setup->sources = sources_of(setup->dynamism, memory);
    setup->source_count = model_dynamism_source_count(setup->dynamism);
    setup->source = setup->sources[0];
    return open_row_sources(setup, &base, memory, err);
}
