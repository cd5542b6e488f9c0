"""The exception that every failed CUDA call becomes, and how messages show values."""

from __future__ import annotations

_LONGEST = 160  # characters of a caller's text in a message


def shown(value: object) -> str:
    """A value as messages show it: its repr, cut where it is long; a larger array's shape."""
    text = repr(value)
    if len(text) > _LONGEST or "\n" in text:
        shape = getattr(value, "shape", None)
        if isinstance(shape, tuple):
            return _cut(f"an array of shape {tuple(shape)}")
    return _cut(text)


def kind_of(value: object) -> str:
    """The name of a value's type, cut where it is long."""
    return _cut(type(value).__name__)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


class CudaError(RuntimeError):
    """A CUDA call failed, or a CUDA device was asked for and none can be used.

    Attributes
    ----------
    code : int or None
        The number of the CUDA runtime's error, ``cudaError_t``.
    name : str or None
        Its name, such as ``"cudaErrorInvalidValue"``.
    call : str or None
        The runtime function or the kernel that failed.

    All three are None where no call failed, as in a build without CUDA.
    """

    code: int | None = None
    name: str | None = None
    call: str | None = None

    def __init__(
        self,
        message: str = "",
        code: int | None = None,
        name: str | None = None,
        call: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code, self.name, self.call = code, name, call

    def __reduce__(self) -> tuple[type[CudaError], tuple[str, int | None, str | None, str | None]]:
        return type(self), (str(self), self.code, self.name, self.call)


CudaError.__module__ = "cudml"  # where it is public
