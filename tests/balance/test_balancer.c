/// The balancers: the recorded cases, what theory says of each, the faults of the historical ones,
/// and every refusal by its message.
#include "balance/partition/balancer.h"
#include "balance/partition/bounds.h"
#include "balance/partition/partition.h"
#include "base/json.h"
#include "base/rng.h"
#include "tests/assert_close.h"
#include "tests/test_memory.h"

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

static bal_answer answer_of(const char *balancer, const bal_problem *problem, arena *memory)
{
    bal_answer answer = {0};
    error_message err = {0};
    const bal_balancer *row = bal_balancer_find(balancer);
    assert_non_null(row);
    if (bal_balance(row, problem, memory, &answer, &err) != STATUS_OK) {
        fail_msg("%s: %s", balancer, err.message);
    }
    return answer;
}

static void assert_cuts(const char *balancer, const bal_problem *problem, const int *expected)
{
    arena *memory = arena_create(1 << 16);
    const bal_answer answer = answer_of(balancer, problem, memory);

    for (int stage = 0; stage <= problem->stage_count; stage++) {
        assert_int_equal(answer.first_layer[stage], expected[stage]);
    }

    arena_destroy(memory);
}

static void assert_refused(const char *balancer, const bal_problem *problem, status code,
                           const char *message)
{
    arena *memory = arena_create(1 << 16);
    error_message err = {0};
    bal_answer answer = {.bottleneck_ns = -7};

    const status result = bal_balance(bal_balancer_find(balancer), problem, memory, &answer, &err);

    assert_string_equal(err.message, message);
    assert_int_equal(result, code);
    assert_int_equal(err.code, code);
    assert_int_equal(answer.bottleneck_ns, -7);
    arena_destroy(memory);
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

static const char *string_of(json_value object, const char *key)
{
    const char *value = NULL;
    assert_ok(json_string(json_member(object, key), &value, NULL));
    return value;
}

/// A recorded case with its arrays.
typedef struct recorded_case {
    bal_problem problem;
    int64_t weight[MAX];
    int64_t state[MAX];
    int64_t activation[MAX];
    int64_t cap[MAX];
    int64_t inflight[MAX];
    int64_t factor[MAX];
    int64_t fixed[MAX];
    int64_t current_wide[MAX];
    int current[MAX];
} recorded_case;

static void read_case(json_value object, recorded_case *out)
{
    memset(out, 0, sizeof *out);
    const int layers = read_array(json_member(object, "weights"), out->weight);
    out->problem = problem_of(out->weight, layers, (int)integer_of(object, "P"));
    bal_problem *problem = &out->problem;
    problem->allow_empty_stages = true;
    if (read_array(json_member(object, "mem"), out->state) > 0) {
        problem->layers.state_bytes = out->state;
    }
    if (read_array(json_member(object, "actmem"), out->activation) > 0) {
        problem->layers.activation_bytes = out->activation;
    }
    if (read_array(json_member(object, "cap"), out->cap) > 0) {
        problem->stage_memory_bytes = out->cap;
    }
    if (read_array(json_member(object, "inflight"), out->inflight) > 0) {
        problem->stage_inflight = out->inflight;
    }
    const int factors = read_array(json_member(object, "mult"), out->factor);
    for (int stage = 0; stage < factors; stage++) {
        out->factor[stage] *= 1000000000;
    }
    if (factors > 0) problem->stage_time_factor_ppb = out->factor;
    if (read_array(json_member(object, "fixed"), out->fixed) > 0) {
        problem->stage_fixed_ns = out->fixed;
    }
    const bool is_v = strcmp(string_of(object, "kind"), "vshape") == 0;
    if (is_v || strcmp(string_of(object, "kind"), "interleave2") == 0) {
        problem->stage_count *= 2;
        problem->chunk_count = 2;
        problem->placement = is_v ? BAL_PLACEMENT_V : BAL_PLACEMENT_LOOP;
    }
    if (strcmp(string_of(object, "kind"), "onef1b") == 0) {
        problem->objective = BAL_OBJECTIVE_1F1B_BOUND;
        problem->microbatch_count = (int)integer_of(object, "microbatches");
    }
    if (strcmp(string_of(object, "kind"), "minmove") == 0) {
        read_array(json_member(object, "bytes"), out->state);
        problem->layers.state_bytes = out->state;
        problem->objective = BAL_OBJECTIVE_MOVED_BYTES;
        problem->load_cap_ns = integer_of(object, "load_cap");
        const int cuts = read_array(json_member(object, "cur"), out->current_wide);
        for (int cut = 0; cut < cuts; cut++) {
            out->current[cut] = (int)out->current_wide[cut];
        }
        problem->current_first_layer = out->current;
        problem->current_stage_count = cuts - 1;
    }
}

static void partition_meets_the_recorded_optima(void **state)
{
    (void)state;
    json_document *document = NULL;
    error_message err = {0};
    if (json_open("balance/partition_cases.json", &document, &err) != STATUS_OK) {
        fail_msg("%s", err.message);
    }
    const json_value cases = json_root(document);
    assert_true(json_count(cases) == 36);
    for (int index = 0; index < json_count(cases); index++) {
        const json_value object = json_element(cases, index);
        recorded_case at;
        read_case(object, &at);
        arena *memory = arena_create(1 << 16);
        bal_answer answer = {0};

        const status result =
            bal_balance(bal_balancer_find("partition"), &at.problem, memory, &answer, &err);

        if (json_is_missing(json_member(object, "opt"))) {
            assert_int_equal(result, STATUS_INFEASIBLE);
        } else {
            if (result != STATUS_OK) fail_msg("%s: %s", string_of(object, "id"), err.message);
            const bool by_moves = at.problem.objective == BAL_OBJECTIVE_MOVED_BYTES;
            const int64_t value = by_moves ? answer.moved_bytes : answer.bottleneck_ns;
            if (value != integer_of(object, "opt")) {
                fail_msg("%s: %lld instead of %lld", string_of(object, "id"), (long long)value,
                         (long long)integer_of(object, "opt"));
            }
            assert_true(answer.optimal && answer.executable);
        }
        arena_destroy(memory);
    }
    json_close(document);
}

static void weights_close_to_the_end_of_int64_are_exact(void **state)
{
    arena *memory = *state;
    const int64_t large = INT64_C(2305843009213693952); // 2^61
    const int64_t weight[] = {large, 1, large, 1};
    const bal_problem problem = problem_of(weight, 4, 2);

    const bal_answer answer = answer_of("partition", &problem, memory);

    assert_true(answer.bottleneck_ns == large + 1);
    assert_int_equal(answer.first_layer[1], 2);
    assert_true(answer.optimal);
}

static void diffusion_published_makes_the_recorded_transfers(void **state)
{
    (void)state;
    json_document *document = NULL;
    error_message err = {0};
    if (json_open("balance/assignment_cases.json", &document, &err) != STATUS_OK) {
        fail_msg("%s", err.message);
    }
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
        arena *memory = arena_create(1 << 16);

        const bal_answer answer = answer_of("diffusion-published", &problem, memory);

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
        arena_destroy(memory);
    }
    json_close(document);
}

/// [P, P | 1 x P | ... | 1 x P]
static int fill_tight_family(int stages, int64_t *weight, int *start)
{
    int layers = 0;
    start[0] = 0;
    weight[layers++] = stages;
    weight[layers++] = stages;
    start[1] = layers;
    for (int stage = 1; stage < stages; stage++) {
        for (int layer = 0; layer < stages; layer++) {
            weight[layers++] = 1;
        }
        start[stage + 1] = layers;
    }
    return layers;
}

static void algorithm_3_is_stuck_at_twice_the_optimum_on_the_tight_family(void **state)
{
    (void)state;
    for (int stages = 2; stages <= 32; stages *= 2) {
        int64_t weight[32 * 32];
        int start[33];
        const int layers = fill_tight_family(stages, weight, start);
        bal_problem problem = problem_of(weight, layers, stages);
        problem.current_first_layer = start;
        arena *memory = arena_create(1 << 16);

        const bal_answer published = answer_of("diffusion-published", &problem, memory);
        const bal_answer exact = answer_of("partition", &problem, memory);

        assert_int_equal(published.transfer_count, 0);
        assert_int_equal(published.bottleneck_ns, 2 * stages);
        assert_int_equal(published.bottleneck_lower_bound_ns, stages + 1);
        assert_int_equal(exact.bottleneck_ns, stages == 2 ? 4 : stages + 2);
        arena_destroy(memory);
    }
}

static void algorithm_3_needs_half_as_many_moves_as_unit_layers_on_two_ranks(void **state)
{
    arena *memory = *state;
    enum { LAYERS = 1000 };
    int64_t weight[LAYERS];
    const int start[] = {0, LAYERS, LAYERS};
    for (int layer = 0; layer < LAYERS; layer++) {
        weight[layer] = 1;
    }
    bal_problem problem = problem_of(weight, LAYERS, 2);
    problem.current_first_layer = start;

    const bal_answer answer = answer_of("diffusion-published", &problem, memory);

    assert_int_equal(answer.transfer_count, LAYERS / 2);
    assert_int_equal(answer.iteration_count, LAYERS / 2 + 1);
    assert_true(answer.optimal);
}

static void a_layer_without_weight_blocks_its_rank_in_algorithm_3(void **state)
{
    arena *memory = *state;
    const int64_t weight[] = {0, 1, 1, 1, 1, 1, 1};
    const int start[] = {0, 7, 7, 7};
    bal_problem problem = problem_of(weight, 7, 3);
    problem.current_first_layer = start;

    const bal_answer answer = answer_of("diffusion-published", &problem, memory);

    assert_int_equal(answer.transfer_count, 0);
    assert_int_equal(answer.bottleneck_ns, 6);
    assert_int_equal(answer.bottleneck_lower_bound_ns, 2);
}

static void algorithm_3_stays_below_twice_the_bound_where_layers_weigh_something(void **state)
{
    (void)state;
    rng random = rng_init(3, 1);
    for (int round = 0; round < 2000; round++) {
        int64_t weight[24];
        const int stages = (int)rng_between(&random, 2, 6);
        const int layers = (int)rng_between(&random, stages, 8);
        for (int layer = 0; layer < layers; layer++) {
            weight[layer] = rng_between(&random, 1, 30);
        }
        const bal_problem problem = problem_of(weight, layers, stages);
        arena *memory = arena_create(1 << 16);

        const bal_answer answer = answer_of("diffusion-published", &problem, memory);

        // max <= (2 - 2 / (P + 1)) * optimum, and the contiguous optimum is at least the optimum
        // over all assignments.
        const bal_answer exact = answer_of("partition", &problem, memory);
        assert_true(answer.bottleneck_ns * (stages + 1) <= 2 * stages * exact.bottleneck_ns);
        arena_destroy(memory);
    }
}

static void diffusion_coded_moves_a_layer_away_and_back_out_of_order(void **state)
{
    arena *memory = *state;
    const int64_t weight[] = {2, 2, 3};
    const int start[] = {0, 2, 3};
    bal_problem problem = problem_of(weight, 3, 2);
    problem.current_first_layer = start;

    const bal_answer answer = answer_of("diffusion-coded", &problem, memory);

    assert_int_equal(answer.transfer_count, 2);
    assert_int_equal(answer.transfers[0].from, 0);
    assert_int_equal(answer.transfers[0].layer, 0);
    assert_int_equal(answer.transfers[1].from, 1);
    assert_int_equal(answer.transfers[1].layer, 0);
    assert_int_equal(answer.bottleneck_ns, 4);
}

static void diffusion_coded_sends_the_layer_in_front_of_the_lightest(void **state)
{
    arena *memory = *state;
    // Rank 0: embedding 9, layers 5 and 1. The lightest after the embedding is at index 1 there,
    // so the entry at index 1 of the whole list goes: the layer of weight 5.
    const int64_t weight[] = {9, 5, 1, 1, 1};
    const int start[] = {0, 3, 5};
    bal_problem problem = problem_of(weight, 5, 2);
    problem.current_first_layer = start;
    problem.layers.embedding = true;

    const bal_answer answer = answer_of("diffusion-coded", &problem, memory);

    assert_int_equal(answer.transfers[0].layer, 1);
}

static void diffusion_coded_can_end_worse_than_it_began(void **state)
{
    arena *memory = *state;
    // 11 and 12: the 3 goes to rank 0 whatever that does, the 1 comes back.
    const int64_t weight[] = {1, 5, 5, 5, 4, 3};
    const int start[] = {0, 3, 6};
    bal_problem problem = problem_of(weight, 6, 2);
    problem.current_first_layer = start;

    const bal_answer answer = answer_of("diffusion-coded", &problem, memory);

    assert_int_equal(answer.transfer_count, 2);
    assert_int_equal(answer.bottleneck_ns, 13);
}

static void even_counts_transformer_layers_only(void **state)
{
    (void)state;
    const int64_t weight[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    bal_problem problem = problem_of(weight, 12, 4);
    assert_cuts("even", &problem, (const int[]){0, 3, 6, 9, 12});
    problem.layers.embedding = true;
    problem.layers.head = true;
    assert_cuts("even", &problem, (const int[]){0, 4, 7, 9, 12});
    problem.stage_count = 5;
    assert_cuts("even", &problem, (const int[]){0, 3, 5, 7, 9, 12});
}

static void tuned_counts_embedding_and_head(void **state)
{
    arena *memory = *state;
    const int64_t weight[] = {1, 2, 2, 2, 2, 2, 2, 6};
    bal_problem problem = problem_of(weight, 8, 3);
    problem.layers.embedding = true;
    problem.layers.head = true;

    const bal_answer even = answer_of("even", &problem, memory);
    const bal_answer tuned = answer_of("tuned", &problem, memory);

    assert_int_equal(even.bottleneck_ns, 10);
    assert_int_equal(even.bottleneck_lower_bound_ns, 7);
    assert_false(even.optimal);
    assert_int_equal(tuned.bottleneck_ns, 7);
    assert_true(tuned.optimal);
    assert_true(bal_balancer_find("tuned")->is_static);
}

static void parameters_minimises_the_spread_and_misses_the_optimum(void **state)
{
    arena *memory = *state;
    const int64_t four[] = {1, 4, 2, 2};
    const int64_t six[] = {1, 3, 2, 1, 1, 2};
    bal_problem problem = problem_of(four, 4, 3);

    bal_answer answer = answer_of("parameters", &problem, memory);
    assert_int_equal(answer.bottleneck_ns, 5);
    assert_int_equal(answer.bottleneck_lower_bound_ns, 4);
    assert_false(answer.optimal);

    problem = problem_of(six, 6, 4);
    answer = answer_of("parameters", &problem, memory);
    assert_int_equal(answer.bottleneck_ns, 4);
    assert_int_equal(answer.bottleneck_lower_bound_ns, 3);
}

static void parameters_legacy_keeps_the_faults_of_the_original(void **state)
{
    arena *memory = *state;
    const int64_t heavy_first[] = {10, 1, 1, 1, 1, 1, 1, 1};
    const int64_t ones[] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    bal_problem problem = problem_of(heavy_first, 4, 2);
    problem.allow_empty_stages = true;
    assert_cuts("parameters-legacy", &problem, (const int[]){0, 0, 4});
    problem = problem_of(heavy_first, 8, 4);
    problem.allow_empty_stages = true;
    assert_int_equal(answer_of("parameters-legacy", &problem, memory).bottleneck_ns, 17);
    problem = problem_of(ones, 5, 4);
    problem.allow_empty_stages = true;
    assert_cuts("parameters-legacy", &problem, (const int[]){0, 2, 4, 5, 5});
    problem = problem_of(ones, 9, 8);
    problem.allow_empty_stages = true;
    assert_cuts("parameters-legacy", &problem, (const int[]){0, 2, 4, 6, 8, 9, 9, 9, 9});
    problem.allow_empty_stages = false;
    assert_refused("parameters-legacy", &problem, STATUS_INFEASIBLE,
                   "parameters-legacy: stage 5 is left empty: empty stages are not allowed");
    problem = problem_of(ones, 3, 5);
    problem.allow_empty_stages = true;
    assert_cuts("parameters-legacy", &problem, (const int[]){0, 1, 2, 3, 3, 3});
    assert_cuts("parameters", &problem, (const int[]){0, 1, 2, 3, 3, 3});
}

/// DeepSpeed's `type:REGEX` where the regex matches the transformer layers; cuts are those of a
/// second implementation of its partition_balanced, in Python.
static void counted_layers_are_cut_as_deepspeed_cuts_a_type(void **state)
{
    (void)state;
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

static void parameters_legacy_says_where_the_original_never_ends(void **state)
{
    (void)state;
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

static void chain_diffusion_rounds_the_flow_and_searches_locally(void **state)
{
    arena *memory = *state;
    // Algorithm 3 and boundary moves alone are stuck here at 6 and 4; the flow is not.
    const int64_t stuck[] = {3, 3, 1, 2, 2, 1, 3};
    const int start[] = {0, 2, 4, 6, 7};
    bal_problem problem = problem_of(stuck, 7, 4);
    problem.current_first_layer = start;
    assert_int_equal(answer_of("diffusion", &problem, memory).bottleneck_ns, 4);
    assert_int_equal(answer_of("diffusion-published", &problem, memory).bottleneck_ns, 6);
    const int64_t ones[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    problem = problem_of(ones, 10, 4);
    assert_int_equal(answer_of("diffusion", &problem, memory).bottleneck_ns, 3);
}

static void chain_diffusion_is_within_one_layer_of_the_mean(void **state)
{
    arena *memory = *state;
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

        const bal_answer answer = answer_of("diffusion", &problem, memory);

        assert_true(answer.bottleneck_ns <= total / stages + 1 + heaviest);
    }
}

/// An evaluator that likes one plan best.
typedef struct taste {
    const int *favourite; // [stage_count + 1]
    int evaluation_count;
} taste;

static status distance_from_favourite(void *context, const bal_layer_costs *layers,
                                      const bal_placed_partition *plan, int64_t *iteration_ns,
                                      error_message *err)
{
    (void)layers;
    (void)err;
    taste *wish = context;
    wish->evaluation_count++;
    *iteration_ns = 1000;
    for (int cut = 0; cut <= plan->rank_count; cut++) {
        const int distance = plan->first_layer[cut] - wish->favourite[cut];
        *iteration_ns += distance < 0 ? -distance : distance;
    }
    return STATUS_OK;
}

static void makespan_follows_its_evaluator(void **state)
{
    arena *memory = *state;
    const int64_t weight[] = {5, 3, 2, 2, 1, 1, 4, 4, 4, 1};
    const int favourite[] = {0, 4, 5, 6, 10};
    taste wish = {.favourite = favourite};
    const bal_evaluator evaluator = {.context = &wish, .iteration_ns = distance_from_favourite};
    bal_problem problem = problem_of(weight, 10, 4);
    problem.microbatch_count = 8;
    problem.evaluator = &evaluator;

    const bal_answer answer = answer_of("makespan", &problem, memory);

    assert_int_equal(answer.iteration_ns, 1000);
    assert_memory_equal(answer.first_layer, favourite, sizeof favourite);
    assert_true(wish.evaluation_count <= BAL_MAKESPAN_EVALUATIONS_MAX);
    assert_false(answer.optimal);
}

/// Every plan takes as long as any other, but for those whose first chunks are one layer each.
static status likes_small_first_chunks(void *context, const bal_layer_costs *layers,
                                       const bal_placed_partition *plan, int64_t *iteration_ns,
                                       error_message *err)
{
    (void)context;
    (void)layers;
    (void)err;
    *iteration_ns = plan->first_layer[plan->rank_count] == plan->rank_count ? 1000 : 2000;
    return STATUS_OK;
}

static void makespan_tries_small_first_chunks_that_no_step_leads_to(void **state)
{
    arena *memory = *state;
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

    const bal_answer answer = answer_of("makespan", &problem, memory);

    assert_int_equal(answer.iteration_ns, 1000);
    assert_int_equal(answer.first_layer[4], 4);
}

static status refuse_all(void *context, const bal_layer_costs *layers,
                         const bal_placed_partition *plan, int64_t *iteration_ns,
                         error_message *err)
{
    (void)context;
    (void)layers;
    (void)plan;
    (void)iteration_ns;
    return error_set(err, STATUS_BACKEND, "no player");
}

static void makespan_without_a_working_evaluator_is_refused(void **state)
{
    (void)state;
    const int64_t weight[] = {1, 1};
    const bal_evaluator evaluator = {.iteration_ns = refuse_all};
    bal_problem problem = problem_of(weight, 2, 2);
    assert_refused("makespan", &problem, STATUS_INVALID,
                   "makespan needs an evaluator: a schedule to play the candidates with");
    problem.evaluator = &evaluator;
    assert_refused("makespan", &problem, STATUS_BACKEND, "no player");
}

/// Those that find a plan wherever there is one.
static bool knows_the_rules(const char *balancer)
{
    static const char *const names[] = {"tuned", "partition", "diffusion", "makespan"};
    for (size_t index = 0; index < sizeof names / sizeof names[0]; index++) {
        if (strcmp(names[index], balancer) == 0) return true;
    }
    return false;
}

static void every_contiguous_balancer_keeps_the_rules_and_its_bound(void **state)
{
    arena *memory = *state;
    rng random = rng_init(9, 1);
    int count = 0;
    int answered = 0;
    const bal_balancer *table = bal_balancers(&count);
    for (int round = 0; round < 3000; round++) {
        int64_t weight[24];
        int64_t bytes[24];
        int64_t cap[8];
        int64_t factor[8];
        const int stages = (int)rng_between(&random, 1, 8);
        const int layers = (int)rng_between(&random, stages > 2 ? stages : 2, 24);
        int64_t total = 0;
        for (int layer = 0; layer < layers; layer++) {
            weight[layer] = rng_between(&random, 0, 20);
            bytes[layer] = rng_between(&random, 0, 10);
            total += bytes[layer];
        }
        for (int stage = 0; stage < stages; stage++) {
            cap[stage] = 2 * total / stages + rng_between(&random, 0, 20);
            factor[stage] = rng_between(&random, 500000000, 2000000000);
        }
        bal_problem problem = problem_of(weight, layers, stages);
        problem.layers.state_bytes = bytes;
        problem.layers.embedding = rng_below(&random, 2) == 0;
        problem.layers.head = rng_below(&random, 2) == 0;
        problem.allow_empty_stages = rng_below(&random, 2) == 0;
        problem.microbatch_count = 4;
        int given[9];
        for (int stage = 0; stage <= stages; stage++) {
            given[stage] = stage * layers / stages;
        }
        problem.given_first_layer = given;
        if (rng_below(&random, 2) == 0) problem.stage_memory_bytes = cap;
        if (rng_below(&random, 2) == 0) problem.stage_time_factor_ppb = factor;
        taste wish = {.favourite = (const int[9]){0}};
        const bal_evaluator evaluator = {.context = &wish, .iteration_ns = distance_from_favourite};
        problem.evaluator = &evaluator;
        bal_answer exact = {0};
        const status feasible =
            bal_balance(bal_balancer_find("partition"), &problem, memory, &exact, NULL);
        for (int row = 0; row < count; row++) {
            if (table[row].needs_chunks) continue; // test_partition_pairs has them
            bal_answer answer = {0};
            error_message err = {0};
            arena_reset(memory);
            const status result = bal_balance(&table[row], &problem, memory, &answer, &err);
            if (knows_the_rules(table[row].name)) assert_int_equal(result, feasible);
            if (result != STATUS_OK) {
                assert_int_equal(result, STATUS_INFEASIBLE);
                continue;
            }
            answered++;
            assert_true(answer.bottleneck_lower_bound_ns <= answer.bottleneck_ns);
            if (answer.first_layer == NULL) continue;
            bal_chain chain;
            assert_ok(bal_chain_of(&problem, memory, &chain, &err));
            assert_ok(bal_chain_check(&chain, answer.first_layer, &err));
            if (strcmp(table[row].name, "partition") == 0) assert_true(answer.optimal);
        }
    }
    assert_true(answered > 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(partition_meets_the_recorded_optima),
        cmocka_unit_test(weights_close_to_the_end_of_int64_are_exact),
        cmocka_unit_test(diffusion_published_makes_the_recorded_transfers),
        cmocka_unit_test(algorithm_3_is_stuck_at_twice_the_optimum_on_the_tight_family),
        cmocka_unit_test(algorithm_3_needs_half_as_many_moves_as_unit_layers_on_two_ranks),
        cmocka_unit_test(a_layer_without_weight_blocks_its_rank_in_algorithm_3),
        cmocka_unit_test(algorithm_3_stays_below_twice_the_bound_where_layers_weigh_something),
        cmocka_unit_test(diffusion_coded_moves_a_layer_away_and_back_out_of_order),
        cmocka_unit_test(diffusion_coded_sends_the_layer_in_front_of_the_lightest),
        cmocka_unit_test(diffusion_coded_can_end_worse_than_it_began),
        cmocka_unit_test(even_counts_transformer_layers_only),
        cmocka_unit_test(tuned_counts_embedding_and_head),
        cmocka_unit_test(parameters_minimises_the_spread_and_misses_the_optimum),
        cmocka_unit_test(parameters_legacy_keeps_the_faults_of_the_original),
        cmocka_unit_test(counted_layers_are_cut_as_deepspeed_cuts_a_type),
        cmocka_unit_test(parameters_legacy_says_where_the_original_never_ends),
        cmocka_unit_test(chain_diffusion_rounds_the_flow_and_searches_locally),
        cmocka_unit_test(chain_diffusion_is_within_one_layer_of_the_mean),
        cmocka_unit_test(makespan_follows_its_evaluator),
        cmocka_unit_test(makespan_tries_small_first_chunks_that_no_step_leads_to),
        cmocka_unit_test(makespan_without_a_working_evaluator_is_refused),
        cmocka_unit_test(every_contiguous_balancer_keeps_the_rules_and_its_bound),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
