#include "analysis/study/setup_parts.h"

#include "traces/store/catalog.h"

#include <inttypes.h>

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
                       "%d B: weights, gradients and Adam's moments in fp32",
                       ANA_STATE_BYTES_DEFAULT);
    } else if (raw->parameters == NULL) {
        ana_inputs_add(inputs, memory, "trace.state_bytes", MODEL_ORIGIN_ASSUMED,
                       "0 B: the trace has no parameters; migration is charged latency only");
    }
    if (setup->study->parallel.data > 1 && setup->study->gradient_bytes_per_parameter == 0) {
        ana_inputs_add(inputs, memory, "training.gradient_bytes_per_parameter",
                       MODEL_ORIGIN_ASSUMED, "%d B", ANA_GRADIENT_BYTES_DEFAULT);
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

/// The trace of the study, opened for this setup alone or found on the shelf.
static status open_source(ana_setup *setup, arena *memory, const trace_info **info,
                          error_message *err)
{
    const ana_study *study = setup->study;
    if (setup->shelf != NULL) {
        return ana_trace_shelf_find(setup->shelf, study->trace_path, study->trace_name, memory,
                                    info, &setup->base, err);
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

status ana_setup_open_trace(ana_setup *setup, arena *memory, error_message *err)
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
            "%s: trace.first_iteration: %d is behind the trace's last iteration %" PRId64,
            study->path, study->first_iteration, info->last_iteration);
    }
    setup->iteration_count = (int)(info->last_iteration + 1) - setup->first_iteration;
    setup->microbatch_count = info->microbatch_count > 0 ? info->microbatch_count : 1;
    if (info->tokens_per_microbatch > 0) setup->tokens_per_microbatch = info->tokens_per_microbatch;
    add_trace_inputs(setup, info, memory);
    add_byte_inputs(setup, info, &raw, memory);
    return STATUS_OK;
}
