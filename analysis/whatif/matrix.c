#include "analysis/whatif/matrix.h"

#include "analysis/study/study_keys.h"
#include "base/arena.h"

#include <math.h>
#include <string.h>

/// What is handed on while the axes are read.
typedef struct axes_reading {
    arena *memory;
    ana_matrix *matrix;
    error_message *err;
} axes_reading;

// Axes

/// Strings and numbers as they are; of a row of balancing its label or its names; of a case without
/// parameters its name; else the value's JSON.
static const char *label_of(json_value value, bool is_row, arena *memory)
{
    static const char *const keys[] = {"balancer", "by", "policy"};
    const char *words = NULL;
    text_buffer text = {.memory = memory};
    if (json_count(value) == 1 && json_is_string(json_member(value, "case"))) {
        value = json_member(value, "case");
    }
    const json_value named = is_row ? json_member(value, "label") : value;
    if (json_is_string(named)) {
        (void)json_string(named, &words, NULL);
        text_append(&text, words);
    } else if (is_row && json_is_string(json_member(value, "balancer"))) {
        for (int key = 0; key < 3; key++) {
            if (json_string(json_member(value, keys[key]), &words, NULL) != STATUS_OK) continue;
            text_format(&text, "%s%s%s", text.length > 0 ? " " : "", key == 1 ? "by " : "", words);
        }
    } else {
        json_writer writer = json_writer_init(&text);
        json_put_value(&writer, NULL, value);
    }
    return text_keep(&text, memory);
}

/// Writes a value under its path; a model or hardware that is named becomes the object around its
/// name, so that its numbers have paths.
static void put_change(json_writer *writer, const char *path, json_value value)
{
    const bool is_file = strcmp(path, "hardware") == 0 || strcmp(path, "model") == 0;
    json_write_key(writer, path);
    if (is_file && json_is_string(value)) {
        json_begin_object(writer);
        json_put_value(writer, "base", value);
        json_end_object(writer);
    } else {
        json_put_value(writer, NULL, value);
    }
}

/// @param place in the study, for the message
static status check_path(const axes_reading *reading, const char *path, json_value place)
{
    error_message inner = {0};
    if (ana_study_path_check(path, &inner) == STATUS_OK) return STATUS_OK;
    return json_error(place, STATUS_FORMAT, reading->err, "%.200s", inner.message);
}

/// Notes a path that values of the axis set, and writes a value under it.
static status set_path(const axes_reading *reading, ana_axis *axis, const char *path,
                       json_value value, json_writer *writer)
{
    TRY(check_path(reading, path, value));
    axis->paths[axis->path_count++] = arena_string(reading->memory, path);
    put_change(writer, path, value);
    return STATUS_OK;
}

/// Reads a value of an axis.
///
/// @param path NULL: value is an object of paths, under its name
static status read_value(const axes_reading *reading, const char *path, json_value value,
                         ana_axis *axis, ana_axis_value *read)
{
    const bool is_row = path != NULL && strcmp(path, "balancing") == 0;
    text_buffer text = {.memory = reading->memory};
    json_writer writer = json_writer_init(&text);
    json_begin_object(&writer);
    if (path != NULL) {
        read->label = label_of(value, is_row, reading->memory);
        put_change(&writer, path, value);
    } else {
        read->label = arena_string(reading->memory, json_key(value));
        if (!json_is_object(value) || json_count(value) == 0) {
            return json_error(value, STATUS_FORMAT, reading->err,
                              "needs an object of paths and their values");
        }
        for (json_value at = json_element(value, 0); at.node != NULL; at = json_next(at)) {
            TRY(set_path(reading, axis, json_key(at), at, &writer));
        }
    }
    json_end_object(&writer);
    read->changes = text.bytes;
    return STATUS_OK;
}

/// Two values are the same if their changes are, two labels if people cannot tell them apart.
static status check_distinct(const axes_reading *reading, json_value place, const ana_axis *axis,
                             const ana_axis_value *value)
{
    for (const ana_axis_value *other = axis->values; other < value; other++) {
        if (strcmp(value->label, other->label) != 0 && strcmp(value->changes, other->changes) != 0)
            continue;
        return json_error(place, STATUS_FORMAT, reading->err, "the value '%.60s' is there twice",
                          value->label);
    }
    return STATUS_OK;
}

/// Names stand in tables and in cells of CSV, which spreadsheets run where they begin as formulas
/// do.
static status check_label(const axes_reading *reading, json_value place, const char *label)
{
    double number = 0;
    if (text_has_control(label, "")) {
        return json_error(place, STATUS_FORMAT, reading->err, "a name holds a control character");
    }
    const bool is_number =
        text_parse_double(label, "", -INFINITY, INFINITY, &number, NULL) == STATUS_OK;
    if (label[0] == '\0' || strchr("=+-@", label[0]) == NULL || is_number) return STATUS_OK;
    return json_error(place, STATUS_FORMAT, reading->err,
                      "'%.60s' begins with %c, as a spreadsheet's formula does", label, label[0]);
}

/// Reads an axis.
///
/// @param path   that its values set; NULL: they are objects of paths
/// @param values an array, or an object of named values
static status read_axis(const axes_reading *reading, const char *name, const char *path,
                        json_value values)
{
    ana_matrix *matrix = reading->matrix;
    const int count = json_count(values);
    int path_max = 1;
    if (matrix->axis_count == ANA_AXES_MAX) {
        return json_error(values, STATUS_FORMAT, reading->err, "a study has at most %d axes",
                          ANA_AXES_MAX);
    }
    if (count < 1 || count > ANA_AXIS_VALUES_MAX) {
        return json_error(values, STATUS_FORMAT, reading->err, "has %d values, needs 1 to %d",
                          count, ANA_AXIS_VALUES_MAX);
    }
    json_value value = json_element(values, 0);
    for (json_value at = value; at.node != NULL && path == NULL; at = json_next(at)) {
        path_max += json_count(at);
    }
    ana_axis *axis = &matrix->axes[matrix->axis_count++];
    axis->name = arena_string(reading->memory, name);
    axis->values = arena_array(reading->memory, (size_t)count, sizeof *axis->values);
    axis->paths = arena_array(reading->memory, (size_t)path_max, sizeof *axis->paths);
    axis->value_count = count;
    TRY(check_label(reading, values, axis->name));
    if (path != NULL) axis->paths[axis->path_count++] = axis->name;
    for (int index = 0; index < count; index++, value = json_next(value)) {
        TRY(read_value(reading, path, value, axis, &axis->values[index]));
        TRY(check_label(reading, values, axis->values[index].label));
        TRY(check_distinct(reading, values, axis, &axis->values[index]));
    }
    return STATUS_OK;
}

/// Reads an axis of "vary", whose name is a path, or one of "alternatives".
static status read_member(const axes_reading *reading, json_value values, const char *path)
{
    if (path != NULL) TRY(check_path(reading, path, values));
    if (path != NULL && !json_is_array(values)) {
        return json_error(values, STATUS_FORMAT, reading->err, "needs an array of values");
    }
    if (path == NULL && !json_is_object(values)) {
        return json_error(values, STATUS_FORMAT, reading->err,
                          "needs an object of named values, each an object of paths");
    }
    return read_axis(reading, json_key(values), path, values);
}

static status read_section(const axes_reading *reading, json_value root, const char *section)
{
    const json_value axes = json_member(root, section);
    const bool has_paths = strcmp(section, "vary") == 0;
    if (axes.node == NULL) return STATUS_OK;
    if (!json_is_object(axes) || json_count(axes) == 0) {
        return json_error(axes, STATUS_FORMAT, reading->err, "needs at least one axis");
    }
    for (json_value axis = json_element(axes, 0); axis.node != NULL; axis = json_next(axis)) {
        TRY(read_member(reading, axis, has_paths ? json_key(axis) : NULL));
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

static bool sets(const ana_axis *axis, const char *path)
{
    int each = 0;
    while (each < axis->path_count && !paths_overlap(axis->paths[each], path)) {
        each++;
    }
    return each < axis->path_count;
}

const ana_axis *ana_matrix_axis(const ana_matrix *matrix, const char *path)
{
    for (int axis = 0; axis < matrix->axis_count; axis++) {
        if (sets(&matrix->axes[axis], path)) return &matrix->axes[axis];
    }
    return NULL;
}

/// Refuses two axes that set the same value: one would undo the other.
static status check_paths(const axes_reading *reading)
{
    const ana_matrix *matrix = reading->matrix;
    for (int index = 0; index < matrix->axis_count; index++) {
        const ana_axis *axis = &matrix->axes[index];
        for (int path = 0; path < axis->path_count; path++) {
            const ana_axis *first = ana_matrix_axis(matrix, axis->paths[path]);
            if (first == axis) continue;
            return error_set(reading->err, STATUS_FORMAT,
                             "%s: the axes '%.60s' and '%.60s' both set '%.80s'", matrix->name,
                             first->name, axis->name, axis->paths[path]);
        }
    }
    return STATUS_OK;
}

static status read_axes(const axes_reading *reading, json_value root)
{
    const json_value rows = json_member(root, "balancing");
    TRY(read_section(reading, root, "vary"));
    TRY(read_section(reading, root, "alternatives"));
    if (json_is_array(rows) && json_count(rows) > 1) {
        const ana_axis *other = ana_matrix_axis(reading->matrix, "balancing");
        if (other != NULL) {
            return json_error(rows, STATUS_FORMAT, reading->err,
                              "has %d rows, which are an axis, and '%.60s' is another over them",
                              json_count(rows), other->name);
        }
        TRY(read_axis(reading, "balancing", "balancing", rows));
    }
    return check_paths(reading);
}

// The study as written

/// The base has no axes, one row of balancing, and files as objects around their names.
static void write_base_changes(json_value root, text_buffer *out)
{
    static const char *const files[] = {"hardware", "model"};
    static const char *const axes[] = {"vary", "alternatives", "uncertainty"};
    const json_value balancing = json_member(root, "balancing");
    json_writer writer = json_writer_init(out);
    json_begin_object(&writer);
    for (size_t key = 0; key < sizeof axes / sizeof axes[0]; key++) {
        json_put_null(&writer, axes[key]);
    }
    for (size_t file = 0; file < sizeof files / sizeof files[0]; file++) {
        const json_value named = json_member(root, files[file]);
        if (json_is_string(named)) put_change(&writer, files[file], named);
    }
    if (json_is_missing(balancing)) {
        const bool has_split =
            !json_is_missing(json_member(json_member(root, "pipeline"), "layers_per_stage"));
        json_put_string(&writer, "balancing.balancer", has_split ? "given" : "tuned");
    } else if (json_is_array(balancing) && json_count(balancing) > 0) {
        json_put_value(&writer, "balancing", json_element(balancing, 0));
    }
    json_end_object(&writer);
}

static status make_base(const char *text, json_value root, arena *memory, ana_matrix *matrix,
                        error_message *err)
{
    text_buffer changes = {.memory = memory};
    text_buffer changed = {.memory = memory};
    write_base_changes(root, &changes);
    TRY(json_change(matrix->name, text, changes.bytes, &changed, err));
    matrix->base = changed.bytes;
    return STATUS_OK;
}

static bool are_equal(json_value one, json_value other)
{
    text_buffer texts[2] = {{0}, {0}};
    json_writer writers[2] = {json_writer_init(&texts[0]), json_writer_init(&texts[1])};
    json_put_value(&writers[0], NULL, one);
    json_put_value(&writers[1], NULL, other);
    const bool equal = strcmp(texts[0].bytes, texts[1].bytes) == 0;
    text_free(&texts[0]);
    text_free(&texts[1]);
    return equal;
}

/// Whether the base has what a value of an axis sets.
static status base_has(json_value base, const ana_axis_value *value, arena *memory, bool *has,
                       error_message *err)
{
    json_value changes;
    TRY(json_read_text("changes", value->changes, memory, &changes, err));
    *has = true;
    json_value change = json_element(changes, 0);
    for (; change.node != NULL && *has; change = json_next(change)) {
        *has = are_equal(json_at(base, json_key(change)), change);
    }
    return STATUS_OK;
}

static status find_base_value(json_value base, ana_axis *axis, arena *memory, error_message *err)
{
    axis->base_value = -1;
    for (int value = 0; value < axis->value_count; value++) {
        bool has = false;
        TRY(base_has(base, &axis->values[value], memory, &has, err));
        if (!has) continue;
        axis->base_value = value;
        return STATUS_OK;
    }
    for (int path = 0; path < axis->path_count; path++) {
        axis->replaces = axis->replaces || !json_is_missing(json_at(base, axis->paths[path]));
    }
    return STATUS_OK;
}

static status locate_base(ana_matrix *matrix, arena *memory, error_message *err)
{
    json_value base;
    TRY(json_read_text(matrix->name, matrix->base, memory, &base, err));
    for (int axis = 0; axis < matrix->axis_count; axis++) {
        TRY(find_base_value(base, &matrix->axes[axis], memory, err));
    }
    return STATUS_OK;
}

static status count_points(ana_matrix *matrix, error_message *err)
{
    double count = 1;
    for (int axis = 0; axis < matrix->axis_count; axis++) {
        count *= matrix->axes[axis].value_count;
    }
    if (count > ANA_POINTS_MAX) {
        return error_set(err, STATUS_INVALID,
                         "%s: the %d axes have %.0f points in all, at most %d are played",
                         matrix->name, matrix->axis_count, count, ANA_POINTS_MAX);
    }
    matrix->point_count = (int64_t)count;
    return STATUS_OK;
}

status ana_matrix_open(const char *name, const char *text, arena *memory, ana_matrix *matrix,
                       error_message *err)
{
    ana_matrix read = {.name = arena_string(memory, name)};
    const axes_reading reading = {memory, &read, err};
    json_value root;
    TRY(json_read_text(name, text, memory, &root, err));
    if (!json_is_object(root)) return json_error(root, STATUS_FORMAT, err, "not an object");
    TRY(read_axes(&reading, root));
    TRY(make_base(text, root, memory, &read, err));
    TRY(locate_base(&read, memory, err));
    TRY(count_points(&read, err));
    *matrix = read;
    return STATUS_OK;
}

// Points

void ana_matrix_values(const ana_matrix *matrix, int64_t number, int *value)
{
    for (int axis = matrix->axis_count - 1; axis >= 0; axis--) {
        value[axis] = (int)(number % matrix->axes[axis].value_count);
        number /= matrix->axes[axis].value_count;
    }
}

int64_t ana_matrix_base_point(const ana_matrix *matrix)
{
    int64_t found = 0;
    for (int axis = 0; axis < matrix->axis_count; axis++) {
        if (matrix->axes[axis].base_value < 0) return -1;
        found = found * matrix->axes[axis].value_count + matrix->axes[axis].base_value;
    }
    return found;
}

/// The members of a JSON object without its braces, after those that are there.
static void append_members(text_buffer *out, const char *object)
{
    const size_t length = strlen(object);
    if (length <= 2) return;
    if (out->length > 1) text_append(out, ",");
    text_append_bytes(out, object + 1, length - 2);
}

void ana_matrix_changes(const ana_matrix *matrix, const int *value, text_buffer *out)
{
    text_clear(out);
    text_append(out, "{");
    for (int axis = 0; axis < matrix->axis_count && value != NULL; axis++) {
        if (value[axis] < 0) continue;
        append_members(out, matrix->axes[axis].values[value[axis]].changes);
    }
    text_append(out, "}");
}
