#include "analysis/stragglers/stragglers.h"

#include "base/json.h"

#include <string.h>

enum { DIGITS = 9, SHOWN_WORKERS = 5 };

static void write_ratios(json_writer *writer, const char *key, const double *ratios, int count)
{
    json_write_key(writer, key);
    json_begin_array(writer);
    for (int each = 0; each < count; each++) {
        json_write_double(writer, text_rounded(ratios[each], DIGITS));
    }
    json_end_array(writer);
}

/// By the recorded names; F and backward also by what they are, unless a kind is called so.
static void write_kinds(json_writer *writer, const ana_op_run *run, const double *ratios)
{
    static const char *const words[] = {[TRACE_OP_FORWARD] = "forward",
                                        [TRACE_OP_BACKWARD_INPUT] = "backward_input",
                                        [TRACE_OP_BACKWARD_WEIGHT] = "backward_weight",
                                        [TRACE_OP_BACKWARD] = "backward"};
    const trace_op_table *table = run->table;
    bool is_told[TRACE_OP_COUNT] = {false};
    json_write_key(writer, "by_kind");
    json_begin_object(writer);
    for (int kind = 0; kind < run->kind_count; kind++) {
        json_put_rounded(writer, run->kinds[kind], ratios[kind], DIGITS);
        for (int known = 0; known <= TRACE_OP_BACKWARD; known++) {
            if (strcmp(run->kinds[kind], words[known]) == 0) is_told[known] = true;
        }
    }
    for (int name = 0; name < table->name_count; name++) {
        const trace_op_kind kind = table->kinds[name];
        if (kind > TRACE_OP_BACKWARD || is_told[kind]) continue;
        is_told[kind] = true;
        json_put_rounded(writer, words[kind], ratios[run->kind_of_name[name]], DIGITS);
    }
    json_end_object(writer);
}

static void write_steps(json_writer *writer, const ana_op_run *run, const ana_slowdowns *found)
{
    json_write_key(writer, "steps");
    json_begin_array(writer);
    for (int step = 0; step < run->step_count; step++) {
        const ana_straggler_step *each = &found->steps[step];
        const double ideal_ns = (double)each->ideal_ns;
        json_begin_object(writer);
        json_put_int64(writer, "step", each->step);
        json_put_int64(writer, "recorded_ns", each->recorded_ns);
        json_put_int64(writer, "replayed_ns", each->replayed_ns);
        json_put_int64(writer, "ideal_ns", each->ideal_ns);
        json_put_int64(writer, "replayed_with_delays_ns", each->delayed_ns);
        json_put_rounded(writer, "slowdown",
                         ideal_ns > 0 ? (double)each->replayed_ns / ideal_ns : 1, DIGITS);
        write_kinds(writer, run, found->step_by_kind + (size_t)step * (size_t)run->kind_count);
        write_ratios(writer, "by_stage",
                     found->step_by_stage + (size_t)step * (size_t)run->stage_count,
                     run->stage_count);
        write_ratios(writer, "by_replica",
                     found->step_by_replica + (size_t)step * (size_t)run->replica_count,
                     run->replica_count);
        json_end_object(writer);
    }
    json_end_array(writer);
}

static double approximate(const ana_op_run *run, const ana_slowdowns *found, int worker)
{
    const double of_stage = found->by_stage[worker % run->stage_count];
    const double of_replica = found->by_replica[worker / run->stage_count];
    return of_stage < of_replica ? of_stage : of_replica;
}

static void write_workers(json_writer *writer, const ana_op_run *run, const ana_slowdowns *found)
{
    json_write_key(writer, "by_worker");
    json_begin_array(writer);
    for (int worker = 0; worker < run->worker_count; worker++) {
        json_begin_object(writer);
        json_put_int64(writer, "replica", worker / run->stage_count);
        json_put_int64(writer, "stage", worker % run->stage_count);
        json_put_rounded(writer, "slowdown", found->by_worker[worker], DIGITS);
        json_put_rounded(writer, "approximate", approximate(run, found, worker), DIGITS);
        json_end_object(writer);
    }
    json_end_array(writer);
}

void ana_stragglers_write(const ana_op_run *run, const ana_slowdowns *slowdowns, text_buffer *out)
{
    json_writer to = json_writer_init(out);
    json_writer *writer = &to;
    json_begin_object(writer);
    json_put_rounded(writer, "slowdown", slowdowns->slowdown, DIGITS);
    json_put_rounded(writer, "launch_slowdown", slowdowns->launch_slowdown, DIGITS);
    write_kinds(writer, run, slowdowns->by_kind);
    write_ratios(writer, "by_stage", slowdowns->by_stage, run->stage_count);
    write_ratios(writer, "by_replica", slowdowns->by_replica, run->replica_count);
    write_workers(writer, run, slowdowns);
    json_put_rounded(writer, "worker_share", slowdowns->worker_share, DIGITS);
    json_put_rounded(writer, "stage_share", slowdowns->stage_share, DIGITS);
    write_steps(writer, run, slowdowns);
    json_end_object(writer);
    text_append(out, "\n");
}

void ana_stragglers_print(const ana_op_run *run, const ana_slowdowns *slowdowns, text_buffer *out)
{
    text_format(out, "slowdown %.3f of %d steps\n", slowdowns->slowdown, run->step_count);
}
