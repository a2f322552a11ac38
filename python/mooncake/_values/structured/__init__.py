"""Structured objects on top of a store: named buffers under one manifest, and batches of fields built from them.

- `bundle` stores named buffers, and the manifest that lists them.
- `members` adds types to the buffers.
- `stage` and `gather` put and get the fields of a batch.

The public names are in `mooncake.structured_object_store`.
"""
