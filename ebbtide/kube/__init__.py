"""The only way to the API server.

    access        where it is and how to prove who we are; login: credentials that change; trust, tls: the connection;
                  kubeconfig: whether that file is one; bearer: whether a token can be sent
    client        the verbs; calls: what is sent for each of them; answers: what comes back
    transport     HTTP, within limits; traffic: how much of it
    shaped        reads all of an object, or only what is used of it
    errors        what can be done about a failure; backoff: how long to wait
    store         a small frozen copy of a kind, which a reflector keeps up to date from a stream
    resources     the kinds that there are
    patch         operations of JSON patches
    lease_record  the words of a Lease
    owner         the Deployment that what we make belongs to
    permissions   what this process may do
    slim          a client for one node's agent, which has no room for the whole one

Objects are raw JSON; the generated models of kubernetes-asyncio are never loaded. Nothing here knows what the objects
mean to the product.
"""
