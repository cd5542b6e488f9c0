"""What the compiled extension module offers; every argument is checked by the C++ itself."""

from typing import Any, NoReturn, TypeVar, final, overload

from cudml._explain import Explanation

_ArrayT = TypeVar("_ArrayT")
_OutT = TypeVar("_OutT")

def max_pooling(
    x: Any,
    window_size: Any,
    strides: Any,
    start_padding: Any,
    end_padding: Any,
    dilations: Any,
    return_indices: Any,
    index_dtype: Any,
    output_sizes: Any,
    axes: Any,
    out: Any,
    stream: Any,
    /,
) -> Any: ...
def max_pooling_grad(
    x: _ArrayT,
    grad: Any,
    window_size: Any,
    strides: Any,
    start_padding: Any,
    end_padding: Any,
    dilations: Any,
    axes: Any,
    out: Any,
    stream: Any,
    /,
) -> _ArrayT: ...
def average_pooling(
    x: _ArrayT,
    window_size: Any,
    strides: Any,
    start_padding: Any,
    end_padding: Any,
    dilations: Any,
    include_padding: Any,
    output_sizes: Any,
    axes: Any,
    out: Any,
    stream: Any,
    /,
) -> _ArrayT: ...
def average_pooling_grad(
    grad: _ArrayT,
    input_sizes: Any,
    window_size: Any,
    strides: Any,
    start_padding: Any,
    end_padding: Any,
    dilations: Any,
    include_padding: Any,
    axes: Any,
    out: Any,
    stream: Any,
    /,
) -> _ArrayT: ...
def lp_pooling(
    x: _ArrayT,
    window_size: Any,
    strides: Any,
    start_padding: Any,
    end_padding: Any,
    dilations: Any,
    p: Any,
    output_sizes: Any,
    axes: Any,
    out: Any,
    stream: Any,
    /,
) -> _ArrayT: ...
def lp_pooling_grad(
    x: _ArrayT,
    y: Any,
    grad: Any,
    window_size: Any,
    strides: Any,
    start_padding: Any,
    end_padding: Any,
    dilations: Any,
    p: Any,
    out: Any,
    stream: Any,
    /,
) -> _ArrayT: ...
def max_unpooling(
    x: _ArrayT, indices: Any, output_sizes: Any, out: Any, stream: Any, /
) -> _ArrayT: ...
def padding(
    x: _ArrayT,
    start_padding: Any,
    end_padding: Any,
    mode: Any,
    value: Any,
    out: Any,
    stream: Any,
    /,
) -> _ArrayT: ...
def padding_grad(
    grad: _ArrayT,
    input_sizes: Any,
    start_padding: Any,
    end_padding: Any,
    mode: Any,
    out: Any,
    stream: Any,
    /,
) -> _ArrayT: ...
def mean_variance_normalization(
    x: _ArrayT,
    scale: Any,
    bias: Any,
    axes: Any,
    use_mean: Any,
    use_variance: Any,
    epsilon: Any,
    activation: Any,
    return_statistics: Any,
    out: Any,
    stream: Any,
    /,
) -> Any: ...
def normalization_statistics(
    x: _ArrayT,
    axes: Any,
    use_mean: Any,
    dtype: Any,
    out: Any,
    stream: Any,
    /,
) -> tuple[_ArrayT, _ArrayT, _ArrayT]: ...
def merge_statistics(a: Any, b: Any, out: Any, stream: Any, /) -> tuple[Any, Any, Any]: ...
def normalize(
    x: _ArrayT,
    mean: Any,
    variance: Any,
    scale: Any,
    bias: Any,
    epsilon: Any,
    activation: Any,
    out: Any,
    stream: Any,
    /,
) -> _ArrayT: ...
def mean_variance_normalization_grad(
    x: _ArrayT,
    grad: Any,
    scale: Any,
    bias: Any,
    axes: Any,
    use_mean: Any,
    use_variance: Any,
    epsilon: Any,
    activation: Any,
    mean: Any,
    variance: Any,
    outputs: Any,
    out: Any,
    stream: Any,
    /,
) -> tuple[_ArrayT | None, _ArrayT | None, _ArrayT | None]: ...
def normalize_grad_sums(
    x: _ArrayT,
    grad: Any,
    mean: Any,
    variance: Any,
    scale: Any,
    bias: Any,
    axes: Any,
    epsilon: Any,
    activation: Any,
    dtype: Any,
    out: Any,
    stream: Any,
    /,
) -> tuple[_ArrayT, _ArrayT]: ...
def normalize_grad(
    x: _ArrayT,
    grad: Any,
    mean: Any,
    variance: Any,
    scale: Any,
    bias: Any,
    count: Any,
    sums: Any,
    epsilon: Any,
    activation: Any,
    outputs: Any,
    out: Any,
    stream: Any,
    /,
) -> tuple[_ArrayT | None, _ArrayT | None, _ArrayT | None]: ...
def explain(name: str, device: Any, /, *args: Any) -> Explanation: ...
def kernels(family: Any, device: Any, /) -> list[tuple[str, tuple[str, ...], str]]: ...
def build_info() -> dict[str, Any]: ...
def check_environment(op: str, /) -> None: ...

LARGE_BYTES: int

def ask_for_large_pages(address: int, bytes: int, /) -> None: ...
def get_num_threads() -> int: ...
def set_num_threads(n: Any, /) -> None: ...
def cache_info() -> tuple[int, int, int, int]: ...
def clear_cache() -> None: ...

@final
class LoweredOperator:
    def __new__(cls, never: NoReturn, /) -> LoweredOperator: ...
    @property
    def name(self) -> str: ...
    def describe(self) -> str: ...
    def compile(self, device: Any, source: Any, /) -> CompiledOperator: ...

@final
class ExportedMemory:
    """A result that another library imports."""

    def __new__(cls, never: NoReturn, /) -> ExportedMemory: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Any = None,
        dl_device: Any = None,
        copy: Any = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...

@final
class CompiledOperator:
    """An operator planned for a device; made by `Operator.compile`."""

    def __new__(cls, never: NoReturn, /) -> CompiledOperator: ...
    def explain(self) -> Explanation: ...
    @property
    def workspace_bytes(self) -> int: ...
    @overload
    def __call__(
        self, *inputs: _ArrayT, out: None = None, workspace: Any = None, stream: Any = None
    ) -> _ArrayT | tuple[_ArrayT, ...]: ...
    @overload
    def __call__(
        self, *inputs: Any, out: _OutT, workspace: Any = None, stream: Any = None
    ) -> _OutT: ...

def lower(desc: Any, feature_level: Any, /) -> LoweredOperator: ...
