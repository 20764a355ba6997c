/// One table of commands and options: parsing and --help come from it.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum { CLI_OPTIONS_MAX = 40, CLI_OPERANDS_MAX = 4096 };

typedef struct cli_option {
    const char *name;     // "--stages"
    const char *argument; // "P", or NULL for a switch; "[P]" may be left out after the last word,
                          // the value is then ""
    const char *help;     // one sentence, with unit and default
    char letter;          // 'o' for -o, or 0
    bool may_repeat;
    bool is_output; // its value is a file that the command makes
    bool is_store;  // its value is a store that the command adds to
} cli_option;

typedef struct cli_arguments cli_arguments;

typedef struct cli_command {
    const char *name;                    // "schedule", or two words: "import kineto"
    const char *synopsis;                // what stands behind the name
    const char *summary;                 // one line
    const char *description;             // paragraphs separated by an empty line
    const char *details;                 // more of them, or NULL: C limits how long a text may be
    cli_option options[CLI_OPTIONS_MAX]; // ends at name == NULL; --help is everybody's
    int operand_min;
    int operand_max;

    /// Appends to out what stands on standard output once the command has ended well, or as a check
    /// or an infeasible plan does: so that a failure prints nothing. Borrowed for the call.
    status (*run)(const cli_arguments *arguments, arena *memory, text_buffer *out,
                  error_message *err);
} cli_command;

/// The value of an option of the command, "" for a switch that is set, NULL if it is not given.
/// @param name must be in the command's table (asserted)
const char *cli_value(const cli_arguments *arguments, const char *name);

/// The same with what stands for an option that is not given.
const char *cli_value_or(const cli_arguments *arguments, const char *name, const char *fallback);

/// Values of an option that may repeat, in order; NULL after the last.
const char *cli_value_at(const cli_arguments *arguments, const char *name, int index);

bool cli_has(const cli_arguments *arguments, const char *name);

/// The option as an integer in [min, max]; fallback if it is not given.
status cli_int(const cli_arguments *arguments, const char *name, int min, int max, int fallback,
               int *value, error_message *err);

/// The same of wider numbers; value is untouched if it is not given.
status cli_int64(const cli_arguments *arguments, const char *name, int64_t min, int64_t max,
                 int64_t *value, error_message *err);
status cli_double(const cli_arguments *arguments, const char *name, double min, double max,
                  double *value, error_message *err);

/// The first of some options that is given; NULL: none is.
const char *cli_first_given(const cli_arguments *arguments, const char *const *names,
                            int name_count);

/// The option as one of some names; fallback if it is not given.
///
/// @param names  [name_count], >= 1
/// @param chosen out: index into names
/// @return STATUS_INVALID naming what was given and all that is known: the nearest by letters may
/// be
///         far in meaning, as cpu is to gpu
status cli_choice(const cli_arguments *arguments, const char *name, const char *const *names,
                  int name_count, int fallback, int *chosen, error_message *err);

/// Fails with "--name is needed" unless the option is given.
status cli_require(const cli_arguments *arguments, const char *name, error_message *err);

int cli_operand_count(const cli_arguments *arguments);
const char *cli_operand(const cli_arguments *arguments, int index); ///< NULL after the last
const char *const *cli_operands(const cli_arguments *arguments);    ///< [cli_operand_count]

/// Writes what was appended to out to the file of --output, if that is given, and empties out.
status cli_write_output(const cli_arguments *arguments, text_buffer *out, error_message *err);

/// The whole command line as given, for the record of a run.
const char *cli_command_line(const cli_arguments *arguments);
