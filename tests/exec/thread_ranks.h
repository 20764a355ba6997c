/// Runs a body on ranks that are threads.
#pragma once

#include "exec/transport/transport.h"
#include "tests/test.h"

static inline status run_threads(int rank_count, exec_rank_body *body, void *context,
                                 error_message *err)
{
    exec_transport_options options = exec_transport_options_default();
    options.rank_count = rank_count;
    return exec_transport_run("local", &options, body, context, err);
}

/// Fails the test with the message of a rank that fails.
static inline void run_ranks(int rank_count, exec_rank_body *body, void *context)
{
    require(run_threads(rank_count, body, context, &why));
}
