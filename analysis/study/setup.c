#include "analysis/study/setup_parts.h"

#include "analysis/study/study_keys.h"
#include "balance/schedule/schedule.h"

#include <inttypes.h>

/// What holds for rows that do not say otherwise.
static void add_row_defaults(const ana_setup *setup, arena *memory)
{
    const ana_study *study = setup->study;
    const bal_migration_options migration = bal_migration_options_default();
    const bal_repack_options repack = bal_repack_options_default();
    bool is_dynamic = false;
    bool packs = false;
    bool replicates = false;
    for (int row = 0; row < study->balancing_count; row++) {
        is_dynamic = is_dynamic || study->balancings[row].policy.kind != BAL_POLICY_NEVER;
        const bal_repack_options *options = &study->balancings[row].repack.options;
        packs = packs || options->kind != BAL_REPACK_NONE;
        replicates = replicates ||
                     (options->kind != BAL_REPACK_NONE && options->use == BAL_RELEASED_REPLICATE);
    }
    if (is_dynamic) {
        ana_inputs_add(&setup->study->inputs, memory, "balancing", MODEL_ORIGIN_ASSUMED,
                       "information profile, migration after the iteration, slack %g, hysteresis "
                       "%g, no relabelling; where not given",
                       migration.slack_ratio, migration.hysteresis_ratio);
    }
    if (packs) {
        ana_inputs_add(&setup->study->inputs, memory, "repack", MODEL_ORIGIN_ASSUMED,
                       "tolerance %g, grow %g, threshold %g, target %d, min_ranks %d, unit rank, "
                       "use %s, microbatches keep; where not given",
                       repack.tolerance_ratio, repack.grow_ratio, repack.load_threshold_ratio,
                       repack.target_rank_count, repack.rank_count_min,
                       bal_released_names[repack.use]);
    }
    if (replicates) {
        ana_inputs_add(&setup->study->inputs, memory, "repack.replicate", MODEL_ORIGIN_ASSUMED,
                       "state is sent between nodes; %s",
                       study->parallel.data > 1
                           ? "reductions grow by the bytes that a ring of more replicas sends"
                           : "gradients of the replicas that one becomes are reduced at no cost");
    }
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
    ana_study_list_default(setup->study, memory, "training.decision_ns");
    ana_study_list_default(setup->study, memory, "training.optimizer_step_ns");
    if (study->parallel.data > 1) {
        ana_study_list_default(setup->study, memory, "training.reduction_overlap");
    }
    if (!ana_inputs_have(inputs, "training.step.kind")) {
        ana_study_list_default(setup->study, memory, "training.step");
    }
    if (study->post_validation) {
        ana_study_list_default(setup->study, memory, "training.step.unclipped");
    }
    add_row_defaults(setup, memory);
    if (!json_is_missing(json_member(study->execution, "mechanism"))) {
        ana_inputs_add(inputs, memory, "execution.mechanism", MODEL_ORIGIN_ASSUMED,
                       "not simulated: see dynamism");
    }
    if (json_is_missing(study->dynamism)) {
        ana_study_list_default(setup->study, memory, "dynamism.change_ratio");
    }
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
    if (study->parallel.data == 1) return STATUS_OK;
    TRY(setup->source.costs_at(setup->source.context, 0, &costs, &changed, err));
    if (costs.parameters != NULL) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "%s: training.data_parallel: %d replicas reduce gradients, and the trace does "
                     "not say how many parameters its layers have",
                     study->path, study->parallel.data);
}

/// The base with its gaps filled becomes the source of the replay.
static void complete(ana_setup *setup, arena *memory)
{
    const ana_study *study = setup->study;
    setup->completion = (ana_completion){
        .inner = setup->base,
        .first_iteration = setup->first_iteration,
        .state_bytes_per_parameter = study->state_bytes_per_parameter > 0
                                         ? study->state_bytes_per_parameter
                                         : ANA_STATE_BYTES_DEFAULT,
        .gradient_bytes_per_parameter = study->gradient_bytes_per_parameter > 0
                                            ? study->gradient_bytes_per_parameter
                                            : ANA_GRADIENT_BYTES_DEFAULT,
        .replicas = model_parallel_groups(&study->parallel, &setup->hardware).replicas,
    };
    ana_complete(&setup->completion, memory, &setup->source);
}

static status open_all(ana_setup *setup, arena *memory, error_message *err)
{
    setup->step = ANA_SETUP_REPLICAS;
    TRY(ana_setup_replicas(setup, memory, err));
    setup->step = ANA_SETUP_BATCH;
    TRY(ana_setup_batch(setup, memory, err));
    setup->step = ANA_SETUP_COSTS;
    TRY(ana_setup_open_hardware(setup, memory, err));
    if (setup->study->trace_path != NULL) {
        TRY(ana_setup_open_trace(setup, memory, err));
    } else {
        TRY(ana_setup_open_model(setup, memory, err));
    }
    complete(setup, memory);
    setup->step = ANA_SETUP_MEMORY;
    TRY(ana_setup_open_machine(setup, memory, err));
    setup->step = ANA_SETUP_CLUSTER;
    TRY(ana_setup_check_cluster(setup, err));
    setup->step = ANA_SETUP_ROWS;
    TRY(ana_setup_settle_rows(setup, err));
    fill_training(setup, memory);
    setup->step = ANA_SETUP_STAGES;
    TRY(check_sizes(setup, err));
    setup->step = ANA_SETUP_COSTS;
    TRY(check_replicas(setup, err));
    setup->step = ANA_SETUP_DYNAMISM;
    TRY(ana_setup_open_dynamism(setup, memory, err));
    setup->step = ANA_SETUP_OPEN;
    return STATUS_OK;
}

status ana_setup_open(ana_study *study, arena *memory, ana_setup *setup, error_message *err)
{
    return ana_setup_open_shelved(study, NULL, memory, setup, err);
}

status ana_setup_open_shelved(ana_study *study, ana_trace_shelf *shelf, arena *memory,
                              ana_setup *setup, error_message *err)
{
    *setup = (ana_setup){.study = study, .shelf = shelf};
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

bal_training ana_setup_training(const ana_setup *setup, const ana_balancing *balancing,
                                bal_record_sink sink)
{
    const ana_study *study = setup->study;
    return (bal_training){
        .sources = setup->sources,
        .source_count = setup->source_count,
        .machine = setup->machine,
        .iteration_count = setup->iteration_count,
        .microbatch_count = setup->microbatch_count,
        .chunk_count = study->chunk_count,
        .schedule = study->schedule,
        .round_count = study->round_count,
        .post_validation = study->post_validation,
        .validation = study->validation,
        .disturbance = study->disturbance,
        .data_parallel = study->parallel.data,
        .gpus_per_rank = study->parallel.tensor * study->parallel.context,
        .reduction_overlap = study->reduction_overlap,
        .optimizer_step_ns = study->optimizer_step_ns,
        .decision_ns = study->decision_ns,
        .profile_ns = study->profile_ns,
        .change_ratio = study->change_ratio,
        .balancer = balancing->balancer,
        .weight = balancing->weight,
        .policy = balancing->policy,
        .information = balancing->information,
        .estimates_speed = balancing->estimates_speed,
        .migration = balancing->migration,
        .repack = balancing->repack.options,
        .slow_ranks = study->slow_ranks,
        .slow_rank_count = study->slow_rank_count,
        .sink = sink,
    };
}
