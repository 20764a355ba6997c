/// The event engine on networks that resist: blocking and rendezvous sends, shared links, late
/// messages. Against the plainest player, against published numbers, and by hand.
#include "balance/metrics.h"
#include "sim/costs.h"
#include "sim/dispatch.h"
#include "tests/assert_close.h"
#include "tests/balance/reference_player.h"
#include "tests/sim/random_schedules.h"
#include "tests/sim/reference_network.h"
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
    network.forward_link = random_links(generator, stages, network.link_count);
    network.backward_link = random_links(generator, stages, network.link_count);
    network.forward_occupancy_ns = random_occupancy(generator, costs->send_forward_ns, stages);
    network.backward_occupancy_ns = random_occupancy(generator, costs->send_backward_ns, stages);
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

static void every_policy_on_every_network_plays_as_the_plainest_player_does(void **state)
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
                     sim_policy_name(policy), bal_send_names[send]);
        }
        if (ends) assert_within(&drawn, &actual, seed);
        arena_reset(memory);
    }
    assert_true(stuck > 100);
    assert_true(paired > 1000);
}

static void only_rendezvous_in_a_fixed_order_can_get_stuck(void **state)
{
    int stuck = 0;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        status ended[SIM_POLICY_COUNT];
        for (int policy = 0; policy < SIM_POLICY_COUNT; policy++) {
            const bal_send send = (bal_send)(seed % BAL_SEND_COUNT);
            network_case drawn = draw(seed, (sim_policy)policy, send);
            bal_timeline timeline;
            if (policy == SIM_STATIC) drawn.has_limit = false;

            ended[policy] = play_case(&drawn, (sim_policy)policy, &timeline, NULL);

            if (send != BAL_SEND_RENDEZVOUS || policy == SIM_GREEDY) {
                assert_ok(ended[policy]);
            }
        }
        // A W that may move never holds up a message that it did not hold up in its place.
        if (ended[SIM_STATIC] == STATUS_OK) assert_ok(ended[SIM_FLOATING_W]);
        stuck += ended[SIM_STATIC] != STATUS_OK;
        arena_reset(memory);
    }
    assert_true(stuck > 100);
}

/// Two ranks of one stage each, three microbatches at most, every op 10 ns, messages send_ns.
static bal_timeline play_two_ranks(const char *const *names, int per_rank, const sim_network *net,
                                   int64_t send_ns, status *played, error_message *err)
{
    int *first_op = arena_array(memory, 3, sizeof *first_op);
    bal_op *ops = arena_array(memory, 2 * (size_t)per_rank, sizeof *ops);
    bal_schedule *schedule = arena_array(memory, 1, sizeof *schedule);
    bal_stage_costs *costs = arena_array(memory, 1, sizeof *costs);
    const int64_t memory_fbw[] = {1, 0, -1};
    bal_timeline timeline = {0};
    sim_dispatch *dispatch = NULL;
    for (int op = 0; op < 2 * per_rank; op++) {
        assert_ok(bal_op_parse(names[op], &ops[op], NULL));
    }
    first_op[1] = per_rank;
    first_op[2] = 2 * per_rank;
    *schedule = (bal_schedule){.name = "by hand",
                               .rank_count = 2,
                               .chunk_count = 1,
                               .microbatch_count = per_rank / 2,
                               .first_op = first_op,
                               .ops = ops};
    *costs = reference_uniform_costs(2, 10, 5, 5, send_ns, memory_fbw);
    assert_ok(sim_dispatch_create(schedule, SIM_STATIC, net, memory, &dispatch, NULL));
    *played = sim_dispatch_play(dispatch, costs, NULL, NULL, &timeline, err);
    return timeline;
}

static void timelines_by_hand(void **state)
{
    static const char *const pairs[] = {"F0", "F1", "BW0", "BW1", "F0", "BW0", "F1", "BW1"};
    static const char *const three[] = {"F0", "F1",  "F2", "BW0", "BW1", "BW2",
                                        "F0", "BW0", "F1", "BW1", "F2",  "BW2"};
    static const int link[] = {0, 0};
    static const int64_t occupancy_ns[] = {28, 28};
    static const sim_network blocking = {.send = BAL_SEND_BLOCKING};
    static const sim_network rendezvous = {.send = BAL_SEND_RENDEZVOUS};
    static const sim_network shared = {.link_count = 1,
                                       .forward_link = link,
                                       .backward_link = link,
                                       .forward_occupancy_ns = occupancy_ns,
                                       .backward_occupancy_ns = occupancy_ns};
    static const struct {
        const char *const *names;
        int per_rank;
        const sim_network *network;
        int64_t send_ns;
        int64_t begin_ns[12];
    } cases[] = {
        // A blocking sender begins its next op when its message has arrived.
        {pairs, 4, &blocking, 3, {0, 13, 36, 59, 13, 23, 36, 46}},
        // A rendezvous waits for the op that receives it, and exchanges F1 and BW0 at once.
        {pairs, 4, &rendezvous, 3, {0, 13, 36, 59, 13, 23, 36, 46}},
        // F1 ends at 23 and is received after BW0 of rank 1, from 33 to 36; BW0's message then
        // waits for F2 of rank 0 to end, from 46 to 49; F2's for BW1 of rank 1, from 69 to 72.
        {three, 6, &rendezvous, 3, {0, 13, 36, 72, 85, 108, 13, 23, 49, 59, 85, 95}},
        // A message takes 30 and holds the link for 28: F0 from 10, F1 from 38 instead of 20, BW0
        // from 66 instead of 60, BW1 from 94 instead of 88.
        {pairs, 4, &shared, 30, {0, 10, 96, 124, 40, 50, 68, 78}},
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        status played;
        const bal_timeline timeline =
            play_two_ranks(cases[index].names, cases[index].per_rank, cases[index].network,
                           cases[index].send_ns, &played, NULL);

        assert_ok(played);
        assert_memory_equal(timeline.begin_ns, cases[index].begin_ns,
                            2 * (size_t)cases[index].per_rank * sizeof(int64_t));
    }
}

static void an_order_that_gets_stuck_by_rendezvous_is_invalid_and_names_the_ring(void **state)
{
    static const char *const crossed[] = {"F0", "F1", "BW0", "BW1", "F0", "F1", "BW1", "BW0"};
    const sim_network network = {.send = BAL_SEND_RENDEZVOUS};
    status played;

    const bal_timeline timeline = play_two_ranks(crossed, 4, &network, 3, &played, &why);

    assert_int_equal(played, STATUS_INVALID);
    assert_string_equal(why.message,
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
static void bubbles_of_asynchronous_and_blocking_sends_are_those_of_a_reference(void **state)
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

        assert_true(async - cases[index].async < 0.51 * cases[index].digit);
        assert_true(cases[index].async - async < 0.51 * cases[index].digit);
        assert_true(blocking - cases[index].blocking < 0.51 * cases[index].digit);
        assert_true(cases[index].blocking - blocking < 0.51 * cases[index].digit);
        arena_reset(memory);
    }
}

static void links_and_occupancies_outside_their_limits_are_invalid(void **state)
{
    static const int64_t memory_fbw[] = {1, 0, -1};
    static const int good[] = {0, -1, 0};
    static const int bad[] = {0, 1, 7};
    static const int64_t held_ns[] = {5, 5, 5};
    static const int64_t long_ns[] = {6, 6, 6};
    const bal_schedule schedule = reference_build("1f1b", 3, 3, 1);
    const bal_stage_costs costs = reference_uniform_costs(3, 1, 1, 1, 5, memory_fbw);
    sim_network network = {.link_count = 1,
                           .forward_link = bad,
                           .backward_link = good,
                           .forward_occupancy_ns = held_ns,
                           .backward_occupancy_ns = long_ns};
    sim_dispatch *dispatch = NULL;
    bal_timeline timeline = {0};

    assert_fails(sim_network_check(&schedule, &costs, &network, &why), STATUS_INVALID,
                 "forward_link of stage 1 is 1, outside [-1, 0]");
    network.forward_link = good;
    assert_ok(sim_dispatch_create(&schedule, SIM_STATIC, &network, memory, &dispatch, NULL));
    assert_fails(sim_dispatch_play(dispatch, &costs, NULL, NULL, &timeline, &why), STATUS_INVALID,
                 "backward_occupancy_ns of stage 2 is 6, outside [0, 5]: its "
                 "message takes no longer");
    assert_null(timeline.begin_ns);
    network.backward_occupancy_ns = held_ns;
    assert_ok(sim_network_check(&schedule, &costs, &network, &why));
    assert_ok(sim_network_check(&schedule, &costs, NULL, &why));
}

static void a_dispatch_that_is_given_another_network_plays_as_a_new_one(void **state)
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

static void sends_are_named_as_in_the_commands(void **state)
{
    bal_send send = BAL_SEND_COUNT;

    for (int index = 0; index < BAL_SEND_COUNT; index++) {
        assert_ok(bal_send_parse(bal_send_names[index], &send, &why));
        assert_int_equal(send, index);
    }
    assert_fails(bal_send_parse("block", &send, &why), STATUS_INVALID,
                 "send 'block' is none of async, blocking and rendezvous");
    assert_int_equal(send, BAL_SEND_RENDEZVOUS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_policy_on_every_network_plays_as_the_plainest_player_does),
        cmocka_unit_test(only_rendezvous_in_a_fixed_order_can_get_stuck),
        cmocka_unit_test(timelines_by_hand),
        cmocka_unit_test(an_order_that_gets_stuck_by_rendezvous_is_invalid_and_names_the_ring),
        cmocka_unit_test(bubbles_of_asynchronous_and_blocking_sends_are_those_of_a_reference),
        cmocka_unit_test(links_and_occupancies_outside_their_limits_are_invalid),
        cmocka_unit_test(a_dispatch_that_is_given_another_network_plays_as_a_new_one),
        cmocka_unit_test(sends_are_named_as_in_the_commands),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
