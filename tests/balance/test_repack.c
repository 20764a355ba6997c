/// Re-packing: how many ranks, what becomes of the others, and what is refused.
#include "balance/repack.h"
#include "tests/assert_close.h"

#include <string.h>

static void names_are_parsed_and_others_refused(void **state)
{
    (void)state;
    error_message err = {0};
    for (int kind = 0; kind < BAL_REPACK_COUNT; kind++) {
        bal_repack_kind parsed = BAL_REPACK_COUNT;
        assert_int_equal(bal_repack_parse(bal_repack_names[kind], &parsed, &err), STATUS_OK);
        assert_int_equal(parsed, kind);
    }
    for (int use = 0; use < BAL_RELEASED_COUNT; use++) {
        bal_released_use parsed = BAL_RELEASED_COUNT;
        assert_int_equal(bal_released_parse(bal_released_names[use], &parsed, &err), STATUS_OK);
        assert_int_equal(parsed, use);
    }

    bal_repack_kind kind = BAL_REPACK_COUNT;
    assert_int_equal(bal_repack_parse("troughput", &kind, &err), STATUS_INVALID);

    assert_string_equal(err.message,
                        "unknown re-packing 'troughput'; known: none, throughput, gpu-time, "
                        "published, coded, first-fit, best-fit, round-robin, halving; did you mean "
                        "'throughput'?");
    assert_int_equal(kind, BAL_REPACK_COUNT);
}

static void rank_counts_that_no_layout_allows_are_named(void **state)
{
    (void)state;
    const bal_machine machine = {.rank_count = 24, .ranks_per_node = 4};
    const bal_machine odd = {.rank_count = 22, .ranks_per_node = 4};
    error_message err = {0};
    bal_repack_options options = bal_repack_options_default();
    options.rank_unit = 4;
    assert_int_equal(bal_repack_options_check(&options, &machine, &err), STATUS_OK);

    options.rank_count_min = 6;
    assert_int_equal(bal_repack_options_check(&options, &machine, &err), STATUS_INVALID);
    assert_string_equal(
        err.message,
        "rank_count_min 6: no layout of whole units of 4 ranks has so many; 4 and 8 do");
    options.rank_count_min = 1;
    assert_int_equal(bal_repack_options_check(&options, &odd, &err), STATUS_INVALID);
    assert_string_equal(err.message, "the machine's rank_count 22: no layout of whole units of 4 "
                                     "ranks has so many; 20 does");
    options.tolerance_ratio = -0.5;
    assert_int_equal(bal_repack_options_check(&options, &machine, &err), STATUS_INVALID);
    assert_string_equal(err.message, "tolerance_ratio -0.5 is outside [0, 1000]");
}

static void idle_gpus_are_counted_by_rank_and_by_whole_node(void **state)
{
    (void)state;
    // Replica 0 is on GPUs 0 to 5, replica 1 on 6 to 11; nodes are 0 to 3, 4 to 7, 8 to 11.
    const bal_gpu_layout layout = {
        .rank_count = 6, .replica_count = 2, .gpus_per_rank = 1, .gpus_per_node = 4};
    arena *memory = arena_create(4096);
    bal_gpu_account account = {0};
    error_message err = {0};

    assert_int_equal(bal_gpu_account_of(&layout, NULL, 4, memory, &account, &err), STATUS_OK);
    assert_int_equal(account.gpu_count, 12);
    assert_int_equal(account.idle_gpu_count, 4); // 4, 5, 10, 11
    assert_int_equal(account.released_rank_count, 4);
    assert_int_equal(account.released_node_count, 0);
    assert_int_equal(bal_gpu_account_of(&layout, NULL, 2, memory, &account, &err), STATUS_OK);
    assert_int_equal(account.idle_gpu_count, 8);
    assert_int_equal(account.released_node_count, 1); // 8 to 11
    assert_int_equal(bal_gpu_account_of(&layout, (const int[]){4, 5}, 2, memory, &account, &err),
                     STATUS_OK);
    assert_int_equal(account.released_node_count, 1); // 0 to 3
    assert_int_equal(bal_gpu_account_of(&layout, NULL, 0, memory, &account, &err), STATUS_OK);
    assert_int_equal(account.released_node_count, 3);

    assert_int_equal(bal_gpu_account_of(&layout, (const int[]){6}, 1, memory, &account, &err),
                     STATUS_INVALID);
    assert_string_equal(err.message, "active rank 6 is outside [0, 6)");
    assert_int_equal(bal_gpu_account_of(&layout, NULL, 7, memory, &account, &err), STATUS_INVALID);
    arena_destroy(memory);
}

static void released_ranks_make_further_replicas_of_the_same_batch(void **state)
{
    (void)state;
    bal_replication made = {0};
    error_message err = {0};

    // 30 replicas of 24 keep 16 ranks: 240 released make 15 more; 30 * 96 = 45 * 64.
    assert_int_equal(bal_replication_of(24, 16, 30, 96, &made, &err), STATUS_OK);
    assert_int_equal(made.further_replica_count, 15);
    assert_int_equal(made.idle_rank_count, 0);
    assert_int_equal(made.microbatch_count, 64);
    assert_int_equal(made.larger_replica_count, 0);
    // 3 replicas of 8 keep 5: 9 released make 1 more, 4 are left; 3 * 10 = 4 * 7 + 2.
    assert_int_equal(bal_replication_of(8, 5, 3, 10, &made, &err), STATUS_OK);
    assert_int_equal(made.further_replica_count, 1);
    assert_int_equal(made.idle_rank_count, 4);
    assert_int_equal(made.microbatch_count, 7);
    assert_int_equal(made.larger_replica_count, 2);

    assert_int_equal(bal_replication_of(8, 1, 1, 4, &made, &err), STATUS_INVALID);
    assert_string_equal(err.message,
                        "8 replicas cannot share the 4 microbatches of the global batch");
    assert_int_equal(bal_replication_of(8, 9, 1, 4, &made, &err), STATUS_INVALID);
    assert_string_equal(err.message, "kept_rank_count 9 is outside [1, 8]");
}

/// M times the largest load, and a message per cut: a player with a closed form.
static status play(void *context, const bal_layer_costs *layers, const bal_placed_partition *plan,
                   int microbatch_count, int64_t *iteration_ns, error_message *err)
{
    (void)context;
    (void)err;
    int64_t largest = 0;
    for (int stage = 0; stage < bal_placed_stage_count(plan); stage++) {
        int64_t load = 0;
        for (int layer = plan->first_layer[stage]; layer < plan->first_layer[stage + 1]; layer++) {
            load += layers->forward_ns[layer];
        }
        if (load > largest) largest = load;
    }
    *iteration_ns = largest * microbatch_count;
    return STATUS_OK;
}

static status play_eight(void *context, const bal_layer_costs *layers,
                         const bal_placed_partition *plan, int64_t *iteration_ns,
                         error_message *err)
{
    return play(context, layers, plan, 8, iteration_ns, err);
}

static const bal_evaluator evaluator = {.iteration_ns = play_eight, .iteration_ns_of = play};

static void equal_layers_leave_the_ranks_beyond_a_plateau(void **state)
{
    (void)state;
    int64_t layer_ns[32];
    int cuts[32];
    for (int layer = 0; layer < 32; layer++) {
        layer_ns[layer] = 1000;
    }
    for (int place = 0; place <= 31; place++) {
        cuts[place] = place < 31 ? place : 32;
    }
    const bal_problem problem = {
        .layers = {.layer_count = 32, .microbatch_count = 1, .forward_ns = layer_ns},
        .microbatch_count = 8,
        .evaluator = &evaluator};
    const bal_machine machine = {.rank_count = 31, .ranks_per_node = 1};
    const bal_placed_partition before = {.first_layer = cuts, .rank_count = 31, .chunk_count = 1};
    const bal_repack_question question = {.problem = &problem,
                                          .machine = &machine,
                                          .schedule = "1f1b",
                                          .balancer = bal_balancer_find("partition"),
                                          .before = &before};
    bal_repack_options options = bal_repack_options_default();
    options.kind = BAL_REPACK_THROUGHPUT;
    options.tolerance_ratio = 0;
    arena *memory = arena_create(1 << 16);
    bal_repack_choice choice;
    error_message err = {0};

    assert_int_equal(bal_repack_choose(&question, &options, memory, &choice, &err), STATUS_OK);

    assert_int_equal(choice.rank_count, 16); // 16 to 31 ranks all need two layers on some rank
    assert_int_equal(choice.iteration_ns, 16000);
    assert_int_equal(choice.reference_ns, 16000);
    assert_int_equal(choice.problem.stage_count, 16);
    assert_int_equal(choice.answer.first_layer[1], 2);
    options.tolerance_ratio = 0.5;
    assert_int_equal(bal_repack_choose(&question, &options, memory, &choice, &err), STATUS_OK);
    assert_int_equal(choice.rank_count, 11); // 11 to 15 need three
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_parsed_and_others_refused),
        cmocka_unit_test(rank_counts_that_no_layout_allows_are_named),
        cmocka_unit_test(idle_gpus_are_counted_by_rank_and_by_whole_node),
        cmocka_unit_test(released_ranks_make_further_replicas_of_the_same_batch),
        cmocka_unit_test(equal_layers_leave_the_ranks_beyond_a_plateau),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
