/// What the programs in tests/mpi share: they are started by `launch` with a transport's name and a
/// number of ranks, and play the same over any.
#pragma once

#include "exec/transport/transport.h"

#include <stdio.h>
#include <stdlib.h>

/// Reads the program's two arguments: transport, number of ranks.
static inline exec_transport_options world_options(int argc, char **argv)
{
    exec_transport_options options = exec_transport_options_default();
    if (argc < 3) {
        fprintf(stderr, "usage: %s TRANSPORT RANKS\n", argv[0]);
        exit(2);
    }
    options.rank_count = atoi(argv[2]);
    return options;
}

/// Runs body on every rank. Ends the process with a message on the rank that speaks if it fails:
/// with 77 where there is no such transport in this build, else with 1.
static inline void world_require(const char *transport, const exec_transport_options *options,
                                 exec_rank_body *body, void *context, const char *claim)
{
    error_message err = {0};
    const status code = exec_transport_run(transport, options, body, context, &err);
    if (code == STATUS_OK) return;
    if (exec_transport_is_leader(transport)) {
        fprintf(stderr, "%s, over %s with %d ranks: %s\n", claim, transport, options->rank_count,
                err.message);
    }
    exit(code == STATUS_UNSUPPORTED ? 77 : 1);
}
