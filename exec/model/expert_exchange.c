#include "exec/model/expert_exchange.h"

#include <stdlib.h>

exec_expert_exchange exec_expert_exchange_of(int member_count, int replica, exec_stopwatch *watch,
                                             const exec_device *device, bool composes)
{
    return (exec_expert_exchange){
        .member_count = member_count,
        .member = replica % member_count,
        .parts = memory_array(4 * (size_t)member_count, sizeof(exec_group_part)),
        .transfers = memory_array(2 * (size_t)member_count, sizeof(exec_transfer)),
        .watch = watch,
        .device = device,
        .composes = composes,
    };
}

void exec_expert_exchange_free(exec_expert_exchange *exchange)
{
    free(exchange->parts);
    free(exchange->transfers);
    free(exchange->owner_rank);
    *exchange = (exec_expert_exchange){0};
}

status exec_expert_exchange_begin(exec_expert_exchange *exchange, const exec_group *replicas,
                                  error_message *err)
{
    const int members = exchange->member_count;
    const int count = replicas != NULL ? replicas->rank_count : 1;
    if (count % members != 0) {
        return error_set(err, STATUS_INVALID, "expert_parallel %d does not divide the %d replicas",
                         members, count);
    }
    exchange->members = exchange->owners = *replicas;
    exchange->members.rank += replicas->self - exchange->member;
    exchange->members.rank_count = members;
    exchange->members.self = exchange->member;
    exchange->members.sequence = &exchange->sequence;
    exchange->members.channel = EXEC_CHANNEL_EXPERTS;
    exchange->owners.rank_count = count / members;
    exchange->owners.self = replicas->self / members;
    exchange->owner_rank = memory_resize(exchange->owner_rank, (size_t)exchange->owners.rank_count,
                                         sizeof *exchange->owner_rank);
    exchange->owners.rank = exchange->owner_rank;
    for (int owner = 0; owner < exchange->owners.rank_count; owner++) {
        exchange->owner_rank[owner] = replicas->rank[owner * members + exchange->member];
    }
    return STATUS_OK;
}

bool exec_exchange_is_on_device(const exec_kernels *kernels, const exec_endpoint *endpoint)
{
    return kernels->table->stream != NULL && endpoint->transport->exchange != NULL;
}

/// Enqueues the exchange of the parts, which are device memory.
static status transfer_parts(exec_expert_exchange *exchange, error_message *err)
{
    exec_kernels *kernels = exchange->watch->kernels;
    exec_endpoint *endpoint = exchange->members.endpoint;
    const int members = exchange->member_count;
    const exec_group_part own = exchange->parts[exchange->member];
    int count = 0;
    for (int index = 0; index < 2 * members; index++) {
        const exec_group_part part = exchange->parts[index];
        const int member = index % members;
        if (member == exchange->member || part.byte_count == 0) continue;
        exchange->transfers[count++] = (exec_transfer){
            exchange->members.rank[member], index < members, part.bytes, part.byte_count};
    }
    kernels->table->copy(kernels, exchange->parts[members + exchange->member].bytes, own.bytes,
                         (size_t)own.byte_count);
    return endpoint->transport->exchange(endpoint, kernels->table->stream(kernels),
                                         exchange->transfers, count, err);
}

/// Exchanges the parts. Where times are composed, the watch is told how much later than this rank
/// the last of the members was here.
static status exchange_parts(exec_expert_exchange *exchange, bool is_on_device, error_message *err)
{
    const exec_group_part *parts =
        exchange->parts + (is_on_device ? 2 * exchange->member_count : 0);
    const bool composes = exchange->composes;
    int64_t since_ns = 0;
    TRY(exec_stopwatch_begin_wait(exchange->watch, composes, &since_ns, err));
    const int64_t here_ns = exchange->device->op_begin_ns + since_ns;
    int64_t ready_ns = here_ns;
    if (!is_on_device || composes) {
        TRY(exec_group_exchange(&exchange->members, parts, parts + exchange->member_count,
                                &ready_ns, err));
    }
    if (is_on_device) TRY(transfer_parts(exchange, err));
    return exec_stopwatch_end_wait(exchange->watch, composes, ready_ns - here_ns, err);
}

status exec_expert_exchange_counts(exec_expert_exchange *exchange, int *count, int expert_count,
                                   error_message *err)
{
    const int64_t bytes = expert_count * (int64_t)sizeof *count;
    exec_group_part *sent = exchange->parts;
    exec_group_part *received = sent + exchange->member_count;
    for (int member = 0; member < exchange->member_count; member++) {
        sent[member] = (exec_group_part){count + exchange->member * expert_count, bytes};
        received[member] = (exec_group_part){count + member * expert_count, bytes};
    }
    return exchange_parts(exchange, false, err);
}

static exec_group_part part_of(const int *first, int stride, int member, size_t row_bytes,
                               void *rows)
{
    const int begin = first[member * stride];
    const int count = first[(member + 1) * stride] - begin;
    return (exec_group_part){(char *)rows + (size_t)begin * row_bytes, count * (int64_t)row_bytes};
}

status exec_expert_exchange_rows(exec_expert_exchange *exchange, int stride, size_t row_bytes,
                                 const int *first_sent, void *sent, const int *first_received,
                                 void *received, error_message *err)
{
    exec_kernels *kernels = exchange->watch->kernels;
    const exec_kernel_table *table = kernels->table;
    const int members = exchange->member_count;
    const bool is_on_device = exec_exchange_is_on_device(kernels, exchange->members.endpoint);
    const bool is_staged = !is_on_device && !table->has_host_memory;
    const size_t sent_bytes = (size_t)first_sent[members * stride] * row_bytes;
    const size_t received_bytes = (size_t)first_received[members * stride] * row_bytes;
    char *staged = is_staged ? memory_array(sent_bytes + received_bytes, 1) : NULL;
    if (is_staged) table->to_host(kernels, staged, sent, sent_bytes);
    for (int member = 0; member < members; member++) {
        exchange->parts[member] =
            part_of(first_sent, stride, member, row_bytes, is_staged ? staged : sent);
        exchange->parts[members + member] = part_of(first_received, stride, member, row_bytes,
                                                    is_staged ? staged + sent_bytes : received);
    }
    status result = table->check(kernels, err);
    if (result == STATUS_OK) result = exchange_parts(exchange, is_on_device, err);
    if (result == STATUS_OK && is_staged) {
        table->to_device(kernels, received, staged + sent_bytes, received_bytes);
    }
    free(staged);
    return result;
}
