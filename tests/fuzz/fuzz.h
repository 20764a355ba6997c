/// What each program in tests/fuzz defines: libFuzzer calls it with inputs of its own making,
/// replay.c with the files of tests/fuzz/seeds.
#pragma once

#include <stddef.h>
#include <stdint.h>

/// Feeds one input to the reader under test. A crash, a sanitizer's finding, a leak or a failed
/// assert is a bug.
///
/// @param bytes [count], not terminated; exactly as large, so that reading past it is seen
/// @return 0
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);
