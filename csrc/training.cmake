# The kernels that training uses on CPUs, one file an instruction set.
find_package(Python COMPONENTS Interpreter Development.Module REQUIRED)
find_package(nanobind CONFIG REQUIRED)
find_package(Threads REQUIRED)

function(add_training_kernels name bindings portable avx2)
  nanobind_add_module(${name} NB_STATIC ${bindings} ${portable} ${avx2})
  target_compile_features(${name} PRIVATE cxx_std_17)
  target_link_libraries(${name} PRIVATE Threads::Threads)
  set_source_files_properties(${portable} ${avx2} PROPERTIES COMPILE_OPTIONS "-O3;-Wno-psabi")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
    set_source_files_properties(${avx2} PROPERTIES COMPILE_OPTIONS "-O3;-mavx2;-mfma;-Wno-psabi")
  endif()
  install(TARGETS ${name} LIBRARY DESTINATION binaryduo/training/fast)
endfunction()

# 3×3 convolutions; BN and the activation behind it
add_training_kernels(_winograd csrc/winograd_bindings.cpp csrc/winograd_portable.cpp csrc/winograd_avx2.cpp)
add_training_kernels(_norm csrc/norm_bindings.cpp csrc/norm_portable.cpp csrc/norm_avx2.cpp)
