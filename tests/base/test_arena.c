/// arena: arrays are zero, aligned and apart; reset reuses the blocks; overflow is refused.
#include "base/arena.h"
#include "tests/assert_close.h"

#include <stdalign.h>
#include <string.h>

static void arrays_are_zero_aligned_and_do_not_overlap(void **state)
{
    (void)state;
    arena *memory = arena_create(256);

    for (int round = 0; round < 2; round++) {
        char *arrays[20];
        for (int index = 0; index < 20; index++) {
            const size_t bytes = (size_t)(index * 37 % 300);
            arrays[index] = arena_array(memory, bytes, 1);
            assert_non_null(arrays[index]);
            assert_int_equal((uintptr_t)arrays[index] % alignof(max_align_t), 0);
            for (size_t at = 0; at < bytes; at++) {
                assert_int_equal(arrays[index][at], 0);
            }
            memset(arrays[index], index + 1, bytes);
        }
        for (int index = 0; index < 20; index++) {
            for (size_t at = 0; at < (size_t)(index * 37 % 300); at++) {
                assert_int_equal(arrays[index][at], index + 1);
            }
        }
        arena_reset(memory);
    }

    arena_destroy(memory);
}

static void a_product_that_overflows_is_refused(void **state)
{
    (void)state;
    arena *memory = arena_create(64);

    assert_null(arena_array(memory, SIZE_MAX / 2, 8));

    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_are_zero_aligned_and_do_not_overlap),
        cmocka_unit_test(a_product_that_overflows_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
