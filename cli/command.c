#include "cli/command.h"

#include "base/file.h"
#include "cli/arguments.h"

#include <assert.h>
#include <string.h>

static const cli_option *option_by_name(const cli_command *command, const char *name, size_t length)
{
    for (const cli_option *option = command->options; option->name != NULL; option++) {
        if (strncmp(option->name, name, length) == 0 && option->name[length] == '\0') {
            return option;
        }
    }
    return NULL;
}

static const cli_option *option_by_letter(const cli_command *command, char letter)
{
    for (const cli_option *option = command->options; option->name != NULL; option++) {
        if (option->letter == letter) return option;
    }
    return NULL;
}

static status unknown_option(const cli_command *command, const char *word, error_message *err)
{
    const char *names[CLI_OPTIONS_MAX + 1];
    int count = 0;
    for (const cli_option *option = command->options; option->name != NULL; option++) {
        names[count++] = option->name;
    }
    char suggestion[TEXT_SUGGESTION_BYTES];
    return error_set(err, STATUS_INVALID, "dynmo %s: unknown option '%.60s'%s", command->name, word,
                     text_suggestion(word, names, count, suggestion));
}

static status record_option(const cli_command *command, const cli_option *option, const char *value,
                            cli_arguments *arguments, error_message *err)
{
    if (!option->may_repeat && cli_has(arguments, option->name)) {
        return error_set(err, STATUS_INVALID, "dynmo %s: %s is given twice", command->name,
                         option->name);
    }
    if (arguments->option_count == CLI_GIVEN_MAX) {
        return error_set(err, STATUS_INVALID, "dynmo %s: more than %d options", command->name,
                         CLI_GIVEN_MAX);
    }
    arguments->options[arguments->option_count++] = (cli_given){option, value};
    return STATUS_OK;
}

/// Reads the option that words[index] is; *consumed: how many words it took.
static status parse_option(const cli_command *command, int word_count, char *const *words,
                           int index, cli_arguments *arguments, int *consumed, error_message *err)
{
    const char *word = words[index];
    const cli_option *option = NULL;
    const char *value = NULL;
    if (word[1] == '-') {
        const char *equals = strchr(word, '=');
        const size_t length = equals != NULL ? (size_t)(equals - word) : strlen(word);
        option = option_by_name(command, word, length);
        value = equals != NULL ? equals + 1 : NULL;
    } else {
        option = option_by_letter(command, word[1]);
        value = word[2] != '\0' ? word + 2 : NULL;
    }
    if (option == NULL) return unknown_option(command, word, err);
    *consumed = 1;
    if (option->argument == NULL) {
        if (value != NULL) {
            return error_set(err, STATUS_INVALID, "dynmo %s: %s takes no value", command->name,
                             option->name);
        }
        value = "";
    } else if (value == NULL) {
        const bool is_last = index + 1 >= word_count;
        if (is_last && option->argument[0] != '[') {
            return error_set(err, STATUS_INVALID, "dynmo %s: %s needs %s", command->name,
                             option->name, option->argument);
        }
        value = is_last ? "" : words[index + 1];
        *consumed = is_last ? 1 : 2;
    }
    return record_option(command, option, value, arguments, err);
}

status cli_parse(const cli_command *command, int word_count, char *const *words,
                 cli_arguments *arguments, error_message *err)
{
    arguments->command = command;
    bool options_end = false;
    for (int index = 0; index < word_count;) {
        const char *word = words[index];
        if (!options_end && strcmp(word, "--") == 0) {
            options_end = true;
            index++;
        } else if (!options_end && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
            arguments->wants_help = true;
            return STATUS_OK;
        } else if (!options_end && word[0] == '-' && word[1] != '\0') {
            int consumed = 0;
            TRY(parse_option(command, word_count, words, index, arguments, &consumed, err));
            index += consumed;
        } else {
            if (arguments->operand_count == CLI_OPERANDS_MAX) {
                return error_set(err, STATUS_INVALID, "dynmo %s: more than %d files", command->name,
                                 CLI_OPERANDS_MAX);
            }
            arguments->operands[arguments->operand_count++] = word;
            index++;
        }
    }
    if (arguments->operand_count < command->operand_min ||
        arguments->operand_count > command->operand_max) {
        return error_set(err, STATUS_INVALID, "usage: dynmo %s %s", command->name,
                         command->synopsis);
    }
    return STATUS_OK;
}

const char *cli_value_at(const cli_arguments *arguments, const char *name, int index)
{
    assert(option_by_name(arguments->command, name, strlen(name)) != NULL);
    int seen = 0;
    for (int given = 0; given < arguments->option_count; given++) {
        if (strcmp(arguments->options[given].option->name, name) != 0) continue;
        if (seen++ == index) return arguments->options[given].value;
    }
    return NULL;
}

const char *cli_value(const cli_arguments *arguments, const char *name)
{
    return cli_value_at(arguments, name, 0);
}

const char *cli_value_or(const cli_arguments *arguments, const char *name, const char *fallback)
{
    const char *given = cli_value(arguments, name);
    return given != NULL ? given : fallback;
}

bool cli_has(const cli_arguments *arguments, const char *name)
{
    return cli_value(arguments, name) != NULL;
}

const char *cli_first_given(const cli_arguments *arguments, const char *const *names,
                            int name_count)
{
    int name = 0;
    while (name < name_count && !cli_has(arguments, names[name])) {
        name++;
    }
    return name < name_count ? names[name] : NULL;
}

status cli_int(const cli_arguments *arguments, const char *name, int min, int max, int fallback,
               int *value, error_message *err)
{
    int64_t parsed = fallback;
    TRY(cli_int64(arguments, name, min, max, &parsed, err));
    *value = (int)parsed;
    return STATUS_OK;
}

status cli_int64(const cli_arguments *arguments, const char *name, int64_t min, int64_t max,
                 int64_t *value, error_message *err)
{
    const char *given = cli_value(arguments, name);
    return given != NULL ? text_parse_int64(given, name, min, max, value, err) : STATUS_OK;
}

status cli_double(const cli_arguments *arguments, const char *name, double min, double max,
                  double *value, error_message *err)
{
    const char *given = cli_value(arguments, name);
    return given != NULL ? text_parse_double(given, name, min, max, value, err) : STATUS_OK;
}

status cli_choice(const cli_arguments *arguments, const char *name, const char *const *names,
                  int name_count, int fallback, int *chosen, error_message *err)
{
    const char *given = cli_value(arguments, name);
    *chosen = fallback;
    if (given == NULL) return STATUS_OK;
    const int found = text_find(given, names, name_count);
    if (found < name_count) {
        *chosen = found;
        return STATUS_OK;
    }
    text_buffer known = {0};
    for (int index = 0; index < name_count; index++) {
        text_format(&known, "%s%s", index == 0 ? "" : ", ", names[index]);
    }
    const status code =
        error_set(err, STATUS_INVALID, "%s: unknown '%.40s'; known: %s", name, given, known.bytes);
    text_free(&known);
    return code;
}

status cli_require(const cli_arguments *arguments, const char *name, error_message *err)
{
    if (cli_has(arguments, name)) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "dynmo %s: %s is needed", arguments->command->name, name);
}

int cli_operand_count(const cli_arguments *arguments)
{
    return arguments->operand_count;
}

const char *cli_operand(const cli_arguments *arguments, int index)
{
    return index < arguments->operand_count ? arguments->operands[index] : NULL;
}

const char *const *cli_operands(const cli_arguments *arguments)
{
    return arguments->operands;
}

status cli_write_output(const cli_arguments *arguments, text_buffer *out, error_message *err)
{
    const char *path = cli_value(arguments, "--output");
    if (path == NULL || strcmp(path, "-") == 0) return STATUS_OK;
    TRY(file_write(path, out->bytes, out->length, err));
    text_clear(out);
    return STATUS_OK;
}

const char *cli_command_line(const cli_arguments *arguments)
{
    return arguments->command_line;
}
