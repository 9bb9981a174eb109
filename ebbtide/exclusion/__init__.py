"""Which zones a pod must be kept out of now, and why: the one answer that admission and re-admission share.

`pod` and `affinity` read a raw pod by its `fields`, `zones` and `volumes` keep what else decides, `decide` gives the
answer, `carried` tells it from what a pod carries already. A new rule about zones and pods belongs here, never in one
of the two users: an answer that only one of them gave would let them work against each other.
"""
