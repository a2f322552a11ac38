"""Structured objects over a store: named buffers under one manifest, and batches of fields on top of them.

`bundle` stores named buffers and the manifest that lists them; `members` gives them types; `stage` and `gather` put and
get the fields of a batch. What is public lies in `mooncake.structured_object_store`.
"""
