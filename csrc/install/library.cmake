# libbinaryduo, static and shared, and what finds it once it is installed: pkg-config and find_package(binaryduo).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(binaryduo SHARED $<TARGET_OBJECTS:duo_engine>)
add_library(binaryduo_static STATIC $<TARGET_OBJECTS:duo_engine>)
string(REGEX MATCH "^[0-9]+" BINARYDUO_MAJOR "${BINARYDUO_VERSION}")
set_target_properties(binaryduo PROPERTIES VERSION ${BINARYDUO_VERSION} SOVERSION ${BINARYDUO_MAJOR})
set_target_properties(binaryduo_static PROPERTIES OUTPUT_NAME binaryduo)
foreach(library binaryduo binaryduo_static)
  set_target_properties(${library} PROPERTIES LINKER_LANGUAGE CXX)
  target_include_directories(${library} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/csrc/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  if(BINARYDUO_THREADS)
    target_link_libraries(${library} PRIVATE Threads::Threads)
  endif()
endforeach()
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")  # only duo_… is seen from outside
  target_link_options(binaryduo PRIVATE -Wl,--gc-sections -Wl,--no-undefined -Wl,-z,noseparate-code
    -Wl,--version-script=${PROJECT_SOURCE_DIR}/csrc/install/exported.map)
endif()

set(PACKAGE ${CMAKE_INSTALL_LIBDIR}/cmake/binaryduo)
install(TARGETS binaryduo binaryduo_static EXPORT binaryduo
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES csrc/include/duo.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT binaryduo NAMESPACE binaryduo:: FILE binaryduoTargets.cmake DESTINATION ${PACKAGE})

set(STATIC_LIBRARIES "-lstdc++ -lm")
if(BINARYDUO_THREADS)
  string(APPEND STATIC_LIBRARIES " ${CMAKE_THREAD_LIBS_INIT}")
  set(FIND_THREADS "include(CMakeFindDependencyMacro)\nfind_dependency(Threads)\n")
endif()
configure_file(csrc/install/binaryduo.pc.in binaryduo.pc @ONLY)
file(WRITE ${PROJECT_BINARY_DIR}/binaryduoConfig.cmake
  "${FIND_THREADS}include(\${CMAKE_CURRENT_LIST_DIR}/binaryduoTargets.cmake)\n")
write_basic_package_version_file(${PROJECT_BINARY_DIR}/binaryduoConfigVersion.cmake
  VERSION ${BINARYDUO_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/binaryduo.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${PROJECT_BINARY_DIR}/binaryduoConfig.cmake ${PROJECT_BINARY_DIR}/binaryduoConfigVersion.cmake
  DESTINATION ${PACKAGE})
