#include "analysis/study/study.h"

#include "analysis/study/study_reading.h"
#include "base/file.h"
#include "models/shipped.h"

#include <stdlib.h>
#include <string.h>

/// Steps no longer wait for the norm after so many iterations that were not clipped.
/// Source: as in the released code of Qi et al. (sail-sg/zero-bubble-pipeline-parallelism).
enum { STUDY_BYTES_MAX = 16 << 20, ANA_UNCLIPPED_DEFAULT = 10 };

static status read_trace(const ana_reading *reading, json_value trace)
{
    static const char *const keys[] = {"store", "name", "first_iteration", "model"};
    if (json_is_string(trace))
        return ana_read_path(reading, trace, NULL, &reading->study->trace_path);
    TRY(json_check_keys(trace, keys, ANA_COUNT_OF(keys), reading->err));
    TRY(ana_read_path(reading, json_member(trace, "store"), NULL, &reading->study->trace_path));
    TRY(ana_read_int(reading, trace, "trace", "first_iteration", "", 0, ANA_ITERATIONS_MAX,
                     &reading->study->first_iteration));
    const json_value model = json_member(trace, "model");
    if (!json_is_missing(model)) {
        TRY(ana_read_path(reading, model, model_shipped_configs, &reading->study->trace_model));
    }
    const json_value name = json_member(trace, "name");
    return json_is_missing(name) ? STATUS_OK
                                 : json_string(name, &reading->study->trace_name, reading->err);
}

static status read_costs(const ana_reading *reading, json_value root)
{
    ana_study *study = reading->study;
    const json_value trace = json_member(root, "trace");
    const json_value model = json_member(root, "model");
    const json_value hardware = json_member(root, "hardware");
    if (!json_is_missing(trace) && !json_is_missing(model)) {
        return json_error(root, STATUS_FORMAT, reading->err,
                          "both 'trace' and 'model' are given; costs come from one of them");
    }
    if (!json_is_missing(trace)) TRY(read_trace(reading, trace));
    if (!json_is_missing(model))
        TRY(ana_read_based_file(reading, model, "model", model_shipped_configs, &study->model,
                                &study->model_changes));
    if (!json_is_missing(hardware))
        TRY(ana_read_based_file(reading, hardware, "hardware", model_shipped_hardware,
                                &study->hardware, &study->hardware_changes));
    return STATUS_OK;
}

/// Forgets inputs of a file in whose place the command line has put another.
static void drop_inputs(ana_inputs *inputs, const char *prefix)
{
    int kept = 0;
    for (int input = 0; input < inputs->count; input++) {
        if (strncmp(inputs->entries[input].name, prefix, strlen(prefix)) == 0) continue;
        inputs->entries[kept++] = inputs->entries[input];
    }
    inputs->count = kept;
}

/// Forgets what the study said of its trace, when a model takes its place.
static void drop_trace(ana_study *study)
{
    drop_inputs(&study->inputs, "trace.");
    study->trace_path = NULL;
    study->trace_name = NULL;
    study->trace_model = NULL;
    study->first_iteration = -1;
}

static void override_costs(ana_study *study, const char *trace_path, const char *model,
                           const char *hardware)
{
    if (hardware != NULL) {
        study->hardware = hardware;
        study->hardware_changes = NULL;
        drop_inputs(&study->inputs, "hardware.");
    }
    if (model != NULL) {
        drop_trace(study);
        study->model = model;
        study->model_changes = NULL;
        drop_inputs(&study->inputs, "model.");
    }
    if (trace_path != NULL) {
        study->trace_path = trace_path;
        study->trace_name = NULL;
        study->model = NULL;
    }
}

/// A trace has been recorded as it is.
static status check_model_keys(const ana_study *study, error_message *err)
{
    static const char *const keys[] = {"dtype", "attention", "layers", "recompute", "sharding"};
    const json_value training = json_member(json_root(study->document), "training");
    if (study->model != NULL) return STATUS_OK;
    for (int key = 0; key < ANA_COUNT_OF(keys); key++) {
        const json_value member = json_member(training, keys[key]);
        if (json_is_missing(member)) continue;
        return json_error(member, STATUS_FORMAT, err,
                          "the times of a trace are as recorded; only a model's depend on it");
    }
    return STATUS_OK;
}

static status check_costs(const ana_study *study, error_message *err)
{
    if (study->trace_path == NULL && study->model == NULL) {
        return error_set(err, STATUS_FORMAT,
                         "%s: needs 'trace' (a store), or 'model' and 'hardware'", study->path);
    }
    if (study->model != NULL && study->hardware == NULL) {
        return error_set(err, STATUS_FORMAT, "%s: 'model' needs 'hardware' to turn it into times",
                         study->path);
    }
    return check_model_keys(study, err);
}

/// The case's own parameters are checked with the costs that it is put over.
static status read_dynamism(const ana_reading *reading, json_value dynamism)
{
    static const char *const keys[] = {"case", "change_ratio"};
    const json_value change_ratio = json_member(dynamism, "change_ratio");
    if (json_is_missing(dynamism)) return STATUS_OK;
    if (!json_is_missing(json_member(dynamism, "case"))) {
        reading->study->dynamism = dynamism;
        if (json_is_missing(change_ratio)) return STATUS_OK;
        return json_error(change_ratio, STATUS_FORMAT, reading->err,
                          "a case announces its changes; only those of a trace are detected");
    }
    TRY(json_check_keys(dynamism, keys, ANA_COUNT_OF(keys), reading->err));
    return ana_read_double(reading, dynamism, "dynamism", "change_ratio", 0.001, 1000,
                           &reading->study->change_ratio);
}

/// Axes are for `dynmo study`, which puts a value of each in their place before it reads a point.
static status refuse_axes(const ana_reading *reading, json_value root)
{
    static const char *const keys[] = {"vary", "alternatives"};
    for (int key = 0; key < ANA_COUNT_OF(keys); key++) {
        const json_value axes = json_member(root, keys[key]);
        if (json_is_missing(axes)) continue;
        return json_error(axes, STATUS_UNSUPPORTED, reading->err,
                          "has many runs for one; `dynmo study` plays them");
    }
    return STATUS_OK;
}

static status read_study(const ana_reading *reading, json_value root)
{
    static const char *const keys[] = {
        "schema",       "name",        "trace",     "model",     "hardware",  "cluster",
        "training",     "pipeline",    "dynamism",  "balancing", "repack",    "vary",
        "alternatives", "uncertainty", "foresight", "sources",   "execution", "disturbance"};
    TRY(json_check_keys(root, keys, ANA_COUNT_OF(keys), reading->err));
    const json_value schema = json_member(root, "schema");
    const char *text = NULL;
    TRY(json_string(schema, &text, reading->err));
    if (strcmp(text, "dynmo-study/1") != 0) {
        return json_error(schema, STATUS_FORMAT, reading->err,
                          "'%.40s' is not 'dynmo-study/1', the schema that this version reads",
                          text);
    }
    TRY(ana_read_words(reading, json_member(root, "name"), &reading->study->name));
    TRY(refuse_axes(reading, root));
    TRY(read_costs(reading, root));
    TRY(ana_read_cluster(reading, json_member(root, "cluster")));
    TRY(ana_read_training(reading, json_member(root, "training")));
    TRY(ana_read_pipeline(reading, json_member(root, "pipeline")));
    TRY(ana_read_slow_ranks(reading, json_member(root, "cluster")));
    TRY(ana_read_disturbance(reading, json_member(root, "disturbance")));
    TRY(read_dynamism(reading, json_member(root, "dynamism")));
    reading->study->execution = json_member(root, "execution");
    reading->study->uncertainty = json_member(root, "uncertainty");
    TRY(ana_read_bool(reading, root, "", "foresight", &reading->study->foresight));
    TRY(ana_read_repack(reading, json_member(root, "repack"), "repack", &reading->study->repack));
    return ana_read_balancings(reading, root);
}

/// An origin that is said of nothing is a mistyped path.
static status check_sources(const ana_reading *reading)
{
    const ana_inputs *inputs = &reading->study->inputs;
    if (!json_is_missing(reading->sources) && !json_is_object(reading->sources)) {
        return json_error(reading->sources, STATUS_FORMAT, reading->err, "not an object");
    }
    json_value source = json_element(reading->sources, 0);
    for (; !json_is_missing(source); source = json_next(source)) {
        const char *path = json_key(source);
        const size_t length = strlen(path);
        bool known = false;
        for (int input = 0; input < inputs->count && !known; input++) {
            const char *name = inputs->entries[input].name;
            const bool begins = strncmp(name, path, length) == 0;
            known = begins && (name[length] == '\0' || name[length] == '.');
        }
        if (known) continue;
        return json_error(source, STATUS_FORMAT, reading->err,
                          "no value of the study whose origin can be said has this path");
    }
    return STATUS_OK;
}

/// What the command line puts in place of what a study says; NULL: as the study says.
typedef struct cost_override {
    const char *trace_path;
    const char *model;
    const char *hardware;
} cost_override;

static status read_whole(const ana_reading *reading, const cost_override *override)
{
    ana_study *study = reading->study;
    TRY(read_study(reading, json_root(study->document)));
    TRY(check_sources(reading));
    override_costs(study, override->trace_path, override->model, override->hardware);
    TRY(check_costs(study, reading->err));
    return STATUS_OK;
}

static status open_bytes(const char *path, const char *bytes, size_t length,
                         const cost_override *override, arena *memory, ana_study *study,
                         error_message *err)
{
    json_document *document = NULL;
    TRY(json_open_bytes(path, bytes, length, &document, err));
    const char *text = arena_string(memory, bytes);
    if (text == NULL) {
        json_close(document);
        return error_set(err, STATUS_NO_MEMORY, "out of memory");
    }
    *study = (ana_study){
        .path = path,
        .name = path,
        .text = text,
        .memory_bytes = -1,
        .price_per_gpu_hour = -1,
        .price_currency = "USD",
        .checkpoint_s = -1,
        .restart_s = -1,
        .intra_node = {.latency_ns = -1},
        .inter_node = {.latency_ns = -1},
        .parallel = {.data = 1, .tensor = 1, .expert = 1, .context = 1},
        .foresight = true,
        .repack = {.options = bal_repack_options_default()},
        .round_count = 1,
        .validation = {.plays_chain = true, .unclipped_count = ANA_UNCLIPPED_DEFAULT},
        .schedule = "zb-h1",
        .change_ratio = 0.25,
        .first_iteration = -1,
        .document = document,
    };
    const ana_reading reading = {study, memory, json_member(json_root(document), "sources"), err};
    const status result = read_whole(&reading, override);
    if (result != STATUS_OK) ana_study_close(study);
    return result;
}

status ana_study_open(const char *path, const char *trace_path, const char *model,
                      const char *hardware, arena *memory, ana_study *study, error_message *err)
{
    const cost_override override = {trace_path, model, hardware};
    char *bytes = NULL;
    size_t length = 0;
    TRY(file_read(path, STUDY_BYTES_MAX, &bytes, &length, err));
    const status result = open_bytes(path, bytes, length, &override, memory, study, err);
    free(bytes);
    return result;
}

status ana_study_open_text(const char *name, const char *text, arena *memory, ana_study *study,
                           error_message *err)
{
    const cost_override none = {0};
    const char *path = arena_string(memory, name);
    return open_bytes(path, text, strlen(text), &none, memory, study, err);
}

void ana_study_close(ana_study *study)
{
    json_close(study->document);
    study->document = NULL;
}
