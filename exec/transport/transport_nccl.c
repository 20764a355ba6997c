#include "exec/transport/transport_nccl.h"

#include "base/arena.h"
#include "base/launcher.h"
#include "base/loadable.h"
#include "exec/clock.h"
#include "exec/cuda/cuda_check.h"
#include "exec/cuda/cuda_handover.h"
#include "exec/transport/lane.h"
#include "exec/transport/transports.h"

#include <assert.h>
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const int64_t nap_ns = 200000;         // between looks at what NCCL does after the caller
static const int64_t guard_nap_ns = 20000000; // between looks at whether the rank still gets on
enum { GUARD_LOOKS = 3 };                     // at a failed communicator, before it is the cause

typedef struct lane {
    ncclComm_t communicator; // NULL: this rank has been released
    cudaStream_t stream;
    int *sent;   // [rank_count] messages with device memory to each rank
    int *posted; // [rank_count] of each rank that are being received here
} lane;

/// Device memory that is being received, until its message is asked for.
typedef struct arrival {
    struct arrival *next;
    int from;
    int lane;
    int number; // of the lane from that rank
    exec_handover described;
} arrival;

typedef struct nccl_world {
    exec_endpoint inner;     // as the transport below has it
    exec_endpoint *endpoint; // the rank's, which others look at to see what it does
    int64_t watchdog_ns;
    pthread_mutex_t lock; // of calls of NCCL, as the guard aborts communicators, and of why
    bool is_aborted;      // then there are none any more
    error_message why;    // of the guard; code STATUS_OK: another rank has failed
    pthread_t guard;
    atomic_bool is_closing;
    atomic_bool is_inside;         // the rank is in this transport, which the one below watches
    _Atomic uint64_t inside_count; // how often it has been
    int rank_count;
    ncclComm_t communicator; // of the world
    int *active_rank;        // [rank_count] in the lanes' communicators; -1: released
    int *place;              // [rank_count] in its line; -1: released
    int line_ranks;          // of the world
    int place_count;         // of a line
    lane lanes[EXEC_LANE_COUNT];
    exec_cuda_handovers buffers; // that are received into
    char *device_bytes;          // [2] to send, to receive
    arrival *arrivals;
    exec_rank_body *body;
    void *context;
} nccl_world;

/// With NCCL's own words on what went wrong last, which name ranks, GPUs and variables.
static status nccl_failure(const char *what, ncclResult_t result, error_message *err)
{
    return error_set(err, STATUS_BACKEND, "%.80s failed: %s. %.130s", what,
                     ncclGetErrorString(result), ncclGetLastError(NULL));
}

/// Calls NCCL for a `world`, unless its communicators have been aborted.
#define TRY_NCCL(call)                                                                             \
    do {                                                                                           \
        pthread_mutex_lock(&world->lock);                                                          \
        const bool try_is_over = world->is_aborted;                                                \
        const ncclResult_t try_result = try_is_over ? ncclSuccess : (call);                        \
        pthread_mutex_unlock(&world->lock);                                                        \
        if (try_is_over) return tell_abort(world, err);                                            \
        if (try_result != ncclSuccess && try_result != ncclInProgress) {                           \
            return nccl_failure(#call, try_result, err);                                           \
        }                                                                                          \
    } while (0)

/// What the guard has found; STATUS_OK: nothing.
static status tell_guard(nccl_world *world, error_message *err)
{
    pthread_mutex_lock(&world->lock);
    const error_message why = world->why;
    pthread_mutex_unlock(&world->lock);
    return why.code == STATUS_OK ? STATUS_OK : error_set(err, why.code, "%s", why.message);
}

static status tell_abort(nccl_world *world, error_message *err)
{
    const status found = tell_guard(world, err);
    return found != STATUS_OK ? found : error_set(err, STATUS_BACKEND, "NCCL was aborted");
}

/// While a rank is in this transport, the one below watches it.
static nccl_world *enter(const exec_endpoint *endpoint)
{
    nccl_world *world = endpoint->state;
    atomic_store(&world->is_inside, true);
    return world;
}

static void leave(nccl_world *world)
{
    atomic_fetch_add(&world->inside_count, 1);
    atomic_store(&world->is_inside, false);
}

/// Waits until what NCCL does for a communicator after the caller is done: looks again and again at
/// first, then between naps. A failure of another rank ends the wait, because it ends every nap.
static status settle(nccl_world *world, ncclComm_t communicator, error_message *err)
{
    const int64_t begin_ns = exec_monotonic_ns();
    for (;;) {
        ncclResult_t state = ncclSuccess;
        TRY_NCCL(ncclCommGetAsyncError(communicator, &state));
        if (state == ncclSuccess) return STATUS_OK;
        if (state != ncclInProgress) return nccl_failure("NCCL", state, err);
        const int64_t now_ns = exec_monotonic_ns();
        if (now_ns - begin_ns > world->watchdog_ns) {
            return error_set(err, STATUS_BACKEND, "NCCL has not begun what it was told for %.3g s",
                             (double)world->watchdog_ns / 1e9);
        }
        const int64_t wait_ns = now_ns - begin_ns < nap_ns ? 0 : nap_ns;
        TRY(world->inner.transport->sleep_until(&world->inner, now_ns + wait_ns, err));
    }
}

static uint64_t announcement_key(int lane_index)
{
    return exec_message_key(EXEC_MESSAGE_FORWARD, 0, EXEC_STAGE_MAX, lane_index);
}

static int lane_between(const nccl_world *world, int from, int to)
{
    return (int)exec_lane_between(world->place[from], world->place[to], world->place_count);
}

// Sending

static status send_below(nccl_world *world, int to, const exec_message *head, const void *payload,
                         error_message *err)
{
    return world->inner.transport->send(&world->inner, to, head, payload, err);
}

/// Says that device memory comes, and how much, in the order of the lane, so that the receiver can
/// begin to receive it.
static status announce(nccl_world *world, int to, int lane_index, const exec_handover *described,
                       error_message *err)
{
    const exec_message head = {.key = announcement_key(lane_index),
                               .payload_bytes = sizeof described->byte_count};
    return send_below(world, to, &head, &described->byte_count, err);
}

/// Sends the payload with the handover's number in its lane in place of pointers that mean nothing
/// elsewhere.
static status send_numbered(nccl_world *world, int to, int number, const exec_message *head,
                            const void *payload, error_message *err)
{
    exec_handover described;
    memcpy(&described, payload, sizeof described);
    described.memory = described.ready = described.taken = NULL;
    described.state = (void *)(intptr_t)number;
    char *copy = memory_array(1, (size_t)head->payload_bytes);
    memcpy(copy, payload, (size_t)head->payload_bytes);
    memcpy(copy, &described, sizeof described);
    const status result = send_below(world, to, head, copy, err);
    free(copy);
    return result;
}

/// The messages of the host go first: NCCL may wait for the receiver before it enqueues.
static status send_memory(nccl_world *world, int to, const exec_message *head, const void *payload,
                          error_message *err)
{
    const int lane_index = lane_between(world, world->inner.rank, to);
    lane *way = &world->lanes[lane_index];
    exec_handover described;
    memcpy(&described, payload, sizeof described);
    TRY(announce(world, to, lane_index, &described, err));
    TRY(send_numbered(world, to, way->sent[to]++, head, payload, err));
    TRY(exec_cuda_take_begin(way->stream, &described, err));
    TRY_NCCL(ncclSend(described.memory, (size_t)described.byte_count, ncclChar,
                      world->active_rank[to], way->communicator, way->stream));
    TRY(settle(world, way->communicator, err));
    return exec_cuda_take_end(way->stream, &described, err);
}

static status nccl_send(exec_endpoint *endpoint, int to, const exec_message *head,
                        const void *payload, error_message *err)
{
    nccl_world *world = enter(endpoint);
    const bool has_memory = exec_message_is_of_op(head->key) && to != endpoint->rank &&
                            exec_cuda_is_handover(payload, head->payload_bytes);
    status result = tell_guard(world, err);
    if (result == STATUS_OK) {
        result = has_memory ? send_memory(world, to, head, payload, err)
                            : send_below(world, to, head, payload, err);
    }
    leave(world);
    return result;
}

// Receiving

static status receive_below(nccl_world *world, int from, uint64_t key, exec_message *head,
                            void *payload, int64_t capacity_bytes, error_message *err)
{
    return world->inner.transport->receive(&world->inner, from, key, head, payload, capacity_bytes,
                                           err);
}

/// Begins to receive the next device memory of a lane from a rank.
static status post(nccl_world *world, int from, int lane_index, error_message *err)
{
    lane *way = &world->lanes[lane_index];
    int64_t byte_count;
    TRY(receive_below(world, from, announcement_key(lane_index), NULL, &byte_count,
                      sizeof byte_count, err));
    arrival *posted = memory_array(1, sizeof *posted);
    *posted = (arrival){
        .next = world->arrivals, .from = from, .lane = lane_index, .number = way->posted[from]++};
    world->arrivals = posted;
    exec_handover *described = &posted->described;
    TRY(exec_cuda_give_begin(&world->buffers, way->stream, (size_t)byte_count, described, err));
    TRY_NCCL(ncclRecv(described->memory, (size_t)byte_count, ncclChar, world->active_rank[from],
                      way->communicator, way->stream));
    TRY(settle(world, way->communicator, err));
    return exec_cuda_give_end(way->stream, described, err);
}

/// Removes an arrival and tells its handover; false where there is none.
static bool take_arrival(nccl_world *world, int from, int lane_index, int number,
                         exec_handover *described)
{
    for (arrival **at = &world->arrivals; *at != NULL; at = &(*at)->next) {
        arrival *found = *at;
        if (found->from != from || found->lane != lane_index || found->number != number) continue;
        *described = found->described;
        *at = found->next;
        free(found);
        return true;
    }
    return false;
}

/// Puts a handover of this rank's into a payload that has just come with a number.
static status receive_memory(nccl_world *world, int from, void *payload, error_message *err)
{
    exec_handover described;
    memcpy(&described, payload, sizeof described);
    const int number = (int)(intptr_t)described.state;
    const int lane_index = lane_between(world, from, world->inner.rank);
    while (world->lanes[lane_index].posted[from] <= number) {
        TRY(post(world, from, lane_index, err));
    }
    const bool is_there = take_arrival(world, from, lane_index, number, &described);
    assert(is_there); // each message is received once
    (void)is_there;
    memcpy(payload, &described, sizeof described);
    return STATUS_OK;
}

static status nccl_receive(exec_endpoint *endpoint, int from, uint64_t key, exec_message *head,
                           void *payload, int64_t capacity_bytes, error_message *err)
{
    exec_message received = {0};
    nccl_world *world = enter(endpoint);
    status result = tell_guard(world, err);
    if (result == STATUS_OK) {
        result = receive_below(world, from, key, &received, payload, capacity_bytes, err);
    }
    if (result == STATUS_OK && exec_message_is_of_op(key) && from != endpoint->rank &&
        exec_cuda_is_handover(payload, received.payload_bytes)) {
        result = receive_memory(world, from, payload, err);
    }
    leave(world);
    if (result == STATUS_OK && head != NULL) *head = received;
    return result;
}

static bool nccl_has_failed(const exec_endpoint *endpoint)
{
    const nccl_world *world = endpoint->state;
    return world->inner.transport->has_failed(&world->inner);
}

static bool nccl_is_there(exec_endpoint *endpoint, int from, uint64_t key, exec_message *head)
{
    nccl_world *world = enter(endpoint);
    const bool is_there = world->inner.transport->is_there(&world->inner, from, key, head);
    leave(world);
    return is_there;
}

static status nccl_sleep_until(exec_endpoint *endpoint, int64_t clock_ns, error_message *err)
{
    nccl_world *world = enter(endpoint);
    const status result = world->inner.transport->sleep_until(&world->inner, clock_ns, err);
    leave(world);
    return result;
}

// Communicators

static void destroy_lanes(nccl_world *world)
{
    for (int index = 0; index < EXEC_LANE_COUNT; index++) {
        lane *way = &world->lanes[index];
        if (way->stream != NULL) cudaStreamSynchronize(way->stream);
        pthread_mutex_lock(&world->lock);
        if (way->communicator != NULL) ncclCommDestroy(way->communicator);
        way->communicator = NULL;
        pthread_mutex_unlock(&world->lock);
    }
}

/// NCCL connects two ranks when they first exchange something, and makes both wait for it. All
/// active ranks do that here together, for the ways that plans use: a byte to and from every rank
/// of the line that the lane leads to.
static status connect_lane(nccl_world *world, int lane_index, error_message *err)
{
    const lane *way = &world->lanes[lane_index];
    const int own = world->inner.rank;
    const int first = own / world->line_ranks * world->line_ranks;
    if (lane_index == EXEC_LANE_UP_FAR || lane_index == EXEC_LANE_DOWN_FAR) return STATUS_OK;
    TRY_NCCL(ncclGroupStart());
    for (int other = first; other < first + world->line_ranks; other++) {
        if (other == own || world->place[other] < 0) continue;
        if (lane_between(world, own, other) == lane_index) {
            TRY_NCCL(ncclSend(world->device_bytes, 1, ncclChar, world->active_rank[other],
                              way->communicator, way->stream));
        }
        if (lane_between(world, other, own) == lane_index) {
            TRY_NCCL(ncclRecv(world->device_bytes + 1, 1, ncclChar, world->active_rank[other],
                              way->communicator, way->stream));
        }
    }
    TRY_NCCL(ncclGroupEnd());
    return settle(world, way->communicator, err);
}

/// Splits the lanes off the world, for the ranks that have a place.
static status split_lanes(nccl_world *world, error_message *err)
{
    const bool has_part = world->place[world->inner.rank] >= 0;
    const int colour = has_part ? 0 : NCCL_SPLIT_NOCOLOR;
    for (int index = 0; index < EXEC_LANE_COUNT; index++) {
        lane *way = &world->lanes[index];
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        TRY_NCCL(ncclCommSplit(world->communicator, colour, world->inner.rank, &way->communicator,
                               &config));
        TRY(settle(world, world->communicator, err));
        if (!has_part) way->communicator = NULL;
        memset(way->sent, 0, (size_t)world->rank_count * sizeof *way->sent);
        memset(way->posted, 0, (size_t)world->rank_count * sizeof *way->posted);
        if (has_part) TRY(settle(world, way->communicator, err));
    }
    return STATUS_OK;
}

/// Takes the places of the ranks; says whether other ranks have one than before.
static bool take_places(nccl_world *world, const int *place, int line_ranks)
{
    bool differs = false;
    int active_count = 0;
    world->line_ranks = line_ranks;
    world->place_count = 0;
    for (int rank = 0; rank < world->rank_count; rank++) {
        const int active_rank = place[rank] >= 0 ? active_count++ : -1;
        differs = differs || active_rank != world->active_rank[rank];
        world->active_rank[rank] = active_rank;
        world->place[rank] = place[rank];
        if (place[rank] >= world->place_count) world->place_count = place[rank] + 1;
    }
    return differs;
}

/// Lanes between places, new ones where other ranks have a place than before.
static status seat(nccl_world *world, const int *place, int line_ranks, error_message *err)
{
    if (take_places(world, place, line_ranks)) {
        destroy_lanes(world);
        TRY(split_lanes(world, err));
    }
    for (int index = 0; index < EXEC_LANE_COUNT && place[world->inner.rank] >= 0; index++) {
        TRY(connect_lane(world, index, err));
    }
    return STATUS_OK;
}

static status nccl_regroup(exec_endpoint *endpoint, const int *place, int line_ranks,
                           error_message *err)
{
    nccl_world *world = enter(endpoint);
    status result = world->inner.transport->regroup(&world->inner, place, line_ranks, err);
    if (result == STATUS_OK) result = seat(world, place, line_ranks, err);
    leave(world);
    return result;
}

/// By the world's communicator, which nothing else sends on.
static status exchange_all(nccl_world *world, void *stream, const exec_transfer *transfers,
                           int count, error_message *err)
{
    TRY_NCCL(ncclGroupStart());
    for (int index = 0; index < count; index++) {
        const exec_transfer *one = &transfers[index];
        const size_t bytes = (size_t)one->byte_count;
        TRY_NCCL(
            one->is_send
                ? ncclSend(one->memory, bytes, ncclChar, one->rank, world->communicator, stream)
                : ncclRecv(one->memory, bytes, ncclChar, one->rank, world->communicator, stream));
    }
    TRY_NCCL(ncclGroupEnd());
    return settle(world, world->communicator, err);
}

static status nccl_exchange(exec_endpoint *endpoint, void *stream, const exec_transfer *transfers,
                            int count, error_message *err)
{
    nccl_world *world = enter(endpoint);
    const status result = exchange_all(world, stream, transfers, count, err);
    leave(world);
    return result;
}

/// Ends all communicators without waiting for anybody: kernels that wait in them end as well.
static void abort_all(nccl_world *world)
{
    pthread_mutex_lock(&world->lock);
    world->is_aborted = true;
    for (int index = 0; index < EXEC_LANE_COUNT; index++) {
        lane *way = &world->lanes[index];
        if (way->communicator != NULL) ncclCommAbort(way->communicator);
        way->communicator = NULL;
    }
    if (world->communicator != NULL) ncclCommAbort(world->communicator);
    world->communicator = NULL;
    pthread_mutex_unlock(&world->lock);
}

/// What NCCL says of the communicators; in progress is success. With the lock.
static ncclResult_t ask_communicators(const nccl_world *world)
{
    ncclResult_t state = ncclSuccess;
    for (int index = -1; index < EXEC_LANE_COUNT && !world->is_aborted; index++) {
        ncclComm_t asked = index < 0 ? world->communicator : world->lanes[index].communicator;
        const ncclResult_t result =
            asked != NULL ? ncclCommGetAsyncError(asked, &state) : ncclSuccess;
        if (result != ncclSuccess) return result;
        if (state != ncclSuccess && state != ncclInProgress) return state;
    }
    return ncclSuccess;
}

/// Notes why the guard aborts.
static void note_why(nccl_world *world, bool hangs, ncclResult_t state)
{
    char text[EXEC_ACTIVITY_BYTES];
    const char *doing = exec_activity_text(&world->endpoint->activity, world->inner.rank, text);
    if (hangs) {
        error_set(&world->why, STATUS_BACKEND, "%s: waits on its GPU for longer than %.3g s", doing,
                  (double)world->watchdog_ns / 1e9);
    } else if (state != ncclSuccess) {
        error_set(&world->why, STATUS_BACKEND, "%s: NCCL failed: %s. %.130s", doing,
                  ncclGetErrorString(state), ncclGetLastError(NULL));
    }
}

/// A rank may wait on its GPU for a message that never comes, where it does not hear of failures.
/// So a thread of its own looks after it: when another rank has failed, when a communicator has, or
/// when the rank has been outside of the transport for longer than the watchdog gives it, the
/// communicators are aborted. Then the GPU goes on, and the rank's next call says what it was.
static void *guard(void *argument)
{
    nccl_world *world = argument;
    const struct timespec nap = {.tv_nsec = guard_nap_ns};
    uint64_t seen_count = 0;
    int failure_count = 0; // of looks; a rank that aborts fails others before they hear of it
    int64_t seen_ns = exec_monotonic_ns();
    while (!atomic_load(&world->is_closing)) {
        const uint64_t count = atomic_load(&world->inside_count);
        if (count != seen_count || atomic_load(&world->is_inside)) seen_ns = exec_monotonic_ns();
        seen_count = count;
        const bool hangs = exec_monotonic_ns() - seen_ns > world->watchdog_ns;
        const bool has_failed = world->inner.transport->has_failed(&world->inner);
        pthread_mutex_lock(&world->lock);
        const ncclResult_t state = ask_communicators(world);
        failure_count += state != ncclSuccess;
        const bool is_over = hangs || has_failed || failure_count >= GUARD_LOOKS;
        if (is_over && !has_failed) note_why(world, hangs, state);
        pthread_mutex_unlock(&world->lock);
        if (is_over) {
            abort_all(world);
            return NULL;
        }
        nanosleep(&nap, NULL);
    }
    return NULL;
}

static void nccl_abandon(exec_endpoint *endpoint)
{
    nccl_world *world = enter(endpoint);
    abort_all(world);
    leave(world);
}

static const exec_transport nccl_transport = {.name = "nccl",
                                              .takes_device_memory = true,
                                              .send = nccl_send,
                                              .receive = nccl_receive,
                                              .is_there = nccl_is_there,
                                              .sleep_until = nccl_sleep_until,
                                              .now_ns = exec_transport_now_ns,
                                              .has_failed = nccl_has_failed,
                                              .regroup = nccl_regroup,
                                              .exchange = nccl_exchange,
                                              .abandon = nccl_abandon};

/// Within a process NCCL may let GPUs read and write each other's buffers, which those of a memory
/// pool allow nobody of themselves (cudaMemPoolSetAccess).
static status share_memory(int device, int device_count, error_message *err)
{
    cudaMemPool_t pool;
    TRY_CUDA(cudaDeviceGetDefaultMemPool(&pool, device));
    for (int peer = 0; peer < device_count; peer++) {
        int can_access = 0;
        const struct cudaMemAccessDesc access = {
            .location = {.type = cudaMemLocationTypeDevice, .id = peer},
            .flags = cudaMemAccessFlagsProtReadWrite};
        if (peer != device) TRY_CUDA(cudaDeviceCanAccessPeer(&can_access, peer, device));
        if (can_access != 0) TRY_CUDA(cudaMemPoolSetAccess(pool, &access, 1));
    }
    return STATUS_OK;
}

/// Threads of one process take the GPUs in their order, processes those of their local ranks.
static status choose_gpu(const nccl_world *world, error_message *err)
{
    const int rank = world->inner.rank;
    const bool is_alone = strcmp(world->inner.transport->name, "local") == 0;
    int device_count = 0;
    TRY_CUDA(cudaGetDeviceCount(&device_count));
    if (is_alone && device_count < world->rank_count) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "transport 'nccl': %d ranks in one process need as many GPUs, and %d are "
                         "visible; several machines need a launcher",
                         world->rank_count, device_count);
    }
    const int device = (is_alone ? rank : launcher_local_rank(rank)) % device_count;
    TRY_CUDA(cudaSetDevice(device));
    return is_alone ? share_memory(device, device_count, err) : STATUS_OK;
}

/// Rank 0 tells the others by which name they find each other.
static status share_id(nccl_world *world, ncclUniqueId *id, error_message *err)
{
    const uint64_t key = exec_message_key(EXEC_MESSAGE_GROUP, 0, EXEC_STAGE_MAX, 0);
    if (world->inner.rank > 0) return receive_below(world, 0, key, NULL, id, sizeof *id, err);
    TRY_NCCL(ncclGetUniqueId(id));
    const exec_message head = {.key = key, .payload_bytes = sizeof *id};
    for (int rank = 1; rank < world->rank_count; rank++) {
        TRY(send_below(world, rank, &head, id, err));
    }
    return STATUS_OK;
}

static status open_world(nccl_world *world, arena *memory, error_message *err)
{
    const size_t ranks = (size_t)world->rank_count;
    ncclUniqueId id;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    TRY(choose_gpu(world, err));
    world->active_rank = memory_array(ranks, sizeof *world->active_rank);
    world->place = memory_array(ranks, sizeof *world->place);
    int *place = arena_array(memory, ranks, sizeof *place);
    for (int rank = 0; rank < world->rank_count; rank++) {
        place[rank] = rank;
        world->active_rank[rank] = -1;
    }
    for (int index = 0; index < EXEC_LANE_COUNT; index++) {
        lane *way = &world->lanes[index];
        way->sent = memory_array(ranks, sizeof *way->sent);
        way->posted = memory_array(ranks, sizeof *way->posted);
        TRY_CUDA(cudaStreamCreateWithFlags(&way->stream, cudaStreamNonBlocking));
    }
    void *bytes = NULL;
    TRY_CUDA(cudaMalloc(&bytes, 2));
    world->device_bytes = bytes;
    TRY(share_id(world, &id, err));
    TRY_NCCL(ncclCommInitRankConfig(&world->communicator, world->rank_count, id, world->inner.rank,
                                    &config));
    TRY(settle(world, world->communicator, err));
    return seat(world, place, world->rank_count, err);
}

/// After a failure the others may be gone, and communicators are not waited for.
static void close_world(nccl_world *world, status result)
{
    if (result == STATUS_OK) {
        destroy_lanes(world);
        if (world->communicator != NULL) ncclCommDestroy(world->communicator);
        exec_cuda_handovers_reset(&world->buffers);
    } else {
        abort_all(world);
    }
    for (int index = 0; index < EXEC_LANE_COUNT; index++) {
        if (world->lanes[index].stream != NULL) cudaStreamDestroy(world->lanes[index].stream);
        free(world->lanes[index].sent);
        free(world->lanes[index].posted);
    }
    while (world->arrivals != NULL) {
        arrival *first = world->arrivals;
        world->arrivals = first->next;
        free(first);
    }
    cudaFree(world->device_bytes);
    free(world->active_rank);
    free(world->place);
}

/// What runs on every rank: the body, between opening and closing.
static status nccl_body(exec_endpoint *endpoint, void *context, error_message *err)
{
    const nccl_world *asked = context;
    nccl_world world = {.inner = *endpoint,
                        .endpoint = endpoint,
                        .watchdog_ns = asked->watchdog_ns,
                        .rank_count = endpoint->rank_count,
                        .body = asked->body,
                        .context = asked->context};
    arena *memory = arena_create(4096);
    pthread_mutex_init(&world.lock, NULL);
    atomic_store(&world.is_inside, true);
    const int started = pthread_create(&world.guard, NULL, guard, &world);
    status result = started == 0 ? open_world(&world, memory, err)
                                 : error_set(err, STATUS_BACKEND, "no thread to guard NCCL");
    arena_destroy(memory);
    if (result == STATUS_OK) {
        endpoint->transport = &nccl_transport;
        endpoint->state = &world;
        leave(&world);
        result = world.body(endpoint, world.context, err);
        enter(endpoint);
        endpoint->transport = world.inner.transport;
        endpoint->state = world.inner.state;
    }
    atomic_store(&world.is_closing, true);
    if (started == 0) pthread_join(world.guard, NULL);
    close_world(&world, result);
    pthread_mutex_destroy(&world.lock);
    return result;
}

/// The transport that carries what NCCL does not.
static const char *find_inner(void)
{
    const loadable *module = NULL;
    if (launcher_process_count(NULL) == 1) return "local";
    if (getenv("MASTER_ADDR") != NULL) return "tcp";
    return loadable_open("mpi", &module, NULL) == STATUS_OK ? "mpi" : "tcp";
}

status exec_nccl_run_over(const char *inner, const exec_transport_options *options,
                          exec_rank_body *body, void *context, error_message *err)
{
    exec_cuda_ask_driver();
    nccl_world asked = {.body = body, .context = context, .watchdog_ns = options->watchdog_ns};
    return exec_transport_run(inner != NULL ? inner : find_inner(), options, nccl_body, &asked,
                              err);
}
