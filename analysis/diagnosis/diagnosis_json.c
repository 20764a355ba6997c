/// The diagnosis for programs: "dynmo-diagnosis/1".
#include "analysis/diagnosis/diagnosis.h"

#include <math.h>

static const char *const level_names[ANA_LEVEL_COUNT] = {
    "even", "tuned", "static", "drift", "clairvoyant", "any_owner", "divisible"};
static const char *const part_names[ANA_PART_COUNT] = {"static", "first_iteration", "drift",
                                                       "noise",  "contiguity",      "granularity"};

enum { DIGITS = 9 };

static void put_ratio(json_writer *writer, const char *key, double value)
{
    json_put_rounded(writer, key, value, DIGITS);
}

static void write_interval(json_writer *writer, const char *key, const ana_gain_interval *interval)
{
    json_write_key(writer, key);
    json_begin_object(writer);
    put_ratio(writer, "gain", interval->gain);
    put_ratio(writer, "low", interval->is_short ? (double)NAN : interval->low);
    put_ratio(writer, "high", interval->is_short ? (double)NAN : interval->high);
    json_put_int64(writer, "block", interval->block);
    json_end_object(writer);
}

static void write_run(json_writer *writer, const ana_diagnosis *of)
{
    const ana_series *series = of->series;
    const ana_setup *setup = of->setup;
    json_put_string(writer, "name", setup->study->name);
    json_put_int64(writer, "layers", series->layer_count);
    json_put_int64(writer, "stages", setup->stage_count);
    json_put_string(writer, "schedule", setup->study->schedule);
    json_put_int64(writer, "microbatches", setup->microbatch_count);
    json_put_int64(writer, "samples", series->sample_count);
    json_put_int64(writer, "iterations", series->count);
    json_put_int64(writer, "first_iteration", series->first + setup->first_iteration);
    json_put_int64(writer, "last_iteration", series->last + setup->first_iteration);
    json_put_int64(writer, "stride", series->stride);
    put_ratio(writer, "spacing", of->spacing);
    json_put_bool(writer, "microbatches_known", of->has_columns);
    json_put_bool(writer, "state_known", of->knows_state);
    put_ratio(writer, "first_over_next", of->first_over_next);
}

static void write_split(json_writer *writer, const ana_diagnosis *of)
{
    const ana_imbalance_split *split = &of->split;
    const int entries = split->stage_count + 1;
    json_write_key(writer, "imbalance");
    json_begin_object(writer);
    json_write_key(writer, "bottleneck_ns");
    json_begin_object(writer);
    for (int level = 0; level < ANA_LEVEL_COUNT; level++) {
        json_put_int64(writer, level_names[level], split->level_ns[level]);
    }
    json_end_object(writer);
    json_write_key(writer, "parts_ns");
    json_begin_object(writer);
    for (int part = 0; part < ANA_PART_COUNT; part++) {
        json_put_int64(writer, part_names[part], ana_imbalance_part_ns(split, (ana_part)part));
    }
    json_end_object(writer);
    json_put_int64(writer, "static_lower_bound_ns", split->static_lower_bound_ns);
    json_put_bool(writer, "static_is_optimal", split->static_is_optimal);
    json_put_int64(writer, "drift_width", split->drift_width);
    json_put_int64(writer, "trailing_ns", split->trailing_ns);
    json_put_int64(writer, "trailing_width", split->trailing_width);
    json_write_key(writer, "even_first_layer");
    json_write_int_array(writer, split->even_first_layer, entries);
    json_write_key(writer, "tuned_first_layer");
    json_write_int_array(writer, split->tuned_first_layer, entries);
    json_write_key(writer, "static_first_layer");
    json_write_int_array(writer, split->static_first_layer, entries);
    json_end_object(writer);
}

static void write_predictability(json_writer *writer, const ana_predictability *of)
{
    put_ratio(writer, "share_mean", of->share_mean);
    put_ratio(writer, "variation_ratio", of->variation_ratio);
    put_ratio(writer, "noise_ratio", of->noise_ratio);
    json_write_key(writer, "half_life");
    if (of->half_life < 0) {
        json_write_null(writer);
    } else {
        json_write_int64(writer, of->half_life);
    }
}

static void write_forecast(json_writer *writer, const ana_diagnosis *of)
{
    const ana_forecastability *forecast = &of->forecast;
    json_write_key(writer, "predictability");
    json_begin_object(writer);
    write_predictability(writer, &forecast->overall);
    json_put_int64(writer, "change_points", forecast->change_point_count);
    json_put_bool(writer, "change_points_capped", forecast->change_points_capped);
    json_write_key(writer, "lags");
    json_begin_array(writer);
    for (int number = 0; number < forecast->lag_count; number++) {
        json_begin_object(writer);
        json_put_int64(writer, "lag", forecast->lags[number].lag);
        put_ratio(writer, "correlation", forecast->lags[number].correlation);
        put_ratio(writer, "persistence_r2", forecast->lags[number].persistence_r2);
        json_end_object(writer);
    }
    json_end_array(writer);
    json_write_key(writer, "layers");
    json_begin_array(writer);
    for (int layer = 0; layer < of->series->layer_count; layer++) {
        json_begin_object(writer);
        json_put_int64(writer, "layer", layer);
        write_predictability(writer, &forecast->layers[layer]);
        json_end_object(writer);
    }
    json_end_array(writer);
    json_end_object(writer);
}

static void write_row(json_writer *writer, const ana_row_gain *gain)
{
    json_begin_object(writer);
    json_put_string(writer, "label", gain->row->balancing->label);
    if (gain->row->outcome != STATUS_OK) {
        json_put_string(writer, "infeasible", gain->row->message);
    } else {
        json_put_int64(writer, "total_ns", gain->total_ns);
        json_put_int64(writer, "overhead_ns", gain->overhead_ns);
        json_put_int64(writer, "rebalances", gain->row->result.rebalance_count);
        json_put_int64(writer, "moved_layers", gain->row->result.moved_layer_count);
        json_put_int64(writer, "moved_bytes", gain->row->result.moved_bytes);
        write_interval(writer, "over_baseline", &gain->interval);
    }
    json_end_object(writer);
}

static void write_gains(json_writer *writer, const ana_diagnosis *of)
{
    json_write_key(writer, "rows");
    json_begin_array(writer);
    for (int row = 0; row < of->setup->study->balancing_count; row++) {
        write_row(writer, &of->rows[row]);
    }
    json_end_array(writer);
    json_put_string(writer, "baseline", of->rows[of->baseline].row->balancing->label);
    json_put_string(writer, "best",
                    of->best >= 0 ? of->rows[of->best].row->balancing->label : NULL);
    write_interval(writer, "kept_split", &of->kept);
    write_interval(writer, "drift_followed", &of->evidence.drift);
    write_interval(writer, "best_over_kept_split", &of->evidence.best_over_kept);
    write_interval(writer, "drift_followed_over_kept_split", &of->evidence.drift_over_kept);
    write_interval(writer, "hindsight", &of->evidence.clairvoyant);
    json_put_int64(writer, "hindsight_iterations", of->clairvoyant_count);
    write_interval(writer, "contiguous_bound", &of->evidence.bound);
    write_interval(writer, "any_owner_bound", &of->any_owner);
}

void ana_diagnosis_write(const ana_diagnosis *diagnosis, text_buffer *out)
{
    json_writer writer = json_writer_init(out);
    json_begin_object(&writer);
    json_put_string(&writer, "schema", "dynmo-diagnosis/1");
    json_put_string(&writer, "verdict", ana_verdict_name(diagnosis->judgement.verdict));
    json_put_string(&writer, "ground", ana_ground_name(diagnosis->judgement.ground));
    put_ratio(&writer, "worthwhile_from", diagnosis->options.threshold_ratio);
    write_run(&writer, diagnosis);
    write_gains(&writer, diagnosis);
    write_split(&writer, diagnosis);
    write_forecast(&writer, diagnosis);
    json_write_key(&writer, "inputs");
    ana_inputs_write(&diagnosis->setup->study->inputs, &writer);
    json_end_object(&writer);
    text_append(out, "\n");
}
