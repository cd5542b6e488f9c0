"""Puts the library for C and C++ programs into the package: a prefix as CMake installs one."""

from __future__ import annotations

import re
import shutil

from native_build import SONAME
from ninja_file import write_once
from recipe import ROOT, version

FOLDERS = ("lib", "include")


def filled_in(name):
    """A file of cmake/ with what the package has in place of its names."""
    words = {"VERSION": version(), "INCLUDE_FROM_LIB": "../include", "STATIC_LIBRARIES": ""}
    text = (ROOT / "cmake" / f"{name}.in").read_text()
    return re.sub(r"@(\w+)@", lambda found: words[found[1]], text)


def install(built, package):
    """The library of a build folder, the headers, and the files by which both are found."""
    for folder in FOLDERS:
        shutil.rmtree(package / folder, ignore_errors=True)
    lib = package / "lib"
    lib.mkdir(parents=True)
    shutil.copyfile(built / SONAME, lib / SONAME)
    shutil.copytree(ROOT / "include" / "cudml", package / "include" / "cudml")
    for name in ("cudmlConfig.cmake", "cudmlConfigVersion.cmake"):
        write_once(lib / "cmake" / "cudml" / name, filled_in(name))
    write_once(lib / "pkgconfig" / "cudml.pc", filled_in("cudml.pc"))
