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
