/// What ranks tell of an iteration, and how the leader reads it.
#include "exec/run/run.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static int64_t numbers(int count)
{
    return (int64_t)count * (int64_t)sizeof(int64_t);
}

static void put_layers(exec_packet *packet, const exec_layer_report *layers)
{
    exec_layer_report listed = *layers;
    int64_t **arrays[EXEC_REPORT_ARRAYS];
    int columns[EXEC_REPORT_ARRAYS];
    exec_layer_report_list(&listed, arrays, columns);
    exec_packet_put(packet, layers->layer, (int64_t)sizeof(int) * layers->layer_count);
    for (int array = 0; array < EXEC_REPORT_ARRAYS; array++) {
        exec_packet_put(packet, *arrays[array], numbers(layers->layer_count) * columns[array]);
    }
}

/// The report travels as it is; its pointers mean nothing at the leader, and what they point to
/// follows.
void exec_rank_report_put(exec_packet *packet, const exec_rank_report *report)
{
    const exec_rank_times *times = &report->times;
    const exec_layer_report *layers = &report->layers;
    exec_packet_put(packet, report, sizeof *report);
    exec_packet_put(packet, times->begin_ns, numbers(report->step_count));
    exec_packet_put(packet, times->end_ns, numbers(report->step_count));
    if (layers->layer_count > 0) put_layers(packet, layers);
}

/// The reports in the midst of being read.
typedef struct reading {
    const exec_run_ranks *ranks;
    const exec_run_plan *plan;
    int layer_count;
    arena *memory;
    exec_run_reports *reports;
    exec_layer_report *layers; // [replica_count] of all layers, once a rank has told of any
    int64_t **reduction_ns;    // [replica_count][layer_count]
} reading;

static void make_timelines(reading *at)
{
    const bal_schedule *schedule = &at->plan->schedule;
    const size_t ops = (size_t)schedule->first_op[schedule->rank_count];
    const size_t replicas = (size_t)at->ranks->replica_count;
    bal_timeline *timelines = arena_array(at->memory, replicas, sizeof *timelines);
    int64_t *times = arena_array(at->memory, replicas * ops * 2, sizeof *times);
    for (size_t replica = 0; replica < replicas; replica++) {
        timelines[replica] = (bal_timeline){.schedule = schedule,
                                            .begin_ns = times + 2 * replica * ops,
                                            .end_ns = times + (2 * replica + 1) * ops};
    }
    at->reports->measured.timelines = timelines;
}

static bal_layer_costs costs_of(const reading *at, const exec_layer_report *layers,
                                const int64_t *reduction_ns)
{
    return (bal_layer_costs){
        .layer_count = layers->layer_count,
        .microbatch_count = layers->microbatch_count,
        .has_split = at->plan->schedule.has_split,
        .embedding = true,
        .head = true,
        .forward_ns = layers->forward_ns,
        .backward_input_ns = layers->backward_input_ns,
        .backward_weight_ns = layers->backward_weight_ns,
        .parameters = layers->parameters,
        .state_bytes = layers->state_bytes,
        .activation_bytes = layers->activation_bytes,
        .gradient_bytes = layers->gradient_bytes,
        .message_bytes = layers->message_bytes,
        .reduction_ns = at->ranks->replica_count > 1 ? reduction_ns : NULL,
    };
}

/// Makes room for the layers of all replicas, when the first rank tells of layers.
static void make_layers(reading *at, const exec_layer_report *told)
{
    exec_run_reports *reports = at->reports;
    const size_t replicas = (size_t)at->ranks->replica_count;
    at->layers = arena_array(at->memory, replicas, sizeof *at->layers);
    at->reduction_ns = arena_array(at->memory, replicas, sizeof *at->reduction_ns);
    reports->layers = arena_array(at->memory, replicas, sizeof *reports->layers);
    const int64_t **exchange_ns = arena_array(at->memory, replicas, sizeof *exchange_ns);
    for (size_t replica = 0; replica < replicas; replica++) {
        at->layers[replica] = (exec_layer_report){.layer_count = at->layer_count,
                                                  .microbatch_count = told->microbatch_count,
                                                  .load_columns = told->load_columns};
        exec_layer_report_carve(&at->layers[replica], at->memory);
        exchange_ns[replica] = at->layers[replica].exchange_ns;
        at->reduction_ns[replica] =
            arena_array(at->memory, (size_t)at->layer_count, sizeof **at->reduction_ns);
        reports->layers[replica] = costs_of(at, &at->layers[replica], at->reduction_ns[replica]);
    }
    reports->measured.exchange_ns = exchange_ns;
    reports->measured.load_columns = told->load_columns;
    if (told->load_columns > 0) reports->measured.load_count = at->layers[0].load_count;
}

/// Shares out what the reduction of a rank took to its layers, by their parameters.
static void share_reduction(const exec_rank_report *report, const int *layer,
                            const int64_t *parameters, int64_t *reduction_ns)
{
    double sum = 0;
    for (int row = 0; row < report->layers.layer_count; row++) {
        sum += (double)parameters[layer[row]];
    }
    double before = 0;
    int64_t shared_ns = 0;
    for (int row = 0; row < report->layers.layer_count; row++) {
        before += (double)parameters[layer[row]];
        const double share = sum > 0 ? before / sum : 1.0;
        const int64_t until_ns = (int64_t)((double)report->reduced_ns * share);
        reduction_ns[layer[row]] = until_ns - shared_ns;
        shared_ns = until_ns;
    }
}

/// Copies a rank's rows to where the model has them.
static void read_layers(reading *at, const exec_rank_report *report, int replica,
                        exec_packet *packet)
{
    int64_t **arrays[EXEC_REPORT_ARRAYS];
    int columns[EXEC_REPORT_ARRAYS];
    if (at->reports->layers == NULL) make_layers(at, &report->layers);
    exec_layer_report *all = &at->layers[replica];
    const int count = report->layers.layer_count;
    const int *layer = exec_packet_take(packet, (int64_t)sizeof(int) * count);
    assert(report->layers.microbatch_count == all->microbatch_count);
    exec_layer_report_list(all, arrays, columns);
    for (int array = 0; array < EXEC_REPORT_ARRAYS; array++) {
        const int64_t *rows = exec_packet_take(packet, numbers(count) * columns[array]);
        for (int row = 0; row < count; row++) {
            memcpy(*arrays[array] + (int64_t)layer[row] * columns[array],
                   rows + (int64_t)row * columns[array], (size_t)numbers(columns[array]));
        }
    }
    share_reduction(report, layer, all->parameters, at->reduction_ns[replica]);
}

static void add_sums(exec_run_reports *reports, const exec_rank_report *report, int replica)
{
    exec_measured *sums = &reports->measured;
    if (report->reduced_ns > reports->reduced_ns) reports->reduced_ns = report->reduced_ns;
    if (report->reduced_end_ns > reports->reduced_end_ns) {
        reports->reduced_end_ns = report->reduced_end_ns;
    }
    if (report->stepped_ns > reports->stepped_ns) reports->stepped_ns = report->stepped_ns;
    sums->overhead_ns += report->times.overhead_ns;
    sums->wake_ns += report->times.wake_ns;
    sums->latency_ns += report->times.latency_ns;
    sums->op_count += report->step_count;
    sums->message_count += report->times.message_count;
    if (llabs(report->clock.offset_ns) > llabs(sums->clock_offset_ns)) {
        sums->clock_offset_ns = report->clock.offset_ns;
        sums->clock_residual_ns = report->clock.residual_ns;
    }
    reports->has_changed = reports->has_changed || report->has_changed;
    if (report->has_loss) sums->loss += report->loss;
    if (replica == 0 && report->step_count > 0) sums->gradient_norm = report->gradient_norm;
}

/// Reads what one rank of the world has told.
static void read_rank(reading *at, int rank, exec_packet *packet)
{
    const exec_rank_report *report = exec_packet_take(packet, sizeof *report);
    const int replica = rank / at->ranks->rank_count;
    const bal_schedule *schedule = &at->plan->schedule;
    const int place = exec_run_place_of(&at->plan->placed, rank % at->ranks->rank_count);
    add_sums(at->reports, report, replica);
    if (place < 0) return;
    const bal_timeline *timeline = &at->reports->measured.timelines[replica];
    const int first = schedule->first_op[place];
    assert(report->step_count == schedule->first_op[place + 1] - first);
    const int64_t bytes = numbers(report->step_count);
    memcpy(timeline->begin_ns + first, exec_packet_take(packet, bytes), (size_t)bytes);
    memcpy(timeline->end_ns + first, exec_packet_take(packet, bytes), (size_t)bytes);
    if (report->layers.layer_count > 0) read_layers(at, report, replica, packet);
}

void exec_run_reports_read(exec_packet *answers, const exec_run_ranks *ranks,
                           const exec_run_plan *plan, int layer_count, arena *memory,
                           exec_run_reports *reports)
{
    exec_run_reports read = {0};
    reading at = {
        .ranks = ranks,
        .plan = plan,
        .layer_count = layer_count,
        .memory = memory,
        .reports = &read,
    };
    make_timelines(&at);
    for (int index = 0; index < ranks->awake.rank_count; index++) {
        read_rank(&at, ranks->awake.rank[index], answers);
    }
    read.measured.loss /= ranks->replica_count;
    *reports = read;
}
