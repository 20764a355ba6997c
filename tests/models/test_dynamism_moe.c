/// The case moe: the straggler against tokens per expert, where there is no imbalance at all,
/// links, groups of replicas, determinism and bad input.
#include "balance/costs/machine.h"
#include "tests/models/dynamism_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TRACE_EXPERTS "'experts':4,'top_k':2,'tokens':3001"

/// Mixtral on H100s under these degrees, in place of the fixture's base.
static void use_mixtral(int data, int expert)
{
    const model_training training = {.sequence_length = 2048,
                                     .microbatch_size = 2,
                                     .parallel = {.data = data, .expert = expert}};
    model_costs *costs = arena_array(fixture->memory, 1, sizeof *costs);
    require(model_costs_from_files("mixtral-8x7b", "models/plain-h100.json", &training,
                                   fixture->memory, costs, &why));
    model_layer_shares_of_costs(costs, fixture->memory, &fixture->shares);
    fixture->costs = costs->layers;
    fixture->base.source.layer_count = costs->layers.layer_count;
    fixture->base.transformer_end = costs->layers.layer_count - 1;
    fixture->base.config = &costs->config;
    fixture->base.shape = &costs->shape;
    fixture->base.hardware = &costs->hardware;
    fixture->base.parallel = (model_parallel){.data = data, .expert = expert};
}

static model_expert_tokens tokens_of(model_dynamism *moe, int iteration, int replica)
{
    model_expert_tokens tokens;
    require(model_dynamism_expert_tokens(moe, iteration, replica, &tokens, &why));
    return tokens;
}

/// Largest sum over rank_count runs of experts over its mean.
static double straggler_of(const int64_t *tokens, int experts, int rank_count)
{
    int64_t total = 0;
    int64_t highest = 0;
    for (int rank = 0; rank < rank_count; rank++) {
        int64_t sum = 0;
        for (int expert = 0; expert < experts / rank_count; expert++) {
            sum += tokens[rank * (experts / rank_count) + expert];
        }
        total += sum;
        highest = sum > highest ? sum : highest;
    }
    return (double)highest * rank_count / (double)total;
}

FIXTURE_TEST(the_mlp_waits_for_the_busiest_rank)
{
    fixture->base.microbatch_count = 1;
    fixture->base.parallel = (model_parallel){.data = 2, .expert = 2};
    model_dynamism *moe = fixture_open("{'case':'moe'," TRACE_EXPERTS "}");

    for (int iteration = 0; iteration < 200; iteration++) {
        const bal_layer_costs costs = fixture_costs(moe, 0, iteration);
        const model_expert_tokens tokens = tokens_of(moe, iteration, 0);
        assert_int_equal(tokens.expert_count, 4);
        for (int layer = 1; layer < 5; layer++) {
            const double straggler = straggler_of(tokens.tokens + 4 * layer, 4, 2);
            assert_true(straggler >= 1);
            fixture_times(&costs, layer, lround(1000 + 500 * (straggler - 1)),
                          lround(2000 + 800 * (straggler - 1)),
                          lround(800 + 500 * (straggler - 1)));
        }
        assert_int_equal(costs.forward_ns[0], 70);
        assert_int_equal(costs.forward_ns[5], 70);
        assert_int_equal(costs.state_bytes[2], 1600);
        assert_int_equal(costs.message_bytes[2], 1600);
        assert_true(fixture->changed);
    }
}

/// Blocks 1 and 3 take a quarter of the tokens, and their experts wait for the busiest rank of it.
FIXTURE_TEST(depths_hand_the_tokens_that_take_part_to_experts)
{
    fixture->base.microbatch_count = 1;
    fixture->base.parallel = (model_parallel){.data = 2, .expert = 2};
    model_dynamism *both =
        fixture_open("{'case':'mod','capacity_ratio':0.25,'moe':{" TRACE_EXPERTS "}}");

    for (int iteration = 0; iteration < 100; iteration++) {
        const bal_layer_costs costs = fixture_costs(both, 0, iteration);
        const model_expert_tokens tokens = tokens_of(both, iteration, 0);
        for (int layer = 1; layer < 5; layer++) {
            const double share = layer % 2 == 0 ? 0.25 : 1;
            const double straggler = straggler_of(tokens.tokens + 4 * layer, 4, 2);
            const double core = share * share;
            int64_t sum = 0;
            for (int expert = 0; expert < 4; expert++) {
                sum += tokens.tokens[4 * layer + expert];
            }
            assert_int_equal(sum, 2 * lround(2 * 3001 * share));
            assert_int_equal(costs.forward_ns[layer],
                             lround(share * (400 + 500 * straggler) + 100 * core));
            assert_int_equal(costs.backward_input_ns[layer],
                             lround(share * (800 + 800 * straggler) + 400 * core));
            assert_int_equal(costs.backward_weight_ns[layer],
                             lround(share * (300 + 500 * straggler)));
        }
        assert_true(fixture->changed);
    }
}

FIXTURE_TEST(what_a_balanced_assignment_leaves_is_spread_as_chosen_tokens_are)
{
    fixture->base.parallel = (model_parallel){.data = 2, .expert = 2};
    const model_expert_tokens chosen =
        tokens_of(fixture_open("{'case':'moe','spread_ratio':0.7," TRACE_EXPERTS "}"), 17, 0);
    int64_t wanted[4 * FIXTURE_LAYERS];
    memcpy(wanted, chosen.tokens, sizeof wanted);
    const model_expert_tokens left = tokens_of(
        fixture_open("{'case':'moe','routing':'s-base','spread_ratio':0.7," TRACE_EXPERTS "}"), 17,
        0);

    assert_memory_equal(left.tokens, wanted, sizeof wanted);
    assert_true(wanted[4] != wanted[5]);
}

/// Tokens of all experts of a layer in an iteration.
static int64_t group_tokens(int *source_count)
{
    model_dynamism *moe = fixture_open("{'case':'moe','routing':'s-base'," TRACE_EXPERTS "}");
    const model_expert_tokens tokens = tokens_of(moe, 0, 0);
    *source_count = model_dynamism_source_count(moe);
    int64_t sum = 0;
    for (int expert = 0; expert < 4; expert++) {
        sum += tokens.tokens[4 + expert];
    }
    return sum / FIXTURE_MICROBATCHES;
}

FIXTURE_TEST(experts_folded_over_tensor_ranks_meet_tokens_of_fewer_replicas)
{
    int sources = 0;
    // 4 groups of 2 tensor ranks, or 4 of the 8 ranks of as many replicas: half of the tokens.
    fixture->base.parallel = (model_parallel){.data = 4, .tensor = 2, .expert = 4};
    assert_int_equal(group_tokens(&sources), 4 * 2 * 3001);
    fixture->base.parallel.expert_tensor = 1;
    assert_int_equal(group_tokens(&sources), 2 * 2 * 3001);
    // All 4 in one replica of 8 tensor ranks: two groups, whose tokens are the replica's.
    fixture->base.parallel =
        (model_parallel){.data = 1, .tensor = 8, .expert = 4, .expert_tensor = 1};
    assert_true(llabs(group_tokens(&sources) - 2 * 3001) <= 2);
    assert_int_equal(sources, 1);
}

FIXTURE_TEST(without_expert_parallelism_layers_stay_alike)
{
    fixture->base.parallel.data = 4;
    model_dynamism *moe = fixture_open("{'case':'moe','spread_ratio':5," TRACE_EXPERTS "}");

    assert_int_equal(model_dynamism_source_count(moe), 1);
    for (int iteration = 0; iteration < 10; iteration++) {
        const bal_layer_costs costs = fixture_costs(moe, 0, iteration);
        assert_int_equal(fixture->changed, iteration == 0);
        assert_int_equal(costs.microbatch_count, 1);
        assert_memory_equal(costs.forward_ns, fixture->forward_ns, sizeof fixture->forward_ns);
        assert_memory_equal(costs.backward_input_ns, fixture->backward_input_ns,
                            sizeof fixture->backward_input_ns);
        assert_memory_equal(costs.backward_weight_ns, fixture->backward_weight_ns,
                            sizeof fixture->backward_weight_ns);
    }
}

FIXTURE_TEST(the_busiest_rank_also_delays_the_all_to_alls)
{
    use_mixtral(16, 8);
    fixture->base.microbatch_count = 1;
    const model_hardware *hardware = fixture->base.hardware;
    const bal_group group = model_parallel_groups(&fixture->base.parallel, hardware).expert;
    const int64_t bytes = INT64_C(4096) * 2 * 4096 * 2; // tokens x k x hidden x 2
    model_dynamism *with_links = fixture_open("{'case':'moe'}");
    fixture->base.hardware = NULL;
    model_dynamism *without = fixture_open("{'case':'moe'}");

    const bal_layer_costs slow = fixture_costs(with_links, 1, 9);
    const bal_layer_costs fast = fixture_costs(without, 1, 9);

    const model_expert_tokens tokens = tokens_of(with_links, 9, 1);
    for (int layer = 1; layer < 33; layer++) {
        const double straggler = straggler_of(tokens.tokens + 8 * layer, 8, 8);
        const int64_t received = (int64_t)((double)bytes * straggler + 0.5);
        const int64_t excess = 2 * (bal_group_all_to_all_ns(&group, received) -
                                    bal_group_all_to_all_ns(&group, bytes));
        assert_true(excess > 0);
        assert_int_equal(slow.forward_ns[layer] - fast.forward_ns[layer], excess);
        assert_int_equal(slow.backward_input_ns[layer] - fast.backward_input_ns[layer], excess);
        assert_int_equal(slow.backward_weight_ns[layer], fast.backward_weight_ns[layer]);
    }
}

FIXTURE_TEST(recomputed_layers_exchange_again_in_the_backward)
{
    use_mixtral(8, 8);
    fixture->base.microbatch_count = 1;
    model_shape full = *fixture->base.shape;
    full.parallel.recompute = MODEL_RECOMPUTE_FULL;
    int64_t excess[2][2];
    for (int recomputes = 0; recomputes < 2; recomputes++) {
        const model_hardware *hardware = fixture->base.hardware;
        if (recomputes == 1) fixture->base.shape = &full;
        if (recomputes == 1) fixture->base.parallel.recompute = MODEL_RECOMPUTE_FULL;
        const bal_layer_costs slow = fixture_costs(fixture_open("{'case':'moe'}"), 0, 2);
        fixture->base.hardware = NULL;
        const bal_layer_costs fast = fixture_costs(fixture_open("{'case':'moe'}"), 0, 2);
        fixture->base.hardware = hardware;
        excess[recomputes][0] = slow.forward_ns[7] - fast.forward_ns[7];
        excess[recomputes][1] = slow.backward_input_ns[7] - fast.backward_input_ns[7];
    }

    assert_true(excess[0][0] > 0);
    assert_int_equal(excess[0][1], excess[0][0]);
    assert_int_equal(excess[1][0], excess[0][0]);
    assert_int_equal(excess[1][1], 2 * excess[0][0]);
}

FIXTURE_TEST(replicas_of_a_group_share_their_loads)
{
    const struct {
        model_parallel parallel;
        int source_count;
    } cases[] = {{{.data = 8, .expert = 8}, 1},
                 {{.data = 8, .expert = 2}, 4},
                 {{.data = 8, .expert = 1}, 1},
                 {{.data = 4, .context = 2, .expert = 4}, 2},
                 {{.data = 4, .context = 4, .expert = 2}, 4}};
    for (size_t at = 0; at < sizeof cases / sizeof cases[0]; at++) {
        use_mixtral(1, 1);
        fixture->base.parallel = cases[at].parallel;
        assert_int_equal(model_dynamism_source_count(fixture_open("{'case':'moe'}")),
                         cases[at].source_count);
    }
    fixture->base.parallel = (model_parallel){.data = 8, .expert = 2};
    model_dynamism *moe = fixture_open("{'case':'moe'}");
    const int64_t first = fixture_costs(moe, 0, 4).forward_ns[FIXTURE_MICROBATCHES];
    assert_true(first != fixture_costs(moe, 3, 4).forward_ns[FIXTURE_MICROBATCHES]);
}

FIXTURE_TEST(the_published_load_is_that_of_the_busiest_expert)
{
    int64_t load_ns[FIXTURE_LAYERS];
    fixture->base.microbatch_count = 1;
    fixture->base.parallel = (model_parallel){.data = 2, .expert = 2};
    model_dynamism *moe = fixture_open("{'case':'moe','load_model':'published'," TRACE_EXPERTS "}");

    const bal_layer_costs costs = fixture_costs(moe, 0, 3);
    assert_ok(model_dynamism_published_load(moe, 3, 0, load_ns, NULL));

    const model_expert_tokens tokens = tokens_of(moe, 3, 0);
    for (int layer = 1; layer < 5; layer++) {
        const double busiest = straggler_of(tokens.tokens + 4 * layer, 4, 4);
        fixture_times(&costs, layer, lround(1000 * busiest), lround(2000 * busiest),
                      lround(800 * busiest));
        assert_int_equal(load_ns[layer], lround(3800 * busiest));
    }
    assert_int_equal(load_ns[0], 270);
}

FIXTURE_TEST(iterations_in_any_order_have_the_same_bytes)
{
    use_mixtral(8, 2);

    fixture_any_order("{'case':'mod','predictor_error_ratio':0.1,'moe':{"
                      "'drift_iterations':30}}",
                      60);
    fixture_any_order("{'case':'moe','drift_iterations':30}", 100);
    fixture_any_order("{'case':'moe','drift_iterations':0}", 20);
}

FIXTURE_TEST(the_same_seed_gives_the_same_bytes_everywhere)
{
    fixture->base.parallel = (model_parallel){.data = 4, .expert = 2};
    const char *text = "{'case':'moe','drift_iterations':100,'seed':42," TRACE_EXPERTS "}";

    const uint64_t first = fixture_checksum(fixture_open(text), 0, 1000);
    const uint64_t second = fixture_checksum(fixture_open(text), 1, 1000);

    assert_true(first == fixture_checksum(fixture_open(text), 0, 1000));
    assert_int_equal(first, UINT64_C(0x1cdaca41209577c0));
    assert_int_equal(second, UINT64_C(0x5fd4e1761986417e));
}

static const char *write_file(const char *text)
{
    char path[64];
    snprintf(path, sizeof path, "%s/dynmo-moe-XXXXXX", P_tmpdir);
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    assert_ok(file_write(path, text, strlen(text), NULL));
    return arena_string(fixture->memory, path);
}

/// Counts of four layers in iterations 10 and 20, one row for all microbatches.
static const char recorded_csv[] =
    "iteration,layer,microbatch,expert_0,expert_1,expert_2,expert_3\n"
    "10,0,0,10,20,30,40\n10,1,0,25,25,25,25\n"
    "10,2,0,97,1,1,1\n10,3,0,0,50,0,50\n"
    "20,0,0,25,25,25,25\n20,1,0,40,30,20,10\n"
    "20,2,0,1,1,1,97\n20,3,0,0,60,0,40\n";

FIXTURE_TEST(recorded_counts_hold_until_the_next_sample)
{
    char text[512];
    fixture->base.parallel = (model_parallel){.data = 2, .expert = 2};
    const char *path = write_file(recorded_csv);
    snprintf(text, sizeof text,
             "{'case':'moe','counts':'%s','counted_tokens':50," TRACE_EXPERTS "}", path);
    model_dynamism *moe = fixture_open(text);
    unlink(path);

    const int64_t first[] = {70, 1200, 1000, 1480, 1000, 70};
    const int64_t second[] = {70, 1000, 1200, 1480, 1100, 70};
    assert_int_equal(model_dynamism_source_count(moe), 1);
    for (int iteration = 0; iteration < 40; iteration++) {
        const bal_layer_costs costs = fixture_costs(moe, 0, iteration);
        assert_int_equal(fixture->changed, iteration == 0 || iteration == 20);
        assert_int_equal(costs.microbatch_count, 1);
        assert_memory_equal(costs.forward_ns, iteration < 20 ? first : second, sizeof first);
    }
    const model_expert_tokens tokens = tokens_of(moe, 12, 0);
    assert_int_equal(tokens.tokens[4], 10 * FIXTURE_MICROBATCHES);
    assert_int_equal(tokens.tokens[15], 1 * FIXTURE_MICROBATCHES);
    assert_int_equal(fixture_assumption(moe, "dynamism.counts")->origin.kind,
                     MODEL_ORIGIN_MEASURED);
}

FIXTURE_TEST(recorded_counts_of_megatron_are_joined)
{
    char text[1024];
    fixture->base.microbatch_count = 2;
    fixture->base.parallel = (model_parallel){.data = 2, .expert = 2};
    const char *const files[] = {
        write_file("{\"iter\":5,\"block\":\"decoder\",\"layer\":0,\"tpe\":[[1,2],[3,4]]}\n"
                   "{\"iter\":5,\"block\":\"decoder\",\"layer\":1,\"tpe\":[[5,5],[5,5]]}\n"),
        write_file("{\"iter\":5,\"block\":\"decoder\",\"layer\":0,\"tpe\":[[3,4],[2,1]]}\n"
                   "{\"iter\":5,\"block\":\"decoder\",\"layer\":1,\"tpe\":[[5,5],[0,0]]}\n"),
        write_file(
            "{\"iter\":5,\"block\":\"decoder\",\"layer\":0,\"tpe\":[[9,0,0,1],[1,0,0,9]]}\n"
            "{\"iter\":5,\"block\":\"decoder\",\"layer\":1,\"tpe\":[[1,1,1,1],[1,1,1,1]]}\n"),
    };
    snprintf(text, sizeof text,
             "{'case':'moe','counts':{'megatron':[{'first_layer':0,'files':['%s','%s']},"
             "{'first_layer':2,'files':['%s']}]}," TRACE_EXPERTS "}",
             files[0], files[1], files[2]);
    const bal_layer_costs costs = fixture_costs(fixture_open(text), 0, 0);
    for (int file = 0; file < 3; file++) {
        unlink(files[file]);
    }

    const int64_t expected[] = {70, 70, 1200, 1200, 1000, 1500, 1400, 1400, 1000, 1000, 70, 70};
    assert_int_equal(costs.microbatch_count, 2);
    assert_memory_equal(costs.forward_ns, expected, sizeof expected);
}

FIXTURE_TEST(counts_and_drawn_routing_exclude_each_other)
{
    fixture_unknown("{'case':'moe','counted_tokens':9," TRACE_EXPERTS "}", "counted_tokens");
    fixture_refused("{'case':'moe','counts':'/nowhere/x'," TRACE_EXPERTS "}", STATUS_IO,
                    "study.json: counts: /nowhere/x: No such file or directory");
    fixture_refused("{'case':'moe','counts':{'megatron':[]}," TRACE_EXPERTS "}", STATUS_FORMAT,
                    "study.json: counts.megatron: not an array of 1 to 4096 stages");
    fixture_refused(
        "{'case':'moe','counts':{'megatron':[{'first_layer':0,'files':[]}]}," TRACE_EXPERTS "}",
        STATUS_FORMAT, "study.json: counts.megatron[0].files: not an array of 1 to 1024 files");
    fixture_refused("{'case':'moe','counts':{'megatorn':[]}," TRACE_EXPERTS "}", STATUS_FORMAT,
                    "study.json: counts: unknown key 'megatorn'; did you mean 'megatron'?");
}

FIXTURE_TEST(what_is_wrong_is_named)
{
    fixture_refused("{'case':'moe','experts':4,'top_k':2}", STATUS_INVALID,
                    "study.json: case 'moe' over a trace needs 'tokens', or the model named beside "
                    "it");
    fixture_refused("{'case':'moe','experts':4,'top_k':5,'tokens':3}", STATUS_FORMAT,
                    "study.json: top_k: 5 is outside [1, 4]");
    fixture_refused("{'case':'moe','routing':'tokenchoice'}", STATUS_INVALID,
                    "study.json: case 'moe' over a trace needs 'experts', or the model named "
                    "beside it");
    fixture_refused("{'case':'moe','routing':'token-choise'," TRACE_EXPERTS "}", STATUS_FORMAT,
                    "study.json: routing: unknown routing 'token-choise'; did you mean "
                    "'token-choice'?");
    fixture_unknown("{'case':'moe','routing':'expert-choice','spread_ratio':1," TRACE_EXPERTS "}",
                    "spread_ratio");
    fixture_refused("{'case':'moe','experts':4,'top_k':4,'tokens':1073741824}", STATUS_INVALID,
                    "case 'moe': 1073741824 tokens of a group x top_k 4 exceed 2147483647");
    fixture->base.parallel = (model_parallel){.data = 2, .tensor = 2, .expert_tensor = 4};
    fixture_refused("{'case':'moe'," TRACE_EXPERTS "}", STATUS_INVALID,
                    "case 'moe': expert_tensor 4 does not divide tensor 2");
    fixture->base.parallel = (model_parallel){.data = 3, .expert = 3};
    fixture_refused("{'case':'moe'," TRACE_EXPERTS "}", STATUS_INVALID,
                    "case 'moe': expert 3 must divide the 4 experts and data 3 x context 1, "
                    "and divide context or be a multiple of it");
    fixture->base.parallel = (model_parallel){.data = 1};
    fixture_unknown("{'case':'mod','moe':{'spread':1," TRACE_EXPERTS "}}", "spread");
    use_mixtral(8, 8);
    fixture_unknown("{'case':'moe','experts':8}", "experts");
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
