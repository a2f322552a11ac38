"""A catalog of the rows and fields of a stream of batches. It holds names and places, but no data."""

from mooncake._values.structured.catalog import DataProtoCatalog

__all__ = ["DataProtoCatalog"]
