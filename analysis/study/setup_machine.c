#include "analysis/study/setup_parts.h"

#include <inttypes.h>
#include <stdio.h>

enum { GPUS_PER_NODE_DEFAULT = 8 };

status ana_setup_open_hardware(ana_setup *setup, arena *memory, error_message *err)
{
    const ana_study *study = setup->study;
    model_hardware *hardware = &setup->hardware;
    const status checked = model_parallel_check_degrees(&study->parallel, err);
    if (checked != STATUS_OK) return error_prefix(err, checked, "%s", study->path);
    setup->hardware_is_named = study->hardware != NULL;
    TRY(model_hardware_open_changed(setup->hardware_is_named ? study->hardware : "h100-sxm",
                                    study->hardware_changes, memory, hardware, err));
    if (study->gpus_per_node > 0) {
        hardware->gpus_per_node = study->gpus_per_node;
    } else if (!setup->hardware_is_named) {
        hardware->gpus_per_node = GPUS_PER_NODE_DEFAULT;
    }
    if (study->intra_node.latency_ns >= 0) hardware->intra_node = study->intra_node;
    if (study->inter_node.latency_ns >= 0) hardware->inter_node = study->inter_node;
    return STATUS_OK;
}

static void add_number(const ana_setup *setup, arena *memory, const char *name,
                       model_origin_kind origin, int64_t value, const char *unit)
{
    ana_inputs_add(&setup->study->inputs, memory, name, origin, "%" PRId64 " %s", value, unit);
}

/// Lists the hardware's link, unless the study gave one and has listed it.
static void add_link(const ana_setup *setup, arena *memory, const char *scope, bal_link given,
                     bal_link link)
{
    char name[64];
    if (given.latency_ns >= 0) return;
    snprintf(name, sizeof name, "cluster.links.%s.latency_ns", scope);
    add_number(setup, memory, name, setup->hardware.latency_origin.kind, link.latency_ns, "ns");
    snprintf(name, sizeof name, "cluster.links.%s.bytes_per_s", scope);
    add_number(setup, memory, name, setup->hardware.links_origin.kind, link.bytes_per_s, "B/s");
}

/// Lists what the study left open. A preset that stands in where the study has no hardware gives
/// links only.
static void add_machine_inputs(ana_setup *setup, arena *memory)
{
    const ana_study *study = setup->study;
    const model_hardware *hardware = &setup->hardware;
    if (study->gpus_per_node == 0) {
        add_number(setup, memory, "cluster.gpus_per_node",
                   setup->hardware_is_named ? MODEL_ORIGIN_PRESET : MODEL_ORIGIN_ASSUMED,
                   hardware->gpus_per_node, "GPUs");
    }
    if (study->memory_bytes < 0 && setup->hardware_is_named) {
        add_number(setup, memory, "cluster.memory_bytes", hardware->memory_origin.kind,
                   hardware->memory_bytes, "B");
    } else if (study->memory_bytes < 0) {
        ana_inputs_add(&setup->study->inputs, memory, "cluster.memory_bytes", MODEL_ORIGIN_ASSUMED,
                       "not limited");
    }
    add_link(setup, memory, "intra", study->intra_node, hardware->intra_node);
    add_link(setup, memory, "inter", study->inter_node, hardware->inter_node);
}

status ana_setup_check_cluster(ana_setup *setup, error_message *err)
{
    const ana_study *study = setup->study;
    error_message inner = {0};
    const int64_t on_nodes = (int64_t)study->node_count * setup->hardware.gpus_per_node;
    setup->gpu_count = study->gpu_count > 0 ? study->gpu_count
                       : on_nodes > 0
                           ? on_nodes
                           : model_parallel_gpu_count(&study->parallel, study->stage_count);
    if (study->node_count == 0 ||
        model_parallel_check_cluster(&study->parallel, study->stage_count, study->node_count,
                                     setup->hardware.gpus_per_node, &inner) == STATUS_OK) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_INFEASIBLE, "%s: cluster.nodes: %.200s", study->path,
                     inner.message);
}

/// Fills in how many ranks a row releases at once, now that nodes are known.
static status settle_repack(const ana_setup *setup, ana_balancing *row, error_message *err)
{
    bal_repack_options *options = &row->repack.options;
    error_message inner = {0};
    if (options->kind == BAL_REPACK_NONE) return STATUS_OK;
    if (row->repack.by_node) options->rank_unit = setup->machine.ranks_per_node;
    const bal_schedule_family *family = bal_schedule_family_find(setup->study->schedule);
    const int chunks = bal_schedule_chunk_count(family, setup->study->chunk_count);
    if (chunks > 1 && options->kind > BAL_REPACK_GPU_TIME) {
        return error_set(err, STATUS_INVALID,
                         "%s: %.80s: re-packing '%s' knows one chunk per rank, not %d",
                         setup->study->path, row->label, bal_repack_names[options->kind], chunks);
    }
    const status checked = bal_repack_options_check(options, &setup->machine, &inner);
    if (checked == STATUS_OK) return STATUS_OK;
    return error_set(err, checked, "%s: %.80s: repack: %.150s", setup->study->path, row->label,
                     inner.message);
}

/// What recomputation and sharding hold for a while is not for layers to fill.
static status set_working_memory_aside(ana_setup *setup, arena *memory, error_message *err)
{
    const int64_t working = setup->study->trace_path == NULL ? setup->model_costs.working_bytes : 0;
    int64_t *const limit = &setup->machine.rank_memory_bytes;
    if (working == 0 || *limit == 0) return STATUS_OK;
    if (working >= *limit) {
        return error_set(err, STATUS_INFEASIBLE,
                         "%s: recomputation and sharding hold %" PRId64
                         " bytes at a time, a GPU has %" PRId64,
                         setup->study->path, working, *limit);
    }
    *limit -= working;
    add_number(setup, memory, "training.working_bytes", MODEL_ORIGIN_ASSUMED, working, "B");
    return STATUS_OK;
}

status ana_setup_open_machine(ana_setup *setup, arena *memory, error_message *err)
{
    ana_study *study = setup->study;
    bal_machine *machine = &setup->machine;
    *machine = model_parallel_machine(&study->parallel, &setup->hardware, study->stage_count);
    if (study->memory_bytes >= 0) {
        machine->rank_memory_bytes = study->memory_bytes;
    } else if (!setup->hardware_is_named) {
        machine->rank_memory_bytes = 0;
    }
    machine->send = study->send;
    machine->shares_node_links = study->shares_node_links;
    add_machine_inputs(setup, memory);
    return set_working_memory_aside(setup, memory, err);
}

status ana_setup_settle_rows(ana_setup *setup, error_message *err)
{
    ana_study *study = setup->study;
    for (int row = 0; row < study->balancing_count; row++) {
        TRY(settle_repack(setup, &study->balancings[row], err));
    }
    return STATUS_OK;
}
