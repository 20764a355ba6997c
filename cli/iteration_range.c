#include "cli/iteration_range.h"

#include "base/text.h"
#include "traces/store/writer.h"

#include <stdio.h>
#include <string.h>

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
