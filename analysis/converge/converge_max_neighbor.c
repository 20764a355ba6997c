/// Max-neighbor averaging. In every round each node throws a coin, sender or receiver; a sender
/// proposes to the neighbour whose load differs most from its own, a receiver accepts the proposal
/// whose load differs most, and the two average.
///
/// Source: Dinitz, Fineman, Gilbert and Newport, INFOCOM 2017, for loads that can be divided, on
/// any connected graph; variants in ana_variant. Ties: ana_scheme_compare.
///
/// The choice among the players is one of speed alone: tests play all of them beside each other.
#include "analysis/converge/converge_max_neighbor.h"

static const ana_max_neighbor_player *choose(const ana_graph *graph,
                                             const ana_scheme_options *options)
{
    if (options->variant == ANA_VARIANT_QR) return &ana_max_neighbor_links;
    switch (graph->kind) {
    case ANA_GRAPH_PATH:
    case ANA_GRAPH_DYNAMIC:
    case ANA_GRAPH_RING:
        return &ana_max_neighbor_chain;
    case ANA_GRAPH_STAR:
    case ANA_GRAPH_COMPLETE:
        return &ana_max_neighbor_extremes;
    case ANA_GRAPH_TORUS:
    case ANA_GRAPH_HYPERCUBE:
        return &ana_max_neighbor_rows;
    default:
        return &ana_max_neighbor_links;
    }
}

static status check(const ana_graph *graph, const ana_scheme_options *options, error_message *err)
{
    (void)graph;
    (void)options;
    (void)err;
    return STATUS_OK;
}

static status prepare(ana_scheme_run *run, arena *memory, error_message *err)
{
    return choose(run->graph, &run->options)->prepare(run, memory, err);
}

static void begin(ana_scheme_run *run)
{
    choose(run->graph, &run->options)->begin(run);
}

static double play(ana_scheme_run *run)
{
    return choose(run->graph, &run->options)->play(run);
}

static void settle(ana_scheme_run *run)
{
    choose(run->graph, &run->options)->settle(run);
}

static void recall(const ana_scheme_run *run, double *before)
{
    choose(run->graph, &run->options)->recall(run, before);
}

const ana_scheme ana_scheme_max_neighbor = {
    .name = "max-neighbor",
    .is_random = true,
    .is_matching = true,
    .is_monotone = true,
    .check = check,
    .prepare = prepare,
    .begin = begin,
    .play = play,
    .settle = settle,
    .recall = recall,
};
