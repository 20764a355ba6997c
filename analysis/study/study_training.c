#include "analysis/study/study_reading.h"

#include "balance/schedule/schedule.h"

#include <string.h>

enum { LAYER_LENGTH_MAX = 1 << 24 };

/// A number of replicas, or "fill": as many as the cluster's GPUs make.
static status read_replicas(const ana_reading *reading, json_value training)
{
    static const char *const names[] = {"fill"};
    ana_study *study = reading->study;
    int fill = -1;
    if (!json_is_string(json_member(training, "data_parallel"))) {
        return ana_read_int(reading, training, "training", "data_parallel", "replicas", 1,
                            MODEL_DEGREE_MAX, &study->parallel.data);
    }
    TRY(ana_read_choice(reading, training, "training", "data_parallel", names, ANA_COUNT_OF(names),
                        &fill));
    study->fills_cluster = fill == 0;
    if (study->gpu_count > 0) return STATUS_OK;
    return json_error(json_member(training, "data_parallel"), STATUS_FORMAT, reading->err,
                      "'fill' needs cluster.gpus, the GPUs that replicas are made of");
}

/// The batch of an iteration, in microbatches of each replica or in sequences of all.
static status read_batch(const ana_reading *reading, json_value training)
{
    static const char *const section = "training";
    ana_study *study = reading->study;
    TRY(ana_read_int(reading, training, section, "microbatch_size", "sequences", 1, 1 << 20,
                     &study->microbatch_size));
    TRY(ana_read_int(reading, training, section, "microbatches", "", 1, BAL_MICROBATCHES_MAX,
                     &study->microbatch_count));
    TRY(ana_read_int(reading, training, section, "global_batch", "sequences", 1, 1 << 30,
                     &study->global_batch));
    TRY(ana_read_int(reading, training, section, "accumulation", "passes", 1, BAL_ROUNDS_MAX,
                     &study->round_count));
    if (study->microbatch_count == 0 || study->global_batch == 0) return STATUS_OK;
    return json_error(json_member(training, "global_batch"), STATUS_FORMAT, reading->err,
                      "both 'microbatches' and 'global_batch' are given; one follows from the "
                      "other");
}

/// How long the whole training is, and what stops it on the way.
static status read_course(const ana_reading *reading, json_value training)
{
    static const char *const section = "training";
    ana_study *study = reading->study;
    TRY(ana_read_int64(reading, training, section, "tokens", "tokens", 1, JSON_INTEGER_MAX,
                       &study->token_count));
    TRY(ana_read_double(reading, training, section, "checkpoint_s", 0, 1e6, &study->checkpoint_s));
    TRY(ana_read_double(reading, training, section, "restart_s", 0, 1e6, &study->restart_s));
    TRY(ana_read_double(reading, training, section, "checkpoint_interval_s", 1e-3, 1e9,
                        &study->checkpoint_interval_s));
    return ana_read_date(reading, training, section, "start", &study->start_date);
}

/// How the replicas and the GPUs of a stage divide the work.
static status read_parallel(const ana_reading *reading, json_value training)
{
    static const char *const section = "training";
    const char *recompute_names[MODEL_RECOMPUTE_COUNT];
    const char *sharding_names[MODEL_SHARDING_COUNT];
    const char *order_names[MODEL_RANK_ORDER_COUNT];
    model_parallel *parallel = &reading->study->parallel;
    int recompute = (int)parallel->recompute;
    int sharding = (int)parallel->sharding;
    int order = (int)parallel->order;
    for (int index = 0; index < MODEL_RECOMPUTE_COUNT; index++) {
        recompute_names[index] = model_recompute_name((model_recompute)index);
    }
    for (int index = 0; index < MODEL_SHARDING_COUNT; index++) {
        sharding_names[index] = model_sharding_name((model_sharding)index);
    }
    for (int index = 0; index < MODEL_RANK_ORDER_COUNT; index++) {
        order_names[index] = model_rank_order_name((model_rank_order)index);
    }
    TRY(read_replicas(reading, training));
    TRY(ana_read_int(reading, training, section, "tensor_parallel", "GPUs", 1, MODEL_DEGREE_MAX,
                     &parallel->tensor));
    TRY(ana_read_int(reading, training, section, "expert_parallel", "GPUs", 1, MODEL_DEGREE_MAX,
                     &parallel->expert));
    TRY(ana_read_int(reading, training, section, "expert_tensor_parallel", "GPUs", 1,
                     MODEL_DEGREE_MAX, &parallel->expert_tensor));
    TRY(ana_read_int(reading, training, section, "context_parallel", "GPUs", 1, MODEL_DEGREE_MAX,
                     &parallel->context));
    TRY(ana_read_bool(reading, training, section, "sequence_parallel", &parallel->sequence));
    TRY(ana_read_choice(reading, training, section, "recompute", recompute_names,
                        MODEL_RECOMPUTE_COUNT, &recompute));
    TRY(ana_read_choice(reading, training, section, "sharding", sharding_names,
                        MODEL_SHARDING_COUNT, &sharding));
    TRY(ana_read_choice(reading, training, section, "rank_order", order_names,
                        MODEL_RANK_ORDER_COUNT, &order));
    parallel->recompute = (model_recompute)recompute;
    parallel->sharding = (model_sharding)sharding;
    parallel->order = (model_rank_order)order;
    return STATUS_OK;
}

/// What the cost model asks, and a trace has answered already.
static status read_model_training(const ana_reading *reading, json_value training)
{
    static const char *const section = "training";
    static const char *const attentions[] = {"flash", "unfused"};
    const char *dtypes[MODEL_DTYPE_COUNT - 1];
    ana_study *study = reading->study;
    int dtype = (int)study->dtype - 1;
    int attention = -1;
    for (int index = 1; index < MODEL_DTYPE_COUNT; index++) {
        dtypes[index - 1] = model_dtype_name((model_dtype)index);
    }
    TRY(ana_read_choice(reading, training, section, "dtype", dtypes, ANA_COUNT_OF(dtypes), &dtype));
    TRY(ana_read_choice(reading, training, section, "attention", attentions,
                        ANA_COUNT_OF(attentions), &attention));
    TRY(ana_read_int(reading, training, section, "layers", "transformer layers", 1, BAL_LAYERS_MAX,
                     &study->transformer_layer_count));
    study->dtype = (model_dtype)(dtype + 1);
    if (attention >= 0) study->attention = attentions[attention];
    return STATUS_OK;
}

static status read_times(const ana_reading *reading, json_value training)
{
    static const char *const section = "training";
    const int64_t longest = INT64_C(1000000000000);
    ana_study *study = reading->study;
    TRY(ana_read_int64(reading, training, section, "decision_ns", "ns", 0, longest,
                       &study->decision_ns));
    TRY(ana_read_int64(reading, training, section, "profile_ns", "ns", 0, longest,
                       &study->profile_ns));
    return ana_read_int64(reading, training, section, "optimizer_step_ns", "ns", 0, longest,
                          &study->optimizer_step_ns);
}

status ana_read_training(const ana_reading *reading, json_value training)
{
    static const char *const keys[] = {"iterations",
                                       "sequence_length",
                                       "microbatch_size",
                                       "microbatches",
                                       "global_batch",
                                       "accumulation",
                                       "tokens",
                                       "checkpoint_s",
                                       "restart_s",
                                       "checkpoint_interval_s",
                                       "start",
                                       "data_parallel",
                                       "tensor_parallel",
                                       "expert_parallel",
                                       "expert_tensor_parallel",
                                       "context_parallel",
                                       "sequence_parallel",
                                       "recompute",
                                       "sharding",
                                       "rank_order",
                                       "dtype",
                                       "attention",
                                       "layers",
                                       "decision_ns",
                                       "profile_ns",
                                       "optimizer_step_ns",
                                       "state_bytes_per_parameter",
                                       "gradient_bytes_per_parameter",
                                       "reduction_overlap",
                                       "step"};
    const char *const section = "training";
    ana_study *study = reading->study;
    int overlap = (int)study->reduction_overlap;
    if (json_is_missing(training)) return STATUS_OK;
    TRY(json_check_keys(training, keys, ANA_COUNT_OF(keys), reading->err));
    TRY(ana_read_int(reading, training, section, "iterations", "", 1, ANA_ITERATIONS_MAX,
                     &study->iteration_count));
    TRY(ana_read_int(reading, training, section, "sequence_length", "tokens", 1, LAYER_LENGTH_MAX,
                     &study->sequence_length));
    TRY(read_batch(reading, training));
    TRY(read_course(reading, training));
    TRY(read_parallel(reading, training));
    TRY(read_model_training(reading, training));
    TRY(read_times(reading, training));
    TRY(ana_read_int(reading, training, section, "state_bytes_per_parameter", "B", 1, 64,
                     &study->state_bytes_per_parameter));
    TRY(ana_read_int(reading, training, section, "gradient_bytes_per_parameter", "B", 1, 8,
                     &study->gradient_bytes_per_parameter));
    TRY(ana_read_choice(reading, training, section, "reduction_overlap",
                        bal_reduction_overlap_names, BAL_REDUCTION_OVERLAP_COUNT, &overlap));
    study->reduction_overlap = (bal_reduction_overlap)overlap;
    return ana_read_step(reading, training);
}

static status read_schedule_name(const ana_reading *reading, json_value name)
{
    if (json_is_missing(name)) return STATUS_OK;
    const char *text = NULL;
    TRY(json_string(name, &text, reading->err));
    const bal_schedule_family *family = bal_schedule_family_find(text);
    if (family == NULL) {
        char suggestion[TEXT_SUGGESTION_BYTES];
        return json_error(name, STATUS_FORMAT, reading->err, "unknown schedule '%.40s'%s", text,
                          bal_schedule_suggestion(text, suggestion));
    }
    if (family->placement == BAL_PLACEMENT_BIDIRECTIONAL) {
        return json_error(name, STATUS_FORMAT, reading->err,
                          "%s keeps two copies of the weights, which studies do not; dynmo "
                          "schedule plays it",
                          family->name);
    }
    reading->study->schedule = family->name;
    return STATUS_OK;
}

status ana_read_pipeline(const ana_reading *reading, json_value pipeline)
{
    static const char *const keys[] = {"stages", "chunks", "schedule", "policy"};
    ana_study *study = reading->study;
    TRY(json_check_keys(pipeline, keys, ANA_COUNT_OF(keys), reading->err));
    TRY(ana_read_int(reading, pipeline, "pipeline", "stages", "", 1, BAL_RANKS_MAX,
                     &study->stage_count));
    if (study->stage_count == 0) {
        return json_error(pipeline, STATUS_FORMAT, reading->err, "'stages' is missing");
    }
    TRY(ana_read_int(reading, pipeline, "pipeline", "chunks", "", 1, BAL_CHUNKS_MAX,
                     &study->chunk_count));
    TRY(read_schedule_name(reading, json_member(pipeline, "schedule")));
    const json_value policy = json_member(pipeline, "policy");
    if (json_is_missing(policy)) return STATUS_OK;
    const char *text = NULL;
    TRY(json_string(policy, &text, reading->err));
    if (strcmp(text, "static") != 0) {
        return json_error(policy, STATUS_UNSUPPORTED, reading->err,
                          "a training replay plays the order as compiled ('static'), not '%.40s'",
                          text);
    }
    return STATUS_OK;
}
