/// The second pass of `dynmo study`: how sure its answer is.
#pragma once

#include "analysis/shards/spread.h"
#include "analysis/whatif/certainty.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "cli/command.h"

/// The options of it, for the command's table.
#define CLI_CERTAINTY_OPTIONS                                                                      \
    {.name = "--draws",                                                                            \
     .argument = "N",                                                                              \
     .help = "Draws of what is uncertain, for error bars: 0 (none) or 20 and more; default: the "  \
             "study's, else 128, and down to 64 where runs are long."},                            \
        {.name = "--detail",                                                                       \
         .argument = "N",                                                                          \
         .help = "Points that are drawn, the best ones first; default: the study's, else 32, and " \
                 "down to 8 where runs are long."},                                                \
        {.name = "--equivalence",                                                                  \
         .argument = "PERCENT",                                                                    \
         .help = "A difference that does not matter, in % of the best; default: the study's, "     \
                 "else 0."},                                                                       \
        {.name = "--what-to-measure",                                                              \
         .help = "Ranks the uncertain inputs by how much knowing each would reduce the chance of " \
                 "choosing wrongly, with the command that measures it."},

typedef struct cli_certainty {
    json_document *document; // of the study, from which names are borrowed
    ana_uncertainty uncertainty;
    ana_certainty found;
    bool is_drawn; // false: the study wants no draws
} cli_certainty;

/// Reads what study and command line say of draws, before anything is played.
///
/// @param certainty release with cli_certainty_close, also on failure
/// @return as ana_uncertainty_read and ana_uncertainty_check; STATUS_INVALID naming an option
status cli_certainty_open(const cli_arguments *arguments, const char *path, const char *text,
                          cli_certainty *certainty, error_message *err);

/// Draws the points of a study that is finished.
status cli_certainty_find(ana_spread *spread, const ana_whatif *study, arena *memory,
                          cli_certainty *certainty, error_message *err);

void cli_certainty_close(cli_certainty *certainty);
