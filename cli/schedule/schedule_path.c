#include "cli/schedule/schedule_path.h"

#include "sim/critical_path.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

enum { SHOWN_RANKS = 4 };

/// As they are called in orders.
static const char *const kind_names[OP_KIND_COUNT] = {
    [OP_FORWARD] = "F",
    [OP_BACKWARD_INPUT] = "B",
    [OP_BACKWARD_WEIGHT] = "W",
    [OP_BACKWARD] = "BW",
};

static int64_t sum_of(const int64_t *values_ns, int count)
{
    int64_t sum_ns = 0;
    for (int index = 0; index < count; index++) {
        sum_ns += values_ns[index];
    }
    return sum_ns;
}

cli_schedule_path cli_schedule_path_find(const bal_timeline *played, const bal_stage_costs *costs,
                                         arena *memory)
{
    const bal_schedule *schedule = played->schedule;
    sim_critical_path found;
    sim_critical_path_of(played, costs, memory, &found);
    const size_t cells = (size_t)schedule->rank_count * OP_KIND_COUNT;
    int64_t *op_ns = arena_array(memory, cells, sizeof *op_ns);
    for (int stage = 0; stage < costs->stage_count; stage++) {
        int64_t *of_rank = op_ns + (ptrdiff_t)bal_schedule_rank(schedule, stage) * OP_KIND_COUNT;
        for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
            of_rank[kind] += found.op_ns[stage][kind];
        }
    }
    return (cli_schedule_path){.rank_count = schedule->rank_count,
                               .op_count = found.op_count,
                               .message_count = found.message_count,
                               .op_ns = op_ns,
                               .forward_ns = sum_of(found.forward_link_ns, costs->stage_count),
                               .backward_ns = sum_of(found.backward_link_ns, costs->stage_count)};
}

/// Time of one kind on all ranks.
static int64_t kind_ns(const cli_schedule_path *path, int kind)
{
    int64_t sum_ns = 0;
    for (int rank = 0; rank < path->rank_count; rank++) {
        sum_ns += path->op_ns[rank * OP_KIND_COUNT + kind];
    }
    return sum_ns;
}

/// Time of all ops on one rank.
static int64_t rank_ns(const cli_schedule_path *path, int rank)
{
    return sum_of(path->op_ns + (ptrdiff_t)rank * OP_KIND_COUNT, OP_KIND_COUNT);
}

void cli_schedule_path_json(const cli_schedule_path *path, json_writer *writer)
{
    if (path->rank_count == 0) return;
    json_put_object(writer, "critical_path");
    json_put_int64(writer, "ops", path->op_count);
    json_put_int64(writer, "messages", path->message_count);
    for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
        char key[8];
        snprintf(key, sizeof key, "%s_ns", kind_names[kind]);
        json_put_array(writer, key);
        for (int rank = 0; rank < path->rank_count; rank++) {
            json_write_int64(writer, path->op_ns[rank * OP_KIND_COUNT + kind]);
        }
        json_end_array(writer);
    }
    json_put_int64(writer, "forward_message_ns", path->forward_ns);
    json_put_int64(writer, "backward_message_ns", path->backward_ns);
    json_end_object(writer);
}

/// The rank with the most time behind one with so much: ranks of equal time in their order, -1
/// after the last that has any.
static int next_rank(const cli_schedule_path *path, int before)
{
    const int64_t limit_ns = before < 0 ? INT64_MAX : rank_ns(path, before);
    int found = -1;
    int64_t most_ns = 0;
    for (int rank = 0; rank < path->rank_count; rank++) {
        const int64_t ns = rank_ns(path, rank);
        const bool is_behind = ns < limit_ns || (ns == limit_ns && rank > before);
        if (!is_behind || ns <= most_ns) continue;
        most_ns = ns;
        found = rank;
    }
    return found;
}

static void write_ranks(const cli_schedule_path *path, text_buffer *out)
{
    int left = 0;
    for (int rank = 0; rank < path->rank_count; rank++) {
        left += rank_ns(path, rank) > 0;
    }
    text_format(out, "%-18s ", "");
    int rank = next_rank(path, -1);
    for (int shown = 0; rank >= 0 && shown < SHOWN_RANKS; shown++) {
        text_format(out, "%srank %d %" PRId64, shown > 0 ? ", " : "", rank, rank_ns(path, rank));
        rank = next_rank(path, rank);
        left--;
    }
    text_append(out, " ns");
    if (left > 0) text_format(out, ", and %d more ranks", left);
    text_append(out, "\n");
}

void cli_schedule_path_text(const cli_schedule_path *path, text_buffer *out)
{
    if (path->rank_count == 0) return;
    text_format(out, "%-18s ", "critical path");
    for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
        const int64_t ns = kind_ns(path, kind);
        if (ns > 0) text_format(out, "%s %" PRId64 ", ", kind_names[kind], ns);
    }
    text_format(out, "messages %" PRId64, path->forward_ns + path->backward_ns);
    text_format(out, " ns   in %d ops, %d messages between ranks\n", path->op_count,
                path->message_count);
    if (sum_of(path->op_ns, path->rank_count * OP_KIND_COUNT) > 0) write_ranks(path, out);
}
