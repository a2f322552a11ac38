"""What few callers store: values with types, above the bytes of `mooncake.store`. Each part loads on first use.

- `tensor`: PyTorch tensors, whole and in shards; the methods of a store that have `tensor` in their names.
- `structured`: objects of many members, and batches of fields: `mooncake.structured_object_store`, and their catalog:
  `mooncake.dataproto_catalog`.
- `engram`: tables of embeddings; `EngramStore` of `mooncake.store`.
"""
