/// Max-neighbor, neighbour by neighbour, as it is defined.
#include "analysis/converge/converge_max_neighbor.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/// Unless said otherwise [node_count].
typedef struct link_player {
    ana_graph_links links;
    uint64_t *role;   // [ceil(node_count / 64)] bit set: sender
    double *penalty;  // what is taken from the gap to a node: infinite if it cannot be chosen
    int *accepted;    // whose proposal a receiver accepts; -1: nobody's
    double *best_gap; // the gap of that proposal; below 0: none
    double *before;   // loads before the last round
} link_player;

static status prepare(ana_scheme_run *run, arena *memory, error_message *err)
{
    const size_t nodes = (size_t)run->graph->node_count;
    link_player *player = arena_array(memory, 1, sizeof *player);
    player->role = arena_array(memory, nodes / 64 + 1, sizeof *player->role);
    player->accepted = arena_array(memory, nodes, sizeof *player->accepted);
    double **const arrays[] = {&player->penalty, &player->best_gap, &player->before};
    for (size_t array = 0; array < sizeof arrays / sizeof arrays[0]; array++) {
        *arrays[array] = arena_array(memory, nodes, sizeof **arrays[array]);
        if (*arrays[array] == NULL) return error_set(err, STATUS_NO_MEMORY, "out of memory");
    }
    run->state = player;
    return ana_graph_link(run->graph, memory, &player->links, err);
}

static bool is_sender(const link_player *player, int node)
{
    return (player->role[node >> 6] >> (node & 63) & 1) != 0;
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
    int wanted = ana_coins_pick(ana_coins_lot(&run->coins, run->round, node), count);
    for (int link = player->links.first[node];; link++) {
        if (player->penalty[neighbour[link]] > 0) continue;
        if (ana_scheme_compare(run->load, node, neighbour[link], best) != 0) continue;
        if (wanted-- == 0) return neighbour[link];
    }
}

static bool wins_tie(const ana_scheme_run *run, int receiver, int proposer, int accepted)
{
    int order = 0;
    if (run->options.variant != ANA_VARIANT_QR) {
        order = ana_scheme_compare(run->load, receiver, proposer, accepted);
    }
    if (order != 0) return order > 0;
    return ana_coins_lot(&run->coins, run->round, proposer) <
           ana_coins_lot(&run->coins, run->round, accepted);
}

static void propose(const ana_scheme_run *run, link_player *player, int node)
{
    const choice found = find_widest(run, player, node);
    if (found.node < 0) return;
    const int target = found.is_tied ? break_tie(run, player, node, found.node) : found.node;
    if (is_sender(player, target)) return;
    // Under Qr all proposals tie.
    const double gap = run->options.variant == ANA_VARIANT_QR ? 0 : found.gap;
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
    memcpy(player->before, run->load, (size_t)nodes * sizeof *run->load);
    throw_coins(run, player);
    for (int word = 0; word * 64 < nodes; word++) {
        for (uint64_t left = player->role[word]; left != 0; left &= left - 1) {
            const int node = word * 64 + __builtin_ctzll(left);
            if (node < nodes) propose(run, player, node);
        }
    }
    return average(run, player);
}

static void begin(ana_scheme_run *run)
{
    (void)run; // the loads are all there is
}

static void settle(ana_scheme_run *run)
{
    (void)run; // they always are up to date
}

static void recall(const ana_scheme_run *run, double *before)
{
    const link_player *player = run->state;
    memcpy(before, player->before, (size_t)run->graph->node_count * sizeof *before);
}

const ana_max_neighbor_player ana_max_neighbor_links = {
    .prepare = prepare, .begin = begin, .play = play, .settle = settle, .recall = recall};
