"""The REST API of `mooncake.mooncake_store_service`.

- `objects` and `segments` hold the endpoints.
- `request` parses and checks requests, makes JSON answers, and runs blocking calls beside the event loop.
- `state` is what the endpoints work on.
- `master` waits for a master before the store is set up.
"""
