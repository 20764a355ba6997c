/// Reads a study by the table of its keys: each object's keys, each value into its place.
#include "analysis/study/study_keys.h"

#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { WORDS_BYTES_MAX = 100, CHILDREN_MAX = 48, PATH_BYTES = 160 };

/// The name of a key of keys_below if it is directly below the section; else NULL.
static const char *name_below(const ana_study_key *key, const char *section)
{
    const char *name = key->path + (section[0] != '\0' ? strlen(section) + 1 : 0);
    return strchr(name, '.') == NULL ? name : NULL;
}

static bool begins(const char *path, const char *section)
{
    return path[0] == section[0] && strncmp(path, section, strlen(section)) == 0;
}

/// The keys below a section, at any depth: in the table they stand together.
static const ana_study_key *keys_below(const char *section, int *count)
{
    const size_t length = strlen(section);
    int all = 0;
    const ana_study_key *keys = ana_study_keys(&all);
    const ana_study_key *end = keys + all;
    *count = all;
    if (length == 0) return keys;
    while (keys < end && !(begins(keys->path, section) && keys->path[length] == '.')) {
        keys++;
    }
    const ana_study_key *after = keys;
    while (after < end && begins(after->path, section)) {
        after++;
    }
    *count = (int)(after - keys);
    return keys;
}

static void put_default(const ana_study_key *key, void *record)
{
    void *place = (char *)record + key->offset;
    if (key->text != NULL) *(const char **)place = key->text;
    switch (key->type) {
    case ANA_KEY_INT:
    case ANA_KEY_CHOICE:
        *(int *)place = (int)key->fallback;
        break;
    case ANA_KEY_INT64:
        *(int64_t *)place = (int64_t)key->fallback;
        break;
    case ANA_KEY_DOUBLE:
        *(double *)place = key->fallback;
        break;
    case ANA_KEY_BOOL:
    case ANA_KEY_SWITCH:
        *(bool *)place = key->fallback != 0;
        break;
    case ANA_KEY_OWN:
        if (key->max > 0) *(int *)place = (int)key->fallback;
        break;
    default:
        break;
    }
}

/// Records of their own, of which a study has several.
static bool is_of_record(const char *path)
{
    static const char *const records[] = {"cluster.slow_ranks", "disturbance.links", "repack",
                                          "balancing"};
    for (size_t record = 0; record < sizeof records / sizeof records[0]; record++) {
        if (begins(path, records[record])) return true;
    }
    return false;
}

void ana_study_keys_init(const char *section, void *record)
{
    int count = 0;
    const ana_study_key *keys = keys_below(section, &count);
    for (int key = 0; key < count; key++) {
        if ((keys[key].flags & ANA_KEY_WITH_SECTION) != 0) continue;
        if (section[0] != '\0' || !is_of_record(keys[key].path)) put_default(&keys[key], record);
    }
}

/// The value that a record has for a key, as people read it.
static void value_text(const ana_study_key *key, const void *record, char out[PATH_BYTES])
{
    const void *place = (const char *)record + key->offset;
    const char *blank = key->unit != NULL ? " " : "";
    const char *unit = key->unit != NULL ? key->unit : "";
    out[0] = '\0';
    switch (key->type) {
    case ANA_KEY_OWN:
    case ANA_KEY_INT:
        snprintf(out, PATH_BYTES, "%d%s%s", *(const int *)place, blank, unit);
        break;
    case ANA_KEY_INT64:
        snprintf(out, PATH_BYTES, "%" PRId64 "%s%s", *(const int64_t *)place, blank, unit);
        break;
    case ANA_KEY_DOUBLE:
        snprintf(out, PATH_BYTES, "%.12g", *(const double *)place);
        break;
    case ANA_KEY_BOOL:
        snprintf(out, PATH_BYTES, "%s", *(const bool *)place ? "yes" : "no");
        break;
    case ANA_KEY_SEED:
        snprintf(out, PATH_BYTES, "%" PRIu64, *(const uint64_t *)place);
        break;
    case ANA_KEY_CHOICE:
        snprintf(out, PATH_BYTES, "%s", key->names[*(const int *)place]);
        break;
    case ANA_KEY_SWITCH:
        snprintf(out, PATH_BYTES, "%s", key->names[*(const bool *)place]);
        break;
    case ANA_KEY_NAME:
    case ANA_KEY_WORDS:
        snprintf(out, PATH_BYTES, "%s", *(const char *const *)place);
        break;
    default:
        break;
    }
}

void ana_study_list_default(ana_study *study, const char *path)
{
    char text[PATH_BYTES];
    if (study->inputs.has_names_only || ana_inputs_find(&study->inputs, path) != NULL) return;
    value_text(ana_study_key_find(path), study, text);
    model_assume(&study->inputs, path, MODEL_ORIGIN_ASSUMED, NULL, "%s", text);
}

static status read_choice(const ana_reading *reading, const ana_study_key *key, json_value value,
                          int *choice)
{
    const char *text = NULL;
    const char *const *names = key->names + (int)key->min;
    const int count = (int)key->max - (int)key->min + 1;
    text_buffer known = {.memory = reading->memory};
    TRY(json_string(value, &text, reading->err));
    const int found = text_find(text, names, count);
    if (found < count) {
        *choice = (int)key->min + found;
        return STATUS_OK;
    }
    for (int name = 0; name < count; name++) {
        text_format(&known, "%s%s", name > 0 ? ", " : "", names[name]);
    }
    return json_error(value, STATUS_FORMAT, reading->err, "'%.40s' is not one of %s", text,
                      known.bytes);
}

static status read_words(json_value value, const char **words, error_message *err)
{
    const char *text = NULL;
    TRY(json_string(value, &text, err));
    const size_t length = strlen(text);
    if (length < 1 || length > WORDS_BYTES_MAX) {
        return json_error(value, STATUS_FORMAT, err, "has %zu bytes, needs 1 to %d", length,
                          WORDS_BYTES_MAX);
    }
    if (text_has_control(text, "")) {
        return json_error(value, STATUS_FORMAT, err, "holds a control character");
    }
    *words = text;
    return STATUS_OK;
}

static int int_max(const ana_reading *reading, const ana_study_key *key)
{
    if ((key->flags & ANA_KEY_RANK) != 0) return reading->study->stage_count - 1;
    if ((key->flags & ANA_KEY_RANKS) != 0) return reading->study->stage_count;
    return (int)key->max;
}

/// Reads one value into its place.
static status read_plain(const ana_reading *reading, const ana_study_key *key, json_value value,
                         void *place)
{
    int64_t wide = 0;
    int choice = 0;
    switch (key->type) {
    case ANA_KEY_INT:
        return json_int(value, (int)key->min, int_max(reading, key), place, reading->err);
    case ANA_KEY_INT64:
        return json_int64(value, (int64_t)key->min, (int64_t)key->max, place, reading->err);
    case ANA_KEY_DOUBLE:
        return json_double(value, key->min, key->max, place, reading->err);
    case ANA_KEY_BOOL:
        return json_bool(value, place, reading->err);
    case ANA_KEY_SEED:
        TRY(json_int64(value, 0, JSON_INTEGER_MAX, &wide, reading->err));
        *(uint64_t *)place = (uint64_t)wide;
        return STATUS_OK;
    case ANA_KEY_WORDS:
        return read_words(value, place, reading->err);
    case ANA_KEY_CHOICE:
        return read_choice(reading, key, value, place);
    case ANA_KEY_SWITCH:
        TRY(read_choice(reading, key, value, &choice));
        *(bool *)place = choice == 1;
        return STATUS_OK;
    default:
        TRY(read_choice(reading, key, value, &choice));
        *(const char **)place = key->names[choice];
        return STATUS_OK;
    }
}

static status read_records(const ana_reading *reading, const ana_study_key *key, json_value values,
                           const char *path)
{
    const int count = json_count(values);
    if (!json_is_array(values) || count > (int)key->max) {
        return json_error(values, STATUS_FORMAT, reading->err, "needs an array of at most %d",
                          (int)key->max);
    }
    json_value value = json_element(values, 0);
    for (int index = 0; index < count; index++, value = json_next(value)) {
        char place[PATH_BYTES];
        union {
            bal_slow_rank slow;
            bal_disturbed_link link;
        } record;
        memset(&record, 0, sizeof record);
        snprintf(place, sizeof place, "%s[%d]", path, index);
        ana_study_keys_init(key->path, &record);
        TRY(ana_read_keys(reading, value, key->path, place, &record));
        TRY(key->read(reading, value, place, &record));
    }
    return STATUS_OK;
}

static status read_object(const ana_reading *reading, const ana_study_key *key, json_value value,
                          const char *path, void *record)
{
    TRY(ana_read_keys(reading, value, key->path, path, record));
    return key->read != NULL ? key->read(reading, value, path, record) : STATUS_OK;
}

static status read_value(const ana_reading *reading, const ana_study_key *key, json_value value,
                         const char *path, void *record)
{
    char text[PATH_BYTES];
    switch (key->type) {
    case ANA_KEY_KNOWN:
        return STATUS_OK;
    case ANA_KEY_OWN:
        return key->read(reading, value, path, (char *)record + key->offset);
    case ANA_KEY_PATH:
        return ana_read_path(reading, value, key->shipped,
                             (const char **)((char *)record + key->offset));
    case ANA_KEY_RECORDS:
        return read_records(reading, key, value, path);
    case ANA_KEY_OBJECT:
        return read_object(reading, key, value, path, record);
    default:
        break;
    }
    if (key->read != NULL && json_is_object(value)) {
        return read_object(reading, key, value, path, record);
    }
    TRY(read_plain(reading, key, value, (char *)record + key->offset));
    if ((key->flags & ANA_KEY_UNLISTED) != 0) return STATUS_OK;
    text[0] = '\0';
    if (!reading->study->inputs.has_names_only) value_text(key, record, text);
    return ana_list_given(reading, path, text);
}

/// The path of a name in an object, cut off at PATH_BYTES.
static void join(char place[PATH_BYTES], const char *path, const char *name)
{
    size_t length = strnlen(path, PATH_BYTES - 2);
    memcpy(place, path, length);
    if (length > 0) place[length++] = '.';
    const size_t rest = strnlen(name, PATH_BYTES - 1 - length);
    memcpy(place + length, name, rest);
    place[length + rest] = '\0';
}

/// The keys directly below a section, and what an object has for each.
typedef struct children {
    const ana_study_key *keys[CHILDREN_MAX];
    const char *names[CHILDREN_MAX];
    json_value values[CHILDREN_MAX];
    int count;
} children;

/// The child of a name, or -1. Most differ in the first letter.
static int find_child(const children *all, const char *name)
{
    for (int child = 0; child < all->count; child++) {
        if (all->names[child][0] == name[0] && strcmp(all->names[child], name) == 0) return child;
    }
    return -1;
}

/// Matches members and keys; refuses unknown keys, and that needed ones are missing.
static status match_keys(const ana_reading *reading, json_value object, const char *section,
                         children *all)
{
    int count = 0;
    const ana_study_key *keys = keys_below(section, &count);
    all->count = 0;
    for (int key = 0; key < count; key++) {
        const char *name = name_below(&keys[key], section);
        if (name == NULL) continue;
        assert(all->count < CHILDREN_MAX);
        all->keys[all->count] = &keys[key];
        all->names[all->count] = name;
        all->values[all->count++] =
            (json_value){.document = object.document, .key = name, .parent = object.node};
    }
    bool is_known = json_is_object(object);
    json_value member = is_known ? json_element(object, 0) : object;
    for (; is_known && member.node != NULL; member = json_next(member)) {
        const int child = find_child(all, json_key(member));
        is_known = child >= 0;
        if (is_known) all->values[child] = member;
    }
    if (!is_known) return json_check_keys(object, all->names, all->count, reading->err);
    for (int child = 0; child < all->count; child++) {
        const unsigned flags = all->keys[child]->flags & (ANA_KEY_NEEDED | ANA_KEY_ALWAYS);
        if (flags != ANA_KEY_NEEDED || !json_is_missing(all->values[child])) continue;
        return json_error(object, STATUS_FORMAT, reading->err, "'%s' is missing",
                          all->names[child]);
    }
    return STATUS_OK;
}

status ana_read_keys(const ana_reading *reading, json_value object, const char *section,
                     const char *path, void *record)
{
    children all;
    TRY(match_keys(reading, object, section, &all));
    for (int child = 0; child < all.count; child++) {
        const ana_study_key *key = all.keys[child];
        if ((key->flags & ANA_KEY_LATE) != 0) continue;
        if ((key->flags & ANA_KEY_WITH_SECTION) != 0) put_default(key, record);
        const json_value value = all.values[child];
        char place[PATH_BYTES];
        if (json_is_missing(value) && (key->flags & ANA_KEY_ALWAYS) == 0) continue;
        join(place, path, all.names[child]);
        TRY(read_value(reading, key, value, place, record));
    }
    return STATUS_OK;
}

status ana_read_late_key(const ana_reading *reading, json_value value, const char *path)
{
    if (json_is_missing(value)) return STATUS_OK;
    return read_value(reading, ana_study_key_find(path), value, path, reading->study);
}
