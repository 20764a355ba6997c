#include "analysis/compare/course.h"

#include <string.h>

/// The moves with room for one more: twice as many whenever their number is a power of two.
static ana_move *grow(const ana_course *course)
{
    const size_t count = (size_t)course->move_count;
    if ((count & (count - 1)) != 0) return course->moves;
    ana_move *larger = arena_array(course->memory, count == 0 ? 1 : 2 * count, sizeof *larger);
    if (count > 0) memcpy(larger, course->moves, count * sizeof *larger);
    return larger;
}

void ana_course_add(ana_course *course, const bal_training_iteration *iteration)
{
    if (!iteration->was_asked) return;
    course->asked_count++;
    course->reason_counts[iteration->reason]++;
    course->decision_ns += iteration->decision_ns;
    course->migration_ns += iteration->migration_ns;
    if (iteration->action == BAL_ACTION_KEEP) return;
    course->acted_count++;
    if (course->move_count == ANA_COURSE_MAX) return;
    course->moves = grow(course);
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
