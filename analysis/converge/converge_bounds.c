#include "analysis/converge/converge_graph.h"

#include <math.h>

const char *const ana_stop_names[ANA_STOP_COUNT] = {"phi", "gap"};

static int64_t rounds_up(double rounds)
{
    if (!(rounds > 0)) return 0;
    return rounds >= 0x1p53 ? INT64_C(1) << 53 : (int64_t)ceil(rounds);
}

double ana_good_round_share(int node_count)
{
    return 1 / (60 * log(2.0 * node_count));
}

double ana_paper_good_rounds(int node_count, double total, double gamma)
{
    const double squared = (double)node_count * node_count;
    const double rounds = squared / ana_good_round_share(node_count) * log(total * squared / gamma);
    return rounds > 0 ? ceil(rounds) : 0;
}

int64_t ana_bound_paper(const ana_bound_question *question)
{
    const double nodes = question->node_count;
    const double by_potential = ana_paper_good_rounds(question->node_count, nodes, question->gamma);
    const double by_gap =
        nodes * nodes / (ana_good_round_share(question->node_count) * question->gamma);
    return rounds_up(question->stop == ANA_STOP_GAP ? fmin(by_potential, by_gap) : by_potential);
}

/// The potential that surely means the stop: of a spread above gamma every other node has at least
/// gamma to the two extremes together, and these have it to each other.
static double potential_wanted(const ana_bound_question *question)
{
    const double pairs = question->stop == ANA_STOP_GAP ? question->node_count - 1 : 1;
    return pairs * question->gamma;
}

int64_t ana_bound_repaired(const ana_bound_question *question)
{
    const double nodes = question->node_count;
    const double folds = log(question->potential / (potential_wanted(question) * question->delta));
    const double by_potential = 4 * nodes * nodes * folds;
    const double by_gap = 16 * (nodes - 1) * nodes / (question->gamma * question->delta);
    return rounds_up(question->stop == ANA_STOP_GAP ? fmin(by_potential, by_gap) : by_potential);
}

double ana_rounds_predicted(const ana_bound_question *question, double contraction)
{
    const double folds = log(question->potential / potential_wanted(question));
    if (isnan(contraction)) return contraction;
    if (!(folds > 0)) return 0;
    return contraction <= 0 ? 1 : fmax(1, folds / -log(contraction));
}

double ana_convergence_constant(const ana_bound_question *question, double rounds)
{
    const double nodes = question->node_count;
    const double folds = log(question->potential / potential_wanted(question));
    return folds > 0 ? rounds / (nodes * nodes * folds) : (double)NAN;
}
