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
        if (!isinf(row[draw]) && row[draw] == space->least[draw]) {
            standing.best_probability += 1.0 / space->least_count[draw];
        }
    }
    standing.mean /= losses->draw_count;
    standing.infeasible_ratio /= losses->draw_count;
    standing.best_probability /= losses->draw_count;
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

/// The first that has no group begins one; all after it that are like it join.
static void divide_into_groups(const ana_losses *losses, workspace *space, ana_ranked *standings)
{
    int group = 0;
    for (int first = 0; first < losses->point_count; first++) {
        if (standings[first].group > 0) continue;
        standings[first].group = ++group;
        for (int rank = first + 1; rank < losses->point_count; rank++) {
            if (standings[rank].group > 0) continue;
            const ana_error_bar difference =
                paired(losses, standings[rank].point, standings[first].point, space);
            if (difference.low <= 0 && difference.high >= 0) standings[rank].group = group;
        }
    }
}

void ana_rank(const ana_losses *losses, arena *memory, ana_ranked *standings)
{
    workspace space = {0};
    assert(losses->point_count >= 1 && losses->draw_count >= 1);
    carve(losses, memory, &space);
    find_least(losses, &space);
    for (int point = 0; point < losses->point_count; point++) {
        standings[point] = stand(losses, point, &space);
    }
    qsort(standings, (size_t)losses->point_count, sizeof *standings, by_mean);
    for (int rank = 0; rank < losses->point_count; rank++) {
        standings[rank].behind = paired(losses, standings[rank].point, standings[0].point, &space);
    }
    divide_into_groups(losses, &space, standings);
}
