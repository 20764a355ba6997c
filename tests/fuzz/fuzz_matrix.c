/// Any bytes as a study with axes: refused with a message, or a matrix whose points are studies,
/// each of them refused with a message or read.
#include "analysis/study/study.h"
#include "analysis/whatif/matrix.h"
#include "base/arena.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void check_point(const ana_matrix *matrix, int64_t number)
{
    int value[ANA_AXES_MAX];
    text_buffer text = {0};
    error_message err = {0};
    ana_matrix_values(matrix, number, value);
    for (int axis = 0; axis < matrix->axis_count; axis++) {
        assert(value[axis] >= 0 && value[axis] < matrix->axes[axis].value_count);
    }
    if (ana_matrix_text(matrix, value, &text, &err) != STATUS_OK) {
        assert(err.message[0] != '\0');
        return;
    }
    arena *memory = arena_create(4096);
    ana_study study;
    assert(memory != NULL);
    if (ana_study_open_text("point", text.bytes, memory, &study, &err) == STATUS_OK) {
        ana_study_close(&study);
    } else {
        assert(err.message[0] != '\0');
    }
    arena_destroy(memory);
    text_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    char *text = memory_array(1, count + 1);
    arena *memory = arena_create(4096);
    ana_matrix matrix;
    error_message err = {0};
    assert(text != NULL && memory != NULL);
    if (count > 0) memcpy(text, bytes, count);
    text[count] = '\0';
    if (ana_matrix_open("study", text, memory, &matrix, &err) == STATUS_OK) {
        assert(matrix.point_count >= 1 && matrix.point_count <= ANA_POINTS_MAX);
        check_point(&matrix, 0);
        check_point(&matrix, matrix.point_count - 1);
    } else {
        assert(err.message[0] != '\0');
    }
    arena_destroy(memory);
    free(text);
    return 0;
}
