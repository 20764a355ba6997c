/// Preloaded into a program, lets one allocation fail: the one whose number is in FAIL_AT, from 1.
/// Says at the end how many there were, in the file that ALLOCATIONS names.
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);

static atomic_long asked;

static int fails(void)
{
    static long fail_at = -1;
    if (fail_at < 0) fail_at = getenv("FAIL_AT") != NULL ? atol(getenv("FAIL_AT")) : 0;
    if (atomic_fetch_add(&asked, 1) + 1 != fail_at) return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t bytes)
{
    return fails() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes)
{
    return fails() ? NULL : __libc_realloc(old, bytes);
}

__attribute__((destructor)) static void tell(void)
{
    const char *path = getenv("ALLOCATIONS");
    FILE *file = path != NULL ? fopen(path, "w") : NULL;
    if (file == NULL) return;
    fprintf(file, "%ld\n", atomic_load(&asked));
    fclose(file);
}
