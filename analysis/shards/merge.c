/// Joins the stores of all shards into one.
#include "analysis/shards/kept_run.h"

#include "analysis/shards/spread.h"
#include "traces/store/runs.h"

#include <stdio.h>
#include <string.h>

enum { NAMED_MAX = 8 }; // missing shards in a message

/// Where a shard is.
typedef struct found_shard {
    const char *path; // NULL: nowhere yet
    int64_t run_id;
    bool is_complete;
} found_shard;

typedef struct merging {
    char identity[17]; // of the whole run; "" before the first store is read
    int shard_count;
    found_shard *shards; // [shard_count]
    trace_run_info info; // of one of them
    trace_input_file *files;
    int file_count;
    arena *memory;
} merging;

/// Takes an identity apart; false if it is none of a shard.
static bool read_identity(const char *identity, char whole[17], ana_shard *shard)
{
    return sscanf(identity, "%16[0-9a-f]:%d/%d", whole, &shard->index, &shard->count) == 3 &&
           shard->count > 0 && shard->count <= ANA_SHARDS_MAX && shard->index >= 0 &&
           shard->index < shard->count;
}

/// The run to merge is that of the newest shard in the first store.
static status choose_run(merging *all, trace_store *store, const trace_items_name *newest,
                         error_message *err)
{
    ana_shard shard = {0};
    if (!read_identity(newest->identity, all->identity, &shard)) {
        return error_set(err, STATUS_FORMAT, "%s: '%.40s' is no shard", trace_store_path(store),
                         newest->identity);
    }
    all->shard_count = shard.count;
    all->shards = arena_array(all->memory, (size_t)shard.count, sizeof *all->shards);
    memset(all->shards, 0, (size_t)shard.count * sizeof *all->shards);
    TRY(trace_run_get(store, newest->run_id, all->memory, &all->info, err));
    return trace_run_rows(store, newest->run_id, TRACE_RUN_INPUTS, NULL, all->memory, &all->files,
                          &all->file_count, err);
}

/// Notes a shard, if it is one of the run, and one that is complete before one that is not.
static status note_shard(merging *all, trace_store *store, const char *path,
                         const trace_items_name *name, bool *is_ours, error_message *err)
{
    char whole[17];
    ana_shard shard = {0};
    trace_run_info info;
    if (!read_identity(name->identity, whole, &shard)) return STATUS_OK;
    if (strcmp(whole, all->identity) != 0) return STATUS_OK;
    if (shard.count != all->shard_count) {
        return error_set(err, STATUS_INVALID, "%s: has shard %d of %d, others are of %d", path,
                         shard.index, shard.count, all->shard_count);
    }
    *is_ours = true;
    TRY(trace_run_get(store, name->run_id, all->memory, &info, err));
    found_shard *known = &all->shards[shard.index];
    if (known->is_complete) return STATUS_OK;
    *known = (found_shard){path, name->run_id, info.status == TRACE_COMPLETE};
    return STATUS_OK;
}

static status note_shards(merging *all, trace_store *store, const char *path, error_message *err)
{
    trace_items_name *names = NULL;
    int count = 0;
    bool is_ours = false;
    TRY(trace_items_list(store, "*:*/*", all->memory, &names, &count, err));
    if (count == 0) return error_set(err, STATUS_INVALID, "%s: holds no shard", path);
    if (all->identity[0] == '\0') TRY(choose_run(all, store, &names[count - 1], err));
    for (int name = 0; name < count; name++) {
        TRY(note_shard(all, store, path, &names[name], &is_ours, err));
    }
    if (is_ours) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%s: holds shards of another study than '%.60s'", path,
                     all->info.name);
}

/// All shards must be there and complete.
static status check_whole(const merging *all, error_message *err)
{
    text_buffer missing = {.memory = all->memory};
    int missing_count = 0;
    for (int index = 0; index < all->shard_count; index++) {
        const found_shard *shard = &all->shards[index];
        if (shard->is_complete) continue;
        if (missing_count++ >= NAMED_MAX) continue;
        text_format(&missing, "%s%d%s", missing_count > 1 ? ", " : "", index,
                    shard->path != NULL ? " (not complete)" : "");
    }
    if (missing_count > NAMED_MAX) text_append(&missing, ", ...");
    if (missing_count == 0) return STATUS_OK;
    return error_set(err, STATUS_IO, "%d of %d shards of '%.60s' missing: %.150s", missing_count,
                     all->shard_count, all->info.name, missing.bytes);
}

static status copy_shards(const merging *all, trace_run *to, ana_merged *merged, error_message *err)
{
    for (int index = 0; index < all->shard_count; index++) {
        const found_shard *shard = &all->shards[index];
        trace_store *from = NULL;
        int64_t count = 0;
        TRY(trace_store_open(shard->path, TRACE_READ, &from, err));
        const status code = trace_items_copy(from, shard->run_id, to, &count, err);
        trace_store_close(from);
        if (code != STATUS_OK) return code;
        merged->item_count += count;
    }
    return STATUS_OK;
}

static status write_run(const merging *all, trace_store *store, ana_merged *merged,
                        error_message *err)
{
    trace_run *items = NULL;
    trace_run_info info;
    int64_t number = 0;
    const error_message open = {.code = STATUS_BACKEND, .message = "merged, not answered yet"};
    TRY(trace_items_find(store, all->identity, all->memory, &number, &info, err));
    if (number > 0 && info.status == TRACE_COMPLETE) return STATUS_OK;
    if (number > 0) TRY(trace_run_resume(store, number, &items, err));
    if (number == 0) {
        trace_run_info begun = all->info;
        begun.identity = all->identity;
        TRY(trace_run_begin(store, &begun, all->files, all->file_count, &items, err));
    }
    const status code = copy_shards(all, items, merged, err);
    const status ended =
        trace_run_finish(items, code == STATUS_OK ? &open : err, code == STATUS_OK ? err : NULL);
    return code != STATUS_OK ? code : ended;
}

status ana_shards_merge(const char *output, const char *const *paths, int path_count, arena *memory,
                        ana_merged *merged, error_message *err)
{
    merging all = {.memory = memory};
    for (int path = 0; path < path_count; path++) {
        trace_store *store = NULL;
        TRY(trace_store_open(paths[path], TRACE_READ, &store, err));
        const status code = note_shards(&all, store, paths[path], err);
        trace_store_close(store);
        if (code != STATUS_OK) return code;
    }
    TRY(check_whole(&all, err));
    *merged = (ana_merged){.name = all.info.name, .shard_count = all.shard_count};
    trace_store *store = NULL;
    TRY(trace_store_open(output, TRACE_WRITE, &store, err));
    const status code = write_run(&all, store, merged, err);
    trace_store_close(store);
    return code;
}
