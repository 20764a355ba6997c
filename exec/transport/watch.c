#include "exec/transport/watch.h"

#include "exec/clock.h"

#include <stdio.h>

bool exec_failure_take(exec_failure *failure, const exec_failure_note *note)
{
    if (atomic_exchange(&failure->is_taken, true)) return false;
    failure->note = *note;
    atomic_store(&failure->has_failed, true);
    return true;
}

status exec_failure_tell(const exec_failure *failure, error_message *err)
{
    if (!atomic_load(&failure->has_failed)) return STATUS_OK;
    return error_set(err, STATUS_BACKEND, "%s", failure->note.why.message);
}

status exec_failure_end(const exec_failure *failure, const exec_transport_options *options,
                        int rank, error_message *err)
{
    const exec_failure_note *note = &failure->note;
    if (!atomic_load(&failure->has_failed)) return STATUS_OK;
    *options->speaks = rank == (note->lost_rank == 0 && options->rank_count > 1 ? 1 : 0);
    return error_set(err, note->why.code, "%s", note->why.message);
}

static const char *activity_text(const exec_watch *watch, int index, char out[EXEC_ACTIVITY_BYTES])
{
    const exec_endpoint *endpoint = &watch->ranks[index].endpoint;
    return exec_activity_text(&endpoint->activity, endpoint->rank, out);
}

static bool waits(const exec_watch *watch, int index)
{
    return atomic_load(&watch->ranks[index].waits_for) > 0;
}

/// The first rank that neither waits nor has ended, or -1.
static int first_busy(const exec_watch *watch)
{
    for (int index = 0; index < watch->rank_count; index++) {
        if (!waits(watch, index) && !atomic_load(&watch->ranks[index].has_ended)) return index;
    }
    return -1;
}

/// The first rank that waits for what shall come soon, or -1: one that is released waits for as
/// long as the others do without it.
static int first_waiting(const exec_watch *watch)
{
    for (int index = 0; index < watch->rank_count; index++) {
        const exec_activity *activity = &watch->ranks[index].endpoint.activity;
        if (waits(watch, index) && atomic_load(&activity->what) != EXEC_PHASE_RELEASED) {
            return index;
        }
    }
    return -1;
}

/// Whether a rank has got on since the last look, or sleeps until a moment that has not come yet.
static bool has_moved(exec_watch *watch, int64_t now_ns)
{
    uint64_t moves = 0;
    bool is_asleep = false;
    for (int index = 0; index < watch->rank_count; index++) {
        const exec_watched *rank = &watch->ranks[index];
        moves += atomic_load_explicit(&rank->move_count, memory_order_relaxed);
        is_asleep |= atomic_load_explicit(&rank->sleep_until_ns, memory_order_relaxed) > now_ns;
    }
    const bool moved = is_asleep || moves != watch->move_count;
    watch->move_count = moves;
    return moved;
}

/// The index of the rank that a rank waits for; -1 where it does not wait, or for one elsewhere.
static int awaited_index(const exec_watch *watch, int index)
{
    const int awaited = atomic_load(&watch->ranks[index].waits_for) - 1;
    for (int other = 0; other < watch->rank_count; other++) {
        if (watch->ranks[other].endpoint.rank == awaited) return other;
    }
    return -1;
}

/// Where no rank can go on, this one neither: who waits for whom, in a circle or for one that has
/// ended.
static status tell_waits(const exec_watch *watch, int index, error_message *why)
{
    char text[EXEC_ACTIVITY_BYTES];
    char chain[sizeof why->message] = "";
    size_t length = 0;
    // After as many steps as there are ranks this is one of the circle, or the last before its end.
    for (int step = 0; step < watch->rank_count; step++) {
        const int next = awaited_index(watch, index);
        if (next >= 0 && waits(watch, next)) index = next;
    }
    const int first = index;
    do {
        const int awaited = atomic_load(&watch->ranks[index].waits_for) - 1;
        length +=
            (size_t)snprintf(chain + length, sizeof chain - length, "%s%s waits for rank %d",
                             length > 0 ? "; " : "", activity_text(watch, index, text), awaited);
        index = awaited_index(watch, index);
    } while (index >= 0 && index != first && waits(watch, index) &&
             length < sizeof chain - EXEC_ACTIVITY_BYTES - 32);
    const bool is_end = index >= 0 && atomic_load(&watch->ranks[index].has_ended);
    return error_set(why, STATUS_BACKEND, "%s%s", chain, is_end ? ", which has ended" : "");
}

status exec_watch_look(exec_watch *watch, exec_failure_note *note)
{
    static const int64_t look_max_ns = 1000000000;
    const int64_t now_ns = exec_monotonic_ns();
    const int64_t passed_ns = watch->looked_ns > 0 ? now_ns - watch->looked_ns : 0;
    const bool all_waited = watch->all_waited;
    const int busy = first_busy(watch);
    watch->looked_ns = now_ns;
    watch->all_waited = busy < 0;
    note->lost_rank = -1;
    if (watch->interrupt != NULL && atomic_load(watch->interrupt)) {
        return error_set(&note->why, STATUS_BACKEND, "interrupted");
    }
    if (has_moved(watch, now_ns)) {
        watch->quiet_ns = 0;
        return STATUS_OK;
    }
    // A machine that stood still, or a job that was stopped and goes on, is not a quiet run.
    watch->quiet_ns += passed_ns < look_max_ns ? passed_ns : look_max_ns;
    if (busy < 0) {
        const int waiting = first_waiting(watch);
        if (!all_waited || waiting < 0 || watch->quiet_ns < watch->waiting_ns) return STATUS_OK;
        return tell_waits(watch, waiting, &note->why);
    }
    if (watch->quiet_ns < watch->watchdog_ns) return STATUS_OK;
    char text[EXEC_ACTIVITY_BYTES];
    note->lost_rank = watch->ranks[busy].endpoint.rank;
    return error_set(&note->why, STATUS_BACKEND, "%s: hangs: no rank has moved for %.3g s",
                     activity_text(watch, busy, text), (double)watch->watchdog_ns / 1e9);
}
