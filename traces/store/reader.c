#include "traces/store/reader.h"

#include "base/arena.h"
#include "traces/store/sql.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { FORWARD, INPUT, WEIGHT, PASSES };

struct trace_reader {
    trace_store *store;
    arena *memory;
    trace_info info;
    bool has_split;  // of what the reader answers
    int columns;     // of what it answers: M or 1
    int row_columns; // of what is stored: M or 1
    int sample;      // the iteration in the arrays; -1: none yet
    int next;        // the next sampled iteration; INT_MAX: none
    bool has_activations;
    bool *seen;                // [row_columns] microbatches with a row in the sample
    int64_t *row_ns[PASSES];   // [layer_count][row_columns]
    int64_t *ns[PASSES];       // [layer_count][columns]; row_ns where they are the same
    int64_t *activation_bytes; // [layer_count]
    int64_t *activation_count; // [layer_count] rows that were added up in activation_bytes
    int64_t *parameters;       // [layer_count] or NULL
    int64_t *state_bytes;      // [layer_count] or NULL
    int64_t *message_bytes;    // [layer_count] or NULL
};

/// One property of all layers, or NULL if a layer lacks it. @param layers [count] that have any
static int64_t *property(trace_reader *reader, const trace_layer *layers, int count, size_t offset)
{
    int64_t *values = arena_array(reader->memory, (size_t)count, sizeof *values);
    for (int layer = 0; layer < count; layer++) {
        values[layer] = *(const int64_t *)((const char *)&layers[layer] + offset);
        if (values[layer] < 0) return NULL;
    }
    return count == reader->info.layer_count ? values : NULL;
}

static void allocate(trace_reader *reader)
{
    const size_t layers = (size_t)reader->info.layer_count;
    const size_t row_cells = layers * (size_t)reader->row_columns;
    arena *memory = reader->memory;
    reader->seen = arena_array(memory, (size_t)reader->row_columns, sizeof(bool));
    reader->activation_bytes = arena_array(memory, layers, sizeof(int64_t));
    reader->activation_count = arena_array(memory, layers, sizeof(int64_t));
    for (int pass = 0; pass < PASSES; pass++) {
        reader->row_ns[pass] = arena_array(memory, row_cells, sizeof(int64_t));
        reader->ns[pass] = reader->columns == reader->row_columns
                               ? reader->row_ns[pass]
                               : arena_array(memory, layers, sizeof(int64_t));
    }
}

static status open_reader(trace_reader *reader, int64_t trace_id, trace_columns columns,
                          error_message *err)
{
    trace_store *store = reader->store;
    trace_layer *layers = NULL;
    int layer_count = 0;
    TRY(trace_by_id(store, trace_id, reader->memory, &reader->info, err));
    const trace_info *info = &reader->info;
    if (info->iteration_count == 0) {
        return error_set(err, STATUS_FORMAT, "%s: trace '%.80s' holds no sample", store->path,
                         info->name);
    }
    if (info->layer_count < 1 || info->layer_count > TRACE_LAYERS_MAX ||
        info->microbatch_columns < 1 ||
        (int64_t)info->layer_count * info->microbatch_columns > TRACE_CELLS_MAX ||
        info->first_iteration < 0 || info->last_iteration > TRACE_ITERATIONS_MAX) {
        return error_set(err, STATUS_FORMAT,
                         "%s: trace '%.80s': %d layers x %d microbatches are outside the limits",
                         store->path, info->name, info->layer_count, info->microbatch_columns);
    }
    reader->row_columns = info->microbatch_columns;
    reader->columns = columns == TRACE_COLUMNS_MEAN ? 1 : reader->row_columns;
    reader->has_split = info->has_split || info->backward_split >= 0;
    TRY(trace_layers(store, info, reader->memory, &layers, &layer_count, err));
    reader->parameters = property(reader, layers, layer_count, offsetof(trace_layer, parameters));
    reader->state_bytes = property(reader, layers, layer_count, offsetof(trace_layer, state_bytes));
    reader->message_bytes =
        property(reader, layers, layer_count, offsetof(trace_layer, message_bytes));
    allocate(reader);
    return STATUS_OK;
}

status trace_reader_open(trace_store *store, int64_t trace_id, trace_columns columns, arena *memory,
                         trace_reader **reader, error_message *err)
{
    trace_reader *opened = arena_array(memory, 1, sizeof *opened);
    *opened = (trace_reader){.store = store, .memory = memory, .sample = -1};
    TRY(open_reader(opened, trace_id, columns, err));
    *reader = opened;
    return STATUS_OK;
}

static int64_t recorded(int64_t value)
{
    return value > 0 ? value : 0;
}

/// How a row's backward divides into B and W. Recompute counts as B, which waits for it. A full
/// backward counts as B where no backward_split is assumed; else by that share, and as W for the
/// embedding, which has no gradient to pass on.
static void divide_backward(const trace_info *info, const trace_load *load, int64_t *input_ns,
                            int64_t *weight_ns)
{
    const int64_t full_ns = recorded(load->time_ns[TRACE_OP_BACKWARD]);
    int64_t full_input_ns = full_ns;
    if (info->backward_split >= 0) {
        full_input_ns = (int64_t)(info->backward_split * (double)full_ns + 0.5);
        if (full_input_ns > full_ns) full_input_ns = full_ns;
        if (info->embedding && load->layer == 0) full_input_ns = 0;
    }
    *input_ns = recorded(load->time_ns[TRACE_OP_RECOMPUTE]) +
                recorded(load->time_ns[TRACE_OP_BACKWARD_INPUT]) + full_input_ns;
    *weight_ns = recorded(load->time_ns[TRACE_OP_BACKWARD_WEIGHT]) + full_ns - full_input_ns;
}

/// The column of a row among those of its trace: its microbatch, 0 of means.
///
/// @return STATUS_FORMAT for a layer or microbatch that the trace has not
static status find_column(const trace_store *store, const trace_info *info, const trace_load *load,
                          int *column, error_message *err)
{
    const bool is_mean = load->microbatch == TRACE_MEAN;
    *column = is_mean ? 0 : load->microbatch;
    if (load->layer >= 0 && load->layer < info->layer_count && *column >= 0 &&
        *column < info->microbatch_columns && (!is_mean || info->microbatch_columns == 1)) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_FORMAT,
                     "%s: table load: iteration %d layer %d microbatch %d: not possible in"
                     " a trace of %d layers and %d microbatches",
                     store->path, load->iteration, load->layer, load->microbatch, info->layer_count,
                     info->microbatch_columns);
}

/// The row as it is replayed: each phase for what it is charged.
static trace_load charged(trace_load load)
{
    for (int phase = 0; phase < TRACE_PHASE_COUNT; phase++) {
        if (load.charge_ns[phase] >= 0) load.time_ns[phase] = load.charge_ns[phase];
    }
    return load;
}

static status put_row(trace_reader *reader, const trace_load *load, error_message *err)
{
    const int64_t forward_ns = load->time_ns[TRACE_OP_FORWARD];
    int column = 0;
    TRY(find_column(reader->store, &reader->info, load, &column, err));
    const size_t cell = (size_t)load->layer * (size_t)reader->row_columns + (size_t)column;
    reader->seen[column] = true;
    reader->row_ns[FORWARD][cell] = recorded(forward_ns);
    divide_backward(&reader->info, load, &reader->row_ns[INPUT][cell],
                    &reader->row_ns[WEIGHT][cell]);
    if (!reader->has_split) {
        reader->row_ns[INPUT][cell] += reader->row_ns[WEIGHT][cell];
        reader->row_ns[WEIGHT][cell] = 0;
    }
    if (forward_ns >= 0 && load->activation_bytes < 0) reader->has_activations = false;
    if (load->activation_bytes >= 0) {
        // A larger sum than fits is no size of any memory: it saturates.
        if (reader->activation_bytes[load->layer] <= INT64_MAX - TRACE_VALUE_MAX) {
            reader->activation_bytes[load->layer] += load->activation_bytes;
        }
        reader->activation_count[load->layer]++;
    }
    return STATUS_OK;
}

/// The nearest integer to the mean of those of ns [columns] that were seen, halves up. Quotients
/// and remainders are added up apart: the sum itself may not fit.
static int64_t mean_of_seen(const trace_reader *reader, const int64_t *ns, int64_t seen_count)
{
    int64_t quotients = 0;
    int64_t remainders = 0; // < seen_count^2
    for (int column = 0; column < reader->row_columns; column++) {
        quotients += ns[column] / seen_count; // 0 where it was not seen
        remainders += ns[column] % seen_count;
    }
    return quotients + (remainders + seen_count / 2) / seen_count;
}

/// Fills the columns without any row from the others, and makes the mean where it is asked for.
static void complete_times(const trace_reader *reader, int64_t *rows_ns, int64_t *out_ns)
{
    const int columns = reader->row_columns;
    int64_t seen_count = 0;
    for (int column = 0; column < columns; column++) {
        seen_count += reader->seen[column];
    }
    for (int layer = 0; layer < reader->info.layer_count; layer++) {
        int64_t *row_ns = rows_ns + (size_t)layer * (size_t)columns;
        if (reader->columns != columns) {
            out_ns[layer] = mean_of_seen(reader, row_ns, seen_count);
        } else if (seen_count < columns) {
            const int64_t mean_ns = mean_of_seen(reader, row_ns, seen_count);
            for (int column = 0; column < columns; column++) {
                if (!reader->seen[column]) row_ns[column] = mean_ns;
            }
        }
    }
}

static status read_rows(trace_reader *reader, int sample, error_message *err)
{
    trace_load *loads = NULL;
    int count = 0;
    status result =
        trace_loads_at(reader->store, reader->info.trace_id, sample, &loads, &count, err);
    for (int load = 0; load < count && result == STATUS_OK; load++) {
        const trace_load row = charged(loads[load]);
        result = put_row(reader, &row, err);
    }
    free(loads);
    return result;
}

static status read_sample(trace_reader *reader, int sample, error_message *err)
{
    const size_t layers = (size_t)reader->info.layer_count;
    const size_t cells = layers * (size_t)reader->row_columns;
    reader->sample = -1;
    reader->has_activations = true;
    memset(reader->seen, 0, (size_t)reader->row_columns * sizeof *reader->seen);
    for (int pass = 0; pass < PASSES; pass++) {
        memset(reader->row_ns[pass], 0, cells * sizeof(int64_t));
    }
    memset(reader->activation_bytes, 0, layers * sizeof(int64_t));
    memset(reader->activation_count, 0, layers * sizeof(int64_t));
    TRY(read_rows(reader, sample, err));
    for (int pass = 0; pass < PASSES; pass++) {
        complete_times(reader, reader->row_ns[pass], reader->ns[pass]);
    }
    for (size_t layer = 0; layer < layers; layer++) {
        const int64_t count = reader->activation_count[layer];
        if (count > 1) {
            reader->activation_bytes[layer] = reader->activation_bytes[layer] / count +
                                              (reader->activation_bytes[layer] % count > 0);
        }
    }
    TRY(trace_next_sample(reader->store, reader->info.trace_id, sample, &reader->next, err));
    if (reader->next < 0) reader->next = INT_MAX;
    reader->sample = sample;
    return STATUS_OK;
}

status trace_reader_costs_at(trace_reader *reader, int iteration, bal_layer_costs *costs,
                             bool *changed, error_message *err)
{
    assert(iteration >= 0);
    const int first = (int)reader->info.first_iteration;
    if (iteration < first) iteration = first;
    const bool held =
        reader->sample >= 0 && iteration >= reader->sample && iteration < reader->next;
    if (!held) {
        int64_t sample = first;
        TRY(sql_get(reader->store, &sample, err,
                    "SELECT max(iteration) AS iteration FROM loads"
                    " WHERE trace_id=? AND iteration<=?",
                    "ii", reader->info.trace_id, (int64_t)iteration));
        TRY(read_sample(reader, (int)sample, err));
    }
    *changed = !held;
    *costs = (bal_layer_costs){
        .layer_count = reader->info.layer_count,
        .microbatch_count = reader->columns,
        .has_split = reader->has_split,
        .embedding = reader->info.embedding,
        .head = reader->info.head,
        .forward_ns = reader->ns[FORWARD],
        .backward_input_ns = reader->ns[INPUT],
        .backward_weight_ns = reader->ns[WEIGHT],
        .parameters = reader->parameters,
        .state_bytes = reader->state_bytes,
        .activation_bytes = reader->has_activations ? reader->activation_bytes : NULL,
        .message_bytes = reader->message_bytes,
    };
    return STATUS_OK;
}

static status costs_at(void *context, int iteration, bal_layer_costs *costs, bool *changed,
                       error_message *err)
{
    return trace_reader_costs_at(context, iteration, costs, changed, err);
}

bal_cost_source trace_reader_source(trace_reader *reader)
{
    return (bal_cost_source){
        .context = reader,
        .layer_count = reader->info.layer_count,
        .iteration_count = (int)reader->info.last_iteration + 1,
        .costs_at = costs_at,
    };
}

/// On the way to the means: what is summed stands in the arrays of the means.
typedef struct load_sums {
    trace_store *store;
    const trace_info *info;
    trace_loads loads;
    bool *seen;         // [microbatch_columns] with a row in the sample that is being read
    int64_t seen_count; // of all samples
} load_sums;

/// Sums stay below half of what fits, so that two of them can be added.
static bool add(int64_t *sum, int64_t value)
{
    if (value > INT64_MAX / 2 - *sum) return false;
    *sum += value;
    return true;
}

static status add_row(load_sums *sums, const trace_load *load, error_message *err)
{
    const trace_info *info = sums->info;
    trace_loads *loads = &sums->loads;
    int column = 0;
    TRY(find_column(sums->store, info, load, &column, err));
    int64_t input_ns = 0;
    int64_t weight_ns = 0;
    divide_backward(info, load, &input_ns, &weight_ns);
    const int layer = load->layer;
    if (!sums->seen[column]) sums->seen_count++;
    sums->seen[column] = true;
    const bool is_full = load->time_ns[TRACE_OP_BACKWARD] >= 0 && info->backward_split < 0;
    if (is_full) loads->is_full[layer] = true;
    const bool fits = add(&loads->forward_ns[layer], recorded(load->time_ns[TRACE_OP_FORWARD])) &&
                      add(&loads->backward_input_ns[layer], input_ns) &&
                      add(&loads->backward_weight_ns[layer], weight_ns) &&
                      add(&loads->communication_ns[layer], recorded(load->communication_ns));
    if (fits) return STATUS_OK;
    return error_set(
        err, STATUS_FORMAT,
        "%s: trace '%.80s' iteration %d layer %d: the sum of its times exceeds 64 bits",
        sums->store->path, info->name, load->iteration, layer);
}

static status add_sample(load_sums *sums, int iteration, error_message *err)
{
    trace_load *found = NULL;
    int count = 0;
    memset(sums->seen, 0, (size_t)sums->info->microbatch_columns * sizeof *sums->seen);
    status result =
        trace_loads_at(sums->store, sums->info->trace_id, iteration, &found, &count, err);
    for (int load = 0; load < count && result == STATUS_OK; load++) {
        result = add_row(sums, &found[load], err);
    }
    free(found);
    return result;
}

static int64_t rounded(int64_t sum, int64_t count)
{
    return sum / count + (sum % count >= count - count / 2);
}

static void take_means(trace_loads *loads, int64_t count)
{
    for (int layer = 0; layer < loads->layer_count; layer++) {
        int64_t *input_ns = &loads->backward_input_ns[layer];
        int64_t *weight_ns = &loads->backward_weight_ns[layer];
        if (loads->is_full[layer]) {
            *input_ns += *weight_ns;
            *weight_ns = 0;
        }
        *input_ns = rounded(*input_ns, count);
        *weight_ns = rounded(*weight_ns, count);
        loads->forward_ns[layer] = rounded(loads->forward_ns[layer], count);
        loads->communication_ns[layer] = rounded(loads->communication_ns[layer], count);
    }
}

status trace_loads_mean(trace_store *store, const trace_info *info, int first, int last,
                        arena *memory, trace_loads *loads, error_message *err)
{
    static const sql_field iteration = {"iteration", 0, SQL_INT, NULL, 0};
    static const sql_record of_sample = {&iteration, 1, sizeof(int)};
    const size_t layers = (size_t)info->layer_count;
    load_sums sums = {
        .store = store,
        .info = info,
        .loads = {.layer_count = info->layer_count,
                  .forward_ns = arena_array(memory, layers, sizeof(int64_t)),
                  .backward_input_ns = arena_array(memory, layers, sizeof(int64_t)),
                  .backward_weight_ns = arena_array(memory, layers, sizeof(int64_t)),
                  .communication_ns = arena_array(memory, layers, sizeof(int64_t)),
                  .is_full = arena_array(memory, layers, sizeof(bool))},
        .seen = arena_array(memory, (size_t)info->microbatch_columns, sizeof(bool)),
    };
    TRY(sql_rows(store, &of_sample,
                 " FROM loads WHERE trace_id=? AND iteration BETWEEN ? AND ? ORDER BY iteration",
                 memory, &sums.loads.iterations, &sums.loads.iteration_count, err, "iii",
                 info->trace_id, (int64_t)first, (int64_t)last));
    if (sums.loads.iteration_count == 0) {
        return error_set(err, STATUS_INVALID,
                         "%s: trace '%.80s' has no sample in iterations %d:%d; it has them from "
                         "%" PRId64 " to %" PRId64,
                         store->path, info->name, first, last, info->first_iteration,
                         info->last_iteration);
    }
    for (int sample = 0; sample < sums.loads.iteration_count; sample++) {
        TRY(add_sample(&sums, sums.loads.iterations[sample], err));
    }
    take_means(&sums.loads, sums.seen_count);
    *loads = sums.loads;
    return STATUS_OK;
}
