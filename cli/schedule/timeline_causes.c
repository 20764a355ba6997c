#include "cli/schedule/timeline_causes.h"

enum { CAUSE_COUNT = 7 };

static const char *const titles[CAUSE_COUNT] = {"working",  "warm-up",       "cool-down", "input",
                                                "gradient", "communication", "other"};
static const char *const keys[CAUSE_COUNT] = {
    "op_ns",           "warmup_ns",        "cooldown_ns",
    "wait_forward_ns", "wait_gradient_ns", "communication_ns",
    "other_ns"};

static void causes_of(const trace_rank_time *rank, int64_t causes_ns[CAUSE_COUNT])
{
    const int64_t values[CAUSE_COUNT] = {
        rank->op_ns,           rank->warmup_ns,        rank->cooldown_ns,
        rank->wait_forward_ns, rank->wait_gradient_ns, rank->communication_ns,
        rank->other_ns};
    for (int cause = 0; cause < CAUSE_COUNT; cause++) {
        causes_ns[cause] = values[cause];
    }
}

void cli_write_timeline(text_buffer *out, const trace_recorded_timeline *timeline)
{
    char makespan[32];
    text_duration(timeline->makespan_ns, makespan);
    text_format(out,
                "timeline: makespan %s over %d iteration%s, bubble ratio %.4f; share of it that "
                "each rank was\n  %5s",
                makespan, timeline->iteration_count, timeline->iteration_count == 1 ? "" : "s",
                timeline->bubble_ratio, "rank");
    for (int cause = 0; cause < CAUSE_COUNT; cause++) {
        text_format(out, "  %13s", titles[cause]);
    }
    text_format(out, "  %13s\n", "device busy");
    for (int rank = 0; rank < timeline->rank_count; rank++) {
        const trace_rank_time *each = &timeline->ranks[rank];
        const double whole = timeline->makespan_ns > 0 ? (double)timeline->makespan_ns : 1;
        int64_t causes_ns[CAUSE_COUNT];
        causes_of(each, causes_ns);
        text_format(out, "  %5d", each->rank);
        for (int cause = 0; cause < CAUSE_COUNT; cause++) {
            text_format(out, "  %11.2f %%", 100 * (double)causes_ns[cause] / whole);
        }
        if (each->device_ns >= 0) {
            text_format(out, "  %11.2f %%\n", 100 * (double)each->device_ns / whole);
        } else {
            text_format(out, "  %13s\n", "-");
        }
    }
    text_append(out, "input, gradient: waiting for what another rank had not computed yet; "
                     "communication: it was computed and not yet here\n");
}

void cli_write_timeline_json(json_writer *writer, const trace_recorded_timeline *timeline)
{
    json_begin_object(writer);
    json_put_int64(writer, "iterations", timeline->iteration_count);
    json_put_int64(writer, "makespan_ns", timeline->makespan_ns);
    json_put_double(writer, "bubble_ratio", timeline->bubble_ratio);
    json_put_array(writer, "ranks");
    for (int rank = 0; rank < timeline->rank_count; rank++) {
        const trace_rank_time *each = &timeline->ranks[rank];
        int64_t causes_ns[CAUSE_COUNT];
        causes_of(each, causes_ns);
        json_begin_object(writer);
        json_put_int64(writer, "rank", each->rank);
        for (int cause = 0; cause < CAUSE_COUNT; cause++) {
            json_put_int64(writer, keys[cause], causes_ns[cause]);
        }
        json_write_key(writer, "device_ns");
        if (each->device_ns >= 0) {
            json_write_int64(writer, each->device_ns);
        } else {
            json_write_null(writer);
        }
        json_end_object(writer);
    }
    json_end_array(writer);
    json_end_object(writer);
}
