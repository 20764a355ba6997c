/// The only file that prints errors and chooses an exit code.
#include "base/arena.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/version.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int exit_code_of(status code)
{
    switch (code) {
    case STATUS_OK:
        return 0;
    case STATUS_INVALID:
    case STATUS_FORMAT:
    case STATUS_UNSUPPORTED:
        return 2;
    case STATUS_INFEASIBLE:
        return 3;
    case STATUS_EXCEEDED:
        return 4;
    case STATUS_UNDECIDED:
        return 5;
    default:
        return 1;
    }
}

/// The command whose name is the first word or the first two; *word_count: how many words it took.
static const cli_command *command_find(int argc, char *const *argv, int *word_count)
{
    int count = 0;
    const cli_command *const *commands = cli_commands(&count);
    char two[80];
    snprintf(two, sizeof two, "%.39s %.39s", argv[1], argc > 2 ? argv[2] : "");
    for (int index = 0; index < count; index++) {
        *word_count = strchr(commands[index]->name, ' ') == NULL ? 1 : 2;
        if (strcmp(commands[index]->name, *word_count == 1 ? argv[1] : two) == 0) {
            return commands[index];
        }
    }
    return NULL;
}

/// The first word of commands that have two.
static status incomplete_command(const char *word, error_message *err)
{
    text_buffer known = {0};
    int count = 0;
    const cli_command *const *commands = cli_commands(&count);
    for (int index = 0; index < count; index++) {
        const char *name = commands[index]->name;
        if (strncmp(name, word, strcspn(name, " ")) != 0 || strchr(name, ' ') == NULL) continue;
        text_format(&known, "%s'%s'", known.length > 0 ? ", " : "", name);
    }
    const status code = error_set(err, STATUS_INVALID, "'%s' is not a whole command; there is %s",
                                  word, known.bytes);
    text_free(&known);
    return code;
}

static status unknown_command(int argc, char *const *argv, error_message *err)
{
    const char *names[CLI_COMMANDS_MAX];
    int count = 0;
    const cli_command *const *commands = cli_commands(&count);
    char given[80];
    bool first_word_known = false;
    for (int index = 0; index < count; index++) {
        names[index] = commands[index]->name;
        const size_t length = strcspn(names[index], " ");
        if (strlen(argv[1]) == length && strncmp(argv[1], names[index], length) == 0) {
            first_word_known = true;
        }
    }
    const bool two = first_word_known && argc > 2 && argv[2][0] != '-';
    if (first_word_known && !two) return incomplete_command(argv[1], err);
    snprintf(given, sizeof given, "%.40s%s%.30s", argv[1], two ? " " : "", two ? argv[2] : "");
    const char *nearest = text_nearest(given, names, count);
    if (nearest == NULL) {
        return error_set(err, STATUS_INVALID, "unknown command '%s'; dynmo --help lists them",
                         given);
    }
    return error_set(err, STATUS_INVALID, "unknown command '%s'; did you mean '%s'?", given,
                     nearest);
}

static char *join_words(int argc, char *const *argv)
{
    text_buffer line = {0};
    for (int word = 0; word < argc; word++) {
        text_format(&line, "%s%s", word > 0 ? " " : "", argv[word]);
    }
    return line.bytes;
}

/// Refuses two options that write one file, where at least one of them replaces what is there: two
/// may append to one store.
static status check_outputs(const cli_arguments *arguments, error_message *err)
{
    for (int first = 0; first < arguments->option_count; first++) {
        const cli_given *one = &arguments->options[first];
        if (!one->option->is_output || strcmp(one->value, "-") == 0) continue;
        for (int second = 0; second < arguments->option_count; second++) {
            const cli_given *other = &arguments->options[second];
            if (other == one || !(other->option->is_output || other->option->is_store)) continue;
            if (!file_outputs_collide(one->value, other->value)) continue;
            return error_set(err, STATUS_INVALID, "dynmo %s: %s and %s would both write %.120s",
                             arguments->command->name, one->option->name, other->option->name,
                             one->value);
        }
    }
    return STATUS_OK;
}

/// Looks at files before hours are spent on what goes into them: those that the command line gives
/// to read are noted, and none of those to make may be one of them.
static status check_files(const cli_arguments *arguments, error_message *err)
{
    for (int operand = 0; operand < arguments->operand_count; operand++) {
        file_note_input(arguments->operands[operand]);
    }
    for (int given = 0; given < arguments->option_count; given++) {
        const cli_option *option = arguments->options[given].option;
        const bool is_file = option->argument != NULL && strstr(option->argument, "FILE") != NULL;
        if (is_file && !option->is_output) file_note_input(arguments->options[given].value);
    }
    for (int given = 0; given < arguments->option_count; given++) {
        const cli_given *option = &arguments->options[given];
        if (!option->option->is_output || strcmp(option->value, "-") == 0) continue;
        TRY(file_check_writable(option->value, err));
    }
    return check_outputs(arguments, err);
}

static status run_command(const cli_arguments *arguments, text_buffer *out, error_message *err)
{
    TRY(check_files(arguments, err));
    arena *memory = arena_create(1 << 20);
    const status result = arguments->command->run(arguments, memory, out, err);
    arena_destroy(memory);
    return result;
}

/// Appends what is to be printed.
static status answer(int argc, char *const *argv, text_buffer *out, error_message *err)
{
    if (argc < 2) {
        return error_set(err, STATUS_INVALID,
                         "usage: dynmo COMMAND [OPTION]... [FILE]...; see dynmo --help");
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        cli_help_overview(out);
        return STATUS_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        text_append(out, "dynmo " DYNMO_VERSION "\n");
        return STATUS_OK;
    }
    int word_count = 0;
    const cli_command *command = command_find(argc, argv, &word_count);
    if (command == NULL) return unknown_command(argc, argv, err);
    cli_arguments *arguments = memory_array(1, sizeof *arguments);
    char *command_line = join_words(argc, argv);
    arguments->command_line = command_line;
    status result =
        cli_parse(command, argc - 1 - word_count, argv + 1 + word_count, arguments, err);
    if (result == STATUS_OK && arguments->wants_help) {
        cli_help_command(command, out);
    } else if (result == STATUS_OK) {
        result = run_command(arguments, out, err);
    }
    free(command_line);
    free(arguments);
    return result;
}

static status run(int argc, char *const *argv, error_message *err)
{
    text_buffer out = {0};
    const status result = answer(argc, argv, &out, err);
    const bool tells = result == STATUS_OK || result == STATUS_EXCEEDED ||
                       result == STATUS_UNDECIDED || result == STATUS_INFEASIBLE;
    const status printed = tells ? file_write("-", out.bytes, out.length, err) : STATUS_OK;
    text_free(&out);
    return printed == STATUS_OK ? result : printed;
}

/// One line, whatever names and keys it quotes.
static void print_error(error_message *err)
{
    text_mask_control(err->message, "");
    fprintf(stderr, "dynmo: %s\n", err->message);
}

/// Whether nobody reads standard output any more.
static bool is_output_gone(void)
{
    struct pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return ferror(stdout) != 0 && poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

int main(int argc, char **argv)
{
    error_message err = {0};
    signal(SIGPIPE, SIG_IGN); // what is open, stores above all, is closed before this process ends
    signal(SIGXFSZ, SIG_IGN); // a file that may not grow is an error of writing, with its message
    const status result = run(argc, argv, &err);
    if (result != STATUS_OK && is_output_gone()) { // ends as `| head` expects, without a message
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    if (result != STATUS_OK && err.message[0] != '\0') print_error(&err);
    if (result != STATUS_OK && cli_interrupt_signal() != 0) return 128 + cli_interrupt_signal();
    return exit_code_of(result);
}
