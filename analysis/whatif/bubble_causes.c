#include "analysis/whatif/bubble_causes.h"

#include "base/arena.h"
#include "sim/pipeline.h"

#include <assert.h>
#include <string.h>

const char *const ana_bubble_cause_names[ANA_BUBBLE_CAUSE_COUNT] = {
    [ANA_BUBBLE_FILL] = "warm-up and cool-down",   [ANA_BUBBLE_IMBALANCE] = "imbalance",
    [ANA_BUBBLE_COMMUNICATION] = "communication",  [ANA_BUBBLE_BARRIER] = "optimizer barrier",
    [ANA_BUBBLE_REDUCTION] = "gradient reduction", [ANA_BUBBLE_MIGRATION] = "migration",
};

/// An order that is played several times with other costs.
typedef struct replayer {
    sim_order order;
    sim_summary summary;
    int64_t *begin_ns; // [rank_count] of a round
    int64_t *first_ns; // [rank_count] first begin of the first round
    int rank_count;
    int round_count;
    bool post_validation;
} replayer;

/// Makespan and span of all rounds of the order with these costs.
static void replay(replayer *player, const bal_stage_costs *costs, int64_t *makespan_ns,
                   int64_t *span_ns)
{
    const int ranks = player->rank_count;
    const sim_summary *summary = &player->summary;
    memset(player->begin_ns, 0, (size_t)ranks * sizeof *player->begin_ns);
    for (int round = 0; round < player->round_count; round++) {
        sim_order_summarise(&player->order, costs, player->begin_ns, &player->summary);
        if (round == 0) {
            memcpy(player->first_ns, summary->first_begin_ns,
                   (size_t)ranks * sizeof *player->first_ns);
        }
        memcpy(player->begin_ns, summary->last_end_ns, (size_t)ranks * sizeof *player->begin_ns);
    }
    int64_t first_ns = INT64_MAX;
    int64_t last_ns = 0;
    *span_ns = 0;
    for (int rank = 0; rank < ranks; rank++) {
        const int64_t own_ns = summary->last_end_ns[rank] - player->first_ns[rank];
        if (player->first_ns[rank] < first_ns) first_ns = player->first_ns[rank];
        if (summary->last_end_ns[rank] > last_ns) last_ns = summary->last_end_ns[rank];
        if (own_ns > *span_ns) *span_ns = own_ns;
    }
    *makespan_ns = last_ns - first_ns;
}

/// The mean of an op over stages and microbatches, rounded down.
static int64_t mean_ns(const bal_stage_costs *costs, const int64_t *op_ns)
{
    const int64_t count = (int64_t)costs->stage_count * costs->microbatch_count;
    int64_t sum = 0;
    for (int64_t op = 0; op < count; op++) {
        sum += op_ns[op];
    }
    return sum / count;
}

/// All stages alike: one column, the mean of every kind of op.
static void make_alike(const bal_stage_costs *costs, arena *scratch, bal_stage_costs *alike)
{
    const int64_t *const from[] = {costs->forward_ns, costs->backward_input_ns,
                                   costs->backward_weight_ns};
    int64_t *to[3];
    for (int kind = 0; kind < 3; kind++) {
        to[kind] = arena_array(scratch, (size_t)costs->stage_count, sizeof *to[kind]);
        const int64_t mean = mean_ns(costs, from[kind]);
        for (int stage = 0; stage < costs->stage_count; stage++) {
            to[kind][stage] = mean;
        }
    }
    alike->microbatch_count = 1;
    alike->forward_ns = to[0];
    alike->backward_input_ns = to[1];
    alike->backward_weight_ns = to[2];
}

static int64_t at_least_0(int64_t ns)
{
    return ns > 0 ? ns : 0;
}

/// The causes inside the pipeline, in ns of all ranks together.
static void split_pipeline(replayer *player, const bal_training_iteration *iteration,
                           arena *scratch, int64_t *cause_ns)
{
    const bal_stage_costs *costs = iteration->costs;
    int64_t makespan[3]; // as it was, without messages, and alike
    int64_t span[3];
    bal_stage_costs changed = *costs;
    replay(player, costs, &makespan[0], &span[0]);
    int64_t *free_of_charge =
        arena_array(scratch, (size_t)costs->stage_count, sizeof *free_of_charge);
    changed.message_delay_ns = NULL;
    changed.send_forward_ns = free_of_charge;
    changed.send_backward_ns = free_of_charge;
    replay(player, &changed, &makespan[1], &span[1]);
    make_alike(costs, scratch, &changed);
    replay(player, &changed, &makespan[2], &span[2]);
    const int64_t *length = player->post_validation ? span : makespan;
    const int64_t ranks = iteration->rank_count;
    const int64_t beyond_ns = at_least_0(iteration->pipeline_ns - length[0]);
    const bool waits_for_ways = iteration->is_network_shared;
    cause_ns[ANA_BUBBLE_COMMUNICATION] =
        ranks * (at_least_0(length[0] - length[1]) + (waits_for_ways ? beyond_ns : 0));
    cause_ns[ANA_BUBBLE_IMBALANCE] =
        ranks * (at_least_0(length[1] - length[2]) + (waits_for_ways ? 0 : beyond_ns));
    cause_ns[ANA_BUBBLE_BARRIER] = ranks * at_least_0(length[2] - span[2]);
}

/// Takes a cause down to what is left of the idle time.
static void limit(int64_t *cause_ns, int64_t *left)
{
    if (*cause_ns > *left) *cause_ns = *left;
    *left -= *cause_ns;
}

/// Splits one iteration. Idle time that no other cause has is FILL.
static void split(replayer *player, const bal_training_iteration *iteration, arena *scratch,
                  ana_bubble_causes *one)
{
    const int64_t ranks = iteration->rank_count;
    split_pipeline(player, iteration, scratch, one->cause_ns);
    const int64_t moving_ns =
        iteration->migration_ns + iteration->decision_ns + iteration->profile_ns;
    const int64_t step_ns =
        iteration->iteration_ns - iteration->pipeline_ns - iteration->reduction_ns - moving_ns;
    one->rank_ns = ranks * iteration->iteration_ns;
    one->busy_ns = iteration->metrics.busy_ns;
    int64_t left = ranks * iteration->pipeline_ns - one->busy_ns;
    limit(&one->cause_ns[ANA_BUBBLE_COMMUNICATION], &left);
    limit(&one->cause_ns[ANA_BUBBLE_IMBALANCE], &left);
    limit(&one->cause_ns[ANA_BUBBLE_BARRIER], &left);
    one->cause_ns[ANA_BUBBLE_FILL] = left;
    one->cause_ns[ANA_BUBBLE_BARRIER] += ranks * step_ns;
    one->cause_ns[ANA_BUBBLE_REDUCTION] = ranks * iteration->reduction_ns;
    one->cause_ns[ANA_BUBBLE_MIGRATION] = ranks * moving_ns;
}

status ana_bubble_causes_add(ana_bubble_causes *causes, const bal_training_iteration *iteration,
                             arena *scratch, error_message *err)
{
    ana_bubble_causes one = {0};
    const size_t ranks = (size_t)iteration->rank_count;
    replayer player = {.rank_count = iteration->rank_count,
                       .post_validation = iteration->validates_behind,
                       .round_count = iteration->round_count > 0 ? iteration->round_count : 1};
    assert(iteration->timeline != NULL && iteration->costs != NULL);
    if (iteration->iteration_ns > (INT64_MAX / 4 - causes->rank_ns) / iteration->rank_count) {
        return error_set(err, STATUS_INVALID, "iteration %d: the time of %d ranks exceeds 64 bits",
                         iteration->iteration, iteration->rank_count);
    }
    TRY(sim_order_compile(iteration->timeline->schedule, scratch, &player.order, err));
    sim_summary_init(&player.order, scratch, &player.summary);
    player.begin_ns = arena_array(scratch, ranks, sizeof *player.begin_ns);
    player.first_ns = arena_array(scratch, ranks, sizeof *player.first_ns);
    split(&player, iteration, scratch, &one);
    causes->rank_ns += one.rank_ns;
    causes->busy_ns += one.busy_ns;
    for (int cause = 0; cause < ANA_BUBBLE_CAUSE_COUNT; cause++) {
        causes->cause_ns[cause] += one.cause_ns[cause];
    }
    return STATUS_OK;
}

double ana_bubble_causes_idle_ratio(const ana_bubble_causes *causes)
{
    if (causes->rank_ns == 0) return 0;
    return (double)(causes->rank_ns - causes->busy_ns) / (double)causes->rank_ns;
}

double ana_bubble_causes_share(const ana_bubble_causes *causes, ana_bubble_cause cause)
{
    if (causes->rank_ns == 0) return 0;
    return (double)causes->cause_ns[cause] / (double)causes->rank_ns;
}
