"""Tasks that run on the pods of the template itself.

`memory` knows which pod has which task, from their lists and from what was promised; `decide` names the pod for the
next one; `controller` is the placement.
"""
