#include "analysis/diagnosis/change_points.h"

#include <gsl/gsl_cdf.h>
#include <math.h>
#include <string.h>

/// One in so many series without any change shows one; and what a column's noise is at the least,
/// so that columns without noise do not divide by 0.
static const double false_alarm_ratio = 0.001;
static const double noise_floor = 1e-18;

enum { DEGREES_OF_GSL = 1000 };

typedef struct segmenting {
    const double *values; // [row_count][column_count]
    int row_count;
    int column_count;
    double *noise; // [column_count] variance of a sample about its neighbours
    double *front; // [column_count] sums of the rows of a segment in front of a cut
    double *whole; // [column_count] sums of all its rows
    double threshold;
} segmenting;

/// A run of rows [begin, end), and where it is best cut.
typedef struct segment {
    int begin;
    int end;
    int cut;
    double jump; // 0: it is too short to be cut
} segment;

static const double *row_of(const segmenting *work, int row)
{
    return work->values + (size_t)row * (size_t)work->column_count;
}

/// Half the mean squared difference of neighbours: a jump is one difference among many.
static void measure_noise(segmenting *work)
{
    for (int row = 1; row < work->row_count; row++) {
        const double *here = row_of(work, row);
        const double *before = row_of(work, row - 1);
        for (int column = 0; column < work->column_count; column++) {
            const double step = here[column] - before[column];
            work->noise[column] += step * step;
        }
    }
    for (int column = 0; column < work->column_count; column++) {
        work->noise[column] /= 2.0 * (work->row_count - 1);
        if (work->noise[column] < noise_floor) work->noise[column] = noise_floor;
    }
}

static void add_row(const segmenting *work, int row, double *sums)
{
    const double *values = row_of(work, row);
    for (int column = 0; column < work->column_count; column++) {
        sums[column] += values[column];
    }
}

/// The squared distance of the means in front of and behind a cut, in units of the noise of their
/// difference.
static double jump_at(const segmenting *work, int front_count, int count)
{
    const double behind_count = count - front_count;
    double jump = 0;
    for (int column = 0; column < work->column_count; column++) {
        const double difference = work->front[column] / front_count -
                                  (work->whole[column] - work->front[column]) / behind_count;
        jump += difference * difference / work->noise[column];
    }
    return jump * front_count * behind_count / count;
}

static segment best_cut(const segmenting *work, int begin, int end)
{
    segment found = {.begin = begin, .end = end};
    const size_t bytes = (size_t)work->column_count * sizeof(double);
    memset(work->front, 0, bytes);
    memset(work->whole, 0, bytes);
    for (int row = begin; row < end; row++) {
        add_row(work, row, work->whole);
    }
    for (int cut = begin + 1; cut <= end - ANA_SEGMENT_MIN; cut++) {
        add_row(work, cut - 1, work->front);
        if (cut - begin < ANA_SEGMENT_MIN) continue;
        const double jump = jump_at(work, cut - begin, end - begin);
        if (jump <= found.jump) continue;
        found.jump = jump;
        found.cut = cut;
    }
    return found;
}

static int largest(const segment *segments, int count)
{
    int best = 0;
    for (int index = 1; index < count; index++) {
        if (segments[index].jump > segments[best].jump) best = index;
    }
    return best;
}

static void segment_all(const segmenting *work, int points[ANA_CHANGE_POINTS_MAX], int *count,
                        bool *is_capped)
{
    segment segments[ANA_CHANGE_POINTS_MAX + 1];
    segments[0] = best_cut(work, 0, work->row_count);
    *count = 0;
    for (;;) {
        segment *chosen = &segments[largest(segments, *count + 1)];
        *is_capped = *count == ANA_CHANGE_POINTS_MAX && chosen->jump > work->threshold;
        if (chosen->jump <= work->threshold || *count == ANA_CHANGE_POINTS_MAX) return;
        const segment cut = *chosen;
        points[(*count)++] = cut.cut;
        *chosen = best_cut(work, cut.begin, cut.cut);
        segments[*count] = best_cut(work, cut.cut, cut.end);
    }
}

/// What a jump's statistic exceeds by chance. Behind a thousand degrees of freedom GSL's inverse
/// gives up at some chances; the cube root is normal there (Wilson & Hilferty, PNAS 17, 1931).
static double threshold_of(double chance, int degrees)
{
    if (degrees <= DEGREES_OF_GSL) return gsl_cdf_chisq_Qinv(chance, degrees);
    const double part = 2 / (9.0 * degrees);
    const double root = 1 - part + gsl_cdf_ugaussian_Qinv(chance) * sqrt(part);
    return degrees * root * root * root;
}

void ana_change_points_find(const double *values, int row_count, int column_count, arena *memory,
                            int points[ANA_CHANGE_POINTS_MAX], int *point_count, bool *is_capped)
{
    *point_count = 0;
    *is_capped = false;
    if (row_count < 2 * ANA_SEGMENT_MIN || column_count < 2) return;
    double *numbers = arena_array(memory, 3 * (size_t)column_count, sizeof *numbers);
    segmenting work = {.values = values,
                       .row_count = row_count,
                       .column_count = column_count,
                       .noise = numbers,
                       .front = numbers + column_count,
                       .whole = numbers + 2 * (size_t)column_count};
    measure_noise(&work);
    work.threshold = threshold_of(false_alarm_ratio / row_count, column_count - 1);
    segment_all(&work, points, point_count, is_capped);
}
