#include "analysis/whatif/draws.h"

#include "analysis/whatif/assumed_ranges.h"
#include "base/file.h"
#include "base/json.h"
#include "base/rng.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define VALUE_MAX 1e18
#define NORMAL_REACH 1.6449 // deviations to 95 %

enum { KEY_BYTES = 128, TIME_DIGITS = 9 };

static status too_many(error_message *err)
{
    return error_set(err, STATUS_INVALID,
                     "more than %d uncertain inputs: draw fewer points, or set "
                     "uncertainty.model_error to 0",
                     ANA_UNCERTAIN_MAX);
}

/// What a hardware file says of links is said of the links in force, which the study may set.
static const char *path_in_force(const char *path)
{
    static const char *const links[][2] = {
        {"hardware.links.intra.latency_ns", "cluster.links.intra.latency_ns"},
        {"hardware.links.intra.bytes_per_s", "cluster.links.intra.bytes_per_s"},
        {"hardware.links.inter.latency_ns", "cluster.links.inter.latency_ns"},
        {"hardware.links.inter.bytes_per_s", "cluster.links.inter.bytes_per_s"},
    };
    for (size_t row = 0; row < sizeof links / sizeof links[0]; row++) {
        if (strcmp(path, links[row][0]) == 0) return links[row][1];
    }
    return path;
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
        .declared_count = uncertainty->range_count,
        .input_count = uncertainty->range_count,
        .points = arena_array(memory, (size_t)point_capacity, sizeof *draws->points),
        .point_capacity = point_capacity,
    };
    for (int range = 0; range < uncertainty->range_count; range++) {
        const char *path = path_in_force(uncertainty->ranges[range].path);
        const ana_assumed_range *known = find_assumed(path);
        draws->inputs[range] = (ana_uncertain){
            .path = path,
            .range = uncertainty->ranges[range].range,
            .min = known != NULL ? known->min : -VALUE_MAX,
            .max = known != NULL ? known->max : VALUE_MAX,
            .is_integer = known != NULL && known->is_integer,
            .unit = known != NULL ? known->unit : "",
            .nominal_min = NAN,
            .nominal_max = NAN,
        };
    }
}

/// The number at a path of keys with dots between them; NAN if there is none.
static double number_at(json_value value, const char *path)
{
    char key[KEY_BYTES];
    double number = NAN;
    while (*path != '\0') {
        const size_t length = strcspn(path, ".");
        if (length >= sizeof key) return NAN;
        memcpy(key, path, length);
        key[length] = '\0';
        value = json_member(value, key);
        path += length + (path[length] == '.');
    }
    if (json_is_number(value)) (void)json_double(value, -VALUE_MAX, VALUE_MAX, &number, NULL);
    return number;
}

static double nominal_of(const char *path, json_value root, const ana_setup *setup)
{
    const ana_assumed_range *known = find_assumed(path);
    return known != NULL ? ana_assumed_range_value(known, setup) : number_at(root, path);
}

static void note_nominal(ana_uncertain *input, double nominal)
{
    if (isnan(nominal)) return;
    input->nominal_min = fmin(input->nominal_min, nominal); // fmin and fmax pass over NAN
    input->nominal_max = fmax(input->nominal_max, nominal);
}

static status add_declared(ana_draws *draws, ana_drawn_point *point, json_value root,
                           const ana_setup *setup, error_message *err)
{
    for (int input = 0; input < draws->declared_count; input++) {
        ana_uncertain *uncertain = &draws->inputs[input];
        point->has[input] = true;
        point->nominal[input] = nominal_of(uncertain->path, root, setup);
        note_nominal(uncertain, point->nominal[input]);
        if (uncertain->range.is_factor && isnan(point->nominal[input])) {
            return json_error(draws->uncertainty->ranges[input].place, STATUS_FORMAT, err,
                              "the study has no number there that a factor could be of");
        }
    }
    return STATUS_OK;
}

static bool is_declared(const ana_draws *draws, const char *path)
{
    for (int input = 0; input < draws->declared_count; input++) {
        if (strcmp(draws->inputs[input].path, path) == 0) return true;
    }
    return false;
}

/// The input of a row and a kind of GPU, made if there is none yet; -1: no room.
static int input_of_row(ana_draws *draws, const ana_assumed_range *row, const char *scope)
{
    for (int input = draws->declared_count; input < draws->input_count; input++) {
        const ana_uncertain *known = &draws->inputs[input];
        if (strcmp(known->path, row->path) == 0 &&
            (scope == NULL || strcmp(known->scope, scope) == 0)) {
            return input;
        }
    }
    if (draws->input_count == ANA_UNCERTAIN_MAX) return -1;
    draws->inputs[draws->input_count] = (ana_uncertain){
        .path = row->path,
        .scope = scope,
        .range = row->range,
        .min = row->min,
        .max = row->max,
        .is_integer = row->is_integer,
        .unit = row->unit,
        .reason = row->reason,
        .nominal_min = NAN,
        .nominal_max = NAN,
    };
    return draws->input_count++;
}

static status add_assumed(ana_draws *draws, ana_drawn_point *point, const ana_setup *setup,
                          error_message *err)
{
    if (!draws->uncertainty->ranges_assumed) return STATUS_OK;
    for (const ana_assumed_range *row = ana_assumed_ranges; row->path != NULL; row++) {
        if (is_declared(draws, row->path) || !ana_assumed_range_holds(row, setup)) continue;
        // A calibration says what the hardware comes to; ranges of it would count that twice.
        if (row->is_of_hardware && draws->uncertainty->calibration != NULL) continue;
        const char *scope = NULL;
        if (row->is_of_hardware) {
            scope = arena_string(draws->memory, setup->hardware.name);
        }
        const int input = input_of_row(draws, row, scope);
        if (input < 0) return too_many(err);
        point->has[input] = true;
        point->nominal[input] = ana_assumed_range_value(row, setup);
        note_nominal(&draws->inputs[input], point->nominal[input]);
    }
    return STATUS_OK;
}

/// Adds the interval of one half of a measured link: where the fit is exact there is none.
static status add_half(ana_draws *draws, ana_drawn_point *point, const ana_link_source *source,
                       const char *path, double value, double standard_error, error_message *err)
{
    const double half = standard_error * source->measured.reach;
    if (is_declared(draws, path) || !(half > 0)) return STATUS_OK;
    ana_assumed_range row = *find_assumed(path);
    row.range = (ana_range){ANA_NORMAL, false, value - half, value + half, value};
    row.reason = "least squares, 90 % interval";
    const char *scope = arena_string(draws->memory, source->file);
    const int input = input_of_row(draws, &row, scope);
    if (input < 0) return too_many(err);
    draws->inputs[input].is_fitted = true;
    point->has[input] = true;
    point->nominal[input] = value;
    note_nominal(&draws->inputs[input], value);
    return STATUS_OK;
}

/// Latency and rate are drawn each by itself. In the fit one is the lower the higher the other, so
/// what a message takes is spread rather too wide.
static status add_measured(ana_draws *draws, ana_drawn_point *point, const ana_setup *setup,
                           error_message *err)
{
    static const char *const paths[][2] = {
        {"cluster.links.intra.latency_ns", "cluster.links.intra.bytes_per_s"},
        {"cluster.links.inter.latency_ns", "cluster.links.inter.bytes_per_s"},
    };
    const ana_link_source *sources[] = {&setup->study->intra_source, &setup->study->inter_source};
    for (int link = 0; link < 2; link++) {
        const ana_measured_link *fit = &sources[link]->measured;
        if (sources[link]->file == NULL) continue;
        TRY(add_half(draws, point, sources[link], paths[link][0], (double)fit->link.latency_ns,
                     fit->latency_error_ns, err));
        TRY(add_half(draws, point, sources[link], paths[link][1], (double)fit->link.bytes_per_s,
                     fit->rate_error_bytes_s, err));
    }
    return STATUS_OK;
}

/// Something of a point that the cost model may misjudge: by how much for each unit of it, as a
/// share of uncertainty.model_error. Points that have as much of it are misjudged alike, so that
/// they are told apart by what differs between them.
typedef struct model_aspect {
    const char *name; // NULL: the machine, whose name it is
    double share;
    double (*amount)(const ana_setup *setup);
} model_aspect;

static double amount_of_machine(const ana_setup *setup)
{
    (void)setup;
    return 1;
}

/// Doublings by which the products of a microbatch are smaller than those that keep a GPU busy.
static double amount_of_small_work(const ana_setup *setup)
{
    static const double busy = 4096.0 * 4096.0; // tokens * hidden size on a GPU
    const model_shape *shape = &setup->model_costs.shape;
    const model_parallel *parallel = &setup->study->parallel;
    const double work = (double)shape->microbatch_size * shape->sequence_length *
                        (double)setup->model_costs.config.hidden_size / parallel->tensor /
                        parallel->context;
    return fmax(0, log2(busy / work));
}

static double amount_of_tensor(const ana_setup *setup)
{
    return log2(setup->study->parallel.tensor);
}

static double amount_of_context(const ana_setup *setup)
{
    return log2(setup->study->parallel.context);
}

static double amount_of_expert(const ana_setup *setup)
{
    return log2(setup->study->parallel.expert);
}

static double amount_of_data(const ana_setup *setup)
{
    return log2(setup->study->parallel.data);
}

static double amount_of_stages(const ana_setup *setup)
{
    return log2(setup->study->stage_count);
}

/// Doublings of the sequence beyond 2048, where attention is more and more of the work.
static double amount_of_attention(const ana_setup *setup)
{
    return fmax(0, log2(setup->model_costs.shape.sequence_length / 2048.0));
}

/// By the work that it adds, so that a layout with strictly more of it is no better by luck.
static double amount_of_recomputation(const ana_setup *setup)
{
    static const double selective = 0.2;
    switch (setup->study->parallel.recompute) {
    case MODEL_RECOMPUTE_NONE:
        return 0;
    case MODEL_RECOMPUTE_SELECTIVE:
        return selective;
    default:
        return 1;
    }
}

/// Judgements: what one doubling adds to the error of a machine's level.
static const model_aspect aspects[] = {
    {NULL, 1, amount_of_machine},
    {"small work", 0.6, amount_of_small_work},
    {"tensor parallelism", 0.3, amount_of_tensor},
    {"context parallelism", 0.4, amount_of_context},
    {"expert parallelism", 0.5, amount_of_expert},
    {"gradient reduction and its overlap", 0.15, amount_of_data},
    {"pipeline", 0.15, amount_of_stages},
    {"attention", 0.3, amount_of_attention},
    {"recomputation", 0.3, amount_of_recomputation},
};

static status add_aspect(ana_draws *draws, ana_drawn_point *point, const model_aspect *aspect,
                         const ana_setup *setup, error_message *err)
{
    const double error = aspect->share * draws->uncertainty->model_error;
    const double amount = aspect->amount(setup);
    const char *scope = aspect->name;
    char machine[192];
    const ana_assumed_range row = {
        .path = "cost model",
        .range = {ANA_NORMAL, true, 1 - NORMAL_REACH * error, 1 + NORMAL_REACH * error, 1},
        .min = 0.01,
        .max = VALUE_MAX,
        .unit = "",
        .reason = "what an estimate misses even with the right inputs",
    };
    if (!(amount > 0)) return STATUS_OK;
    if (scope == NULL) {
        snprintf(machine, sizeof machine, "%s, %.40s",
                 model_dtype_name(setup->model_costs.shape.dtype), setup->hardware.name);
        scope = arena_string(draws->memory, machine);
    }
    const int input = input_of_row(draws, &row, scope);
    if (input < 0) return too_many(err);
    draws->inputs[input].is_model_error = true;
    point->has[input] = true;
    point->nominal[input] = amount;
    note_nominal(&draws->inputs[input], amount);
    return STATUS_OK;
}

static status add_model_error(ana_draws *draws, ana_drawn_point *point, const ana_setup *setup,
                              error_message *err)
{
    const bool is_fitted = draws->uncertainty->calibration != NULL;
    if (!(draws->uncertainty->model_error > 0) || is_fitted || setup->study->trace_path != NULL) {
        return STATUS_OK;
    }
    for (size_t aspect = 0; aspect < sizeof aspects / sizeof aspects[0]; aspect++) {
        TRY(add_aspect(draws, point, &aspects[aspect], setup, err));
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
static void list_unranged(const ana_draws *draws, ana_drawn_point *point, const ana_setup *setup)
{
    const ana_inputs *inputs = &setup->study->inputs;
    text_buffer names = {0};
    for (int input = 0; input < inputs->count; input++) {
        const char *name = inputs->entries[input].name;
        if (inputs->entries[input].origin != MODEL_ORIGIN_ASSUMED || has_range(draws, name))
            continue;
        text_format(&names, "%s%s", names.length > 0 ? ", " : "", name);
    }
    point->unranged = arena_string(draws->memory, names.length > 0 ? names.bytes : "");
    text_free(&names);
}

/// A study has both halves of a link or none: where one is drawn, both are written, first with the
/// values that they have. They take the place of a measurement.
static void add_preamble(ana_draws *draws, ana_drawn_point *point, const ana_setup *setup)
{
    const bal_link in_force[] = {setup->hardware.intra_node, setup->hardware.inter_node};
    const ana_study *study = setup->study;
    const bool is_given[] = {study->intra_node.latency_ns >= 0 && study->intra_source.file == NULL,
                             study->inter_node.latency_ns >= 0 && study->inter_source.file == NULL};
    static const char *const paths[] = {"cluster.links.intra", "cluster.links.inter"};
    char text[256] = "";
    for (int link = 0; link < 2; link++) {
        bool is_drawn = false;
        for (int input = 0; input < draws->input_count; input++) {
            is_drawn = is_drawn ||
                       (point->has[input] &&
                        strncmp(draws->inputs[input].path, paths[link], strlen(paths[link])) == 0);
        }
        if (!is_drawn || is_given[link]) continue;
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used,
                 "\"%s\":{\"latency_ns\":%" PRId64 ",\"bytes_per_s\":%" PRId64 "},", paths[link],
                 in_force[link].latency_ns, in_force[link].bytes_per_s);
    }
    point->preamble = arena_string(draws->memory, text);
}

status ana_draws_add_point(ana_draws *draws, const char *text, const ana_setup *setup,
                           error_message *err)
{
    assert(draws->point_count < draws->point_capacity && draws->values == NULL);
    json_document *document = NULL;
    ana_drawn_point point = {
        .nominal = arena_array(draws->memory, ANA_UNCERTAIN_MAX, sizeof *point.nominal),
        .has = arena_array(draws->memory, ANA_UNCERTAIN_MAX, sizeof *point.has),
    };
    TRY(json_open_bytes(setup->study->path, text, strlen(text), &document, err));
    status result = add_declared(draws, &point, json_root(document), setup, err);
    json_close(document);
    if (result == STATUS_OK) result = add_assumed(draws, &point, setup, err);
    if (result == STATUS_OK) result = add_measured(draws, &point, setup, err);
    if (result == STATUS_OK) result = add_model_error(draws, &point, setup, err);
    if (result != STATUS_OK) return result;
    list_unranged(draws, &point, setup);
    add_preamble(draws, &point, setup);
    draws->points[draws->point_count++] = point;
    return STATUS_OK;
}

static double cut(const ana_uncertain *input, double value)
{
    const double inside = fmin(fmax(value, input->min), input->max);
    return input->is_integer ? round(inside) : inside;
}

static void put_value(json_writer *writer, const ana_uncertain *input, double value)
{
    if (input->is_integer) {
        json_put_int64(writer, input->path, (int64_t)value);
    } else {
        json_put_double(writer, input->path, value);
    }
}

static void begin_changes(const ana_drawn_point *point, text_buffer *out, json_writer *writer)
{
    *writer = json_writer_init(out);
    json_begin_object(writer);
    text_append(out, point->preamble);
}

/// What a point's input becomes by a draw.
static double drawn_value(const ana_draws *draws, int point, int input, double drawn)
{
    const ana_uncertain *uncertain = &draws->inputs[input];
    const double nominal = draws->points[point].nominal[input];
    return cut(uncertain, uncertain->range.is_factor ? drawn * nominal : drawn);
}

/// The point's study with one input at a value.
static status try_value(const ana_draws *draws, ana_point_worker *worker, const char *name,
                        const char *text, int point, int input, double value, error_message *err)
{
    text_buffer changes = {0};
    text_buffer changed = {0};
    error_message inner = {0};
    json_writer writer;
    begin_changes(&draws->points[point], &changes, &writer);
    put_value(&writer, &draws->inputs[input], value);
    json_end_object(&writer);
    status result = STATUS_OK;
    if (result == STATUS_OK) result = json_change(name, text, changes.bytes, &changed, &inner);
    if (result == STATUS_OK) result = ana_point_check(worker, name, changed.bytes, &inner);
    text_free(&changes);
    text_free(&changed);
    if (result == STATUS_OK) return STATUS_OK;
    return json_error(draws->uncertainty->ranges[input].place, result, err, "%.9g: %.180s", value,
                      inner.message);
}

/// A number between the ends that is not whole, unless they are the same: no short fraction of the
/// way, which could hit one.
static double broken_middle(const ana_range *range)
{
    static const double way = 0.43701931415926535;
    return range->low + (range->high - range->low) * way;
}

static status check_range(ana_draws *draws, ana_point_worker *worker, const char *name,
                          const char *text, int point, int input, error_message *err)
{
    ana_uncertain *uncertain = &draws->inputs[input];
    const ana_range *range = &uncertain->range;
    const double middle = drawn_value(draws, point, input, broken_middle(range));
    double ends[2];
    ana_range_ends(range, &ends[0], &ends[1]);
    if (!uncertain->is_integer &&
        try_value(draws, worker, name, text, point, input, middle, NULL) != STATUS_OK) {
        uncertain->is_integer = true; // and if it is not, the ends are refused
    }
    const double given[2] = {range->low, range->high};
    for (int end = 0; end < 2; end++) {
        // Draws are cut to what an input may be; what is written is not.
        if (!range->is_factor) {
            TRY(try_value(draws, worker, name, text, point, input, given[end], err));
        }
        TRY(try_value(draws, worker, name, text, point, input,
                      drawn_value(draws, point, input, ends[end]), err));
    }
    return STATUS_OK;
}

status ana_draws_check(ana_draws *draws, ana_point_worker *worker, const char *name,
                       const char *text, int point, error_message *err)
{
    for (int input = 0; input < draws->declared_count; input++) {
        TRY(check_range(draws, worker, name, text, point, input, err));
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

double ana_draws_value(const ana_draws *draws, int input, int point, int draw)
{
    const ana_uncertain *uncertain = &draws->inputs[input];
    const ana_drawn_point *at = &draws->points[point];
    const double drawn =
        draws->values[(size_t)input * (size_t)draws->uncertainty->draw_count + (size_t)draw];
    if (!at->has[input]) return at->nominal[input];
    return cut(uncertain, uncertain->range.is_factor ? drawn * at->nominal[input] : drawn);
}

double ana_draws_time_factor(const ana_draws *draws, int point, int draw)
{
    const ana_drawn_point *at = &draws->points[point];
    double factor = 1;
    for (int input = draws->declared_count; input < draws->input_count; input++) {
        const ana_uncertain *uncertain = &draws->inputs[input];
        if (!at->has[input] || !uncertain->is_model_error) continue;
        const double drawn =
            draws->values[(size_t)input * (size_t)draws->uncertainty->draw_count + (size_t)draw];
        factor *= pow(cut(uncertain, drawn), at->nominal[input]);
    }
    return text_rounded(factor, TIME_DIGITS);
}

void ana_draws_changes(const ana_draws *draws, int point, int draw, text_buffer *out)
{
    json_writer writer;
    begin_changes(&draws->points[point], out, &writer);
    for (int input = 0; input < draws->input_count; input++) {
        if (!draws->points[point].has[input] || draws->inputs[input].is_model_error) continue;
        put_value(&writer, &draws->inputs[input], ana_draws_value(draws, input, point, draw));
    }
    json_end_object(&writer);
}
