#include "traces/import/annotation.h"

#include "base/arena.h"
#include "base/json.h"
#include "base/text.h"

#include <regex.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBERS_MAX = 3 };

/// Names, with % where they have a number, and * where anything follows.
static const struct {
    const char *pattern;
    trace_naming naming;
    trace_op_kind kind;
} names[] = {
    // The letters of torch: I is the input gradient, B the full backward.
    {"PP:%F%", TRACE_NAMED_BY_PIPELINE, TRACE_OP_FORWARD},
    {"PP:%I%", TRACE_NAMED_BY_PIPELINE, TRACE_OP_BACKWARD_INPUT},
    {"PP:%W%", TRACE_NAMED_BY_PIPELINE, TRACE_OP_BACKWARD_WEIGHT},
    {"PP:%B%", TRACE_NAMED_BY_PIPELINE, TRACE_OP_BACKWARD},
    {"PP:%SEND_F%", TRACE_NAMED_BY_PIPELINE, TRACE_OP_SEND_FORWARD},
    {"PP:%RECV_F%", TRACE_NAMED_BY_PIPELINE, TRACE_OP_RECV_FORWARD},
    {"PP:%SEND_B%", TRACE_NAMED_BY_PIPELINE, TRACE_OP_SEND_BACKWARD},
    {"PP:%RECV_B%", TRACE_NAMED_BY_PIPELINE, TRACE_OP_RECV_BACKWARD},
    {"PP:%REDUCE_GRAD", TRACE_NAMED_BY_PIPELINE, TRACE_OP_REDUCE_GRADIENTS},
    {"Forward %", TRACE_NAMED_BY_GPIPE, TRACE_OP_FORWARD},
    {"Backward %", TRACE_NAMED_BY_GPIPE, TRACE_OP_BACKWARD},
    {"dynmo it=% mb=% L=% F", TRACE_NAMED_BY_DYNMO, TRACE_OP_FORWARD},
    {"dynmo it=% mb=% L=% B", TRACE_NAMED_BY_DYNMO, TRACE_OP_BACKWARD_INPUT},
    {"dynmo it=% mb=% L=% W", TRACE_NAMED_BY_DYNMO, TRACE_OP_BACKWARD_WEIGHT},
    {"dynmo it=% mb=% L=% BW", TRACE_NAMED_BY_DYNMO, TRACE_OP_BACKWARD},
    {"dynmo it=% mb=% L=% R", TRACE_NAMED_BY_DYNMO, TRACE_OP_RECOMPUTE},
    {"Optimizer.step#*", TRACE_NAMED_BY_PIPELINE, TRACE_OP_OPTIMIZER_STEP},
};

/// @param numbers out, in the order of the name; TRACE_NOT_RECORDED: it has fewer
static bool matches(const char *name, const char *pattern, int numbers[NUMBERS_MAX])
{
    int count = 0;
    for (; *pattern != '\0' && *pattern != '*'; pattern++) {
        if (*pattern != '%') {
            if (*name++ != *pattern) return false;
            continue;
        }
        const size_t digits = strspn(name, "0123456789");
        const long number = digits > 0 && digits <= 10 ? strtol(name, NULL, 10) : -1;
        if (number < 0 || number > TRACE_ITERATIONS_MAX) return false;
        numbers[count++] = (int)number;
        name += digits;
    }
    while (count < NUMBERS_MAX) {
        numbers[count++] = TRACE_NOT_RECORDED;
    }
    return *pattern == '*' || *name == '\0';
}

bool trace_phase_parse(const char *text, trace_op_kind *kind)
{
    for (int phase = TRACE_OP_FORWARD; phase <= TRACE_OP_RECOMPUTE; phase++) {
        if (strcmp(text, trace_op_kind_names[phase]) != 0) continue;
        *kind = (trace_op_kind)phase;
        return true;
    }
    return false;
}

bool trace_naming_is_pipeline(trace_naming naming)
{
    return naming == TRACE_NAMED_BY_PIPELINE || naming == TRACE_NAMED_BY_GPIPE;
}

/// A name that needs no phase map. @return false for any other
static bool is_known_name(const char *name, trace_annotation *annotation)
{
    int numbers[NUMBERS_MAX];
    size_t known = 0;
    while (known < sizeof names / sizeof names[0] &&
           !matches(name, names[known].pattern, numbers)) {
        known++;
    }
    if (known == sizeof names / sizeof names[0]) return false;
    trace_annotation found = {.naming = names[known].naming,
                              .kind = names[known].kind,
                              .iteration = TRACE_NOT_RECORDED,
                              .layer = TRACE_NOT_RECORDED,
                              .microbatch = numbers[1]};
    if (found.naming == TRACE_NAMED_BY_PIPELINE) found.layer = numbers[0];
    if (found.naming == TRACE_NAMED_BY_GPIPE) found.microbatch = numbers[0];
    if (found.naming == TRACE_NAMED_BY_DYNMO) {
        found.iteration = numbers[0];
        found.layer = numbers[2];
    }
    if (found.layer >= TRACE_LAYERS_MAX || found.microbatch >= TRACE_MICROBATCHES_MAX) return false;
    *annotation = found;
    return true;
}

bool trace_annotation_is_step(const char *name, int *step)
{
    int numbers[NUMBERS_MAX];
    if (!matches(name, "ProfilerStep#%", numbers)) return false;
    *step = numbers[0];
    return true;
}

enum { GROUPS_MAX = 10, RULES_MAX = 1000, PATTERN_BYTES_MAX = 500, COPIES_MAX = 1000 };

/// Where a number or a phase comes from: a group of the match, or the rule itself.
typedef struct source {
    int group; // 1...; 0: value holds
    int value; // TRACE_NOT_RECORDED: not said
} source;

typedef struct annotation_rule {
    regex_t match;
    bool is_compiled;
    bool is_ignored;
    source phase; // value is a trace_op_kind
    source layer;
    source microbatch;
    trace_count count;
    bool is_communication;
} annotation_rule;

struct trace_phase_map {
    arena *memory;
    regex_t scope;
    bool has_scope;
    int layers;
    int annotation_count;
    annotation_rule *annotations; // [annotation_count]
};

/// Whether a pattern is one whose compilation takes little: `{n}` copies what is before it, copies
/// of copies too, and a reference to a group has no bound in matching.
static bool is_modest(const char *pattern)
{
    int64_t copies = 1;
    for (const char *c = pattern; *c != '\0'; c++) {
        if (*c == '\\' && c[1] >= '1' && c[1] <= '9') return false;
        if (*c == '\\' && c[1] != '\0') c++;
        if (*c != '{') continue;
        const size_t number = strspn(c + 1, "0123456789,");
        const char *comma = memchr(c + 1, ',', number);
        const int low = atoi(c + 1);
        const int high = comma != NULL ? atoi(comma + 1) : low;
        copies *= high > low ? high : low > 0 ? low : 1;
        if (number > 9 || copies > COPIES_MAX) return false;
    }
    return strlen(pattern) <= PATTERN_BYTES_MAX;
}

static status read_regex(json_value value, regex_t *match, bool *is_compiled, error_message *err)
{
    const char *pattern = NULL;
    TRY(json_string(value, &pattern, err));
    if (!is_modest(pattern)) {
        return json_error(value, STATUS_FORMAT, err,
                          "'%.80s' has more than %d bytes, more than %d copies by {n}, or refers "
                          "to a group",
                          pattern, PATTERN_BYTES_MAX, COPIES_MAX);
    }
    const int code = regcomp(match, pattern, REG_EXTENDED);
    if (code != 0) {
        char reason[160];
        regerror(code, match, reason, sizeof reason);
        return json_error(value, STATUS_FORMAT, err, "'%.80s' is no regular expression: %s",
                          pattern, reason);
    }
    *is_compiled = true;
    if (match->re_nsub >= GROUPS_MAX) {
        return json_error(value, STATUS_FORMAT, err, "'%.80s' has more than %d groups", pattern,
                          GROUPS_MAX - 1);
    }
    return STATUS_OK;
}

static status read_group(json_value object, const regex_t *match, int *group, error_message *err)
{
    static const char *const allowed[] = {"group"};
    TRY(json_check_keys(object, allowed, 1, err));
    const json_value value = json_member(object, "group");
    TRY(json_int(value, 1, GROUPS_MAX - 1, group, err));
    if ((size_t)*group > match->re_nsub) {
        return json_error(value, STATUS_FORMAT, err, "group %d, but the match has %d", *group,
                          (int)match->re_nsub);
    }
    return STATUS_OK;
}

static status read_phase(json_value value, annotation_rule *rule, error_message *err)
{
    if (json_is_object(value)) return read_group(value, &rule->match, &rule->phase.group, err);
    const char *text = NULL;
    trace_op_kind kind = TRACE_OP_FORWARD;
    TRY(json_string(value, &text, err));
    if (!trace_phase_parse(text, &kind)) {
        return json_error(value, STATUS_FORMAT, err, "'%.40s' is none of F, B, W, BW, R", text);
    }
    rule->phase.value = (int)kind;
    return STATUS_OK;
}

static status read_number(json_value value, const annotation_rule *rule, int max, source *from,
                          error_message *err)
{
    if (!json_is_object(value)) return json_int(value, 0, max, &from->value, err);
    return read_group(value, &rule->match, &from->group, err);
}

static status read_layer(json_value value, annotation_rule *rule, error_message *err)
{
    static const char *const allowed[] = {"group", "count"};
    const json_value count = json_member(value, "count");
    if (json_is_object(value)) TRY(json_check_keys(value, allowed, 2, err));
    if (json_is_missing(count)) {
        return read_number(value, rule, TRACE_LAYERS_MAX - 1, &rule->layer, err);
    }
    if (!json_is_missing(json_member(value, "group"))) {
        return json_error(value, STATUS_FORMAT, err, "a layer has a group or a count, not both");
    }
    const char *text = NULL;
    TRY(json_string(count, &text, err));
    if (strcmp(text, "up") != 0 && strcmp(text, "down") != 0) {
        return json_error(count, STATUS_FORMAT, err, "'%.40s' is neither up nor down", text);
    }
    rule->count = strcmp(text, "up") == 0 ? TRACE_COUNT_UP : TRACE_COUNT_DOWN;
    return STATUS_OK;
}

static status read_component(json_value value, bool *is_communication, error_message *err)
{
    const char *text = NULL;
    if (json_is_missing(value)) return STATUS_OK;
    TRY(json_string(value, &text, err));
    *is_communication = strcmp(text, "communication") == 0;
    if (*is_communication || strcmp(text, "compute") == 0) return STATUS_OK;
    return json_error(value, STATUS_FORMAT, err, "'%.40s' is neither compute nor communication",
                      text);
}

static status read_annotation(json_value value, annotation_rule *rule, error_message *err)
{
    static const char *const allowed[] = {"match",      "ignore",    "phase",  "layer",
                                          "microbatch", "component", "comment"};
    *rule = (annotation_rule){.phase.value = TRACE_NOT_RECORDED,
                              .layer.value = TRACE_NOT_RECORDED,
                              .microbatch.value = TRACE_NOT_RECORDED};
    if (!json_is_object(value)) return json_error(value, STATUS_FORMAT, err, "is not an object");
    TRY(json_check_keys(value, allowed, 7, err));
    TRY(read_regex(json_member(value, "match"), &rule->match, &rule->is_compiled, err));
    const json_value ignore = json_member(value, "ignore");
    if (!json_is_missing(ignore)) TRY(json_bool(ignore, &rule->is_ignored, err));
    if (rule->is_ignored) return STATUS_OK;
    TRY(read_phase(json_member(value, "phase"), rule, err));
    TRY(read_layer(json_member(value, "layer"), rule, err));
    const json_value microbatch = json_member(value, "microbatch");
    if (!json_is_missing(microbatch)) {
        TRY(read_number(microbatch, rule, TRACE_MICROBATCHES_MAX - 1, &rule->microbatch, err));
    }
    return read_component(json_member(value, "component"), &rule->is_communication, err);
}

static status read_rules(json_value rules, trace_phase_map *map, error_message *err)
{
    if (!json_is_array(rules)) return json_error(rules, STATUS_FORMAT, err, "is not an array");
    if (json_count(rules) > RULES_MAX) {
        return json_error(rules, STATUS_FORMAT, err, "has %d rules, more than %d",
                          json_count(rules), RULES_MAX);
    }
    map->annotations =
        arena_array(map->memory, (size_t)json_count(rules), sizeof *map->annotations);
    // Counted before it is read, so that closing also frees a rule that fails half-way.
    while (map->annotation_count < json_count(rules)) {
        const int rule = map->annotation_count++;
        TRY(read_annotation(json_element(rules, rule), &map->annotations[rule], err));
    }
    return STATUS_OK;
}

static status read_map(json_value root, trace_phase_map *map, error_message *err)
{
    static const char *const allowed[] = {"schema", "comment", "scope", "layers", "annotations"};
    const char *schema = NULL;
    if (!json_is_object(root)) return json_error(root, STATUS_FORMAT, err, "is not an object");
    TRY(json_string(json_member(root, "schema"), &schema, err));
    if (strcmp(schema, "dynmo-phase-map/1") != 0) {
        return json_error(json_member(root, "schema"), STATUS_FORMAT, err,
                          "'%.60s' is not dynmo-phase-map/1", schema);
    }
    TRY(json_check_keys(root, allowed, 5, err));
    const json_value scope = json_member(root, "scope");
    if (!json_is_missing(scope)) TRY(read_regex(scope, &map->scope, &map->has_scope, err));
    const json_value layers = json_member(root, "layers");
    if (!json_is_missing(layers)) TRY(json_int(layers, 1, TRACE_LAYERS_MAX, &map->layers, err));
    return read_rules(json_member(root, "annotations"), map, err);
}

static void release_map(void *closed)
{
    trace_phase_map *map = closed;
    for (int rule = 0; rule < map->annotation_count; rule++) {
        if (map->annotations[rule].is_compiled) regfree(&map->annotations[rule].match);
    }
    if (map->has_scope) regfree(&map->scope);
}

static status read_document(json_document *document, arena *memory, trace_phase_map **map,
                            error_message *err)
{
    trace_phase_map *made = arena_array(memory, 1, sizeof *made);
    made->memory = memory;
    arena_own(memory, made, release_map);
    TRY(read_map(json_keep(document, memory), made, err));
    *map = made;
    return STATUS_OK;
}

status trace_phase_map_open(const char *path, arena *memory, trace_phase_map **map,
                            error_message *err)
{
    json_document *document = NULL;
    TRY(json_open(path, &document, err));
    return read_document(document, memory, map, err);
}

status trace_phase_map_open_bytes(const char *name, const char *bytes, size_t length, arena *memory,
                                  trace_phase_map **map, error_message *err)
{
    json_document *document = NULL;
    TRY(json_open_bytes(name, bytes, length, &document, err));
    return read_document(document, memory, map, err);
}

int trace_phase_map_layers(const trace_phase_map *map)
{
    return map->layers;
}

bool trace_phase_map_is_scope(const trace_phase_map *map, const char *name)
{
    return map->has_scope && regexec(&map->scope, name, 0, NULL, 0) == 0;
}

static bool group_text(const char *name, const regmatch_t *groups, int group, char out[24])
{
    const regmatch_t place = groups[group];
    const size_t length = place.rm_so < 0 ? 0 : (size_t)(place.rm_eo - place.rm_so);
    if (length == 0 || length >= 24) return false;
    memcpy(out, name + place.rm_so, length);
    out[length] = '\0';
    return true;
}

static status group_number(const char *name, const regmatch_t *groups, source from,
                           const char *what, int max, int *out, error_message *err)
{
    char text[24] = "";
    int64_t value = 0;
    if (from.group == 0) {
        *out = from.value;
        return STATUS_OK;
    }
    if (!group_text(name, groups, from.group, text) ||
        text_parse_int64(text, what, 0, max, &value, NULL) != STATUS_OK) {
        return error_set(err, STATUS_INVALID,
                         "annotation '%.80s': group %d of the phase map's rule holds no %s in "
                         "[0, %d]",
                         name, from.group, what, max);
    }
    *out = (int)value;
    return STATUS_OK;
}

static status group_phase(const char *name, const regmatch_t *groups, source from,
                          trace_op_kind *kind, error_message *err)
{
    char text[24] = "";
    if (from.group == 0) {
        *kind = (trace_op_kind)from.value;
        return STATUS_OK;
    }
    if (!group_text(name, groups, from.group, text) || !trace_phase_parse(text, kind)) {
        return error_set(err, STATUS_INVALID,
                         "annotation '%.80s': group %d of the phase map's rule is none of F, B, W, "
                         "BW, R",
                         name, from.group);
    }
    return STATUS_OK;
}

/// What the first rule that matches says. @param is_known out: false if none does, or it says to
/// ignore the name
static status apply_map(const trace_phase_map *map, const char *name, trace_annotation *annotation,
                        bool *is_known, error_message *err)
{
    regmatch_t groups[GROUPS_MAX];
    int rule = 0;
    while (rule < map->annotation_count &&
           regexec(&map->annotations[rule].match, name, GROUPS_MAX, groups, 0) != 0) {
        rule++;
    }
    *is_known = rule < map->annotation_count && !map->annotations[rule].is_ignored;
    if (!*is_known) return STATUS_OK;
    const annotation_rule *found = &map->annotations[rule];
    *annotation = (trace_annotation){.naming = TRACE_NAMED_BY_MAP,
                                     .count = found->count,
                                     .iteration = TRACE_NOT_RECORDED,
                                     .is_communication = found->is_communication};
    TRY(group_phase(name, groups, found->phase, &annotation->kind, err));
    TRY(group_number(name, groups, found->layer, "layer", TRACE_LAYERS_MAX - 1, &annotation->layer,
                     err));
    return group_number(name, groups, found->microbatch, "microbatch", TRACE_MICROBATCHES_MAX - 1,
                        &annotation->microbatch, err);
}

status trace_annotation_read(const trace_phase_map *map, const char *name,
                             trace_annotation *annotation, bool *is_known, error_message *err)
{
    *is_known = false;
    if (map != NULL) TRY(apply_map(map, name, annotation, is_known, err));
    if (!*is_known) *is_known = is_known_name(name, annotation);
    return STATUS_OK;
}
