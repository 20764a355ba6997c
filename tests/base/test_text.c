/// text: strict numbers, exact decimal nanoseconds, words for people.
#include "base/text.h"
#include "tests/test.h"

#include <stdio.h>
#include <string.h>

TEST(integers_are_whole_words_inside_their_limits)
{
    static const char *const bad[] = {"", "-", "+1", " 1", "1 ", "1.0", "0x10", "1e3", "nan"};
    int64_t value = 42;

    for (size_t index = 0; index < sizeof bad / sizeof bad[0]; index++) {
        assert_int_equal(text_parse_int64(bad[index], "--n", INT64_MIN, INT64_MAX, &value, &why),
                         STATUS_INVALID);
    }
    assert_fails(text_parse_int64("10000000000000000000", "--n", 0, 9, &value, &why),
                 STATUS_INVALID, "--n: 10000000000000000000 is outside [0, 9]");
    assert_int_equal(value, 42);
    assert_ok(text_parse_int64("-7", "--n", -7, 9, &value, &why));
    assert_int_equal(value, -7);
}

TEST(doubles_refuse_nan_infinity_and_hexadecimal)
{
    static const char *const bad[] = {"nan", "inf", "-inf", "0x1p3", "1e999", "1,5", "", "."};
    double value = 42;

    for (size_t index = 0; index < sizeof bad / sizeof bad[0]; index++) {
        assert_int_equal(text_parse_double(bad[index], "x", -1e300, 1e300, &value, NULL),
                         STATUS_INVALID);
    }
    assert_ok(text_parse_double("0.25", "x", 0, 1, &value, NULL));
    assert_true(value == 0.25);
}

TEST(decimal_times_become_exact_nanoseconds)
{
    static const struct {
        const char *text;
        int64_t unit_ns;
        int64_t ns;
    } cases[] = {
        {"1002.345", 1000, 1002345}, {"0", 1000, 0},
        {"-1.5", 1000, -1500},       {"1738000000123456.789", 1000, 1738000000123456789},
        {"0.0004", 1000, 0},         {"0.0005", 1000, 1},
        {"1e3", 1000, 1000000},      {"1.5E-3", 1000, 2},
        {"000012", 1, 12},           {"9223372036854775.807", 1000, 0},
    };

    for (size_t index = 0; index + 1 < sizeof cases / sizeof cases[0]; index++) {
        int64_t ns = -1;
        assert_ok(text_parse_decimal_ns(cases[index].text, strlen(cases[index].text),
                                        cases[index].unit_ns, &ns, NULL));
        assert_true(ns == cases[index].ns);
    }
    // With an exponent they are read the longer way.
    static const char *const plain[] = {"0",
                                        "7.",
                                        "12.5",
                                        "0.000001",
                                        "123.456",
                                        "99.999",
                                        "1.0005",
                                        "4412427761328.982",
                                        "1669783687464181",
                                        "1669783687464181.123",
                                        "9223372036854775",
                                        "9223372036854776",
                                        "9999999999999999999",
                                        "10000000000000000000"};
    for (size_t each = 0; each < sizeof plain / sizeof plain[0]; each++) {
        for (int64_t unit_ns = 1; unit_ns <= 1000000000; unit_ns *= 1000) {
            char longer[64];
            int64_t ns = -1;
            int64_t longer_ns = -2;
            snprintf(longer, sizeof longer, "%se-0", plain[each]);
            text_parse_decimal_ns(plain[each], strlen(plain[each]), unit_ns, &ns, NULL);
            text_parse_decimal_ns(longer, strlen(longer), unit_ns, &longer_ns, NULL);
            assert_true(ns == longer_ns || (ns == -1 && longer_ns == -2));
        }
    }
    static const char *const bad[] = {"", "-", "1.2.3", "1e", "nan", "10000000000000000000", "1 "};
    for (size_t index = 0; index < sizeof bad / sizeof bad[0]; index++) {
        int64_t ns = 5;
        assert_int_equal(text_parse_decimal_ns(bad[index], strlen(bad[index]), 1000, &ns, NULL),
                         STATUS_INVALID);
        assert_int_equal(ns, 5);
    }
}

TEST(control_characters_are_those_of_both_sets_and_told_from_letters)
{
    char text[] = "a\nb\x1b"
                  "c\xc2\x9b"
                  "d\x7f\xc3\x9b\xc2\xa0";

    assert_false(text_has_control("\xc3\x9b \xc2\xa0 \xe2\x82\xac\n", "\n"));
    assert_true(text_has_control("\n", ""));
    assert_true(text_has_control("\x7f", "\n"));
    assert_true(text_has_control("x\xc2\x80", ""));
    assert_true(text_has_control("x\xc2\x9f", ""));
    text_mask_control(text, "\n");

    assert_string_equal(text, "a\nb?c??d?\xc3\x9b\xc2\xa0");
}

TEST(durations_and_sizes_carry_three_digits_and_a_unit)
{
    assert_string_equal(text_duration(999).text, "999 ns");
    assert_string_equal(text_duration(1234567).text, "1.23 ms");
    assert_string_equal(text_duration(12345678901).text, "12.3 s");
    assert_string_equal(text_size(1536).text, "1.50 KiB");
    assert_string_equal(text_size(INT64_C(80) << 30).text, "80.0 GiB");
}

TEST(a_count_of_one_has_a_noun_in_the_singular)
{
    assert_string_equal(text_count(1, "layer").text, "1 layer");
    assert_string_equal(text_count(0, "layer").text, "0 layers");
    assert_string_equal(text_count(1, "microbatch").text, "1 microbatch");
    assert_string_equal(text_count(2, "microbatch").text, "2 microbatches");
}

TEST(the_nearest_name_is_offered_only_if_it_is_near)
{
    static const char *const names[] = {"zb-h1", "zb-h2", "1f1b", "interleaved-1f1b"};
    char suggestion[TEXT_SUGGESTION_BYTES];

    assert_string_equal(text_nearest("zbh1", names, 4), "zb-h1");
    assert_string_equal(text_nearest("interleaved1f1b", names, 4), "interleaved-1f1b");
    assert_string_equal(text_nearest("inter", names, 4), "interleaved-1f1b");
    assert_null(text_nearest("i", names, 4));
    assert_null(text_nearest("chimera", names, 4));
    assert_string_equal(text_suggestion("zbh1", names, 4, suggestion), "; did you mean 'zb-h1'?");
    assert_string_equal(text_suggestion("chimera", names, 4, suggestion),
                        "; known: zb-h1, zb-h2, 1f1b, interleaved-1f1b");
    const char *many[40];
    for (int name = 0; name < 40; name++) {
        many[name] = "interleaved-1f1b";
    }
    assert_string_equal(text_suggestion("chimera", many, 40, suggestion), "");
    assert_string_equal(text_suggestion("chimera", many, 0, suggestion), "");
}

TEST(words_are_wrapped_after_an_indent)
{
    text_buffer out = {0};

    text_append_wrapped(&out, "one two\nthree four\n\nfive extraordinarily", 2, 11);

    assert_string_equal(out.bytes, "  one two\n  three\n  four\n\n  five\n  extraordinarily\n");
    text_free(&out);
}

TEST(numbers_keep_as_many_digits_as_are_asked_for)
{
    assert_true(text_rounded(1234.5678, 6) == 1234.57);
    assert_true(text_rounded(-0.0012345, 2) == -0.0012);
    assert_true(text_rounded(0.1 + 0.2, 9) == 0.3);
    assert_true(text_rounded(0, 3) == 0);
    assert_true(isinf(text_rounded(INFINITY, 3)));
    assert_true(isnan(text_rounded(NAN, 3)));
}

TEST(markup_is_escaped_and_the_rest_stays)
{
    text_buffer text = {0};

    text_append_escaped(&text, "a<b> & \"c\" 'd'\n");

    assert_string_equal(text.bytes, "a&lt;b&gt; &amp; &quot;c&quot; 'd'\n");
    text_free(&text);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
