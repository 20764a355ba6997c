#include "base/loadable.h"

#include <assert.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/// What people call the library that a module brings.
static const char *library_of(const char *name)
{
    static const char *const names[][2] = {{"mpi", "MPI"}, {"cuda", "CUDA"}, {"nccl", "NCCL"}};
    for (size_t index = 0; index < sizeof names / sizeof names[0]; index++) {
        if (strcmp(names[index][0], name) == 0) return names[index][1];
    }
    return NULL;
}

/// Opens the file and checks that it is what its name says. Local: a module's libraries stay out
/// of the way of the program's. Now: what is missing shows here and not in the middle of a run.
static status open_file(const char *path, const char *name, const loadable **found,
                        error_message *err)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        return error_set(err, STATUS_UNSUPPORTED, "the module for %s cannot be loaded: %s",
                         library_of(name), dlerror());
    }
    const loadable *(*entry)(void) = NULL;
    // A cast from void * to a function's pointer is not C, but POSIX promises that this works.
    *(void **)&entry = dlsym(handle, "dynmo_module");
    if (entry == NULL) {
        dlclose(handle);
        return error_set(err, STATUS_UNSUPPORTED, "'%s' is no module of dynmo", path);
    }
    const loadable *given = entry();
    if (given->interface != LOADABLE_INTERFACE) {
        const int interface = given->interface;
        dlclose(handle);
        return error_set(err, STATUS_UNSUPPORTED,
                         "'%s' has interface %d, this program needs %d: build both together", path,
                         interface, LOADABLE_INTERFACE);
    }
    if (strcmp(given->name, name) != 0) {
        const char *other = library_of(given->name);
        error_set(err, STATUS_UNSUPPORTED, "'%s' is the module for %s", path,
                  other != NULL ? other : "something else");
        dlclose(handle);
        return STATUS_UNSUPPORTED;
    }
    *found = given;
    return STATUS_OK;
}

status loadable_open_beside(const char *program, const char *name, const loadable **found,
                            error_message *err)
{
    assert(library_of(name) != NULL);
    static const char *const places[] = {".", "..", "../lib/dynmo"};
    const char *slash = strrchr(program, '/');
    const int folder_length = slash == NULL ? 0 : (int)(slash - program);
    for (size_t place = 0; place < sizeof places / sizeof places[0]; place++) {
        char path[PATH_MAX];
        const int length = snprintf(path, sizeof path, "%.*s/%s/dynmo_%s.so", folder_length,
                                    program, places[place], name);
        if (length < 0 || (size_t)length >= sizeof path || access(path, F_OK) != 0) continue;
        return open_file(path, name, found, err);
    }
    return error_set(err, STATUS_UNSUPPORTED,
                     "this build has no %s: dynmo_%s.so is not beside the program in '%.*s'",
                     library_of(name), name, folder_length, program);
}

status loadable_open(const char *name, const loadable **found, error_message *err)
{
    char program[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length < 0) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "cannot find the folder of the program: no /proc/self/exe");
    }
    program[length] = '\0';
    return loadable_open_beside(program, name, found, err);
}
