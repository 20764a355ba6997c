/// `dynmo schedule`: one iteration of one schedule.
#include "cli/commands.h"
#include "cli/option_values.h"

#include "analysis/report/timeline_file.h"
#include "balance/metrics.h"
#include "balance/plan.h"
#include "balance/schedule/closed_form.h"
#include "balance/schedule/schedule.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/schedule/schedule_costs.h"
#include "sim/dispatch.h"
#include "sim/pipeline.h"

#include <inttypes.h>
#include <math.h>

enum { PRINTED_RANKS_MAX = 32, DIGITS = 9 };

/// What is played, and what came out.
typedef struct schedule_run {
    sim_policy policy;
    bal_schedule schedule; // as built or imported
    cli_schedule_costs costs;
    sim_network network;   // only its send: no link is shared
    bal_timeline timeline; // of the ops as they ran
    bal_metrics metrics;
    bal_published_eq1 published_eq1;
    int64_t *peak; // [rank_count] activations of one chunk
} schedule_run;

/// Reads the costs for the shape of the schedule.
static status read_costs(const cli_arguments *arguments, const bal_schedule *schedule,
                         arena *memory, cli_schedule_costs *costs, error_message *err)
{
    cli_schedule_shape shape = {.rank_count = schedule->rank_count,
                                .microbatch_count = bal_iteration_microbatch_count(schedule),
                                .chunk_count = schedule->chunk_count,
                                .placement = schedule->placement};
    TRY(cli_first_stage(arguments, &shape.first_stage_whole, err));
    return cli_schedule_costs_read(cli_value(arguments, "--costs"), &shape, memory, costs, err);
}

/// An order, its times and the text of it take some 55 bytes an op, of which a microbatch has three
/// in every chunk.
static status check_room(const bal_schedule_request *request, error_message *err)
{
    enum { OP_BYTES = 55 };
    const double chunks = request->chunk_count > 0 ? request->chunk_count : 1;
    const double ops = 3.0 * chunks * request->rank_count * request->microbatch_count;
    const double half = memory_half_of_machine();
    if (ops > BAL_OPS_MAX || ops * OP_BYTES <= half) return STATUS_OK; // the schedule refuses those
    return error_set(err, STATUS_INVALID,
                     "--stages %d, --microbatches %d: %.0f ops take %.1f GB, half of this "
                     "machine's memory is %.1f GB",
                     request->rank_count, request->microbatch_count, ops, ops * OP_BYTES / 1e9,
                     half / 1e9);
}

/// Builds the named schedule; a searched one needs the costs first.
static status build(const cli_arguments *arguments, arena *memory, schedule_run *run,
                    error_message *err)
{
    bal_schedule_request request = {.name = cli_value(arguments, "--schedule")};
    TRY(cli_require(arguments, "--stages", err));
    TRY(cli_require(arguments, "--microbatches", err));
    TRY(cli_int(arguments, "--stages", 1, BAL_RANKS_MAX, 0, &request.rank_count, err));
    TRY(cli_int(arguments, "--microbatches", 1, BAL_MICROBATCHES_MAX, 0, &request.microbatch_count,
                err));
    TRY(cli_int(arguments, "--chunks", 1, BAL_CHUNKS_MAX, 0, &request.chunk_count, err));
    TRY(check_room(&request, err));
    const bal_schedule_family *family = bal_schedule_family_find(request.name);
    if (family == NULL || !family->is_searched) {
        TRY(bal_schedule_build(&request, memory, &run->schedule, err));
        return read_costs(arguments, &run->schedule, memory, &run->costs, err);
    }
    run->schedule = (bal_schedule){.rank_count = request.rank_count,
                                   .microbatch_count = request.microbatch_count,
                                   .chunk_count = family->chunk_count,
                                   .placement = family->placement};
    TRY(read_costs(arguments, &run->schedule, memory, &run->costs, err));
    request.costs = &run->costs.stages;
    request.memory_limit = run->costs.memory_limit;
    return bal_schedule_build(&request, memory, &run->schedule, err);
}

/// An option that an imported order answers itself may be given, but only rightly.
static status check_given(const cli_arguments *arguments, const char *name, int found,
                          error_message *err)
{
    int given = found;
    TRY(cli_int(arguments, name, 1, BAL_MICROBATCHES_MAX, found, &given, err));
    if (given == found) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%s: %s is %d, the order has %d",
                     cli_value(arguments, "--order"), name, given, found);
}

static status import(const cli_arguments *arguments, arena *memory, schedule_run *run,
                     error_message *err)
{
    const char *path = cli_value(arguments, "--order");
    if (cli_has(arguments, "--schedule")) {
        return error_set(err, STATUS_INVALID, "--schedule and --order exclude each other");
    }
    TRY(cli_schedule_order_read(path, memory, &run->schedule, err));
    TRY(check_given(arguments, "--stages", run->schedule.rank_count, err));
    TRY(check_given(arguments, "--microbatches", bal_iteration_microbatch_count(&run->schedule),
                    err));
    TRY(check_given(arguments, "--chunks", run->schedule.chunk_count, err));
    const status checked = bal_schedule_check(&run->schedule, err);
    if (checked != STATUS_OK) return error_prefix(err, checked, "%s", path);
    return read_costs(arguments, &run->schedule, memory, &run->costs, err);
}

static status play_static(arena *memory, schedule_run *run, error_message *err)
{
    sim_order order;
    TRY(sim_order_compile(&run->schedule, memory, &order, err));
    sim_timeline_init(&run->schedule, memory, &run->timeline);
    sim_order_play(&order, &run->costs.stages, NULL, &run->timeline);
    return STATUS_OK;
}

/// Plays what only the event engine knows: a policy that decides, or a network that resists.
static status play_events(arena *memory, schedule_run *run, error_message *err)
{
    sim_dispatch *dispatch = NULL;
    TRY(sim_dispatch_create(&run->schedule, run->policy, &run->network, memory, &dispatch, err));
    return sim_dispatch_play(dispatch, &run->costs.stages, run->costs.memory_limit, NULL,
                             &run->timeline, err);
}

static status check_memory(const schedule_run *run, error_message *err)
{
    if (run->costs.memory_limit == NULL) return STATUS_OK;
    for (int rank = 0; rank < run->schedule.rank_count; rank++) {
        if (run->peak[rank] <= run->costs.memory_limit[rank]) continue;
        return error_set(err, STATUS_INFEASIBLE,
                         "schedule %s: peak memory %" PRId64 " of rank %d exceeds memory_limit "
                         "%" PRId64,
                         run->schedule.name, run->peak[rank], rank, run->costs.memory_limit[rank]);
    }
    return STATUS_OK;
}

/// Equation 1 of the mean F and B of every rank; of equal ranks with their messages. It knows of no
/// schedule.
static bal_published_eq1 published_eq1_of(const schedule_run *run, arena *memory)
{
    const bal_schedule *schedule = run->timeline.schedule;
    const bal_equal_stages *equal = &run->costs.equal;
    const double microbatches = bal_iteration_microbatch_count(schedule);
    double *forward_ns = arena_array(memory, (size_t)schedule->rank_count, sizeof *forward_ns);
    double *backward_ns = arena_array(memory, (size_t)schedule->rank_count, sizeof *backward_ns);
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
            const bool is_forward = schedule->ops[op].kind == OP_FORWARD;
            *(is_forward ? &forward_ns[rank] : &backward_ns[rank]) +=
                (double)(run->timeline.end_ns[op] - run->timeline.begin_ns[op]) / microbatches;
        }
    }
    bal_published_eq1 ratios = bal_published_eq1_of(forward_ns, backward_ns, schedule->rank_count);
    if (run->costs.is_equal &&
        (schedule->chunk_count == 1 || schedule->placement == BAL_PLACEMENT_BIDIRECTIONAL)) {
        ratios.printed_ratio = bal_published_eq1_ratio(
            equal->rank_count, equal->forward_ns,
            equal->backward_input_ns + equal->backward_weight_ns, equal->send_ns);
    }
    return ratios;
}

static status play(arena *memory, schedule_run *run, error_message *err)
{
    TRY(sim_costs_check(&run->schedule, &run->costs.stages, err));
    run->peak = arena_array(memory, (size_t)run->schedule.rank_count, sizeof *run->peak);
    if (run->policy == SIM_STATIC) {
        bal_memory_peak(&run->schedule, &run->costs.stages, run->peak);
        TRY(check_memory(run, err));
        TRY(sim_network_is_free(&run->network) ? play_static(memory, run, err)
                                               : play_events(memory, run, err));
    } else {
        TRY(play_events(memory, run, err));
        bal_memory_peak(run->timeline.schedule, &run->costs.stages, run->peak);
    }
    run->metrics = bal_metrics_of(&run->timeline);
    run->published_eq1 = published_eq1_of(run, memory);
    return STATUS_OK;
}

static void write_json(const schedule_run *run, text_buffer *out)
{
    const bal_schedule *ran = run->timeline.schedule;
    json_writer writer = json_line_begin(out);
    json_put_int64(&writer, "makespan_ns", run->metrics.makespan_ns);
    json_put_int64(&writer, "span_ns", run->metrics.span_ns);
    json_put_double(&writer, "bubble_ratio", run->metrics.bubble_ratio);
    json_put_double(&writer, "zb_bubble_rate", run->metrics.zb_bubble_rate);
    json_put_rounded(&writer, "published_eq1_ratio", run->published_eq1.printed_ratio, DIGITS);
    json_put_rounded(&writer, "published_eq1_unequal_ratio", run->published_eq1.unequal_ratio,
                     DIGITS);
    json_put_int64_array(&writer, "peak_memory", run->peak, ran->rank_count);
    json_write_key(&writer, "order");
    bal_order_write(ran, &writer);
    if (ran->placement != BAL_PLACEMENT_LOOP) {
        json_put_string(&writer, "placement", bal_placement_name(ran->placement));
    }
    json_line_end(&writer);
}

/// A length, and beside it what the formula says.
static void write_length(const char *what, int64_t ns, bal_closed_ns form, text_buffer *out)
{
    text_format(out, "%-18s %14" PRId64 " ns   ", what, ns);
    if (form.because != NULL) {
        text_format(out, "by formula: %s\n", form.because);
    } else {
        text_format(out, "by formula: %" PRId64 " ns\n", form.ns);
    }
}

static bal_closed_form closed_form_of(const schedule_run *run)
{
    const char *because = NULL;
    if (run->policy != SIM_STATIC) because = "no formula is known under this policy";
    if (!sim_network_is_free(&run->network)) because = "no formula is known on this network";
    if (!run->costs.is_equal) because = "none, as stages or microbatches differ";
    if (because == NULL) return bal_closed_form_of(run->schedule.name, &run->costs.equal);
    const bal_closed_ns none = {.ns = -1, .because = because};
    return (bal_closed_form){.makespan = none, .span = none};
}

static void write_published_eq1(const schedule_run *run, text_buffer *out)
{
    const bal_published_eq1 *ratios = &run->published_eq1;
    if (isnan(ratios->printed_ratio)) return;
    text_format(out, "%-18s %14.6f      the DynMo paper's Equation 1: Chimera's at M = P\n",
                "published-eq1", ratios->printed_ratio);
    if (run->costs.is_equal) return;
    text_format(out, "%-18s %14.6f      the same path at the largest F and B, messages free\n",
                "  unequal stages", ratios->unequal_ratio);
}

static void write_memory(const schedule_run *run, text_buffer *out)
{
    text_format(out, "%-18s ", "peak memory");
    for (int rank = 0; rank < run->schedule.rank_count && rank < PRINTED_RANKS_MAX; rank++) {
        text_format(out, "%s%" PRId64, rank > 0 ? " " : "", run->peak[rank]);
    }
    const int left = run->schedule.rank_count - PRINTED_RANKS_MAX;
    if (left > 0) text_format(out, " and %d more ranks", left);
    text_append(out, "   by rank, in activations of one chunk\n");
}

static void write_network(const sim_network *network, text_buffer *out)
{
    if (network->send != BAL_SEND_ASYNC) {
        text_format(out, ", sends %s", bal_send_names[network->send]);
    }
}

static void write_text(const schedule_run *run, text_buffer *out)
{
    const bal_metrics *metrics = &run->metrics;
    const bal_closed_form form = closed_form_of(run);
    text_format(out, "%s: %d ranks, %d microbatches, %d chunk%s per rank, policy %s",
                run->schedule.name, run->schedule.rank_count,
                bal_iteration_microbatch_count(&run->schedule), run->schedule.chunk_count,
                run->schedule.chunk_count > 1 ? "s" : "", sim_policy_names[run->policy]);
    write_network(&run->network, out);
    text_append(out, "\n\n");
    write_length("makespan", metrics->makespan_ns, form.makespan, out);
    write_length("span", metrics->span_ns, form.span, out);
    text_format(out, "%-18s %14.6f      idle over all time of all ranks\n", "bubble ratio",
                metrics->bubble_ratio);
    text_format(out, "%-18s %14.6f      1 - work of the busiest rank / span\n", "zb bubble rate",
                metrics->zb_bubble_rate);
    write_published_eq1(run, out);
    text_format(out, "%-18s %14.6f      work of the busiest rank / mean\n", "imbalance ratio",
                metrics->imbalance_ratio);
    write_memory(run, out);
    text_append(out, "\n");
    if (!cli_gantt(&run->timeline, out)) {
        text_append(out, "Too long to draw here; --timeline writes it for ui.perfetto.dev.\n");
    }
}

/// Writes the timeline as a Chrome trace. Stages stand for layers, since the costs have none.
static status write_timeline(const schedule_run *run, const char *path, arena *memory,
                             error_message *err)
{
    const int stage_count = run->costs.stages.stage_count;
    int *first_layer = arena_array(memory, (size_t)stage_count + 1, sizeof *first_layer);
    for (int stage = 0; stage <= stage_count; stage++) {
        first_layer[stage] = stage;
    }
    ana_timeline shown = {
        .label = run->schedule.name,
        .schedule = *run->timeline.schedule,
        .timeline = run->timeline,
        .first_layer = first_layer,
        .memory_forward = run->costs.stages.memory_forward,
        .memory_backward_input = run->costs.stages.memory_backward_input,
        .memory_backward_weight = run->costs.stages.memory_backward_weight,
        .memory_unit = "activations",
    };
    shown.timeline.schedule = &shown.schedule;
    const ana_timeline *const timelines[] = {&shown};
    text_buffer out = {.memory = memory};
    ana_perfetto_write(timelines, 1, memory, &out);
    return file_write(path, out.bytes, out.length, err);
}

static status answer(const cli_arguments *arguments, arena *memory, text_buffer *out,
                     error_message *err)
{
    schedule_run run = {.policy = SIM_STATIC};
    bal_send send = BAL_SEND_ASYNC;
    const char *policy = cli_value(arguments, "--policy");
    const char *sent = cli_value(arguments, "--send");
    if (policy != NULL) TRY(sim_policy_parse(policy, &run.policy, err));
    if (sent != NULL) TRY(bal_send_parse(sent, &send, err));
    if (cli_has(arguments, "--order")) {
        TRY(import(arguments, memory, &run, err));
    } else {
        TRY(cli_require(arguments, "--schedule", err));
        TRY(build(arguments, memory, &run, err));
    }
    run.network.send = send;
    TRY(play(memory, &run, err));
    (cli_has(arguments, "--json") ? write_json : write_text)(&run, out);
    const char *path = cli_value(arguments, "--timeline");
    return path != NULL ? write_timeline(&run, path, memory, err) : STATUS_OK;
}

const cli_command cli_command_schedule = {
    .name = "schedule",
    .synopsis =
        "--schedule NAME --stages P --microbatches M [OPTION]... | --order FILE [OPTION]...",
    .summary = "plays one iteration of one schedule",
    .description =
        "Builds the order of the ops of every rank, plays it with the given costs, and prints "
        "makespan, span, bubbles, peak memory and the order; where a closed form holds, it stands "
        "beside the number.\n\n"
        "F is a forward, B a backward for the input gradient, W one for the weight gradient, BW "
        "both at once; \"1:F0\" is of chunk 1. makespan is the length of the iteration with a "
        "barrier at the optimizer step; span, the largest over ranks of last end minus own first "
        "begin, is its length without one. What needs more than half of the machine's memory is "
        "refused.\n\n"
        "Schedules: gpipe; 1f1b; interleaved-1f1b (V chunks per rank, M divisible by P); zb-h1 and "
        "zb-h2 (zero-bubble orders made by hand); zb-auto (searched for the smallest span within "
        "memory_limit; where costs vary by microbatch, for their means); interleaved-zb (PyTorch's "
        "zero-bubble order over V chunks, V >= 1); zb-v-hand (two chunks per rank, placed as a V, "
        "zero-bubble where F, B and W are equal); zb-v (the same, searched as zb-auto is; without "
        "memory_limit, 2P chunks per rank); dualpipe-v (V placement, F overlaps BW: \"F0&BW1\" is "
        "one piece of work; M >= 2P); 1f1b-v, v-half and v-min (two chunks per rank, placed as a "
        "V, in 2/3, 1/2 and 1/3 of the activations of 1f1b); v-adaptive (the best of all such "
        "orders within memory_limit); chimera (two copies of the weights: half of the microbatches "
        "go down the ranks, \"F0\", half go up, \"1:F0\"; P and M even).\n\n"
        "The costs file: {\"forward_ns\":[P], \"backward_input_ns\":[P], "
        "\"backward_weight_ns\":[P], \"send_ns\":n, \"memory_fbw\":[f,b,w], \"memory_limit\":n}. "
        "Times are of a rank and one microbatch, [P] or [P][M], in whole ns; a chunk takes 1/V of "
        "them, and under chimera, whose [P] are its stages and whose second half of [M] goes up, "
        "all. send_ns (0) is the time of a message between ranks. memory_fbw ([1,0,-1]) is the "
        "change of memory at F, B and W, and memory_limit (none) its limit on every rank, both in "
        "activations of one chunk.",
    .options =
        {
            {"--schedule", "NAME", .help = "The schedule."},
            {"--stages", "P", .help = "Number of ranks, 1 to 4096."},
            {"--microbatches", "M", .help = "Microbatches, 1 to 1048576."},
            {"--chunks", "V", .help = "Chunks per rank, for interleaved schedules. Default: 2."},
            {"--costs", "FILE",
             .help =
                 "Costs, JSON as above. Default: F, B and W of a chunk take 1 ns each, messages "
                 "nothing."},
            {"--first-stage-backward", "HOW",
             .help = "split (default), or whole: the first stage does B and W at once, in B."},
            {"--policy", "NAME",
             .help =
                 "static (default): the order as it is. floating-w: F and B keep their order, W "
                 "run whenever the next of them is not ready. greedy: B, else F if memory allows, "
                 "else W."},
            {"--send", "NAME",
             .help =
                 "async (default): a message delays nobody. blocking: its sender begins nothing "
                 "until it has arrived. rendezvous: it also waits until the receiver has nothing "
                 "to run before the op that needs it, and both are busy for it; an order in which "
                 "ranks then wait for each other is refused, naming them op by op."},
            {"--order", "FILE",
             .help =
                 "Plays an order from a file instead: JSON {\"order\":[[\"F0\",...],...]}, or CSV "
                 "with a row per rank, PyTorch's too. An order that cannot be played is refused, "
                 "naming the op or the cycle."},
            {"--timeline", "FILE", .is_output = true,
             .help =
                 "Also writes begin and end of every op as a Chrome trace, for ui.perfetto.dev, "
                 "and the memory of every rank over time."},
            {"--json", .help = "Prints one line of JSON."},
        },
    .run = answer,
};
