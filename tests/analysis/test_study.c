/// The study file: what it means, and that everything wrong in it is named.
#include "analysis/study/study.h"
#include "tests/assert_close.h"
#include "tests/test_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/// A study on disk, removed with its folder.
typedef struct study_file {
    char folder[64];
    char path[96];
} study_file;

static study_file write_study(const char *content)
{
    study_file file;
    snprintf(file.folder, sizeof file.folder, "%s/dynmo-study-XXXXXX", P_tmpdir);
    assert_non_null(mkdtemp(file.folder));
    snprintf(file.path, sizeof file.path, "%s/s.json", file.folder);
    FILE *stream = fopen(file.path, "w");
    assert_non_null(stream);
    fputs(content, stream);
    fclose(stream);
    return file;
}

static void remove_study(const study_file *file)
{
    unlink(file->path);
    rmdir(file->folder);
}

static status open_text(const char *text, arena *memory, ana_study *study, error_message *err)
{
    *err = (error_message){0};
    return ana_study_open_text("s", text, memory, study, err);
}

/// @param message after the study's name; its beginning is enough where it lists names
static void assert_refused(const char *content, status code, const char *message)
{
    arena *memory = arena_create(4096);
    ana_study study;
    error_message err;

    assert_int_equal(open_text(content, memory, &study, &err), code);
    const char *found = err.message[0] == 's' ? err.message + 1 : err.message;
    if (strncmp(found, message, strlen(message)) != 0) fail_msg("'%s', not '%s'", found, message);

    arena_destroy(memory);
}

#define STUDY(rest) "{\"schema\":\"dynmo-study/1\",\"trace\":\"t.db\"" rest "}"
#define STAGES ",\"pipeline\":{\"stages\":4}"

static void a_short_study_gets_stated_defaults(void **state)
{
    arena *memory = *state;
    const study_file file = write_study(STUDY(STAGES));
    ana_study study;
    char trace[128];
    snprintf(trace, sizeof trace, "%s/t.db", file.folder);

    assert_ok(ana_study_open(file.path, NULL, NULL, NULL, memory, &study, NULL));

    assert_string_equal(study.trace_path, trace); // relative to the study, not to the caller
    assert_string_equal(study.schedule, "zb-h1");
    assert_int_equal(study.parallel.data, 1);
    assert_int_equal(study.balancing_count, 5);
    assert_string_equal(study.balancings[0].label, "even");
    assert_string_equal(study.balancings[3].label, "partition on-change");
    ana_study_close(&study);
    remove_study(&file);
}

static void a_study_in_memory_is_read_as_a_file_is(void **state)
{
    arena *memory = *state;
    ana_study study;
    error_message err = {0};

    assert_ok(ana_study_open_text("s", STUDY(STAGES), memory, &study, &err));
    assert_string_equal(study.path, "s");
    assert_int_equal(study.stage_count, 4);
    assert_int_equal(study.balancing_count, 5);
    ana_study_close(&study);
    assert_int_equal(ana_study_open_text("s", STUDY(""), memory, &study, &err), STATUS_FORMAT);
    assert_string_equal(err.message, "s: pipeline: not an object");
}

static void values_carry_the_origin_that_the_study_states(void **state)
{
    arena *memory = *state;
    const study_file file = write_study(
        STUDY(STAGES ",\"cluster\":{\"gpus_per_node\":4,\"links\":{\"inter\":{\"latency_ns\":5,"
                     "\"bytes_per_s\":7}}},\"training\":{\"decision_ns\":9,"
                     "\"state_bytes_per_parameter\":18},"
                     "\"sources\":{\"cluster.links\":\"measured\"}"));
    ana_study study;

    assert_ok(ana_study_open(file.path, NULL, NULL, NULL, memory, &study, NULL));

    int measured = 0;
    int given = 0;
    for (int input = 0; input < study.inputs.count; input++) {
        measured += study.inputs.entries[input].origin == MODEL_ORIGIN_MEASURED;
        given += study.inputs.entries[input].origin == MODEL_ORIGIN_GIVEN;
    }
    assert_int_equal(measured, 2); // latency and bandwidth of the inter link
    assert_int_equal(given, 4);    // gpus_per_node, decision_ns, bytes of state, stages
    assert_int_equal(study.state_bytes_per_parameter, 18);
    assert_int_equal(study.inter_node.bytes_per_s, 7);
    assert_int_equal(study.intra_node.latency_ns, -1);
    ana_study_close(&study);
    remove_study(&file);
}

static void the_command_line_overrides_where_costs_come_from(void **state)
{
    arena *memory = *state;
    const study_file file = write_study(STUDY(STAGES));
    ana_study study;
    error_message err = {0};

    assert_ok(ana_study_open(file.path, "other.db", NULL, NULL, memory, &study, &err));
    assert_string_equal(study.trace_path, "other.db");
    ana_study_close(&study);
    assert_ok(ana_study_open(file.path, NULL, "gpt2", "h100-sxm", memory, &study, &err));
    assert_null(study.trace_path);
    assert_string_equal(study.model, "gpt2");
    ana_study_close(&study);
    assert_int_equal(ana_study_open(file.path, NULL, "gpt2", NULL, memory, &study, &err),
                     STATUS_FORMAT);
    remove_study(&file);
}

static void a_shipped_name_is_no_path_even_with_a_dot(void **state)
{
    arena *memory = *state;
    const study_file file =
        write_study("{\"schema\":\"dynmo-study/"
                    "1\",\"model\":\"llama-moe-3.5b\",\"hardware\":\"own.json\"" STAGES "}");
    ana_study study;
    char hardware[128];
    snprintf(hardware, sizeof hardware, "%s/own.json", file.folder);

    assert_ok(ana_study_open(file.path, NULL, NULL, NULL, memory, &study, NULL));

    assert_string_equal(study.model, "llama-moe-3.5b");
    assert_string_equal(study.hardware, hardware);
    ana_study_close(&study);
    remove_study(&file);
}

static void everything_unknown_is_named_with_what_is_near(void **state)
{
    (void)state;
    assert_refused("{\"schema\":\"dynmo-study/2\"}", STATUS_FORMAT,
                   ": schema: 'dynmo-study/2' is not 'dynmo-study/1', the schema that this version "
                   "reads");
    assert_refused(STUDY(STAGES ",\"balancings\":[]"), STATUS_FORMAT,
                   ": unknown key 'balancings'; did you mean 'balancing'?");
    assert_refused(STUDY(STAGES ",\"balancing\":[{\"balancer\":\"partitoin\"}]"), STATUS_FORMAT,
                   ": balancing[0].balancer: unknown balancer 'partitoin'; did you mean "
                   "'partition'?");
    assert_refused(STUDY(STAGES ",\"balancing\":[{\"balancer\":\"even\",\"policy\":\"every:2\"}]"),
                   STATUS_FORMAT,
                   ": balancing[0].policy: 'even' decides once; its policy can only be never");
    assert_refused(STUDY(",\"pipeline\":{\"stages\":4,\"schedule\":\"zbh1\"}"), STATUS_FORMAT,
                   ": pipeline.schedule: unknown schedule 'zbh1'; did you mean 'zb-h1'?");
    assert_refused(
        STUDY(STAGES ",\"balancing\":[{\"balancer\":\"partition\",\"policy\":\"always\"}]"),
        STATUS_FORMAT,
        ": balancing[0].policy: unknown policy 'always'; known: never, on-change, every:N, "
        "every-iteration, threshold:x, shadow");
}

static void numbers_outside_their_limits_are_refused(void **state)
{
    (void)state;
    assert_refused(STUDY(",\"pipeline\":{\"stages\":0}"), STATUS_FORMAT,
                   ": pipeline.stages: 0 is outside [1, 4096]");
    assert_refused(STUDY(",\"pipeline\":{}"), STATUS_FORMAT, ": pipeline: 'stages' is missing");
    assert_refused(STUDY(STAGES ",\"training\":{\"microbatches\":-1}"), STATUS_FORMAT,
                   ": training.microbatches: -1 is outside [1, 1048576]");
    assert_refused(STUDY(STAGES ",\"training\":{\"decision_ns\":10000000000000000000}"),
                   STATUS_FORMAT,
                   ":1: decision_ns: integer 10000000000000000000 exceeds 2^53 = 9007199254740992");
}

static void contradictions_and_parts_of_later_versions_are_refused(void **state)
{
    (void)state;
    assert_refused(STUDY(STAGES ",\"model\":\"gpt2\""), STATUS_FORMAT,
                   ": both 'trace' and 'model' are given; costs come from one of them");
    assert_refused("{\"schema\":\"dynmo-study/1\"" STAGES "}", STATUS_FORMAT,
                   ": needs 'trace' (a store), or 'model' and 'hardware'");
    assert_refused("{\"schema\":\"dynmo-study/1\",\"model\":\"gpt2\"" STAGES "}", STATUS_FORMAT,
                   ": 'model' needs 'hardware' to turn it into times");
    assert_refused(STUDY(STAGES ",\"balancing\":[{\"balancer\":\"even\",\"label\":\"a\\nb\"}]"),
                   STATUS_FORMAT, ": balancing[0].label: holds control character 10");
    assert_refused(STUDY(STAGES ",\"name\":\"\""), STATUS_FORMAT,
                   ": name: has 0 bytes, needs 1 to 100");
    assert_refused(STUDY(STAGES ",\"vary\":{}"), STATUS_UNSUPPORTED,
                   ": vary: has many runs for one; `dynmo study` plays them");
    assert_refused(STUDY(STAGES ",\"balancing\":[{\"balancer\":\"even\"},{\"balancer\":\"even\"}]"),
                   STATUS_FORMAT,
                   ": balancing[1]: the label 'even' is used twice; give one of them a 'label'");
}

#define ROW(keys) STUDY(STAGES ",\"balancing\":[{\"balancer\":\"partition\"" keys "}]")
#define ON_CHANGE ",\"policy\":\"on-change\""

static void a_row_says_how_it_looks_ahead_migrates_and_packs(void **state)
{
    arena *memory = *state;
    const study_file file = write_study(
        STUDY(STAGES ",\"repack\":{\"kind\":\"throughput\",\"tolerance\":0.1,\"unit\":\"node\"},"
                     "\"balancing\":[{\"balancer\":\"partition\"},"
                     "{\"balancer\":\"partition\",\"policy\":\"shadow\"},"
                     "{\"balancer\":\"diffusion\",\"policy\":\"threshold:0.05\","
                     "\"information\":\"foresight\",\"migration\":"
                     "{\"slack\":0.03,\"relabel\":true,\"overlap\":true,\"hysteresis\":0.01},"
                     "\"repack\":{\"kind\":\"published\",\"target\":2,\"use\":\"lend\"}}]"));
    ana_study study;

    assert_ok(ana_study_open(file.path, NULL, NULL, NULL, memory, &study, NULL));

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
    assert_true(ana_inputs_have(&study.inputs, "balancing[2].migration.slack"));
    ana_study_close(&study);
    remove_study(&file);
}

static void what_a_row_cannot_do_is_refused(void **state)
{
    (void)state;
    assert_refused(ROW(",\"information\":\"foresight\""), STATUS_FORMAT,
                   ": balancing[0].information: needs a policy other than never, which keeps the "
                   "plan of the start");
    assert_refused(ROW(ON_CHANGE ",\"information\":\"oracle\""), STATUS_FORMAT,
                   ": balancing[0].information: 'oracle' is not one of profile, foresight");
    assert_refused(ROW(ON_CHANGE ",\"migration\":{\"slak\":1}"), STATUS_FORMAT,
                   ": balancing[0].migration: unknown key 'slak'; did you mean 'slack'?");
    assert_refused(ROW(ON_CHANGE ",\"migration\":{\"relabel\":1}"), STATUS_FORMAT,
                   ": balancing[0].migration.relabel: is not true or false");
    assert_refused(ROW(ON_CHANGE ",\"migration\":{\"hysteresis\":-0.1}"), STATUS_FORMAT,
                   ": balancing[0].migration.hysteresis: -0.1 is outside [0, 0.999]");
    assert_refused(STUDY(STAGES ",\"balancing\":[{\"balancer\":\"diffusion-coded\"" ON_CHANGE
                                ",\"migration\":{}}]"),
                   STATUS_FORMAT,
                   ": balancing[0].migration: 'diffusion-coded' gives layers owners, not stages, "
                   "and is accounted in loads only");
    assert_refused(ROW(ON_CHANGE ",\"repack\":{}"), STATUS_FORMAT,
                   ": balancing[0].repack: 'kind' is missing");
    assert_refused(ROW(ON_CHANGE ",\"repack\":{\"kind\":\"halve\"}"), STATUS_FORMAT,
                   ": balancing[0].repack.kind: 'halve' is not one of none, throughput, gpu-time, "
                   "published, coded, first-fit, best-fit, round-robin, halving");
    assert_refused(
        ROW(ON_CHANGE ",\"repack\":{\"kind\":\"gpu-time\",\"target\":2}"), STATUS_FORMAT,
        ": balancing[0].repack.target: 'gpu-time' looks at times, and has 'tolerance' and "
        "'grow'");
    assert_refused(ROW(ON_CHANGE ",\"repack\":{\"kind\":\"coded\",\"tolerance\":2}"), STATUS_FORMAT,
                   ": balancing[0].repack.tolerance: 'coded' looks at memory, and has 'target' and "
                   "'threshold'");
    assert_refused(STUDY(STAGES ",\"repack\":{\"kind\":\"throughput\",\"unit\":\"rack\"}"),
                   STATUS_FORMAT, ": repack.unit: 'rack' is not one of rank, node");
}

static void training_and_cluster_are_refused_by_key(void **state)
{
    (void)state;
    assert_refused(STUDY(STAGES ",\"training\":{\"tensor_parallel\":0}"), STATUS_FORMAT,
                   ": training.tensor_parallel: 0 is outside [1, 65536]");
    assert_refused(STUDY(STAGES ",\"training\":{\"recompute\":\"partial\"}"), STATUS_FORMAT,
                   ": training.recompute: 'partial' is not one of none, selective, full");
    assert_refused(STUDY(STAGES ",\"training\":{\"dtype\":\"bfloat16\"}"), STATUS_FORMAT,
                   ": training.dtype: the times of a trace are as recorded; only a model's depend "
                   "on it");
    assert_refused(STUDY(STAGES ",\"training\":{\"reduction_overlap\":\"some\"}"), STATUS_FORMAT,
                   ": training.reduction_overlap: 'some' is not one of none, stage, backward, "
                   "regrouped");
    assert_refused(STUDY(STAGES ",\"cluster\":{\"slow_ranks\":[{\"rank\":4,\"speed\":0.8}]}"),
                   STATUS_FORMAT, ": cluster.slow_ranks[0].rank: 4 is outside [0, 3]");
    assert_refused(STUDY(STAGES ",\"cluster\":{\"slow_ranks\":[{\"rank\":1}]}"), STATUS_FORMAT,
                   ": cluster.slow_ranks[0]: 'speed' is missing");
    assert_refused(STUDY(STAGES ",\"cluster\":{\"slow_ranks\":[{\"rank\":1,\"speed\":0.8,"
                                "\"from\":9,\"to\":3}]}"),
                   STATUS_FORMAT,
                   ": cluster.slow_ranks[0]: ends at iteration 3, before it begins at 9");
    assert_refused(
        STUDY(STAGES ",\"dynamism\":{\"case\":\"freezing\",\"change_ratio\":0.5}"), STATUS_FORMAT,
        ": dynamism.change_ratio: a case announces its changes; only those of a trace are "
        "detected");
}

#define PART(rest) STUDY(STAGES "," rest)

static void what_a_study_says_of_its_step_is_read(void **state)
{
    arena *memory = *state;
    ana_study study;
    error_message err;

    assert_ok(open_text(PART("\"training\":{\"accumulation\":3,\"reduction_overlap\":\"regrouped\","
                             "\"step\":\"post-validation\"}"),
                        memory, &study, &err));

    assert_int_equal(study.round_count, 3);
    assert_int_equal(study.reduction_overlap, BAL_REDUCTION_REGROUPED);
    assert_true(study.post_validation);
    ana_study_close(&study);
}

static void what_disturbs_a_run_is_read(void **state)
{
    arena *memory = *state;
    ana_study study;
    error_message err;

    assert_ok(open_text(PART("\"disturbance\":{\"seed\":4,\"op_sigma\":0.1,\"iteration_sigma\":0.2,"
                             "\"rank_sigma\":0.3,\"stragglers\":{\"probability\":0.5,\"factor\":2},"
                             "\"messages\":{\"factor\":2.5,\"sigma\":1,\"factor_max\":4},"
                             "\"links\":[{\"between\":[2,1],\"factor\":4,\"delay_ns\":9,\"from\":3,"
                             "\"to\":5},{\"between\":[0,1]}]}"),
                        memory, &study, &err));

    const bal_disturbance *read = &study.disturbance;
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
    assert_ok(bal_disturbance_check(read, 4, &err));
    ana_study_close(&study);
}

static void how_a_cluster_sends_is_read(void **state)
{
    arena *memory = *state;
    ana_study study;
    error_message err;

    assert_ok(open_text(PART("\"cluster\":{\"send\":\"rendezvous\",\"links\":{\"shared\":true}}"),
                        memory, &study, &err));

    assert_int_equal(study.send, BAL_SEND_RENDEZVOUS);
    assert_true(study.shares_node_links);
    ana_study_close(&study);
}

static void steps_and_disturbances_are_refused_by_key(void **state)
{
    (void)state;
    assert_refused(PART("\"training\":{\"accumulation\":0}"), STATUS_FORMAT,
                   ": training.accumulation: 0 is outside [1, 1024]");
    assert_refused(PART("\"training\":{\"step\":\"late\"}"), STATUS_FORMAT,
                   ": training.step: 'late' is not one of barrier, post-validation");
    assert_refused(PART("\"cluster\":{\"send\":\"late\"}"), STATUS_FORMAT,
                   ": cluster.send: 'late' is not one of async, blocking, rendezvous");
    assert_refused(PART("\"cluster\":{\"links\":{\"shared\":1}}"), STATUS_FORMAT,
                   ": cluster.links.shared: ");
    assert_refused(PART("\"disturbance\":{\"sigma\":1}"), STATUS_FORMAT,
                   ": disturbance: unknown key 'sigma'");
    assert_refused(PART("\"disturbance\":{\"op_sigma\":1.5}"), STATUS_FORMAT,
                   ": disturbance.op_sigma: 1.5 is outside [0, 1]");
    assert_refused(PART("\"disturbance\":{\"stragglers\":{\"probability\":0.1}}"), STATUS_FORMAT,
                   ": disturbance.stragglers: 'factor' is missing");
    assert_refused(PART("\"disturbance\":{\"stragglers\":{\"probability\":0.1,\"factor\":0.5}}"),
                   STATUS_FORMAT, ": disturbance.stragglers.factor: 0.5 is outside [1, 1000]");
    assert_refused(PART("\"disturbance\":{\"messages\":{\"sigma\":1}}"), STATUS_FORMAT,
                   ": disturbance.messages: 'factor' is missing");
    assert_refused(PART("\"disturbance\":{\"links\":{}}"), STATUS_FORMAT,
                   ": disturbance.links: needs an array of at most 64");
    assert_refused(PART("\"disturbance\":{\"links\":[{\"factor\":4}]}"), STATUS_FORMAT,
                   ": disturbance.links[0]: 'between' is missing");
    assert_refused(PART("\"disturbance\":{\"links\":[{\"between\":[1]}]}"), STATUS_FORMAT,
                   ": disturbance.links[0].between: needs two ranks");
    assert_refused(PART("\"disturbance\":{\"links\":[{\"between\":[1,1]}]}"), STATUS_FORMAT,
                   ": disturbance.links[0].between: rank 1 to itself");
    assert_refused(PART("\"disturbance\":{\"links\":[{\"between\":[1,2],\"from\":5,\"to\":4}]}"),
                   STATUS_FORMAT,
                   ": disturbance.links[0]: ends at iteration 4, before it begins at 5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_study_gets_stated_defaults),
        cmocka_unit_test(a_study_in_memory_is_read_as_a_file_is),
        cmocka_unit_test(values_carry_the_origin_that_the_study_states),
        cmocka_unit_test(the_command_line_overrides_where_costs_come_from),
        cmocka_unit_test(a_shipped_name_is_no_path_even_with_a_dot),
        cmocka_unit_test(everything_unknown_is_named_with_what_is_near),
        cmocka_unit_test(numbers_outside_their_limits_are_refused),
        cmocka_unit_test(a_row_says_how_it_looks_ahead_migrates_and_packs),
        cmocka_unit_test(what_a_row_cannot_do_is_refused),
        cmocka_unit_test(training_and_cluster_are_refused_by_key),
        cmocka_unit_test(contradictions_and_parts_of_later_versions_are_refused),
        cmocka_unit_test(what_a_study_says_of_its_step_is_read),
        cmocka_unit_test(what_disturbs_a_run_is_read),
        cmocka_unit_test(how_a_cluster_sends_is_read),
        cmocka_unit_test(steps_and_disturbances_are_refused_by_key),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
