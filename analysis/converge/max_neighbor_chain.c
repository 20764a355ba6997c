/// Edge e joins nodes e and e + 1. Roles are 1.0 (sends) and 0.0, truths likewise, so that
/// everything is doubles of one width. What is no proposal has gap 0: a pair without a gap changes
/// nothing.
#include "analysis/converge/max_neighbor_chain.h"

#include <math.h>
#include <string.h>

/// A function that is compiled a second time for vectors of 256 bits; results are the same.
#if defined(__x86_64__)
#define WIDE __attribute__((target("avx2")))
#else
#define WIDE
#endif
#define INLINE static inline __attribute__((always_inline))

enum { PAD = 2, LANES = 8, NIBBLE_BITS = 4, NIBBLES = 1 << NIBBLE_BITS };

/// Whether this machine has vectors of 256 bits.
static bool is_wide(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") != 0;
#else
    return false;
#endif
}

/// Arrays have PAD entries on either side of [0, node_count), which hold the other end of a ring,
/// or copies of the end of a path: to a node of equal load there is no gap.
typedef struct chain_player {
    double *role;
    double *gap;   // of edge e, where a sender may choose it; else 0
    double *offer; // the gap of the edges that were proposed; else 0
    double *tie;   // 1 if a node prefers the edge on its right where both gaps are equal
    double *right; // 1 if a node prefers the edge on its right
    bool is_wide;  // this machine has vectors of 256 bits
    double nibble[NIBBLES][NIBBLE_BITS]; // four coins at once as roles
} chain_player;

bool ana_chain_plays(const ana_graph *graph, const ana_scheme_options *options)
{
    return options->variant != ANA_VARIANT_QR &&
           (graph->kind == ANA_GRAPH_PATH || graph->kind == ANA_GRAPH_DYNAMIC ||
            graph->kind == ANA_GRAPH_RING);
}

status ana_chain_prepare(ana_scheme_run *run, arena *memory)
{
    const size_t places = (size_t)run->graph->node_count + 2 * PAD + NIBBLE_BITS;
    chain_player *player = arena_array(memory, 1, sizeof *player);
    double **const arrays[] = {&run->load,     &run->before, &player->role, &player->gap,
                               &player->offer, &player->tie, &player->right};
    for (size_t array = 0; array < sizeof arrays / sizeof arrays[0]; array++) {
        *arrays[array] = (double *)arena_array(memory, places, sizeof(double)) + PAD;
    }
    for (int nibble = 0; nibble < NIBBLES; nibble++) {
        for (int bit = 0; bit < NIBBLE_BITS; bit++) {
            player->nibble[nibble][bit] = nibble >> bit & 1;
        }
    }
    player->is_wide = is_wide();
    run->state = player;
    return STATUS_OK;
}

/// The roles of a round.
static void throw_roles(const ana_scheme_run *run, chain_player *player)
{
    uint64_t word = 0;
    for (int node = 0; node < run->graph->node_count; node += NIBBLE_BITS) {
        if (node % 64 == 0) word = ana_coins_word(&run->coins, run->round, node / 64);
        memcpy(player->role + node, player->nibble[word % NIBBLES], sizeof player->nibble[0]);
        word >>= NIBBLE_BITS;
    }
}

/// In lanes, which fix the order of the additions on every machine.
INLINE double sum_in_lanes(const double *values, int count)
{
    double sum[LANES] = {0};
    for (int k = 0; k < count; k += LANES) {
        const int lanes = count - k < LANES ? count - k : LANES;
        for (int lane = 0; lane < lanes; lane++) {
            sum[lane] += values[k + lane];
        }
    }
    for (int lane = 1; lane < LANES; lane++) {
        sum[0] += sum[lane];
    }
    return sum[0];
}

static void pad(double *array, int nodes, bool is_ring)
{
    array[-1] = array[is_ring ? nodes - 1 : 0];
    array[-2] = is_ring ? array[nodes - 2] : array[-1];
    array[nodes] = array[is_ring ? 0 : nodes - 1];
    array[nodes + 1] = is_ring ? array[1] : array[nodes];
}

/// Edges that join a sender and a receiver; under P a sender sees the others, too.
INLINE void find_gaps(int nodes, bool sees_roles, const double *restrict load,
                      const double *restrict role, double *restrict gap)
{
    const double always = sees_roles ? 0 : 1;
    for (int edge = -PAD; edge <= nodes; edge++) {
        const double joins = fabs(role[edge + 1] - role[edge]);
        gap[edge] = fabs(load[edge + 1] - load[edge]) * (joins > always ? joins : always);
    }
}

/// As ana_scheme_compare has it: of neighbours on different sides the lighter, of those on one side
/// the one farther out.
/// @return whether lots have to break a tie: some node has two equal neighbours, unlike itself
INLINE bool break_ties(int nodes, const double *restrict load, double *restrict tie)
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
    const double *load = run->load;
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
INLINE void prefer(int nodes, const double *restrict gap, const double *restrict tie,
                   double *restrict right)
{
    for (int node = -1; node <= nodes; node++) {
        const double wider = gap[node] > gap[node - 1] ? 1.0 : 0.0;
        const double equal = gap[node] == gap[node - 1] ? 1.0 : 0.0;
        right[node] = wider + equal * tie[node];
    }
}

/// An edge is proposed if its sender prefers it and the other end receives.
INLINE void propose(int nodes, const double *restrict gap, const double *restrict role,
                    const double *restrict right, double *restrict offer)
{
    for (int edge = -1; edge < nodes; edge++) {
        const double left_sends = role[edge] * right[edge];
        const double right_sends = role[edge + 1] * (1 - right[edge + 1]);
        offer[edge] = gap[edge] * fabs(role[edge + 1] - role[edge]) * (left_sends + right_sends);
    }
}

/// A proposed edge is matched if its receiver prefers it among the proposed ones.
INLINE void accept(int nodes, const double *restrict role, const double *restrict right,
                   double *restrict offer)
{
    for (int edge = -1; edge < nodes; edge++) {
        const double left_sends = role[edge] * (1 - right[edge + 1]);
        const double right_sends = role[edge + 1] * right[edge];
        offer[edge] *= left_sends + right_sends;
    }
}

INLINE void average(int nodes, const double *restrict load, const double *restrict offer,
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
INLINE double pass(const ana_scheme_run *run, chain_player *player)
{
    const int nodes = run->graph->node_count;
    const bool is_ring = run->graph->kind == ANA_GRAPH_RING;
    const bool sees_roles = run->options.variant != ANA_VARIANT_P;
    find_gaps(nodes, sees_roles, run->load, player->role, player->gap);
    const bool by_lot = break_ties(nodes, run->load, player->tie);
    if (by_lot) break_ties_by_lot(run, player, true);
    prefer(nodes, player->gap, player->tie, player->right);
    propose(nodes, player->gap, player->role, player->right, player->offer);
    player->offer[-2] = is_ring ? player->offer[nodes - 2] : 0;
    player->offer[nodes] = is_ring ? player->offer[0] : 0;
    if (by_lot) break_ties_by_lot(run, player, false);
    prefer(nodes, player->offer, player->tie, player->right);
    accept(nodes, player->role, player->right, player->offer);
    average(nodes, run->load, player->offer, run->before);
    return sum_in_lanes(player->offer, is_ring ? nodes : nodes - 1);
}

WIDE static double pass_wide(const ana_scheme_run *run, chain_player *player)
{
    return pass(run, player);
}

static double pass_plain(const ana_scheme_run *run, chain_player *player)
{
    return pass(run, player);
}

double ana_chain_play(ana_scheme_run *run)
{
    chain_player *player = run->state;
    const int nodes = run->graph->node_count;
    const bool is_ring = run->graph->kind == ANA_GRAPH_RING;
    throw_roles(run, player);
    pad(run->load, nodes, is_ring);
    pad(player->role, nodes, is_ring);
    const double gaps = player->is_wide ? pass_wide(run, player) : pass_plain(run, player);
    double *const full = run->before;
    run->before = run->load;
    run->load = full;
    return gaps;
}
