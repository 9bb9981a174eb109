"""The front: answers `/load_data` in every replica, and sends clients to where their tasks run.

    query      what a request asks for, or what is wrong with it; pure
    answers    what may be said: the statuses that clients understand, and nothing else; pure
    follower   who leads, and where
    forward    what a replica that does not lead has done by the one that does
    dispatch   which replica is to answer, and what
    app        one request, one answer, over HTTP
    serving    connections: how large and how slow they may be, and how they end
    files      how many connections there may be
    report     figures and log
    wiring     puts it together

Clients are patient with 503 and give up for good on most other errors, keep an address for hours, and follow redirects
of two requests only. Every rule here comes from that.
"""
