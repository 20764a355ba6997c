/// Every operation of a kernel table against its definition, written as plainly as it is read, in
/// double. For any backend.
#pragma once

#include "exec/kernels/kernels.h"

/// One operation at one or several odd sizes.
typedef struct kernel_case {
    const char *name;
    /// @return the largest |computed - defined| / (1 + |defined|) of all its results; a huge number
    ///         where the backend failed
    double (*error)(exec_kernels *kernels);
} kernel_case;

extern const kernel_case kernel_cases[];
extern const int kernel_case_count;
