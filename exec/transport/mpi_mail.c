#include "exec/transport/mpi_mail.h"

#include "base/arena.h"
#include "exec/check.h"

#include <mpi.h>

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = sizeof(exec_message), TAG = 0, SIZE_CLASSES = 21, SPARE_BYTES_MAX = 256 << 20 };

/// A message that comes, in the list of its sender, or goes, in that of those that MPI may still
/// read.
typedef struct parcel {
    struct parcel *next;
    MPI_Request request; // MPI_REQUEST_NULL: it is there
    int size_class;      // room for 2^size_class lines; -1: for just its own
    exec_message head;   // its first line
    char payload[];
} parcel;
_Static_assert(offsetof(parcel, payload) == offsetof(parcel, head) + sizeof(exec_message),
               "the payload lies behind the head, as in the message");

typedef struct arrivals {
    parcel *first;
    parcel **end; // where the next is hung
} arrivals;

struct exec_mail {
    const exec_node *node;
    const int *node_index; // [rank_count] -1: on another node
    int rank;              // of the world
    int rank_count;
    bool is_alone;    // no other node
    MPI_Comm world;   // a duplicate of the launcher's
    MPI_Comm active;  // that messages of ops take: world until it is split; or NULL
    int *active_rank; // [rank_count] of world ranks; -1: released
    int *world_rank;  // [rank_count] of active ranks
    MPI_Datatype line;
    uint32_t taken_count; // messages from this node
    arrivals *arrivals;   // [rank_count] by sender
    int coming_count;     // parcels that are not there yet
    parcel *leaving;      // oldest first
    parcel **leaving_end; // where the next is hung
    parcel *spare[SIZE_CLASSES];
    int64_t spare_bytes;    // of all of them
    int64_t *sent_count;    // [rank_count] messages of ops since the last regroup
    int64_t received_count; // messages of ops since the last regroup
};

/// Whether it is an op's, and so takes the communicator of the active ranks.
static bool is_of_op(uint64_t key)
{
    const uint64_t kind = key >> 60;
    return kind == EXEC_MESSAGE_FORWARD || kind == EXEC_MESSAGE_BACKWARD ||
           kind == EXEC_MESSAGE_REDUCE;
}

static int lines_of(int64_t payload_bytes)
{
    const int64_t lines = 1 + (payload_bytes + LINE_BYTES - 1) / LINE_BYTES;
    assert(payload_bytes >= 0 && lines <= INT_MAX);
    return (int)lines;
}

// Memory of messages

static int64_t class_bytes(int size_class)
{
    return (INT64_C(1) << size_class) * LINE_BYTES;
}

/// Memory for a message of so many lines. What has been given back is used again: the system would
/// hand it out page by page, for about as long as the message takes.
static parcel *take_parcel(exec_mail *mail, int lines)
{
    int size_class = 0;
    while (size_class < SIZE_CLASSES && 1 << size_class < lines) {
        size_class++;
    }
    if (size_class == SIZE_CLASSES) size_class = -1;
    parcel *taken = size_class < 0 ? NULL : mail->spare[size_class];
    if (taken != NULL) {
        mail->spare[size_class] = taken->next;
        mail->spare_bytes -= class_bytes(size_class);
    } else {
        const int64_t bytes =
            size_class < 0 ? lines * (int64_t)LINE_BYTES : class_bytes(size_class);
        taken = memory_array(1, offsetof(parcel, head) + (size_t)bytes);
        if (taken == NULL) return NULL;
    }
    taken->next = NULL;
    taken->request = MPI_REQUEST_NULL;
    taken->size_class = size_class;
    return taken;
}

static void give_parcel(exec_mail *mail, parcel *given)
{
    const int size_class = given->size_class;
    if (size_class < 0 || mail->spare_bytes + class_bytes(size_class) > SPARE_BYTES_MAX) {
        free(given);
        return;
    }
    given->next = mail->spare[size_class];
    mail->spare[size_class] = given;
    mail->spare_bytes += class_bytes(size_class);
}

// What comes

static void append(exec_mail *mail, int from, parcel *last)
{
    arrivals *list = &mail->arrivals[from];
    last->next = NULL;
    *list->end = last;
    list->end = &last->next;
}

static status test_parcel(exec_mail *mail, parcel *coming, error_message *err)
{
    int is_there = 0;
    TRY_MPI(MPI_Test(&coming->request, &is_there, MPI_STATUS_IGNORE));
    if (is_there == 0) return STATUS_OK;
    mail->coming_count--;
    if (is_of_op(coming->head.key)) mail->received_count++;
    return STATUS_OK;
}

/// Takes one message that MPI has announced.
static status take_in(exec_mail *mail, int from, MPI_Message *message, const MPI_Status *found,
                      error_message *err)
{
    int lines = 0;
    TRY_MPI(MPI_Get_count(found, mail->line, &lines));
    parcel *coming = take_parcel(mail, lines);
    append(mail, from, coming);
    mail->coming_count++;
    if (mail->node_index[from] >= 0) mail->taken_count++;
    TRY_MPI(MPI_Imrecv(&coming->head, lines, mail->line, message, &coming->request));
    return test_parcel(mail, coming, err);
}

/// One may be taken before its bell.
bool exec_mail_is_rung(const exec_mail *mail)
{
    return (int32_t)(exec_node_rung_count(mail->node) - mail->taken_count) > 0;
}

bool exec_mail_is_under_way(const exec_mail *mail)
{
    return mail->leaving != NULL || mail->coming_count > 0;
}

/// Takes what has come through a communicator. MPI is not asked in vain where the bell tells how
/// many there are: when it has nothing it lets others run first, which on a busy machine takes
/// long.
static status look_at(exec_mail *mail, MPI_Comm comm, error_message *err)
{
    for (int in_vain = 0; in_vain < 2 && (!mail->is_alone || exec_mail_is_rung(mail)); in_vain++) {
        int is_there = 0;
        MPI_Message message;
        MPI_Status found;
        TRY_MPI(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &is_there, &message, &found));
        if (is_there == 0) continue;
        const int from =
            comm == mail->world ? found.MPI_SOURCE : mail->world_rank[found.MPI_SOURCE];
        TRY(take_in(mail, from, &message, &found, err));
        in_vain = -1;
    }
    return STATUS_OK;
}

/// Of messages that leave the oldest is asked after: they are done about in their order, and nobody
/// waits for the others.
status exec_mail_push_on(exec_mail *mail, error_message *err)
{
    for (int from = 0; mail->coming_count > 0 && from < mail->rank_count; from++) {
        for (parcel *next = mail->arrivals[from].first; next != NULL; next = next->next) {
            if (next->request != MPI_REQUEST_NULL) TRY(test_parcel(mail, next, err));
        }
    }
    while (mail->leaving != NULL) {
        parcel *oldest = mail->leaving;
        int is_gone = 0;
        TRY_MPI(MPI_Test(&oldest->request, &is_gone, MPI_STATUS_IGNORE));
        if (is_gone == 0) break;
        mail->leaving = oldest->next;
        if (mail->leaving == NULL) mail->leaving_end = &mail->leaving;
        give_parcel(mail, oldest);
    }
    return STATUS_OK;
}

/// A message that is rung for comes at once, but for one that MPI itself holds back: hence the
/// limit.
status exec_mail_look(exec_mail *mail, error_message *err)
{
    for (int tries = 0; tries < 20 && (!mail->is_alone || exec_mail_is_rung(mail)); tries++) {
        if (mail->active != MPI_COMM_NULL && mail->active != mail->world) {
            TRY(look_at(mail, mail->active, err));
        }
        TRY(look_at(mail, mail->world, err));
        if (!exec_mail_is_rung(mail)) break;
    }
    // What MPI moves in steps needs some before it is there.
    for (int steps = 0; steps < 8 && mail->coming_count > 0; steps++) {
        TRY(exec_mail_push_on(mail, err));
    }
    return mail->leaving != NULL ? exec_mail_push_on(mail, err) : STATUS_OK;
}

/// Where the first message with this key stands; NULL if it is not there. Messages of one sender
/// keep their order, so one that is still coming hides those behind it.
static parcel **find(const exec_mail *mail, int from, uint64_t key)
{
    parcel **at = &mail->arrivals[from].first;
    while (*at != NULL && (*at)->request == MPI_REQUEST_NULL) {
        if ((*at)->head.key == key) return at;
        at = &(*at)->next;
    }
    return NULL;
}

static parcel *take_out(exec_mail *mail, int from, parcel **at)
{
    parcel *taken = *at;
    *at = taken->next;
    if (taken->next == NULL) mail->arrivals[from].end = at;
    return taken;
}

// What goes

status exec_mail_post(exec_mail *mail, int to, const exec_message *head, const void *payload,
                      error_message *err)
{
    const int lines = lines_of(head->payload_bytes);
    parcel *sent = take_parcel(mail, lines);
    sent->head = *head;
    if (head->payload_bytes > 0) memcpy(sent->payload, payload, (size_t)head->payload_bytes);
    const int64_t padding = (lines - 1) * (int64_t)LINE_BYTES - head->payload_bytes;
    memset(sent->payload + head->payload_bytes, 0, (size_t)padding);
    const bool of_op = is_of_op(head->key);
    MPI_Comm comm = of_op ? mail->active : mail->world;
    const int rank = of_op ? mail->active_rank[to] : to;
    assert(comm != MPI_COMM_NULL && rank >= 0); // released ranks exchange no messages of ops
    *mail->leaving_end = sent;
    mail->leaving_end = &sent->next;
    if (of_op) mail->sent_count[to]++;
    TRY_MPI(MPI_Isend(&sent->head, lines, mail->line, rank, TAG, comm, &sent->request));
    if (mail->node_index[to] >= 0) exec_node_ring(mail->node, mail->node_index[to], head->key);
    return exec_mail_push_on(mail, err);
}

bool exec_mail_is_leaving(const exec_mail *mail)
{
    return mail->leaving != NULL;
}

bool exec_mail_has(const exec_mail *mail, int from, uint64_t key, exec_message *head)
{
    parcel **at = find(mail, from, key);
    if (at != NULL && head != NULL) *head = (*at)->head;
    return at != NULL;
}

void exec_mail_take(exec_mail *mail, int from, uint64_t key, exec_message *head, void *payload,
                    int64_t capacity_bytes)
{
    parcel **at = find(mail, from, key);
    assert(at != NULL);
    parcel *taken = take_out(mail, from, at);
    const int64_t bytes = taken->head.payload_bytes;
    *head = taken->head;
    if (bytes > 0 && bytes <= capacity_bytes) memcpy(payload, taken->payload, (size_t)bytes);
    give_parcel(mail, taken);
}

const int64_t *exec_mail_sent_counts(const exec_mail *mail)
{
    return mail->sent_count;
}

int64_t exec_mail_received_count(const exec_mail *mail)
{
    return mail->received_count;
}

/// Notes who is active, and counts from 0.
static void note_active(exec_mail *mail, const bool *is_active)
{
    int active_count = 0;
    for (int rank = 0; rank < mail->rank_count; rank++) {
        mail->active_rank[rank] = is_active[rank] ? active_count : -1;
        if (is_active[rank]) mail->world_rank[active_count++] = rank;
        mail->sent_count[rank] = 0;
    }
    mail->received_count = 0;
}

static status give_up_active(exec_mail *mail, error_message *err)
{
    if (mail->active != mail->world && mail->active != MPI_COMM_NULL) {
        TRY_MPI(MPI_Comm_free(&mail->active));
    }
    mail->active = MPI_COMM_NULL;
    return STATUS_OK;
}

status exec_mail_regroup(exec_mail *mail, const bool *is_active, error_message *err)
{
    note_active(mail, is_active);
    TRY(give_up_active(mail, err));
    TRY_MPI(MPI_Comm_split(mail->world, is_active[mail->rank] ? 0 : MPI_UNDEFINED, mail->rank,
                           &mail->active));
    if (mail->active != MPI_COMM_NULL) {
        TRY_MPI(MPI_Comm_set_errhandler(mail->active, MPI_ERRORS_RETURN));
    }
    return STATUS_OK;
}

/// The mail and all its arrays; NULL if out of memory.
static exec_mail *carve(arena *memory, size_t rank_count)
{
    exec_mail *mail = memory != NULL ? arena_array(memory, 1, sizeof *mail) : NULL;
    if (mail == NULL) return NULL;
    mail->active_rank = arena_array(memory, rank_count, sizeof *mail->active_rank);
    mail->world_rank = arena_array(memory, rank_count, sizeof *mail->world_rank);
    mail->arrivals = arena_array(memory, rank_count, sizeof *mail->arrivals);
    mail->sent_count = arena_array(memory, rank_count, sizeof *mail->sent_count);
    const bool has_all = mail->active_rank != NULL && mail->world_rank != NULL &&
                         mail->arrivals != NULL && mail->sent_count != NULL;
    return has_all ? mail : NULL;
}

/// Fills the fields that are not 0 at the begin.
static void init(exec_mail *mail, const exec_node *node, const int *node_index, int rank,
                 int rank_count)
{
    mail->node = node;
    mail->node_index = node_index;
    mail->rank = rank;
    mail->rank_count = rank_count;
    mail->is_alone = node->rank_count == rank_count;
    mail->leaving_end = &mail->leaving;
    for (int other = 0; other < rank_count; other++) {
        mail->active_rank[other] = other;
        mail->world_rank[other] = other;
        mail->arrivals[other].end = &mail->arrivals[other].first;
    }
}

status exec_mail_open(const exec_node *node, const int *node_index, int rank, int rank_count,
                      arena *memory, exec_mail **mail, error_message *err)
{
    exec_mail *made = carve(memory, (size_t)rank_count);
    int has_memory = made != NULL;
    TRY_MPI(MPI_Allreduce(MPI_IN_PLACE, &has_memory, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    if (made == NULL || has_memory == 0) {
        return error_set(err, STATUS_NO_MEMORY, "out of memory for %d ranks", rank_count);
    }
    init(made, node, node_index, rank, rank_count);
    TRY_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &made->world));
    TRY_MPI(MPI_Comm_set_errhandler(made->world, MPI_ERRORS_RETURN));
    made->active = made->world;
    TRY_MPI(MPI_Type_contiguous(LINE_BYTES, MPI_BYTE, &made->line));
    TRY_MPI(MPI_Type_commit(&made->line));
    *mail = made;
    return STATUS_OK;
}

static void free_parcels(exec_mail *mail)
{
    for (int rank = 0; rank < mail->rank_count; rank++) {
        while (mail->arrivals[rank].first != NULL) {
            free(take_out(mail, rank, &mail->arrivals[rank].first));
        }
    }
    for (int size_class = 0; size_class < SIZE_CLASSES; size_class++) {
        while (mail->spare[size_class] != NULL) {
            parcel *spare = mail->spare[size_class];
            mail->spare[size_class] = spare->next;
            free(spare);
        }
    }
}

status exec_mail_close(exec_mail *mail, error_message *err)
{
    free_parcels(mail);
    TRY(give_up_active(mail, err));
    TRY_MPI(MPI_Comm_free(&mail->world));
    TRY_MPI(MPI_Type_free(&mail->line));
    return STATUS_OK;
}
