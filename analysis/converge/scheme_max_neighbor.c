/// Max-neighbor averaging. In every round each node throws a coin, sender or receiver; a sender
/// proposes to the neighbour whose load differs most from its own, a receiver accepts the proposal
/// whose load differs most, and the two average.
///
/// Source: Dinitz, Fineman, Gilbert and Newport, INFOCOM 2017, for loads that can be divided, on
/// any connected graph; variants in ana_variant. Ties: ana_scheme_compare.
///
/// Neighbour by neighbour, as it is defined; on the complete graph only the lightest and the
/// heaviest nodes are ever chosen. A test plays all graphs beside a second implementation.
#include "analysis/converge/converge_scheme.h"

#include <math.h>
#include <string.h>

/// Nodes of one load that can be chosen on the complete graph.
typedef struct crowd {
    int *node; // [count] ascending
    int count;
    double load;
} crowd;

/// Unless said otherwise [node_count].
typedef struct link_player {
    ana_graph_links links; // empty for the complete graph
    crowd light;           // of the complete graph: the lightest nodes that can be chosen
    crowd heavy;
    uint64_t *role;   // [ceil(node_count / 64)] bit set: sender
    double *penalty;  // what is taken from the gap to a node: infinite if it cannot be chosen
    int *accepted;    // whose proposal a receiver accepts
    double *best_gap; // the gap of that proposal; below 0: none
} link_player;

static status prepare(ana_scheme_run *run, arena *memory, error_message *err)
{
    const size_t nodes = (size_t)run->graph->node_count;
    link_player *player = arena_array(memory, 1, sizeof *player);
    player->role = arena_array(memory, nodes / 64 + 1, sizeof *player->role);
    player->accepted = arena_array(memory, nodes, sizeof *player->accepted);
    player->penalty = arena_array(memory, nodes, sizeof *player->penalty);
    player->best_gap = arena_array(memory, nodes, sizeof *player->best_gap);
    player->light.node = arena_array(memory, nodes, sizeof *player->light.node);
    player->heavy.node = arena_array(memory, nodes, sizeof *player->heavy.node);
    run->state = player;
    if (run->graph->kind == ANA_GRAPH_COMPLETE) return STATUS_OK;
    return ana_graph_link(run->graph, memory, &player->links, err);
}

static bool is_sender(const link_player *player, int node)
{
    return (player->role[node >> 6] >> (node & 63) & 1) != 0;
}

static uint64_t lot_of(const ana_scheme_run *run, int node)
{
    return ana_coins_lot(&run->coins, run->round, node);
}

/// What a sender has found among its neighbours.
typedef struct choice {
    double gap; // below 0: nobody
    int node;   // the first with that gap
    bool is_tied;
} choice;

/// Without branches: whether a neighbour is better is a coin toss, which no processor foresees.
static choice find_widest(const ana_scheme_run *run, const link_player *player, int node)
{
    const double *load = run->load;
    const double here = load[node];
    choice best = {.gap = -1, .node = -1};
    for (int link = player->links.first[node]; link < player->links.first[node + 1]; link++) {
        const int other = player->links.neighbour[link];
        const double gap = fabs(load[other] - here) - player->penalty[other];
        const bool is_better = gap > best.gap;
        const bool is_equal = gap == best.gap;
        best.is_tied = is_better ? false : (best.is_tied | is_equal) != 0;
        best.node = is_better ? other : best.node;
        best.gap = is_better ? gap : best.gap;
    }
    return best;
}

/// Among several at the same gap: the preferred ones, and of these the one that the lot picks.
static int break_tie(const ana_scheme_run *run, const link_player *player, int node, int first)
{
    const int *neighbour = player->links.neighbour;
    const int end = player->links.first[node + 1];
    int best = first;
    int count = 0;
    for (int link = player->links.first[node]; link < end; link++) {
        if (player->penalty[neighbour[link]] > 0) continue;
        const int order = ana_scheme_compare(run->load, node, neighbour[link], best);
        if (order > 0) best = neighbour[link];
        count = order > 0 ? 1 : count + (order == 0);
    }
    int wanted = ana_coins_pick(lot_of(run, node), count);
    for (int link = player->links.first[node];; link++) {
        if (player->penalty[neighbour[link]] > 0) continue;
        if (ana_scheme_compare(run->load, node, neighbour[link], best) != 0) continue;
        if (wanted-- == 0) return neighbour[link];
    }
}

/// On the complete graph: one of the lightest or of the heaviest, whichever are farther; equally
/// far, the lightest. @return -1 if nobody can be chosen
static int choose_extreme(const ana_scheme_run *run, const link_player *player, int node)
{
    const double here = run->load[node];
    const bool is_up = player->heavy.load - here > here - player->light.load;
    const crowd *farther = is_up ? &player->heavy : &player->light;
    if (farther->count == 0) return -1;
    return farther->node[ana_coins_pick(lot_of(run, node), farther->count)];
}

/// Whom a sender proposes to. @return -1: nobody
static int choose(const ana_scheme_run *run, const link_player *player, int node)
{
    if (run->graph->kind == ANA_GRAPH_COMPLETE) return choose_extreme(run, player, node);
    const choice found = find_widest(run, player, node);
    return found.is_tied ? break_tie(run, player, node, found.node) : found.node;
}

static bool wins_tie(const ana_scheme_run *run, int receiver, int proposer, int accepted)
{
    int order = 0;
    if (run->options.variant != ANA_VARIANT_QR) {
        order = ana_scheme_compare(run->load, receiver, proposer, accepted);
    }
    return order != 0 ? order > 0 : lot_of(run, proposer) < lot_of(run, accepted);
}

static void propose(const ana_scheme_run *run, link_player *player, int node)
{
    const int target = choose(run, player, node);
    if (target < 0 || is_sender(player, target)) return;
    // Under Qr all proposals tie.
    const double gap =
        run->options.variant == ANA_VARIANT_QR ? 0 : fabs(run->load[target] - run->load[node]);
    const double best = player->best_gap[target];
    if (gap < best) return;
    if (gap == best && !wins_tie(run, target, node, player->accepted[target])) return;
    player->best_gap[target] = gap;
    player->accepted[target] = node;
}

static void throw_coins(const ana_scheme_run *run, link_player *player)
{
    const int nodes = run->graph->node_count;
    const double sender = run->options.variant == ANA_VARIANT_P ? 0 : (double)INFINITY;
    const double penalty[] = {0, sender};
    for (int word = 0; word * 64 < nodes; word++) {
        player->role[word] = ana_coins_word(&run->coins, run->round, word);
    }
    for (int node = 0; node < nodes; node++) {
        player->penalty[node] = penalty[player->role[node >> 6] >> (node & 63) & 1];
        player->best_gap[node] = -1;
    }
}

/// The nodes of a load that can be chosen.
static void gather(const ana_scheme_run *run, const link_player *player, double load, crowd *out)
{
    out->load = load;
    out->count = 0;
    for (int node = 0; node < run->graph->node_count; node++) {
        if (run->load[node] == load && player->penalty[node] == 0) out->node[out->count++] = node;
    }
}

static void gather_extremes(const ana_scheme_run *run, link_player *player)
{
    double least = (double)INFINITY;
    double most = -(double)INFINITY;
    for (int node = 0; node < run->graph->node_count; node++) {
        const double load = run->load[node];
        least = load + player->penalty[node] < least ? load : least;
        most = load - player->penalty[node] > most ? load : most;
    }
    gather(run, player, least, &player->light);
    gather(run, player, most, &player->heavy);
}

static double average(ana_scheme_run *run, const link_player *player)
{
    double gaps = 0;
    for (int node = 0; node < run->graph->node_count; node++) {
        if (player->best_gap[node] < 0) continue;
        const int other = player->accepted[node];
        gaps += fabs(run->load[node] - run->load[other]);
        run->load[node] = run->load[other] = (run->load[node] + run->load[other]) * 0.5;
    }
    return gaps;
}

static double play(ana_scheme_run *run)
{
    link_player *player = run->state;
    const int nodes = run->graph->node_count;
    throw_coins(run, player);
    if (run->graph->kind == ANA_GRAPH_COMPLETE) gather_extremes(run, player);
    for (int word = 0; word * 64 < nodes; word++) {
        for (uint64_t left = player->role[word]; left != 0; left &= left - 1) {
            const int node = word * 64 + __builtin_ctzll(left);
            if (node < nodes) propose(run, player, node);
        }
    }
    return average(run, player);
}

const ana_scheme ana_scheme_max_neighbor = {
    .name = "max-neighbor",
    .is_random = true,
    .is_matching = true,
    .prepare = prepare,
    .play = play,
};
