#include "analysis/converge/converge_sweep.h"
#include "base/arena.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_BLOCK_BYTES = 1 << 20, BATCH_MAX = 64 };

/// What the threads share. An item is a batch of instances of one point, so that short ones are not
/// sent one by one.
typedef struct sweep_context {
    const ana_sweep *sweep;
    ana_sweep_point *points;
    int instance_count; // played per point
    int batch;          // instances per item
    int batch_count;    // items per point
} sweep_context;

/// A thread's own: the scheme at work at one point.
typedef struct sweep_worker {
    arena *memory;
    int point; // -1: none yet
    ana_scheme_run run;
    ana_instance_scratch scratch;
} sweep_worker;

int ana_sweep_point_count(const ana_sweep *sweep)
{
    return sweep->nodes_count * sweep->gamma_count;
}

double ana_sweep_gamma_min(ana_stop stop, int node_count)
{
    const double nodes = node_count;
    return stop == ANA_STOP_GAP ? 1e-12 : 1e-13 * nodes * nodes;
}

bool ana_sweep_is_certain(const ana_sweep *sweep)
{
    return !sweep->scheme->is_random && sweep->instance.initial != ANA_INITIAL_RANDOM;
}

static status check_gamma(const ana_sweep *sweep, int nodes, double gamma, error_message *err)
{
    const double least = ana_sweep_gamma_min(sweep->instance.stop, nodes);
    if (gamma >= least) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "--gamma %g is below %g, where doubles cannot tell %d loads of about 1 apart",
                     gamma, least, nodes);
}

status ana_sweep_prepare(const ana_sweep *sweep, arena *memory, ana_sweep_point *points,
                         error_message *err)
{
    for (int point = 0; point < ana_sweep_point_count(sweep); point++) {
        const int nodes = sweep->nodes[point / sweep->gamma_count];
        ana_sweep_point made = {.gamma = sweep->gammas[point % sweep->gamma_count]};
        TRY(ana_graph_make(sweep->graph, nodes, &made.graph, err));
        TRY(sweep->scheme->check(&made.graph, &sweep->options, err));
        TRY(check_gamma(sweep, nodes, made.gamma, err));
        made.instances = arena_array(memory, (size_t)sweep->instance_count, sizeof *made.instances);
        points[point] = made;
    }
    return STATUS_OK;
}

static status begin_worker(void *context, void **worker, error_message *err)
{
    (void)context;
    arena *memory = arena_create(ARENA_BLOCK_BYTES);
    sweep_worker *made = memory == NULL ? NULL : memory_array(1, sizeof *made);
    if (made == NULL) {
        arena_destroy(memory);
        return error_set(err, STATUS_NO_MEMORY, "out of memory");
    }
    made->memory = memory;
    made->point = -1;
    *worker = made;
    return STATUS_OK;
}

static void end_worker(void *context, void *worker)
{
    (void)context;
    sweep_worker *ended = worker;
    arena_destroy(ended->memory);
    free(ended);
}

/// Sets the scheme to work at a point, unless it is there already.
static status go_to_point(const sweep_context *all, sweep_worker *worker, int point,
                          error_message *err)
{
    if (worker->point == point) return STATUS_OK;
    const ana_graph *graph = &all->points[point].graph;
    worker->point = -1;
    arena_reset(worker->memory);
    TRY(ana_scheme_open(all->sweep->scheme, graph, &all->sweep->options, worker->memory,
                        &worker->run, err));
    TRY(ana_instance_scratch_make(graph->node_count, worker->memory, &worker->scratch));
    worker->point = point;
    return STATUS_OK;
}

static int batch_length(const sweep_context *all, int64_t item)
{
    const int first = (int)(item % all->batch_count) * all->batch;
    return all->instance_count - first < all->batch ? all->instance_count - first : all->batch;
}

static status run_item(void *context, void *worker_state, int64_t item, text_buffer *result,
                       error_message *err)
{
    const sweep_context *all = context;
    sweep_worker *worker = worker_state;
    const int point = (int)(item / all->batch_count);
    const int64_t first = item % all->batch_count * all->batch;
    ana_instance_question question = all->sweep->instance;
    question.gamma = all->points[point].gamma;
    TRY(go_to_point(all, worker, point, err));
    for (int index = 0; index < batch_length(all, item); index++) {
        ana_instance instance = {0};
        TRY(ana_instance_play(&worker->run, &question, first + index, &worker->scratch, NULL,
                              &instance, err));
        text_append_bytes(result, (const char *)&instance, sizeof instance);
    }
    return STATUS_OK;
}

static status put_item(void *context, int64_t item, const text_buffer *result, error_message *err)
{
    sweep_context *all = context;
    const int64_t first = item % all->batch_count * all->batch;
    const size_t bytes = (size_t)batch_length(all, item) * sizeof(ana_instance);
    if (result->length != bytes) {
        return error_set(err, STATUS_BACKEND, "item %lld has %zu bytes instead of %zu",
                         (long long)item, result->length, bytes);
    }
    memcpy(all->points[item / all->batch_count].instances + first, result->bytes, bytes);
    return STATUS_OK;
}

status ana_sweep_play(const ana_sweep *sweep, ana_spread *spread, ana_sweep_point *points,
                      ana_spread_report *report, error_message *err)
{
    const int played = ana_sweep_is_certain(sweep) ? 1 : sweep->instance_count;
    const int batch = played / BATCH_MAX < 1           ? 1
                      : played / BATCH_MAX < BATCH_MAX ? played / BATCH_MAX
                                                       : BATCH_MAX;
    sweep_context all = {.sweep = sweep,
                         .points = points,
                         .instance_count = played,
                         .batch = batch,
                         .batch_count = (played + batch - 1) / batch};
    const int point_count = ana_sweep_point_count(sweep);
    const ana_items items = {.count = (int64_t)point_count * all.batch_count,
                             .context = &all,
                             .begin_worker = begin_worker,
                             .end_worker = end_worker,
                             .run = run_item,
                             .put = put_item};
    TRY(ana_spread_run(spread, &items, report, err));
    for (int point = 0; point < point_count; point++) {
        for (int instance = played; instance < sweep->instance_count; instance++) {
            points[point].instances[instance] = points[point].instances[0];
        }
    }
    return STATUS_OK;
}

status ana_sweep_trail(const ana_sweep *sweep, const ana_sweep_point *point, ana_trail *trail,
                       error_message *err)
{
    ana_instance_question question = sweep->instance;
    question.gamma = point->gamma;
    ana_scheme_run run = {0};
    ana_instance_scratch scratch = {0};
    ana_instance instance = {0};
    arena *memory = arena_create(ARENA_BLOCK_BYTES);
    status result =
        ana_scheme_open(sweep->scheme, &point->graph, &sweep->options, memory, &run, err);
    if (result == STATUS_OK) {
        result = ana_instance_scratch_make(point->graph.node_count, memory, &scratch);
    }
    if (result == STATUS_OK) {
        result = ana_instance_play(&run, &question, 0, &scratch, trail, &instance, err);
    }
    arena_destroy(memory);
    return result;
}
