/// The emulated NCCL: communicators that do not block, kernels that wait in their stream for their
/// partner. A call is in progress until it has been asked after a while: only then is its kernel in
/// the stream, and only when the partner of a first message has called too. Until then the
/// communicator takes no other call. What is longer than the eager limit leaves when its receiver
/// is at it.

#include "nccl.h"

#include "tests/gpu/emulation/emulation.h"

#include <deque>
#include <map>
#include <memory>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <vector>

/// A send or a receive, from the call to the end of its kernel.
struct message {
    bool is_send;
    int from, to;
    char *memory;
    size_t bytes;
    std::vector<char> sent_early;
    bool is_at_it = false, is_done = false;
};

typedef std::shared_ptr<message> message_ptr;

/// What the ranks of a communicator share.
struct board {
    int rank_count;
    std::map<std::pair<int, int>, std::deque<message_ptr>> sends, receives; // that are at it
    std::map<std::pair<int, int>, int> calls; // bits: sender, receiver
    std::vector<bool> has_come;
    int split_count = 0;
    std::map<int, std::vector<int>> colours; // [split][rank]
};

struct ncclComm {
    std::shared_ptr<board> shared;
    int rank;
    bool is_aborted, has_failed;
    std::deque<gpu::task> jobs; // what calls are still to do
};

static std::map<std::string, std::shared_ptr<board>> boards;
static int id_count;
static const char *last_error = "";

static ncclResult_t refuse(ncclResult_t result, const char *why)
{
    last_error = why;
    return result;
}

static bool is_in_progress(ncclComm_t communicator)
{
    bool is = false;
    gpu::change([&] { is = !communicator->jobs.empty(); });
    return is;
}

static ncclResult_t refuse_in_progress()
{
    return refuse(ncclInvalidArgument, "Attempt to use communicator before the previous operation "
                                       "returned ncclSuccess");
}

/// The calls between ncclGroupStart and ncclGroupEnd of this thread, by communicator and stream.
typedef std::pair<ncclComm_t, cudaStream_t> launch_place;
static thread_local int group_depth;
static thread_local std::map<launch_place, std::vector<message_ptr>> group;

static std::shared_ptr<board> join(const std::string &name, int rank_count, int rank)
{
    std::shared_ptr<board> &found = boards[name];
    if (found == nullptr) {
        found = std::make_shared<board>();
        found->rank_count = rank_count;
        found->has_come.resize((size_t)rank_count);
    }
    found->has_come[(size_t)rank] = true;
    return found;
}

static bool all_have_come(const board &of)
{
    for (bool has_come : of.has_come) {
        if (!has_come) return false;
    }
    return true;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    gpu::change([&] {
        memset(id, 0, sizeof *id);
        snprintf(id->internal, sizeof id->internal, "world %d", id_count++);
    });
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *communicator, int rank_count, ncclUniqueId id,
                                    int rank, ncclConfig_t *config)
{
    if (rank >= rank_count || config->blocking != 0) return ncclInvalidArgument;
    gpu::change([&] {
        std::shared_ptr<board> shared = join(id.internal, rank_count, rank);
        *communicator = new ncclComm{shared, rank, false, false, {}};
        (*communicator)->jobs.push_back([shared] { return all_have_come(*shared); });
    });
    return ncclInProgress;
}

/// Done when all ranks have called: those of a colour are a new communicator, by their order.
ncclResult_t ncclCommSplit(ncclComm_t communicator, int colour, int key, ncclComm_t *split,
                           ncclConfig_t *config)
{
    (void)key;
    (void)config;
    if (is_in_progress(communicator)) return refuse_in_progress();
    gpu::change([&] {
        std::shared_ptr<board> parent = communicator->shared;
        const int rank = communicator->rank;
        int number = 0; // of this rank's splits
        while (parent->colours.count(number) > 0 && parent->colours[number][(size_t)rank] != -2) {
            number++;
        }
        std::vector<int> &colours = parent->colours[number];
        if (colours.empty()) colours.assign((size_t)parent->rank_count, -2);
        colours[(size_t)rank] = colour;
        ncclComm_t made =
            colour != NCCL_SPLIT_NOCOLOR ? new ncclComm{nullptr, 0, false, false, {}} : nullptr;
        *split = made;
        const std::string name = std::to_string((size_t)parent.get()) + " split " +
                                 std::to_string(number) + " colour " + std::to_string(colour);
        communicator->jobs.push_back([parent, number, rank, colour, made, name] {
            const std::vector<int> &all = parent->colours[number];
            int own = 0, count = 0;
            for (int other = 0; other < parent->rank_count; other++) {
                if (all[(size_t)other] == -2) return false;
                own += other < rank && all[(size_t)other] == colour;
                count += all[(size_t)other] == colour;
            }
            if (made == nullptr) return true;
            made->rank = own;
            made->shared = join(name, count, own);
            return true;
        });
    });
    return ncclInProgress;
}

/// Lets calls get on; says whether all are done.
ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t *state)
{
    gpu::drive_some();
    gpu::change([&] {
        while (!communicator->jobs.empty() && gpu::draw(2) == 0) {
            if (!communicator->jobs.front()()) break;
            communicator->jobs.pop_front();
        }
        *state = communicator->jobs.empty() ? ncclSuccess : ncclInProgress;
        if (gpu::behaviour.repeats_gpu) {
            *state = refuse(ncclInvalidUsage, "Duplicate GPU detected : rank 1 and rank 0");
        }
        if (communicator->has_failed) *state = refuse(ncclRemoteError, "a peer is gone");
    });
    return ncclSuccess;
}

/// Its kernels end, and nobody reads or writes the memory that they were at: partners that are not
/// aborted too wait for ever.
static void end(ncclComm_t communicator)
{
    communicator->is_aborted = true;
    communicator->jobs.clear();
    if (communicator->shared == nullptr) return;
    for (auto &way : communicator->shared->sends) {
        if (way.first.first == communicator->rank) way.second.clear();
    }
    for (auto &way : communicator->shared->receives) {
        if (way.first.second == communicator->rank) way.second.clear();
    }
}

ncclResult_t ncclCommAbort(ncclComm_t communicator)
{
    gpu::change([&] { end(communicator); });
    return ncclSuccess; // kernels may still look at it
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator)
{
    if (!communicator->jobs.empty()) {
        fprintf(stderr, "emulated NCCL: a communicator is destroyed with calls in progress\n");
        abort();
    }
    gpu::change([&] { communicator->is_aborted = true; });
    return ncclSuccess;
}

/// Gives what is sent to what receives it, in the order of the pair.
static void match(board &all, std::pair<int, int> way)
{
    std::deque<message_ptr> &sends = all.sends[way], &receives = all.receives[way];
    while (!sends.empty() && !receives.empty()) {
        const message_ptr sent = sends.front(), received = receives.front();
        if (sent->bytes != received->bytes) {
            fprintf(stderr, "emulated NCCL: %zu bytes sent, %zu awaited\n", sent->bytes,
                    received->bytes);
            abort();
        }
        const char *from = sent->sent_early.empty() ? sent->memory : sent->sent_early.data();
        gpu::open_memory(true);
        memcpy(received->memory, from, sent->bytes);
        gpu::open_memory(false);
        sent->is_done = received->is_done = true;
        sends.pop_front();
        receives.pop_front();
    }
}

static void begin(board &all, const message_ptr &one)
{
    const std::pair<int, int> way(one->from, one->to);
    one->is_at_it = true;
    if (one->is_send && one->bytes <= gpu::behaviour.eager_bytes) {
        gpu::open_memory(true);
        one->sent_early.assign(one->memory, one->memory + one->bytes);
        gpu::open_memory(false);
        one->is_done = true;
    }
    (one->is_send ? all.sends : all.receives)[way].push_back(one);
    match(all, way);
}

/// The kernel of a group of messages; true: it has ended.
static bool run(ncclComm_t communicator, const std::vector<message_ptr> &messages)
{
    bool is_done = true;
    if (communicator->is_aborted) return true;
    if (!messages.front()->is_at_it && ++gpu::message_count == gpu::behaviour.failing_message) {
        communicator->has_failed = true;
    }
    if (communicator->has_failed) return false;
    for (const message_ptr &one : messages) {
        if (!one->is_at_it) begin(*communicator->shared, one);
    }
    for (const message_ptr &one : messages) {
        is_done = is_done && one->is_done;
    }
    return is_done;
}

/// Whether both ranks of each message have called for the first time.
static bool are_connected(board &all, const std::vector<message_ptr> &messages)
{
    bool all_are = true;
    for (const message_ptr &one : messages) {
        int &calls = all.calls[{one->from, one->to}];
        calls |= one->is_send ? 1 : 2;
        all_are = all_are && calls == 3;
    }
    return all_are;
}

/// With the lock held.
static void launch(ncclComm_t communicator, cudaStream_t stream, std::vector<message_ptr> messages)
{
    communicator->jobs.push_back([=] {
        if (!are_connected(*communicator->shared, messages)) return false;
        gpu::push(stream, [=] { return gpu::has_failed(stream) || run(communicator, messages); });
        return true;
    });
}

static ncclResult_t call(bool is_send, void *memory, size_t bytes, int peer,
                         ncclComm_t communicator, cudaStream_t stream)
{
    const int own = communicator->rank;
    if (is_in_progress(communicator)) return refuse_in_progress();
    if (peer < 0 || peer >= communicator->shared->rank_count) return ncclInvalidArgument;
    const message_ptr made = std::make_shared<message>();
    made->is_send = is_send;
    made->from = is_send ? own : peer;
    made->to = is_send ? peer : own;
    made->memory = (char *)memory;
    made->bytes = bytes;
    ncclGroupStart();
    group[{communicator, stream}].push_back(made);
    return ncclGroupEnd();
}

ncclResult_t ncclGroupStart(void)
{
    group_depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    if (--group_depth > 0) return ncclSuccess;
    const bool is_empty = group.empty();
    gpu::change([&] {
        for (auto &part : group) {
            are_connected(*part.first.first->shared, part.second);
            launch(part.first.first, part.first.second, part.second);
        }
    });
    group.clear();
    return is_empty ? ncclSuccess : ncclInProgress;
}

ncclResult_t ncclSend(const void *memory, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream)
{
    (void)type;
    return call(true, (void *)memory, count, peer, communicator, stream);
}

ncclResult_t ncclRecv(void *memory, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream)
{
    (void)type;
    return call(false, memory, count, peer, communicator, stream);
}

const char *ncclGetLastError(ncclComm_t communicator)
{
    (void)communicator;
    return last_error;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclSuccess ? "no error" : "an emulated call failed";
}
