#include "analysis/whatif/result.h"

#include "base/json.h"
#include "base/text.h"

#include <float.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

static void write_axes(const ana_whatif *study, json_writer *writer)
{
    json_put_array(writer, "axes");
    for (int axis = 0; axis < study->matrix.axis_count; axis++) {
        const ana_axis *written = &study->matrix.axes[axis];
        json_begin_object(writer);
        json_put_string(writer, "name", written->name);
        json_put_array(writer, "values");
        for (int value = 0; value < written->value_count; value++) {
            json_write_string(writer, written->values[value].label);
        }
        json_end_array(writer);
        json_end_object(writer);
    }
    json_end_array(writer);
}

static void write_values(const ana_whatif *study, int64_t number, json_writer *writer)
{
    int value[ANA_AXES_MAX];
    ana_matrix_values(&study->matrix, number, value);
    json_write_key(writer, "values");
    json_write_int_array(writer, value, study->matrix.axis_count);
}

/// A figure of a point that was played. What is not known is null, or an empty field.
typedef struct figure {
    const char *key;   // in JSON; NULL: that of the rate
    const char *title; // of the column of CSV
    size_t place;      // in ana_point
    double unit;       // that it is divided by
    bool is_whole;     // int64_t in ana_point, else double
    enum { ALWAYS, WITH_TOKENS, WITH_PRICE, ABOVE_ZERO, NOT_BELOW_ZERO } known;
} figure;

#define AT(member) offsetof(ana_point, member)
static const figure figures[] = {
    {"iteration_ns", "iteration_ns", AT(iteration_ns), 1, false, ALWAYS},
    {NULL, "per_s", AT(per_second), 1, false, ALWAYS}, // its key says of what
    {"gpu_count", "gpu_count", AT(gpu_count), 1, false, ALWAYS},
    {"train_s", "train_s", AT(train_ns), 1e9, false, WITH_TOKENS},
    {"gpu_hours", "gpu_hours", AT(gpu_hours), 1, false, WITH_TOKENS},
    {"cost", "cost", AT(cost), 1, false, WITH_PRICE},
    {"flop_per_s_per_gpu", "flop_per_s_per_gpu", AT(flop_per_s), 1, false, ABOVE_ZERO},
    {"mfu", "mfu", AT(flop_share), 1, false, ABOVE_ZERO},
    {"peak_memory_bytes", "peak_memory_bytes", AT(peak_memory_bytes), 1, true, ALWAYS},
    {"free_memory_bytes", "free_memory_bytes", AT(free_bytes), 1, true, NOT_BELOW_ZERO},
    {"bubble_ratio", "bubble_ratio", AT(bubble_ratio), 1, false, ALWAYS},
    {"imbalance_ratio", "imbalance_ratio", AT(imbalance_ratio), 1, false, ALWAYS},
    {"bound_ns", "bound_ns", AT(bound_ns), 1, false, ABOVE_ZERO},
};
#undef AT

enum { FIGURE_COUNT = sizeof figures / sizeof figures[0] };

static bool is_known(const figure *said, const ana_point *point, double value)
{
    switch (said->known) {
    case WITH_TOKENS:
        return point->train_ns > 0;
    case WITH_PRICE:
        return point->train_ns > 0 && value >= 0;
    case ABOVE_ZERO:
        return value > 0;
    case NOT_BELOW_ZERO:
        return value >= 0;
    default:
        return true;
    }
}

static double value_of(const figure *said, const ana_point *point)
{
    const char *place = (const char *)point + said->place;
    return said->is_whole ? (double)*(const int64_t *)place : *(const double *)place / said->unit;
}

static void write_figure(const figure *said, const ana_point *point, json_writer *writer)
{
    const double value = value_of(said, point);
    if (!is_known(said, point, value)) {
        json_write_null(writer);
    } else if (said->is_whole) {
        json_write_int64(writer, (int64_t)value);
    } else {
        json_write_double(writer, value);
    }
}

static void write_figures(const ana_whatif *study, int64_t item, json_writer *writer)
{
    const ana_point *point = &study->points[item];
    const ana_learning learning = ana_learning_beside(&study->learning, &point->learning);
    for (int each = 0; each < FIGURE_COUNT; each++) {
        const char *rate = point->train_ns > 0 ? "tokens_per_s" : "microbatches_per_s";
        json_write_key(writer, figures[each].key != NULL ? figures[each].key : rate);
        write_figure(&figures[each], point, writer);
    }
    json_put_int64(writer, "peak_rank", point->rank);
    json_put_string(writer, "learning", ana_learning_names[learning]);
    json_put_bool(writer, "pareto", study->standing.is_pareto[item]);
}

static void write_causes(const ana_bubble_causes *causes, json_writer *writer)
{
    if (causes == NULL) return;
    json_put_object(writer, "idle");
    json_put_double(writer, "all", ana_bubble_causes_idle_ratio(causes));
    for (int cause = 0; cause < ANA_BUBBLE_CAUSE_COUNT; cause++) {
        json_put_double(writer, ana_bubble_cause_names[cause],
                        ana_bubble_causes_share(causes, (ana_bubble_cause)cause));
    }
    json_end_object(writer);
}

static void write_point(const ana_whatif *study, const ana_closer_look *look, int64_t item,
                        json_writer *writer)
{
    const ana_point *point = &study->points[item];
    const int64_t number = ana_whatif_number(study, item);
    json_begin_object(writer);
    if (number >= 0) {
        json_put_int64(writer, "point", number);
        write_values(study, number, writer);
    }
    if (point->refusal != ANA_REFUSAL_NONE) {
        json_put_string(writer, "infeasible", ana_refusal_names[point->refusal]);
        json_put_string(writer, "message", point->message);
        if (point->missing_bytes > 0) {
            json_put_int64(writer, "rank", point->rank);
            json_put_int64(writer, "missing_bytes", point->missing_bytes);
        }
    } else {
        write_figures(study, item, writer);
        write_causes(ana_closer_look_find(look, item), writer);
    }
    json_end_object(writer);
}

static void write_numbers(const ana_whatif *study, const char *key, int64_t from, int64_t to,
                          json_writer *writer)
{
    json_put_array(writer, key);
    for (int64_t rank = from; rank < to; rank++) {
        json_write_int64(writer, ana_whatif_number(study, study->standing.order[rank]));
    }
    json_end_array(writer);
}

static void write_refusals(const ana_whatif *study, json_writer *writer)
{
    int64_t counts[ANA_REFUSAL_COUNT] = {0};
    for (int64_t item = 0; item < study->matrix.point_count; item++) {
        counts[study->points[item].refusal]++;
    }
    json_put_object(writer, "infeasible");
    for (int refusal = 1; refusal < ANA_REFUSAL_COUNT; refusal++) {
        if (counts[refusal] > 0)
            json_put_int64(writer, ana_refusal_names[refusal], counts[refusal]);
    }
    json_end_object(writer);
}

void ana_result_write(const ana_whatif *study, const ana_closer_look *look,
                      const ana_certainty *certainty, text_buffer *out)
{
    const ana_standing *standing = &study->standing;
    json_writer writer = json_writer_init(out);
    json_begin_object(&writer);
    json_put_string(&writer, "schema", "dynmo-study-result/1");
    json_put_string(&writer, "name", study->title);
    json_put_int64(&writer, "tokens",
                   study->token_count > 0 ? study->token_count : ANA_TOKENS_DEFAULT);
    json_put_string(&writer, "currency", study->currency);
    json_put_string(&writer, "beyond_validated", study->calibration == NULL ? study->beyond : "");
    json_put_string(&writer, "ranked_by", ana_objective_names[study->objective]);
    json_put_bool(&writer, "failure_free", true);
    write_axes(study, &writer);
    json_put_int64(&writer, "matrix_points", study->matrix.full_count);
    json_put_int64(&writer, "points_played", study->matrix.point_count);
    write_refusals(study, &writer);
    json_put_int64(&writer, "reference", ana_whatif_number(study, study->reference));
    write_numbers(study, "ranking", 0, standing->comparable_count, &writer);
    write_numbers(study, "other_training", standing->comparable_count, standing->feasible_count,
                  &writer);
    json_put_array(&writer, "points");
    for (int64_t item = 0; item < study->item_count; item++) {
        write_point(study, look, item, &writer);
    }
    json_end_array(&writer);
    json_write_key(&writer, "certainty");
    if (certainty != NULL) {
        ana_certainty_write(certainty, &writer);
    } else {
        json_write_null(&writer);
    }
    json_end_object(&writer);
    text_append(out, "\n");
}

/// Whether a spreadsheet would compute a text instead of showing it.
static bool is_formula(const char *text)
{
    double value = 0;
    return text[0] != '\0' && strchr("=+-@", text[0]) != NULL &&
           text_parse_double(text, "", -DBL_MAX, DBL_MAX, &value, NULL) != STATUS_OK;
}

/// A field of CSV: in quotes where it holds a comma, a quote or a line end (RFC 4180).
static void put_field(text_buffer *out, const char *text)
{
    const char *shield = is_formula(text) ? "'" : "";
    text_append(out, ",");
    if (strpbrk(text, ",\"\r\n") == NULL) {
        text_format(out, "%s%s", shield, text);
        return;
    }
    text_format(out, "\"%s", shield);
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"') text_append(out, "\"");
        text_append_bytes(out, c, 1);
    }
    text_append(out, "\"");
}

static void write_csv_row(const ana_whatif *study, int64_t item, text_buffer *out)
{
    const ana_point *point = &study->points[item];
    const int64_t number = ana_whatif_number(study, item);
    const bool is_played = point->refusal == ANA_REFUSAL_NONE;
    int value[ANA_AXES_MAX];
    if (number >= 0) {
        text_format(out, "%" PRId64, number);
        ana_matrix_values(&study->matrix, number, value);
    }
    for (int axis = 0; axis < study->matrix.axis_count; axis++) {
        put_field(out, number >= 0 ? study->matrix.axes[axis].values[value[axis]].label : "");
    }
    put_field(out, is_played ? "" : ana_refusal_names[point->refusal]);
    for (int each = 0; each < FIGURE_COUNT; each++) {
        text_append(out, ",");
        const double known = value_of(&figures[each], point);
        if (!is_played || !is_known(&figures[each], point, known)) continue;
        json_writer writer = json_writer_init(out);
        write_figure(&figures[each], point, &writer);
    }
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
    text_append(out, ",infeasible");
    for (int each = 0; each < FIGURE_COUNT; each++) {
        put_field(out, figures[each].title);
    }
    text_append(out, ",learning,pareto\n");
    for (int64_t item = 0; item < study->item_count; item++) {
        write_csv_row(study, item, out);
    }
}
