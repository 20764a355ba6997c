/// Keys whose values are more than their type says, and checks of whole objects.
#define _XOPEN_SOURCE 700 // strptime

#include "analysis/study/study_keys.h"

#include "balance/schedule/schedule.h"
#include "base/file.h"
#include "models/shipped.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { BASE_CHANGES_MAX = 64, PATH_BYTES_MAX = 120 };

/// The origin of a value that the study gives: what "sources" says of its path or of an object
/// around it, else given.
static status origin_of(const ana_reading *reading, const char *path, model_origin_kind *origin)
{
    *origin = MODEL_ORIGIN_GIVEN;
    if (json_is_missing(reading->sources)) return STATUS_OK;
    char prefix[160];
    snprintf(prefix, sizeof prefix, "%s", path);
    json_value named = json_member(reading->sources, prefix);
    while (json_is_missing(named)) {
        char *dot = strrchr(prefix, '.');
        if (dot == NULL) return STATUS_OK;
        *dot = '\0';
        named = json_member(reading->sources, prefix);
    }
    const char *text = NULL;
    TRY(json_string(named, &text, reading->err));
    *origin = model_origin_kind_find(text);
    if (*origin != MODEL_ORIGIN_KIND_COUNT) return STATUS_OK;
    return json_error(named, STATUS_FORMAT, reading->err,
                      "'%.40s' is not one of given, measured, fitted, preset, assumed", text);
}

status ana_list_given(const ana_reading *reading, const char *path, const char *value)
{
    model_origin_kind origin;
    TRY(origin_of(reading, path, &origin));
    model_assume(&reading->study->inputs, arena_string(reading->memory, path), origin, NULL, "%s",
                 value);
    return STATUS_OK;
}

/// Axes are for `dynmo study`, which puts a value of each in their place before it reads a point.
ANA_READER(ana_refuse_axes)
{
    return json_error(value, STATUS_UNSUPPORTED, reading->err,
                      "has many runs for one; `dynmo study` plays them");
}

status ana_read_path(const ana_reading *reading, json_value value, const embedded_file *shipped,
                     const char **path)
{
    const char *text = NULL;
    TRY(json_string(value, &text, reading->err));
    const bool is_word = strchr(text, '/') == NULL && strchr(text, '.') == NULL;
    const bool is_name = shipped != NULL && (is_word || embedded_find(shipped, text) != NULL);
    *path = is_name ? text : file_path_beside(reading->study->path, text, reading->memory);
    return STATUS_OK;
}

ANA_READER(ana_read_trace)
{
    ana_study *study = record;
    if (!json_is_missing(json_member(study->root, "model"))) {
        return json_error(study->root, STATUS_FORMAT, reading->err,
                          "both 'trace' and 'model' are given; costs come from one of them");
    }
    if (json_is_string(value)) return ana_read_path(reading, value, NULL, &study->trace_path);
    return ana_read_keys(reading, value, "trace", path, study);
}

/// Lists every leaf of the changes of a file, one "path": value after the other.
static status list_changes(const ana_reading *reading, json_value object, const char *path,
                           const char *changes)
{
    json_value leaves;
    TRY(json_read_text(path, changes, reading->memory, &leaves, reading->err));
    if (json_count(leaves) > BASE_CHANGES_MAX) {
        return json_error(object, STATUS_FORMAT, reading->err, "changes more than %d values",
                          BASE_CHANGES_MAX);
    }
    for (json_value leaf = json_element(leaves, 0); leaf.node != NULL; leaf = json_next(leaf)) {
        text_buffer value = {.memory = reading->memory};
        char place[PATH_BYTES_MAX + 40];
        json_writer writer = json_writer_init(&value);
        json_put_value(&writer, NULL, leaf);
        snprintf(place, sizeof place, "%s.%s", path, json_key(leaf));
        if (strlen(json_key(leaf)) > PATH_BYTES_MAX) {
            return json_error(object, STATUS_FORMAT, reading->err, "the key '%.40s...' is too long",
                              json_key(leaf));
        }
        TRY(ana_list_given(reading, place, value.bytes));
    }
    return STATUS_OK;
}

/// Reads a file that is named, or an object {"base": file, ...} with other values at some of the
/// file's places, which are listed.
///
/// @param changes out: as json_change takes them; NULL: none
static status read_based_file(const ana_reading *reading, json_value value, const char *path,
                              const embedded_file *shipped, const char **file, const char **changes)
{
    if (!json_is_object(value)) return ana_read_path(reading, value, shipped, file);
    TRY(ana_read_path(reading, json_member(value, "base"), shipped, file));
    if (json_count(value) == 1) return STATUS_OK;
    text_buffer text = {.memory = reading->memory};
    json_writer writer = json_writer_init(&text);
    json_begin_object(&writer);
    json_value member = json_element(value, 0);
    for (; member.node != NULL; member = json_next(member)) {
        if (strcmp(json_key(member), "base") == 0) continue;
        json_put_leaves(&writer, json_key(member), member);
    }
    json_end_object(&writer);
    *changes = text.bytes;
    return list_changes(reading, value, path, text.bytes);
}

ANA_READER(ana_read_model)
{
    ana_study *study = record;
    return read_based_file(reading, value, path, model_shipped_configs, &study->model,
                           &study->model_changes);
}

ANA_READER(ana_read_hardware)
{
    ana_study *study = record;
    return read_based_file(reading, value, path, model_shipped_hardware, &study->hardware,
                           &study->hardware_changes);
}

/// The user's own price: none is known here, and one without its day is worth nothing.
ANA_READER(ana_check_cluster)
{
    const ana_study *study = record;
    const json_value price = json_member(value, "price_per_gpu_hour");
    struct tm day = {.tm_hour = 12};
    char again[16] = "";
    if (study->price_date != NULL) {
        const char *end = strptime(study->price_date, "%Y-%m-%d", &day);
        // What is no day becomes another.
        if (end != NULL && mktime(&day) != -1) strftime(again, sizeof again, "%Y-%m-%d", &day);
        if (strcmp(again, study->price_date) == 0) return STATUS_OK;
        return json_error(json_member(value, "price_date"), STATUS_FORMAT, reading->err,
                          "'%.40s' is no day, as 2026-11-22", study->price_date);
    }
    if (json_is_missing(price)) return STATUS_OK;
    return json_error(price, STATUS_FORMAT, reading->err,
                      "needs 'price_date', the day on which it was asked for");
}

/// From the last iteration, as the file has it, to the one after it.
static status end_after(const ana_reading *reading, json_value value, int from, int *end)
{
    if (*end < from) {
        return json_error(value, STATUS_FORMAT, reading->err,
                          "ends at iteration %d, before it begins at %d", *end, from);
    }
    ++*end;
    return STATUS_OK;
}

ANA_READER(ana_add_slow_rank)
{
    bal_slow_rank *slow = record;
    ana_study *study = reading->study;
    TRY(end_after(reading, value, slow->first_iteration, &slow->end_iteration));
    slow->time_factor = 1 / slow->time_factor; // of a speed, as the file has it
    study->slow_ranks[study->run.slow_rank_count++] = *slow;
    return STATUS_OK;
}

/// The two ranks of {"between": [rank, rank]}.
ANA_READER(ana_read_between)
{
    bal_disturbed_link *link = record;
    int64_t wide[2];
    char text[48];
    if (!json_is_missing(value) && (!json_is_array(value) || json_count(value) != 2)) {
        return json_error(value, STATUS_FORMAT, reading->err, "needs two ranks");
    }
    TRY(json_int64_array(value, 2, 0, reading->study->stage_count - 1, wide, reading->err));
    if (wide[0] == wide[1]) {
        return json_error(value, STATUS_FORMAT, reading->err, "rank %" PRId64 " to itself",
                          wide[0]);
    }
    link->rank = (int)wide[0];
    link->other_rank = (int)wide[1];
    snprintf(text, sizeof text, "ranks %d and %d", link->rank, link->other_rank);
    return ana_list_given(reading, path, text);
}

/// [layers, ...], a number for each stage.
ANA_READER(ana_read_split)
{
    ana_study *study = reading->study;
    const int count = json_count(value);
    if (json_is_missing(value)) return STATUS_OK;
    if (!json_is_array(value) || count < 1 || count > BAL_RANKS_MAX * BAL_CHUNKS_MAX) {
        return json_error(value, STATUS_FORMAT, reading->err,
                          "needs the transformer layers of each stage, as [8, 8, 8, 8]");
    }
    int64_t *layers = arena_array(reading->memory, (size_t)count, sizeof *layers);
    TRY(json_int64_array(value, count, 0, BAL_LAYERS_MAX, layers, reading->err));
    study->layers_per_stage = layers;
    study->layers_per_stage_count = count;
    text_buffer text = {.memory = reading->memory};
    for (int stage = 0; stage < count; stage++) {
        text_format(&text, "%s%" PRId64, stage > 0 ? " " : "", layers[stage]);
    }
    return ana_list_given(reading, path, text.bytes);
}

ANA_READER(ana_add_disturbed_link)
{
    bal_disturbed_link *link = record;
    ana_study *study = reading->study;
    TRY(end_after(reading, value, link->first_iteration, &link->end_iteration));
    study->run.disturbance.links = study->disturbed_links;
    study->disturbed_links[study->run.disturbance.link_count++] = *link;
    return STATUS_OK;
}

/// The batch of an iteration is given in microbatches of each replica or in sequences of all.
ANA_READER(ana_check_training)
{
    const ana_study *study = record;
    if (study->microbatch_count == 0 || study->global_batch == 0) return STATUS_OK;
    return json_error(json_member(value, "global_batch"), STATUS_FORMAT, reading->err,
                      "both 'microbatches' and 'global_batch' are given; one follows from the "
                      "other");
}

/// A number of replicas, or "fill": as many as the cluster's GPUs make.
ANA_READER(ana_read_replicas)
{
    char text[48] = "fill";
    int *replicas = record;
    ana_study *study = reading->study;
    const char *word = NULL;
    if (json_is_string(value)) {
        TRY(json_string(value, &word, reading->err));
        if (strcmp(word, text) != 0) {
            return json_error(value, STATUS_FORMAT, reading->err, "'%.40s' is not one of fill",
                              word);
        }
        study->fills_cluster = true;
        TRY(ana_list_given(reading, path, text));
        if (study->gpu_count > 0) return STATUS_OK;
        return json_error(value, STATUS_FORMAT, reading->err,
                          "'fill' needs cluster.gpus, the GPUs that replicas are made of");
    }
    TRY(json_int(value, 1, MODEL_DEGREE_MAX, replicas, reading->err));
    snprintf(text, sizeof text, "%d replicas", *replicas);
    return ana_list_given(reading, path, text);
}

ANA_READER(ana_read_schedule)
{
    const char **schedule = record;
    const char *text = NULL;
    TRY(json_string(value, &text, reading->err));
    const bal_schedule_family *family = bal_schedule_family_find(text);
    if (family == NULL) {
        char suggestion[TEXT_SUGGESTION_BYTES];
        return json_error(value, STATUS_FORMAT, reading->err, "unknown schedule '%.40s'%s", text,
                          bal_schedule_suggestion(text, suggestion));
    }
    if (family->placement == BAL_PLACEMENT_BIDIRECTIONAL) {
        return json_error(value, STATUS_FORMAT, reading->err,
                          "%s keeps two copies of the weights, which studies do not; dynmo "
                          "schedule plays it",
                          family->name);
    }
    *schedule = family->name;
    reading->study->schedule_is_given = true;
    return STATUS_OK;
}

ANA_READER(ana_read_replay)
{
    const char *text = NULL;
    TRY(json_string(value, &text, reading->err));
    if (strcmp(text, "static") == 0) return STATUS_OK;
    return json_error(value, STATUS_UNSUPPORTED, reading->err,
                      "a training replay plays the order as compiled ('static'), not '%.40s'",
                      text);
}

/// The slow ranks of the cluster, now that it is known which ranks there are.
ANA_READER(ana_check_pipeline)
{
    const ana_study *study = record;
    const json_value cluster = json_member(study->root, "cluster");
    return ana_read_late_key(reading, json_member(cluster, "slow_ranks"), "cluster.slow_ranks");
}

/// The case's own parameters are checked with the costs that it is put over.
ANA_READER(ana_read_dynamism)
{
    ana_study *study = record;
    const json_value change_ratio = json_member(value, "change_ratio");
    if (json_is_missing(json_member(value, "case"))) {
        return ana_read_keys(reading, value, "dynamism", path, study);
    }
    study->dynamism = value;
    if (json_is_missing(change_ratio)) return STATUS_OK;
    return json_error(change_ratio, STATUS_FORMAT, reading->err,
                      "a case announces its changes; only those of a trace are detected");
}

ANA_READER(ana_read_value)
{
    if (!json_is_object(value)) {
        return json_error(value, STATUS_FORMAT, reading->err, "needs an object");
    }
    *(json_value *)record = value;
    return STATUS_OK;
}
