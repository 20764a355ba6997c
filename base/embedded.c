#include "base/embedded.h"

#include <stddef.h>
#include <string.h>

const char *embedded_find(const embedded_file *files, const char *name)
{
    for (const embedded_file *file = files; file->name != NULL; file++) {
        if (strcmp(file->name, name) == 0) return file->text;
    }
    return NULL;
}

const char *embedded_suggestion(const embedded_file *files, const char *name,
                                char out[TEXT_SUGGESTION_BYTES])
{
    enum { NAMES_MAX = 64 };
    const char *names[NAMES_MAX];
    int count = 0;
    for (; files[count].name != NULL && count < NAMES_MAX; count++) {
        names[count] = files[count].name;
    }
    return text_suggestion(name, names, count, out);
}
