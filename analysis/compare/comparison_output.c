/// The comparison for people and for programs. Its columns are declared once: key in JSON, title in
/// the table, where the row keeps it and what it counts.
#include "analysis/compare/compare.h"
#include "base/json.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/// Columns that stand together, in both outputs in the order of their declaration.
typedef enum column_group {
    COLUMNS_RATE,      ///< of rows that have times; its key and title say of what
    COLUMNS_TIMES,     ///< of rows that have times
    COLUMNS_BUBBLE,    ///< of those, too
    COLUMNS_EQ1,       ///< of those, too: what Equation 1 of the DynMo paper says of the same loads
    COLUMNS_LOADS,     ///< of every row whose plan fits
    COLUMNS_DECISIONS, ///< of rows whose plan may change
    COLUMNS_GPUS,      ///< of rows that re-pack
} column_group;

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
    column_group group;
    const char *key;   // NULL: it stands somewhere else in JSON
    const char *title; // of the table; NULL: not there
    int width;
    column_kind kind;
    size_t offset; // in ana_row
} column;

#define ROW(member) offsetof(ana_row, member)
#define RESULT(member) offsetof(ana_row, result.member)

static const column columns[] = {
    {COLUMNS_RATE, NULL, "", 12, KIND_RATE, ROW(per_second)},
    {COLUMNS_TIMES, "relative_to_even", "vs even", 8, KIND_GAIN, ROW(relative_to_even)},
    {COLUMNS_TIMES, "relative_to_tuned", "vs tuned", 8, KIND_GAIN, ROW(relative_to_tuned)},
    {COLUMNS_TIMES, "total_ns", NULL, 0, KIND_NS, RESULT(total_ns)},
    {COLUMNS_TIMES, "iteration_mean_ns", "iteration", 9, KIND_NS, ROW(iteration_mean_ns)},
    {COLUMNS_TIMES, "pipeline_ns", NULL, 0, KIND_NS, RESULT(pipeline_ns)},
    {COLUMNS_TIMES, "reduction_ns", NULL, 0, KIND_NS, RESULT(reduction_ns)},
    {COLUMNS_TIMES, "profile_ns", NULL, 0, KIND_NS, RESULT(profile_ns)},
    {COLUMNS_TIMES, "decision_ns", NULL, 0, KIND_NS, RESULT(decision_ns)},
    {COLUMNS_TIMES, "migration_ns", NULL, 0, KIND_NS, RESULT(migration_ns)},

    {COLUMNS_BUBBLE, NULL, "first", 6, KIND_RATIO, RESULT(first.bubble_ratio)},
    {COLUMNS_BUBBLE, NULL, "last", 6, KIND_RATIO, RESULT(last.bubble_ratio)},
    {COLUMNS_BUBBLE, "bubble_ratio", "mean", 6, KIND_RATIO, RESULT(bubble_ratio)},

    {COLUMNS_EQ1, NULL, "simulated", 9, KIND_RATIO, RESULT(first.bubble_ratio)},
    {COLUMNS_EQ1, NULL, "as printed", 10, KIND_RATIO, RESULT(first.published_eq1_ratio)},
    {COLUMNS_EQ1, NULL, "unequal", 9, KIND_RATIO, RESULT(first.published_eq1_unequal_ratio)},
    {COLUMNS_EQ1, NULL, "simulated", 11, KIND_RATIO, RESULT(last.bubble_ratio)},
    {COLUMNS_EQ1, NULL, "as printed", 10, KIND_RATIO, RESULT(last.published_eq1_ratio)},
    {COLUMNS_EQ1, NULL, "unequal", 9, KIND_RATIO, RESULT(last.published_eq1_unequal_ratio)},

    {COLUMNS_LOADS, "imbalance_ratio", "imbalance", 9, KIND_RATIO, RESULT(imbalance_ratio)},
    {COLUMNS_LOADS, "changes", NULL, 0, KIND_COUNT, RESULT(change_count)},
    {COLUMNS_LOADS, "decisions", NULL, 0, KIND_COUNT, RESULT(decision_count)},
    {COLUMNS_LOADS, "rebalances", "rebal.", 6, KIND_COUNT, RESULT(rebalance_count)},
    {COLUMNS_LOADS, "moved_layers", "layers", 7, KIND_NUMBER, RESULT(moved_layer_count)},
    {COLUMNS_LOADS, "moved_bytes", "bytes", 9, KIND_BYTES, RESULT(moved_bytes)},
    {COLUMNS_LOADS, "bottleneck_ns", NULL, 0, KIND_NS, RESULT(bottleneck_ns)},
    {COLUMNS_LOADS, "bottleneck_lower_bound_ns", NULL, 0, KIND_NS,
     RESULT(bottleneck_lower_bound_ns)},

    {COLUMNS_DECISIONS, NULL, "asked", 6, KIND_COUNT, ROW(course.asked_count)},
    {COLUMNS_DECISIONS, NULL, "moved", 6, KIND_COUNT, ROW(course.acted_count)},
    {COLUMNS_DECISIONS, NULL, "profiling", 10, KIND_NS, RESULT(profile_ns)},
    {COLUMNS_DECISIONS, NULL, "deciding", 10, KIND_NS, RESULT(decision_ns)},
    {COLUMNS_DECISIONS, NULL, "migrating", 10, KIND_NS, RESULT(migration_ns)},

    {COLUMNS_GPUS, "count", NULL, 0, KIND_NUMBER, RESULT(gpu_count)},
    {COLUMNS_GPUS, "rank_count_mean", "ranks", 6, KIND_RANKS, RESULT(rank_count_mean)},
    {COLUMNS_GPUS, "final_rank_count", NULL, 0, KIND_COUNT, RESULT(final_rank_count)},
    {COLUMNS_GPUS, "repacks", NULL, 0, KIND_COUNT, RESULT(repack_count)},
    {COLUMNS_GPUS, "gpu_s", "hours", 10, KIND_GPU_NS, RESULT(gpu_ns)},
    {COLUMNS_GPUS, "idle_gpu_s", "hours", 10, KIND_GPU_NS, RESULT(idle_gpu_ns)},
    {COLUMNS_GPUS, "released_rank_s", "rank hours", 10, KIND_GPU_NS, RESULT(released_rank_ns)},
    {COLUMNS_GPUS, "released_node_s", "node hours", 10, KIND_GPU_NS, RESULT(released_node_ns)},
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
    if (from->kind == KIND_GAIN && value <= 0) {
        json_put_double(writer, from->key, (double)NAN);
    } else if (from->kind == KIND_GPU_NS) {
        json_put_double(writer, from->key, value / 1e9);
    } else if (is_real(from)) {
        json_put_double(writer, from->key, value);
    } else {
        json_put_int64(writer, from->key, (int64_t)value);
    }
}

/// Writes the group's members of the row's object.
static void write_columns(column_group group, const ana_row *row, json_writer *writer)
{
    for (int index = 0; index < COLUMN_COUNT; index++) {
        const column *each = &columns[index];
        if (each->group != group || each->key == NULL) continue;
        write_value(each, row, writer);
    }
}

/// A cell's text.
static text_words cell_text(const column *from, double value)
{
    switch (from->kind) {
    case KIND_NS:
        return text_duration((int64_t)value);
    case KIND_BYTES:
        return text_size((int64_t)value);
    case KIND_RATIO:
        return text_wording(isnan(value) ? "-" : "%.3f", value);
    case KIND_RANKS:
        return text_wording("%.2f", value);
    case KIND_GAIN:
        return text_wording(value > 0 ? "%.3fx" : "-", value);
    case KIND_RATE:
        return text_wording("%.*f", value >= 1000 ? 0 : value >= 10 ? 1 : 3, value);
    case KIND_GPU_NS:
        return text_wording("%.4g", value / 3.6e12);
    default:
        return text_wording("%.0f", value);
    }
}

/// Appends the titles of the group's columns.
static void print_titles(column_group group, text_buffer *out)
{
    for (int index = 0; index < COLUMN_COUNT; index++) {
        const column *each = &columns[index];
        if (each->group != group || each->title == NULL) continue;
        text_format(out, " %*s", each->width, each->title);
    }
}

/// Appends the row's cells; dashes where the row has no such values (NULL).
static void print_columns(column_group group, const ana_row *row, text_buffer *out)
{
    for (int index = 0; index < COLUMN_COUNT; index++) {
        const column *each = &columns[index];
        if (each->group != group || each->title == NULL) continue;
        text_format(out, " %*s", each->width,
                    row != NULL ? cell_text(each, value_of(each, row)).text : "-");
    }
}

// For programs.

enum { DIGITS = 9 };

static void write_metrics(json_writer *writer, const char *key, const bal_metrics *metrics)
{
    json_put_object(writer, key);
    json_put_int64(writer, "makespan_ns", metrics->makespan_ns);
    json_put_int64(writer, "span_ns", metrics->span_ns);
    json_put_double(writer, "bubble_ratio", metrics->bubble_ratio);
    json_put_double(writer, "zb_bubble_rate", metrics->zb_bubble_rate);
    json_put_double(writer, "imbalance_ratio", metrics->imbalance_ratio);
    json_put_double(writer, "load_spread_ratio", metrics->load_spread_ratio);
    json_put_rounded(writer, "published_eq1_ratio", metrics->published_eq1_ratio, DIGITS);
    json_put_rounded(writer, "published_eq1_unequal_ratio", metrics->published_eq1_unequal_ratio,
                     DIGITS);
    json_end_object(writer);
}

static void write_times(const ana_setup *setup, const ana_row *row, json_writer *writer)
{
    const bal_training_result *result = &row->result;
    const int chunks = result->stage_count / setup->machine.rank_count;
    json_put_double(writer,
                    setup->tokens_per_microbatch > 0 ? "tokens_per_s" : "microbatches_per_s",
                    row->per_second);
    write_columns(COLUMNS_TIMES, row, writer);
    write_columns(COLUMNS_BUBBLE, row, writer);
    write_metrics(writer, "first", &result->first);
    write_metrics(writer, "last", &result->last);
    json_put_int_array(writer, "start_first_layer", result->start_first_layer,
                       result->stage_count + 1);
    json_put_int_array(writer, "final_first_layer", result->final_first_layer,
                       result->final_rank_count * chunks + 1);
    json_put_int64_array(writer, "peak_memory_bytes", result->peak_memory_bytes,
                         setup->machine.rank_count);
    if (result->fits && !result->is_memory_known) {
        json_put_null(writer, "fits");
    } else {
        json_put_bool(writer, "fits", result->fits);
    }
}

/// Decisions that moved something; of the others only how many there were, by reason.
static void write_course(const ana_course *course, ana_iteration_names names, json_writer *writer)
{
    json_put_object(writer, "reasons");
    for (int reason = 0; reason < BAL_REASON_COUNT; reason++) {
        if (course->reason_counts[reason] == 0) continue;
        json_put_int64(writer, bal_reason_names[reason], course->reason_counts[reason]);
    }
    json_end_object(writer);
    json_put_array(writer, "moves");
    for (int index = 0; index < course->move_count; index++) {
        const ana_move *move = &course->moves[index];
        json_begin_object(writer);
        json_put_int64(writer, "iteration", ana_iteration_number(names, move->iteration));
        json_put_string(writer, "action", bal_action_names[move->action]);
        json_put_string(writer, "reason", bal_reason_names[move->reason]);
        json_put_int64(writer, "layers", move->moved_layer_count);
        json_put_int64(writer, "bytes", move->moved_bytes);
        json_put_int64(writer, "decision_ns", move->decision_ns);
        json_put_int64(writer, "migration_ns", move->migration_ns);
        json_end_object(writer);
    }
    json_end_array(writer);
}

/// What only rows have whose plan may change.
static void write_dynamics(const ana_row *row, ana_iteration_names names, json_writer *writer)
{
    json_put_string(writer, "information", bal_information_names[row->balancing->information]);
    json_put_string(writer, "repack", bal_repack_names[row->balancing->repack.options.kind]);
    write_course(&row->course, names, writer);
    if (!row->result.executable) return;
    json_put_optional(writer, "total_ns_without_repacking",
                      row->unpacked_ns > 0 ? row->unpacked_ns : -1);
    json_put_object(writer, "gpus");
    write_columns(COLUMNS_GPUS, row, writer);
    json_end_object(writer);
    json_put_object(writer, "factors");
    for (int factor = 0; factor < ANA_FACTOR_COUNT; factor++) {
        const double value = row->factors[factor];
        if (factor == ANA_FACTOR_PACKING && row->balancing->packing == NULL) continue;
        json_put_double(writer, ana_factor_names[factor], value > 0 ? value : (double)NAN);
    }
    json_put_double(writer, "total", row->speed_up > 0 ? row->speed_up : (double)NAN);
    json_end_object(writer);
}

static void write_row(const ana_setup *setup, const ana_row *row, json_writer *writer)
{
    const bal_training_result *result = &row->result;
    json_begin_object(writer);
    json_put_string(writer, "label", row->balancing->label);
    json_put_string(writer, "balancer", row->balancing->balancer->name);
    json_put_string(writer, "policy", bal_policy_name(row->balancing->policy).text);
    if (row->outcome != STATUS_OK) {
        json_put_string(writer, "infeasible", row->message);
        json_end_object(writer);
        return;
    }
    json_put_bool(writer, "executable", result->executable);
    if (result->executable) write_times(setup, row, writer);
    write_columns(COLUMNS_LOADS, row, writer);
    const ana_iteration_names names = {.offset = setup->first_iteration};
    ana_splits_write(&row->splits, names, writer);
    if (ana_balancing_is_dynamic(row->balancing)) write_dynamics(row, names, writer);
    json_end_object(writer);
}

/// Where the GPUs of the run are: nodes are consecutive GPUs, so are ranks.
static void write_layout(const ana_setup *setup, json_writer *writer)
{
    const bal_training training =
        ana_setup_training(setup, &setup->study->balancings[0], (bal_record_sink){0});
    const bal_gpu_layout layout = bal_training_gpu_layout(&training);
    json_put_int64(writer, "data_parallel", layout.replica_count);
    json_put_int64(writer, "gpus_per_rank", layout.gpus_per_rank);
    json_put_int64(writer, "gpus_per_node", layout.gpus_per_node);
}

void ana_comparison_write(const ana_comparison *comparison, text_buffer *out)
{
    const ana_setup *setup = comparison->setup;
    json_writer writer = json_line_begin(out);
    json_put_string(&writer, "schema", "dynmo-simulation/1");
    json_put_string(&writer, "name", setup->study->name);
    json_put_int64(&writer, "iterations", setup->iteration_count);
    json_put_int64(&writer, "layers", setup->source.layer_count);
    json_put_int64(&writer, "stages", setup->machine.rank_count);
    json_put_int64(&writer, "microbatches", setup->microbatch_count);
    if (setup->study->run.round_count > 1) {
        json_put_int64(&writer, "accumulation", setup->study->run.round_count);
    }
    json_put_string(&writer, "schedule", setup->study->run.schedule);
    write_layout(setup, &writer);
    json_put_array(&writer, "rows");
    for (int row = 0; row < setup->study->balancing_count; row++) {
        write_row(setup, &comparison->rows[row], &writer);
    }
    json_end_array(&writer);
    json_put_optional(&writer, "even_without_dynamism_ns",
                      comparison->still_even_ns > 0 ? comparison->still_even_ns : -1);
    json_write_key(&writer, "inputs");
    ana_inputs_write(&setup->study->inputs, &writer);
    json_line_end(&writer);
}

// For people: the table, and below it what it cannot show; each section is left out where nothing
// of it happened.

enum { SECTION_WIDTH = 29 }; // of the longest title of a section

/// The paper's formula beside what was played, in the first iteration and in the last.
static void print_equation_1(const ana_comparison *comparison, int label_width, text_buffer *out)
{
    const ana_study *study = comparison->setup->study;
    text_format(out, "\n%-*s %30s %32s\n%-*s", label_width, "", "first iteration", "last iteration",
                label_width, "Bubble beside Equation 1");
    print_titles(COLUMNS_EQ1, out);
    text_append(out, "\n");
    for (int index = 0; index < study->balancing_count; index++) {
        const ana_row *row = &comparison->rows[index];
        if (row->outcome != STATUS_OK || !row->result.executable) continue;
        text_format(out, "%-*s", label_width, row->balancing->label);
        print_columns(COLUMNS_EQ1, row, out);
        text_append(out, "\n");
    }
    text_append(out, "Equation 1 of the DynMo paper is Chimera's bubble at as many microbatches as "
                     "ranks, messages free.\nas printed: from mean loads of the ranks; unequal: "
                     "its path at the largest F and B, its work as it is.\n");
}

static bool was_played(const ana_row *row)
{
    return row->outcome == STATUS_OK && ana_balancing_is_dynamic(row->balancing);
}

/// True if any row has decided anything.
static bool has_decisions(const ana_comparison *comparison)
{
    for (int row = 0; row < comparison->setup->study->balancing_count; row++) {
        if (comparison->rows[row].course.asked_count > 0) return true;
    }
    return false;
}

static void print_decision_row(const ana_row *row, int label_width, text_buffer *out)
{
    const ana_course *course = &row->course;
    const bal_training_result *result = &row->result;
    text_format(out, "%-*s", label_width, row->balancing->label);
    print_columns(COLUMNS_DECISIONS, row, out);
    if (result->executable) {
        const double overhead =
            (double)result->profile_ns + (double)result->decision_ns + (double)result->migration_ns;
        text_format(out, " %6.2f%%", 100 * overhead / (double)result->total_ns);
    } else {
        text_format(out, " %7s", "-");
    }
    const char *between = "  ";
    for (int reason = 0; reason < BAL_REASON_COUNT; reason++) {
        if (course->reason_counts[reason] == 0) continue;
        text_format(out, "%s%d %s", between, course->reason_counts[reason],
                    bal_reason_names[reason]);
        between = ", ";
    }
    text_append(out, "\n");
}

/// How many decisions, why, at what cost.
static void print_decisions(const ana_comparison *comparison, int label_width, text_buffer *out)
{
    if (!has_decisions(comparison)) return;
    text_format(out, "\n%-*s", label_width, "Decisions");
    print_titles(COLUMNS_DECISIONS, out);
    text_append(out, "  of run  why\n");
    for (int index = 0; index < comparison->setup->study->balancing_count; index++) {
        const ana_row *row = &comparison->rows[index];
        if (was_played(row)) print_decision_row(row, label_width, out);
    }
}

/// How many GPUs are in use, and what the others are released as.
static void print_gpus(const ana_comparison *comparison, int label_width, text_buffer *out)
{
    bool has_header = false;
    if (!has_decisions(comparison)) return;
    for (int index = 0; index < comparison->setup->study->balancing_count; index++) {
        const ana_row *row = &comparison->rows[index];
        const bal_repack_options *repack = &row->balancing->repack.options;
        if (!was_played(row) || repack->kind == BAL_REPACK_NONE) continue;
        if (!has_header) {
            text_format(out, "\n%*s %6s %10s %10s %10s %10s\n%-*s", label_width, "", "mean", "GPU",
                        "idle GPU", "released", "whole", label_width, "GPUs");
            print_titles(COLUMNS_GPUS, out);
            text_append(out, "  use\n");
        }
        has_header = true;
        text_format(out, "%-*s", label_width, row->balancing->label);
        print_columns(COLUMNS_GPUS, row, out);
        text_format(out, "  %s\n", bal_released_names[repack->use]);
    }
}

/// Whether any row has the factor: that of packing is left out where none has one of its own.
static bool has_factor(const ana_comparison *comparison, int factor)
{
    if (factor != ANA_FACTOR_PACKING) return true;
    for (int index = 0; index < comparison->setup->study->balancing_count; index++) {
        if (comparison->rows[index].factors[factor] > 0) return true;
    }
    return false;
}

/// The factors of each dynamic row, "1.0284 x"; dashes where one does not apply.
static void print_factors(const ana_comparison *comparison, int label_width, text_buffer *out)
{
    static const char *const titles[] = {"algorithm", "  static", " packing", " dynamic",
                                         "re-packing"};
    bool has_header = false;
    if (!has_decisions(comparison) && comparison->still_even_ns == 0) return;
    for (int index = 0; index < comparison->setup->study->balancing_count; index++) {
        const ana_row *row = &comparison->rows[index];
        if (row->speed_up == 0) continue;
        if (!has_header) {
            text_format(out, "\n%-*s", label_width, "Where the speed-up comes from");
            for (int factor = 0; factor < ANA_FACTOR_COUNT; factor++) {
                if (has_factor(comparison, factor)) text_format(out, " %s  ", titles[factor]);
            }
            text_format(out, " %8s  over %s\n", "total",
                        comparison->still_even_ns > 0 ? "even without dynamism" : "even");
        }
        has_header = true;
        text_format(out, "%-*s", label_width, row->balancing->label);
        for (int factor = 0; factor < ANA_FACTOR_COUNT; factor++) {
            const double value = row->factors[factor];
            if (!has_factor(comparison, factor)) continue;
            text_format(out, " %*s %s", (int)strlen(titles[factor]),
                        text_wording(value > 0 ? "%.4f" : "-", value).text,
                        factor + 1 < ANA_FACTOR_COUNT ? "x" : "=");
        }
        text_format(out, " %8.3fx\n", row->speed_up);
    }
}

/// The largest memory of a rank over the run.
static int64_t peak_bytes(const ana_row *row, const ana_setup *setup)
{
    int64_t peak = 0;
    for (int rank = 0; rank < setup->machine.rank_count; rank++) {
        const int64_t bytes = row->result.peak_memory_bytes[rank];
        if (bytes > peak) peak = bytes;
    }
    return peak;
}

static const char *fits_text(const bal_training_result *result, int64_t rank_memory_bytes)
{
    if (rank_memory_bytes == 0) return "no limit";
    if (!result->fits) return "NO";
    return result->is_memory_known ? "yes" : "unknown";
}

static void print_row(const ana_setup *setup, const ana_row *row, int label_width, text_buffer *out)
{
    const bal_training_result *result = &row->result;
    const ana_row *timed = result->executable ? row : NULL;
    text_format(out, "%-*s", label_width, row->balancing->label);
    if (row->outcome != STATUS_OK) {
        text_format(out, "  infeasible: %s\n", row->message);
        return;
    }
    print_columns(COLUMNS_RATE, timed, out);
    print_columns(COLUMNS_TIMES, timed, out);
    print_columns(COLUMNS_BUBBLE, timed, out);
    print_columns(COLUMNS_LOADS, row, out);
    const bool has_peak = timed != NULL && peak_bytes(row, setup) > 0;
    text_format(out, " %9s  %s\n", has_peak ? text_size(peak_bytes(row, setup)).text : "-",
                timed != NULL ? fits_text(result, setup->machine.rank_memory_bytes)
                              : "loads only, not executable");
}

static void print_header(int label_width, bool tokens, text_buffer *out)
{
    text_format(out, "%*s %20s %9s %15s\n", label_width + 41, "mean", "bubble_ratio    ", "mean",
                "moved");
    text_format(out, "%-*s %12s", label_width, "balancer", tokens ? "tokens/s" : "microbatch/s");
    print_titles(COLUMNS_TIMES, out);
    print_titles(COLUMNS_BUBBLE, out);
    print_titles(COLUMNS_LOADS, out);
    text_format(out, " %9s  %s\n", "peak mem", "fits");
}

/// A case that begins after the end of a short run makes every row alike: better said. One whose
/// loads vary under a model that stays, as with sequences of unlike length, does not.
static void print_stillness(const ana_comparison *comparison, text_buffer *out)
{
    const ana_setup *setup = comparison->setup;
    if (setup->dynamism == NULL || model_dynamism_varies(setup->dynamism)) return;
    for (int row = 0; row < setup->study->balancing_count; row++) {
        if (comparison->rows[row].result.change_count > 0) return;
    }
    text_format(out, "The case %s did not change the model in these %d iterations.\n",
                model_dynamism_name(setup->dynamism), setup->iteration_count);
}

/// What is to be set, and when.
static void print_splits(const ana_comparison *comparison, int label_width, text_buffer *out)
{
    const ana_setup *setup = comparison->setup;
    const ana_iteration_names names = {.offset = setup->first_iteration};
    text_append(out, "\nSplits: layers per stage, from the iteration on that is named\n");
    for (int row = 0; row < setup->study->balancing_count; row++) {
        const ana_row *each = &comparison->rows[row];
        if (each->outcome != STATUS_OK) continue;
        ana_splits_print(&each->splits, "", each->balancing->label, label_width, names, out);
    }
    text_append(out, "Recorded with --store RUN.db: ");
    ana_splits_print_export(setup->study->run.schedule, "RUN.db --row LABEL", out);
    text_append(out, " --iteration N\n");
}

void ana_comparison_print(const ana_comparison *comparison, text_buffer *out)
{
    const ana_setup *setup = comparison->setup;
    const ana_study *study = setup->study;
    const bool tokens = setup->tokens_per_microbatch > 0;
    int label_width = 8;
    for (int row = 0; row < study->balancing_count; row++) {
        const int length = (int)strlen(study->balancings[row].label);
        if (length > label_width) label_width = length;
    }
    char passes[32] = "";
    if (study->run.round_count > 1)
        snprintf(passes, sizeof passes, " x %d passes", study->run.round_count);
    text_format(out, "%s: %s, %s on %s, %s%s, %s%s\n\n", study->name,
                text_count(setup->iteration_count, "iteration").text,
                text_count(setup->source.layer_count, "layer").text,
                text_count(setup->machine.rank_count, "stage").text,
                text_count(setup->microbatch_count, "microbatch").text, passes, study->run.schedule,
                study->run.post_validation ? ", post-validation" : "");
    print_header(label_width, tokens, out);
    for (int row = 0; row < study->balancing_count; row++) {
        print_row(setup, &comparison->rows[row], label_width, out);
    }
    text_append(out,
                "\niteration: decisions and migration included. bubble_ratio: idle / total, in the "
                "first and last iteration and over the run.\nimbalance: max / mean load of the "
                "ranks. rebal.: decisions that moved layers. peak mem: of the fullest rank.\n");
    print_stillness(comparison, out);
    const int section_width = label_width > SECTION_WIDTH ? label_width : SECTION_WIDTH;
    print_equation_1(comparison, section_width, out);
    print_decisions(comparison, section_width, out);
    print_gpus(comparison, section_width, out);
    print_factors(comparison, section_width, out);
    print_splits(comparison, section_width, out);
    text_append(out, "\n");
    ana_inputs_print(&study->inputs, out);
}
