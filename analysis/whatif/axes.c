#include "analysis/whatif/axes.h"

#include "analysis/study/study_keys.h"

#include <stdio.h>
#include <string.h>

enum { LABEL_BYTES_MAX = 200 };

/// What is handed on while the axes are read.
typedef struct axes_reading {
    arena *memory;
    ana_matrix *matrix;
    error_message *err;
} axes_reading;

static status no_memory(const axes_reading *reading)
{
    return error_set(reading->err, STATUS_NO_MEMORY, "out of memory");
}

/// Moves a text into the arena.
static status keep(const axes_reading *reading, text_buffer *text, const char **kept)
{
    *kept = text->failed ? NULL : arena_string(reading->memory, text->bytes);
    text_free(text);
    return STATUS_OK;
}

/// Strings and numbers as they are; of a row of balancing its label or its names; of a case without
/// parameters its name; else the value's JSON.
static status label_of(const axes_reading *reading, json_value value, bool is_row,
                       const char **label)
{
    if (json_count(value) == 1 && json_is_string(json_member(value, "case"))) {
        value = json_member(value, "case");
    }
    text_buffer text = {0};
    const char *words = NULL;
    const json_value named = is_row ? json_member(value, "label") : value;
    if (json_is_string(named)) {
        TRY(json_string(named, &words, reading->err));
        text_append(&text, words);
    } else if (is_row && json_is_string(json_member(value, "balancer"))) {
        static const char *const keys[] = {"balancer", "by", "policy"};
        for (int key = 0; key < 3; key++) {
            const json_value member = json_member(value, keys[key]);
            if (!json_is_string(member)) continue;
            TRY(json_string(member, &words, reading->err));
            text_format(&text, "%s%s%s", text.length > 0 ? " " : "", key == 1 ? "by " : "", words);
        }
    } else {
        json_writer writer = json_writer_init(&text);
        json_write_value(&writer, value);
    }
    return keep(reading, &text, label);
}

/// A file that is named is written as the object around it, so that its numbers have paths.
static bool is_file(const char *path)
{
    return strcmp(path, "hardware") == 0 || strcmp(path, "model") == 0;
}

static void put_change(json_writer *writer, const char *path, json_value value)
{
    json_write_key(writer, path);
    if (!is_file(path) || !json_is_string(value)) {
        json_write_value(writer, value);
        return;
    }
    json_begin_object(writer);
    json_write_key(writer, "base");
    json_write_value(writer, value);
    json_end_object(writer);
}

/// The changes of a value of `vary`: its path alone.
static status change_of(const axes_reading *reading, const char *path, json_value value,
                        const char **changes)
{
    text_buffer text = {0};
    json_writer writer = json_writer_init(&text);
    json_begin_object(&writer);
    put_change(&writer, path, value);
    json_end_object(&writer);
    return keep(reading, &text, changes);
}

/// Two values are the same if their changes are, two labels if people cannot tell them apart.
static status check_distinct(const axes_reading *reading, json_value place, const ana_axis *axis)
{
    for (int value = 0; value < axis->value_count; value++) {
        for (int other = 0; other < value; other++) {
            const bool same_label =
                strcmp(axis->values[value].label, axis->values[other].label) == 0;
            if (!same_label &&
                strcmp(axis->values[value].changes, axis->values[other].changes) != 0) {
                continue;
            }
            return json_error(place, STATUS_FORMAT, reading->err,
                              "the value '%.60s' is there twice", axis->values[value].label);
        }
    }
    return STATUS_OK;
}

/// Makes room for an axis of so many values, which set at most path_max paths.
static status add_axis(const axes_reading *reading, json_value place, const char *name, int count,
                       int path_max, ana_axis **out)
{
    ana_matrix *matrix = reading->matrix;
    if (matrix->axis_count == ANA_AXES_MAX) {
        return json_error(place, STATUS_FORMAT, reading->err, "a study has at most %d axes",
                          ANA_AXES_MAX);
    }
    if (count < 1 || count > ANA_AXIS_VALUES_MAX) {
        return json_error(place, STATUS_FORMAT, reading->err, "has %d values, needs 1 to %d", count,
                          ANA_AXIS_VALUES_MAX);
    }
    ana_axis *axis = &matrix->axes[matrix->axis_count++];
    axis->name = arena_string(reading->memory, name);
    axis->values = arena_array(reading->memory, (size_t)count, sizeof *axis->values);
    axis->paths = arena_array(reading->memory, (size_t)path_max, sizeof *axis->paths);
    axis->value_count = count;
    *out = axis;
    return axis->name != NULL && axis->values != NULL && STATUS_OK;
}

/// Notes a path that the values of an axis set. The array has room for as many as it will be told.
static status note_path(const axes_reading *reading, ana_axis *axis, const char *path)
{
    for (int known = 0; known < axis->path_count; known++) {
        if (strcmp(axis->paths[known], path) == 0) return STATUS_OK;
    }
    const char *kept = arena_string(reading->memory, path);
    axis->paths[axis->path_count++] = kept;
    return STATUS_OK;
}

static status read_varied(const axes_reading *reading, json_value values)
{
    const char *path = json_key(values);
    ana_axis *axis = NULL;
    error_message inner = {0};
    if (ana_study_path_check(path, &inner) != STATUS_OK) {
        return json_error(values, STATUS_FORMAT, reading->err, "%.200s", inner.message);
    }
    if (!json_is_array(values)) {
        return json_error(values, STATUS_FORMAT, reading->err, "needs an array of values");
    }
    TRY(add_axis(reading, values, path, json_count(values), 1, &axis));
    TRY(note_path(reading, axis, path));
    json_value value = json_element(values, 0);
    for (int index = 0; index < axis->value_count; index++, value = json_next(value)) {
        const bool is_row = strcmp(path, "balancing") == 0;
        TRY(label_of(reading, value, is_row, &axis->values[index].label));
        TRY(change_of(reading, path, value, &axis->values[index].changes));
    }
    return check_distinct(reading, values, axis);
}

/// The paths that a value of `alternatives` sets.
static status read_alternative(const axes_reading *reading, json_value paths, ana_axis *axis,
                               ana_axis_value *value)
{
    if (!json_is_object(paths) || json_count(paths) == 0) {
        return json_error(paths, STATUS_FORMAT, reading->err,
                          "needs an object of paths and their values");
    }
    text_buffer text = {0};
    json_writer writer = json_writer_init(&text);
    json_begin_object(&writer);
    error_message inner = {0};
    status result = STATUS_OK;
    json_value path = json_element(paths, 0);
    for (; path.node != NULL && result == STATUS_OK; path = json_next(path)) {
        put_change(&writer, json_key(path), path);
        if (ana_study_path_check(json_key(path), &inner) != STATUS_OK) {
            result = json_error(path, STATUS_FORMAT, reading->err, "%.200s", inner.message);
        } else {
            result = note_path(reading, axis, json_key(path));
        }
    }
    json_end_object(&writer);
    value->label = arena_string(reading->memory, json_key(paths));
    if (result == STATUS_OK && value->label != NULL) return keep(reading, &text, &value->changes);
    text_free(&text);
    return result != STATUS_OK ? result : no_memory(reading);
}

static status read_alternatives(const axes_reading *reading, json_value values)
{
    ana_axis *axis = NULL;
    if (!json_is_object(values)) {
        return json_error(values, STATUS_FORMAT, reading->err,
                          "needs an object of named values, each an object of paths");
    }
    int path_max = 0;
    json_value value = json_element(values, 0);
    for (; value.node != NULL; value = json_next(value)) {
        path_max += json_count(value);
    }
    TRY(add_axis(reading, values, json_key(values), json_count(values), path_max, &axis));
    value = json_element(values, 0);
    for (int index = 0; index < axis->value_count; index++, value = json_next(value)) {
        TRY(read_alternative(reading, value, axis, &axis->values[index]));
    }
    return check_distinct(reading, values, axis);
}

/// Reads the axes of one section.
static status read_section(const axes_reading *reading, json_value section,
                           status (*read)(const axes_reading *, json_value))
{
    if (section.node == NULL) return STATUS_OK;
    if (!json_is_object(section) || json_count(section) == 0) {
        return json_error(section, STATUS_FORMAT, reading->err, "needs at least one axis");
    }
    json_value axis = json_element(section, 0);
    for (; axis.node != NULL; axis = json_next(axis)) {
        TRY(read(reading, axis));
    }
    return STATUS_OK;
}

/// Whether one of two paths is the other or an object around it.
static bool paths_overlap(const char *one, const char *other)
{
    const size_t length = strlen(one) < strlen(other) ? strlen(one) : strlen(other);
    return strncmp(one, other, length) == 0 && (one[length] == '\0' || one[length] == '.') &&
           (other[length] == '\0' || other[length] == '.');
}

/// The path of an axis that is path, below it or around it; NULL if none is.
static const char *overlapping(const ana_axis *axis, const char *path)
{
    for (int each = 0; each < axis->path_count; each++) {
        if (paths_overlap(axis->paths[each], path)) return axis->paths[each];
    }
    return NULL;
}

/// Refuses two axes that set the same value: one would undo the other.
static status check_paths(const axes_reading *reading)
{
    const ana_matrix *matrix = reading->matrix;
    for (int index = 0; index < matrix->axis_count; index++) {
        const ana_axis *axis = &matrix->axes[index];
        for (int pair = 0; pair < index * axis->path_count; pair++) {
            const ana_axis *other = &matrix->axes[pair / axis->path_count];
            const char *path = axis->paths[pair % axis->path_count];
            if (overlapping(other, path) == NULL) continue;
            return error_set(reading->err, STATUS_FORMAT,
                             "%s: the axes '%.60s' and '%.60s' both set '%.80s'", matrix->name,
                             other->name, axis->name, path);
        }
    }
    return STATUS_OK;
}

/// Several rows of the study are an axis, unless another axis sets their path.
static status read_rows(const axes_reading *reading, json_value rows)
{
    ana_axis *axis = NULL;
    if (!json_is_array(rows) || json_count(rows) < 2) return STATUS_OK;
    for (int other = 0; other < reading->matrix->axis_count; other++) {
        if (overlapping(&reading->matrix->axes[other], "balancing") == NULL) continue;
        return json_error(rows, STATUS_FORMAT, reading->err,
                          "has %d rows, which are an axis, and '%.60s' is another over them",
                          json_count(rows), reading->matrix->axes[other].name);
    }
    TRY(add_axis(reading, rows, "balancing", json_count(rows), 1, &axis));
    TRY(note_path(reading, axis, "balancing"));
    json_value row = json_element(rows, 0);
    for (int index = 0; index < axis->value_count; index++, row = json_next(row)) {
        TRY(label_of(reading, row, true, &axis->values[index].label));
        TRY(change_of(reading, "balancing", row, &axis->values[index].changes));
    }
    return check_distinct(reading, rows, axis);
}

status ana_axes_read(json_value root, arena *memory, ana_matrix *matrix, error_message *err)
{
    const axes_reading reading = {memory, matrix, err};
    TRY(read_section(&reading, json_member(root, "vary"), read_varied));
    TRY(read_section(&reading, json_member(root, "alternatives"), read_alternatives));
    TRY(read_rows(&reading, json_member(root, "balancing")));
    return check_paths(&reading);
}
