#include "analysis/shards/kept_inputs.h"

#include "base/file.h"
#include "base/json.h"
#include "traces/store/catalog.h"

#include <string.h>
#include <sys/stat.h>

typedef struct finding {
    const char *path;
    trace_store *store;
    arena *memory;
    trace_input_file *files; // [count]
    int count;
    int capacity;
} finding;

/// Whether both are one file.
static bool is_same_file(const char *path, const char *other)
{
    struct stat about;
    struct stat about_other;
    return stat(path, &about) == 0 && stat(other, &about_other) == 0 &&
           about.st_dev == about_other.st_dev && about.st_ino == about_other.st_ino;
}

/// What the traces of the store are, whatever else is written beside them.
static status hash_traces(finding *all, trace_input_file *file, error_message *err)
{
    trace_info *traces = NULL;
    int count = 0;
    TRY(trace_list(all->store, all->memory, &traces, &count, err));
    file->hash = FILE_HASH_START;
    for (int trace = 0; trace < count; trace++) {
        const trace_info *info = &traces[trace];
        file->hash = file_hash(file->hash, info->name, strlen(info->name) + 1);
        file->hash = file_hash(file->hash, info->imported_at, strlen(info->imported_at) + 1);
        file->hash = file_hash(file->hash, &info->iteration_count, sizeof info->iteration_count);
    }
    return STATUS_OK;
}

static status add_file(finding *all, const char *path, error_message *err)
{
    for (int file = 0; file < all->count; file++) {
        if (strcmp(all->files[file].path, path) == 0) return STATUS_OK;
    }
    if (all->count == all->capacity) {
        const int capacity = all->capacity == 0 ? 8 : 2 * all->capacity;
        trace_input_file *grown = arena_array(all->memory, (size_t)capacity, sizeof *grown);
        if (all->count > 0) memcpy(grown, all->files, (size_t)all->count * sizeof *grown);
        all->files = grown;
        all->capacity = capacity;
    }
    trace_input_file *file = &all->files[all->count++];
    *file = (trace_input_file){.path = arena_string(all->memory, path)}; // path may lie in the JSON
    if (all->store != NULL && is_same_file(path, trace_store_path(all->store))) {
        return hash_traces(all, file, err);
    }
    return file_hash_path(path, &file->bytes, &file->hash, err);
}

/// Adds the file that a text names, if it does.
static status look_at(finding *all, json_value value, error_message *err)
{
    const char *text = NULL;
    struct stat about;
    if (!json_is_string(value)) return STATUS_OK;
    TRY(json_string(value, &text, err));
    if (text[0] == '\0' || strcmp(text, "-") == 0) return STATUS_OK;
    const char *path = file_path_beside(all->path, text, all->memory);
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode)) return STATUS_OK;
    return add_file(all, path, err);
}

/// Goes through all values, those inside others included.
static status look_at_all(finding *all, json_value root, error_message *err)
{
    json_value values[JSON_DEPTH_MAX + 1] = {root}; // the one at hand and those around it
    int depth = 0;
    for (;;) {
        TRY(look_at(all, values[depth], err));
        if (json_count(values[depth]) > 0) {
            values[depth + 1] = json_element(values[depth], 0);
            depth++;
            continue;
        }
        while (depth > 0 && json_next(values[depth]).node == NULL) {
            depth--;
        }
        if (depth == 0) return STATUS_OK;
        values[depth] = json_next(values[depth]);
    }
}

status ana_kept_inputs_find(const char *path, const char *json, trace_store *store, arena *memory,
                            trace_input_file **files, int *count, error_message *err)
{
    json_document *document = NULL;
    finding all = {.path = path, .store = store, .memory = memory};
    struct stat about;
    TRY(json_open_bytes(path != NULL ? path : "settings", json, strlen(json), &document, err));
    status code = STATUS_OK;
    if (path != NULL && stat(path, &about) == 0 && S_ISREG(about.st_mode)) {
        code = add_file(&all, path, err);
    }
    if (code == STATUS_OK) code = look_at_all(&all, json_root(document), err);
    json_close(document);
    *files = all.files;
    *count = all.count;
    return code;
}
