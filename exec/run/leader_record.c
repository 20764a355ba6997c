/// What the leader writes down of an iteration, and whom it tells.
#include "exec/run/leader.h"

#include "balance/repack/repack.h"

/// What the optimizer step takes: measured where there is one.
static int64_t step_ns(const exec_leader *leader)
{
    if (!leader->learns) return leader->training.optimizer_step_ns;
    return leader->reports.stepped_ns - leader->reports.reduced_ns;
}

status exec_leader_describe(exec_leader *leader, bal_training_iteration *record, error_message *err)
{
    const bal_training *training = &leader->training;
    const bal_placed_partition *placed = leader->played.plan;
    const bal_gpu_layout layout = bal_training_gpu_layout(training);
    TRY(bal_gpu_account_of(&layout, placed->machine_rank, placed->rank_count,
                           leader->iteration_memory, &record->gpus, err));
    record->metrics = leader->times.metrics;
    record->rank_count = placed->rank_count;
    record->replica_count = training->data_parallel;
    record->microbatch_count = leader->played.schedule->microbatch_count;
    record->rank_work_ns = leader->times.rank_work_ns;
    record->pipeline_ns = leader->times.pipeline_ns;
    record->reduction_ns = leader->times.reduction_ns;
    record->first_layer = placed->first_layer;
    record->machine_rank = placed->machine_rank;
    record->changed = leader->is_changed;
    if (bal_training_is_profiled(training, record->iteration, leader->is_announced)) {
        record->profile_ns = training->profile_ns;
    }
    return bal_training_ledger_close(record, step_ns(leader), err);
}

/// Hands the record to the sink; with the timeline of the slowest replica, if it wants one.
static status put_record(exec_leader *leader, bal_training_iteration *record, error_message *err)
{
    const bal_record_sink *sink = &leader->training.sink;
    const int slowest = leader->times.slowest;
    if (sink->wants_timeline != NULL && sink->wants_timeline(sink->context, record->iteration)) {
        bal_stage_costs *stages = arena_array(leader->iteration_memory, 1, sizeof *stages);
        TRY(bal_stage_costs_from_layers(&leader->replicas[slowest], leader->played.plan,
                                        &leader->training.machine, leader->played.rank_time_factor,
                                        leader->iteration_memory, stages, err));
        record->timeline = &leader->reports.timelines[slowest];
        record->costs = stages;
    }
    return sink->put != NULL ? sink->put(sink->context, record, err) : STATUS_OK;
}

static status put_measured(exec_leader *leader, const bal_training_iteration *record,
                           error_message *err)
{
    const exec_training_listener *listener = leader->execution->listener;
    const exec_run_reports *reports = &leader->reports;
    if (listener == NULL) return STATUS_OK;
    const exec_measured measured = {
        .record = record,
        .played = &leader->played,
        .timelines = reports->timelines,
        .load_count = reports->load_columns > 0 ? reports->load_count : NULL,
        .load_columns = reports->load_columns,
        .loss = reports->loss,
        .gradient_norm = reports->gradient_norm,
        .state_hash = leader->state_hash,
        .overhead_ns = reports->overhead_ns,
        .wake_ns = reports->wake_ns,
        .latency_ns = reports->latency_ns,
        .op_count = reports->op_count,
        .message_count = reports->message_count,
        .migration_finish_ns = leader->moved.finish_ns,
        .migrated_bytes = leader->moved.bytes,
    };
    return listener->put(listener->context, &measured, err);
}

status exec_leader_put(exec_leader *leader, bal_training_iteration *record, error_message *err)
{
    TRY(bal_training_ledger_close(record, step_ns(leader), err));
    TRY(bal_training_ledger_add(&leader->ledger, record, &leader->times,
                                leader->training.data_parallel, err));
    leader->ledger.result.simulated_count++;
    TRY(put_record(leader, record, err));
    return put_measured(leader, record, err);
}
