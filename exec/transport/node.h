/// What the ranks of one machine share where each is a process: a bell to wake each of them, what
/// each is at, whether it still lives, and the first failure. No messages: those are the
/// transport's.
///
/// All of it lies in a piece of memory that the processes share, which the caller provides, all
/// zero. Every rank joins it; all must have joined before any other call.
#pragma once

#include "base/status.h"
#include "exec/transport/transport.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct exec_node_memory exec_node_memory; // shared

/// A rank's own view of the node.
typedef struct exec_node {
    exec_node_memory *memory;
    int self;       // index of this rank on the node
    int rank_count; // on the node
    int64_t watchdog_ns;
    int64_t quiet_ns;    // for so long it has seen nothing move
    int64_t watched_ns;  // when it last looked
    uint64_t seen_moves; // of all ranks, then
    bool sees_processes; // process numbers mean something here: none for containers per rank
} exec_node;

/// A failure as all ranks of the run tell it.
typedef struct exec_node_failure {
    status code;
    int lost_rank; // of the world: gone, or does not answer; -1: all live
    char message[sizeof(((error_message *)NULL)->message)];
} exec_node_failure;

/// Size of the shared memory.
size_t exec_node_bytes(int rank_count);

/// Takes this rank's place.
///
/// @param memory      exec_node_bytes(rank_count), aligned to 64 bytes; zero before the first joins
/// @param self        index on the node, in [0, rank_count)
/// @param world_rank  rank of the world
void exec_node_join(exec_node *node, void *memory, int self, int rank_count, int world_rank,
                    int64_t watchdog_ns);

/// The endpoint of this rank; in shared memory, so that the others can read what it is at.
exec_endpoint *exec_node_endpoint(const exec_node *node);

/// Notes that there is a message with this key for the rank with this index, and wakes it if it
/// waits for it (exec_node_note_wait). Two processes never meet in more than a few atomic
/// operations, so a rank that dies leaves nothing locked.
void exec_node_ring(const exec_node *node, int index, uint64_t key);

/// Messages that were rung for this rank so far; wraps around.
uint32_t exec_node_rung_count(const exec_node *node);

/// State of this rank's bell, to be taken before looking for messages: exec_node_sleep returns at
/// once if it was rung since.
uint32_t exec_node_bell(const exec_node *node);

/// Sleeps until the bell has been rung since it was `bell`, the run failed, a signal came, or
/// until_ns.
void exec_node_sleep(const exec_node *node, uint32_t bell, int64_t until_ns);

/// What this rank waits for: a message of a world rank with this key (of itself: any of any rank),
/// a clock (until_ns > 0), or nothing (-1, 0, 0): then it is busy. To be called before the look for
/// messages that comes before a sleep, and again at least every second of a wait: a sign of life.
void exec_node_note_wait(const exec_node *node, int from, uint64_t key, int64_t until_ns);

/// This rank got on: it sent, received or woke.
void exec_node_note_move(const exec_node *node);

/// Ranks of another node got on.
void exec_node_note_beat(const exec_node *node);

/// Moves of all ranks of this node so far.
uint64_t exec_node_move_count(const exec_node *node);

/// Makes this the failure of the run unless there is one already, and wakes everybody.
void exec_node_fail(const exec_node *node, const exec_node_failure *failure);

/// Whether the run has failed. Costs one load.
bool exec_node_has_failed(const exec_node *node);

/// The failure, after exec_node_has_failed.
const exec_node_failure *exec_node_first_failure(const exec_node *node);

/// Looks after the others, a few times a second while this rank waits. It is a failure where a
/// process of the node is gone, or where nothing on the node has moved for watchdog_ns, told as
/// who hangs or who waits for whom.
///
/// @param is_alone false: there are other nodes, which know better who hangs if all ranks of this
///                 one wait: it then takes 3 s more
void exec_node_watch(exec_node *node, bool is_alone);

/// Whether the process of the rank with this index is gone.
bool exec_node_is_gone(const exec_node *node, int index);
