#include "analysis/converge/verdict.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

enum { DIGITS = 9, TEXT_BYTES = 512, SCRATCH_BYTES = 1 << 16 };

static const ana_claim claims[] = {
    {"lemma-1", ana_try_range},
    {"lemma-2-potential", ana_try_potential},
    {"lemma-2-rounds", ana_try_rounds},
    {"termination", ana_try_termination},
    {"guarantee", ana_try_guarantee},
    {"released-code", ana_try_released},
    {"cut-diffusion", ana_try_cut_diffusion},
    {"theorem-r", ana_try_averaging},
    {"fold-matching", ana_try_fold},
    {"whole-tokens", ana_try_tokens},
};
enum { CLAIM_COUNT = sizeof claims / sizeof claims[0] };

const ana_claim *ana_claims(int *count)
{
    *count = CLAIM_COUNT;
    return claims;
}

ana_verdict_options ana_verdict_options_default(void)
{
    return (ana_verdict_options){.seed = 1, .instance_count = 2000};
}

status ana_claim_try(const ana_claim *claim, const ana_verdict_options *options, arena *memory,
                     ana_verdict *verdict, error_message *err)
{
    ana_verdict made = {.name = claim->name};
    arena *scratch = arena_create(SCRATCH_BYTES);
    const status result = claim->try(options, memory, scratch, &made, err);
    arena_destroy(scratch);
    TRY(result);
    *verdict = made;
    return STATUS_OK;
}

ana_answer ana_verdict_answer(const ana_verdict *verdict)
{
    int broken = 0;
    for (int index = 0; index < verdict->case_count; index++) {
        if (verdict->cases[index].violation_count > 0) broken++;
    }
    if (broken == 0) return ANA_ANSWER_HOLDS;
    return broken == verdict->case_count ? ANA_ANSWER_FAILS : ANA_ANSWER_CONDITIONS;
}

const char *ana_answer_name(ana_answer answer)
{
    switch (answer) {
    case ANA_ANSWER_HOLDS:
        return "holds";
    case ANA_ANSWER_CONDITIONS:
        return "holds under conditions";
    case ANA_ANSWER_FAILS:
        return "fails";
    }
    return "";
}

void ana_case_measure(ana_verdict_case *tried, double value)
{
    if (value > tried->worst) tried->worst = value;
}

status ana_case_violate(ana_verdict_case *tried, const ana_layer_instance *instance, arena *memory,
                        error_message *err, const char *format, ...)
{
    (void)err;
    tried->violation_count++;
    if (tried->first_violation != NULL) return STATUS_OK;
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    tried->first_violation = arena_string(memory, text);
    if (instance == NULL) return STATUS_OK;
    ana_instance_copy(instance, memory, &tried->example);
    return STATUS_OK;
}

void ana_case_searched(ana_verdict_case *tried, const ana_search_box *box, arena *memory)
{
    text_buffer words = {0};
    ana_search_append(box, &words);
    tried->searched = words.failed ? NULL : arena_string(memory, words.bytes);
    text_free(&words);
}

void ana_growth_init(ana_growth *growth, int row_count, arena *memory)
{
    growth->row_count = row_count;
    growth->value = arena_array(memory, (size_t)row_count * (size_t)growth->column_count,
                                sizeof *growth->value);
}

int64_t ana_verdict_spread(const int64_t *load, int count)
{
    int64_t least = load[0];
    int64_t most = load[0];
    for (int index = 1; index < count; index++) {
        if (load[index] < least) least = load[index];
        if (load[index] > most) most = load[index];
    }
    return most - least;
}

static void append_case(const ana_verdict_case *tried, text_buffer *out)
{
    text_format(out, "  %-37s %s: %" PRId64 " tried, ", tried->condition,
                tried->violation_count == 0 ? "holds" : "fails", tried->examined);
    if (tried->violation_count == 0) {
        text_append(out, "none breaks it");
    } else {
        text_format(out, "%" PRId64 " break it", tried->violation_count);
    }
    if (tried->worst_name != NULL) {
        text_format(out, "; %s at most %.4g", tried->worst_name, tried->worst);
    }
    text_format(out, "\n      tried: %s\n", tried->searched);
    if (tried->first_violation == NULL) return;
    text_append(out, "      smallest: ");
    if (tried->example.layer_count > 0) {
        ana_instance_append(&tried->example, out);
        text_append(out, ": ");
    }
    text_format(out, "%s\n", tried->first_violation);
}

static void append_growth(const ana_growth *growth, text_buffer *out)
{
    if (growth->family == NULL) return;
    text_format(out, "  %s\n", growth->family);
    for (int column = 0; column < growth->column_count; column++) {
        text_format(out, "%s%14s", column > 0 ? "  " : "    ", growth->column[column]);
    }
    text_append(out, "\n");
    for (int row = 0; row < growth->row_count; row++) {
        for (int column = 0; column < growth->column_count; column++) {
            text_format(out, "%s%14.6g", column > 0 ? "  " : "    ",
                        growth->value[row * growth->column_count + column]);
        }
        text_append(out, "\n");
    }
}

void ana_verdict_append(const ana_verdict *verdict, text_buffer *out)
{
    text_format(out, "%s: %s\n", verdict->name, ana_answer_name(ana_verdict_answer(verdict)));
    text_append_wrapped(out, verdict->claim, 2, 100);
    text_format(out, "  says: %s\n", verdict->source);
    for (int index = 0; index < verdict->case_count; index++) {
        append_case(&verdict->cases[index], out);
    }
    append_growth(&verdict->growth, out);
    text_append_wrapped(out, verdict->reason, 2, 100);
}

static void write_case(const ana_verdict_case *tried, json_writer *writer)
{
    json_begin_object(writer);
    json_put_string(writer, "condition", tried->condition);
    json_put_bool(writer, "holds", tried->violation_count == 0);
    json_put_string(writer, "searched", tried->searched);
    json_put_int64(writer, "examined", tried->examined);
    json_put_int64(writer, "violations", tried->violation_count);
    json_write_key(writer, "worst");
    if (tried->worst_name != NULL) {
        json_begin_object(writer);
        json_put_string(writer, "name", tried->worst_name);
        json_put_rounded(writer, "value", tried->worst, DIGITS);
        json_end_object(writer);
    } else {
        json_write_null(writer);
    }
    json_put_string(writer, "smallest_violation", tried->first_violation);
    json_write_key(writer, "counterexample");
    if (tried->example.layer_count > 0) {
        ana_instance_write(&tried->example, writer);
    } else {
        json_write_null(writer);
    }
    json_end_object(writer);
}

/// A number of a table: counts without a fraction.
static void put_number(json_writer *writer, const char *key, double value)
{
    if (value == floor(value) && fabs(value) < (double)JSON_INTEGER_MAX) {
        json_put_int64(writer, key, (int64_t)value);
    } else {
        json_put_rounded(writer, key, value, DIGITS);
    }
}

static void write_growth(const ana_growth *growth, json_writer *writer)
{
    json_write_key(writer, "growth");
    if (growth->family == NULL) {
        json_write_null(writer);
        return;
    }
    json_begin_object(writer);
    json_put_string(writer, "family", growth->family);
    json_write_key(writer, "rows");
    json_begin_array(writer);
    for (int row = 0; row < growth->row_count; row++) {
        json_begin_object(writer);
        for (int column = 0; column < growth->column_count; column++) {
            put_number(writer, growth->column[column],
                       growth->value[row * growth->column_count + column]);
        }
        json_end_object(writer);
    }
    json_end_array(writer);
    json_end_object(writer);
}

void ana_verdict_write(const ana_verdict *verdict, json_writer *writer)
{
    json_begin_object(writer);
    json_put_string(writer, "name", verdict->name);
    json_put_string(writer, "claim", verdict->claim);
    json_put_string(writer, "source", verdict->source);
    json_put_string(writer, "answer", ana_answer_name(ana_verdict_answer(verdict)));
    json_put_string(writer, "reason", verdict->reason);
    json_write_key(writer, "cases");
    json_begin_array(writer);
    for (int index = 0; index < verdict->case_count; index++) {
        write_case(&verdict->cases[index], writer);
    }
    json_end_array(writer);
    write_growth(&verdict->growth, writer);
    json_end_object(writer);
}
