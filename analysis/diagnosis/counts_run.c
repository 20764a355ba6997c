/// Megatron-LM's files of tokens per expert: what they are of, before they are read as counts.
#include "analysis/diagnosis/counts_run.h"

#include "base/json.h"
#include "base/text.h"
#include "models/experts/expert_counts.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 4096, ITERATION_MAX = 2000000000 };

/// Whether every row of the line has one that equals it, and no two neighbours of the first half
/// do: what recomputation leaves.
static bool rows_repeat(json_value tpe, int row_count, int local_count, arena *memory)
{
    int64_t *rows = arena_array(memory, (size_t)row_count * (size_t)local_count, sizeof *rows);
    json_value row = json_element(tpe, 0);
    int repeated = 0;
    if (row_count % 2 != 0) return false;
    const size_t bytes = (size_t)local_count * sizeof *rows;
    int kept = 0;
    for (int at = 0; at < row_count; at++, row = json_next(row)) {
        int64_t *here = rows + (size_t)kept * (size_t)local_count;
        if (json_int64_array(row, local_count, 0, INT32_MAX, here, NULL) != STATUS_OK) return false;
        const int64_t *oldest = rows + (size_t)repeated * (size_t)local_count;
        if (repeated < kept && memcmp(oldest, here, bytes) == 0) {
            repeated++;
        } else {
            kept++;
        }
    }
    return kept == repeated;
}

static status outline_line(json_value line, ana_counts_outline *found, arena *memory,
                           error_message *err)
{
    const char *block = NULL;
    int iteration = 0;
    TRY(json_string(json_member(line, "block"), &block, err));
    if (strcmp(block, "decoder") != 0) return STATUS_OK;
    TRY(json_int(json_member(line, "iter"), 0, ITERATION_MAX, &iteration, err));
    if (iteration > found->last_iteration) found->last_iteration = iteration;
    if (found->row_count > 0) return STATUS_OK;
    const json_value tpe = json_member(line, "tpe");
    found->row_count = json_count(tpe);
    found->local_count = json_count(json_element(tpe, 0));
    if (!json_is_array(tpe) || found->row_count < 1 || found->local_count < 1) {
        return json_error(tpe, STATUS_FORMAT, err, "not an array of microbatches");
    }
    found->is_repeated = rows_repeat(tpe, found->row_count, found->local_count, memory);
    return STATUS_OK;
}

static status outline_text(const char *place, const char *text, ana_counts_outline *found,
                           arena *memory, error_message *err)
{
    json_document *document = NULL;
    TRY(json_open_bytes(place, text, strlen(text), &document, err));
    const json_value line = json_root(document);
    const status result = json_is_object(line)
                              ? outline_line(line, found, memory, err)
                              : json_error(line, STATUS_FORMAT, err, "not an object");
    json_close(document);
    return result;
}

status ana_counts_outline_read(model_line_reader *reader, const char *name, arena *memory,
                               ana_counts_outline *outline, error_message *err)
{
    ana_counts_outline found = {.last_iteration = -1};
    for (;;) {
        char *text = NULL;
        TRY(model_lines_next(reader, &text, err));
        if (text == NULL) break;
        if (text[strspn(text, " \t")] == '\0') continue;
        TRY(outline_text(model_lines_place(reader), text, &found, memory, err));
    }
    if (found.row_count == 0) {
        return error_set(err, STATUS_FORMAT, "%.200s: no counts of a decoder layer", name);
    }
    *outline = found;
    return STATUS_OK;
}

static status read_outline(const char *path, arena *memory, ana_counts_outline *outline,
                           error_message *err)
{
    model_line_reader *reader = NULL;
    TRY(model_lines_open(path, &reader, err));
    const status result = ana_counts_outline_read(reader, path, memory, outline, err);
    model_lines_close(reader);
    return result;
}

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
                          const ana_counts_outline *seen, ana_counted_run *made, error_message *err)
{
    if (layout->layer_count % layout->stage_count != 0) {
        return error_set(err, STATUS_INVALID,
                         "--trace-stages: %d stages do not divide the model's %d layers",
                         layout->stage_count, layout->layer_count);
    }
    if (layout->expert_count % seen->local_count != 0) {
        return error_set(err, STATUS_FORMAT,
                         "%.200s: %d experts of a rank do not divide the model's %d", path,
                         seen->local_count, layout->expert_count);
    }
    made->expert_parallel = layout->expert_count / seen->local_count;
    if (file_count % layout->stage_count == 0 &&
        file_count / layout->stage_count % made->expert_parallel == 0) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_FORMAT,
                     "%.200s: %d files are not %d stages of groups of %d ranks that share experts",
                     path, file_count, layout->stage_count, made->expert_parallel);
}

/// @param paths [file_count] of ranks in their order
/// @param place of all of them, for messages
static status find_megatron(const char *const *paths, int file_count, const char *place,
                            const ana_counted_layout *layout, arena *memory, ana_counted_run *made,
                            error_message *err)
{
    const int stages = layout->stage_count;
    ana_counts_outline seen;
    TRY(read_outline(paths[0], memory, &seen, err));
    TRY(find_groups(place, layout, file_count, &seen, made, err));
    const int ranks = made->expert_parallel;
    int *first_layer = arena_array(memory, (size_t)stages, sizeof *first_layer);
    made->files = arena_array(memory, (size_t)stages * (size_t)ranks, sizeof *made->files);
    for (int stage = 0; stage < stages; stage++) {
        first_layer[stage] = stage * (layout->layer_count / stages);
        for (int rank = 0; rank < ranks; rank++) {
            made->files[stage * ranks + rank] = paths[stage * (file_count / stages) + rank];
        }
    }
    made->first_layer = first_layer;
    made->stage_count = stages;
    made->microbatch_count = seen.is_repeated ? seen.row_count / 2 : seen.row_count;
    made->last_iteration = seen.last_iteration;
    return STATUS_OK;
}

static status find_in_folder(const char *folder, const ana_counted_layout *layout, arena *memory,
                             ana_counted_run *made, error_message *err)
{
    int count = 0;
    TRY(count_ranks(folder, &count, err));
    const char **paths = arena_array(memory, (size_t)count, sizeof *paths);
    for (int rank = 0; rank < count; rank++) {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "%.*s/rank%d.jsonl", PATH_BYTES - 32, folder, rank);
        paths[rank] = arena_string(memory, path);
    }
    return find_megatron(paths, count, folder, layout, memory, made, err);
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
    ana_counted_run made = {.files = NULL};
    char inner[PATH_BYTES];
    if (is_folder(path)) {
        snprintf(inner, sizeof inner, "%.*s/tokens_per_expert", PATH_BYTES - 32, path);
        TRY(find_in_folder(is_folder(inner) ? inner : path, layout, memory, &made, err));
    } else {
        const char *only = arena_string(memory, path);
        TRY(find_megatron(&only, 1, path, layout, memory, &made, err));
    }
    *run = made;
    return STATUS_OK;
}
