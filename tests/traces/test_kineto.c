/// Small traces in the shapes that the PyTorch profiler writes, with sums worked out by hand; and
/// what is refused.
#include "base/text.h"
#include "tests/test_memory.h"
#include "traces/import/kineto.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static status read_text(const char *text, const trace_phase_map *map, trace_recording *recording,
                        error_message *err)
{
    const trace_profile_source source = {
        .path = "t.json", .bytes = text, .length = strlen(text), .map = map};
    return trace_kineto_read(&source, memory, recording, err);
}

static trace_recording read_file(const char *path)
{
    const trace_profile_source source = {.path = path};
    trace_recording recording;
    require(trace_kineto_read(&source, memory, &recording, &why));
    return recording;
}

static void expect_refused(const char *text, status code, const char *message)
{
    trace_recording recording;
    assert_fails(read_text(text, NULL, &recording, &why), code, message);
}

static void expect_cell(const trace_recording *recording, int cell, trace_op_kind kind, int layer,
                        int64_t busy_ns, int64_t communication_ns, int64_t span_ns)
{
    assert_true(cell < recording->cell_count);
    assert_int_equal(recording->cells[cell].kind, kind);
    assert_int_equal(recording->cells[cell].layer, layer);
    assert_int_equal(recording->cells[cell].busy_ns, busy_ns);
    assert_int_equal(recording->cells[cell].communication_ns, communication_ns);
    assert_int_equal(recording->cells[cell].span_ns, span_ns);
}

/// Annotation, launch and device operation of traces that are written below.
#define ANNOTATION(name, thread, ts, dur)                                                          \
    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"" name "\",\"pid\":1,\"tid\":" #thread   \
    ",\"ts\":" #ts ",\"dur\":" #dur "}"
#define LAUNCH(correlation, thread, ts)                                                            \
    ",{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"l\",\"pid\":1,\"tid\":" #thread            \
    ",\"ts\":" #ts ",\"dur\":1,\"args\":{\"correlation\":" #correlation "}}"
#define KERNEL(name, correlation, ts, dur)                                                         \
    ",{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"" name "\",\"pid\":0,\"tid\":7,\"ts\":" #ts      \
    ",\"dur\":" #dur ",\"args\":{\"correlation\":" #correlation "}}"

static void kernels_count_for_the_window_of_their_launch_on_any_thread(void **state)
{
    trace_recording recording = read_file("traces/kineto/gpu.json");

    assert_int_equal(recording.rank, 1);
    assert_int_equal(recording.world_size, 2);
    assert_int_equal(recording.base_ns, 1700000000000000000);
    assert_true(recording.on_device && recording.has_steps);
    // F: 130-170 and 150-180.5 on two streams, a copy 181-183.25; NCCL 160-190 apart.
    assert_int_equal(recording.cell_count, 2);
    expect_cell(&recording, 0, TRACE_OP_FORWARD, 1, 52750, 30000, 60000);
    // BW, launched by another thread: 300-400.125 and 500-550.
    expect_cell(&recording, 1, TRACE_OP_BACKWARD, 1, 150125, 0, 250000);
    assert_int_equal(recording.cells[0].iteration, 4);
    assert_int_equal(recording.ops.op_count, 9);
    assert_int_equal(recording.ops.loads, 6);
    assert_int_equal(recording.ops.others, 1); // of RECV_F
    assert_int_equal(recording.ops.outside, 1);
    assert_int_equal(recording.ops.without_launch, 1);
}

static void the_innermost_window_counts(void **state)
{
    trace_recording recording = read_file("traces/kineto/dynmo.json");

    assert_int_equal(recording.cell_count, 3);
    assert_int_equal(recording.cells[0].iteration, 2);
    assert_int_equal(recording.cells[0].microbatch, 1);
    expect_cell(&recording, 0, TRACE_OP_FORWARD, 3, 10000, 0, 10000);
    // 306-310 and 410-470; the recompute between them, 330-350, is not the backward's.
    expect_cell(&recording, 1, TRACE_OP_BACKWARD, 3, 64000, 0, 164000);
    expect_cell(&recording, 2, TRACE_OP_RECOMPUTE, 3, 20000, 0, 20000);
}

static void without_a_device_cpu_operators_count(void **state)
{
    trace_recording recording = read_file("traces/kineto/cpu.json");

    assert_false(recording.on_device);
    // 150-180 with what is nested in it, 185-195.5; the window's first 50 us are waiting.
    expect_cell(&recording, 0, TRACE_OP_FORWARD, 0, 40500, 0, 45500);
    expect_cell(&recording, 1, TRACE_OP_BACKWARD, 0, 50000, 25000, 115000);
    assert_int_equal(recording.ops.op_count, 5);
    assert_int_equal(recording.ops.loads, 4);
    assert_int_equal(recording.ops.outside, 1);
}

static void a_cpu_operator_is_shared_by_the_windows_that_it_crosses(void **state)
{
    trace_recording recording;
    // BW 100-300 holds R 150-200; one operator runs 120-250, the next 290-310.
    const char text[] = "[" ANNOTATION("dynmo it=0 mb=0 L=0 BW", 5, 100, 200) "," ANNOTATION(
        "dynmo it=0 mb=0 L=0 R", 5, 150, 50) ",{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\","
                                             "\"pid\":1,\"tid\":5,\"ts\":120,\"dur\":130}"
                                             ",{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"b\","
                                             "\"pid\":1,\"tid\":5,\"ts\":290,\"dur\":20}"
                                             "]";

    assert_int_equal(read_text(text, NULL, &recording, NULL), STATUS_OK);

    expect_cell(&recording, 0, TRACE_OP_BACKWARD, 0, 30000 + 50000 + 10000, 0, 180000);
    expect_cell(&recording, 1, TRACE_OP_RECOMPUTE, 0, 50000, 0, 50000);
}

static void gpipe_names_have_the_rank_as_stage(void **state)
{
    trace_recording recording;
    const char text[] =
        "{\"distributedInfo\":{\"rank\":3,\"world_size\":4},\"traceEvents\":[" ANNOTATION(
            "Forward 2", 5, 0, 50) LAUNCH(1, 5, 10) KERNEL("k", 1, 20, 1.25) "]}";

    assert_int_equal(read_text(text, NULL, &recording, NULL), STATUS_OK);

    expect_cell(&recording, 0, TRACE_OP_FORWARD, 3, 1250, 0, 1250);
    assert_int_equal(recording.cells[0].microbatch, 2);
}

static void without_steps_repetition_numbers_iterations(void **state)
{
    trace_recording recording;
    const char text[] = "[" ANNOTATION("PP:0F0", 5, 100, 10) "," ANNOTATION("PP:0F0", 5, 0, 10)
        LAUNCH(1, 5, 1) LAUNCH(2, 5, 101) KERNEL("k", 1, 2, 3) KERNEL("k", 2, 102, 4) "]";

    assert_int_equal(read_text(text, NULL, &recording, NULL), STATUS_OK);

    assert_false(recording.has_steps);
    assert_int_equal(recording.cell_count, 2);
    assert_int_equal(recording.cells[1].iteration, 1);
    expect_cell(&recording, 0, TRACE_OP_FORWARD, 0, 3000, 0, 3000);
    expect_cell(&recording, 1, TRACE_OP_FORWARD, 0, 4000, 0, 4000);
}

static void counted_layers_start_over_in_each_scope(void **state)
{
    static const char map_text[] =
        "{\"schema\":\"dynmo-phase-map/1\",\"scope\":\"^S$\",\"annotations\":["
        "{\"match\":\"^f$\",\"phase\":\"F\",\"layer\":{\"count\":\"up\"}},"
        "{\"match\":\"^b$\",\"phase\":\"B\",\"layer\":{\"count\":\"down\"}},"
        "{\"match\":\"^d$\",\"phase\":\"F\",\"layer\":{\"count\":\"up\"},"
        "\"component\":\"communication\"}]}";
    trace_phase_map *map = NULL;
    trace_recording recording;
    const char text[] =
        "[" ANNOTATION("S", 5, 0, 100) "," ANNOTATION("f", 5, 1, 9) "," ANNOTATION("b", 5, 11, 9) "," ANNOTATION(
            "f", 5, 21,
            9) "," ANNOTATION("b", 5, 31,
                              9) "," ANNOTATION("d", 5, 41,
                                                9) "," ANNOTATION("d", 5, 51,
                                                                  9) "," ANNOTATION("S", 5, 200,
                                                                                    100) "," ANNOTATION("f",
                                                                                                        5,
                                                                                                        201,
                                                                                                        9) "," ANNOTATION("f",
                                                                                                                          5,
                                                                                                                          500,
                                                                                                                          9)
            LAUNCH(1, 5, 2) LAUNCH(2, 5, 12) LAUNCH(3, 5, 22) LAUNCH(4, 5, 32) LAUNCH(5, 5, 42)
                LAUNCH(6, 5, 43) LAUNCH(7, 5, 52) LAUNCH(8, 5, 202) LAUNCH(9, 5, 502)
                    KERNEL("k", 1, 2, 1) KERNEL("k", 2, 12, 2) KERNEL("k", 3, 22, 3)
                        KERNEL("deep_ep::x", 4, 32, 4) KERNEL("k", 5, 42, 5)
                            KERNEL("cast", 6, 47, 6) KERNEL("k", 7, 53, 7) KERNEL("k", 8, 202, 8)
                                KERNEL("k", 9, 502, 9) "]";
    assert_int_equal(trace_phase_map_open_bytes("m", map_text, strlen(map_text), &map, NULL),
                     STATUS_OK);

    assert_int_equal(read_text(text, map, &recording, NULL), STATUS_OK);

    // Layer 0: the first f, the first d, the last b; in the second scope microbatch 1.
    assert_int_equal(recording.cell_count, 5);
    expect_cell(&recording, 0, TRACE_OP_FORWARD, 0, 1000, 11000, 1000 + 11000);
    expect_cell(&recording, 1, TRACE_OP_BACKWARD_INPUT, 0, 0, 4000, 4000);
    assert_int_equal(recording.cells[2].microbatch, 1);
    expect_cell(&recording, 2, TRACE_OP_FORWARD, 0, 8000, 0, 8000);
    expect_cell(&recording, 3, TRACE_OP_FORWARD, 1, 3000, 7000, 10000);
    expect_cell(&recording, 4, TRACE_OP_BACKWARD_INPUT, 1, 2000, 0, 2000);
    assert_int_equal(recording.stray_window_count, 1);
    assert_int_equal(recording.ops.outside, 1);
    trace_phase_map_close(map);
}

static void layers_that_cannot_be_counted_are_refused(void **state)
{
    static const char rules[] =
        "\"annotations\":[{\"match\":\"^[ab]$\",\"phase\":\"F\",\"layer\":{\"count\":\"up\"}}]}";
    const char text[] = "[" ANNOTATION("a", 5, 1, 9) "," ANNOTATION("b", 5, 11, 9) "," ANNOTATION(
        "a", 5, 21, 9) "]";
    char map_text[400];
    for (int layers = 0; layers <= 2; layers += 2) {
        trace_phase_map *map = NULL;
        trace_recording recording;
        snprintf(map_text, sizeof map_text, "{\"schema\":\"dynmo-phase-map/1\",%s%s",
                 layers > 0 ? "\"layers\":2," : "", rules);
        assert_int_equal(trace_phase_map_open_bytes("m", map_text, strlen(map_text), &map, NULL),
                         STATUS_OK);
        assert_int_equal(read_text(text, map, &recording, &why), STATUS_INVALID);
        assert_string_equal(
            why.message,
            layers > 0
                ? "t.json: an annotation of iteration 0 occurs 1 times, which is no multiple "
                  "of the phase map's layers, 2"
                : "t.json: iteration 0: two annotations that count layers the same way "
                  "occur 2 and 1 times: which layers are which cannot be told");
        trace_phase_map_close(map);
    }
}

static void a_trace_that_says_nothing_known_is_refused(void **state)
{
    expect_refused(
        "[" ANNOTATION("attn", 5, 0, 1) "," ANNOTATION("mlp", 5, 0, 1) "," ANNOTATION("attn", 5, 3,
                                                                                      1) "]",
        STATUS_INVALID,
        "t.json: no annotation that dynmo knows; there are 'attn', 'mlp': name them with "
        "--phase-map FILE.json");
    expect_refused("[]", STATUS_INVALID,
                   "t.json: no annotation says which layer or stage computes: record with a "
                   "schedule of torch.distributed.pipelining, or with dynmo's recorder");
}

static void impossible_times_are_refused(void **state)
{
    expect_refused("[" ANNOTATION("PP:0F0", 5, NaN, 1) "]", STATUS_FORMAT,
                   "t.json: event 0 ('PP:0F0'): ts NaN is no time in microseconds");
    expect_refused("[{}," ANNOTATION("PP:0F0", 5, 1, -2) "]", STATUS_FORMAT,
                   "t.json: event 1 ('PP:0F0'): dur -2 is negative");
    expect_refused("[" ANNOTATION("PP:0F0", 5, 1e17, 1) "]", STATUS_FORMAT,
                   "t.json: event 0 ('PP:0F0'): ts 1e17 is no time in microseconds");
    expect_refused("[" ANNOTATION("PP:0F0", 5, 9e15, 9e15) "]", STATUS_FORMAT,
                   "t.json: event 0 ('PP:0F0'): dur 9e15 ends beyond 64 bits of ns");
    expect_refused("[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"dur\":1}]", STATUS_FORMAT,
                   "t.json: event 0 ('k'): ts is missing");
    expect_refused(
        "{\"baseTimeNanoseconds\":9223372036854775807,\"traceEvents\":[" ANNOTATION("PP:0F0", 5, 1,
                                                                                    1) "]}",
        STATUS_FORMAT,
        "t.json: baseTimeNanoseconds 9223372036854775807 plus the last time, 2000 ns, is "
        "beyond 64 bits");
    expect_refused("{\"baseTimeNanoseconds\":1.5,\"traceEvents\":[]}", STATUS_FORMAT,
                   "t.json: baseTimeNanoseconds 1.5 is no time in ns");
    expect_refused("{\"distributedInfo\":{\"rank\":-1},\"traceEvents\":[]}", STATUS_FORMAT,
                   "t.json: distributedInfo: rank -1 is outside [0, 65535]");
}

static void contradictions_are_refused(void **state)
{
    expect_refused("[" ANNOTATION("ProfilerStep#3", 5, 0, 100) "," ANNOTATION(
                       "PP:1F0", 5, 1, 9) "," ANNOTATION("PP:1F0", 5, 11, 9) "]",
                   STATUS_INVALID,
                   "t.json: F of stage 1, microbatch 0 occurs 2 times in ProfilerStep#3: call "
                   "prof.step() once per schedule step");
    expect_refused(
        "[" ANNOTATION("ProfilerStep#3", 5, 50, 10) "," ANNOTATION("PP:1F0", 5, 1, 9) "]",
        STATUS_INVALID, "t.json: all 1 annotations of layers are outside every ProfilerStep");
}

/// A step of 1000 us: F from 100, BW from 400 on the host, the loader before, the optimizer after.
static const char gaps_text[] =
    "[" ANNOTATION("ProfilerStep#1", 5, 0, 1000) "," ANNOTATION("f", 5, 100, 200) "," ANNOTATION(
        "b", 5, 400, 200) "," ANNOTATION("enumerate(DataLoader)#x", 5, 20,
                                         60) "," ANNOTATION("Optimizer.step#SGD.step", 5, 700, 100)
        LAUNCH(1, 5, 120) KERNEL("k", 1, 130, 50) LAUNCH(2, 5, 150)
            KERNEL("ncclDevKernel_AllReduce", 2, 170, 50) LAUNCH(3, 5, 250) KERNEL("k", 3, 260, 40)
                LAUNCH(4, 6, 450) KERNEL("k", 4, 470, 230) LAUNCH(5, 5, 710)
                    KERNEL("k", 5, 720, 80) "]";

static void every_moment_of_a_step_is_charged_once_or_left_outside(void **state)
{
    static const char map_text[] =
        "{\"schema\":\"dynmo-phase-map/1\",\"annotations\":[{\"match\":\"^f$\",\"phase\":\"F\","
        "\"layer\":0},{\"match\":\"^b$\",\"phase\":\"BW\",\"layer\":0}]}";
    trace_phase_map *map = NULL;
    trace_recording recording;
    assert_int_equal(trace_phase_map_open_bytes("m", map_text, strlen(map_text), &map, NULL),
                     STATUS_OK);

    assert_int_equal(read_text(gaps_text, map, &recording, NULL), STATUS_OK);

    expect_cell(&recording, 0, TRACE_OP_FORWARD, 0, 90000, 50000, 170000);
    expect_cell(&recording, 1, TRACE_OP_BACKWARD, 0, 230000, 0, 230000);
    // 100-300: host 20 and 30, launch 10 and 10, compute 50 and 40, communication alone 40.
    assert_int_equal(recording.cells[0].charge_ns, 200000);
    // 300-700: the host goes from one op to the other for 150, launch 20, compute 230.
    assert_int_equal(recording.cells[1].charge_ns, 400000);
    assert_int_equal(recording.iteration_count, 1);
    const trace_iteration_time *time = &recording.iterations[0];
    assert_int_equal(time->end_ns - time->begin_ns, 1000000);
    assert_int_equal(time->charged_ns[TRACE_GAP_HOST], 200000);
    assert_int_equal(time->charged_ns[TRACE_GAP_LAUNCH], 40000);
    assert_int_equal(time->charged_ns[TRACE_GAP_COMMUNICATION], 40000);
    assert_int_equal(time->outside_ns[TRACE_GAP_LOADING], 60000);
    assert_int_equal(time->outside_ns[TRACE_GAP_HOST], 250000); // 0-20, 80-100, 700-710, 800-1000
    assert_int_equal(time->outside_ns[TRACE_GAP_LAUNCH], 10000);
    assert_int_equal(time->outside_ns[TRACE_GAP_OPTIMIZER], 80000);
    assert_int_equal(time->tail_ns, 300000);
    trace_phase_map_close(map);
}

/// An arrow from forward to backward, an operator of the CPU, and a module that Python ran.
#define ARROW(end, id, thread, ts)                                                                 \
    ",{\"ph\":\"" end "\",\"cat\":\"fwdbwd\",\"id\":" #id ",\"pid\":1,\"tid\":" #thread            \
    ",\"ts\":" #ts "}"
#define OPERATOR(name, thread, ts, dur, sequence)                                                  \
    ",{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"" name "\",\"pid\":1,\"tid\":" #thread           \
    ",\"ts\":" #ts ",\"dur\":" #dur ",\"args\":{\"Sequence number\":" #sequence "}}"
#define MODULE(name, ts, dur)                                                                      \
    ",{\"ph\":\"X\",\"cat\":\"python_function\",\"name\":\"nn.Module: " name                       \
    "\",\"pid\":1,\"tid\":5,\"ts\":" #ts ",\"dur\":" #dur "}"
#define BACKWARD "autograd::engine::evaluate_function: "
/// Two layers: 100-200 and 200-300 forward, 400-450 and 450-500 back on thread 6.
#define WORK_OF_TWO                                                                                \
    LAUNCH(1, 5, 110)                                                                              \
    KERNEL("k", 1, 120, 30)                                                                        \
    LAUNCH(2, 5, 210)                                                                              \
    KERNEL("k", 2, 220, 40)                                                                        \
    LAUNCH(3, 6, 410)                                                                              \
    KERNEL("k", 3, 420, 20)                                                                        \
    LAUNCH(4, 6, 460)                                                                              \
    KERNEL("k", 4, 470, 10)                                                                        \
    LAUNCH(5, 6, 495)                                                                              \
    KERNEL("k", 5, 500, 10)
#define BACKWARD_OF_TWO(second)                                                                    \
    OPERATOR(BACKWARD "MmBackward0", 6, 400, 40, second)                                           \
    OPERATOR(BACKWARD "MmBackward0", 6, 450, 40, 1)                                                \
    OPERATOR(BACKWARD "torch::autograd::AccumulateGrad", 6, 491, 8, 99)

/// @param ends 1: a layer without work before and after the two, else 0
static void expect_two_layers(const trace_recording *recording, int ends)
{
    assert_int_equal(recording->linked_count, 2);
    assert_true(recording->has_backward);
    assert_int_equal(recording->cell_count, 4 + 2 * ends);
    expect_cell(recording, ends, TRACE_OP_FORWARD, ends, 30000, 0, 30000);
    // 470-480 and, when its gradient was accumulated, 500-510.
    expect_cell(recording, ends + 1, TRACE_OP_BACKWARD, ends, 20000, 0, 40000);
    expect_cell(recording, ends + 2, TRACE_OP_FORWARD, ends + 1, 40000, 0, 40000);
    expect_cell(recording, ends + 3, TRACE_OP_BACKWARD, ends + 1, 20000, 0, 20000);
    assert_int_equal(recording->ops.loads, 5);
}

static void modules_are_layers_and_arrows_lead_to_their_backwards(void **state)
{
    static const char text[] = "[" ANNOTATION("ProfilerStep#3", 5, 0, 1000) MODULE("GPT_0", 90, 220)
        MODULE("Block_7", 100, 99) MODULE("MLP_0", 110, 20) MODULE("Block_9", 200, 100)
            MODULE("MLP_1", 210, 20) ARROW("s", 1, 5, 110) ARROW("s", 2, 5, 210)
                ARROW("f", 2, 6, 400) ARROW("f", 1, 6, 450) BACKWARD_OF_TWO(2) WORK_OF_TWO "]";
    trace_recording recording;

    assert_int_equal(read_text(text, NULL, &recording, NULL), STATUS_OK);

    assert_int_equal(recording.naming, TRACE_NAMED_BY_STRUCTURE);
    expect_two_layers(&recording, 1);
    assert_int_equal(recording.cells[0].iteration, 3);
}

static void sequence_numbers_lead_to_backwards_where_no_arrows_do(void **state)
{
    static const char text[] = "[" ANNOTATION("dynmo it=3 mb=0 L=0 F", 5, 100, 99) "," ANNOTATION(
        "dynmo it=3 mb=0 L=1 F", 5, 200, 100) OPERATOR("aten::mm", 5, 110, 10, 1)
        OPERATOR("aten::view", 5, 205, 2, 2) OPERATOR("aten::mm", 5, 210, 10, 2) BACKWARD_OF_TWO(2)
            WORK_OF_TWO "]";
    trace_recording recording;

    assert_int_equal(read_text(text, NULL, &recording, NULL), STATUS_OK);

    expect_two_layers(&recording, 0);
}

/// Annotations that say forward, the outer of two; a hook that says backward is none.
static void words_are_forwards_and_hooks_no_backwards(void **state)
{
    static const char text[] = "[" ANNOTATION("ProfilerStep#3", 5, 0, 1000) "," ANNOTATION(
        "## forward ##", 5, 100, 200) "," ANNOTATION("Model.forward", 5, 110,
                                                     180) "," ANNOTATION("pre_backward_hook", 6,
                                                                         455, 4)
        ARROW("s", 1, 5, 110) ARROW("f", 1, 6, 400) BACKWARD_OF_TWO(2) WORK_OF_TWO "]";
    trace_recording recording;

    assert_int_equal(read_text(text, NULL, &recording, NULL), STATUS_OK);

    assert_int_equal(recording.cell_count, 2);
    expect_cell(&recording, 0, TRACE_OP_FORWARD, 0, 70000, 0, 140000);
    expect_cell(&recording, 1, TRACE_OP_BACKWARD, 0, 40000, 0, 90000);
}

static void annotations_that_fill_the_steps_ask_for_a_phase_map(void **state)
{
    expect_refused("[" ANNOTATION("ProfilerStep#3", 5, 0, 600) "," ANNOTATION(
                       "attn(F)", 5, 100, 200) "," ANNOTATION("mlp(F)", 5, 310, 150) WORK_OF_TWO
                   "]",
                   STATUS_INVALID,
                   "t.json: no annotation that dynmo knows; there are 'attn(F)', 'mlp(F)': name "
                   "them with --phase-map FILE.json");
}

static void forwards_without_links_are_said_to_be_alone(void **state)
{
    static const char text[] = "[" ANNOTATION("dynmo it=3 mb=0 L=0 F", 5, 100, 99) WORK_OF_TWO "]";
    trace_recording recording;

    assert_int_equal(read_text(text, NULL, &recording, NULL), STATUS_OK);

    assert_false(recording.has_backward);
    assert_int_equal(recording.cell_count, 1);
    assert_int_equal(recording.ops.outside, 4);
}

/// Operators x, a b c, a b c, y: four layers, in two microbatches.
#define FORWARD_OF_FOUR(ts)                                                                        \
    OPERATOR("x", 5, ts##10, 5, ts##1)                                                             \
    OPERATOR("a", 5, ts##20, 5, ts##2)                                                             \
    OPERATOR("b", 5, ts##30, 5, ts##3)                                                             \
    OPERATOR("inner", 5, ts##31, 2, ts##3)                                                         \
    OPERATOR("c", 5, ts##36, 2, ts##4)                                                             \
    OPERATOR("a", 5, ts##40, 5, ts##5)                                                             \
    OPERATOR("b", 5, ts##50, 5, ts##6)                                                             \
    OPERATOR("c", 5, ts##60, 5, ts##7)                                                             \
    OPERATOR("y", 5, ts##70, 5, ts##8)                                                             \
    OPERATOR(BACKWARD "Y", 6, ts##80, 1, ts##8)                                                    \
    OPERATOR(BACKWARD "C", 6, ts##82, 5, ts##6)                                                    \
    OPERATOR(BACKWARD "A", 6, ts##90, 5, ts##2)

static void repeated_operators_are_layers(void **state)
{
    static const char text[] =
        "[" ANNOTATION("ProfilerStep#0", 5, 0, 1000) FORWARD_OF_FOUR(1) FORWARD_OF_FOUR(2)
            LAUNCH(1, 5, 141) KERNEL("k", 1, 145, 9) LAUNCH(2, 6, 283) KERNEL("k", 2, 284, 7) "]";
    trace_recording recording;

    assert_int_equal(read_text(text, NULL, &recording, NULL), STATUS_OK);

    assert_int_equal(recording.linked_count, 6);
    assert_int_equal(recording.cell_count, 14); // no backward of x
    for (int cell = 0; cell < 14; cell++) {
        const trace_cell *each = &recording.cells[cell];
        const bool is_first = each->layer == 2 && each->microbatch == 0;
        const bool is_second = each->layer == 2 && each->microbatch == 1;
        int64_t busy_ns = 0;
        if (is_first && each->kind == TRACE_OP_FORWARD) busy_ns = 9000;
        if (is_second && each->kind == TRACE_OP_BACKWARD) busy_ns = 7000;
        assert_int_equal(each->busy_ns, busy_ns);
    }
    assert_int_equal(recording.cells[13].layer, 3);
}

static void append_event(text_buffer *text, const char *category, int correlation, int ts, int dur)
{
    char event[160];
    snprintf(event, sizeof event,
             ",{\"ph\":\"X\",\"cat\":\"%s\",\"pid\":1,\"tid\":5,\"ts\":%d,\"dur\":%d,"
             "\"args\":{\"correlation\":%d}}",
             category, ts, dur, correlation);
    text_append(text, event);
}

/// 40,000 launches of one operation, every tenth of two, every hundredth with a later one of the
/// same correlation that is in no window; operations stand before their launches, in no order.
static void what_memory_does_not_hold_is_matched_in_any_order(void **state)
{
    enum { COUNT = 40000 };
    text_buffer text = {0};
    trace_recording recording;
    text_append(&text, "[" ANNOTATION("dynmo it=0 mb=0 L=0 F", 5, 0, 199999));
    text_append(&text, "," ANNOTATION("dynmo it=0 mb=0 L=0 BW", 5, 200000, 200000));
    for (int each = 0; each < COUNT; each++) {
        const int place = each * 7919 % COUNT;
        append_event(&text, "kernel", place, place * 10 + 2, 3);
        if (place % 10 == 0) append_event(&text, "kernel", place, place * 10 + 6, 4);
        append_event(&text, "cuda_runtime", place, place * 10, 1);
        if (place % 100 == 0) append_event(&text, "cuda_runtime", place, 500000 + each, 1);
    }
    text_append(&text, "]");

    require(read_text(text.bytes, NULL, &recording, &why));

    assert_int_equal(recording.ops.op_count, COUNT * 11 / 10);
    assert_int_equal(recording.ops.loads, COUNT * 11 / 10);
    assert_int_equal(recording.ops.total_ns, (COUNT * 3 + COUNT / 10 * 4) * 1000);
    for (int cell = 0; cell < 2; cell++) {
        expect_cell(&recording, cell, cell == 0 ? TRACE_OP_FORWARD : TRACE_OP_BACKWARD, 0,
                    (COUNT / 2 * 3 + COUNT / 20 * 4) * 1000, 0, (COUNT / 2 * 10 - 7) * 1000);
    }
    text_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_count_for_the_window_of_their_launch_on_any_thread),
        cmocka_unit_test(the_innermost_window_counts),
        cmocka_unit_test(without_a_device_cpu_operators_count),
        cmocka_unit_test(a_cpu_operator_is_shared_by_the_windows_that_it_crosses),
        cmocka_unit_test(gpipe_names_have_the_rank_as_stage),
        cmocka_unit_test(without_steps_repetition_numbers_iterations),
        cmocka_unit_test(counted_layers_start_over_in_each_scope),
        cmocka_unit_test(layers_that_cannot_be_counted_are_refused),
        cmocka_unit_test(a_trace_that_says_nothing_known_is_refused),
        cmocka_unit_test(impossible_times_are_refused),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(modules_are_layers_and_arrows_lead_to_their_backwards),
        cmocka_unit_test(sequence_numbers_lead_to_backwards_where_no_arrows_do),
        cmocka_unit_test(words_are_forwards_and_hooks_no_backwards),
        cmocka_unit_test(annotations_that_fill_the_steps_ask_for_a_phase_map),
        cmocka_unit_test(forwards_without_links_are_said_to_be_alone),
        cmocka_unit_test(repeated_operators_are_layers),
        cmocka_unit_test(what_memory_does_not_hold_is_matched_in_any_order),
        cmocka_unit_test(every_moment_of_a_step_is_charged_once_or_left_outside),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
