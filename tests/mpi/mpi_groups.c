/// Groups of ranks: what is broadcast, gathered, exchanged and summed is the same over local and
/// over mpi, to the bit: every rank works out by itself what must come. With groups that share
/// ranks.
#include "base/rng.h"
#include "exec/transport/group.h"
#include "tests/mpi/world.h"

#include <string.h>

enum { RANKS_MAX = 64, COUNT = 1000, ROUNDS = 10 };

/// What a rank puts in, in a round.
static void draw(int rank, int round, double values[COUNT])
{
    rng source = rng_init((uint64_t)round, (uint64_t)rank);
    for (int index = 0; index < COUNT; index++) {
        values[index] = rng_unit(&source) - 0.5;
    }
}

static status expect_bytes(const void *actual, const void *expected, size_t bytes, const char *what,
                           error_message *err)
{
    if (memcmp(actual, expected, bytes) == 0) return STATUS_OK;
    return error_set(err, STATUS_BACKEND, "%s: other bytes", what);
}

/// Numbers of three types; in some rounds fewer than there are ranks.
static status sum(const exec_group *group, int round, error_message *err)
{
    static const int counts[] = {COUNT, 0, 1, 11};
    const int count = counts[round % 4];
    double drawn[COUNT];
    double own[COUNT];
    double expected[COUNT];
    float own_floats[COUNT];
    float expected_floats[COUNT];
    int64_t own_integers[COUNT];
    int64_t expected_integers[COUNT];
    for (int member = 0; member < group->rank_count; member++) {
        draw(group->rank[member], round, drawn);
        for (int index = 0; index < count; index++) {
            const bool is_first = member == 0;
            const double number = drawn[index];
            const int64_t integer = (int64_t)(number * 1e15);
            expected[index] = is_first ? number : expected[index] + number;
            expected_floats[index] =
                is_first ? (float)number : expected_floats[index] + (float)number;
            expected_integers[index] = is_first ? integer : expected_integers[index] + integer;
            if (member != group->self) continue;
            own[index] = number;
            own_floats[index] = (float)number;
            own_integers[index] = integer;
        }
    }
    const size_t length = (size_t)count;
    TRY(exec_group_sum_double(group, own, count, err));
    TRY(expect_bytes(own, expected, length * sizeof own[0], "sum of doubles", err));
    TRY(exec_group_sum_float(group, own_floats, count, 1, err));
    TRY(expect_bytes(own_floats, expected_floats, length * sizeof own_floats[0], "sum of floats",
                     err));
    TRY(exec_group_sum_int64(group, own_integers, count, err));
    return expect_bytes(own_integers, expected_integers, length * sizeof own_integers[0],
                        "sum of integers", err);
}

/// Every member gives its index + 1 numbers of its row.
static status gather(const exec_group *group, int round, arena *memory, error_message *err)
{
    double row[COUNT];
    int64_t sizes[RANKS_MAX];
    void *all = NULL;
    const int64_t own_bytes = (group->self + 1) * (int64_t)sizeof row[0];
    const bool is_root = group->self == 0;
    draw(group->rank[group->self], round, row);
    TRY(exec_group_gather(group, row, own_bytes, memory, is_root ? sizes : NULL,
                          is_root ? &all : NULL, err));
    const char *part = all;
    for (int member = 0; is_root && member < group->rank_count; member++) {
        double expected[COUNT];
        draw(group->rank[member], round, expected);
        TRY(expect_bytes(part, expected, (size_t)sizes[member], "gathered", err));
        part += sizes[member];
    }
    return STATUS_OK;
}

static status broadcast(const exec_group *group, int round, error_message *err)
{
    double own[COUNT];
    double expected[COUNT];
    draw(group->rank[0], round, expected);
    draw(group->rank[group->self], round, own);
    TRY(exec_group_broadcast(group, own, sizeof own, err));
    return expect_bytes(own, expected, sizeof own, "broadcast", err);
}

/// What a member has for another: as many numbers as both their indices say, maybe none.
static int64_t fill_part(const exec_group *group, int from, int to, int round, double *part)
{
    draw(group->rank[from], round * RANKS_MAX + to, part);
    return (from + to) % COUNT * (int64_t)sizeof *part;
}

static status exchange(const exec_group *group, int round, arena *memory, error_message *err)
{
    const size_t members = (size_t)group->rank_count;
    exec_group_part *sent = arena_array(memory, members, sizeof *sent);
    exec_group_part *received = arena_array(memory, members, sizeof *received);
    int64_t ready_ns = 1000 * (group->self + 1);
    for (int member = 0; member < group->rank_count; member++) {
        sent[member].bytes = arena_array(memory, COUNT, sizeof(double));
        sent[member].byte_count = fill_part(group, group->self, member, round, sent[member].bytes);
        received[member] =
            (exec_group_part){arena_array(memory, COUNT, sizeof(double)), sent[member].byte_count};
    }
    TRY(exec_group_exchange(group, sent, received, &ready_ns, err));
    if (ready_ns != 1000 * group->rank_count) {
        return error_set(err, STATUS_BACKEND, "exchange: another time");
    }
    for (int member = 0; member < group->rank_count; member++) {
        double expected[COUNT];
        const int64_t bytes = fill_part(group, member, group->self, round, expected);
        TRY(expect_bytes(received[member].bytes, expected, (size_t)bytes, "exchanged", err));
    }
    return STATUS_OK;
}

/// Several arrays of each member: all of one before those of the next.
static status sum_parts(const exec_group *group, int round, error_message *err)
{
    enum { PARTS = 3 };
    double drawn[COUNT];
    float own[PARTS][COUNT];
    float expected[COUNT];
    for (int member = 0; member < group->rank_count; member++) {
        for (int part = 0; part < PARTS; part++) {
            draw(group->rank[member], round * PARTS + part, drawn);
            for (int index = 0; index < COUNT; index++) {
                const float number = (float)drawn[index];
                expected[index] = member + part == 0 ? number : expected[index] + number;
                if (member == group->self) own[part][index] = number;
            }
        }
    }
    TRY(exec_group_sum_float(group, &own[0][0], COUNT, PARTS, err));
    return expect_bytes(own[0], expected, sizeof expected, "sum of parts", err);
}

static status use(const exec_group *group, arena *memory, error_message *err)
{
    for (int round = 0; round < ROUNDS; round++) {
        TRY(exec_group_barrier(group, err));
        TRY(sum(group, round, err));
        TRY(broadcast(group, round, err));
        TRY(gather(group, round, memory, err));
        TRY(exchange(group, round, memory, err));
        TRY(sum_parts(group, round, err));
    }
    return STATUS_OK;
}

/// All ranks, then those with an even or those with an odd number, then all again.
static status play_with(exec_endpoint *endpoint, arena *memory, error_message *err)
{
    int everybody[RANKS_MAX];
    int half[RANKS_MAX];
    int sequence[2] = {0};
    exec_group all = {
        .endpoint = endpoint, .rank = everybody, .self = endpoint->rank, .sequence = &sequence[0]};
    exec_group own = {.endpoint = endpoint,
                      .rank = half,
                      .self = endpoint->rank / 2,
                      .sequence = &sequence[1],
                      .channel = 1};
    for (int rank = 0; rank < endpoint->rank_count; rank++) {
        everybody[all.rank_count++] = rank;
        if (rank % 2 == endpoint->rank % 2) half[own.rank_count++] = rank;
    }
    TRY(use(&all, memory, err));
    TRY(use(&own, memory, err));
    return use(&all, memory, err);
}

static status play(exec_endpoint *endpoint, void *context, error_message *err)
{
    (void)context;
    arena *memory = arena_create(1 << 16);
    const status code = play_with(endpoint, memory, err);
    arena_destroy(memory);
    return code;
}

int main(int argc, char **argv)
{
    const exec_transport_options options = world_options(argc, argv);
    world_require(argv[1], &options, play, NULL, "groups do not depend on the transport");
    return 0;
}
