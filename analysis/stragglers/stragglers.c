#include "analysis/stragglers/stragglers.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

enum { DIGITS = 9, SHOWN = 5 };

static void write_ratios(json_writer *writer, const char *key, const double *ratios, int count)
{
    json_put_array(writer, key);
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
    json_put_object(writer, "by_kind");
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
    json_put_array(writer, "steps");
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

static void write_workers(json_writer *writer, const ana_op_run *run, const ana_slowdowns *found)
{
    json_put_array(writer, "by_worker");
    for (int worker = 0; worker < run->worker_count; worker++) {
        json_begin_object(writer);
        json_put_int64(writer, "replica", worker / run->stage_count);
        json_put_int64(writer, "stage", worker % run->stage_count);
        json_put_rounded(writer, "slowdown", found->by_worker[worker], DIGITS);
        json_end_object(writer);
    }
    json_end_array(writer);
}

static void write_causes(json_writer *writer, const ana_op_run *run, const ana_causes *causes)
{
    json_put_array(writer, "causes");
    for (int each = 0; each < causes->named_count; each++) {
        const ana_cause *cause = &causes->all[each];
        json_begin_object(writer);
        json_put_string(writer, "cause", cause->name);
        json_put_string(writer, "evidence", cause->evidence);
        json_put_rounded(writer, "gain", cause->gain, DIGITS);
        if (cause->has_interval) {
            json_put_rounded(writer, "gain_low", cause->low, DIGITS);
            json_put_rounded(writer, "gain_high", cause->high, DIGITS);
        }
        json_end_object(writer);
    }
    json_end_array(writer);
    json_put_rounded(writer, "correlation", causes->correlation, DIGITS);
    json_write_key(writer, "stage_ns");
    json_write_int64_array(writer, causes->split.stage_ns, run->stage_count);
    json_write_key(writer, "split");
    if (causes->split.layers != NULL) {
        json_write_int_array(writer, causes->split.layers, run->stage_count);
    } else {
        json_write_null(writer);
    }
}

void ana_stragglers_write(const ana_op_run *run, const ana_slowdowns *slowdowns,
                          const ana_causes *causes, text_buffer *out)
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
    write_causes(writer, run, causes);
    write_steps(writer, run, slowdowns);
    json_end_object(writer);
    text_append(out, "\n");
}

/// One line per part, longest first. @param ratios [count]
static void print_largest(text_buffer *out, const char *what, const double *ratios, int count,
                          int shown)
{
    bool *is_shown = memory_array((size_t)count, sizeof *is_shown);
    text_format(out, "  by %-8s", what);
    for (int place = 0; place < shown && place < count; place++) {
        int largest = -1;
        for (int each = 0; each < count; each++) {
            if (!is_shown[each] && (largest < 0 || ratios[each] > ratios[largest])) largest = each;
        }
        is_shown[largest] = true;
        text_format(out, "  %d: %.3f", largest, ratios[largest]);
    }
    text_append(out, count > shown ? "  ...\n" : "\n");
    free(is_shown);
}

static void print_slowdowns(const ana_op_run *run, const ana_slowdowns *found, text_buffer *out)
{
    text_format(out,
                "slowdown %.3f: %d steps of %d replicas x %d stages against every op at the "
                "mean of its kind\n",
                found->slowdown, run->step_count, run->replica_count, run->stage_count);
    text_append(out, "  by kind   ");
    for (int kind = 0; kind < run->kind_count; kind++) {
        if (found->by_kind[kind] < 1.0005) continue;
        text_format(out, "  %s: %.3f", run->kinds[kind], found->by_kind[kind]);
    }
    text_append(out, "\n");
    print_largest(out, "stage", found->by_stage, run->stage_count, SHOWN);
    print_largest(out, "replica", found->by_replica, run->replica_count, SHOWN);
    text_append(out, "  by worker ");
    for (int worker = 0, shown = 0; worker < run->worker_count && shown < SHOWN; worker++) {
        if (!found->is_slow[worker]) continue;
        shown++;
        text_format(out, "  replica %d, stage %d: %.3f", worker / run->stage_count,
                    worker % run->stage_count, found->by_worker[worker]);
    }
    text_format(out,
                "\n  mending the slowest %d of %d workers wins %.0f %% of what is lost, "
                "mending the last stage %.0f %%\n",
                found->slow_worker_count, run->worker_count, 100 * found->worker_share,
                100 * found->stage_share);
}

void ana_stragglers_print(const ana_op_run *run, const ana_slowdowns *slowdowns,
                          const ana_causes *causes, text_buffer *out)
{
    print_slowdowns(run, slowdowns, out);
    if (causes->named_count == 0) {
        text_format(out, "no cause: mending none of them gains %g %%\n", 100 * ANA_CAUSE_GAIN_MIN);
    }
    for (int each = 0; each < causes->named_count; each++) {
        const ana_cause *cause = &causes->all[each];
        text_format(out, "cause: %s; mending it gains %.1f %%", cause->name, 100 * cause->gain);
        if (cause->has_interval) {
            text_format(out, " (%.1f to %.1f)", 100 * cause->low, 100 * cause->high);
        }
        text_append(out, "\n");
        text_append_wrapped(out, cause->evidence, 4, 100);
    }
}
