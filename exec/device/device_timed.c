/// The device that only takes time: an op lasts as long as its stage's layers cost, summed and
/// rounded as the simulator's costs are.
#include "balance/costs/stage_costs.h"
#include "base/arena.h"
#include "exec/device/device.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NOMINAL_PPB = 1000000000 };

/// What packed layers say of themselves.
typedef struct packed_layer {
    char magic[8];
    int64_t layer;
    int64_t state_bytes; // of the costs of the last iteration; nothing travels of them
} packed_layer;
static const char magic[8] = "dynmo-t";

typedef struct timed_device {
    exec_device device;
    int model_layer_count;
    arena *plan_memory;      // of what hold fills
    arena *iteration_memory; // of what begin fills
    int chunk_count;         // 0: holds nothing
    const int *first_layer;  // [chunk_count] of the chunks' stages
    const int *end_layer;    // [chunk_count]
    int layer_count;         // held
    int *layer;              // [layer_count] in model order
    int64_t *values;         // [5][layer_count] of the last iteration, see VALUE_*
    bal_stage_costs *costs;  // [chunk_count] of one stage each
    double time_scale;
    exec_layer_report report;
} timed_device;

enum {
    VALUE_PARAMETERS,
    VALUE_STATE,
    VALUE_ACTIVATION,
    VALUE_GRADIENT,
    VALUE_MESSAGE,
    VALUE_COUNT
};

static int compare_layers(const void *left, const void *right)
{
    const int a = *(const int *)left;
    const int b = *(const int *)right;
    return (a > b) - (a < b);
}

static status timed_hold(exec_device *device, const bal_placed_partition *plan, int place,
                         int microbatch_count, error_message *err)
{
    (void)err;
    timed_device *own = (timed_device *)device;
    (void)microbatch_count;
    arena_reset(own->plan_memory);
    arena_reset(own->iteration_memory);
    own->chunk_count = own->layer_count = 0;
    own->report = (exec_layer_report){0};
    if (place < 0) return STATUS_OK;
    const size_t chunks = (size_t)plan->chunk_count;
    int *first = arena_array(own->plan_memory, chunks, sizeof *first);
    int *end = arena_array(own->plan_memory, chunks, sizeof *end);
    own->costs = arena_array(own->plan_memory, chunks, sizeof *own->costs);
    own->layer = arena_array(own->plan_memory, (size_t)own->model_layer_count, sizeof *own->layer);
    for (int chunk = 0; chunk < plan->chunk_count; chunk++) {
        const int stage =
            bal_stage_of(plan->placement, plan->rank_count, plan->chunk_count, place, chunk);
        first[chunk] = plan->first_layer[stage];
        end[chunk] = plan->first_layer[stage + 1];
        for (int layer = first[chunk]; layer < end[chunk]; layer++) {
            own->layer[own->layer_count++] = layer;
        }
    }
    // With V placement, or none of the chunks in model order.
    qsort(own->layer, (size_t)own->layer_count, sizeof *own->layer, compare_layers);
    own->values =
        arena_array(own->plan_memory, (size_t)own->layer_count * VALUE_COUNT, sizeof *own->values);
    own->first_layer = first;
    own->end_layer = end;
    own->chunk_count = plan->chunk_count;
    return STATUS_OK;
}

static int64_t scaled(int64_t ns, double factor)
{
    return factor == 1.0 ? ns : (int64_t)round((double)ns * factor);
}

static const int64_t *rows_from(const int64_t *times, int layer, int columns)
{
    return times + (int64_t)layer * columns;
}

/// Sums the costs of a chunk's layers: of a plan of one stage that has only them.
static status sum_chunk(timed_device *own, const exec_iteration *iteration, int chunk,
                        error_message *err)
{
    const bal_layer_costs *all = iteration->costs;
    const int columns = all->microbatch_count;
    const int first = own->first_layer[chunk];
    const int count = own->end_layer[chunk] - first;
    const int cuts[] = {0, count};
    const bal_layer_costs layers = {
        .layer_count = count,
        .microbatch_count = columns,
        .has_split = all->has_split,
        .forward_ns = rows_from(all->forward_ns, first, columns),
        .backward_input_ns = rows_from(all->backward_input_ns, first, columns),
        .backward_weight_ns = rows_from(all->backward_weight_ns, first, columns),
    };
    const bal_placed_partition plan = {.first_layer = cuts, .rank_count = 1, .chunk_count = 1};
    const bal_machine machine = {.rank_count = 1, .ranks_per_node = 1};
    return bal_stage_costs_from_layers(&layers, &plan, &machine, &iteration->rank_time_factor,
                                       own->iteration_memory, &own->costs[chunk], err);
}

/// The times of the held layers as this rank takes them.
static void report_times(timed_device *own, const int64_t *times, int columns, double factor,
                         const int64_t **out)
{
    const size_t cells = (size_t)own->layer_count * (size_t)columns;
    int64_t *rows = arena_array(own->iteration_memory, cells, sizeof *rows);
    for (int row = 0; row < own->layer_count; row++) {
        const int64_t *from = rows_from(times, own->layer[row], columns);
        for (int column = 0; column < columns; column++) {
            rows[(int64_t)row * columns + column] = scaled(from[column], factor);
        }
    }
    *out = rows;
}

/// Keeps one number of each held layer; 0 where it is not known.
static const int64_t *keep_values(timed_device *own, int value, const int64_t *from)
{
    int64_t *kept = own->values + (int64_t)value * own->layer_count;
    for (int row = 0; row < own->layer_count; row++) {
        kept[row] = from != NULL ? from[own->layer[row]] : 0;
    }
    return kept;
}

static void fill_report(timed_device *own, const exec_iteration *iteration)
{
    const bal_layer_costs *costs = iteration->costs;
    exec_layer_report *report = &own->report;
    const int columns = costs->microbatch_count;
    *report = (exec_layer_report){
        .layer_count = own->layer_count,
        .layer = own->layer,
        .microbatch_count = columns,
        .parameters = keep_values(own, VALUE_PARAMETERS, costs->parameters),
        .state_bytes = keep_values(own, VALUE_STATE, costs->state_bytes),
        .activation_bytes = keep_values(own, VALUE_ACTIVATION, costs->activation_bytes),
        .gradient_bytes = keep_values(own, VALUE_GRADIENT, costs->gradient_bytes),
        .message_bytes = keep_values(own, VALUE_MESSAGE, costs->message_bytes),
    };
    if (!iteration->is_profiled) return;
    const double factor = iteration->rank_time_factor;
    report_times(own, costs->forward_ns, columns, factor, &report->forward_ns);
    report_times(own, costs->backward_input_ns, columns, factor, &report->backward_input_ns);
    report_times(own, costs->backward_weight_ns, columns, factor, &report->backward_weight_ns);
}

static status timed_begin(exec_device *device, const exec_iteration *iteration, error_message *err)
{
    timed_device *own = (timed_device *)device;
    assert(iteration->costs != NULL && iteration->costs->layer_count == own->model_layer_count);
    arena_reset(own->iteration_memory);
    for (int chunk = 0; chunk < own->chunk_count; chunk++) {
        TRY(sum_chunk(own, iteration, chunk, err));
    }
    own->time_scale = (double)iteration->time_scale_ppb / NOMINAL_PPB;
    fill_report(own, iteration);
    return STATUS_OK;
}

static int64_t timed_input_place(exec_device *device, const exec_step *step, void **bytes)
{
    (void)device;
    (void)step;
    *bytes = NULL;
    return 0;
}

static status timed_play(exec_device *device, const exec_step *step, const exec_payload *input,
                         exec_payload *output, int64_t *duration_ns, error_message *err)
{
    const timed_device *own = (const timed_device *)device;
    (void)input;
    (void)err;
    const bal_stage_costs *costs = &own->costs[step->op.chunk];
    const int column = step->op.microbatch % costs->microbatch_count;
    *output = (exec_payload){0};
    const bool has_input_part = step->op.kind != OP_BACKWARD_WEIGHT;
    const bool has_weight_part = step->op.kind != OP_BACKWARD_INPUT;
    const int64_t backward_ns = (has_input_part ? costs->backward_input_ns[column] : 0) +
                                (has_weight_part ? costs->backward_weight_ns[column] : 0);
    *duration_ns = scaled(step->op.kind == OP_FORWARD ? costs->forward_ns[column] : backward_ns,
                          own->time_scale);
    return STATUS_OK;
}

static status timed_finish(exec_device *device, int64_t *begin_ns, int64_t *end_ns,
                           error_message *err)
{
    (void)device;
    (void)begin_ns;
    (void)end_ns;
    (void)err;
    return STATUS_OK;
}

static void timed_report(const exec_device *device, exec_layer_report *report)
{
    *report = ((const timed_device *)device)->report;
}

/// The row of a layer that is held, or -1.
static int row_of(const timed_device *own, int layer)
{
    for (int row = 0; row < own->layer_count; row++) {
        if (own->layer[row] == layer) return row;
    }
    return -1;
}

static int64_t timed_packed_bytes(const exec_device *device, int layer)
{
    (void)device;
    (void)layer;
    return sizeof(packed_layer);
}

static status timed_pack(exec_device *device, int layer, void *bytes, error_message *err)
{
    const timed_device *own = (const timed_device *)device;
    const int row = row_of(own, layer);
    (void)err;
    assert(row >= 0);
    packed_layer packed = {
        .layer = layer,
        .state_bytes = own->values[(int64_t)VALUE_STATE * own->layer_count + row],
    };
    memcpy(packed.magic, magic, sizeof magic);
    memcpy(bytes, &packed, sizeof packed);
    return STATUS_OK;
}

static status timed_unpack(exec_device *device, int layer, const void *bytes, int64_t byte_count,
                           error_message *err)
{
    timed_device *own = (timed_device *)device;
    const int row = row_of(own, layer);
    packed_layer packed;
    assert(row >= 0);
    if (byte_count != sizeof packed) {
        return error_set(err, STATUS_FORMAT, "layer %d: %" PRId64 " packed bytes instead of %zu",
                         layer, byte_count, sizeof packed);
    }
    memcpy(&packed, bytes, sizeof packed);
    if (memcmp(packed.magic, magic, sizeof magic) != 0 || packed.layer != layer) {
        return error_set(err, STATUS_FORMAT, "layer %d: the packed bytes are not of this layer",
                         layer);
    }
    own->values[(int64_t)VALUE_STATE * own->layer_count + row] = packed.state_bytes;
    return STATUS_OK;
}

static void timed_destroy(exec_device *device)
{
    timed_device *own = (timed_device *)device;
    arena_destroy(own->plan_memory);
    arena_destroy(own->iteration_memory);
    free(own);
}

static const exec_device_table table_timed = {
    .name = "timed",
    .is_modelled = true,
    .hold = timed_hold,
    .begin = timed_begin,
    .input_place = timed_input_place,
    .play = timed_play,
    .finish = timed_finish,
    .report = timed_report,
    .packed_bytes = timed_packed_bytes,
    .pack = timed_pack,
    .unpack = timed_unpack,
    .destroy = timed_destroy,
};

status exec_device_timed_create(int layer_count, exec_device **device, error_message *err)
{
    timed_device *own = memory_array(1, sizeof *own);
    own->device.table = &table_timed;
    own->model_layer_count = layer_count;
    own->plan_memory = arena_create(1 << 12);
    own->iteration_memory = arena_create(1 << 14);
    (void)err;
    *device = &own->device;
    return STATUS_OK;
}
