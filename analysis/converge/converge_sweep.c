#include "analysis/converge/converge_sweep.h"

#include <math.h>
#include <string.h>

/// The purposes that random numbers of one seed have; instances count up from each.
#define PURPOSE_LOADS (UINT64_C(1) << 62)

/// A run on its way.
typedef struct walk {
    ana_scheme_run *run;
    const ana_instance_question *question;
    ana_instance counts;
    double potential; // now
    double spread;    // now
    double value;     // of the two the one that stops
} walk;

static void look(walk *at)
{
    const int nodes = at->run->graph->node_count;
    at->potential = ana_loads_potential(at->run->load, nodes, at->run->sorted);
    at->spread = ana_loads_spread(at->run->load, nodes);
    at->value = at->question->stop == ANA_STOP_PHI ? at->potential : at->spread;
}

/// A round is good by how much the potential drops over the spread before it.
static void play_round(walk *at)
{
    const double potential = at->potential;
    const double spread = at->spread;
    ana_scheme_play(at->run);
    look(at);
    const double share = spread > 0 ? (potential - at->potential) / spread : 0;
    at->counts.good_round_count += share >= ana_good_round_share(at->run->graph->node_count);
}

static status check_limit(const walk *at, double limit, error_message *err)
{
    const atomic_bool *interrupt = at->question->interrupt;
    if (interrupt != NULL && atomic_load_explicit(interrupt, memory_order_relaxed)) {
        return error_set(err, STATUS_BACKEND, "interrupted");
    }
    if ((double)at->run->round < limit) return STATUS_OK;
    return error_set(err, STATUS_INFEASIBLE,
                     "%s on %s of %d nodes: %s is still %.6g after %lld rounds; --gamma is %.6g",
                     at->run->scheme->name, ana_graph_names[at->run->graph->kind],
                     at->run->graph->node_count, ana_stop_names[at->question->stop], at->value,
                     (long long)at->run->round, at->question->gamma);
}

static void begin(walk *at, int64_t instance)
{
    const int nodes = at->run->graph->node_count;
    const uint64_t number = (uint64_t)instance;
    rng random = rng_init(at->question->seed, PURPOSE_LOADS + number);
    const ana_coins coins = ana_coins_make(at->question->seed, number);
    ana_loads_fill(at->question->initial, nodes, &random, at->run->load);
    ana_scheme_begin(at->run, at->run->load, &coins);
    look(at);
    at->counts.potential_first = at->potential;
}

status ana_instance_play(ana_scheme_run *run, const ana_instance_question *question,
                         int64_t instance, ana_instance *result, error_message *err)
{
    const double nodes = run->graph->node_count;
    walk at = {.run = run, .question = question};
    begin(&at, instance);
    const double folds = log(at.potential / question->gamma) + 40;
    const double limit = 400 * nodes * nodes * folds;
    while (!(at.value <= question->gamma)) {
        TRY(check_limit(&at, limit, err));
        play_round(&at);
    }
    at.counts.round_count = run->round;
    *result = at.counts;
    return STATUS_OK;
}

enum { ARENA_BYTES = 1 << 18 };

/// An item is an instance of one point.
typedef struct spread_points {
    const ana_sweep *sweep;
    const ana_sweep_point *points;
    ana_instance *records; // [points][instance_count]
    int instance_count;    // of a point
} spread_points;

/// A worker, with the scheme at work at one point.
typedef struct sweep_worker {
    arena *memory; // of run
    int point;     // -1: none yet
    ana_scheme_run run;
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

static void *begin_worker(arena *memory)
{
    sweep_worker *made = arena_array(memory, 1, sizeof *made);
    made->memory = arena_within(memory, ARENA_BYTES);
    made->point = -1;
    return made;
}

/// Puts the scheme to work at another point.
static status go_to_point(const spread_points *all, int point, sweep_worker *own,
                          error_message *err)
{
    if (own->point == point) return STATUS_OK;
    own->point = -1;
    arena_reset(own->memory);
    TRY(ana_scheme_open(all->sweep->scheme, &all->points[point].graph, own->memory, &own->run,
                        err));
    own->point = point;
    return STATUS_OK;
}

static status run_item(void *context, void *worker, int64_t item, text_buffer *result,
                       error_message *err)
{
    const spread_points *all = context;
    sweep_worker *own = worker;
    const int point = (int)(item / all->instance_count);
    ana_instance_question question = all->sweep->instance;
    ana_instance record = {0};
    question.gamma = all->points[point].gamma;
    TRY(go_to_point(all, point, own, err));
    TRY(ana_instance_play(&own->run, &question, item % all->instance_count, &record, err));
    text_append_bytes(result, (const char *)&record, sizeof record);
    return STATUS_OK;
}

static status put_item(void *context, int64_t item, const text_buffer *result, error_message *err)
{
    const spread_points *all = context;
    if (result->length != sizeof *all->records) {
        return error_set(err, STATUS_BACKEND, "item %lld has %zu bytes, not %zu", (long long)item,
                         result->length, sizeof *all->records);
    }
    memcpy(&all->records[item], result->bytes, result->length);
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
                      error_message *err)
{
    ana_instance once[ANA_SWEEP_POINTS_MAX] = {0};
    const bool is_certain = ana_sweep_is_certain(sweep);
    const int count = is_certain ? 1 : sweep->instance_count;
    spread_points all = {.sweep = sweep,
                         .points = points,
                         .records = is_certain ? once : points[0].instances,
                         .instance_count = count};
    const ana_items items = {.count = (int64_t)ana_sweep_point_count(sweep) * count,
                             .context = &all,
                             .begin_worker = begin_worker,
                             .run = run_item,
                             .put = put_item};
    TRY(ana_spread_run(spread, &items, err));
    if (is_certain) repeat_first(sweep, points, once);
    return STATUS_OK;
}
