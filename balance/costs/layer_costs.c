#include "balance/costs/layer_costs.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

_Static_assert(offsetof(bal_layer_costs, reduction_ns) ==
                   offsetof(bal_layer_costs, arrays[BAL_COST_ARRAY_COUNT - 1]),
               "every array has its number");

const char *const bal_cost_names[BAL_COST_ARRAY_COUNT] = {
    "forward_ns",       "backward_input_ns", "backward_weight_ns", "parameters",  "state_bytes",
    "activation_bytes", "gradient_bytes",    "message_bytes",      "reduction_ns"};

int64_t bal_scaled_ns(int64_t ns, double factor)
{
    if (factor == 1.0) return ns;
    const double scaled = round((double)ns * factor);
    return scaled < (double)(INT64_MAX / 4) ? (int64_t)scaled : INT64_MAX / 4;
}

size_t bal_layer_costs_array_bytes(const bal_layer_costs *costs, int array)
{
    const size_t columns = array < BAL_COST_TIMES_COUNT ? (size_t)costs->microbatch_count : 1;
    return (size_t)costs->layer_count * columns * sizeof(int64_t);
}

void bal_layer_times_init(bal_layer_times *times, int layer_count, arena *memory)
{
    *times = (bal_layer_times){.layer_count = layer_count};
    for (int pass = 0; pass < BAL_COST_TIMES_COUNT; pass++) {
        times->passes[pass] = arena_array(memory, (size_t)layer_count, sizeof(int64_t));
    }
}

static status check_row(const int64_t *row, int columns, const char *what, int layer,
                        error_message *err)
{
    const int64_t limit = INT64_MAX / 4 / columns;
    for (int column = 0; column < columns; column++) {
        if (row[column] >= 0 && row[column] <= limit) continue;
        return error_set(err, STATUS_INVALID,
                         "%s of layer %d: %" PRId64 " ns is outside [0, %" PRId64 "]", what, layer,
                         row[column], limit);
    }
    return STATUS_OK;
}

/// Means of the rows of one pass, added to *total.
static status fill_pass(const int64_t *from, int layer_count, int columns, const char *what,
                        int64_t *mean, int64_t *total, error_message *err)
{
    for (int layer = 0; layer < layer_count; layer++) {
        const int64_t *row = from + (int64_t)layer * columns;
        uint64_t sum = 0;
        int64_t bits = 0; // of all times: within the limit, so is each, and none is looked at
        for (int column = 0; column < columns; column++) {
            sum += (uint64_t)row[column];
            bits |= row[column];
        }
        if (bits < 0 || bits > INT64_MAX / 4 / columns) {
            TRY(check_row(row, columns, what, layer, err));
        }
        mean[layer] = ((int64_t)sum + columns / 2) / columns;
        if (mean[layer] > INT64_MAX / 4 - *total) {
            return error_set(err, STATUS_INVALID,
                             "the times of all layers up to %s of layer %d exceed %" PRId64 " ns",
                             what, layer, INT64_MAX / 4);
        }
        *total += mean[layer];
    }
    return STATUS_OK;
}

status bal_layer_times_fill(bal_layer_times *times, const bal_layer_costs *layers,
                            error_message *err)
{
    int64_t total = 0;
    for (int pass = 0; pass < BAL_COST_TIMES_COUNT; pass++) {
        TRY(fill_pass(layers->arrays[pass], times->layer_count, layers->microbatch_count,
                      bal_cost_names[pass], times->passes[pass], &total, err));
    }
    return STATUS_OK;
}

int64_t bal_layer_time_ns(const bal_layer_times *times, int layer)
{
    return times->forward_ns[layer] + times->backward_input_ns[layer] +
           times->backward_weight_ns[layer];
}

void bal_layer_times_split(const double *whole_ns, const bal_layer_times *like,
                           bal_layer_times *out)
{
    for (int layer = 0; layer < like->layer_count; layer++) {
        const int64_t time = bal_layer_time_ns(like, layer);
        const int64_t whole = (int64_t)(whole_ns[layer] + 0.5);
        const double scale = time > 0 ? whole_ns[layer] / (double)time : 0;
        const bool has_weight = like->backward_weight_ns[layer] > 0;
        const bool has_input = like->backward_input_ns[layer] > 0;
        // The last pass that there is takes what rounding down leaves.
        int64_t weight = 0;
        int64_t input = 0;
        int64_t forward = (int64_t)((double)like->forward_ns[layer] * scale);
        if (forward > whole || (!has_weight && !has_input)) forward = whole;
        if (has_weight) {
            input = (int64_t)((double)like->backward_input_ns[layer] * scale);
            if (input > whole - forward) input = whole - forward;
            weight = whole - forward - input;
        } else {
            input = whole - forward;
        }
        out->forward_ns[layer] = forward;
        out->backward_input_ns[layer] = input;
        out->backward_weight_ns[layer] = weight;
    }
}

bal_layer_costs bal_layer_times_costs(const bal_layer_times *times, const bal_layer_costs *like)
{
    bal_layer_costs costs = *like;
    costs.microbatch_count = 1;
    for (int pass = 0; pass < BAL_COST_TIMES_COUNT; pass++) {
        costs.arrays[pass] = times->passes[pass];
    }
    return costs;
}

status bal_layer_costs_mean(const bal_layer_costs *costs, arena *memory, bal_layer_costs *mean,
                            error_message *err)
{
    bal_layer_times times;
    bal_layer_times_init(&times, costs->layer_count, memory);
    TRY(bal_layer_times_fill(&times, costs, err));
    *mean = bal_layer_times_costs(&times, costs);
    return STATUS_OK;
}

void bal_layer_costs_mark(const bal_layer_costs *costs, bool *has_time)
{
    const int columns = costs->microbatch_count;
    for (int layer = 0; layer < costs->layer_count; layer++) {
        for (int pass = 0; pass < BAL_COST_TIMES_COUNT && !has_time[layer]; pass++) {
            const int64_t *row = costs->arrays[pass] + (int64_t)layer * columns;
            for (int column = 0; column < columns && !has_time[layer]; column++) {
                has_time[layer] = row[column] != 0;
            }
        }
    }
}

status bal_layers_check_recorded(const bool *has_time, int layer_count, error_message *err)
{
    int missing = 0;
    int first = 0;
    for (int layer = layer_count - 1; layer >= 0; layer--) {
        if (has_time[layer]) continue;
        missing++;
        first = layer;
    }
    if (missing == 0) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "%d of %d layers have no time in any pass, layer %d first: import the files "
                     "of all ranks",
                     missing, layer_count, first);
}

bal_layer_costs bal_layer_costs_kept(const bal_layer_costs *costs, arena *memory)
{
    bal_layer_costs kept = *costs;
    for (int array = 0; array < BAL_COST_ARRAY_COUNT; array++) {
        if (costs->arrays[array] == NULL) continue;
        const size_t bytes = bal_layer_costs_array_bytes(costs, array);
        kept.arrays[array] = memcpy(arena_array(memory, bytes, 1), costs->arrays[array], bytes);
    }
    return kept;
}

void bal_costs_copy_take(bal_costs_copy *copy, const bal_layer_costs *layers)
{
    arena_reset(copy->memory);
    copy->layers = bal_layer_costs_kept(layers, copy->memory);
    copy->is_taken = true;
}

bool bal_costs_copy_equals(const bal_costs_copy *copy, const bal_layer_costs *layers)
{
    const bal_layer_costs *own = &copy->layers;
    if (!copy->is_taken || own->layer_count != layers->layer_count ||
        own->microbatch_count != layers->microbatch_count || own->has_split != layers->has_split) {
        return false;
    }
    for (int array = 0; array < BAL_COST_ARRAY_COUNT; array++) {
        const int64_t *mine = own->arrays[array];
        const int64_t *theirs = layers->arrays[array];
        if ((mine == NULL) != (theirs == NULL)) return false;
        const size_t bytes = mine != NULL ? bal_layer_costs_array_bytes(layers, array) : 0;
        if (bytes > 0 && memcmp(mine, theirs, bytes) != 0) return false;
    }
    return true;
}
