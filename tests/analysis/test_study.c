/// The study file: what it means, and that everything wrong in it is named.
#include "analysis/study/study.h"
#include "base/file.h"
#include "tests/test_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];
static ana_study study;

/// Opens a study that is a file of a folder of its own, which is removed again.
///
/// @param costs in place of the study's own. NULL: its own
static void open_study(const char *content, const char *costs)
{
    char path[96];
    snprintf(folder, sizeof folder, "%s/dynmo-study-XXXXXX", P_tmpdir);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/s.json", folder);
    assert_ok(file_write(path, content, strlen(content), NULL));
    const status opened = ana_study_open(path, costs, memory, &study, &why);
    unlink(path);
    rmdir(folder);
    require(opened);
}

#define STUDY(rest) "{\"schema\":\"dynmo-study/1\",\"trace\":\"t.db\"" rest "}"
#define STAGES ",\"pipeline\":{\"stages\":4}"
#define ROWS(rows) STUDY(STAGES ",\"balancing\":[" rows "]")
#define ON_CHANGE ",\"policy\":\"on-change\""
#define ROW(keys) ROWS("{\"balancer\":\"partition\"" ON_CHANGE keys "}")

TEST(a_short_study_gets_stated_defaults)
{
    open_study(STUDY(STAGES), NULL);
    char trace[128];
    snprintf(trace, sizeof trace, "%s/t.db", folder);

    assert_string_equal(study.trace_path, trace); // relative to the study, not to the caller
    assert_string_equal(study.run.schedule, "zb-h1");
    assert_int_equal(study.parallel.data, 1);
    assert_int_equal(study.balancing_count, 5);
    assert_string_equal(study.balancings[0].label, "even");
    assert_string_equal(study.balancings[3].label, "partition on-change");
}

TEST(values_carry_the_origin_that_the_study_states)
{
    open_study(STUDY(STAGES
                     ",\"cluster\":{\"gpus_per_node\":4,\"links\":{\"inter\":{\"latency_ns\":5,"
                     "\"bytes_per_s\":7}}},\"training\":{\"decision_ns\":9,"
                     "\"state_bytes_per_parameter\":18},"
                     "\"sources\":{\"cluster.links\":\"measured\"}"),
               NULL);

    int measured = 0;
    int given = 0;
    for (int input = 0; input < study.inputs.count; input++) {
        measured += study.inputs.rows[input].origin.kind == MODEL_ORIGIN_MEASURED;
        given += study.inputs.rows[input].origin.kind == MODEL_ORIGIN_GIVEN;
    }
    assert_int_equal(measured, 2); // latency and bandwidth of the inter link
    assert_int_equal(given, 4);    // gpus_per_node, decision_ns, bytes of state, stages
    assert_int_equal(study.state_bytes_per_parameter, 18);
    assert_int_equal(study.inter_node.bytes_per_s, 7);
    assert_int_equal(study.intra_node.latency_ns, -1);
}

TEST(a_document_that_was_read_is_a_study_with_the_names_of_its_inputs)
{
    const char *text = STUDY(STAGES ",\"training\":{\"decision_ns\":9}");
    json_document *document = NULL;
    assert_ok(json_open_bytes("s.json", text, strlen(text), &document, NULL));

    assert_ok(ana_study_open_document("s.json", document, memory, &study, &why));

    assert_int_equal(study.run.decision_ns, 9);
    assert_int_equal(study.inputs.count, 2);
    assert_string_equal(ana_inputs_find(&study.inputs, "training.decision_ns")->value, "");
    json_close(document);
}

TEST(the_command_line_overrides_where_costs_come_from)
{
    open_study(STUDY(STAGES), "other.db");
    assert_string_equal(study.trace_path, "other.db");
}

TEST(a_shipped_name_is_no_path_even_with_a_dot)
{
    open_study("{\"schema\":\"dynmo-study/"
               "1\",\"model\":\"llama-moe-3.5b\",\"hardware\":\"own.json\"" STAGES "}",
               NULL);
    char hardware[128];
    snprintf(hardware, sizeof hardware, "%s/own.json", folder);

    assert_string_equal(study.model, "llama-moe-3.5b");
    assert_string_equal(study.hardware, hardware);
}

TEST(a_row_says_how_it_looks_ahead_migrates_and_packs)
{
    open_study(STUDY(STAGES
                     ",\"repack\":{\"kind\":\"throughput\",\"tolerance\":0.1,\"unit\":\"node\"},"
                     "\"balancing\":[{\"balancer\":\"partition\"},"
                     "{\"balancer\":\"partition\",\"policy\":\"shadow\"},"
                     "{\"balancer\":\"diffusion\",\"policy\":\"threshold:0.05\","
                     "\"information\":\"foresight\",\"migration\":"
                     "{\"slack\":0.03,\"relabel\":true,\"overlap\":true,\"hysteresis\":0.01},"
                     "\"repack\":{\"kind\":\"published\",\"target\":2,\"use\":\"lend\"}}]"),
               NULL);

    const ana_balancing *row = study.balancings;
    assert_int_equal(row[0].repack.options.kind, BAL_REPACK_NONE); // never: keeps its ranks too
    assert_int_equal(row[1].repack.options.kind, BAL_REPACK_THROUGHPUT);
    assert_true(row[1].repack.by_node);
    assert_string_equal(row[1].label, "partition shadow repack throughput");
    assert_int_equal(row[2].information, BAL_INFORMATION_FORESIGHT);
    assert_true(row[2].migration.relabels && row[2].migration.overlaps);
    assert_true(row[2].migration.slack_ratio == 0.03 && row[2].migration.hysteresis_ratio == 0.01);
    assert_int_equal(row[2].repack.options.target_rank_count, 2);
    assert_string_equal(row[2].label, "diffusion threshold:0.05 foresight slack 0.03 relabel "
                                      "overlap hysteresis 0.01 repack published lend");
    assert_non_null(ana_inputs_find(&study.inputs, "balancing[2].migration.slack"));
}

TEST(what_a_run_is_like_is_read)
{
    assert_ok(ana_study_open_text(
        "s",
        STUDY(STAGES ",\"cluster\":{\"send\":\"rendezvous\",\"links\":{\"shared\":true}},"
                     "\"training\":{\"accumulation\":3,\"reduction_overlap\":\"backward\","
                     "\"step\":\"post-validation\"},"
                     "\"disturbance\":{\"seed\":4,\"op_sigma\":0.1,\"iteration_sigma\":0.2,"
                     "\"rank_sigma\":0.3,\"stragglers\":{\"probability\":0.5,\"factor\":2},"
                     "\"messages\":{\"factor\":2.5,\"sigma\":1,\"factor_max\":4},"
                     "\"links\":[{\"between\":[2,1],\"factor\":4,\"delay_ns\":9,\"from\":3,"
                     "\"to\":5},{\"between\":[0,1]}]}"),
        "{}", memory, &study, &why));

    assert_int_equal(study.send, BAL_SEND_RENDEZVOUS);
    assert_true(study.shares_node_links);
    assert_int_equal(study.run.round_count, 3);
    assert_int_equal(study.run.reduction_overlap, BAL_REDUCTION_BACKWARD);
    assert_true(study.run.post_validation);
    const bal_disturbance *read = &study.run.disturbance;
    assert_int_equal(read->seed, 4);
    assert_true(read->op_sigma == 0.1 && read->iteration_sigma == 0.2 && read->rank_sigma == 0.3);
    assert_true(read->straggler_probability == 0.5 && read->straggler_factor == 2);
    assert_int_equal(read->straggler_iterations, 1);
    assert_true(read->message_factor == 2.5 && read->message_sigma == 1);
    assert_true(read->message_factor_max == 4);
    assert_int_equal(read->link_count, 2);
    assert_int_equal(read->links[0].rank, 2);
    assert_int_equal(read->links[0].other_rank, 1);
    assert_true(read->links[0].time_factor == 4);
    assert_int_equal(read->links[0].delay_ns, 9);
    assert_int_equal(read->links[0].first_iteration, 3);
    assert_int_equal(read->links[0].end_iteration, 6);
    assert_true(read->links[1].time_factor == 1);
}

/// Messages that are more than the limits of a key, which cli/study_keys tries for every key there
/// is. They stand after the study's name; the beginning is enough where a message lists names.
TEST(what_is_wrong_is_named)
{
    static const struct {
        const char *content;
        const char *message;
    } cases[] = {
        {"{\"schema\":\"dynmo-study/2\"}",
         ": schema: 'dynmo-study/2' is not 'dynmo-study/1', the schema that this version reads"},
        {STUDY(STAGES ",\"balancings\":[]"),
         ": unknown key 'balancings'; did you mean 'balancing'?"},
        {STUDY(""), ": pipeline: not an object"},
        {STUDY(",\"pipeline\":{}"), ": pipeline: 'stages' is missing"},
        {STUDY(",\"pipeline\":{\"stages\":4,\"schedule\":\"zbh1\"}"),
         ": pipeline.schedule: unknown schedule 'zbh1'; did you mean 'zb-h1'?"},
        {STUDY(STAGES ",\"training\":{\"decision_ns\":10000000000000000000}"),
         ":1: decision_ns: integer 10000000000000000000 exceeds 2^53 = 9007199254740992"},
        {STUDY(STAGES ",\"training\":{\"dtype\":\"bfloat16\"}"),
         ": training.dtype: the times of a trace are as recorded; only a model's depend on it"},
        {STUDY(STAGES ",\"cluster\":{\"slow_ranks\":[{\"rank\":4,\"speed\":0.8}]}"),
         ": cluster.slow_ranks[0].rank: 4 is outside [0, 3]"},
        {STUDY(STAGES ",\"cluster\":{\"slow_ranks\":[{\"rank\":1}]}"),
         ": cluster.slow_ranks[0]: 'speed' is missing"},
        {STUDY(STAGES
               ",\"cluster\":{\"slow_ranks\":[{\"rank\":1,\"speed\":0.8,\"from\":9,\"to\":3}]}"),
         ": cluster.slow_ranks[0]: ends at iteration 3, before it begins at 9"},
        {STUDY(STAGES ",\"disturbance\":{\"links\":[{\"factor\":4}]}"),
         ": disturbance.links[0]: 'between' is missing"},
        {STUDY(STAGES ",\"disturbance\":{\"links\":[{\"between\":[1]}]}"),
         ": disturbance.links[0].between: needs two ranks"},
        {STUDY(STAGES ",\"disturbance\":{\"links\":[{\"between\":[1,1]}]}"),
         ": disturbance.links[0].between: rank 1 to itself"},
        {STUDY(STAGES ",\"disturbance\":{\"links\":[{\"between\":[1,2],\"from\":5,\"to\":4}]}"),
         ": disturbance.links[0]: ends at iteration 4, before it begins at 5"},
        {STUDY(STAGES ",\"dynamism\":{\"case\":\"freezing\",\"change_ratio\":0.5}"),
         ": dynamism.change_ratio: a case announces its changes; only those of a trace are "
         "detected"},
        {STUDY(STAGES ",\"model\":\"gpt2\""),
         ": both 'trace' and 'model' are given; costs come from one of them"},
        {"{\"schema\":\"dynmo-study/1\"" STAGES "}",
         ": needs 'trace' (a store), or 'model' and 'hardware'"},
        {"{\"schema\":\"dynmo-study/1\",\"model\":\"gpt2\"" STAGES "}",
         ": 'model' needs 'hardware' to turn it into times"},
        {STUDY(STAGES ",\"vary\":{}"), ": vary: has many runs for one; `dynmo study` plays them"},
        {ROWS("{\"balancer\":\"even\"},{\"balancer\":\"even\"}"),
         ": balancing[1]: the label 'even' is used twice; give one of them a 'label'"},
        {ROWS("{\"balancer\":\"partitoin\"}"),
         ": balancing[0].balancer: unknown balancer 'partitoin'; did you mean 'partition'?"},
        {ROWS("{\"balancer\":\"even\",\"policy\":\"every:2\"}"),
         ": balancing[0].policy: 'even' decides once; its policy can only be never"},
        {ROWS("{\"balancer\":\"partition\",\"policy\":\"always\"}"),
         ": balancing[0].policy: unknown policy 'always'; known: never, on-change, every:N, "
         "every-iteration, threshold:x, shadow"},
        {ROWS("{\"balancer\":\"partition\",\"information\":\"foresight\"}"),
         ": balancing[0].information: needs a policy other than never, which keeps the plan of the "
         "start"},
        {ROWS("{\"balancer\":\"diffusion-coded\"" ON_CHANGE ",\"migration\":{}}"),
         ": balancing[0].migration: 'diffusion-coded' gives layers owners, not stages, and is "
         "accounted in loads only"},
        {ROW(",\"migration\":{\"slak\":1}"),
         ": balancing[0].migration: unknown key 'slak'; did you mean 'slack'?"},
        {ROW(",\"repack\":{}"), ": balancing[0].repack: 'kind' is missing"},
        {ROW(",\"repack\":{\"kind\":\"gpu-time\",\"target\":2}"),
         ": balancing[0].repack.target: 'gpu-time' looks at times, and has 'tolerance' and "
         "'grow'"},
        {ROW(",\"repack\":{\"kind\":\"coded\",\"tolerance\":2}"),
         ": balancing[0].repack.tolerance: 'coded' looks at memory, and has 'target' and "
         "'threshold'"},
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        const char *message = cases[index].message;
        const status code =
            ana_study_open_text("s", cases[index].content, "{}", memory, &study, &why);
        const char *found = why.message[0] == 's' ? why.message + 1 : why.message;
        if (strncmp(found, message, strlen(message)) != 0) {
            fail_msg("'%s', not '%s'", found, message);
        }
        assert_int_equal(code,
                         strstr(message, "vary") != NULL ? STATUS_UNSUPPORTED : STATUS_FORMAT);
    }
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
