/// Schemes that even loads out over a graph, one round at a time. Files scheme_*.c have them.
#pragma once

#include "analysis/converge/converge_graph.h"
#include "base/arena.h"
#include "base/rng.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// Coins that are a function of instance, round and node: any of them can be looked at first, or
/// not at all, and rounds can be played again. Source: the generator of Steele, Lea and Flood,
/// OOPSLA 2014 (SplittableRandom), read at any place: a start and an odd step per instance, mixed
/// by the finaliser of splitmix64.
typedef struct ana_coins {
    uint64_t start;
    uint64_t step;
} ana_coins;

/// One sequence per pair of seed and instance.
static inline ana_coins ana_coins_make(uint64_t seed, uint64_t instance)
{
    rng random = rng_init(seed, instance);
    const uint64_t start = rng_next(&random);
    return (ana_coins){.start = start, .step = rng_next(&random) | 1};
}

/// 64 coins, of which bit n is the role of a node: 1, it sends. word < 2^12 counts them within a
/// round.
static inline uint64_t ana_coins_word(const ana_coins *coins, int64_t round, int word)
{
    uint64_t z = coins->start + (((uint64_t)round << 12) + (uint64_t)word) * coins->step;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/// A node's lot in a round, by which ties are broken. The words of a round after those of the
/// roles, mixed with the node.
static inline uint64_t ana_coins_lot(const ana_coins *coins, int64_t round, int node)
{
    uint64_t z =
        ana_coins_word(coins, round, 2048) ^ ((uint64_t)node + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/// One of [0, count) by a lot's lower half.
static inline int ana_coins_pick(uint64_t lot, int count)
{
    return (int)((lot & UINT32_MAX) * (uint64_t)count >> 32);
}

/// One scheme at work on one graph. Made by ana_scheme_open.
typedef struct ana_scheme_run {
    const struct ana_scheme *scheme;
    const ana_graph *graph;
    ana_graph_links links; // empty for a scheme that asks for partners by colour
    ana_coins coins;
    int64_t round;  // rounds played
    double *load;   // [node_count] now; a round may move it elsewhere
    double *sorted; // [node_count] scratch of who looks at the loads
    void *state;    // the scheme's own
} ana_scheme_run;

typedef struct ana_scheme {
    const char *name;
    bool is_random; // coins are thrown
    bool has_links; // it looks at all neighbours of a node
    /// NULL: it goes with every graph.
    /// @return STATUS_INVALID if it means nothing on this graph
    status (*check)(const ana_graph *graph, error_message *err);
    void *(*prepare)(const ana_scheme_run *run, arena *memory); // its state; NULL: none
    void (*begin)(ana_scheme_run *run);                         // from load; NULL: nothing to do
    void (*play)(ana_scheme_run *run);                          // round number run->round
} ana_scheme;

/// The schemes, NULL after the last.
extern const ana_scheme *const ana_schemes[];

/// @return what scheme->check says
status ana_scheme_check(const ana_scheme *scheme, const ana_graph *graph, error_message *err);

/// @param run out; everything in it is from memory. graph is borrowed as long as run.
/// @return as ana_scheme_check and ana_graph_link
status ana_scheme_open(const ana_scheme *scheme, const ana_graph *graph, arena *memory,
                       ana_scheme_run *run, error_message *err);

/// Begins with loads of the caller's. Loads and coins fix all that follows.
/// @param load [node_count] finite; for the graph `dynamic` in any order, which is not kept
void ana_scheme_begin(ana_scheme_run *run, const double *load, const ana_coins *coins);

/// Plays one round.
void ana_scheme_play(ana_scheme_run *run);

/// The factor by which the slowest part of the deviation shrinks per round of a linear scheme, in
/// the long run; 0: exact after finitely many rounds. NaN if not known in closed form. Of schemes
/// without an operator (max-neighbor, odd-even) that of first-order.
double ana_scheme_contraction(const ana_scheme *scheme, const ana_graph *graph);

/// What first-order diffusion does best on a graph.
typedef struct ana_first_order {
    double alpha;       // share of a difference that flows: 2 / (smallest + largest eigenvalue)
    double contraction; // largest modulus of an eigenvalue, other than 1, of 1 - alpha Laplacian
} ana_first_order;

ana_first_order ana_first_order_best(const ana_graph *graph);

extern const ana_scheme ana_scheme_max_neighbor;
extern const ana_scheme ana_scheme_odd_even;
extern const ana_scheme ana_scheme_first_order;
extern const ana_scheme ana_scheme_second_order;
extern const ana_scheme ana_scheme_chebyshev;
extern const ana_scheme ana_scheme_dimension_exchange;
extern const ana_scheme ana_scheme_scan;
