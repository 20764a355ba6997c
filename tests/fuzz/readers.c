/// Any bytes given to one reader, which the program is named after: refused with a message, or
/// read, and what was read keeps what its header promises.
#define _GNU_SOURCE // memfd_create, program_invocation_short_name
#include "analysis/calibration/measured_runs.h"
#include "analysis/calibration/real_runs.h"
#include "analysis/stragglers/causes.h"
#include "analysis/study/study.h"
#include "analysis/whatif/correction.h"
#include "analysis/whatif/draws.h"
#include "analysis/whatif/matrix.h"
#include "balance/partition/balancer.h"
#include "balance/plan.h"
#include "cli/plan/plan_loads.h"
#include "cli/schedule/schedule_costs.h"
#include "exec/run/run.h"
#include "models/cost/cost_model.h"
#include "models/experts/expert_counts.h"
#include "models/lengths/sequence_lengths.h"
#include "tests/fuzz/fuzz.h"
#include "traces/import/import_kineto.h"
#include "traces/import/ops.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LAYERS_MAX = 200, STAGES = 3 };

/// A file of memory, the same each time, as the program remembers each file that it opens to read.
static const char *file_of(const char *bytes, size_t count)
{
    static int file = -1;
    static char path[32];
    if (file < 0) {
        file = memfd_create("input", 0);
        assert(file >= 0);
        snprintf(path, sizeof path, "/dev/fd/%d", file);
    }
    assert(ftruncate(file, 0) == 0 && pwrite(file, bytes, count, 0) == (ssize_t)count);
    return path;
}

static status calibration(const char *bytes, size_t count, arena *memory, error_message *err)
{
    ana_correction learned;
    TRY(ana_correction_open(file_of(bytes, count), "", "", memory, &learned, err));
    double *scratch = arena_array(memory, 2 * (size_t)learned.run_count, sizeof *scratch);
    for (int run = 0; run < learned.run_count; run++) {
        const ana_corrected found = ana_correction_predict(&learned, &learned.runs[run], scratch);
        assert(isfinite(found.log_factor) && isfinite(found.deviation) && found.deviation > 0);
    }
    return STATUS_OK;
}

static status config(json_document *document, arena *memory, error_message *err)
{
    model_config read;
    model_hardware hardware;
    model_costs costs;
    const model_training training = {.microbatch_size = 3};
    TRY(model_config_read(document, memory, &read, err));
    assert(model_hardware_open("a100-sxm-80gb", NULL, memory, &hardware, err) == STATUS_OK);
    TRY(model_costs_build(&read, &hardware, &training, "input", "preset", memory, &costs, err));
    for (int layer = 0; layer < costs.layers.layer_count; layer++) {
        assert(costs.layers.forward_ns[layer] >= 0 && costs.layers.parameters[layer] > 0);
        assert(costs.layers.activation_bytes[layer] > 0 && costs.layers.gradient_bytes[layer] > 0);
    }
    assert(costs.active_parameters <= costs.total_parameters);
    return STATUS_OK;
}

static status check_expert_counts(status result, const model_expert_counts *counts)
{
    TRY(result);
    assert(counts->sample_count >= 1);
    for (int sample = 0; sample < counts->sample_count; sample++) {
        assert(sample == 0 || counts->iteration[sample] > counts->iteration[sample - 1]);
        assert(model_expert_counts_sample(counts, counts->iteration[sample]) == sample);
        for (int cell = 2; cell < 6; cell++) {
            const int32_t *row = model_expert_counts_row(counts, sample, cell / 2, cell % 2);
            assert(row[0] >= 0 && row[1] >= 0 && (row[0] > 0 || row[1] > 0));
        }
    }
    return STATUS_OK;
}

static status expert_counts(const char *bytes, size_t count, arena *memory, error_message *err)
{
    static const bool is_moe[] = {false, true, true};
    static const model_counts_shape shape = {
        .layer_count = 3, .is_moe = is_moe, .expert_count = 2, .microbatch_count = 2};
    model_expert_counts counts;
    model_counts_outline outline = {.microbatch_count = -1};
    const char *path = file_of(bytes, count);
    const model_count_stage stage = {.paths = &path, .path_count = 1};
    const status first = check_expert_counts(
        model_expert_counts_read_csv(path, &shape, memory, &counts, err), &counts);
    assert(first == STATUS_OK || (first == STATUS_FORMAT && err->message[0] != '\0'));
    if (model_counts_outline_read(path, &outline, NULL) == STATUS_OK) {
        assert(outline.microbatch_count >= 1 && outline.last_iteration >= 0);
        assert(outline.local_count >= 1);
    }
    return check_expert_counts(
        model_expert_counts_read_megatron(&stage, 1, &shape, memory, &counts, err), &counts);
}

static status hardware(json_document *document, arena *memory, error_message *err)
{
    model_hardware read;
    TRY(model_hardware_read(document, "input", memory, &read, err));
    assert(read.gemm_efficiency > 0 && read.gemm_efficiency <= 1);
    assert(read.memory_bytes > 0 && read.gpus_per_node > 0);
    assert(read.intra_node.bytes_per_s > 0 && read.inter_node.latency_ns >= 0);
    return STATUS_OK;
}

static status check_point(const ana_matrix *matrix, int64_t number, error_message *err)
{
    int value[ANA_AXES_MAX];
    text_buffer text = {0};
    ana_study study;
    ana_matrix_values(matrix, number, value);
    for (int axis = 0; axis < matrix->axis_count; axis++) {
        assert(value[axis] >= 0 && value[axis] < matrix->axes[axis].value_count);
    }
    ana_matrix_changes(matrix, value, &text);
    arena *memory = arena_create(4096);
    const status result =
        ana_study_open_text("point", matrix->base, text.bytes, memory, &study, err);
    arena_destroy(memory);
    text_free(&text);
    return result;
}

static status matrix(const char *bytes, size_t count, arena *memory, error_message *err)
{
    ana_matrix read;
    char *text = arena_array(memory, count + 1, 1);
    memcpy(text, bytes, count);
    TRY(ana_matrix_open("study", text, memory, &read, err));
    assert(read.point_count >= 1 && read.point_count <= ANA_POINTS_MAX);
    TRY(check_point(&read, 0, err));
    return check_point(&read, read.point_count - 1, err);
}

static status measured_runs(const char *bytes, size_t count, arena *memory, error_message *err)
{
    table from;
    ana_measured_runs runs;
    TRY(table_open_bytes("input", bytes, count, memory, &from, err));
    TRY(ana_measured_runs_read(&from, 51200, memory, &runs, err));
    for (int run = 0; run < runs.source.row_count; run++) {
        const ana_run_shape *shape = &runs.shapes[run];
        assert(runs.iteration_ms[run] > 0 && ana_run_microbatches(shape) > 0);
        assert(shape->gpu_count ==
               shape->tensor_degree * shape->data_degree * shape->pipeline_degree);
    }
    return STATUS_OK;
}

static status nsys(const char *bytes, size_t count, arena *memory, error_message *err)
{
    static const char text[] =
        "{\"schema\":\"dynmo-phase-map/1\",\"annotations\":["
        "{\"match\":\"^u([0-9]+)$\",\"phase\":\"F\",\"layer\":{\"group\":1}}]}";
    trace_phase_map *map = NULL;
    status result = STATUS_OK;
    assert(trace_phase_map_open_bytes("map", text, sizeof text - 1, memory, &map, err) ==
           STATUS_OK);
    for (int with_map = 0; with_map < 2; with_map++) {
        const trace_profile_source source = {
            .path = "run", .bytes = bytes, .length = count, .map = with_map ? map : NULL};
        trace_import import;
        result = trace_import_read(&source, 1, TRACE_PROFILER_NSYS, memory, &import, err);
        assert(result == STATUS_OK || err->message[0] != '\0');
        if (result != STATUS_OK) continue;
        for (int rank = 0; rank < import.rank_count; rank++) {
            const trace_attribution *done = &import.recordings[rank].ops;
            assert(done->loads + done->others + done->outside + done->without_launch ==
                   done->op_count);
        }
    }
    return result;
}

static status replay_ops(const trace_op_table *recorded, arena *memory, error_message *err)
{
    ana_op_run run;
    ana_slowdowns slowdowns;
    ana_causes causes;
    TRY(ana_op_run_make(recorded, memory, &run, err));
    ana_slowdowns_of(&run, memory, &slowdowns);
    ana_causes_of(&run, &slowdowns, &(ana_stage_layers){0}, memory, &causes);
    const ana_straggler_step *steps = slowdowns.steps;
    for (int step = 0; step < run.step_count; step++) {
        assert(steps[step].replayed_ns >= 0 && steps[step].ideal_ns >= 0);
        assert(steps[step].delayed_ns >= steps[step].replayed_ns);
    }
    return STATUS_OK;
}

static status ops(const char *bytes, size_t count, arena *memory, error_message *err)
{
    trace_stream *stream = NULL;
    trace_op_table read = {0};
    assert(trace_stream_open_bytes("fuzz", bytes, count, &stream) == STATUS_OK);
    status result = trace_ops_read(stream, "fuzz", NULL, memory, &read, err);
    trace_stream_close(stream);
    if (result == STATUS_OK) result = replay_ops(&read, memory, err);
    free(read.ops);
    return result;
}

static void write_plan(const bal_plan *plan_read, text_buffer *out)
{
    json_writer writer = json_writer_init(out);
    bal_plan_write(plan_read, &writer);
}

static status plan(json_document *document, arena *memory, error_message *err)
{
    text_buffer first = {0};
    text_buffer second = {0};
    json_document *written = NULL;
    bal_plan read;
    bal_plan again;
    TRY(bal_plan_read(json_root(document), memory, &read, err));
    write_plan(&read, &first);
    assert(json_open_bytes("again", first.bytes, first.length, &written, err) == STATUS_OK);
    assert(bal_plan_read(json_root(written), memory, &again, err) == STATUS_OK);
    write_plan(&again, &second);
    assert(strcmp(first.bytes, second.bytes) == 0);
    json_close(written);
    text_free(&first);
    text_free(&second);
    return STATUS_OK;
}

/// Every balancer, under every objective: a plan that keeps its bound, or a reason.
static void ask_all(bal_problem *problem, arena *memory)
{
    int row_count = 0;
    const bal_balancer *rows = bal_balancers(&row_count);
    for (int each = 0; each < row_count * BAL_OBJECTIVE_COUNT; each++) {
        const bal_balancer *row = &rows[each / BAL_OBJECTIVE_COUNT];
        bal_answer answer;
        error_message err = {0};
        problem->weight = row->weight;
        problem->objective = (bal_objective)(each % BAL_OBJECTIVE_COUNT);
        if (bal_balance(row, problem, memory, &answer, &err) != STATUS_OK) {
            assert(err.message[0] != '\0');
            continue;
        }
        assert(answer.bottleneck_lower_bound_ns <= answer.bottleneck_ns);
        assert((answer.first_layer == NULL) == (answer.owner != NULL));
    }
}

static status plan_loads(json_document *document, arena *memory, error_message *err)
{
    static const cli_plan_shape shapes[] = {{STAGES, 1, BAL_PLACEMENT_LOOP},
                                            {STAGES, 2, BAL_PLACEMENT_V},
                                            {STAGES, 3, BAL_PLACEMENT_LOOP}};
    const json_value root = json_root(document);
    for (int shape = 0; shape < 3; shape++) {
        bal_problem problem;
        TRY(cli_plan_loads_of(root, shapes[shape], memory, &problem, err));
        if (problem.layers.layer_count > LAYERS_MAX) continue;
        problem.microbatch_count = 4;
        problem.allow_empty_stages = json_count(root) % 2 == 0;
        ask_all(&problem, memory);
    }
    return STATUS_OK;
}

static status real_runs(const char *bytes, size_t count, arena *memory, error_message *err)
{
    table from;
    ana_real_runs runs;
    TRY(table_open_bytes("input", bytes, count, memory, &from, err));
    TRY(ana_real_runs_read(&from, "", "tp=2", memory, &runs, err));
    for (int row = 0; row < runs.source.row_count; row++) {
        ana_real_measured measured = {0};
        text_buffer text = {0};
        error_message inner = {0};
        if (ana_real_study_write(&runs, row, ana_real_recompute(&runs, row, 0, memory), memory,
                                 &text, &measured, &inner) == STATUS_OK) {
            assert(measured.iteration_ns > 0 && measured.gpu_count > 0);
        } else {
            assert(inner.message[0] != '\0');
        }
        text_free(&text);
    }
    return STATUS_OK;
}

static status schedule_costs(const char *bytes, size_t count, arena *memory, error_message *err)
{
    static const cli_schedule_shape shapes[] = {
        {.rank_count = 2, .microbatch_count = 2, .chunk_count = 1},
        {.rank_count = 2, .microbatch_count = 2, .chunk_count = 2},
        {.rank_count = 2, .microbatch_count = 2, .chunk_count = 2, .placement = BAL_PLACEMENT_V},
        {.rank_count = 2,
         .microbatch_count = 2,
         .chunk_count = 2,
         .placement = BAL_PLACEMENT_BIDIRECTIONAL}};
    const char *path = file_of(bytes, count);
    status result = STATUS_OK;
    for (size_t shape = 0; shape < sizeof shapes / sizeof shapes[0]; shape++) {
        cli_schedule_costs costs;
        result = cli_schedule_costs_read(path, &shapes[shape], memory, &costs, err);
        if (result != STATUS_OK) continue;
        assert(costs.stages.stage_count == shapes[shape].rank_count * shapes[shape].chunk_count);
    }
    return result;
}

static status schedule_order(const char *bytes, size_t count, arena *memory, error_message *err)
{
    bal_schedule schedule;
    TRY(cli_schedule_order_parse("input", bytes, count, memory, &schedule, err));
    return bal_schedule_check(&schedule, err);
}

static status sequence_lengths(const char *bytes, size_t count, arena *memory, error_message *err)
{
    model_sequence_lengths lengths = {0};
    char *text = arena_array(memory, count + 1, 1);
    memcpy(text, bytes, count);
    TRY(model_sequence_lengths_parse("fuzz", text, count, memory, &lengths, err));
    assert(lengths.given_count >= 1);
    for (int64_t sequence = 0; sequence < lengths.given_count; sequence++) {
        const int tokens = model_sequence_length(&lengths, sequence);
        assert(tokens >= 1 && tokens <= MODEL_SEQUENCE_TOKENS_MAX);
    }
    return STATUS_OK;
}

static void check_study(const ana_study *read)
{
    assert(read->name != NULL && !json_is_missing(read->root));
    assert((read->trace_path == NULL) == (read->model != NULL));
    assert(read->stage_count >= 1 && read->parallel.data >= 1 && read->parallel.tensor >= 1);
    assert(read->balancing_count >= 1 && read->balancing_count <= ANA_BALANCINGS_MAX);
    for (int slow = 0; slow < read->run.slow_rank_count; slow++) {
        assert(read->slow_ranks[slow].rank < read->stage_count);
        assert(read->slow_ranks[slow].time_factor > 0);
    }
    for (int row = 0; row < read->balancing_count; row++) {
        const ana_balancing *each = &read->balancings[row];
        assert(each->balancer != NULL);
        assert(each->repack.options.kind == BAL_REPACK_NONE ||
               each->policy.kind != BAL_POLICY_NEVER);
        for (int other = 0; other < row; other++) {
            assert(strcmp(each->label, read->balancings[other].label) != 0);
        }
    }
}

static status study(const char *bytes, size_t count, arena *memory, error_message *err)
{
    ana_study read;
    const status result = ana_study_open(file_of(bytes, count), NULL, memory, &read, err);
    if (result == STATUS_OK) check_study(&read);
    return result;
}

static status uncertainty(json_document *document, arena *memory, error_message *err)
{
    ana_uncertainty read;
    (void)memory;
    TRY(ana_uncertainty_read(json_root(document), &read, err));
    assert(ana_uncertainty_check(&read, err) == STATUS_OK);
    for (int each = 0; each < read.range_count; each++) {
        const ana_range *range = &read.ranges[each].range;
        const double rounding = 1e-8 * fmax(fabs(range->low), fabs(range->high));
        assert(isfinite(range->low) && isfinite(range->high) && range->low <= range->high);
        for (int step = 1; step < 8; step++) {
            const double value = ana_range_quantile(range, step / 8.0);
            assert(value >= range->low - rounding && value <= range->high + rounding);
        }
    }
    return STATUS_OK;
}

static const struct {
    const char *name;
    status (*read)(const char *bytes, size_t count, arena *memory, error_message *err);
    status (*read_json)(json_document *document, arena *memory, error_message *err);
} readers[] = {
    {"fuzz_calibration", calibration, NULL},
    {"fuzz_config", NULL, config},
    {"fuzz_expert_counts", expert_counts, NULL},
    {"fuzz_hardware", NULL, hardware},
    {"fuzz_matrix", matrix, NULL},
    {"fuzz_measured_runs", measured_runs, NULL},
    {"fuzz_nsys", nsys, NULL},
    {"fuzz_ops", ops, NULL},
    {"fuzz_plan", NULL, plan},
    {"fuzz_plan_loads", NULL, plan_loads},
    {"fuzz_real_runs", real_runs, NULL},
    {"fuzz_schedule_costs", schedule_costs, NULL},
    {"fuzz_schedule_order", schedule_order, NULL},
    {"fuzz_sequence_lengths", sequence_lengths, NULL},
    {"fuzz_study", study, NULL},
    {"fuzz_uncertainty", NULL, uncertainty},
};

static status read_document(size_t reader, const char *bytes, size_t count, arena *memory,
                            error_message *err)
{
    json_document *document = NULL;
    TRY(json_open_bytes("input", bytes, count, &document, err));
    const status result = readers[reader].read_json(document, memory, err);
    json_close(document);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    const char *text = count > 0 ? (const char *)bytes : "";
    error_message err = {0};
    size_t reader = 0;
    while (strcmp(readers[reader].name, program_invocation_short_name) != 0) {
        reader++;
        assert(reader < sizeof readers / sizeof readers[0]);
    }
    arena *memory = arena_create(4096);
    const status result = readers[reader].read != NULL
                              ? readers[reader].read(text, count, memory, &err)
                              : read_document(reader, text, count, memory, &err);
    assert(result == STATUS_OK || (err.code == result && err.message[0] != '\0'));
    arena_destroy(memory);
    return 0;
}
