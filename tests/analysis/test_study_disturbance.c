/// Tests of the parts of a study that say how an iteration ends and what disturbs it: read as
/// written, and refused by key and limit.
#include "analysis/study/study.h"

#include "tests/assert_close.h"

#include <string.h>

#define STUDY(rest)                                                                                \
    "{\"schema\":\"dynmo-study/1\",\"trace\":\"t.db\",\"pipeline\":{\"stages\":4}," rest "}"

static status open_study(const char *text, arena *memory, ana_study *study, error_message *err)
{
    *err = (error_message){0};
    return ana_study_open_text("s", text, memory, study, err);
}

static void what_a_study_says_of_its_step_is_read(void **state)
{
    (void)state;
    arena *memory = arena_create(4096);
    ana_study study;
    error_message err;

    assert_int_equal(
        open_study(STUDY("\"training\":{\"accumulation\":3,\"reduction_overlap\":\"regrouped\","
                         "\"step\":{\"kind\":\"post-validation\",\"norm_ns\":5,\"rollback_ns\":6,"
                         "\"unclipped\":7,\"failure_probability\":0.25,\"failures\":[3,9],"
                         "\"seed\":11}}"),
                   memory, &study, &err),
        STATUS_OK);

    assert_int_equal(study.round_count, 3);
    assert_int_equal(study.reduction_overlap, BAL_REDUCTION_REGROUPED);
    assert_true(study.post_validation && study.validation.plays_chain);
    assert_int_equal(study.validation.norm_ns, 5);
    assert_int_equal(study.validation.rollback_ns, 6);
    assert_int_equal(study.validation.unclipped_count, 7);
    assert_true(study.validation.failure_probability == 0.25);
    assert_int_equal(study.validation.failure_count, 2);
    assert_int_equal(study.validation.failures[1], 9);
    assert_int_equal(study.validation.seed, 11);
    ana_study_close(&study);
    arena_destroy(memory);
}

static void a_step_by_name_validates_after_ten_iterations(void **state)
{
    (void)state;
    arena *memory = arena_create(4096);
    ana_study study;
    error_message err;

    assert_int_equal(
        open_study(STUDY("\"training\":{\"step\":\"post-validation\"}"), memory, &study, &err),
        STATUS_OK);

    assert_true(study.post_validation);
    assert_int_equal(study.validation.unclipped_count, 10);
    assert_int_equal(study.round_count, 1);
    ana_study_close(&study);
    arena_destroy(memory);
}

static void what_disturbs_a_run_is_read(void **state)
{
    (void)state;
    arena *memory = arena_create(4096);
    ana_study study;
    error_message err;

    assert_int_equal(
        open_study(STUDY("\"disturbance\":{\"seed\":4,\"op_sigma\":0.1,\"iteration_sigma\":0.2,"
                         "\"rank_sigma\":0.3,\"stragglers\":{\"probability\":0.5,\"factor\":2},"
                         "\"messages\":{\"factor\":2.5,\"sigma\":1,\"factor_max\":4},"
                         "\"links\":[{\"between\":[2,1],\"factor\":4,\"delay_ns\":9,\"from\":3,"
                         "\"to\":5},{\"between\":[0,1]}]}"),
                   memory, &study, &err),
        STATUS_OK);

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
    assert_int_equal(bal_disturbance_check(read, 4, &err), STATUS_OK);
    ana_study_close(&study);
    arena_destroy(memory);
}

static void how_a_cluster_sends_is_read(void **state)
{
    (void)state;
    arena *memory = arena_create(4096);
    ana_study study;
    error_message err;

    assert_int_equal(
        open_study(STUDY("\"cluster\":{\"send\":\"rendezvous\",\"links\":{\"shared\":true}}"),
                   memory, &study, &err),
        STATUS_OK);

    assert_int_equal(study.send, BAL_SEND_RENDEZVOUS);
    assert_true(study.shares_node_links);
    ana_study_close(&study);
    arena_destroy(memory);
}

static void what_does_not_fit_is_refused_by_key(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {STUDY("\"training\":{\"accumulation\":0}"),
         "s: training.accumulation: 0 is outside [1, 1024]"},
        {STUDY("\"training\":{\"step\":\"late\"}"),
         "s: training.step: 'late' is not one of barrier, post-validation"},
        {STUDY("\"training\":{\"step\":{\"norm_ns\":1}}"), "s: training.step: 'kind' is missing"},
        {STUDY("\"training\":{\"step\":{\"kind\":\"barrier\",\"rollback_ns\":1}}"),
         "s: training.step.rollback_ns: is of post-validation; with a barrier the norm is known "
         "before the step"},
        {STUDY("\"training\":{\"step\":{\"kind\":\"post-validation\",\"failure_probability\":2}}"),
         "s: training.step.failure_probability: 2 is outside [0, 1]"},
        {STUDY("\"training\":{\"step\":{\"kind\":\"post-validation\",\"failures\":3}}"),
         "s: training.step.failures: needs an array of at most 256"},
        {STUDY("\"training\":{\"step\":{\"kind\":\"post-validation\",\"rollback\":3}}"),
         "s: training.step: unknown key 'rollback'; known: kind, "},
        {STUDY("\"cluster\":{\"send\":\"late\"}"),
         "s: cluster.send: 'late' is not one of async, blocking, rendezvous"},
        {STUDY("\"cluster\":{\"links\":{\"shared\":1}}"), "s: cluster.links.shared: "},
        {STUDY("\"disturbance\":{\"sigma\":1}"), "s: disturbance: unknown key 'sigma'"},
        {STUDY("\"disturbance\":{\"op_sigma\":1.5}"),
         "s: disturbance.op_sigma: 1.5 is outside [0, 1]"},
        {STUDY("\"disturbance\":{\"stragglers\":{\"probability\":0.1}}"),
         "s: disturbance.stragglers: 'factor' is missing"},
        {STUDY("\"disturbance\":{\"stragglers\":{\"probability\":0.1,\"factor\":0.5}}"),
         "s: disturbance.stragglers.factor: 0.5 is outside [1, 1000]"},
        {STUDY("\"disturbance\":{\"messages\":{\"sigma\":1}}"),
         "s: disturbance.messages: 'factor' is missing"},
        {STUDY("\"disturbance\":{\"links\":{}}"),
         "s: disturbance.links: needs an array of at most 64"},
        {STUDY("\"disturbance\":{\"links\":[{\"factor\":4}]}"),
         "s: disturbance.links[0]: 'between' is missing"},
        {STUDY("\"disturbance\":{\"links\":[{\"between\":[1]}]}"),
         "s: disturbance.links[0].between: needs two ranks"},
        {STUDY("\"disturbance\":{\"links\":[{\"between\":[1,1]}]}"),
         "s: disturbance.links[0].between: rank 1 to itself"},
        {STUDY("\"disturbance\":{\"links\":[{\"between\":[1,2],\"from\":5,\"to\":4}]}"),
         "s: disturbance.links[0]: ends at iteration 4, before it begins at 5"},
    };
    for (size_t each = 0; each < sizeof cases / sizeof cases[0]; each++) {
        arena *memory = arena_create(4096);
        ana_study study;
        error_message err;
        assert_int_equal(open_study(cases[each].text, memory, &study, &err), STATUS_FORMAT);
        if (strncmp(err.message, cases[each].message, strlen(cases[each].message)) != 0) {
            print_error("%s\n", err.message);
        }
        assert_int_equal(strncmp(err.message, cases[each].message, strlen(cases[each].message)), 0);
        arena_destroy(memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_study_says_of_its_step_is_read),
        cmocka_unit_test(a_step_by_name_validates_after_ten_iterations),
        cmocka_unit_test(what_disturbs_a_run_is_read),
        cmocka_unit_test(how_a_cluster_sends_is_read),
        cmocka_unit_test(what_does_not_fit_is_refused_by_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
