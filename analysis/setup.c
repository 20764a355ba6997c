#include "analysis/setup.h"

#include "balance/schedule.h"
#include "models/hardware.h"
#include "traces/catalog.h"

#include <inttypes.h>
#include <stdio.h>

enum { GRADIENT_BYTES = 4 }; // of one parameter in the reduction between replicas: fp32
enum { GPUS_PER_NODE_DEFAULT = 8, STATE_BYTES_DEFAULT = 16, MICROBATCHES_PER_STAGE_DEFAULT = 4 };

/// The completed costs of an iteration: see ana_setup_open.
static status completed_costs_at(void *context, int iteration, bal_layer_costs *costs,
                                 bool *changed, error_message *err)
{
    ana_completion *completion = context;
    TRY(completion->inner.costs_at(completion->inner.context,
                                   iteration + completion->first_iteration, costs, changed, err));
    if (costs->state_bytes == NULL && costs->parameters != NULL) {
        for (int layer = 0; layer < costs->layer_count; layer++) {
            const int64_t parameters = costs->parameters[layer];
            if (parameters > INT64_MAX / 64) {
                return error_set(err, STATUS_INVALID,
                                 "layer %d: %" PRId64 " parameters are too many", layer,
                                 parameters);
            }
            completion->state_bytes[layer] = parameters * completion->state_bytes_per_parameter;
        }
        costs->state_bytes = completion->state_bytes;
    }
    if (costs->gradient_bytes == NULL) costs->gradient_bytes = costs->activation_bytes;
    if (costs->reduction_ns == NULL && costs->parameters != NULL &&
        completion->replicas.rank_count > 1) {
        bal_gradient_reductions_ns(costs->parameters, costs->layer_count, GRADIENT_BYTES,
                                   &completion->replicas, completion->reduction_ns);
        costs->reduction_ns = completion->reduction_ns;
    }
    return STATUS_OK;
}

static status complete(ana_setup *setup, arena *memory, error_message *err)
{
    ana_completion *completion = &setup->completion;
    const size_t layers = (size_t)setup->source.layer_count;
    completion->inner = setup->source;
    completion->first_iteration = setup->first_iteration;
    completion->state_bytes_per_parameter = setup->study->state_bytes_per_parameter > 0
                                                ? setup->study->state_bytes_per_parameter
                                                : STATE_BYTES_DEFAULT;
    completion->state_bytes = arena_array(memory, layers, sizeof *completion->state_bytes);
    completion->reduction_ns = arena_array(memory, layers, sizeof *completion->reduction_ns);
    if (completion->state_bytes == NULL || completion->reduction_ns == NULL) {
        return error_set(err, STATUS_NO_MEMORY, "out of memory");
    }
    completion->replicas = (bal_group){.rank_count = setup->study->data_parallel,
                                       .node_rank_count = 1, // a replica of its own on each node
                                       .intra_node = setup->machine.intra_node,
                                       .inter_node = setup->machine.inter_node};
    setup->source.context = completion;
    setup->source.costs_at = completed_costs_at;
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
                       "inside layers: hidden behind compute");
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

/// What the trace holds of memory and traffic, and what stands in for the rest.
static void add_byte_inputs(ana_setup *setup, const trace_info *info, const bal_layer_costs *raw,
                            arena *memory)
{
    ana_inputs *inputs = &setup->study->inputs;
    if (raw->parameters != NULL) {
        ana_inputs_add(inputs, memory, "trace.parameters", origin_of_known(info->parameters),
                       "per layer, from the trace");
    }
    if (raw->state_bytes != NULL) {
        ana_inputs_add(inputs, memory, "trace.state_bytes", origin_of_known(info->parameters),
                       "per layer, from the trace");
    } else if (raw->parameters != NULL && setup->study->state_bytes_per_parameter == 0) {
        ana_inputs_add(inputs, memory, "training.state_bytes_per_parameter", MODEL_ORIGIN_ASSUMED,
                       "%d B: weights, gradients and Adam's moments in fp32", STATE_BYTES_DEFAULT);
    } else if (raw->parameters == NULL) {
        ana_inputs_add(inputs, memory, "trace.state_bytes", MODEL_ORIGIN_ASSUMED,
                       "0 B: the trace has no parameters; migration is charged latency only");
    }
    if (raw->activation_bytes != NULL) {
        ana_inputs_add(inputs, memory, "trace.activation_bytes", origin_of_known(info->activations),
                       "per layer, from the trace");
        ana_inputs_add(inputs, memory, "trace.gradient_bytes", MODEL_ORIGIN_ASSUMED,
                       "activations are held until W");
    } else {
        ana_inputs_add(inputs, memory, "trace.activation_bytes", MODEL_ORIGIN_ASSUMED,
                       "0 B: not recorded");
    }
    if (raw->message_bytes != NULL) {
        ana_inputs_add(inputs, memory, "trace.message_bytes", origin_of_known(info->messages),
                       "per layer, from the trace");
    } else {
        ana_inputs_add(inputs, memory, "trace.message_bytes", MODEL_ORIGIN_ASSUMED,
                       "0 B: not recorded; messages are charged latency only");
    }
}

static status open_trace(ana_setup *setup, arena *memory, error_message *err)
{
    const ana_study *study = setup->study;
    trace_info info;
    bal_layer_costs raw;
    bool changed = false;
    TRY(trace_store_open(study->trace_path, TRACE_READ, &setup->store, err));
    TRY(trace_find(setup->store, study->trace_name, memory, &info, err));
    TRY(trace_reader_open(setup->store, info.trace_id, TRACE_COLUMNS_RECORDED, &setup->reader,
                          err));
    setup->first_iteration =
        study->first_iteration >= 0 ? study->first_iteration : (int)info.first_iteration;
    TRY(trace_reader_costs_at(setup->reader, setup->first_iteration, &raw, &changed, err));
    setup->source = trace_reader_source(setup->reader);
    setup->embedding = raw.embedding;
    setup->head = raw.head;
    if (study->first_iteration > info.last_iteration) {
        return error_set(
            err, STATUS_INVALID,
            "%s: trace.first_iteration: %d is behind the trace's last iteration %" PRId64,
            study->path, study->first_iteration, info.last_iteration);
    }
    setup->iteration_count = (int)(info.last_iteration + 1) - setup->first_iteration;
    setup->microbatch_count = info.microbatch_count > 0 ? info.microbatch_count : 1;
    if (info.tokens_per_microbatch > 0) setup->tokens_per_microbatch = info.tokens_per_microbatch;
    add_trace_inputs(setup, &info, memory);
    add_byte_inputs(setup, &info, &raw, memory);
    return STATUS_OK;
}

static status open_model(ana_setup *setup, arena *memory, error_message *err)
{
    ana_study *study = setup->study;
    const model_training training = {
        .sequence_length = study->sequence_length,
        .microbatch_size = study->microbatch_size,
        .state_bytes_per_parameter = study->state_bytes_per_parameter,
    };
    const model_costs *costs = &setup->model_costs;
    TRY(model_costs_from_files(study->model, study->hardware, &training, memory,
                               &setup->model_costs, err));
    setup->source = model_source_init(&setup->model, costs);
    setup->embedding = costs->layers.embedding;
    setup->head = costs->layers.head;
    setup->iteration_count = 1;
    setup->microbatch_count = MICROBATCHES_PER_STAGE_DEFAULT * study->stage_count;
    setup->tokens_per_microbatch =
        (int64_t)costs->shape.sequence_length * costs->shape.microbatch_size;
    for (int input = 0; input < costs->assumption_count; input++) {
        const model_assumption *assumption = &costs->assumptions[input];
        ana_inputs_add(&study->inputs, memory, assumption->name, assumption->origin.kind, "%s",
                       assumption->value);
    }
    return STATUS_OK;
}

static void add_number(const ana_setup *setup, arena *memory, const char *name,
                       model_origin_kind origin, int64_t value, const char *unit)
{
    ana_inputs_add(&setup->study->inputs, memory, name, origin, "%" PRId64 " %s", value, unit);
}

/// Takes the study's link, which it has added to the inputs itself; else adds the hardware's.
static void settle_link(const ana_setup *setup, arena *memory, const char *scope, bal_link given,
                        const model_hardware *hardware, bal_link *link)
{
    char name[64];
    if (given.latency_ns >= 0) {
        *link = given;
        return;
    }
    snprintf(name, sizeof name, "cluster.links.%s.latency_ns", scope);
    add_number(setup, memory, name, hardware->latency_origin.kind, link->latency_ns, "ns");
    snprintf(name, sizeof name, "cluster.links.%s.bytes_per_s", scope);
    add_number(setup, memory, name, hardware->links_origin.kind, link->bytes_per_s, "B/s");
}

/// Completes the hardware's machine by the study: a preset that stands in where the study has no
/// hardware (is_named false) gives links only.
static void settle_machine(ana_setup *setup, arena *memory, const model_hardware *hardware,
                           bool is_named)
{
    const ana_study *study = setup->study;
    bal_machine *machine = &setup->machine;
    *machine = model_hardware_machine(hardware, study->stage_count);
    if (study->gpus_per_node > 0) {
        machine->ranks_per_node = study->gpus_per_node;
    } else {
        if (!is_named) machine->ranks_per_node = GPUS_PER_NODE_DEFAULT;
        add_number(setup, memory, "cluster.gpus_per_node",
                   is_named ? MODEL_ORIGIN_PRESET : MODEL_ORIGIN_ASSUMED, machine->ranks_per_node,
                   "GPUs");
    }
    if (study->memory_bytes >= 0) {
        machine->rank_memory_bytes = study->memory_bytes;
    } else if (is_named) {
        add_number(setup, memory, "cluster.memory_bytes", hardware->memory_origin.kind,
                   hardware->memory_bytes, "B");
    } else {
        machine->rank_memory_bytes = 0;
        ana_inputs_add(&setup->study->inputs, memory, "cluster.memory_bytes", MODEL_ORIGIN_ASSUMED,
                       "not limited");
    }
    settle_link(setup, memory, "intra", study->intra_node, hardware, &machine->intra_node);
    settle_link(setup, memory, "inter", study->inter_node, hardware, &machine->inter_node);
}

/// The machine, by the hardware that a model has opened already, that the study names, or that
/// stands in.
static status fill_machine(ana_setup *setup, arena *memory, error_message *err)
{
    const char *named = setup->study->hardware;
    model_hardware opened;
    if (setup->study->model != NULL) {
        settle_machine(setup, memory, &setup->model_costs.hardware, true);
        return STATUS_OK;
    }
    TRY(model_hardware_open(named != NULL ? named : "h100-sxm", memory, &opened, err));
    settle_machine(setup, memory, &opened, named != NULL);
    return STATUS_OK;
}

/// Lists the value that stands where the study gives none.
static void add_default(const ana_setup *setup, arena *memory, const char *name, const char *value)
{
    ana_inputs *inputs = &setup->study->inputs;
    if (ana_inputs_have(inputs, name)) return;
    ana_inputs_add(inputs, memory, name, MODEL_ORIGIN_ASSUMED, "%s", value);
}

/// Iterations, microbatches and tokens: the study's own before the trace's.
static void fill_training(ana_setup *setup, arena *memory)
{
    const ana_study *study = setup->study;
    ana_inputs *inputs = &setup->study->inputs;
    const model_origin_kind source =
        study->trace_path != NULL ? MODEL_ORIGIN_MEASURED : MODEL_ORIGIN_ASSUMED;
    if (study->iteration_count > 0) {
        setup->iteration_count = study->iteration_count;
    } else {
        ana_inputs_add(inputs, memory, "training.iterations", source, "%d", setup->iteration_count);
    }
    if (study->microbatch_count > 0) {
        setup->microbatch_count = study->microbatch_count;
    } else {
        ana_inputs_add(inputs, memory, "training.microbatches", source, "%d",
                       setup->microbatch_count);
    }
    if (study->sequence_length > 0) {
        const int size = study->microbatch_size > 0 ? study->microbatch_size : 1;
        setup->tokens_per_microbatch = (int64_t)study->sequence_length * size;
    } else if (setup->tokens_per_microbatch > 0) {
        ana_inputs_add(inputs, memory, "training.tokens_per_microbatch", source, "%" PRId64,
                       setup->tokens_per_microbatch);
    }
    add_default(setup, memory, "training.decision_ns", "0 ns");
    add_default(setup, memory, "training.optimizer_step_ns", "0 ns");
    add_default(setup, memory, "training.step", "barrier");
    add_default(setup, memory, "dynamism.change_ratio", "0.25");
}

static status check_sizes(ana_setup *setup, error_message *err)
{
    const ana_study *study = setup->study;
    const bal_schedule_family *family = bal_schedule_family_find(study->schedule);
    const int chunks = bal_schedule_chunk_count(family, study->chunk_count);
    setup->stage_count = study->stage_count * chunks;
    if (setup->stage_count > setup->source.layer_count) {
        return error_set(err, STATUS_INVALID,
                         "%s: pipeline.stages: %d stages of %d chunks need at least %d layers, "
                         "there are %d",
                         study->path, study->stage_count, chunks, setup->stage_count,
                         setup->source.layer_count);
    }
    return STATUS_OK;
}

static status check_replicas(ana_setup *setup, error_message *err)
{
    const ana_study *study = setup->study;
    bal_layer_costs costs;
    bool changed = false;
    if (study->data_parallel == 1) return STATUS_OK;
    TRY(setup->source.costs_at(setup->source.context, 0, &costs, &changed, err));
    if (costs.parameters != NULL) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "%s: training.data_parallel: %d replicas reduce gradients, and the trace does "
                     "not say how many parameters its layers have",
                     study->path, study->data_parallel);
}

static status open_all(ana_setup *setup, arena *memory, error_message *err)
{
    if (setup->study->trace_path != NULL) {
        TRY(open_trace(setup, memory, err));
    } else {
        TRY(open_model(setup, memory, err));
    }
    TRY(fill_machine(setup, memory, err));
    TRY(complete(setup, memory, err));
    fill_training(setup, memory);
    TRY(check_sizes(setup, err));
    TRY(check_replicas(setup, err));
    return setup->study->inputs.failed ? error_set(err, STATUS_NO_MEMORY, "out of memory")
                                       : STATUS_OK;
}

status ana_setup_open(ana_study *study, arena *memory, ana_setup *setup, error_message *err)
{
    *setup = (ana_setup){.study = study};
    const status result = open_all(setup, memory, err);
    if (result != STATUS_OK) ana_setup_close(setup);
    return result;
}

void ana_setup_close(ana_setup *setup)
{
    trace_reader_close(setup->reader);
    trace_store_close(setup->store);
    setup->reader = NULL;
    setup->store = NULL;
}
