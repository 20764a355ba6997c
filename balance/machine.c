#include "balance/machine.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

const char *const bal_send_names[BAL_SEND_COUNT] = {
    [BAL_SEND_ASYNC] = "async",
    [BAL_SEND_BLOCKING] = "blocking",
    [BAL_SEND_RENDEZVOUS] = "rendezvous",
};

status bal_send_parse(const char *name, bal_send *send, error_message *err)
{
    for (int index = 0; index < BAL_SEND_COUNT; index++) {
        if (strcmp(name, bal_send_names[index]) != 0) continue;
        *send = (bal_send)index;
        return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID, "send '%.60s' is none of async, blocking and rendezvous",
                     name);
}

bool bal_machine_network_is_free(const bal_machine *machine)
{
    return machine->send == BAL_SEND_ASYNC && !machine->shares_node_links;
}

bal_link bal_machine_link(const bal_machine *machine, int rank, int other_rank)
{
    const bool same_node = rank / machine->ranks_per_node == other_rank / machine->ranks_per_node;
    return same_node ? machine->intra_node : machine->inter_node;
}

int64_t bal_link_transfer_ns(bal_link link, int64_t bytes)
{
    assert(bytes >= 0 && link.latency_ns >= 0 && link.latency_ns <= INT64_MAX / 4);
    assert(link.bytes_per_s >= 0 && link.bytes_per_s <= INT64_MAX / 10);
    const int64_t limit = INT64_MAX / 4;
    if (link.bytes_per_s == 0) return link.latency_ns;
    // Whole seconds and the rest apart, so that bytes * 10^9 never has to fit 64 bits.
    const int64_t seconds = bytes / link.bytes_per_s;
    const int64_t rest = bytes % link.bytes_per_s;
    if (seconds > limit / 1000000000) return limit;
    // rest < bytes_per_s, so the quotient is below 10^9; one decimal digit at a time keeps the
    // remainder exact in unsigned 64 bits (bytes_per_s <= INT64_MAX / 10 is plenty).
    uint64_t remainder = (uint64_t)rest;
    int64_t rest_ns = 0;
    for (int digit = 0; digit < 9; digit++) {
        remainder *= 10;
        rest_ns = rest_ns * 10 + (int64_t)(remainder / (uint64_t)link.bytes_per_s);
        remainder %= (uint64_t)link.bytes_per_s;
    }
    const int64_t wire_ns = seconds * 1000000000 + rest_ns + (remainder > 0);
    return wire_ns > limit - link.latency_ns ? limit : wire_ns + link.latency_ns;
}
