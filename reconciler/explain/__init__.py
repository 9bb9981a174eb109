"""Why things are as they are, in answer to one question: from the very functions that act, on lists read just now.

    nodes         a zone, a node, and a pod that has one; what its budgets say of evictions now: budgets
    waiting       a pod that waits for a node: the zones that it avoids, and whether it is admitted again
    tasks         a load-data task: where it is or would go, as the leader says or its worker on the cluster
    explanation   what all of these consist of, and how a decision about a zone becomes one
    near          what a misspelt name may have meant

They read by `reconciler.inquiry`, write nothing, and are asked by the command line.
"""
