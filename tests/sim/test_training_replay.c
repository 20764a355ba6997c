/// The replay of a run: what is charged, when a decision takes effect, and what is skipped. The
/// source is a chain of unit layers whose load moves at a known iteration.
#include "sim/training_replay.h"
#include "tests/assert_close.h"
#include "tests/test_memory.h"

#include <string.h>

enum { LAYERS = 8 };

/// Loads of iteration >= change_at are those of `after`.
typedef struct step_source {
    bal_cost_source source; // its context is set where it is given away
    int change_at;
    int asked;
    int64_t before[LAYERS];
    int64_t after[LAYERS];
    int64_t zero[LAYERS];
    int64_t state_bytes[LAYERS];
    int64_t activation_bytes[2][LAYERS]; // before and after the change
    int64_t reduction_ns[LAYERS];
    bool was_after;
    bool has_full_backwards;
} step_source;

static status step_costs_at(void *context, int iteration, bal_layer_costs *costs, bool *changed,
                            error_message *err)
{
    (void)err;
    step_source *source = context;
    const bool is_after = iteration >= source->change_at;
    const int64_t *forward = is_after ? source->after : source->before;
    *changed = source->asked++ == 0 || is_after != source->was_after;
    source->was_after = is_after;
    *costs = (bal_layer_costs){.layer_count = LAYERS,
                               .microbatch_count = 1,
                               .has_split = !source->has_full_backwards,
                               .forward_ns = forward,
                               .backward_input_ns = source->zero,
                               .backward_weight_ns = source->zero,
                               .parameters = source->state_bytes,
                               .state_bytes = source->state_bytes,
                               .activation_bytes = source->activation_bytes[is_after],
                               .reduction_ns = source->reduction_ns};
    return STATUS_OK;
}

/// Layers of 1000 ns; from the change on the first four cost nothing but 1 ns.
static step_source moving_load(void)
{
    step_source source = {.change_at = 5};
    for (int layer = 0; layer < LAYERS; layer++) {
        source.before[layer] = 1000;
        source.after[layer] = layer < LAYERS / 2 ? 1 : 1000;
        source.state_bytes[layer] = 1000;
    }
    return source;
}

static bal_training training_with(step_source *source, const char *balancer, bal_policy policy)
{
    source->source = (bal_cost_source){
        .context = source, .layer_count = LAYERS, .iteration_count = 10, .costs_at = step_costs_at};
    return (bal_training){
        .sources = &source->source,
        .source_count = 1,
        .data_parallel = 1,
        .machine = {.rank_count = 2,
                    .ranks_per_node = 2,
                    .intra_node = {.latency_ns = 10, .bytes_per_s = 1000000000}},
        .iteration_count = 10,
        .microbatch_count = 4,
        .schedule = "gpipe",
        .change_ratio = 0.25,
        .balancer = bal_balancer_find(balancer),
        .policy = policy,
    };
}

/// Keeps what the sink is told.
typedef struct seen {
    int count;
    int64_t iteration_ns[10];
    int64_t makespan_ns[10];
    bool rebalanced[10];
    int first_of_second[10];
    int timelines;
} seen;

static status keep(void *context, const bal_training_iteration *iteration, error_message *err)
{
    (void)err;
    seen *all = context;
    assert_int_equal(iteration->iteration, all->count);
    all->iteration_ns[all->count] = iteration->iteration_ns;
    all->makespan_ns[all->count] = iteration->metrics.makespan_ns;
    all->rebalanced[all->count] = iteration->rebalanced;
    all->first_of_second[all->count] = iteration->first_layer[1];
    if (iteration->timeline != NULL) {
        all->timelines++;
        assert_int_equal(bal_metrics_of(iteration->timeline).makespan_ns,
                         iteration->metrics.makespan_ns);
    }
    all->count++;
    return STATUS_OK;
}

static bool wants_seven(void *context, int iteration)
{
    (void)context;
    return iteration == 7;
}

static void a_change_is_profiled_once_and_the_new_plan_starts_after_it(void **state)
{
    arena *memory = *state;
    step_source source = moving_load();
    seen all = {0};
    bal_training training =
        training_with(&source, "partition", (bal_policy){.kind = BAL_POLICY_ON_CHANGE});
    training.decision_ns = 7;
    training.sink = (bal_record_sink){&all, wants_seven, keep};
    bal_training_result result;
    error_message err = {0};

    const status played = sim_training_replay(&training, memory, &result, &err);

    assert_string_equal(err.message, "");
    assert_ok(played);
    assert_int_equal(all.count, 10);
    assert_int_equal(all.timelines, 1);
    for (int iteration = 0; iteration < 10; iteration++) {
        assert_int_equal(all.rebalanced[iteration], iteration == 5);
        // Before: 4 and 4 layers. After: layers 0..5 (2004 ns) and 6..7 (2000 ns).
        assert_int_equal(all.first_of_second[iteration], iteration <= 5 ? 4 : 6);
    }
    // GPipe with F only, 2 stages of 4000 ns, 4 microbatches, messages of latency 10 ns:
    // the last stage ends at 4000 + 10 + 4 * 4000; its backwards take no time, stage 0 gets the
    // last of them 10 ns later.
    assert_int_equal(all.makespan_ns[0], 20020);
    assert_int_equal(all.iteration_ns[0], 20020);
    assert_int_equal(all.makespan_ns[5], 4 + 10 + 4 * 4000 + 10);
    // Two layers of 1000 bytes leave rank 1: it pays 2 x (10 + 1000) ns or more, and the decision.
    assert_true(all.iteration_ns[5] >= all.makespan_ns[5] + 7 + 2000);
    assert_int_equal(all.iteration_ns[6], all.makespan_ns[6]);
    assert_true(all.makespan_ns[6] < all.makespan_ns[5]);
    assert_int_equal(result.rebalance_count, 1);
    assert_int_equal(result.change_count, 1);
    assert_int_equal(result.moved_layer_count, 2);
    assert_int_equal(result.moved_bytes, 2000);
    assert_int_equal(result.decision_ns, 7);
    assert_int_equal(result.simulated_count, 3); // before, after, after under the new plan
}

static void the_sum_of_the_iterations_is_the_total(void **state)
{
    arena *memory = *state;
    step_source source = moving_load();
    seen all = {0};
    bal_training training =
        training_with(&source, "partition", (bal_policy){.kind = BAL_POLICY_EVERY, .period = 2});
    training.data_parallel = 4;
    for (int layer = 0; layer < LAYERS; layer++) {
        source.reduction_ns[layer] = 3006;
    }
    training.optimizer_step_ns = 11;
    training.decision_ns = 3;
    training.sink = (bal_record_sink){&all, NULL, keep};
    bal_training_result result;

    assert_ok(sim_training_replay(&training, memory, &result, NULL));

    int64_t total = 0;
    for (int iteration = 0; iteration < 10; iteration++) {
        total += all.iteration_ns[iteration];
    }
    assert_int_equal(result.total_ns, total);
    // 4 layers on the largest rank until the change at iteration 5, which is acted on after it;
    // then 6.
    const int64_t reduction_ns = 6 * (4 * 3006) + 4 * (6 * 3006);
    assert_int_equal(result.reduction_ns, reduction_ns);
    assert_int_equal(result.total_ns, result.pipeline_ns + reduction_ns + 10 * 11 +
                                          result.decision_ns + result.migration_ns);
    assert_int_equal(result.decision_count, 5);
    assert_int_equal(result.decision_ns, 15);
}

static void without_policy_the_plan_of_the_start_stays(void **state)
{
    arena *memory = *state;
    step_source source = moving_load();
    const bal_training training = training_with(&source, "tuned", (bal_policy){0});
    bal_training_result result;

    assert_ok(sim_training_replay(&training, memory, &result, NULL));

    assert_int_equal(result.rebalance_count, 0);
    assert_int_equal(result.decision_count, 0);
    assert_memory_equal(result.start_first_layer, result.final_first_layer, 3 * sizeof(int));
    assert_close(result.first.imbalance_ratio, 1.0, 1e-12);
    assert_close(result.last.imbalance_ratio, 4000.0 / ((4000.0 + 4.0) / 2), 1e-12);
}

static void peaks_follow_the_bytes_of_the_layers_and_the_plan(void **state)
{
    arena *memory = *state;
    step_source source = moving_load();
    for (int layer = 0; layer < LAYERS; layer++) {
        source.activation_bytes[0][layer] = 10;
        source.activation_bytes[1][layer] = 30;
    }
    bal_training training = training_with(&source, "tuned", (bal_policy){0});
    bal_training_result result;

    // GPipe holds the activations of all 4 microbatches. 4 layers on each rank throughout.
    training.iteration_count = 5;
    assert_ok(sim_training_replay(&training, memory, &result, NULL));
    assert_int_equal(result.peak_memory_bytes[0], 4 * 1000 + 4 * 4 * 10);
    training.iteration_count = 10;
    assert_ok(sim_training_replay(&training, memory, &result, NULL));
    assert_int_equal(result.peak_memory_bytes[0], 4 * 1000 + 4 * 4 * 30);

    // 6 layers on rank 0 from iteration 6 on, with bytes that have not changed since iteration 5.
    training.balancer = bal_balancer_find("partition");
    training.policy = (bal_policy){.kind = BAL_POLICY_ON_CHANGE};
    assert_ok(sim_training_replay(&training, memory, &result, NULL));
    assert_int_equal(result.peak_memory_bytes[0], 6 * 1000 + 4 * 6 * 30);
    assert_int_equal(result.peak_memory_bytes[1], 4 * 1000 + 4 * 4 * 30);
}

static void memory_that_nothing_fits_is_infeasible(void **state)
{
    arena *memory = *state;
    step_source source = moving_load();
    bal_training training = training_with(&source, "partition", (bal_policy){0});
    training.machine.rank_memory_bytes = 3999; // 8000 bytes of state on two ranks
    bal_training_result result = {.total_ns = -7};
    error_message err = {0};

    assert_int_equal(sim_training_replay(&training, memory, &result, &err), STATUS_INFEASIBLE);

    assert_true(strlen(err.message) > 0);
    assert_int_equal(result.total_ns, -7);
}

static void full_backwards_do_not_play_a_zero_bubble_schedule(void **state)
{
    arena *memory = *state;
    step_source source = moving_load();
    source.has_full_backwards = true;
    bal_training training = training_with(&source, "even", (bal_policy){0});
    bal_training_result result;
    error_message err = {0};

    assert_ok(sim_training_replay(&training, memory, &result, &err));
    training.schedule = "zb-h1";
    source.asked = 0;
    assert_int_equal(sim_training_replay(&training, memory, &result, &err), STATUS_INVALID);
    assert_string_equal(err.message,
                        "schedule zb-h1 needs the backward split into B and W, and the costs hold "
                        "only full backwards; import them with --backward-split or choose gpipe, "
                        "1f1b or interleaved-1f1b");
}

static void wrong_setups_are_refused(void **state)
{
    arena *memory = *state;
    step_source source = moving_load();
    bal_training training = training_with(&source, "even", (bal_policy){0});
    bal_training_result result;
    error_message err = {0};

    training.schedule = "zb-h7";
    assert_int_equal(sim_training_replay(&training, memory, &result, &err), STATUS_INVALID);
    assert_string_equal(err.message, "unknown schedule 'zb-h7'");
    training.schedule = "gpipe";
    training.iteration_count = 0;
    assert_int_equal(sim_training_replay(&training, memory, &result, &err), STATUS_INVALID);
    assert_string_equal(err.message, "iteration_count 0 is below 1");
}

static void sums_that_do_not_fit_are_refused(void **state)
{
    arena *memory = *state;
    step_source source = moving_load();
    bal_training training = training_with(&source, "even", (bal_policy){0});
    bal_training_result result;
    error_message err = {0};

    source.state_bytes[0] = INT64_MAX / 4;
    assert_int_equal(sim_training_replay(&training, memory, &result, &err), STATUS_INVALID);
    assert_string_equal(err.message,
                        "iteration 0: the state_bytes of all layers do not fit 64 bits");
    source = moving_load();
    training = training_with(&source, "even", (bal_policy){0});
    source.change_at = 10;
    for (int layer = 0; layer < LAYERS; layer++) {
        source.before[layer] = INT64_MAX / 4 / (LAYERS * 4 + 1); // 4 microbatches: one play fits
    }
    assert_int_equal(sim_training_replay(&training, memory, &result, &err), STATUS_INVALID);
    assert_string_equal(err.message, "iteration 3: the sums over the run do not fit 64 bits");
}

static void owners_without_stages_are_followed_in_loads_only(void **state)
{
    arena *memory = *state;
    step_source source = moving_load();
    const bal_training training =
        training_with(&source, "diffusion-published", (bal_policy){.kind = BAL_POLICY_ON_CHANGE});
    bal_training_result result;

    assert_ok(sim_training_replay(&training, memory, &result, NULL));

    assert_false(result.executable);
    assert_null(result.final_first_layer);
    assert_int_equal(result.total_ns, 0);
    assert_close(result.first.imbalance_ratio, 1.0, 1e-12);
    assert_true(result.last.imbalance_ratio < 1.1); // two of the heavy layers have moved
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_is_profiled_once_and_the_new_plan_starts_after_it),
        cmocka_unit_test(the_sum_of_the_iterations_is_the_total),
        cmocka_unit_test(without_policy_the_plan_of_the_start_stays),
        cmocka_unit_test(peaks_follow_the_bytes_of_the_layers_and_the_plan),
        cmocka_unit_test(memory_that_nothing_fits_is_infeasible),
        cmocka_unit_test(full_backwards_do_not_play_a_zero_bubble_schedule),
        cmocka_unit_test(wrong_setups_are_refused),
        cmocka_unit_test(sums_that_do_not_fit_are_refused),
        cmocka_unit_test(owners_without_stages_are_followed_in_loads_only),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
