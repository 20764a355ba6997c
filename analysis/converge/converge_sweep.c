#include "analysis/converge/converge_sweep.h"

#include "analysis/converge/converge_records.h"

#include <stdlib.h>

/// What workers share.
typedef struct sweep_context {
    const ana_sweep *sweep;
    const ana_sweep_point *points;
} sweep_context;

/// The scheme at work at one point.
typedef struct point_player {
    int point;
    ana_player player;
} point_player;

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
        TRY(ana_scheme_check(sweep->scheme, &points[point].graph, &sweep->options, err));
        TRY(check_gamma(sweep, nodes, points[point].gamma, err));
    }
    return STATUS_OK;
}

static status play_instance(const void *context, arena *memory, void **state, int group, int index,
                            void *record, error_message *err)
{
    const sweep_context *all = context;
    const ana_sweep_point *point = &all->points[group];
    point_player *at = *state;
    if (at == NULL || at->point != group) {
        arena_reset(memory);
        *state = NULL;
        at = arena_array(memory, 1, sizeof *at);
        at->point = group;
        TRY(ana_player_open(all->sweep->scheme, &point->graph, &all->sweep->options, memory,
                            &at->player, err));
        *state = at;
    }
    ana_instance_question question = all->sweep->instance;
    question.gamma = point->gamma;
    return ana_instance_play(&at->player, &question, index, record, err);
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
    const sweep_context context = {sweep, points};
    const ana_record_plays plays = {.group_count = ana_sweep_point_count(sweep),
                                    .group_length = is_certain ? 1 : sweep->instance_count,
                                    .record_bytes = sizeof(ana_instance),
                                    .context = &context,
                                    .play = play_instance};
    ana_instance *records = is_certain ? once : points[0].instances;
    TRY(ana_records_play(&plays, spread, records, report, err));
    if (is_certain) repeat_first(sweep, points, once);
    return STATUS_OK;
}
