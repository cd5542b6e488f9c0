"""The exception that every failed CUDA call becomes."""

from __future__ import annotations


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
