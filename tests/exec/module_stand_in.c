/// A module for test_load.c: of the name and interface that CMake gives it.
#include "exec/module.h"

const exec_module *dynmo_module(void)
{
    static const exec_module module = {.interface = STAND_IN_INTERFACE, .name = STAND_IN_NAME};
    return &module;
}
