"""Loading data in the embedded cluster: the workers in its pods, and the clients that send to them.

    tasks    ids and states, as they stand in requests and answers
    worker   what a worker answers
    floor    a worker in every pod of a namespace, at the pod's address
    client   TiDB Lightning's remote backend

They know the protocol only, and read nothing of the scaler's: what both sides mean is written down twice on purpose.
"""
