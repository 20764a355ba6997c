# The module dynmo_cuda.so, where the CUDA toolkit and its compiler are found. 12.4 brought green contexts.
find_package(CUDAToolkit 12.4)
if(NOT CUDAToolkit_FOUND)
  return()
endif()
if(NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
endif()
if(NOT CMAKE_CUDA_ARCHITECTURES)
  if(CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12.8)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100)
  else()
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
  endif()
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  return()
endif()
enable_language(CUDA)

# The kernels apart: the warnings of dynmo_flags are a C compiler's.
add_library(dynmo_cuda_kernels OBJECT
  exec/cuda/kernels_cuda_attention.cu
  exec/cuda/kernels_cuda_attention_mma.cu
  exec/cuda/kernels_cuda_blocks.cu
  exec/cuda/kernels_cuda_choice.cu
  exec/cuda/kernels_cuda_columns.cu
  exec/cuda/kernels_cuda_elements.cu
  exec/cuda/kernels_cuda_groups.cu
  exec/cuda/kernels_cuda_heads.cu
  exec/cuda/kernels_cuda_routing.cu
  exec/cuda/kernels_cuda_rows.cu)
target_include_directories(dynmo_cuda_kernels PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_options(dynmo_cuda_kernels PRIVATE -Xcompiler=-Wall,-Wextra)
set_target_properties(dynmo_cuda_kernels PROPERTIES
  CUDA_STANDARD 17
  CUDA_VISIBILITY_PRESET hidden
  POSITION_INDEPENDENT_CODE ON)

add_loadable(cuda
  SOURCES
    cuda/cuda_blocks.c
    cuda/cuda_check.c
    cuda/cuda_handover.c
    cuda/cuda_module.c
    cuda/cuda_part.c
    cuda/cuda_products.c
    cuda/kernels_cuda.c
  LIBRARIES
    CUDA::cublasLt CUDA::cudart_static CUDA::cuda_driver)
target_sources(dynmo_cuda PRIVATE $<TARGET_OBJECTS:dynmo_cuda_kernels>)
set_target_properties(dynmo_cuda PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)

# The module dynmo_nccl.so, where NCCL is found too. 2.18 brought ncclCommSplit.
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2
  HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_ROOT} PATH_SUFFIXES lib lib64)
if(NCCL_INCLUDE_DIR AND NCCL_LIBRARY)
  add_library(dynmo_nccl_library INTERFACE)
  target_include_directories(dynmo_nccl_library SYSTEM INTERFACE ${NCCL_INCLUDE_DIR})
  target_link_libraries(dynmo_nccl_library INTERFACE ${NCCL_LIBRARY} CUDA::cudart_static
    CUDA::cuda_driver)
  add_loadable(nccl
    SOURCES
      cuda/cuda_check.c
      cuda/cuda_handover.c
      transport/nccl_module.c
      transport/transport_nccl.c
    LIBRARIES
      dynmo_nccl_library)
  set_target_properties(dynmo_nccl PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
endif()
