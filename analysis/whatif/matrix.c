#include "analysis/whatif/matrix.h"

#include "analysis/study/study_keys.h"
#include "base/arena.h"
#include "base/rng.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLE_PURPOSE = 0x5a }; // of the random numbers; the axis is added

/// The base has no axes, one row of balancing, and files as objects around their names.
static void write_base_changes(json_value root, text_buffer *out)
{
    static const char *const files[] = {"hardware", "model"};
    static const char *const axes[] = {"vary", "alternatives", "uncertainty"};
    const json_value balancing = json_member(root, "balancing");
    json_writer writer = json_writer_init(out);
    json_begin_object(&writer);
    for (size_t key = 0; key < sizeof axes / sizeof axes[0]; key++) {
        json_write_key(&writer, axes[key]);
        json_write_null(&writer);
    }
    for (size_t file = 0; file < sizeof files / sizeof files[0]; file++) {
        const json_value named = json_member(root, files[file]);
        if (!json_is_string(named)) continue;
        json_put_object(&writer, files[file]);
        json_write_key(&writer, "base");
        json_write_value(&writer, named);
        json_end_object(&writer);
    }
    if (json_is_missing(balancing)) {
        json_put_string(&writer, "balancing.balancer", "tuned");
    } else if (json_is_array(balancing) && json_count(balancing) > 0) {
        json_write_key(&writer, "balancing");
        json_write_value(&writer, json_element(balancing, 0));
    }
    json_end_object(&writer);
}

static status make_base(const char *name, const char *text, json_value root, arena *memory,
                        const char **base, error_message *err)
{
    text_buffer changes = {0};
    text_buffer changed = {0};
    write_base_changes(root, &changes);
    const status result = json_change(name, text, changes.bytes, &changed, err);
    if (result == STATUS_OK) *base = arena_string(memory, changed.bytes);
    text_free(&changes);
    text_free(&changed);
    return result;
}

/// The product of the axes; -1 if it is above what JSON holds.
static int64_t count_points(const ana_matrix *matrix)
{
    int64_t count = 1;
    for (int axis = 0; axis < matrix->axis_count; axis++) {
        if (count > JSON_INTEGER_MAX / matrix->axes[axis].value_count) return -1;
        count *= matrix->axes[axis].value_count;
    }
    return count;
}

static status check_count(const ana_matrix *matrix, const ana_sampling *sampling,
                          error_message *err)
{
    if (matrix->full_count < 0) {
        return error_set(err, STATUS_INVALID,
                         "%s: the %d axes have more than 2^53 points in all; give fewer values",
                         matrix->name, matrix->axis_count);
    }
    if (matrix->full_count <= ANA_POINTS_MAX || sampling->count > 0) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "%s: the %d axes have %" PRId64 " points in all, at most %d are played; "
                     "--sample N --seed s takes N of them, spread evenly over every axis",
                     matrix->name, matrix->axis_count, matrix->full_count, ANA_POINTS_MAX);
}

/// Shuffles 0 .. count - 1.
static void shuffle(int *order, int count, rng *generator)
{
    for (int index = 0; index < count; index++) {
        order[index] = index;
    }
    for (int index = count - 1; index > 0; index--) {
        const int other = (int)rng_below(generator, (uint64_t)index + 1);
        const int kept = order[index];
        order[index] = order[other];
        order[other] = kept;
    }
}

static int compare_numbers(const void *one, const void *other)
{
    const int64_t a = *(const int64_t *)one;
    const int64_t b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

/// Adds an axis to the numbers of a Latin hypercube: the point of the k-th stratum of count has the
/// value that stands at k / count of the axis.
static void add_strata(const ana_axis *axis, const int *order, int count, int64_t *numbers)
{
    for (int point = 0; point < count; point++) {
        const int64_t value = (int64_t)order[point] * axis->value_count / count;
        numbers[point] = numbers[point] * axis->value_count + value;
    }
}

static int64_t remove_repeated(int64_t *numbers, int64_t count)
{
    int64_t kept = 0;
    for (int64_t index = 0; index < count; index++) {
        if (kept == 0 || numbers[index] != numbers[kept - 1]) numbers[kept++] = numbers[index];
    }
    return kept;
}

static void draw_sample(ana_matrix *matrix, const ana_sampling *sampling, arena *memory)
{
    const int count = (int)sampling->count;
    int64_t *numbers = arena_array(memory, (size_t)count, sizeof *numbers);
    int *order = memory_array((size_t)count, sizeof *order);
    for (int axis = 0; axis < matrix->axis_count; axis++) {
        rng generator = rng_init(sampling->seed, (uint64_t)(SAMPLE_PURPOSE + axis));
        shuffle(order, count, &generator);
        add_strata(&matrix->axes[axis], order, count, numbers);
    }
    free(order);
    qsort(numbers, (size_t)count, sizeof *numbers, compare_numbers);
    matrix->point_count = remove_repeated(numbers, count);
    matrix->sampled = numbers;
}

/// The value at a path of keys; missing where there is none.
static json_value value_at(json_value object, const char *path)
{
    char key[128];
    for (const char *dot = strchr(path, '.'); dot != NULL; dot = strchr(path, '.')) {
        snprintf(key, sizeof key, "%.*s", (int)(dot - path), path);
        object = json_member(object, key);
        path = dot + 1;
    }
    return json_member(object, path);
}

static bool are_equal(json_value one, json_value other)
{
    text_buffer texts[2] = {{0}, {0}};
    json_writer writers[2] = {json_writer_init(&texts[0]), json_writer_init(&texts[1])};
    json_write_value(&writers[0], one);
    json_write_value(&writers[1], other);
    const bool equal = strcmp(texts[0].bytes, texts[1].bytes) == 0;
    text_free(&texts[0]);
    text_free(&texts[1]);
    return equal;
}

/// Whether the base has what a value of an axis sets.
static status base_has(json_value base, const ana_axis_value *value, bool *has, error_message *err)
{
    json_document *changes = NULL;
    TRY(json_open_bytes("changes", value->changes, strlen(value->changes), &changes, err));
    *has = true;
    json_value change = json_element(json_root(changes), 0);
    for (; change.node != NULL && *has; change = json_next(change)) {
        *has = are_equal(value_at(base, json_key(change)), change);
    }
    json_close(changes);
    return STATUS_OK;
}

/// Whether the base has a value at each path of an axis.
static bool base_has_paths(json_value base, const ana_axis *axis)
{
    for (int path = 0; path < axis->path_count; path++) {
        if (json_is_missing(value_at(base, axis->paths[path]))) return false;
    }
    return true;
}

static status find_base_values(json_value base, const ana_matrix *matrix, int *base_value,
                               error_message *err)
{
    for (int axis = 0; axis < matrix->axis_count; axis++) {
        base_value[axis] =
            base_has_paths(base, &matrix->axes[axis]) ? ANA_BASE_OTHER : ANA_BASE_NONE;
        for (int value = 0; value < matrix->axes[axis].value_count && base_value[axis] < 0;
             value++) {
            bool has = false;
            TRY(base_has(base, &matrix->axes[axis].values[value], &has, err));
            if (has) base_value[axis] = value;
        }
    }
    return STATUS_OK;
}

static status locate_base(ana_matrix *matrix, arena *memory, error_message *err)
{
    json_document *base = NULL;
    int *base_value = arena_array(memory, (size_t)matrix->axis_count, sizeof *base_value);
    matrix->base_value = base_value;
    TRY(json_open_bytes(matrix->name, matrix->base, strlen(matrix->base), &base, err));
    const status result = find_base_values(json_root(base), matrix, base_value, err);
    json_close(base);
    return result;
}

static status read_matrix(const char *text, json_value root, const ana_sampling *sampling,
                          arena *memory, ana_matrix *matrix, error_message *err)
{
    if (!json_is_object(root)) return json_error(root, STATUS_FORMAT, err, "not an object");
    TRY(ana_axes_read(root, memory, matrix, err));
    TRY(make_base(matrix->name, text, root, memory, &matrix->base, err));
    TRY(locate_base(matrix, memory, err));
    matrix->full_count = count_points(matrix);
    matrix->point_count = matrix->full_count;
    TRY(check_count(matrix, sampling, err));
    if (sampling->count == 0 || sampling->count >= matrix->full_count) {
        return STATUS_OK; // all of them, if they are no more than a sample may have
    }
    draw_sample(matrix, sampling, memory);
    return STATUS_OK;
}

status ana_matrix_open(const char *name, const char *text, const ana_sampling *sampling,
                       arena *memory, ana_matrix *matrix, error_message *err)
{
    json_document *document = NULL;
    ana_matrix read = {.name = arena_string(memory, name)};
    TRY(json_open_bytes(name, text, strlen(text), &document, err));
    const status result = read_matrix(text, json_root(document), sampling, memory, &read, err);
    json_close(document);
    if (result == STATUS_OK) *matrix = read;
    return result;
}

int64_t ana_matrix_number(const ana_matrix *matrix, int64_t index)
{
    return matrix->sampled != NULL ? matrix->sampled[index] : index;
}

void ana_matrix_values(const ana_matrix *matrix, int64_t number, int *value)
{
    for (int axis = matrix->axis_count - 1; axis >= 0; axis--) {
        value[axis] = (int)(number % matrix->axes[axis].value_count);
        number /= matrix->axes[axis].value_count;
    }
}

bool ana_matrix_find_base(const ana_matrix *matrix, int64_t *number)
{
    int64_t found = 0;
    for (int axis = 0; axis < matrix->axis_count; axis++) {
        if (matrix->base_value[axis] < 0) return false;
        found = found * matrix->axes[axis].value_count + matrix->base_value[axis];
    }
    *number = found;
    return true;
}

/// The members of a JSON object without its braces, after those that are there.
static void append_members(text_buffer *out, const char *object)
{
    const size_t length = strlen(object);
    if (length <= 2) return;
    if (out->length > 1) text_append(out, ",");
    text_append_bytes(out, object + 1, length - 2);
}

status ana_matrix_text(const ana_matrix *matrix, const int *value, const char *more,
                       text_buffer *out, error_message *err)
{
    text_buffer changes = {0};
    text_buffer changed = {0};
    text_append(&changes, "{");
    for (int axis = 0; axis < matrix->axis_count && value != NULL; axis++) {
        if (value[axis] < 0) continue;
        append_members(&changes, matrix->axes[axis].values[value[axis]].changes);
    }
    text_append(&changes, "}");
    status result =
        json_change(matrix->name, matrix->base, changes.bytes, more != NULL ? &changed : out, err);
    if (result == STATUS_OK && more != NULL) {
        result = json_change(matrix->name, changed.bytes, more, out, err);
    }
    text_free(&changes);
    text_free(&changed);
    return result;
}

enum { LABEL_BYTES_MAX = 200 };

/// What is handed on while the axes are read.
typedef struct axes_reading {
    arena *memory;
    ana_matrix *matrix;
    error_message *err;
} axes_reading;

/// Moves a text into the arena.
static status keep(const axes_reading *reading, text_buffer *text, const char **kept)
{
    *kept = arena_string(reading->memory, text->bytes);
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
    return STATUS_OK;
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
    if (result == STATUS_OK) return keep(reading, &text, &value->changes);
    text_free(&text);
    return result;
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

bool ana_matrix_varies(const ana_matrix *matrix, const char *path)
{
    int axis = 0;
    while (axis < matrix->axis_count && overlapping(&matrix->axes[axis], path) == NULL) {
        axis++;
    }
    return axis < matrix->axis_count;
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
