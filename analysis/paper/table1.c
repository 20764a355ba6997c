/// Table 1: sparse attention on one pipeline of 2 to 8 GPUs, balancing only.
///
/// Which layers keep how much attention is not published. Two numbers are set: how unequal layers
/// are, by the row of 24 layers (Partition over Megatron, mean over 2, 4 and 8 GPUs), and how fast
/// a GPU is, by the column of Megatron on 8 GPUs. All other cells are predicted.
#include "analysis/paper/rows.h"
#include "base/rng.h"

#include <assert.h>
#include <math.h>

enum { MEGATRON, DIFFUSION, PARTITION, METHODS };

/// How the share of attention that is kept goes from layer to layer.
enum { FALLING, RISING, RANDOM, PROFILES };

enum { CELLS_MAX = 32, CALIBRATION_LAYERS = 24, CALIBRATION_GPUS = 8, SAMPLES = 64 };

/// A row of the table: samples per second of one pipeline.
typedef struct cell {
    int layer_count;
    int gpu_count;
    double published[METHODS];         // 0: out of memory
    double speed_up;                   // as printed; 0: out of memory
    double seconds[PROFILES][METHODS]; // of an iteration, as simulated
} cell;

typedef struct table1 {
    ana_rows *rows;
    cell cells[CELLS_MAX];
    int count;
} table1;

static void read_table(json_value table, table1 *made)
{
    json_value row = json_element(table, 0);
    for (; row.node != NULL; row = json_next(row)) {
        assert(made->count < CELLS_MAX);
        cell *at = &made->cells[made->count++];
        at->layer_count = (int)ana_paper_number(json_element(row, 0));
        at->gpu_count = (int)ana_paper_number(json_element(row, 1));
        for (int method = 0; method < METHODS; method++) {
            at->published[method] = ana_paper_number(json_element(row, 2 + method));
        }
        at->speed_up = ana_paper_number(json_element(row, 2 + METHODS));
    }
}

/// A layer keeps (1 + spread x direction) / 2 of its attention: half of it in the mean.
static void describe(const cell *at, int profile, double spread, text_buffer *out)
{
    rng random = rng_init(1, (uint64_t)at->layer_count);
    text_format(out, "{\"training.layers\":%d,\"pipeline.stages\":%d,\"dynamism.kept\":[",
                at->layer_count, at->gpu_count);
    for (int layer = 0; layer < at->layer_count; layer++) {
        const double depth = 2.0 * layer / (at->layer_count - 1) - 1;
        const double direction = profile == FALLING  ? -depth
                                 : profile == RISING ? depth
                                                     : 2 * rng_unit(&random) - 1;
        text_format(out, "%s%.6f", layer > 0 ? "," : "", (1 + spread * direction) / 2);
    }
    text_append(out, "]}");
}

static status play_cell(cell *at, int profile, double spread, error_message *err)
{
    static const char *const labels[METHODS] = {
        [MEGATRON] = "even",
        [DIFFUSION] = "diffusion every:1",
        [PARTITION] = "partition every:1",
    };
    text_buffer change = {0};
    ana_trial trial;
    describe(at, profile, spread, &change);
    const char *const changes[] = {change.bytes};
    const status played = ana_trial_play("table1", changes, 1, &trial, err);
    text_free(&change);
    TRY(played);
    for (int method = 0; method < METHODS; method++) {
        const ana_trial_row *row = ana_trial_find(&trial, labels[method]);
        if (row == NULL) {
            return error_set(err, STATUS_INFEASIBLE, "table1: no plan fits %d layers on %d GPUs",
                             at->layer_count, at->gpu_count);
        }
        at->seconds[profile][method] = (double)row->result.total_ns / 1e9 / trial.iteration_count;
    }
    return STATUS_OK;
}

/// Sets the spread by Partition over Megatron, logarithms, in the row of 24 layers.
static status calibrate_spread(table1 *table, int profile, double *spread, error_message *err)
{
    enum { STEPS = 10 };
    double low = 0;
    double high = 1;
    for (int step = 0; step < STEPS; step++) {
        double missing = 0;
        *spread = (low + high) / 2;
        for (int index = 0; index < table->count; index++) {
            cell *at = &table->cells[index];
            if (at->layer_count != CALIBRATION_LAYERS) continue;
            TRY(play_cell(at, profile, *spread, err));
            missing += log(at->published[PARTITION] / at->published[MEGATRON]) -
                       log(at->seconds[profile][MEGATRON] / at->seconds[profile][PARTITION]);
        }
        if (missing > 0) {
            low = *spread;
        } else {
            high = *spread;
        }
    }
    return STATUS_OK;
}

/// Makes simulated seconds those of the paper's GPUs: the factor with the smallest mean square of
/// logarithms over the column of Megatron on 8 GPUs.
static void calibrate_speed(table1 *table, int profile)
{
    double sum = 0;
    int count = 0;
    for (int index = 0; index < table->count; index++) {
        const cell *at = &table->cells[index];
        if (at->gpu_count != CALIBRATION_GPUS) continue;
        sum += log(SAMPLES / at->published[MEGATRON] / at->seconds[profile][MEGATRON]);
        count++;
    }
    for (int index = 0; index < table->count; index++) {
        for (int method = 0; method < METHODS; method++) {
            table->cells[index].seconds[profile][method] *= exp(sum / count);
        }
    }
}

static status play_table(table1 *table, ana_interval *spread, error_message *err)
{
    for (int profile = 0; profile < PROFILES; profile++) {
        double value = 0;
        TRY(calibrate_spread(table, profile, &value, err));
        ana_interval_add(spread, value);
        for (int index = 0; index < table->count; index++) {
            cell *at = &table->cells[index];
            if (at->speed_up > 0) TRY(play_cell(at, profile, value, err));
        }
        calibrate_speed(table, profile);
    }
    return STATUS_OK;
}

/// Adds the error of a prediction to the sum and largest of others.
static void add_error(double predicted, double published, ana_interval *errors)
{
    const double error = fabs(predicted / published - 1);
    errors->value += error;
    errors->high = fmax(errors->high, error);
    errors->count++;
}

/// Adds a number of a cell; one that was not set by it counts as an error of what is predicted.
static void add_number(table1 *table, const char *quantity, const ana_interval *number,
                       double published, bool is_set, const char *baseline, ana_interval *errors)
{
    ana_reproduced *row = ana_rows_add(table->rows, quantity, number, baseline, "");
    row->published = published;
    if (is_set) {
        row->agreement = ANA_AGREEMENT_CALIBRATED;
    } else {
        add_error(number->value, published, errors);
    }
}

/// Adds the four rows of a row of the table.
static void add_cell(table1 *table, const cell *at, ana_interval *rate_errors,
                     ana_interval *speed_up_errors)
{
    static const char *const names[METHODS] = {"Megatron", "Diffusion", "Partition"};
    const char *place =
        arena_format(table->rows->memory, "%d layers, %d GPUs", at->layer_count, at->gpu_count);
    const bool is_row = at->layer_count == CALIBRATION_LAYERS;
    const bool is_column = at->gpu_count == CALIBRATION_GPUS;
    for (int method = 0; method < METHODS; method++) {
        ana_interval rate = {0};
        for (int profile = 0; profile < PROFILES; profile++) {
            ana_interval_add(&rate, SAMPLES / at->seconds[profile][method]);
        }
        add_number(table, arena_format(table->rows->memory, "%s, %s", place, names[method]), &rate,
                   at->published[method],
                   is_row ? method != DIFFUSION : is_column && method == MEGATRON,
                   "samples per second", rate_errors);
    }
    ana_interval speed_up = {0};
    for (int profile = 0; profile < PROFILES; profile++) {
        const double *seconds = at->seconds[profile];
        ana_interval_add(&speed_up,
                         seconds[MEGATRON] / fmin(seconds[DIFFUSION], seconds[PARTITION]));
    }
    add_number(table, arena_format(table->rows->memory, "%s, speed-up", place), &speed_up,
               at->speed_up, is_row, "even (Megatron)", speed_up_errors);
}

/// The errors that taking every speed-up for the mean of the calibration's row would make.
static void add_constant(table1 *table)
{
    ana_interval errors = {0};
    double sum = 0;
    int count = 0;
    for (int index = 0; index < table->count; index++) {
        if (table->cells[index].layer_count != CALIBRATION_LAYERS) continue;
        sum += table->cells[index].speed_up;
        count++;
    }
    const double constant = sum / count;
    for (int index = 0; index < table->count; index++) {
        const cell *at = &table->cells[index];
        if (at->layer_count == CALIBRATION_LAYERS || at->speed_up <= 0) continue;
        add_error(constant, at->speed_up, &errors);
    }
    errors.value /= errors.count;
    ana_rows_add(table->rows, "mean error of speed-ups, were all as with 24 layers", &errors,
                 "the same cells; high: the largest",
                 arena_format(table->rows->memory,
                              "Every speed-up taken for %.3f, the mean of the published ones with "
                              "24 layers: what simulating the others adds to that is the "
                              "difference.",
                              constant))
        ->agreement = ANA_AGREEMENT_CONSISTENT;
}

static void add_errors(table1 *table, const char *quantity, ana_interval *errors, const char *note)
{
    errors->value /= errors->count;
    ana_rows_add(table->rows, quantity, errors,
                 arena_format(table->rows->memory, "the %d predicted cells; high: the largest",
                              errors->count),
                 note);
}

/// Cells of the table in which the dense model fits or does not as the paper says.
static status add_memory(table1 *table, error_message *err)
{
    static const char against[] = "dense unfused attention, 80 GB";
    int agreeing = 0;
    for (int index = 0; index < table->count; index++) {
        const cell *at = &table->cells[index];
        const char *const change = arena_format(
            table->rows->memory,
            "{\"training.layers\":%d,\"pipeline.stages\":%d,\"training.attention\":\"unfused\","
            "\"model\":\"gpt-dynmo\",\"dynamism\":null,\"balancing\":[{\"balancer\":\"even\"}]}",
            at->layer_count, at->gpu_count);
        ana_trial trial;
        error_message infeasible = {0};
        const status played = ana_trial_play("table1", &change, 1, &trial, &infeasible);
        if (played != STATUS_OK && played != STATUS_INFEASIBLE) {
            return error_set(err, played, "%s", infeasible.message);
        }
        const bool is_published = at->speed_up > 0;
        agreeing += (played == STATUS_OK) == is_published;
        if (played == STATUS_OK && is_published) continue;
        const ana_interval fits = ana_interval_of(played == STATUS_OK);
        ana_rows_add(table->rows,
                     arena_format(table->rows->memory, "%d layers, %d GPUs, fits (1) or not (0)",
                                  at->layer_count, at->gpu_count),
                     &fits, against, "")
            ->published = is_published;
    }
    const ana_interval agreement = ana_interval_of(agreeing);
    ana_rows_add(table->rows, "rows that fit in memory or not, of 15", &agreement, against, "")
        ->published = table->count;
    return STATUS_OK;
}

status ana_play_table1(ana_rows *rows, json_value published, error_message *err)
{
    table1 table = {.rows = rows};
    ana_interval spread = {0};
    ana_interval rate_errors = {0}; // sum, then mean; high: the largest
    ana_interval speed_up_errors = {0};
    read_table(published, &table);
    TRY(play_table(&table, &spread, err));
    for (int index = 0; index < table.count; index++) {
        const cell *at = &table.cells[index];
        if (at->speed_up > 0) add_cell(&table, at, &rate_errors, &speed_up_errors);
    }
    add_errors(&table, "mean error of speed-ups", &speed_up_errors,
               arena_format(rows->memory,
                            "Two numbers are set: the spread, %.3f (%.3f to %.3f), by the row of "
                            "24 layers, and the speed of a GPU by the column of Megatron on 8 "
                            "GPUs.",
                            spread.value, spread.low, spread.high));
    add_constant(&table);
    add_errors(&table, "mean error of samples per second", &rate_errors,
               "The paper's runs slow down by less than twice from 24 to 56 layers, and from 8 to "
               "2 GPUs by more than this schedule does.");
    return add_memory(&table, err);
}
