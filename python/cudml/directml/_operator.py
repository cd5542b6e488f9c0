"""`Operator`: every check of a descriptor, then compilation for a device."""

from __future__ import annotations

from typing import Any

from cudml import _backend
from cudml._core import CompiledOperator
from cudml._errors import kind_of, shown

from ._types import FeatureLevel, FeatureLevelName, OperatorDesc, enumerator

__all__ = ["CompiledOperator", "Operator"]


class Operator:
    """An operator descriptor that has passed every check.

    Follows DirectML's path: descriptor, operator (`IDMLDevice::CreateOperator`), compiled operator.

    Parameters
    ----------
    desc : OperatorDesc
        An operator descriptor of `cudml.directml`, such as `MaxPooling2OperatorDesc`, or a
        description of `cudml.descriptors`.
    feature_level : FeatureLevel or str
        The level whose restrictions hold, such as ``"5_0"``. Kernels do not depend on it, nor do
        the descriptions of `cudml.descriptors`.

    Raises
    ------
    TypeError
        An object of a wrong kind; a data type that the operator does not take at this level, or
        that does not match that of another tensor.
    ValueError
        Everything else; the text names the operator, the field with its index, the value, and
        what is permitted.

    Examples
    --------
    >>> from cudml.directml import BufferTensorDesc, LpPoolingOperatorDesc
    >>> desc = LpPoolingOperatorDesc(
    ...     InputTensor=BufferTensorDesc("FLOAT32", [1, 1, 2, 2]),
    ...     OutputTensor=BufferTensorDesc("FLOAT32", [1, 1, 1, 1]),
    ...     Strides=[1, 1], WindowSize=[2, 2], StartPadding=[0, 0], EndPadding=[0, 0], P=2,
    ... )
    >>> print(Operator(desc).describe())
    LP_POOLING
      InputTensor: float32 {1,1,2,2} strides {4,4,2,1}
      OutputTensor: float32 {1,1,1,1} strides {1,1,1,1}
      lp pooling over axes {2,3}: window_size {2,2}, strides {1,1}, start_padding {0,0}, \
end_padding {0,0}, dilations {1,1}, output_sizes {1,1}, p 2
    """

    __slots__ = ("_lowered", "desc", "feature_level")

    def __init__(
        self, desc: OperatorDesc, feature_level: FeatureLevel | FeatureLevelName = "6_4"
    ) -> None:
        if not isinstance(desc, OperatorDesc):
            raise TypeError(
                f"Operator: desc is {shown(desc)} ({kind_of(desc)}); "
                "it must be an operator descriptor of cudml.directml or cudml.descriptors"
            )
        self.feature_level: FeatureLevel = enumerator(
            FeatureLevel, feature_level, "Operator: feature_level", "FL_"
        )
        self.desc = desc
        self._lowered = _backend.core.lower(desc, int(self.feature_level))

    def compile(self, device: str = "cpu") -> CompiledOperator:
        """Plan the operator for a device.

        Follows `IDMLDevice::CompileOperator`.

        Parameters
        ----------
        device : str
            ``"cpu"``, ``"cuda"`` or ``"cuda:<number>"``.

        Returns
        -------
        CompiledOperator
            To be called with arrays, any number of times and from any thread.

        Raises
        ------
        TypeError
            `device` is no string.
        ValueError
            `device` is none of these.
        CudaError
            A CUDA device is asked for where none can be used.

        Examples
        --------
        >>> import numpy as np
        >>> from cudml.directml import BufferTensorDesc, PaddingOperatorDesc
        >>> desc = PaddingOperatorDesc(
        ...     InputTensor=BufferTensorDesc("FLOAT32", [3]),
        ...     OutputTensor=BufferTensorDesc("FLOAT32", [6]),
        ...     PaddingMode="WRAP", PaddingValue=0, StartPadding=[1], EndPadding=[2],
        ... )
        >>> pad = Operator(desc).compile("cpu")
        >>> pad(np.array([1, 2, 3], np.float32)).tolist()
        [3.0, 1.0, 2.0, 3.0, 1.0, 2.0]
        """
        return self._lowered.compile(device, self)

    def describe(self) -> str:
        """Say in words what the descriptor was lowered to.

        Parameters
        ----------
        None

        Returns
        -------
        str
            One line for each tensor, then the canonical operator with its arguments.

        Raises
        ------
        Nothing.

        Examples
        --------
        >>> from cudml.directml import BufferTensorDesc, PaddingOperatorDesc
        >>> desc = PaddingOperatorDesc(
        ...     InputTensor=BufferTensorDesc("FLOAT32", [3]),
        ...     OutputTensor=BufferTensorDesc("FLOAT32", [6]),
        ...     PaddingMode="EDGE", PaddingValue=0, StartPadding=[1], EndPadding=[2],
        ... )
        >>> print(Operator(desc).describe())
        PADDING
          InputTensor: float32 {3} strides {1}
          OutputTensor: float32 {6} strides {1}
          padding edge: start_padding {1}, end_padding {2}, value bytes 00 00 00 00 00 00 00 00
        """
        return self._lowered.describe().rstrip("\n")

    def __repr__(self) -> str:
        return f"Operator({self.desc!r}, feature_level={self.feature_level!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Operator, (self.desc, self.feature_level)
