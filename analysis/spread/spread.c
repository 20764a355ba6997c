/// Messages over MPI, in the module dynmo_spread.so: the only file outside exec that names MPI.
///
/// MPI is called by one thread, and never waits: who looks for messages sleeps between the looks,
/// as MPI itself would spin. So a rank that dies keeps nobody inside MPI. After that MPI_Finalize
/// would wait for it for ever, and is not called; the launcher sees processes end without it.
#include "analysis/spread/spread_carrier.h"
#include "analysis/spread/spread_clock.h"
#include "analysis/spread/spread_cores.h"
#include "base/arena.h"
#include "base/loadable.h"
#include "traces/store/process.h"

#include <mpi.h>

#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 1 };
static const int64_t closing_patience_ns = 2000000000;

/// A message under way, from or to this rank.
typedef struct parcel {
    struct parcel *next;
    MPI_Request request;
    int other; // rank
    int byte_count;
    char bytes[];
} parcel;

typedef struct mpi_carrier {
    ana_carrier table; // stays the first member
    MPI_Comm comm;
    parcel *leaving;          // in no order
    parcel *arriving;         // in the order in which MPI announced them
    trace_process *processes; // [rank_count]
} mpi_carrier;

/// The words of MPI for an error.
static status check(int error, const char *what, error_message *err)
{
    char words[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (error == MPI_SUCCESS) return STATUS_OK;
    if (MPI_Error_string(error, words, &length) != MPI_SUCCESS) length = 0;
    return error_set(err, STATUS_BACKEND, "%s: %.*s", what, length, words);
}

#define TRY_CALL(name, arguments) TRY(check(name arguments, #name, err))

static parcel *parcel_create(int other, int64_t byte_count, error_message *err)
{
    if (byte_count > INT_MAX) {
        error_set(err, STATUS_BACKEND, "a message of %" PRId64 " bytes; MPI takes %d", byte_count,
                  INT_MAX);
        return NULL;
    }
    parcel *made = memory_array(1, sizeof *made + (size_t)byte_count);
    if (made == NULL) {
        error_set(err, STATUS_NO_MEMORY, "out of memory");
        return NULL;
    }
    *made = (parcel){.other = other, .byte_count = (int)byte_count};
    return made;
}

/// Frees what has left.
static status sweep(mpi_carrier *all, error_message *err)
{
    for (parcel **link = &all->leaving; *link != NULL;) {
        parcel *sent = *link;
        int is_done = 0;
        TRY_CALL(MPI_Test, (&sent->request, &is_done, MPI_STATUS_IGNORE));
        if (!is_done) {
            link = &sent->next;
            continue;
        }
        *link = sent->next;
        free(sent);
    }
    return STATUS_OK;
}

static status post(ana_carrier *carrier, int to, const void *bytes, int64_t byte_count,
                   error_message *err)
{
    mpi_carrier *all = (mpi_carrier *)carrier;
    error_message why = {.code = STATUS_BACKEND};
    parcel *sent = parcel_create(to, byte_count, &why);
    if (sent == NULL) return error_set(err, why.code, "%s", why.message);
    memcpy(sent->bytes, bytes, (size_t)byte_count);
    const status code = check(
        MPI_Isend(sent->bytes, sent->byte_count, MPI_BYTE, to, TAG, all->comm, &sent->request),
        "MPI_Isend", err);
    if (code != STATUS_OK) {
        free(sent);
        return code;
    }
    sent->next = all->leaving;
    all->leaving = sent;
    return STATUS_OK;
}

/// Begins to receive every message that MPI announces.
static status receive_announced(mpi_carrier *all, error_message *err)
{
    parcel **end = &all->arriving;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    for (;;) {
        int is_there = 0;
        int byte_count = 0;
        MPI_Message message;
        MPI_Status from;
        TRY_CALL(MPI_Improbe, (MPI_ANY_SOURCE, TAG, all->comm, &is_there, &message, &from));
        if (!is_there) return STATUS_OK;
        TRY_CALL(MPI_Get_count, (&from, MPI_BYTE, &byte_count));
        parcel *made = parcel_create(from.MPI_SOURCE, byte_count, err);
        TRY_CALL(MPI_Imrecv, (made->bytes, byte_count, MPI_BYTE, &message, &made->request));
        *end = made;
        end = &made->next;
    }
}

/// Whether an earlier message of the same rank is still arriving.
static bool is_behind(const mpi_carrier *all, const parcel *one)
{
    for (const parcel *other = all->arriving; other != one; other = other->next) {
        if (other->other == one->other) return true;
    }
    return false;
}

static status take(ana_carrier *carrier, int *from, text_buffer *bytes, bool *is_there,
                   error_message *err)
{
    mpi_carrier *all = (mpi_carrier *)carrier;
    *is_there = false;
    TRY(sweep(all, err));
    TRY(receive_announced(all, err));
    for (parcel **link = &all->arriving; *link != NULL; link = &(*link)->next) {
        parcel *come = *link;
        int is_done = 0;
        if (is_behind(all, come)) continue;
        TRY_CALL(MPI_Test, (&come->request, &is_done, MPI_STATUS_IGNORE));
        if (!is_done) continue;
        text_clear(bytes);
        text_append_bytes(bytes, come->bytes, (size_t)come->byte_count);
        *from = come->other;
        *is_there = true;
        *link = come->next;
        free(come);
        return STATUS_OK;
    }
    return STATUS_OK;
}

static bool is_gone(ana_carrier *carrier, int rank)
{
    const mpi_carrier *all = (const mpi_carrier *)carrier;
    return trace_process_is_dead(&all->processes[rank]);
}

static void end(ana_carrier *carrier, int rank)
{
    const mpi_carrier *all = (const mpi_carrier *)carrier;
    const trace_process *other = &all->processes[rank];
    const trace_process *self = &all->processes[carrier->rank];
    if (strcmp(other->host, self->host) != 0 || trace_process_is_dead(other)) return;
    if (strcmp(other->pid_namespace, self->pid_namespace) != 0) return;
    kill((pid_t)other->pid, SIGKILL);
}

/// What is still under way belongs to MPI, and so stays where ranks are lost.
static void close_carrier(ana_carrier *carrier, bool is_whole)
{
    mpi_carrier *all = (mpi_carrier *)carrier;
    const struct timespec nap = {.tv_nsec = 1000000};
    const int64_t until_ns = ana_spread_now_ns() + closing_patience_ns;
    while (all->leaving != NULL && ana_spread_now_ns() < until_ns) {
        if (sweep(all, NULL) != STATUS_OK) break;
        if (all->leaving != NULL) nanosleep(&nap, NULL);
    }
    if (!is_whole) return;
    MPI_Comm_free(&all->comm);
    MPI_Finalize();
    free(all->processes);
    free(all);
}

/// How many cores fall to each rank of this machine, of those that they may use.
static status divide_cores(mpi_carrier *all, error_message *err)
{
    MPI_Comm machine;
    int self = 0;
    int count = 0;
    ana_core_set own;
    TRY_CALL(MPI_Comm_split_type, (all->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine));
    TRY_CALL(MPI_Comm_rank, (machine, &self));
    TRY_CALL(MPI_Comm_size, (machine, &count));
    ana_core_set *sets = memory_array((size_t)count, sizeof *sets);
    int *shares = memory_array((size_t)count, sizeof *shares);
    status code = STATUS_OK;
    if (sets == NULL || shares == NULL) code = error_set(err, STATUS_NO_MEMORY, "out of memory");
    ana_core_set_of_process(&own);
    if (code == STATUS_OK) {
        code = check(MPI_Allgather(&own, sizeof own, MPI_BYTE, sets, sizeof own, MPI_BYTE, machine),
                     "MPI_Allgather", err);
    }
    if (code == STATUS_OK) {
        ana_core_shares(sets, count, shares);
        const int quota = ana_core_quota() / count;
        const int limit = quota > 1 ? quota : 1;
        all->table.core_count = shares[self] < limit ? shares[self] : limit;
    }
    free(sets);
    free(shares);
    MPI_Comm_free(&machine);
    return code;
}

static status meet(mpi_carrier *all, error_message *err)
{
    trace_process self;
    TRY_CALL(MPI_Comm_dup, (MPI_COMM_WORLD, &all->comm));
    TRY_CALL(MPI_Comm_set_errhandler, (all->comm, MPI_ERRORS_RETURN));
    TRY_CALL(MPI_Comm_rank, (all->comm, &all->table.rank));
    TRY_CALL(MPI_Comm_size, (all->comm, &all->table.rank_count));
    all->processes = memory_array((size_t)all->table.rank_count, sizeof *all->processes);
    trace_process_self(&self);
    TRY_CALL(MPI_Allgather,
             (&self, sizeof self, MPI_BYTE, all->processes, sizeof self, MPI_BYTE, all->comm));
    return divide_cores(all, err);
}

/// Ranks that wait inside MPI, as all do while they start and end, give way to others: Open MPI
/// asks the environment whether they shall.
static status open(ana_carrier **carrier, error_message *err)
{
    int threads = 0;
    mpi_carrier *all = memory_array(1, sizeof *all);
    all->table = (ana_carrier){
        .post = post, .take = take, .is_gone = is_gone, .end = end, .close = close_carrier};
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    status code =
        check(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &threads), "MPI_Init_thread", err);
    if (code == STATUS_OK) code = meet(all, err);
    if (code == STATUS_OK) {
        *carrier = &all->table;
        return STATUS_OK;
    }
    free(all->processes);
    free(all);
    return code;
}

const loadable *dynmo_module(void)
{
    static const ana_carrier_module table = {.open = open};
    static const loadable module = {
        .interface = LOADABLE_INTERFACE, .name = "spread", .table = &table};
    return &module;
}
