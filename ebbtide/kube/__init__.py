"""The only way to the API server.

`access` knows where it is and how to prove who we are, `client` has the verbs and `calls` what is sent for each of
them, `store` and `reflector` keep a small frozen copy of a kind up to date, `errors` says what can be done about a
failure. `slim` is a client for one node's agent, which has no room for the whole one. Objects are raw JSON; the
generated models of kubernetes-asyncio are never loaded. Nothing here knows what the objects mean to the product.
"""
