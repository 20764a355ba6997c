/// Chebyshev semi-iteration: as second-order, with the weight of every round such that the
/// deviation left is the smallest that any polynomial of that degree leaves in the worst case.
/// Source: Golub and Varga, Numer. Math. 3 (1961).
#include "analysis/converge/converge_scheme.h"
#include "analysis/converge/converge_three_term.h"

/// w_1 = 1, w_2 = 2 / (2 - c^2), w_{k + 1} = 4 / (4 - c^2 w_k) with c the contraction.
static double play(ana_scheme_run *run)
{
    ana_three_term *state = run->state;
    const double square = state->contraction * state->contraction;
    const double before = state->weight;
    state->weight = before == 0 ? 1 : before == 1 ? 2 / (2 - square) : 4 / (4 - square * before);
    ana_three_term_play(run, state->weight);
    return 0;
}

const ana_scheme ana_scheme_chebyshev = {
    .name = "chebyshev",
    .check = ana_three_term_check,
    .prepare = ana_three_term_prepare,
    .begin = ana_three_term_begin,
    .play = play,
};
