/// Which plan to move to: in order of the ranks, equal to an exhaustive search over cuts and ranks;
/// relabelled, no worse than that and no better than a search over every order of the ranks.
#include "balance/migration/migration_plan.h"

#include "balance/partition/balancer.h"
#include "balance/partition/partition.h"
#include "balance/rank_peaks.h"
#include "base/rng.h"
#include "tests/assert_close.h"
#include "tests/test_memory.h"

#include <stdio.h>
#include <string.h>

enum { LAYERS = 8, RANKS = 5 };

/// One small question with all its arrays inside.
typedef struct instance {
    bal_problem problem;
    bal_machine machine;
    bal_placed_partition before;
    bal_migration_options options;
    int unit;
    int64_t time_ns[LAYERS];
    int64_t state_bytes[LAYERS];
    int64_t activation_bytes[LAYERS];
    int64_t cap[RANKS];
    int64_t inflight[RANKS];
    bool is_available[RANKS];
    int before_cuts[RANKS + 1];
    int before_ranks[RANKS];
    int owner[LAYERS];
} instance;

static int pick(rng *random, int low, int high)
{
    return (int)rng_between(random, low, high);
}

static void shuffle(rng *random, int *values, int count)
{
    for (int last = count - 1; last > 0; last--) {
        const int other = pick(random, 0, last);
        const int swap = values[last];
        values[last] = values[other];
        values[other] = swap;
    }
}

static void random_cuts(rng *random, int layers, int stages, int *cuts)
{
    cuts[0] = 0;
    for (int stage = 1; stage < stages; stage++) {
        cuts[stage] = pick(random, cuts[stage - 1] + 1, layers - (stages - stage));
    }
    cuts[stages] = layers;
}

static void fill(instance *at, uint64_t seed)
{
    rng random = rng_init(seed, 3);
    memset(at, 0, sizeof *at);
    at->unit = pick(&random, 0, 3) == 0 ? 2 : 1;
    const int ranks = at->unit == 2 ? 4 : pick(&random, 1, RANKS);
    const int layers = pick(&random, ranks, LAYERS);
    const int places = at->unit == 2 ? 2 * pick(&random, 1, 2) : pick(&random, 1, ranks);
    const int places_before = pick(&random, 1, ranks);
    at->machine = (bal_machine){.rank_count = ranks, .ranks_per_node = at->unit};
    for (int layer = 0; layer < layers; layer++) {
        at->time_ns[layer] = pick(&random, 0, 9);
        at->state_bytes[layer] = pick(&random, 0, 9);
        at->activation_bytes[layer] = pick(&random, 0, 3);
    }
    int all[RANKS];
    for (int rank = 0; rank < ranks; rank++) {
        all[rank] = rank;
        at->cap[rank] = pick(&random, 20, 90);
        at->inflight[rank] = pick(&random, 1, 3);
        at->is_available[rank] = pick(&random, 0, 9) > 0;
    }
    shuffle(&random, all, ranks);
    memcpy(at->before_ranks, all, sizeof all);
    random_cuts(&random, layers, places_before, at->before_cuts);
    at->before = (bal_placed_partition){.first_layer = at->before_cuts,
                                        .rank_count = places_before,
                                        .chunk_count = 1,
                                        .machine_rank = at->before_ranks};
    bal_placed_owners(&at->before, at->owner);
    at->problem = (bal_problem){
        .layers = {.layer_count = layers,
                   .microbatch_count = 1,
                   .embedding = pick(&random, 0, 3) == 0,
                   .head = pick(&random, 0, 3) == 0,
                   .forward_ns = at->time_ns,
                   .state_bytes = at->state_bytes,
                   .activation_bytes = at->activation_bytes},
        .stage_count = places,
        .allow_empty_stages = pick(&random, 0, 2) == 0,
        .stage_memory_bytes = pick(&random, 0, 1) == 0 ? at->cap : NULL,
        .stage_inflight = at->inflight,
        .microbatch_count = 1,
    };
    at->options.slack_ratio = pick(&random, 0, 3) * 0.25;
}

static bal_migration_question question_of(const instance *at, const int *first_layer)
{
    return (bal_migration_question){
        .problem = &at->problem,
        .first_layer = first_layer,
        .before = &at->before,
        .machine = &at->machine,
        .is_available = at->is_available,
        .rank_unit = at->unit,
    };
}

/// Load of a stage, from the words of the headers alone.
static int64_t plain_load(const instance *at, int begin, int end)
{
    int64_t sum = 0;
    for (int layer = begin; layer < end; layer++) {
        sum += at->time_ns[layer];
    }
    return sum;
}

static bool plain_allowed(const instance *at, const bal_chain *chain, const int *cuts,
                          const int *ranks, int64_t load_max)
{
    if (bal_chain_check(chain, cuts, NULL) != STATUS_OK) return false;
    for (int place = 0; place < at->problem.stage_count; place++) {
        if (plain_load(at, cuts[place], cuts[place + 1]) > load_max) return false;
        if (!at->is_available[ranks[place]]) return false;
        int mates = 0;
        for (int other = 0; other < at->problem.stage_count; other++) {
            mates += ranks[other] / at->unit == ranks[place] / at->unit;
        }
        if (mates != at->unit) return false;
    }
    return true;
}

static int64_t plain_moved(const instance *at, const int *cuts, const int *ranks)
{
    int64_t bytes = 0;
    for (int place = 0; place < at->problem.stage_count; place++) {
        for (int layer = cuts[place]; layer < cuts[place + 1]; layer++) {
            if (at->owner[layer] != ranks[place]) bytes += at->state_bytes[layer];
        }
    }
    return bytes;
}

/// Steps digits through every sequence of `count` numbers in [0, base). False after the last.
static bool next_digits(int *digits, int count, int base)
{
    int index = count - 1;
    while (index >= 0 && ++digits[index] == base) {
        digits[index--] = 0;
    }
    return index >= 0;
}

static bool is_rising(const int *values, int count, bool strictly)
{
    for (int index = 1; index < count; index++) {
        if (values[index] < values[index - 1]) return false;
        if (strictly && values[index] == values[index - 1]) return false;
    }
    return true;
}

static bool all_differ(const int *values, int count)
{
    for (int index = 0; index < count; index++) {
        for (int other = 0; other < index; other++) {
            if (values[index] == values[other]) return false;
        }
    }
    return true;
}

/// The fewest bytes over all cuts (or the given ones) and all ranks, in order or in any; -1: none.
static int64_t fewest(const instance *at, const bal_chain *chain, const int *given, bool in_order,
                      int64_t load_max)
{
    const int places = at->problem.stage_count;
    const int layers = at->problem.layers.layer_count;
    int64_t best = -1;
    int ranks[RANKS] = {0};
    do {
        if (in_order ? !is_rising(ranks, places, true) : !all_differ(ranks, places)) continue;
        int cuts[RANKS + 1] = {0};
        do {
            if (given != NULL) memcpy(cuts, given, sizeof cuts);
            cuts[places] = layers;
            if (!is_rising(cuts, places + 1, false)) continue;
            if (!plain_allowed(at, chain, cuts, ranks, load_max)) continue;
            const int64_t bytes = plain_moved(at, cuts, ranks);
            if (best < 0 || bytes < best) best = bytes;
        } while (given == NULL && next_digits(cuts + 1, places - 1, layers + 1));
    } while (next_digits(ranks, places, at->machine.rank_count));
    return best;
}

/// What a random question gives beside the searches; false if it has no plan to begin with.
static bool decide(instance *at, arena *memory, bal_chain *chain, bal_answer *answer,
                   int64_t *load_max)
{
    bal_problem *problem = &at->problem;
    if (bal_chain_of(problem, memory, chain, NULL) != STATUS_OK) return false;
    if (bal_balance(bal_balancer_find("partition"), problem, memory, answer, NULL) != STATUS_OK) {
        return false;
    }
    *load_max =
        answer->bottleneck_ns + (int64_t)((double)answer->bottleneck_ns * at->options.slack_ratio);
    return true;
}

static void in_order_it_moves_the_fewest_bytes_of_all_plans_within_the_slack(void **state)
{
    arena *memory = *state;
    int checked = 0;
    int infeasible = 0;
    for (uint64_t seed = 1; seed <= 1500; seed++) {
        instance at;
        bal_chain chain;
        bal_answer answer;
        bal_migration_choice choice;
        error_message err = {0};
        int64_t load_max = 0;
        arena_reset(memory);
        fill(&at, seed);
        if (!decide(&at, memory, &chain, &answer, &load_max)) continue;
        // The ranks that a problem has in mind are always a candidate: here none are.
        int nowhere[RANKS];
        const int *given = at.options.slack_ratio > 0 ? NULL : answer.first_layer;
        for (int place = 0; place < RANKS; place++) {
            nowhere[place] = place;
        }
        at.problem.machine_rank = nowhere;
        const bal_migration_question question = question_of(&at, answer.first_layer);
        const int64_t expected = fewest(&at, &chain, given, true, load_max);

        const status planned = bal_migration_plan(&question, &at.options, memory, &choice, &err);

        if (expected < 0) {
            assert_int_equal(planned, STATUS_INFEASIBLE);
            infeasible++;
            continue;
        }
        if (planned != STATUS_OK || choice.migration.bytes != expected) {
            fail_msg("seed %d: moves %d bytes, the least is %d (%s)", (int)seed,
                     planned == STATUS_OK ? (int)choice.migration.bytes : -1, (int)expected,
                     err.message);
        }
        assert_true(plain_allowed(&at, &chain, choice.plan.first_layer, choice.plan.machine_rank,
                                  load_max));
        assert_true(choice.bottleneck_ns <= load_max);
        assert_int_equal(plain_moved(&at, choice.plan.first_layer, choice.plan.machine_rank),
                         choice.migration.bytes);
        checked++;
    }
    print_message("%d plans, %d without ranks that carry them\n", checked, infeasible);
    assert_true(checked > 500 && infeasible > 5);
}

static void relabelled_it_moves_no_more_and_with_given_cuts_the_fewest(void **state)
{
    arena *memory = *state;
    int checked = 0;
    int best_count = 0;
    for (uint64_t seed = 2001; seed <= 2800; seed++) {
        instance at;
        bal_chain chain;
        bal_answer answer;
        bal_migration_choice choice;
        int64_t load_max = 0;
        arena_reset(memory);
        fill(&at, seed);
        if (!decide(&at, memory, &chain, &answer, &load_max)) continue;
        at.options.relabels = true;
        const int *given = at.options.slack_ratio > 0 ? NULL : answer.first_layer;
        const bal_migration_question question = question_of(&at, answer.first_layer);
        if (bal_migration_plan(&question, &at.options, memory, &choice, NULL) != STATUS_OK) {
            continue;
        }

        const int64_t least = fewest(&at, &chain, given, false, load_max);
        const int64_t in_order = fewest(&at, &chain, given, true, load_max);

        assert_true(plain_allowed(&at, &chain, choice.plan.first_layer, choice.plan.machine_rank,
                                  load_max));
        assert_true(choice.migration.bytes >= least);
        if (at.unit == 1 && given != NULL) assert_int_equal(choice.migration.bytes, least);
        if (is_rising(at.before_ranks, at.before.rank_count, true) && in_order >= 0) {
            assert_true(choice.migration.bytes <= in_order);
        }
        checked++;
        best_count += choice.migration.bytes == least;
    }
    print_message("%d plans, %d with the fewest bytes of all orders\n", checked, best_count);
    assert_true(checked > 300 && best_count * 100 >= checked * 90);
}

/// Eight layers on four ranks of two nodes; transfers take 1 ns per byte inside a node, 10 between.
typedef struct four_ranks {
    bal_problem problem;
    bal_machine machine;
    bal_placed_partition before;
    bal_migration_question question;
    bal_migration_options options;
    int before_cuts[5];
    int before_ranks[4];
    int cuts[5];
    int64_t time_ns[8];
    int64_t state_bytes[8];
    int64_t message_bytes[8];
} four_ranks;

static void fill_four(four_ranks *at, const int *before_cuts, const int *cuts)
{
    *at = (four_ranks){.options = bal_migration_options_default()};
    for (int layer = 0; layer < 8; layer++) {
        at->time_ns[layer] = 100;
        at->state_bytes[layer] = 1000;
        at->message_bytes[layer] = 50;
    }
    memcpy(at->before_cuts, before_cuts, sizeof at->before_cuts);
    memcpy(at->cuts, cuts, sizeof at->cuts);
    for (int place = 0; place < 4; place++) {
        at->before_ranks[place] = place;
    }
    at->machine = (bal_machine){.rank_count = 4,
                                .ranks_per_node = 2,
                                .intra_node = {0, 1000000000},
                                .inter_node = {0, 100000000}};
    at->problem = (bal_problem){.layers = {.layer_count = 8,
                                           .microbatch_count = 1,
                                           .forward_ns = at->time_ns,
                                           .state_bytes = at->state_bytes,
                                           .message_bytes = at->message_bytes},
                                .stage_count = 4,
                                .microbatch_count = 8};
    at->before = (bal_placed_partition){.first_layer = at->before_cuts,
                                        .rank_count = 4,
                                        .chunk_count = 1,
                                        .machine_rank = at->before_ranks};
    at->question = (bal_migration_question){.problem = &at->problem,
                                            .first_layer = at->cuts,
                                            .before = &at->before,
                                            .machine = &at->machine};
    at->options.neighbour_iterations = 0;
}

static const int even_cuts[] = {0, 2, 4, 6, 8};

static void relabelling_keeps_layers_where_a_shift_would_move_them(void **state)
{
    arena *memory = *state;
    four_ranks at;
    bal_migration_choice choice;
    fill_four(&at, (const int[]){0, 4, 6, 7, 8}, (const int[]){0, 2, 4, 6, 8});
    at.before_ranks[0] = 1; // what is first now is on rank 1
    at.before_ranks[1] = 0;

    assert_ok(bal_migration_plan(&at.question, &at.options, memory, &choice, NULL));
    assert_int_equal(choice.plan.machine_rank[0], 0);
    // 0 and 1 from rank 1 to 0, 4 and 5 from 0 to 2, 6 from 2 to 3: 2 and 3 stay on rank 1.
    assert_int_equal(choice.migration.bytes, 5000);
    at.options.relabels = true;
    assert_ok(bal_migration_plan(&at.question, &at.options, memory, &choice, NULL));
    // Now 4 and 5 stay on rank 0, two of the first four on rank 1, 6 or 7 where it is.
    assert_int_equal(choice.migration.bytes, 3000);
    assert_int_equal(choice.migration.time_ns, 21000); // against 22000 in order
}

static void neighbours_on_other_nodes_count_for_as_many_iterations(void **state)
{
    arena *memory = *state;
    four_ranks at;
    bal_migration_choice choice;
    fill_four(&at, even_cuts, even_cuts);
    at.before_ranks[1] = 2; // places 0 to 3 are on ranks 0, 2, 1, 3: every cut is between nodes
    at.before_ranks[2] = 1;
    at.options.relabels = true;

    assert_ok(bal_migration_plan(&at.question, &at.options, memory, &choice, NULL));
    assert_int_equal(choice.migration.bytes, 0);
    assert_int_equal(choice.neighbour_ns, 3 * 2 * 500);
    // In order two of the three cuts are inside nodes: 2 * (50 + 500 + 50) an iteration, against a
    // busiest rank that sends 2 layers and receives 2 at 10000 ns each.
    at.options.neighbour_iterations = 22;
    assert_ok(bal_migration_plan(&at.question, &at.options, memory, &choice, NULL));
    assert_int_equal(choice.migration.bytes, 0);
    at.options.neighbour_iterations = 23;
    assert_ok(bal_migration_plan(&at.question, &at.options, memory, &choice, NULL));
    assert_int_equal(choice.migration.bytes, 4000);
    assert_int_equal(choice.cost_ns, 40000 + 23 * 1200);
}

static void a_small_gain_keeps_the_plan_in_force(void **state)
{
    arena *memory = *state;
    four_ranks at;
    bal_migration_choice choice;
    fill_four(&at, (const int[]){0, 3, 4, 6, 8}, even_cuts); // 300 against 200

    at.options.hysteresis_ratio = 0.33;
    assert_ok(bal_migration_plan(&at.question, &at.options, memory, &choice, NULL));
    assert_int_equal(choice.bottleneck_ns, 200);
    at.options.hysteresis_ratio = 0.34;
    assert_ok(bal_migration_plan(&at.question, &at.options, memory, &choice, NULL));
    assert_int_equal(choice.migration.layer_count, 0);
    assert_int_equal(choice.plan.first_layer[1], 3);
    assert_int_equal(choice.bottleneck_ns, 300);
    // A plan that breaks a cap is not kept.
    at.problem.stage_memory_bytes = (const int64_t[]){2000, 2000, 2000, 2000};
    assert_ok(bal_migration_plan(&at.question, &at.options, memory, &choice, NULL));
}

/// Ten times the length of the first stage beside the largest load: likes plans with a short one.
static status wants_short_first(void *context, const bal_layer_costs *layers,
                                const bal_placed_partition *plan, int64_t *iteration_ns,
                                error_message *err)
{
    (void)layers;
    if (context != NULL) return error_set(err, STATUS_BACKEND, "the player is out");
    *iteration_ns = 100 + 100 * (int64_t)plan->first_layer[1];
    return STATUS_OK;
}

static void cuts_that_the_evaluator_finds_worse_are_not_taken(void **state)
{
    arena *memory = *state;
    four_ranks at;
    bal_migration_choice choice;
    error_message err = {0};
    const bal_evaluator evaluator = {.iteration_ns = wants_short_first};
    const bal_evaluator broken = {.context = &at, .iteration_ns = wants_short_first};
    fill_four(&at, (const int[]){0, 3, 4, 6, 8}, even_cuts);
    at.options.slack_ratio = 0.5; // 300 are within it: nothing needs to move

    assert_ok(bal_migration_plan(&at.question, &at.options, memory, &choice, NULL));
    assert_int_equal(choice.migration.bytes, 0);
    at.problem.evaluator = &evaluator; // 400 against 300
    assert_ok(bal_migration_plan(&at.question, &at.options, memory, &choice, NULL));
    assert_int_equal(choice.migration.bytes, 0); // within half of it, too
    at.options.slack_ratio = 0.5 - 0.01;
    assert_ok(bal_migration_plan(&at.question, &at.options, memory, &choice, NULL));
    assert_int_equal(choice.migration.bytes, 1000);
    at.problem.evaluator = &broken;
    at.options.hysteresis_ratio = 0.1;
    assert_int_equal(bal_migration_plan(&at.question, &at.options, memory, &choice, &err),
                     STATUS_BACKEND);
    assert_string_equal(err.message, "the player is out");
}

static void more_slack_never_moves_more_bytes(void **state)
{
    arena *memory = *state;
    enum { SLACK_COUNT = 5 };
    const double slack_ratio[SLACK_COUNT] = {0, 0.01, 0.03, 0.06, 0.1};
    four_ranks at;
    bal_migration_choice choices[SLACK_COUNT];
    int64_t first = 0;
    int64_t last = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        rng random = rng_init(seed, 9);
        bal_answer answer;
        arena_reset(memory);
        fill_four(&at, even_cuts, even_cuts);
        for (int layer = 0; layer < 8; layer++) {
            at.time_ns[layer] = pick(&random, 40, 160);
        }
        assert_ok(bal_balance(bal_balancer_find("partition"), &at.problem, memory, &answer, NULL));
        at.question.first_layer = answer.first_layer;

        for (int index = 0; index < SLACK_COUNT; index++) {
            at.options.slack_ratio = slack_ratio[index];
            assert_ok(bal_migration_plan(&at.question, &at.options, memory, &choices[index], NULL));
        }

        for (int index = 0; index < SLACK_COUNT; index++) {
            assert_true((double)choices[index].bottleneck_ns <=
                        (double)answer.bottleneck_ns * (1 + slack_ratio[index]));
            if (index > 0) {
                assert_true(choices[index].migration.bytes <= choices[index - 1].migration.bytes);
            }
        }
        first += choices[0].migration.bytes;
        last += choices[SLACK_COUNT - 1].migration.bytes;
    }
    assert_true(last < first);
}

static void chunks_are_moved_with_their_places(void **state)
{
    arena *memory = *state;
    four_ranks at;
    bal_migration_choice choice;
    fill_four(&at, even_cuts, even_cuts);
    // Two ranks of two chunks, V: rank 0 has stages 0 and 3. Stage 1 gives a layer to stage 2 of
    // its own rank, which moves nothing; stage 3 gives one to stage 2.
    at.before.rank_count = 2;
    at.before.chunk_count = 2;
    at.before.placement = BAL_PLACEMENT_V;
    at.problem.chunk_count = 2;
    at.problem.placement = BAL_PLACEMENT_V;
    memcpy(at.cuts, (const int[]){0, 2, 3, 7, 8}, sizeof at.cuts);

    assert_ok(bal_migration_plan(&at.question, &at.options, memory, &choice, NULL));

    assert_int_equal(choice.plan.rank_count, 2);
    assert_int_equal(choice.migration.bytes, 1000);
    assert_int_equal(choice.migration.layer[0], 6);
    // Within twice the largest load nothing needs to move.
    at.options.slack_ratio = 1;
    assert_ok(bal_migration_plan(&at.question, &at.options, memory, &choice, NULL));
    assert_int_equal(choice.migration.bytes, 0);
}

static void fewer_ranks_of_several_chunks_are_those_that_hold_most(void **state)
{
    arena *memory = *state;
    four_ranks at;
    bal_migration_choice choice;
    fill_four(&at, even_cuts, even_cuts);
    // Ranks 0 to 3 hold 1 + 1, 2 + 0, 0 + 1 and 1 + 2 layers, in a loop of two chunks; two places
    // of two chunks are wanted, as 0 to 2 and 5 to 6, and 3 to 4 and 7.
    const int before_cuts[] = {0, 1, 3, 3, 4, 5, 5, 6, 8};
    const int cuts[] = {0, 3, 5, 7, 8};
    at.before.first_layer = before_cuts;
    at.before.chunk_count = 2;
    at.problem.chunk_count = 2;
    at.question.first_layer = cuts;

    assert_ok(bal_migration_plan(&at.question, &at.options, memory, &choice, NULL));

    // In order 1 and 2 stay on rank 1, 3 and 7 on rank 3.
    assert_int_equal(choice.plan.rank_count, 2);
    assert_int_equal(choice.plan.machine_rank[0], 1);
    assert_int_equal(choice.plan.machine_rank[1], 3);
    assert_int_equal(choice.migration.bytes, 4000);
}

enum { FOLDED_RANKS = 3, FOLDED_STAGES = 2 * FOLDED_RANKS };

/// A question about ranks of two chunks, all of which stay, with its arrays inside.
typedef struct two_chunks {
    bal_problem problem;
    bal_machine machine;
    bal_placed_partition before;
    bal_migration_options options;
    bal_rank_peaks peaks;
    int64_t time_ns[LAYERS];
    int64_t state_bytes[LAYERS];
    int64_t activation_bytes[LAYERS];
    int64_t rank_cap[FOLDED_RANKS];
    int before_cuts[FOLDED_STAGES + 1];
    int owner[LAYERS];
} two_chunks;

static void fill_two_chunks(two_chunks *at, uint64_t seed, arena *memory)
{
    rng random = rng_init(seed, 5);
    memset(at, 0, sizeof *at);
    const bool is_v = pick(&random, 0, 2) > 0;
    const int ranks = pick(&random, 1, FOLDED_RANKS);
    const int layers = pick(&random, 2 * ranks, LAYERS);
    const bal_placement placement = is_v ? BAL_PLACEMENT_V : BAL_PLACEMENT_LOOP;
    for (int layer = 0; layer < layers; layer++) {
        at->time_ns[layer] = pick(&random, 1, 9);
        at->state_bytes[layer] = pick(&random, 0, 9);
        at->activation_bytes[layer] = pick(&random, 0, 3);
    }
    for (int rank = 0; rank < ranks; rank++) {
        at->rank_cap[rank] = pick(&random, 20, 90);
    }
    random_cuts(&random, layers, 2 * ranks, at->before_cuts);
    at->machine = (bal_machine){.rank_count = ranks, .ranks_per_node = 1};
    at->before = (bal_placed_partition){.first_layer = at->before_cuts,
                                        .rank_count = ranks,
                                        .chunk_count = 2,
                                        .placement = placement};
    bal_placed_owners(&at->before, at->owner);
    assert_ok(bal_rank_peaks_of(is_v ? "v-half" : "interleaved-1f1b", ranks, 2, 2 * ranks, memory,
                                &at->peaks, NULL));
    at->problem = (bal_problem){
        .layers = {.layer_count = layers,
                   .microbatch_count = 1,
                   .forward_ns = at->time_ns,
                   .state_bytes = at->state_bytes,
                   .activation_bytes = at->activation_bytes},
        .stage_count = 2 * ranks,
        .chunk_count = 2,
        .placement = placement,
        .allow_empty_stages = pick(&random, 0, 2) == 0,
        .rank_memory_bytes = pick(&random, 0, 1) == 0 ? at->rank_cap : NULL,
        .rank_peaks = &at->peaks,
        .microbatch_count = 2 * ranks,
    };
    at->options = bal_migration_options_default();
    at->options.slack_ratio = pick(&random, 0, 3) * 0.25;
}

/// The rank of a stage, from the words of placement.h alone.
static int plain_rank(const two_chunks *at, int stage)
{
    const int ranks = at->machine.rank_count;
    if (at->problem.placement == BAL_PLACEMENT_V && stage >= ranks) return 2 * ranks - 1 - stage;
    return stage % ranks;
}

/// Bytes that a plan moves, or -1 if a rank has more than load_max or a rule is broken.
static int64_t plain_two_chunks(const two_chunks *at, const bal_chain *chain, const int *cuts,
                                int64_t load_max)
{
    int64_t load[FOLDED_RANKS] = {0};
    int64_t bytes = 0;
    if (bal_chain_check(chain, cuts, NULL) != STATUS_OK) return -1;
    for (int stage = 0; stage < at->problem.stage_count; stage++) {
        const int rank = plain_rank(at, stage);
        for (int layer = cuts[stage]; layer < cuts[stage + 1]; layer++) {
            load[rank] += at->time_ns[layer];
            if (at->owner[layer] != rank) bytes += at->state_bytes[layer];
        }
        if (load[rank] > load_max) return -1;
    }
    return bytes;
}

/// The fewest bytes over all cuts; in a loop over those with the balancer's middle.
static int64_t fewest_of_two_chunks(const two_chunks *at, const bal_chain *chain, int middle,
                                    int64_t load_max)
{
    const int stages = at->problem.stage_count;
    int64_t best = -1;
    int cuts[FOLDED_STAGES + 1] = {0};
    do {
        cuts[stages] = at->problem.layers.layer_count;
        if (!is_rising(cuts, stages + 1, false)) continue;
        if (at->problem.placement == BAL_PLACEMENT_LOOP && cuts[stages / 2] != middle) continue;
        const int64_t bytes = plain_two_chunks(at, chain, cuts, load_max);
        if (bytes >= 0 && (best < 0 || bytes < best)) best = bytes;
    } while (next_digits(cuts + 1, stages - 1, at->problem.layers.layer_count + 1));
    return best;
}

static void two_chunks_within_the_slack_of_their_ranks_move_the_fewest_bytes(void **state)
{
    arena *memory = *state;
    int checked = 0;
    int fewer = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        two_chunks at;
        bal_chain chain;
        bal_answer answer;
        bal_migration_choice choice;
        arena_reset(memory);
        fill_two_chunks(&at, seed, memory);
        if (bal_balance(bal_balancer_find("partition"), &at.problem, memory, &answer, NULL) !=
            STATUS_OK) {
            continue;
        }
        const bal_migration_question question = {.problem = &at.problem,
                                                 .first_layer = answer.first_layer,
                                                 .before = &at.before,
                                                 .machine = &at.machine};
        const int64_t load_max =
            answer.bottleneck_ns + (int64_t)((double)answer.bottleneck_ns * at.options.slack_ratio);

        assert_ok(bal_migration_plan(&question, &at.options, memory, &choice, NULL));

        assert_ok(bal_chain_of(&at.problem, memory, &chain, NULL));
        const int ranks = at.machine.rank_count;
        const int64_t least =
            at.options.slack_ratio > 0
                ? fewest_of_two_chunks(&at, &chain, answer.first_layer[ranks], load_max)
                : plain_two_chunks(&at, &chain, answer.first_layer, load_max);
        const int64_t taken = plain_two_chunks(&at, &chain, choice.plan.first_layer, load_max);
        if (choice.migration.bytes != least || taken != least) {
            fail_msg("seed %lu: %ld bytes (%ld), the fewest are %ld", (unsigned long)seed,
                     (long)choice.migration.bytes, (long)taken, (long)least);
        }
        checked++;
        fewer += least < plain_two_chunks(&at, &chain, answer.first_layer, load_max);
    }
    assert_true(checked > 250 && fewer > 50);
}

static void what_does_not_fit_together_is_named(void **state)
{
    arena *memory = *state;
    four_ranks at;
    bal_migration_choice choice = {.cost_ns = -7};
    error_message err = {0};
    const bool three[] = {true, true, false, true};
    fill_four(&at, even_cuts, even_cuts);

    at.question.is_available = three;
    assert_int_equal(bal_migration_plan(&at.question, &at.options, memory, &choice, &err),
                     STATUS_INFEASIBLE);
    assert_string_equal(err.message,
                        "4 places need as many ranks, and only 3 are available in units of 1");
    at.question.is_available = NULL;
    at.question.rank_unit = 3;
    assert_int_equal(bal_migration_plan(&at.question, &at.options, memory, &choice, &err),
                     STATUS_INVALID);
    assert_string_equal(err.message,
                        "rank_unit 3 divides not both 4 places and 4 ranks of the machine");
    at.question.rank_unit = 0;
    at.machine.rank_count = 3;
    assert_int_equal(bal_migration_plan(&at.question, &at.options, memory, &choice, &err),
                     STATUS_INVALID);
    assert_string_equal(err.message, "the plan has 4 places, the machine 3 ranks");
    at.machine.rank_count = 4;
    at.before_ranks[3] = 4;
    assert_int_equal(bal_migration_plan(&at.question, &at.options, memory, &choice, &err),
                     STATUS_INVALID);
    assert_string_equal(err.message, "the plan in force: place 3 is on rank 4 of a machine of 4");
    at.before_ranks[3] = 3;
    at.problem.machine_rank = (const int[]){0, 1, 2, 9};
    assert_int_equal(bal_migration_plan(&at.question, &at.options, memory, &choice, &err),
                     STATUS_INVALID);
    assert_string_equal(err.message, "place 3 is on rank 9 of a machine of 4");
    at.problem.machine_rank = NULL;
    at.options.slack_ratio = -0.1;
    assert_int_equal(bal_migration_plan(&at.question, &at.options, memory, &choice, &err),
                     STATUS_INVALID);
    assert_string_equal(err.message, "slack_ratio -0.1 is outside [0, 1000]");
    at.options.slack_ratio = 0;
    at.options.neighbour_iterations = -1;
    assert_int_equal(bal_migration_plan(&at.question, &at.options, memory, &choice, &err),
                     STATUS_INVALID);
    assert_string_equal(err.message, "neighbour_iterations -1 is negative");
    at.options.neighbour_iterations = 0;
    at.cuts[1] = 0;
    assert_int_equal(bal_migration_plan(&at.question, &at.options, memory, &choice, &err),
                     STATUS_INFEASIBLE);
    assert_string_equal(err.message, "stage 0 is left empty: empty stages are not allowed");
    at.cuts[1] = 2;
    at.state_bytes[0] = INT64_MAX / 4;
    assert_int_equal(bal_migration_plan(&at.question, &at.options, memory, &choice, &err),
                     STATUS_INVALID);
    assert_non_null(strstr(err.message, "the transfers of layers 0 to 0 together exceed"));
    assert_int_equal(choice.cost_ns, -7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order_it_moves_the_fewest_bytes_of_all_plans_within_the_slack),
        cmocka_unit_test(relabelled_it_moves_no_more_and_with_given_cuts_the_fewest),
        cmocka_unit_test(relabelling_keeps_layers_where_a_shift_would_move_them),
        cmocka_unit_test(neighbours_on_other_nodes_count_for_as_many_iterations),
        cmocka_unit_test(a_small_gain_keeps_the_plan_in_force),
        cmocka_unit_test(cuts_that_the_evaluator_finds_worse_are_not_taken),
        cmocka_unit_test(more_slack_never_moves_more_bytes),
        cmocka_unit_test(chunks_are_moved_with_their_places),
        cmocka_unit_test(fewer_ranks_of_several_chunks_are_those_that_hold_most),
        cmocka_unit_test(two_chunks_within_the_slack_of_their_ranks_move_the_fewest_bytes),
        cmocka_unit_test(what_does_not_fit_together_is_named),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
