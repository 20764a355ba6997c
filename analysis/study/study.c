#include "analysis/study/study.h"

#include "analysis/study/study_keys.h"
#include "base/file.h"

#include <stdlib.h>
#include <string.h>

enum { STUDY_BYTES_MAX = 16 << 20 };

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
    return ana_study_check_costs(study, err);
}

static status check_schema(const ana_reading *reading, json_value schema)
{
    const char *text = NULL;
    TRY(json_string(schema, &text, reading->err));
    if (strcmp(text, "dynmo-study/1") == 0) return STATUS_OK;
    return json_error(schema, STATUS_FORMAT, reading->err,
                      "'%.40s' is not 'dynmo-study/1', the schema that this version reads", text);
}

/// An origin that is said of nothing is a mistyped path.
static status check_sources(const ana_reading *reading)
{
    const model_assumption_list *inputs = &reading->study->inputs;
    if (!json_is_missing(reading->sources) && !json_is_object(reading->sources)) {
        return json_error(reading->sources, STATUS_FORMAT, reading->err, "not an object");
    }
    json_value source = json_element(reading->sources, 0);
    for (; !json_is_missing(source); source = json_next(source)) {
        const char *path = json_key(source);
        const size_t length = strlen(path);
        bool known = false;
        for (int input = 0; input < inputs->count && !known; input++) {
            const char *name = inputs->rows[input].name;
            const bool begins = strncmp(name, path, length) == 0;
            known = begins && (name[length] == '\0' || name[length] == '.');
        }
        if (known) continue;
        return json_error(source, STATUS_FORMAT, reading->err,
                          "no value of the study whose origin can be said has this path");
    }
    return STATUS_OK;
}

static status read_whole(const ana_reading *reading, const char *trace_path)
{
    ana_study *study = reading->study;
    TRY(check_schema(reading, json_member(study->root, "schema")));
    TRY(ana_read_keys(reading, study->root, "", "", study));
    TRY(check_sources(reading));
    if (trace_path != NULL) {
        study->trace_path = trace_path;
        study->trace_name = NULL;
        study->model = NULL;
    }
    return check_costs(study, reading->err);
}

/// Makes a study of which nothing has been read.
static void begin(const char *path, const char *text, json_value root, arena *memory,
                  ana_study *study)
{
    *study = (ana_study){
        .path = path,
        .name = path,
        .text = text,
        .repack = {.options = bal_repack_options_default()},
        .inputs = {.memory = memory},
        .root = root,
    };
    ana_study_keys_init("", study);
}

/// Reads a document, which closes with memory.
static status read_document(const char *path, const char *text, json_document *document,
                            const char *trace_path, arena *memory, ana_study *study,
                            error_message *err)
{
    begin(path, text, json_keep(document, memory), memory, study);
    const ana_reading reading = {study, memory, json_member(study->root, "sources"), err};
    return read_whole(&reading, trace_path);
}

status ana_study_open(const char *path, const char *trace_path, arena *memory, ana_study *study,
                      error_message *err)
{
    char *bytes = NULL;
    size_t length = 0;
    json_document *document = NULL;
    TRY(file_read(path, STUDY_BYTES_MAX, &bytes, &length, err));
    arena_own(memory, bytes, free);
    TRY(json_open_bytes(path, bytes, length, &document, err));
    return read_document(path, bytes, document, trace_path, memory, study, err);
}

status ana_study_open_text(const char *name, const char *text, const char *changes, arena *memory,
                           ana_study *study, error_message *err)
{
    json_document *document = NULL;
    TRY(json_open_changed(name, text, changes, &document, err));
    return read_document(arena_string(memory, name), arena_string(memory, text), document, NULL,
                         memory, study, err);
}

status ana_study_open_document(const char *name, json_document *document, arena *memory,
                               ana_study *study, error_message *err)
{
    begin(name, "", json_root(document), memory, study);
    study->inputs.has_names_only = true;
    const ana_reading reading = {study, memory, json_member(study->root, "sources"), err};
    return read_whole(&reading, NULL);
}
