"""Two steps of a put that callers may replace: they are arguments of `transfer.MooncakeBundleTransfer`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mooncake._fast_copy import concat_arrays_into
from mooncake._values.structured.array import Array


def _always() -> bool:
    return True


@dataclass(frozen=True)
class Steps:
    """How arrays get into leased memory, and whether tensors are stored as a header and elements.

    `concat` is called as `concat_arrays_into`. Without headers, tensors are stored as `torch.save` writes them.
    """

    concat: Callable[..., int] = concat_arrays_into
    has_tensor_codec: Callable[[], bool] = _always

    def concat_into(self, arrays: Sequence[Array], address: int, size: int) -> None:
        """Copies all arrays, one after the other, to the `size` bytes at `address`.

        Raises RuntimeError if the arrays have another length together.
        """
        copied = self.concat(list(arrays), address, size, 0, len(arrays))
        if copied != size:
            raise RuntimeError(f"native fast-copy wrote {copied} bytes, expected {size}")
