#include "analysis/whatif/standing.h"
#include "base/arena.h"

#include <math.h>
#include <stdlib.h>

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

static sort_key key_of(const ana_point *points, int64_t index,
                       const ana_learning_settings *reference, ana_objective objective)
{
    static const int qualities[ANA_OBJECTIVE_COUNT] = {TIME, GPU_HOURS, COST, MEMORY};
    const ana_point *point = &points[index];
    sort_key key = {
        .is_other = point->learning.training != reference->training,
        .training = point->learning.training,
        .quality = {point->train_ns > 0 ? point->train_ns : 1 / point->per_second,
                    1 / point->per_second, point->gpu_hours,
                    point->cost < 0 ? INFINITY : point->cost, (double)point->peak_memory_bytes},
        .index = index,
    };
    key.objective = key.quality[qualities[objective]];
    return key;
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
static void stand(sort_key *keys, int64_t *front, ana_standing *standing)
{
    const size_t count = (size_t)standing->feasible_count;
    qsort(keys, count, sizeof *keys, compare_for_pareto);
    mark_pareto(keys, standing->feasible_count, front, standing->is_pareto);
    qsort(keys, count, sizeof *keys, compare_for_rank);
    for (int64_t rank = 0; rank < standing->feasible_count; rank++) {
        standing->order[rank] = keys[rank].index;
        if (keys[rank].is_other) continue;
        standing->comparable_count++;
        standing->pareto_count += standing->is_pareto[keys[rank].index];
    }
}

void ana_standing_find(const ana_point *points, int64_t point_count,
                       const ana_learning_settings *reference, ana_objective objective,
                       arena *memory, ana_standing *standing)
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
        keys[found.feasible_count++] = key_of(points, index, reference, objective);
    }
    stand(keys, front, &found);
    *standing = found;
    free(keys);
    free(front);
}

bool ana_points_are_alike(const ana_point *one, const ana_point *other)
{
    return one->iteration_ns == other->iteration_ns && one->per_second == other->per_second &&
           one->gpu_count == other->gpu_count && one->cost == other->cost &&
           one->peak_memory_bytes == other->peak_memory_bytes &&
           one->learning.training == other->learning.training &&
           one->learning.rounding == other->learning.rounding;
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
