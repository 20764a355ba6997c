#include "exec/transport/node.h"

#include "exec/monotonic_clock.h"

#include <assert.h>
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/// One rank, on cache lines of its own.
typedef struct node_rank {
    _Alignas(64) _Atomic uint32_t bell; // grows with every ring; the futex
    _Atomic uint32_t rung_count;        // messages
    _Atomic uint32_t is_asleep;
    _Alignas(64) _Atomic uint64_t move_count;
    _Atomic int64_t alive_ns; // last sign of life in a wait
    _Atomic int64_t wait_until_ns;
    _Atomic uint64_t wait_key;
    _Atomic int wait_from;
    _Atomic int process;
    _Atomic int world_rank;
    exec_endpoint endpoint;
    exec_node_failure failure; // read by others only if it was the first
} node_rank;

struct exec_node_memory {
    _Alignas(64) _Atomic int first_failed; // index + 1 of whose failure was first; 0: none
    _Atomic uint64_t beat_count;           // of other nodes
    node_rank ranks[];                     // [rank_count]
};

static node_rank *own_rank(const exec_node *node)
{
    return &node->memory->ranks[node->self];
}

size_t exec_node_bytes(int rank_count)
{
    return sizeof(exec_node_memory) + (size_t)rank_count * sizeof(node_rank);
}

void exec_node_join(exec_node *node, void *memory, int self, int rank_count, int world_rank,
                    int64_t watchdog_ns)
{
    assert((uintptr_t)memory % 64 == 0 && self >= 0 && self < rank_count);
    *node = (exec_node){.memory = memory,
                        .self = self,
                        .rank_count = rank_count,
                        .watchdog_ns = watchdog_ns,
                        .watched_ns = exec_monotonic_ns()};
    node_rank *own = own_rank(node);
    atomic_store(&own->wait_from, -1);
    atomic_store(&own->alive_ns, exec_monotonic_ns());
    atomic_store(&own->world_rank, world_rank);
    atomic_store(&own->process, (int)getpid());
}

exec_endpoint *exec_node_endpoint(const exec_node *node)
{
    return &own_rank(node)->endpoint;
}

static void wake(node_rank *rank)
{
    atomic_fetch_add(&rank->bell, 1);
    if (atomic_load(&rank->is_asleep) != 0) {
        syscall(SYS_futex, &rank->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
}

/// The message is counted before this looks at what the other waits for, and the other says what it
/// waits for before it looks at the count: one of the two sees the other.
void exec_node_ring(const exec_node *node, int index, uint64_t key)
{
    node_rank *rank = &node->memory->ranks[index];
    atomic_fetch_add(&rank->rung_count, 1);
    const int from = atomic_load(&rank->wait_from);
    const bool is_wanted =
        from == atomic_load(&own_rank(node)->world_rank) && atomic_load(&rank->wait_key) == key;
    if (is_wanted || from == atomic_load(&rank->world_rank)) wake(rank);
}

uint32_t exec_node_rung_count(const exec_node *node)
{
    return atomic_load(&own_rank(node)->rung_count);
}

uint32_t exec_node_bell(const exec_node *node)
{
    return atomic_load(&own_rank(node)->bell);
}

void exec_node_sleep(const exec_node *node, uint32_t bell, int64_t until_ns)
{
    node_rank *own = own_rank(node);
    const struct timespec until = exec_timespec_of(until_ns);
    // Who rings either sees that this rank is asleep, or has changed the bell before the kernel
    // compares it: no ring is lost.
    atomic_store(&own->is_asleep, 1);
    syscall(SYS_futex, &own->bell, FUTEX_WAIT_BITSET, bell, &until, NULL, FUTEX_BITSET_MATCH_ANY);
    atomic_store(&own->is_asleep, 0);
}

void exec_node_note_wait(const exec_node *node, int from, uint64_t key, int64_t until_ns)
{
    node_rank *own = own_rank(node);
    atomic_store(&own->wait_key, key);
    atomic_store(&own->wait_from, from);
    atomic_store_explicit(&own->wait_until_ns, until_ns, memory_order_relaxed);
    if (from >= 0 || until_ns > 0) {
        atomic_store_explicit(&own->alive_ns, exec_monotonic_ns(), memory_order_relaxed);
    }
}

void exec_node_note_move(const exec_node *node)
{
    atomic_fetch_add_explicit(&own_rank(node)->move_count, 1, memory_order_relaxed);
}

void exec_node_note_beat(const exec_node *node)
{
    atomic_fetch_add_explicit(&node->memory->beat_count, 1, memory_order_relaxed);
}

uint64_t exec_node_move_count(const exec_node *node)
{
    uint64_t sum = 0;
    for (int index = 0; index < node->rank_count; index++) {
        sum += atomic_load_explicit(&node->memory->ranks[index].move_count, memory_order_relaxed);
    }
    return sum;
}

void exec_node_fail(const exec_node *node, const exec_node_failure *failure)
{
    int none = 0;
    if (exec_node_has_failed(node)) return;
    // Written in full before it can be the first: nobody ever waits for the rest of it.
    own_rank(node)->failure = *failure;
    if (!atomic_compare_exchange_strong(&node->memory->first_failed, &none, node->self + 1)) {
        return;
    }
    for (int index = 0; index < node->rank_count; index++) {
        wake(&node->memory->ranks[index]);
    }
}

bool exec_node_has_failed(const exec_node *node)
{
    return atomic_load_explicit(&node->memory->first_failed, memory_order_acquire) != 0;
}

const exec_node_failure *exec_node_first_failure(const exec_node *node)
{
    const int first = atomic_load(&node->memory->first_failed);
    assert(first > 0);
    return &node->memory->ranks[first - 1].failure;
}

bool exec_node_is_gone(const exec_node *node, int index)
{
    const int process = atomic_load(&node->memory->ranks[index].process);
    return kill((pid_t)process, 0) != 0 && errno == ESRCH;
}

/// "rank 3, iteration 12, F5 of stage 3", of any rank of the node.
static const char *activity_text(const exec_node *node, int index, char out[EXEC_ACTIVITY_BYTES])
{
    const node_rank *rank = &node->memory->ranks[index];
    return exec_activity_text(&rank->endpoint.activity, atomic_load(&rank->world_rank), out);
}

/// Fails the run for a rank that is gone. Processes that this one cannot see from the start, as
/// where every rank has its own container, are no evidence.
static bool find_gone(exec_node *node)
{
    if (!node->sees_processes) {
        for (int index = 0; index < node->rank_count; index++) {
            if (exec_node_is_gone(node, index)) return false;
        }
        node->sees_processes = true;
    }
    for (int index = 0; index < node->rank_count; index++) {
        char text[EXEC_ACTIVITY_BYTES];
        if (!exec_node_is_gone(node, index)) continue;
        exec_node_failure failure = {.code = STATUS_BACKEND,
                                     .lost_rank =
                                         atomic_load(&node->memory->ranks[index].world_rank)};
        snprintf(failure.message, sizeof failure.message, "%s: its process is gone",
                 activity_text(node, index, text));
        exec_node_fail(node, &failure);
        return true;
    }
    return false;
}

/// Whether a rank waits as it should: for a message, and wakes up now and then to tell.
static bool waits(const exec_node *node, int index, int64_t now_ns)
{
    const node_rank *rank = &node->memory->ranks[index];
    const int64_t silent_ns = now_ns - atomic_load(&rank->alive_ns);
    return atomic_load(&rank->wait_from) >= 0 && silent_ns < node->watchdog_ns / 2;
}

/// Tells who hangs, or, where all wait, who waits for whom.
static void find_hung(const exec_node *node, int64_t now_ns)
{
    exec_node_failure failure = {.code = STATUS_BACKEND, .lost_rank = -1};
    char text[EXEC_ACTIVITY_BYTES];
    for (int index = 0; index < node->rank_count; index++) {
        if (waits(node, index, now_ns)) continue;
        failure.lost_rank = atomic_load(&node->memory->ranks[index].world_rank);
        snprintf(failure.message, sizeof failure.message, "%s: hangs: no rank has moved for %.3g s",
                 activity_text(node, index, text), (double)node->watchdog_ns / 1e9);
        exec_node_fail(node, &failure);
        return;
    }
    size_t length = 0;
    for (int index = 0; index < node->rank_count; index++) {
        const size_t room = sizeof failure.message - length;
        const int written = snprintf(failure.message + length, room, "%s%s waits for rank %d",
                                     index > 0 ? "; " : "", activity_text(node, index, text),
                                     atomic_load(&node->memory->ranks[index].wait_from));
        if (written < 0 || (size_t)written >= room) break;
        length += (size_t)written;
    }
    exec_node_fail(node, &failure);
}

/// Whether a rank sleeps until a moment that has not come yet: then the run gets on.
static bool is_planned_sleep(const exec_node *node, int64_t now_ns)
{
    for (int index = 0; index < node->rank_count; index++) {
        if (atomic_load(&node->memory->ranks[index].wait_until_ns) > now_ns) return true;
    }
    return false;
}

void exec_node_watch(exec_node *node, bool is_alone)
{
    static const int64_t look_max_ns = 1000000000;
    static const int64_t others_first_ns = 3000000000;
    const int64_t now_ns = exec_monotonic_ns();
    const int64_t passed_ns = now_ns - node->watched_ns;
    if (exec_node_has_failed(node) || find_gone(node)) return;
    const uint64_t moves = exec_node_move_count(node) + atomic_load(&node->memory->beat_count);
    node->watched_ns = now_ns;
    if (moves != node->seen_moves || is_planned_sleep(node, now_ns)) {
        node->seen_moves = moves;
        node->quiet_ns = 0;
        return;
    }
    // A machine that stood still, or a job that was stopped and goes on, is not a quiet run.
    node->quiet_ns += passed_ns < look_max_ns ? passed_ns : look_max_ns;
    bool all_wait = true;
    for (int index = 0; index < node->rank_count; index++) {
        all_wait = all_wait && waits(node, index, now_ns);
    }
    const int64_t limit_ns = node->watchdog_ns + (all_wait && !is_alone ? others_first_ns : 0);
    if (node->quiet_ns >= limit_ns) find_hung(node, now_ns);
}
