#include "analysis/compare/columns.h"

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
    const bal_training_result *result = &row->result;
    const int chunks = result->stage_count / setup->machine.rank_count;
    json_put_double(writer,
                    setup->tokens_per_microbatch > 0 ? "tokens_per_s" : "microbatches_per_s",
                    row->per_second);
    ana_columns_write(ANA_COLUMNS_TIMES, row, writer);
    ana_columns_write(ANA_COLUMNS_BUBBLE, row, writer);
    write_metrics(writer, "first", &result->first);
    write_metrics(writer, "last", &result->last);
    json_write_key(writer, "start_first_layer");
    json_write_int_array(writer, result->start_first_layer, result->stage_count + 1);
    json_write_key(writer, "final_first_layer");
    json_write_int_array(writer, result->final_first_layer, result->final_rank_count * chunks + 1);
    json_write_key(writer, "peak_memory_bytes");
    json_write_int64_array(writer, result->peak_memory_bytes, setup->machine.rank_count);
    if (result->fits && !result->is_memory_known) {
        json_write_key(writer, "fits");
        json_write_null(writer);
    } else {
        json_put_bool(writer, "fits", result->fits);
    }
}

static void write_known(json_writer *writer, const char *key, int64_t value)
{
    json_write_key(writer, key);
    if (value > 0) {
        json_write_int64(writer, value);
    } else {
        json_write_null(writer);
    }
}

/// Decisions that moved something; of the others only how many there were, by reason.
static void write_course(const ana_course *course, json_writer *writer)
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
        json_put_int64(writer, "iteration", move->iteration);
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
static void write_dynamics(const ana_row *row, json_writer *writer)
{
    json_put_string(writer, "information", bal_information_names[row->balancing->information]);
    json_put_string(writer, "repack", bal_repack_names[row->balancing->repack.options.kind]);
    write_course(&row->course, writer);
    if (!row->result.executable) return;
    write_known(writer, "total_ns_without_repacking", row->unpacked_ns);
    json_put_object(writer, "gpus");
    ana_columns_write(ANA_COLUMNS_GPUS, row, writer);
    json_end_object(writer);
    json_put_object(writer, "factors");
    for (int factor = 0; factor < ANA_FACTOR_COUNT; factor++) {
        write_ratio(writer, ana_factor_names[factor], row->factors[factor]);
    }
    write_ratio(writer, "total", row->speed_up);
    json_end_object(writer);
}

static void write_row(const ana_setup *setup, const ana_row *row, json_writer *writer)
{
    const bal_training_result *result = &row->result;
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
    ana_columns_write(ANA_COLUMNS_LOADS, row, writer);
    const ana_iteration_names names = {.offset = setup->first_iteration};
    ana_splits_write(&row->splits, names, writer);
    if (ana_balancing_is_dynamic(row->balancing)) write_dynamics(row, writer);
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
    json_writer writer = json_writer_init(out);
    json_begin_object(&writer);
    json_put_string(&writer, "schema", "dynmo-simulation/1");
    json_put_string(&writer, "name", setup->study->name);
    json_put_int64(&writer, "iterations", setup->iteration_count);
    json_put_int64(&writer, "layers", setup->source.layer_count);
    json_put_int64(&writer, "stages", setup->machine.rank_count);
    json_put_int64(&writer, "microbatches", setup->microbatch_count);
    if (setup->study->round_count > 1) {
        json_put_int64(&writer, "accumulation", setup->study->round_count);
    }
    json_put_string(&writer, "schedule", setup->study->schedule);
    write_layout(setup, &writer);
    json_put_array(&writer, "rows");
    for (int row = 0; row < setup->study->balancing_count; row++) {
        write_row(setup, &comparison->rows[row], &writer);
    }
    json_end_array(&writer);
    write_known(&writer, "even_without_dynamism_ns", comparison->still_even_ns);
    json_write_key(&writer, "inputs");
    ana_inputs_write(&setup->study->inputs, &writer);
    json_end_object(&writer);
    text_append(out, "\n");
}
