/// What imports do with gaps, and what they say of the replay of what was recorded.
#pragma once

#include "base/json.h"
#include "base/text.h"
#include "cli/commands.h"
#include "traces/import/import_kineto.h"

/// The option --gaps, as a help line names its default.
#define CLI_GAPS_OPTION(if_default)                                                                \
    {                                                                                              \
        .name = "--gaps", .argument = "charge|leave",                                              \
        .help = "What becomes of time in which the device stood still or only communicated: "      \
                "charged to the op in which it fell, or left out of all. Default: " if_default "." \
    }

/// @return STATUS_INVALID: --gaps is neither
status cli_read_gaps(const cli_arguments *arguments, trace_gaps *gaps, error_message *err);

/// Nothing where nothing was recorded of a timeline.
void cli_write_replay(const trace_replay *replay, bool keeps_gaps, text_buffer *out);

/// An object: {"recorded_ns":n,"replayed_ns":n,"error_ratio":x,"compute_ns":n,"ranks_ns":n,
/// "charged_ns":{cause:n,...},"outside_ops_ns":{cause:n,...}}
void cli_write_replay_json(json_writer *writer, const trace_replay *replay, bool keeps_gaps);
