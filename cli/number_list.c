#include "cli/number_list.h"

#include "base/text.h"

#include <string.h>

enum { NUMBER_BYTES = 64 };

/// Copies the number at *rest and moves *rest behind its comma; NULL behind the last.
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
