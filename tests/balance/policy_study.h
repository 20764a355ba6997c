/// Synthetic runs for comparing policies: how the loads of 32 layers on 8 ranks change over
/// iterations, what a policy makes of them, and what somebody could have made of them who knew
/// them all in advance. One iteration takes what iteration_estimate.h says of zb-h2 with 32
/// microbatches; a layer that moves occupies both of its ranks for `layer_move` iterations.
#pragma once

#include "balance/control/controller.h"
#include "balance/control/iteration_estimate.h"
#include "base/rng.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STUDY_LAYERS = 32, STUDY_RANKS = 8, STUDY_MICROBATCHES = 32, STUDY_ITERATIONS_MAX = 800 };

typedef enum study_family {
    STUDY_CONSTANT,   ///< the same loads, noise of 2 %
    STUDY_EXPERTS,    ///< mixture of experts: every layer anew in every iteration, +-25 %
    STUDY_SKEW,       ///< experts whose popularity wanders, noise of 10 % on top
    STUDY_PRUNING,    ///< ten steps of a cubic schedule, each layer to a sparsity of its own
    STUDY_FREEZING,   ///< front to back, a layer at a time falls to a third
    STUDY_EARLY_EXIT, ///< more and more tokens leave in the back half
    STUDY_DRIFT,      ///< every layer changes evenly over the run
    STUDY_SPARSE,     ///< attention patterns redrawn every 60 iterations
    STUDY_REGIMES,    ///< two kinds of data in turn, each for 20 to 120 iterations
    STUDY_REALISTIC_COUNT,
    STUDY_PING_PONG = STUDY_REALISTIC_COUNT, ///< a heavy front and a heavy back in turn, 1 to 4
    STUDY_PING_PONG_10,                      ///< iterations each; 10; 40
    STUDY_PING_PONG_40,
    STUDY_OBLIVIOUS_COUNT,
    STUDY_ADVERSARY =
        STUDY_OBLIVIOUS_COUNT, ///< of the two the one that suits the plan in force less
    STUDY_ADVERSARY_MILD,
    STUDY_FAMILY_COUNT
} study_family;

static const char *const study_family_names[STUDY_FAMILY_COUNT] = {
    "constant",     "experts",      "skew",      "pruning",        "freezing",
    "early exit",   "drift",        "sparse",    "regimes",        "ping-pong 1-4",
    "ping-pong 10", "ping-pong 40", "adversary", "mild adversary",
};

/// Loads of one run. As large as it is, it lives on the heap.
typedef struct study_run {
    study_family family;
    int iteration_count;
    double layer_move;                                      // iterations that a moving layer takes
    int64_t forward_ns[STUDY_ITERATIONS_MAX][STUDY_LAYERS]; // B and W take as long each
    bool changed[STUDY_ITERATIONS_MAX];                     // what the model would announce
    int64_t state_bytes[STUDY_LAYERS];
} study_run;

static double study_uniform(rng *random, double low, double high)
{
    return low + (high - low) * rng_unit(random);
}

/// What the loads of a run depend on beside the iteration.
typedef struct study_course {
    rng *random;
    double target[STUDY_LAYERS]; // share of the load that is left at the end
    double level[STUDY_LAYERS];  // wandering or redrawn
    int regime;                  // 0 or 1
    int next_switch;             // iteration of the next change of regime
    bool switches;               // in this iteration
} study_course;

static int study_dwell(study_family family, rng *random)
{
    switch (family) {
    case STUDY_PING_PONG:
        return (int)rng_between(random, 1, 4);
    case STUDY_PING_PONG_10:
        return 10;
    case STUDY_PING_PONG_40:
        return 40;
    default:
        return (int)rng_between(random, 20, 120);
    }
}

/// A layer's share of its first load, without noise.
static double study_share(const study_run *run, study_course *course, int t, int layer)
{
    const double done = (double)t / run->iteration_count;
    const double place = (double)layer / STUDY_LAYERS;
    const int step = t * 12 / run->iteration_count; // of 12, pruning between the first and the last
    const double left = step <= 0 ? 1 : step >= 10 ? 0 : 1 - step / 10.0;
    double *level = &course->level[layer];
    switch (run->family) {
    case STUDY_CONSTANT:
    case STUDY_EXPERTS:
        return 1;
    case STUDY_SKEW:
        *level += 0.02 * study_uniform(course->random, -1, 1) + 0.005 * (1 - *level);
        return *level;
    case STUDY_PRUNING:
        return course->target[layer] + (1 - course->target[layer]) * left * left * left;
    case STUDY_FREEZING:
        return layer < (int)(done * STUDY_LAYERS * 0.75) ? 1.0 / 3 : 1;
    case STUDY_EARLY_EXIT:
        return place < 0.5 ? 1 : 1 - 1.4 * done * (place - 0.5);
    case STUDY_DRIFT:
        return 1 + (course->target[layer] - 1) * done;
    case STUDY_SPARSE:
        if (t % 60 == 0) *level = study_uniform(course->random, 0.6, 1.0);
        return *level;
    case STUDY_REGIMES: {
        const double value = (course->regime == 1) == (layer % 8 < 4) ? 1 : 0.7;
        return layer < 8 && course->regime == 0 ? value * 1.3 : value;
    }
    default:
        return (course->regime == 1) == (place < 0.5) ? 2 : 1;
    }
}

static double study_noise(study_family family)
{
    static const double noise[STUDY_REALISTIC_COUNT] = {
        [STUDY_CONSTANT] = 0.02, [STUDY_EXPERTS] = 0.25,  [STUDY_SKEW] = 0.1,
        [STUDY_PRUNING] = 0.01,  [STUDY_FREEZING] = 0.01, [STUDY_EARLY_EXIT] = 0.05,
        [STUDY_DRIFT] = 0.01,    [STUDY_SPARSE] = 0.01,   [STUDY_REGIMES] = 0.03,
    };
    return family < STUDY_REALISTIC_COUNT ? noise[family] : 0.01;
}

/// Whether the model would announce a change before an iteration.
static bool study_announces(const study_run *run, const study_course *course, int t)
{
    const int count = run->iteration_count;
    if (t == 0) return false;
    switch (run->family) {
    case STUDY_PRUNING:
        return t * 12 / count <= 10 && t * 12 / count != (t - 1) * 12 / count;
    case STUDY_FREEZING:
        return (int)((double)t / count * STUDY_LAYERS * 0.75) !=
               (int)((double)(t - 1) / count * STUDY_LAYERS * 0.75);
    case STUDY_SPARSE:
        return t % 60 == 0;
    case STUDY_REGIMES:
    case STUDY_PING_PONG:
    case STUDY_PING_PONG_10:
    case STUDY_PING_PONG_40:
        return course->switches;
    default:
        return false;
    }
}

/// Writes the loads of a family whose course is known in advance.
static void study_fill_loads(study_run *run, rng *random, double base_ns)
{
    study_course course = {.random = random};
    for (int layer = 0; layer < STUDY_LAYERS; layer++) {
        course.target[layer] = study_uniform(random, 0.2, 1.0);
        course.level[layer] = 1;
    }
    for (int t = 0; t < run->iteration_count; t++) {
        course.switches = t == course.next_switch;
        if (course.switches) {
            course.next_switch += study_dwell(run->family, random);
            course.regime = 1 - course.regime;
        }
        run->changed[t] = study_announces(run, &course, t);
        for (int layer = 0; layer < STUDY_LAYERS; layer++) {
            const double share = study_share(run, &course, t, layer);
            const double noise = study_noise(run->family) * study_uniform(random, -1, 1);
            run->forward_ns[t][layer] = (int64_t)(share * (1 + noise) * base_ns);
        }
    }
}

/// Prepares a run. The loads of an adversary, all alike here, come from study_play.
static study_run *study_create(study_family family, int iteration_count, double layer_move,
                               uint64_t seed)
{
    study_run *run = calloc(1, sizeof *run);
    assert(run != NULL && iteration_count <= STUDY_ITERATIONS_MAX);
    run->family = family;
    run->iteration_count = iteration_count;
    run->layer_move = layer_move;
    rng random = rng_init(seed, family);
    const double base_ns = 1e6;
    for (int layer = 0; layer < STUDY_LAYERS; layer++) {
        run->forward_ns[0][layer] = (int64_t)base_ns;
    }
    if (family < STUDY_OBLIVIOUS_COUNT) study_fill_loads(run, &random, base_ns);
    // About the iteration of the start: four layers of F, B and W for every microbatch.
    const double iteration_ns = 3 * 4 * base_ns * STUDY_MICROBATCHES;
    for (int layer = 0; layer < STUDY_LAYERS; layer++) {
        run->state_bytes[layer] = (int64_t)(layer_move * iteration_ns);
    }
    return run;
}

static bal_layer_costs study_costs(const study_run *run, int t)
{
    return (bal_layer_costs){.layer_count = STUDY_LAYERS,
                             .microbatch_count = 1,
                             .has_split = true,
                             .forward_ns = run->forward_ns[t],
                             .backward_input_ns = run->forward_ns[t],
                             .backward_weight_ns = run->forward_ns[t],
                             .state_bytes = run->state_bytes};
}

static bal_machine study_machine(void)
{
    return (bal_machine){.rank_count = STUDY_RANKS,
                         .ranks_per_node = STUDY_RANKS,
                         .intra_node = {.bytes_per_s = 1000000000}};
}

static int64_t study_iteration_ns(const int64_t *forward_ns, const int *first_layer)
{
    int64_t before[STUDY_LAYERS + 1] = {0};
    int64_t three[STUDY_LAYERS + 1] = {0};
    for (int layer = 0; layer < STUDY_LAYERS; layer++) {
        before[layer + 1] = before[layer] + forward_ns[layer];
        three[layer + 1] = 3 * before[layer + 1];
    }
    const bal_layer_sums sums = {
        .layer_count = STUDY_LAYERS, .forward_before = before, .time_before = three};
    const bal_placed_partition plan = {
        .first_layer = first_layer, .rank_count = STUDY_RANKS, .chunk_count = 1};
    return bal_iteration_estimate_ns(&sums, &plan, bal_schedule_family_find("zb-h2"),
                                     STUDY_MICROBATCHES);
}

/// The adversary's two loads: a heavy front or a heavy back, whichever the plan in force suits
/// less.
static void study_provoke(study_run *run, int t, const int *first_layer)
{
    const int64_t heavy = run->family == STUDY_ADVERSARY ? 2000000 : 1300000;
    int64_t back[STUDY_LAYERS];
    for (int layer = 0; layer < STUDY_LAYERS; layer++) {
        const bool is_front = layer < STUDY_LAYERS / 2;
        run->forward_ns[t][layer] = is_front ? heavy : 1000000;
        back[layer] = is_front ? 1000000 : heavy;
    }
    if (study_iteration_ns(back, first_layer) >
        study_iteration_ns(run->forward_ns[t], first_layer)) {
        memcpy(run->forward_ns[t], back, sizeof back);
    }
    run->changed[t] = t > 0 && memcmp(run->forward_ns[t], run->forward_ns[t - 1], sizeof back) != 0;
}

typedef struct study_outcome {
    int64_t total_ns;
    int64_t migration_ns;
    int move_count;
    int last_move; // iteration; -1: none
} study_outcome;

/// Plays a run under a policy; an adversary writes the loads meanwhile.
static study_outcome study_play(study_run *run, const char *policy)
{
    bal_controller_options options = {.balancer = bal_balancer_find("partition"),
                                      .weight = BAL_WEIGHT_TIME,
                                      .announces_changes = true,
                                      .change_ratio = 0.25,
                                      .machine = study_machine(),
                                      .schedule = "zb-h2",
                                      .microbatch_count = STUDY_MICROBATCHES,
                                      .layer_count = STUDY_LAYERS};
    bal_controller *controller = NULL;
    arena *own = arena_create(1 << 16);
    bal_decision decision;
    study_outcome outcome = {.last_move = -1};
    bal_layer_costs layers = study_costs(run, 0);
    bool failed = bal_policy_parse(policy, &options.policy, NULL) != STATUS_OK ||
                  bal_controller_create(&options, own, &controller, NULL) != STATUS_OK ||
                  bal_controller_start(controller, &layers, &decision, NULL) != STATUS_OK;
    for (int t = 0; t < run->iteration_count && !failed; t++) {
        if (run->family >= STUDY_OBLIVIOUS_COUNT) {
            study_provoke(run, t, decision.plan.first_layer);
        }
        layers = study_costs(run, t);
        const int64_t ns = study_iteration_ns(run->forward_ns[t], decision.plan.first_layer);
        const bal_profile profile = {.iteration = t, .layers = &layers, .changed = run->changed[t]};
        failed = bal_controller_observe(controller, &profile, &decision, NULL) != STATUS_OK;
        outcome.total_ns += ns + decision.migration_ns;
        outcome.migration_ns += decision.migration_ns;
        if (decision.action == BAL_ACTION_KEEP) continue;
        outcome.move_count++;
        outcome.last_move = t;
    }
    assert(!failed);
    arena_destroy(own);
    return outcome;
}

/// Sum over the iterations of what the loads would take under the best plan for each.
static inline int64_t study_followed_ns(const study_run *run)
{
    int64_t sum = 0;
    arena *memory = arena_create(1 << 16);
    for (int t = 0; t < run->iteration_count; t++) {
        const bal_problem problem = {.layers = study_costs(run, t),
                                     .stage_count = STUDY_RANKS,
                                     .microbatch_count = STUDY_MICROBATCHES};
        bal_answer answer;
        arena_reset(memory);
        const status asked =
            bal_balance(bal_balancer_find("partition"), &problem, memory, &answer, NULL);
        assert(asked == STATUS_OK);
        (void)asked;
        sum += study_iteration_ns(run->forward_ns[t], answer.first_layer);
    }
    arena_destroy(memory);
    return sum;
}

enum { STUDY_PLANS_MAX = 128 };

typedef struct study_plans {
    int count;
    int first[STUDY_PLANS_MAX][STUDY_RANKS + 1];
} study_plans;

/// Adds the best plan for the mean loads of iterations [begin, end).
static void study_add_plan(study_plans *plans, const study_run *run, int begin, int end,
                           arena *memory)
{
    if (begin >= end || plans->count == STUDY_PLANS_MAX) return;
    int64_t mean[STUDY_LAYERS] = {0};
    for (int t = begin; t < end; t++) {
        for (int layer = 0; layer < STUDY_LAYERS; layer++) {
            mean[layer] += run->forward_ns[t][layer] / (end - begin);
        }
    }
    const bal_problem problem = {
        .layers = {.layer_count = STUDY_LAYERS, .microbatch_count = 1, .forward_ns = mean},
        .stage_count = STUDY_RANKS,
        .microbatch_count = STUDY_MICROBATCHES};
    bal_answer answer;
    arena_reset(memory);
    const status asked =
        bal_balance(bal_balancer_find("partition"), &problem, memory, &answer, NULL);
    assert(asked == STATUS_OK);
    (void)asked;
    for (int plan = 0; plan < plans->count; plan++) {
        if (memcmp(plans->first[plan], answer.first_layer, sizeof plans->first[plan]) == 0) return;
    }
    memcpy(plans->first[plans->count++], answer.first_layer, sizeof plans->first[0]);
}

static int64_t study_move_ns(const study_run *run, const int *from, const int *to, arena *memory)
{
    const bal_layer_costs layers = study_costs(run, 0);
    const bal_machine machine = study_machine();
    const bal_placed_partition before = {
        .first_layer = from, .rank_count = STUDY_RANKS, .chunk_count = 1};
    const bal_placed_partition after = {
        .first_layer = to, .rank_count = STUDY_RANKS, .chunk_count = 1};
    bal_migration migration = {0};
    arena_reset(memory);
    const status compared =
        bal_migration_between(&before, &after, &layers, &machine, memory, &migration, NULL);
    assert(compared == STATUS_OK);
    (void)compared;
    return migration.time_ns;
}

/// The least that a run could have taken with plans that are best for its whole, its halves, its
/// quarters, ... and for single iterations, starting from the plan of the start: a dynamic program
/// over (iteration, plan). Other plans could do better still.
static int64_t study_offline_ns(const study_run *run)
{
    static study_plans plans;
    static int64_t move_ns[STUDY_PLANS_MAX][STUDY_PLANS_MAX];
    int64_t least[STUDY_PLANS_MAX] = {0};
    int64_t next[STUDY_PLANS_MAX] = {0};
    arena *memory = arena_create(1 << 16);
    const int count = run->iteration_count;
    plans.count = 0;
    study_add_plan(&plans, run, 0, 1, memory);
    for (int parts = 1; parts <= 32; parts *= 2) {
        for (int part = 0; part < parts; part++) {
            study_add_plan(&plans, run, count * part / parts, count * (part + 1) / parts, memory);
        }
    }
    for (int sample = 0; sample < 46; sample++) {
        const int t = count * sample / 46;
        study_add_plan(&plans, run, t, t + 1, memory);
    }
    for (int from = 0; from < plans.count; from++) {
        for (int to = 0; to < plans.count; to++) {
            move_ns[from][to] = study_move_ns(run, plans.first[from], plans.first[to], memory);
        }
        least[from] = from == 0 ? 0 : INT64_MAX / 4;
    }
    for (int t = 0; t < count; t++) {
        for (int plan = 0; plan < plans.count; plan++) {
            least[plan] += study_iteration_ns(run->forward_ns[t], plans.first[plan]);
        }
        for (int to = 0; to < plans.count; to++) {
            next[to] = least[to];
            for (int from = 0; from < plans.count; from++) {
                const int64_t ns = least[from] + move_ns[from][to];
                if (ns < next[to]) next[to] = ns;
            }
        }
        memcpy(least, next, sizeof least);
    }
    int64_t best = least[0];
    for (int plan = 1; plan < plans.count; plan++) {
        if (least[plan] < best) best = least[plan];
    }
    arena_destroy(memory);
    return best;
}
