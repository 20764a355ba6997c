/// Runs a fuzz target on the empty input and on the files named as arguments: without libFuzzer the
/// seeds, and every input that once crashed, are tests like any other.
#include "base/arena.h"
#include "base/file.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int replay(const char *path)
{
    char *bytes = NULL;
    size_t length = 0;
    error_message err = {0};
    if (file_read(path, 1 << 20, &bytes, &length, &err) != STATUS_OK) {
        fprintf(stderr, "replay: %s\n", err.message);
        return 1;
    }
    uint8_t *exact = memory_array(1, length > 0 ? length : 1);
    if (exact != NULL) {
        memcpy(exact, bytes, length);
        LLVMFuzzerTestOneInput(exact, length);
    }
    free(exact);
    free(bytes);
    return exact == NULL;
}

int main(int argc, char **argv)
{
    int failed = 0;
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int argument = 1; argument < argc; argument++) {
        failed |= replay(argv[argument]);
    }
    return failed;
}
