"""Builds the extension module and the library with tools/native_build.py.

Environment: CUDML_CUDA=auto|on|off, CUDML_CUDA_HOME, CUDML_CUDA_ARCHS, CUDML_LINEINFO=1, MAX_JOBS;
CUDML_BUILD=debug (assertions of the standard library, symbols, a folder of its own in build/);
CUDML_REPOSITORY_URL, to which a package's page links.
CUDML_SIMT=on also builds `cudml._simt` into build/, with CUDML_SANITIZE=address,undefined|thread
under that sanitizer.
"""

import os
import shutil
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

sys.path.insert(0, str(Path(__file__).resolve().parent / "tools"))
import description
import library_files
import native_build


class NinjaBuild(build_ext):
    def build_extension(self, ext):
        module = native_build.build(ext.name.rsplit(".", 1)[-1], native_build.wished())
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)  # a new file: a process may have the old one mapped
        shutil.copyfile(module, target)
        self.built = module.parent
        library_files.install(self.built, target.parent)
        if os.environ.get("CUDML_SIMT") == "on":
            print(native_build.build("_simt", os.environ.get("CUDML_SANITIZE", "")))

    def copy_extensions_to_source(self):
        super().copy_extensions_to_source()
        library_files.install(
            self.built, Path(self.get_finalized_command("build_py").get_package_dir("cudml"))
        )


setup(
    long_description=description.description(description.address()),
    long_description_content_type="text/markdown",
    project_urls=description.project_urls(description.address()),
    ext_modules=[Extension("cudml._core", sources=[])],
    cmdclass={"build_ext": NinjaBuild},
)
