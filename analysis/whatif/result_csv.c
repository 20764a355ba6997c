#include "analysis/whatif/result.h"

#include "base/json.h"

#include <inttypes.h>
#include <string.h>

/// A field of CSV: in quotes where it holds a comma, a quote or a line end (RFC 4180).
static void put_field(text_buffer *out, const char *text)
{
    text_append(out, ",");
    if (strpbrk(text, ",\"\r\n") == NULL) {
        text_append(out, text);
        return;
    }
    text_append(out, "\"");
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"') text_append(out, "\"");
        text_append_bytes(out, c, 1);
    }
    text_append(out, "\"");
}

static void put_number(text_buffer *out, double value, bool is_known)
{
    text_append(out, ",");
    if (!is_known) return;
    json_writer writer = json_writer_init(out);
    json_write_double(&writer, value);
}

static void write_row(const ana_whatif *study, int64_t item, text_buffer *out)
{
    const ana_point *point = &study->points[item];
    const int64_t number = ana_whatif_number(study, item);
    const bool is_played = point->refusal == ANA_REFUSAL_NONE;
    const bool has_tokens = is_played && point->train_ns > 0;
    int value[ANA_AXES_MAX];
    if (number >= 0) {
        text_format(out, "%" PRId64, number);
        ana_matrix_values(&study->matrix, number, value);
    }
    for (int axis = 0; axis < study->matrix.axis_count; axis++) {
        put_field(out, number >= 0 ? study->matrix.axes[axis].values[value[axis]].label : "");
    }
    put_field(out, is_played ? "" : ana_refusal_names[point->refusal]);
    put_number(out, point->iteration_ns, is_played);
    put_number(out, point->per_second, is_played);
    put_number(out, point->gpu_count, is_played);
    put_number(out, point->train_ns / 1e9, has_tokens);
    put_number(out, point->gpu_hours, has_tokens);
    put_number(out, point->cost, has_tokens && point->cost >= 0);
    put_number(out, (double)point->peak_memory_bytes, is_played);
    put_number(out, point->bubble_ratio, is_played);
    put_number(out, point->imbalance_ratio, is_played);
    put_number(out, point->bound_ns, is_played && point->bound_ns > 0);
    put_field(out, is_played
                       ? ana_learning_names[ana_learning_beside(&study->learning, &point->learning)]
                       : "");
    text_append(out, is_played && study->standing.is_pareto[item] ? ",yes\n" : ",no\n");
}

void ana_result_write_csv(const ana_whatif *study, text_buffer *out)
{
    text_append(out, "point");
    for (int axis = 0; axis < study->matrix.axis_count; axis++) {
        put_field(out, study->matrix.axes[axis].name);
    }
    text_append(out, ",infeasible,iteration_ns,per_s,gpu_count,train_s,gpu_hours,cost,"
                     "peak_memory_bytes,bubble_ratio,imbalance_ratio,bound_ns,learning,pareto\n");
    for (int64_t item = 0; item < study->item_count; item++) {
        write_row(study, item, out);
    }
}
