# Tests of the CUDA backends: each runs over the module (skipped without a GPU), and over CUDA calls
# that are emulated on the host, where there is a C++ compiler for the kernels. Sanitizers do not
# follow jumps between the stacks of emulated lanes.
include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER AND NOT DYNMO_SANITIZE)
  enable_language(CXX)
  # add_emulated(<name> <sources>...): objects of C++, which does not take a C compiler's warnings.
  function(add_emulated name)
    add_library(${name} OBJECT ${ARGN})
    set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX)
    target_include_directories(${name} BEFORE PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/gpu/emulation
      ${CMAKE_CURRENT_SOURCE_DIR}/multigpu/emulation ${CMAKE_SOURCE_DIR})
    target_compile_features(${name} PRIVATE cxx_std_17)
    target_compile_options(${name} PRIVATE -Wall -Wextra -Wno-unknown-pragmas)
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  endfunction()
  set(kernels attention attention_mma blocks choice columns elements groups heads routing rows)
  list(TRANSFORM kernels PREPEND ${CMAKE_SOURCE_DIR}/exec/cuda/kernels_cuda_)
  list(TRANSFORM kernels APPEND .cu)
  add_emulated(gpu_emulated_kernels ${kernels})
  add_emulated(gpu_quick_kernels gpu/emulation/quick_kernels.cpp)
  add_emulated(gpu_emulated_runtime gpu/emulation/runtime.cpp)
  add_emulated(gpu_emulated_nccl multigpu/emulation/nccl.cpp)

  set(backend blocks check handover part products)
  list(TRANSFORM backend PREPEND ${CMAKE_SOURCE_DIR}/exec/cuda/cuda_)
  list(TRANSFORM backend APPEND .c)
  # add_gpu_emulation(<name> <kernels>...): the host's side of the backend over emulated libraries.
  function(add_gpu_emulation name)
    add_library(${name} STATIC
      ${backend}
      ${CMAKE_SOURCE_DIR}/exec/cuda/kernels_cuda.c
      gpu/emulation/cublaslt.c
      $<TARGET_OBJECTS:gpu_emulated_runtime>
      ${ARGN})
    target_include_directories(${name} BEFORE PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/gpu/emulation)
    target_link_libraries(${name} PUBLIC exec dynmo_flags m)
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  endfunction()
  add_gpu_emulation(gpu_emulation gpu/emulation/lanes.c $<TARGET_OBJECTS:gpu_emulated_kernels>)
  add_gpu_emulation(gpu_quick_emulation $<TARGET_OBJECTS:gpu_quick_kernels>)

  # The same as modules, to try beside a copy of the program what will run on GPUs (gpu/pack.sh --emulated). Both
  # are of one emulation, which is a library of its own beside them.
  add_library(gpu_emulated SHARED
    ${CMAKE_SOURCE_DIR}/exec/transport/transport_nccl.c $<TARGET_OBJECTS:gpu_emulated_nccl>)
  target_include_directories(gpu_emulated BEFORE PRIVATE
    ${CMAKE_CURRENT_SOURCE_DIR}/gpu/emulation ${CMAKE_CURRENT_SOURCE_DIR}/multigpu/emulation)
  target_link_libraries(gpu_emulated PRIVATE -Wl,--whole-archive gpu_emulation -Wl,--no-whole-archive)
  add_library(gpu_emulated_cuda_module MODULE ${CMAKE_SOURCE_DIR}/exec/cuda/cuda_module.c)
  add_library(gpu_emulated_nccl_module MODULE ${CMAKE_SOURCE_DIR}/exec/transport/nccl_module.c)
  set_target_properties(gpu_emulated_cuda_module PROPERTIES OUTPUT_NAME dynmo_cuda PREFIX "")
  set_target_properties(gpu_emulated_nccl_module PROPERTIES OUTPUT_NAME dynmo_nccl PREFIX "")
  set_target_properties(gpu_emulated gpu_emulated_cuda_module gpu_emulated_nccl_module PROPERTIES
    LINKER_LANGUAGE CXX BUILD_RPATH "\$ORIGIN" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/emulated)
  foreach(module cuda nccl)
    target_link_libraries(gpu_emulated_${module}_module PRIVATE gpu_emulated base dynmo_flags)
    target_include_directories(gpu_emulated_${module}_module BEFORE PRIVATE
      ${CMAKE_CURRENT_SOURCE_DIR}/gpu/emulation ${CMAKE_SOURCE_DIR})
  endforeach()
endif()

# add_gpu_test(<name>): tests/gpu/test_cuda_<name>.c, a plain program.
add_library(gpu_pair STATIC gpu/pair.c)
target_link_libraries(gpu_pair PUBLIC exec m)
function(add_gpu_test name)
  add_executable(gpu_test_${name} gpu/test_cuda_${name}.c gpu/gpu_backend.c)
  target_link_libraries(gpu_test_${name} PRIVATE gpu_pair)
  if(TARGET dynmo_cuda)
    add_dependencies(gpu_test_${name} dynmo_cuda)
  endif()
  add_test(NAME gpu/test_${name} COMMAND gpu_test_${name} WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  set_tests_properties(gpu/test_${name} PROPERTIES LABELS gpu SKIP_RETURN_CODE 77 TIMEOUT 300)
  if(TARGET gpu_emulation)
    add_executable(gpu_emulated_test_${name} gpu/test_cuda_${name}.c gpu/emulation/gpu_backend_emulated.c)
    target_link_libraries(gpu_emulated_test_${name} PRIVATE gpu_pair gpu_emulation)
    set_target_properties(gpu_emulated_test_${name} PROPERTIES LINKER_LANGUAGE CXX)
    add_test(NAME gpu/emulation/test_${name} COMMAND gpu_emulated_test_${name}
             WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    set_tests_properties(gpu/emulation/test_${name} PROPERTIES LABELS exec TIMEOUT 600)
  endif()
endfunction()

add_gpu_test(kernels)
add_gpu_test(training)

# Runs drawn from seeds, of a program that takes their number and the first.
if(TARGET gpu_quick_emulation)
  # add_streams_test(<name> <includes>...): what the includes hold is taken before the project's.
  function(add_streams_test name)
    add_executable(gpu_${name} gpu/test_streams.c
      ${CMAKE_SOURCE_DIR}/exec/transport/transport_nccl.c $<TARGET_OBJECTS:gpu_emulated_nccl>)
    target_include_directories(gpu_${name} BEFORE PRIVATE ${ARGN}
      ${CMAKE_CURRENT_SOURCE_DIR}/gpu/emulation ${CMAKE_CURRENT_SOURCE_DIR}/multigpu/emulation)
    target_link_libraries(gpu_${name} PRIVATE gpu_quick_emulation)
    set_target_properties(gpu_${name} PROPERTIES LINKER_LANGUAGE CXX)
  endfunction()
  # add_seeds(<name> <program> <count> <first> [experts])
  function(add_seeds name program count first)
    add_test(NAME gpu/emulation/${name} COMMAND gpu_${program} ${count} ${first} ${ARGN}
             WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    set_tests_properties(gpu/emulation/${name} PROPERTIES LABELS "exec;gpu-emulation" TIMEOUT 600)
  endfunction()
  add_streams_test(test_streams)
  add_seeds(test_streams test_streams 500 1)
  add_seeds(test_streams_more test_streams 500 501)
  add_seeds(test_streams_experts test_streams 100 1 experts)
  # One lane for each direction, as it once was: it must be found to stand still, and nothing else may go wrong.
  add_streams_test(test_shared_lanes ${CMAKE_CURRENT_SOURCE_DIR}/gpu/shared_lanes)
  add_seeds(test_shared_lanes test_shared_lanes 10 18)
  set_tests_properties(gpu/emulation/test_shared_lanes PROPERTIES
    PASS_REGULAR_EXPRESSION
    "failed .rank [0-9]+, iteration [^\n]*: (waits on its GPU|hangs: no rank has moved) for .*[1-9] failures, 10 seeds"
    FAIL_REGULAR_EXPRESSION "other bits;is not told;took too long;ranks hang")
endif()

if(TARGET dynmo_cuda)
  set(newest_code)
  if(100 IN_LIST CMAKE_CUDA_ARCHITECTURES)
    set(newest_code sm_100)
  endif()
  add_test(NAME gpu/machine_code COMMAND python3 ${CMAKE_CURRENT_SOURCE_DIR}/gpu/machine_code.py
           $<TARGET_FILE:dynmo_cuda> sm_90 ${newest_code})
  set_tests_properties(gpu/machine_code PROPERTIES LABELS exec SKIP_RETURN_CODE 77 TIMEOUT 300)
endif()

# What tests/gpu/run_all.sh measures with.
add_executable(gpu_measure_kernels gpu/measure_kernels.c gpu/gpu_backend.c)
target_link_libraries(gpu_measure_kernels PRIVATE exec bench m)
add_test(NAME gpu/measure_kernels COMMAND gpu_measure_kernels --smoke)
set_tests_properties(gpu/measure_kernels PROPERTIES LABELS gpu SKIP_RETURN_CODE 77 TIMEOUT 300)
if(TARGET dynmo_cuda)
  add_executable(gpu_measure_cublaslt gpu/measure_cublaslt.c)
  target_link_libraries(gpu_measure_cublaslt PRIVATE
    dynmo_flags bench CUDA::cublasLt CUDA::cudart_static)
endif()

# add_multigpu_test(<name>): tests/multigpu/<name>.c, a plain program for `mpirun -n GPUS`.
function(add_multigpu_test name)
  add_executable(multigpu_${name} multigpu/${name}.c multigpu/multigpu_ranks.c)
  target_link_libraries(multigpu_${name} PRIVATE exec)
  add_test(NAME multigpu/${name} COMMAND multigpu_${name})
  set_tests_properties(multigpu/${name} PROPERTIES LABELS gpu SKIP_RETURN_CODE 77 TIMEOUT 300)
  if(TARGET gpu_emulation)
    add_executable(multigpu_emulated_${name}
      multigpu/${name}.c multigpu/emulation/multigpu_ranks_emulated.c $<TARGET_OBJECTS:gpu_emulated_nccl>
      ${CMAKE_SOURCE_DIR}/exec/transport/transport_nccl.c)
    target_include_directories(multigpu_emulated_${name} BEFORE PRIVATE
      ${CMAKE_CURRENT_SOURCE_DIR}/gpu/emulation ${CMAKE_CURRENT_SOURCE_DIR}/multigpu/emulation)
    target_link_libraries(multigpu_emulated_${name} PRIVATE gpu_emulation)
    set_target_properties(multigpu_emulated_${name} PROPERTIES LINKER_LANGUAGE CXX)
    add_test(NAME multigpu/emulation/${name} COMMAND multigpu_emulated_${name})
    set_tests_properties(multigpu/emulation/${name} PROPERTIES LABELS exec TIMEOUT 600)
  endif()
endfunction()

add_multigpu_test(test_messages)

if(TARGET gpu_emulation AND TARGET dynmo_cuda)
  add_test(NAME gpu/emulation/run_all COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/gpu/trial.sh ${CMAKE_BINARY_DIR})
  set_tests_properties(gpu/emulation/run_all PROPERTIES LABELS exec TIMEOUT 600)
endif()
