#include "analysis/converge/converge_sweep.h"

#include <stdlib.h>
#include <string.h>

enum { ARENA_BYTES = 1 << 18, BATCH_MAX = 64 };

/// An item is a batch of instances of one point, so that short ones are not sent one by one.
typedef struct batches {
    const ana_sweep *sweep;
    const ana_sweep_point *points;
    ana_instance *records; // [points][instance_count]
    int instance_count;    // of a point
    int batch;             // instances per item
    int batch_count;       // items per point
} batches;

/// A worker, with the scheme at work at one point.
typedef struct sweep_worker {
    arena *memory; // of player
    int point;     // -1: none yet
    ana_player player;
} sweep_worker;

int ana_sweep_point_count(const ana_sweep *sweep)
{
    return sweep->nodes_count * sweep->gamma_count;
}

bool ana_sweep_is_certain(const ana_sweep *sweep)
{
    return !sweep->scheme->is_random && sweep->instance.initial != ANA_INITIAL_RANDOM;
}

static status check_gamma(const ana_sweep *sweep, int nodes, double gamma, error_message *err)
{
    const double pairs = (double)nodes * nodes;
    const double least = sweep->instance.stop == ANA_STOP_GAP ? 1e-12 : 1e-13 * pairs;
    if (gamma >= least) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "--gamma %g is below %g, where doubles cannot tell %d loads of about 1 apart",
                     gamma, least, nodes);
}

status ana_sweep_prepare(const ana_sweep *sweep, arena *memory, ana_sweep_point *points,
                         error_message *err)
{
    const int count = ana_sweep_point_count(sweep);
    const size_t instances = (size_t)sweep->instance_count;
    // One array: the records of all points lie one after another.
    ana_instance *all = arena_array(memory, (size_t)count * instances, sizeof *all);
    for (int point = 0; point < count; point++) {
        const int nodes = sweep->nodes[point / sweep->gamma_count];
        points[point] = (ana_sweep_point){.gamma = sweep->gammas[point % sweep->gamma_count],
                                          .instances = all + (size_t)point * instances};
        TRY(ana_graph_make(sweep->graph, nodes, &points[point].graph, err));
        TRY(ana_scheme_check(sweep->scheme, &points[point].graph, err));
        TRY(check_gamma(sweep, nodes, points[point].gamma, err));
    }
    return STATUS_OK;
}

static void *begin_worker(void)
{
    sweep_worker *made = memory_array(1, sizeof *made);
    made->memory = arena_create(ARENA_BYTES);
    made->point = -1;
    return made;
}

static void end_worker(void *worker)
{
    sweep_worker *ended = worker;
    arena_destroy(ended->memory);
    free(ended);
}

static int first_of(const batches *all, int64_t item)
{
    return (int)(item % all->batch_count) * all->batch;
}

static int length_of(const batches *all, int64_t item)
{
    const int left = all->instance_count - first_of(all, item);
    return left < all->batch ? left : all->batch;
}

/// Puts the scheme to work at another point.
static status go_to_point(const batches *all, int point, sweep_worker *own, error_message *err)
{
    if (own->point == point) return STATUS_OK;
    own->point = -1;
    arena_reset(own->memory);
    TRY(ana_player_open(all->sweep->scheme, &all->points[point].graph, own->memory, &own->player,
                        err));
    own->point = point;
    return STATUS_OK;
}

static status run_item(void *context, void *worker, int64_t item, text_buffer *result,
                       error_message *err)
{
    const batches *all = context;
    sweep_worker *own = worker;
    const int point = (int)(item / all->batch_count);
    ana_instance_question question = all->sweep->instance;
    question.gamma = all->points[point].gamma;
    TRY(go_to_point(all, point, own, err));
    for (int index = 0; index < length_of(all, item); index++) {
        ana_instance record = {0};
        TRY(ana_instance_play(&own->player, &question, first_of(all, item) + index, &record, err));
        text_append_bytes(result, (const char *)&record, sizeof record);
    }
    return STATUS_OK;
}

static status put_item(void *context, int64_t item, const text_buffer *result, error_message *err)
{
    const batches *all = context;
    const size_t first = (size_t)(item / all->batch_count) * (size_t)all->instance_count +
                         (size_t)first_of(all, item);
    if (result->length != (size_t)length_of(all, item) * sizeof *all->records) {
        return error_set(err, STATUS_BACKEND, "item %lld has %zu bytes, not %d records of %zu",
                         (long long)item, result->length, length_of(all, item),
                         sizeof *all->records);
    }
    memcpy(all->records + first, result->bytes, result->length);
    return STATUS_OK;
}

/// Of points whose instances are all the same, the one that was played.
static void repeat_first(const ana_sweep *sweep, ana_sweep_point *points, const ana_instance *first)
{
    for (int point = 0; point < ana_sweep_point_count(sweep); point++) {
        for (int instance = 0; instance < sweep->instance_count; instance++) {
            points[point].instances[instance] = first[point];
        }
    }
}

status ana_sweep_play(const ana_sweep *sweep, ana_spread *spread, ana_sweep_point *points,
                      ana_spread_report *report, error_message *err)
{
    ana_instance once[ANA_SWEEP_POINTS_MAX] = {0};
    const bool is_certain = ana_sweep_is_certain(sweep);
    const int count = is_certain ? 1 : sweep->instance_count;
    const int share = count / BATCH_MAX;
    const int batch = share < 1 ? 1 : share < BATCH_MAX ? share : BATCH_MAX;
    batches all = {.sweep = sweep,
                   .points = points,
                   .records = is_certain ? once : points[0].instances,
                   .instance_count = count,
                   .batch = batch,
                   .batch_count = (count + batch - 1) / batch};
    const ana_items items = {.count = (int64_t)ana_sweep_point_count(sweep) * all.batch_count,
                             .context = &all,
                             .begin_worker = begin_worker,
                             .end_worker = end_worker,
                             .run = run_item,
                             .put = put_item};
    TRY(ana_spread_run(spread, &items, report, err));
    if (is_certain) repeat_first(sweep, points, once);
    return STATUS_OK;
}
