/// The file of a calibration, "dynmo-calibration/2".
#include "analysis/calibration/calibration.h"

#include "base/json.h"

#include <math.h>
#include <string.h>

enum { FILE_DIGITS = 12 };
static const char schema[] = "dynmo-calibration/2";
static const double number_max = 1e18;
static const double coefficient_min = 1e-18;
static const double log_max = 50;

static const char *const origins[] = {"not measured", "fitted"};

static void write_terms(json_writer *writer, const ana_calibration *calibration)
{
    json_put_array(writer, "terms");
    for (int term = 0; term < ANA_TERM_COUNT; term++) {
        json_begin_object(writer);
        json_put_string(writer, "term", ana_terms[term].name);
        json_put_string(writer, "unit", ana_terms[term].unit);
        json_put_string(writer, "origin", origins[calibration->is_measured[term]]);
        json_put_rounded(writer, "coefficient", exp(calibration->logs[term]), FILE_DIGITS);
        json_end_object(writer);
    }
    json_end_array(writer);
}

static void write_parts(json_writer *writer, const ana_calibration *calibration)
{
    json_put_array(writer, "part_deviation");
    for (int part = 0; part < ANA_PART_COUNT; part++) {
        json_begin_object(writer);
        json_put_string(writer, "part", ana_part_names[part]);
        json_put_rounded(writer, "deviation", calibration->part_deviation[part], FILE_DIGITS);
        json_end_object(writer);
    }
    json_end_array(writer);
    json_put_array(writer, "shapes");
    for (int shape = 0; shape < calibration->part_shape_count; shape++) {
        const ana_part_shape *each = &calibration->part_shapes[shape];
        json_begin_object(writer);
        json_put_string(writer, "part", ana_part_names[each->part]);
        json_write_key(writer, "key");
        json_write_int64_array(writer, each->key, ANA_PART_KEY_FIELDS);
        json_put_rounded(writer, "deviation", calibration->logs[ANA_TERM_COUNT + shape],
                         FILE_DIGITS);
        json_end_object(writer);
    }
    json_end_array(writer);
}

/// Rows of the lower triangle, one after another.
static void write_covariance(json_writer *writer, const ana_calibration *calibration)
{
    const size_t count = (size_t)calibration->coefficient_count;
    json_put_array(writer, "covariance");
    for (size_t row = 0; row < count; row++) {
        for (size_t column = 0; column <= row; column++) {
            json_write_double(
                writer, text_rounded(calibration->covariance[row * count + column], FILE_DIGITS));
        }
    }
    json_end_array(writer);
}

static void write_seen(json_writer *writer, const ana_calibration *calibration)
{
    json_put_array(writer, "seen");
    for (int field = 0; field < ANA_SHAPE_FIELDS; field++) {
        json_begin_object(writer);
        json_put_string(writer, "column", ana_run_field_name(field));
        json_put_int64(writer, "min", calibration->seen_min[field]);
        json_put_int64(writer, "max", calibration->seen_max[field]);
        json_end_object(writer);
    }
    json_end_array(writer);
}

void ana_calibration_write(const ana_calibration *calibration, text_buffer *out)
{
    json_writer writer = json_writer_init(out);
    json_begin_object(&writer);
    json_put_string(&writer, "schema", schema);
    json_put_string(&writer, "source", calibration->source);
    json_put_int64(&writer, "vocabulary_size", calibration->vocabulary_size);
    json_put_int64(&writer, "gpus_per_node", calibration->gpus_per_node);
    json_put_int64(&writer, "runs", calibration->run_count);
    json_put_rounded(&writer, "residual_ratio", calibration->residual_ratio, FILE_DIGITS);
    json_put_rounded(&writer, "degrees_of_freedom", calibration->degrees, FILE_DIGITS);
    write_terms(&writer, calibration);
    write_parts(&writer, calibration);
    write_covariance(&writer, calibration);
    write_seen(&writer, calibration);
    json_end_object(&writer);
    text_append(out, "\n");
}

/// An array of root, of a length that is known (-1: any), and its first element.
static status array_of(json_value root, const char *key, int count, json_value *first,
                       error_message *err)
{
    const json_value list = json_member(root, key);
    if (!json_is_array(list)) return json_error(list, STATUS_FORMAT, err, "is not an array");
    if (count >= 0 && json_count(list) != count) {
        return json_error(list, STATUS_FORMAT, err, "has %d elements, not %d", json_count(list),
                          count);
    }
    *first = json_element(list, 0);
    return STATUS_OK;
}

/// The member must be what stands in its place in the order that is written.
static status check_name(json_value element, const char *key, const char *expected,
                         error_message *err)
{
    const char *name = NULL;
    const json_value value = json_member(element, key);
    TRY(json_string(value, &name, err));
    if (strcmp(name, expected) == 0) return STATUS_OK;
    return json_error(value, STATUS_FORMAT, err, "is '%.60s', not '%s'", name, expected);
}

/// Which of some names a member has.
static status find_name(json_value element, const char *key, const char *const *names, int count,
                        int *found, error_message *err)
{
    const char *name = NULL;
    const json_value value = json_member(element, key);
    TRY(json_string(value, &name, err));
    for (*found = 0; *found < count; ++*found) {
        if (strcmp(name, names[*found]) == 0) return STATUS_OK;
    }
    return json_error(value, STATUS_FORMAT, err, "unknown '%.60s'", name);
}

static status number(json_value object, const char *key, double min, double *out,
                     error_message *err)
{
    return json_double(json_member(object, key), min, number_max, out, err);
}

static status read_terms(json_value root, ana_calibration *out, error_message *err)
{
    json_value element;
    TRY(array_of(root, "terms", ANA_TERM_COUNT, &element, err));
    for (int term = 0; term < ANA_TERM_COUNT; term++, element = json_next(element)) {
        int origin = 0;
        double coefficient = 0;
        TRY(check_name(element, "term", ana_terms[term].name, err));
        TRY(check_name(element, "unit", ana_terms[term].unit, err));
        TRY(number(element, "coefficient", coefficient_min, &coefficient, err));
        TRY(find_name(element, "origin", origins, 2, &origin, err));
        out->logs[term] = log(coefficient);
        out->is_measured[term] = origin == 1;
    }
    return STATUS_OK;
}

static status read_parts(json_value root, ana_calibration *out, error_message *err)
{
    json_value element;
    TRY(array_of(root, "part_deviation", ANA_PART_COUNT, &element, err));
    for (int part = 0; part < ANA_PART_COUNT; part++, element = json_next(element)) {
        TRY(check_name(element, "part", ana_part_names[part], err));
        TRY(number(element, "deviation", 0, &out->part_deviation[part], err));
    }
    TRY(array_of(root, "shapes", out->part_shape_count, &element, err));
    for (int shape = 0; shape < out->part_shape_count; shape++, element = json_next(element)) {
        int part = 0;
        TRY(find_name(element, "part", ana_part_names, ANA_PART_COUNT, &part, err));
        out->part_shapes[shape].part = (ana_part)part;
        TRY(json_int64_array(json_member(element, "key"), ANA_PART_KEY_FIELDS, 1, JSON_INTEGER_MAX,
                             out->part_shapes[shape].key, err));
        TRY(json_double(json_member(element, "deviation"), -log_max, log_max,
                        &out->logs[ANA_TERM_COUNT + shape], err));
    }
    return STATUS_OK;
}

static status read_covariance(json_value root, ana_calibration *out, error_message *err)
{
    const size_t count = (size_t)out->coefficient_count;
    json_value element;
    TRY(array_of(root, "covariance", (int)(count * (count + 1) / 2), &element, err));
    for (size_t row = 0; row < count; row++) {
        for (size_t column = 0; column <= row; column++, element = json_next(element)) {
            double value = 0;
            TRY(json_double(element, row == column ? 0 : -number_max, number_max, &value, err));
            out->covariance[row * count + column] = value;
            out->covariance[column * count + row] = value;
        }
    }
    return STATUS_OK;
}

static status read_seen(json_value root, ana_calibration *out, error_message *err)
{
    json_value element;
    TRY(array_of(root, "seen", ANA_SHAPE_FIELDS, &element, err));
    for (int field = 0; field < ANA_SHAPE_FIELDS; field++, element = json_next(element)) {
        TRY(check_name(element, "column", ana_run_field_name(field), err));
        TRY(json_int64(json_member(element, "min"), 1, JSON_INTEGER_MAX, &out->seen_min[field],
                       err));
        TRY(json_int64(json_member(element, "max"), out->seen_min[field], JSON_INTEGER_MAX,
                       &out->seen_max[field], err));
    }
    return STATUS_OK;
}

static status read_head(json_value root, arena *memory, ana_calibration *out, error_message *err)
{
    static const char *const keys[] = {
        "schema",         "source",         "vocabulary_size",    "gpus_per_node",
        "runs",           "residual_ratio", "degrees_of_freedom", "terms",
        "part_deviation", "shapes",         "covariance",         "seen"};
    const char *source = NULL;
    if (!json_is_object(root)) return json_error(root, STATUS_FORMAT, err, "is not an object");
    TRY(check_name(root, "schema", schema, err));
    TRY(json_check_keys(root, keys, sizeof keys / sizeof keys[0], err));
    TRY(json_string(json_member(root, "source"), &source, err));
    TRY(json_int64(json_member(root, "vocabulary_size"), 0, JSON_INTEGER_MAX, &out->vocabulary_size,
                   err));
    TRY(json_int(json_member(root, "gpus_per_node"), 1, 1 << 20, &out->gpus_per_node, err));
    TRY(json_int(json_member(root, "runs"), 1, INT32_MAX, &out->run_count, err));
    TRY(number(root, "residual_ratio", 0, &out->residual_ratio, err));
    TRY(number(root, "degrees_of_freedom", 1, &out->degrees, err));
    out->source = arena_string(memory, source);
    return STATUS_OK;
}

static status allocate(json_value root, arena *memory, ana_calibration *out, error_message *err)
{
    json_value first;
    const json_value shapes = json_member(root, "shapes");
    TRY(array_of(root, "shapes", -1, &first, err));
    out->part_shape_count = json_count(shapes);
    if (out->part_shape_count > ANA_CALIBRATION_SHAPES_MAX) {
        return json_error(shapes, STATUS_FORMAT, err, "has %d elements, more than %d",
                          out->part_shape_count, ANA_CALIBRATION_SHAPES_MAX);
    }
    out->coefficient_count = ANA_TERM_COUNT + out->part_shape_count;
    const size_t count = (size_t)out->coefficient_count;
    out->logs = arena_array(memory, count, sizeof *out->logs);
    out->covariance = arena_array(memory, count * count, sizeof *out->covariance);
    out->part_shapes = arena_array(memory, (size_t)out->part_shape_count, sizeof *out->part_shapes);
    return STATUS_OK;
}

static status read(json_value root, arena *memory, ana_calibration *out, error_message *err)
{
    ana_calibration made = {0};
    TRY(read_head(root, memory, &made, err));
    TRY(allocate(root, memory, &made, err));
    TRY(read_terms(root, &made, err));
    TRY(read_parts(root, &made, err));
    TRY(read_covariance(root, &made, err));
    TRY(read_seen(root, &made, err));
    TRY(ana_calibration_relate(&made, memory, err));
    *out = made;
    return STATUS_OK;
}

/// Reads a document and closes it.
static status read_document(json_document *document, arena *memory, ana_calibration *out,
                            error_message *err)
{
    const status result = read(json_root(document), memory, out, err);
    json_close(document);
    return result;
}

status ana_calibration_open_bytes(const char *name, const char *bytes, size_t length, arena *memory,
                                  ana_calibration *out, error_message *err)
{
    json_document *document = NULL;
    TRY(json_open_bytes(name, bytes, length, &document, err));
    return read_document(document, memory, out, err);
}

status ana_calibration_open(const char *path, arena *memory, ana_calibration *out,
                            error_message *err)
{
    json_document *document = NULL;
    TRY(json_open(path, &document, err));
    return read_document(document, memory, out, err);
}
