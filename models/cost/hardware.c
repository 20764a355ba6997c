#include "models/cost/hardware.h"

#include "models/shipped.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const double efficiency_min = 1e-6; // a smaller share is a unit mistake
#define RATE_MAX INT64_C(1000000000000000000)
#define LATENCY_NS_MAX INT64_C(1000000000)
#define RESERVE_BYTES_MAX INT64_C(1000000000000)

/// Rates that datasheets print first and that hold for matrices with every second pair of numbers
/// zero; half of it is what training gets.
typedef struct sparse_rate {
    int dtype_bytes;
    double tflop_per_s;
    const char *gpu;
    const char *dense;
} sparse_rate;

static const sparse_rate sparse_rates[] = {
    {2, 624, "A100", "312 TFLOP/s"},   {2, 1979, "H100, H200", "989 TFLOP/s"},
    {2, 4500, "B200", "2250 TFLOP/s"}, {1, 3958, "H100, H200", "1979 TFLOP/s"},
    {1, 9000, "B200", "4500 TFLOP/s"},
};
enum { SPARSE_RATE_COUNT = sizeof sparse_rates / sizeof sparse_rates[0] };

static status check_dense(json_value value, model_dtype dtype, int64_t flop_per_s,
                          error_message *err)
{
    for (int row = 0; row < SPARSE_RATE_COUNT; row++) {
        const bool is_four_bits = dtype == MODEL_DTYPE_NVFLOAT4; // dense at that of 8 sparse ones
        if (is_four_bits || sparse_rates[row].dtype_bytes != model_dtype_bytes(dtype)) continue;
        const double sparse = sparse_rates[row].tflop_per_s * 1e12;
        if (fabs((double)flop_per_s - sparse) > 1e-3 * sparse) continue; // sheets round differently
        return json_error(value, STATUS_INVALID, err,
                          "%" PRId64 " is what %s does with sparse matrices; dense ones, which "
                          "training multiplies, reach %s",
                          flop_per_s, sparse_rates[row].gpu, sparse_rates[row].dense);
    }
    return STATUS_OK;
}

/// FLOP/s, not TFLOP/s.
#define FLOP_RATE_MIN INT64_C(1000000000)

/// Rates of 4 bits may exceed the whole numbers that JSON holds exactly.
static status read_rate(json_value value, model_dtype dtype, int64_t *flop_per_s,
                        error_message *err)
{
    double rate = 0;
    if (dtype != MODEL_DTYPE_NVFLOAT4) {
        return json_int64(value, FLOP_RATE_MIN, RATE_MAX, flop_per_s, err);
    }
    TRY(json_double(value, (double)FLOP_RATE_MIN, (double)RATE_MAX, &rate, err));
    *flop_per_s = (int64_t)rate;
    return STATUS_OK;
}

static status read_rates(json_value object, model_hardware *hardware, error_message *err)
{
    const char *allowed[MODEL_DTYPE_COUNT];
    int count = 0;
    for (int dtype = MODEL_DTYPE_UNKNOWN + 1; dtype < MODEL_DTYPE_COUNT; dtype++) {
        allowed[count++] = model_dtype_name((model_dtype)dtype);
    }
    TRY(json_check_keys(object, allowed, count, err));
    if (json_count(object) == 0) {
        return json_error(object, STATUS_FORMAT, err, "is empty; needs the rate of one dtype");
    }
    for (int entry = 0; entry < json_count(object); entry++) {
        const json_value rate = json_element(object, entry);
        const model_dtype dtype = model_dtype_find(json_key(rate));
        TRY(read_rate(rate, dtype, &hardware->flop_per_s[dtype], err));
        TRY(check_dense(rate, dtype, hardware->flop_per_s[dtype], err));
    }
    int64_t *const rates = hardware->flop_per_s;
    if (rates[MODEL_DTYPE_TFLOAT32] == 0) rates[MODEL_DTYPE_TFLOAT32] = rates[MODEL_DTYPE_FLOAT32];
    // Scales of blocks came with the 4-bit formats.
    if (rates[MODEL_DTYPE_MXFLOAT8] == 0 && rates[MODEL_DTYPE_NVFLOAT4] > 0) {
        rates[MODEL_DTYPE_MXFLOAT8] = rates[MODEL_DTYPE_FLOAT8];
    }
    return STATUS_OK;
}

/// A share that is 1 where it is missing.
static status read_share(json_value share, double *out, error_message *err)
{
    *out = 1;
    return json_is_missing(share) ? STATUS_OK : json_double(share, efficiency_min, 1, out, err);
}

static status read_efficiency(json_value object, model_hardware *hardware, error_message *err)
{
    static const char *const allowed[] = {"gemm", "attention", "memory", "intra", "inter"};
    TRY(json_check_keys(object, allowed, 5, err));
    TRY(read_share(json_member(object, "intra"), &hardware->intra_efficiency, err));
    TRY(read_share(json_member(object, "inter"), &hardware->inter_efficiency, err));
    TRY(json_double(json_member(object, "gemm"), efficiency_min, 1, &hardware->gemm_efficiency,
                    err));
    TRY(json_double(json_member(object, "attention"), efficiency_min, 1,
                    &hardware->attention_efficiency, err));
    return json_double(json_member(object, "memory"), efficiency_min, 1,
                       &hardware->memory_efficiency, err);
}

static status read_link(json_value object, bal_link *link, error_message *err)
{
    static const char *const allowed[] = {"latency_ns", "bytes_per_s"};
    TRY(json_check_keys(object, allowed, 2, err));
    TRY(json_int64(json_member(object, "latency_ns"), 0, LATENCY_NS_MAX, &link->latency_ns, err));
    return json_int64(json_member(object, "bytes_per_s"), 1, JSON_INTEGER_MAX, &link->bytes_per_s,
                      err);
}

static status read_links(json_value object, model_hardware *hardware, error_message *err)
{
    static const char *const allowed[] = {"intra", "inter", "host"};
    TRY(json_check_keys(object, allowed, 3, err));
    TRY(read_link(json_member(object, "intra"), &hardware->intra_node, err));
    if (!json_is_missing(json_member(object, "host"))) {
        TRY(read_link(json_member(object, "host"), &hardware->host, err));
    }
    return read_link(json_member(object, "inter"), &hardware->inter_node, err);
}

static status read_overhead(json_value object, model_hardware *hardware, error_message *err)
{
    static const char *const allowed[] = {"kernel_ns",     "operator_ns",        "launch_ns",
                                          "context_bytes", "communicator_bytes", "allocator_bytes"};
    int64_t *const values[] = {&hardware->kernel_ns,          &hardware->operator_ns,
                               &hardware->launch_ns,          &hardware->context_bytes,
                               &hardware->communicator_bytes, &hardware->allocator_bytes};
    enum { VALUES = sizeof allowed / sizeof allowed[0] };
    if (json_is_missing(object)) return STATUS_OK;
    TRY(json_check_keys(object, allowed, VALUES, err));
    for (int value = 0; value < VALUES; value++) {
        const json_value given = json_member(object, allowed[value]);
        if (json_is_missing(given)) continue;
        TRY(json_int64(given, 0, value < 3 ? LATENCY_NS_MAX : RESERVE_BYTES_MAX, values[value],
                       err));
    }
    return STATUS_OK;
}

/// Copies a string of the document into the arena.
static status copy_string(json_value value, arena *memory, const char **out, error_message *err)
{
    const char *borrowed = NULL;
    TRY(json_string(value, &borrowed, err));
    *out = arena_string(memory, borrowed);
    return STATUS_OK;
}

static status read_origin(json_value sources, const char *key, const char *given, arena *memory,
                          model_origin *origin, error_message *err)
{
    static const char *const allowed[] = {"kind", "text"};
    const json_value entry = json_member(sources, key);
    *origin = (model_origin){MODEL_ORIGIN_GIVEN, given};
    if (json_is_missing(entry)) return STATUS_OK;
    TRY(json_check_keys(entry, allowed, 2, err));
    const char *kind = NULL;
    TRY(json_string(json_member(entry, "kind"), &kind, err));
    origin->kind = model_origin_kind_find(kind);
    if (origin->kind == MODEL_ORIGIN_KIND_COUNT) {
        return json_error(json_member(entry, "kind"), STATUS_FORMAT, err,
                          "'%.40s' is none of given, measured, fitted, preset, assumed", kind);
    }
    return copy_string(json_member(entry, "text"), memory, &origin->text, err);
}

static status read_origins(json_value sources, const char *given, arena *memory,
                           model_hardware *hardware, error_message *err)
{
    static const char *const allowed[] = {"flop_per_s", "efficiency", "memory",
                                          "links",      "latency",    "overhead"};
    enum { ORIGINS = sizeof allowed / sizeof allowed[0] };
    if (!json_is_missing(sources)) TRY(json_check_keys(sources, allowed, ORIGINS, err));
    model_origin *const origins[] = {&hardware->flop_origin,    &hardware->efficiency_origin,
                                     &hardware->memory_origin,  &hardware->links_origin,
                                     &hardware->latency_origin, &hardware->overhead_origin};
    for (int origin = 0; origin < ORIGINS; origin++) {
        TRY(read_origin(sources, allowed[origin], given, memory, origins[origin], err));
    }
    return STATUS_OK;
}

static status check_schema(json_value value, error_message *err)
{
    const char *schema = NULL;
    TRY(json_string(value, &schema, err));
    if (strcmp(schema, "dynmo-hardware/1") == 0) return STATUS_OK;
    return json_error(value, STATUS_FORMAT, err, "'%.60s' is not 'dynmo-hardware/1'", schema);
}

status model_hardware_read(const json_document *document, const char *name, arena *memory,
                           model_hardware *hardware, error_message *err)
{
    static const char *const allowed[] = {"schema",          "name",         "flop_per_s",
                                          "efficiency",      "memory_bytes", "memory_bytes_per_s",
                                          "gpus_per_node",   "links",        "source",
                                          "multiprocessors", "overhead"};
    const json_value root = json_root(document);
    TRY(json_check_keys(root, allowed, sizeof allowed / sizeof allowed[0], err));
    TRY(check_schema(json_member(root, "schema"), err));
    model_hardware read = {.name = arena_string(memory, name)};
    const char *given = read.name;
    if (!json_is_missing(json_member(root, "name"))) {
        TRY(copy_string(json_member(root, "name"), memory, &read.name, err));
    }
    TRY(read_rates(json_member(root, "flop_per_s"), &read, err));
    TRY(read_efficiency(json_member(root, "efficiency"), &read, err));
    TRY(json_int64(json_member(root, "memory_bytes"), 1, JSON_INTEGER_MAX, &read.memory_bytes,
                   err));
    TRY(json_int64(json_member(root, "memory_bytes_per_s"), 1, JSON_INTEGER_MAX,
                   &read.memory_bytes_per_s, err));
    TRY(json_int(json_member(root, "gpus_per_node"), 1, 1 << 16, &read.gpus_per_node, err));
    TRY(read_links(json_member(root, "links"), &read, err));
    if (!json_is_missing(json_member(root, "multiprocessors"))) {
        TRY(json_int(json_member(root, "multiprocessors"), 1, 1 << 16, &read.multiprocessor_count,
                     err));
    }
    TRY(read_overhead(json_member(root, "overhead"), &read, err));
    TRY(read_origins(json_member(root, "source"), given, memory, &read, err));
    *hardware = read;
    return STATUS_OK;
}

status model_hardware_open(const char *name_or_path, const char *changes, arena *memory,
                           model_hardware *hardware, error_message *err)
{
    json_document *document = NULL;
    TRY(model_shipped_open(MODEL_SHIPPED_HARDWARE, name_or_path, changes, &document, err));
    const status result = model_hardware_read(document, name_or_path, memory, hardware, err);
    json_close(document);
    return result;
}

bal_machine model_hardware_machine(const model_hardware *hardware, int rank_count)
{
    return (bal_machine){
        .rank_count = rank_count,
        .ranks_per_node = hardware->gpus_per_node,
        .intra_node = hardware->intra_node,
        .inter_node = hardware->inter_node,
        .rank_memory_bytes = hardware->memory_bytes,
    };
}
