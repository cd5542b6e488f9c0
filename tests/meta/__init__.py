"""Documents, packages, the command line, types, and the tests about tests."""
