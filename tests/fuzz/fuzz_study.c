/// Any bytes as a study file: refused with a message, or read into a study within its limits whose
/// rows can be told apart.
#define _GNU_SOURCE // memfd_create
#include "analysis/study/study.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void check(const ana_study *study)
{
    assert(study->name != NULL && study->document != NULL);
    assert((study->trace_path == NULL) == (study->model != NULL));
    assert(study->stage_count >= 1);
    assert(study->balancing_count >= 1 && study->balancing_count <= ANA_BALANCINGS_MAX);
    for (int slow = 0; slow < study->slow_rank_count; slow++) {
        assert(study->slow_ranks[slow].rank < study->stage_count);
        assert(study->slow_ranks[slow].time_factor > 0);
    }
    assert(study->parallel.data >= 1 && study->parallel.tensor >= 1);
    for (int row = 0; row < study->balancing_count; row++) {
        assert(study->balancings[row].balancer != NULL);
        assert(study->balancings[row].repack.options.kind == BAL_REPACK_NONE ||
               study->balancings[row].policy.kind != BAL_POLICY_NEVER);
        for (int other = 0; other < row; other++) {
            assert(strcmp(study->balancings[row].label, study->balancings[other].label) != 0);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    char path[32];
    const int file = memfd_create("study", 0);
    assert(file >= 0 && write(file, bytes, count) == (ssize_t)count);
    snprintf(path, sizeof path, "/dev/fd/%d", file);
    arena *memory = arena_create(4096);
    assert(memory != NULL);
    ana_study study;
    error_message err = {0};
    if (ana_study_open(path, NULL, NULL, NULL, memory, &study, &err) == STATUS_OK) {
        check(&study);
        ana_study_close(&study);
    } else {
        assert(err.message[0] != '\0');
    }
    arena_destroy(memory);
    close(file);
    return 0;
}
