#include "analysis/compare.h"

#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { GRADIENT_BYTES = 4 }; // of one parameter in the reduction between replicas: fp32

static double rate(const ana_setup *setup, int64_t total_ns)
{
    const double units =
        setup->tokens_per_microbatch > 0 ? (double)setup->tokens_per_microbatch : 1.0;
    const double per_iteration =
        units * (double)setup->microbatch_count * (double)setup->study->data_parallel;
    if (total_ns <= 0) return 0;
    return per_iteration * (double)setup->iteration_count / ((double)total_ns / 1e9);
}

static sim_training training_of(const ana_setup *setup, const ana_balancing *balancing,
                                const ana_listener *listener)
{
    const ana_study *study = setup->study;
    return (sim_training){
        .source = setup->source,
        .machine = setup->machine,
        .iteration_count = setup->iteration_count,
        .microbatch_count = setup->microbatch_count,
        .chunk_count = study->chunk_count,
        .schedule = study->schedule,
        .post_validation = study->post_validation,
        .data_parallel = study->data_parallel,
        .gradient_bytes = GRADIENT_BYTES,
        .optimizer_step_ns = study->optimizer_step_ns,
        .decision_ns = study->decision_ns,
        .change_ratio = study->change_ratio,
        .balancer = balancing->balancer,
        .weight = balancing->weight,
        .policy = balancing->policy,
        .sink = listener->sink,
    };
}

static int64_t largest(const int64_t *values, int count)
{
    int64_t result = 0;
    for (int index = 0; index < count; index++) {
        if (values[index] > result) result = values[index];
    }
    return result;
}

/// What is written must be readable again: JSON ends at 2^53, which as a time are 104 days.
static status check_readable(const ana_row *row, int rank_count, error_message *err)
{
    const sim_training_result *result = &row->result;
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {
        {"total_ns", result->total_ns},
        {"moved_bytes", result->moved_bytes},
        {"peak_memory_bytes", largest(result->peak_memory_bytes, rank_count)},
        {"bottleneck_ns", result->bottleneck_ns},
    };
    for (size_t each = 0; each < sizeof numbers / sizeof numbers[0]; each++) {
        if (numbers[each].value <= JSON_INTEGER_MAX) continue;
        return error_set(err, STATUS_INVALID,
                         "%s: %s %" PRId64 " of the run exceeds 2^53 = 9007199254740992",
                         row->balancing->label, numbers[each].name, numbers[each].value);
    }
    return STATUS_OK;
}

static status play_row(const ana_setup *setup, const ana_listener *listener, arena *memory,
                       ana_row *row, error_message *err)
{
    const sim_training training = training_of(setup, row->balancing, listener);
    if (listener->begin_row != NULL) {
        TRY(listener->begin_row(listener->sink.context, row->balancing, err));
    }
    error_message inner = {0};
    row->outcome = sim_training_replay(&training, memory, &row->result, &inner);
    if (row->outcome != STATUS_OK) {
        if (row->outcome != STATUS_INFEASIBLE) {
            return error_set(err, row->outcome, "%s: %.*s", row->balancing->label, 400,
                             inner.message);
        }
        snprintf(row->message, sizeof row->message, "%.*s", (int)sizeof row->message - 1,
                 inner.message);
        return STATUS_OK;
    }
    TRY(check_readable(row, setup->machine.rank_count, err));
    if (row->result.executable) {
        row->iteration_mean_ns = row->result.total_ns / setup->iteration_count;
        row->per_second = rate(setup, row->result.total_ns);
    }
    return STATUS_OK;
}

/// The rate of the row of a static baseline under its own weight; 0 if there is none.
static double baseline_rate(const ana_row *rows, int row_count, const char *name)
{
    for (int row = 0; row < row_count; row++) {
        const ana_balancing *balancing = rows[row].balancing;
        if (strcmp(balancing->balancer->name, name) == 0 &&
            balancing->policy.kind == BAL_POLICY_NEVER && rows[row].outcome == STATUS_OK) {
            return rows[row].per_second;
        }
    }
    return 0;
}

status ana_compare(const ana_setup *setup, const ana_listener *listener, arena *memory,
                   ana_comparison *comparison, error_message *err)
{
    const int row_count = setup->study->balancing_count;
    ana_row *rows = arena_array(memory, (size_t)row_count, sizeof *rows);
    if (rows == NULL) return error_set(err, STATUS_NO_MEMORY, "out of memory");
    static const ana_listener nobody = {0};
    int feasible = 0;
    for (int row = 0; row < row_count; row++) {
        rows[row].balancing = &setup->study->balancings[row];
        TRY(play_row(setup, listener != NULL ? listener : &nobody, memory, &rows[row], err));
        feasible += rows[row].outcome == STATUS_OK;
    }
    if (feasible == 0) return error_set(err, STATUS_INFEASIBLE, "%s", rows[0].message);
    const double even = baseline_rate(rows, row_count, "even");
    const double tuned = baseline_rate(rows, row_count, "tuned");
    for (int row = 0; row < row_count; row++) {
        if (even > 0) rows[row].relative_to_even = rows[row].per_second / even;
        if (tuned > 0) rows[row].relative_to_tuned = rows[row].per_second / tuned;
    }
    *comparison = (ana_comparison){.setup = setup, .rows = rows};
    return STATUS_OK;
}

/// "1.23x", or "-" where there is no baseline.
static const char *ratio_text(double ratio, char out[16])
{
    if (ratio > 0) {
        snprintf(out, 16, "%.3fx", ratio);
    } else {
        snprintf(out, 16, "-");
    }
    return out;
}

static const char *rate_text(double per_second, char out[24])
{
    const int decimals = per_second >= 1000 ? 0 : per_second >= 10 ? 1 : 3;
    snprintf(out, 24, "%.*f", decimals, per_second);
    return out;
}

/// The columns that every row has: how uneven it was, what moved, and a last word.
static void print_moves(const sim_training_result *result, const char *memory, const char *fits,
                        text_buffer *out)
{
    char moved[32];
    text_size(result->moved_bytes, moved);
    text_format(out, " %9.3f %6d %7" PRId64 " %9s %9s  %s\n", result->imbalance_ratio,
                result->rebalance_count, result->moved_layer_count, moved, memory, fits);
}

static const char *fits_text(const sim_training_result *result, int64_t rank_memory_bytes)
{
    if (rank_memory_bytes == 0) return "no limit";
    if (!result->fits) return "NO";
    return result->is_memory_known ? "yes" : "unknown";
}

static void print_row(const ana_setup *setup, const ana_row *row, int label_width, text_buffer *out)
{
    const sim_training_result *result = &row->result;
    text_format(out, "%-*s", label_width, row->balancing->label);
    if (row->outcome != STATUS_OK) {
        text_format(out, "  infeasible: %s\n", row->message);
        return;
    }
    if (!result->executable) {
        text_format(out, " %12s %8s %8s %9s %6s %6s %6s", "-", "-", "-", "-", "-", "-", "-");
        print_moves(result, "-", "loads only, not executable", out);
        return;
    }
    char iteration[32];
    char memory[32];
    char throughput[24];
    char even[16];
    char tuned[16];
    const int64_t peak = largest(result->peak_memory_bytes, setup->machine.rank_count);
    text_duration(row->iteration_mean_ns, iteration);
    text_size(peak, memory);
    text_format(out, " %12s %8s %8s %9s %6.3f %6.3f %6.3f", rate_text(row->per_second, throughput),
                ratio_text(row->relative_to_even, even), ratio_text(row->relative_to_tuned, tuned),
                iteration, result->first.bubble_ratio, result->last.bubble_ratio,
                result->bubble_ratio);
    print_moves(result, peak > 0 ? memory : "-",
                fits_text(result, setup->machine.rank_memory_bytes), out);
}

static void print_header(int label_width, bool tokens, text_buffer *out)
{
    text_format(out, "%*s %20s %9s %15s\n", label_width + 41, "mean", "bubble_ratio    ", "mean",
                "moved");
    text_format(out, "%-*s %12s %8s %8s %9s %6s %6s %6s %9s %6s %7s %9s %9s  %s\n", label_width,
                "balancer", tokens ? "tokens/s" : "microbatch/s", "vs even", "vs tuned",
                "iteration", "first", "last", "mean", "imbalance", "rebal.", "layers", "bytes",
                "peak mem", "fits");
}

static void print_inputs(const ana_inputs *inputs, text_buffer *out)
{
    int counts[MODEL_ORIGIN_KIND_COUNT] = {0};
    int width = 0;
    for (int input = 0; input < inputs->count; input++) {
        const int length = (int)strlen(inputs->entries[input].name);
        if (length > width) width = length;
    }
    text_append(out, "\nInputs\n");
    for (int input = 0; input < inputs->count; input++) {
        const ana_input *entry = &inputs->entries[input];
        counts[entry->origin]++;
        text_format(out, "  %-8s  %-*s  %s\n", model_origin_kind_name(entry->origin), width,
                    entry->name, entry->value);
    }
    text_append(out, " ");
    for (int origin = 0; origin < MODEL_ORIGIN_KIND_COUNT; origin++) {
        text_format(out, " %d %s%s", counts[origin],
                    model_origin_kind_name((model_origin_kind)origin),
                    origin + 1 < MODEL_ORIGIN_KIND_COUNT ? "," : "\n");
    }
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
    text_format(out, "%s: %d iterations, %d layers on %d stages, %d microbatches, %s%s\n\n",
                study->name, setup->iteration_count, setup->source.layer_count,
                setup->machine.rank_count, setup->microbatch_count, study->schedule,
                study->post_validation ? ", post-validation" : "");
    print_header(label_width, tokens, out);
    for (int row = 0; row < study->balancing_count; row++) {
        print_row(setup, &comparison->rows[row], label_width, out);
    }
    text_append(out,
                "\niteration: decisions and migration included. bubble_ratio: idle / total, in "
                "the first and last iteration and over the run.\nimbalance: max / mean load of "
                "the ranks. rebal.: decisions that moved layers. peak mem: of the fullest "
                "rank.\n");
    print_inputs(&study->inputs, out);
}

static void write_metrics(json_writer *writer, const char *key, const bal_metrics *metrics)
{
    json_write_key(writer, key);
    json_begin_object(writer);
    json_put_int64(writer, "makespan_ns", metrics->makespan_ns);
    json_put_int64(writer, "span_ns", metrics->span_ns);
    json_put_double(writer, "bubble_ratio", metrics->bubble_ratio);
    json_put_double(writer, "zb_bubble_rate", metrics->zb_bubble_rate);
    json_put_double(writer, "imbalance_ratio", metrics->imbalance_ratio);
    json_put_double(writer, "load_spread_ratio", metrics->load_spread_ratio);
    json_end_object(writer);
}

static void write_ratio(json_writer *writer, const char *key, double value)
{
    json_write_key(writer, key);
    if (value > 0) {
        json_write_double(writer, value);
    } else {
        json_write_null(writer);
    }
}

static void write_times(const ana_setup *setup, const ana_row *row, json_writer *writer)
{
    const sim_training_result *result = &row->result;
    json_put_double(writer,
                    setup->tokens_per_microbatch > 0 ? "tokens_per_s" : "microbatches_per_s",
                    row->per_second);
    write_ratio(writer, "relative_to_even", row->relative_to_even);
    write_ratio(writer, "relative_to_tuned", row->relative_to_tuned);
    json_put_int64(writer, "total_ns", result->total_ns);
    json_put_int64(writer, "iteration_mean_ns", row->iteration_mean_ns);
    json_put_int64(writer, "pipeline_ns", result->pipeline_ns);
    json_put_int64(writer, "decision_ns", result->decision_ns);
    json_put_int64(writer, "migration_ns", result->migration_ns);
    json_put_double(writer, "bubble_ratio", result->bubble_ratio);
    write_metrics(writer, "first", &result->first);
    write_metrics(writer, "last", &result->last);
    json_write_key(writer, "start_first_layer");
    json_write_int_array(writer, result->start_first_layer, result->stage_count + 1);
    json_write_key(writer, "final_first_layer");
    json_write_int_array(writer, result->final_first_layer, result->stage_count + 1);
    json_write_key(writer, "peak_memory_bytes");
    json_write_int64_array(writer, result->peak_memory_bytes, setup->machine.rank_count);
    if (result->fits && !result->is_memory_known) {
        json_write_key(writer, "fits");
        json_write_null(writer);
    } else {
        json_put_bool(writer, "fits", result->fits);
    }
}

static void write_row(const ana_setup *setup, const ana_row *row, json_writer *writer)
{
    const sim_training_result *result = &row->result;
    char policy[32];
    bal_policy_name(row->balancing->policy, policy);
    json_begin_object(writer);
    json_put_string(writer, "label", row->balancing->label);
    json_put_string(writer, "balancer", row->balancing->balancer->name);
    json_put_string(writer, "policy", policy);
    if (row->outcome != STATUS_OK) {
        json_put_string(writer, "infeasible", row->message);
        json_end_object(writer);
        return;
    }
    json_put_bool(writer, "executable", result->executable);
    if (result->executable) write_times(setup, row, writer);
    json_put_double(writer, "imbalance_ratio", result->imbalance_ratio);
    json_put_int64(writer, "changes", result->change_count);
    json_put_int64(writer, "decisions", result->decision_count);
    json_put_int64(writer, "rebalances", result->rebalance_count);
    json_put_int64(writer, "moved_layers", result->moved_layer_count);
    json_put_int64(writer, "moved_bytes", result->moved_bytes);
    json_put_int64(writer, "bottleneck_ns", result->bottleneck_ns);
    json_put_int64(writer, "bottleneck_lower_bound_ns", result->bottleneck_lower_bound_ns);
    json_end_object(writer);
}

static void write_inputs(const ana_inputs *inputs, json_writer *writer)
{
    json_begin_array(writer);
    for (int input = 0; input < inputs->count; input++) {
        json_begin_object(writer);
        json_put_string(writer, "name", inputs->entries[input].name);
        json_put_string(writer, "value", inputs->entries[input].value);
        json_put_string(writer, "origin", model_origin_kind_name(inputs->entries[input].origin));
        json_end_object(writer);
    }
    json_end_array(writer);
}

void ana_comparison_write(const ana_comparison *comparison, text_buffer *out)
{
    const ana_setup *setup = comparison->setup;
    json_writer writer = json_writer_init(out);
    json_begin_object(&writer);
    json_put_string(&writer, "schema", "dynmo-simulation/1");
    json_put_string(&writer, "name", setup->study->name);
    json_put_int64(&writer, "iterations", setup->iteration_count);
    json_put_int64(&writer, "layers", setup->source.layer_count);
    json_put_int64(&writer, "stages", setup->machine.rank_count);
    json_put_int64(&writer, "microbatches", setup->microbatch_count);
    json_put_string(&writer, "schedule", setup->study->schedule);
    json_write_key(&writer, "rows");
    json_begin_array(&writer);
    for (int row = 0; row < setup->study->balancing_count; row++) {
        write_row(setup, &comparison->rows[row], &writer);
    }
    json_end_array(&writer);
    json_write_key(&writer, "inputs");
    write_inputs(&setup->study->inputs, &writer);
    json_end_object(&writer);
    text_append(out, "\n");
}
