/// The balancers: the recorded cases, what theory says of each, the faults of the historical ones,
/// and every refusal by its message.
#include "balance/partition/balancer.h"
#include "balance/partition/chain.h"
#include "balance/partition/partition.h"
#include "base/json.h"
#include "base/rng.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <stdlib.h>
#include <string.h>

enum { MAX = 64 };

/// A problem from weights alone; the arrays are the caller's.
static bal_problem problem_of(const int64_t *weight, int layer_count, int stage_count)
{
    return (bal_problem){.layers = {.layer_count = layer_count,
                                    .microbatch_count = 1,
                                    .forward_ns = weight,
                                    .parameters = weight},
                         .stage_count = stage_count};
}

static bal_answer answer_of(const char *balancer, const bal_problem *problem)
{
    bal_answer answer = {0};
    const bal_balancer *row = bal_balancer_find(balancer);
    assert_non_null(row);
    if (bal_balance(row, problem, memory, &answer, &why) != STATUS_OK) {
        fail_msg("%s: %s", balancer, why.message);
    }
    return answer;
}

static void assert_cuts(const char *balancer, const bal_problem *problem, const int *expected)
{
    const bal_answer answer = answer_of(balancer, problem);

    for (int stage = 0; stage <= problem->stage_count; stage++) {
        assert_int_equal(answer.first_layer[stage], expected[stage]);
    }
}

static void assert_refused(const char *balancer, const bal_problem *problem, status code,
                           const char *message)
{
    bal_answer answer = {.bottleneck_ns = -7};

    const status result = bal_balance(bal_balancer_find(balancer), problem, memory, &answer, &why);

    assert_string_equal(why.message, message);
    assert_int_equal(result, code);
    assert_int_equal(why.code, code);
    assert_int_equal(answer.bottleneck_ns, -7);
}

static int read_array(json_value array, int64_t *out)
{
    const int count = json_count(array);
    if (json_is_missing(array)) return 0;
    assert_true(count <= MAX);
    assert_ok(json_int64_array(array, count, 0, JSON_INTEGER_MAX, out, NULL));
    return count;
}

static int64_t integer_of(json_value object, const char *key)
{
    int64_t value = -1;
    assert_ok(json_int64(json_member(object, key), 0, JSON_INTEGER_MAX, &value, NULL));
    return value;
}

TEST(diffusion_published_makes_the_recorded_transfers)
{
    json_document *document = NULL;
    require(json_open("balance/assignment_cases.json", &document, &why));
    const json_value cases = json_root(document);
    assert_int_equal(json_count(cases), 10);
    for (int index = 0; index < json_count(cases); index++) {
        const json_value object = json_element(cases, index);
        int64_t weight[MAX];
        int64_t start_wide[MAX];
        int64_t loads[MAX];
        int start[MAX];
        const int layers = read_array(json_member(object, "weights"), weight);
        const int cuts = read_array(json_member(object, "start_bounds"), start_wide);
        for (int cut = 0; cut < cuts; cut++) {
            start[cut] = (int)start_wide[cut];
        }
        bal_problem problem = problem_of(weight, layers, cuts - 1);
        problem.current_first_layer = start;
        problem.allow_empty_stages = true;
        arena_reset(memory);

        const bal_answer answer = answer_of("diffusion-published", &problem);

        const json_value transfers = json_member(object, "alg3_transfers");
        assert_int_equal(answer.transfer_count, json_count(transfers));
        for (int move = 0; move < answer.transfer_count; move++) {
            int64_t expected[3];
            assert_ok(json_int64_array(json_element(transfers, move), 3, 0, MAX, expected, NULL));
            assert_int_equal(answer.transfers[move].from, expected[0]);
            assert_int_equal(answer.transfers[move].to, expected[1]);
            assert_int_equal(answer.transfers[move].layer, expected[2]);
        }
        read_array(json_member(object, "alg3_loads"), loads);
        assert_memory_equal(answer.stage_load, loads, (size_t)(cuts - 1) * sizeof *loads);
        assert_int_equal(answer.bottleneck_ns, integer_of(object, "alg3_max"));
        assert_true(answer.bottleneck_lower_bound_ns <= integer_of(object, "opt_noncontiguous"));
        assert_false(answer.executable);
        assert_null(answer.first_layer);
    }
    json_close(document);
}

TEST(algorithm_3_stays_below_twice_the_bound_where_layers_weigh_something)
{
    rng random = rng_init(3, 1);
    for (int round = 0; round < 2000; round++) {
        int64_t weight[24];
        const int stages = (int)rng_between(&random, 2, 6);
        const int layers = (int)rng_between(&random, stages, 8);
        for (int layer = 0; layer < layers; layer++) {
            weight[layer] = rng_between(&random, 1, 30);
        }
        const bal_problem problem = problem_of(weight, layers, stages);
        arena_reset(memory);

        const bal_answer answer = answer_of("diffusion-published", &problem);

        // max <= (2 - 2 / (P + 1)) * optimum, and the contiguous optimum is at least the optimum
        // over all assignments.
        const bal_answer exact = answer_of("partition", &problem);
        assert_true(answer.bottleneck_ns * (stages + 1) <= 2 * stages * exact.bottleneck_ns);
    }
}

/// Numbers between blanks.
/// @return how many there are
static int read_numbers(const char *text, int64_t *out)
{
    int count = 0;
    for (char *end; *text != '\0'; text = end) {
        assert_true(count < MAX);
        out[count++] = strtoll(text, &end, 10);
        assert_true(end > text);
    }
    return count;
}

/// What theory says of each, and the faults of the historical ones, where they show.
TEST(small_cases_are_answered_as_by_hand)
{
    enum { EMBEDDING = 1, ENDS = 3, EMPTY = 4 }; // embedding; head, too; empty stages
#define LARGE "2305843009213693952"
    const struct {
        const char *balancer, *weights;
        int stages, flags;
        int64_t bottleneck, bound;
        const char *start, *cuts; // NULL: none, not asked
        int transfers;            // of an owner per layer
        int first_sent;           // layer of the first of them; 0: not asked
    } cases[] = {
        {"partition", LARGE " 1 " LARGE " 1", 2, 0, (INT64_C(1) << 61) + 1, (INT64_C(1) << 61) + 1,
         NULL, "0 2 4", 0, 0},
        // Algorithm 3 is stuck at twice the optimum on [P, P | 1 x P | ... | 1 x P].
        {"diffusion-published", "4 4 1 1 1 1 1 1 1 1 1 1 1 1", 4, 0, 8, 5, "0 2 6 10 14", NULL, 0,
         0},
        {"partition", "4 4 1 1 1 1 1 1 1 1 1 1 1 1", 4, 0, 6, 6, NULL, NULL, 0, 0},
        // It needs half as many moves as unit layers on two ranks; one without weight blocks.
        {"diffusion-published", "1 1 1 1 1 1 1 1 1 1", 2, EMPTY, 5, 5, "0 10 10", NULL, 5, 0},
        {"diffusion-published", "0 1 1 1 1 1 1", 3, EMPTY, 6, 2, "0 7 7 7", NULL, 0, 0},
        // As coded a layer goes away and comes back out of order; the layer in front of the
        // lightest goes (after the embedding that is at index 1, of the whole list the 5); and what
        // began as 11 and 12 ends worse: the 3 goes to rank 0 whatever that does.
        {"diffusion-coded", "9 5 1 1 1", 2, EMBEDDING, 10, 9, "0 3 5", NULL, 1, 1},
        {"diffusion-coded", "2 2 3", 2, 0, 4, 4, "0 2 3", NULL, 2, 0},
        {"diffusion-coded", "1 5 5 5 4 3", 2, 0, 13, 12, "0 3 6", NULL, 2, 5},
        // Even counts transformer layers only; tuned counts embedding and head.
        {"even", "1 1 1 1 1 1 1 1 1 1 1 1", 4, 0, 3, 3, NULL, "0 3 6 9 12", 0, 0},
        {"even", "1 1 1 1 1 1 1 1 1 1 1 1", 4, ENDS, 4, 3, NULL, "0 4 7 9 12", 0, 0},
        {"even", "1 2 2 2 2 2 2 6", 3, ENDS, 10, 7, NULL, NULL, 0, 0},
        {"tuned", "1 2 2 2 2 2 2 6", 3, ENDS, 7, 7, NULL, NULL, 0, 0},
        // Parameters minimises the spread and misses the optimum; the legacy one keeps its faults.
        {"parameters", "1 4 2 2", 3, 0, 5, 4, NULL, NULL, 0, 0},
        {"parameters", "1 3 2 1 1 2", 4, 0, 4, 3, NULL, NULL, 0, 0},
        {"parameters", "1 1 1", 5, EMPTY, 1, 1, NULL, "0 1 2 3 3 3", 0, 0},
        {"parameters-legacy", "1 1 1", 5, EMPTY, 1, 1, NULL, "0 1 2 3 3 3", 0, 0},
        {"parameters-legacy", "10 1 1 1", 2, EMPTY, 13, 10, NULL, "0 0 4", 0, 0},
        {"parameters-legacy", "10 1 1 1 1 1 1 1", 4, EMPTY, 17, 10, NULL, NULL, 0, 0},
        {"parameters-legacy", "1 1 1 1 1", 4, EMPTY, 2, 2, NULL, "0 2 4 5 5", 0, 0},
        {"parameters-legacy", "1 1 1 1 1 1 1 1 1", 8, EMPTY, 2, 2, NULL, "0 2 4 6 8 9 9 9 9", 0, 0},
        // Algorithm 3 and moves over cuts alone are stuck here at 6 and 4; the flow is not.
        {"diffusion", "3 3 1 2 2 1 3", 4, 0, 4, 4, "0 2 4 6 7", NULL, 0, 0},
        {"diffusion-published", "3 3 1 2 2 1 3", 4, 0, 6, 4, "0 2 4 6 7", NULL, 0, 0},
        {"diffusion", "1 1 1 1 1 1 1 1 1 1", 4, 0, 3, 3, NULL, NULL, 0, 0},
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        int64_t weight[MAX];
        int64_t cuts[MAX];
        int start[MAX];
        const int layers = read_numbers(cases[index].weights, weight);
        bal_problem problem = problem_of(weight, layers, cases[index].stages);
        problem.layers.embedding = (cases[index].flags & EMBEDDING) != 0;
        problem.layers.head = (cases[index].flags & ENDS) == ENDS;
        problem.allow_empty_stages = (cases[index].flags & EMPTY) != 0;
        const int starts = cases[index].start != NULL ? read_numbers(cases[index].start, cuts) : 0;
        for (int cut = 0; cut < starts; cut++) {
            start[cut] = (int)cuts[cut];
        }
        if (starts > 0) problem.current_first_layer = start;

        const bal_answer answer = answer_of(cases[index].balancer, &problem);

        if (answer.bottleneck_ns != cases[index].bottleneck ||
            answer.bottleneck_lower_bound_ns != cases[index].bound ||
            answer.transfer_count != cases[index].transfers) {
            fail_msg("case %d, %s: %lld, bound %lld, %d transfers", (int)index,
                     cases[index].balancer, (long long)answer.bottleneck_ns,
                     (long long)answer.bottleneck_lower_bound_ns, answer.transfer_count);
        }
        assert_int_equal(answer.optimal, cases[index].bottleneck == cases[index].bound);
        const int asked = cases[index].cuts != NULL ? read_numbers(cases[index].cuts, cuts) : 0;
        for (int cut = 0; cut < asked; cut++) {
            assert_int_equal(answer.first_layer[cut], cuts[cut]);
        }
        if (cases[index].first_sent > 0) {
            assert_int_equal(answer.transfers[0].layer, cases[index].first_sent);
        }
    }
}

/// DeepSpeed's `type:REGEX` where the regex matches the transformer layers; cuts are those of a
/// second implementation of its partition_balanced, in Python.
TEST(a_bound_that_nobody_asks_for_is_found_only_on_the_way)
{
    static const int64_t weight[] = {5, 1, 1, 1};
    bal_problem problem = problem_of(weight, 4, 2);
    const bal_answer even = answer_of("even", &problem);
    problem.skips_bound = true;

    const bal_answer skipping = answer_of("even", &problem);
    const bal_answer exact = answer_of("partition", &problem);

    assert_int_equal(even.bottleneck_lower_bound_ns, 5);
    assert_int_equal(skipping.bottleneck_lower_bound_ns, -1);
    assert_int_equal(skipping.bottleneck_ns, even.bottleneck_ns);
    assert_int_equal(exact.bottleneck_lower_bound_ns, 5);
    assert_true(exact.optimal);
}

TEST(counted_layers_are_cut_as_deepspeed_cuts_a_type)
{
    enum { ENTRIES = 32, STAGES_MAX = 8 };
    static const struct {
        int layers;
        int stages;
        int since[STAGES_MAX + 1];
        int legacy[STAGES_MAX + 1];
    } cases[] = {
        {8, 4, {0, 3, 5, 7, 10}, {0, 3, 5, 7, 10}},
        {24, 8, {0, 4, 7, 10, 13, 16, 19, 22, 26}, {0, 4, 7, 10, 13, 16, 19, 22, 26}},
        {10, 4, {0, 4, 7, 9, 12}, {0, 4, 7, 10, 12}},
        {30, 8, {0, 5, 9, 13, 17, 21, 25, 28, 32}, {0, 5, 9, 13, 17, 21, 25, 29, 32}},
    };
    for (size_t each = 0; each < sizeof cases / sizeof cases[0]; each++) {
        int64_t weight[ENTRIES] = {0};
        for (int layer = 1; layer <= cases[each].layers; layer++) {
            weight[layer] = 1;
        }
        bal_problem matched = problem_of(weight, cases[each].layers + 2, cases[each].stages);
        matched.weight = BAL_WEIGHT_PARAMETERS;
        assert_cuts("parameters", &matched, cases[each].since);
        assert_cuts("parameters-legacy", &matched, cases[each].legacy);

        bal_problem counted = matched;
        counted.weight = BAL_WEIGHT_LAYERS;
        counted.layers.embedding = true;
        counted.layers.head = true;
        counted.layers.parameters = NULL;
        assert_cuts("parameters", &counted, cases[each].since);
        assert_cuts("parameters-legacy", &counted, cases[each].legacy);
    }
}

TEST(parameters_legacy_says_where_the_original_never_ends)
{
    const int64_t quadrillion = INT64_C(1000000000000000);
    int64_t weight[7];
    for (int layer = 0; layer < 7; layer++) {
        weight[layer] = 37 * quadrillion + layer * 7919;
    }
    const bal_problem problem = problem_of(weight, 7, 3);
    assert_refused("parameters-legacy", &problem, STATUS_INFEASIBLE,
                   "parameters-legacy: the original never ends on these weights: its tolerance of "
                   "0.001 is below the spacing of doubles at 1.11e+17");
}

TEST(chain_diffusion_is_within_one_layer_of_the_mean)
{
    rng random = rng_init(5, 1);
    for (int round = 0; round < 3000; round++) {
        int64_t weight[MAX];
        const int layers = (int)rng_between(&random, 4, MAX);
        const int stages = (int)rng_between(&random, 1, layers < 16 ? layers : 16);
        int64_t total = 0;
        int64_t heaviest = 0;
        for (int layer = 0; layer < layers; layer++) {
            weight[layer] = rng_between(&random, 0, 1000);
            total += weight[layer];
            if (weight[layer] > heaviest) heaviest = weight[layer];
        }
        bal_problem problem = problem_of(weight, layers, stages);
        problem.allow_empty_stages = true;
        arena_reset(memory);

        const bal_answer answer = answer_of("diffusion", &problem);

        assert_true(answer.bottleneck_ns <= total / stages + 1 + heaviest);
    }
}

/// An evaluator that likes one plan best.
typedef struct taste {
    const int *favourite; // [stage_count + 1]
    int evaluation_count;
} taste;

static status distance_from_favourite(void *context, const bal_layer_costs *layers,
                                      const bal_placed_partition *plan, int microbatch_count,
                                      int64_t *iteration_ns, error_message *err)
{
    taste *wish = context;
    wish->evaluation_count++;
    *iteration_ns = 1000;
    for (int cut = 0; cut <= plan->rank_count; cut++) {
        const int distance = plan->first_layer[cut] - wish->favourite[cut];
        *iteration_ns += distance < 0 ? -distance : distance;
    }
    return STATUS_OK;
}

TEST(makespan_follows_its_evaluator)
{
    const int64_t weight[] = {5, 3, 2, 2, 1, 1, 4, 4, 4, 1};
    const int favourite[] = {0, 4, 5, 6, 10};
    taste wish = {.favourite = favourite};
    const bal_evaluator evaluator = {.context = &wish, .iteration_ns = distance_from_favourite};
    bal_problem problem = problem_of(weight, 10, 4);
    problem.microbatch_count = 8;
    problem.evaluator = &evaluator;

    const bal_answer answer = answer_of("makespan", &problem);

    assert_int_equal(answer.iteration_ns, 1000);
    assert_memory_equal(answer.first_layer, favourite, sizeof favourite);
    assert_true(wish.evaluation_count <= BAL_MAKESPAN_EVALUATIONS_MAX);
    assert_false(answer.optimal);
}

/// Every plan takes as long as any other, but for those whose first chunks are one layer each.
static status likes_small_first_chunks(void *context, const bal_layer_costs *layers,
                                       const bal_placed_partition *plan, int microbatch_count,
                                       int64_t *iteration_ns, error_message *err)
{
    *iteration_ns = plan->first_layer[plan->rank_count] == plan->rank_count ? 1000 : 2000;
    return STATUS_OK;
}

TEST(makespan_tries_small_first_chunks_that_no_step_leads_to)
{
    int64_t weight[24];
    for (int layer = 0; layer < 24; layer++) {
        weight[layer] = 100;
    }
    const bal_evaluator evaluator = {.iteration_ns = likes_small_first_chunks};
    bal_problem problem = problem_of(weight, 24, 8);
    problem.chunk_count = 2;
    problem.microbatch_count = 16;
    problem.evaluator = &evaluator;
    bal_rank_peaks peaks; // as a controller gives them
    assert_ok(bal_rank_peaks_of("interleaved-1f1b", 4, 2, 16, memory, &peaks, NULL));
    problem.rank_peaks = &peaks;

    const bal_answer answer = answer_of("makespan", &problem);

    assert_int_equal(answer.iteration_ns, 1000);
    assert_int_equal(answer.first_layer[4], 4);
}

static status refuse_all(void *context, const bal_layer_costs *layers,
                         const bal_placed_partition *plan, int microbatch_count,
                         int64_t *iteration_ns, error_message *err)
{
    return error_set(err, STATUS_BACKEND, "no player");
}

TEST(makespan_without_a_working_evaluator_is_refused)
{
    const int64_t weight[] = {1, 1};
    const bal_evaluator evaluator = {.iteration_ns = refuse_all};
    bal_problem problem = problem_of(weight, 2, 2);
    assert_refused("makespan", &problem, STATUS_INVALID,
                   "makespan needs an evaluator: a schedule to play the candidates with");
    problem.evaluator = &evaluator;
    assert_refused("makespan", &problem, STATUS_BACKEND, "no player");
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
