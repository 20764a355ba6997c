/// Second-order diffusion: a step of first-order, overrelaxed by what the step before did.
/// Source: Muthukrishnan, Ghosh and Schultz, Theory Comput. Syst. 31 (1998); beta is optimal for
/// the contraction of the first-order step.
#include "analysis/converge/converge_first_order.h"
#include "analysis/converge/converge_scheme.h"
#include "analysis/converge/converge_three_term.h"

#include <math.h>

/// beta = 2 / (1 + sqrt(1 - contraction^2)) from the second round on.
static double weight_of(const ana_three_term *state, int64_t round)
{
    const double contraction = state->contraction;
    return round == 0 ? 1 : 2 / (1 + sqrt(1 - contraction * contraction));
}

static double play(ana_scheme_run *run)
{
    ana_three_term_play(run, weight_of(run->state, run->round));
    return 0;
}

const ana_scheme ana_scheme_second_order = {
    .name = "second-order",
    .check = ana_three_term_check,
    .prepare = ana_three_term_prepare,
    .begin = ana_three_term_begin,
    .play = play,
};
