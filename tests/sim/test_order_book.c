/// The book of compiled orders: what it compiles once, what it forgets, and which op of a stage
/// makes its last gradients.
#include "sim/order_book.h"
#include "tests/test.h"
#include "tests/test_memory.h"

static bal_schedule_request request_of(int rank_count, int microbatch_count)
{
    return (bal_schedule_request){
        .name = "1f1b", .rank_count = rank_count, .microbatch_count = microbatch_count};
}

static sim_compiled_order *find(sim_order_book *book, int rank_count, int microbatch_count)
{
    const bal_schedule_request request = request_of(rank_count, microbatch_count);
    sim_compiled_order *order = NULL;
    require(sim_order_book_find(book, &request, &order, &why));
    assert_int_equal(order->schedule.rank_count, rank_count);
    assert_int_equal(order->schedule.microbatch_count, microbatch_count);
    return order;
}

TEST(an_order_is_compiled_once)
{
    sim_order_book *book = sim_order_book_create(arena_within(memory, 1 << 10));

    const sim_step *steps = find(book, 4, 8)->order.steps;
    find(book, 3, 8);
    find(book, 4, 6);

    assert_ptr_equal(find(book, 4, 8)->order.steps, steps);
    assert_int_equal(book->op_count, 4 * 8 * 2 + 3 * 8 * 2 + 4 * 6 * 2);
}

TEST(schedules_and_chunks_have_orders_of_their_own)
{
    sim_order_book *book = sim_order_book_create(arena_within(memory, 1 << 10));
    static const bal_schedule_request requests[] = {
        {.name = "1f1b", .rank_count = 2, .microbatch_count = 4},
        {.name = "gpipe", .rank_count = 2, .microbatch_count = 4},
        {.name = "interleaved-1f1b", .rank_count = 2, .microbatch_count = 4},
        {.name = "interleaved-1f1b", .rank_count = 2, .microbatch_count = 4, .chunk_count = 3},
        {.name = "interleaved-1f1b", .rank_count = 2, .microbatch_count = 4, .chunk_count = 2},
    };
    enum { REQUESTS = sizeof requests / sizeof requests[0], SAME_AS_FAMILY = 2 };
    sim_compiled_order *orders[REQUESTS];

    for (int request = 0; request < REQUESTS; request++) {
        assert_ok(sim_order_book_find(book, &requests[request], &orders[request], NULL));
    }

    for (int request = 0; request < REQUESTS; request++) {
        assert_string_equal(orders[request]->schedule.name, requests[request].name);
        for (int other = 0; other < request; other++) {
            const bool are_same = request == REQUESTS - 1 && other == SAME_AS_FAMILY;
            assert_int_equal(orders[request] == orders[other], are_same);
        }
    }
}

TEST(a_full_book_begins_anew)
{
    sim_order_book *book = sim_order_book_create(arena_within(memory, 1 << 10));
    const sim_step *steps = find(book, 2, 1)->order.steps;
    for (int microbatches = 2; microbatches <= SIM_ORDERS_KEPT; microbatches++) {
        find(book, 2, microbatches);
    }
    assert_ptr_equal(find(book, 2, 1)->order.steps, steps); // all are kept

    find(book, 2, SIM_ORDERS_KEPT + 1);

    assert_int_equal(book->op_count, 2 * (SIM_ORDERS_KEPT + 1) * 2);
    find(book, 2, 1);
}

TEST(an_order_that_cannot_be_built_leaves_the_book_as_it_is)
{
    sim_order_book *book = sim_order_book_create(arena_within(memory, 1 << 10));
    const bal_schedule_request request = request_of(2, 0);
    sim_compiled_order *order = NULL;
    find(book, 2, 4);

    assert_int_equal(sim_order_book_find(book, &request, &order, &why), STATUS_INVALID);

    assert_null(order);
    assert_int_equal(book->op_count, 16);
    find(book, 2, 4);
}

/// Asks a book for the order of zb-v on two ranks, whose stages differ only in what is given.
static sim_compiled_order *search(sim_order_book *book, int64_t forward_ns,
                                  const int64_t *memory_limit, const sim_compiled_order *held)
{
    const int64_t forward[] = {forward_ns, 5, 5, 5};
    const int64_t ns[] = {5, 5, 5, 5};
    const int64_t taken[] = {2, 2, 2, 2};
    const int64_t given[] = {-1, -1, -1, -1};
    const bal_stage_costs costs = {.stage_count = 4,
                                   .microbatch_count = 1,
                                   .forward_ns = forward,
                                   .backward_input_ns = ns,
                                   .backward_weight_ns = ns,
                                   .send_forward_ns = ns,
                                   .send_backward_ns = ns,
                                   .memory_forward = taken,
                                   .memory_backward_input = given,
                                   .memory_backward_weight = given};
    const bal_schedule_request request = {.name = "zb-v",
                                          .rank_count = 2,
                                          .microbatch_count = 4,
                                          .costs = &costs,
                                          .memory_limit = memory_limit};
    sim_compiled_order *order = NULL;
    require(sim_order_book_search(book, &request, held, &order, &why));
    return order;
}

TEST(an_order_is_searched_once_for_the_same_costs_and_limits)
{
    sim_order_book *book = sim_order_book_create(arena_within(memory, 1 << 10));
    const int64_t limits[] = {8, 8};
    const sim_compiled_order *orders[] = {search(book, 5, NULL, NULL), search(book, 6, NULL, NULL),
                                          search(book, 5, limits, NULL)};

    for (int order = 0; order < 3; order++) {
        for (int other = 0; other < order; other++) {
            assert_ptr_not_equal(orders[order], orders[other]);
        }
    }

    assert_ptr_equal(search(book, 6, NULL, NULL), orders[1]);
    assert_ptr_equal(search(book, 5, limits, NULL), orders[2]);
    assert_ptr_equal(search(book, 5, NULL, NULL), orders[0]);
}

TEST(of_searched_orders_the_one_asked_for_longest_ago_goes_unless_it_is_held)
{
    sim_order_book *book = sim_order_book_create(arena_within(memory, 1 << 10));
    const sim_compiled_order *held = search(book, 1, NULL, NULL);
    const sim_compiled_order *second = search(book, 2, NULL, NULL);
    for (int64_t ns = 3; ns <= SIM_SEARCHED_KEPT; ns++) {
        search(book, ns, NULL, NULL);
    }

    const sim_compiled_order *next = search(book, SIM_SEARCHED_KEPT + 1, NULL, held);

    assert_ptr_equal(next, second); // in its place
    assert_ptr_equal(search(book, 1, NULL, NULL), held);
    assert_int_equal(held->schedule.ops[0].kind, OP_FORWARD);
}

TEST(large_searched_orders_are_not_kept_beside_others)
{
    sim_order_book *book = sim_order_book_create(arena_within(memory, 1 << 10));
    search(book, 1, NULL, NULL)->order.step_count = SIM_SEARCHED_OPS_KEPT;
    search(book, 2, NULL, NULL);

    const sim_compiled_order *third = search(book, 3, NULL, NULL);

    assert_int_equal(third->order.step_count, 2 * 2 * 4 * 3);
    for (int entry = 0; entry < SIM_SEARCHED_KEPT; entry++) {
        if (&book->searched[entry].compiled != third) assert_null(book->searched[entry].key);
    }
}

TEST(the_last_backward_of_a_stage_is_its_last_w)
{
    const bal_schedule_request request = {
        .name = "interleaved-1f1b", .rank_count = 2, .microbatch_count = 4, .chunk_count = 2};
    sim_compiled_order compiled;
    assert_ok(sim_compiled_order_build(&request, memory, &compiled, NULL));

    for (int stage = 0; stage < 4; stage++) {
        const int rank = stage % 2;
        const bal_op op = compiled.schedule.ops[compiled.last_backward[stage]];
        assert_int_equal(op.kind, OP_BACKWARD);
        assert_int_equal(op.chunk, stage / 2);
        assert_int_equal(op.microbatch, 3);
        assert_in_range(compiled.last_backward[stage], compiled.schedule.first_op[rank],
                        compiled.schedule.first_op[rank + 1] - 1);
    }
    // Chunk 0 is the last of the backward sweep.
    assert_int_equal(compiled.last_backward[0], compiled.schedule.first_op[1] - 1);
}

TEST(the_event_engine_of_an_order_is_made_once_and_takes_every_network)
{
    const bal_schedule_request request = request_of(2, 2);
    const int64_t ns[] = {2, 2};
    const int64_t send_ns[] = {3, 3};
    const int link[] = {0, 0};
    const bal_stage_costs costs = {.stage_count = 2,
                                   .microbatch_count = 1,
                                   .forward_ns = ns,
                                   .backward_input_ns = ns,
                                   .backward_weight_ns = ns,
                                   .send_forward_ns = send_ns,
                                   .send_backward_ns = send_ns};
    const sim_network networks[] = {
        {.send = BAL_SEND_ASYNC},
        {.send = BAL_SEND_BLOCKING},
        {.link_count = 1,
         .link[0] = link,
         .link[1] = link,
         .occupancy_ns[0] = send_ns,
         .occupancy_ns[1] = send_ns},
        {.send = BAL_SEND_ASYNC},
    };
    sim_compiled_order compiled;
    sim_dispatch *first = NULL;
    assert_ok(sim_compiled_order_build(&request, memory, &compiled, NULL));

    for (size_t network = 0; network < sizeof networks / sizeof networks[0]; network++) {
        sim_dispatch *kept = NULL;
        sim_dispatch *fresh = NULL;
        bal_timeline actual;
        bal_timeline expected;
        assert_ok(sim_compiled_order_dispatch(&compiled, &networks[network], &kept, NULL));
        assert_ok(sim_dispatch_create(&compiled.schedule, SIM_STATIC, &networks[network], memory,
                                      &fresh, NULL));
        assert_ok(sim_dispatch_play(kept, &costs, NULL, NULL, &actual, NULL));
        assert_ok(sim_dispatch_play(fresh, &costs, NULL, NULL, &expected, NULL));

        if (network == 0) first = kept;
        assert_ptr_equal(kept, first);
        assert_memory_equal(actual.begin_ns, expected.begin_ns, 8 * sizeof(int64_t));
        assert_memory_equal(actual.end_ns, expected.end_ns, 8 * sizeof(int64_t));
    }
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
