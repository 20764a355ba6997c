/// Max-neighbor averaging. In every round each node throws a coin, sender or receiver; a sender
/// proposes to the receiver among its neighbours whose load differs most from its own, a receiver
/// accepts the proposal whose load differs most, and the two average.
///
/// Ties: the lighter end if they are on different sides, the one farther out if rounding made the
/// differences equal; among equal loads lots decide. A sender picks among its choices, ascending by
/// number, the one that ana_coins_pick says; of proposers that tie, the smallest lot wins.
///
/// Source: Dinitz, Fineman, Gilbert and Newport, INFOCOM 2017, for loads that can be divided, on
/// any connected graph.
#include "analysis/converge/converge_scheme.h"

#include <math.h>

typedef struct proposals {
    uint64_t *role; // [ceil(node_count / 64)] bit set: sender
    int *accepted;  // [node_count] whose proposal a receiver accepts; -1: nobody's
} proposals;

static void *prepare(const ana_scheme_run *run, arena *memory)
{
    const size_t nodes = (size_t)run->graph->node_count;
    proposals *state = arena_array(memory, 1, sizeof *state);
    state->role = arena_array(memory, nodes / 64 + 1, sizeof *state->role);
    state->accepted = arena_array(memory, nodes, sizeof *state->accepted);
    return state;
}

static bool is_sender(const proposals *state, int node)
{
    return (state->role[node >> 6] >> (node & 63) & 1) != 0;
}

static uint64_t lot_of(const ana_scheme_run *run, int node)
{
    return ana_coins_lot(&run->coins, run->round, node);
}

/// Whom a node prefers. @return > 0: a; < 0: b; 0: loads are equal
static int compare(const double *load, int node, int a, int b)
{
    const double gap_a = fabs(load[a] - load[node]);
    const double gap_b = fabs(load[b] - load[node]);
    if (gap_a != gap_b) return gap_a > gap_b ? 1 : -1;
    if (load[a] == load[b]) return 0;
    const bool a_is_below = load[a] < load[node];
    const bool b_is_below = load[b] < load[node];
    if (a_is_below != b_is_below) return a_is_below ? 1 : -1;
    return a_is_below == (load[a] < load[b]) ? 1 : -1;
}

/// Whom a sender proposes to. @return -1: nobody
static int choose(const ana_scheme_run *run, const proposals *state, int node)
{
    const int *neighbour = run->links.neighbour;
    const int begin = run->links.first[node];
    const int end = run->links.first[node + 1];
    int best = -1;
    int count = 0;
    for (int link = begin; link < end; link++) {
        if (is_sender(state, neighbour[link])) continue;
        const int order = best < 0 ? 1 : compare(run->load, node, neighbour[link], best);
        if (order > 0) best = neighbour[link];
        count = order > 0 ? 1 : count + (order == 0);
    }
    if (count <= 1) return best;
    int wanted = ana_coins_pick(lot_of(run, node), count);
    for (int link = begin;; link++) {
        if (is_sender(state, neighbour[link])) continue;
        if (compare(run->load, node, neighbour[link], best) != 0) continue;
        if (wanted-- == 0) return neighbour[link];
    }
}

static void propose(const ana_scheme_run *run, const proposals *state, int node)
{
    const int target = choose(run, state, node);
    if (target < 0) return;
    const int before = state->accepted[target];
    const int order = before < 0 ? 1 : compare(run->load, target, node, before);
    if (order > 0 || (order == 0 && lot_of(run, node) < lot_of(run, before))) {
        state->accepted[target] = node;
    }
}

static void play(ana_scheme_run *run)
{
    const proposals *state = run->state;
    const int nodes = run->graph->node_count;
    for (int word = 0; word * 64 < nodes; word++) {
        state->role[word] = ana_coins_word(&run->coins, run->round, word);
    }
    for (int node = 0; node < nodes; node++) {
        state->accepted[node] = -1;
    }
    for (int node = 0; node < nodes; node++) {
        if (is_sender(state, node)) propose(run, state, node);
    }
    for (int node = 0; node < nodes; node++) {
        const int other = state->accepted[node];
        if (other < 0) continue;
        run->load[node] = run->load[other] = (run->load[node] + run->load[other]) * 0.5;
    }
}

const ana_scheme ana_scheme_max_neighbor = {
    .name = "max-neighbor",
    .is_random = true,
    .has_links = true,
    .prepare = prepare,
    .play = play,
};
