#include "analysis/converge/converge_instance.h"

#include <math.h>
#include <string.h>

enum { BLOCK_MAX = 4096, BLOCKS_PER_DOUBLING = 16 };

/// The purposes that random numbers of one seed have; instances count up from each.
#define PURPOSE_LOADS (UINT64_C(1) << 62)

/// What rounding may take from the drop of a potential, relative to it, and in one round per pair
/// of nodes: a mean is rounded by half a unit of a load of about 1.
static const double rounding = 1e-12;
static const double rounding_per_round = 0x1p-52;

/// A run on its way.
typedef struct walk {
    ana_scheme_run *run;
    const ana_instance_question *question;
    const ana_player *player;
    ana_instance counts;
    double potential; // now
    double spread;    // now
    double good_share;
} walk;

status ana_player_open(const ana_scheme *scheme, const ana_graph *graph,
                       const ana_scheme_options *options, arena *memory, ana_player *player,
                       error_message *err)
{
    const size_t nodes = (size_t)graph->node_count;
    TRY(ana_scheme_open(scheme, graph, options, memory, &player->run, err));
    player->load = arena_array(memory, nodes, sizeof *player->load);
    player->saved = arena_array(memory, nodes, sizeof *player->saved);
    player->sort = arena_array(memory, nodes, sizeof *player->sort);
    return STATUS_OK;
}

static double potential_of(const walk *at, const double *load)
{
    return ana_loads_potential(load, at->run->graph->node_count, at->player->sort);
}

static void look(walk *at)
{
    at->potential = potential_of(at, at->run->load);
    at->spread = ana_loads_spread(at->run->load, at->run->graph->node_count);
}

static bool has_stopped(const walk *at)
{
    const double value = at->question->stop == ANA_STOP_PHI ? at->potential : at->spread;
    return value <= at->question->gamma;
}

/// @param spread before the round
static void count_drop(walk *at, double drop, double spread)
{
    ana_instance *counts = &at->counts;
    const double share = spread > 0 ? drop / spread : 0;
    if (share < counts->smallest_drop_share) counts->smallest_drop_share = share;
    counts->good_round_count += share >= at->good_share;
    counts->sixteenth_round_count += share >= 1.0 / 16;
}

/// What a round of gaps dropped, from the loads themselves.
static void measure_drop(walk *at)
{
    const double *before = at->run->before;
    const double drop = potential_of(at, before) - potential_of(at, at->run->load);
    count_drop(at, drop, ana_loads_spread(before, at->run->graph->node_count));
}

/// The spread never rises, so that at the begin of a block is at least what it is now: with gaps
/// that suffice for it nothing need be measured.
static void count_by_gaps(walk *at, double gaps, double spread_at_most)
{
    if (gaps > 0 && gaps < spread_at_most / 16) {
        measure_drop(at);
    } else {
        count_drop(at, gaps, spread_at_most);
    }
}

/// Over so many rounds, gaps in sum.
static void check_drop(walk *at, double drop, double gaps, double potential_before, int64_t rounds)
{
    const double nodes = at->run->graph->node_count;
    const double slack =
        rounding * potential_before + rounding_per_round * nodes * nodes * (double)rounds;
    at->counts.drop_check_count++;
    if (drop < gaps - slack) at->counts.drop_violation_count++;
}

static void play_observed(walk *at)
{
    const double potential = at->potential;
    const double spread = at->spread;
    const double gaps = ana_scheme_play(at->run);
    look(at);
    count_drop(at, potential - at->potential, spread);
    if (!at->run->scheme->is_matching) return;
    check_drop(at, potential - at->potential, gaps, potential, 1);
}

static void play_block(walk *at, int64_t length)
{
    const double potential = at->potential;
    const double spread = at->spread;
    double gaps = 0;
    for (int64_t round = 0; round < length; round++) {
        const double here = ana_scheme_play(at->run);
        gaps += here;
        count_by_gaps(at, here, spread);
    }
    look(at);
    check_drop(at, potential - at->potential, gaps, potential, length);
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
                     at->run->graph->node_count, ana_stop_names[at->question->stop],
                     at->question->stop == ANA_STOP_PHI ? at->potential : at->spread,
                     (long long)at->run->round, at->question->gamma);
}

static status walk_observed(walk *at, double limit, error_message *err)
{
    while (!has_stopped(at)) {
        TRY(check_limit(at, limit, err));
        play_observed(at);
    }
    return STATUS_OK;
}

/// Rounds in blocks that grow with the run. The block in which the stop came is played again from
/// its begin, in halves, until the round is found: neither potential nor spread rises, and coins
/// are a function of the round.
static status walk_in_blocks(walk *at, double limit, error_message *err)
{
    const size_t bytes = (size_t)at->run->graph->node_count * sizeof(double);
    const ana_coins coins = at->run->coins;
    int64_t halved = 0; // length of the next block once the stop is near
    while (!has_stopped(at)) {
        TRY(check_limit(at, limit, err));
        const walk saved = *at;
        const int64_t round = at->run->round;
        const int64_t grown = round / BLOCKS_PER_DOUBLING;
        const int64_t length = halved > 0          ? halved
                               : grown < 1         ? 1
                               : grown < BLOCK_MAX ? grown
                                                   : BLOCK_MAX;
        memcpy(at->player->saved, at->run->load, bytes);
        play_block(at, length);
        if (has_stopped(at) && length > 1) {
            *at = saved;
            ana_scheme_begin(at->run, at->player->saved, &coins, round);
            halved = (length + 1) / 2;
            continue;
        }
        if (halved > 0) halved = (halved + 1) / 2;
    }
    return STATUS_OK;
}

static void begin(walk *at, int64_t instance)
{
    const int nodes = at->run->graph->node_count;
    const uint64_t number = (uint64_t)instance;
    rng random = rng_init(at->question->seed, PURPOSE_LOADS + number);
    const ana_coins coins = ana_coins_make(at->question->seed, number);
    ana_loads_fill(at->question->initial, nodes, &random, at->player->load);
    ana_scheme_begin(at->run, at->player->load, &coins, 0);
    look(at);
    at->counts.potential_first = at->potential;
}

status ana_instance_play(ana_player *player, const ana_instance_question *question,
                         int64_t instance, ana_instance *result, error_message *err)
{
    ana_scheme_run *run = &player->run;
    const double nodes = run->graph->node_count;
    walk at = {.run = run,
               .question = question,
               .player = player,
               .counts = {.smallest_drop_share = (double)INFINITY},
               .good_share = ana_good_round_share(run->graph->node_count)};
    begin(&at, instance);
    const double folds = log(at.potential / question->gamma) + 40;
    const double limit = 400 * nodes * nodes * folds;
    const bool in_blocks = run->scheme->is_matching && run->scheme->is_monotone &&
                           !question->every_round && nodes > ANA_EVERY_ROUND_NODES_MAX;
    TRY(in_blocks ? walk_in_blocks(&at, limit, err) : walk_observed(&at, limit, err));
    at.counts.round_count = run->round;
    at.counts.potential_last = at.potential;
    *result = at.counts;
    return STATUS_OK;
}
