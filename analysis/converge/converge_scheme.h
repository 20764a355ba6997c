/// Schemes that even loads out over a graph, one round at a time. Files scheme_*.c have them.
#pragma once

#include "analysis/converge/converge_coins.h"
#include "analysis/converge/converge_graph.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// How a sender of max-neighbor chooses, and a receiver accepts.
typedef enum ana_variant {
    ANA_VARIANT_Q,  ///< farthest receiver; farthest proposal
    ANA_VARIANT_P,  ///< farthest neighbour, in vain if that one sends; farthest proposal
    ANA_VARIANT_QR, ///< farthest receiver; a proposal at random
    ANA_VARIANT_COUNT
} ana_variant;

extern const char *const ana_variant_names[ANA_VARIANT_COUNT];

typedef enum ana_exchange {
    ANA_EXCHANGE_HALF,    ///< pairs average
    ANA_EXCHANGE_OPTIMAL, ///< what converges fastest on this graph
    ANA_EXCHANGE_COUNT
} ana_exchange;

extern const char *const ana_exchange_names[ANA_EXCHANGE_COUNT];

typedef struct ana_scheme_options {
    ana_variant variant;   // max-neighbor
    ana_exchange exchange; // dimension-exchange
    double alpha;          // first-order: share of a difference that flows; 0: the best one
} ana_scheme_options;

/// One scheme at work on one graph. Made by ana_scheme_open.
typedef struct ana_scheme_run {
    const struct ana_scheme *scheme;
    const ana_graph *graph;
    ana_scheme_options options;
    ana_coins coins;
    int64_t round; // rounds played
    double *load;  // [node_count] now; a round may move it elsewhere
    void *state;   // the scheme's own
} ana_scheme_run;

typedef struct ana_scheme {
    const char *name;
    bool is_random;   // coins are thrown
    bool is_matching; // in every round disjoint pairs of neighbours average
    /// NULL: it goes with every graph.
    /// @return STATUS_INVALID or STATUS_UNSUPPORTED if it means nothing on this graph
    status (*check)(const ana_graph *graph, const ana_scheme_options *options, error_message *err);
    /// Makes its state; run->load is there.
    status (*prepare)(ana_scheme_run *run, arena *memory, error_message *err);
    void (*begin)(ana_scheme_run *run); // from load; round may be any; NULL: nothing to do
    /// Plays round number run->round. @return sum of the gaps of the pairs that averaged
    double (*play)(ana_scheme_run *run);
} ana_scheme;

/// The schemes, NULL after the last.
extern const ana_scheme *const ana_schemes[];

/// @return what scheme->check says
status ana_scheme_check(const ana_scheme *scheme, const ana_graph *graph,
                        const ana_scheme_options *options, error_message *err);

/// @param run out; everything in it is from memory. graph is borrowed as long as run.
/// @return as ana_scheme_check and ana_graph_link
status ana_scheme_open(const ana_scheme *scheme, const ana_graph *graph,
                       const ana_scheme_options *options, arena *memory, ana_scheme_run *run,
                       error_message *err);

/// Begins with loads of the caller's. Loads and coins fix all that follows, so a run can be taken
/// up again at any round (but of a scheme with memory: second-order, chebyshev, scan).
/// @param load [node_count] finite; for the graph `dynamic` in any order, which is not kept
void ana_scheme_begin(ana_scheme_run *run, const double *load, const ana_coins *coins,
                      int64_t round);

/// Plays one round.
/// @return sum of the gaps (differences of load before the round) of the pairs that averaged; 0 for
///         schemes that do not pair
double ana_scheme_play(ana_scheme_run *run);

/// Whom max-neighbor prefers as the other end, seen from a node: the larger difference of load; if
/// equal, the lighter if they are on different sides, the one farther out if rounding made the
/// differences equal.
/// @param load [node_count]
/// @return > 0: a; < 0: b; 0: loads are equal, lots decide. A sender picks among its t choices,
///         ascending by number, the one that ana_coins_pick(own lot, t) says; a receiver accepts,
///         of proposers that tie, the one whose lot is smallest.
int ana_scheme_compare(const double *load, int node, int a, int b);

/// The factor by which the slowest part of the deviation shrinks per round of a linear scheme, in
/// the long run; 0: exact after finitely many rounds. NaN if not known in closed form.
double ana_scheme_contraction(const ana_scheme *scheme, const ana_graph *graph,
                              const ana_scheme_options *options);

/// The share of a difference that flows in first-order diffusion: 2 / (smallest + largest
/// eigenvalue of the Laplacian), unless given > 0.
double ana_first_order_alpha(const ana_graph *graph, double given);

/// The largest modulus of an eigenvalue, other than 1, of the identity minus alpha times Laplacian.
double ana_first_order_contraction(const ana_graph *graph, double alpha);

/// The share of a difference that flows between partners of dimension exchange. @return NaN if not
/// known
/// Source: Xu and Lau, J. Parallel Distrib. Comput. 16 (1992) and 24 (1995): chains
/// 1 / (1 + sin(pi / n)), even rings and tori 1 / (1 + sin(2 pi / n)), n the longer side;
/// hypercubes 1/2.
double ana_exchange_parameter(const ana_graph *graph, ana_exchange exchange);

/// A parameter that came through libm, with the last digits that differ between systems cut off.
double ana_scheme_parameter(double value);

extern const ana_scheme ana_scheme_max_neighbor;
extern const ana_scheme ana_scheme_odd_even;
extern const ana_scheme ana_scheme_first_order;
extern const ana_scheme ana_scheme_second_order;
extern const ana_scheme ana_scheme_chebyshev;
extern const ana_scheme ana_scheme_dimension_exchange;
extern const ana_scheme ana_scheme_scan;
