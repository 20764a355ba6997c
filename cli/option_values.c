#include "cli/option_values.h"

#include "balance/costs/stage_costs.h"
#include "base/text.h"
#include "traces/store/stream.h"
#include "traces/store/writer.h"

#include <stdio.h>
#include <string.h>

enum { NUMBER_BYTES = 64 };

/// Copies the number at *rest and moves *rest after its comma; NULL after the last.
static status next_number(const char *option, const char **rest, char number[NUMBER_BYTES],
                          error_message *err)
{
    const size_t length = strcspn(*rest, ",");
    if (length >= NUMBER_BYTES) {
        return error_set(err, STATUS_INVALID, "%s: '%.20s...' is no number", option, *rest);
    }
    memcpy(number, *rest, length);
    number[length] = '\0';
    *rest = (*rest)[length] == ',' ? *rest + length + 1 : NULL;
    return STATUS_OK;
}

static status too_many(const char *option, int max_count, error_message *err)
{
    return error_set(err, STATUS_INVALID, "%s: more than %d numbers", option, max_count);
}

status cli_list_int64(const char *option, const char *text, int64_t min, int64_t max,
                      int64_t *values, int max_count, int *count, error_message *err)
{
    char number[NUMBER_BYTES];
    int found = 0;
    for (const char *rest = text; rest != NULL; found++) {
        if (found == max_count) return too_many(option, max_count, err);
        TRY(next_number(option, &rest, number, err));
        TRY(text_parse_int64(number, option, min, max, &values[found], err));
    }
    *count = found;
    return STATUS_OK;
}

status cli_list_double(const char *option, const char *text, double min, double max, double *values,
                       int max_count, int *count, error_message *err)
{
    char number[NUMBER_BYTES];
    int found = 0;
    for (const char *rest = text; rest != NULL; found++) {
        if (found == max_count) return too_many(option, max_count, err);
        TRY(next_number(option, &rest, number, err));
        TRY(text_parse_double(number, option, min, max, &values[found], err));
    }
    *count = found;
    return STATUS_OK;
}

status cli_share(const cli_arguments *arguments, const char *option, double low, double high,
                 double *share, error_message *err)
{
    const char *given = cli_value(arguments, option);
    char number[64];
    double value = 0;
    if (given == NULL) return STATUS_OK;
    const size_t length = strlen(given);
    const bool is_percent = length > 0 && given[length - 1] == '%';
    if (length >= sizeof number) {
        return error_set(err, STATUS_INVALID, "%s: '%.60s...' is no number", option, given);
    }
    memcpy(number, given, length + 1);
    if (is_percent) number[length - 1] = '\0';
    TRY(text_parse_double(number, option, -1e9, 1e9, &value, err));
    if (is_percent) value /= 100;
    if (!(value >= low && value < high) || value <= 0) {
        return error_set(err, STATUS_INVALID,
                         "%s %s is outside %s%g %%, %g %%); 5%% and 0.05 are the same", option,
                         given, low > 0 ? "[" : "(", low * 100, high * 100);
    }
    *share = value;
    return STATUS_OK;
}

status cli_first_stage(const cli_arguments *arguments, bool *is_whole, error_message *err)
{
    int chosen = *is_whole;
    TRY(cli_choice(arguments, "--first-stage-backward", bal_first_stage_backward_names, 2, chosen,
                   &chosen, err));
    *is_whole = chosen != 0;
    return STATUS_OK;
}

status cli_is_store(const char *path, bool *is_store, error_message *err)
{
    char head[16] = "";
    trace_stream *stream = NULL;
    size_t length = 0;
    size_t count = 1;
    *is_store = false;
    if (strcmp(path, "-") == 0) return STATUS_OK;
    TRY(trace_stream_open(path, &stream, err));
    while (length < sizeof head && count > 0) {
        if (trace_stream_read(stream, head + length, sizeof head - length, &count, NULL) != 0)
            break;
        length += count;
    }
    *is_store = length == sizeof head && memcmp(head, "SQLite format 3", sizeof head) == 0;
    trace_stream_close(stream);
    return STATUS_OK;
}

status cli_iteration_range(const char *text, int *first, int *last, error_message *err)
{
    const char *colon = strchr(text, ':');
    int64_t begin = 0;
    int64_t end = 0;
    char head[32];
    if (colon != NULL && (size_t)(colon - text) >= sizeof head) {
        return error_set(err, STATUS_INVALID, "--iterations: '%.60s' is not A:B", text);
    }
    snprintf(head, sizeof head, "%.*s", colon != NULL ? (int)(colon - text) : 31, text);
    TRY(text_parse_int64(head, "--iterations", 0, TRACE_ITERATIONS_MAX, &begin, err));
    end = begin;
    if (colon != NULL) {
        TRY(text_parse_int64(colon + 1, "--iterations", 0, TRACE_ITERATIONS_MAX, &end, err));
    }
    if (end < begin) {
        return error_set(err, STATUS_INVALID, "--iterations: %.60s ends before it begins", text);
    }
    *first = (int)begin;
    *last = (int)end;
    return STATUS_OK;
}

void cli_trace_name(const char *path, const char *const *endings, int ending_count,
                    char name[CLI_TRACE_NAME_BYTES])
{
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    snprintf(name, CLI_TRACE_NAME_BYTES, "%s", strcmp(base, "-") == 0 ? "stdin" : base);
    for (int ending = 0; ending < ending_count; ending++) {
        const size_t length = strlen(name);
        const size_t cut = strlen(endings[ending]);
        if (length > cut && strcmp(name + length - cut, endings[ending]) == 0) {
            name[length - cut] = '\0';
        }
    }
}
