#include "models/shipped.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

static const model_shipped_file *find(model_shipped_kind kind, const char *name)
{
    int count = 0;
    const model_shipped_file *files = model_shipped_files(&count);
    for (int file = 0; file < count; file++) {
        if (files[file].kind == kind && strcmp(files[file].name, name) == 0) return &files[file];
    }
    return NULL;
}

/// Completes the message of a path that could not be read: it may have been meant as a name.
static status refuse(model_shipped_kind kind, const char *name, status code, error_message *err)
{
    if (err == NULL) return code;
    char reason[sizeof err->message];
    snprintf(reason, sizeof reason, "%s", err->message);
    char names[256] = "";
    int count = 0;
    const model_shipped_file *files = model_shipped_files(&count);
    for (int file = 0; file < count; file++) {
        if (files[file].kind != kind) continue;
        const size_t length = strlen(names);
        snprintf(names + length, sizeof names - length, "%s%s", length > 0 ? ", " : "",
                 files[file].name);
    }
    return error_set(err, code, "%.200s; and no shipped %s is named '%.60s' (there are %s)", reason,
                     kind == MODEL_SHIPPED_CONFIG ? "model" : "hardware", name, names);
}

status model_shipped_open(model_shipped_kind kind, const char *name_or_path,
                          json_document **document, bool *is_shipped, error_message *err)
{
    const model_shipped_file *file = find(kind, name_or_path);
    if (file != NULL) {
        TRY(json_open_bytes(file->name, file->bytes, file->length, document, err));
        *is_shipped = true;
        return STATUS_OK;
    }
    const status result = json_open(name_or_path, document, err);
    if (result == STATUS_IO) return refuse(kind, name_or_path, result, err);
    TRY(result);
    *is_shipped = false;
    return STATUS_OK;
}
