"""Which kernel a call runs on, why, and which kernels there are; nothing is run."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from cudml import _backend, _operators
from cudml._errors import kind_of, shown


@dataclass(frozen=True)
class Explanation:
    """What a call would run; made by `explain` and `CompiledOperator.explain`.

    Attributes
    ----------
    operator, device, kernel : str
        `device` is ``"cpu"``, ``"cuda:0"`` or an architecture such as ``"sm_90"``.
    reason : str
        What holds for the kernel and, for each one that comes before it, what does not.
    bytes : int
        Compulsory traffic: every input element read once, every output element written once.
    workspace_bytes : int
        Scratch memory.
    grid, block : (int, int, int), or None on the CPU
        Blocks of the largest launch, and threads of a block.
    shared_bytes : int, or None on the CPU
        Dynamic shared memory of a block.
    cluster_blocks : int, or None on the CPU
        Blocks that run together and read each other's shared memory; 1 where each is alone.
    pooled_axes : tuple of int, or None where nothing is pooled
        The dimensions that windows move along; all others are batch.

    Examples
    --------
    >>> import cudml, numpy as np
    >>> cudml.explain("padding", np.zeros((4, 4), np.float32), 1, 1).kernel
    'pad/packed'
    """

    operator: str
    device: str
    kernel: str
    reason: str
    bytes: int
    workspace_bytes: int
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    shared_bytes: int | None = None
    cluster_blocks: int | None = None
    pooled_axes: tuple[int, ...] | None = None

    def __str__(self) -> str:
        because, *others = self.reason.split("; not ")
        lines = [f"{self.operator} on {self.device}: {self.kernel}"]
        if self.pooled_axes:
            plural = "s" if len(self.pooled_axes) > 1 else ""
            lines.append(f"  pools      dimension{plural} {', '.join(map(str, self.pooled_axes))}")
        lines.append(f"  because    {because.removeprefix(self.kernel + ': ')}")
        lines += [f"  not        {other}" for other in others]
        lines.append(f"  bytes      {self.bytes}, each input read once, each output written once")
        if self.grid and self.block:
            blocks = "block" if self.grid[0] == 1 else "blocks"
            launch = f"{self.grid[0]} {blocks} of {self.block[0]} threads"
            if (self.cluster_blocks or 1) > 1:
                launch += f" in clusters of {self.cluster_blocks}"
            if self.shared_bytes:
                launch += f", {self.shared_bytes} bytes of shared memory"
            lines.append(f"  launch     {launch}")
        if self.workspace_bytes:
            lines.append(f"  workspace  {self.workspace_bytes} bytes")
        return "\n".join(lines)


@dataclass(frozen=True)
class Kernel:
    """A CUDA kernel, or a path of the CPU, and what it needs; listed by `kernels`.

    Attributes
    ----------
    name : str
        As ``CUDML_KERNEL`` takes it.
    predicates : tuple of str
        All must hold; a kernel without any takes every call of its operators.
    gain : str
        Of a path of the CPU: how many times as fast it was, at its best, as the next one that would
        have taken the call, and in which problem of the benchmarks; empty where that is not
        measured.

    Examples
    --------
    >>> import cudml
    >>> print(cudml.kernels("padding")[-1])
    pad_generic: takes every call
    """

    name: str
    predicates: tuple[str, ...] = ()
    gain: str = ""

    def __str__(self) -> str:
        needs = "needs that " + ", ".join(self.predicates)
        gains = f"; gains {self.gain}" if self.gain else ""
        return f"{self.name}: {needs if self.predicates else 'takes every call'}{gains}"


def explain(name: str, /, *args: Any, device: str | None = None, **kwargs: Any) -> Explanation:
    """Say which kernel a call would run on, why, and how many bytes it must move. Nothing is run.

    Parameters
    ----------
    name : str
        An operator of this package, such as ``"max_pooling"``.
    *args, **kwargs
        The operator's own arguments, checked as the operator would. Arrays need no memory here:
        anything with `shape` and `dtype` will do, with `strides` in bytes if it has them.
    device : str, optional
        ``"cpu"``, ``"cuda"``, ``"cuda:<number>"``, or an architecture from ``"sm_75"`` to
        ``"sm_120"``, for which no GPU is needed. None is where the arrays live.

    Returns
    -------
    Explanation
        Readable by `str`.

    Raises
    ------
    TypeError, ValueError
        What the call itself would raise; a name or device that is not known.
    CudaError
        A CUDA device is named where none can be used.

    Examples
    --------
    >>> import cudml, numpy as np
    >>> x = np.zeros((8, 64, 56, 56), np.float16)
    >>> print(cudml.explain("max_pooling", x, 2, strides=2))  # doctest: +ELLIPSIS
    max_pooling on cpu: pool/pairs
      pools      dimensions 2, 3
      because    maxima or averages of ...
      bytes      4014080, each input read once, each output written once
    >>> cudml.explain("max_pooling", x, 2, strides=2, device="sm_90").grid is None
    False
    """
    if not isinstance(name, str):
        raise TypeError(f"explain: name is {shown(name)} ({kind_of(name)}); it must be a string")
    if name not in _operators.__all__:
        permitted = ", ".join(_operators.__all__)
        raise ValueError(f"explain: name is {shown(name)}; it must be one of {permitted}")
    function = getattr(_operators, name)
    try:
        call = inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from None
    call.apply_defaults()
    result: Explanation = _backend.core.explain(name, device, *call.arguments.values())
    return result


def kernels(family: str, *, device: str = "cuda") -> tuple[Kernel, ...]:
    """List an operator's CUDA kernels, or its paths on the CPU, in the order they are tried in.

    The first one whose predicates hold takes the call; the environment variable ``CUDML_KERNEL``
    forces one by name. A path is named after the file of csrc/cpu that holds its loops.

    Parameters
    ----------
    family : str
        An operator's name, or ``"pool"``, ``"winners"`` (max pooling with indices),
        ``"max_pool_grad"``, ``"average_pool_grad"``, ``"lp_pool_grad"``, ``"unpool"``, ``"pad"``,
        ``"pad_grad"``, ``"mvn"``, ``"mvn_grad"``, ``"statistics"``, ``"merge"`` or
        ``"normalize"``.
    device : str
        ``"cuda"`` or ``"cpu"``. On the CPU the list is that of the instruction set in use.

    Returns
    -------
    tuple of Kernel
        The last one takes every call. The same in a build without CUDA.

    Raises
    ------
    TypeError
        `family` or `device` is no string.
    ValueError
        There is no such family or device.

    Examples
    --------
    >>> import cudml
    >>> cudml.kernels("mvn")[-1].name
    'mvn_generic'
    >>> cudml.kernels("mvn", device="cpu")[-1].name
    'mvn/plain'
    """
    return tuple(Kernel(*row) for row in _backend.core.kernels(family, device))
