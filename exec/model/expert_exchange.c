#include "exec/model/expert_exchange.h"

#include <stdlib.h>

exec_expert_exchange exec_expert_exchange_of(int member_count, int replica, exec_stopwatch *watch,
                                             const exec_device *device, bool composes,
                                             bool hands_over)
{
    return (exec_expert_exchange){
        .member_count = member_count,
        .member = replica % member_count,
        .parts = memory_array(2 * (size_t)member_count, sizeof(exec_group_part)),
        .shown = memory_array(2 * (size_t)member_count, sizeof(exec_group_part)),
        .handovers = memory_array(2 * (size_t)member_count, sizeof(exec_handover)),
        .transfers = memory_array(2 * (size_t)member_count, sizeof(exec_transfer)),
        .watch = watch,
        .device = device,
        .composes = composes,
        .hands_over = hands_over,
    };
}

void exec_expert_exchange_free(exec_expert_exchange *exchange)
{
    free(exchange->parts);
    free(exchange->shown);
    free(exchange->handovers);
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

/// How rows travel.
typedef enum row_way { ROWS_BY_HOST, ROWS_HANDED_OVER, ROWS_TRANSFERRED } row_way;

static row_way way_of(const exec_expert_exchange *exchange)
{
    const exec_kernels *kernels = exchange->watch->kernels;
    if (exec_exchange_is_on_device(kernels, exchange->members.endpoint)) return ROWS_TRANSFERRED;
    return exchange->hands_over ? ROWS_HANDED_OVER : ROWS_BY_HOST;
}

/// Enqueues transfers of the parts.
static status transfer_parts(exec_expert_exchange *exchange, error_message *err)
{
    exec_kernels *kernels = exchange->watch->kernels;
    exec_endpoint *endpoint = exchange->members.endpoint;
    const int members = exchange->member_count;
    int count = 0;
    for (int index = 0; index < 2 * members; index++) {
        const exec_group_part part = exchange->parts[index];
        const int member = index % members;
        if (member == exchange->member || part.byte_count == 0) continue;
        exchange->transfers[count++] = (exec_transfer){
            exchange->members.rank[member], index < members, part.bytes, part.byte_count};
    }
    return endpoint->transport->exchange(endpoint, kernels->table->stream(kernels),
                                         exchange->transfers, count, err);
}

/// Has the descriptions of parts travel in their place.
static status offer_parts(exec_expert_exchange *exchange, error_message *err)
{
    exec_kernels *kernels = exchange->watch->kernels;
    const int members = exchange->member_count;
    for (int index = 0; index < 2 * members; index++) {
        const exec_group_part part = exchange->parts[index];
        exec_handover *described = &exchange->handovers[index];
        const bool travels = index % members != exchange->member && part.byte_count > 0;
        exchange->shown[index] =
            (exec_group_part){described, travels ? (int64_t)sizeof *described : 0};
        if (!travels || index >= members) continue;
        TRY(kernels->table->offer(kernels, part.bytes, (size_t)part.byte_count, described, err));
    }
    return STATUS_OK;
}

/// Enqueues copies of what has been offered to this rank.
static status take_parts(exec_expert_exchange *exchange, error_message *err)
{
    exec_kernels *kernels = exchange->watch->kernels;
    for (int index = exchange->member_count; index < 2 * exchange->member_count; index++) {
        if (exchange->shown[index].byte_count == 0) continue;
        TRY(kernels->table->take(kernels, &exchange->handovers[index], exchange->parts[index].bytes,
                                 err));
    }
    return STATUS_OK;
}

static void copy_own(exec_expert_exchange *exchange)
{
    exec_kernels *kernels = exchange->watch->kernels;
    const exec_group_part own = exchange->parts[exchange->member];
    void *to = exchange->parts[exchange->member_count + exchange->member].bytes;
    kernels->table->copy(kernels, to, own.bytes, (size_t)own.byte_count);
}

/// Exchanges parts in memory of the host, or what is shown of others. Where times are composed, the
/// watch is told how much later than this rank the last of the members was here.
static status exchange_parts(exec_expert_exchange *exchange, row_way way, error_message *err)
{
    const bool is_on_device = way != ROWS_BY_HOST;
    const exec_group_part *parts = is_on_device ? exchange->shown : exchange->parts;
    const bool composes = exchange->composes;
    int64_t since_ns = 0;
    if (way == ROWS_HANDED_OVER) TRY(offer_parts(exchange, err));
    TRY(exec_stopwatch_begin_wait(exchange->watch, composes, &since_ns, err));
    const int64_t here_ns = exchange->device->op_begin_ns + since_ns;
    int64_t ready_ns = here_ns;
    if (way != ROWS_TRANSFERRED || composes) {
        TRY(exec_group_exchange(&exchange->members, parts, parts + exchange->member_count,
                                &ready_ns, err));
    }
    if (way == ROWS_HANDED_OVER) TRY(take_parts(exchange, err));
    if (way == ROWS_TRANSFERRED) TRY(transfer_parts(exchange, err));
    if (is_on_device) copy_own(exchange);
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
    return exchange_parts(exchange, ROWS_BY_HOST, err);
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
    const row_way way = way_of(exchange);
    const bool is_staged = way == ROWS_BY_HOST && !table->has_host_memory;
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
    if (result == STATUS_OK) result = exchange_parts(exchange, way, err);
    if (result == STATUS_OK && is_staged) {
        table->to_device(kernels, received, staged + sent_bytes, received_bytes);
    }
    free(staged);
    return result;
}
