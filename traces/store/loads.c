#include "traces/store/loads.h"

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
    TRY(trace_load_column(sums->store, info, load, &column, err));
    int64_t input_ns = 0;
    int64_t weight_ns = 0;
    trace_backward_of(info, load, &input_ns, &weight_ns);
    const int layer = load->layer;
    if (!sums->seen[column]) sums->seen_count++;
    sums->seen[column] = true;
    if (load->time_ns[TRACE_OP_BACKWARD] >= 0 && info->backward_split < 0)
        loads->is_full[layer] = true;
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

static void divide(trace_loads *loads, int64_t count)
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
    divide(&sums.loads, sums.seen_count);
    *loads = sums.loads;
    return STATUS_OK;
}
