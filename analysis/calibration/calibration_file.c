/// The file of a calibration, "dynmo-calibration/3": the runs that were fitted. Who reads it fits
/// them again, so that it says what was measured and not what one version concluded.
#include "analysis/calibration/calibration.h"

#include "base/json.h"

#include <string.h>

enum { FILE_DIGITS = 12 };
static const char schema[] = "dynmo-calibration/3";

void ana_calibration_write(const ana_calibration *calibration, text_buffer *out)
{
    json_writer writer = json_line_begin(out);
    json_put_string(&writer, "schema", schema);
    json_put_string(&writer, "source", calibration->source);
    json_put_int64(&writer, "vocabulary_size", calibration->vocabulary_size);
    json_put_int64(&writer, "gpus_per_node", calibration->gpus_per_node);
    json_put_array(&writer, "columns");
    for (int field = 0; field < ANA_SHAPE_FIELDS; field++) {
        json_write_string(&writer, ana_run_field_name(field));
    }
    json_write_string(&writer, "iteration time (ms)");
    json_end_array(&writer);
    json_put_array(&writer, "runs");
    for (int run = 0; run < calibration->run_count; run++) {
        json_begin_array(&writer);
        for (int field = 0; field < ANA_SHAPE_FIELDS; field++) {
            json_write_int64(&writer, ana_run_field(&calibration->runs[run], field));
        }
        json_write_double(&writer, text_rounded(calibration->iteration_ms[run], FILE_DIGITS));
        json_end_array(&writer);
    }
    json_end_array(&writer);
    json_line_end(&writer);
}

static status read_run(json_value run, ana_run_shape *shape, double *iteration_ms,
                       error_message *err)
{
    error_message inner = {0};
    if (!json_is_array(run) || json_count(run) != ANA_SHAPE_FIELDS + 1) {
        return json_error(run, STATUS_FORMAT, err, "is no array of %d numbers",
                          ANA_SHAPE_FIELDS + 1);
    }
    json_value number = json_element(run, 0);
    for (int field = 0; field < ANA_SHAPE_FIELDS; field++, number = json_next(number)) {
        TRY(json_int64(number, 1, ANA_RUN_FIELD_MAX, ana_run_field_place(shape, field), err));
    }
    TRY(json_double(number, ANA_RUN_MS_MIN, ANA_RUN_MS_MAX, iteration_ms, err));
    if (ana_run_shape_check(shape, &inner) == STATUS_OK) return STATUS_OK;
    return json_error(run, STATUS_FORMAT, err, "%.200s", inner.message);
}

static status read(json_value root, arena *memory, ana_calibration *out, error_message *err)
{
    static const char *const keys[] = {"schema",        "source",  "vocabulary_size",
                                       "gpus_per_node", "columns", "runs"};
    ana_calibration_settings settings = {0};
    const char *found = NULL;
    const json_value list = json_member(root, "runs");
    if (!json_is_object(root)) return json_error(root, STATUS_FORMAT, err, "is not an object");
    TRY(json_string(json_member(root, "schema"), &found, err));
    if (strcmp(found, schema) != 0) {
        return json_error(json_member(root, "schema"), STATUS_FORMAT, err,
                          "is '%.60s', not '%s': calibrate again", found, schema);
    }
    TRY(json_check_keys(root, keys, sizeof keys / sizeof keys[0], err));
    TRY(json_string(json_member(root, "source"), &settings.source, err));
    TRY(json_int64(json_member(root, "vocabulary_size"), 0, JSON_INTEGER_MAX,
                   &settings.vocabulary_size, err));
    TRY(json_int(json_member(root, "gpus_per_node"), 1, 1 << 20, &settings.gpus_per_node, err));
    if (!json_is_array(list)) return json_error(list, STATUS_FORMAT, err, "is not an array");
    const int count = json_count(list);
    ana_run_shape *runs = arena_array(memory, (size_t)count, sizeof *runs);
    double *iteration_ms = arena_array(memory, (size_t)count, sizeof *iteration_ms);
    json_value run = json_element(list, 0);
    for (int index = 0; index < count; index++, run = json_next(run)) {
        TRY(read_run(run, &runs[index], &iteration_ms[index], err));
    }
    return ana_calibration_fit(runs, iteration_ms, count, &settings, memory, out, err);
}

status ana_calibration_open_bytes(const char *name, const char *bytes, size_t length, arena *memory,
                                  ana_calibration *out, error_message *err)
{
    json_document *document = NULL;
    TRY(json_open_bytes(name, bytes, length, &document, err));
    return read(json_keep(document, memory), memory, out, err);
}

status ana_calibration_open(const char *path, arena *memory, ana_calibration *out,
                            error_message *err)
{
    json_document *document = NULL;
    TRY(json_open(path, &document, err));
    return read(json_keep(document, memory), memory, out, err);
}
