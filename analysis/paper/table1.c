/// Table 1: sparse attention on one pipeline of 2 to 8 GPUs, balancing only.
///
/// Which layers keep how much attention is not published. Two numbers are set: how unequal layers
/// are, by the row of 24 layers (Partition over Megatron, mean over 2, 4 and 8 GPUs), and how fast
/// a GPU is, by the column of Megatron on 8 GPUs. All other cells are predicted.
#include "analysis/paper/rows.h"

#include "analysis/paper/published.h"
#include "base/rng.h"
#include "base/text.h"

#include <math.h>

/// How the share of attention that is kept goes from layer to layer.
typedef enum profile {
    PROFILE_FALLING, ///< linear with depth
    PROFILE_RISING,
    PROFILE_RANDOM, ///< uniform, independent
    PROFILE_COUNT
} profile;

/// Seconds of an iteration in every cell, as simulated; 0 where the paper has no number.
typedef struct simulated_table {
    double seconds[ANA_TABLE1_ROWS][ANA_TABLE1_METHODS];
} simulated_table;

enum { CALIBRATION_LAYERS = 24, CALIBRATION_GPUS = 8, CALIBRATION_STEPS = 10 };

static double direction(profile kind, int layer, int layer_count, rng *random)
{
    const double depth = 2.0 * layer / (layer_count - 1) - 1;
    switch (kind) {
    case PROFILE_FALLING:
        return -depth;
    case PROFILE_RISING:
        return depth;
    default:
        return 2 * rng_unit(random) - 1;
    }
}

/// A layer keeps (1 + spread x direction) / 2 of its attention: half of it in the mean.
static void describe_cell(const ana_table1_row *cell, profile kind, double spread, text_buffer *out)
{
    rng random = rng_init(1, (uint64_t)cell->layer_count);
    text_format(out, "{\"training.layers\":%d,\"pipeline.stages\":%d,\"dynamism.kept\":[",
                cell->layer_count, cell->gpu_count);
    for (int layer = 0; layer < cell->layer_count; layer++) {
        const double kept = (1 + spread * direction(kind, layer, cell->layer_count, &random)) / 2;
        text_format(out, "%s%.6f", layer > 0 ? "," : "", kept);
    }
    text_append(out, "]}");
}

static status play_cell(const ana_table1_row *cell, profile kind, double spread,
                        double seconds[ANA_TABLE1_METHODS], error_message *err)
{
    static const char *const labels[ANA_TABLE1_METHODS] = {
        [ANA_TABLE1_MEGATRON] = "even",
        [ANA_TABLE1_DIFFUSION] = "diffusion every:1",
        [ANA_TABLE1_PARTITION] = "partition every:1",
    };
    text_buffer change = {0};
    ana_trial trial;
    describe_cell(cell, kind, spread, &change);
    const char *const changes[] = {change.bytes};
    const status played = ana_trial_play("table1", changes, 1, &trial, err);
    text_free(&change);
    TRY(played);
    for (int method = 0; method < ANA_TABLE1_METHODS; method++) {
        const ana_trial_row *row = ana_trial_find(&trial, labels[method]);
        if (row == NULL) {
            return error_set(err, STATUS_INFEASIBLE, "table1: no plan fits %d layers on %d GPUs",
                             cell->layer_count, cell->gpu_count);
        }
        seconds[method] = (double)row->total_ns / 1e9 / trial.iteration_count;
    }
    return STATUS_OK;
}

/// Partition over Megatron, logarithms, mean over the row of 24 layers: published and simulated.
static status gain_of_row(profile kind, double spread, double *simulated, double *published,
                          error_message *err)
{
    const ana_table1_row *rows = ana_table1();
    int count = 0;
    *simulated = 0;
    *published = 0;
    for (int row = 0; row < ANA_TABLE1_ROWS; row++) {
        double seconds[ANA_TABLE1_METHODS];
        if (rows[row].layer_count != CALIBRATION_LAYERS) continue;
        TRY(play_cell(&rows[row], kind, spread, seconds, err));
        *simulated += log(seconds[ANA_TABLE1_MEGATRON] / seconds[ANA_TABLE1_PARTITION]);
        *published += log(rows[row].samples_per_s[ANA_TABLE1_PARTITION] /
                          rows[row].samples_per_s[ANA_TABLE1_MEGATRON]);
        count++;
    }
    *simulated /= count;
    *published /= count;
    return STATUS_OK;
}

static status calibrate_spread(profile kind, double *spread, error_message *err)
{
    double low = 0;
    double high = 1;
    for (int step = 0; step < CALIBRATION_STEPS; step++) {
        double simulated = 0;
        double published = 0;
        *spread = (low + high) / 2;
        TRY(gain_of_row(kind, *spread, &simulated, &published, err));
        if (simulated < published) {
            low = *spread;
        } else {
            high = *spread;
        }
    }
    return STATUS_OK;
}

static status play_table(profile kind, double spread, simulated_table *table, error_message *err)
{
    const ana_table1_row *rows = ana_table1();
    *table = (simulated_table){{{0}}};
    for (int row = 0; row < ANA_TABLE1_ROWS; row++) {
        if (rows[row].speed_up <= 0) continue;
        TRY(play_cell(&rows[row], kind, spread, table->seconds[row], err));
    }
    return STATUS_OK;
}

/// Makes simulated seconds those of the paper's GPUs: the factor with the smallest mean square of
/// logarithms over the column of Megatron on 8 GPUs.
static void calibrate_speed(double samples, simulated_table *table)
{
    const ana_table1_row *rows = ana_table1();
    double sum = 0;
    int count = 0;
    for (int row = 0; row < ANA_TABLE1_ROWS; row++) {
        if (rows[row].gpu_count != CALIBRATION_GPUS) continue;
        sum += log(samples / rows[row].samples_per_s[ANA_TABLE1_MEGATRON] /
                   table->seconds[row][ANA_TABLE1_MEGATRON]);
        count++;
    }
    for (int row = 0; row < ANA_TABLE1_ROWS; row++) {
        for (int method = 0; method < ANA_TABLE1_METHODS; method++) {
            table->seconds[row][method] *= exp(sum / count);
        }
    }
}

/// The speed-up as the paper has it: the better of its two methods.
static double speed_up_of(const double seconds[ANA_TABLE1_METHODS])
{
    return seconds[ANA_TABLE1_MEGATRON] /
           fmin(seconds[ANA_TABLE1_DIFFUSION], seconds[ANA_TABLE1_PARTITION]);
}

/// Relative errors of what is predicted.
typedef struct errors {
    double sum;
    double largest;
    int count;
} errors;

static void add_error(errors *all, double simulated, double published)
{
    const double error = fabs(simulated / published - 1);
    all->sum += error;
    all->largest = fmax(all->largest, error);
    all->count++;
}

static bool is_calibration(const ana_table1_row *row, ana_table1_method method)
{
    if (row->layer_count == CALIBRATION_LAYERS) return method != ANA_TABLE1_DIFFUSION;
    return row->gpu_count == CALIBRATION_GPUS && method == ANA_TABLE1_MEGATRON;
}

/// The errors that taking every speed-up for the mean of the calibration's row would make.
static ana_interval errors_of_constant(double *constant)
{
    const ana_table1_row *cells = ana_table1();
    errors all = {0};
    double sum = 0;
    int count = 0;
    for (int row = 0; row < ANA_TABLE1_ROWS; row++) {
        if (cells[row].layer_count != CALIBRATION_LAYERS) continue;
        sum += cells[row].speed_up;
        count++;
    }
    *constant = sum / count;
    for (int row = 0; row < ANA_TABLE1_ROWS; row++) {
        if (cells[row].layer_count == CALIBRATION_LAYERS || cells[row].speed_up <= 0) continue;
        add_error(&all, *constant, cells[row].speed_up);
    }
    return (ana_interval){all.sum / all.count, 0, all.largest, all.count};
}

/// Adds the four rows of a row of the table.
static void add_cells(ana_rows *rows, const simulated_table tables[PROFILE_COUNT], int index,
                      double samples, errors *rate_errors, errors *speed_up_errors)
{
    static const char *const names[ANA_TABLE1_METHODS] = {"Megatron", "Diffusion", "Partition"};
    const ana_table1_row *cell = &ana_table1()[index];
    const char *place =
        ana_rows_text(rows, "%d layers, %d GPUs", cell->layer_count, cell->gpu_count);
    for (int method = 0; method < ANA_TABLE1_METHODS; method++) {
        ana_interval rate = {0};
        const bool is_fixed = is_calibration(cell, (ana_table1_method)method);
        for (int kind = 0; kind < PROFILE_COUNT; kind++) {
            ana_interval_add(&rate, samples / tables[kind].seconds[index][method]);
        }
        ana_rows_add_number(rows, ana_rows_text(rows, "%s, %s", place, names[method]), &rate, NAN,
                            is_fixed ? ANA_AGREEMENT_CALIBRATED : ANA_AGREEMENT_PREDICTED,
                            "samples per second", "");
        ana_rows_publish(rows, cell->samples_per_s[method]);
        if (!is_fixed) add_error(rate_errors, rate.value, cell->samples_per_s[method]);
    }
    ana_interval speed_up = {0};
    const bool is_fixed = cell->layer_count == CALIBRATION_LAYERS;
    for (int kind = 0; kind < PROFILE_COUNT; kind++) {
        ana_interval_add(&speed_up, speed_up_of(tables[kind].seconds[index]));
    }
    ana_rows_add_number(rows, ana_rows_text(rows, "%s, speed-up", place), &speed_up, NAN,
                        is_fixed ? ANA_AGREEMENT_CALIBRATED : ANA_AGREEMENT_PREDICTED,
                        "even (Megatron)", "");
    ana_rows_publish(rows, cell->speed_up);
    if (!is_fixed) add_error(speed_up_errors, speed_up.value, cell->speed_up);
}

/// Cells of the table in which the dense model fits or does not as the paper says.
static status add_memory(ana_rows *rows, error_message *err)
{
    const ana_table1_row *cells = ana_table1();
    int agreeing = 0;
    for (int row = 0; row < ANA_TABLE1_ROWS; row++) {
        const char *const change = ana_rows_text(
            rows,
            "{\"training.layers\":%d,\"pipeline.stages\":%d,\"training.attention\":\"unfused\","
            "\"model\":\"gpt-dynmo\",\"dynamism\":null,\"balancing\":[{\"balancer\":\"even\"}]}",
            cells[row].layer_count, cells[row].gpu_count);
        ana_trial trial;
        error_message infeasible = {0};
        const status played = ana_trial_play("table1", &change, 1, &trial, &infeasible);
        if (played != STATUS_OK && played != STATUS_INFEASIBLE) {
            return error_set(err, played, "%s", infeasible.message);
        }
        const bool is_published = cells[row].speed_up > 0;
        agreeing += (played == STATUS_OK) == is_published;
        if (played == STATUS_OK && is_published) continue;
        const ana_interval fits = ana_interval_of(played == STATUS_OK);
        ana_rows_add_number(rows,
                            ana_rows_text(rows, "%d layers, %d GPUs, fits (1) or not (0)",
                                          cells[row].layer_count, cells[row].gpu_count),
                            &fits, NAN, ANA_AGREEMENT_PREDICTED, "dense unfused attention, 80 GB",
                            "");
        ana_rows_publish(rows, is_published);
    }
    const ana_interval agreement = ana_interval_of(agreeing);
    ana_rows_add_number(rows, "rows that fit in memory or not, of 15", &agreement, NAN,
                        ANA_AGREEMENT_PREDICTED, "dense unfused attention, 80 GB", "");
    ana_rows_publish(rows, ANA_TABLE1_ROWS);
    return STATUS_OK;
}

/// What the head alone would be worth: the even split of dense attention over the tuned one.
static status add_head(ana_rows *rows, error_message *err)
{
    const char *const change = "{\"model\":\"gpt-dynmo\",\"dynamism\":null,\"balancing\":["
                               "{\"balancer\":\"even\"},{\"balancer\":\"tuned\"}]}";
    ana_trial trial;
    TRY(ana_trial_play("table1", &change, 1, &trial, err));
    const ana_trial_row *even = ana_trial_find(&trial, "even");
    const ana_trial_row *tuned = ana_trial_find(&trial, "tuned");
    if (even == NULL || tuned == NULL) {
        return error_set(err, STATUS_INFEASIBLE, "table1: no plan fits");
    }
    const ana_interval head = ana_interval_of((double)even->total_ns / (double)tuned->total_ns);
    ana_rows_add_number(rows, "static tuning of the head alone, 24 layers, 8 GPUs", &head, NAN,
                        ANA_AGREEMENT_PREDICTED, "even (Megatron), dense flash attention",
                        "More than all of the published speed-up; it is not in the other rows.");
    return STATUS_OK;
}

static void add_errors(ana_rows *rows, const char *quantity, const errors *all, const char *note)
{
    const ana_interval mean = {all->sum / all->count, 0, all->largest, all->count};
    ana_rows_add_number(
        rows, quantity, &mean, NAN, ANA_AGREEMENT_PREDICTED,
        ana_rows_text(rows, "the %d predicted cells; high: the largest", all->count), note);
}

status ana_play_table1(ana_rows *rows, error_message *err)
{
    simulated_table tables[PROFILE_COUNT];
    ana_interval spread = {0};
    errors rate_errors = {0};
    errors speed_up_errors = {0};
    const double samples = 64;
    for (int kind = 0; kind < PROFILE_COUNT; kind++) {
        double value = 0;
        TRY(calibrate_spread((profile)kind, &value, err));
        TRY(play_table((profile)kind, value, &tables[kind], err));
        calibrate_speed(samples, &tables[kind]);
        ana_interval_add(&spread, value);
    }
    for (int row = 0; row < ANA_TABLE1_ROWS; row++) {
        if (ana_table1()[row].speed_up <= 0) continue;
        add_cells(rows, tables, row, samples, &rate_errors, &speed_up_errors);
    }
    add_errors(
        rows, "mean error of speed-ups", &speed_up_errors,
        ana_rows_text(rows,
                      "Two numbers are set: the spread, %.3f (%.3f to %.3f), by the row of 24 "
                      "layers, and the speed of a GPU by the column of Megatron on 8 GPUs.",
                      spread.value, spread.low, spread.high));
    double constant = 0;
    const ana_interval guess = errors_of_constant(&constant);
    ana_rows_add_number(
        rows, "mean error of speed-ups, were all as with 24 layers", &guess, NAN,
        ANA_AGREEMENT_CONSISTENT, "the same cells; high: the largest",
        ana_rows_text(rows,
                      "Every speed-up taken for %.3f, the mean of the published ones with 24 "
                      "layers: what simulating the others adds to that is the difference.",
                      constant));
    add_errors(rows, "mean error of samples per second", &rate_errors,
               "The paper's runs slow down by less than twice from 24 to 56 layers, and from 8 to "
               "2 GPUs by more than this schedule does.");
    TRY(add_memory(rows, err));
    return add_head(rows, err);
}
