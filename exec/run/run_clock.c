/// How far the clocks of the ranks are from the leader's: those of other nodes count from another
/// moment, and drift.
#include "exec/run/run.h"

#include <stdlib.h>
#include <string.h>

/// Clocks drift apart by no more than this: 50 ppm, what quartz and NTP's slewing stay well within.
enum { FIRST_ROUNDS = 16, DRIFT_DIVISOR = 20000 };

static uint64_t key_of(int iteration)
{
    return exec_message_key(EXEC_MESSAGE_GROUP, iteration, EXEC_STAGE_MAX - 1, 0);
}

/// The leader tells a rank its time, as often as the rank asks: value[0] counts down to the last.
static status tell(exec_run *run, int rank, uint64_t key, error_message *err)
{
    const exec_transport *transport = run->endpoint->transport;
    exec_message question = {.value = {1}};
    while (question.value[0] > 0) {
        TRY(transport->receive(run->endpoint, rank, key, &question, NULL, 0, err));
        const exec_message answer = {.key = key, .value = {exec_endpoint_now_ns(run->endpoint)}};
        TRY(transport->send(run->endpoint, rank, &answer, NULL, err));
    }
    return STATUS_OK;
}

/// The leader read its clock between question and answer. So half of the time between them bounds
/// the error of the middle; that of an earlier answer grows as clocks drift. A clock that can be
/// the leader's is.
static void take(exec_clock_offset *clock, int64_t asked_ns, int64_t told_ns, int64_t heard_ns)
{
    const int64_t residual_ns = (heard_ns - asked_ns) / 2 + 1;
    clock->residual_ns += (heard_ns - clock->heard_ns) / DRIFT_DIVISOR + 1;
    clock->heard_ns = heard_ns;
    if (clock->is_known && clock->residual_ns < residual_ns) return;
    const int64_t offset_ns = asked_ns + (heard_ns - asked_ns) / 2 - told_ns;
    *clock = (exec_clock_offset){.is_known = true,
                                 .offset_ns = llabs(offset_ns) <= residual_ns ? 0 : offset_ns,
                                 .residual_ns = residual_ns,
                                 .heard_ns = heard_ns};
}

static status ask(exec_run *run, uint64_t key, error_message *err)
{
    const exec_transport *transport = run->endpoint->transport;
    for (int left = run->clock.is_known ? 0 : FIRST_ROUNDS - 1; left >= 0; left--) {
        exec_message answer;
        const int64_t asked_ns = exec_endpoint_now_ns(run->endpoint);
        const exec_message question = {.key = key, .value = {left}};
        TRY(transport->send(run->endpoint, EXEC_LEADER, &question, NULL, err));
        TRY(transport->receive(run->endpoint, EXEC_LEADER, key, &answer, NULL, 0, err));
        take(&run->clock, asked_ns, answer.value[0], exec_endpoint_now_ns(run->endpoint));
    }
    return STATUS_OK;
}

status exec_run_compare_clocks(exec_run *run, int iteration, error_message *err)
{
    const exec_group *group = &run->ranks.awake;
    if (strcmp(run->endpoint->transport->name, "local") == 0) return STATUS_OK; // one process
    if (run->endpoint->rank != EXEC_LEADER) return ask(run, key_of(iteration), err);
    for (int index = 0; index < group->rank_count; index++) {
        if (group->rank[index] == EXEC_LEADER) continue;
        TRY(tell(run, group->rank[index], key_of(iteration), err));
    }
    return STATUS_OK;
}
