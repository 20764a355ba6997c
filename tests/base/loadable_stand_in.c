/// A module for test_loadable.c: of the name and interface that CMake gives it.
#include "base/loadable.h"

const loadable *dynmo_module(void)
{
    static const loadable module = {.interface = STAND_IN_INTERFACE, .name = STAND_IN_NAME};
    return &module;
}
