#include "cli/schedule/schedule_costs.h"

#include <string.h>

enum { COLUMNS_MAX = 108, OP_COLUMNS = 3 };

/// Greatest common divisor of all begins and ends: one column of it shows every op exactly.
static int64_t common_ns(const bal_timeline *timeline)
{
    int64_t common = 0;
    const int op_count = timeline->schedule->first_op[timeline->schedule->rank_count];
    for (int index = 0; index < 2 * op_count; index++) {
        int64_t rest =
            index < op_count ? timeline->begin_ns[index] : timeline->end_ns[index - op_count];
        while (rest != 0) {
            const int64_t next = common % rest;
            common = rest;
            rest = next;
        }
    }
    return common;
}

static int64_t last_end_ns(const bal_timeline *timeline)
{
    int64_t last = 0;
    for (int op = 0; op < timeline->schedule->first_op[timeline->schedule->rank_count]; op++) {
        if (timeline->end_ns[op] > last) last = timeline->end_ns[op];
    }
    return last;
}

static int64_t shortest_ns(const bal_timeline *timeline)
{
    int64_t shortest = INT64_MAX;
    for (int op = 0; op < timeline->schedule->first_op[timeline->schedule->rank_count]; op++) {
        const int64_t ns = timeline->end_ns[op] - timeline->begin_ns[op];
        if (ns > 0 && ns < shortest) shortest = ns;
    }
    return shortest;
}

/// Columns of the whole chart: exact if that fits, else as wide as allowed.
static int64_t column_count(const bal_timeline *timeline, int64_t last_ns)
{
    const int64_t exact = last_ns / common_ns(timeline);
    if (exact > COLUMNS_MAX) return COLUMNS_MAX;
    const int64_t shortest = shortest_ns(timeline) / common_ns(timeline);
    int64_t zoom = 1;
    while (shortest * zoom < OP_COLUMNS && exact * (zoom + 1) <= COLUMNS_MAX) {
        zoom++;
    }
    return exact * zoom;
}

/// The column that a time falls into, without overflow.
static int column_of(int64_t ns, int64_t last_ns, int64_t columns)
{
    return (int)((double)ns / (double)last_ns * (double)columns + 0.5);
}

static void draw_op(bal_op op, char *line, int begin, int end)
{
    const text_words name = bal_op_name(op);
    const int length = (int)strlen(name.text);
    memset(line + begin, '=', (size_t)(end - begin));
    if (length <= end - begin) {
        memcpy(line + begin, name.text, (size_t)length);
    } else {
        line[begin] = op.kind == OP_FORWARD ? 'F' : op.kind == OP_BACKWARD_WEIGHT ? 'W' : 'B';
    }
}

bool cli_gantt(const bal_timeline *timeline, text_buffer *out)
{
    const bal_schedule *schedule = timeline->schedule;
    const int64_t last_ns = last_end_ns(timeline);
    if (last_ns == 0) return false;
    const int64_t columns = column_count(timeline, last_ns);
    if ((double)shortest_ns(timeline) * (double)columns < (double)last_ns) return false;
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        char line[COLUMNS_MAX + 1];
        memset(line, ' ', sizeof line);
        for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
            const int begin = column_of(timeline->begin_ns[op], last_ns, columns);
            const int end = column_of(timeline->end_ns[op], last_ns, columns);
            if (end > begin) draw_op(schedule->ops[op], line, begin, end);
        }
        line[columns] = '\0';
        text_format(out, "rank %-4d |%s|\n", rank, line);
    }
    return true;
}
