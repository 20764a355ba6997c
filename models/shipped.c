#include "models/shipped.h"

#include "base/file.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHANGED_FILE_BYTES_MAX = 16 << 20 };

static const embedded_file *files_of(model_shipped_kind kind)
{
    return kind == MODEL_SHIPPED_CONFIG ? model_shipped_configs : model_shipped_hardware;
}

/// Completes the message of a path that could not be read: it may have been meant as a name.
static status refuse(model_shipped_kind kind, const char *name, status code, error_message *err)
{
    char suggestion[TEXT_SUGGESTION_BYTES];
    if (err == NULL) return code;
    char reason[sizeof err->message];
    snprintf(reason, sizeof reason, "%s", err->message);
    return error_set(err, code, "%.120s; and no shipped %s is named '%.40s'%s", reason,
                     kind == MODEL_SHIPPED_CONFIG ? "model" : "hardware", name,
                     embedded_suggestion(files_of(kind), name, suggestion));
}

status model_shipped_open(model_shipped_kind kind, const char *name_or_path, const char *changes,
                          json_document **document, error_message *err)
{
    const char *text = embedded_find(files_of(kind), name_or_path);
    char *bytes = NULL;
    size_t length = 0;
    status result = STATUS_OK;
    if (text != NULL && changes != NULL) {
        return json_open_changed(name_or_path, text, changes, document, err);
    }
    if (text != NULL) return json_open_bytes(name_or_path, text, strlen(text), document, err);
    if (changes == NULL) {
        result = json_open(name_or_path, document, err);
        return result == STATUS_IO ? refuse(kind, name_or_path, result, err) : result;
    }
    result = file_read(name_or_path, CHANGED_FILE_BYTES_MAX, &bytes, &length, err);
    if (result != STATUS_OK) return refuse(kind, name_or_path, result, err);
    result = json_open_changed(name_or_path, bytes, changes, document, err);
    free(bytes);
    return result;
}
