/// Any bytes as a profiler trace, with and without a phase map: refused with a message, or read;
/// and what was read lost no operation and adds up.
#include "tests/fuzz/fuzz.h"
#include "traces/import/import_kineto.h"

#include <assert.h>
#include <string.h>

static const char map_text[] =
    "{\"schema\":\"dynmo-phase-map/1\",\"scope\":\"^S$\",\"annotations\":["
    "{\"match\":\"^u([0-9]+)$\",\"phase\":\"F\",\"layer\":{\"group\":1}},"
    "{\"match\":\"^a[(]([FBW])[)]$\",\"phase\":{\"group\":1},\"layer\":{\"count\":\"down\"}},"
    "{\"match\":\"^c$\",\"phase\":\"F\",\"layer\":{\"count\":\"up\"},\"component\":"
    "\"communication\"}]}";

static void check_recording(const trace_recording *recording)
{
    const trace_attribution *ops = &recording->ops;
    assert(ops->loads + ops->others + ops->outside + ops->without_launch == ops->op_count);
    for (int cell = 0; cell < recording->cell_count; cell++) {
        const trace_cell *each = &recording->cells[cell];
        assert(each->charge_ns >= 0);
        assert(each->busy_ns >= 0 && each->communication_ns >= 0 && each->span_ns >= 0);
        assert(each->layer >= 0 && each->microbatch >= 0 && each->iteration >= 0);
    }
}

/// Two ranks: what stands before and after the first byte 0, or the same file twice.
static void read_one(const uint8_t *bytes, size_t count, const trace_phase_map *map)
{
    const uint8_t *cut = count > 0 ? memchr(bytes, 0, count) : NULL;
    const size_t first = cut != NULL ? (size_t)(cut - bytes) : count;
    const trace_profile_source sources[] = {
        {.path = "first", .bytes = bytes, .length = first, .map = map, .rank = 0},
        {.path = "second",
         .bytes = bytes + first + (cut != NULL),
         .length = count - first - (cut != NULL),
         .map = map,
         .rank = 1},
    };
    error_message err = {0};
    trace_import import = {0};
    arena *memory = arena_create(1 << 12);
    const status result = trace_import_read(sources, cut != NULL ? 2 : 1, TRACE_PROFILER_KINETO,
                                            memory, &import, &err);
    assert(result == STATUS_OK || err.message[0] != '\0');
    for (int rank = 0; rank < import.rank_count; rank++) {
        check_recording(&import.recordings[rank]);
    }
    arena_destroy(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const uint8_t nothing[1] = {0};
    trace_phase_map *map = NULL;
    arena *memory = arena_create(1 << 12);
    if (count == 0) bytes = nothing;
    assert(trace_phase_map_open_bytes("map", map_text, sizeof map_text - 1, memory, &map, NULL) ==
           STATUS_OK);
    read_one(bytes, count, NULL);
    read_one(bytes, count, map);
    arena_destroy(memory);
    return 0;
}
