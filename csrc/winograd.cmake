# binaryduo.training._winograd: fast 3×3 convolutions for training on CPUs. One file an instruction set.
find_package(Python COMPONENTS Interpreter Development.Module REQUIRED)
find_package(nanobind CONFIG REQUIRED)
find_package(Threads REQUIRED)
nanobind_add_module(_winograd NB_STATIC
  csrc/winograd_bindings.cpp csrc/winograd_portable.cpp csrc/winograd_avx2.cpp)
target_compile_features(_winograd PRIVATE cxx_std_17)
target_link_libraries(_winograd PRIVATE Threads::Threads)
set_source_files_properties(csrc/winograd_portable.cpp csrc/winograd_avx2.cpp PROPERTIES COMPILE_OPTIONS "-O3;-Wno-psabi")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  set_source_files_properties(csrc/winograd_avx2.cpp PROPERTIES COMPILE_OPTIONS "-O3;-mavx2;-mfma;-Wno-psabi")
endif()
install(TARGETS _winograd LIBRARY DESTINATION binaryduo/training)
