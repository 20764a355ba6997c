#include "analysis/study.h"

#include "balance/schedule.h"
#include "base/file.h"
#include "models/shipped.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof(array)[0]))

enum {
    STUDY_BYTES_MAX = 16 << 20,
    WORDS_BYTES_MAX = 100,
    ITERATIONS_MAX = 100000000,
    LAYER_LENGTH_MAX = 1 << 24
};

void ana_inputs_add(ana_inputs *inputs, arena *memory, const char *name, model_origin_kind origin,
                    const char *format, ...)
{
    assert(inputs->count < ANA_INPUTS_MAX);
    char value[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    const char *name_copy = arena_string(memory, name);
    const char *value_copy = arena_string(memory, value);
    if (name_copy == NULL || value_copy == NULL) {
        inputs->failed = true;
        return;
    }
    inputs->entries[inputs->count++] = (ana_input){name_copy, value_copy, origin};
}

/// What the functions below share while one file is read.
typedef struct reading {
    ana_study *study;
    arena *memory;
    json_value sources; // "sources" of the study: path -> origin
    error_message *err;
} reading;

/// The origin of a value that the study gives: what "sources" says of its path or of an object
/// around it, else given.
static status origin_of(const reading *state, const char *path, model_origin_kind *origin)
{
    *origin = MODEL_ORIGIN_GIVEN;
    char prefix[128];
    snprintf(prefix, sizeof prefix, "%s", path);
    json_value named = json_member(state->sources, prefix);
    while (json_is_missing(named)) {
        char *dot = strrchr(prefix, '.');
        if (dot == NULL) return STATUS_OK;
        *dot = '\0';
        named = json_member(state->sources, prefix);
    }
    const char *text = NULL;
    TRY(json_string(named, &text, state->err));
    *origin = model_origin_kind_find(text);
    if (*origin != MODEL_ORIGIN_KIND_COUNT) return STATUS_OK;
    return json_error(named, STATUS_FORMAT, state->err,
                      "'%.40s' is not one of given, measured, fitted, preset, assumed", text);
}

static status add_given(const reading *state, const char *path, int64_t value, const char *unit)
{
    model_origin_kind origin;
    TRY(origin_of(state, path, &origin));
    ana_inputs_add(&state->study->inputs, state->memory, path, origin, "%" PRId64 "%s%s", value,
                   unit[0] != '\0' ? " " : "", unit);
    return STATUS_OK;
}

/// Reads an integer member if it is there; the path names it among the inputs.
static status read_int64(const reading *state, json_value object, const char *section,
                         const char *key, const char *unit, int64_t min, int64_t max,
                         int64_t *value)
{
    const json_value member = json_member(object, key);
    if (json_is_missing(member)) return STATUS_OK;
    TRY(json_int64(member, min, max, value, state->err));
    char path[128];
    snprintf(path, sizeof path, "%s.%s", section, key);
    return add_given(state, path, *value, unit);
}

static status read_int(const reading *state, json_value object, const char *section,
                       const char *key, const char *unit, int min, int max, int *value)
{
    int64_t wide = *value;
    TRY(read_int64(state, object, section, key, unit, min, max, &wide));
    *value = (int)wide;
    return STATUS_OK;
}

/// A path in the file, made relative to the file's folder. NULL if out of memory.
static const char *path_beside(const reading *state, const char *path)
{
    const char *slash = strrchr(state->study->path, '/');
    if (path[0] == '/' || slash == NULL || strcmp(state->study->path, "-") == 0) return path;
    const size_t folder = (size_t)(slash + 1 - state->study->path);
    char *joined = arena_array(state->memory, folder + strlen(path) + 1, 1);
    if (joined == NULL) return NULL;
    memcpy(joined, state->study->path, folder);
    memcpy(joined + folder, path, strlen(path) + 1);
    return joined;
}

/// @param shipped files that can be meant by their names, or NULL: there are none
static status read_path(const reading *state, json_value value, const embedded_file *shipped,
                        const char **path)
{
    const char *text = NULL;
    TRY(json_string(value, &text, state->err));
    const bool is_word = strchr(text, '/') == NULL && strchr(text, '.') == NULL;
    const bool is_name = shipped != NULL && (is_word || embedded_find(shipped, text) != NULL);
    *path = is_name ? text : path_beside(state, text);
    return *path != NULL ? STATUS_OK : error_set(state->err, STATUS_NO_MEMORY, "out of memory");
}

static status read_trace(const reading *state, json_value trace)
{
    static const char *const keys[] = {"store", "name", "first_iteration"};
    if (json_is_string(trace)) return read_path(state, trace, NULL, &state->study->trace_path);
    TRY(json_check_keys(trace, keys, COUNT_OF(keys), state->err));
    TRY(read_path(state, json_member(trace, "store"), NULL, &state->study->trace_path));
    TRY(read_int(state, trace, "trace", "first_iteration", "", 0, ITERATIONS_MAX,
                 &state->study->first_iteration));
    const json_value name = json_member(trace, "name");
    return json_is_missing(name) ? STATUS_OK
                                 : json_string(name, &state->study->trace_name, state->err);
}

static status read_costs(const reading *state, json_value root)
{
    ana_study *study = state->study;
    const json_value trace = json_member(root, "trace");
    const json_value model = json_member(root, "model");
    const json_value hardware = json_member(root, "hardware");
    if (!json_is_missing(trace) && !json_is_missing(model)) {
        return json_error(root, STATUS_FORMAT, state->err,
                          "both 'trace' and 'model' are given; costs come from one of them");
    }
    if (!json_is_missing(trace)) TRY(read_trace(state, trace));
    if (!json_is_missing(model)) TRY(read_path(state, model, model_shipped_configs, &study->model));
    if (!json_is_missing(hardware))
        TRY(read_path(state, hardware, model_shipped_hardware, &study->hardware));
    return STATUS_OK;
}

/// Forgets what the study said of its trace, when a model takes its place.
static void drop_trace(ana_study *study)
{
    int kept = 0;
    for (int input = 0; input < study->inputs.count; input++) {
        if (strncmp(study->inputs.entries[input].name, "trace.", 6) == 0) continue;
        study->inputs.entries[kept++] = study->inputs.entries[input];
    }
    study->inputs.count = kept;
    study->trace_path = NULL;
    study->trace_name = NULL;
    study->first_iteration = -1;
}

static void override_costs(ana_study *study, const char *trace_path, const char *model,
                           const char *hardware)
{
    if (hardware != NULL) study->hardware = hardware;
    if (model != NULL) {
        drop_trace(study);
        study->model = model;
    }
    if (trace_path != NULL) {
        study->trace_path = trace_path;
        study->trace_name = NULL;
        study->model = NULL;
    }
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
    return STATUS_OK;
}

static status read_link(const reading *state, json_value links, const char *key, bal_link *link)
{
    static const char *const keys[] = {"latency_ns", "bytes_per_s"};
    const json_value object = json_member(links, key);
    if (json_is_missing(object)) return STATUS_OK;
    TRY(json_check_keys(object, keys, COUNT_OF(keys), state->err));
    for (int key_index = 0; key_index < COUNT_OF(keys); key_index++) {
        const json_value half = json_member(object, keys[key_index]);
        if (json_is_missing(half)) {
            return json_error(half, STATUS_FORMAT, state->err,
                              "missing; a link needs latency_ns and bytes_per_s");
        }
    }
    char section[64];
    snprintf(section, sizeof section, "cluster.links.%s", key);
    link->latency_ns = 0;
    TRY(read_int64(state, object, section, "latency_ns", "ns", 0, INT64_C(1000000000000),
                   &link->latency_ns));
    return read_int64(state, object, section, "bytes_per_s", "B/s", 1, INT64_C(1000000000000000),
                      &link->bytes_per_s);
}

static status read_cluster(const reading *state, json_value cluster)
{
    static const char *const keys[] = {"nodes", "gpus_per_node", "memory_bytes", "links"};
    static const char *const link_keys[] = {"intra", "inter"};
    ana_study *study = state->study;
    if (json_is_missing(cluster)) return STATUS_OK;
    TRY(json_check_keys(cluster, keys, COUNT_OF(keys), state->err));
    int nodes = 0;
    TRY(read_int(state, cluster, "cluster", "nodes", "", 1, 1 << 20, &nodes));
    TRY(read_int(state, cluster, "cluster", "gpus_per_node", "", 1, 1 << 16,
                 &study->gpus_per_node));
    TRY(read_int64(state, cluster, "cluster", "memory_bytes", "B", 0, JSON_INTEGER_MAX,
                   &study->memory_bytes));
    const json_value links = json_member(cluster, "links");
    if (json_is_missing(links)) return STATUS_OK;
    TRY(json_check_keys(links, link_keys, COUNT_OF(link_keys), state->err));
    TRY(read_link(state, links, "intra", &study->intra_node));
    return read_link(state, links, "inter", &study->inter_node);
}

static status check_cluster_size(const reading *state, json_value cluster)
{
    const json_value nodes = json_member(cluster, "nodes");
    const ana_study *study = state->study;
    if (json_is_missing(nodes) || study->gpus_per_node == 0) return STATUS_OK;
    int node_count = 0;
    TRY(json_int(nodes, 1, 1 << 20, &node_count, state->err));
    const int64_t gpus = (int64_t)node_count * study->gpus_per_node;
    const int64_t needed = (int64_t)study->stage_count * study->data_parallel;
    if (needed > gpus) {
        return json_error(nodes, STATUS_INFEASIBLE, state->err,
                          "%d stages x %d replicas need %" PRId64 " GPUs, the cluster has %" PRId64,
                          study->stage_count, study->data_parallel, needed, gpus);
    }
    return STATUS_OK;
}

static status read_step(const reading *state, json_value training)
{
    const json_value step = json_member(training, "step");
    if (json_is_missing(step)) return STATUS_OK;
    const char *text = NULL;
    TRY(json_string(step, &text, state->err));
    if (strcmp(text, "barrier") != 0 && strcmp(text, "post-validation") != 0) {
        return json_error(step, STATUS_FORMAT, state->err,
                          "'%.40s' is not one of barrier, post-validation", text);
    }
    state->study->post_validation = strcmp(text, "post-validation") == 0;
    return STATUS_OK;
}

static status read_training(const reading *state, json_value training)
{
    static const char *const keys[] = {
        "iterations",    "sequence_length", "microbatch_size",   "microbatches",
        "data_parallel", "decision_ns",     "optimizer_step_ns", "state_bytes_per_parameter",
        "step"};
    const char *const section = "training";
    ana_study *study = state->study;
    if (json_is_missing(training)) return STATUS_OK;
    TRY(json_check_keys(training, keys, COUNT_OF(keys), state->err));
    TRY(read_int(state, training, section, "iterations", "", 1, ITERATIONS_MAX,
                 &study->iteration_count));
    TRY(read_int(state, training, section, "sequence_length", "tokens", 1, LAYER_LENGTH_MAX,
                 &study->sequence_length));
    TRY(read_int(state, training, section, "microbatch_size", "sequences", 1, 1 << 20,
                 &study->microbatch_size));
    TRY(read_int(state, training, section, "microbatches", "", 1, BAL_MICROBATCHES_MAX,
                 &study->microbatch_count));
    TRY(read_int(state, training, section, "data_parallel", "replicas", 1, 1 << 20,
                 &study->data_parallel));
    TRY(read_int64(state, training, section, "decision_ns", "ns", 0, INT64_C(1000000000000),
                   &study->decision_ns));
    TRY(read_int64(state, training, section, "optimizer_step_ns", "ns", 0, INT64_C(1000000000000),
                   &study->optimizer_step_ns));
    TRY(read_int(state, training, section, "state_bytes_per_parameter", "B", 1, 64,
                 &study->state_bytes_per_parameter));
    return read_step(state, training);
}

static status read_schedule_name(const reading *state, json_value name)
{
    if (json_is_missing(name)) return STATUS_OK;
    const char *text = NULL;
    TRY(json_string(name, &text, state->err));
    const bal_schedule_family *family = bal_schedule_family_find(text);
    if (family == NULL) {
        char suggestion[TEXT_SUGGESTION_BYTES];
        return json_error(name, STATUS_FORMAT, state->err, "unknown schedule '%.40s'%s", text,
                          bal_schedule_suggestion(text, suggestion));
    }
    state->study->schedule = family->name;
    return STATUS_OK;
}

static status read_pipeline(const reading *state, json_value pipeline)
{
    static const char *const keys[] = {"stages", "chunks", "schedule", "policy"};
    ana_study *study = state->study;
    TRY(json_check_keys(pipeline, keys, COUNT_OF(keys), state->err));
    TRY(read_int(state, pipeline, "pipeline", "stages", "", 1, BAL_RANKS_MAX, &study->stage_count));
    if (study->stage_count == 0) {
        return json_error(pipeline, STATUS_FORMAT, state->err, "'stages' is missing");
    }
    TRY(read_int(state, pipeline, "pipeline", "chunks", "", 1, BAL_CHUNKS_MAX,
                 &study->chunk_count));
    TRY(read_schedule_name(state, json_member(pipeline, "schedule")));
    const json_value policy = json_member(pipeline, "policy");
    if (json_is_missing(policy)) return STATUS_OK;
    const char *text = NULL;
    TRY(json_string(policy, &text, state->err));
    if (strcmp(text, "static") != 0) {
        return json_error(policy, STATUS_UNSUPPORTED, state->err,
                          "a training replay plays the order as compiled ('static'), not '%.40s'",
                          text);
    }
    return STATUS_OK;
}

static status read_dynamism(const reading *state, json_value dynamism)
{
    static const char *const keys[] = {"change_ratio"};
    if (json_is_missing(dynamism)) return STATUS_OK;
    if (!json_is_missing(json_member(dynamism, "case"))) {
        return json_error(json_member(dynamism, "case"), STATUS_UNSUPPORTED, state->err,
                          "generated cases are not in this version; record a trace instead");
    }
    TRY(json_check_keys(dynamism, keys, COUNT_OF(keys), state->err));
    return json_double(json_member(dynamism, "change_ratio"), 0.001, 1000,
                       &state->study->change_ratio, state->err);
}

static status read_weight(const reading *state, json_value by, bal_weight *weight)
{
    if (json_is_missing(by)) return STATUS_OK;
    const char *text = NULL;
    TRY(json_string(by, &text, state->err));
    for (int known = 0; known < BAL_WEIGHT_COUNT; known++) {
        if (strcmp(text, bal_weight_names[known]) == 0) {
            *weight = (bal_weight)known;
            return STATUS_OK;
        }
    }
    return json_error(by, STATUS_FORMAT, state->err,
                      "'%.40s' is not one of time, parameters, time+transfer", text);
}

static status find_balancer(const reading *state, json_value name, const bal_balancer **balancer)
{
    const char *text = NULL;
    TRY(json_string(name, &text, state->err));
    *balancer = bal_balancer_find(text);
    if (*balancer != NULL) return STATUS_OK;
    char suggestion[TEXT_SUGGESTION_BYTES];
    return json_error(name, STATUS_FORMAT, state->err, "unknown balancer '%.40s'%s", text,
                      bal_balancer_suggestion(text, suggestion));
}

/// "partition on-change", with the weight where it is not the balancer's own.
static const char *label_of(const ana_balancing *row, arena *memory)
{
    char policy[32];
    bal_policy_name(row->policy, policy);
    const bool own = row->weight == row->balancer->weight;
    const bool never = row->policy.kind == BAL_POLICY_NEVER;
    char label[128];
    snprintf(label, sizeof label, "%s%s%s%s%s", row->balancer->name, own ? "" : " by ",
             own ? "" : bal_weight_names[row->weight], never ? "" : " ", never ? "" : policy);
    return arena_string(memory, label);
}

static status add_balancing(const reading *state, json_value place, ana_balancing row)
{
    ana_study *study = state->study;
    if (row.label == NULL) row.label = label_of(&row, state->memory);
    if (row.label == NULL) return error_set(state->err, STATUS_NO_MEMORY, "out of memory");
    for (int other = 0; other < study->balancing_count; other++) {
        if (strcmp(study->balancings[other].label, row.label) == 0) {
            return json_error(place, STATUS_FORMAT, state->err,
                              "the label '%.60s' is used twice; give one of them a 'label'",
                              row.label);
        }
    }
    study->balancings[study->balancing_count++] = row;
    return STATUS_OK;
}

/// A name for people: it stands in tables, in the store and in pictures.
static status read_words(const reading *state, json_value value, const char **words)
{
    const char *text = NULL;
    if (json_is_missing(value)) return STATUS_OK;
    TRY(json_string(value, &text, state->err));
    const size_t length = strlen(text);
    if (length < 1 || length > WORDS_BYTES_MAX) {
        return json_error(value, STATUS_FORMAT, state->err, "has %zu bytes, needs 1 to %d", length,
                          WORDS_BYTES_MAX);
    }
    for (const char *c = text; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ') {
            return json_error(value, STATUS_FORMAT, state->err, "holds control character %d", *c);
        }
    }
    *words = text;
    return STATUS_OK;
}

static status read_balancing(const reading *state, json_value object)
{
    static const char *const keys[] = {"balancer", "policy", "by", "label"};
    ana_balancing row = {0};
    TRY(json_check_keys(object, keys, COUNT_OF(keys), state->err));
    TRY(find_balancer(state, json_member(object, "balancer"), &row.balancer));
    row.weight = row.balancer->weight;
    TRY(read_weight(state, json_member(object, "by"), &row.weight));
    const json_value policy = json_member(object, "policy");
    if (!json_is_missing(policy)) {
        const char *text = NULL;
        TRY(json_string(policy, &text, state->err));
        error_message inner = {0};
        if (bal_policy_parse(text, &row.policy, &inner) != STATUS_OK) {
            return json_error(policy, STATUS_FORMAT, state->err, "%s", inner.message);
        }
        if (row.balancer->is_static && row.policy.kind != BAL_POLICY_NEVER) {
            return json_error(policy, STATUS_FORMAT, state->err,
                              "'%s' decides once; its policy can only be never",
                              row.balancer->name);
        }
    }
    TRY(read_words(state, json_member(object, "label"), &row.label));
    return add_balancing(state, object, row);
}

/// What is compared when the study does not say.
static status default_balancings(const reading *state, json_value root)
{
    static const char *const dynamic[] = {"diffusion", "partition", "makespan"};
    static const char *const still[] = {"even", "tuned"};
    for (int index = 0; index < COUNT_OF(still); index++) {
        const bal_balancer *balancer = bal_balancer_find(still[index]);
        TRY(add_balancing(state, root,
                          (ana_balancing){.balancer = balancer, .weight = balancer->weight}));
    }
    for (int index = 0; index < COUNT_OF(dynamic); index++) {
        const bal_balancer *balancer = bal_balancer_find(dynamic[index]);
        TRY(add_balancing(state, root,
                          (ana_balancing){.balancer = balancer,
                                          .weight = balancer->weight,
                                          .policy = {.kind = BAL_POLICY_ON_CHANGE}}));
    }
    return STATUS_OK;
}

static status read_balancings(const reading *state, json_value root)
{
    const json_value balancing = json_member(root, "balancing");
    if (json_is_missing(balancing)) return default_balancings(state, root);
    const int count = json_count(balancing);
    if (!json_is_array(balancing) || count < 1 || count > ANA_BALANCINGS_MAX) {
        return json_error(balancing, STATUS_FORMAT, state->err, "needs an array of 1 to %d entries",
                          ANA_BALANCINGS_MAX);
    }
    for (int index = 0; index < count; index++) {
        TRY(read_balancing(state, json_element(balancing, index)));
    }
    return STATUS_OK;
}

static status refuse_other_parts(const reading *state, json_value root)
{
    static const char *const later[] = {"repack", "vary"};
    for (int index = 0; index < COUNT_OF(later); index++) {
        const json_value part = json_member(root, later[index]);
        if (!json_is_missing(part)) {
            return json_error(part, STATUS_UNSUPPORTED, state->err,
                              "`dynmo simulate` of this version does not play it");
        }
    }
    return STATUS_OK;
}

static status read_study(const reading *state, json_value root)
{
    static const char *const keys[] = {"schema",  "name",     "trace",    "model",    "hardware",
                                       "cluster", "training", "pipeline", "dynamism", "balancing",
                                       "repack",  "vary",     "sources"};
    TRY(json_check_keys(root, keys, COUNT_OF(keys), state->err));
    const json_value schema = json_member(root, "schema");
    const char *text = NULL;
    TRY(json_string(schema, &text, state->err));
    if (strcmp(text, "dynmo-study/1") != 0) {
        return json_error(schema, STATUS_FORMAT, state->err,
                          "'%.40s' is not 'dynmo-study/1', the schema that this version reads",
                          text);
    }
    TRY(read_words(state, json_member(root, "name"), &state->study->name));
    TRY(refuse_other_parts(state, root));
    TRY(read_costs(state, root));
    TRY(read_cluster(state, json_member(root, "cluster")));
    TRY(read_training(state, json_member(root, "training")));
    TRY(read_pipeline(state, json_member(root, "pipeline")));
    TRY(check_cluster_size(state, json_member(root, "cluster")));
    TRY(read_dynamism(state, json_member(root, "dynamism")));
    return read_balancings(state, root);
}

status ana_study_open(const char *path, const char *trace_path, const char *model,
                      const char *hardware, arena *memory, ana_study *study, error_message *err)
{
    json_document *document = NULL;
    char *bytes = NULL;
    size_t length = 0;
    TRY(file_read(path, STUDY_BYTES_MAX, &bytes, &length, err));
    const char *text = arena_string(memory, bytes);
    const status opened = json_open_bytes(path, bytes, length, &document, err);
    free(bytes);
    TRY(opened);
    if (text == NULL) {
        json_close(document);
        return error_set(err, STATUS_NO_MEMORY, "out of memory");
    }
    *study = (ana_study){
        .path = path,
        .name = path,
        .text = text,
        .memory_bytes = -1,
        .intra_node = {.latency_ns = -1},
        .inter_node = {.latency_ns = -1},
        .data_parallel = 1,
        .schedule = "zb-h1",
        .change_ratio = 0.25,
        .first_iteration = -1,
        .document = document,
    };
    const json_value root = json_root(document);
    const reading state = {study, memory, json_member(root, "sources"), err};
    status result = read_study(&state, root);
    if (result == STATUS_OK) {
        override_costs(study, trace_path, model, hardware);
        result = check_costs(study, err);
    }
    if (result == STATUS_OK && study->inputs.failed) {
        result = error_set(err, STATUS_NO_MEMORY, "out of memory");
    }
    if (result != STATUS_OK) ana_study_close(study);
    return result;
}

void ana_study_close(ana_study *study)
{
    json_close(study->document);
    study->document = NULL;
}
