#include "analysis/study_reading.h"

#include "balance/schedule.h"

#include <string.h>

enum { LAYER_LENGTH_MAX = 1 << 24 };

static status read_step(const ana_reading *reading, json_value training)
{
    static const char *const steps[] = {"barrier", "post-validation"};
    int step = 0;
    TRY(ana_read_choice(reading, training, "training", "step", steps, ANA_COUNT_OF(steps), &step));
    reading->study->post_validation = step == 1;
    return STATUS_OK;
}

status ana_read_training(const ana_reading *reading, json_value training)
{
    static const char *const keys[] = {
        "iterations",    "sequence_length", "microbatch_size",   "microbatches",
        "data_parallel", "decision_ns",     "optimizer_step_ns", "state_bytes_per_parameter",
        "step"};
    const char *const section = "training";
    ana_study *study = reading->study;
    if (json_is_missing(training)) return STATUS_OK;
    TRY(json_check_keys(training, keys, ANA_COUNT_OF(keys), reading->err));
    TRY(ana_read_int(reading, training, section, "iterations", "", 1, ANA_ITERATIONS_MAX,
                     &study->iteration_count));
    TRY(ana_read_int(reading, training, section, "sequence_length", "tokens", 1, LAYER_LENGTH_MAX,
                     &study->sequence_length));
    TRY(ana_read_int(reading, training, section, "microbatch_size", "sequences", 1, 1 << 20,
                     &study->microbatch_size));
    TRY(ana_read_int(reading, training, section, "microbatches", "", 1, BAL_MICROBATCHES_MAX,
                     &study->microbatch_count));
    TRY(ana_read_int(reading, training, section, "data_parallel", "replicas", 1, 1 << 20,
                     &study->data_parallel));
    TRY(ana_read_int64(reading, training, section, "decision_ns", "ns", 0, INT64_C(1000000000000),
                       &study->decision_ns));
    TRY(ana_read_int64(reading, training, section, "optimizer_step_ns", "ns", 0,
                       INT64_C(1000000000000), &study->optimizer_step_ns));
    TRY(ana_read_int(reading, training, section, "state_bytes_per_parameter", "B", 1, 64,
                     &study->state_bytes_per_parameter));
    return read_step(reading, training);
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
