#include "cli/trace_name.h"

#include <stdio.h>
#include <string.h>

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
