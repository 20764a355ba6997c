/// Decides what a study leaves open, and lists each decision with its origin.
#include "analysis/study/setup.h"

#include "analysis/study/study_keys.h"
#include "balance/schedule/schedule.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { GPUS_PER_NODE_DEFAULT = 8 };

/// GPUs of one replica.
static int64_t replica_gpus(const ana_study *study)
{
    return (int64_t)study->stage_count * study->parallel.tensor * study->parallel.context;
}

/// The multiple of unit nearest to the global batch; the batch itself where it is none within the
/// tolerance.
static int64_t nearest_batch(const ana_study *study, int64_t unit)
{
    const int64_t wanted = study->global_batch;
    const int64_t nearest = (wanted + unit / 2) / unit * unit;
    const double off = (double)llabs(nearest - wanted);
    return nearest > 0 && off <= study->batch_tolerance * (double)wanted ? nearest : wanted;
}

/// Sequences of one microbatch of each of the replicas.
static int64_t sequences_together(const ana_study *study, int64_t replicas)
{
    const int size = study->microbatch_size > 0 ? study->microbatch_size : 1;
    return size * replicas * study->run.round_count;
}

/// The batch that so many replicas divide; 0 where there is none within the tolerance.
static int64_t divided_batch(const ana_study *study, int64_t replicas)
{
    const int64_t together = sequences_together(study, replicas);
    // Interleaved schedules want a multiple of the stages.
    int64_t batch = nearest_batch(study, together * study->stage_count);
    if (batch % together != 0) batch = nearest_batch(study, together);
    return batch % together == 0 ? batch : 0;
}

/// Whether experts can be spread over so many replicas, and the batch divided among them.
static bool may_fill(const ana_study *study, int64_t replicas)
{
    model_parallel parallel = study->parallel;
    parallel.data = (int)replicas;
    if (!model_parallel_spreads_experts(&parallel)) return false;
    return study->global_batch == 0 || divided_batch(study, replicas) > 0;
}

/// As many replicas as the GPUs make that may be; all that they make where none may.
static int64_t replicas_that_fill(const ana_study *study, int64_t most)
{
    const double largest_batch = (1 + study->batch_tolerance) * study->global_batch;
    const int64_t fed = (int64_t)(largest_batch / (double)sequences_together(study, 1));
    const bool is_fed_less = study->global_batch > 0 && fed < most;
    for (int64_t replicas = is_fed_less ? fed : most; replicas > 0; replicas--) {
        if (may_fill(study, replicas)) return replicas;
    }
    return most;
}

static status count_replicas(ana_setup *setup, error_message *err)
{
    ana_study *study = setup->study;
    const int64_t gpus = replica_gpus(study);
    if (study->gpu_count == 0) return STATUS_OK;
    const int64_t most = study->gpu_count / gpus;
    const int64_t replicas =
        study->fills_cluster ? replicas_that_fill(study, most) : study->parallel.data;
    if (replicas == 0 || replicas > most) {
        return error_set(err, STATUS_INFEASIBLE,
                         "%s: cluster.gpus: data %" PRId64
                         " x tensor %d x context %d x pipeline %d "
                         "need %" PRId64 " GPUs, there are %d",
                         study->path, replicas == 0 ? 1 : replicas, study->parallel.tensor,
                         study->parallel.context, study->stage_count,
                         gpus * (replicas == 0 ? 1 : replicas), study->gpu_count);
    }
    if (!study->fills_cluster) return STATUS_OK;
    if (replicas > MODEL_DEGREE_MAX) {
        return error_set(err, STATUS_INVALID,
                         "%s: training.data_parallel: %d GPUs make %" PRId64
                         " replicas, at most %d are modelled",
                         study->path, study->gpu_count, replicas, MODEL_DEGREE_MAX);
    }
    study->parallel.data = (int)replicas;
    model_assume(&study->inputs, "training.data_parallel.filled", MODEL_ORIGIN_GIVEN, NULL,
                 "%d replicas on %" PRId64 " of %d GPUs%s", (int)replicas, replicas * gpus,
                 study->gpu_count,
                 replicas < most ? ", the most that divide batch and experts" : "");
    return STATUS_OK;
}

static status count_microbatches(ana_setup *setup, error_message *err)
{
    ana_study *study = setup->study;
    if (study->global_batch == 0) return STATUS_OK;
    const int size = study->microbatch_size > 0 ? study->microbatch_size : 1;
    const int64_t together = sequences_together(study, study->parallel.data);
    const int64_t batch = divided_batch(study, study->parallel.data);
    if (batch == 0) {
        return error_set(err, STATUS_INFEASIBLE,
                         "%s: training.global_batch: %d sequences are not divisible by data %d x "
                         "microbatch_size %d%s = %" PRId64,
                         study->path, study->global_batch, study->parallel.data, size,
                         study->run.round_count > 1 ? " x accumulation" : "", together);
    }
    const int64_t microbatches = batch / together;
    if (microbatches > BAL_MICROBATCHES_MAX) {
        return error_set(err, STATUS_INVALID,
                         "%s: training.global_batch: %" PRId64
                         " microbatches of each replica exceed %d",
                         study->path, microbatches, BAL_MICROBATCHES_MAX);
    }
    study->microbatch_count = (int)microbatches;
    model_assume(&study->inputs, "training.microbatches", MODEL_ORIGIN_GIVEN, NULL,
                 "%d of %d sequences, by the global batch", study->microbatch_count, size);
    if (batch == study->global_batch) return STATUS_OK;
    model_assume(&study->inputs, "training.global_batch.held", MODEL_ORIGIN_GIVEN, NULL,
                 "%" PRId64 " for %d sequences, within the tolerance", batch, study->global_batch);
    return STATUS_OK;
}

static void append_link(text_buffer *key, bal_link link)
{
    text_append_bytes(key, (const char *)&link, sizeof link);
}

static void append_word(text_buffer *key, const char *word)
{
    text_append_bytes(key, word != NULL ? word : "\x01", word != NULL ? strlen(word) + 1 : 2);
}

/// All that the costs of a model depend on: links only where several GPUs hold a layer.
static void write_inputs_key(const ana_study *study, text_buffer *key)
{
    const int numbers[] = {
        study->gpus_per_node,
        study->sequence_length,
        study->microbatch_size,
        (int)study->dtype,
        study->state_bytes_per_parameter,
        study->gradient_bytes_per_parameter,
        study->transformer_layer_count,
    };
    text_append_bytes(key, (const char *)numbers, sizeof numbers);
    text_append_bytes(key, (const char *)&study->parallel, sizeof study->parallel);
    if (model_parallel_gpu_count(&study->parallel, 1) > 1) {
        append_link(key, study->intra_node);
        append_link(key, study->inter_node);
    }
    append_word(key, study->hardware);
    append_word(key, study->hardware_changes);
    append_word(key, study->model);
    append_word(key, study->model_changes);
    append_word(key, study->attention);
}

/// Finds what an earlier setup had of the same, or makes room for it.
static ana_model_inputs *find_inputs(const ana_setup *setup)
{
    text_buffer key = {0};
    write_inputs_key(setup->study, &key);
    ana_model_inputs *inputs = ana_setup_cache_inputs(setup->cache, key.bytes, key.length);
    text_free(&key);
    return inputs;
}

/// Puts the numbers that a study gives in place of the hardware's.
static void override_link(bal_link given, bal_link *link)
{
    if (given.latency_ns >= 0) link->latency_ns = given.latency_ns;
    if (given.bytes_per_s > 0) link->bytes_per_s = given.bytes_per_s;
}

/// The hardware of the study's file, with the nodes that the study puts in place of its own.
static status read_hardware(const ana_setup *setup, error_message *err)
{
    const ana_study *study = setup->study;
    const char *name = setup->hardware_is_named ? study->hardware : "h100-sxm";
    arena *memory = setup->inputs->memory;
    model_hardware hardware;
    TRY(model_hardware_open(arena_string(memory, name), study->hardware_changes, memory, &hardware,
                            err));
    if (study->gpus_per_node > 0) {
        hardware.gpus_per_node = study->gpus_per_node;
    } else if (!setup->hardware_is_named) {
        hardware.gpus_per_node = GPUS_PER_NODE_DEFAULT;
    }
    setup->inputs->hardware = hardware;
    return STATUS_OK;
}

static status open_hardware(ana_setup *setup, error_message *err)
{
    const ana_study *study = setup->study;
    const status checked = model_parallel_check_degrees(&study->parallel, err);
    if (checked != STATUS_OK) return error_prefix(err, checked, "%s", study->path);
    setup->hardware_is_named = study->hardware != NULL;
    setup->inputs = find_inputs(setup);
    if (setup->inputs->hardware.name == NULL) TRY(read_hardware(setup, err));
    setup->hardware = setup->inputs->hardware;
    override_link(study->intra_node, &setup->hardware.intra_node);
    override_link(study->inter_node, &setup->hardware.inter_node);
    return STATUS_OK;
}

static void add_number(const ana_setup *setup, const char *name, model_origin_kind origin,
                       int64_t value, const char *unit)
{
    model_assume(&setup->study->inputs, name, origin, NULL, "%" PRId64 " %s", value, unit);
}

/// Lists what of a link is the hardware's: what the study gave it has listed.
static void add_link(const ana_setup *setup, const char *latency, const char *rate, bal_link given,
                     bal_link link)
{
    if (given.latency_ns < 0) {
        add_number(setup, latency, setup->hardware.latency_origin.kind, link.latency_ns, "ns");
    }
    if (given.bytes_per_s > 0) return;
    add_number(setup, rate, setup->hardware.links_origin.kind, link.bytes_per_s, "B/s");
}

/// Lists what the study left open. A preset that stands in where the study has no hardware gives
/// links only.
static void add_machine_inputs(ana_setup *setup)
{
    const ana_study *study = setup->study;
    const model_hardware *hardware = &setup->hardware;
    if (study->gpus_per_node == 0) {
        add_number(setup, "cluster.gpus_per_node",
                   setup->hardware_is_named ? MODEL_ORIGIN_PRESET : MODEL_ORIGIN_ASSUMED,
                   hardware->gpus_per_node, "GPUs");
    }
    if (study->memory_bytes < 0 && setup->hardware_is_named) {
        add_number(setup, "cluster.memory_bytes", hardware->memory_origin.kind,
                   hardware->memory_bytes, "B");
    } else if (study->memory_bytes < 0) {
        model_assume(&setup->study->inputs, "cluster.memory_bytes", MODEL_ORIGIN_ASSUMED, NULL,
                     "not limited");
    }
    add_link(setup, "cluster.links.intra.latency_ns", "cluster.links.intra.bytes_per_s",
             study->intra_node, hardware->intra_node);
    add_link(setup, "cluster.links.inter.latency_ns", "cluster.links.inter.bytes_per_s",
             study->inter_node, hardware->inter_node);
}

static status check_cluster(ana_setup *setup, error_message *err)
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
    const bal_schedule_family *family = bal_schedule_family_find(setup->study->run.schedule);
    const int chunks = bal_schedule_chunk_count(family, setup->study->run.chunk_count);
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
static status set_working_memory_aside(ana_setup *setup, error_message *err)
{
    const bool is_modelled = setup->study->trace_path == NULL;
    const int64_t reserve = is_modelled ? setup->model_costs.reserve_bytes : 0;
    const int64_t working = (is_modelled ? setup->model_costs.working_bytes : 0) + reserve;
    int64_t *const limit = &setup->machine.rank_memory_bytes;
    if (working == 0 || *limit == 0) return STATUS_OK;
    if (working >= *limit) {
        return error_set(err, STATUS_INFEASIBLE,
                         "%s: recomputation, sharding, CUDA and NCCL hold %" PRId64
                         " bytes at a time, a GPU has %" PRId64,
                         setup->study->path, working, *limit);
    }
    *limit -= working;
    if (reserve > 0) {
        add_number(setup, "memory reserve", MODEL_ORIGIN_ASSUMED, reserve, "B");
    }
    if (working == reserve) return STATUS_OK;
    add_number(setup, "training.working_bytes", MODEL_ORIGIN_ASSUMED, working - reserve, "B");
    return STATUS_OK;
}

static status open_machine(ana_setup *setup, error_message *err)
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
    machine->relaunch_ns = study->relaunch_ns;
    add_machine_inputs(setup);
    return set_working_memory_aside(setup, err);
}

static status settle_rows(ana_setup *setup, error_message *err)
{
    ana_study *study = setup->study;
    for (int row = 0; row < study->balancing_count; row++) {
        TRY(settle_repack(setup, &study->balancings[row], err));
    }
    return STATUS_OK;
}

/// What re-packing to further replicas is not charged for.
static void add_replicate_input(const ana_setup *setup)
{
    const ana_study *study = setup->study;
    bool replicates = false;
    for (int row = 0; row < study->balancing_count; row++) {
        const bal_repack_options *options = &study->balancings[row].repack.options;
        replicates = replicates ||
                     (options->kind != BAL_REPACK_NONE && options->use == BAL_RELEASED_REPLICATE);
    }
    if (!replicates) return;
    model_assume(&setup->study->inputs, "repack.replicate", MODEL_ORIGIN_ASSUMED, NULL,
                 "state is sent between nodes; %s",
                 study->parallel.data > 1
                     ? "reductions grow by the bytes that a ring of more replicas sends"
                     : "gradients of the replicas that one becomes are reduced at no cost");
}

/// Iterations, microbatches and tokens: the study's own before the trace's.
static void fill_training(ana_setup *setup)
{
    const ana_study *study = setup->study;
    model_assumption_list *inputs = &setup->study->inputs;
    const model_origin_kind source =
        study->trace_path != NULL ? MODEL_ORIGIN_MEASURED : MODEL_ORIGIN_ASSUMED;
    if (study->iteration_count > 0) {
        setup->iteration_count = study->iteration_count;
    } else {
        model_assume(inputs, "training.iterations", source, NULL, "%d", setup->iteration_count);
    }
    if (study->microbatch_count > 0) {
        setup->microbatch_count = study->microbatch_count;
    } else {
        model_assume(inputs, "training.microbatches", source, NULL, "%d", setup->microbatch_count);
    }
    if (study->sequence_length > 0) {
        const int size = study->microbatch_size > 0 ? study->microbatch_size : 1;
        setup->tokens_per_microbatch = (int64_t)study->sequence_length * size;
    } else if (setup->tokens_per_microbatch > 0) {
        model_assume(inputs, "training.tokens_per_microbatch", source, NULL, "%" PRId64,
                     setup->tokens_per_microbatch);
    }
    ana_study_list_default(setup->study, "training.decision_ns");
    ana_study_list_default(setup->study, "training.optimizer_step_ns");
    if (study->parallel.data > 1) {
        ana_study_list_default(setup->study, "training.reduction_overlap");
    }
    ana_study_list_default(setup->study, "training.step");
    add_replicate_input(setup);
    if (!json_is_missing(json_member(study->execution, "mechanism"))) {
        model_assume(inputs, "execution.mechanism", MODEL_ORIGIN_ASSUMED, NULL,
                     "not simulated: see dynamism");
    }
    if (json_is_missing(study->dynamism)) {
        ana_study_list_default(setup->study, "dynamism.change_ratio");
    }
}

static status check_sizes(ana_setup *setup, error_message *err)
{
    const ana_study *study = setup->study;
    const bal_schedule_family *family = bal_schedule_family_find(study->run.schedule);
    const int chunks = bal_schedule_chunk_count(family, study->run.chunk_count);
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

/// The study's split, whose layers are those of the model with or without embedding and head.
static status read_split(ana_setup *setup, arena *memory, error_message *err)
{
    const ana_study *study = setup->study;
    const int layer_count = setup->source.layer_count;
    const int blocks = layer_count - setup->embedding - setup->head;
    const size_t cuts = (size_t)setup->stage_count + 1;
    int64_t sum = 0;
    if (study->layers_per_stage == NULL) return STATUS_OK;
    for (int stage = 0; stage < study->layers_per_stage_count; stage++) {
        sum += study->layers_per_stage[stage];
    }
    const bool counts_all = sum == layer_count;
    if (study->layers_per_stage_count != setup->stage_count || (sum != blocks && !counts_all)) {
        return error_set(err, STATUS_INVALID,
                         "%s: pipeline.layers_per_stage: %" PRId64 " layers in %d stages, where "
                         "there are %d in %d",
                         study->path, sum, study->layers_per_stage_count, blocks,
                         setup->stage_count);
    }
    int *first = arena_array(memory, cuts, sizeof *first);
    for (int stage = 1; stage < setup->stage_count; stage++) {
        const int embedding = stage == 1 && !counts_all ? setup->embedding : 0;
        first[stage] = first[stage - 1] + (int)study->layers_per_stage[stage - 1] + embedding;
    }
    first[setup->stage_count] = layer_count;
    setup->given_first_layer = first;
    return STATUS_OK;
}

static status check_replicas(ana_setup *setup, error_message *err)
{
    const ana_study *study = setup->study;
    bal_layer_costs costs;
    bool changed = false;
    if (study->parallel.data == 1) return STATUS_OK;
    TRY(setup->source.costs_at(setup->source.context, 0, &costs, &changed, err));
    if (costs.parameters != NULL) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "%s: training.data_parallel: %d replicas reduce gradients, and the trace does "
                     "not say how many parameters its layers have",
                     study->path, study->parallel.data);
}

static status open_all(ana_setup *setup, arena *memory, error_message *err)
{
    setup->refusal = ANA_REFUSAL_GPUS;
    TRY(count_replicas(setup, err));
    setup->refusal = ANA_REFUSAL_BATCH;
    TRY(count_microbatches(setup, err));
    setup->refusal = ANA_REFUSAL_MODEL;
    TRY(open_hardware(setup, err));
    TRY(ana_setup_open_base(setup, memory, err));
    ana_setup_complete(setup, memory);
    setup->refusal = ANA_REFUSAL_MEMORY;
    TRY(open_machine(setup, err));
    setup->refusal = ANA_REFUSAL_GPUS;
    TRY(check_cluster(setup, err));
    setup->refusal = ANA_REFUSAL_VALUES;
    TRY(settle_rows(setup, err));
    fill_training(setup);
    setup->refusal = ANA_REFUSAL_STAGES;
    TRY(check_sizes(setup, err));
    TRY(read_split(setup, memory, err));
    setup->refusal = ANA_REFUSAL_MODEL;
    TRY(check_replicas(setup, err));
    setup->refusal = ANA_REFUSAL_VALUES;
    TRY(ana_setup_open_dynamism(setup, memory, err));
    setup->refusal = ANA_REFUSAL_NONE;
    return STATUS_OK;
}

status ana_setup_open(ana_study *study, ana_setup_cache *cache, arena *memory, ana_setup *setup,
                      error_message *err)
{
    if (cache == NULL) cache = ana_setup_cache_create(memory, 0);
    *setup = (ana_setup){.study = study, .cache = cache};
    return open_all(setup, memory, err);
}

const bal_cost_source *ana_setup_sources(const ana_setup *setup, const ana_balancing *balancing)
{
    return balancing->packing != NULL ? balancing->sources : setup->sources;
}

model_dynamism *ana_setup_dynamism(const ana_setup *setup, const ana_balancing *balancing)
{
    return balancing->packing != NULL ? balancing->dynamism : setup->dynamism;
}

bal_training ana_setup_training(const ana_setup *setup, const ana_balancing *balancing,
                                bal_record_sink sink)
{
    bal_training training = setup->study->run;
    training.sources = ana_setup_sources(setup, balancing);
    training.source_count = setup->source_count;
    training.machine = setup->machine;
    training.iteration_count = setup->iteration_count;
    training.microbatch_count = setup->microbatch_count;
    training.data_parallel = setup->study->parallel.data;
    training.gpus_per_rank = setup->study->parallel.tensor * setup->study->parallel.context;
    training.balancer = balancing->balancer;
    training.weight = balancing->weight;
    training.given_first_layer = setup->given_first_layer;
    training.policy = balancing->policy;
    training.information = balancing->information;
    training.migration = balancing->migration;
    training.repack = balancing->repack.options;
    training.slow_ranks = setup->study->slow_ranks;
    training.sink = sink;
    return training;
}

bal_plan ana_setup_plan(const ana_setup *setup, const bal_training_iteration *iteration)
{
    const bal_schedule_family *family = bal_schedule_family_find(setup->study->run.schedule);
    return (bal_plan){
        .first_layer = iteration->first_layer,
        .rank_count = iteration->rank_count,
        .chunk_count = setup->stage_count / setup->machine.rank_count,
        .placement = family->placement,
        .schedule = family->name,
        .microbatch_count = iteration->microbatch_count,
        .stage_ranks = iteration->machine_rank,
        .data_parallel = iteration->replica_count,
        .embedding = setup->embedding,
        .head = setup->head,
        .first_stage_whole = setup->study->first_stage_whole,
    };
}
