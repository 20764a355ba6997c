/// hardware: presets hold dense rates, files are read strictly, sparse figures are refused.
#include "models/cost/hardware.h"
#include "models/shipped.h"
#include "tests/test_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char plain[] =
    "{\"schema\":\"dynmo-hardware/1\",\"flop_per_s\":{\"bfloat16\":777000000000},"
    "\"efficiency\":{\"gemm\":0.5,\"attention\":0.25,\"memory\":1},\"memory_bytes\":1000,"
    "\"memory_bytes_per_s\":10,\"gpus_per_node\":4,"
    "\"links\":{\"intra\":{\"latency_ns\":1,\"bytes_per_s\":2},"
    "\"inter\":{\"latency_ns\":3,\"bytes_per_s\":4}}}";

static status read_text(const char *text, model_hardware *hardware, error_message *err)
{
    json_document *document = NULL;
    TRY(json_open_bytes("h.json", text, strlen(text), &document, err));
    const status result = model_hardware_read(document, "h.json", memory, hardware, err);
    json_close(document);
    return result;
}

/// plain with its first old replaced by new.
static void assert_refused(const char *old, const char *new, status code, const char *message)
{
    char text[sizeof plain + 200];
    const char *found = strstr(plain, old);
    assert_non_null(found);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(found - plain), plain, new, found + strlen(old));
    model_hardware hardware = {.gpus_per_node = -7};

    assert_fails(read_text(text, &hardware, &why), code, message);
    assert_int_equal(hardware.gpus_per_node, -7);
}

TEST(presets_hold_dense_rates_and_say_where_each_number_is_from)
{
    static const struct {
        const char *name;
        int64_t tflop_per_s;
        int64_t float8_tflop_per_s; // 0: not known
        int64_t float32_gflop_per_s;
        int64_t memory_gb;
        int64_t memory_gb_per_s;
        int64_t intra_gb_per_s;
        int64_t inter_gb_per_s;
    } presets[] = {
        {"a100-sxm-80gb", 312, 0, 19500, 80, 2039, 300, 25},
        {"h100-sxm", 989, 1979, 67000, 80, 3350, 450, 50},
        {"h100-dynmo", 989, 0, 67000, 80, 3350, 450, 25},
        {"h200-sxm", 989, 1979, 67000, 141, 4800, 450, 50},
        {"h800-sxm", 989, 1979, 67000, 80, 3350, 200, 50},
        {"gh200", 989, 1979, 67000, 96, 4000, 450, 25},
        {"b200", 2250, 4500, 75000, 180, 8000, 900, 50},
        {"b300", 2250, 4500, 75000, 270, 8000, 900, 100},
        {"gb200-nvl72", 2500, 5000, 80000, 186, 8000, 900, 50},
        {"gb300-nvl72", 2500, 5000, 80000, 278, 8000, 900, 100},
    };
    const int64_t giga = 1000000000;
    for (size_t row = 0; row < sizeof presets / sizeof presets[0]; row++) {
        model_hardware hardware;
        assert_ok(model_hardware_open(presets[row].name, NULL, memory, &hardware, NULL));
        assert_string_equal(hardware.name, presets[row].name);
        assert_int_equal(hardware.flop_per_s[MODEL_DTYPE_BFLOAT16],
                         presets[row].tflop_per_s * 1000 * giga);
        assert_int_equal(hardware.flop_per_s[MODEL_DTYPE_FLOAT8],
                         presets[row].float8_tflop_per_s * 1000 * giga);
        assert_int_equal(hardware.flop_per_s[MODEL_DTYPE_FLOAT32],
                         presets[row].float32_gflop_per_s * giga);
        assert_int_equal(hardware.memory_bytes, presets[row].memory_gb * giga);
        assert_int_equal(hardware.memory_bytes_per_s, presets[row].memory_gb_per_s * giga);
        assert_int_equal(hardware.intra_node.bytes_per_s, presets[row].intra_gb_per_s * giga);
        assert_int_equal(hardware.inter_node.bytes_per_s, presets[row].inter_gb_per_s * giga);
        assert_int_equal(hardware.flop_origin.kind, MODEL_ORIGIN_PRESET);
        assert_int_equal(hardware.efficiency_origin.kind, MODEL_ORIGIN_ASSUMED);
        assert_int_equal(hardware.memory_origin.kind, MODEL_ORIGIN_PRESET);
        assert_int_equal(hardware.links_origin.kind, MODEL_ORIGIN_PRESET);
        assert_int_equal(hardware.latency_origin.kind, MODEL_ORIGIN_ASSUMED);
        assert_true(strlen(hardware.efficiency_origin.text) > 0);
    }
}

TEST(sparse_rates_are_refused_and_the_dense_one_named)
{
    assert_refused(":777000000000", ":1979000000000000", STATUS_INVALID,
                   "h.json: flop_per_s.bfloat16: 1979000000000000 is what H100, H200 does with "
                   "sparse matrices; dense ones, which training multiplies, reach 989 TFLOP/s");
    assert_refused("\"bfloat16\":777000000000", "\"float8\":3958000000000000", STATUS_INVALID,
                   "h.json: flop_per_s.float8: 3958000000000000 is what H100, H200 does with "
                   "sparse matrices; dense ones, which training multiplies, reach 1979 TFLOP/s");
    assert_refused(":777000000000", ":1978900000000000", STATUS_INVALID,
                   "h.json: flop_per_s.bfloat16: 1978900000000000 is what H100, H200 does with "
                   "sparse matrices; dense ones, which training multiplies, reach 989 TFLOP/s");
    assert_refused(":777000000000", ":624e12", STATUS_INVALID,
                   "h.json: flop_per_s.bfloat16: 624000000000000 is what A100 does with sparse "
                   "matrices; dense ones, which training multiplies, reach 312 TFLOP/s");
    assert_refused(":777000000000", ":4500e12", STATUS_INVALID,
                   "h.json: flop_per_s.bfloat16: 4500000000000000 is what B200 does with sparse "
                   "matrices; dense ones, which training multiplies, reach 2250 TFLOP/s");
}

TEST(faults_of_a_file_are_named)
{
    assert_refused("hardware/1", "hardware/2", STATUS_FORMAT,
                   "h.json: schema: 'dynmo-hardware/2' is not 'dynmo-hardware/1'");
    assert_refused("memory_bytes\"", "memory_byte\"", STATUS_FORMAT,
                   "h.json: unknown key 'memory_byte'; did you mean 'memory_bytes'?");
    assert_refused("\"memory_bytes\":1000,", "", STATUS_FORMAT,
                   "h.json: memory_bytes: missing; needs an integer");
    assert_refused("{\"bfloat16\":777000000000}", "{}", STATUS_FORMAT,
                   "h.json: flop_per_s: is empty; needs the rate of one dtype");
    assert_refused("bfloat16", "float64", STATUS_FORMAT,
                   "h.json: flop_per_s: unknown key 'float64'; did you mean 'float16'?");
    assert_refused(":777000000000", ":148", STATUS_FORMAT, // TFLOP/s
                   "h.json: flop_per_s.bfloat16: 148 is outside [1000000000, "
                   "1000000000000000000]");
    assert_refused(":777000000000", ":0", STATUS_FORMAT,
                   "h.json: flop_per_s.bfloat16: 0 is outside [1000000000, 1000000000000000000]");
    assert_refused(":0.5", ":1.5", STATUS_FORMAT,
                   "h.json: efficiency.gemm: 1.5 is outside [1e-06, 1]");
    assert_refused(":0.25", ":0", STATUS_FORMAT,
                   "h.json: efficiency.attention: 0 is outside [1e-06, 1]");
    assert_refused(":0.25", ":\"fast\"", STATUS_FORMAT,
                   "h.json: efficiency.attention: is not a number");
    assert_refused(":1000", ":-1", STATUS_FORMAT,
                   "h.json: memory_bytes: -1 is outside [1, 9007199254740992]");
    assert_refused(":1000", ":10000000000000000000", STATUS_FORMAT,
                   "h.json:1: memory_bytes: integer 10000000000000000000 exceeds 2^53 = "
                   "9007199254740992");
    assert_refused(":1000", ":NaN", STATUS_FORMAT, "h.json:1: not valid JSON");
    assert_refused("\"gpus_per_node\":4", "\"gpus_per_node\":0", STATUS_FORMAT,
                   "h.json: gpus_per_node: 0 is outside [1, 65536]");
    assert_refused("\"latency_ns\":3", "\"latency_ns\":-3", STATUS_FORMAT,
                   "h.json: links.inter.latency_ns: -3 is outside [0, 1000000000]");
    assert_refused("\"bytes_per_s\":4", "\"gbps\":4", STATUS_FORMAT,
                   "h.json: links.inter: unknown key 'gbps'; known: latency_ns, bytes_per_s");
    assert_refused("\"links\"",
                   "\"source\":{\"memory\":{\"kind\":\"guessed\",\"text\":\"x\"}},"
                   "\"links\"",
                   STATUS_FORMAT,
                   "h.json: source.memory.kind: 'guessed' is none of given, measured, fitted, "
                   "preset, assumed");
    assert_refused("\"links\"", "\"source\":{\"memory\":{\"kind\":\"fitted\"}},\"links\"",
                   STATUS_FORMAT, "h.json: source.memory.text: missing; needs a string");
    assert_refused("\"links\"", "\"source\":{\"bandwidth\":{}},\"links\"", STATUS_FORMAT,
                   "h.json: source: unknown key 'bandwidth'; known: flop_per_s, efficiency, "
                   "memory, links, latency, overhead");
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
