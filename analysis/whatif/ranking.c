#include "analysis/whatif/ranking.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>

#define LOW_QUANTILE 0.05
#define MIDDLE_QUANTILE 0.5
#define HIGH_QUANTILE 0.95
#define BEST_SET_PROBABILITY 0.9

/// GSL interpolates, and between INFINITY and itself, or 0 times it, there is no number.
static double sorted_quantile(const double *sorted, int count, double quantile)
{
    const double place = quantile * (double)(count - 1);
    const int above = (int)ceil(place);
    if (isinf(sorted[above]) || (double)above == place) return sorted[above];
    return gsl_stats_quantile_from_sorted_data(sorted, 1, (size_t)count, quantile);
}

static void sort_into(const double *values, int count, double *scratch)
{
    assert(count >= 1);
    memcpy(scratch, values, (size_t)count * sizeof *values);
    gsl_sort(scratch, 1, (size_t)count);
}

double ana_quantile_of(const double *values, int count, double quantile, double *scratch)
{
    sort_into(values, count, scratch);
    return sorted_quantile(scratch, count, quantile);
}

ana_error_bar ana_error_bar_of(const double *values, int count, double *scratch)
{
    sort_into(values, count, scratch);
    return (ana_error_bar){
        .low = sorted_quantile(scratch, count, LOW_QUANTILE),
        .middle = sorted_quantile(scratch, count, MIDDLE_QUANTILE),
        .high = sorted_quantile(scratch, count, HIGH_QUANTILE),
    };
}

/// What is carved for one ranking.
typedef struct workspace {
    double *least;       // [draw_count] of all points
    int *least_count;    // [draw_count] points that have it
    double *differences; // [draw_count]
    double *scratch;     // [draw_count]
} workspace;

static const double *row_of(const ana_losses *losses, int point)
{
    return losses->values + (size_t)point * (size_t)losses->draw_count;
}

static void carve(const ana_losses *losses, arena *memory, workspace *space)
{
    const size_t draws = (size_t)losses->draw_count;
    space->least = arena_array(memory, 3 * draws, sizeof *space->least);
    space->least_count = arena_array(memory, draws, sizeof *space->least_count);
    space->differences = space->least + draws;
    space->scratch = space->least + 2 * draws;
}

static void find_least(const ana_losses *losses, workspace *space)
{
    for (int draw = 0; draw < losses->draw_count; draw++) {
        space->least[draw] = INFINITY;
        for (int point = 0; point < losses->point_count; point++) {
            const double loss = row_of(losses, point)[draw];
            assert(loss > 0);
            if (loss < space->least[draw]) {
                space->least[draw] = loss;
                space->least_count[draw] = 0;
            }
            space->least_count[draw] += loss == space->least[draw];
        }
    }
}

/// loss / other - 1, where neither, one or both may be without end.
static double relative_difference(double loss, double other)
{
    if (isinf(loss)) return isinf(other) ? 0 : INFINITY;
    return isinf(other) ? -1 : loss / other - 1;
}

static ana_ranked stand(const ana_losses *losses, int point, workspace *space)
{
    const double *row = row_of(losses, point);
    ana_ranked standing = {.point = point};
    for (int draw = 0; draw < losses->draw_count; draw++) {
        standing.mean += row[draw];
        standing.infeasible_ratio += isinf(row[draw]) ? 1 : 0;
        // In a draw in which nothing fits nothing is lost by choosing this point.
        if (!isinf(space->least[draw])) standing.regret_ratio += row[draw] - space->least[draw];
        if (!isinf(row[draw]) && row[draw] == space->least[draw]) {
            standing.best_probability += 1.0 / space->least_count[draw];
        }
    }
    standing.mean /= losses->draw_count;
    standing.infeasible_ratio /= losses->draw_count;
    standing.regret_ratio /= losses->draw_count;
    standing.best_probability /= losses->draw_count;
    standing.interval = ana_error_bar_of(row, losses->draw_count, space->scratch);
    return standing;
}

static int by_mean(const void *left, const void *right)
{
    const ana_ranked *a = left;
    const ana_ranked *b = right;
    if (a->mean != b->mean) return a->mean < b->mean ? -1 : 1;
    return a->point - b->point;
}

static ana_error_bar paired(const ana_losses *losses, int point, int other, workspace *space)
{
    for (int draw = 0; draw < losses->draw_count; draw++) {
        space->differences[draw] =
            relative_difference(row_of(losses, point)[draw], row_of(losses, other)[draw]);
    }
    return ana_error_bar_of(space->differences, losses->draw_count, space->scratch);
}

static bool is_indistinguishable(ana_error_bar difference, double equivalence)
{
    const bool holds_zero = difference.low <= 0 && difference.high >= 0;
    return holds_zero || (difference.low >= -equivalence && difference.high <= equivalence);
}

/// The first that has no group begins one; all after it that are like it join.
static void divide_into_groups(const ana_losses *losses, double equivalence, workspace *space,
                               ana_ranked *standings)
{
    int group = 0;
    for (int first = 0; first < losses->point_count; first++) {
        if (standings[first].group > 0) continue;
        standings[first].group = ++group;
        for (int rank = first + 1; rank < losses->point_count; rank++) {
            if (standings[rank].group > 0) continue;
            const ana_error_bar difference =
                paired(losses, standings[rank].point, standings[first].point, space);
            if (is_indistinguishable(difference, equivalence)) standings[rank].group = group;
        }
    }
}

/// Takes points by falling probability until they hold the best in 9 of 10 draws.
static void mark_best_set(ana_ranked *standings, int count)
{
    double held = 0;
    while (held < BEST_SET_PROBABILITY - 1e-9) {
        int next = -1;
        for (int rank = 0; rank < count; rank++) {
            if (standings[rank].may_be_best || standings[rank].best_probability == 0) continue;
            if (next < 0 || standings[rank].best_probability > standings[next].best_probability) {
                next = rank;
            }
        }
        if (next < 0) return; // in some draws nothing fits
        standings[next].may_be_best = true;
        held += standings[next].best_probability;
    }
}

void ana_rank(const ana_losses *losses, double equivalence, arena *memory, ana_ranked *standings)
{
    workspace space = {0};
    assert(losses->point_count >= 1 && losses->draw_count >= 1 && equivalence >= 0);
    carve(losses, memory, &space);
    find_least(losses, &space);
    for (int point = 0; point < losses->point_count; point++) {
        standings[point] = stand(losses, point, &space);
    }
    qsort(standings, (size_t)losses->point_count, sizeof *standings, by_mean);
    const double best_mean = standings[0].mean;
    for (int rank = 0; rank < losses->point_count; rank++) {
        standings[rank].behind = paired(losses, standings[rank].point, standings[0].point, &space);
        standings[rank].regret_ratio /= best_mean;
    }
    divide_into_groups(losses, equivalence, &space, standings);
    mark_best_set(standings, losses->point_count);
}

enum { POWERS_MAX = 4, DRAWS_OF_CUBIC = 40 };

/// An orthonormal basis of the polynomials of one input over the draws.
typedef struct basis {
    double *functions; // [count][draw_count]
    int count;
    int draw_count;
    double *leverage; // [draw_count] of a draw on its own prediction
} basis;

/// The points among which is chosen: those that fit in every draw.
typedef struct candidates {
    const ana_losses *losses;
    int *points; // [count]
    int count;
    int best; // the one with the least mean
    double best_mean;
    double *least; // [draw_count] loss of the draw's best
} candidates;

static bool always_fits(const ana_losses *losses, int point)
{
    for (int draw = 0; draw < losses->draw_count; draw++) {
        if (isinf(row_of(losses, point)[draw])) return false;
    }
    return true;
}

static void add_candidate(candidates *open, int point)
{
    const double *losses = row_of(open->losses, point);
    const double mean = gsl_stats_mean(losses, 1, (size_t)open->losses->draw_count);
    if (open->count == 0 || mean < open->best_mean) {
        open->best = point;
        open->best_mean = mean;
    }
    for (int draw = 0; draw < open->losses->draw_count; draw++) {
        const double least = open->least[draw];
        open->least[draw] = open->count == 0 || losses[draw] < least ? losses[draw] : least;
    }
    open->points[open->count++] = point;
}

static void gather(const ana_losses *losses, arena *memory, candidates *open)
{
    *open = (candidates){
        .losses = losses,
        .points = arena_array(memory, (size_t)losses->point_count, sizeof *open->points),
        .least = arena_array(memory, (size_t)losses->draw_count, sizeof *open->least),
    };
    for (int point = 0; point < losses->point_count; point++) {
        if (always_fits(losses, point)) add_candidate(open, point);
    }
}

/// Judges what is chosen in each draw.
///
/// @param choice [draw_count]; NULL: the best in all
static ana_choice_quality judge(const candidates *open, const int *choice, double equivalence)
{
    const int draw_count = open->losses->draw_count;
    ana_choice_quality quality = {0};
    for (int draw = 0; draw < draw_count; draw++) {
        const int chosen = choice != NULL ? choice[draw] : open->best;
        const double loss = row_of(open->losses, chosen)[draw];
        quality.regret_ratio += loss - open->least[draw];
        quality.wrong_probability += loss > open->least[draw] * (1 + equivalence) ? 1 : 0;
    }
    quality.wrong_probability /= draw_count;
    quality.regret_ratio /= draw_count * open->best_mean;
    return quality;
}

void ana_choice_now(const ana_losses *losses, double equivalence, arena *memory,
                    ana_choice_quality *quality)
{
    candidates open = {0};
    gather(losses, memory, &open);
    *quality = (ana_choice_quality){0};
    if (open.count > 0) *quality = judge(&open, NULL, equivalence);
}

static double product(const double *left, const double *right, int count)
{
    double sum = 0;
    for (int draw = 0; draw < count; draw++)
        sum += left[draw] * right[draw];
    return sum;
}

/// Takes the functions before it out of the newest, twice, as one pass of Gram and Schmidt leaves
/// rounding; false if nothing is left.
static bool orthonormalize(basis *polynomials, double *newest)
{
    const int draws = polynomials->draw_count;
    const double before = sqrt(product(newest, newest, draws));
    for (int pass = 0; pass < 2; pass++) {
        for (int function = 0; function < polynomials->count; function++) {
            const double *other = polynomials->functions + (size_t)function * (size_t)draws;
            const double along = product(newest, other, draws);
            for (int draw = 0; draw < draws; draw++)
                newest[draw] -= along * other[draw];
        }
    }
    const double after = sqrt(product(newest, newest, draws));
    if (!(after > before * 1e-9)) return false;
    for (int draw = 0; draw < draws; draw++)
        newest[draw] /= after;
    return true;
}

static void build(const double *input, int draw_count, arena *memory, basis *polynomials)
{
    const size_t draws = (size_t)draw_count;
    const int powers = draw_count >= DRAWS_OF_CUBIC ? POWERS_MAX : 2;
    const double mean = gsl_stats_mean(input, 1, draws);
    const double deviation = gsl_stats_sd_m(input, 1, draws, mean);
    double *all = arena_array(memory, (POWERS_MAX + 1) * draws, sizeof *all);
    *polynomials = (basis){.functions = all, .draw_count = draw_count};
    polynomials->leverage = all + POWERS_MAX * draws;
    for (int power = 0; power < powers; power++) {
        double *newest = all + (size_t)polynomials->count * draws;
        for (int draw = 0; draw < draw_count; draw++) {
            const double unit = deviation > 0 ? (input[draw] - mean) / deviation : 0;
            newest[draw] = 1;
            for (int factor = 0; factor < power; factor++)
                newest[draw] *= unit;
        }
        polynomials->count += orthonormalize(polynomials, newest);
    }
    for (int function = 0; function < polynomials->count; function++) {
        const double *values = all + (size_t)function * draws;
        for (int draw = 0; draw < draw_count; draw++) {
            polynomials->leverage[draw] += values[draw] * values[draw];
        }
    }
}

/// Predicts observed in every draw from the other draws: of a least-squares fit with leverage h,
/// (fitted - h observed) / (1 - h).
static void predict(const basis *polynomials, const double *observed, double *predicted)
{
    const int draws = polynomials->draw_count;
    for (int draw = 0; draw < draws; draw++)
        predicted[draw] = 0;
    for (int function = 0; function < polynomials->count; function++) {
        const double *values = polynomials->functions + (size_t)function * (size_t)draws;
        const double along = product(values, observed, draws);
        for (int draw = 0; draw < draws; draw++)
            predicted[draw] += along * values[draw];
    }
    for (int draw = 0; draw < draws; draw++) {
        const double leverage = fmin(polynomials->leverage[draw], 0.999);
        predicted[draw] = (predicted[draw] - leverage * observed[draw]) / (1 - leverage);
    }
}

/// In every draw the point with the least prediction; best where none is below it.
static void choose(const candidates *open, const basis *polynomials, arena *memory, int *choice)
{
    const size_t draws = (size_t)open->losses->draw_count;
    double *difference = arena_array(memory, 3 * draws, sizeof *difference);
    double *const predicted = difference + draws;
    double *const least = difference + 2 * draws; // 0: the best beside itself
    const double *best = row_of(open->losses, open->best);
    for (size_t draw = 0; draw < draws; draw++)
        choice[draw] = open->best;
    for (int candidate = 0; candidate < open->count; candidate++) {
        const int point = open->points[candidate];
        if (point == open->best) continue;
        const double *losses = row_of(open->losses, point);
        for (size_t draw = 0; draw < draws; draw++)
            difference[draw] = losses[draw] - best[draw];
        predict(polynomials, difference, predicted);
        for (size_t draw = 0; draw < draws; draw++) {
            if (predicted[draw] >= least[draw]) continue;
            least[draw] = predicted[draw];
            choice[draw] = point;
        }
    }
}

void ana_choice_knowing(const ana_losses *losses, const double *input, double equivalence,
                        arena *memory, ana_choice_quality *quality)
{
    candidates open = {0};
    basis polynomials = {0};
    gather(losses, memory, &open);
    *quality = (ana_choice_quality){0};
    if (open.count == 0) return;
    int *choice = arena_array(memory, (size_t)losses->draw_count, sizeof *choice);
    build(input, losses->draw_count, memory, &polynomials);
    choose(&open, &polynomials, memory, choice);
    const ana_choice_quality now = judge(&open, NULL, equivalence);
    const ana_choice_quality knowing = judge(&open, choice, equivalence);
    quality->wrong_probability = fmin(knowing.wrong_probability, now.wrong_probability);
    quality->regret_ratio = fmin(knowing.regret_ratio, now.regret_ratio);
}
