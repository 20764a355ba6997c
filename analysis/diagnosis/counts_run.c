/// Megatron-LM's files of tokens per expert: what they are of, before they are read as counts.
#include "analysis/diagnosis/diagnosis.h"

#include "base/text.h"
#include "models/experts/expert_counts.h"

#include <ctype.h>
#include <dirent.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/// The number in "FOLDER/rank<number>.jsonl"; -1: another name.
static int rank_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    int rank = -1;
    int end = 0;
    if (strncmp(name, "rank", 4) != 0 || !isdigit((unsigned char)name[4])) return -1;
    if (sscanf(name, "rank%9d.jsonl%n", &rank, &end) != 1 || end == 0) return -1;
    return name[end] == '\0' ? rank : -1;
}

/// How the ranks of the files hold the experts.
static status find_groups(const char *path, const ana_counted_layout *layout, int file_count,
                          int local_count, ana_counted_run *made, error_message *err)
{
    if (layout->layer_count % layout->stage_count != 0) {
        return error_set(err, STATUS_INVALID,
                         "--trace-stages: %d stages do not divide the model's %d layers",
                         layout->stage_count, layout->layer_count);
    }
    if (layout->expert_count % local_count != 0) {
        return error_set(err, STATUS_FORMAT,
                         "%.200s: %d experts of a rank do not divide the model's %d", path,
                         local_count, layout->expert_count);
    }
    made->expert_parallel = layout->expert_count / local_count;
    if (file_count % layout->stage_count == 0 &&
        file_count / layout->stage_count % made->expert_parallel == 0) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_FORMAT,
                     "%.200s: %d files are not %d stages of groups of %d ranks that share experts",
                     path, file_count, layout->stage_count, made->expert_parallel);
}

/// Puts files whose names are of ranks 0 to count - 1 in the order of these; others are passed
/// over.
///
/// @param name of the folder or pattern that they are from
static status order_ranks(const char *name, const glob_t *found, arena *memory,
                          const char *const **paths, int *count, error_message *err)
{
    const char **made = arena_array(memory, found->gl_pathc + 1, sizeof *made);
    int largest = -1;
    *count = 0;
    for (size_t path = 0; path < found->gl_pathc; path++) {
        const int rank = rank_of(found->gl_pathv[path]);
        if (rank < 0) continue;
        (*count)++;
        if (rank > largest) largest = rank;
        if ((size_t)rank >= found->gl_pathc) continue;
        if (made[rank] != NULL) {
            return error_set(err, STATUS_FORMAT, "%.200s: rank %d occurs twice", name, rank);
        }
        made[rank] = arena_string(memory, found->gl_pathv[path]);
    }
    if (*count == 0) return error_set(err, STATUS_FORMAT, "%.200s: no files rank<r>.jsonl", name);
    *paths = made;
    if (largest + 1 == *count) return STATUS_OK;
    return error_set(err, STATUS_FORMAT, "%.200s: %d files of ranks, the largest is rank %d", name,
                     *count, largest);
}

static status list_ranks(const char *name, const char *pattern, arena *memory,
                         const char *const **paths, int *count, error_message *err)
{
    glob_t found = {0};
    const int failed = glob(pattern, GLOB_NOSORT, NULL, &found);
    const status result = failed != 0 && failed != GLOB_NOMATCH
                              ? error_set(err, STATUS_IO, "%.200s: cannot be listed", name)
                              : order_ranks(name, &found, memory, paths, count, err);
    globfree(&found);
    return result;
}

/// The pattern of a folder's files: what would mean more in its name stands for itself.
static const char *folder_pattern(const char *folder, arena *memory)
{
    text_buffer pattern = {.memory = memory};
    for (; *folder != '\0'; folder++) {
        if (strchr("*?[\\", *folder) != NULL) text_append(&pattern, "\\");
        text_append_bytes(&pattern, folder, 1);
    }
    text_append(&pattern, "/rank*.jsonl");
    return pattern.bytes;
}

static bool is_pattern(const char *path)
{
    return strpbrk(path, "*?[") != NULL && access(path, F_OK) != 0;
}

static bool is_folder(const char *path)
{
    DIR *listing = opendir(path);
    if (listing == NULL) return false;
    closedir(listing);
    return true;
}

status ana_counted_run_find(const char *path, const ana_counted_layout *layout, arena *memory,
                            ana_counted_run *run, error_message *err)
{
    const int stages = layout->stage_count;
    const char *place = arena_string(memory, path);
    const char *const *paths = &place; // one file
    int count = 1;
    ana_counted_run made = {.stage_count = stages};
    model_counts_outline seen;
    if (is_folder(path)) {
        const char *inner = arena_format(memory, "%s/tokens_per_expert", path);
        if (is_folder(inner)) place = inner;
        TRY(list_ranks(place, folder_pattern(place, memory), memory, &paths, &count, err));
    } else if (is_pattern(path)) {
        TRY(list_ranks(place, path, memory, &paths, &count, err));
    }
    TRY(model_counts_outline_read(paths[0], &seen, err));
    TRY(find_groups(place, layout, count, seen.local_count, &made, err));
    const int ranks = made.expert_parallel;
    int *first_layer = arena_array(memory, (size_t)stages, sizeof *first_layer);
    made.files = arena_array(memory, (size_t)stages * (size_t)ranks, sizeof *made.files);
    for (int stage = 0; stage < stages; stage++) {
        first_layer[stage] = stage * (layout->layer_count / stages);
        for (int rank = 0; rank < ranks; rank++) {
            made.files[stage * ranks + rank] = paths[stage * (count / stages) + rank];
        }
    }
    made.first_layer = first_layer;
    made.microbatch_count = seen.microbatch_count;
    made.last_iteration = seen.last_iteration;
    *run = made;
    return STATUS_OK;
}
