/// Measured throughputs of schedules: rows are read, the simulator is fitted to some and plays the
/// others.
#include "analysis/calibration/measured_schedules.h"

#include "analysis/calibration/shrinkage.h"
#include "balance/costs/stage_costs.h"
#include "balance/schedule/schedule.h"
#include "sim/pipeline.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

enum { GAUSS_NEWTON_STEPS = 4, FIT_MIN = 4 };

/// Whether a message occupies the ranks that it connects is not in a profile: anything from not at
/// all to all of its time, as likely as any other, until rows tell.
static const double message_mean = 0.5;
static const double message_deviation = 0.28867513459481287; // 1 / sqrt(12)

/// Throughputs are published with two or three digits, so that rows scatter at least this much.
static const double residual_min = 1e-3;

/// Columns with numbers.
typedef enum number {
    STAGES,
    MICROBATCHES,
    CHUNKS,
    MICROBATCH_SIZE,
    MEMORY_LIMIT,
    FORWARD,
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    SEND,
    THROUGHPUT,
    HIDDEN_SIZE,
    HEADS,
    SEQUENCE,
    NUMBER_COUNT
} number;

static const struct {
    const char *name;
    int min; // of a whole number; -1: any number from 0
    int max;
} columns[NUMBER_COUNT] = {
    [STAGES] = {"stages", 1, 1024},
    [MICROBATCHES] = {"microbatches", 1, 1 << 16},
    [CHUNKS] = {"chunks", 1, BAL_CHUNKS_MAX},
    [MICROBATCH_SIZE] = {"microbatch size", 1, 1 << 16},
    [MEMORY_LIMIT] = {"memory limit", 0, 1 << 20},
    [FORWARD] = {"forward (ms)", -1, 1000000},
    [BACKWARD_INPUT] = {"backward input (ms)", -1, 1000000},
    [BACKWARD_WEIGHT] = {"backward weight (ms)", -1, 1000000},
    [SEND] = {"send (ms)", -1, 1000000},
    [THROUGHPUT] = {"samples per GPU and s", -1, 1000000000},
    [HIDDEN_SIZE] = {"hidden size", 1, 1 << 20},
    [HEADS] = {"attention heads", 1, 1 << 12},
    [SEQUENCE] = {"sequence length", 1, 1 << 24},
};

/// A row with its order, which is compiled from the profiled times.
typedef struct measured_schedule {
    const char *schedule;
    const char *model;
    const char *order_name;
    double numbers[NUMBER_COUNT];
    int stages;
    int chunks;
    double samples_per_gpu; // of an iteration
    int64_t layer_bytes;    // activations of a layer, up to a factor
    int64_t weight_bytes;   // of them kept from B to W
    bool has_barrier;
    bal_schedule order;
    sim_order compiled;
    sim_summary summary;
} measured_schedule;

/// Rows of the table that are fitted, then those that are predicted.
typedef struct schedule_set {
    measured_schedule *fitted;    // [fitted_count]
    measured_schedule *predicted; // [predicted_count]
    arena *memory;
} schedule_set;

status ana_measured_table_open(const char *path, arena *memory, table *out, error_message *err)
{
    const char *text = embedded_find(ana_measured_tables, path);
    if (text == NULL || access(path, F_OK) == 0) return table_open(path, memory, out, err);
    return table_open_bytes(path, text, strlen(text), memory, out, err);
}

static status find(const table *from, const char *name, int *column, error_message *err)
{
    char suggestion[TEXT_SUGGESTION_BYTES];
    *column = table_column(from, name);
    if (*column >= 0) return STATUS_OK;
    return error_set(err, STATUS_FORMAT, "%s: no column '%s'%s", from->path, name,
                     text_suggestion(name, from->columns, from->column_count, suggestion));
}

static status read_word(const table *from, int row, const char *name, const char **out,
                        error_message *err)
{
    int column = 0;
    TRY(find(from, name, &column, err));
    *out = table_cell(from, row, column);
    return STATUS_OK;
}

static status read_number(const table *from, int row, number which, double *out, error_message *err)
{
    const int min = columns[which].min;
    int column = 0;
    TRY(find(from, columns[which].name, &column, err));
    TRY(table_number(from, row, column, 0, columns[which].max, out, err));
    if (min < 0 || (*out >= min && *out <= floor(*out))) return STATUS_OK;
    return error_set(err, STATUS_FORMAT, "%s:%d: %s: %g is no whole number from %d", from->path,
                     from->lines[row], columns[which].name, *out, min);
}

/// Memory of a transformer's layer is that of Qi et al., Table 1, without the factor sequence *
/// batch, which all rows of a stage share: 34 h + 5 a s, of which 32 h are kept for W.
static status read_row(const table *from, int row, measured_schedule *out, error_message *err)
{
    const double *numbers = out->numbers;
    TRY(read_word(from, row, "schedule", &out->schedule, err));
    TRY(read_word(from, row, "model", &out->model, err));
    TRY(read_word(from, row, "order", &out->order_name, err));
    for (number which = 0; which < NUMBER_COUNT; which++) {
        TRY(read_number(from, row, which, &out->numbers[which], err));
    }
    if (numbers[THROUGHPUT] <= 0 || numbers[FORWARD] <= 0) {
        return error_set(err, STATUS_FORMAT, "%s:%d: throughput and forward must be above 0",
                         from->path, from->lines[row]);
    }
    out->stages = (int)numbers[STAGES];
    out->chunks = (int)numbers[CHUNKS];
    out->samples_per_gpu = numbers[MICROBATCHES] * numbers[MICROBATCH_SIZE] / numbers[STAGES];
    out->layer_bytes =
        34 * (int64_t)numbers[HIDDEN_SIZE] + 5 * (int64_t)(numbers[HEADS] * numbers[SEQUENCE]);
    out->weight_bytes = 32 * (int64_t)numbers[HIDDEN_SIZE];
    return STATUS_OK;
}

/// Times of the chunks' ops: profiled ones times compute_factor, and what messages occupy. The
/// first chunk's F waits for no message and the last one's sends none; backwards the other way
/// round.
static void make_costs(const measured_schedule *each, double compute_factor, double message_factor,
                       arena *memory, bal_stage_costs *out)
{
    const int stages = each->stages * each->chunks;
    int64_t *rows[8];
    for (int row = 0; row < 8; row++) {
        rows[row] = arena_array(memory, (size_t)stages, sizeof *rows[row]);
    }
    for (int stage = 0; stage < stages; stage++) {
        const int messages = (stage > 0) + (stage < stages - 1);
        const double held_ms = message_factor * messages * each->numbers[SEND];
        for (int op = 0; op < 3; op++) {
            const double own_ms = compute_factor * each->numbers[FORWARD + op] / each->chunks;
            rows[op][stage] = llround(1e6 * (own_ms + (op < 2 ? held_ms : 0)));
        }
        rows[3][stage] = rows[4][stage] = llround(1e6 * each->numbers[SEND]);
        rows[5][stage] = each->layer_bytes;
        rows[6][stage] = each->weight_bytes - each->layer_bytes;
        rows[7][stage] = -each->weight_bytes;
    }
    *out = (bal_stage_costs){.stage_count = stages,
                             .microbatch_count = 1,
                             .forward_ns = rows[0],
                             .backward_input_ns = rows[1],
                             .backward_weight_ns = rows[2],
                             .send_forward_ns = rows[3],
                             .send_backward_ns = rows[4],
                             .memory_forward = rows[5],
                             .memory_backward_input = rows[6],
                             .memory_backward_weight = rows[7]};
}

static status build(measured_schedule *each, arena *memory, error_message *err)
{
    bal_stage_costs costs;
    make_costs(each, 1, 0, memory, &costs);
    int64_t *limits = arena_array(memory, (size_t)each->stages, sizeof *limits);
    for (int rank = 0; rank < each->stages; rank++) {
        limits[rank] = (int64_t)each->numbers[MEMORY_LIMIT] * each->layer_bytes;
    }
    const bal_schedule_family *family = bal_schedule_family_find(each->order_name);
    each->has_barrier = family == NULL || !family->is_searched;
    const bal_schedule_request request = {
        .name = each->order_name,
        .rank_count = each->stages,
        .microbatch_count = (int)each->numbers[MICROBATCHES],
        .chunk_count = each->chunks,
        .costs = &costs,
        .memory_limit = each->numbers[MEMORY_LIMIT] > 0 ? limits : NULL,
    };
    TRY(bal_schedule_build(&request, memory, &each->order, err));
    TRY(sim_costs_check(&each->order, &costs, err));
    TRY(sim_order_compile(&each->order, memory, &each->compiled, err));
    sim_summary_init(&each->compiled, memory, &each->summary);
    return STATUS_OK;
}

static status read_rows(const table *from, const int *rows, int count, arena *memory,
                        measured_schedule **out, error_message *err)
{
    *out = arena_array(memory, (size_t)count, sizeof **out);
    for (int index = 0; index < count; index++) {
        measured_schedule *each = &(*out)[index];
        TRY(read_row(from, rows[index], each, err));
        const status built = build(each, memory, err);
        if (built != STATUS_OK) {
            return error_prefix(err, built, "%s:%d", from->path, from->lines[rows[index]]);
        }
    }
    return STATUS_OK;
}

/// Simulated time of an iteration, ms.
static double play(measured_schedule *each, double compute_factor, double message_factor,
                   arena *scratch)
{
    bal_stage_costs costs;
    arena_reset(scratch);
    make_costs(each, compute_factor, message_factor, scratch, &costs);
    sim_order_summarise(&each->compiled, &costs, NULL, &each->summary);
    return 1e-6 * (double)(each->has_barrier ? each->summary.makespan_ns : each->summary.span_ns);
}

static int model_of(const ana_schedule_calibration *out, const char *model)
{
    for (int index = 0; index < out->model_count; index++) {
        if (strcmp(out->models[index], model) == 0) return index;
    }
    return -1;
}

/// Fills the rows of one step: the simulated time is nearly linear in both factors around where
/// they are.
///
/// @param values [fitted_count][2 + model_count] out: columns of the compute factor, of the message
///               factor, then of the models'
/// @param target [fitted_count] out
static void fill_step(const schedule_set *set, const ana_schedule_calibration *out, arena *scratch,
                      double *values, double *target)
{
    const double delta = 0.01;
    const size_t column_count = 2 + (size_t)out->model_count;
    memset(values, 0, (size_t)out->fitted_count * column_count * sizeof *values);
    for (int fit = 0; fit < out->fitted_count; fit++) {
        measured_schedule *each = &set->fitted[fit];
        const double compute_factor = out->compute_factor;
        const double message_factor = out->message_factor;
        const double base = play(each, compute_factor, message_factor, scratch);
        const double compute = play(each, compute_factor + delta, message_factor, scratch);
        const double message = play(each, compute_factor, message_factor + delta, scratch);
        const double weight = each->numbers[THROUGHPUT] / (1e3 * each->samples_per_gpu);
        double *row = values + (size_t)fit * column_count;
        row[0] = weight * (compute - base) / delta;
        row[1] = weight * (message - base) / delta;
        row[2 + model_of(out, each->model)] = weight * base;
        target[fit] =
            1 - weight * base + row[0] * compute_factor + row[1] * (message_factor - message_mean);
    }
}

static status fit(const schedule_set *set, arena *scratch, ana_schedule_calibration *out,
                  error_message *err)
{
    static const double unused_deviation[] = {1};
    const size_t rows = (size_t)out->fitted_count;
    const size_t models = (size_t)out->model_count;
    double *values = arena_array(set->memory, rows * (2 + models), sizeof *values);
    double *target = arena_array(set->memory, rows, sizeof *target);
    int *class = arena_array(set->memory, 1 + models, sizeof *class);
    const ana_shrinkage_problem problem = {.row_count = out->fitted_count,
                                           .fixed_count = 1,
                                           .random_count = 1 + out->model_count,
                                           .class_count = 2,
                                           .values = values,
                                           .target = target,
                                           .random_class = class,
                                           .class_deviation = {message_deviation, -1},
                                           .fixed_deviation = unused_deviation,
                                           .residual_min = residual_min};
    for (size_t model = 0; model < models; model++) {
        class[1 + model] = 1;
    }
    out->compute_factor = 1;
    out->message_factor = message_mean;
    for (int step = 0; step < GAUSS_NEWTON_STEPS; step++) {
        ana_shrinkage_fit solved;
        fill_step(set, out, scratch, values, target);
        TRY(ana_shrinkage_solve(&problem, set->memory, &solved, err));
        out->compute_factor = solved.coefficients[0];
        out->message_factor = fmax(0, message_mean + solved.coefficients[1]);
        out->model_deviation = solved.class_deviation[1];
        out->residual = solved.residual;
        for (int model = 0; model < out->model_count; model++) {
            out->model_factors[model] = 1 + solved.coefficients[2 + model];
        }
    }
    return STATUS_OK;
}

static void list_models(const schedule_set *set, ana_schedule_calibration *out)
{
    const size_t most = (size_t)out->fitted_count;
    out->models = arena_array(set->memory, most, sizeof *out->models);
    out->model_factors = arena_array(set->memory, most, sizeof *out->model_factors);
    for (int fit = 0; fit < out->fitted_count; fit++) {
        const char *model = set->fitted[fit].model;
        if (model_of(out, model) < 0) out->models[out->model_count++] = model;
    }
}

static void add_error(ana_schedule_score *score, double error)
{
    score->count++;
    score->error_mean += fabs(error);
    score->error_signed_mean += error;
    if (fabs(error) > score->error_max) score->error_max = fabs(error);
}

static ana_schedule_score *score_of(ana_schedule_calibration *out, const char *schedule)
{
    for (int index = 0; index < out->score_count; index++) {
        if (strcmp(out->scores[index].schedule, schedule) == 0) return &out->scores[index];
    }
    out->scores[out->score_count].schedule = schedule;
    return &out->scores[out->score_count++];
}

static void predict(const schedule_set *set, const int *predict_rows, arena *scratch,
                    ana_schedule_calibration *out)
{
    const size_t count = (size_t)out->predicted_count;
    ana_schedule_score all = {0};
    out->rows = arena_array(set->memory, count, sizeof *out->rows);
    out->scores = arena_array(set->memory, count + 1, sizeof *out->scores);
    for (int row = 0; row < out->predicted_count; row++) {
        measured_schedule *each = &set->predicted[row];
        double ms = play(each, out->compute_factor, out->message_factor, scratch);
        const int model = model_of(out, each->model);
        if (model >= 0) ms *= out->model_factors[model];
        out->rows[row] = (ana_schedule_row){.row = predict_rows[row],
                                            .predicted = 1e3 * each->samples_per_gpu / ms,
                                            .measured = each->numbers[THROUGHPUT]};
        const double error = out->rows[row].predicted / out->rows[row].measured - 1;
        add_error(score_of(out, each->schedule), error);
        add_error(&all, error);
    }
    out->scores[out->score_count++] = all;
    for (int index = 0; index < out->score_count; index++) {
        out->scores[index].error_mean /= out->scores[index].count;
        out->scores[index].error_signed_mean /= out->scores[index].count;
    }
}

status ana_schedule_calibrate(const table *from, const int *fit_rows, int fit_count,
                              const int *predict_rows, int predict_count, arena *memory,
                              ana_schedule_calibration *out, error_message *err)
{
    if (fit_count < FIT_MIN) {
        return error_set(err, STATUS_INVALID, "%d row%s to fit: at least %d are needed", fit_count,
                         fit_count == 1 ? "" : "s", FIT_MIN);
    }
    ana_schedule_calibration made = {.fitted_count = fit_count, .predicted_count = predict_count};
    schedule_set set = {.memory = memory};
    TRY(read_rows(from, fit_rows, fit_count, memory, &set.fitted, err));
    TRY(read_rows(from, predict_rows, predict_count, memory, &set.predicted, err));
    list_models(&set, &made);
    arena *scratch = arena_create(1 << 16);
    const status result = fit(&set, scratch, &made, err);
    if (result == STATUS_OK) predict(&set, predict_rows, scratch, &made);
    arena_destroy(scratch);
    if (result == STATUS_OK) *out = made;
    return result;
}
