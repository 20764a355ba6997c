/// The emulated NCCL. A communicator's ranks share a board where sent bytes wait to be received, in
/// the order in which they were sent between each two; a receive of other sizes than what was sent
/// fails, as real ranks would hang.

#include "nccl.h"
#include "base/arena.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 64 };

typedef struct sent_bytes {
    struct sent_bytes *next;
    int from, to;
    size_t byte_count;
    char byte[];
} sent_bytes;

/// What the ranks of a communicator share.
typedef struct board {
    struct board *next; // of all boards
    char name[128];
    int rank_count;
    int user_count;
    sent_bytes *first;
    int split_count; // of this communicator so far
    int come_count;  // to the split in progress
    int left_count;  // of it
    int colour[RANKS_MAX];
} board;

struct ncclComm {
    board *shared;
    int rank;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static board *boards;
static int id_count;

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    pthread_mutex_lock(&lock);
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "world %d", id_count++);
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

/// With the lock held: the board of a name, or a new one.
static board *join(const char *name, int rank_count)
{
    board *found = boards;
    while (found != NULL && strcmp(found->name, name) != 0) {
        found = found->next;
    }
    if (found == NULL) {
        found = memory_array(1, sizeof *found);
        if (found == NULL) abort();
        snprintf(found->name, sizeof found->name, "%s", name);
        found->rank_count = rank_count;
        found->next = boards;
        boards = found;
    }
    found->user_count++;
    return found;
}

static ncclComm_t communicator_of(board *shared, int rank)
{
    ncclComm_t made = memory_array(1, sizeof *made);
    if (made == NULL) abort();
    *made = (struct ncclComm){shared, rank};
    return made;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *communicator, int rank_count, ncclUniqueId id,
                                    int rank, ncclConfig_t *config)
{
    if (rank_count > RANKS_MAX || rank >= rank_count || config->blocking != 0) {
        return ncclInvalidArgument;
    }
    pthread_mutex_lock(&lock);
    *communicator = communicator_of(join(id.internal, rank_count), rank);
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

/// All ranks come with their colours, and leave when all have come.
ncclResult_t ncclCommSplit(ncclComm_t communicator, int colour, int key, ncclComm_t *split,
                           ncclConfig_t *config)
{
    (void)key;
    (void)config;
    board *parent = communicator->shared;
    pthread_mutex_lock(&lock);
    while (parent->left_count > 0) {
        pthread_cond_wait(&moved, &lock); // the split before is still being left
    }
    parent->colour[communicator->rank] = colour;
    parent->come_count++;
    pthread_cond_broadcast(&moved);
    while (parent->come_count < parent->rank_count && parent->left_count == 0) {
        pthread_cond_wait(&moved, &lock);
    }
    *split = NULL;
    if (colour != NCCL_SPLIT_NOCOLOR) {
        int rank = 0, rank_count = 0;
        for (int other = 0; other < parent->rank_count; other++) {
            rank += other < communicator->rank && parent->colour[other] == colour;
            rank_count += parent->colour[other] == colour;
        }
        char name[sizeof parent->name];
        const int length = snprintf(name, sizeof name, "%.60s, split %d, colour %d", parent->name,
                                    parent->split_count, colour);
        if (length < 0) abort();
        *split = communicator_of(join(name, rank_count), rank);
    }
    if (++parent->left_count == parent->rank_count) {
        parent->left_count = 0;
        parent->come_count = 0;
        parent->split_count++;
    }
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator)
{
    pthread_mutex_lock(&lock);
    board *shared = communicator->shared;
    if (--shared->user_count == 0) {
        board **at = &boards;
        while (*at != shared) {
            at = &(*at)->next;
        }
        *at = shared->next;
        while (shared->first != NULL) {
            sent_bytes *first = shared->first;
            shared->first = first->next;
            free(first);
        }
        free(shared);
    }
    free(communicator);
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t communicator)
{
    return ncclCommDestroy(communicator);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t *state)
{
    (void)communicator;
    *state = ncclSuccess;
    return ncclSuccess;
}

/// Sends of a group are buffered, so its operations may as well run one by one, sends first where
/// the caller lists them first.
ncclResult_t ncclGroupStart(void)
{
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    return ncclSuccess;
}

ncclResult_t ncclSend(const void *memory, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream)
{
    (void)type;
    (void)stream;
    board *shared = communicator->shared;
    if (peer < 0 || peer >= shared->rank_count) return ncclInvalidArgument;
    sent_bytes *sent = memory_array(1, sizeof *sent + count);
    if (sent == NULL) abort();
    *sent = (sent_bytes){.from = communicator->rank, .to = peer, .byte_count = count};
    memcpy(sent->byte, memory, count);
    pthread_mutex_lock(&lock);
    sent_bytes **end = &shared->first;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = sent;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

ncclResult_t ncclRecv(void *memory, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream)
{
    (void)type;
    (void)stream;
    board *shared = communicator->shared;
    if (peer < 0 || peer >= shared->rank_count) return ncclInvalidArgument;
    pthread_mutex_lock(&lock);
    sent_bytes **at = NULL;
    for (;;) {
        at = &shared->first;
        while (*at != NULL && ((*at)->from != peer || (*at)->to != communicator->rank)) {
            at = &(*at)->next;
        }
        if (*at != NULL) break;
        pthread_cond_wait(&moved, &lock);
    }
    sent_bytes *sent = *at;
    const bool fits = sent->byte_count == count;
    if (fits) memcpy(memory, sent->byte, count);
    *at = sent->next;
    free(sent);
    pthread_mutex_unlock(&lock);
    return fits ? ncclSuccess : ncclInvalidUsage;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclSuccess ? "no error" : "an emulated call failed";
}
