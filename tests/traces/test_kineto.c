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

/// Events by their words; single quotes stand for double ones.
static const char *const kinds[][2] = {
    {"note", "{'ph':'X','cat':'user_annotation','pid':1,'tid':?,'ts':?,'dur':?,'name':'$'}"},
    {"call", "{'ph':'X','cat':'cuda_runtime','name':'l','pid':1,'args':{'correlation':?},'tid':?,"
             "'ts':?,'dur':1}"},
    {"work", "{'ph':'X','cat':'kernel','pid':0,'tid':7,'args':{'correlation':?},'ts':?,'dur':?,"
             "'name':'$'}"},
    {"op", "{'ph':'X','cat':'cpu_op','pid':1,'args':{'Sequence number':?},'tid':?,'ts':?,'dur':?,"
           "'name':'$'}"},
    {"module", "{'ph':'X','cat':'python_function','pid':1,'tid':5,'ts':?,'dur':?,"
               "'name':'nn.Module: $'}"},
    {"arrow", "{'ph':'?','cat':'fwdbwd','id':?,'pid':1,'tid':?,'ts':?}"},
    {"nothing", "{}"},
};

/// Appends what one row says: a word, what stands in for each question mark, and for the dollar all
/// that is left.
static void append_event(text_buffer *out, const char *row)
{
    const size_t word = strcspn(row, " ;");
    const char *rest = row + word + 1;
    size_t kind = 0;
    while (strlen(kinds[kind][0]) != word || strncmp(row, kinds[kind][0], word) != 0) {
        kind++;
    }
    for (const char *at = kinds[kind][1]; *at != '\0'; at++) {
        if (*at != '?' && *at != '$') {
            text_format(out, "%c", *at == '\'' ? '"' : *at);
            continue;
        }
        const size_t length = strcspn(rest, *at == '?' ? " ;" : ";");
        text_append_bytes(out, rest, length);
        rest += length + (rest[length] == ' ');
    }
}

/// The trace of rows that semicolons part. @param members of the object around; NULL: there is none
static const char *trace_of(const char *members, const char *rows)
{
    text_buffer out = {0};
    if (members != NULL) text_format(&out, "{%s,\"traceEvents\":", members);
    text_append(&out, "[");
    for (const char *row = rows; *row != '\0'; row += strcspn(row, ";"), row += *row == ';') {
        if (row != rows) text_append(&out, ",");
        append_event(&out, row);
    }
    text_append(&out, members != NULL ? "]}" : "]");
    const char *text = arena_string(memory, out.bytes);
    text_free(&out);
    return text;
}

static trace_recording read_rows(const char *rows, const trace_phase_map *map)
{
    trace_recording recording;
    require(read_text(trace_of(NULL, rows), map, &recording, &why));
    return recording;
}

static void expect_refused(const char *text, status code, const char *message)
{
    trace_recording recording;
    assert_fails(read_text(text, NULL, &recording, &why), code, message);
}

static trace_phase_map *map_of(const char *rest)
{
    trace_phase_map *map = NULL;
    char text[400];
    const int length = snprintf(text, sizeof text, "{\"schema\":\"dynmo-phase-map/1\",%s}", rest);
    require(trace_phase_map_open_bytes("m", text, (size_t)length, memory, &map, &why));
    return map;
}

/// Two layers: 100-200 and 200-300 forward, 400-450 and 450-500 back on thread 6.
#define WORK_OF_TWO                                                                                \
    "call 1 5 110;work 1 120 30 k;call 2 5 210;work 2 220 40 k;call 3 6 410;work 3 420 20 k;"      \
    "call 4 6 460;work 4 470 10 k;call 5 6 495;work 5 500 10 k"
#define BACKWARD "autograd::engine::evaluate_function: "
#define BACKWARD_OF_TWO                                                                            \
    "op 2 6 400 40 " BACKWARD "MmBackward0;op 1 6 450 40 " BACKWARD "MmBackward0;"                 \
    "op 99 6 491 8 " BACKWARD "torch::autograd::AccumulateGrad;"

TEST(kernels_count_for_the_window_of_their_launch_on_any_thread)
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

TEST(the_innermost_window_counts)
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

TEST(without_a_device_cpu_operators_count)
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

TEST(a_cpu_operator_is_shared_by_the_windows_that_it_crosses)
{
    // BW 100-300 holds R 150-200; one operator runs 120-250, the next 290-310.
    const trace_recording recording =
        read_rows("note 5 100 200 dynmo it=0 mb=0 L=0 BW;note 5 150 50 dynmo it=0 mb=0 L=0 R;"
                  "op 0 5 120 130 a;op 0 5 290 20 b",
                  NULL);

    expect_cell(&recording, 0, TRACE_OP_BACKWARD, 0, 30000 + 50000 + 10000, 0, 180000);
    expect_cell(&recording, 1, TRACE_OP_RECOMPUTE, 0, 50000, 0, 50000);
}

TEST(gpipe_names_have_the_rank_as_stage)
{
    trace_recording recording;

    require(read_text(trace_of("\"distributedInfo\":{\"rank\":3,\"world_size\":4}",
                               "note 5 0 50 Forward 2;call 1 5 10;work 1 20 1.25 k"),
                      NULL, &recording, &why));

    expect_cell(&recording, 0, TRACE_OP_FORWARD, 3, 1250, 0, 1250);
    assert_int_equal(recording.cells[0].microbatch, 2);
}

TEST(without_steps_repetition_numbers_iterations)
{
    const trace_recording recording =
        read_rows("note 5 100 10 PP:0F0;note 5 0 10 PP:0F0;call 1 5 1;call 2 5 101;work 1 2 3 k;"
                  "work 2 102 4 k",
                  NULL);

    assert_false(recording.has_steps);
    assert_int_equal(recording.cell_count, 2);
    assert_int_equal(recording.cells[1].iteration, 1);
    expect_cell(&recording, 0, TRACE_OP_FORWARD, 0, 3000, 0, 3000);
    expect_cell(&recording, 1, TRACE_OP_FORWARD, 0, 4000, 0, 4000);
}

TEST(counted_layers_start_over_in_each_scope)
{
    trace_phase_map *map =
        map_of("\"scope\":\"^S$\",\"annotations\":["
               "{\"match\":\"^f$\",\"phase\":\"F\",\"layer\":{\"count\":\"up\"}},"
               "{\"match\":\"^b$\",\"phase\":\"B\",\"layer\":{\"count\":\"down\"}},"
               "{\"match\":\"^d$\",\"phase\":\"F\",\"layer\":{\"count\":\"up\"},"
               "\"component\":\"communication\"}]");
    const trace_recording recording = read_rows(
        "note 5 0 100 S;note 5 1 9 f;note 5 11 9 b;note 5 21 9 f;note 5 31 9 b;note 5 41 9 d;"
        "note 5 51 9 d;note 5 200 100 S;note 5 201 9 f;note 5 500 9 f;"
        "call 1 5 2;call 2 5 12;call 3 5 22;call 4 5 32;call 5 5 42;call 6 5 43;call 7 5 52;"
        "call 8 5 202;call 9 5 502;"
        "work 1 2 1 k;work 2 12 2 k;work 3 22 3 k;work 4 32 4 deep_ep::x;work 5 42 5 k;"
        "work 6 47 6 cast;work 7 53 7 k;work 8 202 8 k;work 9 502 9 k",
        map);

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
}

TEST(layers_that_cannot_be_counted_are_refused)
{
    static const char *const cases[][2] = {
        {"", "t.json: iteration 0: two annotations that count layers the same way occur 2 and 1 "
             "times: which layers are which cannot be told"},
        {"\"layers\":2,", "t.json: an annotation of iteration 0 occurs 1 times, which is no "
                          "multiple of the phase map's layers, 2"},
    };
    const char *text = trace_of(NULL, "note 5 1 9 a;note 5 11 9 b;note 5 21 9 a");
    for (int each = 0; each < 2; each++) {
        char rules[200];
        trace_recording recording;
        snprintf(rules, sizeof rules,
                 "%s\"annotations\":[{\"match\":\"^[ab]$\",\"phase\":\"F\",\"layer\":{"
                 "\"count\":\"up\"}}]",
                 cases[each][0]);
        trace_phase_map *map = map_of(rules);
        assert_fails(read_text(text, map, &recording, &why), STATUS_INVALID, cases[each][1]);
    }
}

TEST(a_trace_that_says_nothing_known_is_refused)
{
    expect_refused(
        trace_of(NULL, "note 5 0 1 attn;note 5 0 1 mlp;note 5 3 1 attn"), STATUS_INVALID,
        "t.json: no annotation that dynmo knows; there are 'attn', 'mlp': name them with "
        "--phase-map FILE.json");
    // In a trace with steps, too, which the annotations fill.
    expect_refused(trace_of(NULL, "note 5 0 600 ProfilerStep#3;note 5 100 200 attn(F);"
                                  "note 5 310 150 mlp(F);" WORK_OF_TWO),
                   STATUS_INVALID,
                   "t.json: no annotation that dynmo knows; there are 'attn(F)', 'mlp(F)': name "
                   "them with --phase-map FILE.json");
    expect_refused("[]", STATUS_INVALID,
                   "t.json: no annotation says which layer or stage computes: record with a "
                   "schedule of torch.distributed.pipelining, or with dynmo's recorder");
}

TEST(impossible_times_are_refused)
{
    static const struct {
        const char *members, *rows, *message;
    } cases[] = {
        {NULL, "note 5 NaN 1 PP:0F0", "event 0 ('PP:0F0'): ts NaN is no time in microseconds"},
        {NULL, "nothing;note 5 1 -2 PP:0F0", "event 1 ('PP:0F0'): dur -2 is negative"},
        {NULL, "note 5 1e17 1 PP:0F0", "event 0 ('PP:0F0'): ts 1e17 is no time in microseconds"},
        {NULL, "note 5 9e15 9e15 PP:0F0", "event 0 ('PP:0F0'): dur 9e15 ends beyond 64 bits of ns"},
        {"\"baseTimeNanoseconds\":9223372036854775807", "note 5 1 1 PP:0F0",
         "baseTimeNanoseconds 9223372036854775807 plus the last time, 2000 ns, is beyond 64 bits"},
        {"\"baseTimeNanoseconds\":1.5", "", "baseTimeNanoseconds 1.5 is no time in ns"},
        {"\"distributedInfo\":{\"rank\":-1}", "", "distributedInfo: rank -1 is outside [0, 65535]"},
    };
    for (size_t each = 0; each < sizeof cases / sizeof cases[0]; each++) {
        char message[160];
        snprintf(message, sizeof message, "t.json: %s", cases[each].message);
        expect_refused(trace_of(cases[each].members, cases[each].rows), STATUS_FORMAT, message);
    }
    expect_refused("[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"dur\":1}]", STATUS_FORMAT,
                   "t.json: event 0 ('k'): ts is missing");
}

TEST(contradictions_are_refused)
{
    expect_refused(
        trace_of(NULL, "note 5 0 100 ProfilerStep#3;note 5 1 9 PP:1F0;note 5 11 9 PP:1F0"),
        STATUS_INVALID,
        "t.json: F of stage 1, microbatch 0 occurs 2 times in ProfilerStep#3: call "
        "prof.step() once per schedule step");
    expect_refused(trace_of(NULL, "note 5 50 10 ProfilerStep#3;note 5 1 9 PP:1F0"), STATUS_INVALID,
                   "t.json: all 1 annotations of layers are outside every ProfilerStep");
}

/// A step of 1000 us: F from 100, BW from 400 on the host, the loader before, the optimizer after.
static const char gaps[] =
    "note 5 0 1000 ProfilerStep#1;note 5 100 200 f;note 5 400 200 b;"
    "note 5 20 60 enumerate(DataLoader)#x;note 5 700 100 Optimizer.step#SGD.step;"
    "call 1 5 120;work 1 130 50 k;call 2 5 150;work 2 170 50 ncclDevKernel_AllReduce;"
    "call 3 5 250;work 3 260 40 k;call 4 6 450;work 4 470 230 k;call 5 5 710;work 5 720 80 k";

TEST(every_moment_of_a_step_is_charged_once_or_left_outside)
{
    trace_phase_map *map =
        map_of("\"annotations\":[{\"match\":\"^f$\",\"phase\":\"F\",\"layer\":0},"
               "{\"match\":\"^b$\",\"phase\":\"BW\",\"layer\":0}]");

    const trace_recording recording = read_rows(gaps, map);

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
}

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

TEST(modules_are_layers_and_arrows_lead_to_their_backwards)
{
    const trace_recording recording =
        read_rows("note 5 0 1000 ProfilerStep#3;module 90 220 GPT_0;module 100 99 Block_7;module "
                  "110 20 MLP_0;"
                  "module 200 100 Block_9;module 210 20 MLP_1;arrow s 1 5 110;arrow s 2 5 210;"
                  "arrow f 2 6 400;arrow f 1 6 450;" BACKWARD_OF_TWO WORK_OF_TWO,
                  NULL);

    assert_int_equal(recording.naming, TRACE_NAMED_BY_STRUCTURE);
    expect_two_layers(&recording, 1);
    assert_int_equal(recording.cells[0].iteration, 3);
}

TEST(sequence_numbers_lead_to_backwards_where_no_arrows_do)
{
    const trace_recording recording = read_rows(
        "note 5 100 99 dynmo it=3 mb=0 L=0 F;note 5 200 100 dynmo it=3 mb=0 L=1 F;"
        "op 1 5 110 10 aten::mm;op 2 5 205 2 aten::view;op 2 5 210 10 aten::mm;" BACKWARD_OF_TWO
            WORK_OF_TWO,
        NULL);

    expect_two_layers(&recording, 0);
}

/// Annotations that say forward, the outer of two; a hook that says backward is none.
TEST(words_are_forwards_and_hooks_no_backwards)
{
    const trace_recording recording =
        read_rows("note 5 0 1000 ProfilerStep#3;note 5 100 200 ## forward ##;"
                  "note 5 110 180 Model.forward;note 6 455 4 pre_backward_hook;"
                  "arrow s 1 5 110;arrow f 1 6 400;" BACKWARD_OF_TWO WORK_OF_TWO,
                  NULL);

    assert_int_equal(recording.cell_count, 2);
    expect_cell(&recording, 0, TRACE_OP_FORWARD, 0, 70000, 0, 140000);
    expect_cell(&recording, 1, TRACE_OP_BACKWARD, 0, 40000, 0, 90000);
}

TEST(forwards_without_links_are_said_to_be_alone)
{
    const trace_recording recording =
        read_rows("note 5 100 99 dynmo it=3 mb=0 L=0 F;" WORK_OF_TWO, NULL);

    assert_false(recording.has_backward);
    assert_int_equal(recording.cell_count, 1);
    assert_int_equal(recording.ops.outside, 4);
}

/// Operators x, a b c, a b c, y: four layers; times and sequence numbers of a microbatch begin with
/// its number.
#define FORWARD_OF_FOUR(n)                                                                         \
    "op " n "1 5 " n "10 5 x;op " n "2 5 " n "20 5 a;op " n "3 5 " n "30 5 b;"                     \
    "op " n "3 5 " n "31 2 inner;op " n "4 5 " n "36 2 c;op " n "5 5 " n "40 5 a;"                 \
    "op " n "6 5 " n "50 5 b;op " n "7 5 " n "60 5 c;op " n "8 5 " n "70 5 y;"                     \
    "op " n "8 6 " n "80 1 " BACKWARD "Y;op " n "6 6 " n "82 5 " BACKWARD "C;"                     \
    "op " n "2 6 " n "90 5 " BACKWARD "A;"

TEST(repeated_operators_are_layers)
{
    const trace_recording recording = read_rows(
        "note 5 0 1000 ProfilerStep#0;" FORWARD_OF_FOUR("1")
            FORWARD_OF_FOUR("2") "call 1 5 141;work 1 145 9 k;call 2 6 283;work 2 284 7 k",
        NULL);

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

/// 40,000 launches of one operation, every tenth of two, every hundredth with a later one of the
/// same correlation that is in no window; operations stand before their launches, in no order.
TEST(what_memory_does_not_hold_is_matched_in_any_order)
{
    enum { COUNT = 40000 };
    text_buffer rows = {0};
    text_append(&rows, "note 5 0 199999 dynmo it=0 mb=0 L=0 F;"
                       "note 5 200000 200000 dynmo it=0 mb=0 L=0 BW");
    for (int each = 0; each < COUNT; each++) {
        const int place = each * 7919 % COUNT;
        text_format(&rows, ";work %d %d 3 k", place, place * 10 + 2);
        if (place % 10 == 0) text_format(&rows, ";work %d %d 4 k", place, place * 10 + 6);
        text_format(&rows, ";call %d 5 %d", place, place * 10);
        if (place % 100 == 0) text_format(&rows, ";call %d 5 %d", place, 500000 + each);
    }

    const trace_recording recording = read_rows(rows.bytes, NULL);

    assert_int_equal(recording.ops.op_count, COUNT * 11 / 10);
    assert_int_equal(recording.ops.loads, COUNT * 11 / 10);
    assert_int_equal(recording.ops.total_ns, (COUNT * 3 + COUNT / 10 * 4) * 1000);
    for (int cell = 0; cell < 2; cell++) {
        expect_cell(&recording, cell, cell == 0 ? TRACE_OP_FORWARD : TRACE_OP_BACKWARD, 0,
                    (COUNT / 2 * 3 + COUNT / 20 * 4) * 1000, 0, (COUNT / 2 * 10 - 7) * 1000);
    }
    text_free(&rows);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
