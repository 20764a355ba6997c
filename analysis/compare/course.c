#include "analysis/compare/course.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void ana_course_init(ana_course *course, arena *memory)
{
    *course = (ana_course){.memory = memory, .iteration_stride = 1};
}

/// Makes room for one item more in an array of the course's memory.
static void grow(arena *memory, void **items, int count, int *capacity, size_t item_bytes)
{
    if (count < *capacity) return;
    const int wanted = *capacity == 0 ? 16 : 2 * *capacity;
    void *larger = arena_array(memory, (size_t)wanted, item_bytes);
    if (count > 0) memcpy(larger, *items, (size_t)count * item_bytes);
    *items = larger;
    *capacity = wanted;
}

static status add_decision(ana_course *course, const bal_training_iteration *iteration)
{
    void *decisions = course->decisions;
    course->reason_counts[iteration->reason]++;
    course->acted_count += iteration->action != BAL_ACTION_KEEP;
    course->decision_ns += iteration->decision_ns;
    course->migration_ns += iteration->migration_ns;
    if (course->decision_count == ANA_COURSE_MAX) {
        course->is_cut = true;
        return STATUS_OK;
    }
    grow(course->memory, &decisions, course->decision_count, &course->decision_capacity,
         sizeof *course->decisions);
    course->decisions = decisions;
    course->decisions[course->decision_count++] = (ana_decision){
        .iteration = iteration->iteration,
        .action = iteration->action,
        .reason = iteration->reason,
        .moved_layer_count = iteration->moved_layer_count,
        .moved_bytes = iteration->moved_bytes,
        .decision_ns = iteration->decision_ns,
        .migration_ns = iteration->migration_ns,
    };
    return STATUS_OK;
}

static bool is_same(const ana_rank_step *step, const bal_training_iteration *iteration)
{
    return step->rank_count == iteration->rank_count &&
           step->replica_count == iteration->replica_count &&
           step->microbatch_count == iteration->microbatch_count;
}

static void add_step(ana_course *course, const bal_training_iteration *iteration)
{
    void *steps = course->steps;
    if (course->step_count == ANA_COURSE_MAX) {
        course->is_cut = true;
        return;
    }
    grow(course->memory, &steps, course->step_count, &course->step_capacity, sizeof *course->steps);
    course->steps = steps;
    course->steps[course->step_count++] = (ana_rank_step){
        .from_iteration = iteration->iteration,
        .rank_count = iteration->rank_count,
        .replica_count = iteration->replica_count,
        .microbatch_count = iteration->microbatch_count,
    };
}

/// Keeps the length of an iteration; of too many every other one, then every fourth.
static void add_length(ana_course *course, const bal_training_iteration *iteration)
{
    void *lengths = course->iteration_ns;
    if (iteration->iteration % course->iteration_stride != 0) return;
    if (course->iteration_kept_count == ANA_COURSE_MAX) {
        for (int kept = 0; kept < ANA_COURSE_MAX / 2; kept++) {
            course->iteration_ns[kept] = course->iteration_ns[2 * kept];
        }
        course->iteration_kept_count /= 2;
        course->iteration_stride *= 2;
    }
    grow(course->memory, &lengths, course->iteration_kept_count, &course->iteration_capacity,
         sizeof *course->iteration_ns);
    course->iteration_ns = lengths;
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

status ana_course_add(ana_course *course, const bal_training_iteration *iteration)
{
    course->changed_count += iteration->changed;
    add_length(course, iteration);
    if (course->step_count == 0 || !is_same(&course->steps[course->step_count - 1], iteration)) {
        add_step(course, iteration);
    }
    return iteration->was_asked ? add_decision(course, iteration) : STATUS_OK;
}
