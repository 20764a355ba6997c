/// Tests of sim/network.h: which links the messages of a schedule cross on a machine, and
/// what training replays make of it, against iterations that are worked out by hand or played
/// apart.
#include "sim/network.h"

#include "balance/costs/placement.h"
#include "base/arena.h"
#include "sim/training_replay.h"
#include "tests/sim/table_source.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <stdlib.h>

static bal_machine machine_of(int ranks, int per_node)
{
    return (bal_machine){.rank_count = ranks,
                         .ranks_per_node = per_node,
                         .intra_node = {.latency_ns = 1},
                         .inter_node = {.latency_ns = 10, .bytes_per_s = 1000000000},
                         .shares_node_links = true};
}

static sim_network network_of(const bal_machine *machine, const bal_placed_partition *plan,
                              const bal_stage_costs *costs)
{
    sim_network network;
    sim_network_of_machine(machine, plan, costs, memory, &network);
    return network;
}

TEST(messages_that_leave_a_node_cross_its_link)
{
    const int64_t forward_ns[] = {1, 110, 1, 0};
    const int64_t backward_ns[] = {0, 1, 60, 1};
    const bal_placed_partition plan = {.rank_count = 4, .chunk_count = 1};
    const bal_stage_costs costs = {
        .stage_count = 4, .send_forward_ns = forward_ns, .send_backward_ns = backward_ns};
    const bal_machine machine = machine_of(4, 2);

    const sim_network network = network_of(&machine, &plan, &costs);

    const int forward_link[] = {-1, 0, -1, -1};
    const int backward_link[] = {-1, -1, 1, -1};
    assert_int_equal(network.send, BAL_SEND_ASYNC);
    assert_int_equal(network.link_count, 2);
    assert_memory_equal(network.link[0], forward_link, sizeof forward_link);
    assert_memory_equal(network.link[1], backward_link, sizeof backward_link);
    assert_int_equal(network.occupancy_ns[0][1], 100); // without the latency
    assert_int_equal(network.occupancy_ns[1][2], 50);
}

TEST(places_and_chunks_count_by_their_ranks_of_the_machine)
{
    const int64_t send_ns[] = {110, 110, 110, 110};
    const int machine_rank[] = {3, 1};
    const bal_placed_partition plan = {
        .rank_count = 2, .chunk_count = 2, .machine_rank = machine_rank};
    const bal_stage_costs costs = {
        .stage_count = 4, .send_forward_ns = send_ns, .send_backward_ns = send_ns};
    const bal_machine machine = machine_of(4, 2);

    const sim_network network = network_of(&machine, &plan, &costs);

    const int forward_link[] = {1, 0, 1, -1}; // stages 0 and 2 are on rank 3, of node 1
    const int backward_link[] = {-1, 0, 1, 0};
    assert_memory_equal(network.link[0], forward_link, sizeof forward_link);
    assert_memory_equal(network.link[1], backward_link, sizeof backward_link);
}

TEST(where_nothing_is_shared_there_are_no_links)
{
    const int64_t send_ns[] = {110, 110};
    const bal_placed_partition plan = {.rank_count = 2, .chunk_count = 1};
    const bal_stage_costs costs = {
        .stage_count = 2, .send_forward_ns = send_ns, .send_backward_ns = send_ns};
    bal_machine apart = machine_of(2, 1);
    const bal_machine one_node = machine_of(2, 2);
    apart.shares_node_links = false;
    apart.send = BAL_SEND_BLOCKING;

    const sim_network blocking = network_of(&apart, &plan, &costs);
    const sim_network within = network_of(&one_node, &plan, &costs);

    assert_int_equal(blocking.link_count, 0);
    assert_int_equal(blocking.send, BAL_SEND_BLOCKING);
    assert_true(sim_network_is_free(&within));
    assert_false(sim_network_is_free(&blocking));
}

static status note_end(void *context, const bal_training_iteration *iteration, error_message *err)
{
    int64_t *last_ns = context;
    const bal_timeline *timeline = iteration->timeline;
    for (int op = 0; op < timeline->schedule->first_op[timeline->schedule->rank_count]; op++) {
        if (timeline->end_ns[op] > *last_ns) *last_ns = timeline->end_ns[op];
    }
    return STATUS_OK;
}

static bool always(void *context, int iteration)
{
    return true;
}

/// The pipeline of a run of one iteration of layers that take 1000 ns of F, B and W each.
static int64_t pipeline_ns(const bal_machine *machine, const char *schedule, int microbatches,
                           int rounds)
{
    table_source *table = memory_array(1, sizeof *table);
    int64_t last_ns = 0;
    bal_training_result result;
    assert_non_null(table);
    table_source_init(table, machine->rank_count, 1);
    table_fill(table, 0, TABLE_ITERATIONS, 1000, 1000, 1000);
    const bal_training training = {
        .sources = &table->source,
        .source_count = 1,
        .machine = *machine,
        .iteration_count = 1,
        .microbatch_count = microbatches,
        .round_count = rounds,
        .schedule = schedule,
        .data_parallel = 1,
        .balancer = bal_balancer_find("even"),
        .migration = bal_migration_options_default(),
        .repack = bal_repack_options_default(),
        .sink = {.context = &last_ns, .wants_timeline = always, .put = note_end},
    };
    const status played = sim_training_replay(&training, NULL, memory, &result, &why);
    if (played != STATUS_OK) print_error("%s: %s\n", schedule, why.message);
    assert_ok(played);
    if (rounds == 1)
        assert_int_equal(last_ns, result.pipeline_ns); // the timeline is the played one
    free(table);
    return result.pipeline_ns;
}

/// GPipe, 2 ranks, 2 microbatches, messages of 100: rank 0 F0 0-1000, F1 1000-2000; rank 1 F0
/// 1100-2100, F1 -3100, BW0 -5100, BW1 -7100; rank 0 BW0 5200-7200, BW1 -9200. Where a rank is busy
/// until its message is there: F1 1100-2100; rank 1 F0 1100-2100, F1 2200-3200, BW0 -5200, BW1
/// 5300-7300; rank 0 BW0 5300-7300, BW1 7400-9400.
TEST(blocking_sends_cost_their_ranks_the_way)
{
    bal_machine machine = {.rank_count = 2, .ranks_per_node = 2, .intra_node = {.latency_ns = 100}};

    assert_int_equal(pipeline_ns(&machine, "gpipe", 2, 1), 9200);
    machine.send = BAL_SEND_BLOCKING;
    assert_int_equal(pipeline_ns(&machine, "gpipe", 2, 1), 9400);
    assert_int_equal(pipeline_ns(&machine, "gpipe", 2, 2), 2 * 9400); // rank 0 ends last
}

/// Links without bytes are held for no time: the event engine then plays what the static one does.
TEST(a_shared_link_that_nothing_holds_changes_nothing)
{
    static const char *const schedules[] = {"gpipe", "1f1b", "zb-h1", "zb-h2"};
    for (size_t each = 0; each < sizeof schedules / sizeof schedules[0]; each++) {
        bal_machine machine = {
            .rank_count = 4, .ranks_per_node = 1, .inter_node = {.latency_ns = 300}};
        const int64_t apart_ns = pipeline_ns(&machine, schedules[each], 8, 1);
        machine.shares_node_links = true;
        assert_int_equal(pipeline_ns(&machine, schedules[each], 8, 1), apart_ns);
        assert_true(pipeline_ns(&machine, schedules[each], 8, 3) > apart_ns);
    }
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
