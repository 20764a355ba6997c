#include "traces/store/loads.h"

#include "traces/store/columns.h"
#include "traces/store/sql.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int64_t recorded(int64_t value)
{
    return value > 0 ? value : 0;
}

void trace_backward_of(const trace_info *info, const trace_load *load, int64_t *input_ns,
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

status trace_load_column(const trace_store *store, const trace_info *info, const trace_load *load,
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

enum { SUM_FORWARD, SUM_INPUT, SUM_WEIGHT, SUM_COMMUNICATION, SUM_COUNT };

/// Sums on the way to the means.
typedef struct load_sums {
    trace_store *store;
    const trace_info *info;
    int64_t *sums[SUM_COUNT]; // [layer_count] over the range
    bool *seen;               // [microbatch_columns] with a row in the sample that is being read
    int64_t seen_count;       // of all samples
} load_sums;

static void allocate(load_sums *sums, arena *memory, trace_loads *loads)
{
    const size_t layers = (size_t)sums->info->layer_count;
    int64_t **const arrays[] = {
        &sums->sums[0],
        &sums->sums[1],
        &sums->sums[2],
        &sums->sums[3],
        &loads->forward_ns,
        &loads->backward_input_ns,
        &loads->backward_weight_ns,
        &loads->communication_ns,
    };
    for (size_t array = 0; array < sizeof arrays / sizeof arrays[0]; array++) {
        *arrays[array] = arena_array(memory, layers, sizeof(int64_t));
    }
    loads->is_full = arena_array(memory, layers, sizeof(bool));
    sums->seen = arena_array(memory, (size_t)sums->info->microbatch_columns, sizeof(bool));
}

static void begin_sample(load_sums *sums, int iteration, arena *memory, trace_loads *loads)
{
    memset(sums->seen, 0, (size_t)sums->info->microbatch_columns * sizeof *sums->seen);
    loads->iterations =
        arena_grow(memory, loads->iterations, (size_t)loads->iteration_count, sizeof(int));
    loads->iterations[loads->iteration_count++] = iteration;
}

/// Sums stay below half of what fits, so that two of them can be added.
static bool add(int64_t *sum, int64_t value)
{
    if (value > INT64_MAX / 2 - *sum) return false;
    *sum += value;
    return true;
}

static status add_row(load_sums *sums, const trace_load *load, trace_loads *loads,
                      error_message *err)
{
    const trace_info *info = sums->info;
    int column = 0;
    TRY(trace_load_column(sums->store, info, load, &column, err));
    int64_t input_ns = 0;
    int64_t weight_ns = 0;
    trace_backward_of(info, load, &input_ns, &weight_ns);
    const int64_t forward_ns = recorded(load->time_ns[TRACE_OP_FORWARD]);
    const int layer = load->layer;
    if (!sums->seen[column]) sums->seen_count++;
    sums->seen[column] = true;
    if (load->time_ns[TRACE_OP_BACKWARD] >= 0 && info->backward_split < 0)
        loads->is_full[layer] = true;
    const bool fits = add(&sums->sums[SUM_FORWARD][layer], forward_ns) &&
                      add(&sums->sums[SUM_INPUT][layer], input_ns) &&
                      add(&sums->sums[SUM_WEIGHT][layer], weight_ns) &&
                      add(&sums->sums[SUM_COMMUNICATION][layer], recorded(load->communication_ns));
    if (fits) return STATUS_OK;
    return error_set(
        err, STATUS_FORMAT,
        "%s: trace '%.80s' iteration %d layer %d: the sum of its times exceeds 64 bits",
        sums->store->path, info->name, load->iteration, layer);
}

/// Adds the loads of an iteration, a row of its statement.
static status read_iteration(load_sums *sums, sqlite3_stmt *row, arena *memory, trace_loads *loads,
                             error_message *err)
{
    trace_load *found = NULL;
    int count = 0;
    TRY(block_read_loads(sums->store, row, &found, &count, err));
    begin_sample(sums, found[0].iteration, memory, loads);
    status result = STATUS_OK;
    for (int load = 0; load < count && result == STATUS_OK; load++) {
        result = add_row(sums, &found[load], loads, err);
    }
    free(found);
    return result;
}

static int64_t rounded(int64_t sum, int64_t count)
{
    return sum / count + (sum % count >= count - count / 2);
}

static void divide(const load_sums *sums, trace_loads *loads)
{
    const int64_t count = sums->seen_count;
    for (int layer = 0; layer < loads->layer_count; layer++) {
        const int64_t input_ns = sums->sums[SUM_INPUT][layer];
        const int64_t weight_ns = sums->sums[SUM_WEIGHT][layer];
        const bool is_full = loads->is_full[layer];
        loads->forward_ns[layer] = rounded(sums->sums[SUM_FORWARD][layer], count);
        loads->backward_input_ns[layer] = rounded(is_full ? input_ns + weight_ns : input_ns, count);
        loads->backward_weight_ns[layer] = is_full ? 0 : rounded(weight_ns, count);
        loads->communication_ns[layer] = rounded(sums->sums[SUM_COMMUNICATION][layer], count);
    }
}

status trace_loads_mean(trace_store *store, const trace_info *info, int first, int last,
                        arena *memory, trace_loads *loads, error_message *err)
{
    load_sums sums = {.store = store, .info = info};
    trace_loads found = {.layer_count = info->layer_count};
    sqlite3_stmt *rows = NULL;
    bool has_row = false;
    allocate(&sums, memory, &found);
    TRY(sql_query(store, &rows, err,
                  "SELECT iteration, row_count, loads FROM loads WHERE trace_id=?"
                  " AND iteration BETWEEN ? AND ? ORDER BY iteration",
                  "iii", info->trace_id, (int64_t)first, (int64_t)last));
    status result = sql_step(store, rows, &has_row, err);
    while (result == STATUS_OK && has_row) {
        result = read_iteration(&sums, rows, memory, &found, err);
        if (result == STATUS_OK) result = sql_step(store, rows, &has_row, err);
    }
    sqlite3_finalize(rows);
    TRY(result);
    if (found.iteration_count == 0) {
        return error_set(err, STATUS_INVALID,
                         "%s: trace '%.80s' has no sample in iterations %d:%d; it has them from "
                         "%" PRId64 " to %" PRId64,
                         store->path, info->name, first, last, info->first_iteration,
                         info->last_iteration);
    }
    divide(&sums, &found);
    *loads = found;
    return STATUS_OK;
}
