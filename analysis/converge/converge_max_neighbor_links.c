/// Max-neighbor, neighbour by neighbour, as it is defined.
#include "analysis/converge/converge_max_neighbor.h"

#include <math.h>
#include <string.h>

typedef struct link_player {
    ana_graph_links links;
    uint64_t *role; // [ceil(node_count / 64)] bit set: sender
    int *accepted;  // [node_count] whose proposal a receiver accepts; -1: nobody's
    double *before; // [node_count]
} link_player;

static status prepare(ana_scheme_run *run, arena *memory, error_message *err)
{
    const size_t nodes = (size_t)run->graph->node_count;
    link_player *player = arena_array(memory, 1, sizeof *player);
    if (player == NULL) return error_set(err, STATUS_NO_MEMORY, "out of memory");
    player->role = arena_array(memory, nodes / 64 + 1, sizeof *player->role);
    player->accepted = arena_array(memory, nodes, sizeof *player->accepted);
    player->before = arena_array(memory, nodes, sizeof *player->before);
    if (player->role == NULL || player->accepted == NULL || player->before == NULL) {
        return error_set(err, STATUS_NO_MEMORY, "out of memory");
    }
    run->state = player;
    return ana_graph_link(run->graph, memory, &player->links, err);
}

static bool is_sender(const link_player *player, int node)
{
    return (player->role[node >> 6] >> (node & 63) & 1) != 0;
}

/// Of the neighbours that a sender may choose and that tie with the best, ascending, number wanted.
static int tied_with(const ana_scheme_run *run, const link_player *player, int node, int best,
                     int wanted)
{
    const bool sees_roles = run->options.variant != ANA_VARIANT_P;
    const int *neighbour = player->links.neighbour;
    for (int link = player->links.first[node]; link < player->links.first[node + 1]; link++) {
        const int other = neighbour[link];
        if (sees_roles && is_sender(player, other)) continue;
        if (ana_scheme_compare(run->load, node, other, best) == 0 && wanted-- == 0) return other;
    }
    return -1;
}

/// The neighbour that a sender proposes to; -1 if there is none.
static int choose_target(const ana_scheme_run *run, const link_player *player, int node)
{
    const bool sees_roles = run->options.variant != ANA_VARIANT_P;
    const int *neighbour = player->links.neighbour;
    int target = -1;
    int tie_count = 0;
    for (int link = player->links.first[node]; link < player->links.first[node + 1]; link++) {
        const int other = neighbour[link];
        if (sees_roles && is_sender(player, other)) continue;
        const int order = target < 0 ? 1 : ana_scheme_compare(run->load, node, other, target);
        if (order > 0) {
            target = other;
            tie_count = 1;
        }
        tie_count += order == 0;
    }
    if (tie_count > 1) {
        const uint64_t lot = ana_coins_lot(&run->coins, run->round, node);
        target = tied_with(run, player, node, target, ana_coins_pick(lot, tie_count));
    }
    return target >= 0 && is_sender(player, target) ? -1 : target;
}

static bool is_better(const ana_scheme_run *run, int receiver, int proposer, int accepted)
{
    if (accepted < 0) return true;
    int order = 0;
    if (run->options.variant != ANA_VARIANT_QR) {
        order = ana_scheme_compare(run->load, receiver, proposer, accepted);
    }
    if (order != 0) return order > 0;
    return ana_coins_lot(&run->coins, run->round, proposer) <
           ana_coins_lot(&run->coins, run->round, accepted);
}

static double play(ana_scheme_run *run)
{
    link_player *player = run->state;
    const int nodes = run->graph->node_count;
    memcpy(player->before, run->load, (size_t)nodes * sizeof *run->load);
    for (int word = 0; word * 64 < nodes; word++) {
        player->role[word] = ana_coins_word(&run->coins, run->round, word);
    }
    for (int node = 0; node < nodes; node++) {
        player->accepted[node] = -1;
    }
    for (int node = 0; node < nodes; node++) {
        if (!is_sender(player, node)) continue;
        const int target = choose_target(run, player, node);
        if (target < 0 || !is_better(run, target, node, player->accepted[target])) continue;
        player->accepted[target] = node;
    }
    double gaps = 0;
    for (int node = 0; node < nodes; node++) {
        const int other = player->accepted[node];
        if (other < 0) continue;
        gaps += fabs(run->load[node] - run->load[other]);
        run->load[node] = run->load[other] = (run->load[node] + run->load[other]) * 0.5;
    }
    return gaps;
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
