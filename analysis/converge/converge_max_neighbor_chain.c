/// Max-neighbor on paths and rings as passes over arrays without branches, which compilers make
/// wide.
///
/// Edge e joins nodes e and e + 1. Roles are 1.0 (sends) and 0.0, truths likewise, so that
/// everything is doubles of one width. What is no proposal has gap 0: a pair without a gap changes
/// nothing.
#include "analysis/converge/converge_max_neighbor.h"
#include "analysis/converge/converge_max_neighbor_passes.h"

#include <math.h>
#include <string.h>

enum { PAD = 2 };

/// Arrays have PAD entries on either side of [0, node_count), which hold the other end of a ring,
/// or copies of the end of a path: to a node of equal load there is no gap.
typedef struct chain_player {
    double *load; // now
    double *next; // after this round; before: the loads before the last one
    double *role;
    double *rise;  // load[e + 1] - load[e]
    double *gap;   // its modulus, where a sender may choose that edge; else 0
    double *offer; // the gap of the edges that were proposed; else 0
    double *tie;   // 1 if a node prefers the edge on its right where both gaps are equal
    double *right; // 1 if a node prefers the edge on its right
    bool is_wide;  // this machine has vectors of 256 bits
    ana_role_table roles;
} chain_player;

static double *padded(arena *memory, int nodes)
{
    double *array = arena_array(memory, (size_t)nodes + 2 * PAD + ANA_NIBBLE_BITS, sizeof *array);
    return array == NULL ? NULL : array + PAD;
}

static status prepare(ana_scheme_run *run, arena *memory, error_message *err)
{
    const int nodes = run->graph->node_count;
    chain_player *player = arena_array(memory, 1, sizeof *player);
    double **const arrays[] = {&player->load, &player->next,  &player->role, &player->rise,
                               &player->gap,  &player->offer, &player->tie,  &player->right};
    for (size_t array = 0; array < sizeof arrays / sizeof arrays[0]; array++) {
        *arrays[array] = padded(memory, nodes);
        if (*arrays[array] == NULL) return error_set(err, STATUS_NO_MEMORY, "out of memory");
    }
    player->is_wide = ana_is_wide();
    ana_role_table_init(&player->roles);
    run->state = player;
    return STATUS_OK;
}

static void begin(ana_scheme_run *run)
{
    chain_player *player = run->state;
    memcpy(player->load, run->load, (size_t)run->graph->node_count * sizeof *run->load);
}

/// Fills the entries around an array.
static void pad(double *array, int nodes, bool is_ring)
{
    array[-1] = array[is_ring ? nodes - 1 : 0];
    array[-2] = is_ring ? array[nodes - 2] : array[-1];
    array[nodes] = array[is_ring ? 0 : nodes - 1];
    array[nodes + 1] = is_ring ? array[1] : array[nodes];
}

/// Edges that join a sender and a receiver; under P a sender sees the others, too.
ANA_INLINE void find_gaps(int nodes, bool sees_roles, const double *restrict load,
                          const double *restrict role, double *restrict rise, double *restrict gap)
{
    for (int edge = -PAD; edge <= nodes; edge++) {
        rise[edge] = load[edge + 1] - load[edge];
    }
    if (!sees_roles) {
        for (int edge = -PAD; edge <= nodes; edge++) {
            gap[edge] = fabs(rise[edge]);
        }
        return;
    }
    for (int edge = -PAD; edge <= nodes; edge++) {
        gap[edge] = fabs(rise[edge]) * fabs(role[edge + 1] - role[edge]);
    }
}

/// As ana_scheme_compare has it: of neighbours on different sides the lighter, of those on one side
/// the one farther out.
/// @return whether lots have to break a tie: some node has two equal neighbours, unlike itself
ANA_INLINE bool break_ties(int nodes, const double *restrict load, double *restrict tie)
{
    int equal_count = 0;
    for (int node = -1; node <= nodes; node++) {
        const double left_is_lighter = load[node - 1] < load[node + 1] ? 1.0 : 0.0;
        const double left_is_heavier = load[node - 1] > load[node + 1] ? 1.0 : 0.0;
        const double left_is_below = load[node - 1] < load[node] ? 1.0 : 0.0;
        const double right_is_above = load[node + 1] > load[node] ? 1.0 : 0.0;
        tie[node] = 1 - left_is_lighter * left_is_below - left_is_heavier * right_is_above;
    }
    for (int node = 0; node < nodes; node++) {
        equal_count += (load[node - 1] == load[node + 1]) & (load[node] != load[node + 1]);
    }
    return equal_count > 0;
}

/// Lots between equal neighbours: a sender's own picks one of the two, ascending by number; a
/// receiver accepts the smaller of the two.
static void break_ties_by_lot(const ana_scheme_run *run, chain_player *player, bool of_senders)
{
    const int nodes = run->graph->node_count;
    const double *load = player->load;
    for (int node = 0; node < nodes; node++) {
        if (load[node - 1] != load[node + 1]) continue;
        const int left = node == 0 ? nodes - 1 : node - 1;
        const int right = node == nodes - 1 ? 0 : node + 1;
        const uint64_t left_lot = ana_coins_lot(&run->coins, run->round, left);
        const uint64_t right_lot = ana_coins_lot(&run->coins, run->round, right);
        const uint64_t own_lot = ana_coins_lot(&run->coins, run->round, node);
        const bool picks_right = (ana_coins_pick(own_lot, 2) == 1) == (right > left);
        player->tie[node] = of_senders ? picks_right : right_lot < left_lot;
    }
    pad(player->tie, nodes, run->graph->kind == ANA_GRAPH_RING);
}

/// Which edge a node prefers: the one with the wider gap.
ANA_INLINE void prefer(int nodes, const double *restrict gap, const double *restrict tie,
                       double *restrict right)
{
    for (int node = -1; node <= nodes; node++) {
        const double wider = gap[node] > gap[node - 1] ? 1.0 : 0.0;
        const double equal = gap[node] == gap[node - 1] ? 1.0 : 0.0;
        right[node] = wider + equal * tie[node];
    }
}

/// An edge is proposed if its sender prefers it and the other end receives.
ANA_INLINE void propose(int nodes, const double *restrict gap, const double *restrict role,
                        const double *restrict right, double *restrict offer)
{
    for (int edge = -1; edge < nodes; edge++) {
        const double left_sends = role[edge] * right[edge];
        const double right_sends = role[edge + 1] * (1 - right[edge + 1]);
        offer[edge] = gap[edge] * fabs(role[edge + 1] - role[edge]) * (left_sends + right_sends);
    }
}

/// A proposed edge is matched if its receiver prefers it among the proposed ones.
ANA_INLINE void accept(int nodes, const double *restrict role, const double *restrict right,
                       double *restrict offer)
{
    for (int edge = -1; edge < nodes; edge++) {
        const double left_sends = role[edge] * (1 - right[edge + 1]);
        const double right_sends = role[edge + 1] * right[edge];
        offer[edge] *= left_sends + right_sends;
    }
}

ANA_INLINE void average(int nodes, const double *restrict load, const double *restrict offer,
                        double *restrict next)
{
    for (int node = 0; node < nodes; node++) {
        const double with_right = (load[node] + load[node + 1]) * 0.5;
        const double with_left = (load[node - 1] + load[node]) * 0.5;
        const double unless_right = offer[node - 1] > 0 ? with_left : load[node];
        next[node] = offer[node] > 0 ? with_right : unless_right;
    }
}

/// One round of loads and roles that are padded. @return sum of the gaps of the pairs
ANA_INLINE double pass(const ana_scheme_run *run, chain_player *player)
{
    const int nodes = run->graph->node_count;
    const bool is_ring = run->graph->kind == ANA_GRAPH_RING;
    const bool sees_roles = run->options.variant != ANA_VARIANT_P;
    find_gaps(nodes, sees_roles, player->load, player->role, player->rise, player->gap);
    const bool by_lot = break_ties(nodes, player->load, player->tie);
    if (by_lot) break_ties_by_lot(run, player, true);
    prefer(nodes, player->gap, player->tie, player->right);
    propose(nodes, player->gap, player->role, player->right, player->offer);
    player->offer[-2] = is_ring ? player->offer[nodes - 2] : 0;
    player->offer[nodes] = is_ring ? player->offer[0] : 0;
    if (by_lot) break_ties_by_lot(run, player, false);
    prefer(nodes, player->offer, player->tie, player->right);
    accept(nodes, player->role, player->right, player->offer);
    average(nodes, player->load, player->offer, player->next);
    return ana_sum_in_lanes(player->offer, is_ring ? nodes : nodes - 1);
}

ANA_WIDE static double pass_wide(const ana_scheme_run *run, chain_player *player)
{
    return pass(run, player);
}

static double pass_plain(const ana_scheme_run *run, chain_player *player)
{
    return pass(run, player);
}

static double play(ana_scheme_run *run)
{
    chain_player *player = run->state;
    const int nodes = run->graph->node_count;
    const bool is_ring = run->graph->kind == ANA_GRAPH_RING;
    ana_throw_roles(&player->roles, &run->coins, run->round, nodes, player->role);
    pad(player->load, nodes, is_ring);
    pad(player->role, nodes, is_ring);
    const double gaps = player->is_wide ? pass_wide(run, player) : pass_plain(run, player);
    double *const full = player->next;
    player->next = player->load;
    player->load = full;
    return gaps;
}

static void settle(ana_scheme_run *run)
{
    const chain_player *player = run->state;
    memcpy(run->load, player->load, (size_t)run->graph->node_count * sizeof *run->load);
}

static void recall(const ana_scheme_run *run, double *before)
{
    const chain_player *player = run->state;
    memcpy(before, player->next, (size_t)run->graph->node_count * sizeof *before);
}

const ana_max_neighbor_player ana_max_neighbor_chain = {
    .prepare = prepare, .begin = begin, .play = play, .settle = settle, .recall = recall};
