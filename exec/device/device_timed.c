/// The device that only takes time: an op lasts as long as its stage's layers cost, summed and
/// rounded as the simulator's costs are.
#include "balance/costs/stage_costs.h"
#include "base/arena.h"
#include "exec/device/device.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/// What packed layers say of themselves.
typedef struct packed_layer {
    char magic[8];
    int64_t layer;
} packed_layer;
static const char magic[8] = "dynmo-t";

typedef struct timed_device {
    exec_device device;
    int model_layer_count;
    arena *plan_memory;       // of what hold fills
    arena *iteration_memory;  // of what begin fills
    int chunk_count;          // 0: holds nothing
    const int *first_layer;   // [chunk_count] of the chunks' stages
    const int *end_layer;     // [chunk_count]
    int layer_count;          // held
    int *layer;               // [layer_count] in model order
    bal_stage_costs *costs;   // [chunk_count] of one stage each
    exec_iteration iteration; // the last; costs NULL: none under this plan
} timed_device;

static status timed_hold(exec_device *device, const bal_placed_partition *plan, int place,
                         int microbatch_count, error_message *err)
{
    (void)err;
    timed_device *own = (timed_device *)device;
    (void)microbatch_count;
    arena_reset(own->plan_memory);
    arena_reset(own->iteration_memory);
    own->chunk_count = own->layer_count = 0;
    own->iteration = (exec_iteration){0};
    if (place < 0) return STATUS_OK;
    const size_t chunks = (size_t)plan->chunk_count;
    int *first = arena_array(own->plan_memory, chunks, sizeof *first);
    int *end = arena_array(own->plan_memory, chunks, sizeof *end);
    own->costs = arena_array(own->plan_memory, chunks, sizeof *own->costs);
    own->layer = arena_array(own->plan_memory, (size_t)own->model_layer_count, sizeof *own->layer);
    for (int chunk = 0; chunk < plan->chunk_count; chunk++) { // ascending stages
        const int stage = bal_placed_stage(plan, place, chunk);
        first[chunk] = plan->first_layer[stage];
        end[chunk] = plan->first_layer[stage + 1];
        for (int layer = first[chunk]; layer < end[chunk]; layer++) {
            own->layer[own->layer_count++] = layer;
        }
    }
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
        .first_stage_whole = all->first_stage_whole && first == 0,
        .forward_ns = rows_from(all->forward_ns, first, columns),
        .backward_input_ns = rows_from(all->backward_input_ns, first, columns),
        .backward_weight_ns = rows_from(all->backward_weight_ns, first, columns),
    };
    const bal_placed_partition plan = {.first_layer = cuts, .rank_count = 1, .chunk_count = 1};
    const bal_machine machine = {.rank_count = 1, .ranks_per_node = 1};
    return bal_stage_costs_from_layers(&layers, &plan, &machine, &iteration->rank_time_factor,
                                       own->iteration_memory, &own->costs[chunk], err);
}

static status timed_begin(exec_device *device, const exec_iteration *iteration, error_message *err)
{
    timed_device *own = (timed_device *)device;
    assert(iteration->costs != NULL && iteration->costs->layer_count == own->model_layer_count);
    arena_reset(own->iteration_memory);
    for (int chunk = 0; chunk < own->chunk_count; chunk++) {
        TRY(sum_chunk(own, iteration, chunk, err));
    }
    own->iteration = *iteration;
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
    *duration_ns = step->op.kind == OP_FORWARD ? costs->forward_ns[column] : backward_ns;
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

/// The costs of the held layers, times as this rank takes them.
static void timed_report(const exec_device *device, exec_layer_report *report)
{
    const timed_device *own = (const timed_device *)device;
    const bal_layer_costs *costs = own->iteration.costs;
    int64_t **arrays[EXEC_REPORT_ARRAYS];
    int columns[EXEC_REPORT_ARRAYS];
    *report = (exec_layer_report){0};
    if (costs == NULL) return;
    report->layer_count = own->layer_count;
    report->microbatch_count = costs->microbatch_count;
    exec_layer_report_carve(report, own->iteration_memory);
    exec_layer_report_list(report, arrays, columns);
    const int64_t *const from[EXEC_REPORT_ARRAYS] = {costs->forward_ns,
                                                     costs->backward_input_ns,
                                                     costs->backward_weight_ns,
                                                     NULL, // what is exchanged is not told apart
                                                     costs->parameters,
                                                     costs->state_bytes,
                                                     costs->activation_bytes,
                                                     costs->gradient_bytes,
                                                     costs->message_bytes};
    for (int array = 0; array < EXEC_REPORT_ARRAYS; array++) {
        const double factor = array < EXEC_REPORT_TIMES ? own->iteration.rank_time_factor : 1;
        for (int row = 0; row < own->layer_count; row++) {
            report->layer[row] = own->layer[row];
            for (int column = 0; from[array] != NULL && column < columns[array]; column++) {
                (*arrays[array])[row * columns[array] + column] =
                    scaled(rows_from(from[array], own->layer[row], columns[array])[column], factor);
            }
        }
    }
}

static int64_t timed_packed_bytes(const exec_device *device, int layer)
{
    (void)device;
    (void)layer;
    return sizeof(packed_layer);
}

static status timed_pack(exec_device *device, int layer, void *bytes, error_message *err)
{
    packed_layer packed = {.layer = layer};
    (void)device;
    (void)err;
    memcpy(packed.magic, magic, sizeof magic);
    memcpy(bytes, &packed, sizeof packed);
    return STATUS_OK;
}

static status timed_unpack(exec_device *device, int layer, const void *bytes, int64_t byte_count,
                           error_message *err)
{
    packed_layer packed = {0};
    (void)device;
    if (byte_count == sizeof packed) memcpy(&packed, bytes, sizeof packed);
    if (memcmp(packed.magic, magic, sizeof magic) == 0 && packed.layer == layer) return STATUS_OK;
    return error_set(err, STATUS_FORMAT, "layer %d: the packed bytes are not of this layer", layer);
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

exec_device *exec_device_timed_create(int layer_count)
{
    timed_device *own = memory_array(1, sizeof *own);
    own->device.table = &table_timed;
    own->model_layer_count = layer_count;
    own->plan_memory = arena_create(1 << 12);
    own->iteration_memory = arena_create(1 << 14);
    return &own->device;
}
