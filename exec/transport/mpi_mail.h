/// Messages of ranks over MPI: what goes, what comes, and the memory of both. Nothing here waits.
///
/// A message is one MPI message: its head and behind it its payload, in lines of 64 bytes. Those of
/// ops take a communicator of the active ranks. Part of the module dynmo_mpi.so.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "exec/transport/node.h"
#include "exec/transport/transport.h"

#include <stdbool.h>
#include <stdint.h>

/// A rank's messages.
typedef struct exec_mail exec_mail;

/// Begins on a duplicate of the launcher's communicator. Collective. STATUS_NO_MEMORY, on all ranks
/// if on one.
///
/// @param node       borrowed until the close: its bells tell how many messages have come
/// @param node_index [rank_count] of world ranks; -1: on another node
/// @param memory     the mail itself is carved from it; NULL: out of memory on this rank
/// @param mail       out
status exec_mail_open(const exec_node *node, const int *node_index, int rank, int rank_count,
                      arena *memory, exec_mail **mail, error_message *err);

/// Collective. Messages that nobody took are lost.
status exec_mail_close(exec_mail *mail, error_message *err);

/// Sends a message with this head, and rings the receiver's bell if it is on this node. Of a rank
/// of the active ranks to another, for messages of ops (asserted).
status exec_mail_post(exec_mail *mail, int to, const exec_message *head, const void *payload,
                      error_message *err);

/// Takes in all that has come.
status exec_mail_look(exec_mail *mail, error_message *err);

/// Lets MPI get on with messages that are under way in either direction.
status exec_mail_push_on(exec_mail *mail, error_message *err);

/// Whether MPI may still read a message that was sent.
bool exec_mail_is_leaving(const exec_mail *mail);

/// Whether MPI has to be asked soon, though no bell will ring: messages are under way in either
/// direction.
bool exec_mail_is_under_way(const exec_mail *mail);

/// Whether a bell has rung for a message of this node that was not taken in yet.
bool exec_mail_is_rung(const exec_mail *mail);

/// Whether a message was there at the last look.
///
/// @param head out where it was, or NULL
bool exec_mail_has(const exec_mail *mail, int from, uint64_t key, exec_message *head);

/// Takes a message that was there at the last look (asserted).
///
/// @param payload [capacity_bytes] out; untouched where the message is longer
void exec_mail_take(exec_mail *mail, int from, uint64_t key, exec_message *head, void *payload,
                    int64_t capacity_bytes);

/// Messages of ops since the last regroup: [rank_count] sent to each rank, and received of all.
const int64_t *exec_mail_sent_counts(const exec_mail *mail);
int64_t exec_mail_received_count(const exec_mail *mail);

/// Splits the communicator of the active ranks anew from that of all, and gives up the one before;
/// the counts begin at 0. Collective; all messages of ops must have been received.
///
/// @param is_active [rank_count] the same on all ranks
status exec_mail_regroup(exec_mail *mail, const bool *is_active, error_message *err);
