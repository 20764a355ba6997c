#include "analysis/whatif/information_value.h"

#include <math.h>
#include <stdbool.h>

#include <gsl/gsl_statistics_double.h>

enum { POWERS_MAX = 4, DRAWS_OF_CUBIC = 40 };

/// An orthonormal basis of the polynomials of one input over the draws.
typedef struct basis {
    double *functions; // [count][draw_count]
    int count;
    int draw_count;
    double *leverage; // [draw_count] of a draw on its own prediction
} basis;

static const double *row_of(const ana_losses *losses, int point)
{
    return losses->values + (size_t)point * (size_t)losses->draw_count;
}

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
