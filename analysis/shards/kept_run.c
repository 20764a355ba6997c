#include "analysis/shards/kept_run.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "traces/store/runs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/// The files that a configuration names.
typedef struct finding {
    const ana_kept_options *options;
    arena *memory;
    trace_input_file *files; // [count]
    int count;
} finding;

/// Whether both are one file.
static bool is_same_file(const char *path, const char *other)
{
    struct stat about;
    struct stat about_other;
    return stat(path, &about) == 0 && stat(other, &about_other) == 0 &&
           about.st_dev == about_other.st_dev && about.st_ino == about_other.st_ino;
}

static status add_file(finding *all, const char *path, error_message *err)
{
    for (int file = 0; file < all->count; file++) {
        if (strcmp(all->files[file].path, path) == 0) return STATUS_OK;
    }
    if (is_same_file(path, all->options->store)) {
        return error_set(err, STATUS_INVALID,
                         "--store: what is asked for reads %s itself; give another store", path);
    }
    all->files = arena_grow(all->memory, all->files, (size_t)all->count, sizeof *all->files);
    trace_input_file *file = &all->files[all->count++];
    *file = (trace_input_file){.path = arena_string(all->memory, path)}; // path may lie in the JSON
    return file_hash_path(path, &file->bytes, &file->hash, err);
}

/// Adds the regular file that a text of the configuration names, at any depth. Names of presets are
/// texts without a file.
static status look_at(finding *all, json_value value, error_message *err)
{
    const char *text = NULL;
    struct stat about;
    for (json_value at = json_element(value, 0); at.node != NULL; at = json_next(at)) {
        TRY(look_at(all, at, err));
    }
    if (!json_is_string(value)) return STATUS_OK;
    TRY(json_string(value, &text, err));
    if (text[0] == '\0' || strcmp(text, "-") == 0) return STATUS_OK;
    const char *path = file_path_beside(all->options->config_path, text, all->memory);
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode)) return STATUS_OK;
    return add_file(all, path, err);
}

/// Finds the configuration's own file, if it has one, and all that it names, and hashes them.
static status find_inputs(finding *all, error_message *err)
{
    const char *path = all->options->config_path;
    const char *json = all->options->config_json;
    json_value root;
    struct stat about;
    TRY(json_read_text(path != NULL ? path : "settings", json, all->memory, &root, err));
    if (path != NULL && stat(path, &about) == 0 && S_ISREG(about.st_mode)) {
        TRY(add_file(all, path, err));
    }
    return look_at(all, root, err);
}

/// What tells runs apart whose results may differ, as 16 digits and the shard.
static void make_identity(const finding *all, char identity[ANA_IDENTITY_BYTES])
{
    const ana_kept_options *options = all->options;
    const char *const texts[] = {options->tool_version, options->settings, options->config_json};
    uint64_t hash = FILE_HASH_START;
    for (size_t at = 0; at < sizeof texts / sizeof texts[0]; at++) {
        const char *text = texts[at] != NULL ? texts[at] : "";
        hash = file_hash(hash, text, strlen(text) + 1);
    }
    hash = file_hash(hash, &options->seed, sizeof options->seed);
    for (int file = 0; file < all->count; file++) {
        hash = file_hash(hash, &all->files[file].hash, sizeof all->files[file].hash);
    }
    const int length = snprintf(identity, ANA_IDENTITY_BYTES, "%016" PRIx64, hash);
    if (options->shard.count > 0) {
        snprintf(identity + length, (size_t)(ANA_IDENTITY_BYTES - length), ":%d/%d",
                 options->shard.index, options->shard.count);
    }
}

status ana_kept_run_put(const ana_kept_run *kept, int pass, int64_t item, const text_buffer *result,
                        error_message *err)
{
    if (kept->items == NULL) { // somebody has taken rows out of the store
        return error_set(err, STATUS_FORMAT,
                         "%s: run %" PRId64 " is complete, but item %" PRId64 " is missing",
                         trace_store_path(kept->store), kept->number, item);
    }
    return trace_run_put_item(kept->items, pass, item, result->bytes, result->length, err);
}

static status begin(const finding *all, const char *identity, ana_kept_run *kept,
                    error_message *err)
{
    const ana_kept_options *options = all->options;
    const trace_run_info info = {
        .name = options->name,
        .kind = TRACE_RUN_SIM,
        .command_line = options->command_line,
        .config_json = options->config_json,
        .seed = options->seed,
        .tool_version = options->tool_version,
        .identity = identity,
    };
    kept->state = ANA_KEPT_NEW;
    kept->begun = "";
    TRY(trace_run_begin(kept->store, &info, all->files, all->count, &kept->items, err));
    kept->number = trace_run_id(kept->items);
    return STATUS_OK;
}

/// Takes the run that is there, unless a living process does it.
static status take_up(int64_t number, const trace_run_info *info, ana_kept_run *kept,
                      error_message *err)
{
    kept->number = number;
    kept->begun = info->started_at;
    kept->state = info->status == TRACE_COMPLETE ? ANA_KEPT_COMPLETE : ANA_KEPT_RESUMED;
    if (info->status == TRACE_COMPLETE) return STATUS_OK;
    return trace_run_resume(kept->store, number, &kept->items, err);
}

static status find_or_begin(const ana_kept_options *options, ana_kept_run *kept, error_message *err)
{
    finding all = {.options = options, .memory = kept->memory};
    char identity[ANA_IDENTITY_BYTES];
    int64_t number = 0;
    trace_run_info info = {0};
    TRY(trace_store_open(options->store, TRACE_WRITE, &kept->store, err));
    TRY(find_inputs(&all, err));
    make_identity(&all, identity);
    TRY(trace_items_find(kept->store, identity, kept->memory, &number, &info, err));
    return number > 0 ? take_up(number, &info, kept, err) : begin(&all, identity, kept, err);
}

/// Opens a store to look into it; NULL where there is none, or nothing in it yet: one that was
/// killed at its birth is rolled back to nothing when it is opened.
static status open_if_any(const char *path, trace_store **store, error_message *err)
{
    struct stat about;
    *store = NULL;
    if (stat(path, &about) != 0 || about.st_size == 0) return STATUS_OK;
    const status code = trace_store_open(path, TRACE_READ, store, err);
    const bool is_empty = code != STATUS_OK && stat(path, &about) == 0 && about.st_size == 0;
    return is_empty ? STATUS_OK : code;
}

status ana_kept_run_identify(const ana_kept_options *options, char identity[ANA_IDENTITY_BYTES],
                             error_message *err)
{
    finding all = {.options = options, .memory = arena_create(4096)};
    const status code = find_inputs(&all, err);
    if (code == STATUS_OK) make_identity(&all, identity);
    arena_destroy(all.memory);
    return code;
}

status ana_kept_run_look(const char *store, const char *identity, bool *is_complete,
                         error_message *err)
{
    trace_store *opened = NULL;
    int64_t number = 0;
    trace_run_info info = {0};
    *is_complete = false;
    TRY(open_if_any(store, &opened, err));
    if (opened == NULL) return STATUS_OK;
    arena *memory = arena_create(4096);
    const status code = trace_items_find(opened, identity, memory, &number, &info, err);
    if (code == STATUS_OK) *is_complete = number > 0 && info.status == TRACE_COMPLETE;
    arena_destroy(memory);
    trace_store_close(opened);
    return code;
}

static void release(ana_kept_run *kept)
{
    trace_store_close(kept->store);
    arena_destroy(kept->memory);
    free(kept);
}

status ana_kept_run_open(const ana_kept_options *options, ana_kept_run **kept, error_message *err)
{
    ana_kept_run *opened = memory_array(1, sizeof *opened);
    opened->memory = arena_create(4096);
    const status code = find_or_begin(options, opened, err);
    if (code != STATUS_OK) {
        release(opened);
        return code;
    }
    *kept = opened;
    return STATUS_OK;
}

status ana_kept_run_put_result(ana_kept_run *kept, const char *label, const char *json,
                               error_message *err)
{
    if (kept->items == NULL) return STATUS_OK;
    return trace_run_put_result(kept->items, label, json, err);
}

status ana_kept_run_finish(ana_kept_run *kept, const error_message *outcome, error_message *err)
{
    if (kept == NULL) return STATUS_OK;
    status code = STATUS_OK;
    if (kept->items != NULL) code = trace_run_finish(kept->items, outcome, err);
    release(kept);
    return code;
}
