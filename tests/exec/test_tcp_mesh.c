/// How processes find each other by TCP: here each rank is a thread. Strangers are turned away, and
/// who does not come is named.
#include "exec/clock.h"
#include "exec/transport/tcp_mesh.h"
#include "tests/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { RANKS_MAX = 6 };

/// One rank of a world that may lack others.
typedef struct member {
    exec_tcp_meeting meeting;
    int sockets[RANKS_MAX];
    status ended;
    error_message err;
    pthread_t thread;
} member;

static struct sockaddr_in loopback(int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/// A port at which nobody listens.
static int free_port(void)
{
    struct sockaddr_in at = loopback(0);
    socklen_t bytes = sizeof at;
    const int made = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(made, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(made, (struct sockaddr *)&at, &bytes), 0);
    close(made);
    return ntohs(at.sin_port);
}

static void *come(void *argument)
{
    member *own = argument;
    own->ended = exec_tcp_connect(&own->meeting, own->sockets, &own->err);
    return NULL;
}

/// Starts ranks [first, end) of a world.
static void start(member *members, int first, int end, int rank_count, int port,
                  int64_t patience_ns, const atomic_bool *interrupt)
{
    for (int rank = first; rank < end; rank++) {
        members[rank] = (member){.meeting = {.rank = rank,
                                             .rank_count = rank_count,
                                             .host = "127.0.0.1",
                                             .port = port,
                                             .patience_ns = patience_ns,
                                             .interrupt = interrupt}};
        assert_int_equal(pthread_create(&members[rank].thread, NULL, come, &members[rank]), 0);
    }
}

static void join(const member *members, int first, int end)
{
    for (int rank = first; rank < end; rank++) {
        assert_int_equal(pthread_join(members[rank].thread, NULL), 0);
    }
}

/// Connects as soon as somebody listens, says something, and stays.
static int intrude(int port, const void *said, size_t bytes)
{
    struct sockaddr_in at = loopback(port);
    const struct timespec nap = {.tv_nsec = 1000000};
    const int made = socket(AF_INET, SOCK_STREAM, 0);
    while (connect(made, (struct sockaddr *)&at, sizeof at) != 0) {
        nanosleep(&nap, NULL);
    }
    assert_int_equal(send(made, said, bytes, MSG_NOSIGNAL), bytes);
    return made;
}

/// Each rank's own number arrives at every other by the socket that leads there.
static void assert_connected(member *members, int rank_count)
{
    for (int from = 0; from < rank_count; from++) {
        assert_int_equal(members[from].ended, STATUS_OK);
        for (int to = 0; to < rank_count; to++) {
            if (to == from) continue;
            assert_int_equal(send(members[from].sockets[to], &from, sizeof from, 0), sizeof from);
        }
    }
    for (int to = 0; to < rank_count; to++) {
        assert_int_equal(members[to].sockets[to], -1);
        for (int from = 0; from < rank_count; from++) {
            int said = -1;
            if (from == to) continue;
            while (recv(members[to].sockets[from], &said, sizeof said, 0) < 0) {
            }
            assert_int_equal(said, from);
            close(members[to].sockets[from]);
        }
    }
}

TEST(all_are_connected_whoever_comes_first)
{
    member members[RANKS_MAX];
    const int port = free_port();
    const int64_t patience_ns = 60 * INT64_C(1000000000);

    start(members, 1, RANKS_MAX, RANKS_MAX, port, patience_ns, NULL);
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    start(members, 0, 1, RANKS_MAX, port, patience_ns, NULL);
    join(members, 0, RANKS_MAX);

    assert_connected(members, RANKS_MAX);
}

TEST(strangers_are_turned_away)
{
    member members[3];
    const int port = free_port();
    const int64_t patience_ns = 60 * INT64_C(1000000000);

    start(members, 0, 1, 3, port, patience_ns, NULL);
    const int silent = intrude(port, "", 0);
    const int loud = intrude(port, "GET / HTTP/1.1\r\nHost: somebody\r\n\r\n", 34);
    start(members, 1, 3, 3, port, patience_ns, NULL);
    join(members, 0, 3);

    assert_connected(members, 3);
    close(silent);
    close(loud);
}

TEST(who_does_not_come_is_counted)
{
    member members[3];
    const int port = free_port();

    start(members, 0, 2, 3, port, 300000000, NULL);
    join(members, 0, 2);

    assert_int_equal(members[0].ended, STATUS_BACKEND);
    assert_string_equal(members[0].err.message,
                        "transport 'tcp': rank 0: 1 of 2 ranks have come within 0.3 s");
    assert_int_equal(members[1].ended, STATUS_BACKEND);
    assert_int_equal(members[1].sockets[0], -1);
}

TEST(a_leader_that_is_not_there_is_named)
{
    member members[2];
    char expected[128];
    const int port = free_port();

    start(members, 1, 2, 2, port, 200000000, NULL);
    join(members, 1, 2);

    snprintf(expected, sizeof expected,
             "transport 'tcp': rank 1: rank 0 was not reached at 127.0.0.1:%d within 0.2 s", port);
    assert_int_equal(members[1].ended, STATUS_BACKEND);
    assert_string_equal(members[1].err.message, expected);
}

TEST(a_port_in_use_is_named)
{
    member members[2];
    char expected[128];
    struct sockaddr_in at = loopback(free_port());
    const int holder = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(holder, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(holder, 1), 0);
    const int port = ntohs(at.sin_port);

    start(members, 0, 1, 2, port, 200000000, NULL);
    join(members, 0, 1);

    snprintf(expected, sizeof expected,
             "transport 'tcp': cannot listen at port %d: Address already in use", port);
    assert_int_equal(members[0].ended, STATUS_BACKEND);
    assert_string_equal(members[0].err.message, expected);
    close(holder);
}

TEST(an_interruption_ends_the_wait)
{
    member members[2];
    atomic_bool interrupt = true;

    start(members, 0, 1, 2, free_port(), 3600 * INT64_C(1000000000), &interrupt);
    join(members, 0, 1);

    assert_int_equal(members[0].ended, STATUS_BACKEND);
    assert_string_equal(members[0].err.message, "interrupted");
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
