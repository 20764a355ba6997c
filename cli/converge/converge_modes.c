#include "cli/converge/converge_modes.h"

#include "base/text.h"

enum {
    ROUNDS = 1 << CLI_CONVERGE_ROUNDS,
    VERDICT = 1 << CLI_CONVERGE_VERDICT,
    LAYERS = 1 << CLI_CONVERGE_LAYERS,
    DRIFT = 1 << CLI_CONVERGE_DRIFT,
};

/// Options that do not belong to every mode.
static const struct {
    const char *name;
    int modes;
} owners[] = {
    {"--graph", ROUNDS},
    {"--scheme", ROUNDS | DRIFT},
    {"--nodes", ROUNDS},
    {"--initial", ROUNDS},
    {"--stop", ROUNDS},
    {"--gamma", ROUNDS | VERDICT},
    {"--variant", ROUNDS},
    {"--exchange", ROUNDS},
    {"--alpha", ROUNDS},
    {"--delta", ROUNDS},
    {"--every-round", ROUNDS},
    {"--verdict", VERDICT},
    {"--claim", VERDICT},
    {"--loads", VERDICT},
    {"--stages", VERDICT | LAYERS | DRIFT},
    {"--layers", LAYERS},
    {"--chunks", LAYERS},
    {"--family", LAYERS},
    {"--trace", DRIFT},
    {"--trace-name", DRIFT},
    {"--iterations", DRIFT},
    {"--drift", DRIFT},
    {"--rounds-per-iteration", DRIFT},
    {"--tolerance", DRIFT},
    {"--figure", ROUNDS | DRIFT},
    {"--potential", ROUNDS},
    {"--store", ROUNDS},
    {"--again", ROUNDS},
};

static const char *const mode_names[CLI_CONVERGE_MODE_COUNT] = {
    [CLI_CONVERGE_ROUNDS] = "--nodes",
    [CLI_CONVERGE_VERDICT] = "--verdict",
    [CLI_CONVERGE_LAYERS] = "--layers",
    [CLI_CONVERGE_DRIFT] = "--trace or --drift",
};

/// The message about an option of other modes; one without which nothing is asked yet is told what
/// it needs.
static status refuse_option(const char *name, int modes, cli_converge_mode chosen,
                            error_message *err)
{
    if (chosen != CLI_CONVERGE_ROUNDS) {
        return error_set(err, STATUS_INVALID, "%s does not belong to %s", name, mode_names[chosen]);
    }
    text_buffer needed = {0};
    for (int mode = 0; mode < CLI_CONVERGE_MODE_COUNT; mode++) {
        if (!(modes & 1 << mode)) continue;
        text_format(&needed, "%s%s", needed.length > 0 ? " or " : "", mode_names[mode]);
    }
    error_set(err, STATUS_INVALID, "%s needs %s", name, needed.bytes != NULL ? needed.bytes : "");
    text_free(&needed);
    return STATUS_INVALID;
}

status cli_converge_mode_of(const cli_arguments *arguments, cli_converge_mode *mode,
                            error_message *err)
{
    cli_converge_mode chosen = CLI_CONVERGE_ROUNDS;
    if (cli_has(arguments, "--trace") || cli_has(arguments, "--drift")) chosen = CLI_CONVERGE_DRIFT;
    if (cli_has(arguments, "--layers")) chosen = CLI_CONVERGE_LAYERS;
    if (cli_has(arguments, "--verdict")) chosen = CLI_CONVERGE_VERDICT;
    for (size_t index = 0; index < sizeof owners / sizeof owners[0]; index++) {
        if (!cli_has(arguments, owners[index].name)) continue;
        if (owners[index].modes & 1 << chosen) continue;
        return refuse_option(owners[index].name, owners[index].modes, chosen, err);
    }
    *mode = chosen;
    return STATUS_OK;
}

status cli_converge_seed(const cli_arguments *arguments, uint64_t *seed, error_message *err)
{
    int64_t value = 1;
    if (cli_has(arguments, "--seed")) {
        TRY(text_parse_int64(cli_value(arguments, "--seed"), "--seed", 0, INT64_C(1) << 53, &value,
                             err));
    }
    *seed = (uint64_t)value;
    return STATUS_OK;
}
