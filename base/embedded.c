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
