# Where the libraries, the headers and what finds them go.
install(TARGETS cudml cudml_static LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/cudml DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# From the folder of the libraries to that of the headers, as the installed files need it.
file(RELATIVE_PATH INCLUDE_FROM_LIB
  ${CMAKE_INSTALL_FULL_LIBDIR} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
set(VERSION ${PROJECT_VERSION})
set(STATIC_LIBRARIES ${LIBRARIES})
if(with_cuda)
  set(STATIC_LIBRARIES ${CUDA_cudart_static_LIBRARY} ${CUDA_LIBRARIES})
endif()
foreach(file cudmlConfig.cmake cudmlConfigVersion.cmake cudml.pc)
  configure_file(cmake/${file}.in ${file} @ONLY)
endforeach()
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/cudmlConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/cudmlConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cudml)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/cudml.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
