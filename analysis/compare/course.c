#include "analysis/compare/course.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void ana_course_init(ana_course *course, arena *memory)
{
    *course = (ana_course){.memory = memory, .iteration_stride = 1};
}

/// An array with room for one item more: twice as many whenever their number is a power of two.
static void *grow(arena *memory, void *items, int count, size_t item_bytes)
{
    if ((count & (count - 1)) != 0) return items;
    void *larger = arena_array(memory, count == 0 ? 1 : 2 * (size_t)count, item_bytes);
    if (count > 0) memcpy(larger, items, (size_t)count * item_bytes);
    return larger;
}

static void add_decision(ana_course *course, const bal_training_iteration *iteration)
{
    course->asked_count++;
    course->reason_counts[iteration->reason]++;
    course->decision_ns += iteration->decision_ns;
    course->migration_ns += iteration->migration_ns;
    if (iteration->action == BAL_ACTION_KEEP) return;
    course->acted_count++;
    if (course->move_count == ANA_COURSE_MAX) return;
    course->moves = grow(course->memory, course->moves, course->move_count, sizeof *course->moves);
    course->moves[course->move_count++] = (ana_move){
        .iteration = iteration->iteration,
        .action = iteration->action,
        .reason = iteration->reason,
        .moved_layer_count = iteration->moved_layer_count,
        .moved_bytes = iteration->moved_bytes,
        .decision_ns = iteration->decision_ns,
        .migration_ns = iteration->migration_ns,
    };
}

/// Adds a step where the ranks are others than in the last.
static void add_ranks(ana_course *course, const bal_training_iteration *iteration)
{
    const ana_rank_step step = {
        .from_iteration = iteration->iteration,
        .rank_count = iteration->rank_count,
        .replica_count = iteration->replica_count,
        .microbatch_count = iteration->microbatch_count,
    };
    const ana_rank_step *last =
        course->step_count > 0 ? &course->steps[course->step_count - 1] : NULL;
    if (last != NULL && last->rank_count == step.rank_count &&
        last->replica_count == step.replica_count &&
        last->microbatch_count == step.microbatch_count) {
        return;
    }
    if (course->step_count == ANA_COURSE_MAX) return;
    course->steps = grow(course->memory, course->steps, course->step_count, sizeof step);
    course->steps[course->step_count++] = step;
}

/// Keeps the length of an iteration; of too many every other one, then every fourth.
static void add_length(ana_course *course, const bal_training_iteration *iteration)
{
    if (iteration->iteration % course->iteration_stride != 0) return;
    if (course->iteration_kept_count == ANA_COURSE_MAX) {
        for (int kept = 0; kept < ANA_COURSE_MAX / 2; kept++) {
            course->iteration_ns[kept] = course->iteration_ns[2 * kept];
        }
        course->iteration_kept_count /= 2;
        course->iteration_stride *= 2;
    }
    course->iteration_ns = grow(course->memory, course->iteration_ns, course->iteration_kept_count,
                                sizeof *course->iteration_ns);
    course->iteration_ns[course->iteration_kept_count++] = iteration->iteration_ns;
}

static int ascending(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left;
    const int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

int64_t ana_course_quantile_ns(ana_course *course, double share)
{
    const int count = course->iteration_kept_count;
    if (count == 0) return 0;
    qsort(course->iteration_ns, (size_t)count, sizeof *course->iteration_ns, ascending);
    const int at = (int)ceil(share * count);
    return course->iteration_ns[at < 1 ? 0 : at - 1];
}

void ana_course_add(ana_course *course, const bal_training_iteration *iteration)
{
    add_length(course, iteration);
    add_ranks(course, iteration);
    if (iteration->was_asked) add_decision(course, iteration);
}
