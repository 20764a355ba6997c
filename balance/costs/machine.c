#include "balance/costs/machine.h"

#include "base/text.h"

#include <assert.h>
#include <stdbool.h>

const char *const bal_send_names[BAL_SEND_COUNT] = {
    [BAL_SEND_ASYNC] = "async",
    [BAL_SEND_BLOCKING] = "blocking",
    [BAL_SEND_RENDEZVOUS] = "rendezvous",
};

status bal_send_parse(const char *name, bal_send *send, error_message *err)
{
    const int found = text_find(name, bal_send_names, BAL_SEND_COUNT);
    if (found < BAL_SEND_COUNT) {
        *send = (bal_send)found;
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
    __extension__ typedef __int128 wide;
    const wide wire_ns =
        ((wide)bytes * 1000000000 + link.bytes_per_s - 1) / link.bytes_per_s; // rounded up
    return wire_ns > limit - link.latency_ns ? limit : (int64_t)wire_ns + link.latency_ns;
}

static const int64_t ns_max = INT64_MAX / 4;

static int64_t sum_ns(int64_t a, int64_t b)
{
    return a > ns_max - b ? ns_max : a + b;
}

/// Steps of a part of the bytes each, the last of which may be smaller.
static int64_t steps_ns(bal_link link, int steps, int parts, int64_t bytes)
{
    assert(steps >= 0 && parts >= 1 && bytes >= 0);
    if (steps == 0) return 0;
    const int64_t step_ns = bal_link_transfer_ns(link, bytes / parts + (bytes % parts > 0));
    return step_ns > ns_max / steps ? ns_max : step_ns * steps;
}

/// All of them hand on an n-th part of the bytes until each has been everywhere.
static int64_t ring_gather_ns(bal_link link, int rank_count, int64_t bytes)
{
    return steps_ns(link, rank_count - 1, rank_count, bytes);
}

static void check_group(const bal_group *group)
{
    assert(group->rank_count >= 1);
    assert(group->node_rank_count >= 1 && group->node_rank_count <= group->rank_count);
}

int64_t bal_group_all_gather_ns(const bal_group *group, int64_t bytes)
{
    check_group(group);
    const int per_node = group->node_rank_count;
    const int nodes = (group->rank_count + per_node - 1) / per_node;
    const int64_t place_bytes = bytes / per_node + (bytes % per_node > 0);
    return sum_ns(ring_gather_ns(group->inter_node, nodes, place_bytes),
                  ring_gather_ns(group->intra_node, per_node, bytes));
}

int64_t bal_group_reduce_scatter_ns(const bal_group *group, int64_t bytes)
{
    return bal_group_all_gather_ns(group, bytes);
}

int64_t bal_group_all_reduce_ns(const bal_group *group, int64_t bytes)
{
    const int64_t one_way_ns = bal_group_all_gather_ns(group, bytes);
    return sum_ns(one_way_ns, one_way_ns);
}

int64_t bal_group_all_to_all_ns(const bal_group *group, int64_t bytes)
{
    check_group(group);
    const int ranks = group->rank_count;
    const int on_node = group->node_rank_count;
    return sum_ns(steps_ns(group->intra_node, on_node - 1, ranks, bytes),
                  steps_ns(group->inter_node, ranks - on_node, ranks, bytes));
}

int64_t bal_group_ring_step_ns(const bal_group *group, int64_t bytes)
{
    check_group(group);
    if (group->rank_count == 1) return 0;
    const bool is_on_node = group->node_rank_count == group->rank_count;
    return bal_link_transfer_ns(is_on_node ? group->intra_node : group->inter_node, bytes);
}

void bal_gradient_reductions_ns(const int64_t *parameters, int layer_count, int gradient_bytes,
                                const bal_group *replicas, int64_t *reduction_ns)
{
    assert(gradient_bytes >= 0);
    for (int layer = 0; layer < layer_count; layer++) {
        const bool is_large = gradient_bytes > 0 && parameters[layer] > INT64_MAX / gradient_bytes;
        const int64_t bytes = is_large ? INT64_MAX : parameters[layer] * gradient_bytes;
        reduction_ns[layer] = bal_group_all_reduce_ns(replicas, bytes);
    }
}
