#include "cli/trace/replay_output.h"

#include <stdio.h>
#include <string.h>

/// Above this, what replays say of the run is not what the run was.
static const double ERROR_RATIO_MAX = 0.05;

status cli_read_gaps(const cli_arguments *arguments, trace_gaps *gaps, error_message *err)
{
    const char *text = cli_value(arguments, "--gaps");
    if (text == NULL) return STATUS_OK;
    *gaps = strcmp(text, "charge") == 0 ? TRACE_GAPS_CHARGE : TRACE_GAPS_LEAVE;
    if (*gaps == TRACE_GAPS_CHARGE || strcmp(text, "leave") == 0) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "--gaps: '%.40s' is neither charge nor leave", text);
}

static int64_t replayed_ns(const trace_replay *replay, bool keeps_gaps)
{
    return keeps_gaps ? replay->replayed_ns : replay->compute_ns;
}

static double replay_error(const trace_replay *replay, bool keeps_gaps)
{
    if (replay->recorded_ns <= 0) return 0;
    return (double)replayed_ns(replay, keeps_gaps) / (double)replay->recorded_ns - 1;
}

/// What most of the time went to that the replay lacks, or that it has twice.
static const char *main_cause(const trace_replay *replay, bool keeps_gaps)
{
    int most = 0;
    int64_t most_ns = -1;
    for (int gap = 0; gap < TRACE_GAP_COUNT; gap++) {
        const int64_t ns = (keeps_gaps ? 0 : replay->charged_ns[gap]) + replay->outside_ns[gap];
        if (gap == TRACE_GAP_WAITING || ns <= most_ns) continue; // the replay waits as well
        most = gap;
        most_ns = ns;
    }
    return trace_gap_name((trace_gap)most);
}

/// Words as a key of JSON.
static void put_gap(json_writer *writer, trace_gap gap, int64_t ns)
{
    char key[48];
    snprintf(key, sizeof key, "%s", trace_gap_name(gap));
    for (char *at = key; *at != '\0'; at++) {
        if (*at == ' ') *at = '_';
    }
    json_put_int64(writer, key, ns);
}

void cli_write_replay_json(json_writer *writer, const trace_replay *replay, bool keeps_gaps)
{
    json_begin_object(writer);
    json_put_int64(writer, "recorded_ns", replay->recorded_ns);
    json_put_int64(writer, "replayed_ns", replayed_ns(replay, keeps_gaps));
    json_put_double(writer, "error_ratio", replay_error(replay, keeps_gaps));
    json_put_int64(writer, "compute_ns", replay->compute_ns);
    json_put_int64(writer, "ranks_ns", replay->rank_ns);
    for (int part = 0; part < 2; part++) {
        const int64_t *gaps = part == 0 ? replay->charged_ns : replay->outside_ns;
        json_put_object(writer, part == 0 ? "charged_ns" : "outside_ops_ns");
        for (int gap = 0; gap < TRACE_GAP_COUNT; gap++) {
            if (gaps[gap] > 0) put_gap(writer, (trace_gap)gap, gaps[gap]);
        }
        json_end_object(writer);
    }
    json_end_object(writer);
}

static void write_gaps(const trace_replay *replay, const int64_t *gaps, const char *where,
                       text_buffer *out)
{
    bool is_first = true;
    for (int gap = 0; gap < TRACE_GAP_COUNT; gap++) {
        char text[32];
        if (gaps[gap] == 0) continue;
        text_duration(gaps[gap], text);
        text_format(out, "%s %s %s (%.1f %%)", is_first ? where : ",",
                    trace_gap_name((trace_gap)gap), text,
                    100.0 * (double)gaps[gap] / (double)replay->rank_ns);
        is_first = false;
    }
    if (!is_first) text_append(out, "\n");
}

/// What was recorded beside its replay, and where the time went that is no compute.
void cli_write_replay(const trace_replay *replay, bool keeps_gaps, text_buffer *out)
{
    char recorded[32];
    char replayed[32];
    char compute[32];
    const double error_ratio = replay_error(replay, keeps_gaps);
    if (replay->recorded_ns == 0) return;
    text_duration(replay->recorded_ns, recorded);
    text_duration(replayed_ns(replay, keeps_gaps), replayed);
    text_duration(replay->compute_ns, compute);
    text_format(out, "replay: %s, recorded %s: error %+.1f %%; compute alone %s\n", replayed,
                recorded, 100 * error_ratio, compute);
    write_gaps(replay, replay->charged_ns,
               keeps_gaps ? "charged to ops:" : "left out of ops:", out);
    write_gaps(replay, replay->outside_ns, keeps_gaps ? "outside ops:" : "left out:", out);
    if (error_ratio >= -ERROR_RATIO_MAX && error_ratio <= ERROR_RATIO_MAX) return;
    text_format(out, "warning: the replay is %+.1f %% off what was recorded, most by %s\n",
                100 * error_ratio, main_cause(replay, keeps_gaps));
}
