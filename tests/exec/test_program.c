/// Programs of ranks: by hand, and of random orders that sends and waits pair up.
#include "exec/device/program.h"
#include "tests/balance/reference_player.h"
#include "tests/sim/random_schedules.h"

static void the_first_and_last_of_two_stages_by_hand(void **state)
{
    (void)state;
    arena *memory = arena_create(1 << 14);
    const bal_schedule schedule = reference_build("zb-h1", 2, 2, 1, memory);
    exec_program program;

    exec_program_compile(&schedule, 0, memory, &program);
    assert_int_equal(program.step_count, 6);
    for (int index = 0; index < 6; index++) {
        const exec_step *step = &program.steps[index];
        assert_int_equal(step->stage, 0);
        assert_int_equal(step->wait_place, step->op.kind == OP_BACKWARD_INPUT ? 1 : -1);
        assert_int_equal(step->wait_stage, step->op.kind == OP_BACKWARD_INPUT ? 1 : -1);
        assert_int_equal(step->send_place, step->op.kind == OP_FORWARD ? 1 : -1);
        assert_int_equal(step->send_stage, step->op.kind == OP_FORWARD ? 1 : -1);
    }
    exec_program_compile(&schedule, 1, memory, &program);
    for (int index = 0; index < 6; index++) {
        const exec_step *step = &program.steps[index];
        assert_int_equal(step->wait_place, step->op.kind == OP_FORWARD ? 0 : -1);
        assert_int_equal(step->send_place, step->op.kind == OP_BACKWARD_INPUT ? 0 : -1);
    }
    arena_destroy(memory);
}

static void chunks_of_one_rank_hand_over_in_memory(void **state)
{
    (void)state;
    arena *memory = arena_create(1 << 14);
    const bal_schedule schedule = reference_build("interleaved-1f1b", 1, 1, 3, memory);
    exec_program program;

    exec_program_compile(&schedule, 0, memory, &program);
    assert_int_equal(program.step_count, 6);
    assert_int_equal(program.steps[0].wait_place, -1);
    assert_int_equal(program.steps[0].send_place, 0);
    assert_int_equal(program.steps[1].wait_place, 0);
    assert_int_equal(program.steps[1].wait_stage, 0);
    assert_int_equal(program.steps[2].send_place, -1);
    arena_destroy(memory);
}

/// How often each (direction, receiving stage, microbatch) is sent and waited for.
static void count_messages(const bal_schedule *schedule, arena *memory, int *sent, int *awaited)
{
    const int stages = schedule->rank_count * schedule->chunk_count;
    for (int place = 0; place < schedule->rank_count; place++) {
        exec_program program;
        exec_program_compile(schedule, place, memory, &program);
        assert_int_equal(program.place, place);
        for (int index = 0; index < program.step_count; index++) {
            const exec_step *step = &program.steps[index];
            const int way = step->op.kind == OP_FORWARD ? 0 : stages;
            const int microbatches = schedule->microbatch_count;
            if (step->send_place >= 0) {
                sent[(way + step->send_stage) * microbatches + step->op.microbatch]++;
            }
            if (step->wait_place >= 0) {
                awaited[(way + step->stage) * microbatches + step->op.microbatch]++;
            }
        }
    }
}

static void every_message_is_sent_once_and_awaited_once(void **state)
{
    (void)state;
    arena *memory = arena_create(1 << 18);
    for (uint64_t seed = 0; seed < 300; seed++) {
        const random_problem problem = random_problem_draw(seed, memory);
        const bal_schedule *schedule = &problem.schedule;
        const int stages = schedule->rank_count * schedule->chunk_count;
        const size_t cells = 2 * (size_t)stages * (size_t)schedule->microbatch_count;
        int *sent = arena_array(memory, cells, sizeof *sent);
        int *awaited = arena_array(memory, cells, sizeof *awaited);
        assert_true(sent != NULL && awaited != NULL);

        count_messages(schedule, memory, sent, awaited);

        int total = 0;
        for (size_t cell = 0; cell < cells; cell++) {
            if (sent[cell] != awaited[cell] || sent[cell] > 1) {
                fail_msg("seed %llu", (unsigned long long)seed);
            }
            total += sent[cell];
        }
        const int pipelines = schedule->placement == BAL_PLACEMENT_BIDIRECTIONAL ? 2 : 1;
        assert_int_equal(total, 2 * (stages - pipelines) * schedule->microbatch_count);
        arena_reset(memory);
    }
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_and_last_of_two_stages_by_hand),
        cmocka_unit_test(chunks_of_one_rank_hand_over_in_memory),
        cmocka_unit_test(every_message_is_sent_once_and_awaited_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
