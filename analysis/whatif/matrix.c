#include "analysis/whatif/matrix.h"

#include "analysis/whatif/axes.h"
#include "base/arena.h"
#include "base/rng.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLE_PURPOSE = 0x5a }; // of the random numbers; the axis is added

static status no_memory(error_message *err)
{
    return error_set(err, STATUS_NO_MEMORY, "out of memory");
}

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
        json_write_key(&writer, files[file]);
        json_begin_object(&writer);
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
    status result =
        changes.failed ? no_memory(err) : json_change(name, text, changes.bytes, &changed, err);
    if (result == STATUS_OK) {
        *base = arena_string(memory, changed.bytes);
        if (*base == NULL) result = no_memory(err);
    }
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

static status draw_sample(ana_matrix *matrix, const ana_sampling *sampling, arena *memory,
                          error_message *err)
{
    const int count = (int)sampling->count;
    int64_t *numbers = arena_array(memory, (size_t)count, sizeof *numbers);
    int *order = memory_array((size_t)count, sizeof *order);
    if (numbers == NULL || order == NULL) {
        free(order);
        return no_memory(err);
    }
    for (int axis = 0; axis < matrix->axis_count; axis++) {
        rng generator = rng_init(sampling->seed, (uint64_t)(SAMPLE_PURPOSE + axis));
        shuffle(order, count, &generator);
        add_strata(&matrix->axes[axis], order, count, numbers);
    }
    free(order);
    qsort(numbers, (size_t)count, sizeof *numbers, compare_numbers);
    matrix->point_count = remove_repeated(numbers, count);
    matrix->sampled = numbers;
    return STATUS_OK;
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
    const bool equal =
        !texts[0].failed && !texts[1].failed && strcmp(texts[0].bytes, texts[1].bytes) == 0;
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

static status find_base_values(json_value base, const ana_matrix *matrix, int *base_value,
                               error_message *err)
{
    for (int axis = 0; axis < matrix->axis_count; axis++) {
        base_value[axis] = -1;
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
    return draw_sample(matrix, sampling, memory, err);
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

/// The members of a JSON object without its braces, behind those that are there.
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
        append_members(&changes, matrix->axes[axis].values[value[axis]].changes);
    }
    text_append(&changes, "}");
    status result = changes.failed ? no_memory(err)
                                   : json_change(matrix->name, matrix->base, changes.bytes,
                                                 more != NULL ? &changed : out, err);
    if (result == STATUS_OK && more != NULL) {
        result = json_change(matrix->name, changed.bytes, more, out, err);
    }
    text_free(&changes);
    text_free(&changed);
    return result;
}
