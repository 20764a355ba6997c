/// Compares an executed iteration with the simulated one, op by op.
#include "analysis/compare/agreement.h"

#include "sim/training_play.h"

static int64_t distance_ns(int64_t one, int64_t other)
{
    return one > other ? one - other : other - one;
}

static void compare_op(ana_agreement *agreement, int iteration, int rank, bal_op op,
                       int64_t difference_ns)
{
    agreement->op_count++;
    if (difference_ns == 0) return;
    if (agreement->different_op_count == 0) {
        agreement->different_iteration = iteration;
        agreement->different_rank = rank;
        agreement->different_op = op;
    }
    agreement->different_op_count++;
    if (difference_ns > agreement->difference_max_ns) agreement->difference_max_ns = difference_ns;
}

static void compare_timelines(ana_agreement *agreement, int iteration, const bal_timeline *executed,
                              const bal_timeline *predicted)
{
    const bal_schedule *schedule = executed->schedule;
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
            const int64_t begin_ns = distance_ns(executed->begin_ns[op], predicted->begin_ns[op]);
            const int64_t end_ns = distance_ns(executed->end_ns[op], predicted->end_ns[op]);
            compare_op(agreement, iteration, rank, schedule->ops[op],
                       begin_ns > end_ns ? begin_ns : end_ns);
        }
    }
}

status ana_agreement_add(ana_agreement *agreement, const ana_executed *executed, arena *scratch,
                         error_message *err)
{
    sim_plan_replay replay;
    arena_reset(scratch);
    TRY(sim_plan_replay_play(executed->machine, executed->played, scratch, &replay, err));
    const int64_t measured_ns = executed->pipeline_ns + executed->reduction_ns;
    const int64_t predicted_ns = replay.times.pipeline_ns + replay.times.reduction_ns;
    if (measured_ns > INT64_MAX - agreement->measured_ns ||
        predicted_ns > INT64_MAX - agreement->predicted_ns) {
        return error_set(err, STATUS_INVALID, "iteration %d: the ns of the run do not fit 64 bits",
                         executed->iteration);
    }
    for (int replica = 0; replica < executed->played->replica_count; replica++) {
        compare_timelines(agreement, executed->iteration, &executed->timelines[replica],
                          &replay.timelines[replica]);
    }
    agreement->measured_ns += measured_ns;
    agreement->predicted_ns += predicted_ns;
    agreement->iteration_count++;
    return STATUS_OK;
}

double ana_agreement_error_ratio(const ana_agreement *agreement)
{
    if (agreement->predicted_ns <= 0) return 0;
    return (double)agreement->measured_ns / (double)agreement->predicted_ns - 1;
}
