/// Any bytes as a checkpoint: refused with a message, or layers that are within them.
#include "base/arena.h"
#include "exec/run/checkpoint_file.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    exec_checkpoint checkpoint;
    error_message err = {0};
    arena *memory = arena_create(4096);
    unsigned char *aligned = memory_array(1, count + 1);
    assert(memory != NULL && aligned != NULL);
    if (count > 0) memcpy(aligned, bytes, count);
    if (exec_checkpoint_parse(aligned, count, "input", memory, &checkpoint, &err) == STATUS_OK) {
        for (int layer = 0; layer < checkpoint.layer_count; layer++) {
            const unsigned char *state = checkpoint.layers[layer];
            assert(state >= aligned && state + checkpoint.byte_count[layer] <= aligned + count);
        }
    } else {
        assert(err.message[0] != '\0');
    }
    free(aligned);
    arena_destroy(memory);
    return 0;
}
