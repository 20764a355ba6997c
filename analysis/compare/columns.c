/// The table of columns, and how each kind of value is written and printed.
#include "analysis/compare/columns.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/// What a column counts: how it is kept, and what it is in JSON and in the table.
typedef enum column_kind {
    KIND_COUNT,  ///< int
    KIND_NUMBER, ///< int64_t
    KIND_NS,     ///< int64_t; a duration
    KIND_BYTES,  ///< int64_t; a size
    KIND_RATIO,  ///< double, three decimals
    KIND_RANKS,  ///< double, two decimals
    KIND_GAIN,   ///< double, "1.141x"; null and "-" where it is 0: not known
    KIND_RATE,   ///< double, a few digits
    KIND_GPU_NS  ///< int64_t; seconds in JSON, as GPU times exceed its integers; hours
} column_kind;

typedef struct column {
    ana_column_group group;
    const char *key;   // NULL: it stands somewhere else in JSON
    const char *title; // of the table; NULL: not there
    int width;
    column_kind kind;
    size_t offset; // in ana_row
} column;

#define ROW(member) offsetof(ana_row, member)
#define RESULT(member) offsetof(ana_row, result.member)

static const column columns[] = {
    {ANA_COLUMNS_RATE, NULL, "", 12, KIND_RATE, ROW(per_second)},
    {ANA_COLUMNS_TIMES, "relative_to_even", "vs even", 8, KIND_GAIN, ROW(relative_to_even)},
    {ANA_COLUMNS_TIMES, "relative_to_tuned", "vs tuned", 8, KIND_GAIN, ROW(relative_to_tuned)},
    {ANA_COLUMNS_TIMES, "total_ns", NULL, 0, KIND_NS, RESULT(total_ns)},
    {ANA_COLUMNS_TIMES, "iteration_mean_ns", "iteration", 9, KIND_NS, ROW(iteration_mean_ns)},
    {ANA_COLUMNS_TIMES, "pipeline_ns", NULL, 0, KIND_NS, RESULT(pipeline_ns)},
    {ANA_COLUMNS_TIMES, "reduction_ns", NULL, 0, KIND_NS, RESULT(reduction_ns)},
    {ANA_COLUMNS_TIMES, "profile_ns", NULL, 0, KIND_NS, RESULT(profile_ns)},
    {ANA_COLUMNS_TIMES, "decision_ns", NULL, 0, KIND_NS, RESULT(decision_ns)},
    {ANA_COLUMNS_TIMES, "migration_ns", NULL, 0, KIND_NS, RESULT(migration_ns)},

    {ANA_COLUMNS_BUBBLE, NULL, "first", 6, KIND_RATIO, RESULT(first.bubble_ratio)},
    {ANA_COLUMNS_BUBBLE, NULL, "last", 6, KIND_RATIO, RESULT(last.bubble_ratio)},
    {ANA_COLUMNS_BUBBLE, "bubble_ratio", "mean", 6, KIND_RATIO, RESULT(bubble_ratio)},

    {ANA_COLUMNS_EQ1, NULL, "simulated", 9, KIND_RATIO, RESULT(first.bubble_ratio)},
    {ANA_COLUMNS_EQ1, NULL, "as printed", 10, KIND_RATIO, RESULT(first.published_eq1_ratio)},
    {ANA_COLUMNS_EQ1, NULL, "unequal", 9, KIND_RATIO, RESULT(first.published_eq1_unequal_ratio)},
    {ANA_COLUMNS_EQ1, NULL, "simulated", 11, KIND_RATIO, RESULT(last.bubble_ratio)},
    {ANA_COLUMNS_EQ1, NULL, "as printed", 10, KIND_RATIO, RESULT(last.published_eq1_ratio)},
    {ANA_COLUMNS_EQ1, NULL, "unequal", 9, KIND_RATIO, RESULT(last.published_eq1_unequal_ratio)},

    {ANA_COLUMNS_LOADS, "imbalance_ratio", "imbalance", 9, KIND_RATIO, RESULT(imbalance_ratio)},
    {ANA_COLUMNS_LOADS, "changes", NULL, 0, KIND_COUNT, RESULT(change_count)},
    {ANA_COLUMNS_LOADS, "decisions", NULL, 0, KIND_COUNT, RESULT(decision_count)},
    {ANA_COLUMNS_LOADS, "rebalances", "rebal.", 6, KIND_COUNT, RESULT(rebalance_count)},
    {ANA_COLUMNS_LOADS, "moved_layers", "layers", 7, KIND_NUMBER, RESULT(moved_layer_count)},
    {ANA_COLUMNS_LOADS, "moved_bytes", "bytes", 9, KIND_BYTES, RESULT(moved_bytes)},
    {ANA_COLUMNS_LOADS, "bottleneck_ns", NULL, 0, KIND_NS, RESULT(bottleneck_ns)},
    {ANA_COLUMNS_LOADS, "bottleneck_lower_bound_ns", NULL, 0, KIND_NS,
     RESULT(bottleneck_lower_bound_ns)},

    {ANA_COLUMNS_GPUS, "count", NULL, 0, KIND_NUMBER, RESULT(gpu_count)},
    {ANA_COLUMNS_GPUS, "rank_count_mean", "ranks", 6, KIND_RANKS, RESULT(rank_count_mean)},
    {ANA_COLUMNS_GPUS, "final_rank_count", NULL, 0, KIND_COUNT, RESULT(final_rank_count)},
    {ANA_COLUMNS_GPUS, "repacks", NULL, 0, KIND_COUNT, RESULT(repack_count)},
    {ANA_COLUMNS_GPUS, "gpu_s", "hours", 10, KIND_GPU_NS, RESULT(gpu_ns)},
    {ANA_COLUMNS_GPUS, "idle_gpu_s", "hours", 10, KIND_GPU_NS, RESULT(idle_gpu_ns)},
    {ANA_COLUMNS_GPUS, "released_rank_s", "rank hours", 10, KIND_GPU_NS, RESULT(released_rank_ns)},
    {ANA_COLUMNS_GPUS, "released_node_s", "node hours", 10, KIND_GPU_NS, RESULT(released_node_ns)},
};

enum { COLUMN_COUNT = (int)(sizeof columns / sizeof columns[0]) };

static bool is_real(const column *from)
{
    return from->kind >= KIND_RATIO && from->kind <= KIND_RATE;
}

/// The value of a row; whole ones are within the integers of JSON.
static double value_of(const column *from, const ana_row *row)
{
    const char *place = (const char *)row + from->offset;
    if (is_real(from)) return *(const double *)place;
    return from->kind == KIND_COUNT ? *(const int *)place : (double)*(const int64_t *)place;
}

static void write_value(const column *from, const ana_row *row, json_writer *writer)
{
    const double value = value_of(from, row);
    json_write_key(writer, from->key);
    if (from->kind == KIND_GAIN && value <= 0) {
        json_write_null(writer);
    } else if (from->kind == KIND_GPU_NS) {
        json_write_double(writer, value / 1e9);
    } else if (is_real(from)) {
        json_write_double(writer, value);
    } else {
        json_write_int64(writer, (int64_t)value);
    }
}

void ana_columns_write(ana_column_group group, const ana_row *row, json_writer *writer)
{
    for (int index = 0; index < COLUMN_COUNT; index++) {
        const column *each = &columns[index];
        if (each->group != group || each->key == NULL) continue;
        write_value(each, row, writer);
    }
}

/// A cell's text.
static void cell_text(const column *from, double value, char out[32])
{
    switch (from->kind) {
    case KIND_NS:
        text_duration((int64_t)value, out);
        break;
    case KIND_BYTES:
        text_size((int64_t)value, out);
        break;
    case KIND_RATIO:
        snprintf(out, 32, isnan(value) ? "-" : "%.3f", value);
        break;
    case KIND_RANKS:
        snprintf(out, 32, "%.2f", value);
        break;
    case KIND_GAIN:
        snprintf(out, 32, value > 0 ? "%.3fx" : "-", value);
        break;
    case KIND_RATE:
        snprintf(out, 32, "%.*f", value >= 1000 ? 0 : value >= 10 ? 1 : 3, value);
        break;
    case KIND_GPU_NS:
        snprintf(out, 32, "%.4g", value / 3.6e12);
        break;
    default:
        snprintf(out, 32, "%.0f", value);
        break;
    }
}

void ana_columns_title(ana_column_group group, text_buffer *out)
{
    for (int index = 0; index < COLUMN_COUNT; index++) {
        const column *each = &columns[index];
        if (each->group != group || each->title == NULL) continue;
        text_format(out, " %*s", each->width, each->title);
    }
}

void ana_columns_print(ana_column_group group, const ana_row *row, text_buffer *out)
{
    for (int index = 0; index < COLUMN_COUNT; index++) {
        const column *each = &columns[index];
        char text[32] = "-";
        if (each->group != group || each->title == NULL) continue;
        if (row != NULL) cell_text(each, value_of(each, row), text);
        text_format(out, " %*s", each->width, text);
    }
}
