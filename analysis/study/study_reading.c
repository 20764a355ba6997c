#include "analysis/study/study_reading.h"

#include "base/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { WORDS_BYTES_MAX = 100, PATH_BYTES_MAX = 120, BASE_CHANGES_MAX = 64 };

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

status ana_list_given(const ana_reading *reading, const char *section, const char *key,
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
    return ana_list_given(reading, section, key, text);
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
    return ana_list_given(reading, section, key, text);
}

status ana_read_bool(const ana_reading *reading, json_value object, const char *section,
                     const char *key, bool *value)
{
    const json_value member = json_member(object, key);
    if (json_is_missing(member)) return STATUS_OK;
    TRY(json_bool(member, value, reading->err));
    return ana_list_given(reading, section, key, *value ? "yes" : "no");
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
        return ana_list_given(reading, section, key, text);
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
    return STATUS_OK;
}

/// Lists every leaf of the changes of a file, one "path": value after the other.
static status add_changes(const ana_reading *reading, json_value object, const char *section,
                          text_buffer *changes)
{
    json_document *leaves = NULL;
    TRY(json_open_bytes(section, changes->bytes, changes->length, &leaves, reading->err));
    json_value leaf = json_element(json_root(leaves), 0);
    status result = json_count(json_root(leaves)) <= BASE_CHANGES_MAX
                        ? STATUS_OK
                        : json_error(object, STATUS_FORMAT, reading->err,
                                     "changes more than %d values", BASE_CHANGES_MAX);
    for (; leaf.node != NULL && result == STATUS_OK; leaf = json_next(leaf)) {
        text_buffer value = {0};
        json_writer writer = json_writer_init(&value);
        json_write_value(&writer, leaf);
        if (strlen(json_key(leaf)) > PATH_BYTES_MAX) {
            result = json_error(object, STATUS_FORMAT, reading->err,
                                "the key '%.40s...' is too long", json_key(leaf));
        } else if (value.failed) {
            result = error_set(reading->err, STATUS_NO_MEMORY, "out of memory");
        } else {
            result = ana_list_given(reading, section, json_key(leaf), value.bytes);
        }
        text_free(&value);
    }
    json_close(leaves);
    return result;
}

/// Writes what an object says beside its base as changes of the base.
static void write_changes(json_value object, text_buffer *changes)
{
    json_writer writer = json_writer_init(changes);
    json_begin_object(&writer);
    json_value member = json_element(object, 0);
    for (; member.node != NULL; member = json_next(member)) {
        if (strcmp(json_key(member), "base") != 0) {
            json_put_leaves(&writer, json_key(member), member);
        }
    }
    json_end_object(&writer);
}

status ana_read_based_file(const ana_reading *reading, json_value value, const char *section,
                           const embedded_file *shipped, const char **path, const char **changes)
{
    *changes = NULL;
    if (!json_is_object(value)) return ana_read_path(reading, value, shipped, path);
    TRY(ana_read_path(reading, json_member(value, "base"), shipped, path));
    if (json_count(value) == 1) return STATUS_OK;
    text_buffer text = {0};
    write_changes(value, &text);
    status result = text.failed ? error_set(reading->err, STATUS_NO_MEMORY, "out of memory")
                                : add_changes(reading, value, section, &text);
    if (result == STATUS_OK) {
        *changes = arena_string(reading->memory, text.bytes);
        if (*changes == NULL) result = error_set(reading->err, STATUS_NO_MEMORY, "out of memory");
    }
    text_free(&text);
    return result;
}

static bool is_date(const char *text)
{
    static const char form[] = "0000-00-00";
    if (strlen(text) != sizeof form - 1) return false;
    for (size_t at = 0; at < sizeof form - 1; at++) {
        const bool is_digit = text[at] >= '0' && text[at] <= '9';
        if (form[at] == '0' ? !is_digit : text[at] != form[at]) return false;
    }
    const int month = (text[5] - '0') * 10 + text[6] - '0';
    const int day = (text[8] - '0') * 10 + text[9] - '0';
    return month >= 1 && month <= 12 && day >= 1 && day <= 31;
}

status ana_read_date(const ana_reading *reading, json_value object, const char *section,
                     const char *key, const char **date)
{
    const json_value member = json_member(object, key);
    const char *text = NULL;
    if (json_is_missing(member)) return STATUS_OK;
    TRY(json_string(member, &text, reading->err));
    if (!is_date(text)) {
        return json_error(member, STATUS_FORMAT, reading->err,
                          "'%.40s' is no date such as 2026-11-22", text);
    }
    *date = text;
    return ana_list_given(reading, section, key, text);
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

status ana_read_seed(const ana_reading *reading, json_value object, const char *section,
                     uint64_t *seed)
{
    int64_t given = 0;
    if (json_is_missing(json_member(object, "seed"))) return STATUS_OK;
    TRY(ana_read_int64(reading, object, section, "seed", "", 0, JSON_INTEGER_MAX, &given));
    *seed = (uint64_t)given;
    return STATUS_OK;
}
