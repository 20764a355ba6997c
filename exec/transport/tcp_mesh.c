#define _GNU_SOURCE // accept4
#include "exec/transport/tcp_mesh.h"

#include "base/arena.h"
#include "exec/clock.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STEP_MS = 50, ADDRESS_BYTES = 64, PORT_BYTES = 8 };
static const uint64_t hello_magic = UINT64_C(0x64796e6d6f746370); // tells strangers apart
static const int64_t hello_ns = 2000000000;                       // a stranger may say nothing

/// What who connects says first.
typedef struct hello {
    uint64_t magic;
    int32_t rank;
    int32_t rank_count;
    int32_t port; // at which it listens
    int32_t unused;
} hello;

/// Where a rank listens, as rank 0 sees it.
typedef struct contact {
    char address[ADDRESS_BYTES];
    int32_t port;
} contact;

typedef struct mesh {
    const exec_tcp_meeting *meeting;
    int64_t end_ns;
    int listener;
    int family;
    int *sockets;
    contact *contacts; // [rank_count]
} mesh;

static status fail(const char *what, int number, error_message *err)
{
    return error_set(err, STATUS_BACKEND, "transport 'tcp': %s: %s", what, strerror(number));
}

/// Waits until a socket is ready; false at end_ns, and where interrupted.
static bool await(const mesh *at, int socket_, short events, int64_t end_ns)
{
    const atomic_bool *interrupt = at->meeting->interrupt;
    struct pollfd polled = {.fd = socket_, .events = events};
    while (poll(&polled, 1, STEP_MS) <= 0) {
        if (interrupt != NULL && atomic_load(interrupt)) return false;
        if (exec_monotonic_ns() > end_ns) return false;
    }
    return true;
}

/// Why a wait for somebody was in vain.
static status tell_missing(const mesh *at, const char *whom, error_message *err)
{
    const exec_tcp_meeting *meeting = at->meeting;
    if (meeting->interrupt != NULL && atomic_load(meeting->interrupt)) {
        return error_set(err, STATUS_BACKEND, "interrupted");
    }
    return error_set(err, STATUS_BACKEND, "transport 'tcp': rank %d: %s within %.3g s",
                     meeting->rank, whom, (double)meeting->patience_ns / 1e9);
}

/// Sends or receives all of some bytes; false where the other is gone, or at end_ns.
static bool move_bytes(const mesh *at, int socket_, bool sends, void *bytes, size_t count,
                       int64_t end_ns)
{
    for (size_t moved = 0; moved < count;) {
        char *next = (char *)bytes + moved;
        const ssize_t step = sends ? send(socket_, next, count - moved, MSG_NOSIGNAL)
                                   : recv(socket_, next, count - moved, 0);
        if (step > 0) {
            moved += (size_t)step;
        } else if (step == 0 || (errno != EAGAIN && errno != EINTR)) {
            return false;
        } else if (!await(at, socket_, sends ? POLLOUT : POLLIN, end_ns)) {
            return false;
        }
    }
    return true;
}

/// Small messages leave at once, and a machine that is gone is noticed.
static void tune(int socket_)
{
    const int yes = 1;
    const int idle_s = 15;
    const int interval_s = 5;
    const int probes = 3;
    (void)setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    (void)setsockopt(socket_, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    (void)setsockopt(socket_, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(socket_, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    (void)setsockopt(socket_, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

/// Finds the address of a host; host NULL: all of this machine's.
static status resolve(const char *host, int port, int family, struct addrinfo **found,
                      error_message *err)
{
    char text[PORT_BYTES];
    const struct addrinfo wanted = {.ai_family = family,
                                    .ai_socktype = SOCK_STREAM,
                                    .ai_flags = AI_NUMERICSERV | (host == NULL ? AI_PASSIVE : 0)};
    snprintf(text, sizeof text, "%d", port);
    const int code = getaddrinfo(host, text, &wanted, found);
    if (code == 0) return STATUS_OK;
    return error_set(err, STATUS_BACKEND, "transport 'tcp': host '%.100s': %s",
                     host != NULL ? host : "", gai_strerror(code));
}

/// Listens at a port of this machine; 0: any that is free.
static status listen_at(mesh *at, int port, error_message *err)
{
    struct addrinfo *here = NULL;
    const int yes = 1;
    char what[64];
    TRY(resolve(NULL, port, at->family, &here, err));
    at->listener = socket(here->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (at->listener >= 0) {
        (void)setsockopt(at->listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    }
    const bool listens = at->listener >= 0 &&
                         bind(at->listener, here->ai_addr, here->ai_addrlen) == 0 &&
                         listen(at->listener, SOMAXCONN) == 0;
    const int number = errno;
    freeaddrinfo(here);
    snprintf(what, sizeof what, "cannot listen at port %d", port);
    return listens ? STATUS_OK : fail(what, number, err);
}

static int listener_port(const mesh *at)
{
    struct sockaddr_storage own;
    socklen_t bytes = sizeof own;
    char port[PORT_BYTES] = "0";
    if (getsockname(at->listener, (struct sockaddr *)&own, &bytes) == 0) {
        (void)getnameinfo((struct sockaddr *)&own, bytes, NULL, 0, port, sizeof port,
                          NI_NUMERICSERV);
    }
    return atoi(port);
}

/// The address of whom a socket is connected to.
static void copy_peer_address(int socket_, char address[ADDRESS_BYTES])
{
    struct sockaddr_storage peer;
    socklen_t bytes = sizeof peer;
    address[0] = '\0';
    if (getpeername(socket_, (struct sockaddr *)&peer, &bytes) == 0) {
        (void)getnameinfo((struct sockaddr *)&peer, bytes, address, ADDRESS_BYTES, NULL, 0,
                          NI_NUMERICHOST);
    }
}

/// Tries once; -1 where nobody listens, or not in time.
static int try_to_connect(const mesh *at, const struct addrinfo *there)
{
    int problem = 0;
    socklen_t bytes = sizeof problem;
    const int made = socket(there->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (made < 0) return -1;
    const bool is_done =
        connect(made, there->ai_addr, there->ai_addrlen) == 0 ||
        (errno == EINPROGRESS && await(at, made, POLLOUT, at->end_ns) &&
         getsockopt(made, SOL_SOCKET, SO_ERROR, &problem, &bytes) == 0 && problem == 0);
    if (is_done) {
        tune(made);
        return made;
    }
    close(made);
    return -1;
}

/// Connects to a rank, who may not listen yet, and says who this is.
static status connect_to(mesh *at, int rank, const char *host, int port, error_message *err)
{
    const exec_tcp_meeting *meeting = at->meeting;
    const struct timespec nap = {.tv_nsec = STEP_MS * 1000000};
    hello own = {.magic = hello_magic,
                 .rank = meeting->rank,
                 .rank_count = meeting->rank_count,
                 .port = listener_port(at)};
    char whom[160];
    struct addrinfo *there = NULL;
    snprintf(whom, sizeof whom, "rank %d was not reached at %.100s:%d", rank, host, port);
    TRY(resolve(host, port, at->family, &there, err));
    bool goes_on = true;
    while (at->sockets[rank] < 0 && goes_on) {
        at->sockets[rank] = try_to_connect(at, there);
        goes_on = exec_monotonic_ns() < at->end_ns &&
                  (meeting->interrupt == NULL || !atomic_load(meeting->interrupt));
        if (at->sockets[rank] < 0) nanosleep(&nap, NULL);
    }
    freeaddrinfo(there);
    if (at->sockets[rank] >= 0 &&
        move_bytes(at, at->sockets[rank], true, &own, sizeof own, at->end_ns)) {
        return STATUS_OK;
    }
    return tell_missing(at, whom, err);
}

/// Takes in one who connects. Strangers, and ranks that have come before, are turned away.
static status accept_one(mesh *at, int *accepted_count, error_message *err)
{
    const exec_tcp_meeting *meeting = at->meeting;
    hello said = {0};
    char whom[64];
    snprintf(whom, sizeof whom, "%d of %d ranks have come", *accepted_count,
             meeting->rank_count - 1 - meeting->rank);
    if (!await(at, at->listener, POLLIN, at->end_ns)) return tell_missing(at, whom, err);
    const int made = accept4(at->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (made < 0) {
        const bool passes = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
        return passes ? STATUS_OK : fail("cannot accept a connection", errno, err);
    }
    tune(made);
    const bool is_rank =
        move_bytes(at, made, false, &said, sizeof said, exec_monotonic_ns() + hello_ns) &&
        said.magic == hello_magic && said.rank_count == meeting->rank_count &&
        said.rank > meeting->rank && said.rank < meeting->rank_count && at->sockets[said.rank] < 0;
    if (!is_rank) {
        close(made);
        return STATUS_OK;
    }
    at->sockets[said.rank] = made;
    copy_peer_address(made, at->contacts[said.rank].address);
    at->contacts[said.rank].port = said.port;
    ++*accepted_count;
    return STATUS_OK;
}

static status accept_higher(mesh *at, error_message *err)
{
    const int expected = at->meeting->rank_count - 1 - at->meeting->rank;
    for (int accepted = 0; accepted < expected;) {
        TRY(accept_one(at, &accepted, err));
    }
    return STATUS_OK;
}

/// Rank 0 tells the others where all listen.
static status share_contacts(mesh *at, error_message *err)
{
    const size_t bytes = (size_t)at->meeting->rank_count * sizeof *at->contacts;
    const int first = at->meeting->rank == 0 ? 1 : 0;
    const int end = at->meeting->rank == 0 ? at->meeting->rank_count : 1;
    for (int rank = first; rank < end; rank++) {
        if (move_bytes(at, at->sockets[rank], first > 0, at->contacts, bytes, at->end_ns)) continue;
        char whom[64];
        snprintf(whom, sizeof whom, "rank %d did not say or hear where all are", rank);
        return tell_missing(at, whom, err);
    }
    return STATUS_OK;
}

static bool is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}

/// Connects to the ranks below, but rank 0. What is on rank 0's machine may have reached it by an
/// address that means nothing elsewhere.
static status connect_lower(mesh *at, error_message *err)
{
    char leader[ADDRESS_BYTES];
    copy_peer_address(at->sockets[0], leader);
    for (int rank = 1; rank < at->meeting->rank; rank++) {
        const contact *there = &at->contacts[rank];
        const char *host = is_loopback(there->address) ? leader : there->address;
        TRY(connect_to(at, rank, host, there->port, err));
    }
    return STATUS_OK;
}

static status meet(mesh *at, error_message *err)
{
    const exec_tcp_meeting *meeting = at->meeting;
    struct addrinfo *point = NULL;
    at->family = AF_INET; // all must choose alike, where a name has addresses of both families
    if (resolve(meeting->host, meeting->port, AF_INET, &point, NULL) != STATUS_OK) {
        TRY(resolve(meeting->host, meeting->port, AF_UNSPEC, &point, err));
        at->family = point->ai_family;
    }
    freeaddrinfo(point);
    TRY(listen_at(at, meeting->rank == 0 ? meeting->port : 0, err));
    if (meeting->rank == 0) {
        TRY(accept_higher(at, err));
        return share_contacts(at, err);
    }
    TRY(connect_to(at, 0, meeting->host, meeting->port, err));
    TRY(share_contacts(at, err));
    TRY(connect_lower(at, err));
    return accept_higher(at, err);
}

status exec_tcp_connect(const exec_tcp_meeting *meeting, int *sockets, error_message *err)
{
    const size_t ranks = (size_t)meeting->rank_count;
    mesh at = {.meeting = meeting,
               .end_ns = exec_monotonic_ns() + meeting->patience_ns,
               .listener = -1,
               .sockets = sockets,
               .contacts = memory_array(ranks, sizeof(contact))};
    for (size_t rank = 0; rank < ranks; rank++) {
        sockets[rank] = -1;
    }
    const status met = meeting->rank_count > 1 ? meet(&at, err) : STATUS_OK;
    for (size_t rank = 0; rank < ranks && met != STATUS_OK; rank++) {
        if (sockets[rank] >= 0) close(sockets[rank]);
        sockets[rank] = -1;
    }
    if (at.listener >= 0) close(at.listener);
    free(at.contacts);
    return met;
}
