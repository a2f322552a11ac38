"""The REST API of `mooncake.mooncake_store_service`: its endpoints and what they share.

`objects` and `segments` are the endpoints; `request` is JSON in and out, limits, and calls beside the event loop;
`state` is what the endpoints work on; `master` waits for a master before the store is set up.
"""
