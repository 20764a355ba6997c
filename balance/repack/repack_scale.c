#include "balance/repack/repack.h"

#include "balance/schedule/schedule.h"

#include <math.h>

enum { PPB = 1000000000 };

/// What a cost of `from` columns becomes in column c of `to`: see bal_repack_scale_layers. Shares
/// are counted in 1 / (from * to) of the batch.
static status scale_cell(const int64_t *row, int columns, int from, int to, int column,
                         int64_t fixed_ppb, int64_t *scaled, error_message *err)
{
    bal_wide sum = 0; // of cost * share
    const int64_t begin = (int64_t)column * from;
    const int64_t end = begin + from;
    if (columns == 1) {
        sum = (bal_wide)row[0] * from;
    } else {
        for (int64_t old = begin / to; old * to < end; old++) {
            const int64_t share_begin = old * to > begin ? old * to : begin;
            const int64_t share_end = (old + 1) * to < end ? (old + 1) * to : end;
            sum += (bal_wide)row[old] * (share_end - share_begin);
        }
    }
    // sum / to is the time if all of it scales, sum / from if none does.
    const bal_wide weight = (bal_wide)(PPB - fixed_ppb) * from + (bal_wide)fixed_ppb * to;
    const bal_wide divisor = (bal_wide)PPB * from * to;
    const bal_wide whole = sum / divisor * weight;
    const bal_wide rest = (sum % divisor * weight + divisor / 2) / divisor;
    if (whole > INT64_MAX - rest) {
        return error_set(err, STATUS_INVALID,
                         "a cost of %d instead of %d microbatches does not fit "
                         "64 bits",
                         to, from);
    }
    *scaled = (int64_t)(whole + rest);
    return STATUS_OK;
}

static status scale_times(const int64_t *times, const bal_layer_costs *layers, int from, int to,
                          int64_t fixed_ppb, arena *memory, const int64_t **out, error_message *err)
{
    if (times == NULL) return STATUS_OK;
    const int columns = layers->microbatch_count == 1 ? 1 : to;
    int64_t *scaled =
        arena_array(memory, (size_t)layers->layer_count * (size_t)columns, sizeof *scaled);
    for (int layer = 0; layer < layers->layer_count; layer++) {
        const int64_t *row = times + (int64_t)layer * layers->microbatch_count;
        for (int column = 0; column < columns; column++) {
            TRY(scale_cell(row, layers->microbatch_count, from, to, column, fixed_ppb,
                           &scaled[(int64_t)layer * columns + column], err));
        }
    }
    *out = scaled;
    return STATUS_OK;
}

/// Bytes of one microbatch, rounded up.
static status scale_bytes(const int64_t *bytes, int layer_count, int from, int to, arena *memory,
                          const int64_t **out, error_message *err)
{
    if (bytes == NULL) return STATUS_OK;
    int64_t *scaled = arena_array(memory, (size_t)layer_count, sizeof *scaled);
    for (int layer = 0; layer < layer_count; layer++) {
        const bal_wide value = ((bal_wide)bytes[layer] * from + to - 1) / to;
        if (value > INT64_MAX) {
            return error_set(err, STATUS_INVALID,
                             "bytes of layer %d with %d instead of %d microbatches do not fit 64 "
                             "bits",
                             layer, to, from);
        }
        scaled[layer] = (int64_t)value;
    }
    *out = scaled;
    return STATUS_OK;
}

status bal_repack_scale_layers(const bal_layer_costs *layers, int from_count, int to_count,
                               double op_fixed_ratio, arena *memory, bal_layer_costs *scaled,
                               error_message *err)
{
    if (from_count < 1 || from_count > BAL_MICROBATCHES_MAX || to_count < 1 ||
        to_count > BAL_MICROBATCHES_MAX) {
        return error_set(err, STATUS_INVALID, "%d and %d microbatches are not both in [1, %d]",
                         from_count, to_count, BAL_MICROBATCHES_MAX);
    }
    if (layers->microbatch_count != 1 && layers->microbatch_count != from_count) {
        return error_set(err, STATUS_INVALID, "the costs are of %d microbatches, not of %d",
                         layers->microbatch_count, from_count);
    }
    if (!(op_fixed_ratio >= 0 && op_fixed_ratio <= 1)) {
        return error_set(err, STATUS_INVALID, "op_fixed_ratio %g is outside [0, 1]",
                         op_fixed_ratio);
    }
    const int64_t fixed_ppb = llround(op_fixed_ratio * PPB);
    bal_layer_costs made = *layers;
    const int from = from_count;
    const int to = to_count;
    const int count = layers->layer_count;
    TRY(scale_times(layers->forward_ns, layers, from, to, fixed_ppb, memory, &made.forward_ns,
                    err));
    TRY(scale_times(layers->backward_input_ns, layers, from, to, fixed_ppb, memory,
                    &made.backward_input_ns, err));
    TRY(scale_times(layers->backward_weight_ns, layers, from, to, fixed_ppb, memory,
                    &made.backward_weight_ns, err));
    TRY(scale_bytes(layers->activation_bytes, count, from, to, memory, &made.activation_bytes,
                    err));
    TRY(scale_bytes(layers->gradient_bytes, count, from, to, memory, &made.gradient_bytes, err));
    TRY(scale_bytes(layers->message_bytes, count, from, to, memory, &made.message_bytes, err));
    if (layers->microbatch_count > 1) made.microbatch_count = to;
    *scaled = made;
    return STATUS_OK;
}

int64_t bal_repack_reduction_ns(int64_t ns, int from_replicas, int to_replicas)
{
    if (from_replicas == to_replicas || from_replicas <= 1) return ns;
    const bal_wide part = (bal_wide)ns * (to_replicas - 1) * from_replicas;
    const bal_wide whole = (bal_wide)to_replicas * (from_replicas - 1);
    const bal_wide value = (part + whole - 1) / whole;
    return value > INT64_MAX / 4 ? INT64_MAX / 4 : (int64_t)value;
}
