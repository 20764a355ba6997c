/// What came of `dynmo run`, and how it is told.
#include "cli/run/run.h"

#include "base/file.h"
#include "base/json.h"
#include "models/cost/saturating.h"
#include "sim/training_replay.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { SCRATCH_BLOCK_BYTES = 1 << 20, LOSSES_SHOWN = 5 };

void cli_run_outcome_init(cli_run_outcome *outcome, const cli_run_request *request,
                          const cli_run_study *opened, arena *memory)
{
    const size_t iterations = (size_t)opened->setup.iteration_count;
    *outcome = (cli_run_outcome){
        .request = request,
        .opened = opened,
        .scratch = arena_within(memory, SCRATCH_BLOCK_BYTES),
        .iteration_max = opened->setup.iteration_count,
        .memory = memory,
        .experts = {.rank_count = request->learns ? opened->study.parallel.expert : 1},
        .loss = arena_array(memory, iterations, sizeof *outcome->loss),
        .gradient_norm = arena_array(memory, iterations, sizeof *outcome->gradient_norm),
        .iteration_ns = arena_array(memory, iterations, sizeof *outcome->iteration_ns),
        .plan_hash = arena_array(memory, iterations, sizeof *outcome->plan_hash),
        .loss_hash = FILE_HASH_START,
        .forecast = {.warmup_count = request->warmup_count,
                     .memory = arena_within(memory, 1 << 14)},
        .replay_ns = -1,
    };
}

static uint64_t plan_hash(const bal_training_iteration *record, int chunk_count)
{
    const size_t bounds = (size_t)record->rank_count * (size_t)chunk_count + 1;
    uint64_t hash =
        file_hash(FILE_HASH_START, record->first_layer, bounds * sizeof *record->first_layer);
    return file_hash(hash, record->machine_rank,
                     (size_t)record->rank_count * sizeof *record->machine_rank);
}

/// Chunks per rank of what is played.
static int chunk_count_of(const cli_run_outcome *outcome)
{
    const ana_setup *setup = &outcome->opened->setup;
    return setup->stage_count / setup->machine.rank_count;
}

/// The machine that a prediction plays on. Under the nominal clock what ops of a device that learns
/// take is measured, and messages take no time.
static bal_machine machine_of(const cli_run_outcome *outcome)
{
    bal_machine machine = outcome->opened->setup.machine;
    if (outcome->request->learns && outcome->request->clock == EXEC_CLOCK_NOMINAL) {
        machine.intra_node = (bal_link){0};
        machine.inter_node = (bal_link){0};
    }
    return machine;
}

status cli_run_outcome_add(cli_run_outcome *outcome, const exec_measured *measured,
                           error_message *err)
{
    const bal_training_iteration *record = measured->record;
    const int iteration = outcome->iteration_count;
    const double learnt[] = {measured->loss, measured->gradient_norm};
    if (iteration >= outcome->iteration_max) {
        return error_set(err, STATUS_INVALID, "iteration %d is beyond the run's %d",
                         record->iteration, outcome->iteration_max);
    }
    if (outcome->request->learns && !isfinite(measured->loss)) {
        return error_set(err, STATUS_BACKEND,
                         "iteration %d: the loss is %g: the training diverges; lower "
                         "execution.learning_rate",
                         record->iteration, measured->loss);
    }
    outcome->loss[iteration] = measured->loss;
    outcome->gradient_norm[iteration] = measured->gradient_norm;
    outcome->loss_hash = file_hash(outcome->loss_hash, learnt, sizeof learnt);
    outcome->iteration_ns[iteration] = record->iteration_ns;
    outcome->plan_hash[iteration] = plan_hash(record, chunk_count_of(outcome));
    outcome->state_hash = measured->state_hash;
    outcome->overhead_ns += measured->overhead_ns;
    outcome->wake_ns += measured->wake_ns;
    outcome->latency_ns += measured->latency_ns;
    outcome->op_count += measured->op_count;
    outcome->message_count += measured->message_count;
    if (measured->clock_offset_ns != 0) {
        outcome->clock_offset_ns = measured->clock_offset_ns;
        if (measured->clock_residual_ns > outcome->clock_residual_ns) {
            outcome->clock_residual_ns = measured->clock_residual_ns;
        }
    }
    outcome->forecast_migration_ns =
        saturating_add(outcome->forecast_migration_ns, measured->forecast_migration_ns);
    outcome->forecast_decision_ns =
        saturating_add(outcome->forecast_decision_ns, measured->forecast_decision_ns);
    outcome->iteration_count++;
    cli_run_experts_add(&outcome->experts, measured, outcome->memory);
    const bal_machine machine = machine_of(outcome);
    const ana_executed executed = {
        .iteration = record->iteration,
        .machine = &machine,
        .played = measured->played,
        .timelines = measured->timelines,
        .pipeline_ns = record->pipeline_ns,
        .reduction_ns = record->reduction_ns,
    };
    TRY(ana_agreement_add(&outcome->agreement, &executed, outcome->scratch, err));
    if (!cli_run_has_forecast(outcome->request)) return STATUS_OK;
    const int64_t step_ns = record->iteration_ns - record->pipeline_ns - record->reduction_ns -
                            record->profile_ns - record->decision_ns - record->migration_ns;
    return ana_forecast_add(&outcome->forecast, &executed, record->changed, step_ns,
                            outcome->scratch, err);
}

/// Compares a simulated iteration with the executed one of the same number.
static status put_simulated(void *context, const bal_training_iteration *record, error_message *err)
{
    cli_run_outcome *outcome = context;
    const int iteration = record->iteration;
    (void)err;
    if (iteration >= outcome->iteration_count) return STATUS_OK;
    const bool same_plan =
        plan_hash(record, chunk_count_of(outcome)) == outcome->plan_hash[iteration];
    const bool same_length = record->iteration_ns == outcome->iteration_ns[iteration];
    outcome->plan_difference_count += !same_plan;
    outcome->replay_difference_count += !same_plan || !same_length;
    return STATUS_OK;
}

status cli_run_outcome_replay(cli_run_outcome *outcome, const bal_training *training, arena *memory,
                              error_message *err)
{
    bal_training simulated = *training;
    bal_training_result result;
    simulated.sink = (bal_record_sink){.context = outcome, .put = put_simulated};
    TRY(sim_training_replay(&simulated, NULL, memory, &result, err));
    outcome->replay_ns = result.total_ns;
    return STATUS_OK;
}

/// What the whole run was predicted to take: simulated by itself, or from the measured ops.
static int64_t predicted_ns(const cli_run_outcome *outcome)
{
    if (outcome->replay_ns >= 0) return outcome->replay_ns;
    return outcome->result.total_ns - outcome->agreement.measured_ns +
           outcome->agreement.predicted_ns;
}

static double error_ratio(const cli_run_outcome *outcome)
{
    const int64_t predicted = predicted_ns(outcome);
    if (predicted <= 0) return 0;
    return (double)outcome->result.total_ns / (double)predicted - 1;
}

static void write_hash(json_writer *writer, const char *key, uint64_t hash)
{
    char text[24];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    json_put_string(writer, key, text);
}

static void write_learning(const cli_run_outcome *outcome, json_writer *writer)
{
    json_put_double_array(writer, "loss", outcome->loss,
                          outcome->request->learns ? outcome->iteration_count : 0, 17);
    if (!outcome->request->learns) return;
    json_put_bool(writer, "synthetic_tokens", outcome->is_synthetic);
    json_put_int64(writer, "announced_changes", outcome->result.change_count);
    json_put_double_array(writer, "gradient_norm", outcome->gradient_norm, outcome->iteration_count,
                          17);
    write_hash(writer, "loss_hash", outcome->loss_hash);
    write_hash(writer, "state_hash", outcome->state_hash);
}

static void write_agreement(const cli_run_outcome *outcome, json_writer *writer)
{
    const ana_agreement *agreement = &outcome->agreement;
    json_put_object(writer, "agreement");
    json_put_int64(writer, "ops", agreement->op_count);
    json_put_int64(writer, "different_ops", agreement->different_op_count);
    json_put_int64(writer, "difference_max_ns", agreement->difference_max_ns);
    json_put_double(writer, "pipeline_error_ratio", ana_agreement_error_ratio(agreement));
    if (outcome->replay_ns >= 0) {
        json_put_int64(writer, "different_iterations", outcome->replay_difference_count);
        json_put_int64(writer, "different_plans", outcome->plan_difference_count);
    }
    json_end_object(writer);
}

void cli_run_outcome_write(const cli_run_outcome *outcome, text_buffer *out)
{
    const cli_run_request *request = outcome->request;
    const bal_training_result *result = &outcome->result;
    const ana_setup *setup = &outcome->opened->setup;
    json_writer writer = json_line_begin(out);
    json_put_string(&writer, "schema", "dynmo-run/1");
    json_put_string(&writer, "device", request->device);
    json_put_string(&writer, "transport", request->transport);
    json_put_string(&writer, "clock", exec_clock_names[request->clock]);
    json_put_string(&writer, "row", outcome->opened->row->label);
    json_put_int64(&writer, "ranks", setup->machine.rank_count);
    json_put_int64(&writer, "data_parallel", outcome->opened->study.parallel.data);
    json_put_int64(&writer, "iterations", outcome->iteration_count);
    json_put_int64(&writer, "predicted_ns", predicted_ns(outcome));
    json_put_int64(&writer, "measured_ns", result->total_ns);
    json_put_double(&writer, "error_ratio", error_ratio(outcome));
    write_learning(outcome, &writer);
    json_put_double(&writer, "bubble_ratio", result->bubble_ratio);
    json_put_double(&writer, "imbalance_ratio", result->imbalance_ratio);
    json_put_int64(&writer, "rebalances", result->rebalance_count);
    json_put_int64(&writer, "repacks", result->repack_count);
    json_put_int64(&writer, "moved_layers", result->moved_layer_count);
    json_put_int64(&writer, "moved_bytes", result->moved_bytes);
    json_put_int64(&writer, "migration_ns", result->migration_ns);
    json_put_int64(&writer, "forecast_migration_ns", outcome->forecast_migration_ns);
    json_put_int64(&writer, "decision_ns", result->decision_ns);
    json_put_int64(&writer, "forecast_decision_ns", outcome->forecast_decision_ns);
    cli_run_experts_write(&outcome->experts, &writer);
    write_agreement(outcome, &writer);
    if (cli_run_has_forecast(request)) cli_run_forecast_write(outcome, &writer);
    json_put_int64(&writer, "ops", outcome->op_count);
    json_put_int64(&writer, "messages", outcome->message_count);
    json_put_int64(&writer, "overhead_ns", outcome->overhead_ns);
    json_put_int64(&writer, "wake_ns", outcome->wake_ns);
    json_put_int64(&writer, "latency_ns", outcome->latency_ns);
    if (outcome->clock_offset_ns != 0) {
        json_put_int64(&writer, "clock_offset_ns", outcome->clock_offset_ns);
        json_put_int64(&writer, "clock_residual_ns", outcome->clock_residual_ns);
    }
    json_line_end(&writer);
}

/// The losses of a few iterations, evenly spread, the first and the last among them.
static void print_losses(const cli_run_outcome *outcome, text_buffer *out)
{
    const int count = outcome->iteration_count;
    text_append(out, "loss, nats per token:");
    for (int shown = 0, last = -1; shown < LOSSES_SHOWN; shown++) {
        const int iteration = shown * (count - 1) / (LOSSES_SHOWN - 1);
        if (iteration == last) continue;
        last = iteration;
        text_format(out, "  %.4f (iteration %d)", outcome->loss[iteration], iteration);
    }
    text_format(out, "\nloss hash %016" PRIx64 ", state hash %016" PRIx64 "\n", outcome->loss_hash,
                outcome->state_hash);
}

static void print_ops(const cli_run_outcome *outcome, text_buffer *out)
{
    const ana_agreement *agreement = &outcome->agreement;
    if (agreement->different_op_count == 0) {
        text_format(
            out, "ops: all %" PRId64 " begin and end at the nanosecond that the simulator says\n",
            agreement->op_count);
        return;
    }
    text_format(out,
                "ops: %" PRId64 " of %" PRId64 " at other times than simulated, by at most %s; "
                "first %s of rank %d in iteration %d\n",
                agreement->different_op_count, agreement->op_count,
                text_duration(agreement->difference_max_ns).text,
                bal_op_name(agreement->different_op).text, agreement->different_rank,
                agreement->different_iteration);
}

static void print_times(const cli_run_outcome *outcome, text_buffer *out)
{
    text_format(out, "%s %s, %s %s: %+.2f %%\n",
                outcome->request->clock == EXEC_CLOCK_NOMINAL ? "nominal" : "measured",
                text_duration(outcome->result.total_ns).text,
                outcome->replay_ns >= 0 ? "simulated" : "simulated with the measured ops",
                text_duration(predicted_ns(outcome)).text, error_ratio(outcome) * 100);
    if (outcome->replay_ns < 0) return;
    if (outcome->request->clock != EXEC_CLOCK_NOMINAL) {
        text_format(out, "plans: %d of %d iterations are under the same plan as simulated\n",
                    outcome->iteration_count - outcome->plan_difference_count,
                    outcome->iteration_count);
        return;
    }
    text_format(out, "iterations: %d of %d are as long and under the same plan as simulated\n",
                outcome->iteration_count - outcome->replay_difference_count,
                outcome->iteration_count);
}

static void print_clocks(const cli_run_outcome *outcome, text_buffer *out)
{
    if (outcome->clock_offset_ns == 0) return;
    text_format(out, "clocks: a node's is %s from the leader's, known to within %s\n",
                text_duration(outcome->clock_offset_ns).text,
                text_duration(outcome->clock_residual_ns).text);
}

/// What balancing cost, beside what it was to cost.
static void print_balancing(const cli_run_outcome *outcome, text_buffer *out)
{
    const bal_training_result *result = &outcome->result;
    const double more_ns = (double)result->migration_ns - (double)outcome->forecast_migration_ns +
                           (double)result->decision_ns - (double)outcome->forecast_decision_ns;
    if (outcome->opened->row->policy.kind == BAL_POLICY_NEVER) return;
    if (outcome->request->clock == EXEC_CLOCK_NOMINAL && !outcome->request->learns) return;
    text_format(out, "migration %s, forecast %s; ", text_duration(result->migration_ns).text,
                text_duration(outcome->forecast_migration_ns).text);
    text_format(out, "decisions %s, forecast %s: %+.2f %% of the run\n",
                text_duration(result->decision_ns).text,
                text_duration(outcome->forecast_decision_ns).text,
                more_ns / (double)result->total_ns * 100);
}

void cli_run_outcome_print(const cli_run_outcome *outcome, text_buffer *out)
{
    const cli_run_request *request = outcome->request;
    const bal_training_result *result = &outcome->result;
    const ana_setup *setup = &outcome->opened->setup;
    text_format(out, "%s, %s: %d iterations on %d x %d ranks, %d microbatches, %s\n",
                outcome->opened->study.name, outcome->opened->row->label, outcome->iteration_count,
                outcome->opened->study.parallel.data, setup->machine.rank_count,
                setup->microbatch_count, outcome->opened->study.run.schedule);
    text_format(out, "device %s, transport %s, clock %s%s\n", request->device, request->transport,
                exec_clock_names[request->clock],
                outcome->is_synthetic ? ", synthetic tokens" : "");
    if (request->learns) print_losses(outcome, out);
    print_times(outcome, out);
    if (request->clock == EXEC_CLOCK_NOMINAL) print_ops(outcome, out);
    print_clocks(outcome, out);
    text_format(
        out, "bubble_ratio %.3f, imbalance %.3f, %s, %s, %s moved (%s)\n", result->bubble_ratio,
        result->imbalance_ratio, text_count(result->rebalance_count, "rebalance").text,
        text_count(result->repack_count, "re-packing").text,
        text_count(result->moved_layer_count, "layer").text, text_size(result->moved_bytes).text);
    print_balancing(outcome, out);
    cli_run_experts_print(&outcome->experts, out);
    if (cli_run_has_forecast(request)) cli_run_forecast_print(outcome, out);
}
