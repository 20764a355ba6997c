#include "analysis/whatif/point.h"

#include "base/json.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/// The numbers of a point that was played.
typedef struct point_number {
    const char *key;
    size_t offset; // of a double in ana_point
} point_number;

static const point_number numbers[] = {
    {"iteration_ns", offsetof(ana_point, iteration_ns)},
    {"per_second", offsetof(ana_point, per_second)},
    {"gpu_count", offsetof(ana_point, gpu_count)},
    {"used_gpu_count", offsetof(ana_point, used_gpu_count)},
    {"train_ns", offsetof(ana_point, train_ns)},
    {"gpu_hours", offsetof(ana_point, gpu_hours)},
    {"cost", offsetof(ana_point, cost)},
    {"bubble_ratio", offsetof(ana_point, bubble_ratio)},
    {"imbalance_ratio", offsetof(ana_point, imbalance_ratio)},
    {"bound_ns", offsetof(ana_point, bound_ns)},
};
enum { NUMBER_COUNT = sizeof numbers / sizeof numbers[0] };

static void put_hash(json_writer *writer, const char *key, uint64_t hash)
{
    char text[20];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    json_put_string(writer, key, text);
}

void ana_point_write(const ana_point *point, text_buffer *out)
{
    json_writer writer = json_writer_init(out);
    json_begin_object(&writer);
    json_put_string(&writer, "schema", "dynmo-point/1");
    json_put_int64(&writer, "refusal", (int64_t)point->refusal);
    json_put_string(&writer, "message", point->message);
    json_put_int64(&writer, "rank", point->rank);
    json_put_int64(&writer, "missing_bytes", point->missing_bytes);
    json_put_int64(&writer, "peak_memory_bytes", point->peak_memory_bytes);
    for (int number = 0; number < NUMBER_COUNT; number++) {
        const double *value = (const double *)((const char *)point + numbers[number].offset);
        json_put_double(&writer, numbers[number].key, *value);
    }
    put_hash(&writer, "training", point->learning.training);
    put_hash(&writer, "rounding", point->learning.rounding);
    json_end_object(&writer);
}

static status read_hash(json_value value, uint64_t *hash, error_message *err)
{
    const char *text = NULL;
    TRY(json_string(value, &text, err));
    if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16 ||
        sscanf(text, "%16" SCNx64, hash) != 1) {
        return json_error(value, STATUS_FORMAT, err, "'%.40s' is no hash", text);
    }
    return STATUS_OK;
}

static status read_point(json_value root, arena *memory, ana_point *point, error_message *err)
{
    const char *text = NULL;
    int refusal = 0;
    TRY(json_string(json_member(root, "schema"), &text, err));
    if (strcmp(text, "dynmo-point/1") != 0) {
        return json_error(root, STATUS_FORMAT, err, "'%.40s' is not 'dynmo-point/1'", text);
    }
    TRY(json_int(json_member(root, "refusal"), 0, ANA_REFUSAL_COUNT - 1, &refusal, err));
    point->refusal = (ana_refusal)refusal;
    if (!json_is_missing(json_member(root, "message"))) {
        TRY(json_string(json_member(root, "message"), &text, err));
        point->message = arena_string(memory, text);
    }
    TRY(json_int(json_member(root, "rank"), 0, INT32_MAX, &point->rank, err));
    TRY(json_int64(json_member(root, "missing_bytes"), -JSON_INTEGER_MAX, JSON_INTEGER_MAX,
                   &point->missing_bytes, err));
    TRY(json_int64(json_member(root, "peak_memory_bytes"), 0, JSON_INTEGER_MAX,
                   &point->peak_memory_bytes, err));
    for (int number = 0; number < NUMBER_COUNT; number++) {
        double *value = (double *)((char *)point + numbers[number].offset);
        TRY(json_double(json_member(root, numbers[number].key), -1e300, 1e300, value, err));
    }
    TRY(read_hash(json_member(root, "training"), &point->learning.training, err));
    return read_hash(json_member(root, "rounding"), &point->learning.rounding, err);
}

status ana_point_read(const char *name, const char *text, size_t length, arena *memory,
                      ana_point *point, error_message *err)
{
    json_document *document = NULL;
    ana_point read = {.refusal = ANA_REFUSAL_NONE};
    TRY(json_open_bytes(name, text, length, &document, err));
    const status result = read_point(json_root(document), memory, &read, err);
    json_close(document);
    if (result == STATUS_OK) *point = read;
    return result;
}
