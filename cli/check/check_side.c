#include "cli/check/check_side.h"

#include "cli/check/check_prediction.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/// What a side names: the file, and the run in it.
typedef struct place {
    const char *path;
    const char *run; // NULL: the newest
    bool is_store;
} place;

/// Whether the file can be opened, and begins as stores do.
static bool is_file(const char *path, bool *is_store)
{
    char head[16] = "";
    FILE *file = fopen(path, "rb");
    if (file == NULL) return false;
    const size_t length = fread(head, 1, sizeof head, file);
    fclose(file);
    *is_store = length == sizeof head && memcmp(head, "SQLite format 3", sizeof head) == 0;
    return true;
}

/// A file of the whole name, else of what stands before its last colon.
static status find_place(const cli_check_side *side, arena *memory, place *found,
                         error_message *err)
{
    *found = (place){.path = side->path, .run = side->run};
    if (is_file(side->path, &found->is_store)) return STATUS_OK;
    char *path = arena_string(memory, side->path);
    char *colon = strrchr(path, ':');
    if (colon != NULL) {
        *colon = '\0';
        if (is_file(path, &found->is_store) && found->is_store) {
            found->path = path;
            if (side->run == NULL) found->run = colon + 1;
            return STATUS_OK;
        }
    }
    return error_set(err, STATUS_IO, "%s %s: No such file", side->option, side->path);
}

/// Of several rows the one that is asked for, else the only one that the other side has, too.
static const char *choose_label(const cli_check_side *side, const char *const *labels, int count,
                                const char *const *other, int other_count)
{
    const char *shared = NULL;
    int shared_count = 0;
    for (int label = 0; label < count; label++) {
        for (int each = 0; each < other_count; each++) {
            if (strcmp(labels[label], other[each]) != 0) continue;
            shared = labels[label];
            shared_count++;
        }
    }
    if (count <= 1) return NULL;
    if (side->row != NULL) return side->row;
    return shared_count == 1 ? shared : NULL;
}

static status read_store(const cli_check_side *side, const place *at, const char *const *other,
                         int other_count, arena *memory, ana_observed *observed, error_message *err)
{
    trace_store *store = NULL;
    const char **labels = NULL;
    int count = 0;
    TRY(trace_store_open(at->path, TRACE_READ, &store, err));
    status result = ana_observed_labels(store, at->run, memory, &labels, &count, err);
    if (result == STATUS_OK) {
        result =
            ana_observed_read(store, at->run, choose_label(side, labels, count, other, other_count),
                              memory, observed, err);
    }
    trace_store_close(store);
    return result;
}

status cli_check_side_labels(const cli_check_side *side, arena *memory, const char ***labels,
                             int *count, error_message *err)
{
    place at;
    trace_store *store = NULL;
    *labels = NULL;
    *count = 0;
    TRY(find_place(side, memory, &at, err));
    if (!at.is_store) return STATUS_OK;
    TRY(trace_store_open(at.path, TRACE_READ, &store, err));
    const status result = ana_observed_labels(store, at.run, memory, labels, count, err);
    trace_store_close(store);
    return result;
}

status cli_check_side_read(const cli_check_side *side, const char *const *other, int other_count,
                           arena *memory, ana_observed *observed, error_message *err)
{
    place at;
    TRY(find_place(side, memory, &at, err));
    if (at.is_store) return read_store(side, &at, other, other_count, memory, observed, err);
    return cli_check_predict(side, other, other_count, memory, observed, err);
}
