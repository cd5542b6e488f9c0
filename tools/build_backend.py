"""setuptools' build hooks, plus NVIDIA's compiler from pip where CUDA is asked for and missing."""

import os

import cuda_toolkit
from setuptools.build_meta import *  # noqa: F403
from setuptools.build_meta import (
    get_requires_for_build_editable as _editable,
)
from setuptools.build_meta import (
    get_requires_for_build_wheel as _wheel,
)


def _toolkit() -> list[str]:
    wanted = os.environ.get("CUDML_CUDA", "auto") == "on"
    return cuda_toolkit.PIP_PACKAGES if wanted and cuda_toolkit.find() is None else []


def get_requires_for_build_wheel(config_settings=None):
    return _wheel(config_settings) + _toolkit()


def get_requires_for_build_editable(config_settings=None):
    return _editable(config_settings) + _toolkit()
