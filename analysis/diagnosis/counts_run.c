/// Megatron-LM's files of tokens per expert: what they are of, before they are read as counts.
#include "analysis/diagnosis/diagnosis.h"

#include "models/experts/expert_counts.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

/// The number in "rank<number>.jsonl"; -1: another name.
static int rank_of(const char *name)
{
    int rank = -1;
    int end = 0;
    if (strncmp(name, "rank", 4) != 0 || !isdigit((unsigned char)name[4])) return -1;
    if (sscanf(name, "rank%9d.jsonl%n", &rank, &end) != 1 || end == 0) return -1;
    return name[end] == '\0' ? rank : -1;
}

/// Files of a folder, which must be of ranks 0 to count - 1.
static status count_ranks(const char *folder, int *count, error_message *err)
{
    DIR *listing = opendir(folder);
    int largest = -1;
    *count = 0;
    if (listing == NULL) return error_set(err, STATUS_IO, "%.200s: cannot be listed", folder);
    for (const struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
        const int rank = rank_of(entry->d_name);
        if (rank < 0) continue;
        (*count)++;
        if (rank > largest) largest = rank;
    }
    closedir(listing);
    if (*count == 0) {
        return error_set(err, STATUS_FORMAT, "%.200s: no files rank<r>.jsonl", folder);
    }
    if (largest + 1 == *count) return STATUS_OK;
    return error_set(err, STATUS_FORMAT, "%.200s: %d files of ranks, the largest is rank %d",
                     folder, *count, largest);
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

/// The files of a folder's ranks, in their order.
static status list_ranks(const char *folder, arena *memory, const char *const **paths, int *count,
                         error_message *err)
{
    TRY(count_ranks(folder, count, err));
    const char **made = arena_array(memory, (size_t)*count, sizeof *made);
    for (int rank = 0; rank < *count; rank++) {
        made[rank] = arena_format(memory, "%s/rank%d.jsonl", folder, rank);
    }
    *paths = made;
    return STATUS_OK;
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
        TRY(list_ranks(place, memory, &paths, &count, err));
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
