"""libcudml for C and C++ programs: headers, ABI, results, refusals, CMake."""
