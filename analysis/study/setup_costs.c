/// Where the costs of a study come from: a trace or a model, and the case of dynamism over them.
#include "analysis/study/setup.h"
#include "traces/store/catalog.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    MICROBATCHES_PER_STAGE_DEFAULT = 4,
    STATE_BYTES_DEFAULT = 16, // weights, gradients and Adam's moments in fp32
    GRADIENT_BYTES_DEFAULT = 4,
    BYTES_PER_PARAMETER_MAX = 64
};

/// Lists what the cost model was computed from; what the study gave is listed already.
static void add_model_inputs(const ana_setup *setup, const model_costs *costs)
{
    model_assumption_list *inputs = &setup->study->inputs;
    if (inputs->has_names_only) return; // and nobody asks for these
    for (int input = 0; input < costs->assumption_count; input++) {
        const model_assumption *assumption = &costs->assumptions[input];
        char given[128];
        snprintf(given, sizeof given, "training.%s", assumption->name);
        if (ana_inputs_find(inputs, given) != NULL) continue;
        if (strncmp(assumption->name, "links.", 6) == 0) continue; // the machine's are listed
        model_assume(inputs, assumption->name, assumption->origin.kind, NULL, "%s",
                     assumption->value);
    }
}

/// Computes the costs of the study's model, unless an earlier setup has.
static status find_costs(ana_setup *setup, error_message *err)
{
    const ana_study *study = setup->study;
    ana_model_inputs *inputs = setup->inputs;
    arena *memory = inputs->memory;
    model_config config;
    if (inputs->has_costs) return STATUS_OK;
    TRY(model_config_open(arena_string(memory, study->model), study->model_changes, memory, &config,
                          err));
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
        model_costs_build(&config, &setup->hardware, &training, study->model,
                          arena_string(memory, study->hardware), memory, &inputs->costs, err);
    if (built != STATUS_OK) return error_prefix(err, built, "%s", study->path);
    inputs->has_costs = true;
    return STATUS_OK;
}

static status open_model(ana_setup *setup, error_message *err)
{
    const ana_study *study = setup->study;
    model_costs *costs = &setup->model_costs;
    TRY(find_costs(setup, err));
    *costs = setup->inputs->costs;
    costs->hardware = setup->hardware;
    setup->base = model_source_init(&setup->model, costs);
    setup->embedding = costs->layers.embedding;
    setup->head = costs->layers.head;
    setup->layers_are_whole = true;
    setup->iteration_count = 1;
    setup->microbatch_count = MICROBATCHES_PER_STAGE_DEFAULT * study->stage_count;
    setup->tokens_per_microbatch =
        (int64_t)costs->shape.sequence_length * costs->shape.microbatch_size;
    if (ana_inputs_find(&study->inputs, "training.optimizer_step_ns") == NULL) {
        setup->study->run.optimizer_step_ns =
            costs->update_ns / study->stage_count; // of an even split
    }
    add_model_inputs(setup, costs);
    return STATUS_OK;
}

/// Of which both have the words; what is unknown to a trace is assumed.
static model_origin_kind origin_of_known(trace_known known)
{
    const model_origin_kind kind = model_origin_kind_find(trace_known_names[known]);
    return kind != MODEL_ORIGIN_KIND_COUNT ? kind : MODEL_ORIGIN_ASSUMED;
}

/// The default splits the backward, which nothing says of a trace of full backwards.
static void choose_schedule(ana_study *study, const trace_info *info)
{
    if (study->schedule_is_given || info->backward_split >= 0) return;
    study->run.schedule = "1f1b";
    model_assume(&study->inputs, "pipeline.schedule", MODEL_ORIGIN_ASSUMED, NULL,
                 "1f1b, as backwards are not split");
}

static void add_trace_inputs(ana_setup *setup, const trace_info *info)
{
    model_assumption_list *inputs = &setup->study->inputs;
    model_assume(inputs, "trace.times", origin_of_known(info->times), NULL,
                 "%s: %" PRId64 " sampled iterations, %d layers, %d columns, device %s", info->name,
                 info->iteration_count, info->layer_count, info->microbatch_columns,
                 info->device != NULL ? info->device : "not said");
    if (setup->study->first_iteration < 0 && info->first_iteration > 0) {
        model_assume(inputs, "trace.first_iteration", MODEL_ORIGIN_MEASURED, NULL, "%" PRId64,
                     info->first_iteration);
    }
    if (info->communication != TRACE_UNKNOWN) {
        model_assume(inputs, "trace.communication", MODEL_ORIGIN_ASSUMED, NULL,
                     info->has_gaps ? "inside layers: charged where nothing hid it"
                                    : "inside layers: hidden behind compute");
    }
    if (info->has_gaps && ana_inputs_find(inputs, "training.optimizer_step_ns") == NULL) {
        setup->study->run.optimizer_step_ns = info->outside_ns;
        model_assume(inputs, "training.optimizer_step_ns", MODEL_ORIGIN_MEASURED, NULL,
                     "%" PRId64 ", all of an iteration that is outside ops", info->outside_ns);
    }
    if (!info->has_split) {
        if (info->backward_split >= 0) {
            model_assume(inputs, "trace.backward_split", origin_of_known(info->split), NULL,
                         "%g of a full backward is B", info->backward_split);
        } else {
            model_assume(inputs, "trace.backward", MODEL_ORIGIN_MEASURED, NULL,
                         "full backwards, not split into B and W");
        }
        choose_schedule(setup->study, info);
    }
}

/// Lists what a trace has of each layer, or what stands for it.
static void add_bytes(model_assumption_list *inputs, const char *name, bool is_known,
                      trace_known origin, const char *otherwise)
{
    model_assume(inputs, name, is_known ? origin_of_known(origin) : MODEL_ORIGIN_ASSUMED, NULL,
                 "%s", is_known ? "per layer, from the trace" : otherwise);
}

/// What the trace holds of memory and traffic, and what stands in for the rest.
static void add_byte_inputs(ana_setup *setup, const trace_info *info, const bal_layer_costs *raw)
{
    model_assumption_list *inputs = &setup->study->inputs;
    const bool has_parameters = raw->parameters != NULL;
    if (has_parameters) {
        add_bytes(inputs, "trace.parameters", true, info->parameters, "");
    }
    if (raw->state_bytes != NULL || !has_parameters) {
        add_bytes(inputs, "trace.state_bytes", raw->state_bytes != NULL, info->parameters,
                  "0 B: the trace has no parameters; migration is charged latency only");
    } else if (setup->study->state_bytes_per_parameter == 0) {
        model_assume(inputs, "training.state_bytes_per_parameter", MODEL_ORIGIN_ASSUMED, NULL,
                     "%d B: weights, gradients and Adam's moments in fp32", STATE_BYTES_DEFAULT);
    }
    if (setup->study->parallel.data > 1 && setup->study->gradient_bytes_per_parameter == 0) {
        model_assume(inputs, "training.gradient_bytes_per_parameter", MODEL_ORIGIN_ASSUMED, NULL,
                     "%d B", GRADIENT_BYTES_DEFAULT);
    }
    add_bytes(inputs, "trace.activation_bytes", raw->activation_bytes != NULL, info->activations,
              "0 B: not recorded");
    if (raw->activation_bytes != NULL) {
        model_assume(inputs, "trace.gradient_bytes", MODEL_ORIGIN_ASSUMED, NULL,
                     "activations are held until W");
    }
    add_bytes(inputs, "trace.message_bytes", raw->message_bytes != NULL, info->messages,
              "0 B: not recorded; messages are charged latency only");
}

/// Most traces show the time of every layer in their first sample. Where no layer has any, no rank
/// is missing.
static status check_recorded(const ana_setup *setup, const trace_info *info, arena *memory,
                             error_message *err)
{
    const int layer_count = setup->base.layer_count;
    bool *has_time = arena_array(memory, (size_t)layer_count, sizeof *has_time);
    error_message inner = {0};
    int64_t iteration = setup->first_recorded;
    for (; iteration <= info->last_iteration; iteration++) {
        bal_layer_costs costs;
        bool is_changed = false;
        TRY(setup->base.costs_at(setup->base.context, (int)iteration, &costs, &is_changed, err));
        if (!is_changed && iteration > setup->first_recorded) continue;
        bal_layer_costs_mark(&costs, has_time);
        if (bal_layers_check_recorded(has_time, layer_count, &inner) == STATUS_OK) return STATUS_OK;
    }
    for (int layer = 0; layer < layer_count; layer++) {
        if (!has_time[layer]) continue;
        return error_set(err, inner.code, "%s: %s", setup->study->trace_path, inner.message);
    }
    return STATUS_OK;
}

static status open_trace(ana_setup *setup, arena *memory, error_message *err)
{
    const ana_study *study = setup->study;
    const trace_info *info = NULL;
    bal_layer_costs raw;
    bool changed = false;
    TRY(ana_setup_cache_trace(setup->cache, study->trace_path, study->trace_name, memory, &info,
                              &setup->base, err));
    setup->first_iteration =
        study->first_iteration >= 0 ? study->first_iteration : (int)info->first_iteration;
    setup->first_recorded = (int)info->first_iteration;
    TRY(setup->base.costs_at(setup->base.context, setup->first_iteration, &raw, &changed, err));
    setup->layers_are_whole = info->source == TRACE_SOURCE_EXEC;
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
    add_trace_inputs(setup, info);
    add_byte_inputs(setup, info, &raw);
    return check_recorded(setup, info, memory, err);
}

status ana_setup_open_base(ana_setup *setup, arena *memory, error_message *err)
{
    return setup->study->trace_path != NULL ? open_trace(setup, memory, err)
                                            : open_model(setup, err);
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
    const ana_setup *setup = context;
    const ana_study *study = setup->study;
    const int state_bytes = study->state_bytes_per_parameter;
    const int gradient_bytes = study->gradient_bytes_per_parameter;
    TRY(setup->base.costs_at(setup->base.context, iteration + setup->first_iteration, costs,
                             changed, err));
    if (costs->parameters != NULL) TRY(check_parameters(costs, err));
    if (costs->state_bytes == NULL && costs->parameters != NULL) {
        for (int layer = 0; layer < costs->layer_count; layer++) {
            setup->state_bytes[layer] =
                costs->parameters[layer] * (state_bytes > 0 ? state_bytes : STATE_BYTES_DEFAULT);
        }
        costs->state_bytes = setup->state_bytes;
    }
    if (costs->reduction_ns == NULL && costs->parameters != NULL &&
        setup->replicas.rank_count > 1) {
        bal_gradient_reductions_ns(costs->parameters, costs->layer_count,
                                   gradient_bytes > 0 ? gradient_bytes : GRADIENT_BYTES_DEFAULT,
                                   &setup->replicas, setup->reduction_ns);
        costs->reduction_ns = setup->reduction_ns;
    }
    if (costs->gradient_bytes == NULL) costs->gradient_bytes = costs->activation_bytes;
    costs->first_stage_whole = study->first_stage_whole;
    return STATUS_OK;
}

void ana_setup_complete(ana_setup *setup, arena *memory)
{
    const size_t layers = (size_t)setup->base.layer_count;
    setup->replicas = model_parallel_groups(&setup->study->parallel, &setup->hardware).replicas;
    setup->state_bytes = arena_array(memory, layers, sizeof *setup->state_bytes);
    setup->reduction_ns = arena_array(memory, layers, sizeof *setup->reduction_ns);
    setup->source = setup->base;
    setup->source.context = setup;
    setup->source.costs_at = completed_costs_at;
}

/// The model that was traced: it tells what parts a layer's recorded time is made of.
static status open_traced_model(ana_setup *setup, arena *memory, error_message *err)
{
    const ana_study *study = setup->study;
    const model_training training = {.sequence_length = study->sequence_length,
                                     .microbatch_size = study->microbatch_size,
                                     .dtype = study->dtype,
                                     .parallel = study->parallel};
    const model_costs *costs = &setup->model_costs;
    const int layer_count = setup->source.layer_count;
    model_config config;
    TRY(model_config_open(study->trace_model, NULL, memory, &config, err));
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

static void add_dynamism_inputs(ana_setup *setup)
{
    int count = 0;
    const model_assumption *rows = model_dynamism_assumptions(setup->dynamism, &count);
    for (int row = 0; row < count; row++) {
        model_assume(&setup->study->inputs, rows[row].name, rows[row].origin.kind, NULL, "%s",
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

/// What a packing of a row's own changes in the training: that of the case is for the other rows.
static void note_row_effect(ana_study *study, int row, arena *memory)
{
    int count = 0;
    const model_assumption *notes =
        model_dynamism_assumptions(study->balancings[row].dynamism, &count);
    for (int note = 0; note < count; note++) {
        if (strcmp(notes[note].name, "dynamism.effect") != 0) continue;
        model_assume(&study->inputs, arena_format(memory, "balancing[%d].effect", row),
                     notes[note].origin.kind, NULL, "%s", notes[note].value);
    }
}

/// The case once more for every row that packs its sequences otherwise.
static status open_row_sources(ana_setup *setup, model_dynamism_base *base, arena *memory,
                               error_message *err)
{
    ana_study *study = setup->study;
    for (int row = 0; row < study->balancing_count; row++) {
        ana_balancing *balancing = &study->balancings[row];
        error_message inner = {0};
        if (balancing->packing == NULL) continue;
        if (setup->dynamism == NULL ||
            strcmp(model_dynamism_name(setup->dynamism), "lengths") != 0) {
            return error_set(err, STATUS_FORMAT,
                             "%s: balancing: '%.60s': a packing needs the case 'lengths'",
                             study->path, balancing->label);
        }
        base->packing = balancing->packing;
        if (model_dynamism_open(study->dynamism, base, memory, &balancing->dynamism, &inner) !=
            STATUS_OK) {
            return named_error(setup, &inner, err);
        }
        balancing->sources = sources_of(balancing->dynamism, memory);
        note_row_effect(study, row, memory);
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
    if (json_is_missing(study->dynamism) && study->trace_packing != NULL) {
        return error_set(
            err, STATUS_FORMAT,
            "%s: trace.packing: '%s' needs the case 'lengths', which says what is packed",
            study->path, study->trace_packing);
    }
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
    if (study->trace_packing != NULL &&
        ana_setup_fit_lengths(setup, &base, memory, &inner) != STATUS_OK) {
        return named_error(setup, &inner, err);
    }
    if (model_dynamism_open(study->dynamism, &base, memory, &setup->dynamism, &inner) !=
        STATUS_OK) {
        return named_error(setup, &inner, err);
    }
    add_dynamism_inputs(setup);
    setup->sources = sources_of(setup->dynamism, memory);
    setup->source_count = model_dynamism_source_count(setup->dynamism);
    setup->source = setup->sources[0];
    return open_row_sources(setup, &base, memory, err);
}
