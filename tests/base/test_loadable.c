/// loadable: a module is found beside the program, in the folder above and as installed; what is
/// missing, foreign, broken or of another build is refused with its name. The modules are
/// stand-ins, which CMake puts into folders of their own: MODULES/good/, MODULES/stale/ and so on.
#include "base/loadable.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TEST(a_module_beside_the_program_is_opened_and_stays_the_same)
{
    const loadable *module = NULL;
    const loadable *again = NULL;

    assert_ok(loadable_open_beside(MODULES "/good/program", "mpi", &module, NULL));
    assert_ok(loadable_open_beside(MODULES "/good/program", "mpi", &again, NULL));

    assert_string_equal(module->name, "mpi");
    assert_ptr_equal(module, again);
}

TEST(a_module_is_found_one_folder_up_and_where_it_is_installed)
{
    const loadable *module = NULL;
    mkdir(MODULES "/good/tests", 0777);
    mkdir(MODULES "/installed/bin", 0777);

    assert_ok(loadable_open_beside(MODULES "/good/tests/program", "mpi", &module, NULL));
    assert_ok(loadable_open_beside(MODULES "/installed/bin/program", "nccl", &module, NULL));

    assert_string_equal(module->name, "nccl");
}

static void assert_refused(const char *program, const char *name, const char *message)
{
    const loadable *module = NULL;

    assert_fails_naming(loadable_open_beside(program, name, &module, &why), STATUS_UNSUPPORTED,
                        message);
    assert_null(module);
}

TEST(a_missing_module_is_named_with_what_it_brings)
{
    assert_refused("/nowhere/bin/dynmo", "mpi",
                   "this build has no MPI: dynmo_mpi.so is not beside the program in "
                   "'/nowhere/bin'");
    assert_refused("/nowhere/bin/dynmo", "nccl", "this build has no NCCL: dynmo_nccl.so");
}

TEST(a_module_of_another_interface_is_refused)
{
    char message[100];
    snprintf(message, sizeof message,
             "dynmo_cuda.so' has interface 0, this program needs %d: build both together",
             LOADABLE_INTERFACE);

    assert_refused(MODULES "/stale/program", "cuda", message);
}

TEST(a_module_under_another_name_is_refused)
{
    assert_refused(MODULES "/renamed/program", "cuda", "dynmo_cuda.so' is the module for NCCL");
}

TEST(a_library_that_is_no_module_is_refused)
{
    assert_refused(MODULES "/foreign/program", "nccl", "dynmo_nccl.so' is no module of dynmo");
}

TEST(a_file_that_is_no_library_is_refused_with_the_loaders_words)
{
    char folder[] = P_tmpdir "/dynmo-test-XXXXXX";
    char path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/dynmo_mpi.so", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("text", file);
    fclose(file);
    char program[64];
    snprintf(program, sizeof program, "%s/program", folder);

    assert_refused(program, "mpi", "the module for MPI cannot be loaded: ");
    assert_refused(program, "mpi", path + strlen(folder));

    unlink(path);
    rmdir(folder);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
