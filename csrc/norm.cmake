# binaryduo.training._norm: BN and the activation behind it for training on CPUs. One file an instruction set.
nanobind_add_module(_norm NB_STATIC csrc/norm_bindings.cpp csrc/norm_portable.cpp csrc/norm_avx2.cpp)
target_compile_features(_norm PRIVATE cxx_std_17)
target_link_libraries(_norm PRIVATE Threads::Threads)
set_source_files_properties(csrc/norm_portable.cpp csrc/norm_avx2.cpp PROPERTIES COMPILE_OPTIONS "-O3;-Wno-psabi")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  set_source_files_properties(csrc/norm_avx2.cpp PROPERTIES COMPILE_OPTIONS "-O3;-mavx2;-mfma;-Wno-psabi")
endif()
install(TARGETS _norm LIBRARY DESTINATION binaryduo/training)
