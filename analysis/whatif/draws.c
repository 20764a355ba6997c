#include "analysis/whatif/draws.h"

#include "base/file.h"
#include "base/json.h"
#include "base/rng.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define VALUE_MAX 1e18
#define NORMAL_REACH 1.6449 // deviations to 95 %

enum { TIME_DIGITS = 9 };

/// What a hardware file says of links is said of the links in force, which the study may set.
static const char *path_in_force(const char *path, arena *memory)
{
    static const char links[] = "hardware.links.";
    if (strncmp(path, links, strlen(links)) != 0) return path;
    return arena_format(memory, "cluster.links.%s", path + strlen(links));
}

static const ana_assumed_range *find_assumed(const char *path)
{
    for (const ana_assumed_range *row = ana_assumed_ranges; row->path != NULL; row++) {
        if (strcmp(row->path, path) == 0) return row;
    }
    return NULL;
}

void ana_draws_init(const ana_uncertainty *uncertainty, int point_capacity, arena *memory,
                    ana_draws *draws)
{
    *draws = (ana_draws){
        .uncertainty = uncertainty,
        .memory = memory,
        .input_count = uncertainty->range_count,
        .points = arena_array(memory, (size_t)point_capacity, sizeof *draws->points),
    };
    for (int range = 0; range < uncertainty->range_count; range++) {
        const char *path = path_in_force(uncertainty->ranges[range].path, memory);
        const ana_assumed_range *known = find_assumed(path);
        draws->inputs[range] = (ana_uncertain){
            .path = path,
            .range = uncertainty->ranges[range].range,
            .min = known != NULL ? known->kind->min : -VALUE_MAX,
            .max = known != NULL ? known->kind->max : VALUE_MAX,
            .is_integer = known != NULL && known->kind->is_integer,
            .unit = known != NULL ? known->kind->unit : "",
            .nominal_min = NAN,
            .nominal_max = NAN,
        };
    }
}

/// Notes an input of a point, and its own value there.
static void note(ana_draws *draws, ana_drawn_point *point, int input, double nominal)
{
    ana_uncertain *uncertain = &draws->inputs[input];
    point->has[input] = true;
    point->nominal[input] = nominal;
    if (isnan(nominal)) return;
    uncertain->nominal_min = fmin(uncertain->nominal_min, nominal); // these pass over NAN
    uncertain->nominal_max = fmax(uncertain->nominal_max, nominal);
}

static status add_declared(ana_draws *draws, ana_drawn_point *point, const ana_setup *setup,
                           error_message *err)
{
    for (int input = 0; input < draws->uncertainty->range_count; input++) {
        const ana_uncertain *uncertain = &draws->inputs[input];
        const ana_assumed_range *known = find_assumed(uncertain->path);
        const json_value value = json_at(setup->study->root, uncertain->path);
        double nominal = NAN;
        if (known != NULL) {
            nominal = ana_assumed_range_value(known, setup);
        } else if (json_is_number(value)) {
            (void)json_double(value, -VALUE_MAX, VALUE_MAX, &nominal, NULL);
        }
        note(draws, point, input, nominal);
        if (!uncertain->range.is_factor) continue;
        if (isnan(nominal)) {
            return json_error(draws->uncertainty->ranges[input].place, STATUS_FORMAT, err,
                              "the study has no number there that a factor could be of");
        }
        const double ends[] = {uncertain->range.low * nominal, uncertain->range.high * nominal};
        if (!(ends[0] >= uncertain->min && ends[1] <= uncertain->max)) {
            return json_error(draws->uncertainty->ranges[input].place, STATUS_FORMAT, err,
                              "%.9g by this factor is %.9g to %.9g, outside [%.9g, %.9g]", nominal,
                              ends[0], ends[1], uncertain->min, uncertain->max);
        }
    }
    return STATUS_OK;
}

static bool is_declared(const ana_draws *draws, const char *path)
{
    int input = 0;
    while (input < draws->uncertainty->range_count &&
           strcmp(draws->inputs[input].path, path) != 0) {
        input++;
    }
    return input < draws->uncertainty->range_count;
}

/// Adds an input that the study does not declare to a point: the one of its path and scope.
static status add_input(ana_draws *draws, ana_drawn_point *point, const ana_uncertain *wanted,
                        double nominal, error_message *err)
{
    int input = draws->uncertainty->range_count;
    for (; input < draws->input_count; input++) {
        const ana_uncertain *known = &draws->inputs[input];
        const bool has_scope = wanted->scope != NULL && known->scope != NULL;
        if (strcmp(known->path, wanted->path) == 0 &&
            (!has_scope || strcmp(known->scope, wanted->scope) == 0)) {
            break;
        }
    }
    if (input == ANA_UNCERTAIN_MAX) {
        return error_set(err, STATUS_INVALID,
                         "more than %d uncertain inputs: set uncertainty.model_error to 0",
                         ANA_UNCERTAIN_MAX);
    }
    if (input == draws->input_count) {
        ana_uncertain *made = &draws->inputs[draws->input_count++];
        *made = *wanted;
        made->nominal_min = made->nominal_max = NAN;
        if (wanted->scope != NULL) made->scope = arena_string(draws->memory, wanted->scope);
    }
    note(draws, point, input, nominal);
    return STATUS_OK;
}

static ana_uncertain input_of_row(const ana_assumed_range *row, const char *scope)
{
    const ana_assumed_kind *kind = row->kind;
    return (ana_uncertain){
        .path = row->path,
        .scope = scope,
        .range = {kind->distribution, kind->is_of_hardware, row->low, row->high, 1},
        .min = kind->min,
        .max = kind->max,
        .is_integer = kind->is_integer,
        .unit = kind->unit,
        .reason = row->reason,
    };
}

static status add_assumed(ana_draws *draws, ana_drawn_point *point, const ana_setup *setup,
                          error_message *err)
{
    if (!draws->uncertainty->ranges_assumed) return STATUS_OK;
    for (const ana_assumed_range *row = ana_assumed_ranges; row->path != NULL; row++) {
        if (is_declared(draws, row->path) || !ana_assumed_range_holds(row, setup)) continue;
        // A calibration says what the hardware comes to; ranges of it would count that twice.
        if (row->kind->is_of_hardware && draws->uncertainty->calibration != NULL) continue;
        const ana_uncertain input =
            input_of_row(row, row->kind->is_of_hardware ? setup->hardware.name : NULL);
        TRY(add_input(draws, point, &input, ana_assumed_range_value(row, setup), err));
    }
    return STATUS_OK;
}

/// What of a point the cost model may misjudge, and by how much for each unit of it, as a share of
/// uncertainty.model_error: judgements. Points that have as much of it are misjudged alike, so that
/// they are told apart by what differs between them.
static const struct {
    const char *name; // NULL: the machine, whose name it is
    double share;
} aspects[] = {
    {NULL, 1},
    {"small work", 0.6},
    {"tensor parallelism", 0.3},
    {"context parallelism", 0.4},
    {"expert parallelism", 0.5},
    {"gradient reduction and its overlap", 0.15},
    {"pipeline", 0.15},
    {"attention", 0.3},
    {"recomputation", 0.3},
};

enum { ASPECT_COUNT = sizeof aspects / sizeof aspects[0] };

/// How many units of each a point has: doublings, and of recomputation by the work that it adds, so
/// that a layout with strictly more of it is no better by luck.
static void measure_aspects(const ana_setup *setup, double amounts[ASPECT_COUNT])
{
    static const double busy = 4096.0 * 4096.0; // tokens * hidden size that keep a GPU busy
    static const double attended = 2048;        // tokens, from which on attention grows
    const model_shape *shape = &setup->model_costs.shape;
    const model_parallel *parallel = &setup->study->parallel;
    const double work = (double)shape->microbatch_size * shape->sequence_length *
                        (double)setup->model_costs.config.hidden_size / parallel->tensor /
                        parallel->context;
    const double values[ASPECT_COUNT] = {
        1,
        fmax(0, log2(busy / work)),
        log2(parallel->tensor),
        log2(parallel->context),
        log2(parallel->expert),
        log2(parallel->data),
        log2(setup->study->stage_count),
        fmax(0, log2(shape->sequence_length / attended)),
        parallel->recompute == MODEL_RECOMPUTE_NONE        ? 0
        : parallel->recompute == MODEL_RECOMPUTE_SELECTIVE ? 0.2
                                                           : 1,
    };
    memcpy(amounts, values, sizeof values);
}

static status add_model_error(ana_draws *draws, ana_drawn_point *point, const ana_setup *setup,
                              error_message *err)
{
    double amounts[ASPECT_COUNT];
    char machine[192];
    if (!(draws->uncertainty->model_error > 0) || draws->uncertainty->calibration != NULL ||
        setup->study->trace_path != NULL) {
        return STATUS_OK;
    }
    measure_aspects(setup, amounts);
    snprintf(machine, sizeof machine, "%s, %.40s", model_dtype_name(setup->model_costs.shape.dtype),
             setup->hardware.name);
    for (int aspect = 0; aspect < ASPECT_COUNT; aspect++) {
        const double reach =
            NORMAL_REACH * (aspects[aspect].share * draws->uncertainty->model_error);
        const ana_uncertain input = {
            .path = "cost model",
            .scope = aspects[aspect].name != NULL ? aspects[aspect].name : machine,
            .is_model_error = true,
            .range = {ANA_NORMAL, true, 1 - reach, 1 + reach, 1},
            .min = 0.01,
            .max = VALUE_MAX,
            .unit = "",
            .reason = "what an estimate misses even with the right inputs",
        };
        if (amounts[aspect] > 0) TRY(add_input(draws, point, &input, amounts[aspect], err));
    }
    return STATUS_OK;
}

static bool has_range(const ana_draws *draws, const char *name)
{
    for (int input = 0; input < draws->input_count; input++) {
        const ana_assumed_range *row = find_assumed(draws->inputs[input].path);
        if (strcmp(draws->inputs[input].path, name) == 0) return true;
        if (row != NULL && strcmp(row->input, name) == 0) return true;
    }
    return false;
}

/// What is assumed and stays as it is: named, so that nobody takes it for known.
static const char *list_unranged(const ana_draws *draws, const model_assumption_list *inputs)
{
    text_buffer names = {.memory = draws->memory};
    for (int input = 0; input < inputs->count; input++) {
        const char *name = inputs->rows[input].name;
        const bool is_assumed = inputs->rows[input].origin.kind == MODEL_ORIGIN_ASSUMED;
        if (!is_assumed || has_range(draws, name)) continue;
        text_format(&names, "%s%s", names.length > 0 ? ", " : "", name);
    }
    return text_keep(&names, draws->memory);
}

status ana_draws_add_point(ana_draws *draws, const ana_setup *setup, error_message *err)
{
    ana_drawn_point point = {
        .nominal = arena_array(draws->memory, ANA_UNCERTAIN_MAX, sizeof *point.nominal),
        .has = arena_array(draws->memory, ANA_UNCERTAIN_MAX, sizeof *point.has),
    };
    assert(draws->values == NULL);
    TRY(add_declared(draws, &point, setup, err));
    TRY(add_assumed(draws, &point, setup, err));
    TRY(add_model_error(draws, &point, setup, err));
    point.unranged = list_unranged(draws, &setup->study->inputs);
    draws->points[draws->point_count++] = point;
    return STATUS_OK;
}

/// What a point's input becomes by a draw.
static double value_of(const ana_draws *draws, int input, int point, double drawn)
{
    const ana_uncertain *uncertain = &draws->inputs[input];
    const double nominal = draws->points[point].nominal[input];
    const double value = uncertain->range.is_factor ? drawn * nominal : drawn;
    const double inside = fmin(fmax(value, uncertain->min), uncertain->max);
    return uncertain->is_integer ? round(inside) : inside;
}

static void put_value(json_writer *writer, const ana_uncertain *input, double value)
{
    if (input->is_integer) {
        json_put_int64(writer, input->path, (int64_t)value);
    } else {
        json_put_double(writer, input->path, value);
    }
}

/// Opens the first point's study with one input at a value.
static status try_value(const ana_draws *draws, ana_point_worker *worker, const char *name,
                        const char *text, int input, double value, error_message *err)
{
    text_buffer changes = {.memory = draws->memory};
    error_message inner = {0};
    json_writer writer = json_writer_init(&changes);
    json_begin_object(&writer);
    put_value(&writer, &draws->inputs[input], value);
    json_end_object(&writer);
    const status result = ana_point_check(worker, name, text, changes.bytes, &inner);
    if (result == STATUS_OK) return STATUS_OK;
    return json_error(draws->uncertainty->ranges[input].place, result, err, "%.9g: %.180s", value,
                      inner.message);
}

status ana_draws_check(ana_draws *draws, ana_point_worker *worker, const char *name,
                       const char *text, error_message *err)
{
    static const double way = 0.43701931415926535; // between the ends; hits no whole number
    for (int input = 0; input < draws->uncertainty->range_count; input++) {
        ana_uncertain *uncertain = &draws->inputs[input];
        const ana_range *range = &uncertain->range;
        const double low = range->is_factor ? value_of(draws, input, 0, range->low) : range->low;
        const double high = range->is_factor ? value_of(draws, input, 0, range->high) : range->high;
        const double middle =
            value_of(draws, input, 0, range->low + (range->high - range->low) * way);
        if (!uncertain->is_integer &&
            try_value(draws, worker, name, text, input, middle, NULL) != STATUS_OK) {
            uncertain->is_integer = true; // and if it is not, the ends are refused
        }
        TRY(try_value(draws, worker, name, text, input, low, err));
        TRY(try_value(draws, worker, name, text, input, high, err));
    }
    return STATUS_OK;
}

/// A number for a name, so that an input's stream does not depend on the others.
static uint64_t purpose_of(const ana_uncertain *input)
{
    const char *const names[] = {input->path, "@", input->scope != NULL ? input->scope : ""};
    uint64_t hash = FILE_HASH_START;
    for (int name = 0; name < 3; name++) {
        hash = file_hash(hash, names[name], strlen(names[name]));
    }
    return hash;
}

/// One value in each of draw_count strata, in a shuffled order.
static void draw_input(const ana_uncertain *input, uint64_t seed, int draw_count, double *values)
{
    rng random = rng_init(seed, purpose_of(input));
    for (int draw = 0; draw < draw_count; draw++) {
        const double unit = (draw + rng_unit(&random)) / draw_count;
        values[draw] = ana_range_quantile(&input->range, fmin(fmax(unit, 0x1p-54), 1 - 0x1p-53));
    }
    for (int draw = draw_count - 1; draw > 0; draw--) {
        const int other = (int)rng_below(&random, (uint64_t)draw + 1);
        const double value = values[draw];
        values[draw] = values[other];
        values[other] = value;
    }
}

void ana_draws_make(ana_draws *draws)
{
    const size_t draw_count = (size_t)draws->uncertainty->draw_count;
    draws->values =
        arena_array(draws->memory, (size_t)draws->input_count * draw_count, sizeof *draws->values);
    for (int input = 0; input < draws->input_count; input++) {
        draw_input(&draws->inputs[input], draws->uncertainty->seed, draws->uncertainty->draw_count,
                   draws->values + (size_t)input * draw_count);
    }
}

static double drawn_of(const ana_draws *draws, int input, int draw)
{
    return draws->values[(size_t)input * (size_t)draws->uncertainty->draw_count + (size_t)draw];
}

double ana_draws_value(const ana_draws *draws, int input, int point, int draw)
{
    const ana_drawn_point *at = &draws->points[point];
    return at->has[input] ? value_of(draws, input, point, drawn_of(draws, input, draw))
                          : at->nominal[input];
}

double ana_draws_time_factor(const ana_draws *draws, int point, int draw)
{
    const ana_drawn_point *at = &draws->points[point];
    double factor = 1;
    for (int input = draws->uncertainty->range_count; input < draws->input_count; input++) {
        const ana_uncertain *uncertain = &draws->inputs[input];
        if (!at->has[input] || !uncertain->is_model_error) continue;
        factor *= pow(fmax(drawn_of(draws, input, draw), uncertain->min), at->nominal[input]);
    }
    return text_rounded(factor, TIME_DIGITS);
}

void ana_draws_changes(const ana_draws *draws, int point, int draw, text_buffer *out)
{
    json_writer writer = json_writer_init(out);
    json_begin_object(&writer);
    for (int input = 0; input < draws->input_count; input++) {
        if (!draws->points[point].has[input] || draws->inputs[input].is_model_error) continue;
        put_value(&writer, &draws->inputs[input], ana_draws_value(draws, input, point, draw));
    }
    json_end_object(&writer);
}
