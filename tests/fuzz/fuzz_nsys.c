/// Any bytes as an export of Nsight Systems, with and without a phase map: refused with a message,
/// or read; and what was read lost no operation.
#include "tests/fuzz/fuzz.h"
#include "traces/import/import_kineto.h"

#include <assert.h>

static const char map_text[] =
    "{\"schema\":\"dynmo-phase-map/1\",\"annotations\":["
    "{\"match\":\"^u([0-9]+)$\",\"phase\":\"F\",\"layer\":{\"group\":1}}],"
    "\"kernels\":[{\"match\":\"^x\",\"component\":\"communication\"}]}";

static void read_one(const uint8_t *bytes, size_t count, const trace_phase_map *map)
{
    const trace_nsys_source source = {.path = "run", .bytes = bytes, .length = count, .map = map};
    error_message err = {0};
    trace_import import;
    if (trace_import_read_nsys(&source, 1, &import, &err) != STATUS_OK) {
        assert(err.message[0] != '\0');
        return;
    }
    for (int rank = 0; rank < import.rank_count; rank++) {
        const trace_attribution *ops = &import.recordings[rank].ops;
        assert(ops->loads + ops->others + ops->outside + ops->without_launch == ops->op_count);
    }
    trace_import_free(&import);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const uint8_t nothing[1] = {0};
    trace_phase_map *map = NULL;
    if (count == 0) bytes = nothing;
    assert(trace_phase_map_open_bytes("map", map_text, sizeof map_text - 1, &map, NULL) ==
           STATUS_OK);
    read_one(bytes, count, NULL);
    read_one(bytes, count, map);
    trace_phase_map_close(map);
    return 0;
}
