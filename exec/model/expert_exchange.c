#include "exec/model/expert_exchange.h"

#include <stdlib.h>

exec_expert_exchange exec_expert_exchange_of(int member_count, int replica, exec_stopwatch *watch,
                                             const exec_device *device, bool composes)
{
    return (exec_expert_exchange){
        .member_count = member_count,
        .member = replica % member_count,
        .parts = memory_array(2 * (size_t)member_count, sizeof(exec_group_part)),
        .watch = watch,
        .device = device,
        .composes = composes,
    };
}

void exec_expert_exchange_free(exec_expert_exchange *exchange)
{
    free(exchange->parts);
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

/// Exchanges the parts. Where the watch does not count waiting, it is told how much later than this
/// rank the last of the members was here, by the nominal clock.
static status exchange_parts(exec_expert_exchange *exchange, error_message *err)
{
    const exec_group_part *parts = exchange->parts;
    const int64_t since_ns = exec_stopwatch_op_ns(exchange->watch);
    const int64_t here_ns = exchange->device->op_begin_ns + since_ns;
    int64_t ready_ns = here_ns;
    TRY(exec_group_exchange(&exchange->members, parts, parts + exchange->member_count, &ready_ns,
                            err));
    exec_stopwatch_wait(exchange->watch, since_ns, exchange->composes ? ready_ns - here_ns : 0);
    return STATUS_OK;
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
    return exchange_parts(exchange, err);
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
    for (int member = 0; member < exchange->member_count; member++) {
        exchange->parts[member] = part_of(first_sent, stride, member, row_bytes, sent);
        exchange->parts[exchange->member_count + member] =
            part_of(first_received, stride, member, row_bytes, received);
    }
    return exchange_parts(exchange, err);
}
