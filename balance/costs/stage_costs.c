#include "balance/costs/stage_costs.h"

#include <inttypes.h>
#include <math.h>

/// Adds the rows of a stage's layers to its row. False, with the row worthless, if a time is
/// negative or so large that the sum might not fit: nearly no costs are, and without looking at
/// every sum the compiler adds several columns at once.
static bool add_small_rows(const int64_t *restrict layer_ns, int layer_count, int columns,
                           int64_t *restrict row)
{
    int64_t bits = 0; // all that are set in some time: at least the largest, negative if one is
    for (int layer = 0; layer < layer_count; layer++) {
        const int64_t *restrict own = layer_ns + (int64_t)layer * columns;
        for (int column = 0; column < columns; column++) {
            bits |= own[column];
            row[column] = (int64_t)((uint64_t)row[column] + (uint64_t)own[column]);
        }
    }
    return layer_count == 0 || (bits >= 0 && bits <= INT64_MAX / 4 / layer_count);
}

/// The same, looking at every sum.
static status add_rows(const int64_t *layer_ns, int first, int end, int columns, int stage,
                       const char *what, int64_t *row, error_message *err)
{
    for (int column = 0; column < columns; column++) {
        row[column] = 0;
    }
    for (int layer = first; layer < end; layer++) {
        for (int column = 0; column < columns; column++) {
            const int64_t ns = layer_ns[(int64_t)layer * columns + column];
            if (ns < 0 || ns > INT64_MAX / 4 - row[column]) {
                return error_set(err, STATUS_INVALID,
                                 "%s of layer %d: %" PRId64 " ns is negative or makes stage %d "
                                 "longer than %" PRId64 " ns",
                                 what, layer, ns, stage, INT64_MAX / 4);
            }
            row[column] += ns;
        }
    }
    return STATUS_OK;
}

static status scale_row(int64_t *row, int columns, double factor, int stage, const char *what,
                        error_message *err)
{
    for (int column = 0; column < columns; column++) {
        const double scaled = round((double)row[column] * factor);
        if (!(scaled <= (double)(INT64_MAX / 4))) {
            return error_set(err, STATUS_INVALID, "%s of stage %d: %g ns is too long", what, stage,
                             scaled);
        }
        row[column] = (int64_t)scaled;
    }
    return STATUS_OK;
}

/// Sums one array of times over the layers of every stage.
static status sum_times(const int64_t *layer_ns, int columns, const int *first_layer,
                        int stage_count, const double *stage_factor, const char *what,
                        int64_t *stage_ns, error_message *err)
{
    for (int stage = 0; stage < stage_count; stage++) {
        const int first = first_layer[stage];
        const int end = first_layer[stage + 1];
        int64_t *row = stage_ns + (int64_t)stage * columns;
        if (!add_small_rows(layer_ns + (int64_t)first * columns, end - first, columns, row)) {
            TRY(add_rows(layer_ns, first, end, columns, stage, what, row, err));
        }
        if (stage_factor[stage] == 1.0) continue;
        TRY(scale_row(row, columns, stage_factor[stage], stage, what, err));
    }
    return STATUS_OK;
}

static status sum_bytes(const int64_t *layer_bytes, const int *first_layer, int stage_count,
                        const char *what, int64_t *stage_bytes, error_message *err)
{
    if (layer_bytes == NULL) return STATUS_OK;
    for (int stage = 0; stage < stage_count; stage++) {
        for (int layer = first_layer[stage]; layer < first_layer[stage + 1]; layer++) {
            const int64_t bytes = layer_bytes[layer];
            if (bytes < 0 || bytes > INT64_MAX / 4 - stage_bytes[stage]) {
                return error_set(err, STATUS_INVALID,
                                 "%s of layer %d: %" PRId64 " bytes is negative or too large", what,
                                 layer, bytes);
            }
            stage_bytes[stage] += bytes;
        }
    }
    return STATUS_OK;
}

/// The layer whose output crosses the cut after a stage: the last layer at or before it. Empty
/// stages pass on what they receive. -1 where no layer precedes the cut.
static int layer_before_cut(const int *first_layer, int stage)
{
    return first_layer[stage + 1] - 1;
}

static void fill_sends(const bal_layer_costs *layers, const bal_placed_partition *plan,
                       const bal_machine *machine, int64_t *send_forward_ns,
                       int64_t *send_backward_ns)
{
    for (int stage = 0; stage + 1 < bal_placed_stage_count(plan); stage++) {
        const int rank = bal_placed_machine_rank(plan, stage);
        const int next = bal_placed_machine_rank(plan, stage + 1);
        if (rank == next) continue;
        const int layer = layer_before_cut(plan->first_layer, stage);
        const int64_t bytes =
            layers->message_bytes != NULL && layer >= 0 ? layers->message_bytes[layer] : 0;
        const bal_link link = bal_machine_link(machine, rank, next);
        send_forward_ns[stage] = bal_link_transfer_ns(link, bytes);
        send_backward_ns[stage + 1] = send_forward_ns[stage]; // gradients have their shape
    }
}

const char *const bal_first_stage_backward_names[2] = {"split", "whole"};

/// Copies of two arrays, in which what first stages have in the second is moved to the first.
static void join(bal_placement placement, int rank_count, int stage_count, int columns,
                 arena *memory, const int64_t **input, const int64_t **weight)
{
    const size_t cells = (size_t)stage_count * (size_t)columns;
    int64_t *whole = arena_array(memory, cells, sizeof *whole);
    int64_t *rest = arena_array(memory, cells, sizeof *rest);
    for (size_t cell = 0; cell < cells; cell++) {
        const int stage = (int)(cell / (size_t)columns);
        const bool is_first = bal_stage_before(placement, rank_count, stage) < 0;
        whole[cell] = (*input)[cell] + (is_first ? (*weight)[cell] : 0);
        rest[cell] = is_first ? 0 : (*weight)[cell];
    }
    *input = whole;
    *weight = rest;
}

void bal_stage_costs_join_first(bal_placement placement, int rank_count, arena *memory,
                                bal_stage_costs *costs)
{
    join(placement, rank_count, costs->stage_count, costs->microbatch_count, memory,
         &costs->backward_input_ns, &costs->backward_weight_ns);
    join(placement, rank_count, costs->stage_count, 1, memory, &costs->memory_backward_input,
         &costs->memory_backward_weight);
}

status bal_stage_costs_from_layers(const bal_layer_costs *layers, const bal_placed_partition *plan,
                                   const bal_machine *machine, const double *rank_time_factor,
                                   arena *memory, bal_stage_costs *out, error_message *err)
{
    const int stages = bal_placed_stage_count(plan);
    const int *first_layer = plan->first_layer;
    const int columns = layers->microbatch_count;
    enum { TIMES = 3, PER_STAGE = 7 };
    int64_t *times = arena_array(memory, (size_t)stages * (size_t)columns * TIMES, sizeof *times);
    int64_t *bytes = arena_array(memory, (size_t)stages * PER_STAGE, sizeof *bytes);
    double *factor = arena_array(memory, (size_t)stages, sizeof *factor);
    for (int stage = 0; stage < stages; stage++) {
        const int rank = bal_placed_machine_rank(plan, stage);
        factor[stage] = rank_time_factor != NULL ? rank_time_factor[rank] : 1.0;
    }
    int64_t *const rows[] = {times, times + (int64_t)stages * columns,
                             times + (int64_t)stages * columns * 2};
    for (int pass = 0; pass < TIMES; pass++) {
        TRY(sum_times(layers->arrays[pass], columns, first_layer, stages, factor,
                      bal_cost_names[pass], rows[pass], err));
    }

    int64_t *send_forward = bytes;
    int64_t *send_backward = bytes + stages;
    int64_t *memory_forward = bytes + stages * 2;
    int64_t *memory_input = bytes + stages * 3;
    int64_t *memory_weight = bytes + stages * 4;
    int64_t *activation = bytes + stages * 5;
    int64_t *gradient = bytes + stages * 6;
    TRY(sum_bytes(layers->activation_bytes, first_layer, stages, "activation_bytes", activation,
                  err));
    TRY(sum_bytes(layers->gradient_bytes, first_layer, stages, "gradient_bytes", gradient, err));
    for (int stage = 0; stage < stages; stage++) {
        memory_forward[stage] = activation[stage];
        memory_input[stage] = gradient[stage] - activation[stage];
        memory_weight[stage] = -gradient[stage];
    }
    fill_sends(layers, plan, machine, send_forward, send_backward);
    bal_stage_costs made = (bal_stage_costs){
        .stage_count = stages,
        .microbatch_count = columns,
        .forward_ns = rows[0],
        .backward_input_ns = rows[1],
        .backward_weight_ns = rows[2],
        .send_forward_ns = send_forward,
        .send_backward_ns = send_backward,
        .memory_forward = memory_forward,
        .memory_backward_input = memory_input,
        .memory_backward_weight = memory_weight,
    };
    if (layers->first_stage_whole) {
        bal_stage_costs_join_first(plan->placement, plan->rank_count, memory, &made);
    }
    *out = made;
    return STATUS_OK;
}
