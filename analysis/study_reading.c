#include "analysis/study_reading.h"

#include "base/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { WORDS_BYTES_MAX = 100 };

/// The origin of a value that the study gives: what "sources" says of its path or of an object
/// around it, else given.
static status origin_of(const ana_reading *reading, const char *path, model_origin_kind *origin)
{
    *origin = MODEL_ORIGIN_GIVEN;
    char prefix[160];
    snprintf(prefix, sizeof prefix, "%s", path);
    json_value named = json_member(reading->sources, prefix);
    while (json_is_missing(named)) {
        char *dot = strrchr(prefix, '.');
        if (dot == NULL) return STATUS_OK;
        *dot = '\0';
        named = json_member(reading->sources, prefix);
    }
    const char *text = NULL;
    TRY(json_string(named, &text, reading->err));
    *origin = model_origin_kind_find(text);
    if (*origin != MODEL_ORIGIN_KIND_COUNT) return STATUS_OK;
    return json_error(named, STATUS_FORMAT, reading->err,
                      "'%.40s' is not one of given, measured, fitted, preset, assumed", text);
}

/// Lists what was read at "section.key".
static status add_given(const ana_reading *reading, const char *section, const char *key,
                        const char *value)
{
    char path[160];
    model_origin_kind origin;
    snprintf(path, sizeof path, "%s%s%s", section, section[0] != '\0' ? "." : "", key);
    TRY(origin_of(reading, path, &origin));
    ana_inputs_add(&reading->study->inputs, reading->memory, path, origin, "%s", value);
    return STATUS_OK;
}

status ana_read_int64(const ana_reading *reading, json_value object, const char *section,
                      const char *key, const char *unit, int64_t min, int64_t max, int64_t *value)
{
    const json_value member = json_member(object, key);
    if (json_is_missing(member)) return STATUS_OK;
    TRY(json_int64(member, min, max, value, reading->err));
    char text[64];
    snprintf(text, sizeof text, "%" PRId64 "%s%s", *value, unit[0] != '\0' ? " " : "", unit);
    return add_given(reading, section, key, text);
}

status ana_read_int(const ana_reading *reading, json_value object, const char *section,
                    const char *key, const char *unit, int min, int max, int *value)
{
    int64_t wide = *value;
    TRY(ana_read_int64(reading, object, section, key, unit, min, max, &wide));
    *value = (int)wide;
    return STATUS_OK;
}

status ana_read_double(const ana_reading *reading, json_value object, const char *section,
                       const char *key, double min, double max, double *value)
{
    const json_value member = json_member(object, key);
    if (json_is_missing(member)) return STATUS_OK;
    TRY(json_double(member, min, max, value, reading->err));
    char text[64];
    snprintf(text, sizeof text, "%.12g", *value);
    return add_given(reading, section, key, text);
}

status ana_read_bool(const ana_reading *reading, json_value object, const char *section,
                     const char *key, bool *value)
{
    const json_value member = json_member(object, key);
    if (json_is_missing(member)) return STATUS_OK;
    TRY(json_bool(member, value, reading->err));
    return add_given(reading, section, key, *value ? "yes" : "no");
}

status ana_read_choice(const ana_reading *reading, json_value object, const char *section,
                       const char *key, const char *const *names, int name_count, int *choice)
{
    const json_value member = json_member(object, key);
    const char *text = NULL;
    if (json_is_missing(member)) return STATUS_OK;
    TRY(json_string(member, &text, reading->err));
    for (int name = 0; name < name_count; name++) {
        if (strcmp(text, names[name]) != 0) continue;
        *choice = name;
        return add_given(reading, section, key, text);
    }
    char known[160] = "";
    for (int name = 0; name < name_count; name++) {
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", name > 0 ? ", " : "", names[name]);
    }
    return json_error(member, STATUS_FORMAT, reading->err, "'%.40s' is not one of %s", text, known);
}

status ana_read_path(const ana_reading *reading, json_value value, const embedded_file *shipped,
                     const char **path)
{
    const char *text = NULL;
    TRY(json_string(value, &text, reading->err));
    const bool is_word = strchr(text, '/') == NULL && strchr(text, '.') == NULL;
    const bool is_name = shipped != NULL && (is_word || embedded_find(shipped, text) != NULL);
    *path = is_name ? text : file_path_beside(reading->study->path, text, reading->memory);
    return *path != NULL ? STATUS_OK : error_set(reading->err, STATUS_NO_MEMORY, "out of memory");
}

/// A name for people: it stands in tables, in the store and in pictures.
status ana_read_words(const ana_reading *reading, json_value value, const char **words)
{
    const char *text = NULL;
    if (json_is_missing(value)) return STATUS_OK;
    TRY(json_string(value, &text, reading->err));
    const size_t length = strlen(text);
    if (length < 1 || length > WORDS_BYTES_MAX) {
        return json_error(value, STATUS_FORMAT, reading->err, "has %zu bytes, needs 1 to %d",
                          length, WORDS_BYTES_MAX);
    }
    for (const char *c = text; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ') {
            return json_error(value, STATUS_FORMAT, reading->err, "holds control character %d", *c);
        }
    }
    *words = text;
    return STATUS_OK;
}
