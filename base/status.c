#include "base/status.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

status error_set(error_message *err, status code, const char *format, ...)
{
    if (err == NULL) return code;
    err->code = code;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(err->message, sizeof err->message, format, arguments);
    va_end(arguments);
    return code;
}

status error_prefix(error_message *err, status code_if_null, const char *format, ...)
{
    if (err == NULL) return code_if_null;
    char inner[sizeof err->message];
    memcpy(inner, err->message, sizeof inner);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(err->message, sizeof err->message, format, arguments);
    va_end(arguments);
    const size_t used = strlen(err->message);
    snprintf(err->message + used, sizeof err->message - used, ": %s", inner); // what fits
    return err->code;
}

status error_about(error_message *err, status code, const char *name)
{
    const bool is_input = code == STATUS_INVALID || code == STATUS_FORMAT ||
                          code == STATUS_INFEASIBLE || code == STATUS_UNSUPPORTED;
    if (err == NULL || !is_input || strstr(err->message, name) != NULL) return code;
    (void)error_prefix(err, code, "%.100s", name);
    return code;
}

status check_int_range(const char *name, int value, int min, int max, error_message *err)
{
    if (value >= min && value <= max) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%s %d is outside [%d, %d]", name, value, min, max);
}
