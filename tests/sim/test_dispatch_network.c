/// The event engine on networks that resist: blocking and rendezvous sends, shared links, late
/// messages. Against the plainest player, against published numbers, and by hand.
#include "balance/metrics.h"
#include "sim/costs.h"
#include "sim/dispatch.h"
#include "tests/balance/reference_player.h"
#include "tests/sim/random_schedules.h"
#include "tests/sim/reference_network.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <string.h>

/// A problem on a network of up to 3 links.
typedef struct network_case {
    random_problem problem;
    sim_network network;
    int64_t limit[5];
    bool has_limit;
    int64_t start_ns[5];
    bool has_start;
} network_case;

static const int *random_links(rng *generator, int stage_count, int link_count)
{
    int *links = arena_array(memory, (size_t)stage_count, sizeof *links);
    for (int stage = 0; stage < stage_count; stage++) {
        links[stage] = (int)rng_between(generator, -1, link_count - 1);
    }
    return links;
}

static const int64_t *random_occupancy(rng *generator, const int64_t *send_ns, int stage_count)
{
    int64_t *occupancy = arena_array(memory, (size_t)stage_count, sizeof *occupancy);
    for (int stage = 0; stage < stage_count; stage++) {
        occupancy[stage] = rng_between(generator, 0, send_ns[stage]);
    }
    return occupancy;
}

static sim_network random_network(rng *generator, const bal_stage_costs *costs, bal_send send)
{
    const int stages = costs->stage_count;
    sim_network network = {.send = send, .link_count = (int)rng_below(generator, 4)};
    if (network.link_count == 0) return network;
    network.link[0] = random_links(generator, stages, network.link_count);
    network.link[1] = random_links(generator, stages, network.link_count);
    network.occupancy_ns[0] = random_occupancy(generator, costs->send_forward_ns, stages);
    network.occupancy_ns[1] = random_occupancy(generator, costs->send_backward_ns, stages);
    return network;
}

/// A limit that every policy can keep, with up to 4 more.
static int64_t random_limit(rng *generator, const random_problem *problem, int rank)
{
    const bal_schedule *schedule = &problem->schedule;
    const bal_stage_costs *costs = &problem->costs;
    int64_t static_peak[5];
    int64_t most = 0; // all that the rank could ever hold
    bal_memory_peak(schedule, costs, static_peak);
    for (int chunk = 0; chunk < schedule->chunk_count; chunk++) {
        const int stage = bal_stage_of(schedule->placement, schedule->rank_count,
                                       schedule->chunk_count, rank, chunk);
        const int64_t forward = costs->memory_forward[stage];
        const int64_t backward = forward + costs->memory_backward_input[stage];
        most += (forward > backward ? forward : backward) * schedule->microbatch_count;
    }
    return rng_below(generator, 2) == 0 ? most : static_peak[rank] + rng_between(generator, 0, 4);
}

static network_case draw(uint64_t seed, sim_policy policy, bal_send send)
{
    rng generator = rng_init(seed, 12);
    network_case drawn = {.problem = random_problem_draw(seed)};
    bal_stage_costs *costs = &drawn.problem.costs;
    const int ranks = drawn.problem.schedule.rank_count;
    if (rng_below(&generator, 3) == 0) random_delays(&generator, costs, 20);
    drawn.network = random_network(&generator, costs, send);
    drawn.has_start = rng_below(&generator, 3) == 0;
    drawn.has_limit = rng_below(&generator, 3) > 0;
    for (int rank = 0; rank < ranks; rank++) {
        drawn.start_ns[rank] = rng_between(&generator, 0, 30);
        drawn.limit[rank] = random_limit(&generator, &drawn.problem, rank);
    }
    if (!drawn.has_limit) return drawn;
    sim_claim *claims = arena_array(memory, (size_t)costs->stage_count, sizeof *claims);
    int64_t need[5];
    for (int rank = 0; rank < ranks; rank++) {
        int64_t enough[5] = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
        assert_ok(
            sim_claims_fill(&drawn.problem.schedule, policy, costs, enough, claims, need, NULL));
        if (drawn.limit[rank] < need[rank]) drawn.limit[rank] = need[rank];
    }
    return drawn;
}

static status play_case(const network_case *drawn, sim_policy policy, bal_timeline *timeline,
                        error_message *err)
{
    sim_dispatch *dispatch = NULL;
    TRY(sim_costs_check(&drawn->problem.schedule, &drawn->problem.costs, err));
    TRY(sim_dispatch_create(&drawn->problem.schedule, policy, &drawn->network, memory, &dispatch,
                            err));
    return sim_dispatch_play(dispatch, &drawn->problem.costs,
                             drawn->has_limit ? drawn->limit : NULL,
                             drawn->has_start ? drawn->start_ns : NULL, timeline, err);
}

static bool is_same_play(const bal_timeline *a, const bal_timeline *b)
{
    const size_t ops = (size_t)a->schedule->first_op[a->schedule->rank_count];
    return memcmp(a->begin_ns, b->begin_ns, ops * sizeof(int64_t)) == 0 &&
           memcmp(a->end_ns, b->end_ns, ops * sizeof(int64_t)) == 0 &&
           memcmp(a->schedule->ops, b->schedule->ops, ops * sizeof(bal_op)) == 0;
}

static void assert_within(const network_case *drawn, const bal_timeline *timeline, uint64_t seed)
{
    int64_t peak[5];
    bal_memory_peak(timeline->schedule, &drawn->problem.costs, peak);
    for (int rank = 0; drawn->has_limit && rank < timeline->schedule->rank_count; rank++) {
        if (peak[rank] <= drawn->limit[rank]) continue;
        fail_msg("seed %llu: rank %d holds %lld of %lld", (unsigned long long)seed, rank,
                 (long long)peak[rank], (long long)drawn->limit[rank]);
    }
}

TEST(every_policy_on_every_network_plays_as_the_plainest_player_does)
{
    int stuck = 0;
    int paired = 0;
    for (uint64_t seed = 0; seed < 9000; seed++) {
        const sim_policy policy = (sim_policy)(seed % SIM_POLICY_COUNT);
        const bal_send send = (bal_send)(seed / SIM_POLICY_COUNT % BAL_SEND_COUNT);
        network_case drawn = draw(seed, policy, send);
        rng generator = rng_init(seed, 13);
        if (policy == SIM_STATIC) drawn.has_limit = false;
        if (seed % 2 == 0) {
            if (!random_pairs(&generator, &drawn.problem.schedule)) continue;
            paired++;
        }
        bal_schedule order;
        bal_timeline expected;
        bal_timeline actual = {0};
        const bool ends =
            reference_play_network(&drawn.problem.schedule, policy, &drawn.network,
                                   &drawn.problem.costs, drawn.has_limit ? drawn.limit : NULL,
                                   drawn.has_start ? drawn.start_ns : NULL, &order, &expected);

        const status played = play_case(&drawn, policy, &actual, &why);

        stuck += !ends;
        if (played != (ends ? STATUS_OK : STATUS_INVALID)) {
            fail_msg("seed %llu: status %d: %s", (unsigned long long)seed, (int)played,
                     why.message);
        }
        if (ends && !is_same_play(&actual, &expected)) {
            fail_msg("seed %llu, %s, %s: the players differ", (unsigned long long)seed,
                     sim_policy_names[policy], bal_send_names[send]);
        }
        if (ends) assert_within(&drawn, &actual, seed);
        arena_reset(memory);
    }
    assert_true(stuck > 100);
    assert_true(paired > 1000);
}

TEST(an_order_that_gets_stuck_by_rendezvous_is_invalid_and_names_the_ring)
{
    static const char *const crossed[] = {"F0", "F1", "BW0", "BW1", "F0", "F1", "BW1", "BW0"};
    const sim_network network = {.send = BAL_SEND_RENDEZVOUS};
    const int first_op[] = {0, 4, 8};
    bal_op ops[8];
    const bal_schedule schedule = {
        .rank_count = 2, .chunk_count = 1, .microbatch_count = 2, .first_op = first_op, .ops = ops};
    const bal_stage_costs costs = reference_uniform_costs(2, 10, 5, 5, 3, (int64_t[]){1, 0, -1});
    bal_timeline timeline = {0};
    sim_dispatch *dispatch = NULL;
    for (int op = 0; op < 8; op++) {
        assert_ok(bal_op_parse(crossed[op], &ops[op], NULL));
    }
    assert_ok(sim_dispatch_create(&schedule, SIM_STATIC, &network, memory, &dispatch, NULL));

    assert_fails(sim_dispatch_play(dispatch, &costs, NULL, NULL, &timeline, &why), STATUS_INVALID,
                 "rendezvous deadlock: rank 0 BW0 waits for rank 1 BW0, behind rank 1 BW1; "
                 "rank 1 BW1 waits to be received by rank 0 BW1, behind rank 0 BW0");
    assert_null(timeline.begin_ns);
}

/// zb_bubble_rate of 8 ranks, 32 microbatches, F = B = W = 1000.
static double published_case(const char *name, int chunks, bal_send send, int64_t send_ns)
{
    const int64_t op_ns = 1000 / chunks;
    const int64_t memory_fbw[] = {1, 0, -1};
    const sim_network network = {.send = send};
    const bal_schedule schedule = reference_build(name, 8, 32, chunks);
    const bal_stage_costs costs =
        reference_uniform_costs(8 * chunks, op_ns, op_ns, op_ns, send_ns, memory_fbw);
    sim_dispatch *dispatch = NULL;
    bal_timeline timeline;
    assert_ok(sim_dispatch_create(&schedule, SIM_STATIC, &network, memory, &dispatch, NULL));
    assert_ok(sim_dispatch_play(dispatch, &costs, NULL, NULL, &timeline, NULL));
    return bal_metrics_of(&timeline).zb_bubble_rate;
}

/// Measured with a reference simulator of its own, rounded to its digits.
TEST(bubbles_of_asynchronous_and_blocking_sends_are_those_of_a_reference)
{
    static const struct {
        const char *name;
        int chunks;
        int64_t send_ns;
        double async;
        double blocking;
        double digit;
    } cases[] = {
        {"1f1b", 1, 50, 0.2027, 0.2050, 1e-4},  {"zb-h1", 1, 50, 0.0805, 0.1007, 1e-4},
        {"zb-h2", 1, 50, 0.0072, 0.0376, 1e-4}, {"interleaved-1f1b", 2, 50, 0.1111, 0.1459, 1e-4},
        {"zb-h1", 1, 200, 0.116, 0.186, 1e-3},  {"interleaved-1f1b", 2, 200, 0.147, 0.279, 1e-3},
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        const double async = published_case(cases[index].name, cases[index].chunks, BAL_SEND_ASYNC,
                                            cases[index].send_ns);
        const double blocking = published_case(cases[index].name, cases[index].chunks,
                                               BAL_SEND_BLOCKING, cases[index].send_ns);

        assert_true(fabs(async - cases[index].async) < 0.51 * cases[index].digit);
        assert_true(fabs(blocking - cases[index].blocking) < 0.51 * cases[index].digit);
        arena_reset(memory);
    }
}

TEST(a_dispatch_that_is_given_another_network_plays_as_a_new_one)
{
    int stuck = 0;
    for (uint64_t seed = 0; seed < 1500; seed++) {
        const sim_policy policy = (sim_policy)(seed % SIM_POLICY_COUNT);
        network_case drawn = draw(seed, policy, BAL_SEND_ASYNC);
        const bal_stage_costs *costs = &drawn.problem.costs;
        const int64_t *limit = drawn.has_limit && policy != SIM_STATIC ? drawn.limit : NULL;
        rng generator = rng_init(seed, 14);
        sim_dispatch *kept = NULL;
        assert_ok(sim_dispatch_create(&drawn.problem.schedule, policy, NULL, memory, &kept, NULL));
        for (int play = 0; play < 4; play++) {
            const bal_send send = (bal_send)rng_below(&generator, BAL_SEND_COUNT);
            const sim_network network = random_network(&generator, costs, send);
            sim_dispatch *fresh = NULL;
            bal_timeline actual = {0};
            bal_timeline expected = {0};
            assert_ok(sim_dispatch_create(&drawn.problem.schedule, policy, &network, memory, &fresh,
                                          NULL));
            const status played = sim_dispatch_play(fresh, costs, limit, NULL, &expected, NULL);

            sim_dispatch_set_network(kept, &network);

            assert_int_equal(sim_dispatch_play(kept, costs, limit, NULL, &actual, NULL), played);
            stuck += played != STATUS_OK;
            if (played == STATUS_OK && !is_same_play(&actual, &expected)) {
                fail_msg("seed %llu, play %d: the plays differ", (unsigned long long)seed, play);
            }
        }
        arena_reset(memory);
    }
    assert_true(stuck > 10); // the next play knows nothing of one that got stuck
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
