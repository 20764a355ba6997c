#include "cli/trace/diagnose_input.h"

#include "cli/option_values.h"
#include "cli/version.h"
#include "traces/import/csv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/// Names are found in a file's head: a study's schema and a profiler's keys stand there.
enum { HEAD_BYTES = 4096 };

typedef enum input_kind { INPUT_STORE, INPUT_CSV, INPUT_COUNTS, INPUT_UNKNOWN } input_kind;

static bool begins_with(const char *head, size_t length, const char *words)
{
    return length >= strlen(words) && memcmp(head, words, strlen(words)) == 0;
}

/// The first bytes of a stream, as many as there are, ended by a zero.
static status read_head(trace_stream *stream, char head[HEAD_BYTES + 1], size_t *length,
                        error_message *err)
{
    size_t count = 1;
    *length = 0;
    while (*length < HEAD_BYTES && count > 0) {
        TRY(trace_stream_read(stream, head + *length, HEAD_BYTES - *length, &count, err));
        *length += count;
    }
    head[*length] = '\0';
    return STATUS_OK;
}

/// Of a file that begins as JSON does: neither a study nor what a profiler wrote.
static bool is_counts(const char *head)
{
    return strstr(head, "\"dynmo-study/") == NULL && strstr(head, "\"traceEvents\"") == NULL &&
           strstr(head, "\"schemaVersion\"") == NULL;
}

static status kind_of(const char *path, input_kind *kind, error_message *err)
{
    struct stat found;
    trace_stream *stream = NULL;
    char head[HEAD_BYTES + 1];
    size_t length = 0;
    if (stat(path, &found) == 0 && S_ISDIR(found.st_mode)) {
        *kind = INPUT_COUNTS;
        return STATUS_OK;
    }
    TRY(trace_stream_open(path, &stream, err));
    const status result = read_head(stream, head, &length, err);
    trace_stream_close(stream);
    TRY(result);
    if (begins_with(head, length, "SQLite format 3")) {
        *kind = INPUT_STORE;
    } else if (begins_with(head, length, "# dynmo-trace/")) {
        *kind = INPUT_CSV;
    } else if (begins_with(head, length, "{") && is_counts(head)) {
        *kind = INPUT_COUNTS;
    } else {
        *kind = INPUT_UNKNOWN;
    }
    return STATUS_OK;
}

/// A file of our own, removed when the input is closed.
static status make_store(cli_diagnose_input *input, error_message *err)
{
    const char *parent = getenv("TMPDIR");
    if (parent == NULL || parent[0] == '\0') parent = P_tmpdir;
    snprintf(input->store_path, sizeof input->store_path, "%.400s/dynmo-XXXXXX", parent);
    const int file = mkstemp(input->store_path);
    if (file < 0) return error_set(err, STATUS_IO, "no file can be made in %.200s", parent);
    close(file);
    input->is_own = true;
    return STATUS_OK;
}

static status fill_store(trace_store *store, trace_stream *stream, const char *path,
                         error_message *err)
{
    static const char *const endings[] = {".gz", ".csv"};
    char name[CLI_TRACE_NAME_BYTES];
    trace_csv *csv = NULL;
    trace_info info = trace_info_default();
    cli_trace_name(path, endings, 2, name);
    info.name = name;
    info.tool_version = DYNMO_VERSION;
    TRY(trace_csv_begin(store, &info, &csv, err));
    const status result = trace_csv_read(csv, stream, err);
    if (result == STATUS_OK) return trace_csv_finish(csv, NULL, err);
    trace_csv_abort(csv);
    return result;
}

static status import(trace_stream *stream, const char *path, const char *store_path,
                     error_message *err)
{
    trace_store *store = NULL;
    TRY(trace_store_open(store_path, TRACE_WRITE, &store, err));
    const status result = fill_store(store, stream, path, err);
    trace_store_close(store);
    return result;
}

/// A store of what a CSV holds.
static status make_from(const char *path, cli_diagnose_input *input, error_message *err)
{
    trace_stream *stream = NULL;
    TRY(make_store(input, err));
    TRY(trace_stream_open(path, &stream, err));
    const status result = import(stream, path, input->store_path, err);
    trace_stream_close(stream);
    return result;
}

status cli_diagnose_input_open(const char *path, cli_diagnose_input *input, error_message *err)
{
    input_kind kind = INPUT_UNKNOWN;
    TRY(kind_of(path, &kind, err));
    switch (kind) {
    case INPUT_STORE:
        if (strlen(path) >= sizeof input->store_path) {
            return error_set(err, STATUS_INVALID, "%.60s...: the path has more than %d bytes", path,
                             CLI_INPUT_PATH_BYTES - 1);
        }
        snprintf(input->store_path, sizeof input->store_path, "%s", path);
        return STATUS_OK;
    case INPUT_CSV:
        return make_from(path, input, err);
    case INPUT_COUNTS:
        input->is_counts = true;
        return STATUS_OK;
    default:
        return error_set(
            err, STATUS_FORMAT,
            "%.200s: neither a store of dynmo (dynmo import makes one), nor a CSV that begins with "
            "'# dynmo-trace/1', nor counts of tokens per expert",
            path);
    }
}

void cli_diagnose_input_close(cli_diagnose_input *input)
{
    if (input->is_own) unlink(input->store_path);
    input->is_own = false;
}
