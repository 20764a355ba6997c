/// Runs a body on ranks that are threads, and fails the test with its message.
#pragma once

#include "exec/transport/transport.h"
#include "tests/assert_close.h"

static inline void run_ranks(int rank_count, exec_rank_body *body, void *context)
{
    exec_transport_options options = exec_transport_options_default();
    options.rank_count = rank_count;
    require(exec_transport_run("local", &options, body, context, &why));
}
