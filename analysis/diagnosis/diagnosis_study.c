#include "analysis/diagnosis/diagnosis_study.h"

#include "analysis/diagnosis/diagnosis.h"
#include "base/json.h"

#include <stdio.h>

static void write_trace(json_writer *writer, const ana_diagnosis_request *request)
{
    json_write_key(writer, "trace");
    json_begin_object(writer);
    json_put_string(writer, "store", request->store_path);
    if (request->trace_name != NULL) json_put_string(writer, "name", request->trace_name);
    if (request->first_iteration >= 0) {
        json_put_int64(writer, "first_iteration", request->first_iteration);
    }
    json_end_object(writer);
}

static void write_files(json_writer *writer, const ana_counted_run *counts)
{
    json_begin_object(writer);
    json_write_key(writer, "megatron");
    json_begin_array(writer);
    for (int stage = 0; stage < counts->stage_count; stage++) {
        json_begin_object(writer);
        json_put_int64(writer, "first_layer", counts->first_layer[stage]);
        json_write_key(writer, "files");
        json_begin_array(writer);
        for (int rank = 0; rank < counts->expert_parallel; rank++) {
            json_write_string(writer, counts->files[stage * counts->expert_parallel + rank]);
        }
        json_end_array(writer);
        json_end_object(writer);
    }
    json_end_array(writer);
    json_end_object(writer);
}

static void write_dynamism(json_writer *writer, const ana_counted_run *counts)
{
    json_write_key(writer, "dynamism");
    json_begin_object(writer);
    json_put_string(writer, "case", "moe");
    json_write_key(writer, "counts");
    if (counts->csv != NULL) {
        json_write_string(writer, counts->csv);
    } else {
        write_files(writer, counts);
    }
    json_end_object(writer);
}

static void write_training(json_writer *writer, const ana_diagnosis_request *request)
{
    const ana_counted_run *counts = request->counts;
    json_write_key(writer, "training");
    json_begin_object(writer);
    if (counts != NULL) {
        json_put_int64(writer, "iterations", (int64_t)counts->last_iteration + 1);
        json_put_int64(writer, "data_parallel", counts->expert_parallel);
        json_put_int64(writer, "expert_parallel", counts->expert_parallel);
    }
    if (request->sequence_length > 0) {
        json_put_int64(writer, "sequence_length", request->sequence_length);
    }
    const int microbatches = request->microbatch_count > 0 ? request->microbatch_count
                             : counts != NULL              ? counts->microbatch_count
                                                           : 0;
    if (microbatches > 0) json_put_int64(writer, "microbatches", microbatches);
    if (request->decision_ns > 0) json_put_int64(writer, "decision_ns", request->decision_ns);
    json_end_object(writer);
}

static void write_study(json_writer *writer, const ana_diagnosis_request *request)
{
    json_begin_object(writer);
    json_put_string(writer, "schema", "dynmo-study/1");
    json_put_string(writer, "name", request->name);
    if (request->counts != NULL) {
        json_put_string(writer, "model", request->model);
        write_dynamism(writer, request->counts);
    } else {
        write_trace(writer, request);
    }
    if (request->hardware != NULL) json_put_string(writer, "hardware", request->hardware);
    write_training(writer, request);
    json_write_key(writer, "pipeline");
    json_begin_object(writer);
    json_put_int64(writer, "stages", request->stage_count);
    json_put_string(writer, "schedule", request->schedule);
    json_end_object(writer);
    json_put_bool(writer, "foresight", false);
    json_end_object(writer);
}

/// The rows are JSON already; they take the place of the closing brace.
static void add_rows(text_buffer *out)
{
    if (out->failed || out->length == 0) return;
    out->length--;
    text_format(out, ",\"balancing\":%s}", ana_diagnosis_rows);
}

status ana_diagnosis_study(const ana_diagnosis_request *request, text_buffer *out)
{
    json_writer writer = json_writer_init(out);
    write_study(&writer, request);
    add_rows(out);
    return STATUS_OK;
}
