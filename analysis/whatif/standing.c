#include "analysis/whatif/whatif.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>

const char *const ana_objective_names[ANA_OBJECTIVE_COUNT] = {"time", "gpu-hours", "cost",
                                                              "memory"};

/// Everything that a point is good or bad at, smaller being better; a cost that is not known is
/// worst.
enum { TIME, SECONDS_PER_TOKEN, GPU_HOURS, COST, MEMORY, QUALITY_COUNT };

/// What points are sorted by: copied out of them, as qsort hands nothing else on.
typedef struct sort_key {
    bool is_other; // another training than the reference's
    uint64_t training;
    double objective;
    double quality[QUALITY_COUNT];
    int64_t index;
} sort_key;

static void find_qualities(const ana_point *point, double quality[QUALITY_COUNT])
{
    quality[TIME] = point->train_ns > 0 ? point->train_ns : 1 / point->per_second;
    quality[SECONDS_PER_TOKEN] = 1 / point->per_second;
    quality[GPU_HOURS] = point->gpu_hours;
    quality[COST] = point->cost < 0 ? INFINITY : point->cost;
    quality[MEMORY] = (double)point->peak_memory_bytes;
}

double ana_point_loss(const ana_point *point, ana_objective objective)
{
    static const int qualities[ANA_OBJECTIVE_COUNT] = {TIME, GPU_HOURS, COST, MEMORY};
    double quality[QUALITY_COUNT];
    find_qualities(point, quality);
    return point->refusal == ANA_REFUSAL_NONE ? quality[qualities[objective]] : INFINITY;
}

static int compare_doubles(double one, double other)
{
    return (one > other) - (one < other);
}

static int compare_qualities(const sort_key *a, const sort_key *b)
{
    for (int quality = 0; quality < QUALITY_COUNT; quality++) {
        const int compared = compare_doubles(a->quality[quality], b->quality[quality]);
        if (compared != 0) return compared;
    }
    return (a->index > b->index) - (a->index < b->index);
}

static int compare_for_rank(const void *one, const void *other)
{
    const sort_key *a = one;
    const sort_key *b = other;
    if (a->is_other != b->is_other) return a->is_other - b->is_other;
    const int compared = compare_doubles(a->objective, b->objective);
    return compared != 0 ? compared : compare_qualities(a, b);
}

static int compare_for_pareto(const void *one, const void *other)
{
    const sort_key *a = one;
    const sort_key *b = other;
    if (a->training != b->training) return a->training < b->training ? -1 : 1;
    return compare_qualities(a, b);
}

/// Whether one is at least as good as other in everything, and better in something.
static bool dominates(const sort_key *one, const sort_key *other)
{
    bool is_better = false;
    for (int quality = 0; quality < QUALITY_COUNT; quality++) {
        if (one->quality[quality] > other->quality[quality]) return false;
        if (one->quality[quality] < other->quality[quality]) is_better = true;
    }
    return is_better;
}

/// Marks the Pareto set of keys that are sorted for it. As the qualities are compared one after the
/// other, nothing dominates a key that stands before it.
///
/// @param front [count] scratch
static void mark_pareto(const sort_key *keys, int64_t count, int64_t *front, bool *is_pareto)
{
    int64_t size = 0;
    for (int64_t key = 0; key < count; key++) {
        if (key > 0 && keys[key].training != keys[key - 1].training) size = 0;
        bool is_dominated = false;
        for (int64_t member = 0; member < size && !is_dominated; member++) {
            is_dominated = dominates(&keys[front[member]], &keys[key]);
            if (!is_dominated) continue;
            // What dominates one is likely to dominate the next: it is asked first.
            const int64_t found = front[member];
            front[member] = front[0];
            front[0] = found;
        }
        is_pareto[keys[key].index] = !is_dominated;
        if (!is_dominated) front[size++] = key;
    }
}

/// Sorts the keys twice; what comes out is in standing.
static void order_keys(sort_key *keys, int64_t *front, ana_standing *standing)
{
    const size_t count = (size_t)standing->feasible_count;
    qsort(keys, count, sizeof *keys, compare_for_pareto);
    mark_pareto(keys, standing->feasible_count, front, standing->is_pareto);
    qsort(keys, count, sizeof *keys, compare_for_rank);
    for (int64_t rank = 0; rank < standing->feasible_count; rank++) {
        standing->order[rank] = keys[rank].index;
        standing->comparable_count += !keys[rank].is_other;
    }
}

void ana_standing_find(const ana_point *points, int64_t point_count, uint64_t training,
                       ana_objective objective, arena *memory, ana_standing *standing)
{
    const size_t count = (size_t)point_count;
    ana_standing found = {
        .order = arena_array(memory, count, sizeof *found.order),
        .is_pareto = arena_array(memory, count, sizeof *found.is_pareto),
    };
    sort_key *keys = memory_array((count > 0 ? count : 1), sizeof *keys);
    int64_t *front = memory_array((count > 0 ? count : 1), sizeof *front);
    for (int64_t index = 0; index < point_count; index++) {
        if (points[index].refusal != ANA_REFUSAL_NONE) continue;
        sort_key *key = &keys[found.feasible_count++];
        key->is_other = points[index].training != training;
        key->training = points[index].training;
        key->objective = ana_point_loss(&points[index], objective);
        key->index = index;
        find_qualities(&points[index], key->quality);
    }
    order_keys(keys, front, &found);
    *standing = found;
    free(keys);
    free(front);
}

bool ana_points_are_alike(const ana_point *one, const ana_point *other)
{
    return one->iteration_ns == other->iteration_ns && one->per_second == other->per_second &&
           one->gpu_count == other->gpu_count && one->cost == other->cost &&
           one->peak_memory_bytes == other->peak_memory_bytes && one->training == other->training;
}

int64_t ana_standing_alike_end(const ana_standing *standing, const ana_point *points, int64_t rank,
                               int64_t end)
{
    const ana_point *first = &points[standing->order[rank]];
    while (rank < end && ana_points_are_alike(first, &points[standing->order[rank]])) {
        rank++;
    }
    return rank;
}

// Points over draws

/// GSL interpolates, and between INFINITY and itself, or 0 times it, there is no number.
static double sorted_quantile(const double *sorted, int count, double quantile)
{
    const double place = quantile * (double)(count - 1);
    const int above = (int)ceil(place);
    if (isinf(sorted[above]) || (double)above == place) return sorted[above];
    return gsl_stats_quantile_from_sorted_data(sorted, 1, (size_t)count, quantile);
}

ana_error_bar ana_error_bar_of(const double *values, int count, double *scratch)
{
    assert(count >= 1);
    memcpy(scratch, values, (size_t)count * sizeof *values);
    gsl_sort(scratch, 1, (size_t)count);
    return (ana_error_bar){
        .low = sorted_quantile(scratch, count, 0.05),
        .middle = sorted_quantile(scratch, count, 0.5),
        .high = sorted_quantile(scratch, count, 0.95),
    };
}

static const double *row_of(const ana_losses *losses, int point)
{
    return losses->values + (size_t)point * (size_t)losses->draw_count;
}

/// The share of the best of a draw that a point has: those that are equal divide it.
static double best_share(const ana_losses *losses, int point, int draw)
{
    const double loss = row_of(losses, point)[draw];
    int equal_count = 0;
    for (int other = 0; other < losses->point_count; other++) {
        const double beside = row_of(losses, other)[draw];
        assert(beside > 0);
        if (beside < loss) return 0;
        equal_count += beside == loss;
    }
    return isinf(loss) ? 0 : 1.0 / equal_count;
}

/// loss / other - 1, where neither, one or both may be without end.
static double relative_difference(double loss, double other)
{
    if (isinf(loss)) return isinf(other) ? 0 : INFINITY;
    return isinf(other) ? -1 : loss / other - 1;
}

static ana_ranked rank_point(const ana_losses *losses, int point)
{
    const double *row = row_of(losses, point);
    ana_ranked ranked = {.point = point};
    for (int draw = 0; draw < losses->draw_count; draw++) {
        ranked.mean += row[draw];
        ranked.infeasible_ratio += isinf(row[draw]) ? 1 : 0;
        ranked.best_probability += best_share(losses, point, draw);
    }
    ranked.mean /= losses->draw_count;
    ranked.infeasible_ratio /= losses->draw_count;
    ranked.best_probability /= losses->draw_count;
    return ranked;
}

static int by_mean(const void *left, const void *right)
{
    const ana_ranked *a = left;
    const ana_ranked *b = right;
    if (a->mean != b->mean) return a->mean < b->mean ? -1 : 1;
    return a->point - b->point;
}

/// @param scratch [2 * draw_count]
static ana_error_bar paired(const ana_losses *losses, int point, int other, double *scratch)
{
    double *differences = scratch + losses->draw_count;
    for (int draw = 0; draw < losses->draw_count; draw++) {
        differences[draw] =
            relative_difference(row_of(losses, point)[draw], row_of(losses, other)[draw]);
    }
    return ana_error_bar_of(differences, losses->draw_count, scratch);
}

/// The first that has no group begins one; all after it that are like it join.
static void divide_into_groups(const ana_losses *losses, double *scratch, ana_ranked *standings)
{
    int group = 0;
    for (int first = 0; first < losses->point_count; first++) {
        if (standings[first].group > 0) continue;
        standings[first].group = ++group;
        for (int rank = first + 1; rank < losses->point_count; rank++) {
            if (standings[rank].group > 0) continue;
            const ana_error_bar difference =
                paired(losses, standings[rank].point, standings[first].point, scratch);
            if (difference.low <= 0 && difference.high >= 0) standings[rank].group = group;
        }
    }
}

void ana_rank(const ana_losses *losses, arena *memory, ana_ranked *standings)
{
    assert(losses->point_count >= 1 && losses->draw_count >= 1);
    double *scratch = arena_array(memory, 2 * (size_t)losses->draw_count, sizeof *scratch);
    for (int point = 0; point < losses->point_count; point++) {
        standings[point] = rank_point(losses, point);
    }
    qsort(standings, (size_t)losses->point_count, sizeof *standings, by_mean);
    for (int rank = 0; rank < losses->point_count; rank++) {
        standings[rank].behind = paired(losses, standings[rank].point, standings[0].point, scratch);
    }
    divide_into_groups(losses, scratch, standings);
}
