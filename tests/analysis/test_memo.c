/// Results that are kept by what they depend on: found again, told apart, and let go in the order
/// of their use; the costs of points do not depend on which points were played before, and their
/// FLOP are those of the model.
#include "analysis/study/cache.h"
#include "analysis/whatif/point.h"
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/assert_close.h"

static ana_memo_entry *find(ana_memo *memo, int key)
{
    return ana_memo_find(memo, (const char *)&key, sizeof key);
}

static void a_result_is_found_by_its_bytes_until_others_take_its_place(void **state)
{
    (void)state;
    ana_memo *memo = ana_memo_create();
    ana_memo_entry *first = find(memo, 0);

    assert_null(first->value);
    first->value = arena_string(first->memory, "first");
    assert_string_equal(find(memo, 0)->value, "first");
    assert_null(ana_memo_find(memo, "\0\0\0", 3)->value);

    for (int key = 1; key < ANA_MEMO_ENTRIES - 1; key++) {
        find(memo, key)->value = "other";
    }
    assert_string_equal(find(memo, 0)->value, "first"); // used, so that key 1 is the oldest
    find(memo, 1000)->value = "more";
    find(memo, 1001)->value = "more";
    assert_non_null(find(memo, 0)->value);
    assert_null(find(memo, 1)->value);
    ana_memo_destroy(memo);
}

/// A study whose number of variant changes one value that costs depend on.
static const char *write_study(int variant, text_buffer *out)
{
    static const char *const changes[] = {
        "",
        ",\"training\":{\"microbatch_size\":2}",
        ",\"training\":{\"dtype\":\"float32\"}",
        ",\"training\":{\"attention\":\"unfused\"}",
        ",\"training\":{\"tensor_parallel\":2}",
        ",\"training\":{\"recompute\":\"full\"}",
        ",\"cluster\":{\"gpus_per_node\":2},\"training\":{\"tensor_parallel\":4}",
        ",\"cluster\":{\"links\":{\"intra\":{\"latency_ns\":9,\"bytes_per_s\":99}}}",
    };
    text_clear(out);
    text_format(out,
                "{\"schema\":\"dynmo-study/1\",\"model\":\"gpt2-medium\",\"hardware\":\"%s\","
                "\"pipeline\":{\"stages\":4,\"schedule\":\"1f1b\"},\"balancing\":{\"balancer\":"
                "\"partition\"}%s}",
                variant < 8 ? "h100-sxm" : "a100-sxm-80gb", changes[variant % 8]);
    return out->bytes;
}

static double played_ns(ana_point_worker *worker, int variant)
{
    ana_point point;
    error_message err = {0};
    text_buffer text = {0};
    const char *study = write_study(variant, &text);
    assert_int_equal(ana_point_evaluate(worker, "s", study, NULL, &point, &err), STATUS_OK);
    text_free(&text);
    return point.refusal == ANA_REFUSAL_NONE ? point.iteration_ns + 1e-3 * point.bound_ns : -1;
}

static void points_cost_the_same_whatever_was_played_before(void **state)
{
    (void)state;
    double alone[16];
    ana_point_worker *busy = ana_point_worker_create();
    for (int variant = 0; variant < 16; variant++) {
        ana_point_worker *fresh = ana_point_worker_create();
        alone[variant] = played_ns(fresh, variant);
        ana_point_worker_destroy(fresh);
        assert_true(alone[variant] > 0);
        for (int other = 0; other < variant; other++) {
            assert_true(alone[variant] != alone[other]);
        }
    }

    for (int turn = 0; turn < 64; turn++) {
        const int variant = turn * 7 % 16;
        assert_true(played_ns(busy, variant) == alone[variant]);
    }
    ana_point_worker_destroy(busy);
}

/// By the definition: six for each weight and token, and attention below its diagonal (of F and B,
/// one product for scores and one for values), over the GPUs that work.
static void flop_of_the_model_are_those_of_its_weights_and_attention(void **state)
{
    (void)state;
    enum { LAYERS = 24, WIDTH = 1024, WORDS = 50257, TOKENS = 1024, GPUS = 4 };
    ana_point point;
    error_message err = {0};
    text_buffer text = {0};
    ana_point_worker *worker = ana_point_worker_create();
    const char *study = write_study(0, &text);
    assert_int_equal(ana_point_evaluate(worker, "s", study, NULL, &point, &err), STATUS_OK);

    const double weights = 12.0 * LAYERS * WIDTH * WIDTH + (double)WIDTH * WORDS;
    const double flop = 6 * weights + 6.0 * LAYERS * TOKENS * WIDTH;
    assert_close(point.flop_per_s, flop * point.per_second / GPUS, 0.01);
    assert_close(point.flop_share, point.flop_per_s / 989e12, 0.001);
    text_free(&text);
    ana_point_worker_destroy(worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_is_found_by_its_bytes_until_others_take_its_place),
        cmocka_unit_test(points_cost_the_same_whatever_was_played_before),
        cmocka_unit_test(flop_of_the_model_are_those_of_its_weights_and_attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
